"""Learn a vocabulary of whole words: the most frequent ones."""

from __future__ import annotations

import numpy as np

from beam_bpe import _merge
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.learning import Learning
from beam_bpe.merging import Progress, distinct_counts
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts


def learn(words: WordCounts, learning: Learning, progress: Progress | None = None) -> Vocabulary:
    """Take the most frequent words; ids by count descending, of equal ones by bytes."""
    distinct_counts(words)  # there are words
    _check_text(words)
    specials = learning.specials
    taken = {*(token.encode() for token in specials), *learning.excluded}
    room = len(words) if learning.vocab_size is None else learning.vocab_size - len(specials)
    kept = [(word, n) for word, n in words.most_common(room + len(taken)) if n and word not in taken]
    known = [word for word, _ in kept[:room]]
    if progress is not None:
        progress(len(known), len(known), 0)
    nothing, none = np.empty(0, np.uint32), np.empty(0, np.int64)
    return Vocabulary(
        pre_tokenizer=words.pre_tokenizer,
        alphabet=b"",
        left=nothing,
        right=nothing,
        counts=none,
        replaced=none,
        special_tokens=specials,
        normalizer=words.normalizer,
        stop_reason=_ended(words, learning, len(kept) >= room),
        parameters={**learning.parameters(), "words": dict(words.parameters)},
        totals={
            **words.totals,
            "distinct_words": len(words),
            "unknown_words": words.occurrences + words.totals.get("pruned_occurrences", 0) - sum(n for _, n in kept[:room]),
        },
        layout=Layout(
            tokens=(*[b""] * len(specials), *known),
            merged=nothing,
            added_tokens=tuple(AddedToken(token, i) for i, token in enumerate(specials)),
        ),
        model=learning.model,
    )


def _ended(words: WordCounts, learning: Learning, full: bool) -> str:
    if full and learning.vocab_size is not None:
        return "vocab_size"
    return "min_count" if words.totals.get("pruned_words") else "no_words"


def _check_text(words: WordCounts) -> None:
    """Refuse words that are not UTF-8."""
    found = np.zeros((_merge.PLACES, _merge.CODE_POINTS), np.int64)
    for batch in words.batches():  # each word once: nothing overflows
        _merge.count_characters(batch.data, batch.offsets, np.ones_like(batch.counts), found)
