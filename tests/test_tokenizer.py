"""Encoding and decoding: by hand, and equal to the reference, tiktoken and tokenizers."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import StreamDecoder, Tokenizer, Vocabulary, WordCounts, _encode, pre_tokenizer, reference, train
from beam_bpe.pretokenize import PATTERNS

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
        ids, ends, _ = one.encode_documents(b"".join(texts), np.ascontiguousarray(np.repeat(stops, 2)[1:-1]))
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
