"""Ranges into shards without Beam: the ids, where they come from, what is set aside, and what a second run skips."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import gzip
import json
import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import artifacts, cutting, encoding, shards, storage, train
from beam_bpe.artifacts import FormatError
from beam_bpe.documents import InputError, find_files, ranges
from beam_bpe.encoding import Encoding, claim, encode_range, part_name, publish, read_documents, reading_for
from beam_bpe.packing import Packing
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.words import WordCounts

END = "<|end|>"
NAMED = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "whitespace")
TEXT = (
    "The lowest of the low, and the newest news: it's 12345 o'clock!\r\n\r\n  Ein größeres Wörterbuch…\n"
    "\tdef f(x):\n\t\treturn x // 2  # 機器學習模型的訓練資料 и словарь подслов\n\n\n    e\u0301 👍🏽 — we'LL see\n"
)


def made_text(size: int, seed: int = 1) -> str:
    """Return a text of about that many bytes."""
    rng = random.Random(seed)
    words = TEXT.split(" ")
    out, length = [], 0
    while length < size:
        out.append(rng.choice(words) + rng.choice([" ", " ", "  ", "\n", "", "'s ", "7"]))
        length += len(out[-1].encode())
    return "".join(out)


def tokenizer_of(pattern: str = "o200k", tokens: int = 150, special=(END,)) -> Tokenizer:
    words = WordCounts.from_documents([made_text(20_000, 2)], pattern=pattern)
    return Tokenizer(train(words, 256 + tokens + len(special), special_tokens=special))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tokenizer_of()


def encode(inputs, out, tokenizer, encoding=Encoding(), *, range_bytes=1 << 23, resume=False, order=None, **reading):
    """Encode files into a folder, and return the lines of its shards."""
    read = reading_for(tokenizer, **reading)
    files = sorted(find_files([str(each) for each in np.atleast_1d(inputs)], read), key=lambda file: file.url)
    found = list(enumerate(ranges(files, read, range_bytes)))
    lines = []
    for number, source in order(found) if order else found:
        name = part_name(number, len(found))
        lines.append(encode_range(source, read, tokenizer, encoding, str(out), name, resume=resume))
    publish(str(out), lines, encoding.parameters(tokenizer, read))
    return lines


def documents(out) -> list[list[int]]:
    return [ids.tolist() for _, batch in read_documents(str(out)) for ids in np.split(batch.ids, batch.ends[:-1]) if len(batch)]


def decoded(tokenizer, ids) -> bytes:
    return tokenizer.decode_bytes(np.array(ids, np.uint32))


def columns(out) -> list[dict]:
    return [row for _, batch in read_documents(str(out)) for row in batch.columns.to_pylist()]


def expected(tokenizer, texts, special="text") -> list[list[int]]:
    return [tokenizer.encode_documents(text, np.array([0, len(text)], np.int64), special=special).ids.tolist() for text in texts]


def totals(out) -> dict[str, int]:
    return artifacts.read_manifest(str(out), shards.KIND)["totals"]


def contents(folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.parent.name != encoding.PARTS  # these tell also when a source was changed
    }


def letters(folder) -> list[dict]:
    return [json.loads(line) for path in sorted(Path(folder).glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def fails(match: str, kind=InputError):
    return pytest.raises(kind, match=match)


# ---- texts that are cut in pieces ---------------------------------------------------------------


@pytest.mark.parametrize("special", ["text", "encode", "drop"])
@pytest.mark.parametrize("pattern", NAMED)
def test_a_file_in_pieces_is_the_file_at_once(pattern, special, tmp_path, monkeypatch):
    tokenizer = tokenizer_of(pattern, special=(END, END * 2, "  <x>  "))
    text = made_text(6_000, 3)
    rng = random.Random(4)
    places = rng.sample(range(len(text)), 80)
    for place in sorted(places, reverse=True):
        text = text[:place] + rng.choice([END, END + END, END * 3, "  <x>  ", END[:4]]) + text[place:]
    data = text.encode()
    (tmp_path / "a.txt").write_bytes(data)
    whole = expected(tokenizer, [data], special)
    for piece in (1, 23, 64, 1000):
        monkeypatch.setattr(cutting.read_pieces, "__kwdefaults__", {"piece": piece, "most": None})
        out = tmp_path / f"out-{piece}"
        encode(tmp_path / "a.txt", out, tokenizer, Encoding(special=special))
        assert documents(out) == whole
        assert columns(out) == [{"source_file": str(tmp_path / "a.txt"), "source_offset": 0}]


def test_a_file_larger_than_a_piece(tokenizer, tmp_path):
    line = made_text(1 << 20, 5)
    data = (line + END) * 9
    (tmp_path / "a.txt").write_text(data)
    (line_,) = encode(tmp_path / "a.txt", tmp_path / "out", tokenizer, Encoding(special="encode"))
    assert line_["totals"]["documents"] == 1 and line_["totals"]["special_tokens"] == 9
    assert line_["totals"]["bytes"] == len(data.encode()) > cutting.PIECE
    assert documents(tmp_path / "out") == [(expected(tokenizer, [(line + END).encode()], "encode")[0]) * 9]


@pytest.mark.parametrize("most", [1, 3, 10, 400, 100_000])
def test_most_of_a_file_in_pieces(most, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting.read_pieces, "__kwdefaults__", {"piece": 100, "most": None})
    data = made_text(3000, 6).encode()
    (tmp_path / "a.txt").write_bytes(data)
    encode(tmp_path / "a.txt", tmp_path / "out", tokenizer, Encoding(most=most))
    (whole,) = expected(tokenizer, [data])
    assert documents(tmp_path / "out") == [whole[:most]]
    assert totals(tmp_path / "out").get("cut_documents", 0) == (len(whole) > most)
    assert totals(tmp_path / "out")["bytes"] == len(data)


def test_patterns_that_cannot_be_cut_read_the_file_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting.read_pieces, "__kwdefaults__", {"piece": 100, "most": None})
    words = WordCounts.from_documents([TEXT], pattern=r"\w+|\s+")
    tokenizer = Tokenizer(train(words, 300))
    (tmp_path / "a.txt").write_text(TEXT * 5)
    encode(tmp_path / "a.txt", tmp_path / "out", tokenizer)
    assert documents(tmp_path / "out") == expected(tokenizer, [(TEXT * 5).encode()])


def test_a_document_of_too_many_tokens_is_refused(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "MOST_IDS", 10)
    (tmp_path / "a.txt").write_text(TEXT)
    with fails("one document of more than 10 tokens: choose documents='line'"):
        encode(tmp_path / "a.txt", tmp_path / "out", tokenizer)
    assert contents(tmp_path / "out") == {}


# ---- where documents stand ----------------------------------------------------------------------

BROKEN = b"first \xff line\nsecond\xe6\xa9 line\nlast line \xf0\x9f\n\n\nparagraph \xc3\x28 two\n\nthree"


@pytest.mark.parametrize("range_bytes", [7, 40, 1 << 20])
@pytest.mark.parametrize("unit, separator", [("line", None), ("paragraph", None), ("separator", "line")])
@pytest.mark.parametrize("data", [BROKEN, TEXT.encode() * 3, b"", b"\n", b"x"])
def test_offsets_slice_the_file(data, unit, separator, range_bytes, tokenizer, tmp_path):
    (tmp_path / "a.txt").write_bytes(data)
    out = tmp_path / "out"
    encode(tmp_path / "a.txt", out, tokenizer, range_bytes=range_bytes, documents=unit, separator=separator)
    found = documents(out)
    rows = columns(out)
    assert len(found) == len(rows) == totals(out).get("encoded_documents", 0)
    for ids, row in zip(found, rows):
        text = decoded(tokenizer, ids)
        raw = data[row["source_offset"] :]
        assert any(raw[:length].decode("utf-8", "replace").encode() == text for length in range(len(text) + 1)), (text, row)
    if unit == "line":
        assert [row["source_offset"] for row in rows] == np.cumsum([0, *map(len, data.splitlines(True))])[:-1].tolist()
        assert b"".join(decoded(tokenizer, ids) for ids in found) == data.decode("utf-8", "replace").encode()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines_of_json_and_their_fields(suffix, tokenizer, tmp_path):
    records = [
        {"text": "low", "id": 1, "tags": ["a", "ü"]},
        {"text": None, "id": 2},
        {"id": "three", "text": "newest\n", "lang": None},
        {"text": "", "id": {"a": 1}},
    ]
    data = b"\xef\xbb\xbf" + b"".join(json.dumps(record).encode() + b"\r\n" for record in records)
    pack = {"": bytes, ".gz": gzip.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}[suffix]
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(pack(data))
    encode(path, tmp_path / "out", tokenizer, keep=("id", "tags", "lang"))
    assert documents(tmp_path / "out") == expected(tokenizer, [b"low", b"newest\n", b""])
    rows = columns(tmp_path / "out")
    assert [(row["id"], row["tags"], row["lang"]) for row in rows] == [
        ("1", '["a", "ü"]', None),
        ("three", None, None),
        ('{"a": 1}', None, None),
    ]
    for row, record in zip(rows, [records[0], records[2], records[3]]):
        assert row["source_file"] == str(path)
        assert json.loads(data[row["source_offset"] :].split(b"\n")[0]) == record
    assert totals(tmp_path / "out")["null_documents"] == 1


TYPES = {
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "lists": pa.array([[1, 2], [], None]),
    "large_lists": pa.array([["x"], [], None], pa.large_list(pa.string())),
    "list_views": pa.array([[1], [2], None], pa.list_view(pa.int16())),
    "fixed_lists": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int8(), 2)),
    "structs": pa.array([{"a": 1, "b": {"c": ["x"]}}, None, {"a": None, "b": None}]),
    "maps": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    "timestamps": pa.array([1, 2**60 + 1, None], pa.timestamp("ns", "UTC")),
    "dates": pa.array([datetime.date(2020, 1, 1), None, datetime.date(1, 1, 1)]),
    "times": pa.array([1, 2, None], pa.time64("ns")),
    "durations": pa.array([1, 2, None], pa.duration("us")),
    "decimals": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
    "bytes": pa.array([b"\xff", b"", None]),
    "booleans": pa.array([True, None, False]),
    "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "halves": pa.array(np.array([1, 2.5, np.nan], np.float16)),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("format", shards.FORMATS)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_of_every_type_come_back(kind, format, tokenizer, tmp_path):
    types = dict(TYPES)
    if kind == "parquet":
        del types["fixed_lists"]  # pyarrow writes null ones, but does not read them
    table = pa.table({**types, "text": ["low", None, "newest"]})
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    encode(path, tmp_path / "out", tokenizer, Encoding(format=format))
    assert documents(tmp_path / "out") == expected(tokenizer, [b"low", b"newest"])
    ((_, batch),) = read_documents(str(tmp_path / "out"))
    assert batch.columns.schema.names == [*types, "source_file", "source_row"]
    for name, column in types.items():
        given, found = column.take([0, 2]), batch.columns.column(name)
        if pa.types.is_dictionary(given.type):
            given = given.dictionary_decode()
        assert found.cast(given.type).equals(given) or str(found.to_pylist()) == str(given.to_pylist()), name
    assert batch.columns["source_row"].to_pylist() == [0, 2]


def test_views_are_set_aside_like_others(tokenizer, tmp_path):
    views = pa.array(["a", "b", None], pa.string_view())
    table = pa.table({"text": ["low", END, "new"], "view": views, "bytes": views.cast(pa.binary_view())})
    pq.write_table(table, tmp_path / "a.parquet")
    wanted = Encoding(special="fail")
    encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, wanted, errors="skip", dead_letters=str(tmp_path / "rejected"))
    assert [(row["view"], row["bytes"], row["source_row"]) for row in columns(tmp_path / "out")] == [("a", b"a", 0), (None, None, 2)]


def test_chosen_columns_and_rows_of_a_table_in_groups(tokenizer, tmp_path):
    n = 1000
    texts = [None if i % 7 == 0 else f"low number {i}" for i in range(n)]
    table = pa.table({"text": texts, "a": range(n), "b": ["x"] * n, "c": range(n)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=90)
    encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, range_bytes=2000, keep=("c", "a"))
    rows = columns(tmp_path / "out")
    assert list(rows[0]) == ["c", "a", "source_file", "source_row"]
    kept = [i for i in range(n) if texts[i] is not None]
    assert [(row["a"], row["c"], row["source_row"]) for row in rows] == [(i, i, i) for i in kept]
    assert documents(tmp_path / "out") == expected(tokenizer, [texts[i].encode() for i in kept])


def test_the_text_itself_may_be_kept(tokenizer, tmp_path):
    pq.write_table(pa.table({"text": ["low", "new"], "n": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"text": "low"}\n')
    encode([tmp_path / "a.parquet", tmp_path / "b.jsonl"], tmp_path / "out", tokenizer, keep=("text",))
    assert [row["text"] for row in columns(tmp_path / "out")] == ["low", "new", "low"]


def test_rows_are_those_of_the_file_behind_broken_bytes(tokenizer, tmp_path):
    pq.write_table(pa.table({"text": [b"a\xff", b"b", None, b"\xe6\xa9", b"c"], "n": range(5)}), tmp_path / "a.parquet")
    encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer)
    assert [(row["n"], row["source_row"]) for row in columns(tmp_path / "out")] == [(i, i) for i in (0, 1, 3, 4)]
    assert documents(tmp_path / "out") == expected(tokenizer, ["a\ufffd".encode(), b"b", "\ufffd".encode(), b"c"])


@pytest.mark.parametrize("name", ["ids", "chunk", "segments", "source_file", "source_row", "source_offset"])
def test_names_of_the_output_are_refused(name, tokenizer, tmp_path):
    pq.write_table(pa.table({"text": ["low"], name: [1], "n": [2]}), tmp_path / "a.parquet")
    with fails(f"a.parquet has the column '{name}', which the output has of its own: name the columns to keep"):
        encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer)
    encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, keep=("n",))
    assert columns(tmp_path / "out")[0]["n"] == 2
    with pytest.raises(ValueError, match="the output has columns of its own of that name"):
        Encoding().check(tokenizer, reading_for(tokenizer, keep=(name,)))


def test_missing_columns_are_named(tokenizer, tmp_path):
    pq.write_table(pa.table({"text": ["low"], "n": [1]}), tmp_path / "a.parquet")
    with fails("has no column 'm'; it has text, n"):
        encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, keep=("m",))


# ---- nothing there ------------------------------------------------------------------------------


@pytest.mark.parametrize("format", shards.FORMATS)
def test_empty_inputs(format, tokenizer, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(b"")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"text": pa.nulls(3, pa.string())}), tmp_path / "d.parquet")
    names = ["a.txt", "b.jsonl", "c.parquet", "d.parquet"]
    lines = encode([tmp_path / name for name in names], tmp_path / "out", tokenizer, Encoding(format=format))
    assert [line["rows"] for line in lines] == [1, 0, 0, 0]  # a file is a document, though an empty one
    assert [bool(line["files"]) for line in lines] == [True, False, False, False]
    assert documents(tmp_path / "out") == [[]]
    assert totals(tmp_path / "out") == {"documents": 1, "encoded_documents": 1, "null_documents": 3}
    again = encode([tmp_path / name for name in names], tmp_path / "out", tokenizer, Encoding(format=format), resume=True)
    assert all(line["resumed"] for line in again)


def test_ranges_without_a_row_group_leave_no_file(tokenizer, tmp_path):
    pq.write_table(pa.table({"text": [made_text(3000, i) for i in range(20)]}), tmp_path / "a.parquet")
    lines = encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, range_bytes=1000)
    assert len(lines) > 5 and [line["rows"] for line in lines] == [20] + [0] * (len(lines) - 1)
    assert [path.name for path in (tmp_path / "out").glob("part-*")] == [f"{part_name(0, len(lines))}.parquet"]


# ---- what is set aside ---------------------------------------------------------------------------


def in_all(found: dict[str, int]) -> int:
    return found.get("documents", 0) + found.get("skipped_documents", 0) + found.get("null_documents", 0)


def check_sum(found: dict[str, int]) -> None:
    parts = ("encoded_documents", "failed_documents", "overlong_documents")
    assert found.get("documents", 0) == sum(found.get(name, 0) for name in parts)


def test_every_reason_to_set_aside(tokenizer, tmp_path):
    texts = [b"low", None, b"x" * 100, f"a {END} b".encode(), b"bad \xff", b"new"]
    pq.write_table(pa.table({"text": texts, "n": range(6)}), tmp_path / "a.parquet")
    lines = [json.dumps({"text": text and text.decode("latin-1")}).encode() for text in texts]
    (tmp_path / "b.jsonl").write_bytes(b"\n".join([*lines, b"{]", b'{"other": 1}']))
    wanted = Encoding(special="fail", max_document_bytes=99)
    options = {"errors": "skip", "dead_letters": str(tmp_path / "out" / "rejected")}
    encode([tmp_path / "a.parquet", tmp_path / "b.jsonl"], tmp_path / "out", tokenizer, wanted, **options)
    found = totals(tmp_path / "out")
    check_sum(found)
    assert in_all(found) == 6 + 8
    assert found["encoded_documents"] == 2 + 3 and found["failed_documents"] == 2 == found["overlong_documents"]
    assert found["null_documents"] == 2 and found["skipped_documents"] == 1 + 2
    told = letters(tmp_path / "out" / "rejected")
    assert len(told) == sum(found[f"{name}_documents"] for name in ("failed", "overlong", "skipped"))
    of_rows = {letter["row"]: letter for letter in told if "row" in letter}
    assert {row: letter["reason"] for row, letter in of_rows.items()} == {
        2: "100 bytes, more than 99",
        3: f"the document holds the special token '{END}' at byte 2, and special='fail': choose 'text', 'encode' or 'drop'",
        4: "not UTF-8 at its offset 4",
    }
    for row, letter in of_rows.items():
        assert base64.b64decode(letter["bytes"]) == texts[row] and letter["source"] == str(tmp_path / "a.parquet")
    data = (tmp_path / "b.jsonl").read_bytes()
    for letter in told:
        if "offset" in letter and letter["reason"].startswith(("the document", "100")):
            assert json.loads(data[letter["offset"] :].split(b"\n")[0])["text"].encode() == base64.b64decode(letter["bytes"])
    assert [row["n"] for row in columns(tmp_path / "out") if row.get("n") is not None] == [0, 5]


def test_without_skip_the_error_names_the_place(tokenizer, tmp_path):
    pq.write_table(pa.table({"text": ["low", f"a{END}"]}), tmp_path / "a.parquet")
    with fails(r"a.parquet, row 1: the document holds the special token '<\|end\|>' at byte 1.*errors='skip' sets"):
        encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, Encoding(special="fail"))
    (tmp_path / "a.txt").write_text(f"low\nb{END}\n")
    with fails(r"a.txt, offset 4: the document holds"):
        encode(tmp_path / "a.txt", tmp_path / "out", tokenizer, Encoding(special="fail"), documents="line")
    with fails(r"a.txt, offset 0: the document holds the special token '<\|end\|>' at byte 5"):
        encode(tmp_path / "a.txt", tmp_path / "out", tokenizer, Encoding(special="fail"))
    assert contents(tmp_path / "out") == {}


@pytest.mark.parametrize("where", [10, 5000])
def test_a_file_that_fails_in_one_piece_is_set_aside_whole(where, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting.read_pieces, "__kwdefaults__", {"piece": 500, "most": None})
    data = made_text(6000, 8)
    (tmp_path / "a.txt").write_text(data[:where] + END + data[where:])
    (tmp_path / "b.txt").write_text("low")
    options = {"errors": "skip", "dead_letters": str(tmp_path / "rejected")}
    encode([tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "out", tokenizer, Encoding(special="fail"), **options)
    assert documents(tmp_path / "out") == expected(tokenizer, [b"low"])
    (letter,) = letters(tmp_path / "rejected")
    assert letter["offset"] == 0 and END in letter["reason"]
    assert ("of the piece from byte" in letter["reason"]) == (where > 500)
    found = totals(tmp_path / "out")
    check_sum(found)
    assert (found["failed_documents"], found["encoded_documents"]) == (1, 1)


def test_a_long_file_is_set_aside_whole(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting.read_pieces, "__kwdefaults__", {"piece": 500, "most": None})
    (tmp_path / "a.txt").write_text("a " * 2000)
    (tmp_path / "b.txt").write_text("low")
    wanted = Encoding(max_document_bytes=1800)
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    encode(files, tmp_path / "out", tokenizer, wanted, dead_letters=str(tmp_path / "rejected"))
    assert [letter["reason"] for letter in letters(tmp_path / "rejected")] == ["4,000 bytes, more than 1,800"]
    assert totals(tmp_path / "out") == {
        "bytes": 4003,
        "documents": 2,
        "encoded_documents": 1,
        "overlong_documents": 1,
        "tokens": len(documents(tmp_path / "out")[0]),
    }


def test_a_regex_that_takes_too_long(tmp_path):
    slow = dataclasses.replace(pre_tokenizer(r"(a|aa)+$|x"), time_limit=0.05)
    words = WordCounts.from_documents(["low lower"], pattern="whitespace")
    vocabulary = dataclasses.replace(train(words, 260), pre_tokenizer=slow)
    tokenizer = Tokenizer(vocabulary)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "low"}) + "\n" + json.dumps({"text": "a" * 80 + "b"}) + "\n")
    with fails("a.jsonl, offset 16: .*errors='skip' sets the document aside"):
        encode(tmp_path / "a.jsonl", tmp_path / "out", tokenizer)
    encode(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, errors="skip", dead_letters=str(tmp_path / "rejected"))
    assert totals(tmp_path / "out")["failed_documents"] == 1 == totals(tmp_path / "out")["encoded_documents"]
    assert [letter["offset"] for letter in letters(tmp_path / "rejected")] == [16]


def test_letters_of_an_earlier_run_do_not_stay(tokenizer, tmp_path):
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    options = {"errors": "skip", "dead_letters": str(out / "rejected")}
    path.write_text('{"text": "%s"}\n{]\n' % END)
    (out / "rejected").mkdir(parents=True)
    (out / "rejected" / "notes.txt").write_text("of somebody else")
    encode(path, out, tokenizer, Encoding(special="fail"), **options)
    assert len(letters(out / "rejected")) == 2
    path.write_text('{"text": "low"}\n')
    encode(path, out, tokenizer, Encoding(special="fail"), **options)
    assert letters(out / "rejected") == [] and (out / "rejected" / "notes.txt").exists()
    path.write_text('{"text": "low"}\n{]\n')
    encode(path, out, tokenizer, **options)
    (tmp_path / "b.jsonl").write_text('{"text": "low"}\n')
    encode(tmp_path / "b.jsonl", out, tokenizer, **options)  # another corpus: nobody names those of the first
    assert letters(out / "rejected") == []


# ---- bos, eos, rows of one length ----------------------------------------------------------------


def laid_out(docs, bos, eos, most, packing):
    """Return (rows, segments) as they should be, in plain Python."""
    docs = [doc if most is None else doc[: most - len(bos) - len(eos)] for doc in docs]
    docs = [[*bos, *doc, *eos] for doc in docs]
    if packing is None:
        return docs, None
    rows, segments = [], []
    row, segment, number = [], [], 0

    def flush():
        nonlocal row, segment, number
        rows.append(row)
        segments.append(segment)
        row, segment, number = [], [], 0

    def pad():
        segment.extend([0] * (packing.length - len(row)))
        row.extend([packing.pad_id] * (packing.length - len(row)))

    for doc in docs:
        if not packing.split and row and len(doc) <= packing.length < len(row) + len(doc):
            pad()
            flush()
        while doc:
            number += 1
            taken, doc = doc[: packing.length - len(row)], doc[packing.length - len(row) :]
            row += taken
            segment += [number] * len(taken)
            if len(row) == packing.length:
                flush()
    if row and packing.remainder != "drop":
        if packing.remainder == "pad":
            pad()
        flush()
    return rows, segments


PACKINGS = [
    None,
    *(Packing(length, "drop") for length in (1, 7, 64)),
    *(Packing(length, "keep") for length in (7, 64)),
    *(Packing(length, "pad", 5, split=split) for length in (7, 64) for split in (True, False)),
]


@pytest.mark.parametrize("bos, eos, most", [((), (), None), ((END,), (), None), ((), (END, 3), 9), ((65, 66), (END,), 4)])
@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_marks_and_rows_are_those_of_plain_python(packing, bos, eos, most, tokenizer, tmp_path):
    texts = [made_text(random.Random(i).choice([1, 10, 50, 300]), i) for i in range(60)] + ["", "low"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    end = tokenizer.id_of(END)
    ids = [[end if token == END else token for token in tokens] for tokens in (bos, eos)]
    docs = expected(tokenizer, [text.encode() for text in texts])
    rows, segments = laid_out(docs, *ids, most, packing)
    cut = sum(most is not None and len(doc) > most - len(bos) - len(eos) for doc in docs)
    tokens = sum(len(doc) for doc in laid_out(docs, *ids, most, None)[0])
    for format in shards.FORMATS:
        if packing and (format == "megatron" or (format == "npy" and packing.remainder == "keep")):
            with pytest.raises(ValueError, match="rows of one length"):
                Encoding(format=format, packing=packing)
            continue
        wanted = Encoding(format=format, bos=bos, eos=eos, most=most, packing=packing)
        out = tmp_path / format
        encode(tmp_path / "a.jsonl", out, tokenizer, wanted)
        assert documents(out) == rows
        manifest = artifacts.read_manifest(str(out), shards.KIND)
        assert manifest["parameters"]["bos"] == ids[0] and manifest["parameters"]["eos"] == ids[1]
        assert manifest["parameters"]["most"] == most
        found = manifest["totals"]
        check_sum(found)
        assert (found["encoded_documents"], found["tokens"], found.get("cut_documents", 0)) == (len(texts), tokens, cut)
        if packing is not None:
            kept = [each.tolist() for _, b in read_documents(str(out)) for each in np.split(b.segments, b.ends[:-1])]
            assert kept == segments
            assert manifest["parameters"]["packing"] == dataclasses.asdict(packing)
            padding = sum(each.count(0) for each in segments)
            assert found.get("padding_tokens", 0) == padding
            assert found.get("dropped_tokens", 0) == tokens - sum(map(len, rows)) + padding
            assert found.get("rows", 0) == len(rows)


def test_packed_rows_read_no_other_columns(tokenizer, tmp_path):
    pq.write_table(pa.table({"text": ["low low"], "ids": [1], "n": [2]}), tmp_path / "a.parquet")
    encode(tmp_path / "a.parquet", tmp_path / "out", tokenizer, Encoding(packing=Packing(1, "drop")))
    assert columns(tmp_path / "out")[0] == {"first_document": 0, "documents": 1}
    with pytest.raises(ValueError, match="a packed row holds several documents"):
        Encoding(packing=Packing(4, "drop")).check(tokenizer, reading_for(tokenizer, keep=("n",)))


def test_arguments_are_checked(tokenizer):
    for message, options in {
        "format='csv': choose one of parquet": {"format": "csv"},
        "special='no': choose one of text": {"special": "no"},
        "max_document_bytes is 0": {"max_document_bytes": 0},
        "packs documents itself": {"format": "megatron", "packing": Packing(4, "drop")},
    }.items():
        with pytest.raises(ValueError, match=message):
            Encoding(**options)
    reading = reading_for(tokenizer)
    for wrong in ({"bos": ("<none>",)}, {"eos": (1 << 20,)}, {"packing": Packing(4, "pad", 1 << 20)}):
        with pytest.raises(KeyError, match="is no token of this vocabulary"):
            Encoding(**wrong).check(tokenizer, reading)
    with pytest.raises(ValueError, match="a name stands twice"):
        Encoding().check(tokenizer, reading_for(tokenizer, keep=("a", "a")))
    with pytest.raises(ValueError, match="must be more than the 2 ids of bos and eos"):
        Encoding(bos=(1,), eos=(2,), most=2).check(tokenizer, reading)


@pytest.mark.parametrize("count, dtype", [(1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_ids_are_as_wide_as_the_vocabulary_needs(count, dtype, tmp_path):
    special = [f"<{i}>" for i in range(count - 256)]
    tokenizer = Tokenizer(train({"low": 1}, count, special_tokens=special))
    (tmp_path / "a.jsonl").write_text('{"text": "low"}')
    for format in shards.FORMATS:
        out = tmp_path / format
        encode(tmp_path / "a.jsonl", out, tokenizer, Encoding(format=format, eos=(special[-1],)))
        ((_, batch),) = read_documents(str(out))
        assert batch.ids.tolist()[-1] == count - 1
        if format != "megatron":  # which has 2 bytes below 65,500 ids
            assert batch.ids.dtype == dtype
            assert artifacts.read_manifest(str(out), shards.KIND)["parameters"]["vocab_size"] == count


# ---- again: the same bytes, and what is skipped ---------------------------------------------------


@pytest.fixture
def corpus(tmp_path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.jsonl").write_text("".join(json.dumps({"text": made_text(200, 50 * i + k)}) + "\n" for k in range(20)))
    (folder / "3.txt").write_text(made_text(3000, 99))
    return folder


@pytest.mark.parametrize("format", shards.FORMATS)
def test_any_order_gives_the_same_bytes(format, corpus, tokenizer, tmp_path):
    wanted = Encoding(format=format)
    encode(corpus, tmp_path / "a", tokenizer, wanted, range_bytes=1000)
    encode(corpus, tmp_path / "b", tokenizer, wanted, range_bytes=1000, order=lambda found: random.Random(1).sample(found, len(found)))
    assert contents(tmp_path / "a") == contents(tmp_path / "b") and len(contents(tmp_path / "a")) > 8


def test_output_in_memory(corpus, tokenizer, tmp_path):
    encode(corpus, "memory://encoding/out", tokenizer, range_bytes=1000)
    encode(corpus, tmp_path / "out", tokenizer, range_bytes=1000)
    for name, data in contents(tmp_path / "out").items():
        assert storage.read_bytes(f"memory://encoding/out/{name}") == data
    claim("memory://encoding/out", overwrite=True)
    assert not storage.exists("memory://encoding/out/_manifest.json")
    lines = encode(corpus, "memory://encoding/out", tokenizer, range_bytes=1000, resume=True)
    assert all(line["resumed"] for line in lines)


def resumed(lines) -> list[int]:
    return [number for number, line in enumerate(lines) if line.get("resumed")]


@pytest.mark.parametrize("format", shards.FORMATS)
def test_resume_skips_what_stands(format, corpus, tokenizer, tmp_path):
    out, wanted = tmp_path / "out", Encoding(format=format)
    first = encode(corpus, out, tokenizer, wanted)
    before, times = contents(out), {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    names = [[file["name"] for file in line["files"]] for line in first]
    os.remove(out / names[0][-1])
    (out / names[1][0]).write_bytes(b"cut short")
    lines = encode(corpus, out, tokenizer, wanted, resume=True)
    assert resumed(lines) == [2, 3]
    assert contents(out) == before
    for number in (2, 3):
        for name in names[number]:
            assert (out / name).stat().st_mtime_ns == times[out / name]


def test_resume_encodes_again_what_is_of_something_else(corpus, tokenizer, tmp_path):
    out = tmp_path / "out"
    encode(corpus, out, tokenizer)
    assert resumed(encode(corpus, out, tokenizer, resume=True)) == [0, 1, 2, 3]
    assert resumed(encode(corpus, out, tokenizer, Encoding(eos=(END,)), resume=True)) == []
    assert resumed(encode(corpus, out, tokenizer_of(tokens=149), Encoding(eos=(END,)), resume=True)) == []
    encode(corpus, out, tokenizer)
    with open(corpus / "1.jsonl", "a") as file:
        file.write('{"text": "low"}\n')
    data = (corpus / "2.jsonl").read_bytes()
    (corpus / "2.jsonl").write_bytes(data.replace(b"low", b"wol"))  # of the same size, but changed
    os.utime(corpus / "2.jsonl", ns=(1, 1))
    assert resumed(encode(corpus, out, tokenizer, resume=True)) == [0, 3]
    encode(corpus, tmp_path / "fresh", tokenizer)
    assert contents(out) == contents(tmp_path / "fresh")


def test_a_line_never_speaks_for_the_shard_of_another_run(corpus, tokenizer, tmp_path, monkeypatch):
    out = tmp_path / "out"
    encode(corpus, out, tokenizer)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # killed behind the shard and before its line
        patch.setattr(storage, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            encode(corpus, out, tokenizer, Encoding(special="drop"))
    assert resumed(encode(corpus, out, tokenizer, resume=True)) == [1, 2, 3]


def test_fewer_shards_leave_none_behind(corpus, tokenizer, tmp_path):
    out = tmp_path / "out"
    encode(corpus, out, tokenizer, range_bytes=500)
    encode(corpus, out, tokenizer, Encoding(format="npy"))
    encode(corpus, tmp_path / "fresh", tokenizer, Encoding(format="npy"))
    assert contents(out) == contents(tmp_path / "fresh")
    assert len(list((out / encoding.PARTS).iterdir())) == 4


# ---- folders -------------------------------------------------------------------------------------


def test_claim(corpus, tokenizer, tmp_path):
    out = tmp_path / "out"
    claim(str(out))
    claim(str(out))  # nothing but our mark
    encode(corpus, out, tokenizer)
    parameters = Encoding().parameters(tokenizer, reading_for(tokenizer))
    with pytest.raises(FileExistsError, match="already holds encoded documents"):
        claim(str(out), parameters)
    other = Encoding(eos=(END,)).parameters(tokenizer, reading_for(tokenizer))
    with pytest.raises(FileExistsError, match=r"encoded in another way \(eos is \[\] there and \[\d+\] here\)"):
        claim(str(out), other, resume=True)
    assert (out / "_manifest.json").exists()
    claim(str(out), parameters, resume=True)
    assert not (out / "_manifest.json").exists()  # readers must not see it while shards are replaced
    claim(str(out), other)  # an unfinished run of ours


@pytest.mark.parametrize("name", ["notes.txt", "part-00000-of-00001.parquet", "part-0-abc.snappy.parquet", "data/x"])
@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}])
def test_a_folder_of_somebody_else_is_not_touched(name, options, tmp_path):
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match="which is not of ours: choose another folder"):
        claim(str(tmp_path / "out"), **options)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}])
def test_a_folder_of_words_is_not_touched(options, tmp_path):
    WordCounts.from_documents(["low"]).write(str(tmp_path / "out"))
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match="something else than encoded documents"):
        claim(str(tmp_path / "out"), **options)
    assert contents(tmp_path) == before


def test_what_others_put_beside_our_shards_stays(corpus, tokenizer, tmp_path):
    out = tmp_path / "out"
    encode(corpus, out, tokenizer)
    theirs = ["README.md", "part-00000-of-00001.md", "part-00009-of-00010.parquet.bak", "_parts/notes.txt"]
    for name in theirs:
        (out / name).write_text("precious")
    claim(str(out), overwrite=True)
    encode(corpus, out, tokenizer)
    assert all((out / name).exists() for name in theirs)


def test_a_broken_manifest_is_no_licence(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_manifest.json").write_text("{")
    with pytest.raises(FileExistsError):
        claim(str(tmp_path / "out"), overwrite=True)


def test_unfinished_folders_are_not_read(corpus, tokenizer, tmp_path):
    claim(str(tmp_path / "out"))
    with pytest.raises(FileNotFoundError, match="not a finished folder of encoded"):
        list(read_documents(str(tmp_path / "out")))
    (tmp_path / "out" / "_manifest.json").write_text('{"kind": "words"}')
    with pytest.raises(FormatError):
        list(read_documents(str(tmp_path / "out")))


# ---- any documents -------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=12), st.sampled_from(shards.FORMATS), st.booleans())
def test_any_documents_come_back(tmp_path_factory, texts, format, table):
    folder = tmp_path_factory.mktemp("any")
    tokenizer = TOKENIZER
    if table:
        path = folder / "a.parquet"
        pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path, row_group_size=5)
    else:
        path = folder / "a.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    encode(path, folder / "out", tokenizer, Encoding(format=format), range_bytes=100)
    assert [decoded(tokenizer, ids).decode() for ids in documents(folder / "out")] == texts
    rows = columns(folder / "out")
    if table:
        assert [row["source_row"] for row in rows] == list(range(len(texts)))


TOKENIZER = tokenizer_of()
