"""WordPiece: worked examples, the plain reference, every score recounted, tokenizers, and what cannot be learned."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import train
from beam_bpe.reference_pieces import learn_wordpiece, pieces_of
from beam_bpe.words import WordCounts

HUG = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
MOST = 2**63 - 1


def learned(words, **options):
    return train(words, algorithm="wordpiece", **options)


def spelled(vocabulary) -> list[str]:
    return [merge.token.decode() for merge in vocabulary.merges]


def assert_as_reference(vocabulary, expected, first=1) -> None:
    """Compare merges, ids, counts and tokens; a pair that comes back keeps its first rank."""
    once = {(merge.left, merge.right): merge for merge in reversed(expected.merges)}
    merges = [merge for merge in expected.merges if once[merge.left, merge.right] is merge]
    columns = (vocabulary.left, vocabulary.right, vocabulary.merged)
    assert [tuple(int(i) - first for i in row) for row in zip(*columns)] == [merge[:3] for merge in merges]
    assert vocabulary.counts.tolist() == [merge.count for merge in merges]
    assert vocabulary.replaced.tolist() == [merge.replaced for merge in merges]
    assert [token.decode() for token in vocabulary.tokens[first:]] == expected.tokens


# ---- worked examples ----


def test_likelihood_by_hand():
    vocabulary = learned(HUG, num_merges=8, min_pair_count=1)
    assert spelled(vocabulary) == "##gs pu hu bu hugs hug bun pun".split()
    assert vocabulary.counts.tolist() == [5, 17, 15, 4, 5, 10, 4, 12]
    assert [token.decode() for token in vocabulary.tokens[1:9]] == ["##g", "##n", "##s", "##u", "b", "h", "p", "##gs"]
    assert vocabulary.special_ids == {"[UNK]": 0}
    model = vocabulary.model
    assert (model.algorithm, model.continuing_subword_prefix, model.unk_token) == ("wordpiece", "##", "[UNK]")
    assert model.max_input_chars_per_word == 100


def test_count_by_hand():
    vocabulary = learned(HUG, num_merges=4, score="count")
    assert spelled(vocabulary) == ["##ug", "##un", "hug", "pun"] and vocabulary.counts.tolist() == [20, 16, 15, 12]


def test_scores_are_no_floats():
    """1 / n² and 1 / ((n + 1) · (n - 1)), of which the second is higher: no float tells them apart."""
    n = 10**9
    words = {"ab": 1, "a": n - 1, "zb": n - 1, "cd": 1, "c": n, "yd": n - 2, "z": 10**18, "y": 10**18}
    assert spelled(learned(words, num_merges=2, min_pair_count=1)) == ["cd", "ab"]


def test_both_forms_of_the_alphabet():
    seen = learned({"ab": 3}, num_merges=0)
    both = learned({"ab": 3}, num_merges=0, both_forms=True)
    assert seen.tokens[1:] == (b"##b", b"a") and both.tokens[1:] == (b"##a", b"##b", b"a", b"b")


def test_frequent_words_are_kept_whole():
    words = {"the": 50, "then": 7, "a": 90, "other": 5, "thee": 5, "at": 2}
    vocabulary = learned(words, vocab_size=99, seed_words=2, score="count")
    alphabet = sorted({piece for word in words for piece in pieces_of(word)})
    tokens = [token.decode() for token in vocabulary.tokens[1:]]
    assert tokens[: len(alphabet) + 2] == [*alphabet, "the", "then"]  # a is a token already
    rest = {word: count for word, count in words.items() if word not in ("the", "then")}
    expected = learn_wordpiece(rest, 99, score="count", min_pair_count=2, alphabet_order=[*alphabet, "the", "then"])
    assert tokens == expected.tokens
    assert spelled(vocabulary) == [expected.tokens[merge.id] for merge in expected.merges]
    made = [token for token, id in zip(tokens, range(1, 999)) if id in vocabulary.merged.tolist()]
    assert "the" in made and vocabulary.ids[b"the"] == 1 + len(alphabet)


@pytest.mark.parametrize("score", ["likelihood", "count"])
def test_all_words_kept_whole(score):
    vocabulary = learned({"ab": 3, "cd": 2}, vocab_size=20, seed_words=2, score=score)
    assert vocabulary.tokens[5:] == (b"ab", b"cd") and not len(vocabulary.left) and vocabulary.stop_reason == "no_pairs"


# ---- the reference ----

WORDS = st.dictionaries(st.text("ab#", min_size=1, max_size=9), st.integers(0, 9), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(
    words=WORDS,
    prefix=st.sampled_from(["##", "#", "a", "ab", "@@"]),
    rule=st.sampled_from([("likelihood", "huggingface"), ("count", "huggingface"), ("count", "lexicographic")]),
    merges=st.integers(0, 20),
    min_pair_count=st.integers(1, 3),
    longest=st.none() | st.integers(1, 5),
    limit=st.none() | st.integers(1, 3),
    unknown=st.sampled_from(["[UNK]", "bab", "##ab"]),
)
def test_it_learns_as_the_reference(words, prefix, rule, merges, min_pair_count, longest, limit, unknown):
    if not any(words.values()):
        words["a"] = 1
    counts: Counter[str] = Counter()
    for word, n in words.items():
        for character in word:
            counts[character] += n
    kept = sorted((one for one in counts if counts[one]), key=lambda one: (-counts[one], one))[:limit]
    options = {"score": rule[0], "tie_break": rule[1], "min_pair_count": min_pair_count, "max_token_length": longest}
    expected = learn_wordpiece(words, merges, prefix=prefix, characters=kept, reserved=[unknown], **options)
    more = {"continuing_subword_prefix": prefix, "limit_alphabet": limit, "unk_token": unknown}
    vocabulary = learned(words, num_merges=merges, **options, **more)
    assert_as_reference(vocabulary, expected)
    assert vocabulary.stop_reason == expected.stop.replace("vocab_size", "num_merges")


@settings(max_examples=100, deadline=None)
@given(words=WORDS, seeds=st.integers(0, 6), score=st.sampled_from(["likelihood", "count"]), merges=st.integers(0, 20))
def test_words_kept_whole_as_the_reference(words, seeds, score, merges):
    if not any(words.values()):
        words["a"] = 1
    words = {word: count for word, count in words.items() if count}
    alphabet = sorted({piece for word in words for piece in pieces_of(word)})
    ordered = sorted(words, key=lambda word: (-words[word], word))
    kept = [word for word in ordered if word not in alphabet][:seeds]
    rest = {word: count for word, count in words.items() if word not in kept}
    expected = learn_wordpiece(rest, merges, score=score, alphabet_order=[*alphabet, *kept])
    vocabulary = learned(words, num_merges=merges, score=score, seed_words=seeds, min_pair_count=1)
    assert_as_reference(vocabulary, expected)


@pytest.mark.parametrize("seed", range(20))
def test_larger_counts_and_more_words(seed):
    rng = random.Random(seed)
    letters = "abcdé日😀"
    words = {
        "".join(rng.choices(letters, k=rng.randint(1, 9))): rng.choice([1, 2, 3, 7, 2**31, 2**40 + 1, 2**54 + 3])
        for _ in range(150)
    }
    assert_as_reference(learned(words, num_merges=60, min_pair_count=1), learn_wordpiece(words, 60))


def rescored(words: dict[str, int], vocabulary, min_pair_count: int, every: int) -> None:
    """Recount all pairs and tokens before every so many merges, and check that the best is the one that was merged."""
    ids = {token.decode(): i for i, token in enumerate(vocabulary.tokens) if token}
    rows = [([ids[piece] for piece in pieces_of(word)], count) for word, count in words.items()]
    spelling = vocabulary.tokens
    holding: dict[int, set[int]] = {}
    for i, (symbols, _) in enumerate(rows):
        for symbol in symbols:
            holding.setdefault(symbol, set()).add(i)
    for rank, (a, b, made, count) in enumerate(
        zip(*(column.tolist() for column in (vocabulary.left, vocabulary.right, vocabulary.merged, vocabulary.counts)))
    ):
        if rank % every == 0:
            pairs: Counter[tuple[int, int]] = Counter()
            single: Counter[int] = Counter()
            for symbols, n in rows:
                for symbol in symbols:
                    single[symbol] += n
                for pair in zip(symbols, symbols[1:]):
                    pairs[pair] += n
            best = (Fraction(count, single[a] * single[b]), count)
            assert pairs[a, b] == count
            for (left, right), n in pairs.items():
                if n < min_pair_count:
                    continue
                score = Fraction(n, single[left] * single[right])
                assert (score, n) <= best, rank
                if (score, n) == best:
                    assert (spelling[a], spelling[b]) <= (spelling[left], spelling[right]), rank
        for i in holding[a] & holding[b]:
            symbols, n = rows[i]
            j = 0
            while j < len(symbols) - 1:
                if symbols[j] == a and symbols[j + 1] == b:
                    symbols[j : j + 2] = [made]
                    holding.setdefault(made, set()).add(i)
                j += 1


@pytest.mark.parametrize("min_pair_count", [1, 20])
def test_every_score_recounted(shared, min_pair_count):
    text = (shared / "corpora" / "mixed-1m.txt").read_bytes().decode()[:60_000]
    table = WordCounts.from_documents([text], pattern=r"\w+|[^\w\s]")
    words = {word.decode(): count for word, count in table.to_dict().items()}
    vocabulary = learned(table, num_merges=2000, min_pair_count=min_pair_count)
    assert len(vocabulary.left) > 300
    rescored(words, vocabulary, min_pair_count, 60)


# ---- Hugging Face ----


def trained(words, vocab_size, **options):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, show_progress=False, special_tokens=["[UNK]"], **options)
    texts = (" ".join([word] * count) for word, count in words.items())
    tokenizer.train_from_iterator(texts, trainer)
    return [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]


def assert_as_tokenizers(words, theirs, least) -> int:
    """Compare in this sense: its ids of the alphabet follow a hash, so they are taken from its output."""
    size = len({c for word in words for c in word} | {piece for word in words for piece in pieces_of(word)})
    alphabet = theirs[1 : 1 + size]
    ours = learned(words, vocab_size=len(theirs), score="count", alphabet_order=alphabet, min_pair_count=least)
    tokens = ["[UNK]", *(token.decode() for token in ours.tokens[1:])]
    assert tokens == theirs
    return len(ours.left)


@pytest.mark.parametrize("seed", range(60))
def test_by_count_as_tokenizers(seed):
    rng = random.Random(seed)
    letters = "abcdeé日本#"[: rng.randint(2, 9)]
    words = {"".join(rng.choices(letters, k=rng.randint(1, 8))): rng.randint(1, 30) for _ in range(rng.randint(2, 40))}
    least = rng.choice([1, 2, 5])
    assert_as_tokenizers(words, trained(words, rng.choice([40, 60, 90]), min_frequency=least), least)


def test_mixed_text_as_tokenizers(shared):
    text = (shared / "corpora" / "mixed-1m.txt").read_bytes().decode()
    table = WordCounts.from_documents([text], pattern="whitespace")
    words = {word.decode(): count for word, count in table.to_dict().items() if not any(c.isspace() for c in word.decode())}
    assert len(words) > 20_000
    merges = assert_as_tokenizers(words, trained(words, 12_000, min_frequency=2), 2)
    assert merges > 3000


# ---- counts of 64 bits ----


def test_the_largest_counts():
    words = {"ab": 2**62, "cd": 2**62 - 1, "b": 2**61}
    assert_as_reference(learned(words, num_merges=9, min_pair_count=1), learn_wordpiece(words, 9))


@pytest.mark.parametrize("words", [{"ab": MOST, "ac": 1}, {"xa": 2**62, "ya": 2**62}, {"aba": 2**62}])
def test_a_character_beyond_int64_is_named(words):
    with pytest.raises(OverflowError, match=r"the character 'a' counts more than 2\*\*63 - 1"):
        learned(words, num_merges=9)


# ---- what changes nothing ----


def test_order_and_rows_change_nothing():
    rng = random.Random(1)
    counts = {"".join(rng.choices("abcdé", k=rng.randint(1, 9))): rng.randint(1, 60) for _ in range(2000)}
    pairs = list(counts.items())
    for options in ({}, {"score": "count"}, {"seed_words": 30, "character_coverage": 0.9}):
        expected = learned(counts, vocab_size=300, **options)
        for _ in range(3):
            rng.shuffle(pairs)
            assert learned(dict(pairs), vocab_size=300, **options) == expected
        table = WordCounts.from_mapping(counts).table
        rows = WordCounts(pa.concat_tables([table.slice(i, 300) for i in range(0, len(table), 300)][::-1]))
        again = learned(rows, vocab_size=300, **options)
        assert again.tokens == expected.tokens and again.counts.tolist() == expected.counts.tolist()
