"""Measure vocabularies on documents, or on a table of words, in which each word is encoded once."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any, Iterator, Sequence

import numpy as np

from beam_bpe import _statistics, _words, artifacts
from beam_bpe.documents import DocumentBatch
from beam_bpe.distribution import Distribution, buckets_of
from beam_bpe.normalize import normalize_documents, spec
from beam_bpe.special import SpecialTokens
from beam_bpe.spelling import own_texts
from beam_bpe.statistics import BASELINES, Measures, Statistics, Subject, add_left_out, exact_sum
from beam_bpe.tokenizer import SPECIAL_POLICIES, Tokenizer
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.word_rows import WordBatch
from beam_bpe.words import WordCounts

MOST_THREADS = 4
THREADED_WORDS = 1 << 14  # fewer are encoded sooner than threads begin
_PRUNED = "{:,} occurrences of words are not in the table, which was pruned: they are not measured"
_OVERLONG = "{:,} occurrences of over-long words are not in the table: they are not measured"
_SPECIAL = "{:,} special tokens are not in the table, which was cut at them: they are not measured"


def check_baselines(names: Sequence[str], vocabularies: int) -> None:
    """Raise ValueError if a name is none of `BASELINES`, or words are to be counted and no vocabulary cuts any."""
    for name in names:
        if name not in BASELINES:
            raise ValueError(f"there is no baseline {name!r}: choose one of {', '.join(BASELINES)}")
    if "word" in names and not vocabularies:
        raise ValueError("the baseline 'word' has the words of a vocabulary's pattern: give a vocabulary beside it")


class _Shapes:
    """Which ids of a vocabulary stand for one character or one byte, and which is the unknown one."""

    def __init__(self, vocabulary: Vocabulary):
        tokens = own_texts(vocabulary)
        for added in vocabulary.added_tokens:
            tokens[added.id] = b""
        self.unknown = vocabulary.unk_id
        self.single_byte = np.array([len(token) == 1 for token in tokens])
        self.single_character = np.array([_characters(token) == 1 for token in tokens])
        if self.unknown is not None:
            self.single_byte[self.unknown] = self.single_character[self.unknown] = False

    def counts(self, frequencies: np.ndarray) -> dict[str, int]:
        """Return how many tokens of these kinds there are."""
        return {
            "single_character_tokens": exact_sum(frequencies[self.single_character]),
            "single_byte_tokens": exact_sum(frequencies[self.single_byte]),
            "unknown_tokens": 0 if self.unknown is None else int(frequencies[self.unknown]),
        }


@lru_cache(16)
def _shapes_of(vocabulary: Vocabulary) -> _Shapes:
    return _Shapes(vocabulary)


def _characters(token: bytes) -> int:
    try:
        return len(token.decode())
    except UnicodeDecodeError:
        return 0


# ---- documents -----------------------------------------------------------------------------------


@dataclass
class _Sums:
    """What one subject makes of one group, while documents come."""

    frequencies: np.ndarray | None
    tokens: int = 0
    words: int = 0
    kept_words: int = 0
    lengths: Counter[int] = field(default_factory=Counter)


@dataclass
class _Group:
    """What has come of one group."""

    sums: list[_Sums]  # of each tokenizer, then of each baseline
    documents: int = 0
    characters: int = 0
    bytes: int = 0
    split: bool = False  # a document of it was read in ranges: nobody saw its length


class Meter:
    """Measure vocabularies side by side on documents as they come, in groups.

    The measures of all documents are the same however they are distributed among meters, except that the pieces of one
    document must come to one meter, one behind the other.

    Args:
        baselines: of `statistics.BASELINES`.
        special: special tokens in the text are "text", are "encode"d, are left out ("drop"; the texts then are what
            stands between them, as in a table of words that was counted with them), or "fail".

    >>> from beam_bpe import train
    >>> from beam_bpe.reading import documents_of
    >>> meter = Meter([Tokenizer(train({"low": 2}, 258))], ["character"])
    >>> meter.add(documents_of(["low", "slow"], "strict"))
    >>> [(one[""].tokens, one[""].characters) for one in meter.take()]
    [(3, 7), (7, 7)]
    """

    def __init__(self, tokenizers: Sequence[Tokenizer], baselines: Sequence[str] = (), special: str = "text"):
        check_baselines(baselines, len(tokenizers))
        if special not in SPECIAL_POLICIES:
            raise ValueError(f"special={special!r}: choose one of {', '.join(SPECIAL_POLICIES)}")
        self._tokenizers, self._baselines, self._special = list(tokenizers), list(baselines), special
        self._shapes = [_shapes_of(tokenizer.vocabulary) for tokenizer in tokenizers]
        self._dropped = [SpecialTokens(tuple(tokenizer.special_tokens)) for tokenizer in tokenizers]
        if special == "drop" and len({specials.tokens for specials in self._dropped}) > 1:
            raise ValueError(
                "special='drop' leaves different texts of vocabularies with different special tokens: measure each alone"
            )
        self._groups: dict[str, _Group] = {}
        self._left_out = add_left_out()
        self._open: tuple[_Group, np.ndarray] | None = None  # the last document, which may go on: its group and lengths

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the frequencies hold."""
        return len(self._groups) * 8 * sum(tokenizer.vocab_size for tokenizer in self._tokenizers)

    def add(self, batch: DocumentBatch) -> None:
        """Measure a batch, by the groups of its documents; what has none is in the group "".

        Raises:
            ValueError: documents were cut between words of another pattern; or special="fail", and a special token occurs.
        """
        self._check(batch)
        self._left_out = add_left_out(self._left_out, batch.totals)
        if not batch.continues:
            self._close()
        elif self._open is None and not batch.split:
            raise ValueError(
                "a piece of a document came without those before it: the pieces of one go to one meter, in order"
            )
        if batch.groups is not None:
            for name, data, bounds in batch.groups.split(batch.data, batch.bounds):
                self._add(self._group(name), data, bounds, len(bounds) // 2)
                self._close()
            return
        group, bounds = self._group(""), np.ascontiguousarray(batch.bounds, np.int64)
        group.split |= batch.split
        self._add(group, batch.data, bounds, int(batch.totals.get("documents", len(bounds) // 2 - batch.continues)))

    def _check(self, batch: DocumentBatch) -> None:
        """Refuse documents that were cut where the words of a vocabulary do not end."""
        if not batch.cut_by:
            return
        for tokenizer in self._tokenizers:
            vocabulary = tokenizer.vocabulary
            found = {token.text for token in vocabulary.added_tokens if self._special != "text" or not token.special}
            cuts = vocabulary.pre_tokenizer, vocabulary.normalizer
            if not any(cuts == (rule.pre_tokenizer, rule.normalizer) and found <= set(rule.special_tokens) for rule in batch.cut_by):
                told = " and of ".join(str(rule) for rule in batch.cut_by)
                raise ValueError(
                    f"documents were cut between words of {told}, and a vocabulary cuts by {vocabulary.pre_tokenizer.name!r} "
                    f"and finds {sorted(found)}: read them by line, paragraph or separator, or with the pattern, special "
                    "tokens and normalizer of each vocabulary"
                )

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            sums = [_Sums(np.zeros(tokenizer.vocab_size, np.int64)) for tokenizer in self._tokenizers]
            group = self._groups[name] = _Group(sums + [_Sums(None) for _ in self._baselines])
        return group

    def _add(self, group: _Group, data: Any, bounds: np.ndarray, documents: int) -> None:
        """Measure texts of a group, the first of which goes on where the one that is open ended."""
        group.documents += documents
        if not len(bounds):
            if documents:  # of no byte
                self._tell(group, np.zeros((len(group.sums), documents), np.int64))
            return
        text = bounds
        if self._special == "drop" and self._tokenizers:
            text, _ = self._dropped[0].cut(data, bounds)
        characters = np.frombuffer(_statistics.count_characters(data, np.ascontiguousarray(text, np.int64)), np.int64)
        group.characters += int(characters.sum())
        group.bytes += int((text[1::2] - text[::2]).sum())
        lengths = np.empty((len(group.sums), len(bounds) // 2), np.int64)
        for number, (tokenizer, sums) in enumerate(zip(self._tokenizers, group.sums)):
            found = tokenizer.encode_documents(data, bounds, special=self._special)
            _statistics.count_tokens(sums.frequencies, found.ids)
            sums.tokens += len(found.ids)
            whole_texts = tokenizer.vocabulary.model.is_scored
            sums.words += _words_in(tokenizer.vocabulary, data, bounds) if whole_texts else found.words
            sums.kept_words += found.kept_words
            lengths[number] = np.diff(found.ends, prepend=0)
        if self._baselines:
            sizes = text[1::2] - text[::2]
            if text is not bounds:  # the parts of each document
                whose = np.searchsorted(bounds[1::2], text[::2], "right")
                characters, sizes = (
                    np.bincount(whose, part, len(bounds) // 2).astype(np.int64) for part in (characters, sizes)
                )
            for number, baseline in enumerate(self._baselines, len(self._tokenizers)):
                lengths[number] = sizes if baseline == "byte" else characters
        if self._open is not None:
            lengths[:, 0] += self._open[1]
        self._open = group, lengths[:, -1].copy()
        self._tell(group, lengths[:, :-1])

    def _close(self) -> None:
        """Tell the length of the last document, which does not go on."""
        if self._open is not None:
            group, lengths = self._open
            self._open = None
            self._tell(group, lengths[:, np.newaxis])

    def _tell(self, group: _Group, lengths: np.ndarray) -> None:
        """Add documents by their lengths, a row for each subject."""
        for number, sums in enumerate(group.sums):
            own = lengths[number]
            if sums.frequencies is None:
                baseline = self._baselines[number - len(self._tokenizers)]
                own = np.maximum(own - 2, 0) if baseline == "trigram" else own
                sums.tokens += int(own.sum())
            lowest, times = np.unique(buckets_of(own), return_counts=True)
            sums.lengths.update(dict(zip(lowest.tolist(), times.tolist())))

    def take(self) -> list[dict[str, Measures]]:
        """Return what was added, by group, for each tokenizer and then each baseline; and begin again."""
        self._close()
        groups, self._groups = self._groups, {}
        subjects = range(len(self._tokenizers) + len(self._baselines))
        return [{name: self._measures(number, groups[name]) for name in sorted(groups)} for number in subjects]

    def take_left_out(self) -> dict[str, int]:
        """Return what reading the documents replaced or left out (`statistics.LEFT_OUT`); and begin again."""
        left_out, self._left_out = self._left_out, add_left_out()
        return left_out

    def _measures(self, number: int, group: _Group) -> Measures:
        sums = group.sums[number]
        lengths = None if group.split else Distribution(dict(sorted(sums.lengths.items())))
        text = {"documents": group.documents, "characters": group.characters, "bytes": group.bytes}
        if sums.frequencies is not None:
            return Measures(
                **text,
                words=self._words(number, sums),
                tokens=sums.tokens,
                kept_words=None if self._tokenizers[number].vocabulary.model.is_scored else sums.kept_words,
                **self._shapes[number].counts(sums.frequencies),
                lengths=lengths,
                frequencies=sums.frequencies,
            )
        baseline = self._baselines[number - len(self._tokenizers)]
        words = self._words(0, group.sums[0]) if self._tokenizers else None
        tokens: int | None = words if baseline == "word" else sums.tokens
        if group.split and baseline == "trigram":
            tokens = None
        return _of_baseline(baseline, text, words, tokens, None if baseline == "word" else lengths)


    def _words(self, number: int, sums: _Sums) -> int | None:
        """Return the words of a tokenizer; None of a model with scores that cuts no text, such as one of SentencePiece."""
        vocabulary = self._tokenizers[number].vocabulary
        return None if vocabulary.model.is_scored and vocabulary.pre_tokenizer.name == "none" else sums.words


def _words_in(vocabulary: Vocabulary, data: Any, bounds: np.ndarray) -> int:
    """Return the occurrences of words of the vocabulary's pattern in documents, special tokens being text."""
    text, bounds = normalize_documents(data, bounds, vocabulary.normalizer)
    return vocabulary.pre_tokenizer.count(_words.WordTable(), text, bounds).words


def _of_baseline(
    baseline: str, text: dict[str, Any], words: int | None, tokens: int | None, lengths: Distribution | None
) -> Measures:
    kept = words if baseline == "word" else None
    return Measures(
        **text, words=words, tokens=tokens, kept_words=kept, single_character_tokens=None, single_byte_tokens=None,
        unknown_tokens=None, lengths=lengths,
    )  # fmt: skip


# ---- a table of words ----------------------------------------------------------------------------


def measure_words(
    words: WordCounts | Sequence[WordCounts],
    vocabularies: Sequence[Vocabulary],
    *,
    names: Sequence[str] = (),
    baselines: Sequence[str] = (),
    allow_mismatch: bool = False,
    method: str = "rank",
) -> list[Statistics]:
    """Return the statistics of vocabularies, then of baselines, from a table of words alone, or from several tables.

    They are those of the documents that were counted (with special="drop" where the table was counted with special
    tokens), but for what a table cannot know, which is None: tokens per document; trigrams; and where the pattern drops
    text or a normalizer changed it, characters and bytes.

    Args:
        words: of several tables each vocabulary is measured on the first that was cut as it cuts, and baselines on
            that of the first vocabulary.
        names: of the vocabularies, for people; by default the beginnings of their fingerprints.
        allow_mismatch: measure vocabularies that cut text in another way, and note it.

    Raises:
        ValueError: a vocabulary cuts or normalizes in another way than the words were.
        OverflowError: a token occurs more than 2**63 - 1 times.
    """
    check_baselines(baselines, 1)
    tables = [_Grouped(table) for table in ([words] if isinstance(words, WordCounts) else words)]
    if not tables:
        raise ValueError("there is no table of words to measure on")
    results: list[Statistics] = []
    base = tables[0]
    for number, vocabulary in enumerate(vocabularies):
        if reason := needs_texts(vocabulary):
            raise ValueError(reason)
        told = [mismatch(table.words, vocabulary) for table in tables]
        wrong = [one for one in told if one is not None]
        if len(wrong) == len(tables) and not allow_mismatch:
            raise ValueError(f"{'; '.join(wrong)}; allow_mismatch=True goes on all the same")
        table = tables[told.index(None) if None in told else 0]
        notes = table.notes + (wrong[:1] if None not in told else [])
        base = base if number else table
        tokenizer, shapes = Tokenizer(vocabulary, method=method), _shapes_of(vocabulary)
        groups = {name: _measure_table(part, tokenizer, shapes, table.texts[name]) for name, part in table.parts.items()}
        name = names[number] if names else vocabulary.fingerprint[:12]
        results.append(Statistics(Subject.of(vocabulary, name), groups, table.words.group_by, tuple(notes), table.left_out))
    for baseline in baselines:
        groups = {name: _baseline_of(baseline, base.texts[name], part.occurrences) for name, part in base.parts.items()}
        results.append(Statistics(Subject(baseline), groups, base.words.group_by, tuple(base.notes), base.left_out))
    return results


class _Grouped:
    """A table of words with what all its vocabularies share: the tables and the text of its groups, and notes."""

    def __init__(self, words: WordCounts):
        names = [""] if words.group_by is None else sorted(words.groups)
        self.words, self.notes, self.left_out = words, table_notes(words), add_left_out(words.totals)
        self.parts = {name: words if words.group_by is None else words.of_group(name) for name in names}
        self.texts = {name: _text_of(part) for name, part in self.parts.items()}


def table_notes(words: WordCounts) -> list[str]:
    """Return what is to be noted of whatever is measured on a table: what it does not hold."""
    lost = ((_PRUNED, "pruned_occurrences"), (_OVERLONG, "overlong_words"), (_SPECIAL, "special_tokens"))
    return [note.format(words.totals[name]) for note, name in lost if words.totals.get(name)]


def needs_texts(vocabulary: Vocabulary) -> str | None:
    """Return why tokens of a vocabulary are not those of single words, but of whole texts; None if they are.

    Vocabularies with scores run over texts. That is the same where no piece reaches from one word into the next, and
    sums do not depend on what stands before (those of 32 bits do).
    """
    model, metaspace = vocabulary.model, "\u2581".encode()
    if not model.is_scored:
        return None
    what = f"a vocabulary of algorithm {model.algorithm!r} finds tokens in whole texts, which a table of words does not tell"
    if vocabulary.pre_tokenizer.name != "metaspace" or any(token.find(metaspace, 1) > 0 for token in vocabulary.tokens):
        return f"{what}: its pieces reach from word to word; measure documents"
    if model.single_precision:
        return f"{what}: its sums of 32 bits depend on what stands before a word; measure documents"
    if vocabulary.layout is not None and vocabulary.layout.unused:
        return f"{what}: its unused pieces are taken apart as anywhere in the text; measure documents"
    if not model.byte_fallback and metaspace not in vocabulary.ids:
        return f"{what}: the unknown character U+2581 is one token with unknown characters before it; measure documents"
    return None


def mismatch(words: WordCounts, vocabulary: Vocabulary) -> str | None:
    """Return how a table's words were made differently from those of a vocabulary; None if they were not."""
    own, theirs = words.pre_tokenizer.spec(), vocabulary.pre_tokenizer.spec()
    if own != theirs:
        return (
            f"the words were cut by {words.pre_tokenizer.name!r} ({artifacts.digest(own)[:12]}…), and the vocabulary "
            f"{vocabulary.fingerprint[:12]}… cuts by {vocabulary.pre_tokenizer.name!r} ({artifacts.digest(theirs)[:12]}…)"
        )
    if spec(words.normalizer) != spec(vocabulary.normalizer):
        return (
            f"the words were normalized by {words.normalizer}, and the vocabulary {vocabulary.fingerprint[:12]}… "
            f"normalizes by {vocabulary.normalizer}"
        )
    return None


def _text_of(table: WordCounts) -> dict[str, Any]:
    """Return documents, characters and bytes of the text of a table, as far as it tells them."""
    documents = table.totals.get("documents") or (None if len(table) else 0)
    if table.normalizer is not None or table.pre_tokenizer.gaps == "drop":
        return {"documents": documents, "characters": None, "bytes": None}
    characters = size = 0
    for batch in table.batches():
        bounds = _bounds(batch.offsets)
        found = np.frombuffer(_statistics.count_characters(batch.data, bounds), np.int64)
        characters += _statistics.weighted_sum(found, batch.counts)
        size += _statistics.weighted_sum(np.diff(batch.offsets), batch.counts)
    return {"documents": documents, "characters": characters, "bytes": size}


def _bounds(offsets: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.repeat(offsets, 2)[1:-1])


def _measure_table(table: WordCounts, tokenizer: Tokenizer, shapes: _Shapes, text: dict[str, Any]) -> Measures:
    frequencies = np.zeros(tokenizer.vocab_size, np.int64)
    scored = tokenizer.vocabulary.model.is_scored
    tokens = kept = 0
    for ids, ends, counts in encoded_words(table, tokenizer):
        _statistics.count_tokens(frequencies, ids, ends, counts)
        lengths = np.diff(ends, prepend=0)
        tokens += _statistics.weighted_sum(lengths, counts)
        whole = lengths == 1
        if shapes.unknown is not None:
            whole[whole] = ids[ends[whole] - 1] != shapes.unknown
        kept += exact_sum(counts[whole])
    return Measures(
        **text, words=table.occurrences, tokens=tokens, kept_words=None if scored else kept, **shapes.counts(frequencies),
        lengths=None, frequencies=frequencies,
    )  # fmt: skip


def encoded_words(table: WordCounts, tokenizer: Tokenizer) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield (ids, ends, counts) of the words of a table, some at a time: word w has ids[ends[w - 1]:ends[w]].

    The words of a batch are encoded in threads; memory is that of a batch, and of a cache for each thread.
    """
    threads = min(MOST_THREADS, os.cpu_count() or 1)

    def encoded(batch: WordBatch, start: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = tokenizer.encode_words(batch.data, _bounds(batch.offsets[start : end + 1]))
        return found.ids, found.ends, batch.counts[start:end]

    with ThreadPoolExecutor(threads, "beam_bpe encode") as pool:
        for batch in table.batches():
            parts = threads if len(batch.counts) >= THREADED_WORDS else 1
            edges = [len(batch.counts) * part // parts for part in range(parts + 1)]
            yield from (pool.map if parts > 1 else map)(encoded, repeat(batch), edges[:-1], edges[1:])


def _baseline_of(baseline: str, text: dict[str, Any], words: int) -> Measures:
    known = {"byte": text["bytes"], "character": text["characters"], "word": words, "trigram": None}
    return _of_baseline(baseline, text, words, known[baseline], None)
