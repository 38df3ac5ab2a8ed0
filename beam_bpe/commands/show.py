"""`beam-bpe show`: what an artifact holds."""

from __future__ import annotations

import argparse
from typing import Any

from beam_bpe import artifacts, console, formats, shards, storage, token_list, word_parts
from beam_bpe.artifacts import FormatError
from beam_bpe.commands.given_words import add_words
from beam_bpe.commands.token import show_token
from beam_bpe.commands.usage import Parser, UsageError
from beam_bpe.commands.vocabularies import add_vocabulary
from beam_bpe.formats.parquet import MERGES_FILE, VOCABULARY_FILE
from beam_bpe.normalize import shown
from beam_bpe.report.wording import STOPPED
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    show: Parser = added.add_parser("show", help="show what an artifact holds, or a token", allow_abbrev=False)
    show.add_argument(
        "path",
        metavar="PATH|TOKEN",
        help="a folder of words, a vocabulary's folder, or one of its files; with --vocabulary a token of it, as it is spelled "
        "(\\xNN is a byte), or id:N",
    )
    add_vocabulary(show, required=False)
    add_words(show, "that a token comes from")
    show.add_argument("--most", type=int, default=10, help="how many rows of each list (10)")
    show.add_argument("--debug", action="store_true", help="show the traceback of an error")
    show.set_defaults(run=_show)
    return {"show": show}


def _show(args: argparse.Namespace) -> None:
    if args.vocabulary is not None:
        show_token(args)
        return
    if args.words:
        raise UsageError("--words tells what a token comes from: give the token's --vocabulary")
    path = args.path
    if storage.exists(storage.join(path, artifacts.MANIFEST)) and _is_encoded(path):
        manifest = artifacts.read_manifest(path, shards.KIND)
        print_encoded(path, manifest)
        print_parameters(manifest["parameters"])
        return
    if storage.exists(storage.join(path, artifacts.MANIFEST)) or _holds_parts(path):
        manifest = artifacts.read_manifest(path, word_parts.KIND)
        print_words(path, manifest)
        print_parameters(manifest["parameters"])
        _print_most_common(args, WordCounts.read(path))
        return
    folder = path
    if not storage.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    if path.endswith(".parquet"):
        with artifacts.open_parquet(path) as file:
            header = artifacts.read_header(path, file)
        if header.get("kind") == word_parts.KIND:
            _show_part(args, header)
            return
        if path.rpartition("/")[2] not in (MERGES_FILE, VOCABULARY_FILE):
            _show_table(args, header)
            return
        folder = path[: -len(path.rpartition("/")[2])].rstrip("/") or "."
    vocabulary = formats.load(path)
    if vocabulary.stop_reason == "imported":
        print_foreign(path, vocabulary)
    else:
        print_vocabulary(folder, vocabulary)
    print_parameters(vocabulary.parameters)
    if vocabulary.totals:
        print_totals(vocabulary.totals)
    merges = vocabulary.merges
    for title, some in (("first", merges[: args.most]), ("last", merges[max(args.most, len(merges) - args.most) :])):
        if some:
            print(f"{title} merges (rank, count, left + right)")
        for merge in some:
            print(f"  {merge.rank:>7}  {merge.count:>14,}  {token_list.shown(merge.left)} + {token_list.shown(merge.right)}")
    if vocabulary.model.algorithm == "unigram":
        _print_likeliest(vocabulary, args.most)


def _print_likeliest(vocabulary: Vocabulary, most: int) -> None:
    scores = vocabulary.layout.scores if vocabulary.layout is not None else None
    if scores is None:
        return
    pieces = [(-scores[i], token) for token, i in vocabulary.ids.items() if scores[i]]
    print(f"{most} likeliest pieces (score)")
    for score, token in sorted(pieces)[:most]:
        print(f"  {-score:>9.4f}  {token_list.shown(token)}")


def _is_encoded(path: str) -> bool:
    try:
        artifacts.read_manifest(path, shards.KIND)
    except FormatError:
        return False
    return True


def print_encoded(folder: str, manifest: dict[str, Any]) -> None:
    """Print what a folder of encoded documents holds."""
    parts, totals, parameters = manifest["parts"], dict(manifest["totals"]), manifest["parameters"]
    tokens, documents = totals.pop("tokens", 0), totals.pop("encoded_documents", 0)
    size = sum(file["bytes"] for part in parts for file in part["files"])
    print(f"{'shards':<11} {folder}: {len(parts)}, {parameters['format']}, {console.amount(size, 'bytes')}")
    text = totals.get("bytes", 0)
    ratio = f", {text / tokens:.2f} bytes a token" if tokens else ""
    print(f"{'tokens':<11} {tokens:,} of {documents:,} documents{ratio}; vocabulary {parameters['fingerprint'][:16]}")
    print_totals(totals)


def print_foreign(path: str, vocabulary: Vocabulary) -> None:
    """Print what a vocabulary that was made elsewhere holds."""
    print(f"{'vocabulary':<11} {path}: {len(vocabulary):,} ids, fingerprint {vocabulary.fingerprint[:16]}")
    print(f"{'words':<11} {vocabulary.pre_tokenizer.name}: {console.shortened(vocabulary.pre_tokenizer.pattern, 100)}")
    _print_rules(vocabulary)
    for token in vocabulary.added_tokens[:20]:
        print(f"{'special' if token.special else 'added':<11} {token.id:>7}  {token.text}")
    if len(vocabulary.added_tokens) > 20:
        print(f"{'':<11} … {len(vocabulary.added_tokens):,} in all")


def _print_rules(vocabulary: Vocabulary) -> None:
    """Print how tokens are found, where it is not by merges of bytes, and the normalizer, if there is one."""
    if vocabulary.normalizer:
        print(f"{'normalizer':<11} {shown(vocabulary.normalizer)}")
    if model := vocabulary.model.spec():
        told = ", ".join(name if value is True else f"{name} {value}" for name, value in model.items())
        print(f"{'model':<11} {told}")


def _holds_parts(path: str) -> bool:
    try:
        return any(name.startswith("part-") for name in storage.list_names(path))
    except NotADirectoryError:
        return False


def _show_part(args: argparse.Namespace, header: dict[str, Any]) -> None:
    table = WordCounts(artifacts.read_parquet(args.path, word_parts.KIND)[0], header["parameters"])
    print(f"{'words':<11} {args.path}: {len(table):,} distinct, {table.occurrences:,} in all, one part of a table")
    print_parameters(header["parameters"])
    _print_most_common(args, table)


def _show_table(args: argparse.Namespace, header: dict[str, Any]) -> None:
    """Print a table of findings, a curve, a comparison …: what its header says, and its first rows."""
    table, kind = artifacts.read_parquet(args.path, header["kind"])[0], str(header["kind"])
    print(f"{kind:<11} {args.path}: {table.num_rows:,} rows")
    for name, value in header.items():
        if name != "kind" and value not in (None, [], {}):
            print(f"{name:<11} {console.shortened(str(value), 100)}")
    rows = [table.column_names, *(map(_cell, row.values()) for row in table.slice(0, args.most).to_pylist())]
    for line in console.aligned([list(row) for row in rows], left=range(table.num_columns)):
        print(line)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return token_list.shown(value, 24)
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else console.shortened(console.readable(str(value).encode())[1:-1], 40)


def _print_most_common(args: argparse.Namespace, table: WordCounts) -> None:
    print(f"{args.most} most frequent words")
    for word, count in table.most_common(args.most):
        print(f"  {count:>14,}  {token_list.shown(word)}")


def print_words(folder: str, manifest: dict[str, Any]) -> None:
    """Print what a table of words holds."""
    parts, totals = manifest["parts"], manifest["totals"]
    distinct = sum(part.get("words", part["rows"]) for part in parts)
    print(f"{'words':<11} {folder}: {distinct:,} distinct, {totals['words']:,} in all, parts: {len(parts)}")
    print_totals(totals)
    if groups := manifest.get("groups"):
        largest = sorted(groups, key=lambda group: (-groups[group]["words"], group))
        told = ", ".join(f"{token_list.shown(group.encode(), 40)} {groups[group]['words']:,}" for group in largest[:8])
        print(f"{'groups':<11} {len(groups):,} by {manifest['parameters']['group_by']}: {told}{', …' * (len(groups) > 8)} words")


def print_totals(totals: Any) -> None:
    """Print what was counted beside the words or tokens."""
    print(f"{'corpus':<11} {totals.get('documents', 0):,} documents, {console.amount(totals.get('bytes', 0), 'bytes')}")
    rest = {k: v for k, v in totals.items() if v and k not in ("documents", "bytes", "words", "distinct_words")}
    if rest:
        print(f"{'of which':<11} " + ", ".join(f"{v:,} {k.replace('_', ' ')}" for k, v in rest.items()))


def print_parameters(parameters: Any) -> None:
    """Print how an artifact was made."""
    for name, value in sorted(parameters.items()):
        if name == "words":
            print_parameters(value)
        elif isinstance(value, dict):
            print(f"{name:<11} " + ", ".join(f"{k} {console.shortened(str(v))}" for k, v in value.items()))
        else:
            print(f"{name:<11} {console.shortened(str(value), 100) if isinstance(value, list) else value}")


def print_vocabulary(folder: str, vocabulary: Vocabulary) -> None:
    """Print what a vocabulary of our own files holds."""
    texts = (token for token in vocabulary.tokens if token.decode("utf-8", "replace").strip(" \u2581").isalpha())
    longest = sorted(texts, key=len, reverse=True)[:10]
    merges, tokens = storage.join(folder, MERGES_FILE), storage.join(folder, VOCABULARY_FILE)
    stopped = STOPPED[vocabulary.stop_reason]
    if vocabulary.model.algorithm != "unigram":
        print(f"{'merges':<11} {merges}: {len(vocabulary.left):,}; {stopped}")
        stopped = ""
    told = f"{len(vocabulary):,} tokens, fingerprint {vocabulary.fingerprint[:16]}{'; ' * bool(stopped)}{stopped}"
    print(f"{'vocabulary':<11} {tokens}: {told}")
    _print_rules(vocabulary)
    print(f"{'longest':<11} " + " ".join(token_list.shown(token, 40) for token in longest))
