"""Learn a vocabulary from word counts: merges of bytes or characters, WordPiece, whole words, SentencePiece, Unigram."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np

from beam_bpe import _merge, characters, merging, sentencepiece_bpe, unigram, wordlevel, wordpiece
from beam_bpe.learning import Learning, learning_of
from beam_bpe.merging import Progress, check_memory
from beam_bpe.reference import BYTE_ORDER
from beam_bpe.special import SpecialTokens
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts


def train(
    words: WordCounts | Mapping[bytes | str, int],
    vocab_size: int | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Vocabulary:
    """Learn a vocabulary of at most `vocab_size` tokens.

    The result is a function of the counts and the parameters alone: the order of the words, their
    shards and the machine change nothing.

    Args:
        words: counts of distinct words; a mapping's str keys are taken as UTF-8.
        vocab_size: tokens, those included that are not learned: special tokens, and the 256 bytes or the alphabet.
        progress: called now and then with (merges so far, merges wanted, count of the last one), by unigram with
            (prunings so far, prunings foreseen, pieces).
        options: attributes of `Learning`, of which these are for all merges: `special_tokens` (may not occur inside a
            word), `min_pair_count=2`, `max_token_length=None`, `tie_break="huggingface"`, `num_merges` instead of
            vocab_size.  Others choose what is learned: `algorithm="bpe"`, "wordpiece", "wordlevel", "sentencepiece-bpe" or
            "unigram"; for bpe `unit="byte"` or "character", there with `end_of_word="</w>"` for example.

    Returns:
        The vocabulary; its `stop_reason` says whether it is full ("vocab_size", "num_merges") or why not
        ("min_pair_count": the best pair left is rarer; "no_pairs": none is left; "no_words": all have a token;
        "no_pieces": no others are of use; "min_count": all that are frequent enough).

    Raises:
        ValueError: a parameter, or no words, or a special token that occurs inside a word.
        OverflowError: a pair occurs more than 2**63 - 1 times; the message names it.
        MemoryError: the table is larger than the memory that is available.

    >>> low = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    >>> vocabulary = train(low, 260)
    >>> [merge.token.decode() for merge in vocabulary.merges], vocabulary.counts.tolist()
    (['es', 'est', 'lo', 'low'], [9, 9, 7, 7])
    >>> vocabulary = train(low, num_merges=4, unit="character", end_of_word="</w>")
    >>> [merge.token.decode() for merge in vocabulary.merges]
    ['es', 't</w>', 'est</w>', 'lo']
    """
    return learn(words, learning_of(vocab_size, options), progress)


def learn(
    words: WordCounts | Mapping[bytes | str, int], learning: Learning, progress: Progress | None = None
) -> Vocabulary:
    """Learn what parameters that are checked already say; see `train`."""
    if not isinstance(words, WordCounts):
        words = WordCounts.from_mapping(words)
    words = words.ungrouped()
    if learning.min_count > 1:
        words = words.prune(learning.min_count)
    for token, word in SpecialTokens(learning.special_tokens).occurring_in(words.table["word"]):
        raise ValueError(
            f"the special token {token!r} occurs inside the word {word[:60]!r}: count with special_tokens=[{token!r}], "
            "so that documents are cut there"
        )
    return _FAMILIES[learning.family](words, learning, progress)


def _learn_bytes(words: WordCounts, learning: Learning, progress: Progress | None) -> Vocabulary:
    """Learn merges of bytes."""
    merges = learning.merges or 0
    merging.check_excluded(learning.excluded, {bytes([byte]) for byte in range(256)})
    loop, cells = _load(words, learning)
    report = None if progress is None else lambda done, _, count: progress(done, merges, count)
    found = merging.run(loop, min(merges, cells), report)  # each merge shortens a word: there are fewer than cells
    full = found.stop_reason == "vocab_size" and learning.num_merges is not None
    return Vocabulary(
        pre_tokenizer=words.pre_tokenizer,
        alphabet=BYTE_ORDER[learning.tie_break],
        left=found.left,
        right=found.right,
        counts=found.counts,
        replaced=found.replaced,
        special_tokens=tuple(learning.special_tokens),
        normalizer=words.normalizer,
        stop_reason="num_merges" if full else found.stop_reason,
        parameters={**learning.parameters(), "words": dict(words.parameters)},
        totals={**words.totals, "distinct_words": len(words)},
    )


def _load(words: WordCounts, learning: Learning) -> tuple[_merge.MergeLoop, int]:
    """Return a merge loop that holds the words, and their bytes with one more for each word."""
    order = BYTE_ORDER[learning.tie_break]
    ids = np.empty(256, np.uint32)
    ids[list(order)] = np.arange(256, dtype=np.uint32)
    loop = _merge.MergeLoop(
        merging.distinct_counts(words),
        [bytes([byte]) for byte in order],
        learning.min_pair_count,
        0xFFFFFFFF if learning.max_token_length is None else min(learning.max_token_length, 0xFFFFFFFF),
        _merge.TIE_RULES["greatest_bytes" if learning.tie_break == "lexicographic" else "lowest_ids"],
        excluded=learning.excluded,
    )
    cells = 0
    for batch in words.batches():
        cells += int(batch.offsets[-1] - batch.offsets[0]) + len(batch.counts)
        loop.measure(batch.offsets, batch.counts)
    check_memory(cells, len(words))
    loop.allocate()
    for batch in words.batches():
        loop.add_bytes(batch.data, batch.offsets, batch.counts, ids)
    return loop, cells


_FAMILIES: Mapping[str, Callable[[WordCounts, Learning, Progress | None], Vocabulary]] = {
    "bytes": _learn_bytes,
    "characters": characters.learn,
    "wordpiece": wordpiece.learn,
    "wordlevel": wordlevel.learn,
    "sentencepiece-bpe": sentencepiece_bpe.learn,
    "unigram": unigram.learn,
}
