"""What is wrong with the words of a command, and what all commands share."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from dataclasses import fields
from typing import Any, NoReturn, Sequence

from beam_bpe.learning import Learning


#: Attributes of `Learning` that are options of the same name and take what stands behind "=", as a pattern.
_LEARNED = "|".join(one.name for one in fields(Learning) if "_" in one.name or one.name == "attached")


class UsageError(ValueError):
    """The words of the command are wrong."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving, and suggests the option that was meant."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def is_unknown(self, word: str) -> bool:
        return re.match(r"--\w", word) is not None and word.split("=")[0] not in self._option_string_actions

    def check_known(self, unknown: Sequence[str]) -> None:
        if not unknown:
            return
        word = unknown[0].split("=")[0]
        close = difflib.get_close_matches(word, list(self._option_string_actions), 1)
        hint = f"; did you mean {close[0]}?" if close else "."
        self.error(f"there is no option {word}{hint} Beam's own options come after --")


class Once(argparse.Action):
    """Store the value of an option that may be given once, where argparse would take the last one without a word."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise UsageError(f"{option} is given twice: {getattr(namespace, self.dest)} and {value}")
        setattr(namespace, self.dest, value)


def checked(check: Any) -> Any:
    """Return what a check of arguments returns; what it refuses is an error of usage."""
    try:
        return check()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def as_options(text: str) -> str:
    """Write the parameters of Python that a message names as options: errors='skip' as --errors skip."""
    text = text.replace("overwrite=True", "--overwrite")
    text = re.sub(rf"(?<![-\w])({_LEARNED})(?==| is )(=True\b)?", lambda found: "--" + found[1].replace("_", "-"), text)
    return re.sub(r"(?<![-\w])(errors|documents|algorithm|unit|score|method)='(\w+)'", r"--\1 \2", text)


def say(args: argparse.Namespace, text: str) -> None:
    if args.progress != "json":
        print(f"beam-bpe: note: {text}", file=sys.stderr)


def check_positive(args: argparse.Namespace, *names: str) -> None:
    """Refuse options that are given and are less than 1."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")


def unescaped(separator: str | list[str] | None) -> str | None:
    r"""Read \n, \r, \t and \\ in a separator, which a shell cannot easily pass."""
    if separator is None:
        return None
    if isinstance(separator, list):  # argparse takes the value -- away
        separator = "--"
    known = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}

    def meant(escape: re.Match[str]) -> str:
        if escape[1] not in known:
            raise UsageError(f"--separator knows the escapes \\n, \\r, \\t and \\\\, not {escape[0]}")
        return known[escape[1]]

    return re.sub(r"\\(.|$)", meant, separator, flags=re.S)
