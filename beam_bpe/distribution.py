"""A distribution of whole numbers in buckets: exact below 1,024, above that to one part in 64; sums are exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Mapping

import numpy as np

#: Numbers below this have a bucket each; from there on each power of two is cut into 64 buckets of one width.
EXACT = 1 << 10
_BITS = 7  # that a bucket keeps of its numbers: the first, and the six that make 64


def buckets_of(numbers: np.ndarray) -> np.ndarray:
    """Return the least number of the bucket of each number (int64, not negative).

    >>> buckets_of(np.array([0, 1023, 1024, 1039, 1040, 2**62 + 1])).tolist() == [0, 1023, 1024, 1024, 1040, 2**62]
    True
    """
    numbers = np.asarray(numbers, np.int64)
    # frexp tells the bits of a float; ten less of them are exact in 53.
    bits = np.frexp((numbers >> 10).astype(np.float64))[1].astype(np.int64) + 10
    shift = np.where(numbers < EXACT, 0, bits - _BITS)
    return numbers >> shift << shift


@dataclass(frozen=True)
class Distribution:
    """How many numbers fell into each bucket; mergeable, and the same for any order.

    Attributes:
        counts: by the least number of each bucket that has any, ascending.

    >>> Distribution.of([3, 5, 5, 2000]).merge(Distribution.of([3])).counts
    {3: 2, 5: 2, 2000: 1}
    """

    counts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, numbers: Iterable[int] | np.ndarray) -> Distribution:
        """Return the distribution of numbers."""
        array = np.asarray(numbers if isinstance(numbers, np.ndarray) else list(numbers), np.int64)
        lowest, times = np.unique(buckets_of(array), return_counts=True)
        return cls(dict(zip(lowest.tolist(), times.tolist())))

    def merge(self, other: Distribution) -> Distribution:
        """Return the distribution of the numbers of both."""
        sums = dict(self.counts)
        for lowest, count in other.counts.items():
            sums[lowest] = sums.get(lowest, 0) + count
        return Distribution(dict(sorted(sums.items())))

    def quantile(self, share: float) -> int | None:
        """Return the least number of the bucket below or in which that share of the numbers lies; None if there are none.

        So quantile(0.5) is the lower median: exact below 1,024, else at most a 64th too low.

        >>> Distribution.of([1, 2, 3, 4]).quantile(0.5), Distribution.of([7]).quantile(0.99), Distribution().quantile(0.5)
        (2, 7, None)
        """
        if not 0 <= share <= 1:
            raise ValueError(f"a quantile is of a share from 0 to 1, not {share}")
        below, wanted = 0, share * sum(self.counts.values())
        for lowest, count in self.counts.items():
            below += count
            if below >= wanted:
                return lowest
        return None
