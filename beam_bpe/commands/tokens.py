"""`beam-bpe tokens`: the pieces and ids of a text, to look at."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

from beam_bpe import console
from beam_bpe.baselines import BASELINES, baseline_tokens
from beam_bpe.commands.usage import Parser, UsageError
from beam_bpe.commands.vocabularies import add_vocabulary, load_all
from beam_bpe.encoders import METHODS
from beam_bpe.texts import valid_bytes
from beam_bpe.tokenizer import Tokenizer

_HELP = (
    "Print the tokens of texts: their pieces, their ids and how many there are. Half characters are shown as their bytes. Of several "
    "texts or vocabularies a table tells the counts side by side, with bytes, characters and trigrams as the plainest tokens."
)
_WIDTH = 24
# Backgrounds on which black text can be read, taken in turn.
_COLOURS = ("\x1b[30;48;5;152m", "\x1b[30;48;5;222m", "\x1b[30;48;5;150m", "\x1b[30;48;5;217m", "\x1b[30;48;5;183m")
_RESET = "\x1b[0m"


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser("tokens", help="show the tokens of a text", allow_abbrev=False, description=_HELP)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="a text; standard input without it")
    add_vocabulary(parser, several=True)
    parser.add_argument("--method", choices=METHODS, default="rank", help="rank is BPE (rank)")
    parser.add_argument(
        "--special", choices=("text", "encode"), default="encode", help="what happens to special tokens (encode)"
    )
    parser.add_argument("--ids-only", action="store_true", help="print only the ids, one line for each vocabulary")
    parser.add_argument("--counts-only", action="store_true", help="print only the table of counts")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="(auto: on a terminal)")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=_tokens)
    return {"tokens": parser}


def _tokens(args: argparse.Namespace) -> None:
    if args.ids_only and args.counts_only:
        raise UsageError("--ids-only and --counts-only contradict each other")
    texts = [os.fsencode(text) for text in args.text] or [_read()]
    colours = args.color == "always" or (args.color == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    vocabularies = load_all(args)
    allowed = "all" if args.special == "encode" else ()
    counts: list[list[int]] = [[] for _ in texts]
    several, first = len(texts) > 1 or len(vocabularies) > 1, True
    for path, vocabulary in zip(args.vocabulary, vocabularies):
        tokenizer = Tokenizer(vocabulary, method=args.method)
        for data, of_text in zip(texts, counts):
            ids = tokenizer.encode(data, allowed_special=allowed, disallowed_special=())
            of_text.append(len(ids))
            if args.ids_only:
                print(*ids)
            elif not args.counts_only:
                if several:
                    print(f"{'' if first else os.linesep}{path}")
                first = False
                _print_pieces(data, ids, tokenizer, colours)
    if args.counts_only or (several and not args.ids_only):
        print(end="" if args.counts_only else os.linesep)
        print(*count_lines(texts, args.vocabulary, counts), sep="\n")


def _print_pieces(data: bytes, ids: list[int], tokenizer: Tokenizer, colours: bool) -> None:
    if not ids:
        print("0 tokens")
        return
    print(painted([tokenizer.token_bytes(i) for i in ids], colours))
    print(*ids)
    characters = len(data.decode("utf-8", "replace"))
    tokens = "1 token" if len(ids) == 1 else f"{len(ids):,} tokens"
    print(
        f"{tokens}, {characters:,} characters, {len(data):,} bytes: {characters / len(ids):.2f} characters, "
        f"{len(data) / len(ids):.2f} bytes a token"
    )


def count_lines(texts: list[bytes], names: list[str], counts: list[list[int]]) -> list[str]:
    """Return a table with a row for each text: the tokens of the baselines, of each vocabulary, and the text itself.

    >>> print(*count_lines([b"newest", b"low low"], ["a/gpt2", "b"], [[2, 3], [2, 2]]), sep="\\n")
    byte  character  trigram  gpt2  b
       6          6        4     2  3  newest
       7          7        5     2  2  low low
    """
    ends = np.cumsum([0, *(len(valid_bytes(text)) for text in texts)])
    data, bounds = b"".join(map(valid_bytes, texts)), np.repeat(ends, 2)[1:-1]
    plain = [baseline_tokens(name, data, bounds).tolist() for name in BASELINES]
    short = [name.rstrip("/").rpartition("/")[2] or name for name in names]
    heads = short if len(set(short)) == len(short) else names
    rows = [[*BASELINES, *heads, ""]]
    for number, text in enumerate(texts):
        numbers = [len(text), *(column[number] for column in plain[1:]), *counts[number]]
        rows.append([*(f"{count:,}" for count in numbers), console.shortened(_shown(text), _WIDTH, len(text.decode("utf-8", "replace")))])
    return console.aligned(rows, left=(len(rows[0]) - 1,))


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
