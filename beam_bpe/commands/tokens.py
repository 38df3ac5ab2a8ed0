"""`beam-bpe tokens`: the pieces and ids of a text, to look at."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from beam_bpe.commands.usage import Parser, UsageError
from beam_bpe.commands.vocabularies import add_vocabulary, load_all
from beam_bpe.encoders import METHODS
from beam_bpe.tokenizer import Tokenizer

_HELP = "Print the tokens of a text: their pieces, their ids and how many there are. Half characters are shown as their bytes."
# Backgrounds on which black text can be read, taken in turn.
_COLOURS = ("\x1b[30;48;5;152m", "\x1b[30;48;5;222m", "\x1b[30;48;5;150m", "\x1b[30;48;5;217m", "\x1b[30;48;5;183m")
_RESET = "\x1b[0m"


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser("tokens", help="show the tokens of a text", allow_abbrev=False, description=_HELP)
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text; standard input without it")
    add_vocabulary(parser, several=True)
    parser.add_argument("--method", choices=METHODS, default="rank", help="rank is BPE (rank)")
    parser.add_argument(
        "--special", choices=("text", "encode"), default="encode", help="what happens to special tokens (encode)"
    )
    parser.add_argument("--ids-only", action="store_true", help="print only the ids, one line for each vocabulary")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="(auto: on a terminal)")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=_tokens)
    return {"tokens": parser}


def _tokens(args: argparse.Namespace) -> None:
    data = _read() if args.text is None else os.fsencode(args.text)
    colours = args.color == "always" or (args.color == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    vocabularies = load_all(args)
    for number, (path, vocabulary) in enumerate(zip(args.vocabulary, vocabularies)):
        tokenizer = Tokenizer(vocabulary, method=args.method)
        allowed = "all" if args.special == "encode" else ()
        ids = tokenizer.encode(data, allowed_special=allowed, disallowed_special=())
        if args.ids_only:
            print(*ids)
            continue
        if len(vocabularies) > 1:
            print(f"{'' if number == 0 else os.linesep}{path}")
        if not ids:
            print("0 tokens")
            continue
        print(painted([tokenizer.token_bytes(i) for i in ids], colours))
        print(*ids)
        characters = len(data.decode("utf-8", "replace"))
        tokens = "1 token" if len(ids) == 1 else f"{len(ids):,} tokens"
        print(
            f"{tokens}, {characters:,} characters, {len(data):,} bytes: {characters / len(ids):.2f} characters, "
            f"{len(data) / len(ids):.2f} bytes a token"
        )


def _read() -> bytes:
    if sys.stdin is None:
        raise UsageError("there is no text, and standard input is closed")
    return sys.stdin.buffer.read()


def painted(tokens: list[bytes], colours: bool) -> str:
    """Return tokens side by side, each in a colour of its own or with | between.

    >>> print(painted([b"low", b"est\\n", "機".encode()[:2], "機".encode()[2:]], False))
    low|est\\n|\\xe6\\xa9|\\x9f
    """
    shown = [_shown(token) for token in tokens]
    if not colours:
        return "|".join(text.replace("|", "\\|") for text in shown)
    return "".join(f"{_COLOURS[i % len(_COLOURS)]}{text}{_RESET}" for i, text in enumerate(shown))


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
