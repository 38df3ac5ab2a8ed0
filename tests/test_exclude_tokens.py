"""Tokens that training leaves out: the merge loop against the references, lists as text, and the option in every family."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Learning, WordCounts, cli, reference, reference_sentencepiece, reference_unigram, token_list, train
from beam_bpe.artifacts import FormatError
from beam_bpe.unigram import learn_pieces
from beam_bpe.reference_pieces import learn_characters, learn_wordpiece

WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=10), st.integers(1, 9), min_size=1, max_size=10)


# ---- merges, against the references --------------------------------------------------------------


@pytest.mark.parametrize("rule", ["huggingface", "bytes", "lexicographic"])
@settings(deadline=None, max_examples=60)
@given(words=WORDS, data=st.data())
def test_bytes_as_the_reference(rule, words, data):
    counts = {word.encode(): count for word, count in words.items()}
    tokens = reference.learn(counts, 20, tie_break=rule).tokens[256:]
    excluded = data.draw(st.lists(st.sampled_from(tokens), max_size=4)) if tokens else []
    expected = reference.learn(counts, 20, tie_break=rule, excluded=excluded, min_pair_count=2)
    found = train(counts, 276, tie_break=rule, exclude_tokens=excluded)
    assert list(found.tokens) == expected.tokens and found.stop_reason == expected.stop
    assert [(m.count, m.replaced) for m in found.merges] == [(m.count, m.replaced) for m in expected.merges]
    assert not set(excluded) & set(found.tokens)


@settings(deadline=None, max_examples=60)
@given(words=WORDS, attached=st.booleans(), data=st.data())
def test_characters_as_the_reference(words, attached, data):
    plain = learn_characters(words, 20, attached=attached)
    made = [plain.tokens[merge.id] for merge in plain.merges]
    excluded = data.draw(st.lists(st.sampled_from(made), max_size=4)) if made else []
    expected = learn_characters(words, 20, attached=attached, reserved=excluded)
    options = {"unit": "character", "end_of_word": "</w>", "attached": attached, "min_pair_count": 1}
    found = train(words, num_merges=20, exclude_tokens=excluded, **options)
    assert [(m.token.decode(), m.count) for m in found.merges] == [(expected.tokens[m.id], m.count) for m in expected.merges]


@pytest.mark.parametrize("score", ["likelihood", "count"])
@settings(deadline=None, max_examples=60)
@given(words=WORDS, data=st.data())
def test_wordpiece_as_the_reference(score, words, data):
    plain = learn_wordpiece(words, 20, score=score)
    made = [plain.tokens[merge.id] for merge in plain.merges]
    excluded = data.draw(st.lists(st.sampled_from(made), max_size=4)) if made else []
    expected = learn_wordpiece(words, 20, score=score, reserved=excluded)
    found = train(words, num_merges=20, algorithm="wordpiece", score=score, exclude_tokens=excluded, min_pair_count=1)
    assert [(m.token.decode(), m.count) for m in found.merges] == [(expected.tokens[m.id], m.count) for m in expected.merges]


@settings(deadline=None, max_examples=40)
@given(words=WORDS, data=st.data())
def test_sentencepiece_bpe_as_the_reference(words, data):
    marked = {f"▁{word}": count for word, count in words.items()}
    plain = reference_sentencepiece.learn(marked, 40)
    made = [piece for piece in plain.pieces if len(piece) > 1]
    excluded = data.draw(st.lists(st.sampled_from(made), max_size=4)) if made else []
    expected = reference_sentencepiece.learn(marked, 40, excluded=excluded)
    table = WordCounts.from_mapping(marked, pre_tokenizer="metaspace", normalizer="metaspace")
    found = train(table, 41, algorithm="sentencepiece-bpe", exclude_tokens=excluded)
    assert [token.decode() for token in found.tokens if token] == [*expected.pieces, *expected.characters]


@settings(deadline=None, max_examples=40)
@given(words=WORDS, size=st.integers(5, 20), data=st.data())
def test_unigram_as_the_reference(words, size, data):
    marked = {f"▁{word}": count for word, count in words.items()}
    plain = [piece for piece, _ in reference_unigram.learn_unigram(marked, size) if len(piece) > 1]
    excluded = data.draw(st.lists(st.sampled_from(plain), max_size=4)) if plain else []
    expected = reference_unigram.learn_unigram(marked, size, excluded=excluded)
    found = learn_pieces(WordCounts.from_mapping(marked), size, excluded=excluded)
    assert list(zip(found.spellings, found.scores.tolist())) == expected
    table = WordCounts.from_mapping(marked, pre_tokenizer="metaspace", normalizer="metaspace")
    vocabulary = train(table, 20, algorithm="unigram", exclude_tokens=excluded)
    assert not {piece.encode() for piece in excluded} & set(vocabulary.tokens)


def test_a_worked_example():
    low = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    assert [merge.token for merge in train(low, 260).merges] == [b"es", b"est", b"lo", b"low"]
    # Without "es", s + t is next; the text "est" may still be a token, of e + st, unless it is excluded too.
    assert [merge.token for merge in train(low, 260, exclude_tokens=["es"]).merges] == [b"st", b"est", b"lo", b"low"]
    assert [merge.token for merge in train(low, 260, exclude_tokens=["es", "est"]).merges] == [b"st", b"we", b"lo", b"ewe"]


def test_a_frequent_pair_that_is_excluded_does_not_hold_a_large_input_up():
    """More than a million symbols take several epochs, whose floors follow from the highest count."""
    source = random.Random(11)
    words = {"".join(source.choices("abcdefghij", k=9)): source.randrange(1, 9) for _ in range(130_000)}
    frequent = {**words, "qz": 10**12, "zqz": 10**9}
    ours = train(frequent, 900, exclude_tokens=["qz", "zq"])
    expected = train(words, 900)
    assert np.array_equal(ours.left, expected.left) and np.array_equal(ours.counts, expected.counts)
    assert ours.stop_reason == "vocab_size"


def test_learning_ends_where_all_pairs_that_are_left_are_excluded():
    assert train({"ab": 5}, 300, exclude_tokens=["ab"]).stop_reason == "no_pairs"
    assert train({"ab": 5, "cd": 1}, 300, exclude_tokens=["ab"]).stop_reason == "min_pair_count"


# ---- the other families --------------------------------------------------------------------------


def test_words_are_not_kept_whole():
    words = {"low": 9, "newest": 5, "wide": 3}
    found = train(words, 3, algorithm="wordlevel", exclude_tokens=["newest"])
    assert [token for token in found.tokens if token] == [b"low", b"wide"] and found.totals["unknown_words"] == 5
    pieces = train(words, 30, algorithm="wordpiece", seed_words=2, exclude_tokens=["low"])
    assert b"low" not in pieces.tokens and {b"newest", b"wide"} <= set(pieces.tokens)


def test_what_is_there_from_the_start_cannot_be_excluded():
    for options in (
        {"vocab_size": 300},
        {"num_merges": 3, "unit": "character"},
        {"num_merges": 3, "algorithm": "wordpiece"},
    ):
        with pytest.raises(ValueError, match="exclude_tokens holds b'l', which is there before anything is learned"):
            train({"low": 3}, exclude_tokens=["l"], **options)


def test_the_list_is_a_set_and_is_recorded():
    one = train({"low": 5, "lower": 3}, 262, exclude_tokens=["lower", b"low", "lower"])
    other = train({"low": 5, "lower": 3}, 262, exclude_tokens=["low", "lower"])
    assert one.parameters == other.parameters and one.parameters["exclude_tokens"] == ["low", "lower"]
    assert "exclude_tokens" not in train({"low": 5}, 258).parameters
    assert replace(Learning(300, exclude_tokens=[b"\xff\xfe"])).excluded == [b"\xff\xfe"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("low", TypeError, "a list of tokens is needed, not one: 'low'"),
        ([5], TypeError, "not int"),
        ([""], ValueError, "holds an empty one"),
        (["a\\d"], ValueError, r"holds the escape \\d"),
        (["a\\"], ValueError, r"holds the escape \\;"),
    ],
)
def test_what_is_no_list_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        Learning(300, exclude_tokens=given)


# ---- lists as text -------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(min_size=1), st.text(min_size=1).map(lambda text: text.encode("utf-8", "replace")))))
def test_a_list_is_read_as_it_was_written(tmp_path_factory, tokens):
    path = str(tmp_path_factory.mktemp("list") / "tokens.txt")
    token_list.write(path, {"some\ttitle": tokens[::2], "others": tokens[1::2]})
    assert list(map(token_list.unescaped, token_list.read(path))) == sorted(set(tokens))
    with open(path, encoding="utf-8", newline="") as lines:
        assert all(
            line.isprintable() and not line.endswith(" ") for line in lines.read().split("\n") if not line.startswith("#")
        )


def test_lists_that_people_write(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes("\ufefflow\r\n\n# a remark\n\\x23tag\n est\nC:\\\\\n".encode())
    assert list(map(token_list.unescaped, token_list.read(str(path)))) == [b" est", b"#tag", b"C:\\", b"low"]
    path.write_bytes(b"low\nC:\\new\\q\n")
    with pytest.raises(FormatError, match=r"list.txt, line 2: .* holds the escape \\q"):
        token_list.read(str(path))
    path.write_bytes(b"\xff\n")
    with pytest.raises(FormatError, match="list.txt is not UTF-8"):
        token_list.read(str(path))


def test_the_command_takes_a_list(tmp_path, capsys):
    WordCounts.from_mapping({"low": 5, "lower": 2, "newest": 6}, pre_tokenizer="whitespace").write(str(tmp_path / "words"))
    (tmp_path / "list").write_text("# none of these\nes\nlow\n")
    command = [
        "train",
        "--words",
        str(tmp_path / "words"),
        "--vocab-size",
        "262",
        "--exclude-tokens",
        str(tmp_path / "list"),
    ]
    assert cli.main([*command, "--output", str(tmp_path / "out")]) == 0
    tokens = set(pq.read_table(tmp_path / "out" / "vocabulary.parquet")["token"].to_pylist())
    assert not tokens & {b"es", b"low"} and b"st" in tokens
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "out")]) == 0
    assert "exclude_tokens ['es', 'low']" in capsys.readouterr().out
    assert cli.main([*command[:-1], str(tmp_path / "none"), "--output", str(tmp_path / "other")]) == 1
    assert "none" in capsys.readouterr().err and not (tmp_path / "other").exists()
