"""Shards as Megatron-LM reads them: `<name>.bin` and `<name>.idx`, the layout of its IndexedDataset.

`.bin` is the ids and nothing else. `.idx` is, little-endian and without gaps: `MMIDIDX\\0\\0`, version 1 (uint64), the
code of the ids' type (uint8), the number of sequences and that of documents plus 1 (uint64), then the sequences'
lengths in ids (int32), their places in `.bin` in bytes (int64), and the number of sequences before each document and
after the last (int64). After megatron/core/datasets/indexed_dataset.py of Megatron-LM.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.shards import rows
from beam_bpe.shards.encoded import Encoded, dtype_for
from beam_bpe.shards.flat import NumberStream, pieces
from beam_bpe.shards.writer import ShardWriter

MAGIC = b"MMIDIDX\x00\x00"
HEAD = struct.Struct("<9sQBQQ")
CODES: dict[np.dtype, int] = {np.dtype("<i4"): 4, np.dtype("<u2"): 8}
MOST_SEQUENCE = 2**31 - 1  # ids
BLOCK = 1 << 17  # numbers converted or read at a time


class MegatronShardWriter(ShardWriter):
    """Write `<name>.bin`, `<name>.documents.parquet` (the columns and the header), and last `<name>.idx`.

    Ids are uint16 when vocab_size is below 65,500, else int32, as Megatron itself chooses. A document is one sequence,
    an empty one none (as in Megatron's preprocess_data), one of more than most_sequence ids several. Memory: 12 bytes
    a document. Megatron cannot map an empty `.bin`: leave shards without tokens out of its list of data.
    """

    format = "megatron"

    def __init__(
        self,
        folder: str,
        name: str,
        header: Mapping[str, Any],
        *,
        vocab_size: int,
        row_length: int | None = None,
        most_sequence: int = MOST_SEQUENCE,
    ):
        super().__init__(folder, name, header, vocab_size=vocab_size, row_length=row_length)
        if not 1 <= most_sequence <= MOST_SEQUENCE:
            raise ValueError(f"most_sequence={most_sequence}: must lie between 1 and {MOST_SEQUENCE}")
        self._most = most_sequence
        self._lengths = array("i")  # of sequences
        self._documents = array("q", [0])  # sequences before each document, and after the last
        bin_name, columns_name, self._index_name = self.names_of(name)
        self._bin = self._files.open(bin_name)
        self._columns = rows.ColumnsWriter(self._files.open(columns_name), self.header)

    @staticmethod
    def names_of(name: str) -> Sequence[str]:
        return [f"{name}.bin", f"{name}.documents.parquet", f"{name}.idx"]

    @staticmethod
    def dtype_of(vocab_size: int) -> np.dtype:
        dtype_for(vocab_size)
        if vocab_size > 1 << 31:
            raise ValueError(f"vocab_size={vocab_size}: Megatron's ids are int32, at most 2**31; choose another format")
        return np.dtype("<u2" if vocab_size < 65_500 else "<i4")

    def _write(self, batch: Encoded, ids: np.ndarray, columns: pa.RecordBatch | None) -> None:
        if batch.segments is not None:
            raise ValueError("Megatron has no place for segments: pack with segments=False, or write parquet or npy")
        lengths = batch.lengths()
        self._bin.write(ids)
        self._columns.write(lengths, columns)
        sequences = -(-lengths // self._most)
        behind = np.cumsum(sequences)
        sizes = np.full(int(sequences.sum()), self._most, np.int32)
        last = lengths - (sequences - 1) * self._most
        sizes[behind[sequences > 0] - 1] = last[sequences > 0]
        self._lengths.frombytes(sizes.tobytes())
        self._documents.frombytes((behind + self._documents[-1]).astype(np.int64, copy=False).tobytes())

    def _finish(self) -> None:
        self._columns.close()
        file = self._files.open(self._index_name)
        lengths, documents = np.frombuffer(self._lengths, np.intc), np.frombuffer(self._documents, np.int64)
        file.write(HEAD.pack(MAGIC, 1, CODES[self.dtype], len(lengths), len(documents)))
        for block in _blocks(lengths):
            file.write(block.astype("<i4", copy=False))
        place = 0
        for block in _blocks(lengths):
            stops = place + np.cumsum(block, dtype=np.int64) * self.dtype.itemsize
            file.write((stops - block.astype(np.int64) * self.dtype.itemsize).astype("<i8", copy=False))
            place = int(stops[-1])
        for block in _blocks(documents):
            file.write(block.astype("<i8", copy=False))


def _blocks(numbers: np.ndarray) -> Iterator[np.ndarray]:
    return (numbers[start : start + BLOCK] for start in range(0, len(numbers), BLOCK))


def read_header(folder: str, name: str) -> dict[str, Any]:
    """Return the header of a whole shard."""
    names = MegatronShardWriter.names_of(name)
    storage.read_range(storage.join(folder, names[-1]), 0, 1)  # there is one
    return rows.read_header(folder, names[1])


def read(folder: str, name: str) -> Iterator[Encoded]:
    """Yield the documents of a shard; ids of int32 come as uint32."""
    ids_url, columns_url, index_url = (storage.join(folder, each) for each in MegatronShardWriter.names_of(name))
    head = storage.read_range(index_url, 0, HEAD.size)
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise FormatError(f"{index_url} is not an index of Megatron's")
    _, version, code, sequences, marks = HEAD.unpack(head)
    dtype = next((dtype for dtype, known in CODES.items() if known == code), None)
    if version != 1 or dtype is None:
        raise FormatError(f"{index_url} has version {version} and type {code}: 1 and {list(CODES.values())} are known")

    def numbers(start: int, count: int, kind: str) -> np.ndarray:
        size = count * np.dtype(kind).itemsize
        data = storage.read_range(index_url, start, start + size)
        if len(data) < size:
            raise FormatError(f"{index_url} is too short: it has no {size} bytes from {start}")
        return np.frombuffer(data, kind)

    document = 0
    with NumberStream(ids_url, dtype) as ids:
        for count, columns in rows.read_columns(columns_url):
            if document + count > marks - 1:
                raise FormatError(f"{columns_url} has more documents than the {marks - 1} of {index_url}")
            firsts = numbers(HEAD.size + 12 * sequences + 8 * document, count + 1, "<i8")
            if firsts[0] < 0 or firsts[-1] > sequences or (np.diff(firsts) < 0).any():
                raise FormatError(f"{index_url}: the documents from {document} are not within the {sequences} sequences")
            sizes = numbers(HEAD.size + 4 * int(firsts[0]), int(firsts[-1] - firsts[0]), "<i4")
            if (sizes < 0).any():
                raise FormatError(f"{index_url} holds a negative length")
            sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
            yield from pieces(ids, np.diff(sums[firsts - firsts[0]]), columns)
            document += count
        if document != marks - 1:
            raise FormatError(f"{columns_url} has {document} documents, {index_url} has {marks - 1}")
        ids.check_end()
