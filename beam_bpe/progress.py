"""What the workers of this process have done so far, for the progress line of a local run.

These numbers are for looking at: a bundle that is tried again counts twice.  Totals in artifacts
travel as data.
"""

from __future__ import annotations

import threading
from collections import Counter

_lock = threading.Lock()
_done: Counter[str] = Counter()


def add(**amounts: int) -> None:
    """Add to what has been done (names are free: bytes, words, ranges, …)."""
    with _lock:
        _done.update(amounts)


def done() -> dict[str, int]:
    """Return what has been done since the last reset."""
    with _lock:
        return dict(_done)


def reset() -> None:
    """Begin anew."""
    with _lock:
        _done.clear()
