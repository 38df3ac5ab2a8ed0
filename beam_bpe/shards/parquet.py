"""Shards as one Parquet file: `ids: list<uint16 or uint32>` beside the documents' columns."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import artifacts, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.shards.encoded import RESERVED, Encoded
from beam_bpe.shards.rows import RowWriter, as_batch, read_groups
from beam_bpe.shards.writer import ShardWriter

MOST_IDS = 1 << 26  # of a row; a page holds whole rows and must stay far below 2 GiB


class ParquetShardWriter(ShardWriter):
    """Write `<name>.parquet`.

    Columns: `ids`, `chunk: int32`, `segments: list<int32>` when packed, then the documents' own. A document of more
    than most_ids ids becomes several rows with the same columns and chunk 0, 1, 2, …; chunk is 0 for whole ones.
    Memory: about 370 MB for ids of uint16 (a row group of 64 MB, and Parquet's levels and pages of it).
    """

    format = "parquet"

    def __init__(
        self,
        folder: str,
        name: str,
        header: Mapping[str, Any],
        *,
        vocab_size: int,
        row_length: int | None = None,
        most_ids: int = MOST_IDS,
    ):
        super().__init__(folder, name, header, vocab_size=vocab_size, row_length=row_length)
        if most_ids < 1:
            raise ValueError(f"most_ids={most_ids}: must be at least 1")
        self._most = most_ids
        self._rows = RowWriter(self._files.open(self.names_of(name)[-1]), self.header)

    @staticmethod
    def names_of(name: str) -> Sequence[str]:
        return [f"{name}.parquet"]

    def _fields(self) -> pa.Schema:
        lists = [("ids", pa.from_numpy_dtype(self.dtype)), *([("segments", pa.int32())] if self._segments else [])]
        fields = [
            pa.field(name, pa.list_(pa.field("element", kind, nullable=False)), nullable=False) for name, kind in lists
        ]
        fields.insert(1, pa.field("chunk", pa.int32(), nullable=False))
        return pa.schema([*fields, *(self._schema or [])])

    def _write(self, batch: Encoded, ids: np.ndarray, columns: pa.RecordBatch | None) -> None:
        self._rows.begin(self._fields())
        lengths, ends = batch.lengths(), batch.ends
        chunk = np.zeros(len(batch), np.int32)
        if len(batch) and int(lengths.max()) > self._most:
            rows = np.maximum(1, -(-lengths // self._most))
            document = np.repeat(np.arange(len(batch)), rows)
            first = np.cumsum(rows) - rows
            chunk = (np.arange(len(document)) - first[document]).astype(np.int32)
            ends = np.minimum(ends[document], (ends - lengths)[document] + (chunk + np.int64(1)) * self._most)
            columns = columns.take(pa.array(document)) if columns is not None else None
        arrays: list[pa.Array] = [_large_list(ids, ends), pa.array(chunk)]
        if batch.segments is not None:
            arrays.append(_large_list(batch.segments, ends))
        arrays += columns.columns if columns is not None else []
        self._rows.write(pa.RecordBatch.from_arrays(arrays, self._fields().names))

    def _finish(self) -> None:
        self._rows.begin(self._fields())
        self._rows.close()


def _large_list(values: np.ndarray, ends: np.ndarray) -> pa.Array:
    offsets = np.concatenate((np.zeros(1, np.int64), ends))
    kind = pa.large_list(pa.field("element", pa.from_numpy_dtype(values.dtype), nullable=False))
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values), type=kind)


def read_header(folder: str, name: str) -> dict[str, Any]:
    """Return the header of a shard."""
    url = storage.join(folder, *ParquetShardWriter.names_of(name))
    with artifacts.open_parquet(url) as file:
        return artifacts.read_header(url, file)


def read(folder: str, name: str) -> Iterator[Encoded]:
    """Yield the documents of a shard, a row group at a time, those of several rows in one piece again."""
    url = storage.join(folder, *ParquetShardWriter.names_of(name))
    with artifacts.open_parquet(url) as file:
        artifacts.read_header(url, file)
        missing = {"ids", "chunk"} - set(file.schema_arrow.names)
        if missing:
            raise FormatError(f"{url} has no column {', '.join(sorted(missing))}")
        held: Encoded | None = None  # until it is known whether the next row group continues its last document
        for table in read_groups(url, file):
            rows, continued = _rows_of(table)
            leading = int(np.argmin(continued)) if not continued.all() else len(rows)
            if held is None and leading:
                raise FormatError(f"{url} begins in the middle of a document")
            if held is not None and leading:
                held = _extended(held, rows, int(rows.ends[leading - 1]))
            if leading < len(rows):
                if held is not None:
                    yield held
                held = _united(rows, continued, leading)
        if held is not None:
            yield held


def _rows_of(table: pa.Table) -> tuple[Encoded, np.ndarray]:
    """Return the rows of a row group, and of each whether it continues the document before."""
    values, ends = _flat(table["ids"].chunk(0))
    segments = _flat(table["segments"].chunk(0))[0] if "segments" in table.column_names else None
    others = table.select([name for name in table.column_names if name not in RESERVED])
    columns = as_batch(others) if others.num_columns else None
    return Encoded(values, ends, columns, segments), np.asarray(table["chunk"].chunk(0)) > 0


def _flat(lists: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.asarray(lists.offsets).astype(np.int64)
    return np.asarray(lists.values)[offsets[0] : offsets[-1]], offsets[1:] - offsets[0]


def _extended(held: Encoded, rows: Encoded, stop: int) -> Encoded:
    """Append the first ids of rows to the last document held."""
    ends = held.ends.copy()
    ends[-1] += stop
    segments = None
    if held.segments is not None and rows.segments is not None:
        segments = np.concatenate((held.segments, rows.segments[:stop]))
    return Encoded(np.concatenate((held.ids, rows.ids[:stop])), ends, held.columns, segments)


def _united(rows: Encoded, continued: np.ndarray, leading: int) -> Encoded:
    """Return the documents that begin in rows."""
    if not continued.any():
        return rows
    skipped = int(rows.ends[leading - 1]) if leading else 0
    last = np.append(~continued[1:], True)
    last[:leading] = False
    columns = rows.columns.filter(pa.array(~continued)) if rows.columns is not None else None
    segments = rows.segments[skipped:] if rows.segments is not None else None
    return Encoded(rows.ids[skipped:], rows.ends[last] - skipped, columns, segments)
