"""Learning a vocabulary from counts: worked examples, parameters, and what changes nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_bpe
from beam_bpe import merging, reference, train
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.learning import TIE_BREAKS
from beam_bpe.merging import available_memory, check_memory
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).parent.parent
LOW = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
HUG = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
TEXT = "low low low low low lower lower newest newest newest newest newest newest widest widest widest"
MOST = 2**63 - 1


def learned(words, merges: int, **options) -> list[tuple[str, int]]:
    """Return the tokens and counts of the merges, spaces shown as ␣."""
    return [(merge.token.decode().replace(" ", "␣"), merge.count) for merge in train(words, 256 + merges, **options).merges]


# ---- worked examples ----


@pytest.mark.parametrize("tie_break", ["huggingface", "bytes"])
def test_low_lower_newest_widest(tie_break):
    assert learned(LOW, 4, tie_break=tie_break) == [("es", 9), ("est", 9), ("lo", 7), ("low", 7)]


@pytest.mark.parametrize(
    "tie_break, merges",
    [
        ("huggingface", "es est lo low ew new ␣low ␣new ␣newest dest"),
        ("bytes", "es est lo low ␣n ␣low ew ␣new ␣newest ␣w"),
        ("lexicographic", "st est ow low west ne newest ␣newest ␣low wi"),
    ],
)
def test_ten_merges_of_a_text(tie_break, merges):
    words = WordCounts.from_documents([TEXT], pattern=r" ?\w+")
    found = learned(words, 10, tie_break=tie_break)
    assert [token for token, _ in found] == merges.split()
    assert [count for _, count in found] == [9, 9, 7, 7, 6, 6, 6, 6, 6, 3]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_without_pre_tokenization_words_run_together(tie_break):
    words = WordCounts.from_documents([TEXT], pattern="none")
    assert learned(words, 10, tie_break=tie_break)[9][0] == "newest␣newest␣"


@pytest.mark.parametrize("tie_break", ["huggingface", "bytes"])
def test_hug_pug_pun_bun_hugs(tie_break):
    found = learned(HUG, 7, tie_break=tie_break)
    assert found[:4] == [("ug", 20), ("un", 16), ("hug", 15), ("pun", 12)]
    assert sorted(found[4:6]) == [("hugs", 5), ("pug", 5)] and found[6] == ("bun", 4)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_a_run_of_one_letter(tie_break):
    merges = train({"aaaaaaaa": 3}, 300, tie_break=tie_break).merges
    assert [(merge.token, merge.count, merge.replaced) for merge in merges] == [
        (b"aa", 21, 12), (b"aaaa", 9, 6), (b"aaaaaaaa", 3, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@settings(max_examples=60, deadline=None)
@given(
    words=st.dictionaries(st.text("abc", min_size=1, max_size=9).map(str.encode), st.integers(0, 9), min_size=1, max_size=12),
    merges=st.integers(0, 20),
    min_pair_count=st.integers(1, 5),
    max_token_length=st.none() | st.integers(1, 6),
)
def test_it_learns_as_the_reference(tie_break, words, merges, min_pair_count, max_token_length):
    options = {"tie_break": tie_break, "min_pair_count": min_pair_count, "max_token_length": max_token_length}
    if not any(words.values()):
        with pytest.raises(ValueError, match="no words to learn from"):
            train(words, 256 + merges, **options)
        return
    expected = reference.learn(words, merges, **options)
    vocabulary = train(words, 256 + merges, **options)
    assert vocabulary.left.tolist() == [merge.left for merge in expected.merges]
    assert vocabulary.right.tolist() == [merge.right for merge in expected.merges]
    assert vocabulary.counts.tolist() == [merge.count for merge in expected.merges]
    assert vocabulary.replaced.tolist() == [merge.replaced for merge in expected.merges]
    assert vocabulary.tokens == expected.tokens
    assert vocabulary.stop_reason == expected.stop


# ---- parameters ----


@pytest.mark.parametrize(
    "size, specials, message",
    [
        (255, (), "vocab_size is 255, but the 256 bytes and 0 special tokens take 256"),
        (0, (), "vocab_size is 0"),
        (-5, (), "vocab_size is -5"),
        (257, ("<e>", "<f>"), "vocab_size is 257, but the 256 bytes and 2 special tokens take 258"),
    ],
)
def test_a_size_without_room_for_bytes_and_specials(size, specials, message):
    with pytest.raises(ValueError, match=message):
        train(LOW, size, special_tokens=specials)


@pytest.mark.parametrize("specials", [(), ("<e>", "<f>")])
def test_a_size_of_bytes_and_specials_learns_nothing(specials):
    vocabulary = train(LOW, 256 + len(specials), special_tokens=specials)
    assert vocabulary.merges == [] and len(vocabulary) == 256 + len(specials) and vocabulary.stop_reason == "vocab_size"


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"min_pair_count": 0}, ValueError, "min_pair_count is 0; it must be at least 1"),
        ({"min_pair_count": -3}, ValueError, "min_pair_count is -3"),
        ({"max_token_length": 0}, ValueError, "max_token_length is 0; it must be at least 1"),
        ({"max_token_length": -1}, ValueError, "max_token_length is -1"),
        ({"tie_break": "random"}, ValueError, "tie_break='random': choose one of huggingface, bytes, lexicographic"),
        ({"tie_break": None}, ValueError, "tie_break=None: choose one of"),
        ({"tie_break": "first"}, ValueError, "depends on the order of the text.*beam_bpe.reference.learn"),
        ({"special_tokens": "<e>"}, TypeError, "a list of texts, not one text"),
        ({"special_tokens": ["<e>", "<e>"]}, ValueError, "'<e>' stands twice"),
        ({"special_tokens": [""]}, ValueError, "special token 0 is empty"),
        ({"special_tokens": [b"<e>"]}, TypeError, "special token 0 is a bytes"),
        ({"min_pair_count": 2.5}, TypeError, "min_pair_count is 2.5; it must be a whole number"),
        ({"min_pair_count": None}, TypeError, "min_pair_count is None"),
        ({"max_token_length": 2.5}, TypeError, "max_token_length is 2.5; it must be a whole number"),
        ({"vocab_size": 300.5}, TypeError, "vocab_size is 300.5; it must be a whole number"),
        ({"vocab_size": "300"}, TypeError, "vocab_size is '300'"),
        ({"vocab_size": None}, TypeError, "vocab_size is None"),
    ],
)
def test_parameters_that_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        train(LOW, **{"vocab_size": 300, **options})


def test_numbers_of_numpy(tmp_path):
    vocabulary = train(LOW, np.int64(260), min_pair_count=np.int32(2), max_token_length=np.uint8(9))
    vocabulary.save(str(tmp_path))
    assert vocabulary.parameters == train(LOW, 260, max_token_length=9).parameters


@pytest.mark.parametrize("words", [{}, {"low": 0, "lower": 0}, WordCounts.from_documents([]), WordCounts.from_documents([" "], pattern="whitespace")])
def test_no_words(words):
    with pytest.raises(ValueError, match="no words to learn from"):
        train(words, 300)


@pytest.mark.parametrize(
    "words, message", [({"": 3}, "a word is empty"), ({"low": -1}, "the count of 'low' is -1"), ({"low": 2**63}, "the count of 'low'")]
)
def test_words_that_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        train(words, 300)


def test_words_that_count_nothing_are_as_if_absent():
    assert train({**LOW, "zzzzzz": 0, "lowest": 0}, 300, min_pair_count=1).merges == train(LOW, 300, min_pair_count=1).merges


def test_words_of_one_byte_have_no_pair():
    vocabulary = train({"a": 5, b"\xff": 3}, 300)
    assert vocabulary.merges == [] and vocabulary.stop_reason == "no_pairs"


# ---- special tokens ----


def test_special_tokens_come_last():
    vocabulary = train(LOW, 262, special_tokens=["<é>", "<e>"])
    assert vocabulary.special_ids == {"<é>": 260, "<e>": 261} and vocabulary.merges == train(LOW, 260).merges


@pytest.mark.parametrize("token, word", [("west", "newest"), ("low", "low"), ("newest", "newest"), ("o", "low")])
def test_a_special_token_inside_a_word_is_refused(token, word):
    with pytest.raises(ValueError, match=f"special token '{token}' occurs inside the word b'{word}'") as caught:
        train({"newest": 6, "low": 5}, 300, special_tokens=["<e>", token])
    assert f"special_tokens=['{token}']" in str(caught.value)


def test_a_special_token_that_is_learned_as_well_is_refused():
    with pytest.raises(ValueError, match="'z' is a byte or a learned token"):
        train(LOW, 300, special_tokens=["z"])


def test_words_counted_with_the_special_token_do_not_hold_it():
    documents = ["low<e>lower<e>", "newest <e><e> newest"]
    words = WordCounts.from_documents(documents, special_tokens=["<e>"])
    assert len(train(words, 262, special_tokens=["<e>"], min_pair_count=1)) == 262
    with pytest.raises(ValueError, match="occurs inside the word"):
        train(WordCounts.from_documents(documents, pattern="whitespace"), 262, special_tokens=["<e>"])


# ---- when it stops ----


@pytest.mark.parametrize(
    "options, reason, merges",
    [
        ({"vocab_size": 258}, "vocab_size", ["ab", "abab"]),
        ({"vocab_size": 257}, "vocab_size", ["ab"]),
        ({"vocab_size": 1000}, "min_pair_count", ["ab", "abab"]),
        ({"vocab_size": 1000, "min_pair_count": 1}, "no_pairs", ["ab", "abab", "cd"]),
        ({"vocab_size": 259, "min_pair_count": 1}, "vocab_size", ["ab", "abab", "cd"]),
        ({"vocab_size": 1000, "min_pair_count": 6}, "min_pair_count", ["ab"]),
        ({"vocab_size": 1000, "min_pair_count": 11}, "min_pair_count", []),
        ({"vocab_size": 1000, "min_pair_count": 10}, "min_pair_count", ["ab"]),
        ({"vocab_size": 1000, "max_token_length": 1}, "no_pairs", []),
        ({"vocab_size": 1000, "max_token_length": 2, "min_pair_count": 1}, "no_pairs", ["ab", "cd"]),
        ({"vocab_size": 1000, "max_token_length": 3, "min_pair_count": 1}, "no_pairs", ["ab", "cd"]),
        ({"vocab_size": 1000, "max_token_length": 4, "min_pair_count": 1}, "no_pairs", ["ab", "abab", "cd"]),
        ({"vocab_size": 1000, "max_token_length": 2**40, "min_pair_count": 1}, "no_pairs", ["ab", "abab", "cd"]),
    ],
)
def test_stop_reasons(options, reason, merges):
    vocabulary = train({"abab": 5, "cd": 1}, **options)
    assert [merge.token.decode() for merge in vocabulary.merges] == merges
    assert vocabulary.stop_reason == reason
    assert vocabulary.parameters["vocab_size"] == options["vocab_size"] and len(vocabulary) == 256 + len(merges)


@pytest.mark.parametrize("size", [10**6, 2**31, 2**32 - 1, 2**32, 2**40])
def test_a_size_larger_than_can_be_learned_is_no_error(size):
    vocabulary = train(LOW, size, min_pair_count=1)
    assert vocabulary.stop_reason == "no_pairs" and vocabulary.merges == train(LOW, 500, min_pair_count=1).merges


def test_every_merge_that_words_allow_can_be_learned():
    word = bytes(range(256))
    vocabulary = train({word: 2}, 10**9)
    assert len(vocabulary.merges) == 255 and vocabulary.tokens[-1] == word and vocabulary.stop_reason == "no_pairs"


# ---- counts beyond 32 and up to 63 bits ----


@pytest.mark.parametrize("count", [2**31, 2**32 + 1, 2**53 + 1, 2**61, MOST // 3])
def test_large_counts_are_exact(count):
    found = train({"ab": count, "xab": count, "aby": count - 1}, 258).merges
    assert (found[0].token, found[0].count, found[0].replaced) == (b"ab", 3 * count - 1, 3 * count - 1)
    assert (found[1].token, found[1].count) == (b"xab", count)


def test_the_largest_count():
    assert learned({"ab": MOST}, 1) == [("ab", MOST)]


@pytest.mark.parametrize("words", [{"ab": MOST, "xab": 1}, {"abab": 2**62}, {"aaa": 2**62}])
def test_overflow_names_the_pair(words):
    with pytest.raises(OverflowError, match=r"the pair \(b'a', b'[ab]'\) counts more than 2\*\*63 - 1"):
        train(words, 300)


# ---- what changes nothing ----


def random_words(seed: int) -> dict[bytes, int]:
    rng = random.Random(seed)
    return {"".join(rng.choices("abcde", k=rng.randrange(1, 12))).encode(): rng.randrange(1, 60) for _ in range(3000)}


def saved(vocabulary, folder) -> list[bytes]:
    vocabulary.save(str(folder))
    return [(folder / name).read_bytes() for name in ("merges.parquet", "vocabulary.parquet")]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_order_and_shards_change_no_byte(tmp_path, tie_break):
    counts = random_words(5)
    options = {"tie_break": tie_break, "special_tokens": ["<e>"]}
    expected = saved(train(counts, 700, **options), tmp_path / "v")
    pairs = list(counts.items())
    for seed in range(3):
        random.Random(seed).shuffle(pairs)
        assert saved(train(dict(pairs), 700, **options), tmp_path / f"order-{seed}") == expected
    for shards in (1, 2, 7, 16):
        folder = tmp_path / f"words-{shards}"
        WordCounts.from_mapping(counts).write(str(folder), shards=shards)
        assert saved(train(WordCounts.read(str(folder)), 700, **options), tmp_path / f"shards-{shards}") == expected
    words = WordCounts.from_mapping(counts)
    pieces = [words.table.slice(start, 700) for start in range(0, len(words), 700)]
    shuffled = WordCounts(pa.concat_tables(pieces[::-1]), words.parameters, words.totals)
    assert saved(train(shuffled, 700, **options), tmp_path / "pieces") == expected


def test_hash_seeds_change_no_byte(tmp_path):
    code = (
        "import sys, random; from beam_bpe import train, WordCounts\n"
        "text = ' '.join(''.join(random.Random(i).choices('abcd', k=6)) for i in range(500))\n"
        "train(WordCounts.from_documents([text]), 400, special_tokens=['<e>']).save(sys.argv[1])\n"
    )
    found = []
    for seed in ("0", "1"):
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)], check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        found.append([(tmp_path / seed / name).read_bytes() for name in ("merges.parquet", "vocabulary.parquet")])
    assert found[0] == found[1]


def test_how_the_words_were_made_goes_into_the_vocabulary():
    words = WordCounts.from_documents([TEXT], pattern="gpt2", special_tokens=["<e>"]).prune(3)
    vocabulary = train(words, 300, min_pair_count=3, max_token_length=4, tie_break="bytes")
    assert vocabulary.pre_tokenizer == pre_tokenizer("gpt2")
    assert vocabulary.alphabet == bytes(range(256))
    assert vocabulary.parameters == {
        "vocab_size": 300, "min_pair_count": 3, "max_token_length": 4, "tie_break": "bytes", "words": words.parameters,
    }  # fmt: skip
    assert vocabulary.totals == {**words.totals, "distinct_words": len(words)} and words.totals["pruned_words"] > 0


# ---- progress ----


@pytest.fixture(scope="module")
def many_words() -> WordCounts:
    """Return words enough for a second of learning."""
    rng = np.random.default_rng(3)
    letters = rng.integers(97, 113, (400_000, 14), np.uint8)
    distinct = {row.tobytes(): 1 + i % 90 for i, row in enumerate(letters)}
    return WordCounts.from_mapping(distinct)


def test_progress(many_words):
    seen = []
    vocabulary = train(many_words, 3000, progress=lambda *args: seen.append(args))
    assert seen
    for done, wanted, count in seen:
        assert 0 <= done <= wanted == 2744 and count >= 0
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    for done, _, count in seen:
        if done and count:
            assert count in vocabulary.counts[done - 1 : done + 1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_progress_raises_ends_the_learning(many_words, error):
    def stop(*args):
        raise error

    with pytest.raises(error):
        train(many_words, 3000, progress=stop)


# ---- memory ----


def test_memory_that_does_not_suffice(monkeypatch):
    monkeypatch.setattr(merging, "available_memory", lambda: 3_000_000_000)
    check_memory(300_000_000, 40_000_000)
    with pytest.raises(MemoryError) as caught:
        check_memory(1_234_000_000, 100_000_000)
    for part in ("100,000,000 words", "1,234,000,000 bytes", "about 12.3 GB", "3.0 GB are available", "min_count"):
        assert part in str(caught.value)


def test_training_looks_at_the_memory_first(monkeypatch):
    monkeypatch.setattr(merging, "available_memory", lambda: 100)
    with pytest.raises(MemoryError, match=r"learning from 4 words \(24 bytes\)"):
        train(LOW, 300)
    monkeypatch.setattr(merging, "available_memory", lambda: None)
    assert len(train(LOW, 258)) == 258


def test_available_memory(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError

    size = available_memory()
    assert size is None or 1 << 20 < size < 1 << 60
    monkeypatch.setattr("builtins.open", refuse)
    size = available_memory()
    assert size is None or size > 1 << 20
    monkeypatch.setattr(os, "sysconf", refuse, raising=False)
    assert available_memory() is None
