"""What the writers of all formats share: checks, totals, and whole or absent."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, ClassVar, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import __version__, artifacts
from beam_bpe.shards.encoded import KIND, RESERVED, Encoded, dtype_for
from beam_bpe.shards.publishing import Publication

_NAME = re.compile(r"[^./\\\s][^/\\]*")


class ShardWriter:
    """Write batches of encoded documents as one shard; nothing stands under its names before all of it does.

    A context manager: leaving the block closes it, an exception in the block gives the shard up, and so does a failed
    write whose exception the block swallows. What is written depends on the documents and their order alone, not on
    how they were batched. The first batch decides which columns there are (an empty batch will do).

    Args:
        folder: path or URL; made if absent.
        name: the stem of the files' names.
        header: JSON, written into the metadata; the fingerprint of the vocabulary belongs there.
        vocab_size: every id must be below.
        row_length: of packed rows; no row may have more ids, and those of an array must have exactly as many.
    """

    format: ClassVar[str]
    result: dict[str, Any] | None = None
    """After closing: name, files (name, bytes, sha256), rows and tokens."""

    def __init__(
        self,
        folder: str,
        name: str,
        header: Mapping[str, Any],
        *,
        vocab_size: int,
        row_length: int | None = None,
    ):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"name={name!r}: must be the stem of a file's name, such as part-00017-of-00064")
        if row_length is not None and (not isinstance(row_length, int) or row_length < 1):
            raise ValueError(f"row_length={row_length!r}: must be a whole number from 1, or None for whole documents")
        self.folder, self.name, self.vocab_size, self.row_length = folder, name, vocab_size, row_length
        self.dtype = self.dtype_of(vocab_size)
        self.header = {
            "kind": KIND,
            **header,
            "format": self.format,
            "dtype": self.dtype.name,
            "vocab_size": int(vocab_size),
            "row_length": row_length,
            "version": __version__,
        }
        artifacts.canonical_json(self.header)  # a header that is no JSON fails here, before there are files
        self.rows = self.tokens = 0
        self._schema: pa.Schema | None = None
        self._segments: bool | None = None
        self._files = Publication(folder, self.names_of(name))
        self._open = True

    @staticmethod
    def names_of(name: str) -> Sequence[str]:
        """Return every file that a shard of this name may have; it is whole when the last of them stands."""
        raise NotImplementedError

    @staticmethod
    def dtype_of(vocab_size: int) -> np.dtype:
        """Return the type in which this format stores the ids of a vocabulary."""
        return dtype_for(vocab_size)

    def _write(self, batch: Encoded, ids: np.ndarray, columns: pa.RecordBatch | None) -> None:
        """Write a checked batch, its ids in `self.dtype`, its columns in the schema of the first batch."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Write what is left, so that every file is complete."""
        raise NotImplementedError

    def _release(self) -> None:
        """Let go of what is held beside the files to be published."""

    def write(self, batch: Encoded) -> None:
        """Append documents.

        Raises:
            ValueError: an id is not below vocab_size, a row is longer than row_length, or the columns are not those
                of the first batch.
        """
        self._check_open()
        try:
            if not isinstance(batch, Encoded):
                raise TypeError(f"a batch is Encoded, not {type(batch).__name__}")
            ids, columns = self._checked_ids(batch), self._checked_columns(batch)
            self._write(batch, ids, columns)
        except BaseException:
            self._give_up()
            raise
        self.rows += len(batch)
        self.tokens += len(ids)

    def close(self) -> dict[str, Any]:
        """Publish the shard and return its line of a manifest: name, files, rows and tokens."""
        if self.result is None:
            self._check_open()
            try:
                self._finish()
                files = self._files.publish()
            finally:
                self._give_up()  # of what was published, nothing is left to give up
            self.result = {"name": self.name, "files": files, "rows": self.rows, "tokens": self.tokens}
        return self.result

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._open = False
        self._release()
        self._files.discard()

    def _check_open(self) -> None:
        if not self._open:
            done = "is closed" if self.result else "was given up after an error"
            raise ValueError(f"the shard {self.name} {done}: nothing more can be written to it")

    def _checked_ids(self, batch: Encoded) -> np.ndarray:
        if len(batch.ids) and int(batch.ids.max()) >= self.vocab_size:
            raise ValueError(f"id {batch.ids.max()} is not below vocab_size={self.vocab_size}: another vocabulary's?")
        if self.row_length is not None and len(batch):
            longest = int(batch.lengths().max())
            if longest > self.row_length:
                raise ValueError(f"a row has {longest} ids, more than row_length={self.row_length}")
        return np.ascontiguousarray(batch.ids, dtype=self.dtype)

    def _checked_columns(self, batch: Encoded) -> pa.RecordBatch | None:
        columns = batch.columns if batch.columns is not None and batch.columns.num_columns else None
        names: list[str] = columns.schema.names if columns is not None else []
        arrays = [_plain(column) for column in (columns.columns if columns is not None else ())]
        fields = [pa.field(name, array.type) for name, array in zip(names, arrays)]
        if self._schema is None:
            reserved = sorted(set(names) & set(RESERVED))
            if reserved or len(set(names)) < len(names):
                raise ValueError(f"columns {names}: each needs a name of its own, and none of {', '.join(RESERVED)}")
            self._schema, self._segments = pa.schema(fields), batch.segments is not None
        elif self._schema != pa.schema(fields):
            given = _told(pa.schema(fields))
            raise ValueError(f"the columns of a shard are those of its first batch, {_told(self._schema)}; not {given}")
        elif self._segments != (batch.segments is not None):
            raise ValueError("either all batches of a shard have segments or none")
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema) if arrays else None


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without what depends on how it was made: a dictionary's order, the names of lists' elements."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(_plain_type(column.type)) if pa.types.is_nested(column.type) else column


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = pa.field("element", _plain_type(kind.value_type), kind.value_field.nullable)
        return pa.list_(element) if pa.types.is_list(kind) else pa.large_list(element)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type), field.nullable) for field in kind])
    return kind


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
