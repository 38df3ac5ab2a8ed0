"""The options by which a command is given a vocabulary of any format."""

from __future__ import annotations

import argparse
from typing import Any

from beam_bpe import formats
from beam_bpe.artifacts import FormatError
from beam_bpe.commands.usage import Parser, UsageError, checked
from beam_bpe.formats.tiktoken import ENCODINGS
from beam_bpe.pretokenize import PATTERNS, pre_tokenizer
from beam_bpe.vocabulary import Vocabulary


def add_vocabulary(parser: Parser, *, several: bool = False) -> None:
    """Add the options."""
    group = parser.add_argument_group("vocabulary")
    group.add_argument(
        "-v",
        "--vocabulary",
        required=True,
        metavar="PATH",
        action="append" if several else "store",
        help="our folder, tokenizer.json, a rank file of tiktoken, or vocab.json beside merges.txt; a path or URL"
        + ("; repeatable" if several else ""),
    )
    add_format(group)


def add_format(group: Any) -> None:
    """Add the options that say what a vocabulary's file does not."""
    group.add_argument("--vocabulary-format", choices=formats.FORMATS, help="by default by the name of the file")
    group.add_argument("--encoding", metavar="NAME", help=f"of a rank file: {', '.join(ENCODINGS)} (by its hash)")
    group.add_argument(
        "--pattern", metavar="PATTERN", help=f"of a rank file or vocab.json: {', '.join(PATTERNS)}, or a regex"
    )
    group.add_argument(
        "--special-id", action="append", default=[], metavar="TEXT=ID", help="a special token of a rank file; repeatable"
    )


_TAKEN = {"tiktoken": {"encoding", "pattern", "special_tokens"}, "gpt2": {"pattern", "special_tokens"}}
_NAMES = {"special_tokens": "special-id"}


def load(args: argparse.Namespace, path: str | None = None) -> Vocabulary:
    """Return the vocabulary that the options name."""
    path = args.vocabulary if path is None else path
    format = args.vocabulary_format or formats.format_of(path)
    options = _options(args)
    for name in sorted(options.keys() - _TAKEN.get(format, set())):
        raise UsageError(
            f"--{_NAMES.get(name, name)} does not go with {path}, a vocabulary in the format {format}, which says so itself"
        )
    return _loaded(path, format, options)


def load_all(args: argparse.Namespace) -> list[Vocabulary]:
    """Return the vocabularies that the options name; what says more of a file goes to those that take it."""
    chosen = [args.vocabulary_format or formats.format_of(path) for path in args.vocabulary]
    options = _options(args)
    for name in sorted(options.keys() - {name for format in chosen for name in _TAKEN.get(format, ())}):
        raise UsageError(f"--{_NAMES.get(name, name)} goes with none of these vocabularies, which say so themselves")
    return [
        _loaded(path, format, {name: value for name, value in options.items() if name in _TAKEN.get(format, ())})
        for path, format in zip(args.vocabulary, chosen)
    ]


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if args.encoding is not None:
        if args.encoding not in ENCODINGS:
            raise UsageError(f"--encoding is {args.encoding!r}; choose one of {', '.join(ENCODINGS)}")
        if args.pattern is not None:
            raise UsageError("--encoding and --pattern contradict each other: an encoding has its pattern")
        options["encoding"] = args.encoding
    if args.pattern is not None:
        checked(lambda: pre_tokenizer(args.pattern))
        options["pattern"] = args.pattern
    if args.special_id:
        options["special_tokens"] = dict(map(_special, args.special_id))
        if len(options["special_tokens"]) < len(args.special_id):
            raise UsageError("--special-id gives a token twice")
    return options


def _loaded(path: str, format: str, options: dict[str, Any]) -> Vocabulary:
    try:
        return formats.load(path, format, **options)
    except FormatError:
        raise
    except ValueError as error:  # what the file does not say must be said by an option
        raise UsageError(str(error).replace("(pattern=, --pattern: ", "(--pattern ").replace(", and special_tokens", ", and --special-id")) from None


def options_of(args: argparse.Namespace) -> str:
    """Return a hint on what else could make another vocabulary of the same file."""
    given = args.encoding or args.pattern or args.special_id
    return " (with --encoding, --pattern or --special-id as given)" if given else ""


def _special(text: str) -> tuple[str, int]:
    token, separator, number = text.rpartition("=")
    if not separator or not token or not number.isdigit():
        raise UsageError(f"--special-id is {text!r}; it must be TEXT=ID, such as '<|endoftext|>=50256'")
    return token, int(number)
