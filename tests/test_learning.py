"""Parameters of learning, refused before any word is counted; whole words; what all families share."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import beam_bpe
from beam_bpe import merging, train
from beam_bpe.characters import BYTES_PER_CHARACTER, BYTES_PER_SCORED_CHARACTER
from beam_bpe.learning import Learning
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).parent.parent
LOW = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


# ---- parameters ----


@pytest.mark.parametrize(
    "options, message",
    [
        ({"algorithm": "markov"}, "algorithm='markov': choose one of bpe, wordpiece, wordlevel"),
        ({"unit": "word"}, "unit='word': choose one of byte, character"),
        ({"algorithm": "wordpiece", "unit": "byte"}, "algorithm='wordpiece' is of characters"),
        ({"end_of_word": "</w>"}, "end_of_word='</w>' has no meaning for bytes"),
        ({"attached": True}, "attached=True has no meaning for bytes"),
        ({"byte_fallback": True}, "byte_fallback=True has no meaning for bytes"),
        ({"character_coverage": 0.9}, "character_coverage=0.9 has no meaning for bytes"),
        ({"unk_token": "<unk>"}, "unk_token='<unk>' has no meaning for bytes"),
        ({"score": "count"}, "score='count' has no meaning for bytes"),
        ({"unit": "character", "seed_words": 3}, "seed_words=3 has no meaning for characters"),
        ({"unit": "character", "continuing_subword_prefix": "@@"}, "continuing_subword_prefix='@@' has no meaning for characters"),
        ({"algorithm": "wordpiece", "end_of_word": "</w>"}, "end_of_word='</w>' has no meaning for wordpiece"),
        ({"algorithm": "wordlevel", "tie_break": "bytes"}, "tie_break='bytes' has no meaning for wordlevel"),
        ({"algorithm": "wordlevel", "vocab_size": None, "num_merges": 3}, "num_merges=3 has no meaning for wordlevel"),
        ({"unit": "character", "attached": True}, "attached=True says where .* give end_of_word"),
        ({"unit": "character", "tie_break": "bytes"}, "tie_break='bytes' is of bytes"),
        ({"algorithm": "wordpiece", "tie_break": "lexicographic"}, "goes with score='count'"),
        ({"algorithm": "wordpiece", "score": "pmi"}, "score='pmi': choose one of likelihood, count"),
        ({"unit": "character", "fuse_unk": True, "byte_fallback": True}, "fuse_unk=True joins unknown characters"),
        ({"algorithm": "wordpiece", "max_input_chars_per_word": 0}, "max_input_chars_per_word is 0; it must be at least 1"),
        ({"unit": "character", "character_coverage": 0}, "character_coverage is 0; it must be a number above 0 and at most 1"),
        ({"unit": "character", "character_coverage": 1.0001}, "character_coverage is 1.0001"),
        ({"unit": "character", "character_coverage": float("nan")}, "character_coverage is nan"),
        ({"unit": "character", "character_coverage": "most"}, "character_coverage is most; it must be a number above 0"),
        ({"unit": "character", "limit_alphabet": 0}, "limit_alphabet is 0; it must be at least 1"),
        ({"unit": "character", "alphabet_order": ["a", "b", "a"]}, "alphabet_order holds 'a' twice"),
        ({"num_merges": 4}, "vocab_size=300 and num_merges=4 are two limits"),
        ({"vocab_size": None, "num_merges": -1}, "num_merges is -1; it must be at least 0"),
        ({"min_count": 0}, "min_count is 0; it must be at least 1"),
        ({"algorithm": "wordpiece", "seed_words": 300}, "vocab_size is 300, but what is there .* takes 301"),
        ({"unit": "character", "byte_fallback": True, "vocab_size": 255}, "vocab_size is 255, but .* takes 256"),
        ({"algorithm": "wordlevel", "vocab_size": 0}, "vocab_size is 0"),
        ({"algorithm": "unigram", "unit": "byte"}, "algorithm='unigram' is of characters"),
        ({"algorithm": "unigram", "vocab_size": None, "num_merges": 9}, "num_merges=9 has no meaning for unigram"),
        ({"algorithm": "unigram", "tie_break": "lexicographic"}, "tie_break='lexicographic' has no meaning for unigram"),
        ({"algorithm": "unigram", "split_by_unicode_script": True}, "split_by_unicode_script=True has no meaning for unigram"),
        ({"algorithm": "unigram", "max_token_length": 70_000}, "max_token_length is 70000; for unigram it is at most 65,534"),
        ({"algorithm": "unigram", "seed_size": -1}, "seed_size is -1; it must be at least 0"),
        ({"algorithm": "unigram", "sub_iterations": 0}, "sub_iterations is 0; it must be at least 1"),
        ({"algorithm": "unigram", "shrinking_factor": 1}, "shrinking_factor=1: it is a number above 0 and below 1"),
        ({"algorithm": "unigram", "shrinking_factor": float("nan")}, "shrinking_factor=nan"),
        ({"algorithm": "unigram", "character_coverage": 1.5}, "character_coverage is 1.5; it must be a number above 0"),
        ({"algorithm": "sentencepiece-bpe", "seed_size": 9}, "seed_size=9 has no meaning for sentencepiece-bpe"),
        ({"algorithm": "sentencepiece-bpe", "min_pair_count": 3}, "min_pair_count=3 has no meaning for sentencepiece-bpe"),
        ({"algorithm": "sentencepiece-bpe", "end_of_word": "</w>"}, "end_of_word='</w>' has no meaning for sentencepiece-bpe"),
        ({"algorithm": "sentencepiece-bpe", "alphabet_order": ["a"]}, "alphabet_order=.'a'. has no meaning for sentencepiece-bpe"),
        ({"algorithm": "sentencepiece-bpe", "split_by_number": True}, "it needs split_by_unicode_script=True"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": ["a b"]}, "the user-defined symbol 'a b' holds a space or"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": ["▁a"]}, "the user-defined symbol '▁a' holds a space or"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": ["a\0"]}, r"the user-defined symbol 'a\\x00' holds NUL"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": ["x", "x"]}, "user_defined_symbols holds 'x' twice"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": [""]}, "user_defined_symbols holds '', which is empty"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": ["\ud800"]}, "which is half a surrogate pair"),
        ({"algorithm": "sentencepiece-bpe", "user_defined_symbols": ["<unk>"]}, "'<unk>' is a special token as well"),
        (
            {"algorithm": "unigram", "byte_fallback": True, "user_defined_symbols": ["<0x41>"]},
            "'<0x41>' is the token of a byte under byte_fallback",
        ),
        ({"user_defined_symbols": ["x"]}, "user_defined_symbols=.'x',. has no meaning for bytes"),
        ({"unit": "character", "split_digits": True}, "split_digits=True has no meaning for characters"),
        ({"algorithm": "unigram", "special_tokens": ["<s>"], "vocab_size": 1}, "vocab_size is 1, but .* takes 2"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Learning(**{"vocab_size": 300, **options})


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, r"vocab_size is None; it must be a whole number \(or give num_merges\)"),
        ({"num_merges": 2.5}, "num_merges is 2.5; it must be a whole number"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"vocab_size": 300, "unit": "character", "limit_alphabet": "5"}, "limit_alphabet is '5'"),
        ({"vocab_size": 300, "unit": "character", "alphabet_order": "abc"}, "alphabet_order is a list of spellings"),
        ({"vocab_size": 300, "vocabsize": 4}, "vocabsize"),
        ({"vocab_size": 300, "algorithm": "unigram", "user_defined_symbols": "ab"}, "user_defined_symbols is a list of texts"),
        ({"vocab_size": 300, "algorithm": "unigram", "user_defined_symbols": [1]}, "user_defined_symbols holds 1, which is no text"),
        ({"vocab_size": 300, "algorithm": "unigram", "split_digits": "yes"}, "split_digits='yes': it is True or False"),
        ({"vocab_size": 300, "algorithm": "unigram", "sub_iterations": 1.5}, "sub_iterations is 1.5; it must be a whole number"),
        ({"algorithm": "sentencepiece-bpe"}, "vocab_size is None; it must be a whole number"),
    ],
)
def test_options_of_another_type(options, message):
    with pytest.raises(TypeError, match=message):
        train(LOW, **options)


def test_defaults_of_the_families():
    families = {
        "bytes": Learning(300),
        "characters": Learning(300, unit="character"),
        "wordpiece": Learning(300, algorithm="wordpiece"),
        "wordlevel": Learning(algorithm="wordlevel"),
        "sentencepiece-bpe": Learning(300, algorithm="sentencepiece-bpe"),
        "unigram": Learning(300, algorithm="unigram"),
    }
    for family, learning in families.items():
        assert learning.family == family
    assert [one.unk_token for one in families.values()] == [None, "<unk>", "[UNK]", "<UNK>", "<unk>", "<unk>"]
    assert [one.unit for one in families.values()] == ["byte", *["character"] * 5]
    assert families["wordpiece"].specials == ("[UNK]",)
    assert Learning(300, unit="character", special_tokens=["<s>"]).specials == ("<unk>", "<s>")
    assert Learning(300, unit="character", byte_fallback=True).specials == ()
    assert Learning(300, algorithm="unigram", byte_fallback=True).specials == ("<unk>",)
    assert [one.max_token_length for one in families.values()] == [None, None, None, None, 16, 16]
    for learning in families.values():  # what is known of them says the same again
        assert Learning(**vars(learning)) == learning


@pytest.mark.parametrize(
    "options",
    [
        {"unit": "character", "end_of_word": "</w>", "attached": True, "character_coverage": Fraction(99, 100)},
        {"algorithm": "wordpiece", "seed_words": np.int64(2), "alphabet_order": [*"lowernstid", *(f"##{c}" for c in "lowernstid")]},
        {"algorithm": "wordlevel"},
        {"num_merges": 3},
    ],
)
def test_parameters_are_kept_and_saved(tmp_path, options):
    vocabulary = train(LOW, None if "num_merges" in options else np.int32(290), special_tokens=["<s>"], **options)
    vocabulary.save(str(tmp_path))
    again = type(vocabulary).load(str(tmp_path))
    assert again == vocabulary and again.parameters == vocabulary.parameters and again.totals == vocabulary.totals
    assert again.model == vocabulary.model and again.tokens == vocabulary.tokens
    assert vocabulary.parameters["vocab_size"] == (None if "num_merges" in options else 290)


def test_merges_of_bytes_by_their_number():
    vocabulary = train(LOW, num_merges=4, special_tokens=["<s>"])
    assert vocabulary.merges == train(LOW, 260).merges and vocabulary.stop_reason == "num_merges"
    assert len(vocabulary) == 261 and train(LOW, num_merges=10**12).stop_reason == "no_pairs"


# ---- whole words ----


def test_the_most_frequent_words():
    words = {"b": 5, "a": 5, "é": 7, "zz": 5, "rare": 1, "<UNK>": 9}
    vocabulary = train(words, 4, algorithm="wordlevel")
    assert vocabulary.tokens == (b"", "é".encode(), b"a", b"b") and vocabulary.special_ids == {"<UNK>": 0}
    assert vocabulary.stop_reason == "vocab_size"
    assert vocabulary.totals["unknown_words"] == 5 + 1 + 9 and vocabulary.totals["distinct_words"] == 6
    everything = train(words, algorithm="wordlevel", min_count=5, special_tokens=["<s>", "</s>"])
    assert everything.tokens == (b"", b"", b"", "é".encode(), b"a", b"b", b"zz")
    assert everything.special_ids == {"<UNK>": 0, "<s>": 1, "</s>": 2} and everything.stop_reason == "min_count"
    assert everything.totals["pruned_words"] == 1
    assert train({"ab": 1}, 99, algorithm="wordlevel").stop_reason == "no_words"


def test_whole_words_are_text():
    with pytest.raises(ValueError, match=r"the word b'\\xff' is not UTF-8"):
        train({b"\xff": 3}, algorithm="wordlevel")


# ---- what the families share ----

FAMILIES = [
    {"unit": "character", "end_of_word": "</w>"},
    {"algorithm": "wordpiece"},
    {"algorithm": "wordpiece", "score": "count"},
    {"algorithm": "sentencepiece-bpe"},
    {"algorithm": "wordlevel"},
    {"algorithm": "unigram"},
]
MERGING = FAMILIES[:4]


@pytest.mark.parametrize("options", FAMILIES)
def test_how_words_were_made_is_kept(options):
    table = WordCounts.from_documents(["Low, LOWER newest"], pattern="whitespace", normalizer="lowercase")
    vocabulary = train(table, 99, **options)
    assert vocabulary.normalizer == "lowercase" and vocabulary.pre_tokenizer == table.pre_tokenizer
    assert vocabulary.parameters["words"] == table.parameters


@pytest.mark.parametrize("options", MERGING)
def test_memory_is_looked_at_first(monkeypatch, options):
    monkeypatch.setattr(merging, "available_memory", lambda: 100)
    cells = 27 if "end_of_word" in options else 24
    cells += 1 if "end_of_word" in options else 0
    each = BYTES_PER_SCORED_CHARACTER if options == {"algorithm": "wordpiece"} else BYTES_PER_CHARACTER
    with pytest.raises(MemoryError, match=rf"learning from 4 words \({cells} characters\)") as caught:
        train(LOW, 300, **options)
    assert f"about {cells * each / 1e9:.1f} GB" in str(caught.value)


@pytest.mark.parametrize("options", FAMILIES)
def test_progress(options):
    seen = []
    vocabulary = train(LOW, 99, progress=lambda *args: seen.append(args), **options)
    done, wanted, last = seen[-1]
    if options == {"algorithm": "unigram"}:
        assert done == wanted and last == len(vocabulary) - 1
    else:
        assert done == (len(vocabulary.left) or len(vocabulary) - 1) <= wanted


@pytest.mark.parametrize("options", MERGING)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_progress_raises_ends_the_learning(options, error):
    def stop(*args):
        raise error

    with pytest.raises(error):
        train(LOW, 99, progress=stop, **options)


ARTIFACTS = ("merges.parquet", "vocabulary.parquet")


def saved(vocabulary, folder) -> list[bytes]:
    vocabulary.save(str(folder))
    return [(folder / name).read_bytes() for name in ARTIFACTS]


@pytest.mark.parametrize("options", FAMILIES)
def test_order_and_shards_change_no_byte(tmp_path, options):
    rng = random.Random(6)
    counts = {"".join(rng.choices("abcdé日", k=rng.randint(1, 9))).encode(): rng.randint(1, 40) for _ in range(1500)}
    more = {**options, "special_tokens": ["<s>"]}
    if "wordlevel" not in options.values():
        more["character_coverage"] = 0.95
    expected = saved(train(counts, 200, **more), tmp_path / "v")
    pairs = list(counts.items())
    rng.shuffle(pairs)
    assert saved(train(dict(pairs), 200, **more), tmp_path / "order") == expected
    for shards in (1, 7):
        WordCounts.from_mapping(counts).write(str(tmp_path / f"words-{shards}"), shards=shards)
        assert saved(train(WordCounts.read(str(tmp_path / f"words-{shards}")), 200, **more), tmp_path / f"{shards}") == expected


def test_hash_seeds_change_no_byte(tmp_path):
    code = (
        "import sys, random; from beam_bpe import train, WordCounts\n"
        "text = ' '.join(''.join(random.Random(i).choices('abcdé', k=6)) for i in range(500))\n"
        "words = WordCounts.from_documents([text])\n"
        "for i, options in enumerate([{'unit': 'character', 'byte_fallback': True}, {'algorithm': 'wordpiece', 'seed_words': 9},\n"
        "                             {'algorithm': 'unigram'}, {'algorithm': 'sentencepiece-bpe', 'byte_fallback': True}]):\n"
        "    train(words, 400, special_tokens=['<e>'], **options).save(f'{sys.argv[1]}-{i}')\n"
    )
    found = []
    for seed in ("0", "1"):
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)], check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        found.append([(tmp_path / f"{seed}-{i}" / name).read_bytes() for i in range(4) for name in ARTIFACTS])
    assert found[0] == found[1]


def refused(error, message, **options):
    with pytest.raises(error, match=message):
        train({"low": 5, "lower": 2}, **{"vocab_size": 300, "unit": "character", **options})


@pytest.mark.parametrize("coverage", ["1e-99999999", "1e99999999", "0." + "9" * 200, "nan", "inf", "1/0", 0, -1, 1.5, "x"])
def test_a_coverage_that_is_none(coverage):
    refused(ValueError, "character_coverage is", character_coverage=coverage)


@pytest.mark.parametrize("coverage", ["1/3", Fraction(1, 3), 0.9995, "1e-5", 1])
def test_a_coverage_that_is_one(coverage):
    assert Learning(300, unit="character", character_coverage=coverage).character_coverage == coverage


@pytest.mark.parametrize(
    "error, message, options",
    [
        (ValueError, "the special token '<0x41>' is the token of a byte", dict(byte_fallback=True, unk_token="<0x41>")),
        (ValueError, "the special token '<0x41>' is the token of a byte", dict(byte_fallback=True, special_tokens=["<0x41>"])),
        (ValueError, r"unk_token='\\ud800' holds half a surrogate pair", dict(unk_token="\ud800")),
        (ValueError, r"end_of_word='\\ud800' holds half", dict(end_of_word="\ud800")),
        (ValueError, r"alphabet_order='\\ud800' holds half", dict(alphabet_order=["\ud800"])),
        (TypeError, "unk_token=5 is no text", dict(unk_token=5)),
        (TypeError, "alphabet_order holds 5", dict(alphabet_order=["l", 5])),
        (TypeError, "alphabet_order is a list of spellings, not '5'", dict(alphabet_order=5)),
        (TypeError, "attached='no': it is True or False", dict(end_of_word="</w>", attached="no")),
        (ValueError, r"algorithm=\['bpe'\]: choose one of", dict(algorithm=["bpe"])),
        (TypeError, "no option 'algoritm' of learning; did you mean 'algorithm'", dict(algoritm="bpe")),
        (TypeError, "no option 'corpus' of learning$", dict(corpus=1)),
    ],
)
def test_options_that_are_told(error, message, options):
    refused(error, message, **options)


@pytest.mark.parametrize("algorithm", ["sentencepiece-bpe", "unigram"])
def test_a_size_beyond_all_numbers_is_one_that_is_not_reached(algorithm):
    sizes = [len(train({"▁low": 3, "▁lower": 2}, size, algorithm=algorithm)) for size in (1000, 2**40, 2**64, 10**30)]
    assert len(set(sizes)) == 1


def test_numbers_of_numpy():
    learning = Learning(np.int64(30), algorithm="wordpiece", max_input_chars_per_word=np.int64(5))
    assert learning.model.max_input_chars_per_word == 5 and type(learning.vocab_size) is int


def test_why_whole_words_end():
    words = {"x": 5, "a": 1, "b": 3}
    for options, stop, unknown in [({}, "no_words", 0), ({"min_count": 2}, "min_count", 1), ({"vocab_size": 2}, "vocab_size", 4)]:
        found = train(words, algorithm="wordlevel", **options)
        assert (found.stop_reason, found.totals["unknown_words"]) == (stop, unknown)
    many = train({"ab": 2**62, "cb": 2**62 - 1}, algorithm="wordlevel")
    assert [many.tokens[i] for i in (1, 2)] == [b"ab", b"cb"]
