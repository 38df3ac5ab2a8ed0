"""The merge loop against the plain reference, its peers, and arithmetic."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from beam_bpe import _merge
from beam_bpe.pretokenize import PATTERNS
from beam_bpe.reference import BYTE_ORDER, count, learn
from beam_bpe.learning import TIE_BREAKS
from beam_bpe.training import train
from beam_bpe.words import WordCounts

INT64_MAX = 2**63 - 1

# GPT-2's characters for the bytes, by definition: bytes_to_unicode.
SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHARACTER = {byte: chr(byte) for byte in SHOWN}
CHARACTER |= {byte: chr(256 + k) for k, byte in enumerate(b for b in range(256) if b not in SHOWN)}


def shown(word: bytes) -> str:
    return "".join(map(CHARACTER.__getitem__, word))


def merges_of(vocabulary) -> list[tuple]:
    """Return (left id, right id, count, replaced) by rank."""
    columns = (vocabulary.left, vocabulary.right, vocabulary.counts, vocabulary.replaced)
    return list(zip(*(column.tolist() for column in columns)))


def assert_as_reference(vocabulary, learned) -> None:
    assert merges_of(vocabulary) == [(m.left, m.right, m.count, m.replaced) for m in learned.merges]
    assert [merge.id for merge in vocabulary.merges] == [merge.id for merge in learned.merges]
    assert vocabulary.tokens == learned.tokens
    assert vocabulary.stop_reason == learned.stop


def tokens_of(vocabulary) -> list[str]:
    """Return the learned tokens by rank, a space shown as ␣."""
    return [merge.token.decode().replace(" ", "␣") for merge in vocabulary.merges]


def byte_loop(words: dict[bytes, int], tie_rule="lowest_ids", first_id=0, **options):
    """Return a merge loop that holds the words, ready to run; ids are first_id + byte."""
    counts = np.array(sorted(set(words.values()), reverse=True), np.int64)
    spellings = [b"?"] * first_id + [bytes([byte]) for byte in range(256)]
    loop = _merge.MergeLoop(counts, spellings, tie_rule=_merge.TIE_RULES[tie_rule], **options)
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
    of_words = np.array(list(words.values()), np.int64)
    loop.measure(offsets, of_words)
    loop.allocate()
    loop.add_bytes(b"".join(words), offsets, of_words, np.arange(first_id, first_id + 256, dtype=np.uint32))
    return loop


def learned_by(loop) -> list[tuple]:
    left, right, counts, replaced, _ = loop.merges()
    columns = [np.frombuffer(left, np.uint32), np.frombuffer(right, np.uint32)]
    columns += [np.frombuffer(counts, np.int64), np.frombuffer(replaced, np.int64)]
    return list(zip(*(column.tolist() for column in columns)))


# --- Worked examples ---------------------------------------------------------------------------

SENTENCE = (
    "low low low low low lower lower newest newest newest newest newest newest "
    "widest widest widest"
)


@pytest.mark.parametrize(
    "rule, merges",
    [
        ("huggingface", "es est lo low ew new ␣low ␣new ␣newest dest"),
        ("bytes", "es est lo low ␣n ␣low ew ␣new ␣newest ␣w"),
        ("lexicographic", "st est ow low west ne newest ␣newest ␣low wi"),
    ],
)
def test_sentence_under_every_rule(rule, merges):
    words = WordCounts.from_documents([SENTENCE], pattern=r" ?\w+")
    vocabulary = train(words, 266, tie_break=rule)

    assert tokens_of(vocabulary) == merges.split()
    assert vocabulary.counts.tolist() == [9, 9, 7, 7, 6, 6, 6, 6, 6, 3]
    assert len(vocabulary) == 266 and vocabulary.stop_reason == "vocab_size"


@pytest.mark.parametrize("rule", TIE_BREAKS)
def test_without_pre_tokenization_a_phrase_becomes_a_token(rule):
    words = WordCounts.from_documents([SENTENCE], pattern="none")
    merge = train(words, 266, tie_break=rule).merges[9]

    assert (merge.token, merge.count, merge.replaced) == (b"newest newest ", 5, 3)


@pytest.mark.parametrize("rule", ["huggingface", "bytes"])
def test_low_lower_newest_widest(rule):
    vocabulary = train({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 260, tie_break=rule)

    assert tokens_of(vocabulary) == ["es", "est", "lo", "low"]
    assert vocabulary.counts.tolist() == [9, 9, 7, 7]


@pytest.mark.parametrize("rule", TIE_BREAKS)
def test_hug_pug_pun_bun_hugs(rule):
    vocabulary = train({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 300, tie_break=rule, min_pair_count=1)

    tokens = tokens_of(vocabulary)
    assert tokens[:4] == ["ug", "un", "hug", "pun"]
    assert sorted(tokens[4:6]) == ["hugs", "pug"]
    assert tokens[6:] == ["bun"]
    assert vocabulary.counts.tolist() == [20, 16, 15, 12, 5, 5, 4]
    assert vocabulary.stop_reason == "no_pairs"
    assert len(vocabulary) == 256 + 7


@pytest.mark.parametrize("rule", TIE_BREAKS)
def test_run_of_one_letter(rule):
    vocabulary = train({"aaaaaaaa": 1}, 300, tie_break=rule, min_pair_count=1)
    a = BYTE_ORDER[rule].index(b"a")

    assert merges_of(vocabulary) == [(a, a, 7, 4), (256, 256, 3, 2), (257, 257, 1, 1)]


@pytest.mark.parametrize("specials", [[], ["<|end|>"], ["<s>", "</s>", "<pad>"]])
@pytest.mark.parametrize("merges", [0, 1, 5])
def test_size_of_the_vocabulary(specials, merges):
    vocabulary = train({"low lower newest": 2}, 256 + len(specials) + merges, special_tokens=specials)

    assert len(vocabulary.merges) == merges
    assert len(vocabulary) == 256 + merges + len(specials)


# --- The reference -----------------------------------------------------------------------------

ALPHABETS = [b"a", b"ab", b"abc", b"a ", b" \n~", b"\x00 \x7f\xad", b"\xc3\xa9\xa0z", b"\xad!a", b"\x00\xff", b"abcd"]
COUNTS = [[1], [1, 2], [0, 1, 2, 3], range(1, 7), [1, 10**12], [2**32 - 1, 2**32, 2**32 + 1], [2**52, 2**53 + 1, 3]]


def random_words(source: random.Random, most_words=25) -> dict[bytes, int]:
    """Draw words with runs of one letter and few different counts, so that ties are the rule."""
    alphabet, counts = source.choice(ALPHABETS), source.choice(COUNTS)
    words = {}
    for _ in range(source.randint(1, most_words)):
        word = b""
        for _ in range(source.randint(1, 8)):
            word += bytes([source.choice(alphabet)]) * source.choice([1, 1, 1, 2, 3, 5, 9])
        words[word] = source.choice(counts)
    if not any(words.values()):
        words[b"ab"] = 1
    return words


@pytest.mark.parametrize("rule", TIE_BREAKS)
@pytest.mark.parametrize("part", range(4))
def test_merges_are_those_of_the_reference(rule, part):
    stops = Counter()
    for seed in range(100 * part, 100 * part + 100):
        source = random.Random(seed)
        words = random_words(source)
        merges = source.choice([0, 1, 5, 20, 60])
        options = {
            "min_pair_count": source.choice([1, 1, 2, 3, 10**6]),
            "max_token_length": source.choice([None, None, 1, 2, 3, 5, 8, 17]),
            "tie_break": rule,
        }
        learned = learn(words, merges, **options)
        try:
            assert_as_reference(train(words, 256 + merges, **options), learned)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {words}, {merges} merges, {options}") from error
        stops[learned.stop] += 1
    assert set(stops) == {"vocab_size", "no_pairs", "min_pair_count"}


@pytest.mark.parametrize("tie_rule, rule", [("lowest_ids", "bytes"), ("greatest_bytes", "lexicographic")])
@pytest.mark.parametrize("first_id", [0, 1, 44, 1000])
def test_the_loop_with_any_number_of_symbols(tie_rule, rule, first_id):
    # Beyond 256 symbols pairs are numbered in another way.
    for seed in range(100):
        source = random.Random(seed)
        words = {word: n for word, n in random_words(source).items() if n}
        longest = source.choice([None, 4])
        loop = byte_loop(words, tie_rule, first_id, max_token_length=longest or 2**32 - 1)
        stop = loop.run(30)

        learned = learn(words, 30, tie_break=rule, max_token_length=longest)
        expected = [(m.left + first_id, m.right + first_id, m.count, m.replaced) for m in learned.merges]
        assert (learned_by(loop), stop) == (expected, learned.stop), f"seed {seed}"


@pytest.mark.parametrize("rule", TIE_BREAKS)
def test_mixed_text_as_the_reference(rule, shared):
    text = (shared / "corpora" / "mixed-1m.txt").read_bytes().decode()
    words = count([text[:40_000]], PATTERNS["o200k"])

    assert_as_reference(train(words, 256 + 40, tie_break=rule), learn(words, 40, tie_break=rule, min_pair_count=2))


def test_neither_order_nor_split_of_the_words_changes_anything():
    for seed in range(30):
        source = random.Random(seed)
        words = random_words(source)
        shuffled = list(words.items())
        source.shuffle(shuffled)
        rule = source.choice(TIE_BREAKS)
        one, other = (train(w, 300, tie_break=rule, min_pair_count=1) for w in (words, dict(shuffled)))
        assert merges_of(one) == merges_of(other)
        assert one == other

        # The loop is given its words in any order and in any number of chunks.
        pairs = [(word, n) for word, n in words.items() if n]
        counts = np.array(sorted({n for _, n in pairs}, reverse=True), np.int64)
        results = []
        for size in (1, 3, 100):
            loop = _merge.MergeLoop(counts, [bytes([b]) for b in range(256)])
            chunks = [dict(pairs[i : i + size]) for i in range(0, len(pairs), size)]
            columns = [
                (b"".join(c), np.cumsum([0, *map(len, c)], dtype=np.int64), np.array(list(c.values()), np.int64))
                for c in chunks
            ]
            for _, offsets, numbers in columns:
                loop.measure(offsets, numbers)
            loop.allocate()
            for data, offsets, numbers in columns:
                loop.add_bytes(data, offsets, numbers, np.arange(256, dtype=np.uint32))
            loop.run(30)
            results.append(learned_by(loop))
            source.shuffle(pairs)
        assert results[0] == results[1] == results[2]


# --- Peers -------------------------------------------------------------------------------------


def merges_of_tokenizers(words: dict[bytes, int], merges: int, min_frequency=0, max_token_length=None) -> list[list[str]]:
    tokenizers = pytest.importorskip("tokenizers")
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    peer.train_from_iterator(
        [" ".join([shown(word)] * n) for word, n in words.items()],
        tokenizers.trainers.BpeTrainer(
            vocab_size=256 + merges,
            min_frequency=min_frequency,
            max_token_length=max_token_length and max_token_length + 1,  # it compares with <
            initial_alphabet=sorted(CHARACTER.values()),
            show_progress=False,
        ),
    )
    return json.loads(peer.to_str())["model"]["merges"]


def tokens_of_rustbpe(words: dict[bytes, int], merges: int) -> list[bytes]:
    """Return the learned tokens by rank; the words are text."""
    rustbpe = pytest.importorskip("rustbpe")
    peer = rustbpe.Tokenizer()
    texts = (word.decode() for word, n in words.items() for _ in range(n))
    peer.train_from_iterator(texts, 256 + merges, pattern=r"(?s).+")
    return [bytes(token) for token, _ in sorted(peer.get_mergeable_ranks(), key=lambda item: item[1])][256:]


def shown_merges(vocabulary) -> list[list[str]]:
    return [[shown(merge.left), shown(merge.right)] for merge in vocabulary.merges]


def small_words(source: random.Random, alphabet: list[bytes]) -> dict[bytes, int]:
    words = {}
    for _ in range(source.randint(1, 40)):
        word = b"".join(source.choice(alphabet) * source.choice([1, 1, 1, 2, 3, 6]) for _ in range(source.randint(1, 9)))
        words[word] = source.randint(1, 6)
    return words


def test_merges_are_those_of_tokenizers():
    for seed in range(250):
        source = random.Random(seed)
        words = small_words(source, [bytes([byte]) for byte in source.choice(ALPHABETS)])
        merges, least, longest = source.choice([5, 30, 150]), source.choice([1, 2, 5]), source.choice([None, None, 2, 3, 5, 8])
        vocabulary = train(words, 256 + merges, min_pair_count=least, max_token_length=longest)

        assert shown_merges(vocabulary) == merges_of_tokenizers(words, merges, least, longest), f"seed {seed}"


def test_merges_are_those_of_rustbpe():
    for seed in range(250):
        source = random.Random(seed)
        words = small_words(source, [c.encode() for c in source.choice(["a", "ab", "abc", "~!a", "aé", "日本", "a \n", "\0a"])])
        merges = source.choice([5, 30, 150])
        vocabulary = train(words, 256 + merges, min_pair_count=1, tie_break="bytes")

        assert vocabulary.tokens[256:] == tokens_of_rustbpe(words, merges), f"seed {seed}"


@pytest.fixture(scope="module")
def mixed_words(shared) -> dict[bytes, int]:
    text = (shared / "corpora" / "mixed-1m.txt").read_bytes().decode()
    return WordCounts.from_documents([text], pattern="gpt2").to_dict()


def test_4000_merges_of_mixed_text_are_those_of_tokenizers(mixed_words):
    vocabulary = train(mixed_words, 256 + 4500)

    assert len(vocabulary.merges) == 4500
    assert shown_merges(vocabulary) == merges_of_tokenizers(mixed_words, 4500, 2)


def test_4000_merges_of_mixed_text_are_those_of_rustbpe(mixed_words):
    vocabulary = train(mixed_words, 256 + 4500, tie_break="bytes")

    assert vocabulary.tokens[256:] == tokens_of_rustbpe(mixed_words, 4500)
    replay(mixed_words, vocabulary)


# --- Large inputs ------------------------------------------------------------------------------


def replay(words: dict[bytes, int], vocabulary, merges: int | None = None) -> None:
    """Apply the merges in order to all words and check the count and the replacements of each.

    Its lists of places are kept for each token, not for each pair, and hold no counts.
    """
    ids = np.empty(256, np.int32)
    ids[list(vocabulary.alphabet)] = np.arange(256)
    data = np.frombuffer(b"\0".join(words) + b"\0", np.uint8)
    lengths = np.array([*map(len, words)], np.int64)
    cells = ids[data]
    cells[np.cumsum(lengths + 1) - 1] = -1  # between words
    weights = np.repeat(np.array(list(words.values()), np.int64), lengths + 1)
    behind = np.arange(1, len(cells) + 1, dtype=np.int32)
    order = np.argsort(cells, kind="stable").astype(np.int32)
    ends = np.searchsorted(cells[order], np.arange(257))
    places = [order[ends[token] : ends[token + 1]] for token in range(256)]

    for rank, (a, b, times, replaced) in enumerate(merges_of(vocabulary)[:merges]):
        found = places[a]
        found = found[cells[behind[found]] == b]
        assert weights[found].sum() == times, rank
        if a == b:  # of a run of pairs, every second one
            starts = np.concatenate([[True], found[1:] != behind[found[:-1]]])
            index = np.arange(len(found))
            found = found[(index - np.maximum.accumulate(np.where(starts, index, 0))) % 2 == 0]
        assert weights[found].sum() == replaced, rank
        second = behind[found]
        cells[found] = 256 + rank
        cells[second] = -2
        behind[found] = behind[second]
        places.append(found)
        for token in {a, b}:
            places[token] = places[token][cells[places[token]] == token]


@pytest.fixture(scope="module")
def many_words() -> dict[bytes, int]:
    """Return 150,000 words over six letters, of which the k-th counts 50,000 / k."""
    source = random.Random(3)
    words = {}
    while len(words) < 150_000:
        words["".join(source.choices("abcdef", weights=[8, 4, 3, 2, 2, 1], k=source.randint(6, 13))).encode()] = 0
    return {word: 50_000 // k + 1 for k, word in enumerate(words, 1)}


@pytest.fixture(scope="module")
def one_long_word() -> dict[bytes, int]:
    """Return a word of 10 million random digits, which keeps the loop busy for some reports."""
    return {np.random.default_rng(7).integers(48, 58, 10_000_000, dtype=np.uint8).tobytes(): 1}


def test_a_large_input_is_learned_in_several_epochs(many_words):
    vocabulary = train(many_words, 256 + 20_000)

    assert sum(len(word) + 1 for word in many_words) > 1 << 20
    counts = vocabulary.counts.tolist()
    assert counts == sorted(counts, reverse=True)
    # An epoch ends below a 1024th of its highest count.
    assert counts[0] > 2 * 1024 * counts[-1]
    replay(many_words, vocabulary)
    assert shown_merges(vocabulary) == merges_of_tokenizers(many_words, 20_000, 2)


def test_a_large_input_as_rustbpe(many_words):
    vocabulary = train(many_words, 256 + 8000, tie_break="bytes")

    assert vocabulary.tokens[256:] == tokens_of_rustbpe(many_words, 8000)


def test_a_large_input_under_the_greatest_bytes(many_words):
    vocabulary = train(many_words, 256 + 5000, tie_break="lexicographic")

    replay(many_words, vocabulary)
    # Equal counts stand in the order of their bytes, unless the later pair was born after the earlier merge.
    merges = vocabulary.merges
    for rank, (earlier, later) in enumerate(zip(merges, merges[1:])):
        if earlier.count == later.count and 256 + rank not in (vocabulary.left[rank + 1], vocabulary.right[rank + 1]):
            assert (earlier.left, earlier.right) > (later.left, later.right)


def test_fewer_merges_are_a_prefix(many_words):
    # How many are wanted decides the floors of the epochs, and nothing else.
    most = merges_of(train(many_words, 256 + 3000))
    for merges in (1, 10, 300, 1500):
        assert merges_of(train(many_words, 256 + merges)) == most[:merges]


def test_a_large_input_that_is_learned_to_its_end():
    source = random.Random(5)
    words = {bytes(source.choices(b"ab", k=source.randint(18, 30))): 1 + i % 3 for i in range(50_000)}
    assert sum(len(word) + 1 for word in words) > 1 << 20
    vocabulary = train(words, 1 << 20, max_token_length=8, min_pair_count=1)

    assert vocabulary.stop_reason == "no_pairs"
    assert max(map(len, vocabulary.tokens)) == 8
    replay(words, vocabulary)
    pruned = train(words, 1 << 20, max_token_length=8, min_pair_count=1000)
    assert pruned.stop_reason == "min_pair_count"
    assert pruned.counts[-1] >= 1000 > vocabulary.counts[len(pruned.merges)]
    assert merges_of(pruned) == merges_of(vocabulary)[: len(pruned.merges)]


@pytest.mark.parametrize("rule", TIE_BREAKS)
@pytest.mark.parametrize("n", [10_000_000, 8_388_608, 9_999_999])
def test_one_letter_ten_million_times(n, rule):
    vocabulary = train({b"a" * n: 1}, 256 + 1000, tie_break=rule)

    expected, run = [], n
    token = BYTE_ORDER[rule].index(b"a")
    while run > 2:  # a pair must count 2
        expected.append((token, token, run - 1, run // 2))
        token, run = 255 + len(expected), run // 2
    assert merges_of(vocabulary) == expected
    assert vocabulary.stop_reason == "min_pair_count"


def test_ten_million_digits(one_long_word):
    vocabulary = train(one_long_word, 256 + 1000, tie_break="bytes")

    assert len(vocabulary.merges) == 1000
    digits = np.frombuffer(next(iter(one_long_word)), np.uint8).astype(np.int64) - 48
    pairs = np.bincount(digits[:-1] * 10 + digits[1:], minlength=100)
    assert vocabulary.counts[0] == pairs.max()
    assert vocabulary.merges[0].token == b"%02d" % pairs.argmax()
    assert (np.diff(vocabulary.counts) <= 0).all()
    replay(one_long_word, vocabulary, 30)


def test_digits_with_a_full_recount_of_every_pair():
    digits = np.random.default_rng(8).integers(48, 54, 1_100_000, dtype=np.uint8)
    assert len(digits) > 1 << 20
    vocabulary = train({digits.tobytes(): 1}, 256 + 60, tie_break="bytes")

    cells = digits.astype(np.int64)
    for rank, (a, b, times, replaced) in enumerate(merges_of(vocabulary)):
        pairs = np.bincount(cells[:-1] * 512 + cells[1:])
        assert (a * 512 + b, times) == (pairs.argmax(), pairs.max())  # argmax is the smallest of equals
        found = np.flatnonzero((cells[:-1] == a) & (cells[1:] == b))
        if a == b:
            taken, last = [], -2
            for place in found.tolist():
                if place != last + 1:
                    taken.append(last := place)
            found = np.array(taken)
        assert len(found) == replaced
        cells[found] = 256 + rank
        cells = np.delete(cells, found + 1)


@pytest.mark.slow
def test_32k_merges_of_mixed_text_are_those_of_rustbpe(shared):
    rustbpe = pytest.importorskip("rustbpe")
    zstandard = pytest.importorskip("zstandard")
    with open(shared / "corpora" / "mixed.txt.zst", "rb") as packed:
        text = zstandard.ZstdDecompressor().stream_reader(packed).read().decode()
    documents = [text[i : i + 1_000_000] for i in range(0, len(text), 1_000_000)]
    vocabulary = train(WordCounts.from_documents(documents), 32_768, tie_break="bytes")

    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(documents), 32_768, pattern=PATTERNS["o200k"])
    ranks = sorted(peer.get_mergeable_ranks(), key=lambda item: item[1])
    assert vocabulary.tokens == [bytes(token) for token, _ in ranks]


# --- Counts of 64 bits -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", TIE_BREAKS)
@pytest.mark.parametrize("scale", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53 + 1, 2**60 - 1])
def test_large_counts_are_exact(rule, scale):
    for words in ({b"abab": scale, b"aaa": scale - 1, b"ba": 3}, {b"low": scale, b"lower": 2, b"west": scale + 1}):
        learned = learn(words, 10, tie_break=rule)
        assert_as_reference(train(words, 266, tie_break=rule, min_pair_count=1), learned)


@pytest.mark.parametrize("rule", TIE_BREAKS)
def test_the_largest_counts_are_exact(rule):
    for words in (
        {b"ab": INT64_MAX},
        {b"ab": 2**62, b"xab": 2**62 - 1},
        {b"abab": 2**62 - 1, b"ab": 1},
        {b"aaaaaaaa": INT64_MAX // 7},
    ):
        assert_as_reference(train(words, 266, tie_break=rule, min_pair_count=1), learn(words, 10, tie_break=rule))


@pytest.mark.parametrize("rule", TIE_BREAKS)
@pytest.mark.parametrize("words", [{b"ab": 2**62, b"xab": 2**62}, {b"yabab": 2**62}, {b"ab": INT64_MAX, b"abc": 1}])
def test_counts_beyond_int64_name_the_pair(rule, words):
    with pytest.raises(OverflowError, match=r"the pair \(b'a', b'b'\) counts more than 2\*\*63 - 1"):
        train(words, 257, tie_break=rule)
    # A pair that is never merged may count what it will.
    assert train(words, 257, tie_break=rule, max_token_length=1).stop_reason == "no_pairs"


def test_runs_beyond_int64_name_the_pair():
    with pytest.raises(OverflowError, match=r"\(b'a', b'a'\)"):
        train({b"aaaaa": 2**61}, 257)


def test_counts_beyond_int64_among_more_than_256_symbols():
    with pytest.raises(OverflowError, match=r"\(b'a', b'b'\)"):
        byte_loop({b"ab": 2**62, b"xab": 2**62 + 1}, first_id=300).run(1)


# --- Progress and interruption -----------------------------------------------------------------


def test_progress_is_reported(one_long_word):
    seen = []
    vocabulary = train(one_long_word, 256 + 20_000, progress=lambda *report: seen.append(report))

    assert seen
    assert {wanted for _, wanted, _ in seen} == {20_000}
    done = [merges for merges, _, _ in seen]
    assert done == sorted(done) and 0 <= done[0] and done[-1] <= 20_000
    for merges, _, times in seen:
        assert times == 0 or vocabulary.counts[0] >= times >= vocabulary.counts[-1]


@pytest.mark.parametrize("error", [RuntimeError("stop here"), KeyboardInterrupt(), StopIteration()])
def test_what_progress_raises_passes_through(one_long_word, error):
    def stop(*report):
        raise error

    with pytest.raises(type(error)) as raised:
        train(one_long_word, 256 + 20_000, progress=stop)
    assert raised.value is error


LEARN_FOR_LONG = """
import random, signal, sys
import numpy as np
from beam_bpe import _merge

signal.signal(signal.SIGINT, signal.default_int_handler)
n = 1_500_000
loop = _merge.MergeLoop(np.array([1]), [bytes([byte]) for byte in range(256)])
data = np.random.default_rng(0).integers(97, 123, 12 * n, dtype=np.uint8)
offsets, counts = np.arange(0, 12 * n + 1, 12), np.ones(n, np.int64)
loop.measure(offsets, counts)
loop.allocate()
loop.add_bytes(data, offsets, counts, np.arange(256, dtype=np.uint32))
print("learning", flush=True)
try:
    loop.run(3_000_000, PROGRESS)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("progress, wait", [("None", 0.1), ("None", 2.0), ("lambda *report: None", 1.0)])
def test_ctrl_c_stops_the_loop(progress, wait):
    script = LEARN_FOR_LONG.replace("PROGRESS", progress)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"learning\n"
            time.sleep(wait)
            assert process.poll() is None
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert time.monotonic() - start < 2
        finally:
            process.kill()


# --- Wrong use ---------------------------------------------------------------------------------

ONE = np.array([1], np.int64)
OFFSETS = np.array([0, 2], np.int64)
IDS = np.arange(256, dtype=np.uint32)
BYTES = [bytes([byte]) for byte in range(256)]


def loop_at(stage: str):
    loop = _merge.MergeLoop(ONE, BYTES)
    for step in ("measured", "allocated", "filled", "run"):
        if stage == "new":
            break
        if step == "measured":
            loop.measure(OFFSETS, ONE)
        elif step == "allocated":
            loop.allocate()
        elif step == "filled":
            loop.add_bytes(b"ab", OFFSETS, ONE, IDS)
        else:
            loop.run(1)
        if step == stage:
            break
    return loop


@pytest.mark.parametrize(
    "stage, call, message",
    [
        ("allocated", lambda loop: loop.measure(OFFSETS, ONE), "measure comes before allocate"),
        ("run", lambda loop: loop.measure(OFFSETS, ONE), "measure comes before allocate"),
        ("allocated", lambda loop: loop.allocate(), "allocate comes once"),
        ("run", lambda loop: loop.allocate(), "allocate comes once"),
        ("new", lambda loop: loop.add_bytes(b"ab", OFFSETS, ONE, IDS), "add_bytes comes after allocate"),
        ("measured", lambda loop: loop.add_bytes(b"ab", OFFSETS, ONE, IDS), "add_bytes comes after allocate"),
        ("run", lambda loop: loop.add_bytes(b"ab", OFFSETS, ONE, IDS), "add_bytes comes after allocate"),
        ("filled", lambda loop: loop.add_bytes(b"ab", OFFSETS, ONE, IDS), "row 0 was not measured"),
        ("new", lambda loop: loop.run(1), "run comes once, after allocate"),
        ("measured", lambda loop: loop.run(1), "run comes once, after allocate"),
        ("allocated", lambda loop: loop.run(1), "not all the words measured were added"),
        ("run", lambda loop: loop.run(1), "run comes once, after allocate"),
    ],
)
def test_a_wrong_order_of_calls_is_refused(stage, call, message):
    loop = loop_at(stage)
    with pytest.raises(ValueError, match=message):
        call(loop)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: _merge.MergeLoop(np.array([1, 2], np.int64), BYTES), "positive, distinct and descending"),
        (lambda: _merge.MergeLoop(np.array([2, 2], np.int64), BYTES), "positive, distinct and descending"),
        (lambda: _merge.MergeLoop(np.array([1, 0], np.int64), BYTES), "positive, distinct and descending"),
        (lambda: _merge.MergeLoop(np.array([-1], np.int64), BYTES), "positive, distinct and descending"),
        (lambda: _merge.MergeLoop(ONE, BYTES, min_pair_count=0), "min_pair_count is 0; it must be at least 1"),
        (lambda: _merge.MergeLoop(ONE, [b"a", b""]), "spelled with at least one byte"),
        (lambda: loop_at("new").measure(OFFSETS, 2 * ONE), "count 2 of row 0 is not among the counts announced"),
        (lambda: loop_at("new").measure(OFFSETS, np.array([1, 1], np.int64)), "columns differ in length"),
        (lambda: loop_at("new").measure(OFFSETS[::-1].copy(), ONE), "offsets fall at row 0"),
        (lambda: loop_at("new").measure(np.array([-2, 0], np.int64), ONE), "offsets fall at row 0"),
        (lambda: loop_at("allocated").add_bytes(b"ab", OFFSETS, ONE, IDS[:255]), "with 256 ids"),
        (lambda: loop_at("allocated").add_bytes(b"ab", OFFSETS, ONE, IDS + np.uint32(1)), "byte 255 has id 256"),
        (lambda: loop_at("allocated").add_bytes(b"ab", np.array([0, 3], np.int64), ONE, IDS), "beyond the data"),
        (lambda: loop_at("allocated").add_bytes(b"ab", np.array([-1, 1], np.int64), ONE, IDS), "beyond the data"),
        (lambda: loop_at("allocated").add_bytes(b"abc", np.array([0, 3], np.int64), ONE, IDS), "was not measured"),
        (lambda: loop_at("allocated").add_bytes(b"ab", OFFSETS, 2 * ONE, IDS), "was not measured"),
        (lambda: loop_at("filled").run(2**32 - 1), "more than fit into 32 bits"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_more_symbols_than_places_are_refused():
    loop = _merge.MergeLoop(ONE, BYTES)
    loop.measure(np.array([0, 2**32], np.int64), ONE)
    with pytest.raises(ValueError, match="leave out the rare ones"):
        loop.allocate()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"vocab_size": 255}, "vocab_size is 255, but the 256 bytes and 0 special tokens take 256"),
        ({"vocab_size": 257, "special_tokens": ["<s>", "</s>"]}, "take 258"),
        ({"tie_break": "first"}, "depends on the order of the text"),
        ({"tie_break": "random"}, "choose one of huggingface, bytes, lexicographic"),
        ({"min_pair_count": 0}, "min_pair_count is 0"),
        ({"max_token_length": 0}, "max_token_length is 0"),
        ({"words": {}}, "no words to learn from"),
        ({"words": {"ab": 0}}, "no words to learn from"),
        ({"special_tokens": ["ow"]}, "the special token 'ow' occurs inside the word b'low'"),
    ],
)
def test_training_refuses(options, message):
    options = {"words": {"low": 1}, "vocab_size": 300} | options
    with pytest.raises(ValueError, match=message):
        train(options.pop("words"), options.pop("vocab_size"), **options)


def test_words_without_a_pair_and_words_that_count_nothing():
    vocabulary = train({"a": 5, "b": 3, "xy": 0}, 300, min_pair_count=1)

    assert (len(vocabulary.merges), vocabulary.stop_reason) == (0, "no_pairs")


def test_the_loop_tells_its_memory(many_words):
    loop = byte_loop(many_words)
    before = loop.peak_bytes
    loop.run(500)
    cells = sum(len(word) + 1 for word in many_words)

    assert 4 * cells <= before < loop.peak_bytes < 40 * cells


# --- Characters --------------------------------------------------------------------------------


def columns_of(words: dict[str | bytes, int]):
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return b"".join(encoded), offsets, np.array(list(words.values()), np.int64)


def test_characters_are_counted_by_place():
    found = np.zeros((_merge.PLACES, _merge.CODE_POINTS), np.int64)
    for _ in range(2):
        _merge.count_characters(*columns_of({"é": 5, "aé日": 3, "日a": 2, "aa\U0010ffffa": 7, "": 9, "zero": 0}), found)
    seen = {(place, chr(c)): int(found[place, c]) // 2 for place, c in zip(*np.nonzero(found))}
    assert seen == {
        (0, "é"): 5, (1, "a"): 10, (2, "é"): 3, (3, "日"): 3, (1, "日"): 2, (3, "a"): 9, (2, "a"): 7, (2, "\U0010ffff"): 7,
    }  # fmt: skip


def test_every_code_point_is_read_as_python_reads_it():
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    found = np.zeros((_merge.PLACES, _merge.CODE_POINTS), np.int64)
    _merge.count_characters(*columns_of({text: 1}), found)
    assert found[2].sum() == len(text) - 2 and found.max() == 1
    assert (found.sum(0) == [not 0xD800 <= c < 0xE000 for c in range(0x110000)]).all()


def test_what_is_not_utf8_is_not_read():
    source = random.Random(2)
    for _ in range(3000):
        word = bytes(source.choice([0x61, 0x80, 0xBF, 0xC1, 0xC2, 0xE0, 0xED, 0xA0, 0x9F, 0xEF, 0xF0, 0x90, 0xF4, 0x8F, 0xF5])
                     for _ in range(source.randint(1, 5)))  # fmt: skip
        found = np.zeros((_merge.PLACES, _merge.CODE_POINTS), np.int64)
        try:
            length = len(word.decode())
        except UnicodeDecodeError:
            with pytest.raises(ValueError, match="is not UTF-8"):
                _merge.count_characters(*columns_of({word: 1}), found)
        else:
            _merge.count_characters(*columns_of({word: 1}), found)
            assert found.sum() == length


def character_loop(words, **options):
    data, offsets, counts = columns_of(words)
    ids = np.full((_merge.PLACES, _merge.CODE_POINTS), _merge.NO_SYMBOL, np.uint32)
    ids[:, [97, 98, 99]] = [0, 1, 2]
    distinct = np.array(sorted(set(words.values()), reverse=True), np.int64)
    loop = _merge.MergeLoop(distinct, [b"a", b"b", b"c"], lengths=np.ones(3, np.uint32), **options)
    symbols = np.frombuffer(_merge.symbol_offsets(data, offsets), np.int64)
    return loop, data, offsets, symbols, counts, ids


def test_a_loop_of_characters_is_given_what_it_was_told():
    loop, data, offsets, symbols, counts, ids = character_loop({"abc": 2, "xab": 1, "cab": 1})
    assert symbols.tolist() == [0, 3, 6, 9]
    with pytest.raises(ValueError, match="comes after allocate"):
        loop.add_characters(data, offsets, counts, ids)
    loop.measure(symbols, counts)
    loop.allocate()
    with pytest.raises(ValueError, match="ids have the shape"):
        loop.add_characters(data, offsets, counts, ids[:, :99].copy())
    with pytest.raises(ValueError, match="row 3 was not measured"):
        loop.add_characters(data + b"aaaaaaaaaaaa", np.append(offsets, offsets[-1] + 12), np.append(counts, 1), ids)
    loop, data, offsets, symbols, counts, ids = character_loop({"abc": 2, "xab": 1})
    loop.measure(symbols, counts)
    loop.allocate()
    with pytest.raises(ValueError, match="has an id beyond the 3 symbols"):
        loop.add_characters(data, offsets, counts, np.full_like(ids, 7))
    with pytest.raises(ValueError, match="not all the words measured were added"):
        loop.run(3)


def test_two_symbols_of_one_spelling_are_refused():
    loop = _merge.MergeLoop(np.array([1], np.int64), [b"a", b"b", b"a"], lengths=np.ones(3, np.uint32))
    loop.allocate()
    with pytest.raises(ValueError, match="the initial symbol b'a' stands twice"):
        loop.run(1)


@pytest.mark.parametrize("options", [{"prefix": b"##"}, {"reserved": 1}, {"frequencies": np.ones(1, np.int64)}])
def test_what_needs_lengths(options):
    with pytest.raises(ValueError, match="need lengths"):
        _merge.MergeLoop(np.array([1], np.int64), [b"a"], **options)


def test_a_loop_ends_at_a_number_of_tokens():
    loop, data, offsets, symbols, counts, ids = character_loop({"abcabc": 2})
    loop.measure(symbols, counts)
    loop.allocate()
    loop.add_characters(data, offsets, counts, ids)
    with pytest.raises(ValueError, match="2 tokens are fewer than the 3 initial symbols"):
        loop.run(9, None, 2)
    assert loop.run(9, None, 5) == "vocab_size" and len(loop.merges()[0]) == 8


def test_likelihood_counts_words_of_one_symbol():
    """a alone counts against (a, b): 2 / (12 · 2) is less than (b, c)'s 1 / (2 · 1)."""
    loop, data, offsets, symbols, counts, ids = character_loop(
        {"ab": 1, "abc": 1, "a": 10}, frequencies=np.array([12, 2, 1], np.int64)
    )
    loop.measure(symbols, counts)
    loop.allocate()
    loop.add_characters(data, offsets, counts, ids)
    loop.run(9)
    left, right, made = (np.frombuffer(loop.merges()[i], np.uint32).tolist() for i in (0, 1, 4))
    assert list(zip(left, right, made)) == [(1, 2, 3), (0, 1, 4), (0, 3, 5)]
