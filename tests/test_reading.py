"""Documents of every format, range and policy against plain Python."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import random
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_bpe import _words, cutting, reading as module
from beam_bpe.cutting import WordRule
from beam_bpe.documents import InputError, Reading, SourceRange, find_files, ranges
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reading import documents_of, read_range, repair
from beam_bpe.special import SpecialTokens

O200K = WordRule(pre_tokenizer("o200k"))
PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
UNITS = {
    "file": {"cut_by": (O200K,)},
    "uncut": {},
    "line": {"documents": "line"},
    "paragraph": {"documents": "paragraph"},
    "separator": {"documents": "separator", "separator": "\n\n"},
    "token": {"documents": "separator", "separator": "<|endoftext|>"},
}
hypothesis_with_files = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def pieces_of(monkeypatch):
    """Return a function that sets how many bytes of a text are read at a time."""
    return lambda size: monkeypatch.setitem(cutting.read_pieces.__kwdefaults__, "piece", size)


class Read:
    """All that was read of some inputs: documents (bytes, whole) and totals, and the batches themselves."""

    def __init__(self, inputs, reading: Reading, range_bytes: int = 1 << 30):
        inputs = [str(each) for each in inputs] if isinstance(inputs, list) else str(inputs)
        self.documents: list[bytes] = []
        self.totals: dict[str, int] = {}
        self.batches = []
        for source in ranges(find_files(inputs, reading), reading, range_bytes):
            for batch in read_range(source, reading):
                self._add(batch)

    def _add(self, batch) -> None:
        self.batches.append(batch)
        for name, count in batch.totals.items():
            assert isinstance(count, int)
            self.totals[name] = self.totals.get(name, 0) + count
        found = documents_in(batch)
        if batch.continues:
            self.documents[-1] += found.pop(0)
        self.documents += found

    def __getitem__(self, total: str) -> int:
        return self.totals.get(total, 0)

    def counted(self, specials=()) -> tuple:
        table = _words.WordTable(documents=True)
        words = 0
        for batch in self.batches:
            bounds, _ = SpecialTokens(specials).cut(batch.data, batch.bounds)
            words += O200K.pre_tokenizer.count(table, batch.data, bounds, continues=batch.continues).words
        return table.pack(1, ordered=True), words


def documents_in(batch) -> list[bytes]:
    data = bytes(batch.data)
    found = [data[i:j] for i, j in batch.bounds.reshape(-1, 2).tolist()]
    assert all(map(is_text, found))
    return found


def units_of(data: bytes, unit: str) -> list[bytes]:
    """Return the documents of a text by their definition."""
    if unit in ("file", "uncut"):
        return [data]
    if unit == "line":
        return list(io.BytesIO(data))
    if unit == "paragraph":
        data = re.sub(rb"^(\r?\n)+|(\r?\n)+\Z", b"", data)
        return [each for each in re.split(rb"\r?\n(?:\r?\n)+", data) if each]
    return [each for each in data.split(UNITS[unit]["separator"].encode()) if each]


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def replaced_in(data: bytes) -> int:
    """Count the characters that Python's decoder replaces."""
    count = at = 0
    while True:
        try:
            data[at:].decode()
            return count
        except UnicodeDecodeError as error:
            at += error.end
            count += 1


def letters_in(folder: Path) -> list[dict]:
    paths = sorted(folder.glob("*")) if folder.exists() else []
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def read_all(data: bytes, path: Path, unit: str, errors: str, range_bytes: int, dead: Path | None = None) -> Read:
    path.write_bytes(data)
    return Read(path, Reading(**UNITS[unit], errors=errors, dead_letters=dead and str(dead)), range_bytes)


def check_text(data: bytes, path: Path, unit: str, range_bytes: int) -> None:
    """Hold a text, under each policy, against plain Python."""
    expected = units_of(data, unit)
    good = [each for each in expected if is_text(each)]
    between = len(data) - sum(map(len, expected))

    read = read_all(data, path, unit, "replace", range_bytes)
    assert read.documents == [each.decode("utf-8", "replace").encode() for each in expected if data]
    assert read["documents"] == len(expected)
    assert read["replaced_characters"] == replaced_in(data)
    assert read["separator_bytes"] == between
    assert read["bytes"] == sum(map(len, read.documents)) + between
    assert read["skipped_documents"] == 0

    if is_text(data):
        assert read_all(data, path, unit, "strict", range_bytes).documents == read.documents
    else:
        with pytest.raises(UnicodeDecodeError) as wrong:
            data.decode()
        with pytest.raises(InputError, match=re.escape(f"{path}: the byte 0x{data[wrong.value.start]:02x} at offset ")):
            read_all(data, path, unit, "strict", range_bytes)

    dead = path.parent / "dead"
    for letter in dead.glob("*"):
        letter.unlink()
    skipped = read_all(data, path, unit, "skip", range_bytes, dead)
    assert [each for each in skipped.documents if each] == [each for each in good if each]
    assert skipped["documents"] == len(good)
    assert skipped["skipped_documents"] == len(expected) - len(good)
    assert skipped["replaced_characters"] == 0
    assert skipped["bytes"] == sum(map(len, good)) + (between if unit not in ("file", "uncut") else 0)
    letters = letters_in(dead)
    assert len(letters) == len(expected) - len(good)
    assert all(letter["source"] == str(path) for letter in letters)
    if unit not in ("file", "uncut"):
        letters.sort(key=lambda letter: letter["offset"])
        aside = [base64.b64decode(letter["bytes"]) for letter in letters]
        assert aside == [each for each in expected if not is_text(each)]
        for letter, document in zip(letters, aside):
            offset = letter["offset"]
            assert data[offset : offset + len(document)] == document
            with pytest.raises(UnicodeDecodeError) as wrong:
                document.decode()
            assert letter["reason"] == f"not UTF-8 at offset {offset + wrong.value.start}"


# ---- text ----

PARTS = [
    b"one", b" two", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"<|endoftext|>", b"<|endof", b"text|>", b" ", b"\xff", b"\xe2\x82",
    b"\xf0\x9f\x91\x8d", b"\xc3\xa9", b"\0", b"\xef\xbb\xbf", b"\xed\xa0\x80", "\ufffd".encode(), b"'s", b"12",
]  # fmt: skip
texts = st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join)


@pytest.mark.parametrize("unit", UNITS)
@given(data=texts, range_bytes=st.integers(1, 40))
@settings(hypothesis_with_files, max_examples=80)
def test_texts_of_every_unit_range_and_policy(tmp_path, unit, data, range_bytes):
    check_text(data, tmp_path / "a.txt", unit, range_bytes)


@pytest.mark.parametrize("unit", UNITS)
def test_nasty_texts(shared, tmp_path, unit):
    for path in sorted((shared / "corpora" / "nasty").iterdir()):
        data = path.read_bytes()
        for range_bytes in (1 << 30, max(1, len(data) // 5)):
            check_text(data, tmp_path / path.with_suffix(".txt").name, unit, range_bytes)


@pytest.mark.parametrize("unit", ["file", "line", "paragraph", "separator"])
def test_a_real_text_in_small_pieces_and_ranges(shared, tmp_path, unit, pieces_of):
    data = (shared / "corpora" / "mixed-1m.txt").read_bytes()
    specials = ("<|endoftext|>", "the ")
    options = UNITS[unit] if unit != "file" else {"cut_by": (WordRule(O200K.pre_tokenizer, specials),)}
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(data, 1))
    expected = Read(path, Reading(**options))
    assert expected.documents == units_of(data, unit)
    pieces_of(10_000)
    for inputs, range_bytes in ((path, 1 << 30), (path, 77_777), (path, 5000), (tmp_path / "a.txt.gz", 1)):
        read = Read(inputs, Reading(**options), range_bytes)
        assert len(read.batches) > 20
        assert read.documents == expected.documents
        assert read.totals == expected.totals
        assert read.counted(specials) == expected.counted(specials)


def test_every_invalid_byte_is_named_by_its_offset(tmp_path):
    path = tmp_path / "a.txt"
    for unit in UNITS:
        for at in (0, 1, 1000, 5000, 9998):
            data = bytearray(b"some words\n" * 909 + b"x")
            data[at] = 0xFF
            for range_bytes in (1 << 20, 1000):
                with pytest.raises(InputError) as error:
                    read_all(bytes(data), path, unit, "strict", range_bytes)
                assert f"{path}: the byte 0xff at offset {at:,} is not valid UTF-8" in str(error.value)


def test_repair_counts_what_python_replaces():
    random_ = random.Random(1)
    for _ in range(2000):
        data = b"".join(random_.choices(PARTS + [b"\xe2", b"\x80", b"\xf4\x90", b"\xc0"], k=8))
        assert repair(data) == (data.decode("utf-8", "replace").encode(), replaced_in(data))


def test_dead_letters_are_the_same_when_read_again(tmp_path):
    dead = tmp_path / "dead"
    data = b"good\n\xffbad\n" * 100
    first = read_all(data, tmp_path / "a.txt", "line", "skip", 50, dead)
    files = {path.name: path.read_bytes() for path in dead.iterdir()}
    again = read_all(data, tmp_path / "a.txt", "line", "skip", 50, dead)
    assert {path.name: path.read_bytes() for path in dead.iterdir()} == files
    assert first.totals == again.totals
    assert len(letters_in(dead)) == first["skipped_documents"] == 100 and len(files) > 10
    assert sorted(letter["offset"] for letter in letters_in(dead)) == list(range(5, 1000, 10))


def test_dead_letters_of_a_range_that_fails_are_not_published(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\ngood\n")
    reading = Reading(documents="line", errors="skip", dead_letters=str(tmp_path / "dead"))
    batches = read_range(SourceRange(str(tmp_path / "a.txt"), None, "text", 0, None), reading)
    next(batches)
    batches.close()
    assert letters_in(tmp_path / "dead") == []


def test_an_empty_file_is_one_document_and_no_line(tmp_path):
    assert read_all(b"", tmp_path / "a.txt", "file", "replace", 10)["documents"] == 1
    for unit in ("line", "paragraph", "separator"):
        assert read_all(b"", tmp_path / "a.txt", unit, "replace", 10)["documents"] == 0


def test_a_text_that_cannot_be_cut_has_a_limit_when_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_UNCUT", 1000)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a" * 1001))
    with pytest.raises(InputError, match="a.txt.gz cannot be cut .* more than 1,000 bytes"):
        Read(tmp_path / "a.txt.gz", Reading())
    assert Read(tmp_path / "a.txt.gz", Reading(cut_by=(O200K,)))["bytes"] == 1001


def test_documents_are_counted_once_when_whole(tmp_path, pieces_of):
    pieces_of(10)
    (tmp_path / "a.txt").write_bytes(b" word" * 1000)
    read = Read(tmp_path / "a.txt", Reading(cut_by=(O200K,), whole=True), 100)
    assert len(read.batches) > 100 and read["documents"] == 1
    (_, packed), *_ = read.counted()[0]
    counts, documents = _words.unpack(packed)[4:6]
    assert np.frombuffer(counts, np.int64).tolist() == [1000]
    assert np.frombuffer(documents, np.int64).tolist() == [1]


# ---- compression ----


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("unit", ["file", "line"])
def test_packed_texts_are_read_as_plain_ones(tmp_path, suffix, unit):
    data = b"".join(b"line %d\xff\n" % i for i in range(5000))
    plain = read_all(data, tmp_path / "a.txt", unit, "replace", 1 << 30)
    (tmp_path / f"b.txt{suffix}").write_bytes(PACK[suffix](data))
    packed = Read(tmp_path / f"b.txt{suffix}", Reading(**UNITS[unit]), 10)
    assert packed.documents == plain.documents and packed.totals == plain.totals


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_truncated_file_fails_or_is_set_aside_whole(tmp_path, suffix, name, pieces_of):
    pieces_of(1000)
    random_ = random.Random(2)
    data = b"".join(b'{"text": "%x"}\n' % random_.getrandbits(256) for _ in range(2000))
    packed = PACK[suffix](data)
    path = tmp_path / (name + suffix)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    for unit in ("file", "line", "token"):
        for errors in ("replace", "strict"):
            with pytest.raises(InputError, match=re.escape(str(path))):
                Read(path, Reading(**UNITS[unit], errors=errors))
        reading = Reading(**UNITS[unit], errors="skip", dead_letters=str(tmp_path / "dead"))
        read = Read(path, reading)
        assert read.documents == [] and {k: v for k, v in read.totals.items() if v} == {"skipped_documents": 1}
        (letter,) = letters_in(tmp_path / "dead")
        assert letter["source"] == str(path) and str(path) in letter["reason"] and letter["offset"] == 0


# ---- JSON lines ----


def texts_of_lines(data: bytes, errors: str, field: str = "text") -> tuple[list[bytes], int, int]:
    """Return documents, nulls and the number of lines set aside, by Python's json."""
    documents, nulls, aside = [], 0, 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            decoded = line.decode("utf-8", "replace" if errors == "replace" else "strict")
            text = json.loads(decoded, parse_int=len)[field]
            if text is None:
                nulls += 1
                continue
            if not isinstance(text, str):
                raise TypeError
            if errors == "replace":
                text = re.sub("[\ud800-\udfff]", "\ufffd", text)
            documents.append(text.encode())
        except (ValueError, TypeError, KeyError, IndexError):
            aside += 1
    return documents, nulls, aside


ORDINARY = [
    b'{"text": "plain"}', b'{"text": ""}', b'{"text": "\\u00e9\\ud83d\\ude00 \\n \\u0000 \\/"}', b'{"id": 1, "text": "x"}',
    b'{"id": "one", "text": "y", "more": [1, {"a": null}]}', b'{"id": null, "text": "z", "more": 1.5e3}',
    b'{"a": {"text": 5}, "text": "inner"}', b'{"te\\u0078t": "key"}', b'{"text": "\xf0\x9f\x91\x8d"}', b' {"text": "s"} \t',
    b'{"text": "Inf} null", "x": "} null"}', b'{"a": 1, "a": 2, "text": "d"}', b'{"text":"\\ufeff\\uffff"}',
]  # fmt: skip
ODD = [
    b"", b"", b" ", b"\r", b"\t\r", b'{"text": null}', b'{"text": "a", "text": "b"}', b'{"text": "a", "text": null}', b"null",
    b"{}", b"[]", b"5", b'"text"', b'{"text": 5}', b'{"text": true}', b'{"text": ["a"]}', b'{"text": {"a": "b"}}',
    b'{"other": "x"}', b'{"text": "a"', b'{"text": "a"} x', b'{"text": "a"}{"text": "b"}', b'{"text": "a"},', b'{"text":',
    b'"a"}', b'{"x": {', b'}, "text": "b"}', b'{"text": "a"}\r{"text": "b"}', b'{"text": "a"} null', b'null {"text": "a"}',
    b'{"text": "a"}\0', b"\0", b'{"text": "a\0b"}', b'{"text": "a\tb"}', b'{"text": "a", "x": NaN}', b'{"text": "a", "x": Inf}',
    b'{"text": "a", "x": [-Inf ]}', b'{"text": "a", "x": -Infinity}', b'{"text": "a", "x": 1e999}', b'{"text": "a", "x": 01}',
    b'{"text": "\\ud83d"}', b'{"text": "\\ude00 low"}', b'{"text": "a", "x": "\\ud800"}',
    b'{"text": "\xff"}', b'{"text": "a", "x": "\xe2\x82"}', b'{"text": "\xed\xa0\x80"}', b'{"text": "a",}', b"{'text': 'a'}",
    b"\xef\xbb\xbf{}", b'{"text": "a"} // c', b'{"text": "\\x"}', b"not JSON", b'{"text": NaN}', b'{"text": Inf}',
]  # fmt: skip
lines = st.lists(st.sampled_from(ORDINARY + ODD), max_size=12)


def reading_of(errors: str, tmp_path: Path | None = None, **options) -> Reading:
    return Reading(errors=errors, dead_letters=tmp_path and str(tmp_path / "dead"), **options)


def parsers(path: Path, reading: Reading) -> module._Range:
    return module._Range(SourceRange(str(path), None, "jsonl", 0, None), reading)


@given(lines=st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=12), end=st.sampled_from([b"\n", b"\r\n", b"\n\r\n"]))
@settings(hypothesis_with_files)
def test_ordinary_lines_go_the_fast_way_with_the_same_result(tmp_path, lines, end):
    data = end.join(lines)
    reader = parsers(tmp_path / "a.jsonl", Reading())
    fast, slow = reader._parsed_at_once(data), reader._parsed_by_line(data, 0)
    assert documents_in(slow) == texts_of_lines(data, "strict")[0]
    if re.search(rb"Inf", data):
        return
    assert fast is not None
    assert documents_in(fast) == documents_in(slow)
    for total in ("documents", "bytes"):
        assert fast.totals[total] == slow.totals[total]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
records = st.dictionaries(st.sampled_from(["text", "id", "a", "te"]) | st.text(max_size=3), json_values, max_size=5)
written = st.builds(
    lambda record, text, plain: json.dumps({**record, "text": text} if text is not None else record, ensure_ascii=plain),
    records,
    st.none() | st.text(),
    st.booleans(),
).map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(lines=st.lists(written, max_size=6), errors=st.sampled_from(["replace", "skip"]))
@settings(hypothesis_with_files)
def test_random_objects(tmp_path, lines, errors):
    data = b"\n".join(lines)
    reader = parsers(tmp_path / "a.jsonl", Reading(errors="skip"))
    fast, slow = reader._parsed_at_once(data), reader._parsed_by_line(data, 0)
    if fast is not None:
        assert documents_in(fast) == documents_in(slow)
        assert slow.totals["skipped_documents"] == slow.totals["null_documents"] == 0
    assert documents_in(slow) == texts_of_lines(data, "skip")[0]


@given(lines=lines, range_bytes=st.integers(1, 100), errors=st.sampled_from(["replace", "skip"]))
@settings(hypothesis_with_files, max_examples=250)
def test_odd_lines_do_what_each_does_alone(tmp_path, lines, range_bytes, errors):
    path = tmp_path / "a.jsonl"
    data = b"\n".join(lines)
    path.write_bytes(data)
    # A mark at the start of a file is none of its text.
    documents, nulls, aside = texts_of_lines(data.removeprefix(b"\xef\xbb\xbf"), errors)
    if errors == "replace" and aside:
        with pytest.raises(InputError, match=re.escape(str(path))):
            Read(path, reading_of(errors), range_bytes)
        return
    for size in (range_bytes, 1 << 30):
        for letter in (tmp_path / "dead").glob("*"):
            letter.unlink()
        read = Read(path, reading_of(errors, tmp_path), size)
        assert read.documents == documents
        assert (read["documents"], read["null_documents"], read["skipped_documents"]) == (len(documents), nulls, aside)
        assert read["bytes"] == sum(map(len, documents))
        letters = letters_in(tmp_path / "dead")
        assert len(letters) == aside
        for letter in letters:
            assert data[letter["offset"] :].startswith(base64.b64decode(letter["bytes"]))


def test_surrogates_and_broken_bytes_in_json_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "\\ud83d x \\ude00\\ud83d"}\n{"text": "\xff \xe2\x82"}\n{"text": "\\ud83d\\ude00"}\n')
    read = Read(path, Reading())
    assert [each.decode() for each in read.documents] == ["\ufffd x \ufffd\ufffd", "\ufffd \ufffd", "\U0001f600"]
    assert read["replaced_characters"] == 5
    with pytest.raises(InputError, match="line 1: the field 'text' holds a lone surrogate"):
        Read(path, Reading(errors="strict"))
    assert Read(path, Reading(errors="skip"))["skipped_documents"] == 2


@pytest.mark.parametrize(
    "line, message",
    [
        (b"{", "not JSON"),
        (b"[1]", "a list, not an object with the field 'text'"),
        (b"null", "a NoneType, not an object"),
        (b"{}", "no field 'text'; it has none"),
        (b'{"id": 1, "body": "x"}', "no field 'text'; it has 'id', 'body'"),
        (b'{"text": [5]}', "the field 'text' is a list, not text"),
        (b'{"text": 5}', "the field 'text' is a int, not text"),
        (b'{"text": "a"} x', "not JSON"),
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_wrong_line_is_named_by_its_number(tmp_path, line, message, name):
    path = tmp_path / name
    good = b'{"text": "x"}\n\n'
    for before in (0, 1, 150):
        data = good * before + line + b"\n" + good * 20
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        for range_bytes in (1 << 30, 100, 7):
            for errors in ("replace", "strict"):
                with pytest.raises(InputError) as error:
                    Read(path, Reading(errors=errors), range_bytes)
                assert str(error.value).startswith(f"{path}, line {2 * before + 1}: ") and message in str(error.value)


def test_json_under_strict_names_broken_bytes(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "x"}\n' * 100 + b'{"text": "\xff"}\n')
    with pytest.raises(InputError, match=re.escape(f"{path}, line 101: not valid UTF-8 at byte 10")):
        Read(path, Reading(errors="strict"), 50)


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    path = tmp_path / "a.jsonl"
    for second in (b'{"text": "b"}', b'{"text": null}'):
        path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n' + second + b"\n")
        assert Read(path, Reading()).documents[0] == b"a"
    path.write_bytes(b"\xef\xbb\xbf{\n")
    assert Read(path, reading_of("skip", tmp_path))["skipped_documents"] == 1
    assert [letter["offset"] for letter in letters_in(tmp_path / "dead")] == [3]


@pytest.mark.parametrize("depth", [500, 5000, 100_000])
def test_deep_nesting_is_read_the_same_on_both_ways(tmp_path, depth):
    deep = b'{"text": "deep", "x": ' + b"[" * depth + b"]" * depth + b"}\n"
    path = tmp_path / "a.jsonl"
    for other in (b"", b'{"text": null}\n'):
        path.write_bytes(deep + other)
        assert Read(path, Reading()).documents == [b"deep"]
    path.write_bytes(b'{"text": "ok"}\n{"text": ' + b"[" * depth + b"]" * depth + b"}\n")
    with pytest.raises(InputError, match="line 2: "):
        Read(path, Reading())
    assert Read(path, Reading(errors="skip")).documents == [b"ok"]


def test_a_long_number_is_read_the_same_on_both_ways(tmp_path):
    path = tmp_path / "a.jsonl"
    for other in (b"", b'{"text": null}\n'):
        path.write_bytes(b'{"text": "long", "x": ' + b"9" * 5000 + b"}\n" + other)
        assert Read(path, Reading()).documents == [b"long"]


def test_another_field(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": 5, "body": "b"}\n{"body": "c", "x": {"body": 1}}\n')
    assert Read(path, Reading(field="body")).documents == [b"b", b"c"]


def test_nasty_json_lines(shared):
    path = shared / "corpora" / "nasty" / "json_lone_surrogate.jsonl"
    data = path.read_bytes()
    for range_bytes in (1, 50, 1 << 30):
        documents, nulls, aside = texts_of_lines(data, "skip")
        read = Read(path, Reading(errors="skip"), range_bytes)
        assert read.documents == documents
        assert (read["null_documents"], read["skipped_documents"]) == (nulls, aside) and nulls and aside
        with pytest.raises(InputError, match="line "):
            Read(path, Reading(), range_bytes)


# ---- Parquet and Arrow ----

VALUES = ["one", "", None, "zwei drei", "\U0001f600" * 5, "x" * 40, None, "é", "\0", "last"]
GOOD = [value.encode() for value in VALUES if value is not None]
TYPES = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "dictionary": None,
    "string_view": pa.string_view(),
    "binary_view": pa.binary_view(),
}


def column_of(kind: str, values=VALUES) -> pa.Array:
    if kind == "dictionary":
        return pa.array(values).dictionary_encode()
    return pa.array([v.encode() if isinstance(v, str) and "binary" in kind else v for v in values], TYPES[kind])


def write_table(path: Path, table: pa.Table, stream: bool = False) -> None:
    if path.name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=3)
        return
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name, stream", [("a.parquet", False), ("a.arrow", False), ("a.arrow", True)])
def test_every_type_of_text_column(tmp_path, kind, name, stream):
    column = column_of(kind)
    for part, expected in ((column, GOOD), (column[1:9], GOOD[1:-1]), (column[2:3], []), (column[:0], [])):
        write_table(tmp_path / name, pa.table({"id": pa.array(range(len(part))), "text": part}), stream)
        for errors in ("replace", "strict", "skip"):
            read = Read(tmp_path / name, Reading(errors=errors), 100)
            assert read.documents == expected
            assert read["documents"] == len(expected)
            assert read["null_documents"] == len(part) - len(expected)
            assert read["bytes"] == sum(map(len, expected))


def test_nulls_in_a_dictionary_are_nulls(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["x", None]))
    write_table(tmp_path / "a.arrow", pa.table({"text": column}))
    read = Read(tmp_path / "a.arrow", Reading())
    assert read.documents == [b"x", b"x"] and read["null_documents"] == 2


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_broken_bytes_in_columns(tmp_path, name):
    smile = "\U0001f600".encode()
    values = [b"good", b"\xff bad", None, b"torn " + smile[:2], smile[2:] + b" here", b"", smile, b"\xe2\x82", b"fine"]
    write_table(tmp_path / name, pa.table({"text": pa.array(values, pa.binary())}))
    there = [value for value in values if value is not None]
    read = Read(tmp_path / name, Reading())
    assert read.documents == [value.decode("utf-8", "replace").encode() for value in there]
    assert read["replaced_characters"] == sum(map(replaced_in, there))
    assert read["documents"] == len(there) and read["null_documents"] == 1
    with pytest.raises(InputError) as error:
        Read(tmp_path / name, Reading(errors="strict"))
    assert f"{tmp_path / name}: row 1 (from 0) of the column 'text' has the byte 0xff at its offset 0" in str(error.value)
    for range_bytes in (1 << 30, 10):
        skipped = Read(tmp_path / name, reading_of("skip", tmp_path), range_bytes)
        assert skipped.documents == [b"good", b"", smile, b"fine"]
        assert (skipped["documents"], skipped["skipped_documents"], skipped["null_documents"]) == (4, 4, 1)
        letters = letters_in(tmp_path / "dead")
        assert sorted((letter["row"], base64.b64decode(letter["bytes"])) for letter in letters) == [
            (i, value) for i, value in enumerate(values) if value is not None and not is_text(value)
        ]
        for path in (tmp_path / "dead").iterdir():
            path.unlink()


def test_halves_of_a_character_in_neighbours_are_broken(tmp_path):
    """Side by side the halves look like one character."""
    values = [b"a\xc3", b"\xa9b"]
    write_table(tmp_path / "a.arrow", pa.table({"text": pa.array(values, pa.binary())}))
    read = Read(tmp_path / "a.arrow", Reading())
    assert [each.decode() for each in read.documents] == ["a\ufffd", "\ufffdb"] and read["replaced_characters"] == 2


@pytest.mark.parametrize("dictionary", [True, False])
def test_every_row_group_is_read_once_for_any_range_size(tmp_path, dictionary):
    path = tmp_path / "a.parquet"
    values = [f"document {i}" for i in range(50)]
    table = pa.table({"id": pa.array(range(50)), "text": values})
    pq.write_table(table, path, row_group_size=7, use_dictionary=dictionary)
    for range_bytes in [1, 2, 3, 5, 8, *range(10, 400, 13), 500, 1000, path.stat().st_size - 1, path.stat().st_size]:
        read = Read(path, Reading(), range_bytes)
        assert read.documents == [value.encode() for value in values]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_missing_column_lists_the_columns(tmp_path, name):
    write_table(tmp_path / name, pa.table({"id": [1], "body": ["x"], "tags": [["a"]]}))
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / name} has no column 'text'; it has id, body, tags")):
        Read(tmp_path / name, Reading())
    for column, kind in (("id", "int64"), ("tags", "list<")):
        with pytest.raises(InputError, match=f"the column '{column}' holds {kind}.*, not text"):
            Read(tmp_path / name, Reading(column=column))
    assert Read(tmp_path / name, Reading(column="body")).documents == [b"x"]
    read = Read(tmp_path / name, reading_of("skip", tmp_path), 10)
    assert read.totals == {"skipped_documents": 1} and len(letters_in(tmp_path / "dead")) == 1


def test_two_columns_of_one_name_are_refused(tmp_path):
    write_table(tmp_path / "a.parquet", pa.table([["a"], ["b"]], names=["text", "text"]))
    with pytest.raises(InputError, match="2 columns 'text'"):
        Read(tmp_path / "a.parquet", Reading())


@pytest.mark.parametrize("name, stream", [("a.parquet", False), ("a.arrow", False), ("a.arrow", True)])
def test_a_truncated_table_fails_or_is_set_aside_once(tmp_path, name, stream):
    path = tmp_path / name
    write_table(path, pa.table({"text": [f"document {i}" for i in range(1000)]}), stream)
    whole = path.read_bytes()
    for size in (0, 3, 5, 100, len(whole) // 2 + 1):
        path.write_bytes(whole[:size])
        for range_bytes in (1 << 30, 100):
            with pytest.raises(InputError, match=re.escape(str(path))):
                Read(path, Reading(), range_bytes)
            read = Read(path, reading_of("skip", tmp_path), range_bytes)
            assert read.documents == [] and read["skipped_documents"] == 1
            assert len(letters_in(tmp_path / "dead")) == 1


def test_a_damaged_row_group_is_set_aside_alone(tmp_path):
    path = tmp_path / "a.parquet"
    values = [f"document {i}" for i in range(30)]
    pq.write_table(pa.table({"text": values}), path, row_group_size=10, use_dictionary=False, compression="zstd")
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    start = chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    with pytest.raises(InputError, match=re.escape(str(path))):
        Read(path, Reading())
    for range_bytes in (1 << 30, 50):
        read = Read(path, reading_of("skip", tmp_path), range_bytes)
        assert read.documents == [value.encode() for value in values[:10] + values[20:]]
        assert read["skipped_documents"] == 10
        (letter,) = letters_in(tmp_path / "dead")
        assert letter["row"] == 10
        for each in (tmp_path / "dead").iterdir():
            each.unlink()


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name, stream", [("a.parquet", False), ("a.arrow", False), ("a.arrow", True)])
def test_packed_tables(tmp_path, suffix, name, stream):
    write_table(tmp_path / name, pa.table({"text": column_of("string")}), stream)
    packed = PACK[suffix]((tmp_path / name).read_bytes())
    (tmp_path / (name + suffix)).write_bytes(packed)
    assert Read(tmp_path / (name + suffix), Reading(), 10).documents == GOOD
    (tmp_path / (name + suffix)).write_bytes(packed[:-20])
    with pytest.raises(InputError, match=re.escape(name + suffix)):
        Read(tmp_path / (name + suffix), Reading(), 10)
    assert Read(tmp_path / (name + suffix), Reading(errors="skip"), 10).totals == {"skipped_documents": 1}


def test_large_documents_of_a_table_are_not_held_together(tmp_path):
    path = tmp_path / "a.parquet"
    values = [f"{i}".ljust(1 << 20, "x") for i in range(64)]
    pq.write_table(pa.table({"text": values}), path, use_dictionary=False)
    source = SourceRange(str(path), None, "parquet", 0, None)
    sizes = [len(batch.data) for batch in read_range(source, Reading())]
    assert sum(sizes) == 64 << 20 and max(sizes) <= 8 << 20


# ---- documents of a user's own ----


def test_documents_of_a_collection():
    texts = ["one", b"two", "", "lone \ud800", b"\xff\xe2\x82x", "\ud83d\ude00", "é"]
    batch = documents_of(texts, "replace")
    assert [each.decode() for each in documents_in(batch)] == [
        "one", "two", "", "lone \ufffd", "\ufffd\ufffdx", "\ufffd\ufffd", "é",
    ]  # fmt: skip
    assert batch.totals["replaced_characters"] == 5 and batch.totals["documents"] == 7
    assert batch.totals["bytes"] == len(batch.data)
    batch = documents_of(texts, "skip")
    assert documents_in(batch) == [b"one", b"two", b"", "é".encode()]
    assert (batch.totals["documents"], batch.totals["skipped_documents"]) == (4, 3)
    for wrong in ("lone \ud800", b"\xff"):
        with pytest.raises(InputError, match="not valid UTF-8"):
            documents_of(["fine", wrong], "strict")
    assert documents_in(documents_of([], "strict")) == []


# ---- memory ----


def test_rejected_documents_are_not_held(tmp_path, pieces_of):
    pieces_of(1 << 16)
    path = tmp_path / "a.txt"
    path.write_bytes((b"\xff" * 999 + b"\n") * 10_000)
    reading = Reading(documents="line", errors="skip", dead_letters=str(tmp_path / "dead"))
    tracemalloc.start()
    for _ in read_range(SourceRange(str(path), None, "text", 0, None), reading):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert len(letters_in(tmp_path / "dead")) == 10_000


# ---- where documents stand, and their other columns -----------------------------------------------


def placed(path: Path, range_bytes: int = 1 << 20, **options) -> list[tuple[bytes, int, dict]]:
    """Return (document, place, its columns) of each document of a file."""
    reading = Reading(places=True, **options)
    found = []
    for source in ranges(find_files(str(path), reading), reading, range_bytes):
        for batch in read_range(source, reading):
            count = len(batch.bounds) // 2
            rows = batch.columns.to_pylist() if batch.columns is not None and batch.columns.num_columns else [{}] * count
            if count:
                assert len(batch.places) == count == len(rows)
                found += zip(documents_in(batch), batch.places.tolist(), rows)
    return sorted(found, key=lambda item: item[1])


@pytest.mark.parametrize("errors", ["replace", "skip"])
@pytest.mark.parametrize("range_bytes", [3, 50, 1 << 20])
@pytest.mark.parametrize("unit", [{"documents": "line"}, {"documents": "paragraph"}, {"documents": "separator", "separator": "b"}])
def test_places_of_texts(tmp_path, unit, range_bytes, errors, pieces_of):
    data = b"a \xff b\nb\n\nccc\xe6\xa9b\r\n\r\n\xe6\xa9\x9f d\nlast\xf0"
    (tmp_path / "a.txt").write_bytes(data)
    pieces_of(7)
    found = placed(tmp_path / "a.txt", range_bytes, errors=errors, **unit)
    assert found or errors == "skip"
    for text, place, _ in found:
        raw = data[place:]
        assert any(raw[:size].decode("utf-8", "replace").encode() == text for size in range(len(raw) + 1))
    if errors == "replace" and unit["documents"] == "line":
        assert [place for _, place, _ in found] == [0, 6, 8, 9, 17, 19, 25]


@pytest.mark.parametrize("name, data", [("a.txt", b""), ("a.txt", b"x" * 50), ("a.txt", b"\xff")])
def test_the_place_of_a_file_is_its_first_byte(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert [place for _, place, _ in placed(tmp_path / name)] == [0]


@pytest.mark.parametrize("range_bytes", [10, 1 << 20])
def test_places_and_fields_of_json_lines(tmp_path, range_bytes):
    lines = [
        b'\xef\xbb\xbf{"text": "a", "n": 1}\r\n',
        b"\n",
        b'{"text": null, "n": 2}\n',
        b'{"n": {"x": "\\ud800"}, "text": "b\xff"}\n',
        b'{"text": "c", "n": "three", "m": null}',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    found = placed(tmp_path / "a.jsonl", range_bytes, keep=("n", "m"))
    starts = np.cumsum([0, *map(len, lines)]).tolist()
    assert found == [
        (b"a", 3, {"n": "1", "m": None}),
        ("b\ufffd".encode(), starts[3], {"n": '{"x": "\ufffd"}', "m": None}),
        (b"c", starts[4], {"n": "three", "m": None}),
    ]
    assert [columns for *_, columns in placed(tmp_path / "a.jsonl", range_bytes)] == [{}] * 3


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_places_and_columns_of_tables(tmp_path, name, errors):
    texts = [b"a", None, b"b\xff", b"", b"c"]
    table = pa.table({"n": range(5), "text": texts, "tags": [["x"], [], None, ["y", "z"], ["w"]]})
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name, row_group_size=2)
    else:
        write_table(tmp_path / name, table)
    found = placed(tmp_path / name, 200, errors=errors)
    rows = [0, 2, 3, 4] if errors == "replace" else [0, 3, 4]
    assert [(place, columns["n"], columns["tags"]) for _, place, columns in found] == [
        (row, row, table["tags"][row].as_py()) for row in rows
    ]
    assert [columns for *_, columns in placed(tmp_path / name, 200, errors=errors, keep=("tags",))] == [
        {"tags": table["tags"][row].as_py()} for row in rows
    ]
    assert [columns for *_, columns in placed(tmp_path / name, 200, errors=errors, keep=())] == [{}] * len(rows)
    with pytest.raises(InputError, match="has no column 'm'; it has n, text, tags"):
        placed(tmp_path / name, keep=("m",))


def test_a_separator_that_repair_would_make(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\xffb\xef\xbf\xbdc")
    with pytest.raises(ValueError, match="choose 'strict' or 'skip'"):
        Reading(documents="separator", separator="x\ufffd")
    found = placed(tmp_path / "a.txt", documents="separator", separator="\ufffd", errors="skip")
    assert [(text, place) for text, place, _ in found] == [(b"c", 6)]


def test_views_beside_null_texts(tmp_path):
    table = pa.table({"text": ["a", None], "view": pa.array(["x", "y"], pa.string_view())})
    pq.write_table(table, tmp_path / "a.parquet")
    assert placed(tmp_path / "a.parquet") == [(b"a", 0, {"view": "x"})]


def test_two_other_columns_of_one_name_are_refused(tmp_path):
    table = pa.table([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["text", "n", "n"])
    write_table(tmp_path / "a.arrow", table)
    with pytest.raises(InputError, match="has 2 columns 'n'"):
        placed(tmp_path / "a.arrow")
