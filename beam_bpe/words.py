"""The word-count table: distinct words (pre-tokens) and how often each occurs.

Everything that is learned is a function of this table, so it is an artifact of its own; its files are those of
`beam_bpe.word_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat, zip_longest
from numbers import Integral
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import _words, artifacts, foreign, grouping, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.grouping import GroupTables, add_group_totals
from beam_bpe.normalize import check_normalizer, normalize_documents, normalizer_of, spec
from beam_bpe.pretokenize import DEFAULT_PATTERN, MAX_WORD_BYTES, PreTokenizer, pre_tokenizer
from beam_bpe.special import SpecialTokens
from beam_bpe.totals import TOTALS, add_totals, check_alike
from beam_bpe.word_parts import KIND, claim, groups_of_manifest, pack_table, publish, read_part, unpack_table, word_schema, write_part
from beam_bpe.word_rows import INT64_MAX, WordBatch, batches_of, exact_sums, exact_total, first_rows, group_numbers, sums_by_group


@dataclass(frozen=True)
class WordCounts:
    """Distinct words with their counts, how they were made, and what was counted beside them.

    Words that were counted by group have a row for each group that holds them; what is no matter of groups (learning,
    `batches`, `most_common`, `to_dict`, `len`) takes their sums.

    Attributes:
        table: the rows, as in a part; the rows of a word stand together, and all groups are of one dictionary.
        parameters: see `parameters_of`.
        totals: `TOTALS` by name.
        group_totals: `grouping.GROUP_TOTALS` of each group by name; empty if there are no groups.

    >>> words = WordCounts.from_documents(["low low", "lower"], pattern="whitespace")
    >>> words.to_dict()
    {b'low': 2, b'lower': 1}
    >>> words = WordCounts.from_documents(["low low", "low bas", "bas"], pattern="whitespace", groups=["en", "fr", "fr"])
    >>> words.groups, words.of_group("fr").to_dict(), words.ungrouped().to_dict()
    (('en', 'fr'), {b'bas': 2, b'low': 1}, {b'bas': 2, b'low': 3})
    """

    table: pa.Table
    parameters: Mapping[str, Any] = field(default_factory=lambda: parameters_of("none"))
    totals: Mapping[str, int] = field(default_factory=dict)
    group_totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    # ---- making ----

    @classmethod
    def from_mapping(
        cls,
        counts: Mapping[bytes | str, int],
        *,
        pre_tokenizer: PreTokenizer | str = "none",
        normalizer: str | None = None,
    ) -> WordCounts:
        """Return the table of a mapping from words (str is taken as UTF-8) to counts.

        Args:
            pre_tokenizer, normalizer: how the words were cut, and what the text went through first; recorded.
        """
        check_normalizer(normalizer)
        table = _words.WordTable()
        for word, count in counts.items():
            if not isinstance(word, (str, bytes)) or not isinstance(count, Integral):
                raise TypeError(f"a word is str or bytes and its count a whole number, not {word!r}: {count!r}")
            encoded = word.encode() if isinstance(word, str) else word
            if not encoded:
                raise ValueError("a word is empty")
            if not 0 <= count <= INT64_MAX:
                raise ValueError(f"the count of {word!r} is {count}; it must lie between 0 and 2**63 - 1")
            table.add(encoded, count)
        return cls._from_native(table, parameters_of(pre_tokenizer, normalizer=normalizer), {"words": table.total})

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[str | bytes],
        *,
        pattern: str | PreTokenizer = DEFAULT_PATTERN,
        special_tokens: Sequence[str] = (),
        max_word_bytes: int = MAX_WORD_BYTES,
        normalizer: str | None = None,
        groups: Iterable[Any] | None = None,
        group_by: str = "group",
    ) -> WordCounts:
        """Count the words of documents in this process, without Beam.

        Args:
            normalizer: steps that what stands between special tokens goes through first (`beam_bpe.normalize`).
            groups: the group of each document, which are counted apart; see `grouping.group_name`.
            group_by: what the groups are, such as "language"; recorded.

        Raises:
            UnicodeDecodeError: a document of bytes is not UTF-8.
            ValueError: there are more or fewer groups than documents.

        >>> WordCounts.from_documents(["Low, LÖW!"], pattern="bert", normalizer="bert").to_dict()
        {b'!': 1, b',': 1, b'low': 2}
        """
        check_normalizer(normalizer)
        chosen = pre_tokenizer(pattern)
        specials = SpecialTokens(special_tokens)
        table = _words.WordTable()
        tables = GroupTables()
        totals = dict.fromkeys(TOTALS, 0)
        if isinstance(documents, (str, bytes)):
            raise TypeError(f"documents is a collection of texts, not one: {documents[:60]!r}")
        for document, group in zip(documents, repeat(None)) if groups is None else _pairs(documents, groups):
            data = document.encode() if isinstance(document, str) else bytes(document)
            data.decode()
            bounds, cuts = specials.cut(data, np.array([0, len(data)], np.int64))
            text, bounds = normalize_documents(data, bounds, normalizer)
            scanned = chosen.count(table if group is None else tables[group], text, bounds, max_word_bytes=max_word_bytes)
            found = {
                "documents": 1,
                "bytes": len(data),
                "words": scanned.words,
                "overlong_words": scanned.overlong_words,
                "overlong_bytes": scanned.overlong_bytes,
                "special_tokens": cuts,
            }
            totals = add_totals(totals, found)
            if group is not None:
                tables.add(group, {**found, "characters": grouping.characters_of(data)})
        if groups is not None:
            parameters = parameters_of(chosen, special_tokens, max_word_bytes, normalizer, group_by)
            return cls._from_native(tables, parameters, totals, tables.totals)
        return cls._from_native(table, parameters_of(chosen, special_tokens, max_word_bytes, normalizer), totals)

    @classmethod
    def _from_native(
        cls,
        table: _words.WordTable | GroupTables,
        parameters: Mapping[str, Any],
        totals: Mapping[str, int],
        groups: Mapping[str, Mapping[str, int]] | None = None,
    ) -> WordCounts:
        packed = table.pack(1, ordered=True)
        columns = unpack_table(packed[0][1])[2] if packed else word_schema(table.documents, groups is not None).empty_table()
        return cls(columns, dict(parameters), add_totals(totals), add_group_totals(groups or {}))

    # ---- reading ----

    @classmethod
    def read(cls, folder: str) -> WordCounts:
        """Read a folder of words; its manifest is demanded, and only the parts it names are read.

        Raises:
            FileNotFoundError: there is no manifest, or a part is missing.
            FormatError: a part is broken, is of another job, or does not hold what the manifest says.
        """
        manifest = artifacts.read_manifest(folder, KIND)
        tables = [read_part(storage.join(folder, part["name"]), part, manifest) for part in manifest["parts"]]
        grouped = "group_by" in manifest["parameters"]
        table = pa.concat_tables(tables) if tables else word_schema(False, grouped).empty_table()
        totals = manifest["totals"]
        held = sum(part["occurrences"] for part in manifest["parts"]) + totals.get("pruned_occurrences", 0)
        if held != totals.get("words"):
            raise FormatError(
                f"{storage.join(folder, artifacts.MANIFEST)} says that {totals.get('words')} words were counted, but its "
                f"parts hold {held}"
            )
        if not grouped:
            return cls(table, manifest["parameters"], totals)
        words = cls(table.unify_dictionaries(), manifest["parameters"], totals, groups_of_manifest(folder, manifest))
        if strange := [group for group in words.groups if group not in words.group_totals]:
            raise FormatError(
                f"{folder} holds words of the group {strange[0]!r:.80}, which its {artifacts.MANIFEST} does not name"
            )
        return words

    @classmethod
    def read_foreign(
        cls,
        paths: Sequence[str],
        *,
        word_column: str = "word",
        count_column: str = "count",
        pre_tokenizer: PreTokenizer | str = "none",
        normalizer: str | None = None,
    ) -> WordCounts:
        """Read tables made elsewhere: Parquet, CSV or TSV files (compressed or not) with two columns.

        A word may be text or binary.  In a TSV file without quotes in its header, quotes are part of
        the words, as in tables that `awk` or `uniq -c` made.

        Raises:
            FormatError: a column is missing, a word or count is null, a count is negative, or a word
                stands in two rows.
        """
        if isinstance(paths, str):
            raise TypeError(f"paths is a list of paths, not one: {paths!r}")
        if not paths:
            raise ValueError("paths names no file to read words from")
        tables = [foreign.read_table(path, word_column, count_column) for path in paths]
        return cls.from_table(pa.concat_tables(tables), name=", ".join(paths), pre_tokenizer=pre_tokenizer, normalizer=normalizer)

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        *,
        name: str = "the table",
        pre_tokenizer: PreTokenizer | str = "none",
        normalizer: str | None = None,
    ) -> WordCounts:
        """Check a table with the columns `word` and `count` and return its counts.

        Args:
            pre_tokenizer, normalizer: how the words were cut, and what the text went through first; recorded.
        """
        check_normalizer(normalizer)
        table = foreign.two_columns(table, "word", "count", name)
        for column in ("word", "count"):
            if table[column].null_count:
                row = pc.index(pc.is_null(table[column]), True).as_py()
                raise FormatError(f"{name}: row {row} has no {column}")
        if table.num_rows and pc.min(table["count"]).as_py() < 0:
            row = pc.index(pc.less(table["count"], 0), True).as_py()
            raise FormatError(
                f"{name}: row {row} counts {table['count'][row].as_py()} of {table['word'][row].as_py()!r}; "
                "a count is not negative"
            )
        if table.num_rows and pc.min(pc.binary_length(table["word"])).as_py() == 0:
            row = pc.index(pc.equal(pc.binary_length(table["word"]), 0), True).as_py()
            raise FormatError(f"{name}: the word of row {row} is empty")
        native = _words.WordTable()
        for batch in batches_of(table):
            native.add_columns(batch.data, batch.offsets, batch.counts)
        if len(native) != table.num_rows:
            values = pc.value_counts(table["word"].combine_chunks())
            twice = values.filter(pc.greater(values.field("counts"), 1))[0]["values"].as_py()
            raise FormatError(f"{name}: the word {twice[:60]!r} stands in more than one row; sum its counts first")
        return cls._from_native(native, parameters_of(pre_tokenizer, normalizer=normalizer), {"words": native.total})

    # ---- using ----

    def __len__(self) -> int:
        return int(np.count_nonzero(self._firsts)) if self.group_by is not None else int(self.table.num_rows)

    @property
    def occurrences(self) -> int:
        """Sum of the counts."""
        return exact_total(self.table["count"])

    @property
    def pre_tokenizer(self) -> PreTokenizer:
        """The pre-tokenizer whose words these are ("none" for counts of unknown origin)."""
        return PreTokenizer.from_spec(self.parameters["pre_tokenizer"])

    @property
    def normalizer(self) -> str | None:
        """The normalizer of the text that these are the words of."""
        return normalizer_of(self.parameters.get("normalizer"))

    @property
    def group_by(self) -> str | None:
        """The column or field whose values are the groups; None if words were not counted by group."""
        return self.parameters.get("group_by")

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in order of their bytes; those without words too."""
        if self.group_by is None:
            return ()
        return tuple(sorted({*self.group_totals, *pc.unique(self.table["group"]).to_pylist()}))

    def of_group(self, group: str) -> WordCounts:
        """Return the words of one group; its totals are those of `group_totals`.

        Raises:
            KeyError: there is no such group.
        """
        if group not in self.groups:
            few = ", ".join(map(repr, self.groups[:20])) or "none"
            raise KeyError(f"there is no group {group!r}; there are {few}{', …' * (len(self.groups) > 20)}")
        table = self.table.filter(pc.equal(self.table["group"], group)).drop_columns("group")
        return WordCounts(table, _without_groups(self.parameters), dict(self.group_totals.get(group, {})))

    def ungrouped(self) -> WordCounts:
        """Return the sums over all groups, as if nothing had been told apart; self if nothing was.

        A document is in one group, so that the documents of a word are summed too.

        Raises:
            OverflowError: a sum exceeds 2**63 - 1.
        """
        if self.group_by is None:
            return self
        words = self.table["word"].filter(pa.array(self._firsts))
        columns = [words, *(self._summed(name, words) for name in self.table.column_names if name in ("count", "documents"))]
        return WordCounts(
            pa.table(columns, schema=word_schema(len(columns) > 2)), _without_groups(self.parameters), self.totals
        )

    def word_and_group(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each row (int64) that of its word in `ungrouped()` and (int32) the number of its group in `groups`."""
        if self.group_by is None:
            raise ValueError("the words were not counted by group")
        return np.cumsum(self._firsts) - 1, group_numbers(self.table, self.groups)

    @cached_property
    def _firsts(self) -> np.ndarray:
        return first_rows(self.table)

    def _summed(self, name: str, words: pa.ChunkedArray) -> pa.Array:
        """Return the sums of a column over the rows of each word."""
        sums, over = exact_sums(self.table[name].to_numpy(), np.flatnonzero(self._firsts))
        if over.any():
            word = words[int(np.argmax(over))].as_py()
            raise OverflowError(f"the {name} of {word[:60]!r} in all groups together exceeds 2**63 - 1")
        return pa.array(sums)

    def most_common(self, n: int) -> list[tuple[bytes, int]]:
        """Return the n most frequent words with their counts; equal counts by the bytes of the words."""
        order = [("count", "descending"), ("word", "ascending")]
        table = self.ungrouped().table
        top = table.take(pc.select_k_unstable(table, k=min(n, len(table)), sort_keys=order))
        return list(zip(top["word"].to_pylist(), top["count"].to_pylist()))

    def to_dict(self) -> dict[bytes, int]:
        """Return {word: count}; for small tables."""
        table = self.ungrouped().table
        return dict(zip(table["word"].to_pylist(), table["count"].to_pylist()))

    def batches(self) -> Iterator[WordBatch]:
        """Yield the words and their counts as the kernels read them; without groups, without copying the words."""
        return batches_of(self.ungrouped().table)

    def merge(self, *others: WordCounts) -> WordCounts:
        """Return the sum of tables whose words were made alike; documents are kept if all count them.

        Raises:
            ValueError: they were counted with different parameters, or by different groups.
        """
        for other in others:
            check_alike(self.parameters, other.parameters)
        everything = (self, *others)
        documents = all("documents" in one.table.column_names for one in everything)
        totals = add_totals(*(one.totals for one in everything))
        if self.group_by is not None:
            tables = GroupTables(documents)
            for one in everything:
                tables.add_table(one.table)
            groups = add_group_totals(*(one.group_totals for one in everything))
            return self._from_native(tables, self.parameters, totals, groups)
        native = _words.WordTable(documents=documents)
        for one in everything:
            for batch in one.batches():
                native.add_columns(
                    batch.data, batch.offsets, batch.counts, batch.documents if documents else None
                )
        return self._from_native(native, self.parameters, totals)

    def weigh(self, factor: int) -> WordCounts:
        """Return the table with every count multiplied by a whole number."""
        if not isinstance(factor, Integral):
            raise TypeError(f"the factor is {factor!r}; it must be a whole number")
        factor = int(factor)
        if factor < 0:
            raise ValueError(f"the factor is {factor}; it must not be negative")
        if len(self) and pc.max(self.table["count"]).as_py() * factor > INT64_MAX:
            raise OverflowError(f"a count times {factor} exceeds 2**63 - 1")
        counts = pc.multiply(self.table["count"], pa.scalar(factor, pa.int64()))
        table = self.table.set_column(1, self.table.schema.field("count"), counts)
        return WordCounts(
            table,
            self.parameters,
            _weighed(self.totals, factor),
            {group: _weighed(totals, factor) for group, totals in self.group_totals.items()},
        )

    def prune(self, min_count: int) -> WordCounts:
        """Return the table without the words that occur less than `min_count` times; totals tell how many.

        With groups it is the occurrences in all of them that count.
        """
        if self.group_by is not None:
            return self._prune_groups(min_count)
        kept = self.table.filter(pc.greater_equal(self.table["count"], min_count))
        pruned = WordCounts(kept, self.parameters, self.totals)
        lost = {
            "pruned_words": len(self) - len(pruned),
            "pruned_occurrences": self.occurrences - pruned.occurrences,
        }
        return WordCounts(kept, self.parameters, add_totals(self.totals, lost))

    def _prune_groups(self, min_count: int) -> WordCounts:
        rows, groups = self.word_and_group()
        whole = self.ungrouped()
        rare = np.asarray(pc.less(whole.table["count"], min_count))
        lost = rare[rows]
        n = len(self.groups)
        words = np.bincount(groups[lost], minlength=n).tolist()
        occurrences = sums_by_group(self.table["count"].to_numpy()[lost], groups[lost], n)
        totals = {"pruned_words": int(np.count_nonzero(rare)), "pruned_occurrences": sum(occurrences)}
        of_groups = {
            group: {"pruned_words": words[i], "pruned_occurrences": occurrences[i]} for i, group in enumerate(self.groups)
        }
        return WordCounts(
            self.table.filter(pa.array(~lost)),
            self.parameters,
            add_totals(self.totals, totals),
            add_group_totals(self.group_totals, of_groups),
        )

    def write(self, folder: str, *, shards: int = 1, overwrite: bool = False) -> None:
        """Write the table as a folder of words."""
        packed = pack_table(self.table, shards)
        groups = {group: self.group_totals.get(group, {}) for group in self.groups}
        totals = {"words": self.occurrences, **self.totals, "groups": groups}
        claim(folder, overwrite)
        parts = [write_part(folder, words, self.parameters) for _, words in packed]
        publish(folder, parts, self.parameters, totals)


def parameters_of(
    chosen: PreTokenizer | str,
    special_tokens: Sequence[str] = (),
    max_word_bytes: int | None = None,
    normalizer: str | None = None,
    group_by: str | None = None,
) -> dict[str, Any]:
    """Return what defines the words of a table, and its groups if it has any."""
    parameters: dict[str, Any] = {
        "pre_tokenizer": pre_tokenizer(chosen).spec(),
        "special_tokens": list(special_tokens),
        "max_word_bytes": max_word_bytes,
    }
    if normalizer is not None:
        parameters["normalizer"] = spec(normalizer)
    if group_by is not None:
        parameters["group_by"] = group_by
    return parameters


def _without_groups(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != "group_by"}


def _weighed(totals: Mapping[str, int], factor: int) -> dict[str, int]:
    return {**totals, **{name: totals.get(name, 0) * factor for name in ("words", "pruned_occurrences")}}


def _pairs(documents: Iterable[str | bytes], groups: Iterable[Any]) -> Iterator[tuple[str | bytes, str]]:
    """Yield each document with its group; ValueError if one has none, or no document."""
    missing: Any = object()
    for document, group in zip_longest(documents, groups, fillvalue=missing):
        if document is missing or group is missing:
            raise ValueError("there are not as many groups as documents")
        yield document, grouping.group_name(group)
