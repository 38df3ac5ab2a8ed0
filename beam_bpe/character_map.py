"""Make what the native normalizer reads: what each character becomes under some steps, and what composes.

Several steps that look at single characters are one map.  A decomposition within it makes runs of marks, which
are written in the order of their combining classes (see normalize.h).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Iterator, Mapping, Protocol, Sequence

import numpy as np

from beam_bpe import _normalize, normalizer_tables as tables

_CODES = 0x110000
_KEEP, _SPACED, _DROP, _BARRIER, _OTHER = range(5)  # kinds while a map is made; _OTHER: in `others`

Items = tuple[tuple[int, str], ...]  # combining class and text, one after another


class Pass(Protocol):
    """What turns documents into others in one go."""

    def documents(self, data: object, bounds: object) -> tuple[bytes, bytes]:
        """Return documents side by side, and their bounds as packed int64 numbers."""


@lru_cache(32)
def passes(steps: tuple[str, ...]) -> tuple[Pass, ...]:
    """Return what applies steps from left to right, in as few passes as it takes."""
    found: list[Pass] = []
    group: list[str] = []
    for step in steps:
        decomposes = step in ("NFD", "NFKD", "bert_strip_accents")
        if group and (step in ("NFC", "NFKC") or decomposes and set(group) & {"NFD", "NFKD", "bert_strip_accents"}):
            found.append(_Characters(group).map())
            group = []
        if step in ("NFC", "NFKC"):
            found.append(_composition(step))
        else:
            group.append(step)
    if group:
        found.append(_Characters(group).map())
    return tuple(found)


class _Characters:
    """What each character becomes while steps are added."""

    def __init__(self, steps: Sequence[str] = ()):
        self.kinds = np.zeros(_CODES, np.uint8)
        self.others: dict[int, Items] = {}
        self._ordered = False  # whether marks are reordered
        for step in steps:
            self._add(step)

    def _add(self, step: str) -> None:
        if step == "lowercase":
            self._replace(_mapping("LOWERCASE"))
        elif step == "strip_accents":
            self._drop("ACCENTS")
        elif step == "clean_text":
            self._drop("CLEANED_AWAY")
            self._replace(dict.fromkeys(_members("CLEANED_TO_SPACE").tolist(), " "))
        elif step == "handle_chinese_chars":
            self._space("CHINESE")
        elif step == "bert_strip_accents":
            self._decompose("NFD")
            self._drop("BERT_ACCENTS")
        else:
            self._decompose(step)

    def _replace(self, mapping: Mapping[int, str]) -> None:
        """Map every character of what there is."""
        for code in mapping:
            if self.kinds[code] in (_KEEP, _SPACED):
                self._open(code)
        for code, items in self.others.items():
            if any(ord(char) in mapping for _, text in items for char in text):
                self.others[code] = tuple((number, "".join(mapping.get(ord(c), c) for c in text)) for number, text in items)

    def _drop(self, name: str) -> None:
        codes = _members(name)
        self.kinds[codes[self.kinds[codes] == _KEEP]] = _BARRIER if self._ordered else _DROP
        for code in codes[self.kinds[codes] == _SPACED].tolist():
            self._open(code)
        gone = set(codes.tolist()) if self.others else set()
        for code, items in self.others.items():
            if any(ord(char) in gone for _, text in items for char in text):
                self.others[code] = tuple((number, "".join(c for c in text if ord(c) not in gone)) for number, text in items)

    def _space(self, name: str) -> None:
        codes = _members(name)
        for code in codes[self.kinds[codes] == _SPACED].tolist():  # once more
            self._open(code)
        self.kinds[codes[self.kinds[codes] == _KEEP]] = _SPACED
        chinese = set(codes.tolist()) if self.others else set()
        for code, items in self.others.items():
            if any(ord(char) in chinese for _, text in items for char in text):
                spaced = [(number, "".join(f" {c} " if ord(c) in chinese else c for c in text)) for number, text in items]
                self.others[code] = tuple(spaced)

    def _decompose(self, form: str) -> None:
        mapping, classes = decompositions(form), combining_classes()
        for code in (*mapping, *classes):
            if self.kinds[code] in (_KEEP, _SPACED):
                self._open(code)
        for code, items in self.others.items():
            text = "".join(mapping.get(ord(char), char) for _, own in items for char in own)
            self.others[code] = tuple((classes.get(ord(char), 0), char) for char in _in_order(text))
        self._ordered = True

    def _open(self, code: int) -> None:
        """Write down a character that was kept as one that becomes something of its own."""
        self.others[code] = ((0, chr(code) if self.kinds[code] == _KEEP else f" {chr(code)} "),)
        self.kinds[code] = _OTHER

    def map(self) -> _normalize.CharacterMap:
        """Return the native map."""
        kinds = np.array([_normalize.KEEP, _normalize.SPACED, _normalize.DROP, _normalize.BARRIER, 0], np.uint32)
        entries = kinds[self.kinds]
        pool = bytearray()
        places: dict[bytes, int] = {}
        for code, items in self.others.items():
            kind, pooled = _pooled(items, self._ordered)
            if pooled and pooled not in places:
                places[pooled] = len(pool)
                pool += pooled
            entries[code] = kind | (places[pooled] << 3 if pooled else 0)
        return native_map(entries, bytes(pool))


def native_map(entries: np.ndarray, pool: bytes) -> _normalize.CharacterMap:
    """Return the map of an entry for each character."""
    rows = entries.reshape(-1, 256)
    numbers: dict[bytes, int] = {}
    blocks = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], np.uint16)
    return _normalize.CharacterMap(blocks, np.frombuffer(b"".join(numbers), np.uint32), pool)


def _pooled(items: Items, ordered: bool) -> tuple[int, bytes]:
    """Return the kind of what a character becomes and its bytes in the pool."""
    marks = []
    while items and items[-1][0]:
        if items[-1][1]:
            marks.append(items[-1])
        items = items[:-1]
    text = "".join(text for _, text in items).encode()  # up to the last starter: in order already
    if items and items[0][0]:
        raise ValueError(f"a character becomes marks before {text!r}, which no version of Unicode has")
    if not marks:
        if text:
            return _normalize.STRING, bytes([len(text)]) + text
        return _normalize.BARRIER if items and ordered else _normalize.DROP, b""
    pooled = bytearray([len(text) if items else _normalize.NO_STRING]) + text
    pooled.append(len(marks))
    for number, mark in reversed(marks):
        encoded = mark.encode()
        pooled += bytes([number, len(encoded)]) + encoded
    return _normalize.MARKED, bytes(pooled)


def _composition(form: str) -> _normalize.Composition:
    """Return what brings text into a composed form."""
    decomposition = "NFD" if form == "NFC" else "NFKD"
    mapping, pairs = decompositions(decomposition), _pairs()
    joining = {second for _, second in pairs} | {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)} | combining_classes().keys()
    characters = _Characters()
    slow = np.zeros(_CODES, bool)
    slow[[*joining]] = True
    for code, text in mapping.items():
        if 0 <= code - 0xAC00 < 11172:  # a syllable of Hangul is composed to itself, and joins nothing before it
            continue
        made = compose(text)
        slow[code] |= ord(made[0]) in joining
        if made != chr(code):
            characters.kinds[code] = _OTHER
            characters.others[code] = ((0, made),)
    kinds = np.array([_normalize.KEEP, 0, 0, 0, _normalize.STRING], np.uint32)
    entries = kinds[characters.kinds]
    pool = bytearray()
    for code, ((_, made),) in characters.others.items():
        entries[code] |= len(pool) << 3
        encoded = made.encode()
        pool += bytes([len(encoded)]) + encoded
    entries[slow] = _normalize.SLOW
    packed = sorted((first << 21 | second) << 21 | made for (first, second), made in pairs.items())
    decomposed = _Characters([decomposition]).map()
    return _normalize.Composition(native_map(entries, bytes(pool)), decomposed, np.array(packed, np.uint64))


# ---- what is known of characters ----


def compose(text: str) -> str:
    """Return the composition of decomposed text whose marks are in order."""
    classes = combining_classes()
    made: list[str] = []
    starter, last = -1, 0
    for char in text:
        number = classes.get(ord(char), 0)
        if starter >= 0 and (last < number or len(made) == starter + 1):
            both = _composed(ord(made[starter]), ord(char))
            if both:
                made[starter] = chr(both)
                continue
        if not number:
            starter = len(made)
        last = number
        made.append(char)
    return "".join(made)


def _composed(first: int, second: int) -> int:
    """Return what two characters compose to, or 0."""
    if 0 <= first - 0x1100 < 19 and 0 <= second - 0x1161 < 21:  # Hangul, by arithmetic
        return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28
    if 0 <= first - 0xAC00 < 11172 and (first - 0xAC00) % 28 == 0 and 0 <= second - 0x11A8 < 27:
        return first + second - 0x11A7
    return _pairs().get((first, second), 0)


def _in_order(text: str) -> str:
    """Return decomposed text with its marks in the order of their classes."""
    classes = combining_classes()
    if not any(map(classes.get, map(ord, text))):
        return text
    made: list[str] = []
    start = 0
    for i, char in enumerate([*text, ""]):
        if not char or not classes.get(ord(char)):
            made += [*sorted(text[start:i], key=lambda mark: classes[ord(mark)]), char]
            start = i + 1
    return "".join(made)


@lru_cache(None)
def decompositions(form: str) -> Mapping[int, str]:
    """Return what each character is decomposed to, of those that are, under NFD or NFKD."""
    mapping = {**_mapping("CANONICAL"), **(_mapping("COMPATIBLE") if form == "NFKD" else {})}
    for code in range(11172):
        trailing = chr(0x11A7 + code % 28) if code % 28 else ""
        mapping[0xAC00 + code] = chr(0x1100 + code // 588) + chr(0x1161 + code // 28 % 21) + trailing
    return mapping


@lru_cache(None)
def combining_classes() -> Mapping[int, int]:
    """Return the combining class of each mark that has one."""
    return {code: number for number, text in tables.MARKS.items() for code in _ranges(text)}


@lru_cache(None)
def _pairs() -> Mapping[tuple[int, int], int]:
    """Return what two characters compose to."""
    canonical = _mapping("CANONICAL")
    whole = {canonical[code]: code for code in _ranges(tables.COMPOSED)}
    return {(ord(text[0]) if len(text) == 2 else whole[text[:-1]], ord(text[-1])): code for text, code in whole.items()}


@lru_cache(None)
def _mapping(name: str) -> Mapping[int, str]:
    pairs = (entry.split("=") for entry in getattr(tables, name).split())
    return {int(code, 16): "".join(chr(int(char, 16)) for char in made.split("+")) for code, made in pairs}


@lru_cache(None)
def _members(name: str) -> np.ndarray:
    return np.fromiter(_ranges(getattr(tables, name)), np.int64)


def _ranges(text: str) -> Iterator[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)
