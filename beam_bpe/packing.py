"""What training wants of encoded documents: marks around them, and rows of one length.

`Wrapping` shortens documents and puts marks before and behind them; `Packer` lays them end to end and cuts rows.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe.shards.encoded import Encoded

REMAINDERS = ("drop", "pad", "keep")
MOST_LENGTH = 2**31 - 1
PADDING = -1  # in place of the index of a document


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: must be a whole number")
    if not least <= value <= most:
        raise ValueError(f"{name}={value}: must lie between {least} and {most}")
    return int(value)


def _check_fits(name: str, ids: Sequence[int], dtype: np.dtype) -> None:
    if ids and max(ids) > np.iinfo(dtype).max:
        raise ValueError(f"{name} {max(ids)} does not fit into ids of {dtype}")


# ---- marks ----


@dataclass(frozen=True)
class Wrapping:
    """Ids put before and behind each document, and the most ids that a document may have with them.

    Args:
        bos: ids before each document, also an empty one.
        eos: ids behind it; they stay when the document is cut.
        most: ids of a document in all, bos and eos included; what is more is cut off its end. None: no limit.

    >>> wrapping = Wrapping([1], [2], most=4)
    >>> wrapping.apply(np.array([7, 7, 7, 8], np.uint16), np.array([3, 4], np.int64))
    (array([1, 7, 7, 2, 1, 8, 2], dtype=uint16), array([4, 7]))
    >>> wrapping.cut(np.array([3, 4], np.int64))
    {'cut_documents': 1, 'cut_tokens': 1}
    """

    bos: Sequence[int] = ()
    eos: Sequence[int] = ()
    most: int | None = None

    def __post_init__(self) -> None:
        for name in ("bos", "eos"):
            given = getattr(self, name)
            if isinstance(given, (str, bytes, int, np.integer)):
                raise TypeError(f"{name}={given!r}: must be a sequence of ids")
            object.__setattr__(self, name, tuple(_whole(f"an id of {name}", each, 0, 2**32 - 1) for each in given))
        marks = len(self.bos) + len(self.eos)
        if self.most is not None and _whole("most", self.most, 1, 2**63 - 1) <= marks:
            raise ValueError(f"most={self.most}: must be more than the {marks} ids of bos and eos")

    def _kept(self, lengths: np.ndarray) -> np.ndarray:
        if self.most is None:
            return lengths
        kept: np.ndarray = np.minimum(lengths, self.most - len(self.bos) - len(self.eos))
        return kept

    def cut(self, ends: np.ndarray) -> dict[str, int]:
        """Return how many documents `apply` shortens, and by how many ids, given their ends before."""
        lengths = np.diff(ends, prepend=np.int64(0))
        lost = lengths - self._kept(lengths)
        return {"cut_documents": int(np.count_nonzero(lost)), "cut_tokens": int(lost.sum())}

    def apply(self, ids: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (ids, ends) of the documents, shortened and wrapped, in the type of the ids given.

        Raises:
            ValueError: an id of bos or eos does not fit that type.
        """
        _check_fits("an id of bos", self.bos, ids.dtype)
        _check_fits("an id of eos", self.eos, ids.dtype)
        before, behind = len(self.bos), len(self.eos)
        lengths = np.diff(ends, prepend=np.int64(0))
        kept = self._kept(lengths)
        if (kept < lengths).any():
            ids = ids[np.repeat(np.tile([True, False], len(kept)), np.stack((kept, lengths - kept), 1).ravel())]
        if not before + behind:
            return ids, np.cumsum(kept)
        stops = np.cumsum(kept + (before + behind))
        wrapped = np.empty(int(stops[-1]) if len(stops) else 0, ids.dtype)
        body = np.ones(len(wrapped), bool)
        for place, marks in ((stops - kept - (before + behind), self.bos), (stops - behind, self.eos)):
            for i, mark in enumerate(marks):
                wrapped[place + i] = mark
                body[place + i] = False
        wrapped[body] = ids
        return wrapped, stops


# ---- rows ----


@dataclass(frozen=True)
class Packing:
    """How documents are laid into rows.

    Args:
        length: ids of a row.
        remainder: what becomes of the last row when it is not full: `drop` it, `pad` it, or `keep` it short.
        pad_id: the id of padding, for `pad`.
        split: cut documents wherever a row ends. Else a document that fits into a row is never cut: it begins a new row
            when it does not fit the rest of this one, which is padded; a longer one begins where the row stands and is
            cut. This needs `pad`.
        segments: tell which document of its row each id belongs to.

    Raises:
        TypeError, ValueError: an argument is not allowed, or they contradict each other.

    >>> Packing(8, "crop", None)
    Traceback (most recent call last):
        ...
    ValueError: remainder='crop': must be one of drop, pad, keep
    """

    length: int
    remainder: str
    pad_id: int | None = None
    split: bool = True
    segments: bool = True

    def __post_init__(self) -> None:
        _whole("length", self.length, 1, MOST_LENGTH)
        if self.remainder not in REMAINDERS:
            raise ValueError(f"remainder={self.remainder!r}: must be one of {', '.join(REMAINDERS)}")
        if self.pad_id is not None:
            _whole("pad_id", self.pad_id, 0, 2**32 - 1)
        elif self.remainder == "pad":
            raise ValueError("pad_id=None: remainder='pad' needs the id of padding")
        if not self.split and self.remainder != "pad":
            raise ValueError(f"split=False pads rows: it needs remainder='pad' and a pad_id, not {self.remainder!r}")


@dataclass
class _Runs:
    """Ids end to end, as runs of one document or of padding each; no run is empty."""

    ids: np.ndarray
    documents: np.ndarray  # int64, index in the shard, or PADDING
    ends: np.ndarray  # int64


class Packer:
    """Lay the documents of one shard end to end, and cut rows of one length.

    Rows come as `Encoded`: their `segments` count the documents that have ids in a row from 1, and are 0 at padding
    (None when the packing does without); their columns are `first_document: int64`, the index in the shard of the
    document to which the first id of the row belongs, and `documents: int32`, how many have ids in the row. Empty
    documents have an index but no id, so they are in no row. The documents' own columns are left behind.

    >>> packer = Packer(Packing(4, "pad", pad_id=0))
    >>> rows = packer.push(Encoded(np.array([5, 5, 5, 6, 6, 7], np.uint16), np.array([3, 5, 6], np.int64), None))
    >>> rows.ids.tolist(), rows.segments.tolist()
    ([5, 5, 5, 6], [1, 1, 1, 2])
    >>> rows = packer.flush()
    >>> rows.ids.tolist(), rows.segments.tolist(), rows.columns.to_pylist()
    ([6, 7, 0, 0], [1, 2, 0, 0], [{'first_document': 1, 'documents': 2}])
    >>> packer.totals
    {'rows': 2, 'documents': 3, 'dropped_tokens': 0, 'padding_tokens': 2}
    """

    def __init__(self, packing: Packing):
        self.packing = packing
        self.rows = self.documents = self.dropped_tokens = self.padding_tokens = 0
        self._begun = _Runs(np.empty(0, np.uint16), np.empty(0, np.int64), np.empty(0, np.int64))  # less than a row

    @property
    def totals(self) -> dict[str, int]:
        """Rows and documents so far, ids dropped at the end, and ids of padding."""
        names = ("rows", "documents", "dropped_tokens", "padding_tokens")
        return {name: getattr(self, name) for name in names}

    def push(self, batch: Encoded) -> Encoded | None:
        """Append documents; return the rows that they fill, or None."""
        if batch.segments is not None:
            raise ValueError("these are packed rows; documents are packed")
        if self.packing.pad_id is not None:
            _check_fits("pad_id", [self.packing.pad_id], batch.ids.dtype)
        lengths = batch.lengths()
        there = np.flatnonzero(lengths)
        runs = _Runs(batch.ids, there + self.documents, batch.ends[there])
        self.documents += len(batch)
        if not self.packing.split:
            runs = self._padded(runs, lengths[there])
        begun = self._begun
        if len(begun.ids):
            runs = _Runs(
                np.concatenate((begun.ids, runs.ids)),
                np.concatenate((begun.documents, runs.documents)),
                np.concatenate((begun.ends, runs.ends + len(begun.ids))),
            )
        return self._cut(runs, len(runs.ids) // self.packing.length)

    def flush(self) -> Encoded | None:
        """Return the last row as the remainder says, or None; the next push begins a new row."""
        runs, held = self._begun, len(self._begun.ids)
        if not held:
            return None
        self._begun = _Runs(runs.ids[:0], runs.documents[:0], runs.ends[:0])
        if self.packing.remainder == "drop":
            self.dropped_tokens += held
            return None
        if self.packing.remainder == "keep":
            self.rows += 1
            return self._laid_out(runs, np.zeros(1, np.int64), np.array([held], np.int64))
        lacking = self.packing.length - held
        self.padding_tokens += lacking
        padding = np.full(lacking, self.packing.pad_id, runs.ids.dtype)
        filled = _Runs(
            np.concatenate((runs.ids, padding)),
            np.append(runs.documents, PADDING),
            np.append(runs.ends, self.packing.length),
        )
        return self._cut(filled, 1)

    def _padded(self, runs: _Runs, lengths: np.ndarray) -> _Runs:
        """Put padding where a document would be cut that fits into a row."""
        length, count = self.packing.length, len(lengths)
        ends: list[int] = runs.ends.tolist()
        places, gaps = [], []
        room = length - len(self._begun.ids)
        first, behind = 0, 0  # documents before `first`, of `behind` ids, are laid
        while True:
            # Invariant: `room` ids of 1..length are left in the row where document `first` would begin.
            stop = bisect_right(ends, behind + room, first)
            if stop > first:
                room -= ends[stop - 1] - behind
                first, behind = stop, ends[stop - 1]
            if first == count:
                break
            size = ends[first] - behind
            if 0 < room < length and size <= length:
                places.append(first)
                gaps.append(room)
            if size > length:
                room = length - (size - room) % length
                first, behind = first + 1, ends[first]
            else:
                room = length
        if not places:
            return runs
        self.padding_tokens += sum(gaps)
        before = np.zeros(count, np.int64)
        before[places] = gaps
        ids = np.full(len(runs.ids) + int(before.sum()), self.packing.pad_id, runs.ids.dtype)
        pattern = np.tile([False, True], count)
        ids[np.repeat(pattern, np.stack((before, lengths), 1).ravel())] = runs.ids
        ends_there = runs.ends + np.cumsum(before)
        return _Runs(
            ids,
            np.insert(runs.documents, places, PADDING),
            np.insert(ends_there, places, ends_there[places] - lengths[places]),
        )

    def _cut(self, runs: _Runs, rows: int) -> Encoded | None:
        """Return so many full rows, and keep the rest."""
        length = self.packing.length
        stops = np.arange(1, rows + 1, dtype=np.int64) * length
        used = rows * length
        rest = int(np.searchsorted(runs.ends, used, "right"))
        # Copies, so that a few ids do not keep a batch in memory.
        self._begun = _Runs(runs.ids[used:].copy(), runs.documents[rest:].copy(), runs.ends[rest:] - used)
        self.rows += rows
        return self._laid_out(runs, stops - length, stops) if rows else None

    def _laid_out(self, runs: _Runs, starts: np.ndarray, stops: np.ndarray) -> Encoded:
        """Return the rows [start, stop) that follow each other."""
        first = np.searchsorted(runs.ends, starts, "right")
        last = np.searchsorted(runs.ends, stops, "left")
        padded = runs.documents[last] == PADDING  # padding is at the end of its row
        columns = pa.RecordBatch.from_arrays(
            [pa.array(runs.documents[first]), pa.array((last - first + 1 - padded).astype(np.int32))],
            ["first_document", "documents"],
        )
        used = int(stops[-1])
        segments = None
        if self.packing.segments:
            # A run that spans rows gives one piece to each. Pieces are bounded by the ends of runs and of rows.
            bounds = np.union1d(runs.ends[runs.ends < used], stops)
            run = np.searchsorted(runs.ends, bounds - 1, "right")
            row = np.searchsorted(stops, bounds - 1, "right")
            number = np.where(runs.documents[run] == PADDING, 0, run - first[row] + 1).astype(np.int32)
            segments = np.repeat(number, np.diff(bounds, prepend=np.int64(0)))
        return Encoded(runs.ids[:used], stops, columns, segments)
