"""The Unigram trainer: worked examples, arithmetic, the plain reference to the last bit, and what cannot be learned."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import _unigram, reference_unigram, train
from beam_bpe.reference_unigram import best_segmentation, learn_unigram, losses, seed_scores, segments_of
from beam_bpe.unigram import learn_pieces
from beam_bpe.words import WordCounts

MOST = 2**63 - 1
WORDS = st.dictionaries(st.text("ab▁", min_size=1, max_size=9), st.integers(0, 9), min_size=1, max_size=12)


def learned(words, size, **options):
    return learn_pieces(WordCounts.from_mapping(words), size, **options)


def learner_of(words: dict[str, int], characters=None, longest=16) -> _unigram.UnigramLearner:
    """Return a learner that holds the words, in the order of their bytes."""
    ordered = sorted((word.encode(), count) for word, count in words.items())
    data = np.frombuffer(b"".join(word for word, _ in ordered), np.uint8)
    offsets = np.cumsum([0, *(len(word) for word, _ in ordered)], dtype=np.int64)
    counts = np.array([count for _, count in ordered], np.int64)
    kept = sorted(set("".join(words) if characters is None else characters))
    learner = _unigram.UnigramLearner(np.array([ord(char) for char in kept], np.uint32), longest)
    learner.measure(data, offsets, counts)
    learner.allocate()
    learner.add(data, offsets, counts)
    return learner


def scores_of(learner) -> dict[str, float]:
    return dict(zip(*learner.pieces()))


def assert_as_reference(pieces, expected) -> None:
    """Compare pieces, their order, and every bit of their scores."""
    assert list(zip(pieces.spellings, pieces.scores.tolist())) == expected


def segmentations(text: str):
    """Yield every way to cut a text."""
    for n in range(len(text)):
        for cuts in combinations(range(1, len(text)), n):
            bounds = [0, *cuts, len(text)]
            yield [text[i:j] for i, j in zip(bounds, bounds[1:])]


# ---- arithmetic ----


@given(st.floats(1e-300, 1e300))
def test_logarithm(x):
    assert _unigram.logarithm(x) == reference_unigram.logarithm(x)
    assert math.isclose(_unigram.logarithm(x), math.log(x), rel_tol=4e-16, abs_tol=4e-16)


@given(st.floats(-699, 699))
def test_exponential(x):
    assert _unigram.exponential(x) == reference_unigram.exponential(x)
    assert math.isclose(_unigram.exponential(x), math.exp(x), rel_tol=1e-15)


def test_exponential_of_much_less_is_nothing():
    assert _unigram.exponential(-701.0) == _unigram.exponential(-math.inf) == 0 == reference_unigram.exponential(-math.inf)


@given(st.floats(0.5, 1e15))
def test_digamma(x):
    assert _unigram.digamma(x) == reference_unigram.digamma(x)
    assert math.isclose(_unigram.digamma(x + 1), _unigram.digamma(x) + 1 / x, rel_tol=1e-13, abs_tol=1e-13)
    slope = (math.lgamma(x * 1.0001) - math.lgamma(x / 1.0001)) / (x * 1.0001 - x / 1.0001)
    assert x > 1e6 or math.isclose(_unigram.digamma(x), slope, rel_tol=1e-5, abs_tol=1e-5)


def test_digamma_at_known_places():
    euler = 0.57721566490153286
    assert math.isclose(_unigram.digamma(1.0), -euler, rel_tol=1e-14)
    assert math.isclose(_unigram.digamma(0.5), -euler - 2 * math.log(2), rel_tol=1e-14)


# ---- seeds ----


def test_seeds_by_hand():
    """In "banana" the substring "an" always stands in "ana", and "n" in "na": "ana" and "na" are left."""
    learner = learner_of({"banana": 1, "nab": 2})
    assert learner.seed(100) == 6
    assert learner.pieces()[0] == ["a", "b", "n", "na", "ana", "nab"]
    assert [math.exp(score) for score in learner.pieces()[1]] == pytest.approx([n / 32 for n in (5, 3, 4, 8, 6, 6)])


@settings(max_examples=200, deadline=None)
@given(words=WORDS, longest=st.integers(1, 6), most=st.integers(0, 12), kept=st.sampled_from(["ab▁", "ab", "a▁", "abcd▁"]))
def test_seeds_are_those_of_the_reference(words, longest, most, kept):
    segments = segments_of(words, kept)
    if not segments:
        return
    learner = learner_of(words, kept, longest)
    learner.seed(most)
    assert list(scores_of(learner).items()) == list(seed_scores(segments, kept, most, longest).items())


@pytest.mark.parametrize("letters", [1, 2, 5, 40, 300, 5000, 70_000])
@pytest.mark.parametrize("longest", [2, 5, 16])
def test_suffixes_of_many_words(letters, longest):
    """Keys hold 3 to 63 symbols; groups are sorted by insertion, by merging, and by bytes."""
    rng = random.Random(letters)
    alphabet = [chr(0x100 + i if i < 0xD000 else 0x10000 + i) for i in range(letters)]
    words = {"".join(rng.choices(alphabet[: rng.choice([2, letters])], k=rng.randint(1, 20))): rng.randint(1, 3) for _ in range(700)}
    segments, kept = segments_of(words), set("".join(words))
    learner = learner_of(words, alphabet, longest)
    learner.seed(10**6)
    expected = seed_scores(segments, kept, 10**6, longest)
    found = [piece for piece in learner.pieces()[0] if len(piece) > 1]
    assert found == [piece for piece in expected if len(piece) > 1]
    stands = sum(len(segment) for segment, _ in segments)
    for segment, _ in segments:
        stands += sum(segment[i:j] in expected for i in range(len(segment)) for j in range(i + 2, min(i + longest, len(segment)) + 1))
    assert learner.edges == stands


def test_a_text_that_repeats_itself():
    """Suffixes that are alike for a million characters cost no more than others."""
    learner = learner_of({"ab" * 500_000: 3})
    learner.seed(1000)
    assert learner.pieces()[0] == ["a", "b", *("ab" * n for n in range(8, 0, -1))]  # "ba" always stands in "bab"


# ---- one step ----


@settings(max_examples=200, deadline=None)
@given(words=WORDS, steps=st.integers(1, 3))
def test_a_step_is_that_of_all_segmentations(words, steps):
    """The expectation is over every way to cut each word, in exact fractions of the probabilities."""
    words = {word[:6]: count for word, count in words.items() if count} or {"a": 1}
    learner = learner_of(words)
    learner.seed(100)
    for _ in range(steps):
        p = {piece: Fraction(_unigram.exponential(score)) for piece, score in scores_of(learner).items()}
        expected, likelihood = Counter(), 0.0
        for word, count in words.items():
            ways = [(cut, math.prod(p.get(piece, Fraction(0)) for piece in cut)) for cut in segmentations(word)]
            whole = sum(way for _, way in ways)
            likelihood += count * math.log(whole)
            for cut, way in ways:
                for piece in cut:
                    expected[piece] += count * way / whole
        assert math.isclose(learner.expect(), likelihood, rel_tol=1e-12, abs_tol=1e-12)
        alive = learner.maximize()
        kept = {piece: max(float(expected[piece]), 0.5) for piece in p if expected[piece] >= 0.5 or len(piece) == 1}
        if any(abs(expected[piece] - 0.5) < 1e-9 for piece in p):
            return  # either is right
        assert alive == len(kept)
        whole = _unigram.digamma(sum(kept.values()))
        for piece, score in scores_of(learner).items():
            assert math.isclose(score, _unigram.digamma(kept[piece]) - whole, rel_tol=1e-9) if piece in kept else score == -math.inf


@settings(max_examples=200, deadline=None)
@given(words=WORDS, most=st.integers(0, 9))
def test_pruning_is_that_of_the_reference(words, most):
    segments = segments_of(words)
    if not segments:
        return
    learner = learner_of(words, "".join(segment for segment, _ in segments))
    learner.seed(100)
    scores = scores_of(learner)
    rank = {piece: i for i, piece in enumerate(scores)}
    loss = losses(segments, scores)
    kept = sorted(sorted(loss, key=lambda piece: (-loss[piece], rank[piece]))[:most], key=rank.get)
    learner.prune(most)
    assert [piece for piece in learner.pieces()[0] if len(piece) > 1] == kept


def test_the_best_segmentation_has_the_highest_score():
    rng = random.Random(3)
    for _ in range(200):
        scores = {piece: rng.uniform(-9, -1) for piece in ["a", "b", "ab", "ba", "aba", "bb", "abab"]}
        text = "".join(rng.choices("ab", k=rng.randint(1, 9)))
        found = best_segmentation(text, scores)
        value = lambda cut: sum(scores.get(piece, -math.inf) for piece in cut)  # noqa: E731
        assert "".join(found) == text and math.isclose(value(found), max(map(value, segmentations(text))))


def test_of_equal_segmentations_the_one_whose_first_piece_is_longest():
    """ "abc" is ab·c or a·bc, and both pieces stand 6 times: where ab is used in it, its loss is the higher one."""
    learner = learner_of({"abc": 1, "ab": 5, "bc": 5})
    assert learner.seed(9) == 5 and math.isclose(*learner.pieces()[1][3:]) and learner.prune(1) == 4
    assert learner.pieces()[0] == ["a", "b", "c", "ab"]
    assert best_segmentation("abc", {"a": -2.0, "b": -2.0, "c": -2.0, "ab": -3.0, "bc": -3.0}) == ["ab", "c"]


# ---- learning ----


@settings(max_examples=200, deadline=None)
@given(
    words=WORDS,
    size=st.integers(3, 20),
    seeds=st.sampled_from([0, 3, 10, 1000]),
    longest=st.integers(1, 6),
    factor=st.sampled_from(["0.75", "0.5", "0.9"]),
    steps=st.integers(1, 3),
)
def test_it_learns_as_the_reference(words, size, seeds, longest, factor, steps):
    if not any(words.values()):
        words["a"] = 1
    options = {"seed_size": seeds, "max_piece_length": longest, "sub_iterations": steps}
    expected = learn_unigram(words, size, shrinking_factor=Fraction(factor), **options)
    assert_as_reference(learned(words, size, shrinking_factor=factor, **options), expected)


@pytest.mark.parametrize("seed", range(4))
def test_large_counts_and_long_words_as_the_reference(seed):
    """Words of some hundred characters, whose likelihood no double holds; counts beyond 32 and 53 bits."""
    rng = random.Random(seed)
    letters = "abcdé日😀▁"
    words = {
        "".join(rng.choices(letters, k=rng.choice([3, 9, 9, 600]))): rng.choice([1, 2, 3, 7, 2**31, 2**40 + 1, 2**54 + 3])
        for _ in range(20)
    }
    assert_as_reference(learned(words, 40), learn_unigram(words, 40))


def test_the_order_of_words_changes_nothing():
    rng = random.Random(7)
    words = [("".join(rng.choices("abcdefgh", k=rng.randint(1, 12))), rng.randint(1, 99)) for _ in range(3000)]
    first = learned(dict(words), 300)
    table = WordCounts.from_mapping(dict(words)).table
    shuffled = list(range(len(table)))
    rng.shuffle(shuffled)
    second = learn_pieces(WordCounts(table.take(shuffled)), 300)
    assert table.take(shuffled)["word"].to_pylist() != table["word"].to_pylist()
    assert first.spellings == second.spellings and first.scores.tobytes() == second.scores.tobytes()
    assert first.loss == second.loss


def test_what_comes_back():
    words = {"▁low": 50, "▁lower": 20, "▁newest": 60, "▁widest": 30}
    characters = len(set("".join(words)))
    pieces = learned(words, 15)
    assert len(pieces.spellings) == len(pieces.scores) == 15 and pieces.characters == characters == 11
    assert list(pieces.scores) == sorted(pieces.scores, reverse=True) and pieces.stop_reason == "vocab_size"
    assert 0.9 < sum(map(math.exp, pieces.scores)) <= 1 and pieces.loss > 0
    assert set("".join(words)) <= set(pieces.spellings)
    few = learned({"ab": 2}, 10)
    assert few.spellings[0] == "ab" and few.stop_reason == "no_pieces" and len(few.spellings) == 3


def test_only_characters():
    pieces = learned({"ab": 3, "a": 4}, 2)
    assert pieces.spellings == ("a", "b") and [round(math.exp(score), 1) for score in pieces.scores] == [0.7, 0.3]


def test_characters_that_are_left_out_cut_words():
    pieces = learned({"abxab": 5, "xx": 3, "abab": 1}, 9, characters=[ord("a"), ord("b")])
    assert not any("x" in piece for piece in pieces.spellings) and "ab" in pieces.spellings
    assert_as_reference(pieces, learn_unigram({"abxab": 5, "xx": 3, "abab": 1}, 9, characters="ab"))


def test_progress_is_told():
    told = []
    rng = random.Random(1)
    words = {"".join(rng.choices("abcdef", k=8)): rng.randint(1, 5) for _ in range(500)}
    learned(words, 50, progress=lambda done, foreseen, pieces: told.append((done, foreseen, pieces)))
    assert [done for done, _, _ in told[:-1]] == list(range(len(told) - 1)) and len(told) > 4
    assert told[-1] == (told[-2][0], told[-2][0], 50)
    assert all(first >= second for (_, _, first), (_, _, second) in zip(told, told[1:]))


def test_sentencepiece_gives_the_words_no_better_likelihood(shared, tmp_path):
    """Both learn from the same lines; both models are renormalized, and the words are scored by all segmentations."""
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = (shared / "corpora" / "mixed-1m.txt").read_text(encoding="utf-8").split("\n")
    lines = [line for line in lines if line and "\t" not in line and len(line.encode()) <= 4192][:3000]
    words: Counter[str] = Counter()
    for line in lines:
        words.update("▁" + part for part in line.split(" "))
    size = 2000
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(tmp_path / "theirs"), vocab_size=size + 3, model_type="unigram",
        character_coverage=1.0, normalization_rule_name="identity", split_by_unicode_script=False, split_by_number=False,
        remove_extra_whitespaces=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs.model"))
    theirs = {model.id_to_piece(i): model.get_score(i) for i in range(3, len(model))}
    pieces = learned(words, size)
    ours = dict(zip(pieces.spellings, pieces.scores.tolist()))
    assert len(ours) == len(theirs) == size

    def loss(scores):
        whole = math.log(sum(map(math.exp, scores.values())))
        _, likelihood = reference_unigram.expect(list(words.items()), {piece: score - whole for piece, score in scores.items()})
        return -likelihood

    def tokens(scores):
        return sum(count * len(best_segmentation(word, scores)) for word, count in words.items())

    assert loss(ours) <= 1.01 * loss(theirs)
    assert tokens(ours) <= 1.01 * tokens(theirs)


# ---- the vocabulary ----


def vocabulary_of(words, size, **options):
    return train(words, size, algorithm="unigram", **options)


def test_a_vocabulary_by_score():
    words = {"▁low": 50, "▁lower": 20, "▁newest": 60, "▁widest": 30}
    vocabulary, pieces = vocabulary_of(words, 17, special_tokens=["<s>"]), learned(words, 15)
    assert [token.decode() for token in vocabulary.tokens] == ["", "", *pieces.spellings]
    assert vocabulary.layout.scores.tolist() == [0, 0, *np.float32(pieces.scores).tolist()]
    assert vocabulary.special_ids == {"<unk>": 0, "<s>": 1} and vocabulary.stop_reason == "vocab_size"
    assert not len(vocabulary.left) and vocabulary.totals["characters"] == 50 * 4 + 20 * 6 + 90 * 7
    model = vocabulary.model
    assert (model.algorithm, model.single_precision, model.unk_token, model.unk_surface) == ("unigram", True, "<unk>", " \u2047 ")
    assert vocabulary_of({"ab": 2}, 10).stop_reason == "no_pieces"
    recorded = {name: vocabulary.parameters[name] for name in ("max_token_length", "seed_size", "shrinking_factor", "sub_iterations")}
    assert recorded == {"max_token_length": 16, "seed_size": 1_000_000, "shrinking_factor": "0.9", "sub_iterations": 2}


def test_symbols_digits_and_rare_characters_cut_words():
    words = {"▁a12b<x>ab": 9, "▁ab<x>": 5, "▁1ab": 4, "▁abz": 1, "▁ab\0": 1, "<0x41>": 3, "x▁ab": 2}
    options = {"user_defined_symbols": ["<x>"], "split_digits": True, "byte_fallback": True, "character_coverage": "0.98"}
    vocabulary = vocabulary_of(words, 300, **options)
    tokens = [token.decode() for token in vocabulary.tokens]
    assert tokens[:3] == ["", "<x>", "<0x00>"] and vocabulary.layout.user_defined == (1,) and tokens[257] == "<0xFF>"
    parts = {"▁a": 9, "1": 13, "2": 9, "b\x1fab": 9, "▁ab\x1f": 5, "▁": 4, "ab": 4, "▁abz": 1, "▁ab\0": 1, "\x1f": 3, "x": 2, "▁ab": 2}
    expected = learned(parts, 42, characters=map(ord, "ab▁12x"))
    assert tokens[258:] == list(expected.spellings) and {"▁ab", "1", "2"} <= set(tokens)
    assert vocabulary.layout.scores[258:].tolist() == np.float32(expected.scores).tolist()
    # Of z and NUL there is one each, of which NUL does not count.
    assert vocabulary.totals["unknown_characters"] == 2
    assert vocabulary.totals["characters"] == 9 * 7 + 5 * 3 + 4 * 4 + 4 + 4 + 2 * 4


def test_options_are_passed_on():
    rng = random.Random(4)
    words = {"".join(rng.choices("abcd", k=rng.randint(1, 9))): rng.randint(1, 9) for _ in range(300)}
    options = {"seed_size": 60, "shrinking_factor": 0.5, "sub_iterations": 1}
    expected = learned(words, 40, max_piece_length=4, **options)
    vocabulary = vocabulary_of(words, 41, max_token_length=4, **options)
    assert [token.decode() for token in vocabulary.tokens[1:]] == list(expected.spellings)
    assert expected.spellings != learned(words, 40).spellings


def test_a_vocabulary_is_saved(tmp_path):
    vocabulary = vocabulary_of({"▁low": 50, "▁lower": 20, "▁<x>est": 3}, 300, user_defined_symbols=["<x>"], byte_fallback=True)
    vocabulary.save(str(tmp_path))
    again = type(vocabulary).load(str(tmp_path))
    assert again == vocabulary and again.layout.scores.tobytes() == vocabulary.layout.scores.tobytes()
    assert again.model == vocabulary.model and again.parameters == vocabulary.parameters


# ---- what cannot be learned ----


def test_counts_that_overflow():
    with pytest.raises(OverflowError, match=r"'a'.*2\*\*63"):
        learned({"a": MOST, "ab": 1}, 9)
    learner = learner_of({"aab": MOST, "ab": 1})
    with pytest.raises(OverflowError, match=r"'[ab]'"):
        learner.seed(9)
    assert learned({"ab": MOST}, 3).spellings[0] == "ab"


@pytest.mark.parametrize(
    "size, options, message",
    [
        (1, {}, "2 characters"),
        (0, {}, "size is 0"),
        (9, {"seed_size": -1}, "seed_size"),
        (9, {"max_piece_length": 0}, "max_piece_length"),
        (9, {"max_piece_length": 70_000}, "max_piece_length"),
        (9, {"sub_iterations": 0}, "sub_iterations"),
        (9, {"shrinking_factor": 1}, "shrinking_factor"),
        (9, {"shrinking_factor": "nan"}, "shrinking_factor"),
        (9, {"shrinking_factor": 0}, "shrinking_factor"),
        (9, {"characters": [120]}, "no words"),
    ],
)
def test_parameters_that_are_refused(size, options, message):
    with pytest.raises(ValueError, match=message):
        learned({"ab": 3}, size, **options)


@pytest.mark.parametrize("size", [2.5, "9", True, None])
def test_a_size_that_is_no_number(size):
    with pytest.raises(TypeError, match="size is"):
        learned({"ab": 3}, size)


def test_no_words():
    for words in ({}, {"a": 0}):
        with pytest.raises(ValueError, match="no words"):
            learned(words, 9)


def test_words_that_are_not_utf8():
    with pytest.raises(ValueError, match="not UTF-8"):
        learned({b"a\xff": 3}, 9)
    with pytest.raises(ValueError, match="not UTF-8"):
        learned({b"a\xff": 3}, 9, characters=[97])


def test_a_learner_that_is_not_asked_in_order():
    data, offsets, counts = np.frombuffer(b"abc", np.uint8), np.array([0, 3], np.int64), np.array([1], np.int64)
    learner = _unigram.UnigramLearner(np.array([97, 98, 99], np.uint32))
    for call in (lambda: learner.add(data, offsets, counts), lambda: learner.seed(1), learner.expect, learner.pieces):
        with pytest.raises(ValueError):
            call()
    learner.measure(data, offsets, counts)
    learner.allocate()
    with pytest.raises(ValueError, match="fewer words"):
        learner.seed(1)
    learner.add(data, offsets, counts)
    with pytest.raises(ValueError, match="more words"):
        learner.add(data, offsets, counts)
    with pytest.raises(ValueError, match="expect"):
        learner.maximize()
    with pytest.raises(ValueError, match="beyond"):
        _unigram.UnigramLearner(np.array([97], np.uint32)).measure(data, np.array([0, 4], np.int64), counts)
    for characters in ([98, 97], [97, 97], [0x110000]):
        with pytest.raises(ValueError, match="ascending"):
            _unigram.UnigramLearner(np.array(characters, np.uint32))
