"""The options by which a command is given a vocabulary of any format."""

from __future__ import annotations

import argparse
from typing import Any

from beam_bpe import formats
from beam_bpe.artifacts import FormatError
from beam_bpe.commands.usage import Parser, UsageError, checked
from beam_bpe.formats.tiktoken import ENCODINGS
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import PATTERNS, pre_tokenizer
from beam_bpe.vocabulary import Vocabulary


def add_vocabulary(parser: Parser, *, several: bool = False, required: bool = True) -> None:
    """Add the options."""
    group = parser.add_argument_group("vocabulary")
    group.add_argument(
        "-v",
        "--vocabulary",
        required=required,
        metavar="PATH",
        action="append" if several else "store",
        help="our folder, tokenizer.json, SentencePiece's .model, a rank file of tiktoken, vocab.json beside merges.txt, BERT's "
        "vocab.txt, or codes of subword-nmt; a path or URL"
        + ("; repeatable" if several else ""),
    )
    add_format(group)


def add_format(group: Any) -> None:
    """Add the options that say what a vocabulary's file does not."""
    group.add_argument("--vocabulary-format", choices=formats.FORMATS, help="by default by the name of the file")
    group.add_argument("--encoding", metavar="NAME", help=f"of a rank file: {', '.join(ENCODINGS)} (by its hash)")
    group.add_argument(
        "--pattern",
        metavar="PATTERN",
        help=f"of a rank file, vocab.json, vocab.txt or codes: {', '.join(PATTERNS)}, or a regex",
    )
    group.add_argument(
        "--normalizer", metavar="NAME", help="of vocab.txt (bert), a rank file or codes (none): steps joined by +, or none"
    )
    group.add_argument("--cased", action="store_true", help="vocab.txt is cased: --normalizer bert_cased")
    group.add_argument("--unk-token", metavar="TEXT", help="of vocab.txt ([UNK]), or of codes instead of tokens of bytes")
    group.add_argument("--continuing-subword-prefix", metavar="TEXT", help="of vocab.txt (##)")
    group.add_argument("--max-input-chars-per-word", type=int, metavar="N", help="of vocab.txt (100)")
    group.add_argument("--alphabet", metavar="CHARACTERS", help="of codes: further ones that have tokens")
    group.add_argument(
        "--special-id", action="append", default=[], metavar="TEXT=ID", help="a special token of a rank file; repeatable"
    )


_TAKEN = {
    "tiktoken": {"encoding", "pattern", "normalizer", "special_tokens"},
    "gpt2": {"pattern", "special_tokens"},
    "bert": {"pattern", "normalizer", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"},
    "subword_nmt": {"pattern", "normalizer", "unk_token", "alphabet"},
}
_NAMES = {"special_tokens": "special-id"}


def _option(name: str) -> str:
    return "--" + _NAMES.get(name, name).replace("_", "-")


def load(args: argparse.Namespace, path: str | None = None) -> Vocabulary:
    """Return the vocabulary that the options name."""
    path = args.vocabulary if path is None else path
    format = args.vocabulary_format or formats.format_of(path)
    options = _options(args)
    for name in sorted(options.keys() - _TAKEN.get(format, set())):
        raise UsageError(
            f"{_option(name)} does not go with {path}, a vocabulary in the format {format}, which has no such option"
        )
    return _loaded(path, format, options)


def load_all(args: argparse.Namespace) -> list[Vocabulary]:
    """Return the vocabularies that the options name; what says more of a file goes to those that take it."""
    chosen = [args.vocabulary_format or formats.format_of(path) for path in args.vocabulary]
    options = _options(args)
    for name in sorted(options.keys() - {name for format in chosen for name in _TAKEN.get(format, ())}):
        raise UsageError(f"{_option(name)} goes with none of these vocabularies")
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
    if args.cased and args.normalizer is not None:
        raise UsageError("--cased and --normalizer contradict each other: --cased is --normalizer bert_cased")
    if args.cased or args.normalizer is not None:
        options["normalizer"] = "bert_cased" if args.cased else None if args.normalizer == "none" else args.normalizer
        checked(lambda: check_normalizer(options["normalizer"]))
    for name in ("unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "alphabet"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
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
    given = [_option(name) for name in _options(args)]
    return f" (with {', '.join(given)} as given)" if given else ""


def _special(text: str) -> tuple[str, int]:
    token, separator, number = text.rpartition("=")
    if not separator or not token or not number.isdigit():
        raise UsageError(f"--special-id is {text!r}; it must be TEXT=ID, such as '<|endoftext|>=50256'")
    return token, int(number)
