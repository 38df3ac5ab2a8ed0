"""Encode a range of a source into one shard, and make the shards of a job an artifact.

A shard is whole or absent; a line about it (`_parts/<name>.json`) is written behind it, and the manifest
behind all of them.  So a job that was killed leaves whole shards, and a second one may skip those.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from beam_bpe import __version__, artifacts, progress, shards, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.documents import DocumentBatch, InputError, Reading, SourceRange
from beam_bpe.packing import Packer, Packing, Wrapping
from beam_bpe.reading import read_range
from beam_bpe.rejected import DeadLetters
from beam_bpe.shards import Encoded
from beam_bpe.tokenizer import SPECIAL_POLICIES, Batch, Tokenizer

#: Columns of an encoded document that say where it stands: the file, and its row or its first byte.
SOURCE, ROW, OFFSET = "source_file", "source_row", "source_offset"
PARTS = "_parts"
PART_NAME = re.compile(r"part-(\d{5,})-of-(\d{5,})")
#: A document read in pieces is put together in memory up to this many ids.
MOST_IDS = 1 << 28


@dataclass(frozen=True)
class Encoding:
    """How documents become rows of ids; recorded in the output.

    Attributes:
        format: one of `shards.FORMATS`.
        special: what happens to special tokens in the text (`tokenizer.SPECIAL_POLICIES`).
        bos, eos: tokens (as text, or ids) put before and behind each document.
        most: ids of a document at most, bos and eos included; the rest is cut off and counted.
        packing: lay documents into rows of one length.
        max_document_bytes: longer documents are set aside.

    Raises:
        ValueError: a value is not allowed.
    """

    format: str = "parquet"
    special: str = "text"
    bos: tuple[str | int, ...] = ()
    eos: tuple[str | int, ...] = ()
    most: int | None = None
    packing: Packing | None = None
    max_document_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (("format", self.format, shards.FORMATS), ("special", self.special, SPECIAL_POLICIES)):
            if value not in allowed:
                raise ValueError(f"{name}={value!r}: choose one of {', '.join(allowed)}")
        if self.packing is not None and self.format == "megatron":
            raise ValueError("format='megatron' has no rows of one length: it packs documents itself while training")
        if self.max_document_bytes is not None and self.max_document_bytes < 1:
            raise ValueError(f"max_document_bytes is {self.max_document_bytes}; it must be at least 1")

    def wrapping(self, tokenizer: Tokenizer) -> Wrapping:
        """Return what is put around documents; KeyError if a token is none of the vocabulary."""

        def ids(tokens: tuple[str | int, ...]) -> list[int]:
            return [token if isinstance(token, int) else tokenizer.id_of(token) for token in tokens]

        for token in (*self.bos, *self.eos):
            if isinstance(token, int):
                tokenizer.token_bytes(token)
        return Wrapping(ids(self.bos), ids(self.eos), self.most)

    def parameters(self, tokenizer: Tokenizer, reading: Reading) -> dict[str, Any]:
        """Return all that decides what an output holds, for its metadata."""
        wrapping = self.wrapping(tokenizer)
        return {
            "fingerprint": tokenizer.vocabulary.fingerprint,
            "vocab_size": tokenizer.vocab_size,
            "method": tokenizer.method,
            "format": self.format,
            "special": self.special,
            "bos": list(wrapping.bos),
            "eos": list(wrapping.eos),
            "most": self.most,
            "packing": None if self.packing is None else asdict(self.packing),
            "max_document_bytes": self.max_document_bytes,
            "documents": reading.documents,
            "separator": reading.separator,
            "field": reading.field,
            "column": reading.column,
            "errors": reading.errors,
            "keep": None if reading.keep is None else list(reading.keep),
        }


def reading_for(tokenizer: Tokenizer, **options: Any) -> Reading:
    """Return how documents are read to be encoded: with their places, and never in more than one range."""
    vocabulary = tokenizer.vocabulary
    added = vocabulary.added_tokens
    # Between the pieces of a large file nothing may be lost: a token that takes spaces beside it could.
    may_be_cut = vocabulary.pre_tokenizer.may_be_cut and all(token.plain for token in added)
    return Reading(
        pre_tokenizer=vocabulary.pre_tokenizer if may_be_cut else None,
        special_tokens=tuple(token.text for token in added),
        whole=True,
        places=True,
        **options,
    )


def encode_range(
    source: SourceRange, reading: Reading, tokenizer: Tokenizer, encoding: Encoding, folder: str, name: str, *, resume: bool = False
) -> dict[str, Any]:
    """Encode the documents of a range into the shard `name` and return its line of the manifest.

    Args:
        resume: return the line of the shard that stands already, if it is of this source and these parameters.

    Raises:
        InputError: a document cannot be read or encoded, and `reading.errors` is not "skip".
    """
    parameters = encoding.parameters(tokenizer, reading)
    digest = artifacts.digest([parameters, list(source)])
    if resume and (line := _finished(folder, name, encoding.format, digest)):
        return line
    header = {"parameters": parameters, "source": source._asdict()}
    run = _Run(source, reading, tokenizer, encoding)
    row_length = encoding.packing.length if encoding.packing else None
    with run.letters, shards.open_writer(
        encoding.format, folder, name, header, vocab_size=tokenizer.vocab_size, row_length=row_length
    ) as writer:
        for rows in run.rows():
            writer.write(rows)
    line = {**writer.close(), "digest": digest, "totals": run.finished_totals()}
    storage.write_bytes(_line_path(folder, name), artifacts.canonical_json(line).encode() + b"\n")
    return line


class _Run:
    """One range while it is encoded."""

    def __init__(self, source: SourceRange, reading: Reading, tokenizer: Tokenizer, encoding: Encoding):
        self.source, self.reading, self.tokenizer, self.encoding = source, reading, tokenizer, encoding
        self.letters = DeadLetters(reading.dead_letters, source.url, source.start, "unencoded")
        self.totals: Counter[str] = Counter()
        self._wrapping = encoding.wrapping(tokenizer)
        self._packer = Packer(encoding.packing) if encoding.packing else None
        # A document is encoded up to one token more than is kept, so that it is seen to be cut.
        self._most = None if encoding.most is None else encoding.most + 1
        self._width = shards.dtype_for(tokenizer.vocab_size).itemsize

    def rows(self) -> Iterator[Encoded]:
        for documents in self._documents():
            self.totals["cut_documents"] += self._wrapping.cut(documents.ends)["cut_documents"]
            ids, ends = self._wrapping.apply(documents.ids, documents.ends)
            self.totals["encoded_documents"] += len(ends)
            self.totals["tokens"] += len(ids)
            progress.add(tokens=len(ids))
            wrapped = Encoded(ids, ends, documents.columns)
            rows = wrapped if self._packer is None else self._packer.push(wrapped)
            if rows is not None:
                yield rows
        last = self._packer.flush() if self._packer is not None else None
        if last is not None:
            yield last

    def finished_totals(self) -> dict[str, int]:
        packed = {} if self._packer is None else {k: v for k, v in self._packer.totals.items() if k != "documents"}
        return {name: int(value) for name, value in {**self.totals, **packed}.items() if value}

    def _documents(self) -> Iterator[Encoded]:
        """Yield whole documents with their columns; one that is read in pieces is put together."""
        held: list[np.ndarray] = []
        begun: DocumentBatch | None = None
        for batch in read_range(self.source, self.reading):
            self.totals.update(batch.totals)
            progress.add(bytes=batch.totals.get("bytes", 0), documents=batch.totals.get("documents", 0))
            if not len(batch.bounds):
                continue
            in_pieces = batch.split or batch.continues or batch.cut_by is not None
            if not in_pieces:
                yield self._encoded(batch)
                continue
            if not batch.continues:
                begun = batch
            held.append(self._encoded(batch).ids)
            if sum(map(len, held)) > MOST_IDS:
                raise InputError(
                    f"{self.source.url} is one document of more than {MOST_IDS:,} tokens: choose documents='line', "
                    "'paragraph' or 'separator'"
                )
        if begun is not None:
            ids = np.concatenate(held)
            if self.encoding.max_document_bytes and self.totals["bytes"] > self.encoding.max_document_bytes:
                self._too_long(self.totals["bytes"], None, 0)
                return
            yield Encoded(ids, np.array([len(ids)], np.int64), self._columns(begun, np.ones(1, bool)))

    def _encoded(self, batch: DocumentBatch) -> Encoded:
        bounds = batch.bounds
        kept = np.ones(len(bounds) // 2, bool)
        limit = self.encoding.max_document_bytes
        if limit is not None and not (batch.continues or batch.cut_by):
            lengths = bounds[1::2] - bounds[::2]
            for document in np.flatnonzero(lengths > limit).tolist():
                start, end = bounds[2 * document : 2 * document + 2].tolist()
                self._too_long(end - start, bytes(memoryview(batch.data)[start:end]), self._place(batch, document))
                kept[document] = False
            bounds = bounds.reshape(-1, 2)[kept].ravel()
        try:
            found = self._ids_of(batch.data, bounds)
        except ValueError:
            found = self._one_by_one(batch, kept)
        self.totals["special_tokens"] += found.special
        return Encoded(found.ids, found.ends, self._columns(batch, kept))

    def _ids_of(self, data: Any, bounds: np.ndarray) -> Batch:
        return self.tokenizer.encode_documents(
            data, bounds, special=self.encoding.special, most=self._most, width=self._width
        )

    def _one_by_one(self, batch: DocumentBatch, kept: np.ndarray) -> Batch:
        """Encode each document of a batch in which some fail: those are set aside, or fail the job."""
        found: list[Batch] = []
        for document in np.flatnonzero(kept).tolist():
            bounds = batch.bounds[2 * document : 2 * document + 2]
            data = bytes(memoryview(batch.data)[bounds[0] : bounds[1]])
            try:
                found.append(self._ids_of(data, np.array([0, len(data)], np.int64)))
            except ValueError as error:
                place = self._place(batch, document)
                if self.reading.errors != "skip":
                    where = ", ".join(f"{name} {number:,}" for name, number in place.items())
                    raise InputError(f"{self.source.url}, {where}: {error} (errors='skip' sets the document aside)") from None
                self.letters.add(str(error), data, **place)
                self.totals["failed_documents"] += 1
                kept[document] = False
        ids = np.concatenate([one.ids for one in found]) if found else np.empty(0, f"u{self._width}")
        ends = np.cumsum([len(one.ids) for one in found], dtype=np.int64)
        return Batch(ids, ends, sum(one.special for one in found))

    def _too_long(self, length: int, data: bytes | None, place: Any) -> None:
        reason = f"{length:,} bytes, more than {self.encoding.max_document_bytes:,}"
        self.letters.add(reason, data, **(place if isinstance(place, dict) else {"offset": place}))
        self.totals["overlong_documents"] += 1

    def _is_table(self) -> bool:
        return self.source.format in ("parquet", "arrow")

    def _place(self, batch: DocumentBatch, document: int) -> dict[str, int]:
        assert batch.places is not None
        return {"row" if self._is_table() else "offset": int(batch.places[document])}

    def _columns(self, batch: DocumentBatch, kept: np.ndarray) -> pa.RecordBatch:
        assert batch.places is not None
        n = int(kept.sum())
        own = {
            SOURCE: pa.array([self.source.url] * n, pa.string()),
            ROW if self._is_table() else OFFSET: pa.array(batch.places[kept], pa.int64()),
        }
        others = batch.columns
        names, arrays = list(own), list(own.values())
        if others is not None:
            if n < others.num_rows:
                others = others.filter(pa.array(kept))
            names, arrays = [*others.schema.names, *names], [*others.columns, *arrays]
        return pa.RecordBatch.from_arrays(arrays, names=names)


# ---- the shards of a job -----------------------------------------------------------------------


def part_name(number: int, of: int) -> str:
    """Return the name of a shard.

    >>> part_name(17, 64)
    'part-00017-of-00064'
    """
    return f"part-{number:05}-of-{of:05}"


def _line_path(folder: str, name: str) -> str:
    return storage.join(folder, PARTS, f"{name}.json")


def _finished(folder: str, name: str, format: str, digest: str) -> dict[str, Any] | None:
    """Return the line of a shard that stands, if it is the one that would be written."""
    try:
        line = json.loads(storage.read_bytes(_line_path(folder, name)))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(line, dict) or line.get("digest") != digest or not shards.shard_exists(folder, name, format):
        return None
    return line


def claim(folder: str, *, overwrite: bool = False, resume: bool = False) -> None:
    """Prepare a folder to be written: refuse a finished one, or take its manifest away first.

    Raises:
        FileExistsError: it holds encoded documents already, and neither is set; or files of somebody else.
    """
    manifest = storage.join(folder, artifacts.MANIFEST)
    finished = storage.exists(manifest)
    if finished:
        try:
            artifacts.read_manifest(folder, shards.KIND)
        except FormatError:
            raise FileExistsError(f"{folder} holds something else than encoded documents: choose another folder") from None
        if not overwrite and not resume:
            raise FileExistsError(f"{folder} already holds encoded documents; choose another folder or overwrite it (--overwrite)")
    names = [name for name in storage.list_names(folder) if not name.startswith((".", "_")) and name != "rejected"]
    for name in names:
        if PART_NAME.match(name) is None:
            raise FileExistsError(f"{folder} holds {name}, which is no part of encoded documents: choose another folder")
    if names and not finished and not (overwrite or resume or storage.list_names(storage.join(folder, PARTS))):
        raise FileExistsError(f"{folder} holds {names[0]}, which no run of ours tells of: choose another folder, or --overwrite")
    if finished and overwrite:
        storage.remove(manifest)
    storage.sweep(folder)


def publish(folder: str, lines: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]) -> None:
    """Write the manifest of a folder whose shards all stand, then remove what it does not name."""
    parts = sorted((dict(line) for line in lines), key=lambda line: line["name"])
    totals: Counter[str] = Counter()
    for part in parts:
        totals.update(part["totals"])
    artifacts.write_manifest(
        folder,
        {
            "kind": shards.KIND,
            "version": __version__,
            "parameters": parameters,
            "parameters_digest": artifacts.digest(parameters),
            "totals": dict(sorted(totals.items())),
            "parts": parts,
        },
    )
    kept = {file["name"] for part in parts for file in part["files"]}
    for name in storage.list_names(folder):
        if PART_NAME.match(name) and name not in kept:
            storage.remove(storage.join(folder, name))
    named = {f"{part['name']}.json" for part in parts}
    for name in storage.list_names(storage.join(folder, PARTS)):
        if name not in named:
            storage.remove(storage.join(folder, PARTS, name))


def read_documents(folder: str) -> Iterator[tuple[str, Encoded]]:
    """Yield (name of the shard, some of its documents) of a finished folder, shard by shard."""
    manifest = artifacts.read_manifest(folder, shards.KIND)
    for part in manifest["parts"]:
        for batch in shards.read_shard(folder, part["name"], manifest["parameters"]["format"]):
            yield part["name"], batch
