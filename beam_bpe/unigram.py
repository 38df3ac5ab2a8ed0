"""Learn the pieces of a Unigram language model: Kudo 2018, "Subword Regularization", from word counts.

From a large number of seed pieces, expectation maximization and pruning by turns leave those without which the words
would become least likely.  As in SentencePiece, whose parameters these are; but counts are exact, sums are of doubles in an
order that the words' own order does not change, scores belong to the pieces that remain, and no word is too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Callable, Iterable

import numpy as np

from beam_bpe import _unigram, _words
from beam_bpe.alphabet import count_characters
from beam_bpe.learning import Learning, share_of
from beam_bpe.merging import check_memory, distinct_counts
from beam_bpe.scored import prepare, vocabulary_of
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

#: Memory for each character of distinct words (one more for each word), at its peak; measured on 26,000 and 325,000 words with
#: pieces of at most 16 characters (45), with a margin.
BYTES_PER_CHARACTER = 64

#: Before the last choice, which is by score, there are so many times the pieces wanted.
SURPLUS = Fraction("1.1")

#: Pieces expected less often than this in all words are dropped in every step but the last ones.
LEAST_EXPECTED = 0.5

Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Pieces:
    """The pieces of a Unigram language model.

    Attributes:
        spellings: by score, the highest first, of equal ones in the order of code points.
        scores: natural logarithms of their probabilities (float64), whose sum is a little below 1: each is discounted.
        characters: how many of them are single characters, which are always kept.
        seeds: pieces at the start.
        loss: minus the logarithm of the words' likelihood, before the scores were last estimated.
        stop_reason: "vocab_size", or "no_pieces": there are fewer that are of use.
    """

    spellings: tuple[str, ...]
    scores: np.ndarray
    characters: int
    seeds: int
    loss: float
    stop_reason: str


def learn(words: WordCounts, learning: Learning, progress: Progress | None = None) -> Vocabulary:
    """Learn a vocabulary whose pieces stand by score, rounded to single precision as `.model` files hold them."""
    material = prepare(words, learning)
    pieces = learn_pieces(
        material.words,
        material.room,
        characters=material.kept,
        seed_size=learning.seed_size,
        max_piece_length=int(learning.max_token_length or 0),
        shrinking_factor=learning.shrinking_factor,
        sub_iterations=learning.sub_iterations,
        excluded=[piece.decode("utf-8", "replace") for piece in learning.excluded],
        progress=progress,
    )
    spelled = [piece.encode() for piece in pieces.spellings]
    return vocabulary_of(words, learning, material, spelled, pieces.scores.astype(np.float32), pieces.stop_reason)


def learn_pieces(
    words: WordCounts,
    size: int,
    *,
    characters: Iterable[int] | None = None,
    seed_size: int = 1_000_000,
    max_piece_length: int = 16,
    shrinking_factor: float | str | Fraction = 0.9,
    sub_iterations: int = 2,
    excluded: Iterable[str] = (),
    progress: Progress | None = None,
) -> Pieces:
    """Learn at most `size` pieces, single characters among them, and their scores.

    Args:
        words: counts of distinct words; no piece crosses their bounds.
        size: pieces; special tokens and bytes are not among them.
        characters: code points that are pieces in any case; words are cut at all others.  None: all that occur.
        seed_size: pieces to start with beside the characters, at most: substrings that occur twice or more, those with
            the highest count times length.  One that always stands in the same longer one is left out.
        max_piece_length: in characters.
        shrinking_factor: share of the pieces that each pruning leaves.  Losses are estimated for one piece at a time, so
            small steps choose better: SentencePiece's 0.75 takes half the time, for some tokens more.
        sub_iterations: steps of expectation maximization before each pruning, and behind the last one.
        excluded: pieces, of more than one character, that are left out from the start.
        progress: called after each step with (prunings so far, prunings foreseen, pieces).

    Raises:
        TypeError, ValueError: a parameter, no words, or fewer pieces wanted than there are characters.
        OverflowError: a substring counts more than 2**63 - 1.
        MemoryError: the table is larger than the memory that is available.

    >>> words = WordCounts.from_mapping({"▁low": 50, "▁lower": 20, "▁newest": 60, "▁widest": 30})
    >>> learned = learn_pieces(words, 15)
    >>> [piece for piece in learned.spellings if len(piece) > 1]
    ['▁newest', '▁low', '▁widest', '▁lower']
    """
    size = _whole("size", size, 1)
    seed_size = _whole("seed_size", seed_size, 0)
    sub_iterations = _whole("sub_iterations", sub_iterations, 1)
    max_piece_length = _whole("max_piece_length", max_piece_length, 1, _unigram.LONGEST_PIECE)
    factor = share_of(shrinking_factor)
    distinct_counts(words)  # there are words
    if characters is None:
        kept = np.flatnonzero(count_characters(words).any(0)).astype(np.uint32)
    else:
        kept = np.array(sorted(set(characters)), np.uint32)
    if size < len(kept):
        raise ValueError(
            f"{size:,} pieces are wanted, but {len(kept):,} characters take one each: raise vocab_size, or leave out "
            "rare characters (character_coverage)"
        )
    learner = _load(words, kept, max_piece_length)
    alive = seeds = learner.seed(seed_size)
    learner.exclude(excluded)
    others, before_last = size - len(kept), max(int(SURPLUS * size) - len(kept), 0)
    rounds = 0
    while True:
        alive = _estimate(learner, sub_iterations)
        if progress is not None:
            progress(rounds, rounds + _rounds(alive, before_last + len(kept), factor), alive)
        if alive - len(kept) <= before_last:
            break
        learner.prune(max(before_last, int(factor * alive) - len(kept)))
        rounds += 1
    learner.keep_likeliest(others)
    for _ in range(sub_iterations):
        loss = -learner.expect()
        learner.maximize(LEAST_EXPECTED, dropping=False)
    spellings, scores = learner.pieces()
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], spellings[i]))
    if progress is not None:
        progress(rounds, rounds, len(order))
    return Pieces(
        spellings=tuple(spellings[i] for i in order),
        scores=np.array([scores[i] for i in order]),
        characters=len(kept),
        seeds=seeds,
        loss=loss,
        stop_reason="vocab_size" if len(order) == size else "no_pieces",
    )


def _load(words: WordCounts, characters: np.ndarray, max_piece_length: int) -> _unigram.UnigramLearner:
    """Return a learner that holds the words, in the order of their bytes."""
    before = b""
    for batch in words.batches():
        if _words.first_unordered(batch.data, batch.offsets, before) >= 0:
            words = words.merge()
            break
        before = batch.data[batch.offsets[-2] : batch.offsets[-1]].tobytes()
    learner = _unigram.UnigramLearner(characters, max_piece_length)
    for batch in words.batches():
        learner.measure(batch.data, batch.offsets, batch.counts)
    check_memory(learner.symbols, len(words), unit="characters", each=BYTES_PER_CHARACTER)
    learner.allocate()
    for batch in words.batches():
        learner.add(batch.data, batch.offsets, batch.counts)
    return learner


def _estimate(learner: _unigram.UnigramLearner, steps: int) -> int:
    """Take steps of expectation maximization; return the pieces that are left."""
    alive = 0
    for _ in range(steps):
        learner.expect()
        alive = learner.maximize(LEAST_EXPECTED)
    return alive


def _rounds(pieces: int, wanted: int, shrinking_factor: Fraction) -> int:
    rounds = 0
    while pieces > wanted:
        pieces = max(wanted, int(shrinking_factor * pieces))
        rounds += 1
    return rounds


def _whole(name: str, number: int, least: int, most: int = 2**63 - 1) -> int:
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise TypeError(f"{name} is {number!r}; it must be a whole number")
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}; it lies between {least} and {most:,}")
    return int(number)
