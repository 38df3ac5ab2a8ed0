"""Count words: a native table per bundle, hash shards of packed bytes, one native merge per shard."""

import json
import threading
import weakref
from dataclasses import replace
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.typehints import typehints
from apache_beam.utils.windowed_value import WindowedValue

from beam_bpe.counting import WordCounter, check_spaces
from beam_bpe.documents import DocumentBatch
from beam_bpe.framing import TOTALS_SHARD, frame, unframe
from beam_bpe.grouping import Groups, group_name, merge_packed
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import MAX_WORD_BYTES, pre_tokenizer
from beam_bpe.reading import documents_of
from beam_bpe.special import SpecialTokens
from beam_bpe.transforms.read import READ_COUNTERS
from beam_bpe.transforms.rows import columns_of, fields_of, row_of
from beam_bpe.transforms.runners import refuse_lossy
from beam_bpe.totals import add_counted, check_alike
from beam_bpe.words import parameters_of

DEFAULT_SHARDS = 16
DEFAULT_MEMORY = 512 << 20
#: Types of elements that are neither documents nor rows with one.
_NEVER = (typehints.ListConstraint, typehints.TupleConstraint, typehints.SequenceTypeConstraint)


def shards_for(text_bytes: int) -> int:
    """Return how many shards the words of a corpus of that many bytes should have.

    About a sixth of the bytes are shuffled; all the values of a shard together stay below 128 MiB.
    """
    return max(4, -(-text_bytes // 6 // (128 << 20)))


class CountWords(beam.PTransform):
    """Count the words (pre-tokens) of documents.

    The input holds `DocumentBatch`es as ReadDocuments makes them, documents of type str or bytes, or rows
    (beam.Row, named tuples, data classes, dicts) with a column of those; rows without text are counted as null.
    The output holds (shard, packed words) pairs, one for each shard that has words, for WriteWords,
    MergeWords or WordRows; and one more, of shard -1, with the totals of what was counted.

    Args:
        pattern: the pre-tokenization pattern: a name such as "o200k", "cl100k" or "gpt2", or a regex.
        split_with: instead, a function "module:function" from a document to its words.
        gaps: with a regex, "keep" makes words of the text between matches, "drop" loses it.
        special_tokens: texts that cut a document and are not counted.
        errors: documents (str, bytes) that are not UTF-8: "replace", "strict" or "skip".
        max_word_bytes: longer words are left out and counted as overlong.
        shards: into how many parts the table is cut; all the words of one must fit into memory.
        documents: count also in how many documents each word occurs.
        memory: bytes that the tables of one process may take before they are sent on.
        time_limit: seconds that a regex may take for one document.
        threads: how many threads of a worker count one bundle; more than one pays where a worker has
            the cores for itself, and for named patterns only.
        column: the column of rows that holds the text.
        normalizer: steps that what stands between special tokens goes through first, joined by "+": NFC, NFD, NFKC,
            NFKD, lowercase, strip_accents; "bert" and "bert_cased" are those of BERT's models.
        group_by: count apart what has another value in this column: that of ReadDocuments(group_by=…), or of rows.
    """

    def __init__(
        self,
        pattern: str = "o200k",
        split_with: Optional[str] = None,
        gaps: str = "keep",
        special_tokens: Sequence[str] = (),
        errors: str = "replace",
        max_word_bytes: int = MAX_WORD_BYTES,
        shards: int = DEFAULT_SHARDS,
        documents: bool = False,
        memory: int = DEFAULT_MEMORY,
        time_limit: float = 60.0,
        threads: int = 1,
        column: str = "text",
        normalizer: Optional[str] = None,
        group_by: Optional[str] = None,
    ):
        super().__init__()
        if shards < 1:
            raise ValueError(f"shards is {shards}; it must be at least 1")
        if threads < 1:
            raise ValueError(f"threads is {threads}; it must be at least 1")
        if max_word_bytes < 1:
            raise ValueError(f"max_word_bytes is {max_word_bytes}; it must be at least 1")
        if errors not in ("replace", "strict", "skip"):
            raise ValueError(f"errors={errors!r}: choose one of replace, strict, skip")
        self._pre_tokenizer = pre_tokenizer(pattern, split_with=split_with, gaps=gaps, time_limit=time_limit)
        self._specials = SpecialTokens(special_tokens)
        check_normalizer(normalizer)
        check_spaces(self._pre_tokenizer, normalizer)
        self._normalizer = normalizer
        self._errors = errors
        self._max_word_bytes = max_word_bytes
        self._shards = shards
        self._documents = documents
        self._memory = memory
        self._threads = threads
        self._column = column
        self._group_by = group_by

    def display_data(self):
        return {"pattern": self._pre_tokenizer.pattern, "shards": self._shards, "documents": self._documents}

    def expand(self, documents: beam.PCollection[Any]) -> beam.PCollection[Tuple[int, bytes]]:
        refuse_lossy(documents.pipeline)
        kind = documents.element_type
        if isinstance(kind, _NEVER) or isinstance(kind, type) and issubclass(kind, (int, float, type(None))):
            raise TypeError(f"CountWords takes str, bytes, rows or DocumentBatch, not {kind}")
        columns_of(kind, self._column)
        if self._group_by is not None:
            columns_of(kind, self._group_by)
            if kind in (str, bytes):
                raise TypeError(f"CountWords(group_by={self._group_by!r}) takes rows or DocumentBatch, not {kind.__name__}")
        return (
            documents
            | "Count" >> beam.ParDo(_CountFn(self)).with_output_types(Tuple[int, bytes])
            | "Merge" >> MergeWords()
        )


class MergeWords(beam.PTransform):
    """Sum packed words shard by shard, for example of several tables that were flattened together.

    All of them must have been made with the same parameters and the same number of shards.
    """

    def expand(self, packed: beam.PCollection[Tuple[int, bytes]]) -> beam.PCollection[Tuple[int, bytes]]:
        return (
            packed
            | "ByShard" >> beam.GroupByKey()
            | "Sum" >> beam.ParDo(_MergeFn()).with_output_types(Tuple[int, bytes])
        )


class _Budget:
    """The memory that the counters of this process share; each may take an equal part."""

    _lock = threading.Lock()
    _counters: "weakref.WeakSet[WordCounter]" = weakref.WeakSet()

    @classmethod
    def enter(cls, counter: WordCounter) -> None:
        with cls._lock:
            cls._counters.add(counter)

    @classmethod
    def share(cls, memory: int) -> int:
        with cls._lock:
            return memory // max(1, len(cls._counters))


class _Bundle:
    """What one bundle counts in one window."""

    def __init__(self, counter: WordCounter):
        self.counter = counter
        self.waiting: List[Union[str, bytes]] = []  # single documents, to be counted together
        self.groups: List[str] = []  # of each of them, if they have groups
        self.waiting_bytes = 0
        self.nulls = 0  # rows without text
        _Budget.enter(counter)


_DOCUMENT_BYTES = 64  # that a single document costs beside its text
_WAITING_AT_MOST = 16  # batches of single documents, in all windows of a bundle


class _CountFn(beam.DoFn):
    """Count into native tables per window; emit them at the end of the bundle, or before they grow too large.

    This is a combiner of our own: a CombineFn cannot emit early, and a lifted one is held whole, counted
    in keys and not in bytes.
    """

    _BATCH = 1 << 20  # bytes of single documents that are counted together

    def __init__(self, params: CountWords):
        self._pre_tokenizer = params._pre_tokenizer
        self._specials = params._specials
        self._normalizer = params._normalizer
        self._errors = params._errors
        self._max_word_bytes = params._max_word_bytes
        self._shards = params._shards
        self._documents = params._documents
        self._memory = params._memory
        self._threads = params._threads
        self._column = params._column
        self._group_by = params._group_by
        self._parameters = parameters_of(
            self._pre_tokenizer, self._specials.tokens, self._max_word_bytes, self._normalizer, self._group_by
        )
        self._bundles: Dict[Any, _Bundle] = {}
        self._waiting_bytes = 0
        self._grown = False  # since it was last looked whether the tables are too large
        self._words = Metrics.counter("beam_bpe", "words")
        self._overlong = Metrics.counter("beam_bpe", "overlong_words")
        self._flushes = Metrics.counter("beam_bpe", "tables")
        self._read = {name: Metrics.counter("beam_bpe", name) for name in READ_COUNTERS}

    def start_bundle(self) -> None:
        self._give_up()  # instances are used again, also after a bundle that failed

    def teardown(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        for bundle in self._bundles.values():
            bundle.counter.close()
        self._bundles = {}
        self._waiting_bytes = 0
        self._grown = False

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        # A table is sent on between two documents where documents are counted, else after any piece of one.
        if self._documents and not (isinstance(element, DocumentBatch) and element.continues):
            yield from self._flush_large()
        bundle = self._bundles.get(window)
        if bundle is None:
            counter = WordCounter(
                self._pre_tokenizer,
                self._specials,
                max_word_bytes=self._max_word_bytes,
                documents=self._documents,
                threads=self._threads,
                normalizer=self._normalizer,
                group_by=self._group_by,
            )
            bundle = self._bundles[window] = _Bundle(counter)
        if isinstance(element, DocumentBatch):
            bundle.counter.add(element)
            self._grown = True
        else:
            self._keep(element, bundle)
        if not self._documents:
            yield from self._flush_large()

    def _keep(self, element: Any, bundle: _Bundle) -> None:
        text = element
        if not isinstance(element, (str, bytes)):
            if not fields_of(element):
                raise TypeError(
                    f"CountWords takes str, bytes, rows or DocumentBatch, not {type(element).__name__}: {element!r:.80}"
                )
            text = row_of(element, self._column)[self._column]
        if text is None:
            bundle.nulls += 1
        elif isinstance(text, (str, bytes)):
            if self._group_by is not None:
                bundle.groups.append(self._group_of(element, self._group_by))
            bundle.waiting.append(text)
            size = len(text) + _DOCUMENT_BYTES
            bundle.waiting_bytes += size
            self._waiting_bytes += size
        else:
            raise TypeError(f"the column {self._column!r} holds a {type(text).__name__}, neither str nor bytes: {text!r:.80}")
        if bundle.waiting_bytes >= self._BATCH:
            self._count_waiting(bundle)
        elif self._waiting_bytes >= _WAITING_AT_MOST * self._BATCH:  # of many windows
            for other in self._bundles.values():
                self._count_waiting(other)

    @staticmethod
    def _group_of(element: Any, group_by: str) -> str:
        if isinstance(element, (str, bytes)):
            kind = type(element).__name__
            raise TypeError(f"a document of type {kind} has no column {group_by!r} to group by: {element!r:.80}")
        try:
            return group_name(row_of(element, group_by)[group_by])
        except TypeError as error:
            raise TypeError(f"the column {group_by!r} to group by: {error}") from None

    def _flush_large(self) -> Iterator[WindowedValue]:
        """Send on the largest tables, of whatever windows, until the others are within this instance's part of the memory."""
        if not self._grown:
            return
        self._grown = False
        sizes = {window: bundle.counter.nbytes for window, bundle in self._bundles.items()}
        held = sum(sizes.values())
        for window in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if held <= _Budget.share(self._memory) * len(self._bundles):
                return
            held -= sizes[window]
            yield from self._flushed(window)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window in list(self._bundles):
            yield from self._flushed(window)

    def _flushed(self, window: Any) -> Iterator[WindowedValue]:
        for pair in self._flush(self._bundles.pop(window)):
            yield WindowedValue(pair, window.max_timestamp(), [window])

    def _count_waiting(self, bundle: _Bundle) -> None:
        documents, nulls = bundle.waiting, bundle.nulls
        groups = None if self._group_by is None else Groups.of(self._group_by, bundle.groups)
        self._waiting_bytes -= bundle.waiting_bytes
        bundle.waiting, bundle.groups, bundle.waiting_bytes, bundle.nulls = [], [], 0, 0
        if documents or nulls:
            batch = documents_of(documents, self._errors, groups)
            batch = replace(batch, totals={**batch.totals, "null_documents": nulls})
            for name, counter in self._read.items():  # ReadDocuments counts its own
                counter.inc(batch.totals.get(name, 0))
            bundle.counter.add(batch)
            self._grown = True

    def _flush(self, bundle: _Bundle) -> Iterator[Tuple[int, bytes]]:
        self._count_waiting(bundle)
        packed, totals = bundle.counter.finish(self._shards)
        self._flushes.inc()
        self._words.inc(totals.get("words", 0))
        self._overlong.inc(totals.get("overlong_words", 0))
        for shard, words in packed:
            yield shard, frame(self._parameters, words)
        yield TOTALS_SHARD, frame(self._parameters, json.dumps(totals).encode())


class _MergeFn(beam.DoFn):
    """Sum the packed words of a shard, or the totals."""

    def process(self, element: Tuple[int, Iterable[bytes]]) -> Iterator[Tuple[int, bytes]]:
        yield from merged(*element)


_MERGED_AT = 128 << 20  # bytes of packed words that are gathered before they are merged


def merged(shard: int, values: Iterable[bytes]) -> Iterator[Tuple[int, bytes]]:
    """Yield the sum of the packed words of a shard, or of the totals; nothing if there are none, as in the empty panes of Flink."""
    parameters: Dict[str, Any] = {}
    totals: Dict[str, Any] = {}
    waiting: List[Any] = []
    size = held = 0  # bytes that wait, and those of the last merge among them
    for value in values:
        own, payload = unframe(value)
        check_alike(parameters or own, own)
        parameters = own
        if shard == TOTALS_SHARD:
            totals = add_counted(totals, json.loads(bytes(payload)))
            continue
        waiting.append(payload)
        size += len(payload)
        if len(waiting) > 1 and size > max(_MERGED_AT, 2 * held):  # so a large shard is not merged for each that comes
            waiting = [merge_packed(waiting)]
            size = held = len(waiting[0])
    if totals:
        yield shard, frame(parameters, json.dumps(totals).encode())
    elif waiting:
        yield shard, frame(parameters, merge_packed(waiting))
