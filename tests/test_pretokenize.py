"""Pre-tokenizers: names, regexes, functions; the native scanners against the slow path."""

from __future__ import annotations

import pickle
import random
import sys
import time
from importlib.metadata import version

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from beam_bpe import _words, reference
from beam_bpe.pretokenize import PATTERNS, PreTokenizationTimeout, PreTokenizer, Scanned, pre_tokenizer

SAMPLE = "It's 12345 tests,\r\n\r\n  don't  stop\t\n日本語 e\u0301 ſ'ſ !?\n/ \u00a0x  "
BACKTRACKS = r"(a|aa)+$|x"  # on many a and then another character
FRAGMENTS = [
    "'s", "'LL", "'ſ", "'", "’", "a", "B", "ǅ", "ʰ", "日本", "\u0301", "1", "123", "½", "٣", " ", "  ", "\t", "\r", "\n",
    "\r\n", "\xa0", "\u2028", "\u3000", "\u200b", "/", "!?", "_", "\0", "👨\u200d👩", "\ufeff", "\u0378", "<|endoftext|>",
]  # fmt: skip


def slow(name: str) -> PreTokenizer:
    """Return the named pattern as a custom regex."""
    return pre_tokenizer("(?:" + PATTERNS[name] + ")", gaps="drop")


def counted(chosen: PreTokenizer, documents: list[bytes], **options) -> tuple[dict[bytes, tuple[int, int]], Scanned]:
    """Return {word: (count, documents)} and what else was counted."""
    table = _words.WordTable(documents=True)
    ends = np.cumsum([len(document) for document in documents])
    bounds = np.stack([ends - [len(document) for document in documents], ends], 1).reshape(-1).astype(np.int64)
    scanned = chosen.count(table, b"".join(documents), bounds, **options)
    packed = table.pack(1, ordered=True)
    if not packed:
        return {}, scanned
    _, _, data, offsets, counts, per_document = _words.unpack(packed[0][1])
    at = np.frombuffer(offsets, np.int64).tolist()
    numbers = zip(np.frombuffer(counts, np.int64).tolist(), np.frombuffer(per_document, np.int64).tolist())
    return {data[i:j]: pair for i, j, pair in zip(at, at[1:], numbers)}, scanned


# ---- names ----


def test_the_names():
    assert list(PATTERNS) == ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "whitespace", "bert", "metaspace", "none"]
    assert pre_tokenizer().name == "o200k"
    for name, text in PATTERNS.items():
        chosen = pre_tokenizer(name)
        library = "tokenizers 0.23.3" if name == "bert" else "unicode 16.0"
        assert (chosen.name, chosen.pattern, chosen.library) == (name, text, library)
        assert chosen.gaps == ("drop" if name in ("whitespace", "bert") else "none")
        assert chosen.drops_spaces == (chosen.gaps == "drop")
        assert chosen.scanner is not None and chosen.may_be_cut == (name not in ("metaspace", "none"))


@pytest.mark.parametrize("name", PATTERNS)
def test_a_named_pattern_splits_as_its_regex(name):
    chosen = pre_tokenizer(name)
    assert chosen.split(SAMPLE) == [m.group() for m in regex.finditer(PATTERNS[name], SAMPLE)]
    assert chosen.split("") == []
    assert ("".join(chosen.split(SAMPLE)) == SAMPLE) == (not chosen.drops_spaces)


@pytest.mark.parametrize("chosen", [*PATTERNS, r" ?\w+"])
@pytest.mark.parametrize("gaps", ["keep", "drop"])
def test_what_is_one_word_is_split_into_itself(chosen, gaps):
    chosen = pre_tokenizer(chosen) if chosen in PATTERNS else pre_tokenizer(chosen, gaps=gaps)
    some = random.Random(5)
    texts = ["", *FRAGMENTS, *("".join(some.choices(FRAGMENTS, k=some.randint(2, 4))) for _ in range(300))]
    told = [chosen.is_word(text) for text in texts]
    assert told == [chosen.split(text) == [text] for text in texts] and any(told)
    assert not all(told)


def test_a_pre_tokenizer_is_passed_through():
    chosen = pre_tokenizer(r" ?\w+", gaps="drop")
    assert pre_tokenizer(chosen) is chosen


@pytest.mark.parametrize(
    "misspelt, suggestion", [("cl10k", "cl100k"), ("O200K", None), ("gpt-2", "gpt2"), ("lama3", "llama3"), ("whitespaces", "whitespace")]
)
def test_a_misspelt_name_is_refused(misspelt, suggestion):
    with pytest.raises(ValueError, match="no pattern named") as caught:
        pre_tokenizer(misspelt)
    assert repr(misspelt) in str(caught.value) and "Known: gpt2, cl100k" in str(caught.value)
    if suggestion:
        assert f"did you mean {suggestion!r}?" in str(caught.value)


@pytest.mark.parametrize("name", ["", "zzzzz"])
def test_a_name_like_no_other_gets_no_suggestion(name):
    with pytest.raises(ValueError, match="Known:") as caught:
        pre_tokenizer(name)
    assert "did you mean" not in str(caught.value)


# ---- regexes ----


@pytest.mark.parametrize("text", ["(a", "[z-a]+", r"\p{Nope}+", "*"])
def test_a_regex_that_does_not_compile(text):
    with pytest.raises(ValueError, match="does not compile: .") as caught:
        pre_tokenizer(text)
    assert repr(text) in str(caught.value)


def test_a_regex_that_searches_backwards_is_refused():
    with pytest.raises(ValueError, match="from the end"):
        pre_tokenizer(r"(?r)\w+")


@pytest.mark.parametrize("gaps", ["isolated", "", None, "none"])
def test_unknown_gaps(gaps):
    with pytest.raises(ValueError, match="choose 'keep' or 'drop'"):
        pre_tokenizer(r"\w+", gaps=gaps)


def test_gaps():
    text = "..low,  low!"
    assert pre_tokenizer(r"\w+").split(text) == ["..", "low", ",  ", "low", "!"]
    assert pre_tokenizer(r"\w+", gaps="drop").split(text) == ["low", "low"]
    assert pre_tokenizer("[x]").split(text) == [text]
    assert pre_tokenizer("[x]", gaps="drop").split(text) == []


def test_capture_groups_are_ignored():
    assert pre_tokenizer(r"(\w)(\w+)|(\d)").split("low, lower") == ["low", ", ", "lower"]


@pytest.mark.parametrize("pattern, text", [("x*", "axxb"), (r"\w*", "a, b"), (r"\b|\d", "ab 1"), ("(?=a)", "aabca")])
def test_empty_matches_are_no_words(pattern, text):
    words = pre_tokenizer(pattern).split(text)
    assert "" not in words and "".join(words) == text
    assert "" not in pre_tokenizer(pattern, gaps="drop").split(text)


@pytest.mark.parametrize(
    "pattern", [r"\w+", r" ?\w+", r"\d{2}|[^\W\d]+", r"x*", r"(?=a)|b", r"\b", r"(a)(?=b)", r"\s+(?!\S)", r"[ab]|c+$"]
)
def test_kept_gaps_are_those_of_hugging_face(pattern):
    oracle = pre_tokenizers.Split(Regex(pattern), "isolated")
    chosen = pre_tokenizer(pattern)
    rng = random.Random(pattern)
    for _ in range(300):
        text = "".join(rng.choices("aabbcx 12, ", k=rng.randrange(1, 12)))
        assert chosen.split(text) == [word for word, _ in oracle.pre_tokenize_str(text)], text


@pytest.mark.parametrize("pattern", [r" ?\w+", r"[^\W\d]+|\d", r"(a)b|c+"])
@pytest.mark.parametrize("gaps", ["keep", "drop"])
@given(text=st.text("abc 1,\né日", max_size=20))
def test_custom_regexes_are_those_of_the_reference(pattern, gaps, text):
    assert pre_tokenizer(pattern, gaps=gaps).split(text) == reference.pre_tokenize(text, pattern, gaps)


def test_the_library_of_a_custom_regex_is_its_version():
    assert pre_tokenizer(r"\w+ ?").library == f"regex {version('regex')}"


@pytest.mark.parametrize("text", ["a" * 80 + "b", "x" + "a" * 80 + "b"])
def test_a_backtracking_regex_has_a_time_limit(text):
    chosen = pre_tokenizer(BACKTRACKS, time_limit=0.1)
    started = time.monotonic()
    with pytest.raises(PreTokenizationTimeout) as caught:
        chosen.split(text)
    assert time.monotonic() - started < 5
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    for part in (repr(BACKTRACKS), "0.1 s", f"{len(text)} characters", text[:60], "time_limit"):
        assert part in message


def test_the_time_limit_holds_while_counting():
    chosen = pickle.loads(pickle.dumps(pre_tokenizer(BACKTRACKS, time_limit=0.1)))
    with pytest.raises(PreTokenizationTimeout):
        counted(chosen, [b"fine ", b"a" * 80 + b"b"])


# ---- functions ----


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """Put a module on the path; return (its name, the file that tells that it was imported)."""
    name, trace = f"splitting_{tmp_path.name.replace('-', '_')}", tmp_path / "imported"
    (tmp_path / f"{name}.py").write_text(
        f"open({str(trace)!r}, 'a').close()\n"
        "def words(text): return text.split()\n"
        "def generated(text): yield from ['a', '', 'b']\n"
        "def numbers(text): return [1, 2]\n"
        "def raw(text): return [text.encode()]\n"
        "LIMIT = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name, trace
    sys.modules.pop(name, None)


def test_a_function_gives_the_words(functions):
    name, _ = functions
    chosen = pre_tokenizer(split_with=f"{name}:words")
    assert (chosen.name, chosen.pattern, chosen.gaps) == ("callable", f"{name}:words", "drop")
    assert chosen.split(" low  lower\n") == ["low", "lower"]
    assert chosen.scanner is None and not chosen.may_be_cut
    words, scanned = counted(chosen, [b"low low", b"low lower"])
    assert words == {b"low": (3, 2), b"lower": (1, 1)} and scanned == Scanned(4)


def test_empty_words_of_a_function_are_skipped(functions):
    assert pre_tokenizer(split_with=f"{functions[0]}:generated").split("") == ["a", "b"]


@pytest.mark.parametrize("function, type_", [("numbers", "int"), ("raw", "bytes")])
def test_a_function_must_give_text(functions, function, type_):
    chosen = pre_tokenizer(split_with=f"{functions[0]}:{function}")
    with pytest.raises(TypeError, match=f"{function} must give words of type str, not {type_}"):
        chosen.split("low")


@pytest.mark.parametrize("name", ["os", "os:", ":join", "", "no_such_module_here:f", "os:no_such_function", ".relative:f"])
def test_a_function_that_cannot_be_found(name):
    with pytest.raises(ValueError, match="module:function|cannot be imported") as caught:
        pre_tokenizer(split_with=name)
    assert repr(name) in str(caught.value)


def test_what_is_named_must_be_a_function(functions):
    with pytest.raises(ValueError, match="is a int, not a function"):
        pre_tokenizer(split_with=f"{functions[0]}:LIMIT")


def test_the_function_of_an_artifact_is_imported_only_when_allowed(functions):
    name, trace = functions
    spec = {"name": "callable", "pattern": f"{name}:words", "gaps": "drop", "library": f"python {name}:words"}
    for allowed in ((), ["another:function"], [f"{name}:generated"], [name]):
        chosen = PreTokenizer.from_spec(spec, allow_callables=allowed)
        for one in (chosen, pickle.loads(pickle.dumps(chosen))):
            with pytest.raises(ValueError, match="only when you allow it") as caught:
                one.split("low lower")
            assert f"allow_callables=['{name}:words']" in str(caught.value)
            with pytest.raises(ValueError, match="only when you allow it"):
                counted(one, [b"low"])
        assert chosen.spec() == spec and repr(chosen) and hash(chosen) is not None
    assert not trace.exists() and name not in sys.modules
    assert PreTokenizer.from_spec(spec, allow_callables=[f"{name}:words"]).split("low lower") == ["low", "lower"]
    assert trace.exists()


# ---- specs and pickles ----

EVERY = [*PATTERNS, r" ?\w+"]


@pytest.mark.parametrize("pattern", EVERY)
def test_spec_round_trip(pattern):
    chosen = pre_tokenizer(pattern)
    again = PreTokenizer.from_spec(chosen.spec())
    assert again == chosen and again.spec() == chosen.spec() and again.split(SAMPLE) == chosen.split(SAMPLE)
    assert set(chosen.spec()) == {"name", "pattern", "gaps", "library"}


def test_the_spec_tells_pre_tokenizers_apart():
    several = [pre_tokenizer(p) for p in EVERY] + [pre_tokenizer(r" ?\w+", gaps="drop"), pre_tokenizer(split_with="os.path:split")]
    assert len({tuple(one.spec().items()) for one in several}) == len(several) == len(set(several))
    assert pre_tokenizer(r" ?\w+", time_limit=1) == pre_tokenizer(r" ?\w+")


@pytest.mark.parametrize("pattern", EVERY)
def test_pickling_before_and_after_use(pattern):
    chosen = pre_tokenizer(pattern, time_limit=7)
    for _ in range(2):
        again = pickle.loads(pickle.dumps(chosen))
        assert again == chosen and again.time_limit == chosen.time_limit and again.split(SAMPLE) == chosen.split(SAMPLE)


def test_a_used_function_is_pickled_by_name(functions):
    chosen = pre_tokenizer(split_with=f"{functions[0]}:words")
    fresh = pickle.dumps(chosen)
    chosen.split("low")
    assert pickle.dumps(chosen) == fresh
    assert pickle.loads(fresh).split("low lower") == ["low", "lower"]


# ---- counting: scanner and slow path ----


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=60, deadline=None)
@given(documents=st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), min_size=1, max_size=4))
def test_scanner_and_slow_path_count_alike(name, documents):
    encoded = [document.encode() for document in documents]
    native, scanned = counted(pre_tokenizer(name), encoded)
    assert (native, scanned) == counted(slow(name), encoded)
    assert scanned.words == sum(count for count, _ in native.values())


@pytest.mark.parametrize("name", PATTERNS)
def test_scanner_and_slow_path_on_nasty_files(name, shared):
    documents = []
    for path in sorted((shared / "corpora" / "nasty").iterdir()):
        documents.append(path.read_bytes()[:40_000].decode(errors="replace").encode())
    assert len(documents) > 20
    native, scanned = counted(pre_tokenizer(name), documents)
    assert (native, scanned) == counted(slow(name), documents)
    assert scanned.words > 25


@pytest.mark.parametrize("limit", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("name", ["o200k", "whitespace", "none"])
def test_overlong_words_are_counted_and_left_out(name, limit):
    documents = [b"low lower lower", b"\xe6\x97\xa5\xe6\x9c\xac lowest", b"x"]
    words = [word.encode() for document in documents for word in pre_tokenizer(name).split(document.decode())]
    short = [word for word in words if len(word) <= limit]
    expected = Scanned(len(short), len(words) - len(short), sum(map(len, words)) - sum(map(len, short)))
    for chosen in (pre_tokenizer(name), slow(name)):
        found, scanned = counted(chosen, documents, max_word_bytes=limit)
        assert scanned == expected
        assert set(found) == set(short) and sum(count for count, _ in found.values()) == len(short)


def test_counting_without_documents():
    for chosen in (pre_tokenizer("gpt2"), slow("gpt2"), pre_tokenizer(r"\w+ ?")):
        table = _words.WordTable()
        assert chosen.count(table, b"", np.empty(0, np.int64)) == Scanned()
        assert chosen.count(table, b"", np.array([0, 0])) == Scanned()
        assert len(table) == 0


def test_counting_reads_any_buffer():
    data = b"..low low.."
    for chosen in (pre_tokenizer("whitespace"), slow("whitespace")):
        for buffer in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
            table = _words.WordTable()
            assert chosen.count(table, buffer, np.array([2, 9])) == Scanned(2) and len(table) == 1
