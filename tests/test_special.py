"""Special tokens: cutting documents, ranges that would cut a token, words that hold one."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_bpe.special import SpecialTokens

# Few letters, so that tokens overlap, nest and repeat.
TOKENS = st.lists(st.text("ab<é", min_size=1, max_size=4), max_size=4, unique=True)
TEXT = st.text("ab<é", max_size=24).map(str.encode)


def cut(tokens, *documents: bytes) -> tuple[list[bytes], int]:
    """Return the pieces of documents that lie end to end, and the number of cuts."""
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    bounds = np.stack([ends - [len(document) for document in documents], ends], 1).reshape(-1)
    data = b"".join(documents)
    found, cuts = SpecialTokens(tokens).cut(data, bounds)
    assert found.dtype == np.int64 and len(found) % 2 == 0
    return [data[i:j] for i, j in found.reshape(-1, 2).tolist()], cuts


def expected_cut(tokens, document: bytes) -> tuple[list[bytes], int]:
    """Cut position by position."""
    encoded = sorted((token.encode() for token in tokens), key=len, reverse=True)
    pieces, start, at, cuts = [], 0, 0, 0
    while at < len(document):
        hit = next((token for token in encoded if document.startswith(token, at)), None)
        if hit is None:
            at += 1
            continue
        pieces.append(document[start:at])
        at = start = at + len(hit)
        cuts += 1
    pieces.append(document[start:])
    return [piece for piece in pieces if piece], cuts


# ---- making ----


def test_none():
    specials = SpecialTokens()
    assert (specials.tokens, specials.encoded, specials.longest) == ((), (), 0)
    bounds = np.array([0, 2, 2, 2])
    found, cuts = specials.cut(b"ab", bounds)
    assert (found.tolist(), cuts) == (bounds.tolist(), 0)
    assert not specials.spans(b"ab", 1)


def test_order_and_bytes_are_kept():
    specials = SpecialTokens(["<|é|>", "<b>"])
    assert specials.tokens == ("<|é|>", "<b>") and specials.encoded == ("<|é|>".encode(), b"<b>")
    assert specials.longest == 6


@pytest.mark.parametrize(
    "tokens, error, message",
    [
        (["<a>", ""], ValueError, "special token 1 is empty"),
        (["<a>", "<b>", "<a>"], ValueError, "'<a>' stands twice"),
        (["<a>", b"<b>"], TypeError, "special token 1 is a bytes, not text: b'<b>'"),
        ([None], TypeError, "special token 0 is a NoneType"),
        ("<a>", TypeError, "a list of texts, not one text: '<a>'"),
        (["<a>", "\ud800"], ValueError, r"'\\ud800' holds half a surrogate pair"),
    ],
)
def test_refused(tokens, error, message):
    with pytest.raises(error, match=message):
        SpecialTokens(tokens)


def test_pickling_before_and_after_use():
    specials = SpecialTokens(["<a>", "<b>"])
    for _ in range(2):
        again = pickle.loads(pickle.dumps(specials))
        assert again.tokens == specials.tokens
        assert again.cut(b"x<b>y", np.array([0, 5]))[0].tolist() == [0, 1, 4, 5]
        specials.cut(b"x<b>y", np.array([0, 5]))


# ---- cutting ----


def test_cut():
    assert cut(["<e>"], b"one<e>two<e>three") == ([b"one", b"two", b"three"], 2)


def test_empty_pieces_are_dropped():
    assert cut(["<e>"], b"<e><e>one<e>", b"<e>", b"", b"two") == ([b"one", b"two"], 4)


def test_leftmost_then_longest():
    assert cut(["<e>", "<e>>"], b"a<e>>b<e>c") == ([b"a", b"b", b"c"], 2)
    assert cut(["bcd", "ab", "abc"], b"xabcdx") == ([b"x", b"dx"], 1)  # abc begins before bcd
    assert cut(["bcde", "ab"], b"xabcdex") == ([b"x", b"cdex"], 1)
    assert cut(["aa"], b"aaaaa") == ([b"a"], 2)


def test_the_order_of_the_tokens_changes_nothing():
    for tokens in (["<e", "<e>>", "<e>"], ["<e>>", "<e", "<e>"]):
        assert cut(tokens, b"a<e>>b<e>c<ed") == ([b"a", b"b", b"c", b"d"], 3)


def test_never_across_the_end_of_a_document():
    assert cut(["<e>"], b"one<e", b">two<e>") == ([b"one<e", b">two"], 1)
    assert cut(["<e>"], b"one<", b"e", b">") == ([b"one<", b"e", b">"], 0)


def test_what_lies_between_documents_is_not_read():
    bounds, cuts = SpecialTokens(["<e>"]).cut(b"a<e>b<e>c", np.array([0, 1, 4, 5, 5, 9]))
    assert (bounds.tolist(), cuts) == ([0, 1, 4, 5, 8, 9], 1)


def test_characters_with_a_meaning_in_regexes():
    assert cut(["|", ".*", "[x]", "\\"], rb"a|b.*c[x]d\ex") == ([b"a", b"b", b"c", b"d", b"ex"], 4)


def test_any_buffer():
    specials = SpecialTokens(["<e>"])
    for data in (b"a<e>b", bytearray(b"a<e>b"), memoryview(b"a<e>b"), np.frombuffer(b"a<e>b", np.uint8)):
        bounds, cuts = specials.cut(data, np.array([0, 5]))
        assert (bounds.tolist(), cuts) == ([0, 1, 4, 5], 1)
    assert specials.cut(memoryview(b"a<e"), np.array([0, 3]))[1] == 0


@given(tokens=TOKENS, documents=st.lists(TEXT, min_size=1, max_size=4))
def test_cut_is_the_search_position_by_position(tokens, documents):
    expected = [expected_cut(tokens, document) for document in documents]
    pieces, cuts = cut(tokens, *documents)
    assert [piece for piece in pieces if piece] == [piece for one, _ in expected for piece in one]
    assert cuts == sum(number for _, number in expected)
    assert not cuts or b"" not in pieces


# ---- ranges ----


@given(tokens=TOKENS, data=TEXT, at=st.integers(0, 24))
def test_spans_is_every_occurrence_looked_at(tokens, data, at):
    expected = any(
        data.startswith(token.encode(), start) and start < at < start + len(token.encode())
        for token in tokens
        for start in range(len(data))
    )
    assert SpecialTokens(tokens).spans(data, at) == expected


def test_spans():
    specials = SpecialTokens(["<e>", "x"])
    assert [at for at in range(9) if specials.spans(b"ab<e>xa<e", at)] == [3, 4]


# ---- words ----


def test_occurring_in():
    words = pa.chunked_array([pa.array([b"low", b"a<e>b"]), pa.array([b"<e>", b"\xff<f>"])])
    found = list(SpecialTokens(["<g>", "<f>", "<e>"]).occurring_in(words))
    assert found == [("<f>", b"\xff<f>"), ("<e>", b"a<e>b")]
    assert list(SpecialTokens(["LOW", "l.w", "wa"]).occurring_in(words)) == []
    assert list(SpecialTokens(["<e>"]).occurring_in(pa.chunked_array([], pa.binary()))) == []
    assert list(SpecialTokens().occurring_in(words)) == []
