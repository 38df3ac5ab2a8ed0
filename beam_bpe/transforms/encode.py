"""Encode and decode: files into shards, and the elements of a collection into rows."""

import json
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import MIN_TIMESTAMP, GlobalWindow
from apache_beam.typehints import row_type, typehints
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from beam_bpe import encoding, formats, storage
from beam_bpe.documents import LARGE_INPUT, LARGE_RANGE, SMALL_RANGE, SourceRange, find_files, ranges
from beam_bpe.encoding import Encoding, reading_for
from beam_bpe.listing import SourceFile
from beam_bpe.packing import Packing
from beam_bpe.tokenizer import SPECIAL_POLICIES, Tokenizer
from beam_bpe.transforms.read import _pack, _unpack
from beam_bpe.vocabulary import Vocabulary

#: The tag of the output for elements that cannot be encoded or decoded: (element, reason) pairs.
DEAD_LETTERS = "dead_letters"
_COUNTERS = ("encoded_documents", "tokens", "special_tokens", "cut_documents", "failed_documents")
_FILE_COUNTERS = (*_COUNTERS, "overlong_documents", "skipped_documents", "null_documents", "replaced_characters")
#: Shards of an earlier run that stood, and were not encoded again.
RESUMED = "resumed_shards"


class _Source(NamedTuple):
    """Where a worker gets the vocabulary: it travels by content, or is read from a path."""

    vocabulary: Optional[Vocabulary]
    path: Optional[str]
    options: Dict[str, Any]
    fingerprint: str
    method: str

    def tokenizer(self) -> Tokenizer:
        vocabulary = self.vocabulary
        if vocabulary is None:
            assert self.path is not None
            vocabulary = formats.load(self.path, **self.options)
        if vocabulary.fingerprint != self.fingerprint:
            raise ValueError(
                f"the vocabulary of {self.path} has the fingerprint {vocabulary.fingerprint[:12]}…, and the job was built "
                f"with {self.fingerprint[:12]}…: it was changed in between"
            )
        return Tokenizer(vocabulary, method=self.method)


def _source(vocabulary: Union[str, Vocabulary], method: str, by_path: bool, options: Dict[str, Any]) -> Tuple[_Source, Tokenizer]:
    """Return where workers get a vocabulary, and its tokenizer here."""
    loaded = vocabulary if isinstance(vocabulary, Vocabulary) else formats.load(vocabulary, **options)
    if by_path and isinstance(vocabulary, Vocabulary):
        raise ValueError("by_path=True goes with the path of a vocabulary, not with a Vocabulary")
    path = None if isinstance(vocabulary, Vocabulary) else vocabulary
    return _Source(None if by_path else loaded, path, options, loaded.fingerprint, method), Tokenizer(loaded, method=method)


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
        self._vocabulary, tokenizer = _source(vocabulary, method, by_path, dict(vocabulary_options or {}))
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
            | "Manifest" >> beam.Map(_publish, beam.pvalue.AsList(lines), self.parameters, count, storage.run_id())
        )


class _NumberedRangesFn(beam.DoFn):
    """Yield the ranges of files with their numbers."""

    def __init__(self, packed: bytes, reading: Any, range_bytes: int):
        self._packed, self._reading, self._range_bytes = packed, reading, range_bytes

    def process(self, impulse: bytes) -> Iterator[Tuple[int, SourceRange]]:
        yield from enumerate(ranges(_unpack(self._packed), self._reading, self._range_bytes))


class _EncodeRangeFn(beam.DoFn):
    """Encode a range into its shard and yield its line of the manifest as JSON."""

    def __init__(self, job: EncodeFiles, count: int):
        self._vocabulary = job._vocabulary
        self._reading, self._encoding, self._output = job._reading, job._encoding, job._output
        self._resume, self._threads, self._count = job._resume, job.threads, count
        self._run = storage.run_id()  # of the job: its workers' temporaries are swept when the manifest stands
        self._shared = Shared()
        self._counters = {name: Metrics.counter("beam_bpe", name) for name in _FILE_COUNTERS}
        self._resumed = Metrics.counter("beam_bpe", RESUMED)
        self._pool: Optional[ThreadPoolExecutor] = None

    def setup(self) -> None:
        storage.join_run(self._run)
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


def _publish(folder: str, lines: List[str], parameters: Dict[str, Any], count: int, run: str) -> str:
    storage.join_run(run)
    parsed = [json.loads(line) for line in lines]
    distinct = {line["name"]: line for line in parsed}
    if len(distinct) != count:
        raise ValueError(f"{count} ranges were read, but {len(distinct)} shards arrived: the runner lost some; run the job again")
    encoding.publish(folder, distinct.values(), parameters)
    return folder


# ---- collections of the user's own ---------------------------------------------------------------


class Encode(beam.PTransform):
    """Encode the texts of a collection into ids; timestamps, windows and other columns stay as they are.

    Elements are texts (str or bytes), which give rows with `text` and `ids`, or rows (beam.Row, named
    tuples, data classes, dicts) with a column of text, which get one more, `ids`: a list of int. Dicts
    give dicts, the others beam.Row. With dead_letters the output is that of `ParDo.with_outputs`: its
    `encoded` holds the rows, its `dead_letters` (element, reason) pairs of what cannot be encoded, which
    otherwise fails.

    Args:
        vocabulary: a Vocabulary, or the path of one in any format of `beam_bpe.formats`.
        column: the column of rows that holds the text.
        ids: the name of the new column.
        special: special tokens in the text are "text", are "encode"d, are left out ("drop"), or "fail".
        bos: tokens put before each document.
        eos: tokens put behind each document.
        most: tokens of a document at most, bos and eos included.
        method: "rank" or "longest_match".
        dead_letters: give elements that cannot be encoded to an output of their own.
        by_path: workers read the vocabulary from its path, rather than get it with the job.
        vocabulary_options: of the vocabulary's format, such as pattern and special_tokens of a rank file.
        batch_bytes: encode as soon as that much text is buffered.
    """

    def __init__(
        self,
        vocabulary: Union[str, Vocabulary],
        column: str = "text",
        ids: str = "ids",
        special: str = "text",
        bos: Sequence[Union[str, int]] = (),
        eos: Sequence[Union[str, int]] = (),
        most: Optional[int] = None,
        method: str = "rank",
        dead_letters: bool = False,
        by_path: bool = False,
        vocabulary_options: Optional[Dict[str, Any]] = None,
        batch_bytes: int = 1 << 20,
    ):
        super().__init__()
        if special not in SPECIAL_POLICIES:
            raise ValueError(f"special={special!r}: choose one of {', '.join(SPECIAL_POLICIES)}")
        self._vocabulary, tokenizer = _source(vocabulary, method, by_path, dict(vocabulary_options or {}))
        if batch_bytes < 1:
            raise ValueError(f"batch_bytes is {batch_bytes}; it must be at least 1")
        if isinstance(bos, str) or isinstance(eos, str):
            raise TypeError("bos and eos are lists of tokens, not one text")
        _check_names(column=column, ids=ids)
        self._column, self._ids, self._special, self._batch_bytes = column, ids, special, batch_bytes
        self._wrapping = Encoding(bos=tuple(bos), eos=tuple(eos), most=most).wrapping(tokenizer)
        self._dead_letters = dead_letters

    def display_data(self):
        return {"fingerprint": self._vocabulary.fingerprint, "column": self._column, "special": self._special}

    def expand(self, documents: beam.PCollection) -> Any:
        added = [(self._ids, Sequence[np.int64])]
        encode = beam.ParDo(_EncodeFn(self))
        tag = "encoded" if self._dead_letters else None
        return _with_dead_letters(documents, encode, tag, _rows_of(documents, self._column, added))


class Decode(beam.PTransform):
    """Decode the ids of a collection into text; the inverse of `Encode`.

    Elements are sequences of ids, which give texts, or rows with a column of ids, which get one more, `text`.
    With dead_letters the output is that of `ParDo.with_outputs`: its `decoded` holds the texts or rows, its
    `dead_letters` (element, reason) pairs of what cannot be decoded, which otherwise fails.

    Args:
        vocabulary: a Vocabulary, or the path of one in any format of `beam_bpe.formats`.
        column: the column of rows that holds the ids.
        text: the name of the new column.
        errors: bytes that are not UTF-8: "replace" or "strict", which fails.
        dead_letters: give elements that cannot be decoded to an output of their own.
        by_path: workers read the vocabulary from its path, rather than get it with the job.
        vocabulary_options: of the vocabulary's format, such as pattern and special_tokens of a rank file.
    """

    def __init__(
        self,
        vocabulary: Union[str, Vocabulary],
        column: str = "ids",
        text: str = "text",
        errors: str = "replace",
        dead_letters: bool = False,
        by_path: bool = False,
        vocabulary_options: Optional[Dict[str, Any]] = None,
    ):
        super().__init__()
        if errors not in ("replace", "strict"):
            raise ValueError(f"errors={errors!r}: choose one of replace, strict")
        _check_names(column=column, text=text)
        self._vocabulary, _ = _source(vocabulary, "rank", by_path, dict(vocabulary_options or {}))
        self._column, self._text, self._errors, self._dead_letters = column, text, errors, dead_letters

    def display_data(self):
        return {"fingerprint": self._vocabulary.fingerprint, "column": self._column}

    def expand(self, documents: beam.PCollection) -> Any:
        kind = documents.element_type
        plain = isinstance(kind, _SEQUENCES) or kind in (list, tuple, np.ndarray)
        schema = str if plain else _rows_of(documents, self._column, [(self._text, str)])
        tag = "decoded" if self._dead_letters else None
        return _with_dead_letters(documents, beam.ParDo(_DecodeFn(self)), tag, schema)


def _rows_of(documents: beam.PCollection, column: str, added: List[Tuple[str, Any]]) -> Any:
    """Return the type of rows with more columns, as far as the collection's type tells; None if it does not."""
    kind = documents.element_type
    if kind in (str, bytes):
        return row_type.RowTypeConstraint.from_fields([(column, kind), *added])
    known = row_type.RowTypeConstraint.from_user_type(kind) if isinstance(kind, type) else kind
    if isinstance(known, row_type.RowTypeConstraint):
        names = [name for name, _ in known._fields]
        if column not in names:
            raise ValueError(f"the rows have no column {column!r}; they have {', '.join(names)}")
        for name, _ in added:
            if name in names:
                raise ValueError(f"the rows have a column {name!r} already: choose another name for the new one")
        return row_type.RowTypeConstraint.from_fields([*known._fields, *added])
    return None


#: Types of elements that are ids and nothing else.
_SEQUENCES = (
    typehints.ListConstraint,
    typehints.SequenceTypeConstraint,
    typehints.TupleConstraint,
    typehints.TupleSequenceConstraint,
)


def _check_names(**names: str) -> None:
    for name, value in names.items():
        if not isinstance(value, str) or not value:
            raise TypeError(f"{name}={value!r}: must be the name of a column")
    if len(set(names.values())) < len(names):
        raise ValueError(f"{' and '.join(names)} are both {next(iter(names.values()))!r}: the new column needs a name of its own")


def _with_dead_letters(documents: beam.PCollection, step: beam.ParDo, tag: Optional[str], kind: Any) -> Any:
    if kind is not None:
        step = step.with_output_types(kind)
    return documents | (step if tag is None else step.with_outputs(DEAD_LETTERS, main=tag))


class _EncodeFn(beam.DoFn):
    """Buffer elements within the bundle, encode them together, and emit each with its own windowing."""

    def __init__(self, job: Encode):
        self._vocabulary, self._column, self._ids = job._vocabulary, job._column, job._ids
        self._special, self._wrapping, self._batch_bytes = job._special, job._wrapping, job._batch_bytes
        self._dead_letters = job._dead_letters
        self._shared = Shared()
        self._counters = {name: Metrics.counter("beam_bpe", name) for name in _COUNTERS}

    def setup(self) -> None:
        self._tokenizer = self._shared.acquire(self._vocabulary.tokenizer, self._vocabulary.fingerprint)

    def start_bundle(self) -> None:
        self._waiting: List[Tuple[Any, bytes, Any, Any, Any]] = []
        self._bytes = 0

    def process(
        self,
        element: Any,
        timestamp=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        try:
            data = _bytes_of(_value(element, self._column, (str, bytes), self._ids))
        except (TypeError, ValueError) as error:
            yield self._failed(element, error, timestamp, window, pane)
            return
        self._waiting.append((element, data, timestamp, window, pane))
        self._bytes += len(data)
        if self._bytes >= self._batch_bytes:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        yield from self._flush()

    def _failed(self, element: Any, error: Exception, timestamp: Any, window: Any, pane: Any) -> Any:
        if not self._dead_letters:
            raise error
        self._counters["failed_documents"].inc()
        return TaggedOutput(DEAD_LETTERS, WindowedValue((element, str(error)), timestamp, [window], pane))

    def _flush(self) -> Iterator[Any]:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        try:
            found, special = self._encoded([data for _, data, *_ in waiting])
        except ValueError:  # one of them fails: see which
            for element, data, *windowing in waiting:
                try:
                    found, special = self._encoded([data])
                except ValueError as error:
                    if str(error).startswith("document 0 "):  # the only one of its call
                        error = ValueError(str(error).replace("document 0 ", "the document ", 1))
                    yield self._failed(element, error, *windowing)
                    continue
                yield from self._emitted([(element, data, *windowing)], found, special)
            return
        yield from self._emitted(waiting, found, special)

    def _emitted(self, waiting: List[Any], found: List[np.ndarray], special: int) -> Iterator[WindowedValue]:
        self._counters["encoded_documents"].inc(len(waiting))
        self._counters["tokens"].inc(sum(map(len, found)))
        if special:
            self._counters["special_tokens"].inc(special)
        for (element, _, timestamp, window, pane), ids in zip(waiting, found):
            yield WindowedValue(_with_column(element, self._column, self._ids, ids.tolist()), timestamp, [window], pane)

    def _encoded(self, texts: List[bytes]) -> Tuple[List[np.ndarray], int]:
        stops = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        most = None if self._wrapping.most is None else self._wrapping.most + 1
        batch = self._tokenizer.encode_documents(
            b"".join(texts), np.repeat(stops, 2)[1:-1], special=self._special, most=most
        )
        self._counters["cut_documents"].inc(self._wrapping.cut(batch.ends)["cut_documents"])
        ids, ends = self._wrapping.apply(batch.ids, batch.ends)
        return np.split(ids, ends[:-1]), batch.special


class _DecodeFn(beam.DoFn):
    """Decode elements."""

    def __init__(self, job: Decode):
        self._vocabulary, self._column, self._text = job._vocabulary, job._column, job._text
        self._errors, self._dead_letters = job._errors, job._dead_letters
        self._shared = Shared()

    def setup(self) -> None:
        self._tokenizer = self._shared.acquire(self._vocabulary.tokenizer, self._vocabulary.fingerprint)

    def process(self, element: Any) -> Iterator[Any]:
        try:
            plain = isinstance(element, (list, tuple, np.ndarray)) and not hasattr(element, "_fields")
            ids = element if plain else _value(element, self._column, None, self._text)
            text = self._tokenizer.decode(ids, self._errors)
        except (TypeError, ValueError, KeyError) as error:
            if not self._dead_letters:
                raise
            reason = error.args[0] if isinstance(error, KeyError) and error.args else error
            yield TaggedOutput(DEAD_LETTERS, (element, str(reason)))
            return
        yield text if plain else _with_column(element, self._column, self._text, text)


def _value(element: Any, column: str, plain: Any, added: str) -> Any:
    """Return the value of a column of a row, or the element itself where it is of a plain type."""
    if plain is not None and isinstance(element, plain):
        return element
    fields = _fields_of(element)
    if column not in fields:
        told = ", ".join(map(str, fields)) or "none"
        raise TypeError(f"the element, a {type(element).__name__}, has no column {column!r}; it has {told}")
    if added in fields:
        raise ValueError(f"the element has a column {added!r} already: choose another name for the new one")
    return fields[column]


def _fields_of(element: Any) -> Dict[str, Any]:
    if isinstance(element, dict):
        return element
    if hasattr(element, "_asdict"):
        return dict(element._asdict())
    return dict(element.as_dict() if hasattr(element, "as_dict") else getattr(element, "__dict__", {}))


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"the text is a {type(value).__name__}, neither str nor bytes: {str(value)[:60]!r}")


def _with_column(element: Any, column: str, name: str, value: Any) -> Any:
    """Return a row with one more column; a text becomes a row."""
    if isinstance(element, (str, bytes)):
        return beam.Row(**{column: element, name: value})
    if isinstance(element, dict):
        return {**element, name: value}
    return beam.Row(**{**_fields_of(element), name: value})
