"""SentencePiece in plain Python: whitespace, and its BPE trainer; encoding is in `reference_sentencepiece_encoding`.

Kudo and Richardson 2018 ("SentencePiece: A simple and language independent subword tokenizer and detokenizer for Neural
Text Processing"). As in `reference`, nothing here is meant for a
real corpus; what kernels give is held against it, and it against the library.

>>> words = count(["low low low low low", "lower lower"])
>>> words
Counter({'▁low': 5, '▁lower': 2})
>>> learned = learn(words, 12)
>>> learned.pieces, learned.counts, "".join(learned.characters)
(['lo', 'low', '▁low', 'er', '▁lower'], [7, 7, 7, 2, 2], 'low▁er')
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence

SPACE = "\u2581"
BOUNDARY = "\x1f"  # stands for a symbol in the text that is learned from; no piece holds it
NEVER = frozenset("\0\x1f\u2585")  # characters that no learned piece holds

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = "normal", "unknown", "control", "user_defined", "unused", "byte"

_DIGITS = re.compile("[0-9\uff10-\uff19]")
_WORD = re.compile(f"{SPACE}[^{SPACE}]*|^[^{SPACE}]+")


def text_of(data: bytes) -> str:
    """Return bytes as text, each byte that is not UTF-8 as one U+FFFD.

    >>> text_of(b"a\\xe2\\x96")
    'a��'
    """
    return re.sub("[\udc80-\udcff]", "\ufffd", data.decode("utf-8", "surrogateescape"))


def cut(text: str, symbols: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the symbols in a text, at each place the longest, and the characters between; and whether it is a symbol."""
    found = _finder(tuple(symbols))
    for i, part in enumerate(found.split(text) if found else [text]):
        yield from [(part, True)] if i % 2 else ((char, False) for char in part)


@lru_cache(16)
def _finder(symbols: tuple[str, ...]) -> re.Pattern[str] | None:
    longest_first = sorted(map(re.escape, symbols), key=len, reverse=True)
    first = "".join({re.escape(symbol[0]) for symbol in symbols})  # spares the other places a search
    return re.compile(f"(?=[{first}])(" + "|".join(longest_first) + ")") if symbols else None


def normalize(
    text: str, *, add_dummy_prefix: bool = True, remove_extra_whitespaces: bool = True, user_defined: Iterable[str] = ()
) -> str:
    """Return a text as the identity normalizer has it: spaces as U+2581, one more before it.

    Spaces at its ends and behind a space are removed with `remove_extra_whitespaces`; so are U+2581 at its end, even
    the one before it.  Spaces inside of what is user-defined stay.  Only U+0020 is a space.

    >>> normalize(" Hello  world "), normalize(" a  b ", remove_extra_whitespaces=False), normalize("  ")
    ('▁Hello▁world', '▁▁a▁▁b▁', '')
    """
    units = [unit for unit, _ in cut(text, user_defined)]
    if not units:
        return ""
    parts, behind_space = [SPACE if add_dummy_prefix else ""], remove_extra_whitespaces
    for unit in units:
        unit = unit.lstrip(" ") if behind_space else unit
        if unit:
            parts.append(unit.replace(" ", SPACE))
            behind_space = remove_extra_whitespaces and unit.endswith(" ")
    normalized = "".join(parts)
    return normalized.rstrip(SPACE) if remove_extra_whitespaces else normalized


def words_of(normalized: str) -> list[str]:
    """Cut a normalized text before each U+2581.

    >>> words_of("a▁b▁▁c")
    ['a', '▁b', '▁', '▁c']
    """
    return _WORD.findall(normalized)


def count(
    lines: Iterable[str],
    *,
    symbols: Iterable[str] = (),
    add_dummy_prefix: bool = True,
    remove_extra_whitespaces: bool = True,
) -> Counter[str]:
    """Count the words of normalized lines.

    Args:
        lines: without their endings.
        symbols: meta symbols, which become `BOUNDARY` where the normalized text has them.
    """
    words: Counter[str] = Counter()
    known = list(symbols)
    for line in lines:
        text = normalize(line, add_dummy_prefix=add_dummy_prefix, remove_extra_whitespaces=remove_extra_whitespaces)
        words.update(words_of("".join(BOUNDARY if is_symbol else unit for unit, is_symbol in cut(text, known))))
    return words


class Learned(NamedTuple):
    """Hold the merged pieces in their order, the count of each when it was merged, and the characters in theirs."""

    pieces: list[str]
    counts: list[int]
    characters: list[str]


def alphabet(words: Mapping[str, int], character_coverage: float | str | Fraction = 1) -> list[str]:
    """Return the most frequent characters that cover at least so much of the words, by (count descending, code point).

    NUL does not count; `BOUNDARY` and U+2585 count, and are no characters of the alphabet.

    >>> alphabet({"▁aab": 2, "▁": 1}, "0.7")
    ['a', '▁']
    """
    counts: Counter[str] = Counter()
    for word, n in words.items():
        for char in word.replace("\0", ""):
            counts[char] += n
    needed, covered, kept = Fraction(str(character_coverage)) * sum(counts.values()), 0, []
    for char in sorted(counts, key=lambda one: (-counts[one], one)):
        if covered >= needed:
            break
        covered += counts[char]
        kept += [char] if char not in NEVER else []
    return kept


def learn(
    words: Mapping[str, int],
    size: int,
    *,
    character_coverage: float | str | Fraction = 1,
    max_length: int = 16,
    split_digits: bool = False,
    scripts: Mapping[str, str] | None = None,
    split_by_number: bool = True,
    excluded: Collection[str] = (),
) -> Learned:
    """Learn pieces by merging the most frequent pair of symbols, until there are `size` with the characters.

    Of equal counts the pair with fewer characters comes first, then the smaller spelling.  Counts are those of the
    words as they are merged so far, overlapping pairs included.  The library sees to it that no spelling is made of two
    pairs, which does not happen.

    Args:
        max_length: of a piece, in characters.
        split_digits: a digit, 0-9 or its full-width form, is never merged.
        scripts: the Unicode script of each character, such as "HAN"; if they are given, no piece is of two, where
            Hiragana and Katakana are Han, and an inherited script is that of the character before.
        split_by_number: with scripts, a digit is of its own (Common); otherwise it goes with all.
        excluded: pieces that are never made.

    Raises:
        ValueError: size has no room for the characters.
    """
    characters = alphabet(words, character_coverage)
    if size < len(characters):
        raise ValueError(f"size is {size}, and the alphabet has {len(characters)} characters")
    pieces: list[str] = []
    counts: list[int] = []

    def allowed(spelling: str) -> bool:
        if spelling in excluded or len(spelling) > max_length or SPACE in spelling[1:] or split_digits and _DIGITS.search(spelling):
            return False
        return scripts is None or _is_of_one_script(spelling, scripts, split_by_number)

    table = _Table(words, set(characters), allowed)
    while len(pieces) + len(characters) < size and (best := table.best()):
        pieces.append("".join(best))
        counts.append(table.merge(best))
    return Learned(pieces, counts, characters)


def _is_of_one_script(spelling: str, scripts: Mapping[str, str], split_by_number: bool) -> bool:
    before = None
    for char in spelling.replace(SPACE, ""):
        script: str | None = scripts[char]
        if script in ("HIRAGANA", "KATAKANA") or char == "\u30fc":
            script = "HAN"
        elif script == "INHERITED":
            script = before
        if not split_by_number and _DIGITS.match(char):
            script = None
        if script and before and script != before:
            return False
        before = script
    return True


class _Table:
    """Words as rows of symbols, with the count of each pair and the rows that have it, or had it."""

    def __init__(self, words: Mapping[str, int], known: set[str], allowed: Callable[[str], bool]):
        self.rows: list[list[str]] = []
        self.weights: list[int] = []
        self.allowed = allowed
        self.counts: Counter[tuple[str, str]] = Counter()
        self.where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        self.heap: list[tuple[int, int, str, tuple[str, str]]] = []  # each pair with its last count, and older ones
        for word, n in words.items():
            row: list[str] = []
            for char in [*word, None]:  # no pair holds a character that is not known
                if char in known:
                    row.append(str(char))
                elif row:
                    self.rows.append(row)
                    self.weights.append(n)
                    row = []
        for i, (row, n) in enumerate(zip(self.rows, self.weights)):
            for pair in zip(row, row[1:]):
                self.counts[pair] += n
                self.where[pair].add(i)
        for pair in self.counts:
            self._push(pair)

    def best(self) -> tuple[str, str] | None:
        """Return the pair that is to be merged, None if there is none."""
        while self.heap:
            minus, _, _, pair = heapq.heappop(self.heap)
            if minus and -minus == self.counts[pair]:
                return pair
        return None

    def merge(self, pair: tuple[str, str]) -> int:
        """Merge a pair in all rows, from left to right; return its count."""
        n, spelling = self.counts[pair], "".join(pair)
        changes: Counter[tuple[str, str]] = Counter()
        for i in self.where.pop(pair):
            row, weight = self.rows[i], self.weights[i]
            for at in _places(row, pair):
                around = row[max(at - 1, 0) : at + 3]
                for one in zip(around, around[1:]):
                    changes[one] -= weight
                row[at : at + 2] = [spelling]
                around = row[max(at - 1, 0) : at + 2]
                for one in zip(around, around[1:]):
                    changes[one] += weight
                    self.where[one].add(i)
        for one, change in changes.items():
            if change:
                self.counts[one] += change
                self._push(one)
        return n

    def _push(self, pair: tuple[str, str]) -> None:
        spelling = "".join(pair)
        if self.allowed(spelling):
            heapq.heappush(self.heap, (-self.counts[pair], len(spelling), spelling, pair))


def _places(row: list[str], pair: tuple[str, str]) -> Iterator[int]:
    """Yield where a pair stands, from left to right, in a row in which it is merged meanwhile."""
    at = 0
    with suppress(ValueError):  # there is no other
        while True:
            at = row.index(pair[0], at) + 1
            if row[at : at + 1] == [pair[1]]:
                yield at - 1


def number(
    learned: Learned,
    *,
    special: Mapping[int, str] = {0: "<unk>", 1: "<s>", 2: "</s>"},
    unk_piece: str = "<unk>",
    control_symbols: Sequence[str] = (),
    user_defined_symbols: Sequence[str] = (),
    byte_fallback: bool = False,
) -> list[tuple[str, float, str]]:
    """Return (piece, score, kind) by id: merged pieces, then characters, around the meta pieces.

    Those of `special` have the ids that they are given; control symbols, user-defined symbols and bytes follow in the
    lowest ids that are free, and the rest thereafter.  A symbol that is special already takes its kind.

    Raises:
        ValueError: an id of `special` is beyond all pieces.
    """
    meta = {i: (piece, UNKNOWN if piece == unk_piece else CONTROL) for i, piece in special.items()}
    ids = {piece: i for i, piece in special.items()}
    bytes_of_fallback = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    free = 0
    for kind, symbols in ((CONTROL, control_symbols), (USER_DEFINED, user_defined_symbols), (BYTE, bytes_of_fallback)):
        for symbol in symbols:
            if symbol not in ids:
                while free in meta:
                    free += 1
            meta[ids.get(symbol, free)] = symbol, kind
    rest = [(piece, -float(i), NORMAL) for i, piece in enumerate([*learned.pieces, *learned.characters])]
    if max(meta) >= len(meta) + len(rest):
        raise ValueError(f"{meta[max(meta)][0]!r} has the id {max(meta)}, and there are {len(meta) + len(rest)} pieces")
    others = iter(rest)
    return [(meta[i][0], 0.0, meta[i][1]) if i in meta else next(others) for i in range(len(meta) + len(rest))]
