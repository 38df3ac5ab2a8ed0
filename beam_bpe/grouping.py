"""Counts by group: words counted apart for each value of a column, such as a language or a source.

The group of a document is text: numbers, booleans and moments become theirs, and null is the group "".  Packed words of
several groups travel as one: "bbg1", then for each group, in the order of their names, u32 bytes of its name, u64 bytes
of its packed words, the name, the packed words (`word_table.h`).  Integers are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import _words
from beam_bpe.texts import bytes_of, valid_bytes

#: What is counted of each group; what is no part of a document, such as a null, is counted for all groups together.
GROUP_TOTALS = (
    "documents",
    "bytes",  # of text, after repair, special tokens included
    "characters",  # code points of that text
    "words",
    "overlong_words",
    "overlong_bytes",
    "special_tokens",
    "pruned_words",
    "pruned_occurrences",
)
_MAGIC = b"bbg1"
_SECTION = struct.Struct("<IQ")
_FEWEST_SLOTS = 16
_GROUP_BYTES = 1024  # that a group takes beside its table: the objects of Python, its name and its totals


def group_name(value: Any) -> str:
    """Return the group that a value names.

    Raises:
        TypeError: it is no single value, but a list, an object or the like.

    >>> [group_name(value) for value in ("en", 7, 1.5, True, None, b"en")]
    ['en', '7', '1.5', 'true', '', 'en']
    """
    if value is None:
        return ""
    if isinstance(value, (str, bytes)):
        return valid_bytes(bytes_of(value)).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, dict, set)):
        raise TypeError(f"a {type(value).__name__}, which names no group: {value!r:.60}")
    return str(value)


def add_group_totals(*several: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the sums of what was counted of each group, groups in the order of their names."""
    found: dict[str, dict[str, int]] = {}
    for groups in several:
        for group, totals in groups.items():
            held = found.setdefault(group, dict.fromkeys(GROUP_TOTALS, 0))
            for name in GROUP_TOTALS:
                held[name] += totals.get(name, 0)
    return dict(sorted(found.items()))


def characters_of(data: Any) -> int:
    """Return the code points of valid UTF-8."""
    return int(np.count_nonzero(np.frombuffer(data, np.int8) >= -64))  # all bytes but 0x80 to 0xBF


@dataclass(frozen=True)
class Groups:
    """The groups of documents: that of document d is names[index[d]].

    Attributes:
        by: the column or field that told them.
        names: distinct; some may have no document.
        index: int32, one for each document.
    """

    by: str
    names: tuple[str, ...]
    index: np.ndarray

    @classmethod
    def of(cls, by: str, groups: Iterable[str]) -> Groups:
        """Return the groups of documents by name."""
        numbers: dict[str, int] = {}
        index = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int32)
        return cls(by, tuple(numbers), index)

    @classmethod
    def of_column(cls, by: str, column: pa.Array) -> Groups:
        """Return the groups that the values of an Arrow column name; TypeError if they are no single values."""
        kind = column.type
        if pa.types.is_dictionary(kind):  # whose dictionary may hold far more than these rows
            return cls.of_column(by, column.dictionary_decode())
        if pa.types.is_nested(kind):
            raise TypeError(f"{kind}, which names no groups")
        if pa.types.is_null(kind):
            return cls(by, ("",), np.zeros(len(column), np.int32))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind in (pa.string_view(), pa.binary_view()):
            column = column.cast(pa.large_binary())  # text may be no UTF-8
        elif pa.types.is_temporal(kind):
            column = column.cast(pa.string())  # all digits, which Python's moments may not hold
        elif pa.types.is_float16(kind):
            column = column.cast(pa.float32())  # of which a dictionary can be made
        coded = column.dictionary_encode()
        values = [group_name(value) for value in coded.dictionary.to_pylist()] + [""]
        numbers = {name: i for i, name in enumerate(dict.fromkeys(values))}
        index = np.array([numbers[name] for name in values], np.int32)[np.asarray(coded.indices.fill_null(len(values) - 1))]
        return cls(by, tuple(numbers), index)

    def take(self, kept: np.ndarray) -> Groups:
        """Return the groups of the documents of these numbers."""
        return Groups(self.by, self.names, self.index[kept])

    def split(self, data: Any, bounds: np.ndarray) -> Iterator[tuple[str, Any, np.ndarray]]:
        """Yield (group, bytes, bounds) for each group that has documents.

        Args:
            data: a buffer of bytes, of which the documents are all, one behind the other.
            bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
        """
        order = np.argsort(self.index, kind="stable")
        firsts = np.flatnonzero(np.diff(self.index[order], prepend=-1))
        if len(firsts) > 1:
            offsets = np.append(bounds[::2], bounds[-1:])
            documents = pa.LargeBinaryArray.from_buffers(
                pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
            ).take(pa.array(order))
            offsets = np.frombuffer(documents.buffers()[1], np.int64)[: len(offsets)]
            data, bounds = documents.buffers()[2] or b"", np.repeat(offsets, 2)[1:-1]
        view = memoryview(data).cast("B")
        for first, stop in zip(firsts.tolist(), [*firsts[1:].tolist(), len(order)]):
            start, end = int(bounds[2 * first]), int(bounds[2 * stop - 1])
            yield self.names[self.index[order[first]]], view[start:end], bounds[2 * first : 2 * stop] - start


class GroupTables:
    """A native table and totals for each group; tables of few words are small.

    Args:
        documents: count documents too.
    """

    def __init__(self, documents: bool = False):
        self.documents = documents
        self.totals: dict[str, dict[str, int]] = {}
        self._tables: dict[str, _words.WordTable] = {}

    def __getitem__(self, group: str) -> _words.WordTable:
        """Return the table of a group, an empty one of one that is new."""
        if group not in self._tables:
            self._tables[group] = _words.WordTable(documents=self.documents, slots=_FEWEST_SLOTS)
            self.totals[group] = dict.fromkeys(GROUP_TOTALS, 0)
        return self._tables[group]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that all of it holds."""
        return sum(table.nbytes for table in self._tables.values()) + len(self._tables) * _GROUP_BYTES

    def add(self, group: str, totals: Mapping[str, int]) -> None:
        """Add to the totals of a group."""
        held = self.totals[group]
        for name, value in totals.items():
            held[name] += value

    def add_table(self, table: pa.Table) -> None:
        """Add the rows of a table with the columns word, count and group, and documents if they are counted."""
        for batch in table.to_batches():
            if not batch.num_rows:
                continue
            groups = Groups.of_column("group", batch.column("group"))
            order = np.argsort(groups.index, kind="stable")
            firsts = np.flatnonzero(np.diff(groups.index[order], prepend=-1)).tolist()
            taken = batch.take(pa.array(order))
            words = taken.column("word")
            offsets = np.frombuffer(words.buffers()[1], np.int32)[: len(order) + 1].astype(np.int64)
            data, counts = np.frombuffer(words.buffers()[2], np.uint8), np.asarray(taken.column("count"))
            documents = np.asarray(taken.column("documents")) if self.documents else None
            for first, stop in zip(firsts, [*firsts[1:], len(order)]):
                self[groups.names[groups.index[order[first]]]].add_columns(
                    data,
                    offsets[first : stop + 1],
                    counts[first:stop],
                    None if documents is None else documents[first:stop],
                )

    def pack(self, shards: int, ordered: bool = True) -> list[tuple[int, bytes]]:
        """Return (shard, packed words of all groups) for each shard that has words; their rows are sorted."""
        found: dict[int, list[tuple[str, bytes]]] = {}
        for group, table in sorted(self._tables.items()):
            for shard, packed in table.pack(shards, ordered=ordered):
                found.setdefault(shard, []).append((group, packed))
        return [(shard, pack_groups(groups)) for shard, groups in sorted(found.items())]


# ---- packed words --------------------------------------------------------------------------------


def is_grouped(packed: Any) -> bool:
    """Whether packed words are those of groups."""
    return bytes(packed[:4]) == _MAGIC


def pack_groups(groups: Iterable[tuple[str, Any]]) -> bytes:
    """Return the packed words of groups, in the order of their names, as one."""
    pieces: list[Any] = [_MAGIC]
    for group, packed in groups:
        name = group.encode()
        pieces += (_SECTION.pack(len(name), len(packed)), name, packed)
    return b"".join(pieces)


def unpack_groups(packed: Any) -> list[tuple[str, memoryview]]:
    """Return (group, its packed words) pairs, without copying the words.

    Raises:
        ValueError: they are broken or cut off.
    """
    view = memoryview(packed)
    found = []
    at = len(_MAGIC)
    while at < len(view):
        if at + _SECTION.size > len(view):
            raise ValueError("packed words of groups are cut off")
        width, size = _SECTION.unpack_from(view, at)
        start = at + _SECTION.size + width
        at = start + size
        if at > len(view):
            raise ValueError("packed words of groups are cut off")
        found.append((str(view[start - width : start], "utf-8"), view[start:at]))
    return found


def merge_packed(several: Sequence[Any]) -> bytes:
    """Return the sum of packed words of one shard, group by group where they are those of groups.

    Raises:
        ValueError: they are of different shards, some are of groups and some are not, or they are broken or not sorted.
        OverflowError: a sum exceeds 2**63 - 1.
    """
    grouped = {is_grouped(packed) for packed in several}
    if grouped == {False}:
        return _words.merge_packed(list(several))
    if grouped == {True, False}:
        raise ValueError("words that were counted by group and words that were not cannot be summed")
    waiting: dict[str, list[memoryview]] = {}
    for packed in several:
        for group, words in unpack_groups(packed):
            waiting.setdefault(group, []).append(words)
    return pack_groups((group, _words.merge_packed(words)) for group, words in sorted(waiting.items()))
