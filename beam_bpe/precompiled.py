"""Precompiled normalizers (the charsmaps of SentencePiece's models) as Hugging Face's `tokenizers` runs them.

A charsmap is a table from short texts to their replacements: a trie as a double array (Aoe 1989, as darts-clone packs it)
and the replacements behind it.  The sentencepiece package replaces the longest text that fits, from the left; its own runs
stand in `charsmap`.  `Precompiled` of tokenizers goes by grapheme clusters instead: one of less than 6 bytes becomes what
the shortest text at its beginning becomes, whatever follows in it; others are taken character by character.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import regex

_LONGEST = 6  # bytes: from here on a cluster is not looked up as a whole
_MOST_KEPT = 1 << 16  # clusters, of which there may be any number
_EVERY = range(0x110000)


def check_charsmap(charsmap: bytes) -> None:
    """Refuse a charsmap whose array leads out of itself: native code of the sentencepiece package would follow it.

    It is the length of the array in bytes, its units (uint32, little-endian) and the replacements, each ended by NUL.  A unit
    leads to that whose place is its own, xor its offset, xor the next byte of the text; a leaf says where a replacement is.

    Raises:
        ValueError: it is damaged.
    """
    if not charsmap:
        return
    size = int.from_bytes(charsmap[:4], "little")
    if len(charsmap) < 5 or size % 4 or not 1024 <= size < len(charsmap) - 4 or charsmap[-1]:
        raise ValueError(f"the precompiled normalizer of {len(charsmap):,} bytes is damaged: its array has {size:,}")
    units = np.frombuffer(charsmap, "<u4", size // 4, offset=4).astype(np.int64)
    leaf = units >> 31 == 1
    furthest = (np.arange(len(units)) ^ _offsets(units)) | 0xFF
    replacements = len(charsmap) - 4 - size
    if (furthest[~leaf] >= len(units)).any() or ((units[leaf] & 0x7FFFFFFF) >= replacements).any():
        raise ValueError("the precompiled normalizer is damaged: its array leads out of itself")


def _offsets(units: np.ndarray) -> Any:
    return (units >> 10 & 0x1FFFFF) << ((units & 0x200) >> 6)


class Precompiled:
    """The normalizer Precompiled of tokenizers, as a pass over documents.

    Raises:
        ValueError: the charsmap is damaged.
    """

    def __init__(self, charsmap: bytes):
        check_charsmap(charsmap)
        size = int.from_bytes(charsmap[:4], "little")
        units = np.frombuffer(charsmap, "<u4", size // 4, offset=4).astype(np.int64)
        self._units: list[int] = units.tolist()
        self._replacements = charsmap[4 + size :]
        try:
            self._replacements.decode()
        except UnicodeDecodeError:
            raise ValueError("the precompiled normalizer is damaged: its replacements are not UTF-8") from None
        inside = np.frombuffer(self._replacements, np.uint8) & 0xC0 == 0x80
        if inside[units[units >> 31 == 1] & 0x7FFFFFFF].any():
            raise ValueError("the precompiled normalizer is damaged: a replacement begins inside of a character")
        self._known: dict[str, str] = {}
        # Characters that stand alone and are not changed: most of a text, which is passed by in runs.
        alone = "".join(map(chr, _unchanged(units)))
        joins = r"\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}"
        self._parts = regex.compile(rf"[{_ranges(alone)}]++(?<![{joins}])(?![{joins}])|\X")
