"""`beam-bpe encode` and `beam-bpe decode`: a corpus into shards of ids, and back."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from typing import Any, Iterator

import pyarrow as pa

from beam_bpe import artifacts, console, encoding, progress, shards, storage
from beam_bpe.commands.arguments import add_reading, add_running
from beam_bpe.commands.show import print_encoded
from beam_bpe.commands.usage import Parser, UsageError, check_positive, checked, unescaped
from beam_bpe.commands.vocabularies import add_vocabulary, load, options_of
from beam_bpe.packing import REMAINDERS
from beam_bpe.shards.rows import RowWriter
from beam_bpe.tokenizer import METHODS, SPECIAL_POLICIES, Tokenizer

_ENCODE_HELP = "Encode the documents of a corpus into shards of token ids: Parquet, Megatron's .bin and .idx, or NumPy."
_DECODE_HELP = "Decode a folder that encode wrote: one file of documents for each shard."
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
    group.add_argument("--to", choices=shards.FORMATS, default="parquet", help="the format of the shards (parquet)")
    group.add_argument(
        "--special", choices=SPECIAL_POLICIES, default="text", help="what happens to special tokens in the text (text)"
    )
    group.add_argument("--bos", action="append", default=[], metavar="TOKEN", help="put before each document; repeatable")
    group.add_argument("--eos", action="append", default=[], metavar="TOKEN", help="put behind each document; repeatable")
    group.add_argument("--most-tokens", type=int, help="cut documents behind that many tokens, bos and eos included")
    group.add_argument("--pack", type=int, metavar="LENGTH", help="lay documents into rows of that many tokens")
    group.add_argument("--remainder", choices=REMAINDERS, help="the last row of a shard, if it is not full (drop)")
    group.add_argument("--pad", metavar="TOKEN", help="the token of padding")
    group.add_argument("--pack-whole", action="store_true", help="do not cut documents that fit into a row; needs --pad")
    group.add_argument("--max-document-bytes", type=int, help="set longer documents aside")
    group.add_argument("--method", choices=METHODS, default="rank", help="rank is BPE (rank)")
    group.add_argument("--keep", action="append", metavar="COLUMN", help="keep this column, or field of JSON lines, beside the ids; repeatable (all the other columns of tables)")
    group.add_argument("--resume", action="store_true", help="skip the shards of an earlier run that stand")
    add_reading(parser)
    add_running(parser)
    parser.set_defaults(run=_encode)

    back: Parser = added.add_parser("decode", help="decode shards of ids into text", allow_abbrev=False, description=_DECODE_HELP)
    back.add_argument("folder", metavar="FOLDER", help="what encode wrote")
    back.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the documents go")
    add_vocabulary(back)
    back.add_argument("--to", choices=TEXT_FORMATS, default="jsonl", help="text joins the documents of a shard (jsonl)")
    back.add_argument("--errors", choices=("replace", "strict"), default="replace", help="bytes that are not UTF-8 (replace)")
    back.add_argument("--progress", choices=console.MODES, default="auto", help="(auto: a bar on a terminal)")
    back.add_argument("--overwrite", action="store_true", help="replace what stands in the output")
    back.add_argument("--debug", action="store_true", help="show the traceback of an error")
    back.set_defaults(run=_decode)
    return {"encode": parser, "decode": back}


def _encode(args: argparse.Namespace) -> None:
    from beam_bpe import transforms
    from beam_bpe.transforms import running

    check_positive(args, "workers", "range_bytes", "most_tokens", "pack", "max_document_bytes")
    if args.overwrite and args.resume:
        raise UsageError("--overwrite and --resume contradict each other")
    rejected = None
    if args.errors == "skip":
        rejected = args.rejected or storage.join(args.output, "rejected")
    elif args.rejected:
        raise UsageError("--rejected goes with --errors skip")
    vocabulary = load(args)
    job = checked(
        lambda: transforms.EncodeFiles(
            args.inputs,
            args.output,
            vocabulary,
            format=args.to,
            special=args.special,
            bos=args.bos,
            eos=args.eos,
            most=args.most_tokens,
            pack=args.pack,
            remainder=args.remainder or "drop",
            pad=args.pad,
            pack_whole=args.pack_whole,
            max_document_bytes=args.max_document_bytes,
            method=args.method,
            documents=args.documents,
            separator=unescaped(args.separator),
            field=args.field,
            column=args.column,
            input_format=args.format,
            keep=args.keep,
            errors=args.errors,
            dead_letters=rejected,
            overwrite=args.overwrite,
            resume=args.resume,
            range_bytes=args.range_bytes,
        )
    )
    workers = running.workers_for(job.total_bytes, args.workers)
    job.threads = workers if job.native and not args.beam_flags else 1
    try:
        options = running.options_for(args.beam_flags, workers, job.native)
    except running.UnknownOption as error:
        raise UsageError(str(error)) from None

    def watch(state: str, seconds: float) -> None:
        done = progress.done()
        if done:
            line.show("encoding", done.get("bytes", 0), None, "bytes", tokens=done.get("tokens", 0))
        else:
            line.show("running", 0, None, "bytes", state=state.lower())

    with contextlib.ExitStack() as quiet:
        stream = sys.stderr
        if running.spawns(options) and not args.debug:
            stream = quiet.enter_context(console.silent_children(stream))
        line = console.ProgressLine(args.progress, stream)
        quiet.callback(line.end)
        if not args.debug:
            quiet.enter_context(contextlib.redirect_stderr(console.WithoutTracebacks(stream)))
        running.run(lambda pipeline: pipeline | job, options, watch)
    print_encoded(args.output, artifacts.read_manifest(args.output, shards.KIND))
    if rejected and storage.list_names(rejected):
        print(f"{'set aside':<11} {rejected}")


# ---- decode --------------------------------------------------------------------------------------


def _decode(args: argparse.Namespace) -> None:
    manifest = artifacts.read_manifest(args.folder, shards.KIND)
    tokenizer = Tokenizer(load(args))
    expected, found = manifest["parameters"]["fingerprint"], tokenizer.vocabulary.fingerprint
    if expected != found:
        raise ValueError(
            f"{args.folder} was encoded with the vocabulary of fingerprint {expected[:12]}…, and {args.vocabulary} has "
            f"{found[:12]}…{options_of(args)}"
        )
    line = console.ProgressLine(args.progress)
    documents = size = 0
    started = time.monotonic()
    suffix = {"jsonl": ".jsonl", "parquet": ".parquet", "text": ".txt"}[args.to]
    paths = [(part, storage.join(args.output, part["name"] + suffix)) for part in manifest["parts"]]
    for _, path in paths:
        if storage.exists(path) and not args.overwrite:
            raise FileExistsError(f"{path} exists; choose another folder or overwrite it (--overwrite)")
    try:
        for number, (part, path) in enumerate(paths):
            line.show("decoding", number, len(paths), "shards")
            batches = _texts(args, tokenizer, manifest, part["name"])
            rows, written = _WRITERS[args.to](path, batches)
            documents, size = documents + rows, size + written
        line.show("decoding", len(paths), len(paths), "shards")
    finally:
        line.end()
    seconds = time.monotonic() - started
    print(f"{'documents':<11} {args.output}: {documents:,}, {console.amount(size, 'bytes')} of text in {seconds:.1f} s")


def _texts(args: argparse.Namespace, tokenizer: Tokenizer, manifest: dict[str, Any], name: str) -> Iterator[pa.RecordBatch]:
    """Yield the documents of a shard: their text, and their columns beside it."""
    for batch in shards.read_shard(args.folder, name, manifest["parameters"]["format"]):
        data, ends = tokenizer.decode_documents(batch.ids, batch.ends)
        starts = [0, *ends[:-1].tolist()]
        texts = [data[start:end].decode("utf-8", args.errors) for start, end in zip(starts, ends.tolist())]
        names, columns = ["text"], [pa.array(texts, pa.large_string())]
        if batch.columns is not None:
            others = [n for n in batch.columns.schema.names if n != "text"]
            names, columns = [*names, *others], [*columns, *(batch.columns.column(n) for n in others)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _write_jsonl(path: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    rows = size = 0
    with storage.write(path) as file:
        for batch in batches:
            rows += batch.num_rows
            for record in batch.to_pylist():
                size += len(record["text"].encode())
                file.write(json.dumps(record, ensure_ascii=False, default=str).encode() + b"\n")
    return rows, size


def _write_parquet(path: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    rows = size = 0
    with storage.write(path) as file:
        writer = RowWriter(file, {"kind": "documents"})
        for batch in batches:
            rows += batch.num_rows
            size += sum(len(text.encode()) for text in batch.column("text").to_pylist())
            writer.begin(batch.schema)
            writer.write(batch)
        writer.close()
    return rows, size


def _write_text(path: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    rows = size = 0
    with storage.write(path) as file:
        for batch in batches:
            rows += batch.num_rows
            for text in batch.column("text").to_pylist():
                size += file.write(text.encode())
    return rows, size


_WRITERS = {"jsonl": _write_jsonl, "parquet": _write_parquet, "text": _write_text}
