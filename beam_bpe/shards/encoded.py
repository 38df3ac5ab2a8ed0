"""Batches of encoded documents, and the width of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import pyarrow as pa

KIND = "encoded"  # in the header of every shard
RESERVED = ("ids", "segments", "chunk")  # columns that a shard may have of its own


@dataclass(frozen=True, eq=False)
class Encoded:
    """A batch of n encoded documents (or of packed rows), end to end in flat arrays.

    Args:
        ids: uint16 or uint32; those of document d are `ids[ends[d - 1]:ends[d]]`, of the first `ids[:ends[0]]`.
        ends: int64, n, not descending; the last is `len(ids)`.
        columns: n rows, provenance and the documents' other columns, or None.
        segments: int32, one for each id when packed: which document of its row it belongs to, from 1; 0 is padding.

    Raises:
        TypeError, ValueError: the arrays are of other types or do not fit each other.

    >>> batch = Encoded(np.array([5, 6, 7], np.uint16), np.array([2, 2, 3], np.int64), None)
    >>> len(batch), batch.lengths().tolist()
    (3, [2, 0, 1])
    """

    ids: np.ndarray
    ends: np.ndarray
    columns: pa.RecordBatch | None
    segments: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, array, allowed in (
            ("ids", self.ids, (np.uint16, np.uint32)),
            ("ends", self.ends, (np.int64,)),
            ("segments", self.segments, (np.int32,)),
        ):
            if array is None and name == "segments":
                continue
            if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in allowed:
                told = f"an array of {array.dtype}, {array.ndim}-D" if isinstance(array, np.ndarray) else repr(array)
                raise TypeError(f"{name} must be a flat array of {' or '.join(t.__name__ for t in allowed)}, not {told}")
        held = int(self.ends[-1]) if len(self.ends) else 0
        if held != len(self.ids):
            raise ValueError(f"the documents end at {held}, but there are {len(self.ids)} ids")
        if len(self.ends) and (self.ends[0] < 0 or (self.ends[1:] < self.ends[:-1]).any()):
            raise ValueError("ends must not be negative and must not descend")
        if self.segments is not None and len(self.segments) != len(self.ids):
            raise ValueError(f"there are {len(self.segments)} segments for {len(self.ids)} ids")
        if self.columns is not None and self.columns.num_columns and self.columns.num_rows != len(self.ends):
            raise ValueError(f"the columns have {self.columns.num_rows} rows, but there are {len(self.ends)} documents")

    def __len__(self) -> int:
        return len(self.ends)

    def lengths(self) -> np.ndarray:
        """Return the number of ids of each document, int64."""
        return np.diff(self.ends, prepend=np.int64(0))


def dtype_for(vocab_size: int) -> np.dtype:
    """Return the narrowest type of ids: uint16 up to 65,536 of them, else uint32.

    >>> dtype_for(65_536), dtype_for(65_537)
    (dtype('uint16'), dtype('uint32'))
    """
    if not isinstance(vocab_size, Integral) or isinstance(vocab_size, bool):
        raise TypeError(f"vocab_size is a whole number, not {vocab_size!r}")
    if not 1 <= vocab_size <= 1 << 32:
        raise ValueError(f"vocab_size={vocab_size}: must lie between 1 and 2**32")
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
