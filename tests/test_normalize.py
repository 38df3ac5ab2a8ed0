"""Normalizers as those of `tokenizers`, character by character and together, whatever Python's version of Unicode is."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import _normalize, _scan, character_map, normalizer_tables
from beam_bpe.normalize import CHARACTER_STEPS, NAMES, check_normalizer, normalize, normalize_documents, normalizer_of, spec, steps_of
from beam_bpe.pretokenize import PATTERNS

tokenizers = pytest.importorskip("tokenizers")
ROOT = Path(__file__).resolve().parents[1]


def bert(**options: bool):
    """Return BertNormalizer with nothing but the options that are given."""
    none = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)
    return tokenizers.normalizers.BertNormalizer(**{**none, **options})


THEIRS = {
    "NFC": tokenizers.normalizers.NFC(),
    "NFD": tokenizers.normalizers.NFD(),
    "NFKC": tokenizers.normalizers.NFKC(),
    "NFKD": tokenizers.normalizers.NFKD(),
    "lowercase": tokenizers.normalizers.Lowercase(),
    "strip_accents": tokenizers.normalizers.StripAccents(),
    "clean_text": bert(clean_text=True),
    "handle_chinese_chars": bert(handle_chinese_chars=True),
    "bert_strip_accents": bert(strip_accents=True),
    "bert": tokenizers.normalizers.BertNormalizer(),
    "bert_cased": tokenizers.normalizers.BertNormalizer(lowercase=False),
}
SEVERAL = [
    "NFC+lowercase", "lowercase+NFC", "NFKC+lowercase+NFKC", "NFD+strip_accents+NFC", "NFKD+NFD", "bert+NFKC", "NFD+clean_text",
    "bert_cased+NFD+lowercase", "NFD+handle_chinese_chars+bert_strip_accents", "handle_chinese_chars+clean_text+NFKD+lowercase",
    "clean_text+NFKC+strip_accents", "bert_strip_accents+bert_strip_accents+NFC", "lowercase+NFKD+bert_strip_accents",
]  # fmt: skip
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
# Without the planes of which no character is assigned to anything but private use.
USED = [char for char in EVERY if not 0x40000 <= ord(char) < 0xE0000 and not 0xF1000 <= ord(char)]
MARKS = [chr(code) for code in character_map.combining_classes()]
CANONICAL = [chr(code) for code in character_map.decompositions("NFD") if not 0xAC00 <= code < 0xD7A4]
COMPATIBLE = [chr(code) for code in character_map.decompositions("NFKD") if not 0xAC00 <= code < 0xD7A4]
# Marks of every category, also those that `tokenizers` does not know as such.
LATE = [char for char in regex.findall(r"\p{M}", "".join(USED)) if char not in MARKS]
HANGUL = [*map(chr, range(0x1100, 0x1200)), "가", "각", "힣", "갂", "\ua960", "\ud7b0", "\ud7cb"]
CONTROLS = [*map(chr, [*range(0x21), 0x7F, 0x85, 0xA0, 0xAD, 0x200B, 0x200D, 0x2028, 0x3000, 0xFEFF, 0xFFFD, 0xE000, 0xFFFF, 0x378])]
CASED = [*"AZÀÉßſİIıΣσςΩKÅǅǈẞԱა", "\U00010400", "Ა", "\u0345", "\u1e9e"]
CHINESE = [*"中日々〇", "\u3400", "\u9fff", "\uf900", "\ufa0e", "\U0002f800", "\U00020000", "\u2f00", "ｱ", "ﾞ", "㌂"]
POOLS = [MARKS, LATE, CANONICAL, COMPATIBLE, HANGUL, CONTROLS, CASED, CHINESE, [*"aeoAか क्"], USED]


def theirs(text: str, name: str) -> str:
    """Return a text as `tokenizers` normalizes it."""
    for step in name.split("+"):
        text = THEIRS[step].normalize_str(text)
    return text


def assert_same(texts: list[str], name: str) -> None:
    """Compare many texts in one call, where they do not touch one another, and look for those that differ if it fails."""
    joined = "x\n".join(texts)  # a letter and a line ending: neither composes with, or is reordered across, another
    if normalize(joined, name) != theirs(joined, name):
        differ = [text for text in texts if normalize(text, name) != theirs(text, name)]
        pytest.fail(f"{name}: {len(differ)} texts differ, such as {differ[:3]!a}")


# ---- the same as tokenizers ----


@pytest.mark.parametrize("context", ["{}", "a\u0323{}\u0301b"])
@pytest.mark.parametrize("name", THEIRS)
def test_every_character_that_is_used(name, context):
    assert_same([context.format(char) for char in USED], name)


MORE = ["e{}\u0301 A", "e\u0301{}", "\u1100{}\u11a8", "가{}", "{}\u1161\u11a8", "\u0301{}\u0316", "か{}\u3099", "\u05d0\u05b7{}\u05bc"]


@pytest.mark.slow
@pytest.mark.parametrize("context", ["{}", "e{}\u0327\u0301"])
@pytest.mark.parametrize("name", [*THEIRS, *SEVERAL])
def test_every_code_point(name, context):
    assert_same([context.format(char) for char in EVERY], name)


@pytest.mark.slow
@pytest.mark.parametrize("context", MORE)
@pytest.mark.parametrize("name", THEIRS)
def test_every_character_in_more_contexts(name, context):
    assert_same([context.format(char) for char in USED], name)


@pytest.mark.parametrize("name", [*THEIRS, *SEVERAL])
def test_random_strings(name):
    rng = random.Random(name)
    assert_same(["".join(rng.choice(rng.choice(POOLS)) for _ in range(rng.randrange(1, 14))) for _ in range(6000)], name)
    # Marks and what composes with them, densely.
    dense = [MARKS, ["\u0301", "\u0323", "\u0327", "\u0345", "\u3099", "\u0334"], [*"aeoAか\u11a8"], CANONICAL, LATE]
    assert_same(["".join(rng.choice(rng.choice(dense)) for _ in range(rng.randrange(2, 9))) for _ in range(6000)], name)


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_pairs_of_what_composes(form):
    marks = [*MARKS[::15], *"\u0301\u0323\u0327\u0345\u3099\u309a\u094d\u09be\u0dca\u0f71"]
    assert_same([base + mark + other for base in [*CANONICAL[::9], *"かकেெ"] for mark in marks[::2] for other in marks[::3]], form)


SAMPLED = st.sampled_from([*MARKS[::7], *HANGUL[::5], *LATE[::9], *CONTROLS, *CASED, *CHINESE, *COMPATIBLE[::40]])
TEXTS = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), SAMPLED), max_size=40)


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.sampled_from([*THEIRS, *SEVERAL]))
def test_any_text(text, name):
    made = normalize(text, name)
    assert made == theirs(text, name)
    if name in ("NFC", "NFD", "NFKC", "NFKD", "strip_accents", "bert_strip_accents"):
        assert normalize(made, name) == made
    assert normalize(text, None) == text


@pytest.mark.parametrize("name", ["NFC", "NFD", "NFKC", "bert", "bert_strip_accents", "bert_cased", "lowercase"])
def test_nasty_files(name, shared):
    files = sorted((shared / "corpora" / "nasty").iterdir())
    assert len(files) > 20
    for file in files:
        text = file.read_bytes().decode("utf-8", "replace")
        assert normalize(text, name) == theirs(text, name), file.name


LONG = ["a" + "\u0301" * 10_000, "a" + "\u0323\u0301" * 5000, "\u0301\u0316" * 5000, "가" * 5000, "\u1100\u1161\u11a8" * 5000,
        "\U0001d15e\U0001d16e" * 5000, "\u0345\u0334\u0301" * 4000, "ﷺ" * 3000, "中" * 5000, "\x00" * 9999, "İ" * 5000]  # fmt: skip


@pytest.mark.parametrize("name", ["NFC", "NFD", "NFKC", "NFKD", "bert", "bert_cased"])
def test_long_runs(name):
    for text in LONG:
        assert normalize(text, name) == theirs(text, name)


@pytest.mark.parametrize("length", [1, 2, 14, 15, 16, 17, 31, 32, 33, 4095, 4096])
def test_ascii_of_every_length_around_one_character(length):
    for char in ["é", "\u0301", "中", "\x00", "\t", "A", "\x7f", "한"]:
        for text in ("xY " * length)[:length] + char, char + ("xY " * length)[:length], ("aB" * length)[:length] + char + "C" * length:
            for name in ("NFC", "NFD", "bert", "bert_cased", "lowercase", "clean_text"):
                assert normalize(text, name) == theirs(text, name), (text, name)


def test_by_hand():
    assert normalize("e\u0301 \u212b ﬁ", "NFC") == "é Å ﬁ" and normalize("e\u0301 ﬁ", "NFKC") == "é fi"
    assert normalize("ÉΔΟΣ", "lowercase") == "éδοσ"  # str.lower would end it with ς
    assert normalize("İ", "lowercase") == "i\u0307"
    assert normalize("é", "strip_accents") == "é" and normalize("é", "NFD+strip_accents") == "e"
    assert normalize(" Ünï\tcode\x00\ufffd\u200d中x", "bert") == " uni code 中 x"
    assert normalize(" Ünï中", "bert_cased") == " Ünï 中 "
    # A mark of Unicode 13 is unknown to tokenizers 0.23: nothing is reordered across it, nothing composes.
    assert normalize("a\U00011938\u0301", "NFC") == "a\U00011938\u0301"


# ---- whatever version of Python ----


def test_nothing_of_it_is_known_from_python():
    for module in ("normalize", "character_map", "normalizer_tables"):
        tree = ast.parse((ROOT / "beam_bpe" / f"{module}.py").read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
        assert not names & {"unicodedata", "regex", "lower", "casefold", "isspace", "isalpha", "isprintable"}


@pytest.fixture(scope="module")
def generator():
    path = ROOT / "cython_ext" / "make_normalizer_tables.py"
    loaded = importlib.util.spec_from_file_location("make_normalizer_tables", path)
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_committed_tables_are_the_generated_ones(generator):
    if tokenizers.__version__ != generator.TOKENIZERS_VERSION:
        pytest.skip(f"tokenizers is {tokenizers.__version__}; the tables are those of {generator.TOKENIZERS_VERSION}")
    assert generator.module() == (ROOT / "beam_bpe" / "normalizer_tables.py").read_text(encoding="ascii")
    assert generator.header() == (ROOT / "cython_ext" / "bert_classes.h").read_text(encoding="ascii")


def test_another_tokenizers_is_refused(generator, monkeypatch):
    assert normalizer_tables.LIBRARY == f"tokenizers {generator.TOKENIZERS_VERSION}"
    monkeypatch.setattr(generator, "version", lambda name: "0.24.0")
    with pytest.raises(SystemExit, match="tokenizers is 0.24.0; the tables need tokenizers==0.23.3"):
        generator.module()


# ---- documents ----


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=5), st.sampled_from(["NFC", "NFKD", "bert", "NFC+lowercase", "bert_cased+NFKC"]), st.sampled_from([bytes, bytearray, memoryview]))
def test_documents_are_normalized_one_by_one(texts, name, kind):
    encoded = [b"", *(text.encode() for text in texts)]
    ends = np.cumsum([3, *(len(text) + 2 for text in encoded)])
    bounds = np.stack([ends[:-1], ends[1:] - 2], 1).reshape(-1)
    data, found = normalize_documents(kind(b"..." + b"..".join(encoded) + b"."), bounds, name)
    expected = [normalize(text.decode(), name).encode() for text in encoded]
    assert [bytes(data[i:j]) for i, j in zip(found[::2], found[1::2])] == expected
    assert bytes(data) == b"".join(expected) and found.dtype == np.int64


def test_documents_by_hand():
    data, bounds = normalize_documents(b"\xc3\x89Ae\xcc\x81", np.array([0, 3, 3, 3, 3, 6, 0, 2]), "NFC+lowercase")
    assert (bytes(data), bounds.tolist()) == ("éaéé".encode(), [0, 3, 3, 3, 3, 5, 5, 7])
    data, bounds = normalize_documents(b"", np.empty(0, np.int64), "bert")
    assert (bytes(data), bounds.tolist()) == (b"", [])
    given = np.array([0, 1])
    assert normalize_documents(b"A", given, None) == (b"A", given)


def test_broken_documents_are_replaced():
    data = b"\xc3\x89\xffA\xc3\x89"  # cut inside a character, and broken
    found, bounds = normalize_documents(data, np.array([0, 1, 1, 4, 4, 6]), "lowercase")
    assert [bytes(found[i:j]).decode() for i, j in zip(bounds[::2], bounds[1::2])] == ["\ufffd", "\ufffd\ufffda", "é"]


def test_lone_surrogates_stay():
    assert normalize("É\ud800É\udfff\ud83d", "lowercase") == "é\ud800é\udfff\ud83d"
    assert normalize("e\ud800\u0301", "NFC") == "e\ud800\u0301"


def test_bounds_that_are_none():
    one = character_map.passes(("lowercase",))[0]
    for bounds in ([0, 4], [-1, 1], [2, 1], [0]):
        with pytest.raises(ValueError, match="document 0 is|not a start and an end"):
            one.documents(b"abc", np.array(bounds, np.int64))
    with pytest.raises(ValueError, match="document 1 is not valid UTF-8"):
        one.documents("aé".encode(), np.array([0, 1, 1, 2], np.int64))


def test_maps_that_reach_beyond_their_pool_are_refused():
    blocks = np.zeros(0x1100, np.uint16)

    def made(entry, pool):
        return _normalize.CharacterMap(blocks, np.full(256, entry, np.uint32), pool)

    assert made(_normalize.STRING, b"\x02ab").documents(b"xx", np.array([0, 2], np.int64))[0] == b"abab"
    marked = bytes([_normalize.NO_STRING, 1, 230, 1]) + b"m"
    assert made(_normalize.MARKED, marked).documents(b"xx", np.array([0, 2], np.int64))[0] == b"mm"
    for kind, pool in [(_normalize.STRING, b""), (_normalize.STRING, b"\x03ab"), (_normalize.STRING | 80, b"\x01a"), (7, b"")]:
        with pytest.raises(ValueError, match="beyond the pool|there is no kind 7"):
            made(kind, pool)
    for cut in range(len(marked)):
        with pytest.raises(ValueError, match="beyond the pool"):
            made(_normalize.MARKED, marked[:cut])
    with pytest.raises(ValueError, match="there is no block 9"):
        _normalize.CharacterMap(np.full(0x1100, 9, np.uint16), np.zeros(256, np.uint32), b"")
    with pytest.raises(ValueError, match="256 entries"):
        _normalize.CharacterMap(blocks[1:], np.zeros(256, np.uint32), b"")


# ---- names ----


def test_names():
    assert steps_of("bert") == ("clean_text", "handle_chinese_chars", "bert_strip_accents", "lowercase")
    assert steps_of("NFKC+bert_cased") == ("NFKC", "clean_text", "handle_chinese_chars")
    for name in (None, *CHARACTER_STEPS, *NAMES, *SEVERAL):
        check_normalizer(name)
    for name in ("nfc", "", "NFC+", "+NFC", "NFC lowercase", "NFC+bart"):
        with pytest.raises(ValueError, match=re.escape("there is bert, bert_cased, sentencepiece, metaspace, NFC, ")) as caught:
            check_normalizer(name)
        assert "several joined by '+'" in str(caught.value)
        with pytest.raises(ValueError, match="there is no normalizer"):
            normalize("a", name)


def test_spec():
    assert spec(None) is None and normalizer_of(None) is None
    assert spec("NFC") == {"steps": ["NFC"], "library": "tokenizers 0.23.3"}
    assert spec("bert") == spec(NAMES["bert"]) != spec("bert_cased")
    for name in ("NFC", "NFC+lowercase", "bert", "bert_cased"):
        assert normalizer_of(spec(name)) == name
    with pytest.raises(ValueError, match="of the artifact is that of tokenizers 0.9; here it is that of tokenizers 0.23.3"):
        normalizer_of({**spec("NFC"), "library": "tokenizers 0.9"})
    with pytest.raises(ValueError, match="there is no normalizer 'NFX'"):
        normalizer_of({**spec("NFC"), "steps": ["NFX"]})


# ---- where a text may be cut before it is normalized ----


def test_what_stands_before_a_cut_stays_a_letter():
    """Cuts lie between a letter and a space: normalized by whatever steps it must never end with a space, or be empty."""
    steps = [step for step in CHARACTER_STEPS if step != "handle_chinese_chars"]
    number = _scan.PATTERNS["gpt2"]
    letters = [char for char in USED if (n := len(char.encode())) == _scan.first_cut(f"{char} ".encode(), n, number, True)]
    known = set(letters)
    assert len(letters) > 130_000 and all(regex.match(r"[\p{L}\p{N}]", char) for char in letters)
    left: set[str] = set()  # what may stand behind the last letter of what a letter becomes
    for step in steps:
        for char, made in zip(letters, normalize("|".join(letters), step).split("|"), strict=True):
            if made != char:
                at = max((i for i, c in enumerate(made) if c in known), default=-1)
                assert at >= 0, (char, step)
                left |= {*made[at + 1 :]}
    while more := {c for char in left for step in steps for c in normalize(char, step)} - left:
        left |= more
    assert left and not any(regex.match(r"\s", char) for char in left)


PARTS = ["a", "1", "é", "ﹺ", "\u1cf2", "\u037a", "e\u0301", "\u0958", "中", "ﷺ", "⑴", "Σ", "İ", "\u0301", "\u093c", "´", "'s", "'", "!", "/", "\u200d", "\ufffd",
         "\xad", "\x00", "\x0b", "\x85", "\u3000", "\xa0", " ", " ", "  ", "\t", "\n", "\r\n", "\u11a8", "가", "\uf900", "\ue000", "B"]  # fmt: skip


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name not in ("metaspace", "none")])
def test_cuts_change_no_word_of_normalized_text(pattern):
    from beam_bpe.cutting import WordRule
    from beam_bpe.pretokenize import pre_tokenizer

    chosen, rng, tried = pre_tokenizer(pattern), random.Random(pattern), 0
    names = [name for name in (*THEIRS, *SEVERAL) if WordRule(chosen, (), name).may_be_cut]
    assert ("bert" in names) == (pattern in ("whitespace", "bert")) and "NFKC+lowercase+NFKC" in names
    for _ in range(6000):
        text, name = "".join(rng.choices(PARTS, k=rng.randrange(2, 9))), rng.choice(names)
        data, at = text.encode(), 0
        while (at := _scan.first_cut(data, at, chosen.scanner, True)) >= 0:
            pieces = data[:at].decode(), data[at:].decode()
            words = itertools.chain(*(chosen.split(normalize(piece, name)) for piece in pieces))
            assert [*words] == chosen.split(normalize(text, name)), (text, name, at)
            tried += 1
            at += 1
    assert tried > 500


@pytest.mark.parametrize("name", ["bert+bert", "handle_chinese_chars+handle_chinese_chars", "lowercase+handle_chinese_chars+handle_chinese_chars"])
def test_a_step_that_stands_twice(name):
    normalizers = pytest.importorskip("tokenizers").normalizers
    one = {"clean_text": False, "handle_chinese_chars": True, "strip_accents": False, "lowercase": False}
    steps = [normalizers.BertNormalizer()] * 2 if name == "bert+bert" else [normalizers.BertNormalizer(**one)] * 2
    theirs = normalizers.Sequence([*([normalizers.Lowercase()] if name.startswith("low") else []), *steps])
    for text in ("a中b", "中", "\uf900x\u3400", "É中"):
        assert normalize(text, name) == theirs.normalize_str(text)


def test_what_is_no_text_and_no_name():
    with pytest.raises(TypeError, match="text is a str, not bytes"):
        normalize(b"a", "NFC")
    with pytest.raises(TypeError, match="normalizer=5"):
        check_normalizer(5)
