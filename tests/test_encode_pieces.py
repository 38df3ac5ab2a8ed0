"""WordPiece and word level in the kernel: by hand, and against plain Python and `tokenizers`."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_bpe import _encode, _scan
from beam_bpe.encoders import encoder_of
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.model import Model
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reference_pieces import encode_wordpiece
from beam_bpe.vocabulary import Vocabulary

PIECE = -1
WHITESPACE = _scan.PATTERNS["whitespace"]
QUICK = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
LETTERS = "ab#_éè中丯😀😁"


def vocabulary_of(tokens, special=("[UNK]",), algorithm="wordpiece", prefix="##", **model):
    """Return a vocabulary of pieces or words."""
    if algorithm == "wordpiece":
        model.setdefault("max_input_chars_per_word", 100)
        model["continuing_subword_prefix"] = prefix
    none, counts = np.empty(0, np.uint32), np.empty(0, np.int64)
    layout = Layout(
        tokens=tuple([b""] * len(special) + [token.encode() for token in dict.fromkeys(tokens)]),
        merged=none,
        added_tokens=tuple(AddedToken(text, i) for i, text in enumerate(special)),
    )
    return Vocabulary(
        pre_tokenizer=pre_tokenizer("whitespace"), alphabet=b"", left=none, right=none, counts=counts, replaced=counts,
        special_tokens=tuple(special), layout=layout,
        model=Model(algorithm=algorithm, unit="character", **{"unk_token": "[UNK]", **model}),
    )  # fmt: skip


def spelled(vocabulary, ids):
    names = {added.id: added.text for added in vocabulary.added_tokens}
    return [names.get(i) or vocabulary.tokens[i].decode() for i in ids]


def side_by_side(words):
    documents = [word.encode() for word in words]
    stops = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return b"".join(documents), np.ascontiguousarray(np.repeat(stops, 2)[1:-1])


def encode(encoder, words, pattern=PIECE, **options):
    ids, ends = encoder.encode(*side_by_side(words), pattern, **options)
    return [part.tolist() for part in np.split(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.int64)[:-1])]


def pieces(vocabulary, words, **options):
    return [spelled(vocabulary, ids) for ids in encode(encoder_of(vocabulary, **options), words)]


def random_word(rng, letters):
    kind, length = rng.randrange(3), rng.choice([1, 2, 3, 4, 6, 9, 14, 17, 30, 33, 90, 101])
    if kind:
        return "".join(rng.choices(letters, k=length))
    return ("".join(rng.choices(letters, k=rng.randrange(1, 4))) * length)[:length] + rng.choice(["", *letters])


@st.composite
def vocabularies(draw):
    """Draw pieces that begin with each other, and what the reference is told of them."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    letters = rng.sample(LETTERS, rng.randint(1, 4))
    prefix = rng.choice(["##", "##", "#", "a", "é", None])
    tokens = set()
    for _ in range(rng.randrange(0, 30)):
        text = "".join(rng.choices(letters, k=rng.choice([1, 1, 1, 2, 2, 3, 5, 8])))
        if tokens and rng.random() < 0.3:
            text = rng.choice(sorted(tokens)).removeprefix(prefix or "") + text
        tokens.add(text if rng.random() < 0.4 else (prefix or "") + text)
    if prefix and rng.random() < 0.2:
        tokens.add(prefix)
    tokens = rng.sample(sorted(tokens), len(tokens))
    options = {"most": rng.choice([100, None, 5, 1]), "unk_characters": rng.random() < 0.4}
    vocabulary = vocabulary_of(
        tokens, prefix=prefix, max_input_chars_per_word=options["most"], unk_characters=options["unk_characters"]
    )
    return vocabulary, tokens, {**options, "prefix": prefix or ""}, letters


# ---- by hand ----


def test_the_textbook():
    letters = ["n", "##e", "##w", "##d", "##a", "##y"]
    vocabulary = vocabulary_of(["un", "##happi", "##ness", "##h", "happy", "##birthday", *letters])
    words = ["unhappiness", "happybirthday", "newday", "unx", "unh", "x", "##ness", "[UNK]"]
    assert [" ".join(part) for part in pieces(vocabulary, words)] == [
        "un ##happi ##ness", "happy ##birthday", "n ##e ##w ##d ##a ##y", "[UNK]", "un ##h", "[UNK]", "##ness", "[UNK]",
    ]  # fmt: skip


def test_a_piece_that_fails_far_behind_its_beginning():
    """The longest piece is known only where the next letter is wrong; what was read is not read again."""
    vocabulary = vocabulary_of(["abcdx", "abc", "a", "##b", "##cdz", "##d", "##dz", "##z"])
    assert pieces(vocabulary, ["abcdx", "abcdz", "abcd", "ab", "abcdxd", "abcc"]) == [
        ["abcdx"], ["abc", "##dz"], ["abc", "##d"], ["a", "##b"], ["abcdx", "##d"], ["[UNK]"],
    ]  # fmt: skip


def test_the_text_of_the_prefix():
    """At its beginning a word is taken as it is spelled; `##` continues nothing, being nothing but the prefix."""
    vocabulary = vocabulary_of(["##", "a", "##a", "####a", "#"])
    assert pieces(vocabulary, ["##", "##a", "a##a", "###", "#", "##aa", "a##"]) == [
        ["##"], ["##a"], ["a", "####a"], ["[UNK]"], ["#"], ["##a", "##a"], ["[UNK]"],
    ]  # fmt: skip


def test_characters_that_no_piece_matches():
    vocabulary = vocabulary_of(["a", "##b", "##bcd", "##中"], unk_characters=True)
    assert pieces(vocabulary, ["axb", "xb", "xa", "a中丯中b", "abc", "x", "😀", "abcxbcd"]) == [
        ["a", "[UNK]", "##b"], ["[UNK]", "##b"], ["[UNK]", "[UNK]"], ["a", "##中", "[UNK]", "##中", "##b"],
        ["a", "##b", "[UNK]"], ["[UNK]"], ["[UNK]"], ["a", "##b", "[UNK]", "[UNK]", "##bcd"],
    ]  # fmt: skip


def test_words_that_are_unknown_are_counted_by_why():
    vocabulary = vocabulary_of(["a", "##a", "é"], max_input_chars_per_word=3)
    encoder = encoder_of(vocabulary)
    words = ["aaa", "aaaa", "b", "éa", "ab", "a" * 40, "ééé", "éééé", "bbbb", "ab", "b" * 20, "aaaa"]
    for _ in range(3):  # of what is in a cache too
        ids, ends, overlong = encoder.encode_told(*side_by_side(words), PIECE)
        counts, unmatched, again = encoder.count_told(*side_by_side(words), PIECE)
        assert (unmatched, overlong, again) == (4, 6, 6)
        assert np.frombuffer(ids, np.uint32).tolist().count(0) == 10
        assert np.frombuffer(counts, np.int64).tolist() == [3, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    text = " ".join(words).encode()
    for most, expected in ((0, 0), (3, 0), (4, 1), (5, 1), (9, 2), (100, 6)):
        assert encoder.encode_told(text, np.array([0, len(text)]), WHITESPACE, most)[2] == expected
    assert encoder.encode_told(b"", np.empty(0, np.int64), PIECE) == (b"", b"", 0)
    none = np.empty(0, np.uint32)
    byte_level = _encode.Encoder(bytes(range(256)), np.arange(257), np.arange(256, dtype=np.uint32), none, none, none)
    assert byte_level.count_told(b"ab", np.array([0, 2]), PIECE)[1:] == (0, 0)


def test_whole_words():
    vocabulary = vocabulary_of(["the", "a" * 50, "中文", "the</w>"], algorithm="wordlevel")
    assert pieces(vocabulary, ["the", "thes", "中文", "中", "a" * 50, "a" * 49, "the", "[UNK]"]) == [
        ["the"], ["[UNK]"], ["中文"], ["[UNK]"], ["a" * 50], ["[UNK]"], ["the"], ["[UNK]"],
    ]  # fmt: skip
    encoder = encoder_of(vocabulary)
    assert encoder.count_told(*side_by_side(["the", "x", "x"]), PIECE)[1:] == (2, 0)
    with pytest.raises(ValueError, match="method='longest_match' has no meaning for whole words: choose 'rank'"):
        encoder_of(vocabulary, "longest_match")


def test_what_is_refused():
    vocabulary = vocabulary_of(["a", "##a"])
    encoder = encoder_of(vocabulary)
    for data in (b"a\xff", b"a" * 20 + b"\xff", b"\xe4\xb8", b"a" * 40 + b"\xe4"):
        for call in (encoder.encode, encoder.count):
            with pytest.raises(ValueError, match="document 1 is not valid UTF-8, which scanners and characters need"):
                call(b"a" + data, np.array([0, 1, 1, 1 + len(data)], np.int64), PIECE)
    with pytest.raises(ValueError, match="dropout is of merges, and longest match makes none"):
        encoder.encode_dropout(b"a", np.array([0, 1]), PIECE, 0.5, 1)
    starts = np.array([0, 1], np.int64)
    with pytest.raises(ValueError, match="id 1 is no token of this vocabulary"):
        _encode.Pieces(b"a", starts, 1)
    with pytest.raises(ValueError, match="most_chars=0"):
        _encode.Pieces(b"a", starts, 0, most_chars=0)
    with pytest.raises(TypeError, match="`decoded` is missing"):
        _encode.Encoder(pieces=_encode.Pieces(b"a", starts, 0))
    with pytest.raises(TypeError, match="a model that merges has tokens"):
        _encode.Encoder()
    with pytest.raises(ValueError, match="token 0 brings no space"):
        _encode.Decoded(b"a", starts, np.array([3], np.uint8))


# ---- against the reference ----


@QUICK
@given(vocabularies(), st.integers(0, 1 << 32))
def test_random_pieces(made, seed):
    vocabulary, tokens, options, letters = made
    rng = random.Random(seed)
    words = [random_word(rng, [*letters, rng.choice(LETTERS)]) for _ in range(15)]
    expected = [encode_wordpiece(word, tokens, **options) for word in words]
    for size in (0, 1 << 20):
        encoder = encoder_of(vocabulary, cache_bytes=size)
        for _ in range(2):
            assert [spelled(vocabulary, ids) for ids in encode(encoder, words)] == expected
    most = options["most"] or 10**9
    overlong = sum(len(word) > most for word in words)
    unmatched = sum(len(word) <= most and part == ["[UNK]"] for word, part in zip(words, expected))
    counts, *told = encoder.count_told(*side_by_side(words), PIECE)
    assert np.frombuffer(counts, np.int64).tolist() == [len(part) for part in expected]
    assert told == [0 if options["unk_characters"] else unmatched, overlong]
    assert encoder.encode_told(*side_by_side(words), PIECE)[2] == overlong
    for word, part in zip(words, expected):
        assert spelled(vocabulary, encoder.encode_list(word.encode(), PIECE)) == part
    text = " ".join(words)
    joined = [piece for part in expected for piece in part]
    for limit in (0, 1, 5, 17, 10**6):
        (ids,) = encode(encoder, [text], WHITESPACE, most=limit)
        assert spelled(vocabulary, ids) == joined[:limit]


@pytest.mark.parametrize("seed", range(40))
def test_as_tokenizers(seed):
    from tokenizers import Tokenizer, models

    rng = random.Random(f"peers {seed}")
    letters = rng.sample(LETTERS, rng.randint(2, 5))
    tokens = {rng.choice(["", "##", "##"]) + "".join(rng.choices(letters, k=rng.choice([1, 1, 2, 3, 5]))) for _ in range(20)}
    vocabulary = vocabulary_of(sorted(tokens), max_input_chars_per_word=20)
    ids = {token.decode(): i for i, token in enumerate(vocabulary.tokens) if token} | {"[UNK]": 0}
    peer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=20))
    words = [random_word(rng, letters) for _ in range(40)]
    assert encode(encoder_of(vocabulary), words) == [peer.encode(word).ids for word in words]
    level = vocabulary_of(sorted(tokens), algorithm="wordlevel")
    peer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    words += sorted(tokens)
    assert encode(encoder_of(level), words) == [peer.encode(word).ids for word in words]


# ---- hostile vocabularies and words ----


def test_words_and_tokens_of_a_megabyte():
    """Each of these would take hours, or hundreds of gigabytes, if it were quadratic."""
    n = 1_000_000
    one = vocabulary_of(["a", "##a", "a" * n, "##" + "a" * (n // 2) + "b", "##b"], max_input_chars_per_word=None)
    assert pieces(one, ["a" * n, "a" * (n - 1)]) == [["a" * n], ["a"] + ["##a"] * (n - 2)]
    assert pieces(one, ["a" * (n + 1) + "b"]) == [["a" * n, "##a", "##b"]]
    assert pieces(one, ["a" * (n + n // 2) + "b"]) == [["a" * n, "##" + "a" * (n // 2) + "b"]]
    steps = vocabulary_of(["a", *["##" + "a" * k for k in range(1, 1500)]], max_input_chars_per_word=None)
    assert [len(part) for part in pieces(steps, ["a" * n])] == [1 + -(-(n - 1) // 1499)]
    for characters in (False, True):
        never = vocabulary_of(["##" + "a" * 1000 + "b", "a"], max_input_chars_per_word=None, unk_characters=characters)
        assert pieces(never, ["a" * n]) == [["a"] + ["[UNK]"] * (n - 1) if characters else ["[UNK]"]]
    limited = vocabulary_of(["a", "##a", "a" * n])
    assert pieces(limited, ["a" * n, "a" * 100, "a" * 101]) == [["[UNK]"], ["a"] + ["##a"] * 99, ["[UNK]"]]


def test_caches_threads_and_widths_agree():
    rng = random.Random(3)
    vocabulary = vocabulary_of([*"abcé", "ab", "##a", "##b", "##cab", "##é", "中"])
    texts = [" ".join(random_word(rng, "abcé中x") for _ in range(rng.randrange(0, 30))) for _ in range(40)]
    encoders = [encoder_of(vocabulary, cache_bytes=size) for size in (0, 1 << 13, 16 << 20)]
    data, bounds = side_by_side(texts)
    results = {encoder.encode_told(data, bounds, WHITESPACE) for encoder in encoders for _ in range(2)}
    assert len(results) == 1
    ids, ends, overlong = results.pop()
    with ThreadPoolExecutor(4) as pool:
        calls = pool.map(lambda _: encoders[2].encode_told(data, bounds, WHITESPACE), range(20))
        assert set(calls) == {(ids, ends, overlong)}
    narrow, _, _ = encoders[0].encode_told(data, bounds, WHITESPACE, width=2)
    assert np.frombuffer(narrow, np.uint16).tolist() == np.frombuffer(ids, np.uint32).tolist()


# ---- decoding ----


def test_decoding():
    vocabulary = vocabulary_of(["un", "##happi", "##ness", "a", "##", "####"], ["[UNK]", "[SEP]"])
    encoder = encoder_of(vocabulary)
    texts = ["unhappiness  a un", "a", "", "x unness", "## a"]
    data, bounds = side_by_side(texts)
    packed, packed_ends = encoder.encode(data, bounds, WHITESPACE)
    ids, ends = np.frombuffer(packed, np.uint32), np.frombuffer(packed_ends, np.int64)
    expected = ["unhappiness a un", "a", "", "[UNK] unness", "## a"]
    for array in (ids, ids.astype(np.uint16)):
        decoded, byte_ends = encoder.decode_documents(array, ends)
        assert decoded.decode() == "".join(expected)
        assert np.frombuffer(byte_ends, np.int64).tolist() == np.cumsum([len(text) for text in expected]).tolist()
        for begin, end, text in zip([0, *ends], ends, expected):
            assert encoder.decode(array[begin:end]).decode() == text
    assert encoder.decode_list([1, vocabulary.ids[b"##ness"], 1]) == b"[SEP]ness [SEP]"
    assert encoder.decode_list([vocabulary.ids[b"####"]]) == b"##"
    assert np.frombuffer(encoder.lengths(ids[:5]), np.int64).tolist() == [2, 5, 4, 1, 2]


def test_decoding_as_tokenizers():
    from tokenizers import Tokenizer, decoders, models

    rng = random.Random(2)
    vocabulary = vocabulary_of([*"abé中", "##a", "##中", "abc" * 9, "##" + "é" * 12])
    ids = {token.decode(): i for i, token in enumerate(vocabulary.tokens) if token} | {"[UNK]": 0}
    peer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    peer.decoder = decoders.WordPiece(cleanup=False)
    level = vocabulary_of([*"abé中", "abc" * 9], algorithm="wordlevel")
    level_ids = {token.decode(): i for i, token in enumerate(level.tokens) if token} | {"[UNK]": 0}
    level_peer = Tokenizer(models.WordLevel(level_ids, unk_token="[UNK]"))
    for _ in range(200):
        some = rng.choices(range(len(vocabulary)), k=rng.randrange(1, 9))
        if spelled(vocabulary, some[:1])[0].startswith("##"):  # at the beginning they keep the prefix
            some.insert(0, 0)
        assert encoder_of(vocabulary).decode_list(some).decode() == peer.decode(some, skip_special_tokens=False)
        some = rng.choices(range(len(level)), k=rng.randrange(1, 9))
        assert encoder_of(level).decode_list(some).decode() == level_peer.decode(some, skip_special_tokens=False)


# ---- real text ----


@pytest.mark.parametrize("lower", [True, False])
def test_bert_on_the_words_of_real_text(shared, lower):
    from tokenizers import Tokenizer, models

    tokens = (shared / "reference" / "bert-base-uncased-vocab.txt").read_text().splitlines()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    ids = {token: i for i, token in enumerate(tokens)}
    vocabulary = vocabulary_of([token for token in tokens if token not in special], special)
    ours = {token: i for i, token in enumerate(spelled(vocabulary, range(len(vocabulary))))}
    text = (shared / "corpora" / "mixed-1m.txt").read_text()
    words = sorted({*(text.lower() if lower else text).split()} - {*special})
    words += ["".join(pair) for pair in zip(words, words[1000:])][:5000]
    peer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    expected = [[ours[tokens[i]] for i in encoding.ids] for encoding in peer.encode_batch(words)]
    assert encode(encoder_of(vocabulary), words) == expected
    assert any(len(part) > 3 for part in expected) and any(len(word) > 100 for word in words)
