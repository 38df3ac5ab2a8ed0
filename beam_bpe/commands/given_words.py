"""The options by which a command is given tables of words."""

from __future__ import annotations

import argparse
import contextlib
from typing import Iterator

from beam_bpe import foreign
from beam_bpe.commands.usage import Parser, UsageError
from beam_bpe.words import WordCounts


def add_words(parser: Parser, told: str, *, required: bool = False) -> None:
    """Add the options.

    Args:
        told: what the tables are for.
    """
    parser.add_argument(
        "--words", nargs="+", required=required, metavar="TABLE", help=f"folders of words that count made, {told}"
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
    if files:
        raise UsageError(f"--words takes folders of words that count made, whose cutting is known, not {files[0]}")
    return [WordCounts.read(path) for path in args.words]


@contextlib.contextmanager
def mismatch_as_option() -> Iterator[None]:
    """Name the option in the error about words that were cut in another way."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("allow_mismatch=True", "--allow-mismatch")) from None
