"""Compare two vocabularies: which tokens they share, and what the other one makes of the same words or documents.

Tokens are compared by the bytes that they decode to, so that vocabularies of different families can be compared; a space
that a token brings belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import artifacts, storage
from beam_bpe.documents import DocumentBatch
from beam_bpe.encoders import decoded_tokens
from beam_bpe.provenance import frequencies, notes_on, summed
from beam_bpe.spelling import spellings
from beam_bpe.statistics import exact_sum
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.word_rows import INT64_MAX
from beam_bpe.words import WordCounts

KIND = "difference"
SUMMARY_FILE = "difference.json"

_COUNTS = [
    pa.field("tokens_a", pa.int64(), False),
    pa.field("tokens_b", pa.int64(), False),
    pa.field("difference", pa.int64(), False),
]
TOKENS = pa.schema(
    [pa.field("token", pa.binary(), False)]
    + [pa.field(f"{what}_{side}", kind) for side in "ab" for what, kind in (("id", pa.uint32()), ("rank", pa.uint32()))]
    + [pa.field("shift", pa.int64())]
    + [pa.field(f"count_{side}", pa.int64()) for side in "ab"]
)
GROUPS = pa.schema(
    [pa.field("group", pa.string()), *_COUNTS, pa.field("price_a", pa.float64()), pa.field("price_b", pa.float64())]
)
WORDS = pa.schema([pa.field("word", pa.binary(), False), pa.field("count", pa.int64(), False), *_COUNTS])
DOCUMENTS = pa.schema(
    [pa.field("source", pa.string(), False), pa.field("place", pa.int64()), pa.field("group", pa.string())]
    + [pa.field("bytes", pa.int64(), False), *_COUNTS, pa.field("beginning", pa.string(), False)]
)


@dataclass(frozen=True)
class Difference:
    """How vocabulary b differs from a.

    Attributes:
        names, vocabularies: of a and b.
        tokens: a row for each token of either (`TOKENS`), by the bytes that it decodes to, the space before a word included, so
            that vocabularies of all families can be compared: its ids and ranks (null where it is not; of bytes
            and other initial tokens there are no ranks); shift, rank in b less rank in a; its occurrences, if a table of words
            was compared.
        groups: tokens of the same text (`GROUPS`): all of it, whose group is null, then each group; what they cost.
        words: those whose tokens differ most, occurrences taken into account, the largest difference first (`WORDS`).
        documents: those that differ most (`DOCUMENTS`): the file, the row or offset in it, how it begins.
        notes: what a reader should know.
    """

    names: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    tokens: pa.Table
    groups: pa.Table | None = None
    words: pa.Table | None = None
    documents: pa.Table | None = None
    notes: tuple[str, ...] = ()

    @property
    def shared(self) -> pa.Table:
        """The tokens of both, the largest shift of rank first."""
        both = self.tokens.filter(pc.and_(pc.is_valid(self.tokens["id_a"]), pc.is_valid(self.tokens["id_b"])))
        order = np.argsort(-np.abs(both["shift"].fill_null(0).to_numpy()), kind="stable")
        return both.take(pa.array(order))

    def only(self, side: str) -> pa.Table:
        """Return the tokens that one of them has alone, by id.

        Args:
            side: "a" or "b".
        """
        other = {"a": "b", "b": "a"}[side]
        return self.tokens.filter(pc.is_null(self.tokens[f"id_{other}"])).sort_by(f"id_{side}")

    def spelled(self, tokens: pa.Table) -> list[bytes]:
        """Return rows of `tokens` as a spells them (`spelling.spellings`), or as b does what b has alone."""
        a, b = map(spellings, self.vocabularies)
        ids = zip(tokens["id_a"].to_pylist(), tokens["id_b"].to_pylist())
        return [a[of_a] if of_a is not None else b[of_b] for of_a, of_b in ids]

    def summary(self) -> dict[str, Any]:
        """Return all but the tokens, for JSON."""
        shifts = np.abs(pc.drop_null(self.shared["shift"]).to_numpy())
        found: dict[str, Any] = {
            "kind": KIND,
            "shared": len(self.shared),
            "only_a": len(self.only("a")),
            "only_b": len(self.only("b")),
            "moved": int(np.count_nonzero(shifts)),
            "largest_shift": int(shifts.max()) if len(shifts) else 0,
            "notes": list(self.notes),
        }
        for side, name, vocabulary in zip("ab", self.names, self.vocabularies):
            found[side] = {"name": name, "fingerprint": vocabulary.fingerprint, "tokens": len(vocabulary)}
        for name, table in (("groups", self.groups), ("words", self.words), ("documents", self.documents)):
            if table is not None:
                rows = table.to_pylist()
                found[name] = [{key: _text(value) for key, value in row.items()} for row in rows]
        return found

    def save(self, folder: str, *, overwrite: bool = False) -> list[str]:
        """Write what was compared as Parquet, then the summary as JSON, and return the names of the files.

        Raises:
            FileExistsError: a comparison stands there, and `overwrite` is not set.
        """
        url = storage.join(folder, SUMMARY_FILE)
        if storage.exists(url):
            if not overwrite:
                raise FileExistsError(
                    f"{folder} already holds a comparison; choose another folder or overwrite it (overwrite=True)"
                )
            storage.remove(url)
        header = {"kind": KIND, "fingerprints": [vocabulary.fingerprint for vocabulary in self.vocabularies]}
        tables = {"tokens": self.tokens, "groups": self.groups, "words": self.words, "documents": self.documents}
        written = []
        for name, table in tables.items():
            if table is not None:
                artifacts.write_parquet(storage.join(folder, f"{name}.parquet"), table, {**header, "table": name})
                written.append(f"{name}.parquet")
            else:  # what an older comparison left
                storage.remove(storage.join(folder, f"{name}.parquet"))
        storage.write_bytes(url, (artifacts.canonical_json(self.summary()) + "\n").encode())
        return [*written, SUMMARY_FILE]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def compare(
    a: Vocabulary,
    b: Vocabulary,
    words: WordCounts | None = None,
    *,
    names: tuple[str, str] = ("a", "b"),
    prices: tuple[float, float] | None = None,
    most: int = 100,
    allow_mismatch: bool = False,
) -> Difference:
    """Return how vocabulary b differs from a.

    Args:
        words: what both are compared on.
        prices: of a million tokens of each.
        most: words that are told.
        allow_mismatch: go on where the words were cut in another way than a vocabulary cuts, and note it.

    Raises:
        ValueError: the words were cut in another way.
        OverflowError: a word has more than 2**63 - 1 tokens.

    >>> from beam_bpe import train
    >>> table = WordCounts.from_mapping({"low": 5, "lower": 2})
    >>> found = compare(train(table, 258), train(table, 260), table)
    >>> found.only("b")["token"].to_pylist(), found.groups.to_pylist()[0]["difference"], found.words["word"].to_pylist()
    ([b'er', b'lower'], -4, [b'lower'])
    """
    tokens = _compared_tokens(a, b)
    if words is None:
        return Difference(names, (a, b), tokens)
    notes = tuple(dict.fromkeys(note for one in (a, b) for note in notes_on(words, one, allow_mismatch)))
    groups = []
    for side, one in zip("ab", (a, b)):
        groups.append(frequencies(words, Tokenizer(one)))
        counts = pa.array(summed(groups[-1], len(one))).take(tokens[f"id_{side}"].combine_chunks())
        tokens = tokens.set_column(tokens.column_names.index(f"count_{side}"), f"count_{side}", counts)
    totals = [{name: exact_sum(counts) for name, counts in one.items()} for one in groups]
    rows: list[tuple[str | None, int, int]] = [(None, sum(totals[0].values()), sum(totals[1].values()))]
    if words.group_by is not None:
        rows += [(name, totals[0][name], totals[1][name]) for name in totals[0]]
    changed = _changed_words(words, (a, b), most)
    return Difference(names, (a, b), tokens.cast(TOKENS), _group_rows(rows, prices), changed, notes=notes)


# ---- tokens --------------------------------------------------------------------------------------


def ranks(vocabulary: Vocabulary) -> dict[int, int]:
    """Return the rank of each learned token by id: of the first merge that makes it, or its place by score, or by id."""
    if len(vocabulary.left):
        found: dict[int, int] = {}
        for rank, i in enumerate(vocabulary.merged.tolist()):
            found.setdefault(i, rank)
        return found
    added = {token.id for token in vocabulary.added_tokens}
    ids = [i for i, token in enumerate(vocabulary.tokens) if token and i not in added]
    scores = vocabulary.layout.scores if vocabulary.layout is not None else None
    if scores is not None:
        ids.sort(key=lambda i: (-float(scores[i]), i))
    return {i: rank for rank, i in enumerate(ids)}


def _compared_tokens(a: Vocabulary, b: Vocabulary) -> pa.Table:
    found: dict[bytes, list[int | None]] = {}
    for place, vocabulary in ((0, a), (2, b)):
        ranked, decoded = ranks(vocabulary), decoded_tokens(vocabulary)[0]
        for added in vocabulary.added_tokens:  # as text, whatever decoding puts beside it
            decoded[added.id] = added.text.encode()
        for i, token in enumerate(decoded):
            row = found.setdefault(token, [None] * 4)
            if row[place] is None:
                row[place : place + 2] = i, ranked.get(i)
    found.pop(b"", None)
    rows = []
    for token, (id_a, rank_a, id_b, rank_b) in sorted(found.items()):
        shift = None if rank_a is None or rank_b is None else rank_b - rank_a
        rows.append((token, id_a, rank_a, id_b, rank_b, shift, None, None))
    return artifacts.table_of(rows, TOKENS)


# ---- tokens of the same text ---------------------------------------------------------------------


def _group_rows(counts: Sequence[tuple[str | None, int, int]], prices: tuple[float, float] | None) -> pa.Table:
    rows = []
    for name, tokens_a, tokens_b in counts:
        if max(tokens_a, tokens_b) > INT64_MAX:
            raise OverflowError(
                f"the text of {'all groups' if name is None else f'the group {name!r}'} has more than 2**63 - 1 tokens"
            )
        cost = (None, None) if prices is None else (tokens_a * prices[0] / 1e6, tokens_b * prices[1] / 1e6)
        rows.append((name, tokens_a, tokens_b, tokens_b - tokens_a, *cost))
    return artifacts.table_of(rows, GROUPS)


def _changed_words(words: WordCounts, vocabularies: tuple[Vocabulary, Vocabulary], most: int) -> pa.Table:
    """Return the words whose tokens differ most, their occurrences taken into account; of equal ones the smallest first."""
    tokenizers = [Tokenizer(vocabulary) for vocabulary in vocabularies]
    found: list[tuple[int, bytes, int, int, int]] = []
    for batch in words.batches():
        bounds = np.ascontiguousarray(np.repeat(batch.offsets, 2)[1:-1])
        lengths = [np.diff(one.encode_words(batch.data, bounds).ends, prepend=0) for one in tokenizers]
        changes = lengths[1] - lengths[0]
        size = np.abs(changes.astype(np.float64) * batch.counts)
        rows = np.flatnonzero(size)
        if len(rows) and size.max() < 1 << 53:  # floats are exact, and rows are in the order of their words
            rows = rows[np.argsort(-size[rows], kind="stable")[:most]]
        for row in rows.tolist():
            word = batch.data[batch.offsets[row] : batch.offsets[row + 1]].tobytes()
            count, a, b = int(batch.counts[row]), int(lengths[0][row]), int(lengths[1][row])
            if max(a, b) * count > INT64_MAX:
                raise OverflowError(f"the word {word[:60]!r} has more than 2**63 - 1 tokens")
            found.append((count, word, a * count, b * count, (b - a) * count))
        found = sorted(found, key=lambda one: (-abs(one[4]), one[1]))[:most]
    table = [(word, count, a, b, change) for count, word, a, b, change in found]
    return artifacts.table_of(table, WORDS)


class DocumentChanges:
    """Compare two vocabularies on documents as they come: tokens in all and by group, and the documents that change most.

    Memory is that of the documents told, and of the groups.  Special tokens in the text are text.

    Args:
        most: documents that are told; of equal differences the first in the order of their sources and places.
    """

    def __init__(self, a: Vocabulary, b: Vocabulary, most: int = 100):
        self._tokenizers = Tokenizer(a), Tokenizer(b)
        self._most = most
        self._groups: dict[str, list[int]] = {}
        self._total = [0, 0]
        self._grouped = False
        self._changed: list[tuple[Any, ...]] = []

    def add(self, batch: DocumentBatch, source: str = "") -> None:
        """Compare the documents of a batch, none of which goes on in another one.

        Args:
            source: the file that they are of.
        """
        bounds = np.ascontiguousarray(batch.bounds, np.int64)
        lengths = [np.diff(one.encode_documents(batch.data, bounds).ends, prepend=0) for one in self._tokenizers]
        for side in (0, 1):
            self._total[side] += int(lengths[side].sum())
        groups = batch.groups
        if groups is not None:
            self._grouped = True
            for number, name in enumerate(groups.names):
                held = self._groups.setdefault(name, [0, 0])
                for side in (0, 1):
                    held[side] += int(lengths[side][groups.index == number].sum())
        changes = np.abs(lengths[1] - lengths[0])
        chosen = np.flatnonzero(changes)
        chosen = chosen[np.argsort(-changes[chosen], kind="stable")][: self._most]
        view = memoryview(batch.data).cast("B")
        for d in chosen.tolist():
            start, end = int(bounds[2 * d]), int(bounds[2 * d + 1])
            place = None if batch.places is None else int(batch.places[d])
            group = None if groups is None else groups.names[groups.index[d]]
            a, b = int(lengths[0][d]), int(lengths[1][d])
            beginning = bytes(view[start : min(end, start + 240)]).decode("utf-8", "ignore")[:80]
            self._changed.append((source, place, group, end - start, a, b, b - a, beginning))
        self._changed.sort(key=lambda one: (-abs(one[6]), one[0], -1 if one[1] is None else one[1]))
        del self._changed[self._most :]

    def added_to(self, difference: Difference, prices: tuple[float, float] | None = None) -> Difference:
        """Return a comparison with what was found in the documents."""
        counts: list[tuple[str | None, int, int]] = [(None, self._total[0], self._total[1])]
        if self._grouped:
            counts += [(name, a, b) for name, (a, b) in sorted(self._groups.items()) if a or b]
        return replace(
            difference, groups=_group_rows(counts, prices), documents=artifacts.table_of(self._changed, DOCUMENTS)
        )


def compare_documents(
    a: Vocabulary,
    b: Vocabulary,
    batches: Iterable[tuple[str, DocumentBatch]],
    *,
    names: tuple[str, str] = ("a", "b"),
    prices: tuple[float, float] | None = None,
    most: int = 100,
) -> Difference:
    """Return how vocabulary b differs from a on documents, given as batches with the file that each is of.

    >>> from beam_bpe import train
    >>> from beam_bpe.reading import documents_of
    >>> a, b = train({"low": 5}, 257), train({"low": 5}, 258)
    >>> found = compare_documents(a, b, [("", documents_of(["low low", "lo", "slow"], "strict"))])
    >>> found.documents.select(["tokens_a", "tokens_b", "beginning"]).to_pylist()[0]
    {'tokens_a': 5, 'tokens_b': 3, 'beginning': 'low low'}
    """
    changes = DocumentChanges(a, b, most)
    for source, batch in batches:
        changes.add(batch, source)
    return changes.added_to(compare(a, b, names=names), prices)
