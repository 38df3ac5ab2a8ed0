"""Precompiled normalizers (the charsmaps of SentencePiece's models) as Hugging Face's `tokenizers` runs them.

A charsmap is a table from short texts to their replacements: a trie as a double array (Aoe 1989, as darts-clone packs it)
and the replacements behind it.  The sentencepiece package replaces the longest text that fits, from the left; its own runs
stand in `charsmap`.  `Precompiled` of tokenizers goes by grapheme clusters instead: one of less than 6 bytes becomes what
the shortest text at its beginning becomes, whatever follows in it; others are taken character by character.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Callable

import numpy as np
import regex

from beam_bpe.texts import changed

_LONGEST = 6  # bytes: from here on a cluster is not looked up as a whole
_MOST_KEPT = 1 << 16  # clusters, of which there may be any number
_JOINING = r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]"
#: Marks of Unicode 17, which tokenizers 0.23 knows; `regex` may be older.  They are of 3 and 4 bytes, as are the marks that
#: stand for them where clusters are found.
_NEW_MARKS = [*range(0x1ACF, 0x1ADE), *range(0x1AE0, 0x1AEC), 0x10EFA, 0x10EFB, *range(0x11B60, 0x11B68)]
_NEW_MARKS += [0x1E6E3, 0x1E6E6, 0x1E6EE, 0x1E6EF, 0x1E6F5]
_OLD_MARKS = {mark: 0x1AB0 if mark < 0x10000 else 0x1D167 for mark in _NEW_MARKS}


def check_charsmap(charsmap: bytes) -> None:
    """Refuse a charsmap whose array leads out of itself: native code of the sentencepiece package would follow it.

    It is the length of the array in bytes, its units (uint32, little-endian) and the replacements, each ended by NUL.  A unit
    leads to that whose place is its own, xor its offset, xor the next byte of the text, or 0 where a text of the table ends:
    there a leaf says where its replacement is.

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
    below = np.arange(len(units)) ^ _offset(units)
    replacements = len(charsmap) - 4 - size
    damaged = ((below | 0xFF)[~leaf] >= len(units)).any() or ((units[leaf] & 0x7FFFFFFF) >= replacements).any()
    if damaged or not leaf[below[~leaf & (units >> 8 & 1 == 1)]].all():
        raise ValueError("the precompiled normalizer is damaged: its array leads out of itself")
    text = charsmap[4 + size :]
    try:
        text.decode()
    except UnicodeDecodeError:
        raise ValueError("the precompiled normalizer is damaged: its replacements are not UTF-8") from None
    if (np.frombuffer(text, np.uint8)[units[leaf] & 0x7FFFFFFF] & 0xC0 == 0x80).any():
        raise ValueError("the precompiled normalizer is damaged: a replacement begins inside of a character")


def _offset(units: Any) -> Any:
    """Return by how much units lead on."""
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
        self._known: dict[str, str] = {}
        # Most of a text are characters that are clusters of their own and are not changed; runs of them are passed by.
        plain = _alone().copy()
        plain[_changed(units)] = False
        inside = _class(plain)
        self._run: Callable[[str, int], re.Match[str] | None] = _no_match
        if inside:
            self._run = re.compile(f"{inside}+(?!{_class(_of_kind(_JOINING, True))})").match
        self._cluster = regex.compile(r"\X").match
        self._new_marks = re.compile(f"[{''.join(map(chr, _NEW_MARKS))}]").search

    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]:
        """Return documents normalized, side by side, and their bounds as packed int64 numbers."""
        return changed(data, bounds, lambda text: self.normalize(text.decode()).encode())

    def normalize(self, text: str) -> str:
        """Return a text normalized."""
        clustered = text.translate(_OLD_MARKS) if self._new_marks(text) else text
        parts: list[str] = []
        at, run, cluster, known = 0, self._run, self._cluster, self._known
        while at < len(text):
            if match := run(clustered, at):
                end = match.end()
                parts.append(text[at:end])
            else:
                end = cluster(clustered, at).end()
                part = text[at:end]
                found = known.get(part)
                if found is None:
                    found = self._of_cluster(part)
                    if len(known) < _MOST_KEPT and len(part) < _LONGEST:
                        known[part] = found
                parts.append(found)
            at = end
        return "".join(parts)

    def _of_cluster(self, cluster: str) -> str:
        whole = self._replacement(cluster) if len(cluster.encode()) < _LONGEST else None
        if whole is not None:
            return whole
        found = ((char, self._replacement(char)) for char in cluster)
        return "".join(char if made is None else made for char, made in found)

    def _replacement(self, text: str) -> str | None:
        """Return what the shortest text of the table becomes that a text begins with, None if there is none."""
        units = self._units
        place = _offset(units[0])
        for byte in text.encode():
            if not byte:
                return None
            place ^= byte
            unit = units[place]
            if unit & 0x800000FF != byte:
                return None
            place ^= _offset(unit)
            if unit >> 8 & 1:
                start = units[place] & 0x7FFFFFFF
                return self._replacements[start : self._replacements.index(0, start)].decode()
        return None


def _changed(units: np.ndarray) -> np.ndarray:
    """Return the code points of the characters that a text of the table ends in, or inside of which it does."""
    codes = np.arange(1, 0x110000)
    codes = codes[(codes < 0xD800) | (codes > 0xDFFF)]
    shift = 6 * ((codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF))
    places = np.full(len(codes), _offset(units[0]))
    found = np.zeros(len(codes), bool)
    alive = np.ones(len(codes), bool)
    heads = np.array([0, 0xC0, 0xE0, 0xF0])
    for step in range(4):
        left = shift - 6 * step
        byte = np.where(step == 0, codes >> shift | heads[shift // 6], codes >> np.maximum(left, 0) & 0x3F | 0x80)
        alive &= left >= 0
        places = np.where(alive, places ^ byte, 0)
        here = units[places]
        alive &= here & 0x800000FF == byte
        found |= alive & (here >> 8 & 1 == 1)
        places = np.where(alive, places ^ _offset(here), 0)
    ends_there: np.ndarray = codes[found]
    return ends_there


@lru_cache(1)
def _alone() -> np.ndarray:
    """Return of each code point whether it is a cluster of its own beside others of its kind."""
    return _of_kind(r"\p{GCB=Other}", False)


def _of_kind(pattern: str, new_marks: bool) -> np.ndarray:
    """Return of each code point whether it matches a pattern; the new marks do as is said."""
    found = np.zeros(0x110000, bool)
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    for match in regex.finditer(f"{pattern}+", every):
        start, end = ord(match[0][0]), ord(match[0][-1])
        found[start : end + 1] = True
    found[0xD800:0xE000] = False
    found[_NEW_MARKS] = new_marks
    return found


def _class(members: np.ndarray) -> str:
    """Return a class of characters for a regular expression, given of each code point whether it is in it; "" for none."""
    edges = np.flatnonzero(np.diff(members.astype(np.int8), prepend=0, append=0)).reshape(-1, 2).tolist()
    ranges = [f"\\U{start:08x}-\\U{end - 1:08x}" for start, end in edges]
    return f"[{''.join(ranges)}]" if ranges else ""


def _no_match(text: str, at: int) -> None:
    """Match nothing, as where every character is changed."""
