"""The rows of a table of words as arrays: what kernels read, where words begin, exact sums of their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import _words

INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class WordBatch:
    """Some rows of a table as the kernels read them: word i is data[offsets[i]:offsets[i + 1]]."""

    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64, rows + 1
    counts: np.ndarray  # int64
    documents: np.ndarray | None = None  # int64


def batches_of(table: pa.Table) -> Iterator[WordBatch]:
    """Yield the rows of a table with the columns word and count as the kernels read them."""
    for batch in table.to_batches():
        if not batch.num_rows:
            continue
        words = batch.column("word")
        width = np.int64 if pa.types.is_large_binary(words.type) or pa.types.is_large_string(words.type) else np.int32
        offsets = np.frombuffer(words.buffers()[1], width)[words.offset : words.offset + len(words) + 1]
        data = np.frombuffer(words.buffers()[2], np.uint8) if words.buffers()[2] else np.empty(0, np.uint8)
        documents = None
        if "documents" in batch.schema.names:
            documents = np.asarray(batch.column("documents"))
        yield WordBatch(data, offsets.astype(np.int64), np.asarray(batch.column("count")), documents)


def first_rows(table: pa.Table) -> np.ndarray:
    """Return for each row of a table, where the rows of a word stand together, whether it is the first of its word."""
    flags, before = [np.empty(0, bool)], b""
    for batch in batches_of(table):
        flags.append(np.frombuffer(_words.repeated(batch.data, batch.offsets, before), bool))
        before = batch.data[batch.offsets[-2] : batch.offsets[-1]].tobytes()
    return ~np.concatenate(flags)


def group_numbers(table: pa.Table, groups: Sequence[str]) -> np.ndarray:
    """Return for each row the number (int32) of its group among these; KeyError: it is none of them."""
    numbers = {group: i for i, group in enumerate(groups)}
    found = [np.empty(0, np.int32)]
    for chunk in table["group"].chunks:
        held = np.array([numbers[group] for group in chunk.dictionary.to_pylist()], np.int32)
        found.append(held[np.asarray(chunk.indices)] if len(chunk) else held[:0])
    return np.concatenate(found)


def exact_total(counts: pa.ChunkedArray) -> int:
    """Return the sum of a column of int64, none negative, which may exceed int64."""
    total = 0
    for chunk in counts.chunks:
        if len(chunk) and pc.max(chunk).as_py() > INT64_MAX // len(chunk):
            total += sum(chunk.to_pylist())
        elif len(chunk):
            total += pc.sum(chunk).as_py()
    return total


def exact_sums(values: np.ndarray, firsts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of runs of int64 values, none negative, and which of them exceed int64.

    Args:
        firsts: where each run begins; the last one ends with the values.
    """
    if not len(firsts):
        return np.empty(0, np.int64), np.empty(0, bool)
    sums = np.add.reduceat(values, firsts)
    longest = int(np.diff(firsts, append=len(values)).max())
    if int(values.max()) <= INT64_MAX // longest:
        return sums, np.zeros(len(sums), bool)
    high, low = np.add.reduceat(values >> 32, firsts), np.add.reduceat(values & 0xFFFFFFFF, firsts)
    return sums, high + (low >> 32) >= 1 << 31


def sums_by_group(values: np.ndarray, groups: np.ndarray, n: int) -> list[int]:
    """Return the sum of the values, int64 and none negative, of each of n groups, exact and of any size."""
    order = np.argsort(groups, kind="stable")
    firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    found = [0] * n
    if not len(firsts):
        return found
    values = values[order]
    sums = zip(np.add.reduceat(values >> 32, firsts).tolist(), np.add.reduceat(values & 0xFFFFFFFF, firsts).tolist())
    for group, (high, low) in zip(groups[order[firsts]].tolist(), sums):
        found[group] = (high << 32) + low
    return found
