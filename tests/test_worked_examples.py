"""Worked examples: what anybody can check by hand or by eye, of published vocabularies and of small ones made here."""

from functools import lru_cache

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_bpe import StreamDecoder, Tokenizer, Vocabulary, WordCounts, pre_tokenizer, reference, train

NAMES = ("r50k_base", "p50k_base", "cl100k_base", "o200k_base")


@lru_cache(None)
def load(path):
    return Tokenizer.load(str(path))


@pytest.fixture
def published(shared):
    """Return a function from the name of an encoding to its tokenizer."""

    def find(name):
        path = shared / "reference" / f"{name}.tiktoken"
        if not path.exists():
            pytest.skip(f"the shared folder has no rank file of {name}")
        return load(path)

    return find


def pieces(tokenizer, text):
    return [tokenizer.token_bytes(i).decode() for i in tokenizer.encode(text)]


# ---- published vocabularies ----


@pytest.mark.parametrize(
    "text, counts",
    [
        ("機器學習模型的訓練資料", (26, 20, 11)),
        ("机器学习模型的训练数据", (27, 13, 6)),
        ("電腦程式設計", (16, 10, 7)),
        ("电脑程序设计", (16, 6, 3)),
    ],
)
def test_numbers_of_tokens(published, text, counts):
    for name, count in zip(("r50k_base", "cl100k_base", "o200k_base"), counts):
        tokenizer = published(name)
        assert len(tokenizer.encode(text)) == tokenizer.count(text) == count, name


@pytest.mark.parametrize(
    "text, counts",
    [
        ("斷詞是每個語言模型的第一步。", (18, 13)),
        ("Tokenization is the first step of every language model.", (11, 11)),
        ("的", (1, 1)),
        ("器", (1, 1)),
        ("學", (2, 1)),
        ("機", (3, 1)),
        ("習", (3, 1)),
        ("腦", (3, 2)),
    ],
)
def test_numbers_of_tokens_of_the_newer_two(published, text, counts):
    assert (published("cl100k_base").count(text), published("o200k_base").count(text)) == counts
    assert (len(published("cl100k_base").encode(text)), len(published("o200k_base").encode(text))) == counts


def test_pieces_of_a_sentence(published):
    expected = "Token|ization| is| the| first| step| of| every| language| model|.".split("|")
    for name in ("cl100k_base", "o200k_base"):
        assert pieces(published(name), "".join(expected)) == expected


def test_numbers_and_words_in_cl100k(published):
    tokenizer = published("cl100k_base")
    assert pieces(tokenizer, "1234567890") == ["123", "456", "789", "0"]
    assert pieces(tokenizer, "3.14159265") == ["3", ".", "141", "592", "65"]
    assert pieces(tokenizer, "strawberry") == ["str", "aw", "berry"]


def test_a_stream_of_tokens_never_shows_half_a_character(published):
    tokenizer, text = published("cl100k_base"), "斷詞是每個語言模型的第一步。"
    ids = tokenizer.encode(text)
    halves = [i for i in ids if tokenizer.decode([i]).find("\ufffd") >= 0]
    assert len(ids) == 18 and len(halves) > 4  # tokens that are no text by themselves
    stream = StreamDecoder(tokenizer)
    given_out = [stream.push(i) for i in ids]
    assert "".join(given_out) == text and stream.flush() == ""
    assert "\ufffd" not in "".join(given_out) and "" in given_out
    # what is out never runs behind the characters that are complete
    for n in range(len(ids) + 1):
        assert "".join(given_out[:n]) == tokenizer.decode_bytes(ids[:n]).decode("utf-8", "ignore")
    # cut anywhere, what is left at the end is one U+FFFD, or nothing
    for n in range(len(ids) + 1):
        stream = StreamDecoder(tokenizer)
        assert "".join(map(stream.push, ids[:n])) + stream.flush() == tokenizer.decode(ids[:n])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_in_published_vocabularies(published, name):
    tokenizer = published(name)

    @settings(max_examples=150, deadline=None)
    @given(anything())
    def check(data):
        ids = tokenizer.encode(data, disallowed_special=())
        assert tokenizer.decode_bytes(ids) == data
        assert tokenizer.count(data, disallowed_special=()) == len(ids)
        assert tokenizer.decode(ids) == data.decode("utf-8", "replace")

    check()


def test_nothing_is_lost_in_files_of_other_libraries(shared):
    folder = shared / "reference"
    paths = [folder / "encoder.json", folder / "hf" / "trained_bytelevel_bpe_4096_mixed1m.json"]
    if not all(path.exists() for path in paths):
        pytest.skip("the shared folder has no encoder.json and no hf/trained_bytelevel_bpe_4096_mixed1m.json")
    tokenizers = [load(path) for path in paths]

    @settings(max_examples=150, deadline=None)
    @given(anything())
    def check(data):
        for tokenizer in tokenizers:
            assert tokenizer.decode_bytes(tokenizer.encode(data, disallowed_special=())) == data

    check()


def anything():
    """Bytes, text, and text that is cut and mixed with bytes."""
    text = st.text(max_size=60).map(lambda t: t.encode())
    mixed = st.lists(st.one_of(st.binary(max_size=4), st.text(max_size=4).map(lambda t: t.encode())), max_size=12).map(b"".join)
    cut = st.tuples(text, st.integers(0, 3), st.integers(0, 3)).map(lambda t: t[0][t[1] : len(t[0]) - t[2]])
    return st.one_of(st.binary(max_size=150), text, mixed, cut)


# ---- small vocabularies, made here ----


def made_of(merges, pattern):
    """Return the tokenizer of merges, each of two tokens."""
    tokens = [bytes([byte]) for byte in range(256)]
    sides = []
    for left, right in merges:
        sides.append((tokens.index(left.encode()), tokens.index(right.encode())))
        tokens.append((left + right).encode())
    columns = np.array(sides, np.uint32).T
    ones = np.ones(len(sides), np.int64)
    return Tokenizer(Vocabulary(pre_tokenizer(pattern), bytes(range(256)), columns[0], columns[1], ones, ones))


#: The merges es, est, lo, low, ' low', ' n', ' ne', ' new', ' newest', ' w'.
LOWEST = [("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w"), (" ", "low"), (" ", "n"), (" n", "e"), (" ne", "w"), (" new", "est"), (" ", "w")]


@pytest.mark.parametrize("pattern", [r" ?\w+", "gpt2", "cl100k", "o200k", "qwen2"])
def test_lowest_newer_widest(pattern):
    tokenizer = made_of(LOWEST, pattern)
    assert [token.decode() for token in tokenizer.vocabulary.tokens[256:]] == [a + b for a, b in LOWEST]
    assert pieces(tokenizer, "lowest") == ["low", "est"]
    assert pieces(tokenizer, "newer") == ["n", "e", "w", "e", "r"]
    assert pieces(tokenizer, "widest low") == ["w", "i", "d", "est", " low"]


def test_these_merges_are_learned_from_the_corpus_of_the_textbooks():
    corpus = "low low low low low lower lower newest newest newest newest newest newest widest widest widest"
    learned = reference.learn(reference.count([corpus], r" ?\w+"), 10, tie_break="first")
    assert [learned.tokens[merge.id].decode() for merge in learned.merges] == [a + b for a, b in LOWEST]
    tokenizer = made_of(LOWEST, r" ?\w+")
    merges = {(merge.left, merge.right): merge.id for merge in learned.merges}
    for word in corpus.split(" "):
        for spelt in (word, " " + word):
            assert tokenizer.encode(spelt) == reference.encode(spelt.encode(), merges, range(256))


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base"])
def test_rank_order_is_not_longest_match(name, published):
    """An earlier merge takes a part of what would be the longest token."""
    tokenizer = made_of([("b", "c"), ("a", "b"), ("ab", "c")], "none")
    longest = Tokenizer(tokenizer.vocabulary, method="longest_match")
    assert pieces(tokenizer, "abc") == ["a", "bc"] and pieces(longest, "abc") == ["abc"]
    real = published(name)
    greedy = Tokenizer(real.vocabulary, method="longest_match")
    differing = [word for word in (" unbelievably", " horseshoes", " tokenizations", " antidisestablishmentarianism") if real.encode(word) != greedy.encode(word)]
    assert differing
    for word in differing:
        assert real.decode(real.encode(word)) == greedy.decode(greedy.encode(word)) == word


HUGS = [("u", "g"), ("u", "n"), ("h", "ug"), ("p", "un"), ("p", "ug"), ("hug", "s"), ("b", "un")]


def test_hugs():
    """With ug un hug pun pug hugs bun, word by word: `whitespace` leaves out what is between the words."""
    tokenizer = made_of(HUGS, "whitespace")
    assert pieces(tokenizer, "hug hug pug pun pun bun hugs hug bun uh") == "hug hug pug pun pun bun hugs hug bun u h".split()
    assert tokenizer.count("hug hug pug pun pun bun hugs hug bun uh") == 11
    learned = train({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 256 + 7)
    assert {merge.token for merge in learned.merges} >= {b"ug", b"un", b"hug", b"pun", b"hugs"}


@settings(max_examples=300, deadline=None)
@given(anything())
def test_nothing_is_lost(data):
    for tokenizer in lossless():
        ids = tokenizer.encode(data)
        assert tokenizer.decode_bytes(ids) == data
        assert tokenizer.count(data) == len(ids)


@lru_cache(None)
def lossless():
    text = "low lower lowest newest widest, l'été 12345 的机器学习 한국어\n\n  x = y" * 3
    patterns = ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "none", r" ?\w+", r"\w+", r"\d"]
    made = [Tokenizer(train(WordCounts.from_documents([text], pattern=pattern), 340)) for pattern in patterns]
    return [*made, made_of(LOWEST, "gpt2"), made_of(LOWEST, "none"), Tokenizer(made[2].vocabulary, method="longest_match")]


@settings(max_examples=150, deadline=None)
@given(anything())
@example(b"a b\xff low")
def test_whitespace_leaves_out_whitespace_and_nothing_else(data):
    """Bytes that are no text as well: what is wrong in them belongs to a word, as U+FFFD would."""
    words = regex.findall(r"\S+", data.decode("utf-8", "surrogateescape"))
    tokenizer = small("whitespace")
    assert tokenizer.decode_bytes(tokenizer.encode(data)) == "".join(words).encode("utf-8", "surrogateescape")


@lru_cache(None)
def small(pattern):
    return made_of(HUGS, pattern)
