"""Word counts: made, summed, weighed and pruned; written whole, and read only when whole."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from beam_bpe import _words, artifacts, reference, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.totals import TOTALS, add_totals
from beam_bpe.word_parts import part_name, publish, shards_of, write_part
from beam_bpe.words import WordCounts

MOST = 2**63 - 1
COUNTS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, b"\xff\x00": 1, "日本".encode(): 0, b" ": 7}
DOCUMENTS = ["low low<e>lower", "", "newest low\n", b"caf\xc3\xa9 low"]


def folder_bytes(folder) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def many(rows: int = 500, seed: int = 1) -> dict[bytes, int]:
    """Return words of 2 to 24 bytes, no two of them alike."""
    rng = random.Random(seed)
    return {rng.randbytes(rng.randrange(22)) + i.to_bytes(2, "big"): rng.randrange(MOST >> 10) for i in range(rows)}


def with_documents() -> WordCounts:
    """Return words that count documents too, as the pipeline makes them."""
    table = _words.WordTable(documents=True)
    for word, count, documents in ((b"low", 5, 3), (b"lower", 2, 2), (b"newest", 1, 1)):
        table.add(word, count, documents)
    return WordCounts._from_native(table, {"pre_tokenizer": pre_tokenizer("o200k").spec()}, {"words": 8, "documents": 4})


# ---- making ----


def test_from_mapping():
    words = WordCounts.from_mapping(COUNTS)
    assert words.to_dict() == COUNTS and len(words) == len(COUNTS) and words.occurrences == sum(COUNTS.values())
    assert words.table["word"].to_pylist() == sorted(COUNTS)
    assert words.totals == {**dict.fromkeys(TOTALS, 0), "words": sum(COUNTS.values())}
    assert words.pre_tokenizer == pre_tokenizer("none")
    assert WordCounts.from_mapping({}, pre_tokenizer="gpt2").pre_tokenizer == pre_tokenizer("gpt2")


def test_text_and_its_bytes_are_one_word():
    assert WordCounts.from_mapping({"é": 2, "é".encode(): 3}).to_dict() == {"é".encode(): 5}


@pytest.mark.parametrize(
    "counts, error, message",
    [
        ({"": 1}, ValueError, "a word is empty"),
        ({b"": 1}, ValueError, "a word is empty"),
        ({"low": -1}, ValueError, "count of 'low' is -1; it must lie between 0 and"),
        ({"low": 2**63}, ValueError, "count of 'low' is 9223372036854775808"),
        ({"low": 2.5}, TypeError, "a whole number, not 'low': 2.5"),
        ({"low": "2"}, TypeError, "a whole number, not 'low': '2'"),
        ({"low": None}, TypeError, "a whole number"),
        ({3: 1}, TypeError, "str or bytes .* not 3: 1"),
        ({"low": MOST, b"low": 1}, OverflowError, "exceeds"),
    ],
)
def test_from_mapping_refuses(counts, error, message):
    with pytest.raises(error, match=message):
        WordCounts.from_mapping(counts)


def test_from_documents():
    words = WordCounts.from_documents(DOCUMENTS, pattern="whitespace", special_tokens=["<e>"], max_word_bytes=5)
    assert words.to_dict() == {b"low": 4, b"lower": 1, "café".encode(): 1}
    size = sum(len(one.encode() if isinstance(one, str) else one) for one in DOCUMENTS)
    assert words.totals == {
        **dict.fromkeys(TOTALS, 0),
        "documents": 4, "bytes": size, "words": 6, "overlong_words": 1, "overlong_bytes": 6, "special_tokens": 1,
    }  # fmt: skip
    assert words.parameters == {
        "pre_tokenizer": pre_tokenizer("whitespace").spec(), "special_tokens": ["<e>"], "max_word_bytes": 5,
    }  # fmt: skip


@pytest.mark.parametrize("pattern", ["gpt2", "o200k", "whitespace", r" ?\w+"])
def test_from_documents_counts_as_the_reference(pattern):
    text = [one if isinstance(one, str) else one.decode() for one in DOCUMENTS]
    chosen = pre_tokenizer(pattern)
    expected = reference.count(text, chosen.pattern, "drop" if pattern == "whitespace" else "keep", ["<e>"])
    assert WordCounts.from_documents(DOCUMENTS, pattern=pattern, special_tokens=["<e>"]).to_dict() == expected


def test_documents_must_be_utf8():
    with pytest.raises(UnicodeDecodeError):
        WordCounts.from_documents([b"low \xff"])
    with pytest.raises(UnicodeEncodeError):
        WordCounts.from_documents(["low \ud800"])


def test_no_documents():
    words = WordCounts.from_documents([])
    assert len(words) == words.occurrences == 0 and words.to_dict() == {} and words.totals["documents"] == 0


def test_the_order_of_words_and_documents_changes_nothing(tmp_path):
    made = []
    for seed in range(3):
        rng = random.Random(seed)
        pairs, documents = list(COUNTS.items()), list(DOCUMENTS)
        rng.shuffle(pairs)
        rng.shuffle(documents)
        folder = tmp_path / str(seed)
        WordCounts.from_mapping(dict(pairs)).write(str(folder / "a"), shards=3)
        WordCounts.from_documents(documents).write(str(folder / "b"), shards=2)
        made.append((folder_bytes(folder / "a"), folder_bytes(folder / "b")))
    assert made[0] == made[1] == made[2]


# ---- written and read again ----


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
def test_round_trip(tmp_path, shards):
    words = WordCounts.from_mapping(many(), pre_tokenizer="gpt2")
    words.write(str(tmp_path / "words"), shards=shards)
    again = WordCounts.read(str(tmp_path / "words"))
    assert again.to_dict() == words.to_dict() and len(again) == 500
    assert (again.parameters, again.totals) == (words.parameters, words.totals)
    parts = sorted(os.listdir(tmp_path / "words"))
    assert parts == ["_manifest.json", *(part_name(i, shards) for i in range(shards))]
    for name in parts[1:]:
        table = pq.read_table(tmp_path / "words" / name)
        assert table.schema.names == ["word", "count"] and table.schema.types == [pa.binary(), pa.int64()]
        assert table["word"].to_pylist() == sorted(table["word"].to_pylist())


def test_empty_shards_are_not_written(tmp_path):
    WordCounts.from_mapping({"low": 1}).write(str(tmp_path), shards=16)
    assert len(os.listdir(tmp_path)) == 2
    assert WordCounts.read(str(tmp_path)).to_dict() == {b"low": 1}


def test_no_words_are_written_and_read(tmp_path):
    WordCounts.from_documents([""]).write(str(tmp_path))
    again = WordCounts.read(str(tmp_path))
    assert len(again) == 0 and again.totals["documents"] == 1 and again.table.schema.names == ["word", "count"]


@pytest.mark.parametrize("shards", [1, 7])
def test_two_runs_give_the_same_bytes(tmp_path, shards):
    for name in ("here", "a much longer path/there"):
        WordCounts.from_mapping(many()).write(str(tmp_path / name), shards=shards)
    assert folder_bytes(tmp_path / "here") == folder_bytes(tmp_path / "a much longer path" / "there")


def test_the_metadata_tell_the_parameters_and_nothing_of_the_run(tmp_path):
    words = WordCounts.from_documents(["low lower"], pattern="gpt2", special_tokens=["<e>"])
    headers = set()
    for shards in (1, 16):
        words.write(str(tmp_path / str(shards)), shards=shards)
        for name in os.listdir(tmp_path / str(shards)):
            if name != "_manifest.json":
                metadata = pq.read_schema(tmp_path / str(shards) / name).metadata
                assert list(metadata) == [b"beam_bpe"]
                headers.add(metadata[b"beam_bpe"])
    (header,) = map(json.loads, headers)
    assert header == {"kind": "words", "parameters": words.parameters, "version": artifacts.__version__}
    manifest = json.loads((tmp_path / "16" / "_manifest.json").read_bytes())
    assert set(manifest) == {"kind", "version", "parameters", "parameters_digest", "totals", "parts"}
    assert manifest["parameters_digest"] == artifacts.digest(words.parameters)
    assert manifest["totals"] == words.totals
    assert all(set(part) == {"name", "rows", "bytes", "occurrences"} for part in manifest["parts"])
    assert sum(part["rows"] for part in manifest["parts"]) == 2
    assert sum(part["bytes"] for part in manifest["parts"]) == len(b"low lower")
    assert sum(part["occurrences"] for part in manifest["parts"]) == 2


def test_huge_counts(tmp_path):
    counts = {b"a": MOST, b"b": MOST, b"c": MOST - 1, b"d": 0, b"e": 2**32 + 1}
    words = WordCounts.from_mapping(counts)
    words.write(str(tmp_path), shards=2)
    again = WordCounts.read(str(tmp_path))
    assert again.to_dict() == counts
    assert words.occurrences == again.occurrences == again.totals["words"] == sum(counts.values()) > 2**64
    manifest = json.loads((tmp_path / "_manifest.json").read_bytes())
    assert sum(part["occurrences"] for part in manifest["parts"]) == sum(counts.values())


def test_several_row_groups(tmp_path):
    rows = artifacts.ROW_GROUP + 1000
    words = np.char.add("w", np.arange(rows).astype(str))
    table = pa.table({"word": pa.array(words), "count": pa.array(np.arange(rows))})
    made = WordCounts.from_table(table)
    made.write(str(tmp_path))
    assert pq.ParquetFile(tmp_path / part_name(0, 1)).num_row_groups == 2
    again = WordCounts.read(str(tmp_path))
    assert len(again) == rows and again.table.equals(made.table)
    assert again.occurrences == again.totals["words"] == rows * (rows - 1) // 2
    picked = again.prune(rows - 3).to_dict()
    assert picked == {f"w{i}".encode(): i for i in range(rows - 3, rows)}


def test_the_number_of_documents(tmp_path):
    words = with_documents()
    words.write(str(tmp_path), shards=3)
    again = WordCounts.read(str(tmp_path))
    rows = sorted(again.table.to_pylist(), key=lambda row: row["word"])
    assert rows == [
        {"word": b"low", "count": 5, "documents": 3},
        {"word": b"lower", "count": 2, "documents": 2},
        {"word": b"newest", "count": 1, "documents": 1},
    ]
    assert again.table.schema.types == [pa.binary(), pa.int64(), pa.int64()]
    assert again.merge(words).table["documents"].to_pylist() == [6, 4, 2]
    assert again.prune(2).table.schema.names == again.weigh(2).table.schema.names == ["word", "count", "documents"]


def test_on_another_store():
    words, folder = WordCounts.from_mapping(many(60)), "memory://test-words/a"
    words.write(folder, shards=3)
    assert WordCounts.read(folder).to_dict() == WordCounts.read(folder + "/").to_dict() == words.to_dict()
    words.prune(2**40).write(folder, shards=2, overwrite=True)
    assert sorted(storage.list_names(folder)) == ["_manifest.json", part_name(0, 2), part_name(1, 2)]
    assert WordCounts.read(folder).to_dict() == words.prune(2**40).to_dict()
    fsspec.filesystem("memory").rm("/test-words", recursive=True)


@given(st.dictionaries(st.binary(min_size=1, max_size=6), st.integers(0, MOST), max_size=40), st.integers(1, 9))
def test_any_words_survive_packing(counts, shards):
    table = _words.WordTable()
    for _, packed in _pack(counts, shards):
        table.add_packed(packed)
    assert WordCounts._from_native(table, {}, {}).to_dict() == counts


def _pack(counts, shards):
    table = _words.WordTable()
    for batch in WordCounts.from_mapping(counts).batches():
        table.add_columns(batch.data, batch.offsets, batch.counts)
    return table.pack(shards, ordered=True)


def test_names_of_parts():
    assert part_name(17, 64) == "part-00017-of-00064.parquet"
    assert shards_of(part_name(17, 64)) == 64 and shards_of(part_name(0, 123456)) == 123456


# ---- overwriting, and writes that fail ----


def test_a_finished_folder_is_refused(tmp_path):
    first = WordCounts.from_mapping(many(50))
    first.write(str(tmp_path), shards=3)
    before = folder_bytes(tmp_path)
    with pytest.raises(FileExistsError, match="already holds words") as caught:
        WordCounts.from_mapping({"low": 1}).write(str(tmp_path))
    assert str(tmp_path) in str(caught.value) and folder_bytes(tmp_path) == before


def test_overwriting_leaves_nothing_of_the_old(tmp_path):
    WordCounts.from_mapping(many(50)).write(str(tmp_path / "a"), shards=7)
    (tmp_path / "a" / "notes.txt").write_text("mine")
    for folder in ("a", "b"):
        WordCounts.from_mapping({"low": 1}).write(str(tmp_path / folder), shards=2, overwrite=True)
    (tmp_path / "b" / "notes.txt").write_text("mine")
    assert folder_bytes(tmp_path / "a") == folder_bytes(tmp_path / "b")


def test_a_folder_is_overwritten_with_what_was_read_from_it(tmp_path):
    WordCounts.from_mapping(COUNTS).write(str(tmp_path), shards=2)
    WordCounts.read(str(tmp_path)).prune(5).write(str(tmp_path), shards=3, overwrite=True)
    assert WordCounts.read(str(tmp_path)).to_dict() == {w: n for w, n in COUNTS.items() if n >= 5}


@pytest.mark.parametrize("shards", [0, -1, 1 << 30])
def test_a_number_of_shards_that_is_refused_costs_nothing(tmp_path, shards):
    WordCounts.from_mapping(COUNTS).write(str(tmp_path))
    with pytest.raises((ValueError, OverflowError)):
        WordCounts.from_mapping({"low": 1}).write(str(tmp_path), shards=shards, overwrite=True)
    assert WordCounts.read(str(tmp_path)).to_dict() == COUNTS


class Full(OSError):
    pass


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_a_write_that_fails_leaves_no_manifest(tmp_path, monkeypatch, failing, old):
    """Fail in the middle of the bytes of a part, or (the last) of the manifest."""
    folder = tmp_path / "words"
    if old:
        WordCounts.from_mapping(COUNTS).write(str(folder), shards=2)
    real, seen = storage._Sink.write, []

    def write(self, data):
        seen.append(self.url)
        if len(set(seen)) > failing:
            real(self, data[: len(data) // 2])
            raise Full(28, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(storage._Sink, "write", write)
    with pytest.raises(Full):
        WordCounts.from_mapping(many()).write(str(folder), shards=3, overwrite=True)
    monkeypatch.undo()
    assert len(set(seen)) == failing + 1
    names = os.listdir(folder)
    assert "_manifest.json" not in names and not [name for name in names if name.endswith(".tmp")]
    with pytest.raises(FileNotFoundError, match="_manifest.json"):
        WordCounts.read(str(folder))
    WordCounts.from_mapping(COUNTS).write(str(folder), shards=1)  # no need to overwrite
    assert WordCounts.read(str(folder)).to_dict() == COUNTS


# ---- folders that are not whole ----


@pytest.fixture
def folder(tmp_path):
    """Write words in three parts and return their folder."""
    WordCounts.from_mapping(many(), pre_tokenizer="gpt2").write(str(tmp_path / "words"), shards=3)
    return tmp_path / "words"


def rewrite(path, change, header=None) -> None:
    """Change the table, and perhaps the header, of a part."""
    table = pq.read_table(path)
    old = json.loads(table.schema.metadata[b"beam_bpe"])
    artifacts.write_parquet(str(path), change(table), header(old) if header else old)


def refused(folder, path) -> str:
    with pytest.raises(FormatError) as caught:
        WordCounts.read(str(folder))
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_the_manifest_is_demanded(folder, tmp_path):
    (folder / "_manifest.json").unlink()
    for missing in (folder, tmp_path / "nowhere", tmp_path):
        with pytest.raises(FileNotFoundError, match="has no _manifest.json: it is not a finished folder") as caught:
            WordCounts.read(str(missing))
        assert str(missing) in str(caught.value)


def test_stale_parts_are_not_read(folder):
    expected = WordCounts.read(str(folder)).to_dict()
    stale = WordCounts.from_mapping({"stale": 1}, pre_tokenizer="gpt2")
    (shard, packed), = _pack({b"stale": 1}, 8)
    write_part(str(folder), packed, stale.parameters)
    (folder / "part-00009-of-00064.parquet").write_bytes(b"half")
    assert len(os.listdir(folder)) == 6
    assert WordCounts.read(str(folder)).to_dict() == expected


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "is not JSON"),
        (b'{"kind": "words"', "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is not the manifest of words"),
        (b"3", "is not the manifest of words"),
        (b'{"kind": "vocabulary", "parts": []}', "is not the manifest of words"),
        (b'{"kind": "words", "parameters": {}, "totals": {}}', "has no parts"),
        (b'{"kind": "words", "parts": [], "totals": {}}', "has no parameters"),
        (b'{"kind": "words", "parts": [], "parameters": {}}', "has no totals"),
        (b'{"kind": "words", "parts": [{"rows": 3}], "parameters": {}, "totals": {}}', "without its name"),
        (b'{"kind": "words", "parts": ["part"], "parameters": {}, "totals": {}}', "without its name"),
    ],
)
def test_a_broken_manifest(folder, text, message):
    (folder / "_manifest.json").write_bytes(text)
    assert message in refused(folder, folder / "_manifest.json")


def test_a_missing_part(folder):
    (folder / part_name(1, 3)).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        WordCounts.read(str(folder))
    assert str(folder / part_name(1, 3)) in str(caught.value)


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.7, 0.999])
def test_a_truncated_part(folder, share):
    path = folder / part_name(1, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert "not a whole Parquet file" in refused(folder, path)


def test_a_broken_page(folder):
    path = folder / part_name(1, 3)
    broken = bytearray(path.read_bytes())
    broken[4:200] = bytes(196)
    path.write_bytes(broken)
    assert "broken" in refused(folder, path)


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_leads_to_another_error(folder, seed):
    path, rng = folder / part_name(2, 3), random.Random(seed)
    broken = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 4, 16))):
        at = rng.choice((rng.randrange(len(broken)), rng.randrange(len(broken) - 800, len(broken))))
        broken[at] = rng.randrange(256)
    path.write_bytes(broken)
    try:
        WordCounts.read(str(folder))
    except FormatError as error:
        assert str(path) in str(error)


def test_a_folder_in_place_of_a_part(folder):
    path = folder / part_name(0, 3)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        WordCounts.read(str(folder))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.slice(1), "rows, its manifest says"),
        (lambda t: pa.concat_tables([t, t.slice(t.num_rows - 1)]), "rows, its manifest says"),
        (lambda t: t.take(list(range(t.num_rows - 1, -1, -1))), "not in order"),
        (lambda t: t.take([0, 0, *range(2, t.num_rows)]), "not in order at row 1"),
        (lambda t: t.set_column(0, t.schema.field(0), [pa.array([b""] + t["word"].to_pylist()[1:])]), "not in order at row 0"),
        (lambda t: t.set_column(1, t.schema.field(1), [pa.array([-1] + t["count"].to_pylist()[1:])]), "negative count"),
        (lambda t: t.rename_columns(["word", "n"]), "has the columns"),
        (lambda t: t.select(["word"]), "has the columns"),
        (lambda t: t.append_column("extra", t["count"]), "has the columns"),
        (lambda t: t.set_column(1, "count", t["count"].cast(pa.float64())), "has the columns"),
        (lambda t: t.set_column(1, "count", [pa.array([None] + t["count"].to_pylist()[1:])]), "has the columns"),
        (lambda t: t.set_column(0, "word", [pa.array(["x"] * t.num_rows)]), "has the columns"),
    ],
)  # fmt: skip
def test_a_part_that_holds_something_else(folder, change, message):
    path = folder / part_name(1, 3)
    rewrite(path, change)
    assert message in refused(folder, path)


def test_order_is_checked_across_chunks(tmp_path, monkeypatch):
    WordCounts.from_mapping(many()).write(str(tmp_path))
    path, real, chunks = tmp_path / part_name(0, 1), artifacts.read_parquet, []

    def read_in_chunks(*args):
        table, header = real(*args)
        chunks.extend(table.to_batches(max_chunksize=100))
        return pa.Table.from_batches(chunks[-5:]), header

    monkeypatch.setattr(artifacts, "read_parquet", read_in_chunks)
    assert len(WordCounts.read(str(tmp_path))) == 500 and len(chunks) == 5
    rewrite(path, lambda t: pa.concat_tables([t.slice(100), t.slice(0, 100)]))
    assert "not in order at row 0 of a batch of 100" in refused(tmp_path, path)


@pytest.mark.parametrize(
    "header, message",
    [
        (lambda h: {**h, "parameters": {**h["parameters"], "special_tokens": ["<e>"]}}, "other parameters"),
        (lambda h: {"kind": "words"}, "other parameters"),
        (lambda h: {**h, "kind": "merges"}, "holds 'merges', not 'words'"),
    ],
)
def test_a_part_of_another_job(folder, header, message):
    path = folder / part_name(1, 3)
    rewrite(path, lambda t: t, header)
    assert message in refused(folder, path)


@pytest.mark.parametrize("metadata, message", [({}, "was not written by beam_bpe"), ({b"beam_bpe": b"{"}, "is not JSON")])
def test_a_part_without_header(folder, metadata, message):
    path = folder / part_name(1, 3)
    pq.write_table(pq.read_table(path).replace_schema_metadata(metadata), path)
    assert message in refused(folder, path)


def test_publish_sorts_the_parts_whatever_the_order_they_came_in(tmp_path):
    parameters = WordCounts.from_mapping({}).parameters
    packed = [words for _, words in _pack(many(), 5)]
    manifests = []
    for order in (packed, packed[::-1]):
        parts = [write_part(str(tmp_path), words, parameters) for words in order]
        publish(str(tmp_path), parts, parameters, {"words": sum(many().values())})
        manifests.append((tmp_path / "_manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    assert WordCounts.read(str(tmp_path)).to_dict() == many()


# ---- merge, weigh, prune ----


def test_merge_sums():
    a = WordCounts.from_documents(["low low", "lower"], pattern="whitespace")
    b = WordCounts.from_documents(["low newest"], pattern="whitespace")
    for merged in (a.merge(b), b.merge(a)):
        assert merged.to_dict() == {b"low": 3, b"lower": 1, b"newest": 1}
        assert merged.totals == add_totals(a.totals, b.totals) and merged.totals["documents"] == 3
        assert merged.parameters == a.parameters
    assert a.merge().to_dict() == a.to_dict() and a.merge(b, b, a).to_dict()[b"low"] == 6


def test_merge_refuses_other_pre_tokenizers_and_overflow():
    a = WordCounts.from_documents(["low"], pattern="whitespace")
    with pytest.raises(ValueError, match="different parameters") as caught:
        a.merge(WordCounts.from_documents(["low"], pattern="gpt2"))
    assert "whitespace" in str(caught.value) and "gpt2" in str(caught.value)
    with pytest.raises(OverflowError):
        WordCounts.from_mapping({"a": 2**62}).merge(WordCounts.from_mapping({"a": 2**62}))
    assert WordCounts.from_mapping({"a": 2**62}).merge(WordCounts.from_mapping({"a": 2**62 - 1})).to_dict() == {b"a": MOST}


def test_weigh():
    words = WordCounts.from_mapping(COUNTS)
    for factor in (3, np.int64(3)):
        weighed = words.weigh(factor)
        assert weighed.to_dict() == {word: 3 * count for word, count in COUNTS.items()}
        assert weighed.totals["words"] == weighed.occurrences == 3 * words.occurrences
        assert weighed.table.schema == words.table.schema
    assert set(words.weigh(0).to_dict().values()) == {0} and words.to_dict() == COUNTS
    assert WordCounts.from_mapping({}).weigh(5).to_dict() == {}


def test_weigh_up_to_the_limit():
    assert WordCounts.from_mapping({"a": MOST // 7}).weigh(7).to_dict() == {b"a": MOST // 7 * 7}
    for count, factor in ((MOST // 7 + 1, 7), (2**62, 2), (2**62, np.int64(4)), (1, 2**63)):
        with pytest.raises(OverflowError, match="exceeds"):
            WordCounts.from_mapping({"a": count, "b": 1}).weigh(factor)


@pytest.mark.parametrize("factor, error", [(-1, ValueError), (1.5, TypeError), (2.0, TypeError), ("2", TypeError)])
def test_weigh_refuses(factor, error):
    with pytest.raises(error, match="the factor is"):
        WordCounts.from_mapping({"a": 1}).weigh(factor)


def test_prune_tells_what_it_left_out():
    words = WordCounts.from_documents(["low low low lower lower newest"], pattern="whitespace")
    pruned = words.prune(2)
    assert pruned.to_dict() == {b"low": 3, b"lower": 2}
    assert pruned.totals == {**words.totals, "pruned_words": 1, "pruned_occurrences": 1}
    again = pruned.prune(3)
    assert again.to_dict() == {b"low": 3}
    assert again.totals == {**words.totals, "pruned_words": 2, "pruned_occurrences": 3}
    assert words.prune(0).to_dict() == words.prune(1).to_dict() == words.to_dict()
    assert words.prune(99).to_dict() == {} and words.prune(99).totals["pruned_occurrences"] == 6
    assert again.occurrences + again.totals["pruned_occurrences"] == again.totals["words"] == 6


def test_prune_counts_beyond_64_bits():
    totals = WordCounts.from_mapping({"a": MOST - 1, "b": MOST - 1, "c": MOST - 1, "d": MOST}).prune(MOST).totals
    assert totals["pruned_words"] == 3 and totals["pruned_occurrences"] == 3 * (MOST - 1)


# ---- batches ----


def test_batches_of_slices():
    words = WordCounts.from_mapping(COUNTS)
    cut = WordCounts(pa.concat_tables([words.table.slice(2, 3), words.table.slice(6), words.table.slice(0, 0)]))
    rows = {}
    for batch in cut.batches():
        for i, count in enumerate(batch.counts.tolist()):
            rows[batch.data[batch.offsets[i] : batch.offsets[i + 1]].tobytes()] = count
    assert rows == cut.to_dict() and len(rows) == 4


# ---- tables made elsewhere ----


def write_foreign(path, columns: dict) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.mark.parametrize(
    "word, count",
    [
        (pa.array(["low", "日本"]), pa.array([5, 2])),
        (pa.array([b"low", "日本".encode()]), pa.array([5, 2], pa.int32())),
        (pa.array(["low", "日本"], pa.large_string()), pa.array([5, 2], pa.uint64())),
        (pa.array([b"low", "日本".encode()], pa.large_binary()), pa.array([5.0, 2.0])),
        (pa.array(["low", "日本"]).dictionary_encode(), pa.array(["5", "2"])),
    ],
)
def test_foreign_parquet(tmp_path, word, count):
    path = write_foreign(tmp_path / "w.parquet", {"lang": ["en", "ja"], "count": count, "word": word})
    words = WordCounts.read_foreign([path], pre_tokenizer="gpt2")
    assert words.to_dict() == {b"low": 5, "日本".encode(): 2}
    assert words.totals["words"] == 7 and words.pre_tokenizer.name == "gpt2"
    assert words.table.schema.types == [pa.binary(), pa.int64()]
    assert WordCounts.from_table(pa.table({"word": word, "count": count})).to_dict() == words.to_dict()


COMPRESS = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("kind, separator", [(".csv", ","), (".CSV", ",")])
def test_foreign_text(tmp_path, kind, separator, suffix):
    rows = [("word", "count"), ('"a,\tb"', "1"), ('" say ""hi"""', "2"), ('"\n"', "3"), ("null", "4"), ("NA", "5"), (" 007", "6")]
    text = "".join(separator.join(row) + "\n" for row in rows)
    path = tmp_path / f"words{kind}{suffix}"
    path.write_bytes(COMPRESS[suffix](text.encode()))
    expected = {b"a,\tb": 1, b' say "hi"': 2, b"\n": 3, b"null": 4, b"NA": 5, b" 007": 6}
    assert WordCounts.read_foreign([str(path)]).to_dict() == expected


@pytest.mark.parametrize("suffix", COMPRESS)
def test_foreign_tsv_has_no_quotes(tmp_path, suffix):
    text = 'word\tcount\n"\t1\n""\t2\n"a b\t3\nnull\t4\n,\t5\n'
    path = tmp_path / f"words.tsv{suffix}"
    path.write_bytes(COMPRESS[suffix](text.encode()))
    expected = {b'"': 1, b'""': 2, b'"a b': 3, b"null": 4, b",": 5}
    assert WordCounts.read_foreign([str(path)]).to_dict() == expected


def test_words_with_newlines_anywhere_in_a_large_file(tmp_path):
    counts = {f"\n\n{i}\n\n".encode(): i for i in range(150_000)}
    rows = b"".join(b'"%s",%d\n' % pair for pair in counts.items())
    (tmp_path / "w.csv").write_bytes(b"word,count\n" + rows)
    assert len(rows) > 2 << 20
    assert WordCounts.read_foreign([str(tmp_path / "w.csv")]).to_dict() == counts


def test_foreign_columns_by_name(tmp_path):
    (tmp_path / "w.csv").write_text("n,lang,token\n5,en,low\n2,en,lower\n")
    words = WordCounts.read_foreign([str(tmp_path / "w.csv")], word_column="token", count_column="n")
    assert words.to_dict() == {b"low": 5, b"lower": 2}


def test_several_foreign_files(tmp_path):
    (tmp_path / "a.csv").write_text("word,count\nlow,5\n")
    paths = [str(tmp_path / "a.csv"), write_foreign(tmp_path / "b.parquet", {"word": ["lower"], "count": [2]})]
    assert WordCounts.read_foreign(paths).to_dict() == WordCounts.read_foreign(paths[::-1]).to_dict() == {b"low": 5, b"lower": 2}
    with pytest.raises(FormatError, match="b'low' stands in more than one row") as caught:
        WordCounts.read_foreign([paths[0], *paths])
    assert paths[0] in str(caught.value)
    with pytest.raises(ValueError, match="names no file"):
        WordCounts.read_foreign([])


def test_foreign_files_are_read_from_stores():
    storage.write_bytes("memory://test-foreign/w.csv.gz", gzip.compress(b"word,count\nlow,5\n"))
    assert WordCounts.read_foreign(["memory://test-foreign/w.csv.gz"]).to_dict() == {b"low": 5}
    fsspec.filesystem("memory").rm("/test-foreign", recursive=True)


def test_no_foreign_rows(tmp_path):
    (tmp_path / "w.csv").write_text("word,count\n")
    assert len(WordCounts.read_foreign([str(tmp_path / "w.csv")])) == 0
    assert len(WordCounts.read_foreign([write_foreign(tmp_path / "w.parquet", {"word": [], "count": []})])) == 0


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"word": ["low"], "n": [1]}, "has no column 'count'; it has word, n"),
        ({"token": ["low"], "count": [1]}, "has no column 'word'; it has token, count"),
        ({"word": ["low", None], "count": [1, 2]}, "row 1 has no word"),
        ({"word": ["low", "x"], "count": [1, None]}, "row 1 has no count"),
        ({"word": ["low", "x"], "count": [1, -2]}, "row 1 counts -2 of b'x'; a count is not negative"),
        ({"word": ["low", "x", "low"], "count": [1, 2, 3]}, "the word b'low' stands in more than one row"),
        ({"word": ["low", ""], "count": [1, 2]}, "the word of row 1 is empty"),
        ({"word": ["low", "x"], "count": [1, 2.5]}, "whole numbers"),
        ({"word": ["low", "x"], "count": [1, float("nan")]}, "whole numbers"),
        ({"word": ["low", "x"], "count": [1, 1e19]}, "whole numbers"),
        ({"word": ["low", "x"], "count": ["1", "many"]}, "whole numbers"),
        ({"word": ["low"], "count": pa.array([2**63], pa.uint64())}, "whole numbers"),
        ({"word": [1, 2], "count": [1, 2]}, "text or bytes"),
        ({"word": [["low"]], "count": [1]}, "text or bytes"),
    ],
)
def test_foreign_rows_that_are_refused(tmp_path, columns, message):
    path = write_foreign(tmp_path / "w.parquet", columns)
    with pytest.raises(FormatError, match=message) as caught:
        WordCounts.read_foreign([path])
    assert path in str(caught.value)
    with pytest.raises(FormatError, match=message):
        WordCounts.from_table(pa.table(columns))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "[Ee]mpty"),
        ("word,n\nlow,1\n", "has no column 'count'; it has word, n"),
        ("low,1\nlower,2\n", "has no column 'word'"),
        ("word,count\nlow,\n", "row 0 has no count"),
        ("word,count\nlow,1\n,2\n", "the word of row 1 is empty"),
        ("word,count\nlow,-1\n", "row 0 counts -1"),
        ("word,count\nlow,1\nlow,1\n", "more than one row"),
        ("word,count\nlow,1.5\n", "1.5"),
        ("word,count\nlow,many\n", "many"),
        ("word,count\nlow,9223372036854775808\n", "9223372036854775808"),
        ("word,count\nlow,1,2\n", "Expected 2 columns, got 3"),
        ("word,count\n\udcff,1\n", "UTF8"),
    ],
)
def test_foreign_text_that_is_refused(tmp_path, text, message):
    for suffix in ("", ".gz"):
        path = tmp_path / f"w.csv{suffix}"
        path.write_bytes(COMPRESS[suffix](text.encode(errors="surrogateescape")))
        with pytest.raises(FormatError, match=message) as caught:
            WordCounts.read_foreign([str(path)])
        assert str(path) in str(caught.value)


def test_the_largest_count_in_text(tmp_path):
    (tmp_path / "w.csv").write_text(f"word,count\na,{MOST}\nb,{MOST}\n")
    words = WordCounts.read_foreign([str(tmp_path / "w.csv")])
    assert words.to_dict() == {b"a": MOST, b"b": MOST} and words.totals["words"] == 2 * MOST


@pytest.mark.parametrize("name", ["w.txt", "w.json", "w", "w.gz"])
def test_foreign_files_of_another_kind(tmp_path, name):
    (tmp_path / name).write_text("word,count\nlow,1\n")
    with pytest.raises(FormatError, match=".parquet, .csv or .tsv") as caught:
        WordCounts.read_foreign([str(tmp_path / name)])
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize("name", ["w.csv", "w.parquet", "w.tsv.gz"])
def test_a_foreign_file_that_is_missing(tmp_path, name):
    with pytest.raises(FileNotFoundError) as caught:
        WordCounts.read_foreign([str(tmp_path / name)])
    assert str(tmp_path / name) in str(caught.value)


def test_foreign_files_cut_off(tmp_path):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"word": [str(i) for i in range(5000)], "count": range(5000)}), buffer)
    path = tmp_path / "w.parquet"
    for size in (0, 3, 11, len(buffer.getvalue()) // 2, len(buffer.getvalue()) - 1):
        path.write_bytes(buffer.getvalue()[:size])
        with pytest.raises(FormatError, match="not a whole Parquet file") as caught:
            WordCounts.read_foreign([str(path)])
        assert str(path) in str(caught.value)
    path.write_bytes(b"PAR1" + bytes(2000) + buffer.getvalue()[2004:])
    with pytest.raises(FormatError, match="broken") as caught:
        WordCounts.read_foreign([str(path)])
    assert str(path) in str(caught.value)
    path = tmp_path / "w.csv.gz"
    path.write_bytes(gzip.compress(b"word,count\n" + b"".join(b"%d,1\n" % i for i in range(5000)))[:-20])
    with pytest.raises(OSError, match="truncated") as caught:
        WordCounts.read_foreign([str(path)])
    assert str(path) in str(caught.value)
