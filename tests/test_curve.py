"""The curve of sizes: what training replaced, and what smaller vocabularies give when they encode; costs and knees by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Vocabulary, formats, pre_tokenizer, train
from beam_bpe.costs import CostModel
from beam_bpe.curve import Curve, check_curve, check_merges, first_merges, knee, size_curve
from beam_bpe.layout import Layout
from beam_bpe.measuring import measure_words
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.words import WordCounts

FAMILIES = {
    "bytes": {},
    "bytes by greatest": {"tie_break": "lexicographic"},
    "characters": {"unit": "character", "unk_token": "<unk>", "limit_alphabet": 4},
    "fused": {"unit": "character", "unk_token": "<unk>", "limit_alphabet": 3, "fuse_unk": True},
    "end of word": {"unit": "character", "unk_token": "<unk>", "end_of_word": "</w>"},
    "attached": {"unit": "character", "byte_fallback": True, "end_of_word": "</w>", "attached": True, "limit_alphabet": 5},
}
TABLES = st.dictionaries(st.text("abcé機", min_size=1, max_size=9), st.integers(1, 9), min_size=1, max_size=12)


def curve_of(words: WordCounts, vocabulary) -> Curve:
    (statistics,) = measure_words(words, [vocabulary])
    return size_curve(statistics, vocabulary)


@pytest.mark.parametrize("family", FAMILIES)
@given(table=TABLES)
@settings(deadline=None, max_examples=10)
def test_every_smaller_vocabulary_encodes_as_the_curve_says(family, table):
    words = WordCounts.from_mapping(table)
    vocabulary = train(words, num_merges=8, min_pair_count=1, special_tokens=["<|end|>"], **FAMILIES[family])
    curve = curve_of(words, vocabulary)
    # What learning replaced, merge by merge:
    assert (-np.diff(curve.total)).tolist() == vocabulary.replaced.tolist()
    assert curve.sizes.tolist() == list(range(len(vocabulary) - len(vocabulary.left), len(vocabulary) + 1))
    assert set(check_curve(curve, words, vocabulary, curve.sizes.tolist())) == set(curve.sizes.tolist())
    for merges in (0, len(vocabulary.left) // 2):
        # Learning that stops there:
        smaller = train(words, num_merges=merges, min_pair_count=1, special_tokens=["<|end|>"], **FAMILIES[family])
        assert sum(Tokenizer(smaller).count(word) * n for word, n in table.items()) == curve.total[merges]


def test_runs_are_replaced_less_often_than_they_are_counted():
    """aaaa: the pair aa is counted three times and replaced twice (the example of the reference: 7 and 4)."""
    words = {"aaaa": 1, "aaaaa": 1}
    vocabulary = train(words, 258, min_pair_count=1)
    assert [(merge.count, merge.replaced) for merge in vocabulary.merges] == [(7, 4), (2, 2)]
    curve = curve_of(WordCounts.from_mapping(words), vocabulary)
    assert curve.total.tolist() == [9, 9 - 4, 9 - 4 - 2] and curve.at(257).tolist() == [5]


def test_groups_have_curves_of_their_own():
    documents = {"en": ["low lower lowest"] * 3, "de": ["die Löwen"], "": ["x"], "none": [""]}
    texts = [(text, group) for group, several in documents.items() for text in several]
    words = WordCounts.from_documents(
        [text for text, _ in texts], pattern="gpt2", groups=[group for _, group in texts], group_by="lang"
    )
    vocabulary = train(words.ungrouped(), 256 + 12, min_pair_count=1)
    curve = curve_of(words, vocabulary)
    assert curve.groups == ("", "de", "en", "none") and curve.group_by == "lang" and curve.characters == (1, 9, 48, 0)
    for group in ("de", "en", "none"):
        alone = curve_of(words.of_group(group), vocabulary)
        assert np.array_equal(alone.total, curve.of_group(group))
    assert np.array_equal(curve.total, curve_of(words.ungrouped(), vocabulary).total)
    table = curve.table(CostModel(price=2.0)).to_pylist()
    assert [(row["size"], row["group"]) for row in table[:6]] == [
        (256, None), (256, ""), (256, "de"), (256, "en"), (256, "none"), (257, None),
    ]  # fmt: skip
    assert [row["tokens"] for row in table[:5]] == [59, 1, 10, 48, 0] and table[4]["compression_ratio"] is None
    assert table[3]["compression_ratio"] == 1.0 and table[2]["price_per_million_characters"] == 2.0 * 10 / 9
    with pytest.raises(ValueError, match="no group 'fr'"):
        curve.of_group("fr")
    with pytest.raises(ValueError, match=r"size=255: choose one from 256 \(no merges\) to 268"):
        curve.at(255)


def test_the_check_finds_a_wrong_curve():
    words = WordCounts.from_mapping({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    vocabulary = train(words, 256 + 8)
    curve = curve_of(words, vocabulary)
    assert check_curve(curve, words, vocabulary) == {
        258: int(curve.at(258)[0]),
        260: int(curve.at(260)[0]),
        262: int(curve.at(262)[0]),
    }
    wrong = curve.tokens.copy()
    wrong[4] -= 1
    with pytest.raises(RuntimeError, match="at the size 260 the curve has"):
        check_curve(replace(curve, tokens=wrong), words, vocabulary)


def test_counts_of_trillions_and_beyond():
    words = WordCounts.from_mapping({"aab": 10**12, "機": 3 * 10**12})
    vocabulary = train(words, 258)
    assert curve_of(words, vocabulary).total.tolist() == [12 * 10**12, 9 * 10**12, 6 * 10**12]
    words = WordCounts.from_mapping({"ab": 2**63 - 1})
    with pytest.raises(OverflowError, match="18,446,744,073,709,551,614 bytes"):
        curve_of(words, replace(vocabulary_without_merges(), left=np.array([97], np.uint32), right=np.array([98], np.uint32),
                                counts=np.array([1]), replaced=np.array([1])))  # fmt: skip


def vocabulary_without_merges():
    return replace(train({"x": 1}, 256), alphabet=bytes(range(256)))


def test_no_words_and_no_merges():
    vocabulary = vocabulary_without_merges()
    curve = curve_of(WordCounts.from_mapping({}), vocabulary)
    assert curve.sizes.tolist() == [256] and curve.total.tolist() == [0] and curve.knees() == {None: 256}
    assert curve.table().to_pylist()[0]["attention_flops"] is None


# ---- vocabularies that hold no smaller ones ------------------------------------------------------


@pytest.mark.parametrize("options", [{"algorithm": "wordpiece", "vocab_size": 20}, {"algorithm": "wordlevel"}])
def test_other_algorithms_are_refused(options):
    vocabulary = train({"low": 5, "lower": 2}, **options)
    with pytest.raises(ValueError, match=f"algorithm '{options['algorithm']}' does not find tokens by the order of merges"):
        check_merges(vocabulary)


def byte_level(tokens: list[bytes], merges: list[tuple[bytes, bytes]], **more):
    """Return a byte-level vocabulary with these tokens behind the bytes."""
    every = (*(bytes([byte]) for byte in range(256)), *tokens)
    ids = {token: i for i, token in enumerate(every)}
    left, right = (np.array([ids[pair[side]] for pair in merges], np.uint32) for side in (0, 1))
    merged = np.array([ids[a + b] for a, b in merges], np.uint32)
    layout = Layout(tokens=every, merged=merged, **more)
    return Vocabulary.imported(layout, format="test", pre_tokenizer=pre_tokenizer("none"), left=left, right=right)


def test_merges_that_are_not_learned_ones_are_refused():
    good = byte_level([b"ab", b"abc"], [(b"a", b"b"), (b"ab", b"c")])
    words = WordCounts.from_mapping({"abcab": 3})
    assert curve_of(words, good).total.tolist() == [15, 9, 6]
    with pytest.raises(ValueError, match="two merges make the token b'abc'"):
        check_merges(byte_level([b"ab", b"bc", b"abc"], [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")]))
    with pytest.raises(ValueError, match="the merge of rank 0 is of a token that a later merge makes"):
        check_merges(byte_level([b"ab", b"abc"], [(b"ab", b"c"), (b"a", b"b")]))
    with pytest.raises(ValueError, match="and 1 of them, such as b'abc', are not what merging makes of them"):
        check_merges(byte_level([b"ab", b"bc", b"abc"], [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")], whole_pieces=True))
    with pytest.raises(ValueError, match="the statistics are of"):
        (statistics,) = measure_words(words, [good])
        size_curve(statistics, train({"ab": 2}, 257))


def test_words_that_are_tokens_are_taken_whole_where_merging_makes_them_too(shared):
    words = WordCounts.from_mapping({"abcab": 3, "abc": 4, "ab": 5})
    whole = byte_level([b"ab", b"abc"], [(b"a", b"b"), (b"ab", b"c")], whole_pieces=True)
    curve = curve_of(words, whole)
    assert curve.total.tolist() == [37, 22, 15] and check_curve(curve, words, whole) == {256: 37, 257: 22}
    published = formats.load(str(shared / "reference" / "r50k_base.tiktoken"))
    assert published.layout.whole_pieces
    text = (shared / "corpora" / "mixed-1m.txt").read_text(encoding="utf-8")[:100_000]
    table = WordCounts.from_documents([text], pattern="gpt2")
    assert len(check_curve(curve_of(table, published), table, published)) == 3


@pytest.mark.parametrize(
    ("words", "attached"), [({"</w>x": 5, "</w>y": 5}, False), ({"a</w>x": 5, "a</w>y": 5, "a": 1}, True)]
)
def test_a_mark_that_is_spelled_in_a_word(words, attached):
    options = {"unit": "character", "end_of_word": "</w>", "attached": attached, "unk_token": "<unk>", "min_pair_count": 1}
    vocabulary = train(words, num_merges=6, **options)
    with pytest.raises(ValueError, match="is made by a merge, and a symbol of the alphabet as well"):
        check_merges(vocabulary)


def test_first_merges_keep_ids():
    vocabulary = train({"low": 5, "lower": 2, "newest": 6}, num_merges=6, unit="character", unk_token="<unk>")
    smaller = first_merges(vocabulary, 2)
    assert len(smaller.left) == 2 and smaller.merged.tolist() == vocabulary.merged[:2].tolist()
    assert [token for token in smaller.tokens if token] == [
        t for i, t in enumerate(vocabulary.tokens) if t and i not in vocabulary.merged[2:]
    ]
    assert first_merges(vocabulary, 6).fingerprint == vocabulary.fingerprint
    with pytest.raises(ValueError, match="merges is 7; the vocabulary has 6"):
        first_merges(vocabulary, 7)


# ---- costs, knees, files -------------------------------------------------------------------------


def test_costs_by_hand():
    costs = CostModel(d_model=8, layers=2, kv_width=4, text_characters=100, context_tokens=50, price=3.0)
    ratios = np.array([0.5])
    assert costs.embedding_parameters(np.array([10])).tolist() == [2 * 80]
    assert replace(costs, tied=True).embedding_parameters(np.array([10])).tolist() == [80]
    assert costs.attention_flops(ratios).tolist() == [2 * 2 * 50**2 * 8] and costs.kv_cache_bytes(ratios).tolist() == [
        2 * 2 * 4 * 2 * 50
    ]
    assert replace(costs, kv_width=None).kv_cache_bytes(ratios).tolist() == [2 * 2 * 8 * 2 * 50]
    assert costs.price_per_million_characters(ratios).tolist() == [1.5] and costs.context_characters(ratios).tolist() == [
        100.0
    ]
    for name, value in (("d_model", 0), ("kv_width", -1), ("price", -1.0), ("price", float("nan")), ("context_tokens", 0)):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            CostModel(**{name: value})


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30))
@settings(deadline=None, max_examples=60)
def test_the_knee_is_farthest_from_the_chord(falls):
    tokens = np.array([sum(falls[i:]) for i in range(len(falls) + 1)])
    sizes = np.arange(256, 256 + len(tokens))
    found = knee(sizes, tokens) - 256
    width, height = len(falls), int(tokens[0])
    below = [(height - int(t)) * width - i * height for i, t in enumerate(tokens)]  # exact, times both
    assert not height or below[found] >= max(below) - 1e-9 * width * height
    assert height or found == 0


def test_file(tmp_path):
    words = WordCounts.from_documents(["low lower lowest 機器"] * 2, pattern="gpt2")
    vocabulary = train(words, 256 + 10)
    curve = curve_of(words, vocabulary)
    path = tmp_path / "curve.parquet"
    curve.save(str(path), CostModel(d_model=2), every=4)
    file = pq.ParquetFile(path)
    header = json.loads(file.schema_arrow.metadata[b"beam_bpe"])
    assert header["kind"] == "curve" and header["fingerprint"] == vocabulary.fingerprint and header["costs"]["d_model"] == 2
    assert header["knee"] == curve.knees()[None] and header["characters"] == 2 * 19 and header["knees"] == {}
    table = file.read()
    sizes = table["size"].to_pylist()
    assert sizes == sorted({int(curve.sizes[0]), *curve.sizes[::-4].tolist()})
    assert table["tokens"].to_pylist() == [int(curve.at(size)[0]) for size in sizes] and table["group"].null_count == len(
        sizes
    )
    assert table["embedding_parameters"].to_pylist() == [4 * size for size in sizes]
    with pytest.raises(ValueError, match="every is 0"):
        curve.table(every=0)
