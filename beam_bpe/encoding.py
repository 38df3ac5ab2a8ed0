"""Encode a range of a source into one shard, and make the shards of a job an artifact.

A shard is whole or absent; a line about it (`_parts/<name>.json`) is written behind it, and the manifest
behind all of them.  So a job that was killed leaves whole shards, and a second one may skip those.  A range
without any row has a line, but no files.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from beam_bpe import __version__, artifacts, progress, shards, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.cutting import WordRule
from beam_bpe.documents import DocumentBatch, InputError, Reading, SourceRange
from beam_bpe.packing import Packer, Packing, Wrapping
from beam_bpe.reading import read_range
from beam_bpe.rejected import DeadLetters, letter_names
from beam_bpe.shards import Encoded
from beam_bpe.tokenizer import SPECIAL_POLICIES, Batch, Tokenizer

#: Columns of an encoded document that say where it stands: the file, and its row or its first byte.
SOURCE, ROW, OFFSET = "source_file", "source_row", "source_offset"
OWN_COLUMNS = (SOURCE, ROW, OFFSET)
PARTS = "_parts"
JOB = "_job.json"  # in PARTS: the folder is ours, though no shard stands in it yet
REJECTED = "rejected"  # folder in the output for dead letters, unless another is given
STEPS = ("rejected", "unencoded")  # who sets documents aside: the reading, the encoding
PART_FILE = re.compile(
    r"part-\d{5,}-of-\d{5,}\.(?:parquet|bin|idx|npy|json|offsets\.npy|segments\.npy|documents\.parquet)"
)
LETTER_FILE = re.compile(rf"(?:{'|'.join(STEPS)})-[0-9a-f]{{16}}\.jsonl")
#: A document read in pieces is put together in memory up to this many ids.
MOST_IDS = 1 << 28
#: What tells that a file was changed, in the words of the stores of fsspec; the first that one knows is taken.
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "modified")


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
        if self.packing is not None and self.format == "npy" and self.packing.remainder == "keep":
            raise ValueError("format='npy' has rows of one length only: choose remainder='pad' or 'drop', or format='parquet'")
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

    def check(self, tokenizer: Tokenizer, reading: Reading) -> None:
        """Refuse what would only fail once documents are encoded.

        Raises:
            KeyError: bos, eos or padding is none of the vocabulary's.
            ValueError: two arguments contradict each other.
        """
        self.wrapping(tokenizer)
        if self.packing is not None:
            if self.packing.pad_id is not None:
                tokenizer.token_bytes(self.packing.pad_id)
            if reading.keep:
                raise ValueError(f"keep={list(reading.keep)}: a packed row holds several documents and has no columns of one")
        if len(set(reading.keep or ())) < len(reading.keep or ()):
            raise ValueError(f"keep={list(reading.keep or ())}: a name stands twice")
        own = sorted({*OWN_COLUMNS, *shards.RESERVED} & set(reading.keep or ()))
        if own:
            raise ValueError(f"keep={own}: the output has columns of its own of that name")

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
    rule = WordRule(vocabulary.pre_tokenizer, tuple(token.text for token in added), vocabulary.normalizer)
    return Reading(
        cut_by=(rule,) if may_be_cut else (),
        whole=True,
        places=True,
        **options,
    )


def encode_range(
    source: SourceRange, reading: Reading, tokenizer: Tokenizer, encoding: Encoding, folder: str, name: str, *, resume: bool = False
) -> dict[str, Any]:
    """Encode the documents of a range into the shard `name` and return its line of the manifest.

    Args:
        resume: return the line of the shard that stands already, if it is of these parameters and of the
            source as it is now (its size, and when or as what it was stored); the line then has "resumed".

    Raises:
        InputError: a document cannot be read or encoded, and `reading.errors` is not "skip".
    """
    parameters = encoding.parameters(tokenizer, reading)
    digest = artifacts.digest([parameters, list(source), _version(source.url)])
    if resume and (line := _finished(folder, name, digest)):
        return {**line, "resumed": True}
    # First: if this run is killed, no older line must speak for the shard that it may have written.
    storage.remove(_line_path(folder, name))
    header = {"parameters": parameters, "source": source._asdict()}
    row_length = encoding.packing.length if encoding.packing else None
    run = _Run(source, reading, tokenizer, encoding)
    with run.letters, ExitStack() as stack:
        writer = None
        for rows in run.rows():
            if not len(rows):
                continue
            if writer is None:
                writer = stack.enter_context(
                    shards.open_writer(
                        encoding.format, folder, name, header, vocab_size=tokenizer.vocab_size, row_length=row_length
                    )
                )
            writer.write(rows)
    line = {
        **(writer.close() if writer is not None else {"name": name, "files": [], "rows": 0, "tokens": 0}),
        "source": source._asdict(),
        "totals": run.finished_totals(),
    }
    text = artifacts.canonical_json({**line, "digest": digest})
    storage.write_bytes(_line_path(folder, name), text.encode() + b"\n")
    return line


class _Pieces:
    """A document that is read in pieces, while they are put together."""

    def __init__(self, first: DocumentBatch):
        self.first = first
        self.ids: list[np.ndarray] = []
        self.bytes = self.held = 0
        self.failure: str | None = None


class _Run:
    """One range while it is encoded."""

    def __init__(self, source: SourceRange, reading: Reading, tokenizer: Tokenizer, encoding: Encoding):
        self.source, self.tokenizer, self.encoding = source, tokenizer, encoding
        # Rows of several documents have no columns of one.
        self.reading = replace(reading, keep=()) if encoding.packing else reading
        self.letters = DeadLetters(reading.dead_letters, source.url, source.start, STEPS[1])
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
        pieces: _Pieces | None = None
        for batch in read_range(self.source, self.reading):
            self.totals.update(batch.totals)
            progress.add(bytes=batch.totals.get("bytes", 0), documents=batch.totals.get("documents", 0))
            if not len(batch.bounds):
                continue
            if not (batch.split or batch.continues or batch.cut_by):
                yield self._encoded(batch)
                continue
            if pieces is None:
                pieces = _Pieces(batch)
            self._add_piece(pieces, batch)
        if pieces is None:
            return
        if pieces.failure is not None:
            self.letters.add(pieces.failure, **self._place(pieces.first, 0))
            return
        ids = np.concatenate(pieces.ids)
        yield Encoded(ids, np.array([len(ids)], np.int64), self._columns(pieces.first, np.ones(1, bool)))

    def _add_piece(self, pieces: _Pieces, batch: DocumentBatch) -> None:
        start, (first, last) = pieces.bytes, batch.bounds.tolist()
        pieces.bytes += last - first
        limit = self.encoding.max_document_bytes
        if limit is not None and pieces.bytes > limit:  # what is left is read, so that its bytes are counted
            if self.totals["overlong_documents"] == 0:
                self.totals["overlong_documents"] = 1
                self.totals["failed_documents"] = 0
            pieces.failure, pieces.ids = _over_long(pieces.bytes, limit), []
        if pieces.failure is not None or (self._most is not None and pieces.held >= self._most):
            return
        try:
            found = self._ids_of(batch.data, batch.bounds)
        except ValueError as error:
            pieces.failure = self._failed({"offset": start}, error) + (f" of the piece from byte {start:,} on" if start else "")
            pieces.ids = []
            return
        self._tell(found)
        pieces.ids.append(found.ids)
        pieces.held += len(found.ids)
        if pieces.held > MOST_IDS:
            raise InputError(
                f"{self.source.url} is one document of more than {MOST_IDS:,} tokens: choose documents='line', "
                "'paragraph' or 'separator', or keep the first of them (most)"
            )

    def _encoded(self, batch: DocumentBatch) -> Encoded:
        bounds = batch.bounds
        kept = np.ones(len(bounds) // 2, bool)
        limit = self.encoding.max_document_bytes
        if limit is not None:
            lengths = bounds[1::2] - bounds[::2]
            for document in np.flatnonzero(lengths > limit).tolist():
                reason = _over_long(int(lengths[document]), limit)
                self.letters.add(reason, self._bytes(batch, document), **self._place(batch, document))
                self.totals["overlong_documents"] += 1
                kept[document] = False
            bounds = bounds.reshape(-1, 2)[kept].ravel()
        try:
            found = self._ids_of(batch.data, bounds)
        except ValueError:
            found = self._one_by_one(batch, kept)
        self._tell(found)
        return Encoded(found.ids, found.ends, self._columns(batch, kept))

    def _tell(self, found: Batch) -> None:
        self.totals["special_tokens"] += found.special
        self.totals["unknown_tokens"] += found.unknown
        self.totals["overlong_words"] += found.overlong

    def _ids_of(self, data: Any, bounds: np.ndarray) -> Batch:
        return self.tokenizer.encode_documents(
            data, bounds, special=self.encoding.special, most=self._most, width=self._width
        )

    def _one_by_one(self, batch: DocumentBatch, kept: np.ndarray) -> Batch:
        """Encode each document of a batch in which some fail: those are set aside, or fail the job."""
        found: list[Batch] = []
        for document in np.flatnonzero(kept).tolist():
            data = self._bytes(batch, document)
            try:
                found.append(self._ids_of(data, np.array([0, len(data)], np.int64)))
            except ValueError as error:
                place = self._place(batch, document)
                self.letters.add(self._failed(place, error), data, **place)
                kept[document] = False
        ids = np.concatenate([one.ids for one in found]) if found else np.empty(0, f"u{self._width}")
        ends = np.cumsum([len(one.ids) for one in found], dtype=np.int64)
        return Batch(ids, ends, *(sum(numbers) for numbers in zip(*((one.special, one.unknown, one.overlong) for one in found))))

    def _failed(self, place: Mapping[str, int], error: ValueError) -> str:
        """Return why a document cannot be encoded, which fails the job unless errors="skip"."""
        reason = str(error).replace("document 0 ", "the document ", 1)  # the only one of its call
        if self.reading.errors != "skip":
            where = ", ".join(f"{name} {number:,}" for name, number in place.items())
            raise InputError(f"{self.source.url}, {where}: {reason} (errors='skip' sets the document aside)") from None
        self.totals["failed_documents"] += 1
        return reason

    @staticmethod
    def _bytes(batch: DocumentBatch, document: int) -> bytes:
        start, end = batch.bounds[2 * document : 2 * document + 2].tolist()
        return bytes(memoryview(batch.data)[start:end])

    def _is_table(self) -> bool:
        return self.source.format in ("parquet", "arrow")

    def _place(self, batch: DocumentBatch, document: int) -> dict[str, Any]:
        assert batch.places is not None
        return {"row" if self._is_table() else "offset": int(batch.places[document])}

    def _columns(self, batch: DocumentBatch, kept: np.ndarray) -> pa.RecordBatch | None:
        if self._packer is not None:
            return None
        assert batch.places is not None
        names: list[str] = []
        arrays: list[pa.Array] = []
        if batch.columns is not None and batch.columns.num_columns:
            names, arrays = batch.columns.schema.names, [_plain(column) for column in batch.columns.columns]
            if not kept.all():
                arrays = [array.filter(pa.array(kept)) for array in arrays]
            if taken := sorted({*OWN_COLUMNS, *shards.RESERVED} & set(names)):
                raise InputError(
                    f"{self.source.url} has the column {', '.join(map(repr, taken))}, which the output has of its own: name the "
                    "columns to keep (keep=[…]) without it, or rename it"
                )
        places = pa.array(batch.places[kept], pa.int64())
        arrays = [*arrays, pa.repeat(pa.scalar(self.source.url), len(places)), places]
        return pa.RecordBatch.from_arrays(arrays, names=[*names, SOURCE, ROW if self._is_table() else OFFSET])


def _plain(column: pa.Array) -> pa.Array:
    """Return a column in a type that pyarrow can filter and read back.

    It does not filter views, and writes lists of fixed size that are null, but does not read them.
    """
    kind = column.type
    if kind in (pa.string_view(), pa.binary_view()):
        return column.cast(pa.large_string() if kind == pa.string_view() else pa.large_binary())
    if pa.types.is_fixed_size_list(kind):
        return column.cast(pa.list_(kind.value_field))
    return column


def _over_long(length: int, limit: int) -> str:
    return f"{length:,} bytes, more than {limit:,}"


# ---- the shards of a job -----------------------------------------------------------------------


def part_name(number: int, of: int) -> str:
    """Return the name of a shard.

    >>> part_name(17, 64)
    'part-00017-of-00064'
    """
    return f"part-{number:05}-of-{of:05}"


def _line_path(folder: str, name: str) -> str:
    return storage.join(folder, PARTS, f"{name}.json")


def _stat(url: str) -> tuple[int, str] | None:
    """Return the size of a file, and what tells that it was changed; None if it is not there."""
    store, path = storage.locate(url)
    try:
        with storage.naming(url):
            if store is None:
                status = os.stat(path)
                return status.st_size, str(status.st_mtime_ns)
            info = store.info(path)
    except FileNotFoundError:
        return None
    told = next((str(info[name]) for name in _VERSIONS if info.get(name) is not None), "")
    return int(info.get("size") or 0), told


def _version(url: str) -> list[Any]:
    return list(_stat(url) or ())  # what is not there is said by who reads it


def _finished(folder: str, name: str, digest: str) -> dict[str, Any] | None:
    """Return the line of a shard that stands, if it is the one that would be written."""
    try:
        line = json.loads(storage.read_bytes(_line_path(folder, name)))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(line, dict) or line.pop("digest", None) != digest:
        return None
    for file in line["files"]:
        found = _stat(storage.join(folder, file["name"]))
        if found is None or found[0] != file["bytes"]:
            return None
    return line


def claim(folder: str, parameters: Mapping[str, Any] | None = None, *, overwrite: bool = False, resume: bool = False) -> None:
    """Prepare a folder to be written: mark it as ours, and take the manifest of a finished one away.

    Args:
        parameters: of the run; needed to resume a finished one.

    Raises:
        FileExistsError: it holds files of somebody else; or encoded documents already, and neither is set, or they
            were encoded in another way and are not to be overwritten.
    """
    manifest = storage.join(folder, artifacts.MANIFEST)
    finished = storage.exists(manifest)
    if finished:
        try:
            found = artifacts.read_manifest(folder, shards.KIND)["parameters"]
        except FormatError:
            raise FileExistsError(f"{folder} holds something else than encoded documents: choose another folder") from None
        if not overwrite and not resume:
            raise FileExistsError(f"{folder} already holds encoded documents; choose another folder or overwrite it (--overwrite)")
        given = json.loads(artifacts.canonical_json(parameters or {}))
        if not overwrite and (other := sorted(k for k in {*found, *given} if found.get(k) != given.get(k))):
            told = "; ".join(f"{name} is {_short(found.get(name))} there and {_short(given.get(name))} here" for name in other)
            raise FileExistsError(f"{folder} holds documents that were encoded in another way ({told}): overwrite it (--overwrite)")
    elif not storage.list_names(storage.join(folder, PARTS)):
        for name in storage.list_names(folder):
            if not name.startswith((".", "_")) and name != REJECTED:
                raise FileExistsError(f"{folder} holds {name}, which is not of ours: choose another folder")
    storage.write_bytes(storage.join(folder, PARTS, JOB), b"{}\n")
    if finished:
        storage.remove(manifest)
    _sweep(folder)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:40] + "…"


def publish(folder: str, lines: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]) -> None:
    """Write the manifest of a folder whose shards all stand, then remove what it does not name."""
    parts = sorted(({k: v for k, v in line.items() if k != "resumed"} for line in lines), key=lambda line: line["name"])
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
    _keep_only(folder, PART_FILE, kept)
    _keep_only(storage.join(folder, PARTS), re.compile(r".*\.json"), {f"{part['name']}.json" for part in parts})
    sources = [part["source"] for part in parts if "source" in part]
    letters = {name for source in sources for name in letter_names(source["url"], source["start"], STEPS)}
    _keep_only(storage.join(folder, REJECTED), LETTER_FILE, letters)
    _sweep(folder)  # what killed workers of this run left


def _sweep(folder: str) -> None:
    for each in (folder, storage.join(folder, PARTS), storage.join(folder, REJECTED)):
        storage.sweep(each)


def _keep_only(folder: str, ours: re.Pattern[str], kept: set[str]) -> None:
    """Remove the files whose names are of ours and that nobody keeps."""
    for name in storage.list_names(folder):
        if ours.fullmatch(name) and name not in kept:
            storage.remove(storage.join(folder, name))


def read_documents(folder: str) -> Iterator[tuple[str, Encoded]]:
    """Yield (name of the shard, some of its documents) of a finished folder, shard by shard."""
    manifest = artifacts.read_manifest(folder, shards.KIND)
    for part in manifest["parts"]:
        if part["files"]:
            for batch in shards.read_shard(folder, part["name"], manifest["parameters"]["format"]):
                yield part["name"], batch
