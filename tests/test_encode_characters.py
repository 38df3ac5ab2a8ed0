"""Merges of characters in the kernel: by hand, and against plain Python, `tokenizers` and `subword-nmt`."""

import io
import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from beam_bpe import _encode
from beam_bpe.encoders import encoder_of
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.model import Model, byte_token
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reference_pieces import encode_characters
from beam_bpe.vocabulary import Vocabulary

PIECE = -1
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
#: Characters that share prefixes of their bytes, and those that marks are made of.
LETTERS = "ab_éè中丯😀😁w<"


def vocabulary_of(tokens, merges, special=(), whole_pieces=False, **model):
    """Return a vocabulary of characters; merges are pairs of spellings by rank."""
    tokens = [*dict.fromkeys([*tokens, *(a + b for a, b in merges)])]
    if model.get("byte_fallback"):
        tokens = [*dict.fromkeys([*map(byte_token, range(256)), *tokens])]
    ids = {token: len(special) + i for i, token in enumerate(tokens)}
    sides = np.array([(ids[a], ids[b], ids[a + b]) for a, b in merges], np.uint32).reshape(-1, 3).T
    counts = np.ones(len(merges), np.int64)
    layout = Layout(
        tokens=tuple([b""] * len(special) + [token.encode() for token in tokens]),
        merged=np.ascontiguousarray(sides[2]),
        added_tokens=tuple(AddedToken(text, i) for i, text in enumerate(special)),
        whole_pieces=whole_pieces,
    )
    return Vocabulary(
        pre_tokenizer=pre_tokenizer("whitespace"), alphabet=b"", left=np.ascontiguousarray(sides[0]),
        right=np.ascontiguousarray(sides[1]), counts=counts, replaced=counts, special_tokens=tuple(special), layout=layout,
        model=Model(unit="character", **model),
    )  # fmt: skip


def spelled(vocabulary, ids):
    names = {added.id: added.text for added in vocabulary.added_tokens}
    return [names.get(i) or vocabulary.tokens[i].decode() for i in ids]


def encode(encoder, words, **options):
    """Encode words, each a document of one piece."""
    documents = [word.encode() for word in words]
    stops = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    ids, ends = encoder.encode(b"".join(documents), np.ascontiguousarray(np.repeat(stops, 2)[1:-1]), PIECE, **options)
    return [part.tolist() for part in np.split(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.int64)[:-1])]


def one(vocabulary, word, **options):
    return spelled(vocabulary, encode(encoder_of(vocabulary, **options), [word])[0])


@st.composite
def models(draw):
    """Draw a vocabulary whose merges have parts from anywhere, in any order, and what the reference is told of it."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    letters = rng.sample(LETTERS, rng.randint(1, len(LETTERS)))
    mark = rng.choice([None, "_", "</w>", "w", "é"])
    attached = bool(mark) and rng.random() < 0.6
    known = [letter for letter in letters if rng.random() < 0.8]
    if attached:
        known += [letter + mark for letter in letters if rng.random() < 0.6]
    elif mark and rng.random() < 0.9:
        known.append(mark)
    parts, merges = [*known], []
    for _ in range(rng.randrange(0, 25) if parts else 0):
        pair = rng.choice(parts), rng.choice(parts)
        if pair not in merges and len("".join(pair)) < 12:
            merges.append(pair)
            parts.append("".join(pair))
    if rng.random() < 0.3:
        rng.shuffle(merges)
    rng.shuffle(parts)
    byte_fallback = rng.random() < 0.3
    unknown = None if byte_fallback and rng.random() < 0.5 else rng.choice(["<unk>", *known[:1]])
    fuse = bool(unknown) and not byte_fallback and rng.random() < 0.5
    options = {"end_of_word": mark, "attached": attached, "byte_fallback": byte_fallback, "fuse_unk": fuse}
    special = ["<unk>"] if unknown == "<unk>" else []
    vocabulary = vocabulary_of(parts, merges, special, unk_token=unknown, **options)
    known = {token.decode() for token in vocabulary.tokens if token}
    return vocabulary, merges, known, {**options, "unknown": unknown}, letters


def random_words(rng, letters, count=12):
    return [
        "".join(rng.choices([*letters, "ß", "丰"], k=rng.choice([1, 2, 3, 5, 8, 13, 40, 300]))) for _ in range(count)
    ] + ["".join(rng.choices(letters, k=2)) * rng.randrange(1, 40)]


# ---- by hand ----


def test_the_textbook():
    merges = [("e", "s"), ("es", "t"), ("est", "</w>"), ("l", "o")]
    vocabulary = vocabulary_of(["</w>", *"deilnorstw"], merges, ["<unk>"], end_of_word="</w>", unk_token="<unk>")
    assert one(vocabulary, "low") == ["lo", "w", "</w>"]
    assert one(vocabulary, "widest") == ["w", "i", "d", "est</w>"]
    assert one(vocabulary, "böw") == ["<unk>", "<unk>", "w", "</w>"]
    assert one(vocabulary, "est") == ["est</w>"]
    assert one(vocabulary, "esteste") == ["est", "est", "e", "</w>"]


def test_an_attached_end_is_a_symbol_of_its_own():
    vocabulary = vocabulary_of(
        ["a", "b", "é", "a</w>", "é</w>"], [("a", "b"), ("b", "a</w>"), ("a", "é</w>")], ["<unk>"],
        end_of_word="</w>", attached=True, unk_token="<unk>",
    )  # fmt: skip
    assert one(vocabulary, "ab") == ["a", "<unk>"]  # b</w> is no token, and a, b do not merge across it
    assert one(vocabulary, "ba") == ["ba</w>"] and one(vocabulary, "bab") == ["b", "a", "<unk>"]
    assert one(vocabulary, "abé") == ["ab", "é</w>"] and one(vocabulary, "aé") == ["aé</w>"]
    assert one(vocabulary, "è") == ["<unk>"] and one(vocabulary, "aèa") == ["a", "<unk>", "a</w>"]


def test_bytes_in_place_of_unknown_characters():
    options = {"byte_fallback": True, "end_of_word": "</w>", "attached": True}
    plain = vocabulary_of(["a", "a</w>", "é</w>"], [("a", "a</w>")], **options)
    assert one(plain, "aéb") == ["a", "<0xC3>", "<0xA9>", "<0x62>"]
    assert one(plain, "中é") == ["<0xE4>", "<0xB8>", "<0xAD>", "é</w>"]
    with_mark = vocabulary_of(["a", "a</w>", "é", "</w>"], [("a", "a</w>")], **options)
    assert one(with_mark, "aab") == ["a", "a", "<0x62>", "</w>"]
    assert one(with_mark, "é") == ["<0xC3>", "<0xA9>", "</w>"] and one(with_mark, "aa") == ["aa</w>"]
    separate = vocabulary_of(["a", "</w>"], [("a", "</w>")], byte_fallback=True, end_of_word="</w>")
    assert one(separate, "ba") == ["<0x62>", "a</w>"] and one(separate, "b") == ["<0x62>", "</w>"]


def test_neighbours_that_are_unknown_are_one_also_where_a_long_word_is_cut():
    vocabulary = vocabulary_of(["a", "中"], [("a", "a")], ["<unk>"], unk_token="<unk>", fuse_unk=True)
    for length in (1, 2, 3, 7, 40, 3000):
        assert one(vocabulary, "é" * length) == ["<unk>"]
        assert one(vocabulary, "aa" + "é" * length + "中" + "日本" * length) == ["aa", "<unk>", "中", "<unk>"]
    encoder = encoder_of(vocabulary)
    data = ("é" * 100 + "a" + "é" * 100).encode()
    assert np.frombuffer(encoder.count(data, np.array([0, len(data)]), PIECE), np.int64).tolist() == [3]


def test_a_token_that_is_also_the_unknown_one_is_not_fused():
    vocabulary = vocabulary_of(["a", "中"], [], unk_token="中", fuse_unk=True)
    assert one(vocabulary, "中中日日中日") == ["中"] * 5
    assert one(vocabulary, "中中日日中日" * 20) == ["中"] * 81 + ["中"] * 19 == ["中"] * 100


def test_text_of_the_mark_and_a_token_that_is_made_twice():
    """`a</w>` is the last a, and also the a, <, /, w, > inside of a word: it has one id, and merges as such."""
    merges = [("<", "/"), ("</", "w"), ("</w", ">"), ("a", "</w>"), ("a</w>", "b"), ("b", "a</w>")]
    options = {"end_of_word": "</w>", "attached": True, "unk_token": "?"}
    vocabulary = vocabulary_of([*"ab</w>", "a</w>", "b</w>"], merges, ["?"], **options)
    assert one(vocabulary, "ba") == ["ba</w>"] and one(vocabulary, "ba</w>a") == ["ba</w>", "a</w>"]
    assert one(vocabulary, "a</w>bb") == ["a</w>b", "b</w>"]
    assert one(vocabulary, "a</w>b") == ["a</w>", "b</w>"]


def test_what_is_refused():
    vocabulary = vocabulary_of(["a", "a</w>"], [], ["?"], end_of_word="</w>", attached=True, unk_token="?")
    with pytest.raises(ValueError, match="method='longest_match' has no meaning for an attached end-of-word suffix"):
        encoder_of(vocabulary, "longest_match")
    with pytest.raises(ValueError, match="method='best': choose one of rank, longest_match"):
        encoder_of(vocabulary, "best")
    encoder = encoder_of(vocabulary)
    for data in (b"a\xff", b"\xffa", b"a" * 20 + b"\xff", b"\xe4\xb8", ("é" * 20).encode() + b"\xe4"):
        for call in (encoder.encode, encoder.count, lambda *a: encoder.encode_dropout(*a, 0.5, 1)):
            with pytest.raises(ValueError, match="document 1 is not valid UTF-8, which scanners and characters need"):
                call(b"a" + data, np.array([0, 1, 1, 1 + len(data)], np.int64), PIECE)
        with pytest.raises(ValueError, match="not valid UTF-8"):
            encoder.encode_list(data, PIECE)


def test_wrong_maps_are_refused():
    bytes_ids, none = np.arange(256, dtype=np.uint32), np.empty(0, np.uint32)
    model = bytes(range(256)), np.arange(257), bytes_ids, none, none, none
    decoded = _encode.Decoded(bytes(range(256)), np.arange(257))
    for outer, most in ((bytes_ids[:9], "`outer` has 9 entries for 256 tokens"), (bytes_ids + 1, "id 256 is no token")):
        with pytest.raises(ValueError, match=most):
            _encode.Encoder(*model, characters=_encode.Characters(outer, bytes_ids), decoded=decoded)
    with pytest.raises(ValueError, match="a character that begins with byte 65 would be dropped: it needs a token"):
        _encode.Characters(bytes_ids, np.where(bytes_ids == 65, 0xFFFFFFFF, 0).astype(np.uint32))
    with pytest.raises(ValueError, match="columns differ"):
        _encode.Characters(bytes_ids, bytes_ids[:9])
    with pytest.raises(TypeError, match="`decoded` is missing"):
        _encode.Encoder(*model, characters=_encode.Characters(bytes_ids, bytes_ids))


# ---- against the reference ----


@QUICK
@given(models(), st.integers(0, 1 << 32))
def test_random_merges(made, seed):
    vocabulary, merges, known, options, letters = made
    words = random_words(random.Random(seed), letters)
    expected = [encode_characters(word, merges, known, **options) for word in words]
    assert all(expected)
    for size in (0, 1 << 20):
        encoder = encoder_of(vocabulary, cache_bytes=size)
        for _ in range(2):  # from the cache too
            assert [spelled(vocabulary, ids) for ids in encode(encoder, words)] == expected
    documents = [word.encode() for word in words]
    bounds = np.ascontiguousarray(np.repeat(np.cumsum([0, *map(len, documents)], dtype=np.int64), 2)[1:-1])
    counts = np.frombuffer(encoder.count(b"".join(documents), bounds, PIECE), np.int64).tolist()
    assert counts == [len(part) for part in expected]
    for most in (0, 1, 2, 7, 30):
        assert [spelled(vocabulary, ids) for ids in encode(encoder, words, most=most)] == [part[:most] for part in expected]
    for word, part in zip(documents, expected):
        assert spelled(vocabulary, encoder.encode_list(word, PIECE)) == part
    # without dropout, and with all of it: what is left are symbols, characters being spelled all the same
    for dropout, kept in ((0.0, merges), (1.0, [])):
        ids, ends = encoder.encode_dropout(b"".join(documents), bounds, PIECE, dropout, 1)
        parts = np.split(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.int64)[:-1])
        assert [spelled(vocabulary, part) for part in parts] == [
            encode_characters(word, kept, known, **options) for word in words
        ]


@settings(QUICK, max_examples=100)
@given(models(), st.integers(0, 1 << 32))
def test_the_longest_tokens(made, seed):
    vocabulary, _, known, options, letters = made
    mark = options["end_of_word"] or ""
    assume(not options["attached"] and not options["fuse_unk"])
    longest = known - {byte_token(byte) for byte in range(256)}
    encoder = encoder_of(vocabulary, "longest_match")
    for word in random_words(random.Random(seed), letters):
        expected, at = [], 0
        while at < len(word):
            ends = [at + n for n in range(len(word) - at, 0, -1) if word[at : at + n] in longest]
            if word[at:] + mark in longest:  # the end of the word belongs to it
                expected.append(word[at:] + mark)
                break
            if ends:
                expected.append(word[at : ends[0]])
                at = ends[0]
            else:
                expected += encode_characters(word[at], [], known, **{**options, "end_of_word": None})
                at += 1
        else:
            last = mark if mark in known else options["unknown"]
            expected += [last] if mark and last else []
        assert spelled(vocabulary, encode(encoder, [word])[0]) == expected


# ---- peers ----


@pytest.mark.parametrize("seed", range(60))
def test_as_tokenizers(seed):
    from tokenizers import Tokenizer, models as their_models

    rng = random.Random(f"peers {seed}")
    letters = rng.sample(LETTERS, rng.randint(1, len(LETTERS)))
    mark = rng.choice([None, "_", "</w>"])
    known = [letter for letter in letters if rng.random() < 0.8]
    known += [letter + mark for letter in letters if mark and rng.random() < 0.6] or ["a"]
    parts, merges = [*known], []
    for _ in range(rng.randrange(0, 25)):
        pair = rng.choice(parts), rng.choice(parts)
        if pair not in merges and len("".join(pair)) < 12:
            merges.append(pair)
            parts.append("".join(pair))
    rng.random() < 0.3 and rng.shuffle(merges)
    byte_fallback = not mark and rng.random() < 0.4
    fuse = not byte_fallback and rng.random() < 0.5
    options = {"byte_fallback": byte_fallback, "fuse_unk": fuse}
    vocabulary = vocabulary_of(
        parts, merges, ["<unk>"], unk_token="<unk>", end_of_word=mark, attached=bool(mark), **options
    )
    ids = {token.decode(): i for i, token in enumerate(vocabulary.tokens) if token} | {"<unk>": 0}
    options.update({"end_of_word_suffix": mark} if mark else {})
    peer = Tokenizer(their_models.BPE(ids, merges, unk_token="<unk>", **options))
    words = random_words(rng, letters, 40)
    assert encode(encoder_of(vocabulary), words) == [peer.encode(word).ids for word in words]


@pytest.mark.parametrize("seed", range(20))
def test_as_subword_nmt(seed):
    from subword_nmt.apply_bpe import BPE

    rng = random.Random(f"subword-nmt {seed}")
    letters = "abcé中"[: rng.randint(2, 5)]
    parts, merges = [*letters, *(letter + "</w>" for letter in letters)], []
    for _ in range(rng.randrange(1, 30)):
        pair = rng.choice([part for part in parts if not part.endswith("</w>")]), rng.choice(parts)
        if pair not in merges and len("".join(pair)) < 12:
            merges.append(pair)
            parts.append("".join(pair))
    codes = io.StringIO("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    peer = BPE(codes, separator="@@")
    vocabulary = vocabulary_of(parts, merges, ["<unk>"], unk_token="<unk>", end_of_word="</w>", attached=True)
    words = ["".join(rng.choices(letters, k=rng.randrange(1, 12))) for _ in range(50)]
    theirs = [[piece.removesuffix("@@") for piece in peer.process_line(word).split(" ")] for word in words]
    ours = [spelled(vocabulary, ids) for ids in encode(encoder_of(vocabulary), words)]
    assert [[piece.removesuffix("</w>") for piece in pieces] for pieces in ours] == theirs


# ---- dropout, long words, decoding ----


def test_dropout_is_of_merges_and_not_of_spelling():
    merges = [("中", "中"), ("中", "丯|")]
    vocabulary = vocabulary_of(["中", "丯", "中|", "丯|"], merges, ["?"], unk_token="?", end_of_word="|", attached=True)
    encoder = encoder_of(vocabulary)
    data = "中中丯".encode()
    found = Counter()
    for seed in range(400):
        ids, _ = encoder.encode_dropout(data, np.array([0, len(data)]), PIECE, 0.5, seed)
        found[" ".join(spelled(vocabulary, np.frombuffer(ids, np.uint32)))] += 1
    assert set(found) == {"中 中 丯|", "中中 丯|", "中 中丯|"}
    # 1/2 for the first merge; else 1/2 for the second, else nothing
    assert 150 < found["中中 丯|"] < 250 and 60 < found["中 中丯|"] < 140


def test_words_of_a_megabyte():
    merges = [("a", "a"), ("aa", "aa"), ("中", "文"), ("中文", "</w>"), ("a", "</w>"), ("aa", "a</w>")]
    vocabulary = vocabulary_of([*"a中文", "</w>"], merges, ["?"], unk_token="?", end_of_word="</w>")
    encoder = encoder_of(vocabulary)
    for word, expected in (
        ("a" * 1_000_003, ["aaaa"] * 250_000 + ["aaa</w>"]),
        ("中文" * 170_000, ["中文"] * 169_999 + ["中文</w>"]),
        ("日" * 340_000, ["?"] * 340_000 + ["</w>"]),
    ):
        assert spelled(vocabulary, encode(encoder, [word])[0]) == expected


def test_decoding():
    options = {"end_of_word": "</w>", "attached": True, "byte_fallback": True}
    vocabulary = vocabulary_of(["a", "b", "a</w>", "b</w>", "</w>"], [("a", "b</w>")], ["<s>"], **options)
    encoder = encoder_of(vocabulary)
    documents = ["ab ab a", "b", "aé ba", ""]
    ids, ends = encoder.encode("".join(documents).encode(), np.array([0, 7, 7, 8, 8, 14, 14, 14]), 5)
    ids, ends = np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.int64)
    data, byte_ends = encoder.decode_documents(ids, ends)
    assert data.decode() == "".join(documents) and np.frombuffer(byte_ends, np.int64).tolist() == [7, 8, 14, 14]
    for begin, end, document in zip([0, *ends], ends, documents):
        assert encoder.decode(ids[begin:end]).decode() == encoder.decode_list(ids[begin:end].tolist()).decode() == document
    assert encoder.decode_list([vocabulary.ids[b"b</w>"], 0]) == b"b <s>"
    lengths = np.frombuffer(encoder.lengths(ids[: ends[0]]), np.int64).tolist()
    assert lengths == [2, 2, 1]
    with pytest.raises(KeyError, match=f"id {len(vocabulary)} at position 0"):
        encoder.decode_list([len(vocabulary)])


@pytest.mark.parametrize("mark", [None, "</w>"])
def test_decoding_as_tokenizers(mark):
    from tokenizers import Tokenizer, decoders, models as their_models

    rng = random.Random(1)
    letters = "abé中"
    parts = [*letters, *(letter + mark for letter in letters if mark)]
    merges = [(a, b) for a in letters for b in parts]
    vocabulary = vocabulary_of(parts, merges, ["<unk>"], unk_token="<unk>", end_of_word=mark, attached=bool(mark))
    ids = {token.decode(): i for i, token in enumerate(vocabulary.tokens) if token} | {"<unk>": 0}
    suffix = {"end_of_word_suffix": mark} if mark else {}
    peer = Tokenizer(their_models.BPE(ids, merges, unk_token="<unk>", **suffix))
    peer.decoder = decoders.BPEDecoder(mark) if mark else decoders.Fuse()
    encoder = encoder_of(vocabulary)
    for _ in range(200):
        some = rng.choices(range(len(vocabulary)), k=rng.randrange(1, 9))
        assert encoder.decode_list(some).decode() == peer.decode(some, skip_special_tokens=False)


def test_whole_pieces():
    options = {"whole_pieces": True, "unk_token": "?"}
    tokens = ["a", "b", "c", "abc", "b|", "c|"]
    vocabulary = vocabulary_of(tokens, [("b", "c|")], ["?"], end_of_word="|", attached=True, **options)
    assert one(vocabulary, "abc") == ["abc"] and one(vocabulary, "abca") == ["a", "b", "c", "?"]
    long = vocabulary_of(["a", "中", "中" * 20], [], ["?"], **options)
    assert one(long, "中" * 20) == ["中" * 20] and one(long, "中" * 21) == ["中"] * 21
    marked = vocabulary_of(["a", "中", "文", "中文", "文|", "|"], [("中", "中")], ["?"], end_of_word="|", **options)
    assert one(marked, "中文") == ["中文"]  # as the last segment of a word that is cut it is not looked up
    assert one(marked, "a文" * 4 + "中文") == [*"a文" * 4, "中", "文", "|"]


@pytest.mark.parametrize("mark", [None, "</w>"])
def test_words_of_real_text_as_tokenizers(shared, mark):
    from tokenizers import Tokenizer, models as their_models, pre_tokenizers, trainers

    text = (shared / "corpora" / "mixed-1m.txt").read_text()
    suffix = {"end_of_word_suffix": mark} if mark else {}
    trainer = trainers.BpeTrainer(
        vocab_size=6000, limit_alphabet=1200, special_tokens=["<unk>"], show_progress=False, **suffix
    )
    peer = Tokenizer(their_models.BPE(unk_token="<unk>"))
    peer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    peer.train_from_iterator([text[: len(text) // 2]], trainer)
    model = json.loads(peer.to_str())["model"]
    by_id = sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(merge) for merge in model["merges"]]
    options = {"end_of_word": mark, "attached": bool(mark), "unk_token": "<unk>"}
    vocabulary = vocabulary_of(by_id[1:], merges, ["<unk>"], **options)
    assert spelled(vocabulary, range(len(by_id))) == by_id
    words = sorted({*text.split()})
    theirs = [encoding.ids for encoding in peer.encode_batch(words)]
    assert encode(encoder_of(vocabulary), words) == theirs
    assert 0 in {i for ids in theirs for i in ids}  # some characters are outside of the alphabet
