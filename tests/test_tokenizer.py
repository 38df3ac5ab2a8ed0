"""Encoding and decoding: by hand, and equal to the reference, tiktoken and tokenizers."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import StreamDecoder, Tokenizer, Vocabulary, WordCounts, _encode, pre_tokenizer, reference, train
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.pretokenize import PATTERNS, PreTokenizer

TEXT = (
    "The newest lowlands aren't lower than 12345 others… naïve café: größte Übergröße, x = y+1;\n\n    return 0\n"
    "機器學習模型的訓練資料和机器学习模型的训练数据。日本語のテキストと、한국어 텍스트. Это русский текст, самый новый! " * 20
)
SPECIAL = ["<|end|>", "<|end|>2"]


def vocabulary_of(pairs, pattern):
    """Return the vocabulary of merges given as pairs of texts, by rank."""
    tokens = [bytes([b]) for b in range(256)]
    left, right = [], []
    for a, b in pairs:
        left.append(tokens.index(a.encode()))
        right.append(tokens.index(b.encode()))
        tokens.append((a + b).encode())
    ones = np.ones(len(left), np.int64)
    sides = np.array(left, np.uint32), np.array(right, np.uint32)
    return Vocabulary(pre_tokenizer(pattern), bytes(range(256)), *sides, ones, ones)


def pieces(tokenizer, text):
    return [tokenizer.token_bytes(i).decode("utf-8", "backslashreplace") for i in tokenizer.encode(text)]


@pytest.fixture(scope="module", params=["o200k", "gpt2", "cl100k", "qwen2"])
def tokenizer(request):
    words = WordCounts.from_documents([TEXT], pattern=request.param, special_tokens=SPECIAL)
    return Tokenizer(train(words, 900, special_tokens=SPECIAL))


def test_by_rank_and_not_by_longest_match():
    merges = [("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w"), (" ", "low"), (" ", "n"), (" n", "e"), (" ne", "w"),
              (" new", "est"), (" ", "w")]  # fmt: skip
    tokenizer = Tokenizer(vocabulary_of(merges, "gpt2"))
    assert pieces(tokenizer, "lowest") == ["low", "est"]
    assert pieces(tokenizer, "newer") == ["n", "e", "w", "e", "r"]
    assert pieces(tokenizer, "widest low") == ["w", "i", "d", "est", " low"]


def test_hugs():
    tokenizer = Tokenizer(train({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 256 + 7))
    words = "hug hug pug pun pun bun hugs hug bun uh".split()
    assert [p for word in words for p in pieces(tokenizer, word)] == words[:-1] + ["u", "h"]


def test_equals_tiktoken(tokenizer):
    tiktoken = pytest.importorskip("tiktoken")
    vocabulary = tokenizer.vocabulary
    theirs = tiktoken.Encoding(
        "ours",
        pat_str=PATTERNS[vocabulary.pre_tokenizer.name],
        mergeable_ranks={token: i for i, token in enumerate(vocabulary.tokens)},
        special_tokens=vocabulary.special_ids,
    )
    rng = random.Random(7)
    texts = [TEXT, *("".join(rng.choices(TEXT, k=rng.randrange(1, 200))) for _ in range(500))]
    texts += [rng.choice(["a", "ab", " ", "\n", "的", "é", "0", "-="]) * rng.choice([1, 2, 7, 47, 48, 49, 50, 99, 1000]) for _ in range(300)]
    for text in texts:
        assert tokenizer.encode(text) == theirs.encode_ordinary(text), text
    text = "a  <|end|>b"
    assert tokenizer.encode(text, allowed_special="all") == theirs.encode(text, allowed_special="all")
    assert tokenizer.encode(text, disallowed_special=()) == theirs.encode(text, disallowed_special=())


def test_equals_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    words = WordCounts.from_documents([TEXT], pattern="gpt2")
    ours = Tokenizer(train(words, 700))
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2
    )
    theirs.train_from_iterator([TEXT], trainer)
    for start in range(0, len(TEXT), 97):
        text = TEXT[start : start + 150]
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("ordered", [True, False])
def test_equals_the_reference_on_random_merges(ordered):
    """Merges in the order of learning, and shuffled, so that a part may be made after the whole."""
    rng = random.Random(11)
    seen = set()
    for _ in range(150):
        alphabet = rng.choice([b"ab", b"abc", b"a", "é的".encode()])
        words = {bytes(rng.choices(alphabet, k=rng.randrange(1, 30))): rng.randrange(1, 9) for _ in range(20)}
        vocabulary = train(words, 256 + rng.randrange(0, 40), min_pair_count=1)
        merges = list(zip(vocabulary.left.tolist(), vocabulary.right.tolist(), range(256, 256 + len(vocabulary.left))))
        if not ordered:
            rng.shuffle(merges)
        columns = np.array(merges, np.uint32).reshape(-1, 3).T
        byte_ids = np.array([vocabulary.ids[bytes([b])] for b in range(256)], np.uint32)
        starts = np.cumsum([0, *map(len, vocabulary.tokens)], dtype=np.int64)
        encoder = _encode.Encoder(b"".join(vocabulary.tokens), starts, byte_ids, *map(np.ascontiguousarray, columns))
        seen.add(encoder.ordered)
        rank_ids = {(a, b): 256 + rank for rank, (a, b, _) in enumerate(merges)}
        made = {256 + rank: token for rank, (_, _, token) in enumerate(merges)}
        for _ in range(10):
            word = bytes(rng.choices(alphabet, k=rng.choice([1, 2, 5, 15, 16, 48, 49, 120])))
            ids, _ = encoder.encode(word, np.array([0, len(word)]), -1)
            if ordered:
                expected = reference.encode(word, rank_ids, byte_ids.tolist())
            else:
                expected = merged_by_rank(word, merges, byte_ids.tolist())
            assert np.frombuffer(ids, np.uint32).tolist() == expected
        assert not ordered or all(made[i] == i for i in made)
    assert True in seen if ordered else False in seen


def merged_by_rank(word, merges, byte_ids):
    """Merge the leftmost pair of the lowest rank until none is left."""
    ranks = {(a, b): rank for rank, (a, b, _) in reversed(list(enumerate(merges)))}
    ids = [byte_ids[b] for b in word]
    while found := [(ranks[pair], i) for i, pair in enumerate(zip(ids, ids[1:])) if pair in ranks]:
        rank, i = min(found)
        ids[i : i + 2] = [merges[rank][2]]
    return ids


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8", "replace"))))
def test_nothing_is_lost(data):
    for tokenizer in lossless():
        assert tokenizer.decode_bytes(tokenizer.encode(data)) == data


def lossless(made=[]):
    if not made:
        made += [Tokenizer(train(WordCounts.from_documents([TEXT], pattern=p), 600)) for p in ("o200k", "gpt2", r"\w+")]
    return made


def test_bytes_that_are_no_text_are_cut_like_their_replacement(tokenizer):
    assert tokenizer.encode(TEXT.encode()) == tokenizer.encode(TEXT)
    data = b"low\xff\xfe 12\xe7\x9a345 caf\xc3"
    cut = [word.encode() for word in tokenizer.vocabulary.pre_tokenizer.split(data.decode("utf-8", "replace"))]
    assert b"".join(cut).count("\ufffd".encode()) == 4
    assert tokenizer.decode_bytes(tokenizer.encode(data)) == data
    assert tokenizer.encode("a\ud83d\ude00b\ud800") == tokenizer.encode("a😀b\ufffd")


def test_special_tokens_are_blocked_unless_allowed(tokenizer):
    end, end2 = (tokenizer.special_tokens[token] for token in SPECIAL)
    with pytest.raises(ValueError, match=r"special token '<\|end\|>' at byte 2: pass allowed_special"):
        tokenizer.encode("a <|end|>")
    assert tokenizer.encode("a<|end|>b", allowed_special={"<|end|>"}) == [*tokenizer.encode("a"), end, *tokenizer.encode("b")]
    assert tokenizer.encode("<|end|>2", allowed_special="all") == [end2]  # the longest
    as_text = tokenizer.encode("a<|end|>b", disallowed_special=())
    assert end not in as_text and tokenizer.decode(as_text) == "a<|end|>b"
    assert tokenizer.decode([end2, end]) == "<|end|>2<|end|>"
    with pytest.raises(ValueError, match="is no special token"):
        tokenizer.encode("a", allowed_special={"<|no|>"})


def test_streams_never_hold_half_a_character(tokenizer):
    ids = tokenizer.encode(TEXT[:400])
    stream = StreamDecoder(tokenizer)
    given = [stream.push(i) for i in ids]
    assert "".join(given) + stream.flush() == TEXT[:400] and "\ufffd" not in "".join(given)
    stream.push(tokenizer.id_of(b"\xe7"))
    assert stream.flush() == "\ufffd" and stream.flush() == ""


def test_offsets_counts_and_batches_agree(tokenizer):
    ids, offsets = tokenizer.encode_with_offsets(TEXT)
    data = TEXT.encode()
    assert ids == tokenizer.encode(TEXT) and [data[i:j] for i, j in offsets] == list(map(tokenizer.token_bytes, ids))
    assert tokenizer.count(TEXT) == len(ids)
    texts = [TEXT[i : i + 50] for i in range(0, 1000, 50)] + [""]
    batch = tokenizer.encode_batch(texts)
    assert [one.tolist() for one in batch] == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(batch) == texts
    assert tokenizer.encode("") == [] and tokenizer.encode_with_offsets("") == ([], [])


def test_documents_side_by_side(tokenizer):
    texts = [TEXT[i : i + 70].encode() for i in range(0, 2000, 70)] + [b"", b"x"]
    stops = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    for one in (tokenizer, *lossless()):
        ids, ends, *_ = one.encode_documents(b"".join(texts), np.ascontiguousarray(np.repeat(stops, 2)[1:-1]))
        split = np.split(ids, ends[:-1])
        assert [part.tolist() for part in split] == [one.encode(text) for text in texts]


def test_caches_threads_and_pickles_change_nothing(tokenizer):
    expected = tokenizer.encode(TEXT)
    small = Tokenizer(tokenizer.vocabulary, cache_bytes=1)
    assert small.encode(TEXT) == expected == pickle.loads(pickle.dumps(tokenizer)).encode(TEXT)
    with ThreadPoolExecutor(8) as pool:
        assert all(ids == expected for ids in pool.map(tokenizer.encode, [TEXT] * 40))


def test_ids_and_tokens(tokenizer):
    assert tokenizer.vocab_size == len(tokenizer.vocabulary)
    assert tokenizer.token_bytes(tokenizer.id_of("<|end|>")) == b"<|end|>"
    for wrong in (-1, tokenizer.vocab_size, 10**12):
        for call in (tokenizer.token_bytes, lambda i: tokenizer.decode([i])):
            with pytest.raises(KeyError, match="is no token of this vocabulary"):
                call(wrong)
    with pytest.raises(KeyError, match="is no token"):
        tokenizer.id_of("no such token")


def test_saved_and_loaded(tokenizer, tmp_path):
    tokenizer.vocabulary.save(str(tmp_path))
    assert Tokenizer.load(str(tmp_path)).encode(TEXT) == tokenizer.encode(TEXT)


def test_wrong_models_are_refused():
    tokens, starts = bytes(range(256)), np.arange(257, dtype=np.int64)
    ids, none = np.arange(256, dtype=np.uint32), np.empty(0, np.uint32)
    one = np.array([97], np.uint32)
    with pytest.raises(ValueError, match="has no token of its own"):
        _encode.Encoder(tokens, starts, ids[::-1].copy(), none, none, none)
    with pytest.raises(ValueError, match="do not make its token"):
        _encode.Encoder(tokens, starts, ids, one, one, one)
    with pytest.raises(ValueError, match="does not exist"):
        _encode.Encoder(tokens, starts, ids, one, one, np.array([300], np.uint32))
    with pytest.raises(ValueError, match="outside of the tokens"):
        _encode.Encoder(tokens[:10], starts, ids, none, none, none)
    encoder = _encode.Encoder(tokens, starts, ids, none, none, none)
    with pytest.raises(ValueError, match="document 0"):
        encoder.encode(b"abc", np.array([0, 9]), 0)
    with pytest.raises(KeyError):
        encoder.decode(np.array([256], np.uint32))


def test_runs_and_long_pieces_are_bounded():
    """A million equal letters are one node, whatever their number: the ids are those of halves and halves."""
    tokenizer = Tokenizer(train({"a" * 64: 5}, 256 + 6, min_pair_count=1))
    assert [len(t) for t in tokenizer.vocabulary.tokens[256:]] == [2, 4, 8, 16, 32, 64]
    ids = tokenizer.encode("a" * 1_000_000)
    assert len(ids) == 1_000_000 // 64 and tokenizer.decode(ids) == "a" * 1_000_000


# ---- the face: tokenizers with layouts of their own, random ones, and plain Python beside them ----


def foreign(tokens=(), merges=(), added=(), pattern="gpt2", **fields):
    """Return the tokenizer of a vocabulary with a layout: the bytes, `tokens`, and merges of any order."""
    spelt = [*(bytes([b]) for b in range(256)), *tokens]
    ids = {token: i for i, token in enumerate(spelt)}
    columns = np.array([(ids[a], ids[b], ids[a + b]) for a, b in merges], np.uint32).reshape(-1, 3).T
    zeros = np.zeros(len(merges), np.int64)
    options = {name: fields.pop(name) for name in ("method", "cache_bytes") if name in fields}
    normalizer = fields.pop("normalizer", None)
    layout = Layout(tuple(spelt), columns[2].copy(), tuple(added), **fields)
    special = tuple(token.text for token in added if token.special)
    chosen = pattern if isinstance(pattern, PreTokenizer) else pre_tokenizer(pattern)
    vocabulary = Vocabulary(
        chosen, layout.alphabet, columns[0].copy(), columns[1].copy(), zeros, zeros, special, normalizer, layout=layout
    )
    return Tokenizer(vocabulary, **options)


def random_tokenizer(rng, alphabet, number, pattern="none", ordered=True, **fields):
    """Random merges of the characters of an alphabet; shuffled, a part may be made after the whole."""
    parts = [char.encode() for char in alphabet]
    tokens, merges = [], []
    for char in parts:  # the characters themselves, most of them
        if len(char) > 1 and rng.random() < 0.9:
            for stop in range(2, len(char) + 1):
                if char[:stop] not in tokens:
                    tokens.append(char[:stop])
                    merges.append((char[: stop - 1], char[stop - 1 : stop]))
    known = [part for part in parts if len(part) == 1 or part in tokens]
    for _ in range(number):
        left, right = rng.choice(known), rng.choice(known)
        if left + right not in tokens and len(left + right) < 30:
            tokens.append(left + right)
            merges.append((left, right))
            known.append(left + right)
    if not ordered:
        rng.shuffle(merges)
    return foreign(tokens, merges, pattern=pattern, **fields), merges


def by_rank(tokenizer, merges, word):
    """Merge the leftmost pair of the lowest rank until none is left."""
    ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
    parts = [word[i : i + 1] for i in range(len(word))]
    while found := [(ranks[pair], i) for i, pair in enumerate(zip(parts, parts[1:])) if pair in ranks]:
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [tokenizer.id_of(part) for part in parts]


def side_by_side(documents):
    stops = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return b"".join(documents), np.ascontiguousarray(np.repeat(stops, 2)[1:-1])


def texts_for(rng, number=60):
    """Texts with special tokens, bytes that are none, and nothing at all."""
    parts = [*SPECIAL, *SPECIAL, "<|end|", "a", " ", "  ", "low", "est", "\n", "'s", "12", "的机器", "é", "!"]
    texts = ["", "".join(SPECIAL)]
    for _ in range(number):
        text = "".join(rng.choices(parts, k=rng.randrange(1, 9)))
        at = rng.randrange(len(text) + 1)
        texts += [text, text.encode(), text.encode()[:at] + b"\xff\xe7\x9a" + text.encode()[at:]]
    return texts


def raw(text):
    return text.encode() if isinstance(text, str) else text


# ---- against plain Python ----

CJK = "的机器学习一是不了人我在有他这中大来上国"


@pytest.mark.parametrize("ordered", [True, False])
def test_barriers_change_nothing(ordered):
    """Long words of characters most of which stand side by side in no token: they are cut there."""
    rng = random.Random(f"barriers {ordered}")
    barriers = crossed = 0
    for _ in range(60):
        tokenizer, merges = random_tokenizer(rng, CJK[: rng.choice([3, 6, 20])] + rng.choice(["", "a", "é"]), rng.randrange(0, 30), ordered=ordered)
        tokens = [token.decode("utf-8", "ignore") for token in tokenizer.vocabulary.tokens]
        adjacent = {token[i : i + 2] for token in tokens for i in range(len(token) - 1)}
        for _ in range(15):
            word = "".join(rng.choices(CJK[:6] + "aé", k=rng.choice([6, 12, 40])))
            data = word.encode()[rng.randrange(3) : len(word.encode()) - rng.randrange(3)]  # halves at its ends
            if len(data) > 15:
                barriers += sum(word[i : i + 2] not in adjacent for i in range(len(word) - 1))
                crossed += sum(word[i : i + 2] in adjacent for i in range(len(word) - 1))
            expected = by_rank(tokenizer, merges, data)
            for _ in range(2):  # and from the cache
                assert tokenizer.encode(data) == expected, (merges, data)
    assert barriers > 5000 and crossed > 1000


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("lengths", [(1, 15), (16, 24), (25, 31), (32, 300), (769, 900), (1025, 1100)])
def test_each_way_of_merging(lengths, ordered):
    """By looking at all pairs, by a heap, window by window; short words and long ones from their caches."""
    rng = random.Random(f"{lengths} {ordered}")
    for _ in range(4 if lengths[1] > 700 else 40):
        tokenizer, merges = random_tokenizer(rng, rng.choice(["a", "ab", "abc", "abcd"]), rng.randrange(1, 40), ordered=ordered)
        for _ in range(5):
            word = b""
            while len(word) < lengths[0]:
                word += bytes(rng.choices(b"abcd", k=rng.randrange(1, 5))) * rng.choice([1, 1, 2, 30])
            word = word[: rng.randint(*lengths)]
            assert lengths[0] <= len(word) <= lengths[1]
            expected = by_rank(tokenizer, merges, word)
            assert tokenizer.encode(word) == expected == tokenizer.encode(word), (merges, word)


def test_the_end_of_a_long_word_decides_about_what_is_far_before_it():
    """Ranks fall to the right, so which of two neighbours a letter goes to depends on the letters up to z."""
    letters = bytes(range(33, 127))
    pairs = [(letters[i : i + 1], letters[i + 1 : i + 2]) for i in range(len(letters) - 2, -1, -1)]
    tokenizer = foreign([a + b for a, b in pairs], pairs, pattern="none")
    firsts = set()
    for start in range(4):
        for stop in range(4):
            word = letters[start:] + letters * 12 + letters[: 40 + stop]
            assert len(word) > 1024
            ids = tokenizer.encode(word)
            assert ids == by_rank(tokenizer, pairs, word)
            firsts.add(len(tokenizer.token_bytes(ids[0])))
    assert firsts == {1, 2}


def test_reference_on_learned_vocabularies(tokenizer):
    vocabulary = tokenizer.vocabulary
    merges = {(merge_left, merge_right): 256 + i for i, (merge_left, merge_right) in enumerate(zip(vocabulary.left.tolist(), vocabulary.right.tolist()))}
    byte_ids = [vocabulary.ids[bytes([b])] for b in range(256)]
    rng = random.Random(2)
    for _ in range(150):
        text = "".join(rng.choices(TEXT, k=rng.randrange(0, 150)))
        words = reference.pre_tokenize(text, PATTERNS[vocabulary.pre_tokenizer.name])
        assert tokenizer.encode(text) == [i for word in words for i in reference.encode(word.encode(), merges, byte_ids)]


def test_a_cache_that_is_wiped_all_the_time():
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefgh", k=rng.choice([2, 5, 14, 15, 16, 24, 31, 32]))) for _ in range(500)]
    # one behind the other, words that differ in eight bytes of their keys only
    for length in (14, 15, 30, 31):
        for start in range(0, length, 8):
            other = ["".join(rng.choices("abcdefgh", k=min(8, length - start))) for _ in range(120)]
            words += [("abcdefgh" * 4)[:start] + part + ("abcdefgh" * 4)[start + len(part) : length] for part in other]
    # learned from these words, so that they give few ids and are kept
    vocabulary = train(WordCounts.from_documents([" ".join(words)], pattern="whitespace"), 2500, min_pair_count=1)
    merges = {pair: 256 + i for i, pair in enumerate(zip(vocabulary.left.tolist(), vocabulary.right.tolist()))}
    byte_ids = [vocabulary.ids[bytes([b])] for b in range(256)]
    expected = {word: reference.encode(word.encode(), merges, byte_ids) for word in set(words)}
    short = [word for word, ids in expected.items() if len(word) < 16 and len(ids) <= 4]
    wide = [word for word, ids in expected.items() if 16 <= len(word) < 32 and len(ids) <= 8]
    assert len(short) > 300 and len(wide) > 500  # a cache of no bytes has places for 64 of these and 16 of those
    text = " ".join(words * 2)
    tokenizer, tiny = Tokenizer(vocabulary), Tokenizer(vocabulary, cache_bytes=0)
    for one in (tokenizer, tiny, tokenizer, tiny):
        assert one.encode(text) == [i for word in words * 2 for i in expected[word]]


@pytest.mark.parametrize("pattern", ["none", "gpt2", "whitespace"])
def test_longest_match_is_the_longest_token_at_each_place(pattern):
    rng = random.Random(f"longest {pattern}")
    for _ in range(30):
        made, _ = random_tokenizer(rng, rng.choice(["ab", "abc", "的机a"]), rng.randrange(1, 40), pattern)
        tokenizer = Tokenizer(made.vocabulary, method="longest_match")
        tokens = {token: i for i, token in enumerate(made.vocabulary.tokens) if token}
        longest = max(map(len, tokens))
        differs = 0
        for _ in range(30):
            text = "".join(rng.choices("aab b的机", k=rng.randrange(0, 40)))
            expected = []
            for word in made.vocabulary.pre_tokenizer.split(text):
                data, at = word.encode(), 0
                while at < len(data):
                    stop = next(stop for stop in range(min(len(data), at + longest), at, -1) if data[at:stop] in tokens)
                    expected.append(tokens[data[at:stop]])
                    at = stop
            assert tokenizer.encode(text) == expected
            assert tokenizer.count(text) == len(expected)
            differs += expected != made.encode(text)
    with pytest.raises(ValueError, match="method='longest': choose one of rank, longest_match"):
        Tokenizer(made.vocabulary, method="longest")


def test_the_two_methods_differ():
    merges = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")]
    rank = foreign([b"bc", b"ab", b"abc"], merges)
    longest = Tokenizer(rank.vocabulary, method="longest_match")
    assert (pieces(rank, "abc"), pieces(longest, "abc")) == (["a", "bc"], ["abc"])
    # tokens that no merge makes are matched as well, and are whole words only where the layout says so
    rank = foreign([b"abab"])
    assert pieces(rank, "abab") == ["a", "b", "a", "b"]
    assert pieces(foreign([b"abab"], whole_pieces=True), "abab ababa") == ["abab", " ", "a", "b", "a", "b", "a"]
    assert pieces(Tokenizer(rank.vocabulary, method="longest_match"), "ababa") == ["abab", "a"]


# ---- dropout ----


def test_dropout_of_nothing_and_of_everything(tokenizer):
    for text in (TEXT, "", b"low\xff\xe7\x9a 12", "a\ud800b"):
        assert tokenizer.encode_dropout(text, 0.0) == tokenizer.encode(text)
        data = raw(text) if text != "a\ud800b" else "a\ufffdb".encode()
        assert [tokenizer.token_bytes(i) for i in tokenizer.encode_dropout(text, 1.0)] == [bytes([b]) for b in data]


def test_dropout_is_a_function_of_text_dropout_and_seed(tokenizer):
    once = tokenizer.encode_dropout(TEXT, 0.3, seed=5)
    assert once == tokenizer.encode_dropout(TEXT, 0.3, seed=5) == tokenizer.encode_dropout(TEXT.encode(), 0.3, 5)
    assert once == pickle.loads(pickle.dumps(tokenizer)).encode_dropout(TEXT, 0.3, 5)
    assert once == Tokenizer(tokenizer.vocabulary, cache_bytes=0).encode_dropout(TEXT, 0.3, 5)
    assert len({tuple(tokenizer.encode_dropout(TEXT, 0.3, seed)) for seed in (5, 6, 7, -1, 1 << 70)}) == 5
    lengths = [len(tokenizer.encode_dropout(TEXT, dropout, 1)) for dropout in (0, 0.2, 0.5, 0.8, 1)]
    assert lengths == sorted(set(lengths))
    for dropout in (0.1, 0.5, 0.9):
        for text in (TEXT, b"low lowest\xff " * 30):
            assert tokenizer.decode_bytes(tokenizer.encode_dropout(text, dropout, 3)) == raw(text)


def test_dropout_makes_what_merges_can_make_as_often_as_they_do():
    """abc by ab and then abc: with 1 - p the first merge, with 1 - p the second."""
    tokenizer = foreign([b"ab", b"abc"], [(b"a", b"b"), (b"ab", b"c")], pattern="whitespace")
    for dropout in (0.1, 0.5, 0.8):
        words = 4000
        ids = tokenizer.encode_dropout("abc " * words, dropout, seed=9)  # equal words of a text, each in its own way
        found = {"abc": ids.count(257), "ab": ids.count(256), "a": ids.count(97)}
        assert sum(found.values()) == words
        for token, probability in (("abc", (1 - dropout) ** 2), ("ab", (1 - dropout) * dropout), ("a", dropout)):
            error = (words * probability * (1 - probability)) ** 0.5
            assert abs(found[token] - words * probability) < 5 * error + 1, (dropout, token, found)
        # and the same over seeds, and where bytes are no text
        for text in (b"abc", b"abc\xff"):
            whole = sum(257 in tokenizer.encode_dropout(text, dropout, seed) for seed in range(1000))
            assert abs(whole - 1000 * (1 - dropout) ** 2) < 5 * 16 + 1


def test_dropout_finds_added_tokens_that_are_not_special():
    added = [AddedToken("<x>", 256, special=False), AddedToken("<|end|>", 257)]
    tokenizer = foreign(added=added)
    text = "a<x>b<|end|>"
    assert 256 in tokenizer.encode(text, disallowed_special=())
    assert tokenizer.encode_dropout(text, 0.0) == tokenizer.encode(text, disallowed_special=())


def test_dropout_that_is_refused(tokenizer):
    for dropout in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            tokenizer.encode_dropout("a", dropout)
    with pytest.raises(ValueError, match="'longest_match' of 'bpe' makes none"):
        Tokenizer(tokenizer.vocabulary, method="longest_match").encode_dropout("a", 0.5)


# ---- special and other added tokens ----


def test_overlapping_special_tokens_leftmost_and_longest():
    texts = ["<a>", "<a>b", "a>b", "<a><a>", "><", "的", "的机"]
    tokenizer = foreign(added=[AddedToken(text, 256 + i) for i, text in enumerate(texts)])
    rng = random.Random(4)
    found = 0
    for _ in range(600):
        text = "".join(rng.choices(["<a>", "<a>", "<a>b", "<", "a", ">", "b", "的", "的机", " "], k=rng.randrange(1, 10)))
        allowed = rng.sample(texts, rng.randrange(1, len(texts) + 1))
        expected, at = [], 0
        while at < len(text):
            here = [token for token in allowed if text.startswith(token, at)]
            token = max(here, key=len) if here else text[at]
            expected += [256 + texts.index(token)] if here else [*token.encode()]
            at += len(token)
            found += len(here) > 1
        assert tokenizer.encode(text, allowed_special=set(allowed), disallowed_special=()) == expected, (text, allowed)
        ids, offsets = tokenizer.encode_with_offsets(text, allowed_special=allowed, disallowed_special=())
        assert ids == expected and [text.encode()[i:j] for i, j in offsets] == list(map(tokenizer.token_bytes, ids))
    assert found > 200


def test_what_is_allowed_and_what_is_not(tokenizer):
    calls = [tokenizer.encode, tokenizer.count, tokenizer.encode_with_offsets, lambda text, **o: tokenizer.encode_batch(["a", text], **o)]
    for call in calls:
        with pytest.raises(ValueError, match=r"special token '<\|end\|>' at byte 3: pass allowed_special=\{'<\|end\|>'\} .* disallowed_special=\(\)"):
            call("é <|end|>")
        with pytest.raises(ValueError, match="at byte 3"):
            call("é <|end|>".encode())
        with pytest.raises(ValueError, match="at byte 1"):
            call(b"\xff<|end|>")
        with pytest.raises(ValueError, match=r"'<\|end\|>2' at byte 0"):
            call("<|end|>2", disallowed_special={"<|end|>2"})
        call("<|end|>", disallowed_special={"<|end|>2"})
        call("<|end|", disallowed_special="all")
        for options in ({"allowed_special": {"<|no|>"}}, {"disallowed_special": ["<|no|>"]}):
            for text in ("a", "<|end|>"):
                with pytest.raises(ValueError, match=r"'<\|no\|>' is no special token of this vocabulary; it has \['<\|end\|>', '<\|end\|>2'\]"):
                    call(text, **options)
    # what is allowed is not refused, even if it is among the disallowed ones
    end = tokenizer.special_tokens["<|end|>"]
    for allowed in ("all", {"<|end|>"}, ["<|end|>"], ("<|end|>",), frozenset(["<|end|>"])):
        assert tokenizer.encode("<|end|>", allowed_special=allowed) == [end]
    assert tokenizer.encode("<|end|>", allowed_special={"<|end|>"}, disallowed_special={"<|end|>"}) == [end]
    plain = Tokenizer(train({"a": 1}, 256))
    assert plain.special_tokens == {} and len(plain.encode("<|end|>")) == 7
    with pytest.raises(ValueError, match="is no special token"):
        plain.encode("a", allowed_special={"<|end|>"})
    tokenizer.special_tokens.clear()  # a copy
    assert set(tokenizer.special_tokens) == set(SPECIAL)


def test_added_tokens_that_are_not_special_are_always_found():
    added = [AddedToken("<x>", 256, special=False), AddedToken("<|end|>", 257)]
    tokenizer = foreign(added=added, prefix=(257,), suffix=(257, 256))
    expected = [97, 256, 98]
    assert tokenizer.encode("a<x>b") == expected == tokenizer.encode(b"a<x>b") and tokenizer.count("a<x>b") == 3
    assert tokenizer.encode_with_offsets("é<x>b") == ([0xC3, 0xA9, 256, 98], [(0, 1), (1, 2), (2, 5), (5, 6)])
    assert tokenizer.encode_batch(["a<x>b", "", "<x>"])[0].tolist() == expected
    for special in ("text", "encode", "drop", "fail"):
        assert tokenizer.encode_arrow(pa.array(["a<x>b"]), special=special).to_pylist() == [expected]
    assert tokenizer.special_tokens == {"<|end|>": 257}
    assert tokenizer.encode("a<x>b", add_special_tokens=True) == [257, *expected, 257, 256]
    batch = tokenizer.encode_batch(["a<x>b", ""], add_special_tokens=True)
    assert [ids.tolist() for ids in batch] == [[257, *expected, 257, 256], [257, 257, 256]]
    with pytest.raises(ValueError, match="is no special token"):
        tokenizer.encode("a", allowed_special={"<x>"})


def test_policies_for_special_tokens_of_a_corpus(tokenizer):
    end, end2 = (tokenizer.special_tokens[token] for token in SPECIAL)
    texts = ["a  <|end|> b", "<|end|>2", "", "<|end|><|end|>", "no", "<|end|"]
    documents = side_by_side([text.encode() for text in texts])
    results = {special: tokenizer.encode_documents(*documents, special=special) for special in ("text", "encode", "drop")}
    assert [ids.tolist() for ids in results["text"].split()] == [tokenizer.encode(text, disallowed_special=()) for text in texts]
    assert [ids.tolist() for ids in results["encode"].split()] == [tokenizer.encode(text, allowed_special="all") for text in texts]
    dropped = [[i for i in tokenizer.encode(text, allowed_special="all") if i not in (end, end2)] for text in texts]
    assert [ids.tolist() for ids in results["drop"].split()] == dropped and dropped[1] == dropped[3] == []
    assert [result.special for result in results.values()] == [0, 4, 4]
    with pytest.raises(ValueError, match=r"document 0 holds the special token '<\|end\|>' at byte 3, and special='fail'"):
        tokenizer.encode_documents(*documents, special="fail")
    with pytest.raises(ValueError, match=r"document 1 holds the special token '<\|end\|>' at byte 1"):
        tokenizer.encode_documents(*side_by_side([b"a", b"\xff<|end|>", b"<|end|>"]), special="fail")
    # half of it at the end of one document, half at the start of the next: none at all
    halves = side_by_side([b"a<|e", b"nd|>"])
    for special in ("text", "encode", "drop", "fail"):
        batch = tokenizer.encode_documents(*halves, special=special)
        assert batch.special == 0 and tokenizer.decode_documents(batch.ids, batch.ends)[1].tolist() == [4, 8]
    with pytest.raises(ValueError, match="special='skip': choose one of text, encode, drop, fail"):
        tokenizer.encode_documents(*documents, special="skip")


# ---- ways that must agree ----


def test_every_way_gives_the_same(tokenizer):
    rng = random.Random(5)
    texts = texts_for(rng)
    documents = [raw(text) for text in texts]
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    for allowed, special in (("all", "encode"), ((), "text")):
        options = {"allowed_special": allowed, "disallowed_special": ()}
        expected = [tokenizer.encode(text, **options) for text in texts]
        assert [len(ids) for ids in expected] == [tokenizer.count(text, **options) for text in texts]
        batch = tokenizer.encode_batch(iter(texts), **options)
        assert [ids.tolist() for ids in batch] == expected and {ids.dtype for ids in batch} == {np.dtype(np.uint32)}
        for width, kind in ((2, np.uint16), (4, np.uint32)):
            together = tokenizer.encode_documents(*side_by_side(documents), special=special, width=width)
            assert [ids.tolist() for ids in together.split()] == expected and together.ids.dtype == kind
        arrow = tokenizer.encode_arrow(pa.array(encoded, pa.binary()), special=special)
        assert arrow.to_pylist() == expected and arrow.type == pa.list_(pa.uint16())
        for most in (0, 1, 2, 5, 100):
            some = tokenizer.encode_documents(*side_by_side(documents), special=special, most=most)
            assert [ids.tolist() for ids in some.split()] == [ids[:most] for ids in expected]
        valid = [(text, ids) for text, ids in zip(documents, expected) if text.decode("utf-8", "ignore").encode() == text]
        assert len(valid) > 100  # these alone take another way
        for most in (None, 0, 1, 3):
            some = tokenizer.encode_documents(*side_by_side([text for text, _ in valid]), special=special, most=most)
            assert [ids.tolist() for ids in some.split()] == [ids[:most] for _, ids in valid]
        assert tokenizer.decode_batch(expected) == [text.decode("utf-8", "replace") for text in documents]
        data, ends = tokenizer.decode_documents(together.ids, together.ends)
        assert data == b"".join(documents) and ends.tolist() == np.cumsum([*map(len, documents)]).tolist()
        for text, ids in zip(texts, expected):
            again, offsets = tokenizer.encode_with_offsets(text, **options)
            assert again == ids and [raw(text)[i:j] for i, j in offsets] == [tokenizer.token_bytes(i) for i in ids]
            assert [i for i, _ in offsets] == [0, *(j for _, j in offsets)][: len(offsets)]
    assert tokenizer.encode_batch([]) == [] and tokenizer.decode_batch([]) == []


def test_offsets_are_refused_where_tokens_do_not_lie_side_by_side():
    for tokenizer in (foreign(pattern="whitespace"), foreign(normalizer="NFC"), foreign(pattern=pre_tokenizer(r"\w+", gaps="drop"))):
        with pytest.raises(ValueError, match="do not lie side by side"):
            tokenizer.encode_with_offsets("a b")


@pytest.mark.parametrize("pattern", ["whitespace", r"\w+"])
def test_gaps_are_left_out_of_bytes_that_are_no_text(pattern):
    """Words of bytes are those of the text with U+FFFD: what lies between them is lost, and no byte of a word is."""
    tokenizer = foreign(pattern=pre_tokenizer(pattern, gaps="drop"))
    assert tokenizer.decode_bytes(tokenizer.encode("low, low")) == (b"low,low" if pattern == "whitespace" else b"lowlow")
    assert tokenizer.decode_bytes(tokenizer.encode(b"a b\xff low")) == (b"ab\xfflow" if pattern == "whitespace" else b"ablow")
    data = "é b 的".encode() + b"\xe7\x9a \xffc"
    assert tokenizer.decode_bytes(tokenizer.encode(data)) == ("éb的".encode() + (b"\xe7\x9a\xffc" if pattern == "whitespace" else b"c"))
    batch = tokenizer.encode_documents(*side_by_side([data, b"a b"]))
    assert [ids.tolist() for ids in batch.split()] == [tokenizer.encode(data), [97, 98]]


def test_text_is_normalized():
    tokenizer = foreign([b"\xc3\xa9"], [(b"\xc3", b"\xa9")], normalizer="NFC")
    assert tokenizer.encode("e\u0301") == [256] == tokenizer.encode("é") == tokenizer.encode("e\u0301".encode())
    assert tokenizer.count("e\u0301e\u0301") == 2 and tokenizer.encode_batch(["e\u0301", ""])[0].tolist() == [256]
    assert tokenizer.encode_arrow(pa.array(["e\u0301", None, "a"])).to_pylist() == [[256], None, [97]]
    assert tokenizer.encode_dropout("e\u0301", 0.0) == [256]


def test_documents_that_are_parts_of_characters():
    """Side by side they are text; each by itself is not."""
    tokenizer = lossless()[0]
    data = "的".encode()
    batch = tokenizer.encode_documents(data + data, np.array([0, 2, 2, 3, 3, 6, 1, 4]))
    assert [ids.tolist() for ids in batch.split()] == [tokenizer.encode(part) for part in (data[:2], data[2:], data, data[1:] + data[:1])]
    assert tokenizer.decode_documents(batch.ids, batch.ends)[0] == data[:2] + data[2:] + data + data[1:] + data[:1]


def test_documents_that_do_not_exist(tokenizer):
    for data in (b"low low", b"low low\xff"):  # the native way, and the other
        for bounds in ([0, 70], [-3, 4], [3, 1]):
            with pytest.raises(ValueError, match="document 0"):
                tokenizer.encode_documents(data, np.array(bounds))
        with pytest.raises(ValueError):
            tokenizer.encode_documents(data, np.array([0, 2, 3]))
        with pytest.raises(ValueError, match="width=3"):
            tokenizer.encode_documents(data, np.array([0, 3]), width=3)
        with pytest.raises(ValueError, match="most=-1"):
            tokenizer.encode_documents(data, np.array([0, len(data)]), most=-1)
        empty = tokenizer.encode_documents(data, np.empty(0, np.int64))
        assert len(empty.ids) == len(empty.ends) == 0 and empty.split() == []


def test_threads_share_a_tokenizer(tokenizer):
    rng = random.Random(6)
    texts = texts_for(rng, 30) + [TEXT, TEXT[::-1]]
    options = {"allowed_special": "all"}

    def work(number):
        text = texts[number % len(texts)]
        kind = number // len(texts) % 4
        if kind == 0:
            return tokenizer.encode(text, **options)
        if kind == 1:
            return tokenizer.count(text, **options)
        if kind == 2:
            return tokenizer.encode_with_offsets(text, **options)
        return [ids.tolist() for ids in tokenizer.encode_batch(texts[number % len(texts) :], **options)]

    numbers = list(range(4 * len(texts)))
    serial = [work(number) for number in numbers]
    rng.shuffle(numbers)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, numbers)) == [serial[number] for number in numbers]


def test_pickles(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.vocabulary == tokenizer.vocabulary and again.special_tokens == tokenizer.special_tokens
    assert again.encode(TEXT) == tokenizer.encode(TEXT) and again.vocab_size == tokenizer.vocab_size
    assert len(pickle.dumps(tokenizer)) < 40 * tokenizer.vocab_size + 2000
    longest = pickle.loads(pickle.dumps(Tokenizer(tokenizer.vocabulary, method="longest_match", cache_bytes=100)))
    assert longest.method == "longest_match" and longest.encode(TEXT) == Tokenizer(tokenizer.vocabulary, method="longest_match").encode(TEXT)
    added = foreign([b"ab"], [(b"a", b"b")], [AddedToken("<x>", 300, special=False)], prefix=(300,), normalizer="NFC")
    copy = pickle.loads(pickle.dumps(added))
    assert copy.encode("ab<x>e\u0301", add_special_tokens=True) == added.encode("ab<x>é", add_special_tokens=True) == [300, 256, 300, 0xC3, 0xA9]


# ---- Arrow ----

COLUMN = ["low é <|end|>", None, "", "的机器", "newest", None]


def arrow_columns():
    binary = [text and text.encode() for text in COLUMN]
    strings = pa.array(COLUMN)
    yield "string", strings
    yield "large_string", pa.array(COLUMN, pa.large_string())
    yield "binary", pa.array(binary, pa.binary())
    yield "large_binary", pa.array(binary, pa.large_binary())
    if hasattr(pa, "string_view"):
        yield "string_view", pa.array(COLUMN, pa.string_view())
        yield "binary_view", pa.array(binary, pa.binary_view())
    yield "dictionary", strings.dictionary_encode()
    yield "dictionary of a null", pa.DictionaryArray.from_arrays([0, 1, 2, 3, 4, 1], pa.array(COLUMN[:5]))
    yield "chunked", pa.chunked_array([COLUMN[:2], COLUMN[2:2], COLUMN[2:]], pa.string())
    yield "chunked dictionary", pa.chunked_array([strings[:2].dictionary_encode(), strings[2:].dictionary_encode()])
    yield "sliced", pa.array(["x", *COLUMN, "y"])[1:-1]
    yield "sliced dictionary", pa.array(["x", *COLUMN, "y"]).dictionary_encode()[1:-1]
    yield "sliced of sliced chunks", pa.chunked_array([pa.array(["x", "y", *COLUMN[:3]])[1:], pa.array([*COLUMN[3:], "z"])])[1:-1]


@pytest.mark.parametrize("name, column", [*arrow_columns()], ids=[name for name, _ in arrow_columns()])
def test_columns_of_arrow(tokenizer, name, column):
    for special, options in (("text", {"disallowed_special": ()}), ("encode", {"allowed_special": "all"})):
        ids = tokenizer.encode_arrow(column, special=special)
        ids.validate(full=True)
        assert ids.type == pa.list_(pa.uint16()) and len(ids) == len(column)
        assert ids.to_pylist() == [text if text is None else tokenizer.encode(text, **options) for text in COLUMN]
        assert ids.null_count == 2
    with pytest.raises(ValueError, match="document 0 holds the special token"):
        tokenizer.encode_arrow(column, special="fail")


def test_small_columns_of_arrow(tokenizer):
    for column in (pa.array([], pa.string()), pa.array(["a"])[1:], pa.chunked_array([], pa.string()), pa.array([], pa.binary())):
        ids = tokenizer.encode_arrow(column)
        assert len(ids) == 0 and ids.type == pa.list_(pa.uint16())
    for column in (pa.array([None, None], pa.string()), pa.array([None, None], pa.large_binary()), pa.nulls(2)):
        assert tokenizer.encode_arrow(column).to_pylist() == [None, None]
    assert tokenizer.encode_arrow(pa.array(["", ""])).to_pylist() == [[], []]
    broken = [b"low\xff", None, b"\xe7\x9a", b"\x84 x"]
    expected = [text if text is None else tokenizer.encode(text) for text in broken]
    assert tokenizer.encode_arrow(pa.array(broken)).to_pylist() == expected
    # decoded as a column's lists
    ids = tokenizer.encode_arrow(pa.array(["low", "", "的"]))
    assert tokenizer.decode_batch(ids.to_pylist()) == ["low", "", "的"]
    data, ends = tokenizer.decode_documents(ids.values.to_numpy(), ids.offsets.to_numpy()[1:])
    assert data == "low的".encode() and ends.tolist() == [3, 3, 6]


def test_ids_have_two_bytes_as_long_as_they_fit():
    for size, kind in ((65536, pa.uint16()), (65537, pa.uint32())):
        tokenizer = foreign([b"%05d" % i for i in range(size - 256)], method="longest_match")
        assert tokenizer.vocab_size == size
        last = b"%05d" % (size - 257)
        ids = tokenizer.encode_arrow(pa.array([last, last]))
        assert ids.type == pa.list_(kind) and ids.to_pylist() == [[size - 1]] * 2
        # a special token may have the last id
        tokenizer = foreign(added=[AddedToken("<|end|>", size - 1)])
        ids = tokenizer.encode_arrow(pa.array(["a<|end|>", "a"]), special="encode")
        assert ids.type == pa.list_(kind) and ids.to_pylist() == [[97, size - 1], [97]]
    for data in (b"a<|end|>", b"a", b"a\xff"):  # never cut to two bytes that mean another token
        with pytest.raises(ValueError, match="width=2 holds ids below 65536, and there are 65537"):
            tokenizer.encode_documents(*side_by_side([data]), special="encode", width=2)


# ---- decoding ----


def test_streams_equal_the_whole_at_every_split(tokenizer):
    rng = random.Random(7)
    halves = [tokenizer.id_of(bytes([b])) for b in b"\xe7\x9a\x84\xf0\x9f\x98\x80\xff\xc3a"]
    for _ in range(60):
        ids = rng.choices([*halves, *range(tokenizer.vocab_size)], k=rng.randrange(0, 12))
        if rng.random() < 0.5:
            ids = tokenizer.encode("".join(rng.choices("的é😀a한", k=4)))
        whole = tokenizer.decode(ids)
        assert whole == b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")
        for split in range(len(ids) + 1):
            stream = StreamDecoder(tokenizer)
            first = "".join(map(stream.push, ids[:split]))
            assert tokenizer.decode(ids[:split]).startswith(first)
            assert tokenizer.decode(ids[:split], "ignore") == first.replace("\ufffd", "") or "\ufffd" in first
            rest = "".join(stream.push(np.int64(i)) for i in ids[split:])
            assert first + rest + stream.flush() == whole
            # the same decoder again, after a flush in the middle
            first = "".join(map(stream.push, ids[:split])) + stream.flush()
            rest = "".join(map(stream.push, ids[split:])) + stream.flush()
            assert first == tokenizer.decode(ids[:split]) and rest == tokenizer.decode(ids[split:])
    with pytest.raises(KeyError, match="is no token"):
        StreamDecoder(tokenizer).push(tokenizer.vocab_size)


def test_what_is_done_with_bytes_that_are_no_text(tokenizer):
    ids = [*tokenizer.encode("é"), tokenizer.id_of(b"\xe7"), tokenizer.id_of(b"\x9a"), *tokenizer.encode("a")]
    data = "é".encode() + b"\xe7\x9aa"
    assert tokenizer.decode_bytes(ids) == data
    assert tokenizer.decode(ids) == "é\ufffda" and tokenizer.decode(ids, "ignore") == "éa"
    for errors in ("replace", "ignore", "backslashreplace", "surrogateescape"):
        assert tokenizer.decode(ids, errors) == tokenizer.decode(ids, errors=errors) == data.decode("utf-8", errors)
        assert tokenizer.decode_batch([ids, []], errors) == [data.decode("utf-8", errors), ""]
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(ids, "strict")
    with pytest.raises(LookupError):
        tokenizer.decode(ids, "no such policy")


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda ids: np.array(ids, np.uint16), lambda ids: np.array(ids, np.uint32), pa.array,
                                  lambda ids: np.repeat(np.array(ids, np.uint32), 2)[::2], lambda ids: [np.int32(i) for i in ids]])  # fmt: skip
def test_ids_of_any_kind(tokenizer, kind):
    ids = tokenizer.encode(TEXT[:300])
    assert tokenizer.decode(kind(ids)) == TEXT[:300] and tokenizer.decode_bytes(kind(ids)) == TEXT[:300].encode()
    assert tokenizer.decode(kind(ids)[:0]) == ""
    assert tokenizer.decode_batch([kind(ids), kind(ids[:3])]) == [TEXT[:300], tokenizer.decode(ids[:3])]


def test_holes_are_no_ids():
    tokenizer = foreign([b"", b"ab", b""], [(b"a", b"b")], [AddedToken("<|end|>", 262)])
    assert tokenizer.vocab_size == 263 and tokenizer.encode("ab") == [257]
    assert tokenizer.decode([257, 262, 97]) == "ab<|end|>a"
    for hole in (256, 258, 261, 263, -1):
        with pytest.raises(KeyError, match=f"id {hole} "):
            tokenizer.token_bytes(hole)
        for ids in ([97, hole], np.array([97, hole])):
            with pytest.raises(KeyError, match=f"id {hole} "):
                tokenizer.decode(ids)
    with pytest.raises(KeyError):
        tokenizer.id_of("")


# ---- what is refused ----


@pytest.fixture(scope="module")
def learned():
    return Tokenizer(train(WordCounts.from_documents([TEXT], pattern="cl100k", special_tokens=SPECIAL), 600, special_tokens=SPECIAL))


@pytest.mark.parametrize("wrong", [None, 5, True, 1.5, ["a"], [97], ("a",), {"a": 1}, np.array([97]), object()])
def test_what_is_no_text(learned, wrong):
    """Also an int (bytes(5) are five NULs) and a list of ints (bytes([97]) is "a")."""
    named = rf"\b{type(wrong).__name__}\b"
    calls = [learned.encode, learned.count, learned.encode_with_offsets, lambda text: learned.encode_dropout(text, 0.5)]
    for call in [*calls, lambda text: learned.encode_batch(["a", text])]:
        with pytest.raises(TypeError, match=named) as error:
            call(wrong)
        assert "str" in str(error.value) and "bytes" in str(error.value)


def test_buffers_are_text(tokenizer):
    expected = tokenizer.encode("low é")
    for kind in (bytearray, memoryview):
        assert tokenizer.encode(kind("low é".encode())) == expected and tokenizer.count(kind("low é".encode())) == len(expected)


@pytest.mark.parametrize("wrong", ["abc", b"abc", None, 5])
def test_one_text_is_no_batch(learned, wrong):
    """The characters of a str are not the texts that anybody means."""
    with pytest.raises(TypeError, match="texts|batch|iterable"):
        learned.encode_batch(wrong)


@pytest.mark.parametrize("wrong", [["a"], None, "a", pa.array([1, 2]), pa.array([1.5]), pa.array([["a"]]), pa.array([True]), np.array(["a"])])
def test_what_is_no_column_of_text(learned, wrong):
    with pytest.raises(TypeError, match="string|binary|text|Arrow"):
        learned.encode_arrow(wrong)


@pytest.mark.parametrize("wrong", ["abc", None, 5, b"ab", [None], ["a"], [1.0], [[1]], np.array([1.0]), np.array([[1]]), np.array(["a"]), [1 << 80]])
def test_what_are_no_ids(learned, wrong):
    for call in (learned.decode, learned.decode_bytes, lambda ids: learned.decode_batch([ids])):
        with pytest.raises(KeyError if wrong == [1 << 80] else (TypeError, ValueError), match="ids|id |integer"):
            call(wrong)


@pytest.mark.parametrize("wrong", ["a", None, 1.0, b"a", [1]])
def test_what_is_no_id(learned, wrong):
    with pytest.raises((TypeError, KeyError)):
        learned.token_bytes(wrong)
    with pytest.raises((TypeError, KeyError)):
        StreamDecoder(learned).push(wrong)


def test_tokens_by_their_bytes_and_text(tokenizer):
    for i in range(0, tokenizer.vocab_size, 7):
        token = tokenizer.token_bytes(i)
        assert tokenizer.id_of(token.decode() if i >= tokenizer.vocab_size - len(SPECIAL) else token) == i
        assert tokenizer.decode_bytes([i]) == token
    assert tokenizer.id_of("é") == tokenizer.id_of("é".encode())
    for wrong in ("no such", b"", "", None, 5):
        with pytest.raises((KeyError, TypeError)):
            tokenizer.id_of(wrong)
