"""`beam-bpe encode` and `beam-bpe decode`: a corpus into shards of ids, and back."""

from __future__ import annotations

import argparse
import base64
import json
import math
import re
import time
from typing import Any, Iterator

import numpy as np
import pyarrow as pa

from beam_bpe import artifacts, console, encoding, shards, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.commands.arguments import add_reading, add_running, reading_of
from beam_bpe.commands.show import print_encoded
from beam_bpe.commands.usage import Parser, UsageError, check_positive, say
from beam_bpe.commands.vocabularies import add_vocabulary, load, options_of
from beam_bpe.encoders import METHODS
from beam_bpe.packing import REMAINDERS
from beam_bpe.shards import Encoded
from beam_bpe.shards.rows import RowWriter
from beam_bpe.tokenizer import SPECIAL_POLICIES, Tokenizer

_ENCODE_HELP = "Encode the documents of a corpus into shards of token ids: Parquet, Megatron's .bin and .idx, or NumPy."
_DECODE_HELP = (
    "Decode a folder that encode wrote: one file of documents for each shard. The bos and eos that encode put around "
    "documents are taken off, and padding is left out; packed rows stay rows, with what stands in them."
)
TEXT_FORMATS = ("jsonl", "parquet", "text")


def add(added: Any) -> dict[str, Parser]:
    """Add the parsers of the commands and return them by name."""
    parser: Parser = added.add_parser(
        "encode", help="encode a corpus into shards of ids", allow_abbrev=False, description=_ENCODE_HELP
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="a file, glob, folder or URL")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the shards go")
    add_vocabulary(parser)
    group = parser.add_argument_group("encoding")
    group.add_argument("--format", choices=shards.FORMATS, default="parquet", help="the format of the shards (parquet)")
    group.add_argument(
        "--special", choices=SPECIAL_POLICIES, default="text", help="what happens to special tokens in the text (text)"
    )
    group.add_argument("--bos", action="append", default=[], metavar="TOKEN", help="put before each document; repeatable")
    group.add_argument("--eos", action="append", default=[], metavar="TOKEN", help="put behind each document; repeatable")
    group.add_argument("--most-tokens", type=int, help="cut documents behind that many tokens, bos and eos included")
    group.add_argument("--pack", type=int, metavar="LENGTH", help="lay documents into rows of that many tokens")
    group.add_argument(
        "--remainder", choices=REMAINDERS, help="the last row of a shard, if it is not full (drop; pad with --pad)"
    )
    group.add_argument("--pad", metavar="TOKEN", help="the token of padding")
    group.add_argument("--pack-whole", action="store_true", help="do not cut documents that fit into a row; needs --pad")
    group.add_argument("--max-document-bytes", type=int, help="set longer documents aside, whatever --errors says")
    group.add_argument("--method", choices=METHODS, default="rank", help="rank is BPE (rank)")
    group.add_argument(
        "--keep",
        action="append",
        metavar="COLUMN",
        help="keep this column, or field of JSON lines, beside the ids; repeatable (all the other columns of tables)",
    )
    group.add_argument(
        "--resume", action="store_true", help="skip the shards that an earlier run made of the same sources in the same way"
    )
    add_reading(parser, format_option="--input-format")
    add_running(parser)
    parser.set_defaults(run=_encode)

    back: Parser = added.add_parser("decode", help="decode shards of ids into text", allow_abbrev=False, description=_DECODE_HELP)
    back.add_argument("folder", metavar="FOLDER", help="what encode wrote")
    back.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the documents go")
    add_vocabulary(back)
    back.add_argument("--format", choices=TEXT_FORMATS, default="jsonl", help="text joins the documents of a shard, with their separator, or a line break where they were rows or fields (jsonl)")
    back.add_argument("--errors", choices=("replace", "strict"), default="replace", help="bytes that are not UTF-8 (replace)")
    back.add_argument("--progress", choices=console.MODES, default="auto", help="(auto: a bar on a terminal)")
    back.add_argument("--overwrite", action="store_true", help="replace what stands in the output")
    back.add_argument("--debug", action="store_true", help="show the traceback of an error")
    back.set_defaults(run=_decode)
    return {"encode": parser, "decode": back}


_OPTIONS = {
    "special": "special",
    "bos": "bos",
    "eos": "eos",
    "most": "most-tokens",
    "pack": "pack",
    "length": "pack",
    "remainder": "remainder",
    "pad_id": "pad",
    "pad": "pad",
    "pack_whole": "pack-whole",
    "max_document_bytes": "max-document-bytes",
    "keep": "keep",
    "overwrite": "overwrite",
}


def _as_options(text: str) -> str:
    """Write the arguments that a message names as options: remainder='pad' as --remainder pad."""
    text = re.sub(r"\bformat='(\w+)'", r"--format \1", text)
    text = re.sub(r"\b(pack_whole|overwrite|resume)=True\b", lambda match: "--" + match[1].replace("_", "-"), text)
    text = re.sub(r"\bsplit=False\b", "--pack-whole", text)
    value = r"(?:'([^']*)'|([\w.-]+))"
    return re.sub(rf"\b({'|'.join(_OPTIONS)})={value}", lambda found: f"--{_OPTIONS[found[1]]} {found[2] or found[3]}", text)


def _checked(check: Any) -> Any:
    """Return what a check of arguments returns; what it refuses is an error of usage."""
    try:
        return check()
    except (ValueError, TypeError) as error:
        raise UsageError(_as_options(str(error))) from None
    except KeyError as error:
        raise UsageError(str(error.args[0])) from None


def _encode(args: argparse.Namespace) -> None:
    from beam_bpe import transforms
    from beam_bpe.transforms import running
    from beam_bpe.transforms.encode_files import RESUMED
    from beam_bpe.transforms.engines import counters

    check_positive(args, "workers", "range_bytes", "most_tokens", "pack", "max_document_bytes")
    if args.overwrite and args.resume:
        raise UsageError("--overwrite and --resume contradict each other")
    if args.rejected and args.errors != "skip" and args.max_document_bytes is None:
        raise UsageError("--rejected goes with --errors skip or --max-document-bytes")
    if args.pack is None and (args.remainder or args.pad is not None or args.pack_whole):
        raise UsageError("--remainder, --pad and --pack-whole go with --pack, the length of a row")
    if args.pack_whole and args.pad is None:
        raise UsageError("--pack-whole pads rows: it needs --pad, the token of padding")
    rejected = args.rejected or storage.join(args.output, encoding.REJECTED)
    vocabulary = load(args)
    job = _checked(
        lambda: transforms.EncodeFiles(
            args.inputs,
            args.output,
            vocabulary,
            format=args.format,
            special=args.special,
            bos=args.bos,
            eos=args.eos,
            most=args.most_tokens,
            pack=args.pack,
            remainder=args.remainder,
            pad=args.pad,
            pack_whole=args.pack_whole,
            max_document_bytes=args.max_document_bytes,
            method=args.method,
            **reading_of(args),
            input_format=args.input_format,
            keep=args.keep,
            dead_letters=rejected,
            overwrite=args.overwrite,
            resume=args.resume,
            range_bytes=args.range_bytes,
        )
    )
    if not job.native:
        say(args, f"the pattern {vocabulary.pre_tokenizer.pattern!r} has no native scanner: this is the slow path")
    workers = running.workers_for(job.total_bytes, args.workers)
    job.threads = workers if job.native and not args.beam_flags else 1
    try:
        options = running.options_for(args.beam_flags, workers, job.native)
    except running.BadFlags as error:
        raise UsageError(str(error)) from None
    listed = None if args.resume else job.plain_bytes

    def watch(seen: Any) -> None:
        if "bytes" in seen.done:
            line.show("encoding", seen.done["bytes"], listed, "bytes", tokens=seen.done.get("tokens", 0))
        else:
            line.tasks(seen.state, seen.tasks)

    with console.watching(args.progress, spawns=running.spawns(options), debug=args.debug) as line:
        try:
            result = running.run(lambda pipeline: pipeline | job, options, watch)
        except FileExistsError as error:
            raise FileExistsError(_as_options(str(error))) from None
    manifest = artifacts.read_manifest(args.output, shards.KIND)
    print_encoded(args.output, manifest)
    totals = manifest["totals"]
    if dropped := totals.get("dropped_tokens"):
        say(
            args,
            f"{dropped:,} of {totals['tokens']:,} tokens were in rows that no shard could fill, and were dropped: --pad TOKEN or "
            "--remainder keep keeps them",
        )
    if args.resume:
        skipped = counters(result).get(RESUMED, 0)
        print(f"{'resumed':<11} {skipped} of {len(manifest['parts'])} shards stood already")
    if any(manifest["totals"].get(f"{name}_documents") for name in ("skipped", "failed", "overlong")):
        print(f"{'set aside':<11} {rejected}")


# ---- decode --------------------------------------------------------------------------------------

_SUFFIXES = {"jsonl": ".jsonl", "parquet": ".parquet", "text": ".txt"}
#: Ids decoded at a time.
_IDS = 1 << 21


def _decode(args: argparse.Namespace) -> None:
    manifest = artifacts.read_manifest(args.folder, shards.KIND)
    vocabulary = load(args)
    tokenizer = Tokenizer(vocabulary)
    expected, found = manifest["parameters"]["fingerprint"], vocabulary.fingerprint
    if expected != found:
        raise ValueError(
            f"{args.folder} was encoded with the vocabulary of fingerprint {expected[:12]}…, and {args.vocabulary} has "
            f"{found[:12]}…{options_of(args)}"
        )
    parts = [part for part in manifest["parts"] if part["files"]]
    paths = [(part["name"], storage.join(args.output, part["name"] + _SUFFIXES[args.format])) for part in parts]
    stale = _claim(args, {path.rpartition("/")[2] for _, path in paths})
    line = console.ProgressLine(args.progress)
    documents = size = 0
    started = time.monotonic()
    try:
        for number, (name, path) in enumerate(paths):
            line.show("decoding", number, len(paths), "shards")
            rows, written = _WRITERS[args.format](path, _Texts(args, tokenizer, manifest["parameters"], name))
            documents, size = documents + rows, size + written
        line.show("decoding", len(paths), len(paths), "shards")
    finally:
        line.end()
    for name in stale:
        storage.remove(storage.join(args.output, name))
    seconds = time.monotonic() - started
    print(f"{'documents':<11} {args.output}: {documents:,}, {console.amount(size, 'bytes')} of text in {seconds:.1f} s")


def _claim(args: argparse.Namespace, written: set[str]) -> list[str]:
    """Refuse an output that holds something else; return the files of an earlier run that this one does not write."""
    if storage.exists(storage.join(args.output, artifacts.MANIFEST)):
        raise FileExistsError(f"{args.output} is a folder of tokens or words: choose another one for the documents")
    ours = re.compile(rf"part-\d{{5,}}-of-\d{{5,}}{re.escape(_SUFFIXES[args.format])}")
    there = [name for name in storage.list_names(args.output) if ours.fullmatch(name)]
    if there and not args.overwrite:
        raise FileExistsError(f"{storage.join(args.output, there[0])} exists; choose another folder or overwrite it (--overwrite)")
    return [name for name in there if name not in written]


class _Texts:
    """The documents of a shard: their text, and their columns beside it."""

    def __init__(self, args: argparse.Namespace, tokenizer: Tokenizer, parameters: dict[str, Any], name: str):
        self._folder, self._name, self._errors = args.folder, name, args.errors
        self._tokenizer, self._format = tokenizer, parameters["format"]
        header = shards.read_header(self._folder, name, self._format)
        own = header.get("parameters", {}).get("fingerprint")
        if own != tokenizer.vocabulary.fingerprint:
            raise FormatError(f"the shard {name} of {self._folder} is of another vocabulary than its manifest says")
        source = header.get("source", {}).get("format")
        name_of = {"parquet": "column", "arrow": "column", "jsonl": "field"}.get(source)
        self.column: str = parameters.get(name_of, "text") if name_of else "text"
        self._packed = parameters.get("packing") is not None
        self._before, self._behind = len(parameters.get("bos", ())), len(parameters.get("eos", ()))
        # What stood between documents, where that is known and is no part of them.
        self.between = b"\n" if name_of or source is None else (parameters.get("separator") or "").encode()
        if source == "text" and parameters.get("documents") == "paragraph":
            self.between = b"\n\n"

    def __iter__(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield (documents, bytes of their text)."""
        before = 0
        for batch in shards.read_shard(self._folder, self._name, self._format):
            start = 0
            while start < len(batch):
                base = int(batch.ends[start - 1]) if start else 0
                stop = max(start + 1, int(np.searchsorted(batch.ends, base + _IDS, "right")))
                yield self._decoded(batch, start, stop, before)
                start = stop
            before += len(batch)

    def _decoded(self, batch: Encoded, start: int, stop: int, before: int) -> tuple[pa.RecordBatch, int]:
        base = int(batch.ends[start - 1]) if start else 0
        ends = batch.ends[start:stop] - base
        ids = batch.ids[base : base + int(ends[-1])]
        segments = None if batch.segments is None else batch.segments[base : base + len(ids)]
        ids, ends = self._bare(ids, ends, segments)
        data, stops = self._tokenizer.decode_documents(ids, ends)
        offsets = np.concatenate((np.zeros(1, np.int64), stops))
        packed = pa.Array.from_buffers(pa.large_binary(), stop - start, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        try:
            texts = packed.cast(pa.large_string())
        except pa.ArrowInvalid:  # bytes that are not UTF-8
            texts = pa.array([self._text(each, before + start + i) for i, each in enumerate(packed.to_pylist())], pa.large_string())
        names, columns = [self.column], [texts]
        if batch.columns is not None:
            others = [name for name in batch.columns.schema.names if name != self.column]
            names, columns = [*names, *others], [*columns, *(batch.columns.column(name).slice(start, stop - start) for name in others)]
        return pa.RecordBatch.from_arrays(columns, names=names), len(data)

    def _bare(self, ids: np.ndarray, ends: np.ndarray, segments: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return documents without what encoding put around them, and rows without padding."""
        if segments is not None:
            kept = segments > 0
        elif self._before + self._behind and not self._packed:
            kept = np.ones(len(ids), bool)
            starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
            for places in [*(starts + i for i in range(self._before)), *(ends - 1 - i for i in range(self._behind))]:
                kept[places] = False
        else:
            return ids, ends
        counts = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)))
        return ids[kept], counts[ends]

    def _text(self, data: bytes, document: int) -> str:
        try:
            return data.decode("utf-8", self._errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"document {document} (from 0) of the shard {self._name} is not UTF-8 at its byte {error.start}: --errors "
                "replace puts U+FFFD there"
            ) from None


def _write_jsonl(path: str, texts: _Texts) -> tuple[int, int]:
    rows = size = 0
    with storage.write(path) as file:
        for batch, length in texts:
            rows, size = rows + batch.num_rows, size + length
            columns = [column.cast(_told_as(column.type)).to_pylist() for column in batch.columns]
            for values in zip(*columns):
                record = {name: _json_value(value) for name, value in zip(batch.schema.names, values)}
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False, default=str).encode() + b"\n")
    return rows, size


def _told_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are written as JSON: what counts time (to nanoseconds) becomes text."""
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind) and not pa.types.is_interval(kind):
        return pa.string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_told_as(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_told_as(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_told_as(kind.key_type), _told_as(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _told_as(field.type)) for field in kind])
    return kind


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it: bytes in base64, and null for what is no number."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _json_value(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(each) for each in value]
    return value


def _write_parquet(path: str, texts: _Texts) -> tuple[int, int]:
    rows = size = 0
    with storage.write(path) as file:
        writer = RowWriter(file, {"kind": "documents"})
        for batch, length in texts:
            rows, size = rows + batch.num_rows, size + length
            writer.begin(batch.schema)
            writer.write(batch)
        writer.close()
    return rows, size


def _write_text(path: str, texts: _Texts) -> tuple[int, int]:
    rows = size = 0
    with storage.write(path) as file:
        for batch, length in texts:
            size += length
            for text in batch.column(texts.column).to_pylist():
                if rows and texts.between:
                    file.write(texts.between)
                file.write(text.encode())
                rows += 1
    return rows, size


_WRITERS = {"jsonl": _write_jsonl, "parquet": _write_parquet, "text": _write_text}
