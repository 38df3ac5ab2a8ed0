"""Where tokens come from: the words of a table that hold them, found by encoding each word once.

Vocabularies that find tokens in whole texts (`measuring.needs_texts`) are taken at their word here too, each word being a
text: that is noted, and differs from their tokens in a text by little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from beam_bpe import _statistics
from beam_bpe.measuring import encoded_words, mismatch, needs_texts, table_notes
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.word_rows import WordBatch
from beam_bpe.words import WordCounts


class Source(NamedTuple):
    """A word that a token comes from, and how many of the token's occurrences are in it."""

    word: bytes
    occurrences: int


@dataclass(frozen=True)
class Spread:
    """How widely tokens are spread over a table of words; int64 by id.

    Attributes:
        occurrences: of the token.
        words: distinct words that hold it.
        documents: how many documents hold it at most, the sum over its words; None where a table does not count them.
    """

    occurrences: np.ndarray
    words: np.ndarray
    documents: np.ndarray | None


def notes_on(words: WordCounts, vocabulary: Vocabulary, allow_mismatch: bool = False) -> tuple[str, ...]:
    """Return what is to be noted of a vocabulary's tokens in a table of words.

    Raises:
        ValueError: the words were cut or normalized in another way than the vocabulary does, and allow_mismatch is not set.
    """
    told = mismatch(words, vocabulary)
    if told and not allow_mismatch:
        raise ValueError(f"{told}; allow_mismatch=True goes on all the same")
    return tuple([*table_notes(words), *filter(None, (told, needs_texts(vocabulary)))])


def frequencies(words: WordCounts, tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    """Return how often each token occurs in the words of each group, by its name; "" where there are no groups.

    Raises:
        OverflowError: a token occurs more than 2**63 - 1 times.
    """
    tables = {name: words.of_group(name) for name in words.groups} if words.group_by is not None else {"": words}
    found = {name: np.zeros(tokenizer.vocab_size, np.int64) for name in tables}
    for name, table in tables.items():
        for ids, ends, counts in encoded_words(table, tokenizer):
            _statistics.count_tokens(found[name], ids, ends, counts)
    return found


def summed(groups: Mapping[str, np.ndarray], size: int) -> np.ndarray:
    """Return the frequencies in all groups of a vocabulary of so many ids.

    Raises:
        OverflowError: a token occurs more than 2**63 - 1 times.
    """
    total = np.zeros(size, np.int64)
    for counts in groups.values():
        total = total + counts
        if (total < 0).any():  # two that are not negative cannot wrap around to anything else
            raise OverflowError(f"the token of id {int(np.argmin(total))} occurs more than 2**63 - 1 times")
    return total


class _Held(NamedTuple):
    """Tokens that words hold: word `rows[i]` of a batch holds token `ids[i]` `times[i]` times."""

    batch: WordBatch
    rows: np.ndarray
    ids: np.ndarray
    times: np.ndarray


def spread(words: WordCounts, tokenizer: Tokenizer) -> Spread:
    """Return how widely all tokens are spread.

    Raises:
        OverflowError: a token occurs more than 2**63 - 1 times.
    """
    size = tokenizer.vocab_size
    counted = "documents" in words.table.column_names
    found = Spread(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64) if counted else None)
    for held in _held(words, tokenizer, found.occurrences, np.ones(size, bool)):
        found.words[:] += np.bincount(held.ids, minlength=size)
        if found.documents is not None and held.batch.documents is not None:
            np.add.at(found.documents, held.ids, held.batch.documents[held.rows])
    return found


def sources(words: WordCounts, tokenizer: Tokenizer, ids: Iterable[int], most: int) -> dict[int, list[Source]]:
    """Return for each id the words that hold most of its occurrences, of equal ones the smallest; at most so many.

    Raises:
        OverflowError: a token occurs more than 2**63 - 1 times.
    """
    wanted = np.zeros(tokenizer.vocab_size, bool)
    wanted[np.fromiter(ids, np.int64)] = True
    found: dict[int, list[Source]] = {i: [] for i in np.flatnonzero(wanted).tolist()}
    for held in _held(words, tokenizer, np.zeros(tokenizer.vocab_size, np.int64), wanted):
        occurrences = held.batch.counts[held.rows] * held.times  # no more than the token has, which fit
        order = np.lexsort((held.rows, -occurrences, held.ids))
        ordered = held.ids[order]
        place = np.arange(len(order)) - np.searchsorted(ordered, ordered)  # among those of its token
        order = order[place < most]
        data, offsets = held.batch.data, held.batch.offsets
        for i, row, number in zip(held.ids[order].tolist(), held.rows[order].tolist(), occurrences[order].tolist()):
            found[i].append(Source(data[offsets[row] : offsets[row + 1]].tobytes(), number))
    return {i: sorted(some, key=lambda one: (-one.occurrences, one.word))[:most] for i, some in found.items()}


def _held(words: WordCounts, tokenizer: Tokenizer, occurrences: np.ndarray, wanted: np.ndarray) -> Iterator[_Held]:
    """Yield what tokens the words hold, batch by batch, adding to the occurrences of all tokens."""
    for batch in words.batches():
        bounds = np.ascontiguousarray(np.repeat(batch.offsets, 2)[1:-1])
        found = tokenizer.encode_words(batch.data, bounds)
        _statistics.count_tokens(occurrences, found.ids, found.ends, batch.counts)
        places = np.flatnonzero(wanted[found.ids])
        rows = np.searchsorted(found.ends, places, "right")
        there = batch.counts[rows] > 0
        places, rows = places[there], rows[there]
        keys, times = np.unique(rows * len(wanted) + found.ids[places], return_counts=True)
        yield _Held(batch, keys // len(wanted), keys % len(wanted), times)
