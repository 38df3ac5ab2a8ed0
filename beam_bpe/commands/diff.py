"""`beam-bpe diff`: what two vocabularies share, and what they make of the same text."""

from __future__ import annotations

import argparse
import math
import shlex
from typing import Any, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import artifacts, console, token_list
from beam_bpe.commands.arguments import add_reading
from beam_bpe.commands.given_corpus import corpus_batches, corpus_reading, say_left_out
from beam_bpe.commands.given_words import add_words, mismatch_as_option, read_words
from beam_bpe.commands.report import say_what_is_missing
from beam_bpe.commands.usage import Parser, UsageError, check_positive
from beam_bpe.commands.vocabularies import add_format, load_all
from beam_bpe.difference import Difference, compare, compare_documents
from beam_bpe.documents import DocumentBatch, find_files
from beam_bpe.report import files
from beam_bpe.report.difference import KIND, difference_report
from beam_bpe.report.wording import label, labels
from beam_bpe.totals import add_totals
from beam_bpe.stores import redacted

_HELP = (
    "Compare two vocabularies: tokens that they share or have alone, shifts of rank; on a table of words (--words), or on a corpus "
    "that is read in this process, the tokens and the money that B takes more or less, and the words or documents that change most."
)
_WIDTH = 40


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser("diff", help="compare two vocabularies", allow_abbrev=False, description=_HELP)
    parser.add_argument(
        "vocabulary", nargs=2, metavar="VOCABULARY", help="two vocabularies, A and B, of any format; paths or URLs"
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="a file, glob, folder or URL")
    add_words(parser, "to compare on")
    group = parser.add_argument_group("comparing")
    group.add_argument("--group-by", metavar="COLUMN", help="tell apart what differs in this column, or field of JSON lines")
    group.add_argument(
        "--price",
        type=float,
        action="append",
        default=[],
        metavar="PRICE",
        help="of a million tokens; given twice, of A's and of B's",
    )
    group.add_argument("--most", type=int, default=10, metavar="N", help="rows of each list on the terminal (10)")
    group.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    group.add_argument("-o", "--output", metavar="FOLDER", help="where the comparison goes, as Parquet and JSON")
    group.add_argument(
        "--report", metavar="FOLDER", help="where the comparison goes as report.html (a page with plots), report.md and report.json"
    )
    group.add_argument("--overwrite", action="store_true", help="replace a comparison, or another report, that stands there")
    add_format(parser.add_argument_group("vocabularies"))
    add_reading(parser, format_option="--input-format")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=_diff, progress="none")
    return {"diff": parser}


def _diff(args: argparse.Namespace) -> None:
    check_positive(args, "most", "range_bytes")
    if args.inputs and args.words:
        raise UsageError("diff compares on a corpus (INPUT ...) or on its words (--words TABLE ...), not on both")
    if args.group_by is not None and not args.inputs:
        raise UsageError("--group-by goes with a corpus: a table of words has the groups that it was counted by")
    if len(args.price) > 2 or any(not 0 <= price < math.inf for price in args.price):
        raise UsageError("--price is given once or twice, and is a number that is not negative")
    prices = (args.price[0], args.price[-1]) if args.price else None
    names = tuple(args.vocabulary)
    if args.report:
        files.claim(args.report, args.overwrite, KIND, "--report")
        if not args.overwrite and files.read(args.report, KIND) is not None:
            raise FileExistsError(
                f"{args.report} holds a comparison already; choose another folder (--report) or overwrite it (--overwrite)"
            )
    a, b = load_all(args)
    options: dict[str, Any] = {"names": names, "prices": prices, "most": max(100, args.most)}
    if args.inputs:
        found = compare_documents(a, b, _batches(args), **options)
    else:
        table = read_words(args) if args.words else None
        with mismatch_as_option():
            found = compare(a, b, table, allow_mismatch=args.allow_mismatch, **options)
    written = found.save(args.output, overwrite=args.overwrite) if args.output else []
    pages = []
    if args.report:
        command = redacted(shlex.join(["beam-bpe", *args.argv]))
        pages = files.write(args.report, difference_report(found, command=command))
        say_what_is_missing(args)
    if args.json:
        print(artifacts.canonical_json(found.summary()))
        return
    for line in told(found, args.most):
        print(line)
    if written:
        print(f"{'comparison':<11} {args.output}: {', '.join(written)}")
    if pages:
        print(f"{'report':<11} {pages[0]}")


def _batches(args: argparse.Namespace) -> Iterator[tuple[str, DocumentBatch]]:
    reading, totals = corpus_reading(args, places=True, keep=()), dict[str, int]()
    for url, batch in corpus_batches(args, reading, find_files(args.inputs, reading)):
        totals = add_totals(totals, batch.totals)
        yield url, batch
    if not args.json:
        say_left_out(args, totals)


# ---- the terminal --------------------------------------------------------------------------------


def told(found: Difference, most: int) -> list[str]:
    """Return a comparison as lines, with so many rows of each list."""
    lines = [
        f"{side:<11} {name}: {len(vocabulary):,} tokens, fingerprint {vocabulary.fingerprint[:16]}"
        for side, name, vocabulary in zip("AB", found.names, found.vocabularies)
    ]
    shared, only = found.shared, {side: found.only(side) for side in "ab"}
    lines.append(f"{'tokens':<11} {len(shared):,} shared, {len(only['a']):,} only in A, {len(only['b']):,} only in B")
    for side in "ab":
        if len(only[side]):
            lines.append(f"{'only in ' + side.upper():<11} {_tokens(found, only[side], most)}")
    shifts = np.abs(pc.drop_null(shared["shift"]).to_numpy())
    if len(shifts):
        some = shared.slice(0, most)
        moved = zip(found.spelled(some), some["shift"].to_pylist())
        largest = " ".join(f"{_token(token)} {shift:+,}" for token, shift in moved if shift)
        lines.append(
            f"{'ranks':<11} {np.count_nonzero(shifts):,} of {len(shifts):,} shifted, the median by {int(np.median(shifts)):,}"
        )
        if largest:
            lines.append(f"{'most':<11} {largest}")
    if found.groups is not None:
        lines += _group_lines(found.groups)
    for what, table in (("word", found.words), ("document", found.documents)):
        if table is not None and len(table):
            lines += ["", f"{what}s that change most", *_change_lines(table.slice(0, most))]
    return lines + [f"{'note':<11} {note}" for note in found.notes]


def _group_lines(groups: pa.Table) -> list[str]:
    rows = [["tokens of", "A", "B", "difference", "", "price A", "price B", "difference"]]
    names = labels((name for name in groups["group"].to_pylist() if name is not None), _WIDTH)
    for row in groups.to_pylist():
        share = f"{row['difference'] / row['tokens_a']:+.2%}" if row["tokens_a"] else "-"
        cells = ["all text" if row["group"] is None else names[row["group"]]]
        cells += [f"{row['tokens_a']:,}", f"{row['tokens_b']:,}", f"{row['difference']:+,}", share]
        if row["price_a"] is not None:
            cells += [f"{row['price_a']:,.4g}", f"{row['price_b']:,.4g}", f"{row['price_b'] - row['price_a']:+,.4g}"]
        rows.append(cells)
    width = len(rows[1])
    return ["", *console.aligned([row[:width] for row in rows])]


def _change_lines(table: pa.Table) -> list[str]:
    rows = [["A", "B", "difference", "", ""]]
    for row in table.to_pylist():
        if "word" in row:
            what, where = _token(row["word"]), f"{row['count']:,} x"
        else:
            place = "" if row["place"] is None else f" at {row['place']:,}"
            what, where = f"'{label(row['beginning'], _WIDTH)}'", f"{row['source']}{place}"
        rows.append([f"{row['tokens_a']:,}", f"{row['tokens_b']:,}", f"{row['difference']:+,}", where, what])
    return console.aligned(rows, left=(4,) if "word" in table.column_names else (3, 4))


def _tokens(found: Difference, table: pa.Table, most: int) -> str:
    some = " ".join(map(_token, found.spelled(table.slice(0, most))))
    return some + (" ..." if len(table) > most else "")


def _token(token: bytes) -> str:
    return token_list.shown(token, _WIDTH)
