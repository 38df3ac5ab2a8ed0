"""Tokens of the plainest ways to cut text, which need no vocabulary: what a learned one is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_bpe import _statistics

#: byte: every byte of UTF-8 is a token.
#: character: every code point is one.
#: trigram: every three neighbouring characters are one, as in SQLite's FTS5: a text of n has max(n - 2, 0). They span
#:     words, so a table of words cannot tell them.
BASELINES = ("byte", "character", "trigram")


def baseline_tokens(name: str, data: Any, bounds: np.ndarray) -> np.ndarray:
    """Return how many tokens each document has under a baseline (int64).

    Args:
        name: one of `BASELINES`.
        data: valid UTF-8, as a buffer of bytes.
        bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].

    Raises:
        ValueError: there is no baseline of that name, or a document lies beyond the data.

    >>> text = "機器學習".encode()
    >>> [int(baseline_tokens(name, text, np.array([0, len(text)]))[0]) for name in BASELINES]
    [12, 4, 2]
    """
    if name not in BASELINES:
        raise ValueError(f"there is no baseline {name!r}: choose one of {', '.join(BASELINES)}")
    bounds = np.asarray(bounds, np.int64)
    starts: np.ndarray = bounds[::2]
    ends: np.ndarray = bounds[1::2]
    if len(bounds) % 2 or ((starts < 0) | (starts > ends) | (ends > len(memoryview(data)))).any():
        raise ValueError(f"bounds has a start and an end for each document, within the {len(memoryview(data))} bytes of data")
    sizes: np.ndarray = ends - starts
    if name == "byte":
        return sizes
    characters = np.frombuffer(_statistics.count_characters(data, np.ascontiguousarray(bounds)), np.int64)
    return characters if name == "character" else np.maximum(characters - 2, 0)


def trigrams(text: str) -> list[str]:
    """Return the overlapping trigrams of a text.

    >>> trigrams("token")
    ['tok', 'oke', 'ken']
    """
    return [text[i : i + 3] for i in range(len(text) - 2)]
