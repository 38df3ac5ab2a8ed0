"""`beam-bpe count` and `beam-bpe train`: from a corpus to its words, and from words to a vocabulary."""

from __future__ import annotations

import argparse
from typing import Any

from beam_bpe import artifacts, console, foreign, storage, words
from beam_bpe.commands import show
from beam_bpe.commands.arguments import add_counting, add_learning, add_reading, add_running, learning_of, reading_of
from beam_bpe.commands.report import write_after_training
from beam_bpe.commands.usage import Parser, UsageError, check_positive, checked, say
from beam_bpe.counting import check_spaces
from beam_bpe.formats.parquet import VOCABULARY_FILE
from beam_bpe.learning import Learning
from beam_bpe.merging import check_memory
from beam_bpe.model import default_cutting
from beam_bpe.pretokenize import DEFAULT_PATTERN, pre_tokenizer
from beam_bpe.report import files
from beam_bpe.training import learn
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

_COUNT_HELP = "Count the words (pre-tokens) of a corpus into a folder of Parquet parts."
_TRAIN_HELP = (
    "Learn a vocabulary from a corpus, or from counts: byte-level BPE, or BPE of characters, WordPiece, whole words, BPE as "
    "SentencePiece has it, a Unigram language model. Writes merges.parquet and vocabulary.parquet, and the counts of a corpus as the folder words."
)


def add(added: Any) -> dict[str, Parser]:
    """Add the parsers of the commands and return them by name."""
    commands: dict[str, Parser] = {}
    count = commands["count"] = added.add_parser(
        "count", help="count the words of a corpus", allow_abbrev=False, description=_COUNT_HELP
    )
    count.add_argument("inputs", nargs="+", metavar="INPUT", help="a file, glob, folder or URL")
    count.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the table of words goes")
    add_reading(count)
    add_counting(count)
    add_running(count)

    learn = commands["train"] = added.add_parser(
        "train", help="learn a vocabulary from a corpus or from counts", allow_abbrev=False, description=_TRAIN_HELP
    )
    learn.add_argument("inputs", nargs="*", metavar="INPUT", help="a file, glob, folder or URL")
    learn.add_argument(
        "--words",
        nargs="+",
        metavar="TABLE",
        help="learn from counts instead: folders of words, or .parquet, .csv, .tsv files made elsewhere",
    )
    learn.add_argument("--word-column", default="word", help="of a table made elsewhere (word)")
    learn.add_argument("--count-column", default="count", help="of a table made elsewhere (count)")
    learn.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the vocabulary goes")
    learn.add_argument(
        "--train-on",
        choices=("submitter", "worker"),
        default="submitter",
        help="learn in this process, or as the last step of the pipeline (submitter)",
    )
    learn.add_argument(
        "--no-report", action="store_true", help="do not measure the vocabulary on its words, nor write report.html, .md and .json"
    )
    add_learning(learn)
    add_reading(learn)
    add_counting(learn)
    add_running(learn)
    count.set_defaults(run=_count)
    learn.set_defaults(run=_train)
    return commands


def _count(args: argparse.Namespace) -> None:
    _count_into(args, args.output)


def _count_into(
    args: argparse.Namespace, folder: str, learning: Learning | None = None, stale: str | None = None
) -> dict[str, Any]:
    """Run the counting pipeline into a folder of words, and learn in it into the output if `learning` says what.

    Args:
        stale: a file that is taken away once the inputs were found, as what it holds will be of other words.
    """
    from beam_bpe import transforms
    from beam_bpe.transforms import running
    from beam_bpe.transforms.count import shards_for

    pattern, normalizer = _cutting(args)
    chosen = checked(
        lambda: pre_tokenizer(
            pattern, split_with=args.split_with, gaps=args.gaps, time_limit=args.time_limit
        )
    )
    check_positive(args, "workers", "shards", "range_bytes", "max_word_bytes", "memory")
    if chosen.scanner is None:
        say(args, f"the pattern {chosen.pattern!r} has no native scanner: this is the slow path")
    rejected = args.rejected or storage.join(args.output, "rejected") if args.errors == "skip" else None
    read = checked(
        lambda: transforms.ReadDocuments(
            args.inputs,
            **reading_of(args),
            format=args.format,
            pattern=None if args.split_with else pattern,
            split_with=args.split_with,
            special_tokens=args.special_token,
            normalizer=normalizer,
            dead_letters=rejected,
            whole=args.count_documents,
            range_bytes=args.range_bytes,
            group_by=args.group_by,
        )
    )
    read.workers = running.workers_for(read.total_bytes, args.workers)
    try:
        options = running.options_for(args.beam_flags, read.workers, chosen.scanner is not None)
    except running.BadFlags as error:
        raise UsageError(str(error)) from None
    count = transforms.CountWords(
        pattern=pattern,
        split_with=args.split_with,
        gaps=args.gaps,
        special_tokens=args.special_token,
        normalizer=normalizer,
        max_word_bytes=args.max_word_bytes,
        shards=args.shards or shards_for(read.total_bytes),
        documents=args.count_documents,
        memory=args.memory << 20,
        time_limit=args.time_limit,
        threads=read.workers if chosen.scanner is not None and not args.beam_flags else 1,
        group_by=args.group_by,
    )

    if stale is not None:
        storage.remove(stale)
        files.remove(args.output)
    if rejected and args.overwrite:
        for name in storage.list_names(rejected):
            if name.startswith("rejected-") and name.endswith(".jsonl"):
                storage.remove(storage.join(rejected, name))

    def build(pipeline: Any) -> None:
        written = pipeline | read | count | transforms.WriteWords(folder, overwrite=args.overwrite)
        if learning is not None:
            written | transforms.TrainVocabulary(args.output, overwrite=args.overwrite, **vars(learning))

    plain = not any(file.compression or read.format_of(file) == "parquet" for file in read.files)
    listed = read.total_bytes if plain else None  # what is stored is not what will be read

    wanted = 0 if learning is None else learning.merges or learning.vocab_size or 0
    counted = False

    def watch(seen: Any) -> None:
        nonlocal counted
        done = seen.done
        if "bytes" not in done:
            line.tasks(seen.state, seen.tasks)
        elif not counted:
            line.show("counting", done["bytes"], listed, "bytes", words=done.get("words", 0))
        if done.get("distinct_words") or done.get("merges"):  # learning has begun
            counted = True
            line.show("learning", done.get("merges", 0), wanted, "merges")

    with console.watching(args.progress, spawns=running.spawns(options), debug=args.debug) as line:
        try:
            running.run(build, options, watch)
        except Exception:
            _clear_empty(folder)
            raise
    manifest = artifacts.read_manifest(folder, words.KIND)
    show.print_words(folder, manifest)
    if rejected and manifest["totals"]["skipped_documents"]:
        print(f"{'set aside':<11} {rejected}")
    if _clear_empty(folder):
        raise ValueError(f"the corpus has no words (files read: {len(read.files)})")
    return manifest


def _cutting(args: argparse.Namespace) -> tuple[str, str | None]:
    """Return the pattern and the normalizer, those that are usual for the algorithm where no pattern is given."""
    pattern, normalizer = default_cutting(getattr(args, "algorithm", "bpe"))
    if args.pattern or args.split_with:
        pattern, normalizer = args.pattern or DEFAULT_PATTERN, None
    normalizer = args.normalizer or normalizer
    checked(lambda: check_spaces(pre_tokenizer(pattern), normalizer))
    return pattern, normalizer


def _clear_empty(folder: str) -> bool:
    """Take the manifest of a table without words away, since it stands in the way of the next attempt."""
    manifest = storage.join(folder, artifacts.MANIFEST)
    empty = storage.exists(manifest) and not artifacts.read_manifest(folder, words.KIND)["totals"].get("words")
    if empty:
        storage.remove(manifest)
    return empty


# ---- train ---------------------------------------------------------------------------------------


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
    if args.train_on == "worker":
        manifest = _count_into(args, folder, learning, stale)
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
                write_after_training(args, vocabulary, table)
        return
    manifest = _count_into(args, folder, stale=stale)
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
    files = [path for path in args.words if foreign.is_foreign(path)]
    if files and len(files) != len(args.words):
        raise UsageError("--words takes folders of words or files made elsewhere, not both")
    if files:
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
    show.print_vocabulary(args.output, vocabulary)
    if not args.no_report:
        write_after_training(args, vocabulary, table)
