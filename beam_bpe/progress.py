"""What the workers of this process have done so far, for the progress line of a local run.

These numbers are for looking at: a bundle that is tried again counts twice.  Totals in artifacts
travel as data.
"""

from __future__ import annotations

import threading
from collections import Counter

_lock = threading.Lock()
_done: Counter[str] = Counter()
_stop = threading.Event()


class Cancelled(Exception):
    """The run was cancelled; a worker stops before its next piece of work."""


def add(**amounts: int) -> None:
    """Add to what has been done (names are free: bytes, words, ranges, …).

    Raises:
        Cancelled: the run was cancelled.
    """
    with _lock:
        _done.update(amounts)
    if _stop.is_set():
        raise Cancelled("the run was cancelled")


def done() -> dict[str, int]:
    """Return what has been done since the last reset."""
    with _lock:
        return dict(_done)


def reset() -> None:
    """Begin a new run."""
    with _lock:
        _done.clear()
    _stop.clear()


def cancel() -> None:
    """Tell the workers of this process to stop."""
    _stop.set()
