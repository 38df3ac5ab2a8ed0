"""Files cut into ranges and pieces against the whole file: every byte once, and the same words."""

from __future__ import annotations

import io
import itertools
import random
import re
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import _words, cutting
from beam_bpe.cutting import (
    LineCutter,
    NoCutter,
    ParagraphCutter,
    SeparatorCutter,
    UncutError,
    CommonCutter,
    WordCutter,
    WordRule,
    read_pieces,
)
from beam_bpe.pretokenize import PATTERNS, pre_tokenizer
from beam_bpe.special import SpecialTokens

CUT = [name for name in PATTERNS if name not in ("metaspace", "none")]

# What decides on a place: letters, marks, numbers, apostrophes, spaces, line endings, others, broken bytes.
FRAGMENTS = [
    b"a", b"B", b"the", b"Hello", b"\xc3\xa9", "日本".encode(), "\u0301".encode(), b"1", b"2024", "٣".encode(),
    b"'", b"'s", b"'LL", "'ſ".encode(), "’".encode(), b" ", b"  ", b"\t", b"\n", b"\r\n", b"\n\n", b"\r", b"\r\n\r\n",
    "\u3000".encode(), "\xa0".encode(), "\x85".encode(), b"/", b"!", b"?!", b"-", "👍🏽".encode(), b"\0", b"\xff", b"\xc3",
    b"\xe2\x82", b"\xf0\x9f", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf", "\ufffd".encode(), "\ufeff".encode(),
]  # fmt: skip
# Tokens that overlap themselves and each other, and that hold letters, digits, spaces and line endings.
TOKENS = [
    "<|endoftext|>", "<|", "|>", "a b", "b a", " a ", "a a", "a", "1 2", "the end", "e\n", "\n\n", "\r\n", "n'", "é x",
    "\ufffd a", "a \ufffd", "\ufffd", "日 本", "a b c d e f", " ",
]  # fmt: skip

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join)
tokens = st.lists(st.sampled_from(TOKENS), max_size=4, unique=True)
sizes = st.integers(1, 60)


def texts_with(specials: list[str]) -> st.SearchStrategy[bytes]:
    """Return texts in which the tokens, and parts of them, occur often."""
    encoded = [token.encode() for token in specials]
    parts = [token[:i] for token in encoded for i in range(1, len(token))]
    return st.lists(st.sampled_from(FRAGMENTS + 8 * encoded + parts), max_size=30).map(b"".join)


def ranges_of(data: bytes, cutter, range_bytes: int, piece: int) -> list[list[tuple[int, bytes]]]:
    """Return the pieces of each range of a file."""
    found = []
    for start in range(0, max(1, len(data)), range_bytes):
        end = start + range_bytes
        file = io.BytesIO(data)
        found.append(list(read_pieces(file, start, end if end < len(data) else None, cutter, piece=piece)))
    return found


def pieces_of(data: bytes, cutter, range_bytes: int, piece: int) -> list[bytes]:
    """Return all pieces of a file, checked to be the file."""
    pieces = [pair for pairs in ranges_of(data, cutter, range_bytes, piece) for pair in pairs]
    at = 0
    for offset, found in pieces:
        assert offset == at and found, (data, range_bytes, piece)
        at += len(found)
    found = [found for _, found in pieces]
    assert b"".join(found) == data, (data, range_bytes, piece)
    return found


def words_of(pieces: list[bytes], name: str, specials=()) -> list[str]:
    """Return the words of each piece read as a document of its own, one after the other."""
    found = []
    for piece in pieces:
        fixed = piece.decode("utf-8", "replace").encode()
        bounds, _ = SpecialTokens(specials).cut(fixed, np.array([0, len(fixed)]))
        for start, end in zip(bounds[::2], bounds[1::2]):
            found += pre_tokenizer(name).split(fixed[start:end].decode())
    return found


def counted(pieces: list[bytes], name: str) -> tuple:
    """Return the packed table and the totals of pieces that continue each other."""
    table, tokenizer = _words.WordTable(documents=True), pre_tokenizer(name)
    words = 0
    for i, piece in enumerate(pieces):
        fixed = piece.decode("utf-8", "replace").encode()
        bounds = np.array([0, len(fixed)], np.int64)
        words += tokenizer.count(table, fixed, bounds, continues=i > 0).words
    return table.pack(1, ordered=True), words


# ---- words ----


@given(data=texts, range_bytes=sizes, piece=sizes, name=st.sampled_from(CUT))
@settings(max_examples=500, deadline=None)
def test_words_of_ranges_are_those_of_the_file(data, range_bytes, piece, name):
    cutter = WordCutter(WordRule(pre_tokenizer(name)))
    pieces = pieces_of(data, cutter, range_bytes, piece)
    assert words_of(pieces, name) == words_of([data], name)
    assert counted(pieces, name) == counted([data], name)


SEVERAL = [
    (WordRule(pre_tokenizer("o200k"), ("a b",)), WordRule(pre_tokenizer("gpt2"))),
    (WordRule(pre_tokenizer("cl100k")), WordRule(pre_tokenizer("bert"), (), "bert")),
    (WordRule(pre_tokenizer("gpt2")), WordRule(pre_tokenizer("whitespace"), ("\n1",)), WordRule(pre_tokenizer("qwen2"))),
]


@given(data=texts, range_bytes=sizes, piece=sizes, rules=st.sampled_from(SEVERAL))
@settings(max_examples=300, deadline=None)
def test_common_places_are_those_of_every_rule(data, range_bytes, piece, rules):
    cutters, common = [WordCutter(rule) for rule in rules], CommonCutter(rules)
    places = set.intersection(*(set(places_of(cutter, data)) for cutter in cutters))
    assert places_of(common, data) == sorted(places)
    decided = [at for at in places if at <= min(cutter.last(data) for cutter in cutters)]
    assert common.last(data) == max(decided, default=-1)
    cuts = [at for pieces in ranges_of(data, common, range_bytes, piece) for at, _ in pieces if at]
    assert places.issuperset(cuts)
    assert b"".join(pieces_of(data, common, range_bytes, piece)) == data


def places_of(cutter, data: bytes) -> list[int]:
    """Return all places that a cutter finds, from left to right."""
    found, at = [], cutter.first(data, 0)
    while at >= 0:
        found.append(at)
        at = cutter.first(data, at + 1)
    return found


@given(tokens.flatmap(lambda t: st.tuples(st.just(t), texts_with(t))), sizes, sizes, st.sampled_from(CUT))
@settings(max_examples=500, deadline=None)
def test_special_tokens_are_never_cut(chosen, range_bytes, piece, name):
    specials, data = chosen
    pieces = pieces_of(data, WordCutter(WordRule(pre_tokenizer(name), tuple(specials))), range_bytes, piece)
    assert words_of(pieces, name, specials) == words_of([data], name, specials)


@pytest.mark.parametrize("name", CUT)
def test_every_place_in_every_short_text(name):
    """All texts of up to five of these, cut at every place that is known."""
    alphabet = [b"a", b" ", b"\n", b"'", b"1", b"!", b"\xcc\x81", b"\xff"]
    cutter = WordCutter(WordRule(pre_tokenizer(name)))
    places = 0
    for length in range(2, 6):
        for fragments in itertools.product(alphabet, repeat=length):
            data = b"".join(fragments)
            at = cutter.first(data, 0)
            if at < 0:
                continue
            whole = words_of([data], name)
            while at >= 0:
                places += 1
                assert words_of([data[:at], data[at:]], name) == whole, (data, at)
                at = cutter.first(data, at + 1)
    assert places > 10_000


@pytest.mark.parametrize("name", CUT)
def test_every_range_size_of_short_files(name):
    random_ = random.Random(name)
    for _ in range(60):
        data = b"".join(random_.choices(FRAGMENTS, k=random_.randint(0, 12)))
        cutter = WordCutter(WordRule(pre_tokenizer(name)))
        whole = words_of([data], name)
        for range_bytes in range(1, len(data) + 2):
            for piece in (1, 2, 3, 7, 100):
                assert words_of(pieces_of(data, cutter, range_bytes, piece), name) == whole


def test_a_token_that_replacement_brings_about_is_not_cut():
    specials = ["\ufffda b"]
    data = b"x \xffa b y"
    for range_bytes in range(1, len(data) + 1):
        pieces = pieces_of(data, WordCutter(WordRule(pre_tokenizer("gpt2"), tuple(specials))), range_bytes, 1)
        assert words_of(pieces, "gpt2", specials) == ["x", " ", " y"]


def test_a_token_at_the_border_of_a_range_is_not_cut():
    specials, data = ["stop here"], b"go stop here go"
    cutter = WordCutter(WordRule(pre_tokenizer("o200k"), tuple(specials)))
    assert ranges_of(data, cutter, 7, 1) == [[(0, b"go stop here")], [(12, b" go")], []]


def test_no_places_are_known_under_none_and_custom_patterns():
    for pattern in ("none", r"\w+"):
        with pytest.raises(ValueError, match="no place is known"):
            WordCutter(WordRule(pre_tokenizer(pattern)))


@pytest.mark.parametrize("name", CUT)
def test_a_real_text(shared, name):
    data = (shared / "corpora" / "mixed-1m.txt").read_bytes()
    cutter = WordCutter(WordRule(pre_tokenizer(name), ("<|endoftext|>", "the ", "e t")))
    whole = counted([data], name)
    for range_bytes, piece in ((999, 1 << 20), (65_536, 1000), (300_000, 4096), (1 << 21, 100)):
        pieces = pieces_of(data, cutter, range_bytes, piece)
        assert len(pieces) >= len(data) // range_bytes
        assert counted(pieces, name) == whole


# ---- lines, paragraphs, separators ----

LINES = [b"a", b"bc", b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n", b"\r", b" ", b"\xff", b"\xe2\x82", b"\0"]


def paragraphs_of(data: bytes) -> list[bytes]:
    """Return what stands between blank lines, by definition: two line endings in a row end a paragraph."""
    inner = re.split(rb"\r?\n(?:\r?\n)+", data)
    inner[0] = re.sub(rb"^(\r?\n)+", b"", inner[0])
    inner[-1] = re.sub(rb"(\r?\n)+\Z", b"", inner[-1])
    return [each for each in inner if each]


def native(name: str, data: bytes, *more) -> list[bytes]:
    bounds = np.frombuffer(getattr(cutting._scan, name)(data, *more), np.int64).tolist()
    return [data[i:j] for i, j in zip(bounds[::2], bounds[1::2])]


@given(st.lists(st.sampled_from(LINES), max_size=30).map(b"".join), sizes, sizes)
@settings(max_examples=500, deadline=None)
def test_lines_and_paragraphs_of_ranges_are_those_of_the_file(data, range_bytes, piece):
    lines = pieces_of(data, LineCutter(), range_bytes, piece)
    assert [line for found in lines for line in native("line_bounds", found)] == list(io.BytesIO(data))
    pieces = pieces_of(data, ParagraphCutter(), range_bytes, piece)
    assert [each for found in pieces for each in native("paragraph_bounds", found)] == paragraphs_of(data)


@pytest.mark.parametrize("cutter", [LineCutter(), ParagraphCutter()], ids=["line", "paragraph"])
def test_every_short_file_of_lines(cutter):
    for length in range(8):
        for fragments in itertools.product((b"a", b"\n", b"\r"), repeat=length):
            data = b"".join(fragments)
            for range_bytes in range(1, length + 2):
                pieces = pieces_of(data, cutter, range_bytes, 1 + range_bytes % 3)
                if isinstance(cutter, ParagraphCutter):
                    assert [p for found in pieces for p in native("paragraph_bounds", found)] == paragraphs_of(data)
                else:
                    assert all(found.endswith(b"\n") for found in pieces[:-1])


def test_a_blank_line_ends_a_paragraph_and_a_range():
    data = b"\n\na\nb\n\n\nc\r\n\r\nde\n"
    pieces = pieces_of(data, ParagraphCutter(), 1, 1)
    assert pieces == [b"\n\n", b"a\nb\n\n", b"\n", b"c\r\n\r\n", b"de\n"]
    assert paragraphs_of(data) == [b"a\nb", b"c", b"de"]


SEPARATORS = ["|", "<|endoftext|>", "ab", "é", "aab", "\r\n", "\ufffd"]
SEPARATORS += ["\n---\n", "\n\n", "---", "aba", "abaab", "aaaa"]  # these can overlap themselves


@given(st.data(), st.sampled_from(SEPARATORS), sizes, sizes)
@settings(max_examples=500, deadline=None)
def test_separated_documents_of_ranges_are_those_of_the_file(drawn, separator, range_bytes, piece):
    encoded = separator.encode()
    torn = [part for i in range(1, len(encoded)) for part in (encoded[:i], encoded[i:])]
    parts = [encoded] * 4 + torn + [b"a", b"b", b"xyz", b"\n", b"\xff", b"-"]
    data = b"".join(drawn.draw(st.lists(st.sampled_from(parts), max_size=20)))
    pieces = pieces_of(data, SeparatorCutter(encoded), range_bytes, piece)
    expected = [each for each in data.split(encoded) if each]
    assert [each for found in pieces for each in native("separated_bounds", found, encoded)] == expected
    assert all(found.endswith(encoded) for found in pieces[:-1])


def test_a_separator_that_overlaps_another_is_no_place():
    assert pieces_of(b"x--y---z----", SeparatorCutter(b"--"), 1, 1) == [b"x--", b"y--", b"-z--", b"--"]
    assert pieces_of(b"xabababay", SeparatorCutter(b"aba"), 1, 1) == [b"xaba", b"babay"]


@pytest.mark.parametrize("separator", [b"ab", b"aa", b"aba", b"aab", b"abaab"])
def test_every_short_file_of_separators(separator):
    for length in range(9):
        for data in map(bytes, itertools.product(b"ab", repeat=length)):
            for range_bytes in range(1, length + 2):
                pieces = pieces_of(data, SeparatorCutter(separator), range_bytes, 1 + range_bytes % 3)
                documents = [each for found in pieces for each in native("separated_bounds", found, separator)]
                assert documents == [each for each in data.split(separator) if each], (data, range_bytes)


# ---- pieces ----


@pytest.mark.parametrize("data", [b"", b"a", b"\n", b" ", b"\xff", b"\0", b"aaaaaaaa", b"\xff" * 9, b"\r\r\r\r"])
@pytest.mark.parametrize(
    "cutter",
    [WordCutter(WordRule(pre_tokenizer(name), ("<|x|>",))) for name in CUT]
    + [LineCutter(), ParagraphCutter(), SeparatorCutter(b"|"), NoCutter()],
    ids=[*CUT, "line", "paragraph", "separator", "nowhere"],
)
def test_tiny_files_and_files_without_a_place(data, cutter):
    for range_bytes in range(1, len(data) + 2):
        pieces = pieces_of(data, cutter, range_bytes, 1)
        if b"\n" not in data:
            assert pieces == ([data] if data else [])


def test_a_range_without_a_place_is_read_by_the_one_before():
    assert ranges_of(b"one two-three-four\nfive", LineCutter(), 4, 2) == [
        [(0, b"one two-three-four\n")], [], [], [], [(19, b"five")], [],
    ]  # fmt: skip


def test_a_file_that_cannot_be_cut_has_a_limit():
    def read(most):
        return list(read_pieces(io.BytesIO(b"a" * 100), 0, None, NoCutter(), piece=10, most=most))

    assert read(100) == [(0, b"a" * 100)]
    with pytest.raises(UncutError, match="more than 99 bytes"):
        read(99)


@pytest.mark.parametrize("end", [None, 1 << 30], ids=["last", "middle"])
def test_pieces_are_about_as_large_as_asked(end):
    piece = 1 << 16
    file = io.BytesIO(b"some words and\n\nmore of them | " * 300_000)
    for cutter in (
        WordCutter(WordRule(pre_tokenizer("o200k"), ("<|endoftext|>",))),
        LineCutter(),
        ParagraphCutter(),
        SeparatorCutter(b"|"),
    ):
        file.seek(0)
        found = [len(data) for _, data in read_pieces(file, 0, end, cutter, piece=piece)]
        assert sum(found) == file.getbuffer().nbytes
        assert max(found) < 2 * piece + 8192 and np.mean(found) > piece / 2
    file.seek(0)
    tracemalloc.start()
    for _ in read_pieces(file, 0, end, LineCutter(), piece=piece):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * piece


@pytest.mark.parametrize("start", [0, 1 << 20], ids=["first", "later"])
@pytest.mark.parametrize("end", [None, 2 << 20], ids=["open", "closed"])
def test_time_is_linear_without_a_place(start, end):
    data = b"a" * (20 << 20)
    cutter = WordCutter(WordRule(pre_tokenizer("o200k"), ("<|endoftext|>",)))
    begin = time.process_time()
    pieces = list(read_pieces(io.BytesIO(data), start, end, cutter, piece=4096))
    assert time.process_time() - begin < 3
    assert pieces == ([(0, data)] if start == 0 else [])


def test_time_is_linear_where_every_place_is_in_a_token():
    data = b"a b" * (1 << 18)
    cutter = WordCutter(WordRule(pre_tokenizer("gpt2"), ("a b",)))
    begin = time.process_time()
    assert list(read_pieces(io.BytesIO(data), 0, None, cutter, piece=4096)) == [(0, data)]
    assert time.process_time() - begin < 5
