"""Merges of characters: worked examples, the plain reference, subword-nmt and tokenizers, and what cannot be learned."""

from __future__ import annotations

import io
import json
import random
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_bpe import train
from beam_bpe.alphabet import most_frequent
from beam_bpe.reference_pieces import LearnedText, learn_characters
from beam_bpe.words import WordCounts

LOW = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
HUG = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
MOST = 2**63 - 1


def spelled(vocabulary) -> list[str]:
    return [merge.token.decode() for merge in vocabulary.merges]


def learned(words, **options):
    return train(words, unit="character", **options)


def assert_as_reference(vocabulary, expected: LearnedText) -> None:
    """Compare merges, ids, counts and tokens; a pair that comes back keeps its first rank."""
    first = len(vocabulary.special_tokens) + 256 * vocabulary.model.byte_fallback
    once = {(merge.left, merge.right): merge for merge in reversed(expected.merges)}
    merges = [merge for merge in expected.merges if once[merge.left, merge.right] is merge]
    columns = (vocabulary.left, vocabulary.right, vocabulary.merged)
    assert [tuple(int(i) - first for i in row) for row in zip(*columns)] == [merge[:3] for merge in merges]
    assert vocabulary.counts.tolist() == [merge.count for merge in merges]
    assert vocabulary.replaced.tolist() == [merge.replaced for merge in merges]
    assert [token.decode() for token in vocabulary.tokens[first:]] == expected.tokens


# ---- worked examples ----


@pytest.mark.parametrize(
    "tie_break, merges", [("huggingface", "es t</w> est</w> lo"), ("lexicographic", "t</w> st</w> est</w> ow")]
)
def test_the_textbook(tie_break, merges):
    vocabulary = learned(LOW, num_merges=4, end_of_word="</w>", tie_break=tie_break)
    assert spelled(vocabulary) == merges.split()
    assert [token.decode() for token in vocabulary.tokens[1:12]] == ["</w>", *"deilnorstw"]
    assert vocabulary.special_ids == {"<unk>": 0} and vocabulary.model.unk_token == "<unk>"
    assert vocabulary.stop_reason == "num_merges" and vocabulary.normalizer is None


@pytest.mark.parametrize(
    "tie_break, merges", [("huggingface", "lo we r</w> lowe ewe"), ("lexicographic", "we lo wer wer</w> wes")]
)
def test_four_words_once_each(tie_break, merges):
    words = dict.fromkeys(["low", "lower", "lowest", "newer"], 1)
    vocabulary = learned(words, num_merges=5, end_of_word="</w>", tie_break=tie_break, min_pair_count=1)
    assert spelled(vocabulary) == merges.split()


def test_without_a_mark():
    vocabulary = learned(HUG, vocab_size=100, min_pair_count=1)
    assert spelled(vocabulary) == "ug un hug pun pug hugs bun".split()
    assert vocabulary.counts.tolist() == [20, 16, 15, 12, 5, 5, 4] and vocabulary.stop_reason == "no_pairs"


def test_a_spelling_that_arises_twice_keeps_its_id():
    vocabulary = learned({"</w>z": 50, "a</w>b": 9, "xa": 2}, num_merges=9, end_of_word="</w>", attached=True)
    assert spelled(vocabulary)[:5] == ["/w", "</w", "</w>", "</w>z</w>", "a</w>"]
    assert vocabulary.merged[4] == vocabulary.ids[b"a</w>"] < vocabulary.merged[0]


def test_a_token_that_stands_for_others_is_never_learned():
    words = {"<unk>": 9, "<0x41>": 5}
    vocabulary = learned(words, vocab_size=300, byte_fallback=True, unk_token="<unk>", min_pair_count=1)
    assert len(spelled(vocabulary)) == 3 + 4 and vocabulary.stop_reason == "no_pairs"  # all but the last of each
    assert not {"<unk>", "<0x41>"} & set(spelled(vocabulary))
    assert vocabulary.tokens[1 + 0x41] == b"<0x41>" and len(vocabulary.tokens) == len(set(vocabulary.tokens))
    with pytest.raises(ValueError, match="special token '<unk>' occurs inside the word"):
        learned(words, vocab_size=300, special_tokens=["<unk>"])


# ---- the reference ----


@settings(max_examples=150, deadline=None)
@given(
    words=st.dictionaries(st.text("ab<", min_size=1, max_size=9), st.integers(0, 9), min_size=1, max_size=12),
    mark=st.sampled_from([(None, False), ("<b", False), ("<b", True), ("b", True), ("ba", True), ("</w>", True), ("</w>", False)]),
    tie_break=st.sampled_from(["huggingface", "lexicographic"]),
    merges=st.integers(0, 20),
    min_pair_count=st.integers(1, 3),
    longest=st.none() | st.integers(1, 5),
    limit=st.none() | st.integers(1, 3),
    unknown=st.sampled_from(["<unk>", "bab"]),
)
@example({"<": 1, "<ba": 1}, ("b", True), "huggingface", 2, 1, 2, None, "<unk>")
def test_it_learns_as_the_reference(words, mark, tie_break, merges, min_pair_count, longest, limit, unknown):
    if not any(words.values()):
        words["a"] = 1
    options = {"end_of_word": mark[0], "attached": mark[1], "tie_break": tie_break, "min_pair_count": min_pair_count}
    options["max_token_length"] = longest
    counts: dict[int, int] = {}
    for word, n in words.items():
        for character in word:
            counts[ord(character)] = counts.get(ord(character), 0) + n
    kept = [chr(one) for one in sorted(counts, key=lambda one: (-counts[one], one)) if counts[one]][:limit]
    expected = learn_characters(words, merges, characters=kept, reserved=[unknown], **options)
    vocabulary = learned(words, num_merges=merges, limit_alphabet=limit, unk_token=unknown, **options)
    assert_as_reference(vocabulary, expected)
    assert vocabulary.stop_reason == expected.stop.replace("vocab_size", "num_merges")
    total = sum(counts.values())
    assert vocabulary.totals["characters"] == total
    assert vocabulary.totals["unknown_characters"] == total - sum(counts[ord(character)] for character in kept)
    # The same vocabulary by its size; it can be reached by fewer merges than merges were made.
    again = learned(words, vocab_size=len(vocabulary), limit_alphabet=limit, unk_token=unknown, **options)
    assert again.tokens == vocabulary.tokens and len(again.left) <= len(vocabulary.left)
    assert again.stop_reason in ("vocab_size", expected.stop)


@pytest.mark.parametrize("seed", range(30))
def test_characters_of_every_length(seed):
    rng = random.Random(seed)
    letters = "aé\u07ff\u0800日\ud7ff\ue000\uffff\U00010000😀\U0010ffff\0"
    words = {"".join(rng.choices(letters, k=rng.randint(1, 7))): rng.choice([1, 2, 3, 2**40]) for _ in range(30)}
    options = {"end_of_word": rng.choice([None, "</w>"]), "tie_break": rng.choice(["huggingface", "lexicographic"])}
    assert_as_reference(learned(words, num_merges=40, min_pair_count=1, **options), learn_characters(words, 40, **options))


def test_more_symbols_than_bytes_in_several_epochs():
    """Beyond 2^20 cells pairs below a floor are not recorded, and more than 256 symbols are counted in another way."""
    rng = random.Random(4)
    letters = [chr(0x4E00 + i) for i in range(700)]
    weights = [1 / (i + 1) for i in range(700)]
    words = {"".join(rng.choices(letters, weights, k=rng.randint(8, 16))): 1 + 9000 // (k + 1) for k in range(90_000)}
    assert sum(map(len, words)) + 2 * len(words) > 1 << 20
    few = learned(words, num_merges=12, end_of_word="</w>", attached=True, tie_break="lexicographic")
    most = learned(words, num_merges=9000, end_of_word="</w>", attached=True)
    counts = most.counts.tolist()
    assert counts == sorted(counts, reverse=True) and counts[0] > 1024 * counts[-1]
    part = learned(words, num_merges=300, end_of_word="</w>", attached=True)
    assert [merge[1:] for merge in part.merges] == [merge[1:] for merge in most.merges[:300]]
    assert few.counts.tolist() == counts[:12]


# ---- subword-nmt and tokenizers ----


def merges_of_subword_nmt(words, merges, least):
    from subword_nmt import learn_bpe

    out = io.StringIO()
    text = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
    try:
        learn_bpe.learn_bpe(text, out, merges, min_frequency=least, is_dict=True)
    except ValueError:  # it fails where no pair is left
        pass
    return [tuple(line.split(" ")) for line in out.getvalue().splitlines()[1:]]


def sides(vocabulary):
    return [(merge.left.decode(), merge.right.decode()) for merge in vocabulary.merges]


def random_words(rng):
    letters = "abcdeé日本"[: rng.randint(2, 8)]
    return {"".join(rng.choices(letters, k=rng.randint(1, 8))): rng.randint(1, 30) for _ in range(rng.randint(2, 60))}


@pytest.mark.parametrize("seed", range(60))
def test_random_words_as_subword_nmt(seed):
    rng = random.Random(seed)
    words = random_words(rng)
    least = rng.choice([1, 2, 5])
    theirs = merges_of_subword_nmt(words, 40, least)
    ours = learned(words, num_merges=len(theirs), end_of_word="</w>", attached=True, tie_break="lexicographic")
    if least == 1:
        ours = learned(
            words, num_merges=len(theirs), end_of_word="</w>", attached=True, tie_break="lexicographic", min_pair_count=1
        )
    assert sides(ours) == theirs


@pytest.fixture(scope="module")
def mixed_words(shared) -> dict[str, int]:
    """Return the words of mixed text, of which none holds whitespace of any kind."""
    text = (shared / "corpora" / "mixed-1m.txt").read_bytes().decode()
    table = WordCounts.from_documents([text], pattern="whitespace").to_dict()
    words = {word.decode(): count for word, count in table.items()}
    return {word: count for word, count in words.items() if not any(c.isspace() for c in word) and "</w>" not in word}


@pytest.mark.slow
def test_mixed_words_as_subword_nmt(mixed_words):
    theirs = merges_of_subword_nmt(mixed_words, 2000, 2)
    assert len(theirs) == 2000
    options = {"end_of_word": "</w>", "attached": True, "tie_break": "lexicographic"}
    assert sides(learned(mixed_words, num_merges=2000, **options)) == theirs


def trained(words, **options):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(end_of_word_suffix="</w>", show_progress=False, **options)
    tokenizer.train_from_iterator((" ".join([word] * count) for word, count in words.items()), trainer)
    return tokenizer


def assert_as_tokenizers(words, tokenizer, least) -> int:
    """Compare in this sense: the ids of `x</w>` follow a hash there, so they are taken from its output."""
    theirs = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    by_id = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    order = by_id[: len(by_id) - len({left + right for left, right in theirs})]
    ours = learned(
        words, num_merges=len(theirs), end_of_word="</w>", attached=True, alphabet_order=order, min_pair_count=least
    )
    assert sides(ours) == theirs
    assert [token.decode() for token in ours.tokens[1:]] == by_id
    return len(theirs)


@pytest.mark.parametrize("seed", range(60))
def test_random_words_as_tokenizers(seed):
    rng = random.Random(seed)
    words, least = random_words(rng), rng.choice([1, 2, 5])
    assert_as_tokenizers(words, trained(words, vocab_size=60, min_frequency=least), least)


def test_mixed_words_as_tokenizers(mixed_words):
    assert assert_as_tokenizers(mixed_words, trained(mixed_words, vocab_size=9000, min_frequency=2), 2) > 3000


# ---- the alphabet ----


def test_coverage_is_exact():
    """7 of 10 is 0.7, which no float is; 0.1 + 0.2 of floats is more than 0.3."""
    counts = {97: 5, 98: 2, 99: 2, 100: 1}
    assert most_frequent(counts, Fraction("0.7")) == [97, 98]
    assert most_frequent(counts, Fraction("0.70000000000000000001")) == [97, 98, 99]
    words = {"aaaaabbccd": 1}
    for coverage, alphabet in ((0.7, "ab"), (0.3, "a"), ("7/10", "ab"), (Fraction(9, 10), "abc"), (0.91, "abcd"), (1, "abcd")):
        vocabulary = learned(words, num_merges=0, character_coverage=coverage)
        assert [token.decode() for token in vocabulary.tokens[1:]] == [*alphabet]
        assert vocabulary.totals["unknown_characters"] == 10 - sum(counts[ord(c)] for c in alphabet)
    n = 10**15  # a share that differs from 1 by less than floats tell
    vocabulary = learned({"a" * 9: n, "b": 1}, num_merges=0, character_coverage="0.99999999999999999")
    assert vocabulary.tokens == (b"", b"a", b"b")


def test_characters_of_equal_counts_are_kept_by_code_point():
    assert learned({"dcba": 1}, num_merges=0, limit_alphabet=2).tokens == (b"", b"a", b"b")


def test_no_merge_crosses_a_character_that_is_not_kept():
    vocabulary = learned({"abxab": 9, "x": 1}, num_merges=9, limit_alphabet=2, end_of_word="</w>")
    assert spelled(vocabulary) == ["ab", "ab</w>"] and vocabulary.counts.tolist() == [18, 9]


def test_an_alphabet_in_a_given_order():
    order = ["w", "q", "o", "l</w>", "l", "w</w>", "o</w>"]
    vocabulary = learned({"low": 3}, num_merges=1, end_of_word="</w>", attached=True, alphabet_order=order)
    assert [token.decode() for token in vocabulary.tokens[1:8]] == order and spelled(vocabulary) == ["ow</w>"]
    with pytest.raises(ValueError, match="alphabet_order lacks 'w</w>'"):
        learned({"low": 3}, num_merges=1, end_of_word="</w>", attached=True, alphabet_order=order[:5])
    with pytest.raises(ValueError, match="alphabet_order holds '<unk>'"):
        learned({"low": 3}, num_merges=1, alphabet_order=["<unk>", *"low"])


def test_ids_of_tokens_that_are_not_learned():
    vocabulary = learned(LOW, vocab_size=290, byte_fallback=True, special_tokens=["<s>", "<e>"])
    assert vocabulary.special_ids == {"<s>": 0, "<e>": 1} and vocabulary.model.unk_token is None
    assert [token.decode() for token in vocabulary.tokens[2:258]] == [f"<0x{byte:02X}>" for byte in range(256)]
    assert vocabulary.tokens[258] == b"d" and len(vocabulary) <= 290
    named = learned(LOW, num_merges=1, special_tokens=["<s>", "<unk>"])
    assert named.special_ids == {"<s>": 0, "<unk>": 1}


# ---- counts of 64 bits ----


@pytest.mark.parametrize("tie_break", ["huggingface", "lexicographic"])
def test_the_largest_counts(tie_break):
    words = {"ab": 2**62, "cab": 2**62 - 1, "dd": 2**62 - 1}
    options = {"end_of_word": "</w>", "tie_break": tie_break}
    expected = learn_characters(words, 9, **options)
    assert_as_reference(learned(words, num_merges=9, min_pair_count=1, **options), expected)


@pytest.mark.parametrize(
    "words, message",
    [({"ab": MOST, "ac": 1}, "the character 'a'"), ({"aa": 2**62}, "the character 'a'"), ({"xa": 2**62, "ya": 2**62}, "the character 'a'")],
)
def test_counts_beyond_int64_are_named(words, message):
    with pytest.raises(OverflowError, match=rf"{message} counts more than 2\*\*63 - 1"):
        learned(words, num_merges=3)


# ---- what cannot be learned ----


def test_words_that_are_no_text():
    with pytest.raises(ValueError, match=r"the word b'lo\\xffw' is not UTF-8"):
        learned({b"low": 1, b"lo\xffw": 2}, num_merges=3)
    for word in (b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe6\x97", b"\x80"):
        with pytest.raises(ValueError, match="is not UTF-8"):
            learned({word: 2}, num_merges=3)


def test_no_words():
    for options in ({"unit": "character"}, {"algorithm": "wordpiece"}, {"algorithm": "wordlevel"}):
        for words in ({}, {"low": 0}):
            with pytest.raises(ValueError, match="no words to learn from"):
                train(words, 300, **options)


def test_a_vocabulary_smaller_than_its_alphabet():
    with pytest.raises(ValueError, match="vocab_size is 10, but the alphabet of 10 symbols and 1 other tokens take 11"):
        learned(LOW, vocab_size=10)
    assert len(learned(LOW, vocab_size=11).left) == 0


def test_a_mark_that_is_a_character():
    with pytest.raises(ValueError, match="end_of_word='_' is a character of the words"):
        learned({"a_b": 1}, num_merges=1, end_of_word="_")
    with pytest.raises(ValueError, match="special token 'a' is a symbol of the words"):
        learned({"a_b": 1}, num_merges=1, unk_token="a")
