"""Rows of documents in Parquet, in row groups that depend on the rows alone and not on how they came."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_bpe import artifacts, storage
from beam_bpe.artifacts import FormatError

GROUP_BYTES = 64 << 20
GROUP_ROWS = 1 << 16
NUMBERS = ("ids", "segments")  # columns in which a dictionary would cost more than it saves
LENGTH = "length"  # the only column of documents that have none


class RowWriter:
    """Write batches of rows into a Parquet file.

    A row group takes rows while they are together within group_bytes, at least one and at most group_rows; each of its
    columns is written as one array, so that pages are cut alike however the rows were batched. Memory: one row group,
    and the batches it is cut from.
    """

    def __init__(
        self, file: Any, header: Mapping[str, Any], *, group_bytes: int = GROUP_BYTES, group_rows: int = GROUP_ROWS
    ):
        self._file, self._group_bytes, self._group_rows = file, group_bytes, group_rows
        self._metadata = {artifacts.KEY: artifacts.canonical_json(header)}
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def begin(self, schema: pa.Schema) -> None:
        """Fix the schema of the file, unless it has one."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._file,
                schema.with_metadata(self._metadata),
                compression="zstd",
                use_dictionary=[name for name in schema.names if name not in NUMBERS],
                write_statistics=False,
                write_page_checksum=True,
            )

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the file's schema; large lists may stand for its lists."""
        ends = np.cumsum(sum((row_bytes(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64)))
        start, before = 0, 0
        while start < batch.num_rows:
            stop = int(np.searchsorted(ends, before + self._group_bytes - self._bytes, "right"))
            stop = min(max(stop, start + (self._rows == 0)), start + self._group_rows - self._rows)
            if stop > start:
                self._pending.append(batch.slice(start, stop - start))
                self._rows += stop - start
                self._bytes += int(ends[stop - 1]) - before
                start, before = stop, int(ends[stop - 1])
            if start < batch.num_rows:
                self._flush()

    def close(self) -> None:
        """Write the footer; the file itself stays open."""
        self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if self._rows and self._writer is not None:
            schema = self._writer.schema
            columns = []
            for i, field in enumerate(schema):
                column = pa.concat_arrays([batch.column(i) for batch in self._pending])
                columns.append(column if column.type == field.type else column.cast(field.type))
            self._pending.clear()
            self._writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=self._rows)
        self._bytes = self._rows = 0


def row_bytes(array: pa.Array) -> np.ndarray:
    """Return about how many bytes each value of an array holds, int64; a function of the values alone."""
    kind = array.type
    if pa.types.is_struct(kind):
        return sum((row_bytes(child) for child in array.flatten()), np.zeros(len(array), np.int64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = _int64(pc.list_value_length(array))
        width = _width(kind.value_type)
        if width is not None:
            return lengths * width
        sums = np.concatenate(([np.int64(0)], np.cumsum(row_bytes(array.flatten()))))
        stops = np.cumsum(lengths)
        return np.asarray(sums[stops] - sums[stops - lengths])
    if kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        return _int64(pc.binary_length(array))
    return np.full(len(array), _width(kind) or 8, np.int64)


def _int64(numbers: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(numbers, 0)).astype(np.int64)


def _width(kind: pa.DataType) -> int | None:
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:  # not of a fixed width
        return None


def read_groups(url: str, file: pq.ParquetFile) -> Iterator[pa.Table]:
    """Yield the row groups of a file in order, each column in one piece."""
    for group in range(file.num_row_groups):
        try:
            yield file.read_row_group(group).combine_chunks()
        except artifacts.BROKEN as error:
            raise FormatError(f"row group {group} of {url} is broken: {error}") from None


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table with one piece a column as a batch."""
    arrays = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema.remove_metadata())


# ---- the columns of documents whose ids stand in other files ----


class ColumnsWriter:
    """Write `<name>.documents.parquet`: the documents' columns, or their lengths when they have none."""

    def __init__(self, file: Any, header: Mapping[str, Any]):
        self._file, self._header = file, header
        self._rows: RowWriter | None = None

    def write(self, lengths: np.ndarray, columns: pa.RecordBatch | None) -> None:
        """Append documents."""
        names = columns.schema.names if columns is not None else []
        batch = columns
        if batch is None:
            batch = pa.RecordBatch.from_arrays([pa.array(lengths, pa.int64())], [LENGTH])
        if self._rows is None:
            self._rows = RowWriter(self._file, {**self._header, "columns": names})
            self._rows.begin(batch.schema)
        self._rows.write(batch)

    def close(self) -> None:
        """Write the footer; the file itself stays open."""
        if self._rows is None:
            self.write(np.empty(0, np.int64), None)
        if self._rows is not None:
            self._rows.close()


def read_columns(url: str) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Yield (number of documents, their columns or None) for some documents at a time, in order."""
    with artifacts.open_parquet(url) as file:
        own = not artifacts.read_header(url, file).get("columns")
        for table in read_groups(url, file):
            yield table.num_rows, None if own else as_batch(table)


def read_header(folder: str, name: str) -> dict[str, Any]:
    """Return the header of a Parquet file."""
    url = storage.join(folder, name)
    with artifacts.open_parquet(url) as file:
        return artifacts.read_header(url, file)
