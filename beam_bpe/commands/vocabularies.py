"""The options by which a command is given a vocabulary of any format."""

from __future__ import annotations

import argparse
from typing import Any

from beam_bpe import formats
from beam_bpe.commands.usage import Parser, UsageError
from beam_bpe.formats.tiktoken import ENCODINGS
from beam_bpe.pretokenize import PATTERNS
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


def load(args: argparse.Namespace, path: str | None = None) -> Vocabulary:
    """Return the vocabulary that the options name."""
    path = args.vocabulary if path is None else path
    format = args.vocabulary_format or formats.format_of(path)
    options: dict[str, Any] = {}
    if args.encoding is not None:
        options["encoding"] = args.encoding
    if args.pattern is not None:
        options["pattern"] = args.pattern
    if args.special_id:
        options["special_tokens"] = dict(map(_special, args.special_id))
    allowed = {"tiktoken": {"encoding", "pattern", "special_tokens"}, "gpt2": {"pattern", "special_tokens"}}.get(format, set())
    for name in options.keys() - allowed:
        option = {"special_tokens": "special-id"}.get(name, name)
        raise UsageError(f"--{option} does not go with {path}, a vocabulary in the format {format}, which says so itself")
    return formats.load(path, format, **options)


def options_of(args: argparse.Namespace) -> str:
    """Return a hint on what else could make another vocabulary of the same file."""
    given = args.encoding or args.pattern or args.special_id
    return " (with --encoding, --pattern or --special-id as given)" if given else ""


def _special(text: str) -> tuple[str, int]:
    token, separator, number = text.rpartition("=")
    if not separator or not token or not number.isdigit():
        raise UsageError(f"--special-id is {text!r}; it must be TEXT=ID, such as '<|endoftext|>=50256'")
    return token, int(number)
