"""A corpus that a command reads in this process, and what is told of its reading."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any, Iterator, Mapping, Sequence

from beam_bpe import console, cutting, storage
from beam_bpe.commands.arguments import add_reading, reading_of
from beam_bpe.commands.given_words import read_words
from beam_bpe.commands.usage import Parser, UsageError, check_positive, checked
from beam_bpe.counting import count_batches
from beam_bpe.documents import SMALL_RANGE, DocumentBatch, Reading, find_files, ranges
from beam_bpe.listing import SourceFile
from beam_bpe.reading import read_range
from beam_bpe.statistics import add_left_out
from beam_bpe.token_texts import count_lookalikes
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts


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
    counted; and so are its special tokens in it, and texts that look like such.

    Raises:
        ValueError: the corpus has no words.
    """
    if args.inputs and args.words:
        raise UsageError(f"{args.command} takes a corpus (INPUT ...) or its words (--words TABLE ...), not both")
    if args.group_by is not None and not args.inputs:
        raise UsageError("--group-by goes with a corpus: a table of words has the groups that it was counted by")
    if not args.inputs:
        return (read_words(args) if args.words else None), None
    check_positive(args, "range_bytes")
    rule = cutting.WordRule(vocabulary.pre_tokenizer, (), vocabulary.normalizer)
    reading = corpus_reading(args, cut_by=(rule,))
    files = find_files(args.inputs, reading)
    special = [token.text for token in vocabulary.added_tokens if token.special]
    lookalikes = Counter[str]()

    def batches() -> Iterator[DocumentBatch]:
        for _, batch in corpus_batches(args, reading, files):
            yield batch
            ends = iter(batch.bounds.tolist())
            texts = (bytes(batch.data[start:end]) for start, end in zip(ends, ends))
            lookalikes.update(count_lookalikes(texts, special))

    words = count_batches(batches(), rule, documents=True, group_by=args.group_by)
    say_left_out(args, words.totals)
    if not words.occurrences:
        raise ValueError(f"the corpus has no words (files read: {len(files)})")
    return words, lookalikes


def corpus_reading(args: argparse.Namespace, **options: Any) -> Reading:
    """Return how the options say that a corpus is read, documents whole."""
    return checked(  # type: ignore[no-any-return]
        lambda: Reading(
            **reading_of(args),
            format=args.input_format,
            dead_letters=rejected_in(args),
            whole=True,
            group_by=args.group_by,
            **options,
        )
    )


def corpus_batches(
    args: argparse.Namespace, reading: Reading, files: Sequence[SourceFile]
) -> Iterator[tuple[str, DocumentBatch]]:
    """Yield the documents of files, with the file that they are from, and show how far that has come."""
    line, done, total = console.ProgressLine(args.progress), 0, sum(file.size for file in files)
    known = not any(file.compression or reading.format_of(file.url) == "parquet" for file in files)
    try:
        for source in ranges(files, reading, args.range_bytes or SMALL_RANGE):
            for batch in read_range(source, reading):
                yield source.url, batch
                done += batch.totals.get("bytes", 0)
                line.show("reading", done, total if known else None, "bytes")
    finally:
        line.end()


def rejected_in(args: argparse.Namespace) -> str | None:
    """Return the folder for what is set aside: that of the option, or one in the output, if there is one."""
    if args.errors != "skip":
        return None
    named: str | None = args.rejected
    return named or (storage.join(args.output, "rejected") if args.output else None)


def say_left_out(args: argparse.Namespace, totals: Mapping[str, int]) -> None:
    """Print what reading a corpus replaced or left out, and where it is kept."""
    print_left_out(totals)
    if totals.get("skipped_documents"):
        print(f"{'set aside':<11} {rejected_in(args) or 'nowhere: --rejected names a folder for it'}")


def print_left_out(totals: Mapping[str, int]) -> None:
    """Print what reading replaced or left out."""
    if left_out := add_left_out(totals):
        print(f"{'left out':<11} " + ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in left_out.items()))
