"""Learn merges of characters: byte-pair encoding as Sennrich, Haddow and Birch 2016 have it, with an end of word or without.

What is shared with WordPiece is here too: from words to initial symbols, merges of them, and the vocabulary that results.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import _merge, merging
from beam_bpe.alphabet import FIRST, INNER, LAST, ONLY, Alphabet, Form, count_characters, make_alphabet
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.learning import Learning
from beam_bpe.merging import Merges, Progress
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

#: Memory of the merge loop for each character of distinct words (one more for each word), by count and by likelihood, at its
#: peak; measured on 1.5 million words (tests/benchmarks) with min_pair_count=1, with a margin.
BYTES_PER_CHARACTER, BYTES_PER_SCORED_CHARACTER = 16, 40

_MOST = 0xFFFFFFE0  # ids have 32 bits


def learn(words: WordCounts, learning: Learning, progress: Progress | None = None) -> Vocabulary:
    """Learn a vocabulary of characters and their merges.

    A character is a symbol; its word's end is one too, or attached to the last character.  A spelling that arises twice,
    which needs a word that holds the text of the mark, keeps its id.  No merge crosses a character that is not kept.
    """
    if learning.attached:
        forms = [Form((FIRST, INNER)), Form((ONLY, LAST), behind=str(learning.end_of_word))]
    else:
        forms = [Form((ONLY, FIRST, INNER, LAST))]
    found = count_characters(words)
    return learn_symbols(words, learning, make_alphabet(found, learning, forms), progress)


def learn_symbols(
    words: WordCounts,
    learning: Learning,
    alphabet: Alphabet,
    progress: Progress | None,
    *,
    kept_whole: Sequence[bytes] = (),
    by_likelihood: bool = False,
) -> Vocabulary:
    """Learn merges of an alphabet's symbols from words.

    Args:
        kept_whole: words that become tokens behind the alphabet, and that nothing is learned from.
        by_likelihood: the pair whose score is highest is merged, not the most frequent one.
    """
    merging.distinct_counts(words)  # there are words
    rest = words
    if kept_whole:
        taken = pc.is_in(words.table["word"], value_set=pa.array(kept_whole, pa.binary()))
        rest = WordCounts(words.table.filter(pc.invert(taken)), words.parameters, words.totals)
    frequencies = None
    if by_likelihood:
        frequencies = alphabet.frequencies(count_characters(rest))
    initial = [*(token.encode() for token in [*learning.fixed, *alphabet.symbols]), *kept_whole]
    if learning.vocab_size is not None and learning.vocab_size < len(initial):
        raise ValueError(
            f"vocab_size is {learning.vocab_size}, but the alphabet of {len(alphabet.symbols):,} symbols and "
            f"{len(initial) - len(alphabet.symbols):,} other tokens take {len(initial):,}: raise it, or leave out rare "
            "characters (limit_alphabet, character_coverage)"
        )
    merging.check_excluded(learning.excluded, set(initial))
    loop, cells = load(
        rest,
        alphabet,
        initial,
        frequencies=frequencies,
        min_pair_count=learning.min_pair_count,
        max_length=learning.max_token_length,
        tie_rule="greatest_bytes" if learning.tie_break == "lexicographic" else "lowest_ids",
        prefix=learning.model.continuing_subword_prefix or "",
        excluded=learning.excluded,
    )
    # Each merge shortens a word, so there are fewer than cells.
    if learning.num_merges is not None:
        wanted, tokens = learning.num_merges, _MOST
    else:
        wanted, tokens = int(learning.vocab_size or 0) - len(initial), min(int(learning.vocab_size or 0), _MOST)
    most = min(wanted if learning.num_merges is not None else cells + 1, cells + 1, _MOST - len(initial))
    report = None if progress is None else lambda done, _, count: progress(done, max(done, wanted), count)
    merges = merging.run(loop, most, report, tokens=tokens)
    return _vocabulary(words, learning, alphabet, initial, merges)


def load(
    words: WordCounts,
    alphabet: Alphabet,
    initial: list[bytes],
    *,
    min_pair_count: int,
    max_length: int | None,
    tie_rule: str,
    prefix: str = "",
    frequencies: np.ndarray | None = None,
    scripts: np.ndarray | None = None,
    excluded: list[bytes] | None = None,
) -> tuple[_merge.MergeLoop, int]:
    """Return a merge loop that holds the words, and their symbols with one more for each word.

    Args:
        initial: tokens that are there before any merge, the symbols of the alphabet at `alphabet.first`.
        frequencies: occurrences of the symbols, for merging by likelihood.
        scripts: of the symbols, where no merge is of two; as `_merge.MergeLoop` has them.
        excluded: spellings that no merge makes.
    """
    counts = merging.distinct_counts(words) if len(words) else np.empty(0, np.int64)
    fixed, others = alphabet.first, len(initial) - alphabet.first - len(alphabet.symbols)
    whole = np.array([len(word.decode()) for word in initial[len(initial) - others :]], np.uint32)
    lengths = np.concatenate([np.zeros(fixed, np.uint32), alphabet.lengths, whole])
    if frequencies is not None:
        frequencies = np.concatenate([np.zeros(fixed, np.int64), frequencies, np.zeros(others, np.int64)])
    loop = _merge.MergeLoop(
        counts,
        initial,
        min_pair_count,
        0xFFFFFFFF if max_length is None else min(max_length, 0xFFFFFFFF),
        _merge.TIE_RULES[tie_rule],
        lengths,
        prefix.encode(),
        fixed,
        frequencies,
        scripts,
        excluded,
    )
    more = int(alphabet.end_of_word != _merge.NO_SYMBOL)
    cells = 0
    for batch in words.batches():
        symbols = np.frombuffer(_merge.symbol_offsets(batch.data, batch.offsets, more), np.int64)
        cells += int(symbols[-1]) + len(batch.counts)
        loop.measure(symbols, batch.counts)
    each = BYTES_PER_CHARACTER if frequencies is None else BYTES_PER_SCORED_CHARACTER
    merging.check_memory(cells, len(words), unit="characters", each=each)
    loop.allocate()
    for batch in words.batches():
        loop.add_characters(batch.data, batch.offsets, batch.counts, alphabet.ids, alphabet.end_of_word)
    return loop, cells


def _vocabulary(
    words: WordCounts, learning: Learning, alphabet: Alphabet, initial: list[bytes], merges: Merges
) -> Vocabulary:
    """Return the vocabulary of an alphabet and its merges."""
    specials = learning.specials
    prefix = (learning.model.continuing_subword_prefix or "").encode()
    tokens = list(initial)
    for left, right, made in zip(merges.left.tolist(), merges.right.tolist(), merges.made.tolist()):
        if made == len(tokens):
            tokens.append(tokens[left] + tokens[right].removeprefix(prefix))
    # A pair can come back where a spelling arises twice; its rank is that of the first time.
    pairs = merges.left.astype(np.uint64) << np.uint64(32) | merges.right
    once = np.sort(np.unique(pairs, return_index=True)[1])
    stop_reason = merges.stop_reason
    if stop_reason == "vocab_size" and learning.num_merges is not None:
        stop_reason = "num_merges"
    return Vocabulary(
        pre_tokenizer=words.pre_tokenizer,
        alphabet=b"",
        left=merges.left[once],
        right=merges.right[once],
        counts=merges.counts[once],
        replaced=merges.replaced[once],
        special_tokens=specials,
        normalizer=words.normalizer,
        stop_reason=stop_reason,
        parameters={**learning.parameters(), "words": dict(words.parameters)},
        totals={
            **words.totals,
            "distinct_words": len(words),
            "characters": alphabet.characters,
            "unknown_characters": alphabet.unknown,
        },
        layout=Layout(
            tokens=(*[b""] * len(specials), *tokens[len(specials) :]),
            merged=merges.made[once],
            added_tokens=tuple(AddedToken(token, i) for i, token in enumerate(specials)),
        ),
        model=learning.model,
    )
