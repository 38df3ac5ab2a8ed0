"""The baselines, against counting by hand and SQLite's trigram tokenizer."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_bpe.baselines import BASELINES, baseline_tokens, trigrams

TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=6)


def tokens(name, texts):
    stops = np.cumsum([0, *(len(text.encode()) for text in texts)])
    return baseline_tokens(name, "".join(texts).encode(), np.repeat(stops, 2)[1:-1]).tolist()


@given(TEXTS)
def test_they_count_bytes_characters_and_trigrams(texts):
    assert tokens("byte", texts) == [len(text.encode()) for text in texts]
    assert tokens("character", texts) == [len(text) for text in texts]
    assert tokens("trigram", texts) == [len(trigrams(text)) for text in texts]


def test_documents_need_not_lie_side_by_side():
    data = "ab機器cd".encode()
    bounds = np.array([1, 5, 0, 0, 2, 8])
    assert [baseline_tokens(name, data, bounds).tolist() for name in BASELINES] == [[4, 0, 6], [2, 0, 2], [0, 0, 0]]


def test_unknown_baseline():
    with pytest.raises(ValueError, match="there is no baseline 'word': choose one of byte, character, trigram"):
        baseline_tokens("word", b"", np.empty(0, np.int64))
    for bounds in ([0, 1, 2], [0, 4], [2, 1], [-1, 2]):
        with pytest.raises(ValueError, match="within the 3 bytes of data"):
            baseline_tokens("character", b"abc", np.array(bounds))


@pytest.mark.parametrize("text", ["Tokenization is the first step.", "機器學習模型的訓練資料", "ab", "", "a\nbc d"])
def test_trigrams_are_those_of_sqlite(text):
    base = sqlite3.connect(":memory:")
    try:
        base.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='trigram case_sensitive 1')")
        base.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(t, 'instance')")
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite has no trigrams: {error}")
    base.execute("INSERT INTO t VALUES (?)", (text,))
    found = [term for term, in base.execute("SELECT term FROM terms ORDER BY offset")]
    assert found == trigrams(text) and tokens("trigram", [text]) == [len(found)]
