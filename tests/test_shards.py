"""Shards of encoded documents: what was written is read, by us and by others, and is whole or absent."""

from __future__ import annotations

import itertools
import json
import os
import struct
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import artifacts, shards, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.packing import Packer, Packing
from beam_bpe.shards import FORMATS, Encoded, flat, megatron, open_writer, parquet, publishing, read_shard, rows

NAME = "part-00017-of-00064"
HEADER = {"fingerprint": "c0ffee"}
FILES = {
    "parquet": [".parquet"],
    "megatron": [".bin", ".documents.parquet", ".idx"],
    "npy": [".npy", ".offsets.npy", ".documents.parquet", ".json"],
}
counter = itertools.count()


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    return str(tmp_path / "ids") if request.param == "local" else f"memory://{uuid.uuid4().hex}/ids"


def encoded(documents, dtype=np.uint16, columns=None) -> Encoded:
    ids = np.array([each for document in documents for each in document], dtype)
    return Encoded(ids, np.cumsum([len(document) for document in documents], dtype=np.int64), columns)


def some(count, vocab_size=300, seed=0, columns=True) -> Encoded:
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(0, 9, count)).astype(np.int64)
    ids = rng.integers(0, vocab_size, ends[-1] if count else 0).astype(shards.dtype_for(vocab_size))
    text = pa.RecordBatch.from_pydict(
        {"source": [f"file-{i % 3}" for i in range(count)], "line": range(seed, seed + count), "tags": [[{"x": [i % 99]}] * (i % 4) for i in range(count)]},
        pa.schema([("source", pa.string()), ("line", pa.int64()), ("tags", pa.list_(pa.struct([("x", pa.list_(pa.int8()))])))]),
    )  # fmt: skip
    return Encoded(ids, ends, text if columns else None)


def cut(batch, bounds):
    """Return the same documents in several batches."""
    bounds = [0, *sorted(min(bound, len(batch)) for bound in bounds), len(batch)]
    marks = np.concatenate(([0], batch.ends))
    return [
        Encoded(
            batch.ids[marks[a] : marks[b]],
            batch.ends[a:b] - marks[a],
            batch.columns.slice(a, b - a) if batch.columns is not None else None,
            batch.segments[marks[a] : marks[b]] if batch.segments is not None else None,
        )
        for a, b in zip(bounds, bounds[1:])
    ]


def write(format, folder, *batches, vocab_size=300, row_length=None, name=NAME):
    with open_writer(format, folder, name, HEADER, vocab_size=vocab_size, row_length=row_length) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.result


def read(format, folder, name=NAME) -> Encoded | None:
    """Return the documents of a shard as one batch."""
    found = list(read_shard(folder, name, format))
    if not found:
        return None
    starts = np.cumsum([0, *(len(batch.ids) for batch in found)])
    columns = None
    if found[0].columns is not None:
        columns = pa.Table.from_batches([batch.columns for batch in found]).combine_chunks().to_batches()
        columns = columns[0] if columns else found[0].columns
    return Encoded(
        np.concatenate([batch.ids for batch in found]),
        np.concatenate([batch.ends + start for batch, start in zip(found, starts)]),
        columns,
        np.concatenate([batch.segments for batch in found]) if found[0].segments is not None else None,
    )


def assert_same(found, expected, dtype=None):
    if found is None:
        assert not len(expected)
        return
    assert found.ids.dtype == (dtype or expected.ids.dtype)
    assert np.array_equal(found.ids, expected.ids) and np.array_equal(found.ends, expected.ends)
    assert (found.columns is None) == (expected.columns is None)
    if expected.columns is not None:
        assert found.columns.schema == expected.columns.schema and found.columns.equals(expected.columns)
    assert (found.segments is None) == (expected.segments is None)
    assert expected.segments is None or np.array_equal(found.segments, expected.segments)


def contents(folder):
    return {name: storage.read_bytes(storage.join(folder, name)) for name in storage.list_names(folder)}


# ---- round trips ----


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("vocab_size", [300, 65_536, 65_537, 200_000])
def test_round_trip(format, folder, columns, vocab_size):
    batch = some(1000, vocab_size, columns=columns)
    result = write(format, folder, *cut(batch, [10, 10, 300]), vocab_size=vocab_size)
    wide = np.uint32 if format == "megatron" and vocab_size >= 65_500 else None
    assert_same(read(format, folder), batch, wide)
    assert result["name"] == NAME and result["rows"] == 1000 and result["tokens"] == len(batch.ids)
    assert [file["name"] for file in result["files"]] == [NAME + suffix for suffix in FILES[format]]
    assert {file["name"]: file["bytes"] for file in result["files"]} == {k: len(v) for k, v in contents(folder).items()}
    header = shards.read_header(folder, NAME, format)
    assert header["fingerprint"] == "c0ffee" and header["vocab_size"] == vocab_size and header["format"] == format
    assert header["kind"] == shards.KIND and header["row_length"] is None
    assert header["dtype"] == ("int32" if wide else shards.dtype_for(vocab_size).name)


lists = st.lists(st.lists(st.integers(0, 299), max_size=12), max_size=20)


@settings(deadline=None, max_examples=150)
@given(
    lists, st.lists(st.integers(0, 20), max_size=3), st.sampled_from(FORMATS), st.booleans(),
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 6), st.integers(1, 30),
)  # fmt: skip
def test_any_documents_in_any_batches(documents, bounds, format, with_columns, group_bytes, group_rows, most, piece):
    """Small limits of row groups, rows, sequences and pieces, so that all of them are met; and bytes are the same."""
    columns = None
    if with_columns:
        texts = ["t" * (len(document) % 5) if len(document) != 3 else None for document in documents]
        columns = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["text"])
    batch, place = encoded(documents, np.uint16, columns), f"memory://shards-{next(counter)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows.RowWriter.__init__, "__kwdefaults__", {"group_bytes": group_bytes, "group_rows": group_rows})
        patch.setattr(flat, "PIECE", piece)
        patch.setattr(parquet.ParquetShardWriter.__init__, "__kwdefaults__", {"row_length": None, "most_ids": most})
        patch.setattr(megatron.MegatronShardWriter.__init__, "__kwdefaults__", {"row_length": None, "most_sequence": most})
        patch.setattr(megatron, "BLOCK", 3)
        result = write(format, f"{place}/one", batch)
        pieces = write(format, f"{place}/several", *cut(batch, bounds))
        assert result == pieces and contents(f"{place}/one") == contents(f"{place}/several")
        assert_same(read(format, f"{place}/one"), batch)
    if format == "parquet":
        with artifacts.open_parquet(f"{place}/one/{NAME}.parquet") as file:
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            assert max(groups, default=0) <= group_rows
            assert max(map(len, file.read()["ids"].to_pylist()), default=0) <= most


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("batches", [[], [some(0)], [some(0, columns=False)], [some(0), some(0)]])
def test_empty_shards(format, folder, batches):
    result = write(format, folder, *batches)
    assert (result["rows"], result["tokens"]) == (0, 0) and shards.shard_exists(folder, NAME, format)
    assert sum(len(batch) for batch in read_shard(folder, NAME, format)) == 0


@pytest.mark.parametrize("format", FORMATS)
def test_empty_documents(format, folder):
    batch = encoded([[], [], [5], [], [6, 7], []])
    write(format, folder, batch)
    assert_same(read(format, folder), batch)
    write(format, folder, encoded([[], []]))
    assert_same(read(format, folder), encoded([[], []]))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("remainder", ["pad", "keep", "drop"])
@pytest.mark.parametrize("segments", [True, False])
def test_packed_rows(format, folder, remainder, segments):
    packer = Packer(Packing(64, remainder, 0, segments=segments))
    filled = [*(packer.push(batch) for batch in cut(some(1000), [1, 30, 500])), packer.flush()]
    filled = [each for each in filled if each is not None]
    short = any((each.lengths() < 64).any() for each in filled)
    if (format == "megatron" and segments) or (format == "npy" and short):
        with pytest.raises(ValueError, match="segments" if format == "megatron" else "row_length=64: pack with"):
            write(format, folder, *filled, row_length=64)
        assert storage.list_names(folder) == []
        return
    result = write(format, folder, *filled, row_length=64)
    assert result["rows"] == packer.rows
    found = read(format, folder)
    assert np.array_equal(found.ids, np.concatenate([each.ids for each in filled]))
    assert (found.segments is not None) == segments
    if segments:
        assert np.array_equal(found.segments, np.concatenate([each.segments for each in filled]))
    assert found.columns.to_pylist() == [row for each in filled for row in each.columns.to_pylist()]
    assert shards.read_header(folder, NAME, format)["row_length"] == 64
    if format == "npy":
        names = [".npy", *([".segments.npy"] if segments else []), ".documents.parquet", ".json"]
        assert [file["name"] for file in result["files"]] == [NAME + suffix for suffix in names]


# ---- read by others ----


class MegatronReader:
    """An index and its ids, read as Megatron-LM's _IndexReader and _MMapBinReader do."""

    def __init__(self, prefix):
        with open(f"{prefix}.idx", "rb") as stream:
            assert stream.read(9) == b"MMIDIDX\x00\x00"
            assert struct.unpack("<Q", stream.read(8)) == (1,)
            (code,) = struct.unpack("<B", stream.read(1))
            self.dtype = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}[code]
            (sequences,) = struct.unpack("<Q", stream.read(8))
            (documents,) = struct.unpack("<Q", stream.read(8))
            offset = stream.tell()
        index = memoryview(np.memmap(f"{prefix}.idx", mode="r", order="C"))
        self.sequence_lengths = np.frombuffer(index, np.int32, sequences, offset)
        offset += self.sequence_lengths.nbytes
        self.sequence_pointers = np.frombuffer(index, np.int64, sequences, offset)
        offset += self.sequence_pointers.nbytes
        self.document_indices = np.frombuffer(index, np.int64, documents, offset)
        assert offset + self.document_indices.nbytes == len(index)
        assert self.sequence_lengths.shape[0] == self.document_indices[-1]
        self.ids = memoryview(np.memmap(f"{prefix}.bin", mode="r", order="C"))

    def __getitem__(self, i):
        return np.frombuffer(self.ids, self.dtype, int(self.sequence_lengths[i]), int(self.sequence_pointers[i]))

    def document(self, d):
        first, stop = self.document_indices[d : d + 2].tolist()
        return np.concatenate([np.empty(0, self.dtype), *(self[i] for i in range(first, stop))])


@pytest.mark.parametrize("vocab_size, dtype", [(300, np.uint16), (65_499, np.uint16), (65_500, np.int32), (200_000, np.int32)])
def test_megatron_reads_it(tmp_path, vocab_size, dtype):
    batch = some(1000, vocab_size)
    write("megatron", str(tmp_path), *cut(batch, [77]), vocab_size=vocab_size)
    reader = MegatronReader(tmp_path / NAME)
    assert reader.dtype is dtype
    assert len(reader.document_indices) == 1001 and reader.sequence_lengths.min() > 0
    for d, document in enumerate(np.split(batch.ids, batch.ends[:-1])):
        assert np.array_equal(reader.document(d), document)
    assert os.path.getsize(tmp_path / f"{NAME}.bin") == len(batch.ids) * np.dtype(dtype).itemsize
    columns = pq.read_table(tmp_path / f"{NAME}.documents.parquet")
    assert columns.replace_schema_metadata(None).equals(pa.Table.from_batches([batch.columns]))


def test_megatron_documents_of_several_sequences(tmp_path):
    batch = encoded([[1] * 3, [2] * 8, [], [3] * 4, [4] * 9])
    with megatron.MegatronShardWriter(str(tmp_path), NAME, {}, vocab_size=300, most_sequence=4) as writer:
        writer.write(batch)
    reader = MegatronReader(tmp_path / NAME)
    assert reader.sequence_lengths.tolist() == [3, 4, 4, 4, 4, 4, 1]
    assert reader.document_indices.tolist() == [0, 1, 3, 3, 4, 7]
    assert [reader.document(d).tolist() for d in range(5)] == [[1] * 3, [2] * 8, [], [3] * 4, [4] * 9]
    assert_same(read("megatron", str(tmp_path)), batch)


def test_megatron_has_no_ids_beyond_int32(tmp_path):
    with pytest.raises(ValueError, match="vocab_size=2147483649: Megatron's ids are int32"):
        open_writer("megatron", str(tmp_path), NAME, {}, vocab_size=2**31 + 1)


@pytest.mark.parametrize("vocab_size", [300, 200_000])
def test_numpy_maps_it(tmp_path, vocab_size):
    batch = some(1000, vocab_size)
    write("npy", str(tmp_path), *cut(batch, [77]), vocab_size=vocab_size)
    ids = np.load(tmp_path / f"{NAME}.npy", mmap_mode="r")
    offsets = np.load(tmp_path / f"{NAME}.offsets.npy", mmap_mode="r")
    assert isinstance(ids, np.memmap) and ids.dtype == batch.ids.dtype and np.array_equal(ids, batch.ids)
    assert offsets.dtype == np.int64 and np.array_equal(offsets, np.concatenate(([0], batch.ends)))
    header = json.loads((tmp_path / f"{NAME}.json").read_text())
    assert header["rows"] == 1000 and header["tokens"] == len(ids) and header["fingerprint"] == "c0ffee"
    write("npy", str(tmp_path))
    assert np.load(tmp_path / f"{NAME}.npy", mmap_mode="r").shape == (0,)


def test_numpy_maps_packed_rows(tmp_path):
    packer = Packer(Packing(32, "pad", 299))
    filled = [packer.push(some(1000)), packer.flush()]
    write("npy", str(tmp_path), *filled, row_length=32)
    ids = np.load(tmp_path / f"{NAME}.npy", mmap_mode="r")
    segments = np.load(tmp_path / f"{NAME}.segments.npy", mmap_mode="r")
    assert ids.shape == segments.shape == (packer.rows, 32) and segments.dtype == np.int32
    assert np.array_equal(ids.ravel(), np.concatenate([each.ids for each in filled]))
    assert (segments[-1] == 0).sum() == packer.padding_tokens


@pytest.mark.parametrize("vocab_size, type_", [(300, pa.uint16()), (200_000, pa.uint32())])
def test_anyone_reads_the_parquet(tmp_path, vocab_size, type_):
    batch = some(1000, vocab_size)
    write("parquet", str(tmp_path), batch, vocab_size=vocab_size)
    path = tmp_path / f"{NAME}.parquet"
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = file.read()
        leaf = file.schema.column(0)
        assert leaf.path == "ids.list.element" and leaf.physical_type == "INT32" and leaf.max_definition_level == 1
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert table.schema.names == ["ids", "chunk", "source", "line", "tags"]
    assert table.schema.field("ids").type.equals(pa.list_(pa.field("element", type_, nullable=False)))
    assert table["ids"].to_pylist() == [part.tolist() for part in np.split(batch.ids, batch.ends[:-1])]
    assert table["chunk"].type == pa.int32() and set(table["chunk"].to_pylist()) == {0}
    assert json.loads(table.schema.metadata[b"beam_bpe"])["vocab_size"] == vocab_size


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_other_engines_read_the_parquet(tmp_path, engine):
    module = pytest.importorskip(engine)
    batch = some(1000, 200_000)
    write("parquet", str(tmp_path), batch, vocab_size=200_000)
    path = str(tmp_path / f"{NAME}.parquet")
    if engine == "duckdb":
        found = [ids for (ids,) in module.sql(f"select ids from read_parquet('{path}')").fetchall()]
    else:
        found = module.read_parquet(path)["ids"].to_list()
    assert found == [part.tolist() for part in np.split(batch.ids, batch.ends[:-1])]


def test_documents_of_several_rows(tmp_path):
    columns = pa.RecordBatch.from_pydict({"source": ["a", "b", "c", "d"]})
    batch = encoded([[1] * 2, [2] * 5, [], [3] * 9], np.uint16, columns)
    with parquet.ParquetShardWriter(str(tmp_path), NAME, {}, vocab_size=300, most_ids=4) as writer:
        writer.write(batch)
    assert writer.result["rows"] == 4
    table = pq.read_table(tmp_path / f"{NAME}.parquet")
    assert table["chunk"].to_pylist() == [0, 0, 1, 0, 0, 1, 2]
    assert table["source"].to_pylist() == ["a", "b", "b", "c", "d", "d", "d"]
    assert list(map(len, table["ids"].to_pylist())) == [2, 4, 1, 0, 4, 4, 1]
    assert_same(read("parquet", str(tmp_path)), batch)


@pytest.mark.parametrize("group_rows", [1, 2, 3, 100])
@pytest.mark.parametrize("group_bytes", [1, 12, 24, 60])
def test_row_groups_however_batched(group_rows, group_bytes, monkeypatch):
    """Of 0 to 8 ids, rows of at most 3: documents begin and end anywhere in row groups."""
    limits = {"group_bytes": group_bytes, "group_rows": group_rows}
    monkeypatch.setattr(rows.RowWriter.__init__, "__kwdefaults__", limits)
    monkeypatch.setattr(parquet.ParquetShardWriter.__init__, "__kwdefaults__", {"row_length": None, "most_ids": 3})
    place = f"memory://{uuid.uuid4().hex}"
    for seed in range(3):
        batch = some(12, seed=seed, columns=False)
        write("parquet", f"{place}/one", batch)
        assert_same(read("parquet", f"{place}/one"), batch)
        for bounds in [*([i] for i in range(1, 12, 2)), range(12)]:
            write("parquet", f"{place}/several", *cut(batch, bounds))
            assert contents(f"{place}/several") == contents(f"{place}/one")


def test_row_groups_are_bounded_by_bytes(tmp_path):
    """By those of ids, of text, and of nested columns."""
    texts = pa.RecordBatch.from_pydict({"text": ["x" * (1 << 20)] * 100, "nested": [[{"a": "y" * (1 << 19)}] * 2] * 100})
    write("parquet", str(tmp_path), encoded([[1, 2]] * 100, np.uint16, texts))
    with pq.ParquetFile(tmp_path / f"{NAME}.parquet") as file:
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [31, 31, 31, 7]
    write("parquet", str(tmp_path), Encoded(np.zeros(100 << 20, np.uint16), np.arange(1, 101) << 20, None))
    with pq.ParquetFile(tmp_path / f"{NAME}.parquet") as file:
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [31, 31, 31, 7]


@pytest.mark.parametrize(
    "array, expected",
    [
        (pa.array(["ab", None, ""]), [2, 0, 0]),
        (pa.array([b"abc", b""], pa.large_binary()).slice(1), [0]),
        (pa.array([1, None], pa.int64()), [8, 8]),
        (pa.array([True, False]), [1, 1]),
        (pa.array([[1, 2], None, []], pa.list_(pa.int32())), [8, 0, 0]),
        (pa.array([["a", "bcd"], None, ["e"]]).slice(1), [0, 1]),
        (pa.array([{"a": "xyz", "b": [1]}, None], pa.struct([("a", pa.string()), ("b", pa.list_(pa.int8()))])), [4, 0]),
        (pa.array([[["a"], ["bc", "d"]], [], [["e"]]], pa.large_list(pa.list_(pa.string()))).slice(0, 2), [4, 0]),
    ],
)
def test_bytes_of_values(array, expected):
    assert rows.row_bytes(array).tolist() == expected


# ---- the same bytes ----


@pytest.mark.parametrize("format", FORMATS)
def test_bytes_depend_on_the_documents_alone(format, tmp_path):
    batch = some(70_000)
    source = batch.columns.schema.get_field_index("source")
    expected = write(format, str(tmp_path / "one"), batch)
    for i, bounds in enumerate([[1, 2, 3], range(0, 70_000, 1000), [65_536]]):
        pieces = cut(batch, bounds)
        if i == 1:  # a dictionary of each batch's own
            pieces = [
                Encoded(p.ids.copy(), p.ends, p.columns.set_column(source, "source", p.columns["source"].dictionary_encode()))
                for p in pieces
            ]
        assert write(format, str(tmp_path / str(i)), *pieces) == expected
        assert contents(str(tmp_path / str(i))) == contents(str(tmp_path / "one"))
    assert_same(read(format, str(tmp_path / "one")), batch)


@pytest.mark.parametrize("format", FORMATS)
def test_bytes_hold_no_place(format, tmp_path):
    one = write(format, str(tmp_path / "somewhere"), some(10))
    assert write(format, "memory://elsewhere/else", some(10)) == one
    assert all(b"somewhere" not in data for data in contents(str(tmp_path / "somewhere")).values())


# ---- whole or absent ----


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_stands_before_the_end(format, folder):
    with open_writer(format, folder, NAME, HEADER, vocab_size=300) as writer:
        writer.write(some(1000))
        assert not [name for name in storage.list_names(folder) if not name.startswith(".")]
        assert not shards.shard_exists(folder, NAME, format) and writer.result is None
    assert sorted(storage.list_names(folder)) == sorted(NAME + suffix for suffix in FILES[format])
    assert shards.shard_exists(folder, NAME, format)
    assert writer.close() is writer.result
    with pytest.raises(ValueError, match="is closed"):
        writer.write(some(1))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("after", [0, 1000])
def test_a_failure_in_the_middle_leaves_nothing(format, folder, after):
    with pytest.raises(KeyboardInterrupt):
        with open_writer(format, folder, NAME, HEADER, vocab_size=300) as writer:
            writer.write(some(after))
            raise KeyboardInterrupt
    assert storage.list_names(folder) == [] and writer.result is None
    with pytest.raises(ValueError, match="was given up"):
        writer.close()


@pytest.mark.parametrize("format", FORMATS)
def test_a_failed_write_is_not_forgotten(format, folder):
    """Even if the block swallows its exception."""
    with pytest.raises(ValueError, match="was given up"):
        with open_writer(format, folder, NAME, HEADER, vocab_size=300) as writer:
            writer.write(some(10))
            with pytest.raises(ValueError, match="id 300 is not below vocab_size=300"):
                writer.write(encoded([[300]]))
    assert storage.list_names(folder) == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_leaves_what_stood(format, folder):
    write(format, folder, some(10))
    before = contents(folder)
    with pytest.raises(RuntimeError):
        with open_writer(format, folder, NAME, HEADER, vocab_size=300) as writer:
            writer.write(some(20))
            raise RuntimeError
    assert contents(folder) == before


class Killed(BaseException):
    pass


@pytest.mark.parametrize("format", ["megatron", "npy"])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_a_mixture_of_two_shards_is_never_whole(format, folder, published, monkeypatch):
    """Publishing a shard over another one ends after so many files; a run after that puts all right."""
    write(format, folder, some(10))
    done = iter(range(published))
    real = publishing.PendingFile.publish

    def publish(self):
        if next(done, None) is None:
            raise Killed
        real(self)

    monkeypatch.setattr(publishing.PendingFile, "publish", publish)
    with pytest.raises(Killed):
        write(format, folder, some(20, seed=1))
    assert not shards.shard_exists(folder, NAME, format)
    with pytest.raises(FileNotFoundError):
        list(read_shard(folder, NAME, format))
    with pytest.raises(FileNotFoundError):
        shards.read_header(folder, NAME, format)
    monkeypatch.undo()
    write(format, folder, some(20, seed=1))
    assert_same(read(format, folder), some(20, seed=1))
    assert sorted(storage.list_names(folder)) == sorted(NAME + suffix for suffix in FILES[format])


@pytest.mark.parametrize("format", ["megatron", "npy"])
def test_a_duplicate_takes_nothing_away(format, folder, monkeypatch):
    """A second task with the same documents neither removes nor writes a file."""
    result = write(format, folder, some(100))

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(storage, "remove", never)
    monkeypatch.setattr(publishing.PendingFile, "publish", never)
    assert write(format, folder, some(100)) == result
    assert_same(read(format, folder), some(100))
    assert not [name for name in storage.list_names(folder) if name.startswith(".")]


def test_files_of_an_older_shard_go(folder):
    packer = Packer(Packing(8, "drop"))
    write("npy", folder, packer.push(some(100)), row_length=8)
    assert storage.exists(storage.join(folder, f"{NAME}.segments.npy"))
    write("npy", folder, some(100))
    assert sorted(storage.list_names(folder)) == sorted(NAME + suffix for suffix in FILES["npy"])


@pytest.mark.parametrize("format", FORMATS)
def test_remove(format, folder):
    shards.remove_shard(folder, NAME, format)
    write(format, folder, some(10))
    write(format, folder, some(10), name="part-00018-of-00064")
    shards.remove_shard(folder, NAME, format)
    assert not shards.shard_exists(folder, NAME, format)
    assert sorted(storage.list_names(folder)) == sorted("part-00018-of-00064" + suffix for suffix in FILES[format])
    with pytest.raises(FileNotFoundError, match=NAME):
        list(read_shard(folder, NAME, format))


# ---- merged ----


@pytest.mark.parametrize("format", FORMATS)
def test_merged_shards_are_the_shard_written_at_once(format, folder):
    batch = some(1000, 200_000)
    names = [f"part-{i:05d}-of-00004" for i in range(4)]
    for name, piece in zip(names, [*cut(batch, [10, 500]), some(0, columns=False)]):
        write(format, folder, piece, vocab_size=200_000, name=name)
    merged = shards.merge_shards(folder, names, format, f"{folder}/merged", "all")
    assert merged == write(format, f"{folder}/once", batch, vocab_size=200_000, name="all")
    assert contents(f"{folder}/merged") == contents(f"{folder}/once")
    assert_same(read(format, f"{folder}/merged", "all"), batch, np.uint32)


@pytest.mark.parametrize("format", FORMATS)
def test_shards_of_two_vocabularies_are_not_merged(format, folder):
    write(format, folder, some(10), name="a")
    with open_writer(format, folder, "b", {"fingerprint": "decaf"}, vocab_size=300):
        pass
    with pytest.raises(ValueError, match="a and b cannot be one: fingerprint is 'c0ffee' and 'decaf'"):
        shards.merge_shards(folder, ["a", "b"], format, folder, "c")
    assert not shards.shard_exists(folder, "c", format)
    with pytest.raises(ValueError, match="names='a'"):
        shards.merge_shards(folder, "a", format, folder, "c")


# ---- what is refused ----


def refused(kind, told, *batches, format="parquet", **options):
    with pytest.raises(kind, match=told):
        write(format, f"memory://{uuid.uuid4().hex}", *batches, **options)


def test_what_is_no_batch():
    ids, ends = np.zeros(3, np.uint16), np.array([3], np.int64)
    with pytest.raises(TypeError, match="ids must be a flat array of uint16 or uint32, not an array of int64, 1-D"):
        Encoded(ids.astype(np.int64), ends, None)
    with pytest.raises(TypeError, match=r"ends must be a flat array of int64, not \[3\]"):
        Encoded(ids, [3], None)
    with pytest.raises(ValueError, match="the documents end at 2, but there are 3 ids"):
        Encoded(ids, ends - 1, None)
    with pytest.raises(ValueError, match="must not descend"):
        Encoded(ids, np.array([2, 1, 3]), None)
    with pytest.raises(ValueError, match="must not be negative"):
        Encoded(ids, np.array([-1, 3]), None)
    with pytest.raises(ValueError, match="2 segments for 3 ids"):
        Encoded(ids, ends, None, np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="the columns have 2 rows, but there are 1 documents"):
        Encoded(ids, ends, pa.RecordBatch.from_pydict({"a": [1, 2]}))
    refused(TypeError, "a batch is Encoded, not list", [1])


def test_what_no_shard_holds():
    refused(ValueError, "format='csv': must be one of parquet, megatron, npy", format="csv")
    refused(ValueError, "vocab_size=0", vocab_size=0)
    refused(TypeError, "vocab_size is a whole number", vocab_size=3.0)
    refused(ValueError, "name='a/b'", name="a/b")
    refused(ValueError, "name='.a'", name=".a")
    refused(ValueError, "row_length=0", row_length=0)
    refused(ValueError, "a row has 3 ids, more than row_length=2", encoded([[1], [1, 2, 3]]), row_length=2)
    refused(ValueError, "id 70000 is not below vocab_size=300", encoded([[70_000]], np.uint32))
    with pytest.raises(TypeError):
        open_writer("parquet", "memory://x", NAME, {"a": object()}, vocab_size=300)
    segmented = Encoded(np.zeros(1, np.uint16), np.array([1]), None, np.ones(1, np.int32))
    refused(ValueError, "segments belong to packed rows", segmented, format="npy")
    refused(ValueError, "all batches of a shard have segments or none", segmented, encoded([[1]]))


@pytest.mark.parametrize("format", FORMATS)
def test_columns_of_another_kind(format):
    for name in shards.RESERVED:
        refused(ValueError, name, encoded([[1]], np.uint16, pa.RecordBatch.from_pydict({name: [1]})), format=format)
    refused(ValueError, "source: string, .* not none", some(1), some(1, columns=False), format=format)
    other = encoded([[1]], np.uint16, pa.RecordBatch.from_pydict({"source": [1]}))
    refused(ValueError, "not source: int64", some(1), other, format=format)


@pytest.mark.parametrize("format", FORMATS)
def test_broken_files(format, tmp_path):
    """Cut short or with a byte behind: FormatError names the file (Parquet ends with its footer, wherever it is)."""
    write(format, str(tmp_path), some(1000))
    for name, data in contents(str(tmp_path)).items():
        for broken in (data[: len(data) // 2], b"", data[:-1], data + b"\0"):
            if name.endswith(".idx") and len(broken) > len(data):
                continue  # Megatron's own index may hold the modes of sequences there
            if name.endswith(".json") and broken in (data[:-1],):
                continue  # a newline
            (tmp_path / name).write_bytes(broken)
            with pytest.raises(FormatError, match=name):
                list(read_shard(str(tmp_path), NAME, format))
        (tmp_path / name).write_bytes(data)


def test_files_that_do_not_belong_together(tmp_path):
    write("megatron", str(tmp_path / "a"), some(10))
    write("megatron", str(tmp_path / "b"), some(20))
    for suffix in FILES["megatron"]:
        os.makedirs(tmp_path / "c", exist_ok=True)
        for each in FILES["megatron"]:
            data = (tmp_path / ("b" if each == suffix else "a") / (NAME + each)).read_bytes()
            (tmp_path / "c" / (NAME + each)).write_bytes(data)
        with pytest.raises(FormatError):
            list(read_shard(str(tmp_path / "c"), NAME, "megatron"))


def test_parquet_of_others_is_not_a_shard(tmp_path):
    pq.write_table(pa.table({"ids": [[1]]}), tmp_path / f"{NAME}.parquet")
    with pytest.raises(FormatError, match="was not written by beam_bpe"):
        list(read_shard(str(tmp_path), NAME, "parquet"))


# ---- memory ----

MEASURED = """
import resource, sys
import numpy as np
from beam_bpe.shards import Encoded, open_writer, read_shard

format, folder, total, each = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
rng = np.random.default_rng(0)
batch = Encoded(rng.integers(0, 50_000, 1_000_000).astype(np.uint16), np.arange(each, 1_000_001, each), None)

def write(name, count):
    with open_writer(format, folder, name, {}, vocab_size=50_000) as writer:
        for _ in range(count):
            writer.write(batch)

write("small", 1)
before = peak()
write("large", total // 1_000_000)
written = peak()
assert sum(len(some.ids) for some in read_shard(folder, "large", format)) == total
print(written - before, peak() - written)
"""


def peaks(format, folder, total, each):
    """Return by how many MiB writing and then reading so many ids raises the peak of a process."""
    code = [sys.executable, "-c", MEASURED, format, folder, str(total), str(each)]
    done = subprocess.run(code, capture_output=True, text=True, cwd=Path(shards.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return list(map(int, done.stdout.split()))


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
@pytest.mark.parametrize("format", FORMATS)
def test_memory_is_bounded(format, tmp_path):
    """50 M ids (100 MB) in documents of 500."""
    written, read_ = peaks(format, str(tmp_path), 50_000_000, 500)
    assert written < {"parquet": 550, "megatron": 40, "npy": 40}[format] and read_ < 500


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_memory_does_not_grow_with_the_shard(format, tmp_path):
    """Four times as many ids; Megatron's index takes 12 bytes a document."""
    small, large = (peaks(format, str(tmp_path / str(n)), n * 1_000_000, 500) for n in (100, 400))
    assert large[0] - small[0] < 60 and large[1] - small[1] < 60, (small, large)


@pytest.mark.slow
def test_one_huge_document(tmp_path):
    """150 M ids: three rows in Parquet."""
    ids = np.resize(np.arange(50_000, dtype=np.uint16), 150_000_000)
    batch = Encoded(ids, np.array([len(ids)]), None)
    for format in FORMATS:
        write(format, str(tmp_path), batch, vocab_size=50_000)
        assert_same(read(format, str(tmp_path)), batch)
    assert pq.read_table(tmp_path / f"{NAME}.parquet", columns=["chunk"])["chunk"].to_pylist() == [0, 1, 2]
