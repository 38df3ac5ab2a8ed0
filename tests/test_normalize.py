"""NFC as `tokenizers` does it, whatever Python's version of Unicode is."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe.normalize import _INERT, NORMALIZERS, check_normalizer, normalize

tokenizers = pytest.importorskip("tokenizers")
THEIRS = tokenizers.normalizers.NFC()
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
LATE = [char for char in EVERY if _INERT.match(char)]
MARKS = [char for char in EVERY if unicodedata.combining(char)]
COMPOSED = [char for char in EVERY if unicodedata.decomposition(char) and not unicodedata.decomposition(char).startswith("<")]
HANGUL = [*map(chr, range(0x1100, 0x1200)), "가", "각", "힣", "갂", "\ua960", "\ud7b0", "\ud7cb"]


def differing(texts) -> list[str]:
    """Return the texts that the two normalize in two ways; many in one call, where they do not touch one another."""
    # "\n" neither composes nor reorders: what stands on either side of it is normalized by itself.
    joined = "\n".join(texts)
    if normalize(joined, "NFC") == THEIRS.normalize_str(joined):
        return []
    return [text for text in texts if normalize(text, "NFC") != THEIRS.normalize_str(text)]


CONTEXTS = ["{}", "e{}\u0301", "a\u0323{}\u0302", "\u1100{}\u11a8"]
MORE = ["a{}", "e\u0301{}", "\u0301{}\u0316", "{}\u0301", "{}\u0327\u0301", "가{}", "{}\u1161\u11a8", "\u05d0\u05b7{}\u05bc"]


@pytest.mark.parametrize("context", [*CONTEXTS, *(pytest.param(context, marks=pytest.mark.slow) for context in MORE)])
def test_every_code_point(context):
    assert differing([context.format(char) for char in EVERY if char != "\n"]) == []


def test_pairs_of_what_composes_or_is_late():
    rng = random.Random(1)
    marks = [*rng.sample(MARKS, 60), *"\u0301\u0323\u0327\u0345\u3099\u309a\u094d\u09be\u0dca\u0f71"]
    assert differing([base + mark + other for base in [*COMPOSED[::9], "か", "क", "ে", "ෙ"] for mark in marks[::3] for other in marks[::5]]) == []
    assert differing([first + late + mark for late in LATE for first in ("a", "é", "\u0301", "가", "क") for mark in marks[::2]]) == []


@pytest.mark.parametrize("seed", range(2))
def test_random_strings(seed):
    rng = random.Random(seed)
    pools = [MARKS, LATE, COMPOSED, HANGUL, ["a", "e", "o", "A", "か", "क", " ", "ς"], EVERY]
    texts = ["".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 14))).replace("\n", " ") for _ in range(25_000)]
    assert differing(texts) == []


@settings(max_examples=500, deadline=None)
@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from([*MARKS[::7], *HANGUL[::5], *LATE[::3]])), max_size=40))
def test_any_text(text):
    assert normalize(text, "NFC") == THEIRS.normalize_str(text)
    assert normalize(normalize(text, "NFC"), "NFC") == normalize(text, "NFC")
    assert normalize(text, None) == text


def test_long_runs_of_marks():
    for text in ["a" + "\u0301" * 10_000, "a" + "\u0323\u0301" * 5000, "\u0301\u0316" * 5000, "가" * 5000, "\u1100\u1161\u11a8" * 5000]:
        assert normalize(text, "NFC") == THEIRS.normalize_str(text)


def test_names():
    assert NORMALIZERS == ("NFC",)
    check_normalizer(None)
    check_normalizer("NFC")
    for name in ("NFD", "nfc", ""):
        with pytest.raises(ValueError, match="there is NFC"):
            check_normalizer(name)
