"""The scanners against the regular expressions they stand for; lines, broken UTF-8 and cuts."""

from __future__ import annotations

import itertools
import json
import random
import time
from functools import lru_cache

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import _scan
from beam_bpe.pretokenize import PATTERNS

NAMES = list(PATTERNS)
CUT = [name for name in NAMES if name not in ("metaspace", "none")]


def bert_regex() -> str:
    """Return the expression of BERT's words with the punctuation that `tokenizers` knows."""
    cut = pytest.importorskip("tokenizers").pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    every = (code for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    codes = [code for code in every if len(cut(f"a{chr(code)}a")) == 3]
    runs = itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0])
    spans = [[code for _, code in run] for _, run in runs]
    punctuation = "".join(rf"\U{span[0]:08x}-\U{span[-1]:08x}" for span in spans)
    return rf"[{punctuation}]|[^\s{punctuation}]+"


REGEXES = {name: regex.compile(bert_regex() if name == "bert" else text) for name, text in PATTERNS.items()}

# Wherever a scanner could take another turn than its expression.
FRAGMENTS = [
    "'", "’", "''", "'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL",
    "'lL", "'d", "'D", "'\u017f", "'\u017fa", "\u017f", "'l", "'r", "'v", "'e", "'é", "'İ", "'\u212a",
    "a", "b", "s", "t", "l", "ll", "re", "A", "B", "S", "É", "é", "ß", "ẞ", "\u01c5", "\u01c8", "ʰ", "ˇ", "ـ",
    "ª", "º", "ก", "א", "ع", "日本", "中", "한", "ｱ", "\U00010400", "\U00010428", "\U0001d400", "\u2160", "\u24b6",
    "\u0301", "\u0308", "\u093e", "\u20dd", "\u0e31", "\u200d", "\ufe0f", "\U000e0100",
    "0", "1", "12", "123", "1234", "٣", "७", "\u0bf0", "½", "Ⅷ", "²", "𝟘",
    " ", "  ", "   ", "\t", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u2029",
    "\u202f", "\u205f", "\u3000", "\u180e", "\u200b", "\ufeff",
    "\r", "\n", "\r\n", "\n\n", "\n\r", "\r\r\n", " \n", "\n ", " \n ", "\xa0\n", "\n\u3000", "\t\r\n",
    "/", "//", "\n/", "/\n", "!", "?!", ".", "...", "-", "_", "#", "&", "<|endoftext|>", "http://", "\0", "\x7f",
    "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "👍🏽", "🇩🇪", "e\u0301", "A\u030a", "न\u0940", "\ue000", "\U000f0000",
    "\uffff", "\U0010ffff", "\u0378", "Hello", "WORLD", "camelCase", "HTTPServer", "don't", "I'LL", "x'S", "ʼs",
]  # fmt: skip


def native_bounds(data: bytes, name: str) -> np.ndarray:
    return np.frombuffer(_scan.word_bounds(data, _scan.PATTERNS[name]), np.int64)


def native_words(data: bytes, name: str) -> list[bytes]:
    bounds = native_bounds(data, name).tolist()
    return [data[i:j] for i, j in zip(bounds[::2], bounds[1::2])]


def expected_words(text: str, name: str) -> list[bytes]:
    return [match.group().encode() for match in REGEXES[name].finditer(text)]


def expected_bounds(text: str, name: str) -> np.ndarray:
    """Return what word_bounds gives, from the matches of the expression in one large text."""
    if name in ("whitespace", "bert"):
        spans = np.array([match.span() for match in REGEXES[name].finditer(text)], np.int64).reshape(-1)
    else:  # the others leave no gaps, so lengths tell the spans
        matches = REGEXES[name].findall(text)
        ends = np.cumsum(np.fromiter(map(len, matches), np.int64, len(matches)))
        assert not len(text) or ends[-1] == len(text)
        spans = np.stack([np.concatenate([[0], ends[:-1]]) if len(ends) else ends, ends], 1).reshape(-1)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    return np.concatenate([[0], np.cumsum(widths)])[spans]


def assert_same_words(text: str, name: str) -> None:
    data = text.encode()
    native, expected = native_bounds(data, name), expected_bounds(text, name)
    if np.array_equal(native, expected):
        return
    shorter = min(len(native), len(expected))
    differs = np.flatnonzero(native[:shorter] != expected[:shorter])
    at = int(differs[0] if len(differs) else shorter) // 2 * 2
    where = int(native[at] if at < len(native) else expected[at])
    context = data[max(0, where - 20) : where + 20]
    pytest.fail(f"{name}: {native[at : at + 2]} against {expected[at : at + 2]} in {context!r}")


# --- Words -------------------------------------------------------------------------------------


def test_every_pattern_has_a_scanner():
    assert list(_scan.PATTERNS) == NAMES


def test_the_oracle_follows_the_same_unicode():
    # U+1C89 came with Unicode 16.0, U+0C5C with 17.0.
    assert regex.match(r"\p{Lu}", "\u1c89") and not regex.match(r"\p{L}", "\u0c5c"), "install regex==2025.9.18"


def test_pattern_texts_are_those_of_tiktoken(shared):
    texts = json.loads((shared / "reference" / "patterns.json").read_text(encoding="utf-8"))

    for name, reference in {"gpt2": "gpt2", "cl100k": "cl100k_base", "o200k": "o200k_base"}.items():
        assert PATTERNS[name] == texts[reference]["pat_str"]


@pytest.fixture(scope="module")
def characters() -> list[str]:
    return [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


# Planes of which no character is assigned to anything but private use.
VOID = [*range(0x40000, 0xE0000), *range(0xF0000, 0x110000)]


def assert_same_in_every_context(codes, name: str) -> None:
    """Compare each character between letters, spaces and capitals, and after an apostrophe."""
    for start in range(0, len(codes), 1 << 17):
        assert_same_words("".join([f"a{c}b {c} '{c}A{c}B" for c in map(chr, codes[start : start + (1 << 17)])]), name)


@pytest.mark.parametrize("name", CUT)
def test_every_character_in_context(name):
    codes = [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xF0000)]
    assert_same_in_every_context(codes, name)


@pytest.mark.parametrize(
    "name", ["o200k", *(pytest.param(name, marks=pytest.mark.slow) for name in CUT if name != "o200k")]
)
def test_every_character_of_the_void_planes_in_context(name):
    assert_same_in_every_context(VOID, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_character_as_a_document(name, characters):
    documents = [c.encode() for c in characters]
    matched = np.array([match is not None for match in map(REGEXES[name].fullmatch, characters)])
    bounds = [*map(_scan.word_bounds, documents, itertools.repeat(_scan.PATTERNS[name]))]

    ends = np.array([*map(len, documents)], np.int64)[matched]
    assert np.array_equal(np.array([*map(len, bounds)]), 16 * matched)
    assert b"".join(bounds) == np.stack([0 * ends, ends], 1).tobytes()


# What can stand beside the end of a document: one or two characters of each class.
ENDS = [" ", "\n", "\r", "\t", "a", "A", "\u01c5", "ʰ", "\u0301", "1", "!", "/", "'", "\u3000", "\u2028", "é", "\x85"]


@pytest.mark.parametrize("name", NAMES)
def test_short_documents_of_every_class(name):
    for length in range(4):
        for parts in itertools.product(ENDS, repeat=length):
            text = "".join(parts)
            assert native_words(text.encode(), name) == expected_words(text, name), text


@pytest.fixture(scope="module")
def random_texts() -> list[str]:
    source = random.Random(16)
    return ["".join(source.choices(FRAGMENTS, k=source.randint(1, 12))) for _ in range(100_000)]


@pytest.mark.parametrize("name", NAMES)
def test_random_mixtures(name, random_texts):
    number, word_bounds, finditer = _scan.PATTERNS[name], _scan.word_bounds, REGEXES[name].finditer
    for text in random_texts:
        data = text.encode()
        bounds = np.frombuffer(word_bounds(data, number), np.int64).tolist()
        native = [data[i:j] for i, j in zip(bounds[::2], bounds[1::2])]
        assert native == [match.group().encode() for match in finditer(text)], (name, text)


@given(st.text(), st.sampled_from(NAMES))
@settings(deadline=None)
def test_any_text(text, name):
    assert native_words(text.encode(), name) == expected_words(text, name)


@pytest.mark.parametrize("name", NAMES)
def test_nasty_files(name, shared):
    files = sorted((shared / "corpora" / "nasty").iterdir())
    assert len(files) > 20

    for file in files:
        assert_same_words(file.read_bytes().decode("utf-8", "replace"), name)


@pytest.mark.parametrize("name", NAMES)
def test_20_mb_of_mixed_text(name, mixed_20m):
    text = mixed_20m.read_bytes().decode()
    assert len(text.encode()) > 19_000_000

    # Many documents of a few hundred kilobytes, which end anywhere.
    for start in range(0, len(text), 400_000 if name != "bert" else 1_600_000):  # its expression is slow
        assert_same_words(text[start : start + 400_000], name)


@pytest.mark.parametrize("name", ["llama3", "qwen2"])
def test_words_are_those_of_tokenizers(name, random_texts):
    tokenizers = pytest.importorskip("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERNS[name]), "isolated")

    for text in random_texts[:5000]:
        theirs = [piece.encode() for piece, _ in split.pre_tokenize_str(text)]
        assert native_words(text.encode(), name) == theirs, text


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("gpt2", "I'll SEE'LL 12345  x", ["I", "'ll", " SEE", "'", "LL", " 12345", " ", " x"]),
        ("cl100k", "I'll SEE'LL 12345  x", ["I", "'ll", " SEE", "'LL", " ", "123", "45", " ", " x"]),
        ("cl100k", "a\n ", ["a", "\n "]),
        ("llama3", "a\n ", ["a", "\n", " "]),
        ("o200k", "fooBar's/\n/x", ["foo", "Bar's", "/\n/", "x"]),
        ("o200k", "\u01c5A\u0301b ʰʰ", ["\u01c5A\u0301b", " ʰʰ"]),
        ("qwen2", "123", ["1", "2", "3"]),
        ("whitespace", " a\u3000b\x85c ", ["a", "b", "c"]),
        ("bert", " don't,, 3.5\u3000$x\u00b4y\u2014z ", ["don", "'", "t", ",", ",", "3", ".", "5", "$", "x\u00b4y", "\u2014", "z"]),
        ("metaspace", "a\u2581b c\u2581\u2581\u2580d", ["a", "\u2581b c", "\u2581", "\u2581\u2580d"]),
        ("none", " a\n", [" a\n"]),
        ("none", "", []),
    ],
)
def test_words_by_hand(name, text, words):
    assert [word.decode() for word in native_words(text.encode(), name)] == words


def test_a_pattern_without_a_scanner_is_refused():
    for number in (-1, len(NAMES)):
        for call in (_scan.word_bounds, lambda data, n: _scan.first_cut(data, 0, n),
                     lambda data, n: _scan.last_cut(data, 9, n)):
            with pytest.raises(ValueError, match=f"no scanner of number {number}"):
                call(b"a b", number)


# --- Linear time -------------------------------------------------------------------------------

# (unit, its end, words of n units under each pattern that is not obvious)
LONG = {
    "spaces": (" ", "x"),
    "newlines": ("\n", ""),
    "newlines and spaces": ("\n ", "x"),
    "carriage returns": ("\r", "x"),
    "apostrophes": ("'", ""),
    "apostrophes and letters": ("'l", ""),
    "capitals and modifier letters": ("Aʰ", ""),
    "modifier letters, then capitals": ("ʰAA", "1"),
    "capitals": ("A", ""),
    "marks": ("\u0301", ""),
    "marks and capitals": ("\u0301A", "1"),
    "digits": ("7", ""),
    "slashes": ("/\n", "a"),
    "wide spaces": ("\u3000", "x"),
    "letters": ("a", "1"),
}


def least_seconds(data: bytes, number: int, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        _scan.word_bounds(data, number)
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", LONG)
def test_time_is_linear(kind, name):
    unit, end = LONG[kind]
    n, number = (1 << 16) // len(unit.encode()), _scan.PATTERNS[name]

    def seconds(times, repeats):
        return least_seconds((unit * n * times + end).encode(), number, repeats)

    # Four times as long: a quadratic scan takes 16 times the time.
    short = seconds(1, 5)
    assert seconds(4, 3) < 10 * max(short, 1e-4)
    # So a megabyte is safe to try.
    assert seconds(16, 1) < 100 * max(short, 1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", LONG)
def test_long_runs_have_the_same_words(kind, name):
    unit, end = LONG[kind]

    for n in (15, 16, 17, 33, 255, 256, 257, 3000):
        text = unit * n + end
        assert native_words(text.encode(), name) == expected_words(text, name)


def test_a_megabyte_of_spaces_is_two_words():
    n = 1 << 20
    for name in ("gpt2", "cl100k", "o200k", "llama3", "qwen2"):
        assert native_bounds(b" " * n + b"x", name).tolist() == [0, n - 1, n - 1, n + 1]


# --- Documents in bytes ------------------------------------------------------------------------

TEXT_BYTES = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"a", b" ", b"ab", b"|", b"||", b"|a", b"\0", b"\xff"]), max_size=14
).map(b"".join)


def documents(bounds: bytes) -> list[tuple[int, int]]:
    numbers = np.frombuffer(bounds, np.int64).tolist()
    return list(zip(numbers[::2], numbers[1::2]))


@given(TEXT_BYTES)
@settings(deadline=None, max_examples=500)
def test_lines_keep_their_ending(data):
    expected, at = [], 0
    for line in data.split(b"\n")[:-1]:
        expected.append((at, at + len(line) + 1))
        at += len(line) + 1
    if at < len(data):
        expected.append((at, len(data)))
    assert documents(_scan.line_bounds(data)) == expected


@given(TEXT_BYTES)
@settings(deadline=None, max_examples=500)
def test_paragraphs_lie_between_blank_lines(data):
    expected, at, inside = [], 0, False
    for line in data.splitlines(keepends=True) if b"\r" not in data else _lines(data):
        bare = line[:-2] if line.endswith(b"\r\n") else line[:-1] if line.endswith(b"\n") else line
        if bare and inside:
            expected[-1] = (expected[-1][0], at + len(bare))
        elif bare:
            expected.append((at, at + len(bare)))
        inside = bool(bare)
        at += len(line)
    assert documents(_scan.paragraph_bounds(data)) == expected


def _lines(data: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    return [*lines[:-1], lines[-1][:-1]] if lines[-1] != b"\n" else lines[:-1]


@given(TEXT_BYTES, st.sampled_from([b"|", b"||", b"a|", b"aba", b"\n\n", b"\r\n", b"\xff", b"abab"]))
@settings(deadline=None, max_examples=500)
def test_separators_are_dropped(data, separator):
    expected, at = [], 0
    for piece in data.split(separator):
        if piece:
            expected.append((at, at + len(piece)))
        at += len(piece) + len(separator)
    assert documents(_scan.separated_bounds(data, separator)) == expected


def test_documents_by_hand():
    assert documents(_scan.line_bounds(b"a\r\n\nb")) == [(0, 3), (3, 4), (4, 5)]
    assert documents(_scan.paragraph_bounds(b"\n\na\nb\r\n\r\n\nc\r\n")) == [(2, 5), (10, 11)]
    assert documents(_scan.separated_bounds(b"<s>a<<s>b<s>", b"<s>")) == [(3, 5), (8, 9)]
    for split in (_scan.line_bounds, _scan.paragraph_bounds, lambda data: _scan.separated_bounds(data, b"x")):
        assert split(b"") == b""
    with pytest.raises(ValueError, match="the separator is empty"):
        _scan.separated_bounds(b"a", b"")


# --- Broken UTF-8 ------------------------------------------------------------------------------

BROKEN = [
    b"a", b"  ", b"abcdefgh", b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"\xcc\x81", b"\xc3", b"\xe2\x82", b"\xe2",
    b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0", b"\x80", b"\xbf", b"\xc0\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xe0\xa0\x80",
    b"\xed\xa0\x80", b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80", b"\xf5", b"\xfe", b"\xff", b"1", b"!", b"'", b"\n", b"/", b"\xe3\x80\x80",
]  # fmt: skip
BROKEN_BYTES = st.one_of(st.binary(max_size=12), st.lists(st.sampled_from(BROKEN), max_size=8).map(b"".join))


def first_invalid(data: bytes, begin: int) -> int:
    try:
        data[begin:].decode()
    except UnicodeDecodeError as error:
        return begin + error.start
    return -1


@given(BROKEN_BYTES, st.integers(0, 40))
@settings(deadline=None, max_examples=1000)
def test_broken_utf8_is_where_python_finds_it(data, begin):
    assert _scan.invalid_utf8(data, begin) == first_invalid(data, begin)


def test_broken_utf8_of_every_short_sequence():
    tails = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]
    for first in range(256):
        for length in range(4):
            for tail in itertools.product(tails, repeat=length):
                data = b"." * 8 + bytes([first, *tail])
                assert _scan.invalid_utf8(data) == first_invalid(data, 0), data


def test_nasty_files_are_broken_where_python_finds_it(shared):
    for file in sorted((shared / "corpora" / "nasty").iterdir()):
        data = file.read_bytes()
        assert _scan.invalid_utf8(data) == first_invalid(data, 0), file.name


# --- Cuts --------------------------------------------------------------------------------------

# A character of each class that a rule or a pattern tells apart.
CLASSES = ["a", "s", "A", "\u01c5", "ʰ", "中", "\u0301", "1", "٣", " ", "\u3000", "\n", "\r", "'", "/", "!", "\u017f"]


@lru_cache(maxsize=None)
def _class(character: str) -> str:
    for name, pattern in {
        "letter or number": r"[\p{L}\p{N}]",
        "mark": r"\p{M}",
        "newline": r"[\r\n]",
        "space": r"\s",
    }.items():
        if regex.match(pattern, character):
            return name
    return "other"


def _character(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) == 1 else ""


def cuts(data: bytes, name: str, normalized: bool = False) -> list[int]:
    """Return every place where the pattern may be cut, by the written rule."""
    found = []
    for at in range(1, len(data)):
        before = next(filter(None, (_character(data[max(0, at - k) : at]) for k in (1, 2, 3, 4))), "")
        after = next(filter(None, (_character(data[at : at + k]) for k in (1, 2, 3, 4))), "")
        if not before or not after or name in ("metaspace", "none"):
            continue
        left, right = _class(before), _class(after)
        if name in ("whitespace", "bert"):
            safe = left not in ("space", "newline") and right in ("space", "newline")
        elif left == "letter or number":
            safe = right not in ("letter or number", "mark") and after != "'"
        elif left in ("mark", "other"):
            safe = right == "space"
        else:
            safe = left == "newline" and name != "gpt2" and right not in ("space", "newline") and after != "/"
        if normalized and name in ("whitespace", "bert"):
            safe = safe and after in (" ", "\t", "\n", "\r")
        elif normalized:
            stays = not "\uf000" <= before <= "\uffff" and before not in "\u037a\u1cf2\u1cf3"
            safe = left == "letter or number" and after == " " and stays
        if safe:
            found.append(at)
    return found


def native_cuts(data: bytes, name: str, normalized: bool = False) -> list[int]:
    number, found, at = _scan.PATTERNS[name], [], 0
    while (at := _scan.first_cut(data, at, number, normalized)) >= 0:
        found.append(at)
        at += 1
    return found


def native_cuts_backwards(data: bytes, name: str, normalized: bool = False) -> list[int]:
    number, found, at = _scan.PATTERNS[name], [], len(data)
    while (at := _scan.last_cut(data, at, number, normalized)) >= 0:
        found.append(at)
    return found[::-1]


@given(BROKEN_BYTES, st.sampled_from(NAMES))
@settings(deadline=None, max_examples=1000)
def test_cuts_are_where_the_rule_says(data, name):
    expected = cuts(data, name)

    assert native_cuts(data, name) == native_cuts_backwards(data, name) == expected
    for at in range(-1, len(data) + 2):
        number = _scan.PATTERNS[name]
        assert _scan.first_cut(data, at, number) == min((i for i in expected if i >= at), default=-1)
        assert _scan.last_cut(data, at, number) == max((i for i in expected if i < at), default=-1)


@pytest.mark.parametrize("name", CUT)
def test_cuts_of_random_mixtures_are_where_the_rule_says(name, random_texts):
    for text in random_texts[:1500]:
        data = text.encode()
        for normalized in (False, True):
            found = native_cuts(data, name, normalized)
            assert found == native_cuts_backwards(data, name, normalized) == cuts(data, name, normalized), text


@pytest.mark.parametrize("name", CUT)
def test_cuts_change_no_word_of_any_short_text(name):
    number = _scan.PATTERNS[name]
    texts = ["".join(parts).encode() for n in range(5) for parts in itertools.product(CLASSES, repeat=n)]
    words = {text: native_words(text, name) for text in texts}
    tried = 0
    for text, whole in words.items():
        at = 0
        while (at := _scan.first_cut(text, at, number)) >= 0:
            assert words[text[:at]] + words[text[at:]] == whole, (text, at)
            tried += 1
            at += 1
    assert tried > 10_000


@pytest.mark.parametrize("name", CUT)
def test_cuts_change_no_word_of_random_mixtures(name, random_texts):
    for text in random_texts[:20_000]:
        data = text.encode()
        found = native_cuts(data, name)
        whole = native_words(data, name) if found else []
        for at in found[:3]:
            assert native_words(data[:at], name) + native_words(data[at:], name) == whole, (text, at)


@given(BROKEN_BYTES, st.sampled_from(CUT))
@settings(deadline=None, max_examples=1000)
def test_cuts_change_no_word_of_broken_utf8_that_is_replaced(data, name):
    def words(piece):
        return native_words(piece.decode("utf-8", "replace").encode(), name)

    for at in native_cuts(data, name):
        assert words(data[:at]) + words(data[at:]) == words(data), at


@pytest.mark.parametrize("name", CUT)
def test_cuts_change_no_word_of_2_mb_of_mixed_text(name, mixed_20m):
    with open(mixed_20m, "rb") as file:
        file.seek(7_000_000)
        data = file.read(2_000_000).decode("utf-8", "ignore").encode()
    found = [0, *native_cuts(data, name), len(data)]
    assert len(found) > 100_000
    assert max(np.diff(found)) < 20_000

    number, word_bounds, pieces = _scan.PATTERNS[name], _scan.word_bounds, []
    for start, end in zip(found, found[1:]):  # cut everywhere at once
        pieces.append(np.frombuffer(word_bounds(data[start:end], number), np.int64) + start)
    assert np.array_equal(np.concatenate(pieces), native_bounds(data, name))


def test_a_document_that_is_one_word_has_no_cut(random_texts):
    for text in random_texts[:2000]:
        assert native_cuts(text.encode(), "none") == native_cuts_backwards(text.encode(), "none") == []


@pytest.mark.parametrize(
    "name, data, at",
    [
        ("o200k", "a\u0301", 1),  # letter | mark
        ("o200k", "a'll", 1),  # letter | apostrophe
        ("gpt2", " \na", 2),  # newline | anything, under gpt2
        ("o200k", "!\n/", 2),  # newline | slash
        ("cl100k", "!\n", 1),  # other | newline
        ("llama3", "\n \n", 1),  # newline | space
        ("o200k", '"é', 1),  # other | letter
        ("cl100k", "12", 1),  # number | number
    ],
)
def test_plausible_places_that_are_no_cuts(name, data, at):
    assert at not in native_cuts(data.encode(), name)
