"""Audit a vocabulary, alone or against a table of words: tokens that are of no use, of doubtful origin, or should not be there.

Under-trained tokens make models fail in strange ways (Land and Bartolo 2024, "Fishing for Magikarp"): they are never used,
cannot be produced, or come from one source.  Tokens that hold addresses, keys or texts like special tokens tell of what is
in the corpus.  A finding is a row: its kind, the token, what is the matter, how often it occurs, words that hold it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import artifacts, storage, token_list, token_texts
from beam_bpe.encoders import decoded_tokens
from beam_bpe.provenance import Spread, frequencies, notes_on, sources, spread, summed
from beam_bpe.reachability import is_initial, unreachable
from beam_bpe.statistics import Statistics
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

#: What is looked for, in the order in which findings stand:
#: unused: never used in the table;
#: unreachable: no text can produce it (`beam_bpe.reachability`);
#: one_group: all its occurrences, or nearly all if so wanted, are of one group, of several that have words;
#: few_documents: it is in few documents, where the table counts them;
#: invalid_utf8: no text alone, since it begins or ends within a character;
#: long_run: one character many times: aaaa, spaces, ----;
#: near_duplicate: another token but for case, the space before it, or full width (and what else NFKC makes equal); each
#:     is told with the one of the lowest id;
#: email, url, secret: holds an address, or what looks like a hash or a key;
#: special_lookalike: holds what looks like a special token, or the name of one;
#: special_in_text: a special token, or a text that looks like one, in documents, or in words of the table.
KINDS = (
    "unused",
    "unreachable",
    "one_group",
    "few_documents",
    "invalid_utf8",
    "long_run",
    "near_duplicate",
    *token_texts.FINDERS,
    "special_in_text",
)
#: What a finding of each kind is, in short.
MEANINGS = {
    "unused": "never used in the table",
    "unreachable": "no text can produce it",
    "one_group": "in one group",
    "few_documents": "in few documents",
    "invalid_utf8": "half a character alone",
    "long_run": "one character many times",
    "near_duplicate": "but for case, space, width",
    "email": "e-mail address",
    "url": "web address",
    "secret": "like a hash or a key",
    "special_lookalike": "like a special token",
    "special_in_text": "special tokens in text, or like",
}
#: Kinds that only a table of words tells.
OF_WORDS = ("unused", "one_group", "few_documents", "special_in_text")
#: Kinds whose tokens are worth leaving out when a vocabulary is learned again, unless others are chosen.
UNWANTED = tuple(token_texts.FINDERS)

RUN, FEW_DOCUMENTS, EXAMPLES = 4, 3, 3
FINDINGS_FILE = "findings.parquet"
KIND = "audit"
SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), False),
        pa.field("id", pa.uint32()),
        pa.field("token", pa.binary(), False),
        pa.field("detail", pa.string(), False),
        pa.field("count", pa.int64()),
        pa.field("examples", pa.list_(pa.string()), False),
    ]
)


class _Finding(NamedTuple):
    kind: str
    id: int | None
    token: bytes
    detail: str
    count: int | None  # type: ignore[assignment]  # the tuple's method of that name is not wanted here
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        findings: a row for each (`SCHEMA`), by kind as in `KINDS`, then by count descending, then by id: kind; id (null of a
            text that is no token); token; detail; count, its occurrences in the table (null without one); examples, the
            words that hold most of them (of an unreachable token there are none), as `token_list` writes them.
        vocabulary: what was audited.
        kinds: that were looked for; some only where the table tells.
        words: what the table's words were made with; None if there was no table.
        notes: what a reader should know.
    """

    findings: pa.Table
    vocabulary: Vocabulary
    kinds: tuple[str, ...]
    words: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each kind that was looked for."""
        found = Counter(self.findings["kind"].to_pylist())
        return {kind: found[kind] for kind in self.kinds}

    def of_kind(self, kind: str) -> pa.Table:
        """Return the findings of a kind."""
        return self.findings.filter(pc.equal(self.findings["kind"], kind))

    def removable(self, kinds: Iterable[str] = UNWANTED) -> dict[str, list[bytes]]:
        """Return the tokens found of these kinds that training can leave out, each under its first kind.

        Bytes, characters, and what is no token of the model cannot be left out.
        """
        found: dict[str, list[bytes]] = {}
        seen: set[bytes] = set()
        added = {token.id for token in self.vocabulary.added_tokens}
        for kind in kinds:
            rows = self.of_kind(kind)
            for i, token in zip(rows["id"].to_pylist(), rows["token"].to_pylist()):
                if i is not None and i not in added and token not in seen and not is_initial(self.vocabulary, token):
                    seen.add(token)
                    found.setdefault(kind, []).append(token)
        return found

    def save(self, folder: str, *, overwrite: bool = False) -> None:
        """Write the findings into a folder; FileExistsError if it has some already, and `overwrite` is not set."""
        url = storage.join(folder, FINDINGS_FILE)
        if storage.exists(url) and not overwrite:
            raise FileExistsError(
                f"{folder} already holds findings; choose another folder or overwrite them (overwrite=True)"
            )
        header = {
            "kind": KIND,
            "fingerprint": self.vocabulary.fingerprint,
            "words": self.words,
            "counts": self.counts,
            "notes": list(self.notes),
        }
        artifacts.write_parquet(url, self.findings, header)

    def write_removal_list(self, url: str, kinds: Iterable[str] = UNWANTED) -> int:
        """Write the tokens that training can leave out (`exclude_tokens`) as a list, and return how many they are."""
        removed = self.removable(kinds)
        token_list.write(url, removed)
        return sum(map(len, removed.values()))


def audit(
    vocabulary: Vocabulary,
    words: WordCounts | None = None,
    *,
    kinds: Sequence[str] = KINDS,
    long_run: int = RUN,
    few_documents: int = FEW_DOCUMENTS,
    examples: int = EXAMPLES,
    allow_mismatch: bool = False,
    statistics: Statistics | None = None,
    lookalikes: Mapping[str, int] | None = None,
    group_share: float = 1.0,
) -> Audit:
    """Return what is doubtful about a vocabulary.

    Special and other added tokens are not looked at, nor, where it matters whether a token is used, those that are there
    before anything is learned, such as the 256 bytes.

    Args:
        words: a table of words; with groups and documents it tells more.
        long_run: this many times one character is a long run.
        few_documents: at most so many documents are few.
        examples: words told of each finding.
        allow_mismatch: go on where the words were cut in another way than the vocabulary cuts, and note it.
        statistics: those of the vocabulary on these words, if they were measured already.
        group_share: a token is of one group if so much of its occurrences are.
        lookalikes: `token_texts.count_lookalikes` of the documents that the words are from; without them texts like special
            tokens are found where they are within a word.

    Raises:
        ValueError: there is no such kind, or the words were cut in another way.

    >>> from beam_bpe import train
    >>> words = WordCounts.from_documents(["a@b.com a@b.com aaaa aaaa"], pattern="whitespace")
    >>> found = audit(train(words, 264), words, kinds=["long_run", "email"])
    >>> [(row["kind"], row["token"], row["count"]) for row in found.findings.to_pylist()]
    [('long_run', b'aaaa', 2), ('email', b'a@b.com', 2)]
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r} of findings: choose of {', '.join(KINDS)}")
    if long_run < 2 or few_documents < 1 or examples < 0:
        raise ValueError(
            f"long_run={long_run}, few_documents={few_documents}, examples={examples}: they are at least 2, 1 and 0"
        )
    if not 0.5 < group_share <= 1:
        raise ValueError(f"group_share={group_share}: it is more than a half, and at most 1")
    told = tuple(kind for kind in KINDS if kind in kinds)
    look = _Look(vocabulary, words, long_run, few_documents, examples, allow_mismatch, statistics, lookalikes, group_share)
    told = tuple(kind for kind in told if kind not in look.untold)
    found = [finding for kind in told for finding in look.findings(kind)]
    order = {kind: number for number, kind in enumerate(KINDS)}
    found.sort(key=lambda one: (order[one.kind], -(one.count or 0), -1 if one.id is None else one.id, one.token))
    if words is not None and examples:
        ids = {one.id for one in found if one.id is not None and one.count}
        shown = sources(words, look.tokenizer, ids, examples)
        found = [
            one._replace(examples=tuple(token_list.escaped(source.word) for source in shown[one.id]))
            if one.id in shown
            else one
            for one in found
        ]
    return Audit(
        artifacts.table_of(found, SCHEMA), vocabulary, told, None if words is None else dict(words.parameters), look.notes
    )


class _Look:
    """What findings are found in: the tokens, their texts, and how they are spread over the words."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        words: WordCounts | None,
        long_run: int,
        few_documents: int,
        examples: int,
        allow_mismatch: bool,
        statistics: Statistics | None,
        lookalikes: Mapping[str, int] | None,
        group_share: float,
    ):
        self.lookalikes, self.group_share = lookalikes, group_share
        self.vocabulary, self.words = vocabulary, words
        self.long_run, self.few_documents, self.examples = long_run, few_documents, examples
        self.tokenizer = Tokenizer(vocabulary)
        added = {token.id for token in vocabulary.added_tokens}
        self.tokens = {i: token for i, token in enumerate(vocabulary.tokens) if token and i not in added}
        self.learned = {i: token for i, token in self.tokens.items() if not is_initial(vocabulary, token)}
        decoded, _ = decoded_tokens(vocabulary)
        self.texts = {i: decoded[i].decode("utf-8", "replace") for i in self.learned}
        self.counts: np.ndarray | None = None
        self.groups: dict[str, np.ndarray] = {}
        self.spread: Spread | None = None
        self.notes: tuple[str, ...] = ()
        if words is None:
            return
        self.notes = notes_on(words, vocabulary, allow_mismatch)
        if statistics is None:
            groups = frequencies(words, self.tokenizer)
        else:
            groups = {name: np.asarray(one.frequencies) for name, one in statistics.groups.items()}
        self.counts = summed(groups, self.tokenizer.vocab_size)
        self.groups = {name: counts for name, counts in groups.items() if counts.any()}
        if "documents" in words.table.column_names:
            self.spread = spread(words, self.tokenizer)

    @property
    def untold(self) -> set[str]:
        """The kinds that cannot be told, since the table does not count what they need."""
        if self.words is None:
            return set(OF_WORDS)
        return {
            kind
            for kind, known in (("one_group", len(self.groups) > 1), ("few_documents", self.spread is not None))
            if not known
        }

    def findings(self, kind: str) -> Iterator[_Finding]:
        """Yield the findings of a kind, in any order."""
        if kind in token_texts.FINDERS:
            find = token_texts.FINDERS[kind]
            for i, text in self.texts.items():
                if part := find(text):
                    yield self._of(kind, i, self.tokens[i], part)
            return
        yield from getattr(self, f"_{kind}")()

    def _of(self, kind: str, i: int, token: bytes, detail: str) -> _Finding:
        return _Finding(kind, i, token, detail, self._count(i))

    def _count(self, i: int) -> int | None:
        return None if self.counts is None else int(self.counts[i])

    def _unused(self) -> Iterator[_Finding]:
        for i, token in self.learned.items():
            if self._count(i) == 0:
                yield self._of("unused", i, token, "not in the table")

    def _unreachable(self) -> Iterator[_Finding]:
        for i, told in unreachable(self.vocabulary).items():
            yield self._of("unreachable", i, self.tokens[i], told)

    def _one_group(self) -> Iterator[_Finding]:
        counts = np.stack(list(self.groups.values()))
        most, names = counts.argmax(0), list(self.groups)
        assert self.counts is not None
        for i, token in self.learned.items():
            own, every = int(counts[most[i], i]), int(self.counts[i])
            if every and own >= self.group_share * every:
                told = "only in" if own == every else f"{100 * own / every:.4g} % in"
                yield self._of("one_group", i, token, f"{told} {names[most[i]]!r}")

    def _few_documents(self) -> Iterator[_Finding]:
        if self.spread is None or self.spread.documents is None:
            return
        few = (self.spread.documents <= self.few_documents) & (self.spread.occurrences > 0)
        for i, token in self.learned.items():
            if few[i]:
                detail = f"in at most {_number(int(self.spread.documents[i]), 'document')}, {_number(int(self.spread.words[i]), 'word')}"
                yield self._of("few_documents", i, token, detail)

    def _invalid_utf8(self) -> Iterator[_Finding]:
        for i, token in self.learned.items():
            try:
                token.decode()
            except UnicodeDecodeError as error:
                begins = token[0] & 0xC0 == 0x80
                ends = error.reason == "unexpected end of data" or (begins and _ends_within(token))
                places = " and ".join(["begins"] * begins + ["ends"] * ends)
                yield self._of("invalid_utf8", i, token, f"{places} within a character" if places else "no UTF-8")

    def _long_run(self) -> Iterator[_Finding]:
        run = re.compile(rf"(.)\1{{{self.long_run - 1}}}", re.DOTALL)
        for i, text in self.texts.items():
            if not run.search(text):
                continue
            length, character = token_texts.longest_run(text)
            if character != "\ufffd":
                yield self._of("long_run", i, self.tokens[i], f"{length} x {character!r}")

    def _near_duplicate(self) -> Iterator[_Finding]:
        first: dict[str, tuple[int, token_texts.Folded]] = {}
        for i, folded in zip(self.texts, token_texts.fold(list(self.texts.values()))):
            if not folded.key or "\ufffd" in folded.text:
                continue
            lowest, other = first.setdefault(folded.key, (i, folded))
            if lowest != i:
                differ = token_texts.differences(folded, other) or "mark"
                told = f"{differ}: of {lowest} {token_list.shown(self.tokens[lowest])}"
                yield self._of("near_duplicate", i, self.tokens[i], told)

    def _special_in_text(self) -> Iterator[_Finding]:
        own = {token.text: token.id for token in self.vocabulary.added_tokens if token.special}
        if self.lookalikes is not None:
            for text, count in self.lookalikes.items():
                yield _Finding("special_in_text", own.get(text), text.encode(), "in documents", count)
            return
        counts: Counter[str] = Counter()
        shown: dict[str, list[tuple[int, bytes]]] = {}
        table = (self.words or WordCounts.from_mapping({})).ungrouped().table
        pattern = token_texts.lookalike_or(list(own))
        for batch in table.filter(pc.match_substring_regex(table["word"], pattern)).to_batches():
            for word, count in zip(batch.column("word").to_pylist(), batch.column("count").to_pylist()):
                if not count:
                    continue
                for match in re.finditer(pattern, word.decode("utf-8", "replace")):
                    counts[match[0]] += count
                    shown.setdefault(match[0], []).append((-count, word))
        for text, count in counts.items():
            words = list(dict.fromkeys(word for _, word in sorted(shown[text])))
            examples = tuple(map(token_list.escaped, words[: self.examples]))
            yield _Finding("special_in_text", own.get(text), text.encode(), f"in {_number(len(words), 'word')}", count, examples)


def _number(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'s' * (number != 1)}"


def _ends_within(token: bytes) -> bool:
    """Whether a token ends within a character, wherever it begins."""
    for width in range(1, min(4, len(token)) + 1):
        byte = token[-width]
        if byte & 0xC0 != 0x80:
            return (0xC0 <= byte < 0xE0 and width < 2) or (0xE0 <= byte < 0xF0 and width < 3) or (byte >= 0xF0 and width < 4)
    return False
