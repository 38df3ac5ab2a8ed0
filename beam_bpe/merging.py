"""The merge loop over a table of words: what learning by merges shares, whatever the merges start from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, Collection, Iterable

import numpy as np

from beam_bpe.words import WordCounts

#: Memory of the merge loop for each byte of distinct words (one more for each word), at its peak;
#: measured on 1.5 to 10 million words (tests/benchmarks), with a margin.
BYTES_PER_CELL = 10

Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Merges:
    """What a loop learned: of each merge by rank its parts, the id that it makes, its count and its replacements."""

    left: np.ndarray  # uint32
    right: np.ndarray  # uint32
    made: np.ndarray  # uint32
    counts: np.ndarray  # int64
    replaced: np.ndarray  # int64
    stop_reason: str


def distinct_counts(words: WordCounts) -> np.ndarray:
    """Return the distinct counts of the words, descending, as the loop is told them.

    Raises:
        ValueError: there are no words, or all of them count 0.
    """
    distinct = [np.unique(batch.counts) for batch in words.batches()]
    counts = np.unique(np.concatenate(distinct)) if distinct else np.empty(0, np.int64)
    counts = counts[counts > 0]
    if not len(counts):
        raise ValueError("there are no words to learn from")
    return counts[::-1].copy()


def check_excluded(excluded: Iterable[bytes], initial: Collection[bytes]) -> None:
    """Refuse to exclude a token that is there before any merge (ValueError)."""
    for token in excluded:
        if token in initial:
            raise ValueError(
                f"exclude_tokens holds {token!r}, which is there before anything is learned (a byte, a character, a special "
                "token): leave it out of the list"
            )


def run(loop: Any, merges: int, progress: Progress | None, *, tokens: int = 0xFFFFFFFF) -> Merges:
    """Learn in a loop that holds its words until there are so many merges, or tokens with the initial ones."""
    report = None if progress is None else lambda done, count: progress(done, merges, count)
    stop_reason = loop.run(merges, report, tokens)
    packed = loop.merges()
    types = (np.uint32, np.uint32, np.int64, np.int64, np.uint32)
    left, right, counts, replaced, made = (np.frombuffer(column, kind) for column, kind in zip(packed, types))
    if report is not None:
        report(len(counts), int(counts[-1]) if len(counts) else 0)
    return Merges(left, right, made, counts, replaced, stop_reason)


def check_memory(cells: int, words: int, *, unit: str = "bytes", each: int = BYTES_PER_CELL) -> None:
    """Refuse to learn from a table whose merge loop would not fit into the memory available.

    Args:
        cells: symbols of the distinct words, one more for each.
        words: distinct words.
        unit: what the symbols are.
        each: bytes of memory for each cell.
    """
    needed, available = cells * each, available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"learning from {words:,} words ({cells:,} {unit}) takes about {needed / 1e9:.1f} GB, and "
            f"{available / 1e9:.1f} GB are available: leave out rare words (min_count), or use a larger machine"
        )


def available_memory() -> int | None:
    """Return the bytes of memory that are available, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
