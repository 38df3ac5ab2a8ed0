"""Learn the merges of SentencePiece (Kudo and Richardson 2018) from word counts.

They differ from those of characters in the tie rule (fewer characters, then the smaller spelling), in what a piece may hold
(one U+2581, at its beginning; 16 characters), and in going down to pairs that occur once.  The pieces and their order are
those of the package's trainer, where it has not run out of pairs; but counts are of 64 bits, coverage is exact, and no
text is too long.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from beam_bpe import _merge, merging
from beam_bpe.alphabet import Alphabet
from beam_bpe.characters import load
from beam_bpe.learning import SPACE, Learning
from beam_bpe.merging import Progress
from beam_bpe.scored import prepare, vocabulary_of
from beam_bpe.script_table import SCRIPTS
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

_DIGITS = (*range(0x30, 0x3A), *range(0xFF10, 0xFF1A))
_COMMON = 2  # the number of the script of punctuation, beside ANY_SCRIPT and SCRIPT_BEFORE


def learn(words: WordCounts, learning: Learning, progress: Progress | None = None) -> Vocabulary:
    """Learn a vocabulary whose pieces are merges, in their order, then characters by (count descending, code point)."""
    material = prepare(words, learning)
    first = len(material.kept)
    initial = [chr(character).encode() for character in material.kept]
    ids = np.full((_merge.PLACES, _merge.CODE_POINTS), _merge.NO_SYMBOL, np.uint32)
    ids[:, material.kept] = np.arange(first)
    loop, cells = load(
        material.words,
        Alphabet(
            first=0,
            symbols=[chr(character) for character in material.kept],
            lengths=np.ones(first, np.uint32),
            ids=ids,
            end_of_word=_merge.NO_SYMBOL,
            characters=material.characters,
            unknown=material.unknown,
        ),
        initial,
        min_pair_count=1,
        max_length=learning.max_token_length,
        tie_rule="shortest",
        scripts=scripts_of(material.kept, learning.split_by_number) if learning.split_by_unicode_script else None,
        excluded=learning.excluded,
    )
    wanted = material.room - first
    report = None if progress is None else lambda done, _, count: progress(done, wanted, count)
    found = merging.run(loop, min(wanted, cells + 1), report, tokens=material.room)  # each merge shortens a word
    tokens = list(initial)
    for left, right, made in zip(found.left.tolist(), found.right.tolist(), found.made.tolist()):
        if made == len(tokens):
            tokens.append(tokens[left] + tokens[right])
    # The loop has the characters first, the vocabulary has them last.
    fixed, learned = len(learning.fixed), len(tokens) - first
    numbered = np.arange(fixed - first, fixed + learned, dtype=np.int64)
    numbered[:first] = np.arange(first) + fixed + learned
    columns = {name: numbered[getattr(found, name)].astype(np.uint32) for name in ("left", "right", "made")}
    return vocabulary_of(
        words,
        learning,
        material,
        [*tokens[first:], *initial],
        0.0 - np.arange(len(tokens)),
        found.stop_reason,
        replace(found, **columns),
    )


def scripts_of(characters: list[int], split_by_number: bool) -> np.ndarray:
    """Return a number for the script of each character (uint8), as `_merge.MergeLoop` takes them.

    >>> scripts_of([ord(character) for character in "ab1!é漢かー\\u0301▁"], split_by_number=True).tolist()
    [4, 4, 2, 2, 4, 3, 3, 3, 1, 1]
    """
    first, last, number = _script_ranges()
    codes = np.array(characters, np.int64)
    at = np.maximum(np.searchsorted(first, codes, "right") - 1, 0)
    found = np.where((first[at] <= codes) & (codes <= last[at]), number[at], _COMMON).astype(np.uint8)
    found[codes == ord(SPACE)] = _merge.SCRIPT_BEFORE
    if not split_by_number:
        found[np.isin(codes, _DIGITS)] = _merge.ANY_SCRIPT
    return found


@lru_cache(1)
def _script_ranges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first and the last character of each range of one script, in their order, and the script's number."""
    numbers = {"INHERITED": _merge.SCRIPT_BEFORE, "HAN": _COMMON + 1, "LATIN": _COMMON + 2}
    rows = []
    for name, ranges in SCRIPTS.items():
        number = numbers.setdefault(name, len(numbers) + _COMMON)
        for bounds in ranges.split():
            low, _, high = bounds.partition("-")
            rows.append((int(low, 16), int(high or low, 16), number))
    first, last, number_of = np.array(sorted(rows), np.int64).T
    return first, last, number_of
