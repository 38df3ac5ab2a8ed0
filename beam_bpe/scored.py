"""What the algorithms with scores share in learning: words cut at symbols, their characters, and the vocabulary that results."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe.alphabet import count_characters, most_frequent, sums
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.learning import SPACE, Learning
from beam_bpe.merging import Merges, check_excluded, distinct_counts
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.word_parts import word_schema
from beam_bpe.word_rows import INT64_MAX
from beam_bpe.words import WordCounts

#: Stands for a symbol in the words that are learned from, and counts as a character there.
BOUNDARY = "\x1f"
#: Characters that no piece holds, as in SentencePiece.
NEVER = frozenset(map(ord, "\0\x1f\u2585"))

_BYTES = "<0x[0-9A-F]{2}>"
_DIGITS = "0-9\uff10-\uff19"
_AT_ONCE = 500  # symbols that one regular expression looks for
_MOST = 1 << 31  # tokens that are asked for at most; the kernels count in 32 bits, and no table has so many


@dataclass(frozen=True)
class Material:
    """What is learned from.

    Attributes:
        words: without the text of symbols; U+2581 stands at their beginning at most, and digits alone if they are split.
        kept: code points that are pieces, the most frequent first, of equal ones the lower first.
        characters: occurrences of characters in the words.
        unknown: of them, those that are not kept.
        room: pieces, characters among them, that the vocabulary has room for.
    """

    words: WordCounts
    kept: list[int]
    characters: int
    unknown: int
    room: int


def prepare(words: WordCounts, learning: Learning) -> Material:
    """Cut words at what is no part of a piece, and choose the characters that are kept.

    The alphabet is that of SentencePiece: a symbol counts as one character, NUL as none.

    Raises:
        ValueError: there are no words, or one is not UTF-8, or the characters do not fit into the vocabulary.
        OverflowError: a character occurs more than 2**63 - 1 times.
    """
    distinct_counts(words)  # there are words
    words, symbols = cut_words(words, learning)
    counts = {character: count for character, count in sums(count_characters(words)).items() if count}
    coverage = Fraction(str(learning.character_coverage))
    covering = most_frequent({character: count for character, count in counts.items() if character}, coverage)
    kept = [character for character in covering if character not in NEVER][: learning.limit_alphabet]
    characters = sum(counts.values()) - symbols
    room = min(int(learning.vocab_size or 0), _MOST) - len(learning.fixed)
    if room < len(kept):
        raise ValueError(
            f"vocab_size is {learning.vocab_size:,}, but the alphabet of {len(kept):,} characters and {len(learning.fixed):,} "
            f"other tokens take {len(kept) + len(learning.fixed):,}: raise it, or leave out rare characters "
            "(limit_alphabet, character_coverage)"
        )
    if not kept:
        raise ValueError("there are no words to learn from: they hold nothing but symbols and characters that are left out")
    check_excluded(learning.excluded, {text.encode() for text in [*map(chr, kept), *learning.fixed]})
    return Material(words, kept, characters, characters - sum(counts[character] for character in kept), room)


def cut_words(words: WordCounts, learning: Learning) -> tuple[WordCounts, int]:
    """Return words in which symbols are `BOUNDARY`, cut before each U+2581 and around split digits; and those symbols.

    Symbols are all tokens that are there before any word is seen; at each place the longest is found.
    """
    column = words.table["word"]
    hit = pc.match_substring_regex(column, f"(?s).{SPACE}")  # of bytes, as the column is: so are the digits
    if learning.split_digits:
        hit = pc.or_(hit, pc.match_substring_regex(column, r"[0-9]|\xef\xbc[\x90-\x99]"))
    literals = [*learning.specials, *learning.user_defined_symbols]
    patterns = [(len(text), re.escape(text)) for text in literals] + [(6, _BYTES)] * learning.byte_fallback
    for start in range(0, len(patterns), _AT_ONCE):
        some = "|".join(pattern for _, pattern in patterns[start : start + _AT_ONCE])
        hit = pc.or_(hit, pc.match_substring_regex(column, some))
    if not pc.any(hit).as_py():
        return words, 0
    finder = re.compile("|".join(pattern for _, pattern in sorted(patterns, key=lambda one: -one[0])))
    digits = _DIGITS if learning.split_digits else ""
    part = re.compile(f"{SPACE}?[^{SPACE}{digits}]+|{SPACE}" + (f"|[{digits}]" if digits else ""))
    parts: Counter[str] = Counter()
    symbols = 0
    for word, count in _rows(words.table.filter(hit)):
        text, found = finder.subn(BOUNDARY, _decoded(word))
        symbols += found * count
        for one in part.findall(text):
            parts[one] += count
    for one, count in parts.items():
        if count > INT64_MAX:
            raise OverflowError(f"{one[:60]!r} counts more than 2**63 - 1")
    columns = [pa.array([one.encode() for one in parts], pa.binary()), pa.array(parts.values(), pa.int64())]
    cut = pa.table(columns, schema=word_schema(documents=False))
    rest = words.table.filter(pc.invert(hit)).select(cut.column_names).cast(cut.schema)
    return WordCounts(pa.concat_tables([rest, cut]), words.parameters, words.totals).merge(), symbols


def _rows(table: pa.Table) -> Iterator[tuple[bytes, int]]:
    for batch in table.to_batches():
        yield from zip(batch["word"].to_pylist(), batch["count"].to_pylist())


def _decoded(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the word {word[:60]!r} is not UTF-8, so it has no characters") from None


def vocabulary_of(
    words: WordCounts,
    learning: Learning,
    material: Material,
    pieces: Sequence[bytes],
    scores: Sequence[float] | np.ndarray,
    stop_reason: str,
    merges: Merges | None = None,
) -> Vocabulary:
    """Return the vocabulary of pieces, whose ids follow the special tokens, the user-defined symbols and the bytes.

    Args:
        merges: those that made the pieces, in ids of the vocabulary; None where there were none.
    """
    specials, fixed = learning.specials, learning.fixed
    nothing, none = np.empty(0, np.uint32), np.empty(0, np.int64)
    return Vocabulary(
        pre_tokenizer=words.pre_tokenizer,
        alphabet=b"",
        left=merges.left if merges else nothing,
        right=merges.right if merges else nothing,
        counts=merges.counts if merges else none,
        replaced=merges.replaced if merges else none,
        special_tokens=specials,
        normalizer=words.normalizer,
        stop_reason=stop_reason,
        parameters={**learning.parameters(), "words": dict(words.parameters)},
        totals={
            **words.totals,
            "distinct_words": len(words),
            "characters": material.characters,
            "unknown_characters": material.unknown,
        },
        layout=Layout(
            tokens=(*[b""] * len(specials), *(token.encode() for token in fixed[len(specials) :]), *pieces),
            merged=merges.made if merges else nothing,
            added_tokens=tuple(AddedToken(token, i) for i, token in enumerate(specials)),
            scores=np.concatenate([np.zeros(len(fixed)), np.asarray(scores, np.float64)]),
            user_defined=tuple(range(len(specials), len(specials) + len(learning.user_defined_symbols))),
        ),
        model=learning.model,
    )
