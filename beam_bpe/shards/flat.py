"""Ids in a flat file of their own, read as a stream."""

from __future__ import annotations

from types import TracebackType
from typing import Any, BinaryIO, Iterator

import numpy as np
import pyarrow as pa

from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.shards.encoded import Encoded

PIECE = 64 << 20  # bytes of ids read at a time, unless one document is larger


class NumberStream:
    """Numbers of one type that follow each other in a file, from where it stands to its end."""

    def __init__(self, url: str, dtype: np.dtype, file: BinaryIO | None = None):
        self.url, self.dtype = url, dtype
        self._file = file if file is not None else storage.open_read(url, compression=None)

    def take(self, count: int) -> np.ndarray:
        """Return the next numbers; FormatError when the file ends before."""
        size = count * self.dtype.itemsize
        data = self._file.read(size)
        if len(data) < size:
            raise FormatError(f"{self.url} is too short: {size - len(data)} bytes are missing where it ends")
        return np.frombuffer(data, self.dtype)

    def check_end(self) -> None:
        """Raise FormatError unless every number was taken."""
        if self._file.read(1):
            raise FormatError(f"{self.url} holds more than its shard says")

    def __enter__(self) -> NumberStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def pieces(
    ids: NumberStream, lengths: np.ndarray, columns: pa.RecordBatch | None, segments: NumberStream | None = None
) -> Iterator[Encoded]:
    """Yield the next documents of a stream, given the number of ids of each, in pieces of bounded size."""
    ends = np.cumsum(lengths)
    start, before = 0, 0
    kind: Any = np.uint16 if ids.dtype.itemsize == 2 else np.uint32
    while start < len(lengths):
        stop = max(start + 1, int(np.searchsorted(ends, before + PIECE // ids.dtype.itemsize, "right")))
        count = int(ends[stop - 1]) - before
        yield Encoded(
            ids.take(count).astype(kind, copy=False),
            ends[start:stop] - before,
            columns.slice(start, stop - start) if columns is not None else None,
            segments.take(count).astype(np.int32, copy=False) if segments is not None else None,
        )
        start, before = stop, int(ends[stop - 1])
