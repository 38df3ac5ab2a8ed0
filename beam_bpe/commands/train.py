"""`beam-bpe train`: from a corpus, or from words, to a vocabulary."""

from __future__ import annotations

import argparse
from typing import Any

from beam_bpe import artifacts, console, storage
from beam_bpe.commands import show
from beam_bpe.commands.arguments import add_counting, add_learning, add_reading, add_running, learning_of
from beam_bpe.commands.count import Counted, count_into, cutting
from beam_bpe.commands.given_words import foreign_files
from beam_bpe.commands.report import after_training
from beam_bpe.commands.usage import Parser, UsageError, checked, say
from beam_bpe.formats.parquet import VOCABULARY_FILE
from beam_bpe.learning import Learning
from beam_bpe.merging import check_memory
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.report import files
from beam_bpe.training import learn
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

_TRAIN_HELP = (
    "Learn a vocabulary from a corpus, or from counts: byte-level BPE, or BPE of characters, WordPiece, whole words, BPE as "
    "SentencePiece has it, a Unigram language model. Writes merges.parquet and vocabulary.parquet, and the counts of a corpus as the folder words."
)


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser(
        "train", help="learn a vocabulary from a corpus or from counts", allow_abbrev=False, description=_TRAIN_HELP
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="a file, glob, folder or URL")
    parser.add_argument(
        "--words",
        nargs="+",
        metavar="TABLE",
        help="learn from counts instead: folders of words, or .parquet, .csv, .tsv files made elsewhere",
    )
    parser.add_argument("--word-column", default="word", help="of a table made elsewhere (word)")
    parser.add_argument("--count-column", default="count", help="of a table made elsewhere (count)")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the vocabulary goes")
    parser.add_argument(
        "--train-on",
        choices=("submitter", "worker"),
        default="submitter",
        help="learn in this process, or as the last step of the pipeline (submitter)",
    )
    parser.add_argument(
        "--no-report", action="store_true", help="do not measure the vocabulary on its words, nor write report.html, .md and .json"
    )
    add_learning(parser)
    add_reading(parser)
    add_counting(parser)
    add_running(parser)
    parser.set_defaults(run=_train)
    return {"train": parser}


def _train(args: argparse.Namespace) -> None:
    if bool(args.inputs) == bool(args.words):
        raise UsageError("train takes either a corpus (INPUT …) or counts (--words TABLE …)")
    learning = learning_of(args)
    stands = storage.join(args.output, VOCABULARY_FILE)
    stale = stands if storage.exists(stands) else None  # no failure may leave it beside the words of another
    if stale is not None and not args.overwrite:
        raise FileExistsError(
            f"{args.output} already holds a vocabulary; choose another folder or overwrite it (--overwrite)"
        )
    if args.words:
        table = _given_words(args)
        if stale is not None:
            storage.remove(stale)
            files.remove(args.output)
        _learn(args, learning, table)
        return
    folder = storage.join(args.output, "words")
    if storage.exists(storage.join(folder, artifacts.MANIFEST)) and not args.overwrite:
        raise FileExistsError(
            f"{folder} already holds words; learn from them (--words {folder}) or count again (--overwrite)"
        )
    counted = Counted(folder, *cutting(args.pattern, args.normalizer, args.split_with, args.algorithm))
    if args.train_on == "worker":
        (manifest,) = count_into(args, [counted], learning, stale)
        vocabulary = Vocabulary.load(args.output)
        show.print_vocabulary(args.output, vocabulary)
        if not args.no_report:
            try:
                _check_fits(manifest)
                table = WordCounts.read(folder)
            except (MemoryError, ValueError, OSError) as error:
                told = f"{console.one_line(error)}; where the table fits, beam-bpe report {args.output} writes it"
                say(args, f"learned on a worker, and there is no report: {told}")
            else:
                after_training(args, vocabulary, table)()
        return
    (manifest,) = count_into(args, [counted], stale=stale)
    if learning.family == "bytes":  # the others count characters first
        _check_fits(manifest)
    _learn(args, learning, WordCounts.read(folder))


def _check_fits(manifest: dict[str, Any]) -> None:
    """Refuse a table from whose words this process could not learn (MemoryError)."""
    parts = manifest["parts"]
    rows = sum(part.get("words", part["rows"]) for part in parts)
    check_memory(sum(part["bytes"] for part in parts) + rows, rows)


def _given_words(args: argparse.Namespace) -> WordCounts:
    if args.group_by is not None:
        raise UsageError("--group-by goes with a corpus: words that are counted already have their groups")
    if files := foreign_files(args):
        if args.pattern is None:
            say(args, "the vocabulary records no pre-tokenization: --pattern says how these words were cut")
        chosen = checked(lambda: pre_tokenizer(args.pattern or "none", gaps=args.gaps))
        return WordCounts.read_foreign(
            files,
            word_column=args.word_column,
            count_column=args.count_column,
            pre_tokenizer=chosen,
            normalizer=args.normalizer,
        )
    for name in ("pattern", "normalizer"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} goes with tables made elsewhere; a folder of words records its own")
    tables = [WordCounts.read(path) for path in args.words]
    if len({table.group_by for table in tables}) > 1:
        tables = [table.ungrouped() for table in tables]
    return tables[0].merge(*tables[1:]) if len(tables) > 1 else tables[0]


def _learn(args: argparse.Namespace, learning: Learning, table: WordCounts) -> None:
    line = console.ProgressLine(args.progress)

    unigram = learning.family == "unigram"
    unit = "prunings" if unigram else "merges"

    def report(done: int, wanted: int, count: int) -> None:
        last = f"{count:,} pieces left" if unigram else f"last pair {count:,} times" if count else "indexing"
        line.show("learning", done, wanted, unit, last=last)

    try:
        vocabulary = learn(table.ungrouped(), learning, report)
        if not unigram:
            line.show("learning", len(vocabulary.left), len(vocabulary.left), unit)
    finally:
        line.end()
    vocabulary.save(args.output, overwrite=args.overwrite)
    # Before anything is printed: whoever reads that may stop.
    tell = None if args.no_report else after_training(args, vocabulary, table)
    show.print_vocabulary(args.output, vocabulary)
    if tell is not None:
        tell()
