"""Read a range of a source into batches of documents."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

from beam_bpe import _scan, artifacts, cutting, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.compression import CorruptInputError
from beam_bpe.cutting import REPLACEMENT
from beam_bpe.documents import LARGEST_UNCUT, DocumentBatch, InputError, Reading, SourceRange
from beam_bpe.grouping import Groups, group_name
from beam_bpe.rejected import DeadLetters

BOM = "\ufeff".encode()
ARROW_ROWS = 4096  # rows decoded at a time from Parquet
GROUPED_ROWS = 1 << 16  # where they have groups: each group of a batch costs some 20 us, however few its documents are


def read_range(source: SourceRange, reading: Reading) -> Iterator[DocumentBatch]:
    """Yield the documents of a range, at most some 8 MiB at a time (or one document).

    Raises:
        InputError: under errors="strict" at bytes that are not UTF-8, and but under "skip" at a JSON
            line that does not parse, a field or a column that is missing, a file that is broken; the
            message names the file and the place.
        OSError: the file cannot be read.
    """
    return _Range(source, reading).batches()


def repair(data: bytes) -> tuple[bytes, int]:
    """Return the bytes with U+FFFD where they are not UTF-8 (as Python's "replace"), and how many."""
    fixed = data.decode("utf-8", "replace").encode()
    return fixed, fixed.count(REPLACEMENT) - data.count(REPLACEMENT)


def documents_of(texts: Iterable[str | bytes], errors: str, groups: Groups | None = None) -> DocumentBatch:
    """Return documents of a user's own collection, and their groups, as a batch.

    Raises:
        InputError: under errors="strict", for a document that is not UTF-8 or holds lone surrogates.
    """
    good: list[bytes] = []
    aside: list[int] = []  # numbers of documents that are set aside
    totals = {"replaced_characters": 0, "skipped_documents": 0}
    for text in texts:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if _scan.invalid_utf8(data) >= 0:
            if errors == "strict":
                raise InputError(f"a document is not valid UTF-8: {text[:80]!r}")
            if errors == "skip":
                aside.append(len(good) + len(aside))
                continue
            if isinstance(text, str):
                data, replaced = without_surrogates(text)
            else:
                data, replaced = repair(data)
            totals["replaced_characters"] += replaced
        good.append(data)
    batch = batch_of(good, {**totals, "skipped_documents": len(aside)})
    if groups is None:
        return batch
    return replace(batch, groups=groups.take(np.delete(np.arange(len(groups.index)), aside)))


def without_surrogates(text: str) -> tuple[bytes, int]:
    """Return the text in UTF-8 with U+FFFD for each lone surrogate, and how many there were."""
    if text.isascii():
        return text.encode(), 0
    fixed = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
    return fixed.encode(), sum(0xD800 <= ord(c) < 0xE000 for c in text)


def batch_of(documents: Sequence[bytes], totals: dict[str, int]) -> DocumentBatch:
    """Return documents (valid UTF-8) side by side."""
    lengths = np.array([len(document) for document in documents], np.int64)
    ends = np.cumsum(lengths)
    data = b"".join(documents)
    bounds = np.stack([ends - lengths, ends], 1).ravel()
    return DocumentBatch(data, bounds, totals={**totals, "bytes": len(data), "documents": len(documents)})


class _Range:
    """One range while it is read."""

    def __init__(self, source: SourceRange, reading: Reading):
        self.source, self.reading = source, reading
        self._letters = DeadLetters(reading.dead_letters, source.url, source.start)

    def batches(self) -> Iterator[DocumentBatch]:
        readers: dict[str, Callable[[], Iterator[DocumentBatch]]] = {
            "text": self._text,
            "jsonl": self._jsonl,
            "parquet": self._parquet,
            "arrow": self._arrow,
        }
        skip = self.reading.errors == "skip"
        with self._letters:
            try:
                if skip and self.source.compression:
                    self._read_through()
                yield from readers[self.source.format]()
            except (CorruptInputError, FormatError) as error:
                if not skip:
                    raise InputError(f"{error}{_SKIP_HINT}") from error
                if self.source.start == 0:  # every range of the file meets this: the first one tells
                    self._letters.add(str(error), offset=0)
                    yield _nothing({"skipped_documents": 1})

    # ---- text ----

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        source = self.source
        cutter = self.reading.cutter(source.format)
        most = LARGEST_UNCUT if isinstance(cutter, cutting.NoCutter) else None
        try:
            with storage.open_read(source.url, source.compression) as file:
                yield from cutting.read_pieces(file, source.start, source.end, cutter, most=most)
        except cutting.UncutError as error:
            raise InputError(
                f"{source.url} cannot be cut under this pattern, and has {error}: choose documents='line' or "
                "'separator', or a named pattern"
            ) from None

    def _read_through(self) -> None:
        """Meet the damage of a compressed file before any of its documents is counted."""
        with storage.open_read(self.source.url, self.source.compression) as file:
            while file.read(cutting.PIECE):
                pass

    def _text(self) -> Iterator[DocumentBatch]:
        if self.reading.documents == "file":
            yield from self._whole_file()
            return
        for offset, piece in self._pieces():
            replaced = 0
            keep: Any = slice(None)
            starts: np.ndarray | None = None  # in the bytes of the file, where these are not those of the piece
            if _scan.invalid_utf8(piece) >= 0:
                if self.reading.errors == "skip":
                    keep = self._set_aside(piece, offset)
                else:
                    starts = self._bounds(piece)[::2]
                    piece, replaced = self._repaired(piece, offset)
            bounds = self._bounds(piece).reshape(-1, 2)
            lengths = bounds[:, 1] - bounds[:, 0]
            kept, aside = bounds[keep], int(lengths.sum() - lengths[keep].sum())
            totals = {
                "bytes": len(piece) - aside,
                "separator_bytes": len(piece) - int(lengths.sum()),
                "documents": len(kept),
                "skipped_documents": len(bounds) - len(kept),
                "replaced_characters": replaced,
            }
            places = None
            if self.reading.places:
                places = offset + (bounds[:, 0] if starts is None else starts)[keep]
            yield DocumentBatch(piece, kept.ravel(), totals=totals, places=places)

    def _bounds(self, piece: bytes) -> np.ndarray:
        if self.reading.documents == "line":
            packed = _scan.line_bounds(piece)
        elif self.reading.documents == "paragraph":
            packed = _scan.paragraph_bounds(piece)
        else:
            assert self.reading.separator is not None
            packed = _scan.separated_bounds(piece, self.reading.separator.encode())
        return np.frombuffer(packed, np.int64)

    def _whole_file(self) -> Iterator[DocumentBatch]:
        first = 1 if self.source.start == 0 else 0  # the range that counts the document
        cut_by = () if isinstance(self.reading.cutter("text"), cutting.NoCutter) else self.reading.cut_by
        if self.reading.errors == "skip":
            for offset, piece in self._pieces():
                at = _scan.invalid_utf8(piece)
                if at >= 0:
                    self._letters.add("not UTF-8; the file is set aside", offset=offset + at)
                    yield _nothing({"skipped_documents": 1})
                    return
        for offset, piece in self._pieces():
            replaced = 0
            if _scan.invalid_utf8(piece) >= 0:
                piece, replaced = self._repaired(piece, offset)
            totals = {"bytes": len(piece), "documents": first, "replaced_characters": replaced}
            bounds = np.array([0, len(piece)], np.int64)
            split = self.source.start > 0 or self.source.end is not None
            places = np.zeros(1, np.int64) if self.reading.places else None  # the document begins with its file
            yield DocumentBatch(
                piece, bounds, continues=not first, totals=totals, cut_by=cut_by, split=split, places=places
            )
            first = 0
        if first and self.reading.places:  # the empty document has its place too
            yield DocumentBatch(b"", np.zeros(2, np.int64), totals={"documents": 1}, places=np.zeros(1, np.int64))
        elif first:
            yield _nothing({"documents": 1})

    def _repaired(self, data: bytes, offset: int) -> tuple[bytes, int]:
        if self.reading.errors == "strict":
            at = _scan.invalid_utf8(data)
            raise InputError(
                f"{self.source.url}: the byte 0x{data[at]:02x} at offset {offset + at:,} is not valid UTF-8; "
                "errors='replace' puts U+FFFD in its place, errors='skip' sets its document aside"
            )
        return repair(data)

    def _set_aside(self, data: bytes, offset: int) -> np.ndarray:
        """Set the documents aside that hold invalid bytes; return which ones stay."""
        bounds = self._bounds(data)
        starts, ends = bounds[::2], bounds[1::2]
        keep = np.ones(len(starts), bool)
        at = _scan.invalid_utf8(data)
        while at >= 0:  # always in a document: what stands between them is valid
            document = int(np.searchsorted(starts, at, "right")) - 1
            start, end = int(starts[document]), int(ends[document])
            self._letters.add(f"not UTF-8 at offset {offset + at}", data[start:end], offset=offset + start)
            keep[document] = False
            at = _scan.invalid_utf8(data, end)
        return keep

    # ---- JSON lines ----

    def _jsonl(self) -> Iterator[DocumentBatch]:
        for offset, piece in self._pieces():
            if offset == 0 and piece.startswith(BOM):
                offset, piece = len(BOM), piece[len(BOM) :]
            at_once = None if self.reading.places else self._parsed_at_once(piece)
            yield at_once or self._parsed_by_line(piece, offset)

    def _parsed_at_once(self, piece: bytes) -> DocumentBatch | None:
        """Return the documents of lines without any trouble; None: look at each line."""
        # Arrow reads values, not lines, takes Inf for a number, and crashes at a first value null.  If every
        # line starts with { and ends with }, no value spans two of them; if there are as many values as
        # lines, none holds two.
        lines = [line for line in map(bytes.strip, piece.split(b"\n")) if line]
        if not all(line[0] == 0x7B and line[-1] == 0x7D for line in lines) or _INF.search(piece):
            return None
        if not lines or _scan.invalid_utf8(piece) >= 0:
            return None
        names = dict.fromkeys((self.reading.field, self.reading.group_by or self.reading.field))
        schema = pa.schema([(name, pa.string()) for name in names])
        options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            blocks = pyarrow.json.ReadOptions(use_threads=False, block_size=max(1 << 20, len(piece) + 1))
            table = pyarrow.json.read_json(io.BytesIO(piece), read_options=blocks, parse_options=options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
            return None
        column = table[self.reading.field].combine_chunks()
        if len(column) != len(lines) or column.null_count:
            return None
        batch = _side_by_side(column.cast(pa.large_binary()))
        if batch is None or self.reading.group_by is None:
            return batch
        told = table[self.reading.group_by].combine_chunks()
        if told.null_count:  # or missing
            return None
        return replace(batch, groups=Groups.of_column(self.reading.group_by, told))

    def _parsed_by_line(self, piece: bytes, offset: int) -> DocumentBatch:
        texts: list[bytes] = []
        places: list[int] = []
        groups: list[str] = []
        kept: dict[str, list[str | None]] = {name: [] for name in self.reading.keep or ()}
        totals = {"replaced_characters": 0, "skipped_documents": 0, "null_documents": 0}
        bounds = np.frombuffer(_scan.line_bounds(piece), np.int64).tolist()
        for start, end in zip(bounds[::2], bounds[1::2]):
            line = piece[start:end]
            if not line.strip():
                continue
            try:
                text, replaced, record = self._text_of_line(line)
                if text is not None and self.reading.group_by is not None:
                    groups.append(self._group_of(record))
            except ValueError as error:
                if self.reading.errors != "skip":
                    number = self._line_number(offset + start)
                    raise InputError(f"{self.source.url}, line {number}: {error}{_SKIP_HINT}") from None
                self._letters.add(str(error), line, offset=offset + start)
                totals["skipped_documents"] += 1
                continue
            if text is None:
                totals["null_documents"] += 1
                continue
            totals["replaced_characters"] += replaced
            texts.append(text)
            places.append(offset + start)
            for name, values in kept.items():
                values.append(_field_as_text(record.get(name)))
        batch = batch_of(texts, totals)
        if self.reading.group_by is not None:
            batch = replace(batch, groups=Groups.of(self.reading.group_by, groups))
        if not self.reading.places:
            return batch
        columns = pa.RecordBatch.from_pydict({name: pa.array(values, pa.string()) for name, values in kept.items()})
        return replace(batch, places=np.array(places, np.int64), columns=columns)

    def _text_of_line(self, line: bytes) -> tuple[bytes | None, int, dict[str, Any]]:
        """Return the text (UTF-8) of a JSON line, None for a null, the characters replaced in it, and all it holds."""
        replaced = 0
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            if self.reading.errors != "replace":
                raise ValueError(f"not valid UTF-8 at byte {error.start}") from None
            fixed, replaced = repair(line)
            decoded = fixed.decode()
        try:
            record = json.loads(decoded.rstrip("\r\n"), parse_int=_whole_number)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
        except RecursionError:
            batch = self._parsed_at_once(decoded.encode())
            if batch is None:
                raise ValueError("not JSON, or nested too deeply") from None
            if batch.groups is not None:
                return bytes(batch.data), replaced, {batch.groups.by: batch.groups.names[0]}
            return bytes(batch.data), replaced, {}
        name = self.reading.field
        if not isinstance(record, dict):
            raise ValueError(f"a {type(record).__name__}, not an object with the field {name!r}")
        if name not in record:
            raise ValueError(f"the object has no field {name!r}; it has {', '.join(map(repr, record)) or 'none'}")
        text = record[name]
        if text is None:
            return None, 0, record
        if not isinstance(text, str):
            raise ValueError(f"the field {name!r} is a {type(text).__name__}, not text")
        try:
            return text.encode(), replaced, record
        except UnicodeEncodeError:
            if self.reading.errors != "replace":
                raise ValueError(f"the field {name!r} holds a lone surrogate") from None
        data, lone = without_surrogates(text)
        return data, replaced + lone, record

    def _group_of(self, record: dict[str, Any]) -> str:
        """Return the group of a JSON line; ValueError if its field is missing or names none."""
        name = self.reading.group_by
        if name not in record:
            raise ValueError(f"the object has no field {name!r} to group by; it has {', '.join(map(repr, record))}")
        try:
            return group_name(record[name])
        except TypeError as error:
            raise ValueError(f"the field {name!r} is {error}") from None

    def _line_number(self, offset: int) -> int:
        """Return the number (from 1) of the line that starts at an offset."""
        lines = 1
        with storage.open_read(self.source.url, self.source.compression) as file:
            while offset > 0 and (data := file.read(min(offset, cutting.PIECE))):
                lines += data.count(b"\n")
                offset -= len(data)
        return lines

    # ---- Parquet and Arrow ----

    def _parquet(self) -> Iterator[DocumentBatch]:
        with self._parquet_file() as file:
            self._check_columns(file.schema_arrow)
            row = 0
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                if self._owns(group):
                    yield from self._row_group(file, number, row)
                row += group.num_rows

    def _parquet_file(self) -> pq.ParquetFile:
        if self.source.compression is None:
            return artifacts.open_parquet(self.source.url)
        with storage.open_read(self.source.url, self.source.compression) as file:
            data = file.read()
        try:
            return pq.ParquetFile(pa.BufferReader(data))
        except (pa.ArrowInvalid, OSError) as error:
            raise FormatError(f"{self.source.url} is not a whole Parquet file: {error}") from None

    def _owns(self, group: pq.RowGroupMetaData) -> bool:
        """Whether the row group starts in this range."""
        if not group.num_columns:
            return False
        first = group.column(0)
        place = first.data_page_offset
        if first.has_dictionary_page:
            place = min(place, first.dictionary_page_offset)
        return self.source.start <= place and (self.source.end is None or place < self.source.end)

    def _row_group(self, file: pq.ParquetFile, number: int, row: int) -> Iterator[DocumentBatch]:
        group = file.metadata.row_group(number)
        chunks = [group.column(i) for i in range(group.num_columns)]
        size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == self.reading.column)
        most = ARROW_ROWS if self.reading.group_by is None else GROUPED_ROWS
        rows = max(1, min(most, cutting.PIECE * group.num_rows // max(1, size)))
        columns = [self.reading.column, *self._others(file.schema_arrow)]
        if self.reading.group_by is not None and self.reading.group_by not in columns:
            columns.append(self.reading.group_by)
        batches = file.iter_batches(rows, row_groups=[number], columns=columns, use_threads=False)
        try:
            yield from self._tables(batches, row)
        except FormatError as error:
            if self.reading.errors != "skip":
                raise
            self._letters.add(f"{error}; the {group.num_rows} rows of a row group are set aside", row=row)
            yield _nothing({"skipped_documents": group.num_rows})

    def _arrow(self) -> Iterator[DocumentBatch]:
        with storage.open_read(self.source.url, self.source.compression) as file:
            data = file.read() if self.source.compression else file
            try:
                try:
                    reader = pa.ipc.open_file(data)
                    batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
                except pa.ArrowInvalid:
                    if not self.source.compression:
                        file.seek(0)
                    reader = pa.ipc.open_stream(data)
                    batches = iter(reader)
            except (pa.ArrowInvalid, OSError) as error:
                if getattr(error, "errno", None):
                    raise
                raise FormatError(f"{self.source.url} is not a whole Arrow file: {error}") from None
            self._check_columns(reader.schema)
            yield from self._tables(batches, 0)

    def _check_columns(self, schema: pa.Schema) -> None:
        name, url = self.reading.column, self.source.url
        kind = self._type_of(schema, name)
        if self.reading.group_by is not None:
            groups = self._type_of(schema, self.reading.group_by)
            if pa.types.is_nested(groups):
                raise FormatError(f"{url}: the column {self.reading.group_by!r} holds {groups}, which names no groups")
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
                or pa.types.is_large_binary(kind) or kind in (pa.string_view(), pa.binary_view())):
            raise FormatError(f"{url}: the column {name!r} holds {kind}, not text")

    def _type_of(self, schema: pa.Schema, name: str) -> pa.DataType:
        found = schema.get_all_field_indices(name)
        if not found:
            raise FormatError(f"{self.source.url} has no column {name!r}; it has {', '.join(schema.names) or 'none'}")
        if len(found) > 1:
            raise FormatError(f"{self.source.url} has {len(found)} columns {name!r}")
        return schema.field(found[0]).type

    def _others(self, schema: pa.Schema) -> list[str]:
        """Return the names of the columns that are kept beside the text."""
        if not self.reading.places:
            return []
        names = [name for name in schema.names if name != self.reading.column]
        for name in names if self.reading.keep is None else self.reading.keep:
            if schema.names.count(name) != 1:
                held = "no column" if name not in schema.names else f"{schema.names.count(name)} columns"
                raise InputError(f"{self.source.url} has {held} {name!r}; it has {', '.join(schema.names)}")
        return names if self.reading.keep is None else list(self.reading.keep)

    def _tables(self, batches: Iterator[pa.RecordBatch], row: int) -> Iterator[DocumentBatch]:
        try:
            if self.reading.errors == "skip":
                batches = iter(list(batches))  # meet the damage before any document is counted
            for table in batches:
                others = self._others(table.schema)
                column = table.column(self.reading.column)
                groups = None
                if self.reading.group_by is not None:
                    groups = Groups.of_column(self.reading.group_by, table.column(self.reading.group_by))
                kept = table.select(others) if others else None
                yield self._from_column(column.cast(pa.large_binary()), row, kept, groups)
                row += len(column)
        except (pa.ArrowInvalid, OSError) as error:
            if getattr(error, "errno", None):  # of the store, not of the data
                raise
            raise FormatError(f"{self.source.url} is broken: {error}") from None

    def _from_column(
        self, column: pa.Array, row: int, others: pa.RecordBatch | None, groups: Groups | None
    ) -> DocumentBatch:
        """Return the documents of a large_binary column, whose first value stands in that row of the file."""
        batch = _side_by_side(column)
        if batch is not None:
            kept = np.flatnonzero(~np.asarray(column.is_null())) if column.null_count else np.arange(len(column))
            return self._placed(batch, kept, row, others, groups)
        texts = []
        rows = []
        totals = {"null_documents": column.null_count, "replaced_characters": 0, "skipped_documents": 0}
        for number, document in enumerate(column.to_pylist()):
            if document is None:
                continue
            at = _scan.invalid_utf8(document)
            if at >= 0:
                if self.reading.errors == "strict":
                    raise InputError(
                        f"{self.source.url}: row {row + number:,} (from 0) of the column {self.reading.column!r} has the byte "
                        f"0x{document[at]:02x} at its offset {at:,}, which is not valid UTF-8: {document[:60]!r}"
                    )
                if self.reading.errors == "skip":
                    self._letters.add(f"not UTF-8 at its offset {at}", document, row=row + number)
                    totals["skipped_documents"] += 1
                    continue
                document, replaced = repair(document)
                totals["replaced_characters"] += replaced
            texts.append(document)
            rows.append(number)
        return self._placed(batch_of(texts, totals), np.array(rows, np.int64), row, others, groups)

    def _placed(
        self, batch: DocumentBatch, kept: np.ndarray, row: int, others: pa.RecordBatch | None, groups: Groups | None
    ) -> DocumentBatch:
        """Add the rows of the documents, their other columns and their groups, if they are wanted."""
        if groups is not None:
            batch = replace(batch, groups=groups.take(kept))
        if not self.reading.places:
            return batch
        if others is not None and len(kept) != others.num_rows:
            columns = [_without_views(column).take(pa.array(kept)) for column in others.columns]
            others = pa.RecordBatch.from_arrays(columns, others.schema.names)
        return replace(batch, places=row + kept, columns=others)


_NO_BOUNDS = np.empty(0, np.int64)
_SKIP_HINT = " (errors='skip' sets it aside)"
_INF = re.compile(rb"(?:Inf|NaN)\s*[,}\]]")  # of bytes, where Arrow may take it for a number


def _without_views(column: pa.Array) -> pa.Array:
    """Return a column in a type of which pyarrow can take rows."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(plain[column.type]) if column.type in plain else column


def _whole_number(digits: str) -> int:
    """Return a JSON number; int() refuses those of more than 4,300 digits, which nobody needs here."""
    return int(digits) if len(digits) <= 4300 else 0


def _field_as_text(value: Any) -> str | None:
    """Return the value of a JSON field as text: a string as it is, anything else as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return without_surrogates(text)[0].decode()


def _nothing(totals: dict[str, int]) -> DocumentBatch:
    return DocumentBatch(b"", _NO_BOUNDS, totals=totals)


def _side_by_side(column: pa.Array) -> DocumentBatch | None:
    """Return the documents of a large_binary column as they lie in it; None if one of them is not UTF-8."""
    kept = column.drop_null() if column.null_count else column
    if not len(kept):
        return _nothing({"null_documents": column.null_count})
    offsets = np.frombuffer(kept.buffers()[1], np.int64)[kept.offset : kept.offset + len(kept) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(kept.buffers()[2] or b"", np.uint8)[first:last]  # Arrow's own buffers are of signed char
    starts = offsets[:-1] - first
    # Halves of a character side by side look whole: a document must not start inside one.
    inside = starts[starts < len(data)]
    if _scan.invalid_utf8(data) >= 0 or ((data[inside] & 0xC0) == 0x80).any():
        return None
    totals = {"documents": len(kept), "null_documents": column.null_count, "bytes": last - first}
    return DocumentBatch(data, np.repeat(offsets - first, 2)[1:-1], totals=totals)
