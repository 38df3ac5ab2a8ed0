"""The initial symbols of words of characters: which characters are kept, and how each is spelled at its place."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Sequence

import numpy as np

from beam_bpe import _merge
from beam_bpe.learning import Learning
from beam_bpe.word_rows import INT64_MAX
from beam_bpe.words import WordCounts

#: The places of a character in a word, as the kernel counts them.
ONLY, FIRST, INNER, LAST = range(_merge.PLACES)


@dataclass(frozen=True)
class Form:
    """How a character is spelled at some places: with a mark before or behind it."""

    places: tuple[int, ...]
    before: str = ""
    behind: str = ""


@dataclass(frozen=True)
class Alphabet:
    """The initial symbols in the order of their ids, which begin at `first`.

    Attributes:
        symbols: their spellings, marks included.
        lengths: characters of text of each (uint32).
        ids: the id of each character by its place, NO_SYMBOL where it has none (uint32).
        end_of_word: the id of the end of a word, where it is a symbol of its own; else NO_SYMBOL.
        characters: occurrences of characters in the words.
        unknown: of them, those that are not in the alphabet.
    """

    first: int
    symbols: list[str]
    lengths: np.ndarray
    ids: np.ndarray
    end_of_word: int
    characters: int
    unknown: int

    def frequencies(self, found: np.ndarray) -> np.ndarray:
        """Return the occurrences of each symbol (int64), from those of characters by place."""
        counts = np.zeros(len(self.symbols), np.int64)
        for place, (ids, occurrences) in enumerate(zip(self.ids, found)):
            known = np.flatnonzero((occurrences > 0) & (ids != _merge.NO_SYMBOL))
            at = ids[known] - self.first  # each symbol at most once
            counts[at] += occurrences[known]
            if (counts[at] < 0).any():
                character = chr(int(known[np.argmax(counts[at] < 0)]))
                raise OverflowError(f"the character {character!r} counts more than 2**63 - 1")
        return counts


def count_characters(words: WordCounts) -> np.ndarray:
    """Return the occurrences of every character at every place (int64, of shape (PLACES, CODE_POINTS)).

    Raises:
        ValueError: a word is not UTF-8.
        OverflowError: a character occurs more than 2**63 - 1 times.
    """
    found = np.zeros((_merge.PLACES, _merge.CODE_POINTS), np.int64)
    for batch in words.batches():
        _merge.count_characters(batch.data, batch.offsets, batch.counts, found)
    return found


def sums(found: np.ndarray) -> dict[int, int]:
    """Return the occurrences of characters, of all places, from those of `count_characters`.

    Raises:
        OverflowError: a character occurs more than 2**63 - 1 times.
    """
    seen = np.flatnonzero(found.any(0)).tolist()
    counts = dict(zip(seen, found[:, seen].astype(object).sum(0).tolist()))
    for character, count in counts.items():
        if count > INT64_MAX:
            raise OverflowError(f"the character {chr(character)!r} counts more than 2**63 - 1")
    return counts


def most_frequent(counts: dict[int, int], coverage: Fraction, limit: int | None = None) -> list[int]:
    """Return the smallest number of most frequent characters whose share of all is at least `coverage`.

    Args:
        counts: occurrences by code point, of equal ones the lower code point comes first.
        limit: at most so many.

    >>> most_frequent({97: 6, 98: 3, 99: 1}, Fraction("0.9"))
    [97, 98]
    """
    needed = coverage * sum(counts.values())
    kept: list[int] = []
    covered = 0
    for character in sorted(counts, key=lambda one: (-counts[one], one)):
        if covered >= needed or len(kept) == limit:
            break
        kept.append(character)
        covered += counts[character]
    return kept


def make_alphabet(found: np.ndarray, learning: Learning, forms: Sequence[Form], both_forms: bool = False) -> Alphabet:
    """Choose the characters that are kept and give them ids, behind the tokens that are fixed.

    Args:
        found: of `count_characters`.
        both_forms: a character has every form, even if it was not seen so.

    Raises:
        ValueError: a symbol is a special token or the mark as well, or `alphabet_order` lacks one.
    """
    counts = sums(found)
    kept = most_frequent(counts, Fraction(str(learning.character_coverage)), learning.limit_alphabet)
    spelled = [
        (form, character, form.before + chr(character) + form.behind)
        for form in forms
        for character in kept
        if both_forms or any(found[place, character] for place in form.places)
    ]
    symbols = {spelling for _, _, spelling in spelled}
    end = None if learning.attached else learning.end_of_word
    if end in symbols:
        raise ValueError(f"end_of_word={end!r} is a character of the words as well: choose another mark, or attached=True")
    if end:
        symbols.add(end)
    for token in learning.fixed:
        if token in symbols:
            raise ValueError(f"the special token {token!r} is a symbol of the words as well: choose another")
    order = _ordered(symbols, learning)
    first = len(learning.fixed)
    by_spelling = {spelling: first + i for i, spelling in enumerate(order)}
    ids = np.full((_merge.PLACES, _merge.CODE_POINTS), _merge.NO_SYMBOL, np.uint32)
    for form, character, spelling in spelled:
        ids[form.places, character] = by_spelling[spelling]
    return Alphabet(
        first=first,
        symbols=order,
        lengths=np.array([_length(symbol, forms, end) for symbol in order], np.uint32),
        ids=ids,
        end_of_word=by_spelling[end] if end else _merge.NO_SYMBOL,
        characters=sum(counts.values()),
        unknown=sum(counts.values()) - sum(counts[character] for character in kept),
    )


def _ordered(symbols: set[str], learning: Learning) -> list[str]:
    if learning.alphabet_order is None:
        return sorted(symbols)
    order = list(learning.alphabet_order)
    if missing := symbols - set(order):
        raise ValueError(f"alphabet_order lacks {min(missing)!r}: name all initial symbols, or leave it out")
    if fixed := set(order) & set(learning.fixed):
        raise ValueError(f"alphabet_order holds {min(fixed)!r}, which has its id as a special token: leave it out there")
    return order


def _length(symbol: str, forms: Sequence[Form], end: str | None) -> int:
    """Return the characters of a symbol without its marks."""
    if symbol == end:
        return 0
    marks = (len(f.before + f.behind) for f in forms if symbol.startswith(f.before) and symbol.endswith(f.behind))
    return len(symbol) - max((mark for mark in marks if mark < len(symbol)), default=0)
