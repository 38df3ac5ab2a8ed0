"""Cut large texts where nothing is torn: into byte ranges for many workers, and into pieces in memory.

A cutter knows the places of a file at which it may be cut, and decides each from the bytes around it
alone.  So every worker finds the same places: the range [start, end) of a file owns the bytes from the
first place at or behind `start` to the first one at or behind `end`, and each byte has one owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Iterator, Protocol, Sequence

from beam_bpe import _scan
from beam_bpe.normalize import CHARACTER_STEPS, check_normalizer, shown, steps_of
from beam_bpe.pretokenize import PreTokenizer
from beam_bpe.special import SpecialTokens

PIECE = 8 << 20  # bytes read at a time
REPLACEMENT = "\ufffd".encode()  # what is put where bytes are not UTF-8


class Cutter(Protocol):
    """Where a text may be cut.  Positions are offsets into `data`; 0 and len(data) are not asked for."""

    behind: int  # bytes before a place that decide on it
    ahead: int  # bytes after it that do

    def first(self, data: bytes, begin: int) -> int:
        """Return the first place at or behind `begin`, or -1; `behind` bytes stand before `begin`."""

    def last(self, data: bytes) -> int:
        """Return the last place that the data decide, or -1."""


@dataclass(frozen=True)
class WordRule:
    """How a document is cut into words: all that decides where one ends; checked when it is made.

    Attributes:
        special_tokens: texts that cut a document.
        normalizer: what stands between them goes through it before words are found.
    """

    pre_tokenizer: PreTokenizer
    special_tokens: tuple[str, ...] = ()
    normalizer: str | None = None

    def __post_init__(self) -> None:
        SpecialTokens(self.special_tokens)
        check_normalizer(self.normalizer)

    def __str__(self) -> str:
        normalized = f" and the normalizer {shown(self.normalizer)}" if self.normalizer else ""
        return f"{self.pre_tokenizer.name!r} with the special tokens {list(self.special_tokens)}{normalized}"

    @property
    def may_be_cut(self) -> bool:
        """Whether places are known where a word ends, in the text as the normalizer makes it."""
        if not self.pre_tokenizer.may_be_cut:
            return False
        if self.normalizer is None:
            return True
        steps = steps_of(self.normalizer)
        # Each part would get a space of its own before it, or lose those at its ends; what tables do is not known here.
        if not set(CHARACTER_STEPS).issuperset(steps):
            return False
        # The spaces around a Chinese character join those beside it: they must be no part of a word.
        return self.pre_tokenizer.drops_spaces or "handle_chinese_chars" not in steps


class WordCutter:
    """Cut where a word provably ends whatever stands further left, and never inside a special token.

    With a normalizer these are the places where a word ends in the normalized text, and where what stands on either
    side is normalized by itself.
    """

    def __init__(self, rule: WordRule):
        if rule.pre_tokenizer.scanner is None or not rule.may_be_cut:
            behind = "" if rule.normalizer is None else f" behind the normalizer {shown(rule.normalizer)}"
            raise ValueError(f"under the pattern {rule.pre_tokenizer.pattern!r}{behind} no place is known where a word ends")
        self._scanner = rule.pre_tokenizer.scanner
        self._normalized = rule.normalizer is not None
        self._specials = SpecialTokens(rule.special_tokens)
        self._repaired = [token for token in self._specials.encoded if REPLACEMENT in token]
        self.behind = max(4, self._specials.longest)
        self.ahead = max(4, self._specials.longest)

    def first(self, data: bytes, begin: int) -> int:
        while (at := _scan.first_cut(data, begin, self._scanner, self._normalized)) >= 0 and self._spanned(data, at):
            begin = at + 1
        return at

    def last(self, data: bytes, below: int | None = None) -> int:
        end = len(data) - self._specials.longest + 1
        end = end if below is None else min(end, below)
        while (at := _scan.last_cut(data, end, self._scanner, self._normalized)) >= 0 and self._spanned(data, at):
            end = at
        return at

    def _spanned(self, data: bytes, at: int) -> bool:
        if self._specials.spans(data, at):
            return True
        if not self._repaired:
            return False
        # A token with U+FFFD may come about where broken bytes are replaced: it must not be near at all.
        reach = self._specials.longest - 1
        near = data[max(0, at - reach) : at + reach].decode("utf-8", "replace").encode()
        return any(token in near for token in self._repaired)


class CommonCutter:
    """Cut where a word ends under each of several rules."""

    def __init__(self, rules: Sequence[WordRule]):
        self._cutters = [WordCutter(rule) for rule in rules]
        self.behind = max(cutter.behind for cutter in self._cutters)
        self.ahead = max(cutter.ahead for cutter in self._cutters)

    def first(self, data: bytes, begin: int) -> int:
        # No common place stands before `begin`, which only grows: up to the place furthest right of each round.
        while True:
            places = [cutter.first(data, begin) for cutter in self._cutters]
            if min(places) < 0:
                return -1
            begin = max(places)
            if min(places) == begin:
                return begin

    def last(self, data: bytes) -> int:
        end = len(data)
        while True:
            places = [cutter.last(data, end) for cutter in self._cutters]
            lowest = min(places)
            if lowest < 0 or lowest == max(places):
                return lowest
            end = lowest + 1


class LineCutter:
    """Cut behind every LF."""

    behind, ahead = 1, 0

    def first(self, data: bytes, begin: int) -> int:
        return data.find(b"\n", max(0, begin - 1)) + 1 or -1

    def last(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1 or -1


class ParagraphCutter:
    """Cut behind every blank line."""

    behind, ahead = 3, 0

    def first(self, data: bytes, begin: int) -> int:
        at = max(0, begin - 1)
        while at := data.find(b"\n", at) + 1:
            if self._is_place(data, at):
                return at
        return -1

    def last(self, data: bytes) -> int:
        at = len(data)
        while (at := data.rfind(b"\n", 0, at)) >= 0:
            if self._is_place(data, at + 1):
                return at + 1
        return -1

    @staticmethod
    def _is_place(data: bytes, at: int) -> bool:
        return data.endswith((b"\n\n", b"\n\r\n"), max(0, at - 3), at)


class SeparatorCutter:
    """Cut behind every separator that no other one overlaps from the left: wherever one reads from, it is one."""

    ahead = 0

    def __init__(self, separator: bytes):
        self._separator = separator
        self.behind = 2 * len(separator) - 1

    def first(self, data: bytes, begin: int) -> int:
        at = max(0, begin - len(self._separator))
        while (at := data.find(self._separator, at)) >= 0:
            if self._stands_alone(data, at):
                return at + len(self._separator)
            at += 1
        return -1

    def last(self, data: bytes) -> int:
        end = len(data)
        while (at := data.rfind(self._separator, 0, end)) >= 0:
            end = at + len(self._separator)
            if self._stands_alone(data, at):
                return end
            end -= 1
        return -1

    def _stands_alone(self, data: bytes, at: int) -> bool:
        length = len(self._separator)
        return data.find(self._separator, max(0, at - length + 1), at + length - 1) < 0


class NoCutter:
    """Cut nowhere."""

    behind, ahead = 0, 0

    def first(self, data: bytes, begin: int) -> int:
        return -1

    def last(self, data: bytes) -> int:
        return -1


class UncutError(ValueError):
    """More bytes than allowed had to be held because no place to cut them was found."""


def read_pieces(
    file: BinaryIO, start: int, end: int | None, cutter: Cutter, *, piece: int = PIECE, most: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of the pieces that the range [start, end) of a file owns, in order.

    Args:
        file: seekable if start > 0.
        end: None for the end of the file, whose size then need not be known.
        piece: bytes to read at a time; what has no place to cut is read on, in growing steps.
        most: bytes that a piece may have at the most (UncutError); None for no limit.
    """
    base = max(0, start - cutter.behind)  # offset of data[0] in the file
    if base:
        file.seek(base)
    data = b""
    at = 0 if start == 0 else -1  # where what is owned begins in data; -1: not found yet
    seen = start - base  # no place before it is left to be found
    step = piece
    while True:
        left = None if end is None else end - base - len(data) + cutter.ahead + 4096
        want = step if left is None or not 0 < left <= 2 * step else left
        fresh = file.read(want)
        whole = len(fresh) < want
        data = data + fresh if data else fresh
        decided = len(data) if whole else len(data) - cutter.ahead - 4  # places up to here can be decided
        if most is not None and len(data) > most:
            raise UncutError(f"more than {most:,} bytes without a place to cut them")
        if at < 0:
            found = cutter.first(data, seen)
            if not 0 <= found <= decided:
                seen = max(seen, decided)
                if whole or (end is not None and base + seen >= end):
                    return  # the range before reads up to its own end or further
                step *= 2
                continue
            if end is not None and base + found >= end:
                return
            at = seen = found
        if end is not None and base + len(data) > end:
            found = cutter.first(data, max(end - base, seen))
            if 0 <= found <= decided:
                yield base + at, data[at:found]
                return
            seen = max(seen, decided, end - base)
        if whole:
            if len(data) > at:
                yield base + at, data[at:]
            return
        cut = cutter.last(data[:decided]) if end is None or base + len(data) <= end else -1
        if cut > at:
            yield base + at, data[at:cut]
            drop = max(0, cut - cutter.behind)
            data = data[drop:]
            base, at, seen, step = base + drop, cut - drop, max(cut, seen) - drop, piece
        else:
            step *= 2
