"""`beam-bpe report`: what a vocabulary is and what it makes of text, as a page, as Markdown and as JSON."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any

from beam_bpe import artifacts, console, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.commands.given_words import mismatch_as_option, read_words
from beam_bpe.commands.measure import add_costs, costs_of
from beam_bpe.commands.usage import Parser, UsageError, say
from beam_bpe.commands.vocabularies import add_format, load
from beam_bpe.report import figures, files
from beam_bpe.report.page import INSTALL
from beam_bpe.report.record import report_of
from beam_bpe.report.wording import label, number, percent
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
    parser.add_argument(
        "--words", nargs="+", metavar="TABLE", help="folders of words to measure on (DIR/words, if it is there)"
    )
    parser.add_argument(
        "--allow-mismatch", action="store_true", help="measure also words that were cut in another way, and note it"
    )
    parser.add_argument("--reference", metavar="GROUP", help="that other groups are compared with (the one of most text)")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the report goes (DIR)")
    parser.add_argument("--overwrite", action="store_true", help="replace files of these names that are no report")
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
    table = _words(args)
    if table is None:
        say(args, f"{args.vocabulary} holds no table of words, so that nothing is measured (--words TABLE names one)")
    with mismatch_as_option():
        made = report_of(
            vocabulary,
            table,
            name=name_of(args.vocabulary),
            command=_command_in(folder, vocabulary),
            reference=args.reference,
            costs=costs,
            allow_mismatch=args.allow_mismatch,
        )
    print_summary(made)
    _write(args, folder, made)


def _words(args: argparse.Namespace) -> WordCounts | None:
    if args.words is None:
        own = storage.join(args.vocabulary, "words")
        if not storage.exists(storage.join(own, artifacts.MANIFEST)):
            return None
        args.words = [own]
    return read_words(args)


def _command_in(folder: str, vocabulary: Vocabulary) -> str | None:
    """Return the command that the report of a folder names, if it is a report on this vocabulary."""
    try:
        held = files.read(folder)
    except FormatError:
        return None
    if held is None or held["vocabulary"]["fingerprint"] != vocabulary.fingerprint:
        return None
    command: str | None = held["command"]
    return command


def name_of(path: str) -> str:
    """Return the last name of a path or URL.

    >>> name_of("gs://bucket/small/"), name_of("small")
    ('small', 'small')
    """
    name = path.rstrip("/").rsplit("/", 1)[-1]
    return os.path.basename(os.path.abspath(path)) if name in ("", ".", "..") else name


def write_after_training(args: argparse.Namespace, vocabulary: Vocabulary, table: WordCounts) -> None:
    """Write the report of a vocabulary that was learned from a table, and print what it says in short.

    What stands in its way is a note: the vocabulary is there.
    """
    try:
        files.claim(args.output, args.overwrite)
        command = redacted(shlex.join(["beam-bpe", *args.argv]))
        made = report_of(vocabulary, table, name=name_of(args.output), command=command)
        print_summary(made)
        _write(args, args.output, made)
    except (ValueError, OverflowError, OSError) as error:
        say(args, f"there is no report: {console.one_line(error)}")


def _write(args: argparse.Namespace, folder: str, made: dict[str, Any]) -> None:
    written = files.write(folder, made)
    print(f"{'report':<11} {written[0]}")
    say_what_is_missing(args)


def say_what_is_missing(args: argparse.Namespace) -> None:
    """Say how to get the page, where its packages are not installed."""
    if not figures.available():
        say(args, f"the report as a page with plots, report.html, needs matplotlib and Jinja2: {INSTALL}")


def print_summary(made: dict[str, Any]) -> None:
    """Print in three lines what a report says of a vocabulary."""
    measures, curve, coverage = made["measures"], made["curve"], made["coverage"]
    if measures is None:
        return
    total = measures["total"]
    each = [
        f"{number(total[name])} {what}"
        for name, what in (("compression_ratio", "characters"), ("bytes_per_token", "bytes"))
        if total[name]
    ]
    told = [f"{' and '.join(each)} a token"] if each else []
    told += [f"{number(total['fertility'])} tokens a word", f"{percent(total['kept_share'])} of the words whole"]
    print(f"{'measured':<11} {', '.join(told)}")
    use = [f"{percent(total['used_share'])} of the tokens occur"]
    if coverage["all"]:
        use.append(f"{number(coverage['needed']['50'])} of them are half of the text")
        if not curve["absent"]:
            at_knee = curve["tokens"][curve["sizes"].index(curve["knee"])]
            use.append(
                f"a size of {number(curve['knee'])}, the knee, takes {percent(at_knee / curve['tokens'][-1] - 1)} more tokens"
            )
    print(f"{'used':<11} {', '.join(use)}")
    groups, reference = measures["groups"], measures["reference"]
    if groups:
        unit = "character" if total["characters"] else "byte"
        dearest = max(groups, key=lambda name: groups[name][f"premium_{unit}"] or 0.0)
        premium = number(groups[dearest][f"premium_{unit}"])
        gini = number(measures["gini"][unit], 3)
        costs = f"a {unit} of {label(dearest)} costs {premium} times one of {label(reference)}"
        print(f"{'groups':<11} {number(len(groups))} by {label(measures['group_by'])}; {costs}; Gini coefficient {gini}")
