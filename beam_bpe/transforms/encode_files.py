"""Encode files into shards: one for each range, then the manifest."""

import json
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import MIN_TIMESTAMP, GlobalWindow
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from beam_bpe import encoding, storage
from beam_bpe.documents import LARGE_INPUT, LARGE_RANGE, SMALL_RANGE, SourceRange, find_files, ranges
from beam_bpe.encoding import Encoding, reading_for
from beam_bpe.listing import SourceFile
from beam_bpe.packing import Packing
from beam_bpe.transforms.encode import ENCODE_COUNTERS
from beam_bpe.transforms.read import _pack, _unpack
from beam_bpe.transforms.runners import refuse_lossy
from beam_bpe.transforms.stored import StoredDoFn, StoredMap
from beam_bpe.transforms.vocabularies import source_of
from beam_bpe.vocabulary import Vocabulary

_COUNTERS = ("bytes", *ENCODE_COUNTERS, "overlong_documents", "skipped_documents", "null_documents", "replaced_characters")
#: Shards of an earlier run that stood, and were not encoded again.
RESUMED = "resumed_shards"


class EncodeFiles(beam.PTransform):
    """Read files, encode their documents, and write a shard for each range: the whole job in one transform.

    The output holds the path of the folder, once its manifest stands. Bytes depend on the files, the
    vocabulary and the arguments alone, not on the runner or the number of workers.

    Args:
        inputs: a path, glob, folder or URL, or a list of them.
        output: the folder to write; a path or URL.
        vocabulary: a Vocabulary, or the path of one in any format of `beam_bpe.formats`.
        format: "parquet" (ids: list<uint16 or uint32>), "megatron" (.bin and .idx) or "npy".
        special: special tokens in the text are "text", are "encode"d, are left out ("drop"), or "fail".
        bos: tokens put before each document.
        eos: tokens put behind each document.
        most: tokens of a document at most, bos and eos included.
        pack: lay documents into rows of this many tokens.
        remainder: the last row of a shard, if it is not full: "drop", "pad" (the default if a token of
            padding is given, otherwise "drop") or "keep".
        pad: the token of padding, for remainder="pad" and pack_whole.
        pack_whole: do not cut documents that fit into a row.
        max_document_bytes: longer documents are set aside, whatever `errors` says.
        method: "rank" or "longest_match".
        documents: what a document of a text file is: "file", "line", "paragraph" or "separator".
        separator: the text between documents, with documents="separator".
        field: the field of a JSON object that holds the text.
        column: the column of a Parquet or Arrow table that holds the text.
        input_format: "text", "jsonl", "parquet" or "arrow"; "auto" goes by the name of each file.
        keep: columns or JSON fields that are kept beside the ids; by default all other columns of tables.
            None may be called as one of the output: ids, chunk, segments, source_file, source_row, source_offset.
        errors: bytes that are not UTF-8: "replace", "strict" or "skip", which also sets aside what fails.
        dead_letters: a folder for what is set aside; by default "rejected" in the output.
        overwrite: replace what stands in the output.
        resume: skip the shards that an earlier run made of the same sources in the same way.
        range_bytes: the size of a range, and so of the text of a shard.
        by_path: workers read the vocabulary from its path, rather than get it with the job.
        vocabulary_options: of the vocabulary's format, such as pattern and special_tokens of a rank file.
        threads: ranges encoded at a time in one worker.
    """

    def __init__(
        self,
        inputs: Union[str, Sequence[str]],
        output: str,
        vocabulary: Union[str, Vocabulary],
        format: str = "parquet",
        special: str = "text",
        bos: Sequence[Union[str, int]] = (),
        eos: Sequence[Union[str, int]] = (),
        most: Optional[int] = None,
        pack: Optional[int] = None,
        remainder: Optional[str] = None,
        pad: Optional[Union[str, int]] = None,
        pack_whole: bool = False,
        max_document_bytes: Optional[int] = None,
        method: str = "rank",
        documents: str = "file",
        separator: Optional[str] = None,
        field: str = "text",
        column: str = "text",
        input_format: str = "auto",
        keep: Optional[Sequence[str]] = None,
        errors: str = "replace",
        dead_letters: Optional[str] = None,
        overwrite: bool = False,
        resume: bool = False,
        range_bytes: Optional[int] = None,
        by_path: bool = False,
        vocabulary_options: Optional[Dict[str, Any]] = None,
        threads: int = 1,
    ):
        super().__init__()
        for name, value in (("range_bytes", range_bytes), ("threads", threads)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        self._vocabulary, tokenizer = source_of(vocabulary, method, by_path, dict(vocabulary_options or {}))
        if isinstance(bos, str) or isinstance(eos, str):
            raise TypeError("bos and eos are lists of tokens, not one text")
        if overwrite and resume:
            raise ValueError("overwrite and resume contradict each other")
        if keep is not None and isinstance(keep, str):
            raise TypeError(f"keep is a list of names, not one text: {keep!r}")
        packing = None
        if pack is not None:
            pad_id = tokenizer.id_of(pad) if isinstance(pad, str) else pad
            chosen = remainder or ("drop" if pad is None else "pad")
            if pad is not None and chosen != "pad":
                raise ValueError(f"pad={pad!r} goes with remainder='pad', not {chosen!r}")
            if pack_whole and pad is None:
                raise ValueError("pack_whole=True pads rows: it needs pad, the token of padding")
            packing = Packing(pack, chosen, pad_id, split=not pack_whole)
        elif remainder is not None or pad is not None or pack_whole:
            raise ValueError("remainder, pad and pack_whole go with pack, the length of a row")
        self._encoding = Encoding(
            format=format,
            special=special,
            bos=tuple(bos),
            eos=tuple(eos),
            most=most,
            packing=packing,
            max_document_bytes=max_document_bytes,
        )
        self._reading = reading_for(
            tokenizer,
            documents=documents,
            separator=separator,
            field=field,
            column=column,
            format=input_format,
            keep=None if keep is None else tuple(keep),
            errors=errors,
            dead_letters=dead_letters or storage.join(output, encoding.REJECTED),
        )
        self._encoding.check(tokenizer, self._reading)
        self.parameters = self._encoding.parameters(tokenizer, self._reading)
        self._native = tokenizer.vocabulary.pre_tokenizer.scanner is not None
        self._inputs = inputs
        self._output = output
        self._overwrite = overwrite
        self._resume = resume
        self._range_bytes = range_bytes
        self.threads = threads

    @cached_property
    def files(self) -> List[SourceFile]:
        """The files to read, as they were listed when this was first asked for, by name."""
        return sorted(find_files(self._inputs, self._reading), key=lambda file: file.url)

    @property
    def total_bytes(self) -> int:
        """Bytes of the files as they are stored."""
        return sum(file.size for file in self.files)

    @property
    def plain_bytes(self) -> Optional[int]:
        """Bytes that will be read, if the sizes of the files tell."""
        packed = any(file.compression or self._reading.format_of(file.url) == "parquet" for file in self.files)
        return None if packed else self.total_bytes

    @property
    def native(self) -> bool:
        """Whether documents are cut into words by a native scanner."""
        return self._native

    def display_data(self):
        return {"inputs": str(self._inputs), "output": self._output, "format": self._encoding.format}

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        if self.threads > 1:
            refuse_lossy(pbegin.pipeline)
        files = self.files
        if self._reading.keep and all(self._reading.format_of(file.url) == "text" for file in files):
            raise ValueError(f"keep={list(self._reading.keep)}: text files have no columns or fields")
        encoding.claim(self._output, self.parameters, overwrite=self._overwrite, resume=self._resume)
        size = self._range_bytes or (LARGE_RANGE if self.total_bytes >= LARGE_INPUT else SMALL_RANGE)
        count = sum(1 for _ in ranges(files, self._reading, size))
        lines = (
            pbegin
            | "Start" >> beam.Impulse()
            | "Ranges" >> beam.ParDo(_NumberedRangesFn(_pack(files), self._reading, size))
            | "Spread" >> beam.Reshuffle()
            | "Encode" >> beam.ParDo(_EncodeRangeFn(self, count))
        )
        return (
            pbegin.pipeline
            | "Once" >> beam.Create([self._output], reshuffle=False)
            | "Manifest"
            >> beam.ParDo(StoredMap(_publish), beam.pvalue.AsList(lines), self.parameters, count).with_output_types(str)
        )


class _NumberedRangesFn(beam.DoFn):
    """Yield the ranges of files with their numbers."""

    def __init__(self, packed: bytes, reading: Any, range_bytes: int):
        self._packed, self._reading, self._range_bytes = packed, reading, range_bytes

    def process(self, impulse: bytes) -> Iterator[Tuple[int, SourceRange]]:
        yield from enumerate(ranges(_unpack(self._packed), self._reading, self._range_bytes))


class _EncodeRangeFn(StoredDoFn):
    """Encode a range into its shard and yield its line of the manifest as JSON."""

    def __init__(self, job: EncodeFiles, count: int):
        self._vocabulary = job._vocabulary
        self._reading, self._encoding, self._output = job._reading, job._encoding, job._output
        self._resume, self._threads, self._count = job._resume, job.threads, count
        self._shared = Shared()
        self._counters = {name: Metrics.counter("beam_bpe", name) for name in _COUNTERS}
        self._resumed = Metrics.counter("beam_bpe", RESUMED)
        self._pool: Optional[ThreadPoolExecutor] = None

    def setup(self) -> None:
        self._tokenizer = self._shared.acquire(self._vocabulary.tokenizer, self._vocabulary.fingerprint)
        if self._threads > 1:
            self._pool = ThreadPoolExecutor(self._threads, "beam_bpe encode")

    def start_bundle(self) -> None:
        self._pending: deque[Future[Dict[str, Any]]] = deque()

    def process(self, element: Tuple[int, SourceRange]) -> Iterator[str]:
        if self._pool is None:
            yield self._told(self._encode(element))
            return
        self._pending.append(self._pool.submit(self._encode, element))
        while len(self._pending) > 2 * self._threads:
            yield self._told(self._next())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._pending:
            yield WindowedValue(self._told(self._next()), MIN_TIMESTAMP, [GlobalWindow()])

    def _next(self) -> Dict[str, Any]:
        try:
            return self._pending.popleft().result()
        except BaseException:
            for future in self._pending:  # the bundle fails: what has not begun need not begin
                future.cancel()
            raise

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _encode(self, element: Tuple[int, SourceRange]) -> Dict[str, Any]:
        number, source = element
        name = encoding.part_name(number, self._count)
        return encoding.encode_range(
            SourceRange(*source), self._reading, self._tokenizer, self._encoding, self._output, name, resume=self._resume
        )

    def _told(self, line: Dict[str, Any]) -> str:
        if line.get("resumed"):
            self._resumed.inc()
        else:
            for name, counter in self._counters.items():
                if line["totals"].get(name):
                    counter.inc(line["totals"][name])
        return json.dumps(line)


def _publish(folder: str, lines: List[str], parameters: Dict[str, Any], count: int) -> str:
    parsed = [json.loads(line) for line in lines]
    distinct = {line["name"]: line for line in parsed}
    if len(distinct) != count:
        raise ValueError(f"{count} ranges were read, but {len(distinct)} shards arrived: the runner lost some; run the job again")
    encoding.publish(folder, distinct.values(), parameters)
    return folder
