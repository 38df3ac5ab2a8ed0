"""Statistics of vocabularies: against counting by hand, tiktoken and numpy; both ways agree, and sums do not depend on the order."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Model, Vocabulary, _statistics, formats, measured, measuring, pre_tokenizer, train
from beam_bpe.artifacts import FormatError
from beam_bpe.baselines import trigrams
from beam_bpe.cutting import WordRule
from beam_bpe.distribution import Distribution, buckets_of
from beam_bpe.documents import DocumentBatch
from beam_bpe.grouping import Groups
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.measuring import Meter, measure_words, mismatch, needs_texts
from beam_bpe.normalize import normalize
from beam_bpe.reading import documents_of
from beam_bpe.statistics import BASELINES, COUNTS, Measures, Statistics, Subject, exact_sum, gini
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.words import WordCounts

END = "<|end|>"
CORPUS = ["low lower lowest", "", "the newest news: 12 機器 👍🏽", "wide wider lower", "lower lowest low"] * 3
WORDS = WordCounts.from_documents(CORPUS, pattern="gpt2")
OPTIONS = {
    "bytes": {"vocab_size": 256 + 30},
    "characters": {"unit": "character", "num_merges": 20, "limit_alphabet": 12, "unk_token": "<unk>"},
    "fused": {"unit": "character", "num_merges": 9, "limit_alphabet": 6, "unk_token": "<unk>", "fuse_unk": True},
    "end of word": {"unit": "character", "num_merges": 20, "end_of_word": "</w>", "attached": True, "byte_fallback": True},
    "wordpiece": {"algorithm": "wordpiece", "vocab_size": 40, "max_input_chars_per_word": 7},
    "whole words": {"algorithm": "wordlevel", "vocab_size": 6},
}
VOCABULARIES = {name: train(WORDS, **options) for name, options in OPTIONS.items()}
PIECES = st.sampled_from(["low", "lower", "est", " ", "  ", "\n", "the", "機", "器", "é", "!", "12", "n't", "\0", "👍", "_"])
TEXTS = st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=8)


def metered(documents, vocabularies, baselines=(), special="text", groups=None):
    """Return the measures of documents by subject and group, in one go."""
    meter = Meter([Tokenizer(one) for one in vocabularies], baselines, special)
    batch = documents_of(documents, "strict", None if groups is None else Groups.of("lang", groups))
    meter.add(batch)
    return meter.take()


def known_to_tables(measures: Measures) -> dict:
    return {**measures.record(), "lengths": None}


# ---- by hand -------------------------------------------------------------------------------------


def test_by_hand():
    """low: one token; lower: low e r; 機器: bytes; the empty text is a document."""
    vocabulary = train({"low": 5, " low": 1}, 256 + 2)
    assert [merge.token for merge in vocabulary.merges] == [b"lo", b"low"]
    found, byte, character, word, trigram = (
        groups[""]
        for groups in metered(
            ["low lower", "", "low 機器"], [replace(vocabulary, pre_tokenizer=pre_tokenizer("o200k"))], BASELINES
        )
    )
    # o200k: low| lower and low| 機器: 1 + (1 + 1 + 2) and 1 + (1 + 6)
    assert found.record() == {
        "documents": 3, "characters": 15, "bytes": 19, "words": 4, "tokens": 5 + 8, "kept_words": 2, "unknown_tokens": 0,
        "single_character_tokens": 4, "single_byte_tokens": 10, "lengths": [[0, 1], [5, 1], [8, 1]],
    }  # fmt: skip
    ids = vocabulary.ids
    assert found.frequencies[ids[b"low"]] == 3 and found.frequencies[ids[b" "]] == 2 and found.frequencies.sum() == 13
    assert (found.compression_ratio, found.bytes_per_token, found.fertility) == (15 / 13, 19 / 13, 13 / 4)
    assert (found.kept_share, found.single_character_share, found.single_byte_share) == (1 / 2, 4 / 13, 10 / 13)
    assert (found.unknown_rate, found.tokens_per_document, found.used) == (0.0, 13 / 3, 1 + 3 + 6)
    assert [one.tokens for one in (byte, character, word, trigram)] == [19, 15, 4, 7 + 0 + 4]
    assert [one.lengths.counts for one in (byte, trigram)] == [{0: 1, 9: 1, 10: 1}, {0: 1, 4: 1, 7: 1}]
    assert word.lengths is None and word.fertility == 1.0 and byte.fertility == 19 / 4 and byte.frequencies is None


def test_entropies_and_efficiency_by_hand():
    even = Measures(tokens=8, frequencies=np.array([2, 2, 2, 2]))
    skewed = Measures(tokens=4, frequencies=np.array([2, 1, 1, 0]))
    one = Measures(tokens=3, frequencies=np.array([0, 3]))
    assert (even.entropy, even.renyi_entropy(), even.renyi_entropy(0)) == (2.0, 2.0, 2.0)
    assert skewed.entropy == 1.5 and math.isclose(skewed.renyi_entropy(2), -math.log2(1 / 4 + 2 / 16))
    assert math.isclose(skewed.renyi_entropy(2.5), math.log2(0.5**2.5 + 2 * 0.25**2.5) / -1.5)
    assert (one.entropy, one.renyi_entropy()) == (0.0, 0.0) and math.copysign(1, one.renyi_entropy()) == 1
    statistics = Statistics(Subject("v", "f", 4, 4), {"": even})
    assert statistics.renyi_efficiency(even) == 1.0 and statistics.used_share(skewed) == 3 / 4
    assert math.isclose(statistics.renyi_efficiency(skewed, 1), 1.5 / 2)
    assert Statistics(Subject("v", "f", 1, 1), {}).renyi_efficiency(Measures(tokens=1, frequencies=np.array([1]))) is None
    with pytest.raises(ValueError, match="alpha is -1"):
        even.renyi_entropy(-1)


def test_efficiencies_that_tokenization_scorer_publishes():
    """Of its README, where all tokens of the vocabulary are used, so that |V| is the same; they are of the order 3."""
    texts = {"pick @@ed pick @@l @@ed pick @@les": 0.8031528501359657}
    texts["pick @@e @@d pick @@l @@e @@d pick @@l @@e @@s"] = 0.9105681923824472
    for text, expected in texts.items():
        counts = np.array(list(Counter(text.split()).values()))
        measures = Measures(tokens=int(counts.sum()), frequencies=counts)
        statistics = Statistics(Subject("v", "f", len(counts), len(counts)), {"": measures})
        assert math.isclose(statistics.renyi_efficiency(measures, 3), expected, rel_tol=1e-12)


def test_nothing_divides_by_zero():
    nothing = Measures(frequencies=np.zeros(3, np.int64))
    ratios = ("compression_ratio", "bytes_per_token", "fertility", "tokens_per_document", "kept_share", "entropy")
    ratios += ("single_character_share", "single_byte_share", "unknown_rate")
    assert [getattr(nothing, name) for name in ratios] == [None] * len(ratios) and nothing.used == 0
    statistics = Statistics(Subject("v", "f", 3, 3), {"a": nothing, "b": nothing})
    assert statistics.total == nothing and statistics.gini() is None and statistics.renyi_efficiency(nothing) is None
    assert statistics.parity_premiums("a") == {"a": None, "b": None} == statistics.parity_premiums("a", "text")
    assert Statistics(Subject("v", "f", 3, 3), {}).total == nothing
    for groups in metered([], VOCABULARIES.values(), BASELINES):
        assert not groups or groups[""].documents == 0


def test_premiums_and_gini_by_hand():
    def group(tokens, characters, size):
        return Measures(tokens=tokens, characters=characters, bytes=size, frequencies=np.array([tokens]))

    statistics = Statistics(
        Subject("v", "f", 1, 1),
        {"de": group(30, 100, 100), "en": group(20, 100, 100), "zh": group(30, 50, 150), "none": group(0, 0, 0)},
    )
    assert statistics.parity_premiums("en", "text") == {"de": 1.5, "en": 1.0, "zh": 1.5, "none": 0.0}
    assert statistics.parity_premiums("en") == {"de": 0.3 / 0.2, "en": 1.0, "zh": 0.6 / 0.2, "none": None}
    assert statistics.parity_premiums("en", "byte")["zh"] == 1.0
    # costs 0.2, 0.2, 0.3: (-2 * 0.2 + 0 * 0.2 + 2 * 0.3) / (3 * 0.7)
    assert math.isclose(statistics.gini(), 0.2 / 2.1)
    assert gini([5.0]) == 0.0 and gini([0.0, 0.0]) == 0.0
    with pytest.raises(ValueError, match="no group 'fr'; there are 'de', 'en'"):
        statistics.parity_premiums("fr")
    with pytest.raises(ValueError, match="unit='line'"):
        statistics.gini("line")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12))
@settings(deadline=None, max_examples=50)
def test_gini_is_half_the_mean_difference(costs):
    total, n = sum(costs), len(costs)
    expected = sum(abs(a - b) for a in costs for b in costs) / (2 * n * total) if total else 0.0
    assert math.isclose(gini(costs), expected, rel_tol=1e-9, abs_tol=1e-9)


# ---- against others ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(shared):
    return {name: formats.load(str(shared / "reference" / f"{name}_base.tiktoken")) for name in ("r50k", "cl100k", "o200k")}


def test_sentences_in_published_vocabularies(published):
    """The figures that people quote for these sentences, each text a document of its own."""
    texts = ["機器學習模型的訓練資料", "机器学习模型的训练数据", "電腦程式設計", "电脑程序设计"]
    figures = {"r50k": [26, 27, 16, 16], "cl100k": [20, 13, 10, 6], "o200k": [11, 6, 7, 3]}
    english = "Tokenization is the first step of every language model."
    for number, text in enumerate([*texts, english]):
        *found, byte, character, trigram = metered([text], published.values(), ["byte", "character", "trigram"])
        expected = [figures[name][number] if text != english else None for name in published]
        tokens = [groups[""].tokens for groups in found]
        assert tokens == expected if text != english else tokens[1:] == [11, 11]
        assert byte[""].tokens == len(text.encode()) and character[""].tokens == len(text)
        assert trigram[""].tokens == [9, 9, 4, 4, 53][number] == len(trigrams(text))


def test_against_tiktoken(published):
    tiktoken = pytest.importorskip("tiktoken")
    name, vocabulary = "cl100k", published["cl100k"]
    ranks = {token: i for i, token in enumerate(vocabulary.tokens) if token}
    oracle = tiktoken.Encoding(name, pat_str=vocabulary.pre_tokenizer.pattern, mergeable_ranks=ranks, special_tokens={})
    documents = [*CORPUS, "def f(x):\n    return x ** 2\n", "Ünïcödé, мир 日本語 " * 20]
    ((found,),) = (groups.values() for groups in metered(documents, [vocabulary]))
    ids = [oracle.encode_ordinary(document) for document in documents]
    words = [word for document in documents for word in vocabulary.pre_tokenizer.split(document)]
    frequencies = Counter(i for each in ids for i in each)
    assert {i: int(found.frequencies[i]) for i in np.flatnonzero(found.frequencies)} == frequencies
    assert found.tokens == sum(map(len, ids)) and found.words == len(words)
    assert found.kept_words == sum(len(oracle.encode_ordinary(word)) == 1 for word in words)
    assert found.lengths == Distribution.of(list(map(len, ids)))
    tokens = [oracle.decode_single_token_bytes(i) for each in ids for i in each]
    assert found.single_byte_tokens == sum(len(token) == 1 for token in tokens)
    escaped = [token.decode("utf-8", "surrogateescape") for token in tokens]  # a half character is two surrogates or one
    assert found.single_character_tokens == sum(len(text) == 1 and not "\ud800" <= text < "\ue000" for text in escaped)


@pytest.mark.parametrize("family", VOCABULARIES)
@given(documents=TEXTS)
@settings(deadline=None, max_examples=30)
def test_a_recount_document_by_document(family, documents):
    vocabulary = VOCABULARIES[family]
    tokenizer = Tokenizer(vocabulary)
    (groups,) = metered(documents, [vocabulary])
    found = groups.get("", Measures(frequencies=np.zeros(len(vocabulary), np.int64)))
    ids = [tokenizer.encode(document) for document in documents]
    words = [word for document in documents for word in vocabulary.pre_tokenizer.split(document)]
    alone = [tokenizer.encode(word) for word in words]
    flat = [i for each in ids for i in each]
    assert found.documents == len(documents) and found.tokens == len(flat)
    assert found.characters == sum(map(len, documents)) and found.bytes == sum(len(text.encode()) for text in documents)
    assert np.array_equal(found.frequencies, np.bincount(np.array(flat, np.int64), minlength=len(vocabulary)))
    assert found.words == len(words) and found.lengths == Distribution.of(list(map(len, ids)))
    assert found.kept_words == sum(len(each) == 1 and each[0] != vocabulary.unk_id for each in alone)
    assert found.unknown_tokens == flat.count(vocabulary.unk_id)


def test_what_stands_for_one_character_or_byte():
    wordpiece = train({"ab": 4, "ac": 2, "é": 2}, 30, algorithm="wordpiece", unk_token="[UNK]")
    (groups,) = metered(["ab", "é", "x"], [wordpiece])
    counts = groups[""]
    assert counts.unknown_tokens == 1 and counts.words == 3 and counts.kept_words == 2  # an unknown word is not kept
    assert (counts.single_character_tokens, counts.single_byte_tokens) == (1, 0)
    ended = train({"a": 4, "ab": 2}, num_merges=1, unit="character", end_of_word="</w>", attached=True, unk_token="<unk>")
    (groups,) = metered(["a"], [ended])
    assert (groups[""].single_character_tokens, groups[""].single_byte_tokens) == (1, 1)  # without the space it brings
    fallback = train({"a": 4}, num_merges=1, unit="character", byte_fallback=True)
    (groups,) = metered(["aé"], [fallback])
    assert (groups[""].tokens, groups[""].single_character_tokens, groups[""].single_byte_tokens) == (3, 1, 3)
    special = train({"a": 4}, 258, special_tokens=["é"])
    (groups,) = metered(["aéa"], [special], special="encode")
    assert (groups[""].tokens, groups[""].single_character_tokens, groups[""].single_byte_tokens) == (3, 2, 2)
    layout = Layout(
        tokens=(b"?", b"a"), merged=np.empty(0, np.uint32)
    )  # what is unknown is a token like others, of one character
    model = Model(algorithm="wordpiece", unit="character", unk_token="?")
    (groups,) = metered(
        ["a b"], [Vocabulary.imported(layout, format="test", pre_tokenizer=pre_tokenizer("whitespace"), model=model)]
    )
    assert (
        groups[""].tokens,
        groups[""].unknown_tokens,
        groups[""].single_character_tokens,
        groups[""].single_byte_tokens,
    ) == (2, 1, 1, 1)


def test_normalizers_change_neither_characters_nor_bytes():
    words = WordCounts.from_documents(["Low LÖW"], pattern="bert", normalizer="bert")
    vocabulary = train(words, 20, algorithm="wordpiece")
    (groups,) = metered(["LÖW low!"], [vocabulary])
    found = groups[""]
    assert (found.characters, found.bytes, found.words) == (8, 9, 3)
    (table,) = measure_words(WordCounts.from_documents(["LÖW low!"], pattern="bert", normalizer="bert"), [vocabulary])
    assert known_to_tables(found) == {**table.total.record(), "characters": 8, "bytes": 9}
    assert table.total.characters is None and table.total.bytes is None and table.total.compression_ratio is None


# ---- the two ways --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.lists(PIECES, max_size=6).map("".join), st.sampled_from(["en", "zh", ""])), max_size=8))
@settings(deadline=None, max_examples=40)
def test_documents_and_their_words_agree(pairs):
    documents, groups = [text for text, _ in pairs], [group for _, group in pairs]
    vocabularies = list(VOCABULARIES.values())
    by_documents = metered(documents, vocabularies, BASELINES, groups=groups)
    table = WordCounts.from_documents(documents, pattern="gpt2", groups=groups, group_by="lang")
    by_words = measure_words(table, vocabularies, baselines=BASELINES)
    for one, statistics in zip(by_documents, by_words, strict=True):
        assert statistics.group_by == "lang" and list(one) == list(statistics.groups)
        for name, measures in statistics.groups.items():
            expected = known_to_tables(one[name])
            assert measures.record() == ({**expected, "tokens": None} if statistics.subject.name == "trigram" else expected)
            if measures.frequencies is not None:
                assert np.array_equal(measures.frequencies, one[name].frequencies)
    whole = measure_words(table.ungrouped(), vocabularies)
    assert not pairs or [one.total.record() for one in whole] == [one.total.record() for one in by_words[: len(whole)]]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_words_are_measured_alike_by_any_number_of_threads(threads, monkeypatch):
    some = random.Random(3)
    documents = ["".join(some.choices("abcdef ", k=300)) for _ in range(40)]
    table = WordCounts.from_documents(documents, pattern="gpt2", groups=["x", "y"] * 20, group_by="lang")
    (expected,) = measure_words(table, [VOCABULARIES["bytes"]])
    cut = []
    monkeypatch.setattr(measuring, "THREADED_WORDS", 2)
    monkeypatch.setattr(measuring.os, "cpu_count", lambda: threads)
    encode = Tokenizer.encode_words
    monkeypatch.setattr(Tokenizer, "encode_words", lambda self, *given: (cut.append(len(given[1])), encode(self, *given))[1])
    (found,) = measure_words(table, [VOCABULARIES["bytes"]])
    assert found.record() == expected.record() and len(cut) == 2 * threads
    assert all(np.array_equal(found.groups[name].frequencies, expected.groups[name].frequencies) for name in "xy")


def test_special_tokens_that_cut_documents():
    documents = [f"low{END}lower {END}{END}", END, f"機{END}"]
    table = WordCounts.from_documents(documents, pattern="gpt2", special_tokens=[END])
    vocabulary = train(WORDS, 256 + 31, special_tokens=[END])
    dropped, *baselines = metered(documents, [vocabulary], BASELINES, special="drop")
    for groups, statistics in zip([dropped, *baselines], measure_words(table, [vocabulary], baselines=BASELINES)):
        if statistics.subject.name != "trigram":
            assert known_to_tables(groups[""]) == statistics.total.record()
    assert dropped[""].characters == 3 + 6 + 1 and dropped[""].lengths.counts[0] == 1
    assert baselines[0][""].lengths.counts == {0: 1, 3: 1, 9: 1} and baselines[3][""].tokens == 7
    (encoded,) = metered(documents, [vocabulary], special="encode")
    assert encoded[""].frequencies[vocabulary.special_ids[END]] == 5 and encoded[""].characters == sum(map(len, documents))
    assert encoded[""].tokens == dropped[""].tokens + 5 and encoded[""].words == dropped[""].words
    with pytest.raises(ValueError, match="special token"):
        metered(documents, [vocabulary], special="fail")
    with pytest.raises(ValueError, match="special='drop'"):
        metered(documents, [vocabulary, VOCABULARIES["bytes"]], special="drop")


def test_pruned_and_overlong_words_are_noted():
    table = WordCounts.from_documents(["low low lower " + "x" * 50], pattern="gpt2", max_word_bytes=20).prune(2)
    (statistics,) = measure_words(table, [VOCABULARIES["bytes"]])
    assert statistics.total.words == 0 and len(statistics.notes) == 2
    assert "pruned" in statistics.notes[0] and "over-long" in statistics.notes[1]


def test_words_that_were_cut_in_another_way():
    vocabulary = VOCABULARIES["bytes"]
    table = WordCounts.from_documents(CORPUS, pattern="cl100k")
    with pytest.raises(ValueError, match=r"cut by 'cl100k' \(\w{12}…\).* cuts by 'gpt2' \(\w{12}…\); allow_mismatch=True"):
        measure_words(table, [vocabulary])
    (statistics,) = measure_words(table, [vocabulary], allow_mismatch=True)
    assert "cut by 'cl100k'" in statistics.notes[0] and statistics.total.words == table.occurrences
    normalized = WordCounts.from_documents(CORPUS, pattern="gpt2", normalizer="NFC")
    assert mismatch(WORDS, vocabulary) is None and "normalized by NFC" in str(mismatch(normalized, vocabulary))


# ---- merging, and large numbers ------------------------------------------------------------------


@given(TEXTS, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=30)
def test_merging_is_measuring_all(documents, random):
    vocabulary = VOCABULARIES["characters"]
    whole = metered(documents, [vocabulary], ["trigram"])
    random.shuffle(documents)
    cut = random.randint(0, len(documents))
    for number, (a, b) in enumerate(
        zip(metered(documents[:cut], [vocabulary], ["trigram"]), metered(documents[cut:], [vocabulary], ["trigram"]))
    ):
        subject = Subject.of(vocabulary, "v") if number == 0 else Subject("trigram")
        merged = Statistics(subject, a).merge(Statistics(subject, b))
        assert merged.groups == whole[number] and pickle.loads(pickle.dumps(merged.total)) == merged.total


def test_pieces_of_one_document():
    vocabulary = VOCABULARIES["bytes"]
    whole = metered(["low lower", "wide"], [vocabulary], ["trigram", "byte"])
    meter = Meter([Tokenizer(vocabulary)], ["trigram", "byte"])
    rule = (WordRule(vocabulary.pre_tokenizer),)
    for text, first in (("low", True), (" lower", False)):
        bounds = np.array([0, len(text)])
        meter.add(DocumentBatch(text.encode(), bounds, not first, {"documents": int(first)}, cut_by=rule))
    meter.add(DocumentBatch(b"wide", np.array([0, 4]), False, {"documents": 1}))
    assert meter.take() == whole
    with pytest.raises(ValueError, match="without those before it"):
        meter.add(DocumentBatch(b"x", np.array([0, 1]), True, {"documents": 0}))
    meter.add(DocumentBatch(b"x", np.array([0, 1]), True, {"documents": 0}, split=True))
    found, trigram, byte = (groups[""] for groups in meter.take())
    assert (found.documents, found.tokens, found.lengths, trigram.tokens, byte.tokens) == (0, 1, None, None, 1)
    other = (WordRule(WordCounts.from_documents([], pattern="o200k").pre_tokenizer),)
    with pytest.raises(ValueError, match="cut between words of 'o200k'.*cuts by 'gpt2'"):
        meter.add(DocumentBatch(b"x", np.array([0, 1]), False, {"documents": 1}, cut_by=other))


def test_the_order_of_an_entropy():
    measures = metered(["low lower"], [VOCABULARIES["bytes"]])[0][""]
    for alpha in (-1.0, float("inf"), float("nan"), 1e9):
        with pytest.raises(ValueError, match="alpha is"):
            measures.renyi_entropy(alpha)


def test_a_model_that_cuts_no_text_has_no_words():
    table = WordCounts.from_documents(["low lower lowest"], pattern="metaspace", normalizer="metaspace")
    vocabulary = train(table, 14, algorithm="unigram", byte_fallback=False)
    whole = replace(vocabulary, pre_tokenizer=pre_tokenizer("none"))
    (found, word) = metered(["low lower", "lowest"], [whole], ["word"])
    assert found[""].words is None and found[""].fertility is None and found[""].tokens and word[""].tokens is None
    assert metered(["low lower", "lowest"], [vocabulary])[0][""].words == 3


def test_counts_of_trillions():
    vocabulary = VOCABULARIES["bytes"]
    table = WordCounts.from_mapping({"low": 10**12, "機器": 3 * 10**12, "z": 1}, pre_tokenizer="gpt2")
    (statistics,) = measure_words(table, [vocabulary])
    total, tokens = statistics.total, Tokenizer(vocabulary)
    assert total.tokens == 10**12 * tokens.count("low") + 3 * 10**12 * tokens.count("機器") + 1
    assert (total.characters, total.bytes, total.words) == (9 * 10**12 + 1, 21 * 10**12 + 1, 4 * 10**12 + 1)
    assert exact_sum(total.frequencies) == total.tokens and total.documents is None
    largest = WordCounts.from_mapping({"ab": 2**63 - 1, "cd": 2**63 - 1}, pre_tokenizer="gpt2")
    (huge,) = measure_words(largest, [replace(train({"x": 1}, 256), pre_tokenizer=vocabulary.pre_tokenizer)])
    assert huge.total.tokens == 4 * (2**63 - 1) == huge.total.characters
    with pytest.raises(OverflowError, match=r"the token of id \d+ occurs more than"):
        huge.merge(huge)
    with pytest.raises(OverflowError, match=r"the token of id \d+ occurs more than"):
        measure_words(WordCounts.from_mapping({"aa": 2**63 - 1}, pre_tokenizer="gpt2"), [vocabulary])


def test_different_vocabularies_are_not_summed():
    some, others = (Statistics(Subject.of(VOCABULARIES[name], name), {}) for name in ("bytes", "characters"))
    with pytest.raises(ValueError, match="different vocabularies.*bytes .*characters"):
        some.merge(others)
    with pytest.raises(ValueError, match="byte and word"):
        Statistics(Subject("byte"), {}).merge(Statistics(Subject("word"), {}))
    with pytest.raises(ValueError, match="grouped by None and by 'lang'"):
        some.merge(Statistics(some.subject, {}, "lang"))


def test_none_spreads_and_zero_does_not():
    known, unknown = Measures(documents=2, tokens=3), Measures(documents=None, tokens=1, lengths=None)
    merged = known.merge(unknown)
    assert merged.documents is None and merged.tokens == 4 and merged.lengths is None and merged.characters == 0


def test_baselines_are_checked():
    with pytest.raises(ValueError, match="no baseline 'syllable': choose one of byte, character, word, trigram"):
        Meter([], ["syllable"])
    with pytest.raises(ValueError, match="give a vocabulary"):
        Meter([], ["word"])
    assert metered(["ab"], [], ["byte"])[0][""].words is None


# ---- files ---------------------------------------------------------------------------------------


def made(groups=("en", "zh", "en", "")):
    documents = ["low lower", "機器 low", "newest", "x" * 3000]
    vocabularies = [VOCABULARIES["bytes"], VOCABULARIES["wordpiece"]]
    found = metered(documents, vocabularies, ["byte"], groups=groups)
    subjects = [Subject.of(vocabularies[0], "some/ours"), Subject.of(vocabularies[1], "pieces"), Subject("byte")]
    return [Statistics(*pair, "lang", ("a note",)) for pair in zip(subjects, found)], vocabularies


def test_files_round_trip(tmp_path):
    statistics, vocabularies = made()
    measured.save(str(tmp_path / "a"), statistics, vocabularies)
    measured.save(str(tmp_path / "b"), statistics, vocabularies[::-1])
    names = ["frequencies-00000.parquet", "frequencies-00001.parquet", "statistics.json"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)
    loaded = measured.load(str(tmp_path / "a"))
    assert loaded == statistics and [one.notes for one in loaded] == [("a note",)] * 3
    assert loaded[0].merge(statistics[0]).total.tokens == 2 * statistics[0].total.tokens
    text = (tmp_path / "a" / "statistics.json").read_text()
    assert (
        text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"
        and "." not in text.split('"name"')[0]
    )
    table = measured.frequency_table(statistics[0], vocabularies[0]).to_pylist()
    assert table == sorted(table, key=lambda row: (row["group"], row["id"]))
    low = next(row for row in table if row["group"] == "zh" and row["token"] == b" low")
    assert low == {"id": vocabularies[0].ids[b" low"], "token": b" low", "group": "zh", "count": 1}
    with pytest.raises(FileExistsError, match="overwrite"):
        measured.save(str(tmp_path / "a"), statistics, vocabularies)
    measured.save(str(tmp_path / "a"), statistics[:1], vocabularies, overwrite=True)
    assert len(measured.load(str(tmp_path / "a"))) == 1
    with pytest.raises(ValueError, match="the vocabulary of pieces is needed"):
        measured.save(str(tmp_path / "c"), statistics, vocabularies[:1])


def test_broken_files_are_refused(tmp_path):
    statistics, vocabularies = made()
    folder = str(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        measured.load(folder)
    measured.save(folder, statistics, vocabularies)
    path = tmp_path / "a" / "statistics.json"
    text = path.read_text()
    for broken, told in (
        ("{", "not JSON"),
        ("[]", "no statistics"),
        (text.replace('"subject"', '"object"'), "broken: KeyError"),
    ):
        path.write_text(broken)
        with pytest.raises(FormatError, match=told):
            measured.load(folder)
    path.write_text(text.replace('"tokens":', '"tokens":1', 1))
    with pytest.raises(FormatError, match="does not count the 1"):
        measured.load(folder)
    path.write_text(text)
    (tmp_path / "a" / "frequencies-00000.parquet").write_bytes((tmp_path / "a" / "frequencies-00001.parquet").read_bytes())
    with pytest.raises(FormatError, match="does not hold the frequencies of some/ours"):
        measured.load(folder)


# ---- kernels and distributions -------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 2**40)), max_size=8),
    st.sampled_from([np.uint16, np.uint32]),
)
@settings(deadline=None, max_examples=60)
def test_weighted_frequencies(texts, kind):
    ids = np.array([i for text, _ in texts for i in text], kind)
    ends, counts = np.cumsum([len(text) for text, _ in texts], dtype=np.int64), np.array([n for _, n in texts], np.int64)
    expected = [sum(text.count(i) * n for text, n in texts) for i in range(10)]
    frequencies = np.zeros(10, np.int64)
    _statistics.count_tokens(frequencies, ids, ends, counts)
    assert frequencies.tolist() == expected
    _statistics.count_tokens(frequencies, ids)
    assert frequencies.tolist() == [n + int((ids == i).sum()) for i, n in enumerate(expected)]
    assert _statistics.weighted_sum(ends, counts) == sum(int(end) * n for end, (_, n) in zip(ends, texts))


def test_what_the_kernels_refuse():
    frequencies, ids = np.zeros(2, np.int64), np.array([0, 1, 1], np.uint32)
    for ends, counts, told in (
        ([1], [1], "end at 1"),
        ([4], [1], "text 0"),
        ([3], [-1], "-1 times"),
        ([2, 1], [1, 1], "text 1"),
        ([3], [1, 1], "1 ends and 2"),
    ):
        with pytest.raises(ValueError, match=told):
            _statistics.count_tokens(frequencies, ids, np.array(ends), np.array(counts))
    with pytest.raises(TypeError, match="go together"):
        _statistics.count_tokens(frequencies, ids, np.array([3]))
    with pytest.raises(KeyError, match="id 2 at position 1"):
        _statistics.count_tokens(frequencies, np.array([1, 2], np.uint16))
    with pytest.raises(OverflowError, match="token of id 1"):
        _statistics.count_tokens(frequencies, ids, np.array([3]), np.array([2**62]))
    with pytest.raises(ValueError, match="value 1"):
        _statistics.weighted_sum(np.array([1, 2**32]), np.array([1, 1]))
    with pytest.raises(ValueError, match="2 values and 1"):
        _statistics.weighted_sum(np.array([1, 2]), np.array([1]))
    with pytest.raises(ValueError, match=r"text 0 is \[0:3\] of 2"):
        _statistics.count_characters(b"ab", np.array([0, 3]))
    assert _statistics.weighted_sum(np.full(3, 2**32 - 1), np.full(3, 2**63 - 1)) == 3 * (2**32 - 1) * (2**63 - 1)


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",))).map(lambda text: text * 40), max_size=4))
@settings(deadline=None, max_examples=40)
def test_characters_are_counted(texts):
    stops = np.cumsum([0, *(len(text.encode()) for text in texts)], dtype=np.int64)
    found = _statistics.count_characters("".join(texts).encode(), np.ascontiguousarray(np.repeat(stops, 2)[1:-1]))
    assert np.frombuffer(found, np.int64).tolist() == [len(text) for text in texts]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=30), st.floats(0, 1))
@settings(deadline=None, max_examples=100)
def test_buckets_are_narrow_and_in_order(numbers, share):
    array = np.array(sorted(numbers), np.int64)
    lowest = buckets_of(array)
    assert all(low == n if n < 1024 else low <= n < low + low / 64 + 1 for low, n in zip(lowest.tolist(), array.tolist()))
    assert np.array_equal(buckets_of(lowest), lowest) and (np.diff(lowest) >= 0).all()
    distribution = Distribution.of(numbers)
    assert list(distribution.counts) == sorted(distribution.counts) and sum(distribution.counts.values()) == len(numbers)
    place = max(0, math.ceil(share * len(numbers)) - 1)
    assert distribution.quantile(share) == buckets_of(array)[place]
    assert Distribution.of(numbers[:3]).merge(Distribution.of(numbers[3:])) == distribution
    with pytest.raises(ValueError, match="share from 0 to 1"):
        distribution.quantile(1.5)


def test_buckets_are_64_to_a_power_of_two():
    assert [len(set(buckets_of(np.arange(1 << bits, 2 << bits)).tolist())) for bits in (9, 10, 14)] == [512, 64, 64]


def test_sums_beyond_64_bits():
    assert exact_sum(np.full(4, 2**63 - 1)) == 4 * (2**63 - 1) and exact_sum(np.empty(0, np.int64)) == 0


def test_normalized_words_of_documents_are_those_of_the_pattern():
    vocabulary = train(WordCounts.from_documents(["Ａ b"], pattern="gpt2", normalizer="NFKC"), 256 + 2, min_pair_count=1)
    (groups,) = metered(["ＡＢ １ b"], [vocabulary])
    assert groups[""].words == len(vocabulary.pre_tokenizer.split(normalize("ＡＢ １ b", "NFKC")))
    assert groups[""].bytes == len("ＡＢ １ b".encode()) and set(COUNTS) < set(groups[""].record())


def test_models_with_scores_find_tokens_in_whole_texts():
    documents = ["low lower lowest", "", "new  newest x", " wide Ü"] * 3
    words = WordCounts.from_documents(documents, pattern="metaspace", normalizer="metaspace")
    vocabulary = train(words, 30, algorithm="sentencepiece-bpe", character_coverage="0.95")
    (groups,) = metered(documents, [vocabulary])
    found, tokenizer = groups[""], Tokenizer(vocabulary)
    ids = [i for document in documents for i in tokenizer.encode(document)]
    assert np.array_equal(found.frequencies, np.bincount(ids, minlength=len(vocabulary))) and found.unknown_tokens > 0
    split = [vocabulary.pre_tokenizer.split(normalize(document, "metaspace")) for document in documents]
    assert found.words == sum(map(len, split)) == words.occurrences and found.kept_words is None
    (statistics,) = measure_words(words, [vocabulary])
    assert np.array_equal(statistics.total.frequencies, found.frequencies)
    assert {**statistics.total.record(), "characters": found.characters, "bytes": found.bytes} == known_to_tables(found)


def scored(tokens, pattern="metaspace", unused=(), **model):
    """Return a vocabulary with scores, in which <unk> has the id 0."""
    every = (b"", *(token.encode() for token in tokens))
    layout = Layout(
        tokens=every,
        merged=np.empty(0, np.uint32),
        added_tokens=(AddedToken("<unk>", 0),),
        scores=-np.arange(len(every), dtype=np.float64),
        unused=unused,
    )
    chosen = Model(algorithm="unigram", unit="character", unk_token="<unk>", **model)
    return Vocabulary.imported(
        layout, format="test", pre_tokenizer=pre_tokenizer(pattern), normalizer="metaspace", model=chosen
    )


def test_tables_that_tell_too_little_of_models_with_scores():
    assert needs_texts(scored(["▁", "▁low"])) is None
    for vocabulary, why in (
        (scored(["▁", "▁low▁er"]), "reach from word to word"),
        (scored(["▁"], pattern="none"), "reach from word to word"),
        (scored(["▁"], single_precision=True), "sums of 32 bits"),
        (scored(["▁low"]), r"the unknown character U\+2581"),
        (scored(["▁", "▁low"], unused=(2,)), "unused pieces are taken apart"),
    ):
        assert why.replace("\\", "") in str(needs_texts(vocabulary))
        with pytest.raises(ValueError, match=f"'unigram' finds tokens in whole texts.*{why}"):
            measure_words(WordCounts.from_documents(["low"], pattern="metaspace", normalizer="metaspace"), [vocabulary])
