"""Encode and decode the elements of a collection; what files become is in encode_files."""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints import row_type, typehints
from apache_beam.utils.shared import Shared
from apache_beam.utils.windowed_value import WindowedValue

from beam_bpe.encoding import Encoding
from beam_bpe.tokenizer import SPECIAL_POLICIES
from beam_bpe.transforms.rows import columns_of, fields_of, row_of
from beam_bpe.transforms.runners import refuse_lossy
from beam_bpe.transforms.stored import StoredDoFn
from beam_bpe.transforms.vocabularies import source_of
from beam_bpe.vocabulary import Vocabulary

#: The tag of the output for elements that cannot be encoded or decoded: (element, reason) pairs.
DEAD_LETTERS = "dead_letters"
ENCODE_COUNTERS = (
    "encoded_documents",
    "tokens",
    "special_tokens",
    "unknown_tokens",
    "overlong_words",
    "cut_documents",
    "failed_documents",
)


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
        self._vocabulary, tokenizer = source_of(vocabulary, method, by_path, dict(vocabulary_options or {}))
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
        refuse_lossy(documents.pipeline)
        added = [(self._ids, Sequence[np.int64])]
        kind = _rows_of(documents, self._column, added)
        encoded = documents | "Buffer" >> beam.ParDo(_EncodeFn(self)).with_output_types(Any if self._dead_letters else kind or Any)
        # A step of its own: Beam loses what finish_bundle hands to a step that takes batches, such as WriteToParquet.
        tag = "encoded" if self._dead_letters else None
        return _with_dead_letters(encoded, beam.ParDo(_EmitFn()), tag, kind)


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
        self._vocabulary, _ = source_of(vocabulary, "rank", by_path, dict(vocabulary_options or {}))
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
    known = columns_of(kind, column)
    if known is None:
        return None
    for name, _ in added:
        if name in dict(known):
            raise ValueError(f"the rows have a column {name!r} already: choose another name for the new one")
    return row_type.RowTypeConstraint.from_fields([*known, *added])


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


class _Failed(NamedTuple):
    """An element that cannot be encoded, on its way to the dead letters."""

    element: Any
    reason: str


class _EmitFn(beam.DoFn):
    """Pass rows on, and what failed to the dead letters."""

    def process(self, element: Any) -> Iterator[Any]:
        yield TaggedOutput(DEAD_LETTERS, tuple(element)) if type(element) is _Failed else element


class _EncodeFn(StoredDoFn):
    """Buffer elements within the bundle, encode them together, and emit each with its own windowing."""

    def __init__(self, job: Encode):
        self._vocabulary, self._column, self._ids = job._vocabulary, job._column, job._ids
        self._special, self._wrapping, self._batch_bytes = job._special, job._wrapping, job._batch_bytes
        self._dead_letters = job._dead_letters
        self._shared = Shared()
        self._counters = {name: Metrics.counter("beam_bpe", name) for name in ENCODE_COUNTERS}

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
        return WindowedValue(_Failed(element, str(error)), timestamp, [window], pane)

    def _flush(self) -> Iterator[Any]:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        try:
            found, told = self._encoded([data for _, data, *_ in waiting])
        except ValueError:  # one of them fails: see which
            for element, data, *windowing in waiting:
                try:
                    found, told = self._encoded([data])
                except ValueError as error:
                    if str(error).startswith("document 0 "):  # the only one of its call
                        error = ValueError(str(error).replace("document 0 ", "the document ", 1))
                    yield self._failed(element, error, *windowing)
                    continue
                yield from self._emitted([(element, data, *windowing)], found, told)
            return
        yield from self._emitted(waiting, found, told)

    def _emitted(self, waiting: List[Any], found: List[np.ndarray], told: Dict[str, int]) -> Iterator[WindowedValue]:
        self._counters["encoded_documents"].inc(len(waiting))
        self._counters["tokens"].inc(sum(map(len, found)))
        for name, number in told.items():
            if number:
                self._counters[name].inc(number)
        for (element, _, timestamp, window, pane), ids in zip(waiting, found):
            yield WindowedValue(_with_column(element, self._column, self._ids, ids.tolist()), timestamp, [window], pane)

    def _encoded(self, texts: List[bytes]) -> Tuple[List[np.ndarray], Dict[str, int]]:
        stops = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        most = None if self._wrapping.most is None else self._wrapping.most + 1
        batch = self._tokenizer.encode_documents(
            b"".join(texts), np.repeat(stops, 2)[1:-1], special=self._special, most=most
        )
        self._counters["cut_documents"].inc(self._wrapping.cut(batch.ends)["cut_documents"])
        ids, ends = self._wrapping.apply(batch.ids, batch.ends)
        told = {"special_tokens": batch.special, "unknown_tokens": batch.unknown, "overlong_words": batch.overlong}
        return np.split(ids, ends[:-1]), told


class _DecodeFn(StoredDoFn):
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
    row = row_of(element, column)
    if added in row:
        raise ValueError(f"the element has a column {added!r} already: choose another name for the new one")
    return row[column]


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
    return beam.Row(**{**fields_of(element), name: value})
