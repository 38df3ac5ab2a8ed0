"""Merges of SentencePiece: worked examples, the plain reference, the library's pieces and their order, what is refused."""

from __future__ import annotations

import importlib.util
import io
import random
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_bpe import _merge, train
from beam_bpe.learning import Learning
from beam_bpe.model import byte_token
from beam_bpe.reference_sentencepiece import BOUNDARY, alphabet, count, cut, learn, number
from beam_bpe.scored import cut_words
from beam_bpe.script_table import SCRIPTS
from beam_bpe.words import WordCounts

SPACE = "\u2581"
MOST = 2**63 - 1
NEWEST = {"▁newest": 4, "▁newer": 2, "▁to": 2}
BYTES = [byte_token(byte) for byte in range(256)]


def learned(words, size, **options):
    return train(words, size, algorithm="sentencepiece-bpe", **options)


def rows(vocabulary):
    """Return (piece, score, kind) by id, as the reference numbers them."""
    kinds = dict.fromkeys(vocabulary.layout.user_defined, "user_defined")
    kinds |= {i: "byte" for i, piece in enumerate(vocabulary.tokens) if vocabulary.model.byte_fallback and piece.decode() in BYTES}
    found = [
        (piece.decode(), score, kinds.get(i, "normal"))
        for i, (piece, score) in enumerate(zip(vocabulary.tokens, vocabulary.layout.scores.tolist()))
    ]
    for text, i in vocabulary.special_ids.items():
        assert found[i][0] == ""
        found[i] = text, found[i][1], "unknown" if text == vocabulary.model.unk_token else "control"
    return found


@lru_cache(1)
def script_of():
    """Return the script of every character, as the table has it."""
    scripts = dict.fromkeys(map(chr, range(0x110000)), "COMMON")
    for name, codes in SCRIPTS.items():
        for bounds in codes.split():
            low, _, high = bounds.partition("-")
            scripts |= dict.fromkeys(map(chr, range(int(low, 16), int(high or low, 16) + 1)), name)
    return scripts


# ---- worked examples ----


def test_by_hand():
    """Four pairs are at 6: `ew` is the smallest; then `▁n` is shorter than `new` and `ewe`, and `ewe` smaller than `▁new`."""
    vocabulary = learned(NEWEST, 18)
    pieces = ["ew", "▁n", "ewe", "▁newe", "st", "▁newest", "to", "▁to", "▁newer", *"e▁ntwsor"]
    assert [token.decode() for token in vocabulary.tokens] == ["", *pieces]
    assert vocabulary.counts.tolist() == [6, 6, 6, 6, 4, 4, 2, 2, 2]
    assert vocabulary.layout.scores.tolist() == [0, *(-i for i in range(17))]
    assert vocabulary.special_ids == {"<unk>": 0} and vocabulary.stop_reason == "vocab_size"
    merges = [(merge.left.decode(), merge.right.decode(), merge.token.decode()) for merge in vocabulary.merges]
    assert merges[:4] == [("e", "w", "ew"), ("▁", "n", "▁n"), ("ew", "e", "ewe"), ("▁n", "ewe", "▁newe")]
    assert vocabulary.totals["characters"] == 46 and vocabulary.totals["unknown_characters"] == 0
    model = vocabulary.model
    assert (model.algorithm, model.unit, model.unk_token, model.unk_surface) == ("sentencepiece-bpe", "character", "<unk>", " \u2047 ")


def test_the_order_of_ids():
    """Special tokens, of which the unknown one is first unless it is named; symbols; bytes; pieces; characters."""
    options = {"special_tokens": ["<s>", "</s>"], "user_defined_symbols": ["<x>", "ne"], "byte_fallback": True}
    vocabulary = learned(NEWEST, 300, **options)
    assert vocabulary.special_ids == {"<unk>": 0, "<s>": 1, "</s>": 2} and vocabulary.layout.user_defined == (3, 4)
    tokens = [token.decode() for token in vocabulary.tokens]
    assert tokens[:5] == ["", "", "", "<x>", "ne"] and tokens[5:261] == BYTES
    assert tokens[261:] == ["we", "st", "west", "to", "wer", "▁to", *"▁etwsor"]  # nothing goes across "ne"
    assert not vocabulary.layout.scores[:262].any() and vocabulary.layout.scores[262] == -1
    named = learned(NEWEST, 30, special_tokens=["<pad>", "<unk>"])
    assert named.special_ids == {"<pad>": 0, "<unk>": 1}


def test_ties():
    def pieces(words, size):
        return [merge.token.decode() for merge in learned(words, size + 1).merges]

    assert pieces({"▁ba": 1, "▁ab": 1}, 5) == ["ab", "ba"]  # ab, ba, ▁a, ▁b are at 1
    assert pieces({"▁abcdab": 1, "xy": 2}, 20)[:3] == ["ab", "xy", "cd"]  # two characters before three
    assert pieces({"aaaaa": 3}, 9) == ["aa", "aaa", "aaaaa"]  # aa aa a, where "aaa" is shorter than "aaaa"
    assert learned({"aaaa": 1, "bb": 2}, 5).counts.tolist() == [3, 2]  # three pairs of a, that overlap
    assert pieces({"é日": 2, "z\U0001f600": 2, "zé": 1}, 6) == ["z\U0001f600", "é日"]  # in the order of code points


def test_what_no_piece_holds():
    words = {"▁a1\uff112b": 9, "▁a\x00c": 5, "▁a\u2585d": 5, "▁a\x1fe": 5}
    digits = learned(words, 60, split_digits=True)
    assert [merge.token.decode() for merge in digits.merges] == ["▁a"] and {b"1", b"2", "\uff11".encode()} <= set(digits.tokens)
    assert [merge.token.decode() for merge in learned(words, 60).merges][:2] == ["▁a", "1\uff11"]
    assert not {b"\0", b"\x1f", "\u2585".encode()} & set(digits.tokens)
    assert digits.totals["unknown_characters"] == 15
    longest = [len(token.decode()) for token in learned({"a" * 99: 1, "▁" + "b" * 40: 2}, 60).tokens]
    assert max(longest) == 16
    assert max(len(token) for token in learned({"a" * 99: 1}, 60, max_token_length=5).tokens) == 4
    assert [merge.token.decode() for merge in learned({"a▁b": 9}, 60).merges] == ["▁b"]


def test_coverage_counts_no_nul():
    assert learned({"a": 2, "b": 2, "c": 2, "\0": 94}, 9, character_coverage="0.5").tokens == (b"", b"a", b"b")
    assert learned({"a": 2, "b": 2, "<unk>": 5}, 9, character_coverage="0.7").tokens == (b"", b"a")  # a symbol counts as one


def test_one_script():
    def pieces(*words, **options):
        vocabulary = learned(dict(zip(words, (1, 5))), 99, split_by_unicode_script=True, **options)
        return [merge.token.decode() for merge in vocabulary.merges]

    assert pieces("▁aб") == ["▁a"] and pieces("漢あアー")[-1] == "漢あアー"
    assert pieces("a\u0301b")[-1] == pieces("a\u0301b", split_by_number=True)[-1] == "a\u0301b"
    assert pieces("б\u0301a", "\u0301a") == ["\u0301a"] and pieces("б\u0301a", "б\u0301") == ["б\u0301"]
    assert pieces("a1b", split_by_number=True) == [] and pieces("a1б")[-1] == "a1б" and pieces("a!b") == []


# ---- the reference ----

SYMBOLS = ["ab", "aba", "<x>", "é", "b1"]
WORDS = st.dictionaries(
    st.one_of(
        st.text("ab", min_size=1, max_size=12),
        st.text(f"abc1\uff11日あ\x1f\0é\u0301б!{SPACE}\u2585", min_size=1, max_size=12),
        st.sampled_from(["▁<unk>", "a<x>b", "<0x41>", "<0x4<0x41>", "▁aaaaaaaaaaaaaaaaaaaaaaab"]),
    ),
    st.one_of(st.integers(0, 9), st.integers(10**12, 10**12 + 3)),
    min_size=1,
    max_size=15,
)


@settings(max_examples=150, deadline=None)
@given(
    words=WORDS,
    size=st.integers(0, 40),
    coverage=st.sampled_from(["1", "0.98", "0.7"]),
    limit=st.none() | st.integers(1, 4),
    longest=st.sampled_from([None, 1, 3, 16]),
    digits=st.booleans(),
    fallback=st.booleans(),
    symbols=st.lists(st.sampled_from(SYMBOLS), max_size=3, unique=True),
    script=st.booleans(),
    by_number=st.booleans(),
)
@example({"▁abab": 1, "▁b<0x41>ab": 2, "ab": 1}, 9, "1", None, None, False, True, ["ab"], False, False)
@example({"▁a\u0301бa": 1, "a1б": 2, "漢あアー": 1}, 30, "1", None, None, False, False, [], True, False)
def test_it_learns_as_the_reference(words, size, coverage, limit, longest, digits, fallback, symbols, script, by_number):
    meta = ["<unk>", "<s>", *symbols, *(BYTES if fallback else ())]
    counted: Counter[str] = Counter()
    for word, n in words.items():
        counted["".join(BOUNDARY if is_symbol else unit for unit, is_symbol in cut(word, meta))] += n
    counted = Counter({word: n for word, n in counted.items() if n})
    kept = alphabet(counted, coverage)[:limit]
    if not kept:
        return
    # The reference has no limit: what is left out never merges, as U+001F does not.
    rest = [("".join(char if char in kept else BOUNDARY for char in word), n) for word, n in counted.items()]
    counted = Counter()
    for word, n in rest:
        counted[word] += n
    options = {"split_digits": digits, "max_length": longest or 16, "split_by_number": by_number}
    expected = learn(counted, size + len(kept), scripts=script_of() if script else None, **options)
    own = {"split_by_unicode_script": script, "split_by_number": script and by_number, "limit_alphabet": limit}
    vocabulary = learned(
        words,
        size + len(kept) + len(meta),
        character_coverage=coverage,
        max_token_length=longest,
        split_digits=digits,
        byte_fallback=fallback,
        special_tokens=["<s>"],
        user_defined_symbols=symbols,
        **own,
    )
    assert vocabulary.counts.tolist() == expected.counts
    special = {0: "<unk>", 1: "<s>"}
    assert rows(vocabulary) == number(expected, special=special, user_defined_symbols=symbols, byte_fallback=fallback)
    full = len(expected.pieces) == size
    assert vocabulary.stop_reason == ("vocab_size" if full else "no_pairs")


# ---- the library ----


def lines_of(shared):
    """Return the lines of mixed-1m without their endings."""
    return (shared / "corpora" / "mixed-1m.txt").read_bytes().decode().split("\n")


def pieces_of_the_library(lines, size, **options):
    """Return (piece, score) by id, of the library's trainer."""
    spm = pytest.importorskip("sentencepiece")
    usual = {
        "model_type": "bpe", "normalization_rule_name": "identity", "split_by_unicode_script": False, "split_by_number": False,
        "max_sentence_length": 1 << 20, "hard_vocab_limit": True, "minloglevel": 2,
    }  # fmt: skip
    writer = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=writer, vocab_size=size, **{**usual, **options})
    model = spm.SentencePieceProcessor(model_proto=writer.getvalue())
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model))]


@pytest.mark.parametrize(
    "size, coverage, remove, options",
    [
        (8_000, "1", True, {}),
        (8_000, "0.9995", False, {"byte_fallback": True, "split_digits": True}),
        (8_000, "1", True, {"split_by_unicode_script": True, "split_by_number": True}),
        (8_000, "1", True, {"user_defined_symbols": ["the", "<x>", "an", "日本"], "byte_fallback": True}),
        *[
            pytest.param(8_000, coverage, remove, options, marks=pytest.mark.slow)
            for coverage in ("1", "0.9995")
            for remove in (True, False)
            for options in (
                {}, {"byte_fallback": True}, {"split_digits": True}, {"split_by_unicode_script": True},
                {"split_by_unicode_script": True, "split_by_number": True, "split_digits": True},
            )
        ],
    ],
)  # fmt: skip
def test_real_text(size, coverage, remove, options, shared):
    """Pieces, their order, their ids and scores are those of the library."""
    lines = lines_of(shared)
    theirs = pieces_of_the_library(lines, size, character_coverage=float(coverage), remove_extra_whitespaces=remove, **options)
    words = WordCounts.from_mapping(count(lines, remove_extra_whitespaces=remove))
    vocabulary = learned(words, size, character_coverage=coverage, special_tokens=["<s>", "</s>"], **options)
    assert [(piece, score) for piece, score, _ in rows(vocabulary)] == theirs


def test_the_table_of_scripts():
    """At the bounds of each range, and at random, a character goes with others as the library has it."""
    pytest.importorskip("sentencepiece")
    path = Path(__file__).resolve().parent.parent / "cython_ext" / "make_script_table.py"
    found = importlib.util.spec_from_file_location("make_script_table", path)
    maker = importlib.util.module_from_spec(found)
    found.loader.exec_module(maker)
    scripts = script_of()
    bounds = {int(bound, 16) for codes in SCRIPTS.values() for bound in codes.replace("-", " ").split()}
    asked = {bound + more for bound in bounds for more in (-1, 0, 1)} | set(random.Random(1).sample(maker.EVERY, 1000))
    first = {name: chr(int(codes.replace("-", " ").split()[0], 16)) for name, codes in SCRIPTS.items() if name != "INHERITED"}
    asked = sorted(asked.intersection(maker.EVERY))
    assert len(asked) > 3000
    likely = {code: scripts[chr(code)] for code in asked}
    assert maker.ask(asked, likely, {**first, **maker.KNOWN}) == likely


# ---- what it follows from ----


def table_of(rng, words):
    letters = "abcdefgh日1"
    return {"▁" + "".join(rng.choices(letters, k=rng.randint(1, 9))): rng.choice([1, 2, 3, 7]) for _ in range(words)}


def test_the_order_of_words_changes_nothing():
    rng = random.Random(5)
    words = WordCounts.from_mapping(table_of(rng, 2000))
    order = list(range(len(words)))
    rng.shuffle(order)
    shuffled = WordCounts(words.table.take(order), words.parameters, words.totals)
    options = {"split_digits": True, "user_defined_symbols": ["ab"]}
    assert learned(words, 400, **options).fingerprint == learned(shuffled, 400, **options).fingerprint


def test_large_counts_are_exact():
    """No float tells 2^53 from one more, which decides."""
    n = 2**53
    vocabulary = learned({"ab": n, "cd": n + 1, "xxy": 10**12}, 20)
    assert [merge.token for merge in vocabulary.merges][:2] == [b"cd", b"ab"]
    assert vocabulary.counts.tolist()[:2] == [n + 1, n] and vocabulary.totals["characters"] == 4 * n + 2 + 3 * 10**12


def test_counts_that_overflow():
    with pytest.raises(OverflowError, match="'a' counts more"):
        learned({"a": MOST, "ab": 1}, 9)
    with pytest.raises(OverflowError, match="counts more than"):
        learned({"1a": MOST, "a1": 1}, 9, split_digits=True)
    assert learned({"ab": MOST // 2}, 9).counts.tolist() == [MOST // 2]


def test_progress_is_told():
    told = []
    learned(table_of(random.Random(2), 500), 100, progress=lambda *seen: told.append(seen))
    vocabulary = learned(table_of(random.Random(2), 500), 100)
    assert told[-1] == (len(vocabulary.left), len(vocabulary.left), vocabulary.counts[-1])


def test_parameters_are_kept_and_saved(tmp_path):
    options = {"split_digits": True, "user_defined_symbols": ["<x>"], "character_coverage": 0.99, "byte_fallback": True}
    vocabulary = learned({"▁low1": 5, "▁<x>lower": 2}, 300, special_tokens=["<s>"], **options)
    vocabulary.save(str(tmp_path))
    again = type(vocabulary).load(str(tmp_path))
    assert again == vocabulary and again.layout.scores.tolist() == vocabulary.layout.scores.tolist()
    assert again.parameters == vocabulary.parameters and again.layout.user_defined == (2,)
    assert vocabulary.parameters["max_token_length"] == 16 and "min_pair_count" not in vocabulary.parameters
    assert vocabulary.parameters["user_defined_symbols"] == ["<x>"] and vocabulary.parameters["character_coverage"] == "0.99"


def test_words_are_cut():
    words = WordCounts.from_mapping({"▁a1b": 2, "x▁y▁": 3, "▁": 1, "1": 4, "▁ab": 5, "▁<x>a": 7, "▁<x><x": 1})
    learning = Learning(99, algorithm="unigram", split_digits=True, user_defined_symbols=["<x>", "<x"])
    parts, symbols = cut_words(words, learning)
    assert symbols == 9 and parts.parameters == words.parameters and parts.totals["words"] == 23
    expected = {"▁a": 2, "1": 6, "b": 2, "x": 3, "▁y": 3, "▁": 4, "▁ab": 5, "▁\x1fa": 7, "▁\x1f\x1f": 1}
    assert {word.decode(): n for word, n in parts.to_dict().items()} == expected
    same, none = cut_words(words, Learning(99, algorithm="unigram", unk_token="[UNK]"))
    assert none == 0 and same.to_dict().keys() == {*words.to_dict(), b"x", "▁y".encode()} - {"x▁y▁".encode()}


# ---- what cannot be learned ----


def test_scripts_of_symbols_without_lengths():
    for scripts, more in ((1, {}), (2, {"lengths": np.ones(1, np.uint32)})):
        with pytest.raises(ValueError, match="scripts are of every initial symbol, and need lengths"):
            _merge.MergeLoop(np.ones(1, np.int64), [b"a"], scripts=np.zeros(scripts, np.uint8), **more)


@pytest.mark.parametrize("algorithm", ["sentencepiece-bpe", "unigram"])
@pytest.mark.parametrize(
    "words, size, options, message",
    [
        ({"▁abc": 1}, 4, {}, "vocab_size is 4, but the alphabet of 4 characters and 1 other tokens take 5: .* character_coverage"),
        ({"▁abc": 1}, 260, {"byte_fallback": True}, "the alphabet of 4 characters and 257 other tokens take 261"),
        ({"▁abc": 1}, 256, {"byte_fallback": True}, "vocab_size is 256, but what is there .* user_defined_symbols.* takes 257"),
        ({}, 9, {}, "no words"),
        ({"a": 0}, 9, {}, "no words"),
        ({"\0\x1f": 3, "<unk>": 2}, 9, {}, "no words to learn from: they hold nothing but symbols"),
        ({b"a\xff": 3}, 9, {}, "not UTF-8"),
        ({b"a1\xff": 3}, 9, {"split_digits": True}, "not UTF-8"),
        ({"▁a<s>b": 3}, 9, {"special_tokens": ["<s>"]}, "the special token '<s>' occurs inside the word"),
    ],
)
def test_what_is_told(algorithm, words, size, options, message):
    with pytest.raises(ValueError, match=message):
        train(words, size, algorithm=algorithm, **options)
