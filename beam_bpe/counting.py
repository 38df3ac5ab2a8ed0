"""Count batches of documents into native tables, in one thread or in several of one process."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterable

import numpy as np

from beam_bpe import _words, progress
from beam_bpe.cutting import WordRule
from beam_bpe.documents import DocumentBatch
from beam_bpe.grouping import GroupTables, add_group_totals, characters_of, merge_packed
from beam_bpe.normalize import normalize_documents, steps_of
from beam_bpe.pretokenize import MAX_WORD_BYTES, PreTokenizer
from beam_bpe.special import SpecialTokens
from beam_bpe.totals import add_totals
from beam_bpe.word_parts import unpack_table, word_schema
from beam_bpe.words import WordCounts, parameters_of

_FOUND = ("words", "overlong_words", "overlong_bytes", "special_tokens")  # what counting finds, of `totals.TOTALS`


class WordCounter:
    """Count words and totals; the kernels release the GIL, so threads count side by side.

    Args:
        normalizer: what documents are normalized by, once special tokens are cut out of them.
        documents: count also the documents that hold a word.  What stands between special tokens is a
            document of its own here.  One thread does it, since the pieces of a document belong together.
        threads: how many count; each fills a table of its own.
        group_by: count apart what was read with this column of groups.
    """

    def __init__(
        self,
        pre_tokenizer: PreTokenizer,
        special_tokens: SpecialTokens,
        *,
        max_word_bytes: int = MAX_WORD_BYTES,
        documents: bool = False,
        threads: int = 1,
        normalizer: str | None = None,
        group_by: str | None = None,
    ):
        self._rule = WordRule(pre_tokenizer, special_tokens.tokens, normalizer)
        self._group_by = group_by
        self._normalizer = normalizer
        self._pre_tokenizer = pre_tokenizer
        self._specials = special_tokens
        self._max_word_bytes = max_word_bytes
        self._documents = documents
        self._threads = 1 if documents else threads
        self._pool = ThreadPoolExecutor(self._threads, "beam_bpe count") if self._threads > 1 else None
        self._tables: list[_words.WordTable | GroupTables] = []
        self._free: list[_words.WordTable | GroupTables] = []  # tables that no thread is filling
        self._pending: deque[Future[dict[str, int]]] = deque()
        self._totals: dict[str, int] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the tables hold."""
        return sum(table.nbytes for table in self._tables)

    def add(self, batch: DocumentBatch) -> None:
        """Count a batch, perhaps a little later; what one before it raised is raised here."""
        if self._pool is None:
            self._totals = add_totals(self._totals, self._count(batch))
            return
        while len(self._pending) >= 2 * self._threads:
            self._totals = add_totals(self._totals, self._pending.popleft().result())
        self._pending.append(self._pool.submit(self._count, batch))

    def finish(self, shards: int) -> tuple[list[tuple[int, bytes]], dict[str, Any]]:
        """Return (shard, packed and sorted words) pairs and the totals of all that was added, as they travel.

        A shard stands there once for each thread that had words of it.
        """
        try:
            while self._pending:
                self._totals = add_totals(self._totals, self._pending.popleft().result())
            pack = self._pool.map if self._pool else map
            packed = [pair for pairs in pack(lambda table: table.pack(shards, ordered=True), self._tables) for pair in pairs]
            if self._group_by is None:
                return packed, self._totals
            groups = [tables.totals for tables in self._tables if isinstance(tables, GroupTables)]
            return packed, {**self._totals, "groups": add_group_totals(*groups)}
        finally:
            self.close()

    def close(self) -> None:
        """Give up what is not counted yet, and the tables."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._tables, self._free, self._pending = [], [], deque()

    def _count(self, batch: DocumentBatch) -> dict[str, int]:
        if batch.cut_by and self._rule not in batch.cut_by:
            told = " and by ".join(str(rule) for rule in batch.cut_by)
            raise ValueError(
                f"documents were read to be cut by {told}, and are counted by {self._rule}: give ReadDocuments and CountWords "
                "the same"
            )
        if self._documents and batch.split:
            raise ValueError("the documents of a word cannot be counted where documents are split: ReadDocuments(whole=True)")
        if len(batch.bounds) and self._group_by != (by := None if batch.groups is None else batch.groups.by):
            raise ValueError(
                f"documents were read with group_by={by!r}, and are counted with {self._group_by!r}: give ReadDocuments and "
                "CountWords the same"
            )
        try:
            table = self._free.pop()
        except IndexError:
            documents = self._documents
            table = _words.WordTable(documents=documents) if self._group_by is None else GroupTables(documents)
            self._tables.append(table)
        if isinstance(table, GroupTables):
            found = self._count_groups(table, batch)
        else:
            found = self._count_into(table, batch.data, batch.bounds, batch.continues)
        self._free.append(table)
        progress.add(words=found["words"])
        return add_totals(batch.totals, found)

    def _count_groups(self, tables: GroupTables, batch: DocumentBatch) -> dict[str, int]:
        totals = dict.fromkeys(_FOUND, 0)
        for group, data, bounds in batch.groups.split(batch.data, batch.bounds) if batch.groups else ():
            found = self._count_into(tables[group], data, bounds)
            read = {"documents": len(bounds) // 2, "bytes": len(data), "characters": characters_of(data)}
            tables.add(group, {**read, **found})
            for name in _FOUND:
                totals[name] += found[name]
        return totals

    def _count_into(self, table: _words.WordTable, data: Any, bounds: np.ndarray, continues: bool = False) -> dict[str, int]:
        bounds, cuts = self._specials.cut(data, bounds)
        data, bounds = normalize_documents(data, bounds, self._normalizer)
        scanned = self._pre_tokenizer.count(table, data, bounds, max_word_bytes=self._max_word_bytes, continues=continues)
        return dict(zip(_FOUND, (scanned.words, scanned.overlong_words, scanned.overlong_bytes, cuts)))


def count_batches(
    batches: Iterable[DocumentBatch],
    rule: WordRule,
    *,
    documents: bool = False,
    group_by: str | None = None,
    threads: int = 1,
) -> WordCounts:
    """Count documents in this process, without Beam, and return the table of their words.

    Args:
        batches: that were read with `cut_by=(rule,)`, and to count documents with `whole=True`.
        documents, group_by, threads: as `WordCounter` has them.
    """
    counter = WordCounter(
        rule.pre_tokenizer,
        SpecialTokens(rule.special_tokens),
        documents=documents,
        threads=threads,
        normalizer=rule.normalizer,
        group_by=group_by,
    )
    try:
        for batch in batches:
            counter.add(batch)
        packed, totals = counter.finish(1)
    finally:
        counter.close()
    parameters = parameters_of(rule.pre_tokenizer, rule.special_tokens, MAX_WORD_BYTES, rule.normalizer, group_by)
    empty = word_schema(documents, group_by is not None).empty_table()
    table = unpack_table(merge_packed([words for _, words in packed]))[2] if packed else empty
    return WordCounts(table, parameters, add_totals(totals), add_group_totals(totals.get("groups", {})))


#: How the steps begin that make U+2581 of spaces.
_ESCAPING = ("escape_", "Metaspace:")


def check_spaces(pre_tokenizer: PreTokenizer, normalizer: str | None) -> None:
    """Raise ValueError if words begin at U+2581, and no step of the normalizer makes them of spaces."""
    steps = () if normalizer is None else steps_of(normalizer)
    if pre_tokenizer.name == "metaspace" and not any(step.startswith(_ESCAPING) for step in steps):
        chosen = "metaspace" if normalizer is None else f"{normalizer}+metaspace"
        raise ValueError(
            "the pattern 'metaspace' begins words at U+2581, which spaces become by a normalizer: choose "
            f"normalizer={chosen!r}, or another pattern"
        )
