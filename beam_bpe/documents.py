"""Documents: the units that no word crosses, read from text, JSON lines, Parquet and Arrow files.

Here is what to read and in which ranges; `beam_bpe.reading` reads a range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import cutting
from beam_bpe.compression import strip_compression
from beam_bpe.grouping import Groups
from beam_bpe.listing import SourceFile, expand

FORMATS: Mapping[str, tuple[str, ...]] = {
    "text": (".txt",),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather"),
}
UNITS = ("file", "line", "paragraph", "separator")
ERRORS = ("replace", "strict", "skip")

MIB = 1 << 20
SMALL_RANGE, LARGE_RANGE = 8 * MIB, 64 * MIB
LARGE_INPUT = 4 << 30  # bytes from which ranges are large
RANGES_PER_WORKER = 8
SMALLEST_RANGE = 64 << 10
#: A file that cannot be cut and is a document of its own is read whole: larger ones are refused.
LARGEST_UNCUT = 512 * MIB


class InputError(ValueError):
    """An input that cannot be read as it should be; the message names the file and the place."""


class SourceRange(NamedTuple):
    """The part of a file that one worker reads: bytes [start, end), or all of it with end None."""

    url: str
    compression: str | None
    format: str
    start: int
    end: int | None


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents side by side: document d is data[bounds[2d]:bounds[2d + 1]], valid UTF-8.

    Attributes:
        data: a buffer of bytes.
        bounds: int64, two per document.
        continues: the first document is the rest of the last one of the batch before.
        totals: what was counted while they were read (names of `totals.TOTALS`).
        cut_by: the rules between whose words a document was cut, in ranges or pieces; empty where documents are whole.
        split: the first document may have begun, or the last one go on, in a range that another worker reads.
        places: int64, where each document stands: the row of a table, or the offset of its first byte in the
            (uncompressed) file.  None unless `Reading.places`.
        columns: what was kept of each document beside its text; None unless `Reading.places`.
        groups: the group of each document; None unless `Reading.group_by`.  The data are then the documents, one
            behind the other.
    """

    data: Any
    bounds: np.ndarray
    continues: bool = False
    totals: Mapping[str, int] = field(default_factory=dict)
    cut_by: tuple[cutting.WordRule, ...] = ()
    split: bool = False
    places: np.ndarray | None = None
    columns: pa.RecordBatch | None = None
    groups: Groups | None = None


@dataclass(frozen=True)
class Reading:
    """How documents are read; checked when it is made.

    Attributes:
        documents: what is a document of a text file: the "file", a "line" (with its ending), a
            "paragraph" (between blank lines), or what stands between "separator"s.
        separator: text between documents, which is dropped.
        field: of a JSON object that holds the text.
        column: of a Parquet or Arrow table that does.
        format: a name of `FORMATS`; "auto" goes by the name of the file, others being text.
        errors: bytes that are not UTF-8 are replaced by U+FFFD ("replace"), fail the job ("strict"),
            or have their document set aside ("skip"); so are, only under "skip", JSON lines that do
            not parse and files that are broken.
        cut_by: a text file that is one document may be cut where words end under all of these rules; empty: never.
        dead_letters: folder for what was set aside; None: it is only counted.
        whole: never cut a document, so that the documents of a word can be counted.
        places: tell where each document stands, and keep its other columns.
        keep: names of the columns, or of the fields of JSON lines (as text), that are kept; None: all the
            other columns of a table, no fields.
        group_by: the column, or the field of JSON lines, that tells the group of a document; None: they have none.
            A null is the group "" (see `grouping`); a row or line without it is treated as one without text.
    """

    documents: str = "file"
    separator: str | None = None
    field: str = "text"
    column: str = "text"
    format: str = "auto"
    errors: str = "replace"
    cut_by: tuple[cutting.WordRule, ...] = ()
    dead_letters: str | None = None
    whole: bool = False
    places: bool = False
    keep: tuple[str, ...] | None = None
    group_by: str | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("documents", self.documents, UNITS),
            ("errors", self.errors, ERRORS),
            ("format", self.format, ("auto", *FORMATS)),
        ):
            if value not in allowed:
                raise ValueError(f"{name}={value!r}: choose one of {', '.join(allowed)}")
        if (self.documents == "separator") != (self.separator is not None):
            raise ValueError("documents='separator' goes with a separator, and a separator with it")
        if self.separator == "":
            raise ValueError("the separator is empty")
        if self.separator is not None and "\ufffd" in self.separator and self.errors == "replace":
            raise ValueError("the separator holds U+FFFD, which errors='replace' puts for broken bytes: choose 'strict' or 'skip'")

    def format_of(self, url: str) -> str:
        """Return the format of a file."""
        if self.format != "auto":
            return self.format
        name = strip_compression(url).lower()
        return next((kind for kind, suffixes in FORMATS.items() if name.endswith(suffixes)), "text")

    def cutter(self, kind: str) -> cutting.Cutter:
        """Return what cuts a file of that format."""
        if kind == "jsonl" or (kind == "text" and self.documents == "line"):
            return cutting.LineCutter()
        if kind == "text" and self.documents == "paragraph":
            return cutting.ParagraphCutter()
        if kind == "text" and self.separator is not None:
            return cutting.SeparatorCutter(self.separator.encode())
        if kind == "text" and self.documents == "file" and self.cut_by and all(rule.may_be_cut for rule in self.cut_by):
            return cutting.WordCutter(*self.cut_by) if len(self.cut_by) == 1 else cutting.CommonCutter(self.cut_by)
        return cutting.NoCutter()

    def one_range(self, kind: str) -> bool:
        """Whether a file of that format must be read by one worker."""
        if kind == "arrow":
            return True
        if kind == "text" and self.documents == "file":
            # To set a broken document aside, or to count it once, somebody must see all of it.
            return self.whole or self.errors == "skip" or isinstance(self.cutter(kind), cutting.NoCutter)
        return False


def find_files(inputs: str | Sequence[str], reading: Reading) -> list[SourceFile]:
    """Return the files that inputs name (paths, globs, folders, URLs), largest first.

    Raises:
        FileNotFoundError: a path is missing, a glob matches nothing, a folder has no known file.
        InputError: a file is one document, too large to be read whole, and cannot be cut; or it is text, which has
            no column to group by.
    """
    suffixes = FORMATS[reading.format] if reading.format != "auto" else tuple(s for all in FORMATS.values() for s in all)
    files = sorted(expand(inputs, suffixes), key=lambda file: (-file.size, file.url))
    for file in files:
        kind = reading.format_of(file.url)
        if kind == "text" and reading.group_by is not None:
            raise InputError(
                f"{file.url} is read as text, which has no column {reading.group_by!r} to group by, nor any other: "
                "JSON lines, Parquet and Arrow files have (format says what it is)"
            )
        uncut = kind == "text" and isinstance(reading.cutter(kind), cutting.NoCutter)
        if uncut and file.size > LARGEST_UNCUT:
            raise InputError(
                f"{file.url} has {file.size:,} bytes and would be read whole, because under this pattern "
                f"no place is known where it may be cut (the limit is {LARGEST_UNCUT:,}): choose "
                "documents='line' or 'separator', or a named pattern"
            )
    return files


def range_bytes_for(total: int, workers: int = 1) -> int:
    """Return how many bytes a range of an input of that many bytes should have."""
    if total >= LARGE_INPUT:
        return LARGE_RANGE
    return max(SMALLEST_RANGE, min(SMALL_RANGE, -(-total // (RANGES_PER_WORKER * workers))))


def ranges(files: Iterable[SourceFile], reading: Reading, range_bytes: int) -> Iterator[SourceRange]:
    """Yield the ranges of files."""
    for file in files:
        kind = reading.format_of(file.url)
        if file.compression or reading.one_range(kind) or file.size <= range_bytes:
            yield SourceRange(file.url, file.compression, kind, 0, None)
            continue
        for start in range(0, file.size, range_bytes):
            end = start + range_bytes
            yield SourceRange(file.url, None, kind, start, end if end < file.size else None)
