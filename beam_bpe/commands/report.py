"""`beam-bpe report`: what a vocabulary is and what it makes of text, as a page, as Markdown and as JSON."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any, Callable

from beam_bpe import artifacts, console, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.commands.given_words import add_words, mismatch_as_option, read_words
from beam_bpe.commands.measure import add_costs, costs_of
from beam_bpe.commands.usage import Parser, UsageError, say
from beam_bpe.commands.vocabularies import add_format, load
from beam_bpe.report import figures, files
from beam_bpe.report.page import INSTALL
from beam_bpe.report.record import report_of
from beam_bpe.report.summary import summary
from beam_bpe.stores import redacted
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

_HELP = (
    "Report on a vocabulary: the curve of sizes and what a size costs, fertility and parity of groups, lengths, frequencies "
    "and coverage of tokens, doubtful ones. Writes report.html (one file that needs no network), report.md and report.json."
)


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser(
        "report", help="report on a vocabulary as a page with plots", allow_abbrev=False, description=_HELP
    )
    parser.add_argument(
        "vocabulary", metavar="DIR", help="a vocabulary: the folder that train wrote, or a file of another library"
    )
    add_words(parser, "to measure on (DIR/words, if it is there)")
    parser.add_argument("--reference", metavar="GROUP", help="that other groups are compared with (the one of most text)")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the report goes (DIR)")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace files of these names that are no report, and a report that was measured by one that is not",
    )
    parser.add_argument("--progress", choices=("auto", "none", "json"), default="auto", help=argparse.SUPPRESS)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    add_format(parser.add_argument_group("vocabulary"))
    add_costs(parser)
    parser.set_defaults(run=_report)
    return {"report": parser}


def _report(args: argparse.Namespace) -> None:
    costs = costs_of(args)
    vocabulary = load(args)
    folder = args.output or args.vocabulary
    if args.output is None:
        try:
            storage.list_names(folder)
        except NotADirectoryError:
            raise UsageError(f"{folder} is a file: say where the report goes (--output FOLDER)") from None
    files.claim(folder, args.overwrite)
    held = _held(folder, vocabulary)
    table = _words(args)
    if table is None:
        if held is not None and held["measures"] is not None and not args.overwrite:
            raise FileExistsError(
                f"{folder} holds a report that was measured, and {args.vocabulary} no words to measure this one on: name them "
                "(--words TABLE), or replace it by one without numbers of a text (--overwrite)"
            )
        say(args, f"{args.vocabulary} holds no table of words, so that nothing is measured (--words TABLE names one)")
    with mismatch_as_option():
        made = report_of(
            vocabulary,
            table,
            name=name_of(args.vocabulary),
            command=None if held is None else held["command"],
            reference=args.reference,
            costs=costs,
            allow_mismatch=args.allow_mismatch,
        )
    written = files.write(folder, made)
    if table is not None:
        _say_why_unmeasured(args, made)
    _print_report(args, made, written)


def _words(args: argparse.Namespace) -> WordCounts | None:
    """Return the words to measure on, None if there are none; UsageError for options that ask for other ones."""
    if args.words is None:
        own = storage.join(args.vocabulary, "words")
        if storage.exists(storage.join(own, artifacts.MANIFEST)):
            args.words = [own]
    if args.words is None:
        for name in ("reference", "words_pattern", "words_normalizer"):
            if getattr(args, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} goes with words, and {args.vocabulary} holds none: name them (--words TABLE)")
        return None
    table = read_words(args)
    if args.reference is not None and table.group_by is None:
        raise UsageError(
            f"there is no group {args.reference!r} for --reference: the words were not counted by group (count --group-by)"
        )
    return table


def _held(folder: str, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """Return the report that a folder holds, if it is one on this vocabulary."""
    try:
        held = files.read(folder)
    except FormatError:
        return None
    return None if held is None or held["vocabulary"]["fingerprint"] != vocabulary.fingerprint else held


def name_of(path: str) -> str:
    """Return the last name of a path or URL.

    >>> name_of("gs://bucket/small/"), name_of("small")
    ('small', 'small')
    """
    name = path.rstrip("/").rsplit("/", 1)[-1]
    return os.path.basename(os.path.abspath(path)) if name in ("", ".", "..") else name


def after_training(args: argparse.Namespace, vocabulary: Vocabulary, table: WordCounts) -> Callable[[], None]:
    """Write the report of a vocabulary that was learned from a table, and return what prints what it says in short.

    What stands in its way is a note: the vocabulary is there.
    """
    try:
        files.claim(args.output, args.overwrite)
        command = redacted(shlex.join(["beam-bpe", *args.argv]))
        made = report_of(vocabulary, table, name=name_of(args.output), command=command)
        written = files.write(args.output, made)
    except (ValueError, OverflowError, OSError) as error:
        told = f"there is no report: {console.one_line(error)}"
        return lambda: say(args, told)

    def tell() -> None:
        _say_why_unmeasured(args, made)
        _print_report(args, made, written)

    return tell


def _say_why_unmeasured(args: argparse.Namespace, made: dict[str, Any]) -> None:
    """Say why there is no number of the text in a report, though there were words."""
    if made["measures"] is None:
        say(args, f"nothing is measured: {made['unmeasured']}")


def _print_report(args: argparse.Namespace, made: dict[str, Any], written: list[str]) -> None:
    """Print what a report that stands says, and where it is."""
    for line in summary(made):
        print(line)
    print(f"{'report':<11} {written[0]}")
    say_what_is_missing(args)


def say_what_is_missing(args: argparse.Namespace) -> None:
    """Say how to get the page, where its packages are not installed."""
    if not figures.available():
        say(args, f"the report as a page with plots, report.html, needs matplotlib and Jinja2: {INSTALL}")
