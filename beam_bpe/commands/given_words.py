"""The options by which a command is given words: tables that were counted, or a corpus that it counts itself."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from typing import Iterator

from beam_bpe import console, cutting, foreign
from beam_bpe.commands.arguments import add_reading, reading_of
from beam_bpe.commands.usage import Parser, UsageError, check_positive, checked
from beam_bpe.counting import count_batches
from beam_bpe.documents import SMALL_RANGE, DocumentBatch, Reading, find_files, ranges
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reading import read_range
from beam_bpe.token_texts import count_lookalikes
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts


def add_words(parser: Parser, told: str, *, required: bool = False) -> None:
    """Add the options.

    Args:
        told: what the tables are for.
    """
    parser.add_argument(
        "--words",
        nargs="+",
        required=required,
        metavar="TABLE",
        help=f"folders of words that count made, or .parquet, .csv, .tsv files made elsewhere, {told}",
    )
    parser.add_argument(
        "--words-pattern", metavar="PATTERN", help="how the words of tables made elsewhere were cut: a name, or a regex"
    )
    parser.add_argument(
        "--allow-mismatch",
        action="store_true",
        help="go on where words were cut in another way than the vocabulary cuts, and note it",
    )


def read_words(args: argparse.Namespace) -> WordCounts:
    """Return the sum of the tables that the options name."""
    tables = _tables(args)
    return tables[0].merge(*tables[1:]) if len(tables) > 1 else tables[0]


def read_words_by_cutting(args: argparse.Namespace) -> list[WordCounts]:
    """Return the sums of the tables that the options name and that were cut alike, in their order."""
    alike: list[list[WordCounts]] = []
    for table in _tables(args):
        same = next((some for some in alike if some[0].parameters == table.parameters), None)
        if same is None:
            alike.append([table])
        else:
            same.append(table)
    return [some[0].merge(*some[1:]) if len(some) > 1 else some[0] for some in alike]


def _tables(args: argparse.Namespace) -> list[WordCounts]:
    files = [path for path in args.words if foreign.is_foreign(path)]
    if files and len(files) != len(args.words):
        raise UsageError("--words takes folders of words or files made elsewhere, not both")
    if not files and args.words_pattern is not None:
        raise UsageError("--words-pattern goes with tables made elsewhere; a folder of words records its own")
    if files:
        if args.words_pattern is None:
            raise UsageError(f"{files[0]} was made elsewhere and does not tell how its words were cut: give --words-pattern")
        return [WordCounts.read_foreign(files, pre_tokenizer=checked(lambda: pre_tokenizer(args.words_pattern)))]
    return [WordCounts.read(path) for path in args.words]


def add_corpus(parser: Parser) -> None:
    """Add a corpus that is counted in this process, as an alternative to the tables."""
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="a file, glob, folder or URL, counted in this process")
    parser.add_argument(
        "--group-by", metavar="COLUMN", help="tell apart what differs in this column of a corpus, or field of JSON lines"
    )
    add_reading(parser, format_option="--input-format")
    parser.add_argument("--progress", choices=console.MODES, default="auto", help="(auto: a bar on a terminal)")


def words_for(args: argparse.Namespace, vocabulary: Vocabulary) -> tuple[WordCounts | None, Counter[str] | None]:
    """Return (words, look-alikes): the tables that the options name, or the words of the corpus; None where there is none.

    Those of a corpus are cut as the vocabulary cuts, special tokens being text, and the documents that hold a word are
    counted; and so are texts in it that look like special tokens.
    """
    if args.inputs and args.words:
        raise UsageError(f"{args.command} takes a corpus (INPUT ...) or its words (--words TABLE ...), not both")
    if args.group_by is not None and not args.inputs:
        raise UsageError("--group-by goes with a corpus: a table of words has the groups that it was counted by")
    if not args.inputs:
        return (read_words(args) if args.words else None), None
    check_positive(args, "range_bytes")
    rule = cutting.WordRule(vocabulary.pre_tokenizer, (), vocabulary.normalizer)
    reading = checked(
        lambda: Reading(
            **reading_of(args),
            format=args.input_format,
            cut_by=(rule,),
            dead_letters=args.rejected,
            whole=True,
            group_by=args.group_by,
        )
    )
    files = find_files(args.inputs, reading)
    line, lookalikes = console.ProgressLine(args.progress), Counter[str]()

    def batches() -> Iterator[DocumentBatch]:
        done, total = 0, sum(file.size for file in files)
        known = not any(file.compression or reading.format_of(file.url) == "parquet" for file in files)
        for source in ranges(files, reading, args.range_bytes or SMALL_RANGE):
            for batch in read_range(source, reading):
                yield batch
                ends = iter(batch.bounds.tolist())
                lookalikes.update(count_lookalikes(bytes(batch.data[start:end]) for start, end in zip(ends, ends)))
                done += batch.totals.get("bytes", 0)
                line.show("counting", done, total if known else None, "bytes")

    try:
        return count_batches(batches(), rule, documents=True, group_by=args.group_by), lookalikes
    finally:
        line.end()


@contextlib.contextmanager
def mismatch_as_option() -> Iterator[None]:
    """Name the option in the error about words that were cut in another way."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("allow_mismatch=True", "--allow-mismatch")) from None
