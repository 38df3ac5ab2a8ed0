"""Read a range of a source into batches of documents."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

from beam_bpe import _scan, artifacts, cutting, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.compression import CorruptInputError
from beam_bpe.documents import LARGEST_UNCUT, DocumentBatch, InputError, Reading, SourceRange

REPLACEMENT = "\ufffd".encode()
ARROW_ROWS = 4096  # rows decoded at a time from Parquet


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


def documents_of(texts: Iterable[str | bytes], errors: str) -> DocumentBatch:
    """Return documents of a user's own collection as a batch.

    Raises:
        InputError: under errors="strict", for a document that is not UTF-8 or holds lone surrogates.
    """
    good: list[bytes] = []
    totals = {"replaced_characters": 0, "skipped_documents": 0}
    for text in texts:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if _scan.invalid_utf8(data) >= 0:
            if errors == "strict":
                raise InputError(f"a document is not valid UTF-8: {text[:80]!r}")
            if errors == "skip":
                totals["skipped_documents"] += 1
                continue
            if isinstance(text, str):
                data, replaced = without_surrogates(text)
            else:
                data, replaced = repair(data)
            totals["replaced_characters"] += replaced
        good.append(data)
    return batch_of(good, totals)


def without_surrogates(text: str) -> tuple[bytes, int]:
    """Return the text in UTF-8 with U+FFFD for each lone surrogate, and how many there were."""
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
    """One range while it is read; what is set aside gathers in `rejected`."""

    def __init__(self, source: SourceRange, reading: Reading):
        self.source, self.reading = source, reading
        self.rejected: list[dict[str, Any]] = []

    def batches(self) -> Iterator[DocumentBatch]:
        readers: dict[str, Callable[[], Iterator[DocumentBatch]]] = {
            "text": self._text,
            "jsonl": self._jsonl,
            "parquet": self._parquet,
            "arrow": self._arrow,
        }
        skip = self.reading.errors == "skip"
        try:
            if skip and self.source.compression:
                self._read_through()
            yield from readers[self.source.format]()
        except (CorruptInputError, FormatError) as error:
            if not skip:
                raise InputError(f"{error}{_SKIP_HINT}") from error
            self._reject(self.source.start, str(error), None)
            yield _nothing({"skipped_documents": 1})
        self._write_dead_letters()

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
                f"{source.url} cannot be cut under this pattern or separator, and has {error}: choose "
                "documents='line' or another separator, or a named pattern"
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
            bounds = self._bounds(piece)
            read = {"bytes": len(piece), "separator_bytes": len(piece) - int((bounds[1::2] - bounds[::2]).sum())}
            if _scan.invalid_utf8(piece) >= 0:
                if self.reading.errors == "skip":
                    yield self._without_invalid(piece, bounds, offset, read)
                    continue
                piece, replaced = self._repaired(piece, offset)
                bounds = self._bounds(piece)
                read["replaced_characters"] = replaced
            yield DocumentBatch(piece, bounds, totals={**read, "documents": len(bounds) // 2})

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
        if self.reading.errors == "skip":
            for offset, piece in self._pieces():
                at = _scan.invalid_utf8(piece)
                if at >= 0:
                    self._reject(offset + at, "not UTF-8; the file is set aside", None)
                    yield _nothing({"skipped_documents": 1})
                    return
        for offset, piece in self._pieces():
            read = {"bytes": len(piece), "documents": first}
            if _scan.invalid_utf8(piece) >= 0:
                piece, read["replaced_characters"] = self._repaired(piece, offset)
            yield DocumentBatch(piece, np.array([0, len(piece)], np.int64), continues=not first, totals=read)
            first = 0
        if first:
            yield _nothing({"documents": 1})

    def _repaired(self, data: bytes, offset: int) -> tuple[bytes, int]:
        if self.reading.errors == "strict":
            at = _scan.invalid_utf8(data)
            raise InputError(
                f"{self.source.url}: the byte 0x{data[at]:02x} at offset {offset + at:,} is not valid UTF-8; "
                "errors='replace' puts U+FFFD in its place, errors='skip' sets its document aside"
            )
        return repair(data)

    def _without_invalid(self, data: bytes, bounds: np.ndarray, offset: int, read: dict[str, int]) -> DocumentBatch:
        """Set the documents aside that hold invalid bytes."""
        starts, ends = bounds[::2], bounds[1::2]
        keep = np.ones(len(starts), bool)
        at = _scan.invalid_utf8(data)
        while at >= 0:
            document = int(np.searchsorted(starts, at, "right")) - 1
            if document < 0 or at >= ends[document]:  # between documents, where nothing is kept anyway
                at = _scan.invalid_utf8(data, at + 1)
                continue
            keep[document] = False
            start, end = int(starts[document]), int(ends[document])
            self._reject(offset + start, f"not UTF-8 at offset {offset + at}", data[start:end])
            at = _scan.invalid_utf8(data, end)
        kept = np.repeat(keep, 2)
        documents = int(keep.sum())
        totals = {**read, "documents": documents, "skipped_documents": len(keep) - documents}
        return DocumentBatch(data, bounds[kept], totals=totals)

    # ---- JSON lines ----

    def _jsonl(self) -> Iterator[DocumentBatch]:
        for offset, piece in self._pieces():
            yield self._parsed_at_once(piece) or self._parsed_by_line(piece, offset)

    def _parsed_at_once(self, piece: bytes) -> DocumentBatch | None:
        """Return the documents of lines without any trouble; None: look at each line."""
        if _scan.invalid_utf8(piece) >= 0:
            return None
        schema = pa.schema([(self.reading.field, pa.string())])
        options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        blocks = pyarrow.json.ReadOptions(use_threads=False, block_size=max(1 << 20, len(piece) + 1))
        try:
            table = pyarrow.json.read_json(io.BytesIO(piece), read_options=blocks, parse_options=options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != sum(1 for line in piece.split(b"\n") if line.strip()):
            return None
        column = table[self.reading.field].combine_chunks()
        if column.null_count or len(column) == 0:
            return None
        return self._from_column(column, {"documents": len(column)})

    def _parsed_by_line(self, piece: bytes, offset: int) -> DocumentBatch:
        texts: list[bytes] = []
        totals = {"replaced_characters": 0, "skipped_documents": 0, "null_documents": 0}
        bounds = np.frombuffer(_scan.line_bounds(piece), np.int64).tolist()
        for start, end in zip(bounds[::2], bounds[1::2]):
            line = piece[start:end]
            if not line.strip():
                continue
            try:
                text, replaced = self._text_of_line(line)
            except ValueError as error:
                if self.reading.errors != "skip":
                    number = self._line_number(offset + start)
                    raise InputError(f"{self.source.url}, line {number}: {error}{_SKIP_HINT}") from None
                self._reject(offset + start, str(error), line)
                totals["skipped_documents"] += 1
                continue
            if text is None:
                totals["null_documents"] += 1
                continue
            totals["replaced_characters"] += replaced
            texts.append(text)
        return batch_of(texts, totals)

    def _text_of_line(self, line: bytes) -> tuple[bytes | None, int]:
        """Return the text (UTF-8) of a JSON line and the characters replaced in it; None for a null."""
        replaced = 0
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            if self.reading.errors != "replace":
                raise ValueError(f"not valid UTF-8 at byte {error.start}") from None
            fixed, replaced = repair(line)
            decoded = fixed.decode()
        try:
            record = json.loads(decoded)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from None
        name = self.reading.field
        if not isinstance(record, dict):
            raise ValueError(f"a {type(record).__name__}, not an object with the field {name!r}")
        if name not in record:
            raise ValueError(f"the object has no field {name!r}; it has {', '.join(map(repr, record)) or 'none'}")
        text = record[name]
        if text is None:
            return None, 0
        if not isinstance(text, str):
            raise ValueError(f"the field {name!r} is a {type(text).__name__}, not text")
        try:
            return text.encode(), replaced
        except UnicodeEncodeError:
            if self.reading.errors != "replace":
                raise ValueError(f"the field {name!r} holds a lone surrogate") from None
        data, lone = without_surrogates(text)
        return data, replaced + lone

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
        with artifacts.open_parquet(self.source.url) as file:
            groups = [g for g in range(file.num_row_groups) if self._owns(file.metadata.row_group(g))]
            self._check_column(file.schema_arrow)
            for group in groups:
                rows = file.iter_batches(ARROW_ROWS, row_groups=[group], columns=[self.reading.column], use_threads=False)
                yield from self._columns(batch.column(0) for batch in rows)

    def _owns(self, group: pq.RowGroupMetaData) -> bool:
        """Whether the row group starts in this range."""
        if not group.num_columns:
            return False
        first = group.column(0)
        place = first.data_page_offset
        if first.has_dictionary_page:
            place = min(place, first.dictionary_page_offset)
        return self.source.start <= place and (self.source.end is None or place < self.source.end)

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
                self._check_column(reader.schema)
                yield from self._columns(batch.column(self.reading.column) for batch in batches)
            except (pa.ArrowInvalid, OSError) as error:
                raise FormatError(f"{self.source.url} is not a whole Arrow file: {error}") from None

    def _check_column(self, schema: pa.Schema) -> None:
        if self.reading.column not in schema.names:
            raise FormatError(
                f"{self.source.url} has no column {self.reading.column!r}; it has {', '.join(schema.names) or 'none'}"
            )
        kind = schema.field(self.reading.column).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
                or pa.types.is_large_binary(kind) or kind in (pa.string_view(), pa.binary_view())):
            raise FormatError(f"{self.source.url}: the column {self.reading.column!r} holds {kind}, not text")

    def _columns(self, columns: Iterator[pa.Array]) -> Iterator[DocumentBatch]:
        try:
            if self.reading.errors == "skip":
                columns = iter(list(columns))  # meet the damage before any document is counted
            for column in columns:
                nulls = column.null_count
                kept = column.drop_null() if nulls else column
                yield self._from_column(kept, {"documents": len(kept), "null_documents": nulls})
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, (InputError, FormatError)):
                raise
            raise FormatError(f"{self.source.url} is broken: {error}") from None

    def _from_column(self, column: pa.Array, totals: dict[str, int]) -> DocumentBatch:
        binary = column.cast(pa.large_binary())
        offsets = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary) + 1]
        data = binary.buffers()[2] or pa.py_buffer(b"")
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        data = data[first:last] if len(data) else data
        bounds = np.repeat(offsets - first, 2)[1:-1] if len(offsets) else _NO_BOUNDS
        totals = {**totals, "bytes": last - first}
        # An ASCII document next to a torn one could seem whole: each document is checked by its own bounds.
        if _scan.invalid_utf8(data) < 0 and not _torn(data, bounds):
            return DocumentBatch(data, bounds, totals=totals)
        return self._repaired_column(binary, totals)

    def _repaired_column(self, column: pa.Array, totals: dict[str, int]) -> DocumentBatch:
        texts = []
        for document in column.to_pylist():
            if _scan.invalid_utf8(document) >= 0:
                if self.reading.errors == "strict":
                    at = _scan.invalid_utf8(document)
                    raise InputError(
                        f"{self.source.url}: a document of the column {self.reading.column!r} has the byte "
                        f"0x{document[at]:02x} at its offset {at}, which is not valid UTF-8: {document[:60]!r}"
                    )
                if self.reading.errors == "skip":
                    self._reject(self.source.start, "not UTF-8", document)
                    totals["skipped_documents"] = totals.get("skipped_documents", 0) + 1
                    continue
                document, replaced = repair(document)
                totals["replaced_characters"] = totals.get("replaced_characters", 0) + replaced
            texts.append(document)
        return batch_of(texts, totals)

    # ---- what is set aside ----

    def _reject(self, offset: int, reason: str, data: bytes | None) -> None:
        if self.reading.dead_letters is None:
            return
        letter: dict[str, Any] = {"source": self.source.url, "offset": offset, "reason": reason}
        if data is not None:
            letter["bytes"] = base64.b64encode(data).decode()
        self.rejected.append(letter)

    def _write_dead_letters(self) -> None:
        if not self.rejected or self.reading.dead_letters is None:
            return
        # One file a range, named after it: a range that is read again writes the same file again.
        name = hashlib.sha256(f"{self.source.url}\n{self.source.start}".encode()).hexdigest()[:16]
        lines = "".join(json.dumps(letter) + "\n" for letter in self.rejected)
        storage.write_bytes(storage.join(self.reading.dead_letters, f"rejected-{name}.jsonl"), lines.encode())


_NO_BOUNDS = np.empty(0, np.int64)
_SKIP_HINT = " (errors='skip' sets it aside)"


def _nothing(totals: dict[str, int]) -> DocumentBatch:
    return DocumentBatch(b"", _NO_BOUNDS, totals=totals)


def _torn(data: Any, bounds: np.ndarray) -> bool:
    """Whether a document starts inside a character of data that is valid as a whole."""
    starts = bounds[::2]
    starts = starts[starts < len(data)]
    return bool(((np.frombuffer(data, np.uint8)[starts] & 0xC0) == 0x80).any())
