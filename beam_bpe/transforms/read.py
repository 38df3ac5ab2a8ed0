"""Read documents in ranges: sources are listed by the submitter and read by the workers."""

import json
import zlib
from functools import cached_property
from typing import Iterator, List, Optional, Sequence, Tuple, Union

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_bpe import progress, storage
from beam_bpe.cutting import WordRule
from beam_bpe.documents import (
    DocumentBatch,
    Reading,
    SourceRange,
    find_files,
    range_bytes_for,
    ranges,
)
from beam_bpe.listing import SourceFile
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import DEFAULT_PATTERN, pre_tokenizer
from beam_bpe.special import SpecialTokens
from beam_bpe.reading import read_range
from beam_bpe.transforms.stored import StoredDoFn

_FILES_PER_PACK = 1000
#: The metrics that tell what was read, of `totals.TOTALS`.
READ_COUNTERS = ("documents", "bytes", "replaced_characters", "skipped_documents", "null_documents")


class ReadDocuments(beam.PTransform):
    """Read documents from text, JSON lines, Parquet and Arrow files into batches.

    The elements are `documents.DocumentBatch`es of up to 8 MiB, for `CountWords`. Large files are read
    in ranges by many workers. A text file that is one document is cut in ranges only if the pattern
    that its words will be cut by is given, and only where a word of that pattern provably ends.

    Args:
        inputs: a path, glob, folder or URL, or a list of them.
        documents: what a document of a text file is: "file", "line", "paragraph" or "separator".
        separator: the text between documents, with documents="separator".
        field: the field of a JSON object that holds the text.
        column: the column of a Parquet or Arrow table that holds the text.
        format: "text", "jsonl", "parquet" or "arrow"; "auto" goes by the name of each file.
        errors: what happens to bytes that are not UTF-8: "replace", "strict" or "skip".
        pattern: the pre-tokenization pattern (name or regex) of the CountWords that follows; a list of those of several
            that count the same documents.
        split_with: its function "module:function", if that is what cuts documents into words.
        special_tokens: those of the CountWords that follows.
        normalizer: that of the CountWords that follows, or of several a list, as long as that of patterns.  With one, a text is cut only where a space stands behind a
            letter or number, and with the patterns that drop white space wherever that begins.
        dead_letters: a folder for what errors="skip" sets aside.
        whole: never cut a document, which CountWords(documents=True) needs.
        range_bytes: the size of a range; by default 8 MiB, 64 MiB for large inputs, less for small ones.
        workers: how many workers share the input, for the default of range_bytes.
        group_by: the column of tables, or the field of JSON lines, by which the CountWords that follows counts apart:
            a null is the group ""; rows without the column are refused, and so are text files.
    """

    def __init__(
        self,
        inputs: Union[str, Sequence[str]],
        documents: str = "file",
        separator: Optional[str] = None,
        field: str = "text",
        column: str = "text",
        format: str = "auto",
        errors: str = "replace",
        pattern: Optional[Union[str, Sequence[str]]] = None,
        split_with: Optional[str] = None,
        special_tokens: Sequence[str] = (),
        dead_letters: Optional[str] = None,
        whole: bool = False,
        range_bytes: Optional[int] = None,
        workers: int = 1,
        normalizer: Optional[Union[str, Sequence[Optional[str]]]] = None,
        group_by: Optional[str] = None,
    ):
        super().__init__()
        if range_bytes is not None and range_bytes < 1:
            raise ValueError(f"range_bytes is {range_bytes}; it must be at least 1")
        self._inputs = inputs
        self._reading = Reading(
            documents=documents,
            separator=separator,
            field=field,
            column=column,
            format=format,
            errors=errors,
            cut_by=_rules(pattern, split_with, SpecialTokens(special_tokens).tokens, normalizer),
            dead_letters=dead_letters,
            whole=whole,
            group_by=group_by,
        )
        self._range_bytes = range_bytes
        self.workers = workers

    @cached_property
    def files(self) -> List[SourceFile]:
        """The files to read, largest first, as they were listed when this was first asked for."""
        return find_files(self._inputs, self._reading)

    @property
    def total_bytes(self) -> int:
        """Bytes of the files as they are stored."""
        return sum(file.size for file in self.files)

    def format_of(self, file: SourceFile) -> str:
        """Return the format that a file is read in."""
        return self._reading.format_of(file.url)

    def display_data(self):
        return {"inputs": str(self._inputs), "documents": self._reading.documents, "errors": self._reading.errors}

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[DocumentBatch]:
        files = self.files
        if self._reading.dead_letters:
            storage.sweep(self._reading.dead_letters)
        size = self._range_bytes or range_bytes_for(self.total_bytes, self.workers)
        packed = [_pack(files[i : i + _FILES_PER_PACK]) for i in range(0, len(files), _FILES_PER_PACK)]
        return (
            pbegin
            | "Start" >> beam.Impulse()  # beam.Create would store the listing in the graph three times
            | "Ranges" >> beam.ParDo(_RangesFn(packed, self._reading, size))
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadFn(self._reading))
        )


def _rules(
    pattern: Union[str, Sequence[str], None],
    split_with: Optional[str],
    special_tokens: Tuple[str, ...],
    normalizer: Union[str, Sequence[Optional[str]], None],
) -> Tuple[WordRule, ...]:
    """Return how documents will be cut into words by all that count them."""
    patterns = [pattern] if pattern is None or isinstance(pattern, str) else list(pattern)
    normalizers = [normalizer] * len(patterns) if normalizer is None or isinstance(normalizer, str) else list(normalizer)
    if len(normalizers) != len(patterns):
        raise ValueError(f"{len(patterns)} patterns go with as many normalizers, or with one: not with {len(normalizers)}")
    for one in normalizers:
        check_normalizer(one)
    return tuple(
        WordRule(pre_tokenizer(chosen or DEFAULT_PATTERN, split_with=split_with), special_tokens, normalizing)
        for chosen, normalizing in zip(patterns, normalizers)
        if chosen or split_with
    )


def _pack(files: Sequence[SourceFile]) -> bytes:
    """Return a list of files in few bytes: all of the listing stands in the graph of the pipeline."""
    return zlib.compress(json.dumps([list(file) for file in files]).encode(), 9)


def _unpack(packed: bytes) -> List[SourceFile]:
    return [SourceFile(*fields) for fields in json.loads(zlib.decompress(packed))]


class _RangesFn(beam.DoFn):
    """Unpack files and yield their ranges."""

    def __init__(self, packed: List[bytes], reading: Reading, range_bytes: int):
        self._packed = packed
        self._reading = reading
        self._range_bytes = range_bytes

    def process(self, impulse: bytes) -> Iterator[SourceRange]:
        for packed in self._packed:
            yield from ranges(_unpack(packed), self._reading, self._range_bytes)


class _ReadFn(StoredDoFn):
    """Read a range."""

    def __init__(self, reading: Reading):
        self._reading = reading
        self._counters = {name: Metrics.counter("beam_bpe", name) for name in READ_COUNTERS}

    def process(self, source: SourceRange) -> Iterator[DocumentBatch]:
        for batch in read_range(SourceRange(*source), self._reading):
            for name, counter in self._counters.items():
                if batch.totals.get(name):
                    counter.inc(batch.totals[name])
            yield batch
            progress.add(bytes=batch.totals.get("bytes", 0), documents=batch.totals.get("documents", 0))
        progress.add(ranges=1)
