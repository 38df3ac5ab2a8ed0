"""Finding added tokens: against a plain twin, on bytes, and at a cost that does not grow with their number."""

from __future__ import annotations

import random
import re
import time

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe.added import _SPACES, _WORD, AddedTokens
from beam_bpe.layout import AddedToken


def added(texts, **flags) -> list[AddedToken]:
    return [AddedToken(text, 300 + i, **flags) for i, text in enumerate(texts)]


def found(tokens, data, normalizer=None) -> list:
    """Return the segments as their bytes, those of tokens with their id."""
    data = data.encode() if isinstance(data, str) else data
    return [(s.data.decode("utf-8", "replace"), s.token.id) if s.token else s.data.decode("utf-8", "replace") for s in AddedTokens(tokens, normalizer).cut(data)]


def plain(texts, data: bytes) -> list:
    """Return the same by an alternation of all, the longest first."""
    pattern = re.compile(b"|".join(re.escape(t.encode()) for t in sorted(texts, key=lambda t: -len(t.encode()))))
    parts, at = [], 0
    for match in pattern.finditer(data):
        parts += [data[at : match.start()], match.group()]
        at = match.end()
    return [part for part in [*parts, data[at:]] if part]


def test_leftmost_then_longest():
    tokens = added(["ab", "abc", "bcd", "c"])
    assert found(tokens, "xabcd") == ["x", ("abc", 301), "d"]
    assert found(tokens, "abd bcd") == [("ab", 300), "d ", ("bcd", 302)]
    assert found(tokens, "cc") == [("c", 303), ("c", 303)]
    assert found(tokens, "") == [""]
    assert found(tokens, "x") == ["x"]
    assert found(added(["abcdef", "ab"]), "abcde") == [("ab", 301), "cde"]  # the end of the text cuts the longer one off
    assert found(added(["abcdef", "abcd"]), "abcde") == [("abcd", 301), "e"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("ab<é的", min_size=1, max_size=6), min_size=1, max_size=6, unique=True),
    st.text("ab<é的 ", max_size=40).map(str.encode) | st.binary(max_size=20),
    st.sampled_from([0, 100]),
)
def test_equals_an_alternation(texts, data, more):
    texts = [*texts, *(f"{chr(0x4e00 + i)}{i}" for i in range(more))]
    finder = AddedTokens(added(texts))
    segments = finder.cut(data)
    assert [s.data for s in segments if s.data] == plain(texts, data)
    assert b"".join(s.data for s in segments) == data
    assert all(data[s.start : s.end] == s.data for s in segments)
    assert finder.may_occur_in(data) or not any(s.token for s in segments)


def test_sides():
    assert found(added(["<m>"], lstrip=True), " \n\u3000<m> a") == [(" \n\u3000<m>", 300), " a"]
    assert found(added(["<m>"], rstrip=True), "a <m> \t\xa0b") == ["a ", ("<m> \t\xa0", 300), "b"]
    assert found(added(["<m>"], lstrip=True, rstrip=True), "  <m>  <m>  ") == [("  <m>  ", 300), ("<m>  ", 300)]
    assert found(added(["<m>"], lstrip=True), "\x1c<m>") == ["\x1c", ("<m>", 300)]  # whitespace to Python only
    assert found(added(["<m>"], lstrip=True), b"\x80\x80\x20<m>") == ["\ufffd\ufffd", (" <m>", 300)]
    assert found(added(["low"], single_word=True), "low lower below low_ low\u200d 低low lowé low.") == [
        ("low", 300), " lower below low_ low\u200d 低low lowé ", ("low", 300), "."
    ]  # fmt: skip
    assert found(added(["low"], single_word=True), b"a\xfflow\xff low") == ["a\ufffd", ("low", 300), "\ufffd ", ("low", 300)]


def test_normalized_ones_are_found_after_the_others():
    tokens = [AddedToken("e\u0301", 300, normalized=True), AddedToken("é!", 301), AddedToken("e", 302)]
    assert found(tokens, "é!é e\u0301", "NFC") == [("é!", 301), ("é", 300), " ", ("e", 302), "\u0301"]
    assert found(tokens, "é!é e\u0301") == [("é!", 301), "é ", ("e", 302), "\u0301"]
    assert found(tokens[:1], "é e\u0301") == ["é ", ("e\u0301", 300)]
    assert found(tokens[:1], "é e\u0301", "NFC") == [("é", 300), " ", ("é", 300)]
    assert AddedTokens(tokens, "NFC").may_occur_in(b"x")
    both = [AddedToken("é", 300, normalized=True), AddedToken("e\u0301", 301, normalized=True)]
    assert found(both, "é", "NFC") == [("é", 300)]  # the first of those that become the same


def test_classes_of_characters_are_those_of_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    if regex.match(r"\p{Cn}", "\U0001fac8") is None:
        pytest.skip("this regex follows a later Unicode")
    theirs = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    theirs.add_tokens([tokenizers.AddedToken("\x01", single_word=True, normalized=False), tokenizers.AddedToken("\x02", lstrip=True, normalized=False)])
    for code in [*range(3, 0x3400), *range(0x3400, 0x110000, 37), *range(0xF900, 0x12000), *range(0x1D000, 0x1FC00), *range(0xE0000, 0xE0200)]:
        if 0xD800 <= code < 0xE000:
            continue
        char = chr(code)
        word = 1 not in theirs.encode(char + "\x01").ids
        assert word == bool(_WORD.match(char)), hex(code)
        space = theirs.encode(char + "\x02").ids == [2]
        assert space == (char in _SPACES), hex(code)


def test_the_cost_does_not_grow_with_the_number_of_tokens_or_of_spaces():
    rng = random.Random(1)
    many = {"<" + "".join(rng.choices("abcdefgh", k=9)) + ">" for _ in range(100_000)}
    text = ("x<" * 50_000 + "".join(sorted(many)[:5000])).encode()
    begun = time.process_time()
    finder = AddedTokens(added(sorted(many)))
    assert sum(s.token is not None for s in finder.cut(text)) == 5000
    assert not finder.may_occur_in(b"no such beginning " * 10_000)
    spaces = " " * 200_000
    for flags in ({"lstrip": True}, {"rstrip": True}, {"single_word": True}, {}):
        AddedTokens(added([" ", "\t"], **flags)).cut(spaces.encode())
        assert sum(s.token is not None for s in AddedTokens(added([" "], **flags)).cut(spaces[:1000].encode())) == 1000
        AddedTokens(added(["<m>"], **flags)).cut((spaces + "<m>" + spaces).encode())
    nested = ["a" * n for n in range(1, 300)]
    assert len(AddedTokens(added(nested)).cut(b"a" * 29_900)) == 100
    assert time.process_time() - begun < 20
