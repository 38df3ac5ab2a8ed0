"""Measure vocabularies on a collection of documents; merge what workers found, and write it."""

from dataclasses import replace
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from beam_bpe import measured
from beam_bpe.documents import ERRORS, DocumentBatch
from beam_bpe.grouping import Groups, group_name
from beam_bpe.measuring import Meter
from beam_bpe.reading import documents_of
from beam_bpe.statistics import BASELINES, Measures, Statistics, Subject, add_left_out
from beam_bpe.stores import refuse_credentials
from beam_bpe.tokenizer import SPECIAL_POLICIES, Tokenizer
from beam_bpe.transforms.read import READ_COUNTERS
from beam_bpe.transforms.rows import columns_of, fields_of, row_of
from beam_bpe.transforms.runners import refuse_lossy
from beam_bpe.transforms.stored import StoredDoFn
from beam_bpe.transforms.vocabularies import VocabularySource, source_of
from beam_bpe.vocabulary import Vocabulary

_BATCH = 1 << 20  # bytes of single documents that are measured together
_GROUPED_BATCH = 8 << 20  # the same in groups, of each of which few may come
_DOCUMENT_BYTES = 64  # that a single document costs beside its text
_MEMORY = 256 << 20


class MeasureTokens(beam.PTransform):
    """Measure vocabularies on documents: tokens, words, characters and the frequency of each token, exactly.

    The input holds `DocumentBatch`es as ReadDocuments makes them, documents of type str or bytes, or rows (beam.Row,
    named tuples, data classes, dicts) with a column of those; rows without text are left out. The output holds
    `beam_bpe.statistics.Statistics` of one group each, one for each vocabulary (in the order given, then the
    baselines) and group, and of none with what was left out; WriteStatistics writes them, and `Statistics.merge` sums
    those of a vocabulary.

    Args:
        vocabularies: what is measured: a Vocabulary, or the path of one in any format of `beam_bpe.formats`; or several.
        names: of each vocabulary, for people; by default its path, or the beginning of its fingerprint.
        baselines: "byte", "character", "word" (those of the first vocabulary) or "trigram", beside them.
        group_by: the column of groups: that of ReadDocuments(group_by=…), or of rows.
        column: the column of rows that holds the text.
        special: special tokens in the text are "text", are "encode"d, are left out ("drop"), or "fail".
        errors: documents (str, bytes) that are not UTF-8: "replace", "strict" or "skip".
        method: "rank" or "longest_match".
        by_path: workers read the vocabularies from their paths, rather than get them with the job.
        vocabulary_options: of each vocabulary's format, such as pattern and special_tokens of a rank file.
        memory: bytes that the frequencies of one bundle may take before they are sent on.
    """

    def __init__(
        self,
        vocabularies: Union[str, Vocabulary, Sequence[Union[str, Vocabulary]]],
        names: Sequence[str] = (),
        baselines: Sequence[str] = (),
        group_by: Optional[str] = None,
        column: str = "text",
        special: str = "text",
        errors: str = "replace",
        method: str = "rank",
        by_path: bool = False,
        vocabulary_options: Optional[Dict[str, Any]] = None,
        memory: int = _MEMORY,
    ):
        super().__init__()
        if isinstance(baselines, str) or isinstance(names, str):
            raise TypeError("names and baselines are lists, not one text")
        for name, value, allowed in (("special", special, SPECIAL_POLICIES), ("errors", errors, ERRORS)):
            if value not in allowed:
                raise ValueError(f"{name}={value!r}: choose one of {', '.join(allowed)}")
        self._sources, tokenizers = _sources_of(vocabularies, method, by_path, vocabulary_options)
        if names and len(names) != len(tokenizers):
            raise ValueError(f"there are {len(names)} names of {len(tokenizers)} vocabularies")
        if not tokenizers and not baselines:
            raise ValueError("there is nothing to measure: give vocabularies, or baselines")
        told = [source.path or source.fingerprint[:12] for source in self._sources]
        own = [Subject.of(tokenizer.vocabulary, name) for tokenizer, name in zip(tokenizers, names or told)]
        self.subjects = own + [Subject(name) for name in baselines]
        for number, one in enumerate(self.subjects):
            if (one.fingerprint or one.name) in [other.fingerprint or other.name for other in self.subjects[:number]]:
                raise ValueError(f"{one.name} is to be measured twice: leave one out")
        Meter(tokenizers, baselines, special)  # refuses what contradicts each other
        self._baselines, self._group_by, self._column = list(baselines), group_by, column
        self._special, self._errors, self._memory = special, errors, memory

    def display_data(self):
        told = ", ".join(subject.name for subject in self.subjects)
        return {"subjects": told, "special": self._special, **({"group_by": self._group_by} if self._group_by else {})}

    def expand(self, documents: beam.PCollection[Any]) -> beam.PCollection[Statistics]:
        refuse_lossy(documents.pipeline)
        for column in (self._column, *([self._group_by] if self._group_by else [])):
            columns_of(documents.element_type, column)
        if self._group_by is not None and documents.element_type in (str, bytes):
            raise TypeError(f"MeasureTokens(group_by={self._group_by!r}) takes rows or DocumentBatch, not texts")
        found = documents | "Measure" >> beam.ParDo(_MeasureFn(self)).with_output_types(Tuple[Tuple[int, str], Any])
        if documents.windowing.is_default():  # every vocabulary is told of, also where there are no documents
            numbers = documents.pipeline | "Subjects" >> beam.Create(range(len(self.subjects)), reshuffle=False)
            nothing = numbers | "Nothing" >> beam.Map(_nothing_of).with_output_types(Tuple[Tuple[int, str], Any])
            found = (found, nothing) | "Together" >> beam.Flatten()
        return (
            found
            | "ByGroup" >> beam.GroupByKey()
            | "Sum" >> beam.ParDo(_SumFn(self.subjects, self._group_by)).with_output_types(Statistics)
        )


def _nothing_of(number: int) -> Tuple[Tuple[int, str], Any]:
    return _key_of_left_out(number), add_left_out()


def _key_of_left_out(number: int) -> Tuple[int, str]:
    """Return the key of what was left out of what a subject was measured on: a number that no subject has."""
    return -1 - number, ""


class _Bundle:
    """What one bundle measures in one window."""

    def __init__(self, meter: Meter):
        self.meter = meter
        self.waiting: List[Union[str, bytes]] = []  # single documents, to be measured together
        self.groups: List[str] = []
        self.waiting_bytes = 0
        self.nulls = 0  # rows without text


class _MeasureFn(StoredDoFn):
    """Measure per window; emit measures of ((subject, group)) at the end of the bundle, or before they grow too large."""

    def __init__(self, job: MeasureTokens):
        self._sources, self._baselines, self._special = job._sources, job._baselines, job._special
        self._subjects = len(job.subjects)
        self._column, self._group_by, self._errors, self._memory = job._column, job._group_by, job._errors, job._memory
        self._shared = [Shared() for _ in self._sources]
        self._read = {name: Metrics.counter("beam_bpe", name) for name in READ_COUNTERS}

    def setup(self) -> None:
        self._tokenizers = [
            shared.acquire(one.tokenizer, one.fingerprint) for shared, one in zip(self._shared, self._sources)
        ]

    def start_bundle(self) -> None:
        self._bundles: Dict[Any, _Bundle] = {}

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        bundle = self._bundles.get(window)
        if bundle is None:
            bundle = self._bundles[window] = _Bundle(Meter(self._tokenizers, self._baselines, self._special))
        if isinstance(element, DocumentBatch):
            if bundle.meter.nbytes > self._memory and not element.continues:
                yield from self._taken(bundle, window)
            self._add(bundle, element)
            return
        self._keep(element, bundle)
        if bundle.waiting_bytes >= (_BATCH if self._group_by is None else _GROUPED_BATCH):
            self._measure_waiting(bundle)
            if bundle.meter.nbytes > self._memory:
                yield from self._taken(bundle, window)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        bundles, self._bundles = self._bundles, {}
        for window, bundle in bundles.items():
            self._measure_waiting(bundle)
            yield from self._taken(bundle, window)

    def _keep(self, element: Any, bundle: _Bundle) -> None:
        text, group = element, ""
        if not isinstance(element, (str, bytes)):
            if not fields_of(element):
                raise TypeError(
                    f"MeasureTokens takes str, bytes, rows or DocumentBatch, not {type(element).__name__}: {element!r:.80}"
                )
            text = row_of(element, self._column)[self._column]
            if self._group_by is not None:
                group = group_name(row_of(element, self._group_by)[self._group_by])
        elif self._group_by is not None:
            raise TypeError(f"a text has no column {self._group_by!r} to group by: MeasureTokens takes rows then")
        if text is None:
            bundle.nulls += 1
            return
        if not isinstance(text, (str, bytes)):
            raise TypeError(
                f"the column {self._column!r} holds a {type(text).__name__}, neither str nor bytes: {text!r:.80}"
            )
        bundle.waiting.append(text)
        bundle.groups.append(group)
        bundle.waiting_bytes += len(text) + _DOCUMENT_BYTES

    def _measure_waiting(self, bundle: _Bundle) -> None:
        if not bundle.waiting and not bundle.nulls:
            return
        groups = None if self._group_by is None else Groups.of(self._group_by, bundle.groups)
        batch = documents_of(bundle.waiting, self._errors, groups)
        batch = replace(batch, totals={**batch.totals, "null_documents": bundle.nulls})
        for name, counter in self._read.items():  # ReadDocuments counts its own
            counter.inc(batch.totals.get(name, 0))
        bundle.waiting, bundle.groups, bundle.waiting_bytes, bundle.nulls = [], [], 0, 0
        self._add(bundle, batch)

    def _add(self, bundle: _Bundle, batch: DocumentBatch) -> None:
        by = None if batch.groups is None else batch.groups.by
        if len(batch.bounds) and by != self._group_by:
            raise ValueError(
                f"documents were read with group_by={by!r}, and are measured with {self._group_by!r}: give ReadDocuments "
                "and MeasureTokens the same"
            )
        bundle.meter.add(batch)

    def _taken(self, bundle: _Bundle, window: Any) -> Iterator[WindowedValue]:
        for number, groups in enumerate(bundle.meter.take()):
            for name, measures in groups.items():
                yield WindowedValue(((number, name), measures), window.max_timestamp(), [window])
        left_out = bundle.meter.take_left_out()
        for number in range(self._subjects) if left_out else ():
            yield WindowedValue((_key_of_left_out(number), left_out), window.max_timestamp(), [window])


class _SumFn(beam.DoFn):
    """Sum the measures of a vocabulary and group, or what was left out."""

    def __init__(self, subjects: Sequence[Subject], group_by: Optional[str]):
        self._subjects, self._group_by = list(subjects), group_by

    def process(self, element: Tuple[Tuple[int, str], Iterable[Any]]) -> Iterator[Statistics]:
        (number, group), several = element
        if number < 0:
            yield Statistics(self._subjects[-1 - number], {}, self._group_by, left_out=add_left_out(*several))
            return
        total: Optional[Measures] = None
        for one in several:
            total = one if total is None else total.merge(one)
        if total is not None:  # a pane may be empty
            yield Statistics(self._subjects[number], {group: total}, self._group_by)


class WriteStatistics(beam.PTransform):
    """Write the statistics that MeasureTokens found into a folder: all counts as JSON, token frequencies as Parquet.

    The output holds the path of the folder, once all of it stands: see `beam_bpe.measured`.

    Args:
        folder: where to write; a folder or URL.
        vocabularies: those that were measured: a Vocabulary, or the path of one in any format of `beam_bpe.formats`.
        overwrite: replace statistics that stand there.
        by_path: workers read the vocabularies from their paths, rather than get them with the job.
        vocabulary_options: of each vocabulary's format, such as pattern and special_tokens of a rank file.
    """

    def __init__(
        self,
        folder: str,
        vocabularies: Union[str, Vocabulary, Sequence[Union[str, Vocabulary]]],
        overwrite: bool = False,
        by_path: bool = False,
        vocabulary_options: Optional[Dict[str, Any]] = None,
    ):
        super().__init__()
        refuse_credentials(folder)
        self._sources, _ = _sources_of(vocabularies, "rank", by_path, vocabulary_options)
        self._folder, self._overwrite = folder, overwrite

    def display_data(self):
        return {"folder": self._folder}

    def expand(self, found: beam.PCollection[Statistics]) -> beam.PCollection[str]:
        if not found.windowing.is_default():
            raise ValueError("WriteStatistics writes one folder: it takes the statistics of the global window")
        measured.claim(self._folder, self._overwrite)
        return (
            found.pipeline
            | "Once" >> beam.Create([self._folder], reshuffle=False)
            | "Write" >> beam.ParDo(_WriteFn(self._sources), beam.pvalue.AsIter(found)).with_output_types(str)
        )


class _WriteFn(StoredDoFn):
    """Put the statistics of all groups together, vocabularies in their order, then baselines, and write them."""

    def __init__(self, sources: List[VocabularySource]):
        self._sources = sources

    def process(self, folder: str, found: Iterable[Statistics]) -> Iterator[str]:
        merged: Dict[Optional[str], Statistics] = {}
        for one in found:
            key = one.subject.fingerprint or one.subject.name
            merged[key] = merged[key].merge(one) if key in merged else one
        column = next((one.group_by for one in merged.values()), None)
        statistics = []
        for source in self._sources:
            name = source.path or source.fingerprint[:12]
            own = merged.pop(source.fingerprint, None)  # there is none where there were no documents
            statistics.append(own or Statistics(Subject.of(source.tokenizer().vocabulary, name), {}, column))
        statistics += [merged.pop(name) for name in BASELINES if name in merged]
        if merged:
            told = next(iter(merged.values())).subject.name
            raise ValueError(f"{told} was measured, and is not among the vocabularies of WriteStatistics")
        measured.save(folder, statistics, [source.tokenizer().vocabulary for source in self._sources], overwrite=True)
        yield folder


def _sources_of(
    vocabularies: Union[str, Vocabulary, Sequence[Union[str, Vocabulary]]],
    method: str,
    by_path: bool,
    options: Optional[Dict[str, Any]],
) -> Tuple[List[VocabularySource], List[Tokenizer]]:
    """Return where workers get vocabularies, and their tokenizers here."""
    chosen = [vocabularies] if isinstance(vocabularies, (str, Vocabulary)) else vocabularies
    found = [source_of(one, method, by_path, dict(options or {})) for one in chosen]
    return [source for source, _ in found], [tokenizer for _, tokenizer in found]
