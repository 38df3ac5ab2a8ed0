"""What a vocabulary makes of text: exact counts in total and by group, mergeable, and the ratios that follow from them."""

from __future__ import annotations

import math
import zlib
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, reduce
from typing import Any, Iterable, Mapping

import numpy as np

from beam_bpe.distribution import Distribution
from beam_bpe.encoders import decoded_tokens
from beam_bpe.vocabulary import Vocabulary

#: Order of the Rényi entropy that Zouhar et al. (2023) found to predict the quality of translations best.
ALPHA = 2.5
#: What costs of groups are compared by: the whole texts, where groups hold the same ones; a character; a byte.
UNITS = ("text", "character", "byte")
#: The plainest vocabularies; "word" has the words of the first vocabulary that is measured beside it.
BASELINES = ("byte", "character", "word", "trigram")


@dataclass(frozen=True, eq=False)
class Measures:
    """Exact counts of one vocabulary on the texts of one group; None is a count that is not known, and 0 is 0.

    Attributes:
        documents: texts, empty ones included.
        characters, bytes: code points and UTF-8 bytes of the text as it was given, before any normalizer.
        words: occurrences of words, as the vocabulary's pattern cuts them.
        tokens: occurrences of tokens.
        kept_words: words that are one token, and not unknown; None of models with scores, whose tokens are those of whole
            texts.
        single_character_tokens, single_byte_tokens: tokens that stand for one character, and for one byte (an ASCII
            character is both); without the space that a token of some models brings, and without special tokens.
        unknown_tokens: those of the model's unk_token.
        lengths: tokens per document.
        frequencies: int64 by id; None for a baseline.

    Ratios are None where what they divide by is 0 or not known.
    """

    documents: int | None = 0
    characters: int | None = 0
    bytes: int | None = 0
    words: int | None = 0
    tokens: int | None = 0
    kept_words: int | None = 0
    single_character_tokens: int | None = 0
    single_byte_tokens: int | None = 0
    unknown_tokens: int | None = 0
    lengths: Distribution | None = field(default_factory=Distribution)
    frequencies: np.ndarray | None = None

    def merge(self, other: Measures) -> Measures:
        """Return the measures of the texts of both; what one of them does not know is not known.

        Raises:
            OverflowError: a token occurs more than 2**63 - 1 times.
        """
        sums = {name: _plus(getattr(self, name), getattr(other, name)) for name in COUNTS}
        lengths = None if self.lengths is None or other.lengths is None else self.lengths.merge(other.lengths)
        frequencies = None
        if self.frequencies is not None and other.frequencies is not None:
            frequencies = self.frequencies + other.frequencies
            if (frequencies < 0).any():  # two that are not negative cannot wrap around to anything else
                raise OverflowError(f"the token of id {int(np.argmin(frequencies))} occurs more than 2**63 - 1 times")
        return Measures(**sums, lengths=lengths, frequencies=frequencies)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Measures) or self.record() != other.record():
            return False
        if self.frequencies is None or other.frequencies is None:
            return self.frequencies is other.frequencies
        return np.array_equal(self.frequencies, other.frequencies)

    def record(self) -> dict[str, Any]:
        """Return all but the frequencies, for JSON."""
        numbers: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        return {**numbers, "lengths": None if self.lengths is None else [list(pair) for pair in self.lengths.counts.items()]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], frequencies: np.ndarray | None = None) -> Measures:
        """Return the measures of what `record` gave."""
        lengths = record["lengths"]
        held = None if lengths is None else Distribution({lowest: count for lowest, count in lengths})
        return cls(**{name: record[name] for name in COUNTS}, lengths=held, frequencies=frequencies)

    def __getstate__(self) -> dict[str, Any]:
        # Few of the tokens occur in the texts of one worker: only those travel.
        if self.frequencies is None:
            return self.__dict__
        ids = np.flatnonzero(self.frequencies)
        packed = zlib.compress(ids.astype("<u4").tobytes() + self.frequencies[ids].astype("<i8").tobytes(), 1)
        return {**self.__dict__, "frequencies": (len(self.frequencies), len(ids), packed)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["frequencies"] is not None:
            size, used, packed = state["frequencies"]
            held = zlib.decompress(packed)
            self.__dict__["frequencies"] = frequencies = np.zeros(size, np.int64)
            frequencies[np.frombuffer(held, "<u4", used)] = np.frombuffer(held, "<i8", used, 4 * used)

    # ---- ratios ----

    @property
    def compression_ratio(self) -> float | None:
        """Characters per token."""
        return ratio(self.characters, self.tokens)

    @property
    def bytes_per_token(self) -> float | None:
        """UTF-8 bytes per token."""
        return ratio(self.bytes, self.tokens)

    @property
    def fertility(self) -> float | None:
        """Tokens per word."""
        return ratio(self.tokens, self.words)

    @property
    def tokens_per_document(self) -> float | None:
        """Mean number of tokens of a document."""
        return ratio(self.tokens, self.documents)

    @property
    def kept_share(self) -> float | None:
        """Share of the words that are kept whole."""
        return ratio(self.kept_words, self.words)

    @property
    def single_character_share(self) -> float | None:
        """Share of the tokens that stand for one character."""
        return ratio(self.single_character_tokens, self.tokens)

    @property
    def single_byte_share(self) -> float | None:
        """Share of the tokens that stand for one byte."""
        return ratio(self.single_byte_tokens, self.tokens)

    @property
    def unknown_rate(self) -> float | None:
        """Share of the tokens that are unknown."""
        return ratio(self.unknown_tokens, self.tokens)

    @property
    def used(self) -> int | None:
        """How many different tokens occur."""
        return None if self.frequencies is None else int(np.count_nonzero(self.frequencies))

    @property
    def entropy(self) -> float | None:
        """Shannon entropy of the tokens, in bits."""
        return self.renyi_entropy(1.0)

    def renyi_entropy(self, alpha: float = ALPHA) -> float | None:
        """Return the Rényi entropy of the tokens in bits, log2(sum of p ** alpha) / (1 - alpha); of alpha 1 Shannon's.

        Raises:
            ValueError: alpha is negative or no number, or so large that the powers of all shares vanish.
        """
        if not 0 <= alpha < math.inf:
            raise ValueError(f"alpha is {alpha}; the order of an entropy is a number, and not negative")
        if self.frequencies is None or not self.tokens:
            return None
        # Most tokens occur as often as many others do; the order of what fsum sums makes no difference.
        counts, times = np.unique(self.frequencies[self.frequencies > 0], return_counts=True)
        shares = [count / self.tokens for count in counts.tolist()]
        terms = [-p * math.log2(p) for p in shares] if alpha == 1 else [p**alpha for p in shares]
        sum_of_all = math.fsum(np.repeat(terms, times).tolist())
        if not sum_of_all and alpha != 1:
            raise ValueError(f"alpha is {alpha}; the powers of all shares vanish: choose a smaller one")
        return sum_of_all if alpha == 1 else math.log2(sum_of_all) / (1 - alpha) + 0.0  # without -0.0


#: What reading replaces or leaves out, of `totals.TOTALS`.
LEFT_OUT = ("replaced_characters", "skipped_documents", "null_documents", "separator_bytes")
COUNTS = tuple(one.name for one in fields(Measures) if one.name not in ("lengths", "frequencies"))


@dataclass(frozen=True)
class Subject:
    """What was measured.

    Attributes:
        name: for people: its path, or that of a baseline.
        fingerprint: of the vocabulary; None for a baseline.
        size: its ids.
        tokens: ids that have a token.
        pre_tokenizer, normalizer: by name.
    """

    name: str
    fingerprint: str | None = None
    size: int = 0
    tokens: int = 0
    pre_tokenizer: str | None = None
    normalizer: str | None = None

    @classmethod
    def of(cls, vocabulary: Vocabulary, name: str) -> Subject:
        """Return what is recorded of a vocabulary."""
        tokens = sum(map(bool, decoded_tokens(vocabulary)[0]))
        cut = vocabulary.pre_tokenizer.name
        return cls(name, vocabulary.fingerprint, len(vocabulary), tokens, cut, vocabulary.normalizer)

    @property
    def is_baseline(self) -> bool:
        """Whether it is one of `BASELINES`."""
        return self.fingerprint is None


@dataclass(frozen=True)
class Statistics:
    """The measures of one vocabulary, or of a baseline, on texts in groups.

    Attributes:
        groups: by name, sorted; texts that are in no groups are in the group "".
        group_by: the column that tells the group; None: there are no groups.
        notes: what a reader should know of them, such as that words were cut in another way.
        left_out: what reading the texts replaced or left out, by the names `LEFT_OUT`.
    """

    subject: Subject
    groups: Mapping[str, Measures]
    group_by: str | None = None
    notes: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def total(self) -> Measures:
        """The measures of all groups together."""
        return reduce(Measures.merge, self.groups.values(), self._nothing)

    @property
    def _nothing(self) -> Measures:
        return Measures(frequencies=None if self.subject.is_baseline else np.zeros(self.subject.size, np.int64))

    def merge(self, *others: Statistics) -> Statistics:
        """Return the statistics of the texts of all.

        Raises:
            ValueError: they are of different vocabularies, or grouped by different columns.
        """
        for other in others:
            same = self.subject.fingerprint == other.subject.fingerprint
            if not same or (self.subject.is_baseline and self.subject.name != other.subject.name):
                raise ValueError(
                    f"statistics of different vocabularies cannot be summed: {_told(self.subject)} and "
                    f"{_told(other.subject)}"
                )
            if self.group_by != other.group_by:
                raise ValueError(
                    f"statistics are grouped by {self.group_by!r} and by {other.group_by!r}: they cannot be summed"
                )
        groups: dict[str, Measures] = {}
        for each in (self, *others):
            for name, measures in each.groups.items():
                groups[name] = groups[name].merge(measures) if name in groups else measures
        notes = tuple(dict.fromkeys(note for each in (self, *others) for note in each.notes))
        left_out = add_left_out(*(each.left_out for each in (self, *others)))
        return Statistics(self.subject, dict(sorted(groups.items())), self.group_by, notes, left_out)

    def record(self) -> dict[str, Any]:
        """Return all but the frequencies, for JSON."""
        groups = {name: measures.record() for name, measures in self.groups.items()}
        about = {"subject": asdict(self.subject), "group_by": self.group_by, "notes": list(self.notes)}
        return {**about, "groups": groups, "left_out": add_left_out(self.left_out)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], frequencies: Mapping[str, np.ndarray]) -> Statistics:
        """Return the statistics of what `record` gave, with the frequencies of each group."""
        groups = {name: Measures.from_record(one, frequencies.get(name)) for name, one in sorted(record["groups"].items())}
        left_out = add_left_out(record["left_out"])
        return cls(Subject(**record["subject"]), groups, record["group_by"], tuple(record["notes"]), left_out)

    # ---- ratios ----

    def used_share(self, measures: Measures) -> float | None:
        """Return the share of the vocabulary's tokens that occur in measures of this vocabulary."""
        return ratio(measures.used, self.subject.tokens)

    def renyi_efficiency(self, measures: Measures, alpha: float = ALPHA) -> float | None:
        """Return H_alpha / log2|V| of measures of this vocabulary: 1 if all tokens are used alike.

        Zouhar, Meister, Gastaldi, Du, Sachan and Cotterell 2023, "Tokenization and the Noiseless Channel".  |V| is the
        number of tokens of the vocabulary, used or not (their package tokenization-scorer counts those that are used, unless
        it is told).
        """
        entropy = measures.renyi_entropy(alpha)
        return None if entropy is None or self.subject.tokens < 2 else entropy / math.log2(self.subject.tokens)

    def cost(self, measures: Measures, unit: str = "byte") -> float | None:
        """Return the tokens that a unit of text takes: a "byte", a "character", or the whole "text" of the group."""
        if unit not in UNITS:
            raise ValueError(f"unit={unit!r}: choose one of {', '.join(UNITS)}")
        if unit == "text":
            return ratio(measures.tokens, 1)
        return ratio(measures.tokens, measures.bytes if unit == "byte" else measures.characters)

    def parity_premiums(self, reference: str, unit: str = "character") -> dict[str, float | None]:
        """Return how much more tokens a group costs than the reference group, as a factor: 1 is parity.

        Petrov, La Malfa, Torr and Bibi 2023, "Language Model Tokenizers Introduce Unfairness Between Languages": the
        tokens of a text divided by those of its translation, which is unit="text" where the groups hold the same texts.
        Where they do not, costs are compared by "character" or "byte"; scripts differ in what these tell.

        Raises:
            ValueError: there is no such group.
        """
        if reference not in self.groups:
            raise ValueError(f"there is no group {reference!r}; there are {', '.join(map(repr, self.groups)) or 'none'}")
        base = self.cost(self.groups[reference], unit)
        costs = {name: self.cost(measures, unit) for name, measures in self.groups.items()}
        return {name: cost / base if cost is not None and base else None for name, cost in costs.items()}

    def gini(self, unit: str = "byte") -> float | None:
        """Return the Gini coefficient of the groups' costs: 0 if all cost the same, towards 1 if one costs all.

        Foroutan et al. 2025, "Parity-Aware Byte-Pair Encoding".  Groups without text are left out; one group alone, and
        costs that are all 0, give 0.  None if no cost is known.
        """
        found = (self.cost(measures, unit) for measures in self.groups.values())
        return gini(cost for cost in found if cost is not None)


def add_left_out(*several: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of what was left out by name, without zeros."""
    sums = {name: sum(counts.get(name, 0) for counts in several) for name in LEFT_OUT}
    return {name: number for name, number in sums.items() if number}


def gini(costs: Iterable[float]) -> float | None:
    """Return the Gini coefficient of costs (0 or more); None if there are none.

    >>> gini([2.0, 2.0]), gini([0.0, 1.0]), gini([]), gini([1.0, 2.0, 3.0, 4.0])
    (0.0, 0.5, None, 0.25)
    """
    ordered = sorted(costs)
    n, total = len(ordered), math.fsum(ordered)
    if not n or not total:
        return 0.0 if n else None
    return math.fsum((2 * i - n + 1) * cost for i, cost in enumerate(ordered)) / (n * total)


def ratio(part: int | None, whole: int | None) -> float | None:
    """Return part / whole; None if one is not known, or the whole is 0."""
    return None if part is None or not whole else part / whole


def exact_sum(counts: np.ndarray) -> int:
    """Return the sum of fewer than 2**31 int64 numbers that are not negative, also where int64 cannot hold it."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def _plus(some: int | None, others: int | None) -> int | None:
    return None if some is None or others is None else some + others


def _told(subject: Subject) -> str:
    return subject.name if subject.fingerprint is None else f"{subject.name} ({subject.fingerprint[:12]}…)"
