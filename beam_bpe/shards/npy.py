"""Shards as NumPy arrays, to be mapped with `np.load(path, mmap_mode="r")`."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.shards import rows
from beam_bpe.shards.encoded import Encoded, dtype_for
from beam_bpe.shards.flat import NumberStream, pieces
from beam_bpe.shards.publishing import PendingFile
from beam_bpe.shards.writer import ShardWriter

BLOCK = 1 << 20  # bytes copied at a time


class NpyShardWriter(ShardWriter):
    """Write `<name>.npy`, `<name>.documents.parquet` (the columns), and last `<name>.json` (the header).

    Whole documents: the array is flat, and `<name>.offsets.npy` holds int64 offsets, one more than documents. Packed
    rows: the array is (rows, row_length) and needs no offsets; `<name>.segments.npy` is alike, if there are segments.
    An array's length stands before it, so arrays are gathered in unnamed files of the temporary folder (`TMPDIR`, as
    large as the shard) and copied when the last document is there.
    """

    format = "npy"

    def __init__(
        self,
        folder: str,
        name: str,
        header: Mapping[str, Any],
        *,
        vocab_size: int,
        row_length: int | None = None,
    ):
        super().__init__(folder, name, header, vocab_size=vocab_size, row_length=row_length)
        self._ids = _Gathered(self.dtype)
        self._offsets = _Gathered(np.dtype("<i8"))
        self._row_segments = _Gathered(np.dtype("<i4"))
        self._columns = rows.ColumnsWriter(self._files.open(self.names_of(name)[3]), self.header)
        if row_length is None:
            self._offsets.append(np.zeros(1, np.int64))

    @staticmethod
    def names_of(name: str) -> Sequence[str]:
        kinds = ("npy", "offsets.npy", "segments.npy", "documents.parquet", "json")
        return [f"{name}.{kind}" for kind in kinds]

    @staticmethod
    def dtype_of(vocab_size: int) -> np.dtype:
        return dtype_for(vocab_size).newbyteorder("<")

    def _write(self, batch: Encoded, ids: np.ndarray, columns: pa.RecordBatch | None) -> None:
        lengths = batch.lengths()
        if self.row_length is None:
            if batch.segments is not None:
                raise ValueError("segments belong to packed rows: say their row_length when the shard is opened")
            self._offsets.append(batch.ends + self.tokens)
        elif len(batch) and int(lengths.min()) < self.row_length:
            raise ValueError(
                f"a row has {lengths.min()} ids; those of an array have row_length={self.row_length}: pack with "
                "remainder='pad' or 'drop', or write parquet"
            )
        self._ids.append(ids)
        if batch.segments is not None:
            self._row_segments.append(batch.segments)
        self._columns.write(lengths, columns)

    def _finish(self) -> None:
        self._columns.close()
        name, offsets, segments, _, deciding = self.names_of(self.name)
        shape = (self.tokens,) if self.row_length is None else (self.rows, self.row_length)
        self._ids.copy(self._files.open(name), shape)
        if self.row_length is None:
            self._offsets.copy(self._files.open(offsets), (self.rows + 1,))
        elif self._segments:
            self._row_segments.copy(self._files.open(segments), shape)
        told = {**self.header, "rows": self.rows, "tokens": self.tokens, "files": self._files.lines()}
        text = json.dumps(told, sort_keys=True, indent=1, ensure_ascii=True) + "\n"
        self._files.open(deciding).write(text.encode())

    def _release(self) -> None:
        for gathered in (self._ids, self._offsets, self._row_segments):
            gathered.close()


class _Gathered:
    """Numbers kept in a file without a name until they are all there."""

    def __init__(self, dtype: np.dtype):
        self._dtype, self._file = dtype, tempfile.TemporaryFile(prefix="beam_bpe-")

    def append(self, numbers: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(numbers, self._dtype).data.cast("B") if len(numbers) else b"")

    def copy(self, target: PendingFile, shape: tuple[int, ...]) -> None:
        """Write them as an array of that shape."""
        described = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(target, described)
        self._file.seek(0)
        while block := self._file.read(BLOCK):
            target.write(block)

    def close(self) -> None:
        self._file.close()


def read_header(folder: str, name: str) -> dict[str, Any]:
    """Return the header of a whole shard."""
    url = storage.join(folder, NpyShardWriter.names_of(name)[-1])
    try:
        header = json.loads(storage.read_bytes(url))
    except ValueError as error:
        raise FormatError(f"{url} is not JSON: {error}") from None
    if not isinstance(header, dict) or not {"rows", "tokens", "files", "row_length"} <= header.keys():
        raise FormatError(f"{url} is not the header of a shard")
    return header


def read(folder: str, name: str) -> Iterator[Encoded]:
    """Yield the documents or packed rows of a shard."""
    header = read_header(folder, name)
    ids_url, offsets_url, segments_url, columns_url, url = (
        storage.join(folder, each) for each in NpyShardWriter.names_of(name)
    )
    row_length, documents = header["row_length"], 0
    with ExitStack() as stack:
        ids = stack.enter_context(_array(ids_url, "<u2", "<u4"))
        offsets = stack.enter_context(_array(offsets_url, "<i8")) if row_length is None else None
        segments = None
        if any(file["name"] == segments_url.rpartition("/")[2] for file in header["files"]):
            segments = stack.enter_context(_array(segments_url, "<i4"))
        last = offsets.take(1) if offsets is not None else np.zeros(1, np.int64)
        for count, columns in rows.read_columns(columns_url):
            if offsets is not None:
                marks = np.concatenate((last, offsets.take(count)))
                lengths, last = np.diff(marks), marks[-1:]
                if (lengths < 0).any():
                    raise FormatError(f"{offsets_url} descends within the documents from {documents}")
            else:
                lengths = np.full(count, row_length, np.int64)
            yield from pieces(ids, lengths, columns, segments)
            documents += count
        if documents != header["rows"]:
            raise FormatError(f"{columns_url} has {documents} documents, {url} says {header['rows']}")
        for stream in (ids, offsets, segments):
            if stream is not None:
                stream.check_end()


def _array(url: str, *allowed: str) -> NumberStream:
    """Open an array of one of the types allowed, behind its head."""
    file = storage.open_read(url, compression=None)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("not of version 1.0")
        _, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if fortran or dtype.str not in allowed:
            raise ValueError(f"its numbers are {dtype}")
    except ValueError as error:
        file.close()
        raise FormatError(f"{url} is not an array of a shard: {error}") from None
    return NumberStream(url, dtype, file)
