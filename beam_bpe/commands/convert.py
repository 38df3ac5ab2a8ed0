"""`beam-bpe convert`: a vocabulary from one format into another."""

from __future__ import annotations

import argparse
from typing import Any

import pyarrow.compute as pc

from beam_bpe import formats
from beam_bpe.commands.usage import Parser, UsageError
from beam_bpe.commands.vocabularies import add_format, load
from beam_bpe.formats.parquet import vocabulary_table

_HELP = (
    "Write a vocabulary in another format. What that format cannot hold is refused; a tokenizer.json and a .model are tried "
    "with the libraries that read them before they are written."
)


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser(
        "convert", help="write a vocabulary in another format", allow_abbrev=False, description=_HELP
    )
    parser.add_argument("vocabulary", metavar="VOCABULARY", help="the one to read, of any format; a path or URL")
    parser.add_argument("-o", "--output", required=True, metavar="PATH", help="the file or folder to write")
    parser.add_argument("--to", choices=formats.FORMATS, help="by default by the name of the output")
    add_format(parser.add_argument_group("vocabulary"))
    parser.add_argument("--no-verify", action="store_true", help="write a tokenizer.json or a .model without trying it")
    parser.add_argument("--overwrite", action="store_true", help="replace what stands in the output")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=_convert)
    return {"convert": parser}


def _convert(args: argparse.Namespace) -> None:
    chosen = args.to or _format_by_name(args.output)
    if args.no_verify and chosen not in _TRIED:
        raise UsageError(f"--no-verify goes with --to {' or '.join(_TRIED)}, which alone are tried")
    output = _place(args.output, chosen)
    vocabulary = load(args, args.vocabulary)
    options: dict[str, Any] = {"verify": False} if args.no_verify else {}
    formats.save(vocabulary, output, chosen, overwrite=args.overwrite, **options)
    print(f"{'vocabulary':<11} {output}: {len(vocabulary):,} ids, {len(vocabulary.left):,} merges, {chosen}")
    kinds = vocabulary_table(vocabulary)
    unreached = kinds.filter(pc.equal(kinds["kind"], "piece"))["token"] if vocabulary.model.algorithm == "bpe" else []
    if len(unreached):
        print(f"{'unreached':<11} {len(unreached):,} tokens are made by no merge, such as {unreached[0].as_py()!r}")
    if chosen == "bert":
        print(f"{'normalizer':<11} {vocabulary.normalizer}: do_lower_case={vocabulary.normalizer == 'bert'} for its readers")
    if chosen == "tiktoken":
        print(f"{'pattern':<11} {vocabulary.pre_tokenizer.pattern}")
        print(f"{'special':<11} {vocabulary.special_ids}")


#: Files that a format puts into a folder: their names stand for the folder.
_FILES = {"parquet": ("vocabulary.parquet", "merges.parquet"), "gpt2": ("vocab.json", "merges.txt")}

#: Formats that are tried before they are written.
_TRIED = ("huggingface", "tiktoken", "sentencepiece")

_SUFFIXES = {".model": "sentencepiece", ".tiktoken": "tiktoken", ".json": "huggingface", "vocab.txt": "bert", "codes": "subword_nmt"}


def _place(path: str, format: str) -> str:
    """Return what a format wants to be given: a folder, if it writes two files."""
    name = path.rpartition("/")[2]
    if name in _FILES.get(format, ()):
        return path[: -len(name)] or "."
    if format in _FILES and name.endswith((".parquet", ".json", ".txt")):
        raise UsageError(f"{format} writes the files {' and '.join(_FILES[format])}: name their folder, not {path!r}")
    return path


def _format_by_name(path: str) -> str:
    for format, names in _FILES.items():
        if path.rpartition("/")[2] in names:
            return format
    for suffix, format in _SUFFIXES.items():
        if path.endswith(suffix):
            return format
    raise UsageError(f"the name {path!r} does not tell a format: say it with --to ({', '.join(formats.FORMATS)})")
