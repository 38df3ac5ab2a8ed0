"""The options by which a command is given tables of words."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any, Iterator

from beam_bpe import foreign
from beam_bpe.commands.usage import Parser, UsageError, checked
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import pre_tokenizer
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
    parser.add_argument("--words-normalizer", metavar="STEPS", help="what the text of such words went through before (nothing)")
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
    """Return the sums of the tables that the options name and that were cut alike, in their order.

    Raises:
        ValueError: of tables that were cut alike some were counted in another way otherwise.
    """
    alike: dict[Any, list[WordCounts]] = {}
    for table in _tables(args):
        alike.setdefault((table.pre_tokenizer, table.normalizer), []).append(table)
    return [some[0].merge(*some[1:]) if len(some) > 1 else some[0] for some in alike.values()]


def foreign_files(args: argparse.Namespace) -> list[str]:
    """Return the tables that the option names if they are files made elsewhere, nothing if they are folders of ours."""
    files = [path for path in args.words if foreign.is_foreign(path)]
    if files and len(files) != len(args.words):
        raise UsageError("--words takes folders of words or files made elsewhere, not both")
    return files


def _tables(args: argparse.Namespace) -> list[WordCounts]:
    files = foreign_files(args)
    for option in ("words_pattern", "words_normalizer"):
        if not files and getattr(args, option) is not None:
            name = "--" + option.replace("_", "-")
            raise UsageError(f"{name} goes with tables made elsewhere; a folder of words records its own")
    if files:
        if args.words_pattern is None:
            raise UsageError(f"{files[0]} was made elsewhere and does not tell how its words were cut: give --words-pattern")
        cut = checked(lambda: pre_tokenizer(args.words_pattern))
        checked(lambda: check_normalizer(args.words_normalizer))
        return [WordCounts.read_foreign(files, pre_tokenizer=cut, normalizer=args.words_normalizer)]
    return [WordCounts.read(path) for path in args.words]


@contextlib.contextmanager
def mismatch_as_option() -> Iterator[None]:
    """Name the option in the error about words that were cut in another way."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("allow_mismatch=True", "--allow-mismatch")) from None
