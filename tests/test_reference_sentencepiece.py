"""The reference of SentencePiece against the library: pieces and their order, ids, normalized and decoded text."""

from __future__ import annotations

import io
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_bpe import reference_sentencepiece as reference
from beam_bpe.formats.sentencepiece import SentencePieceModel, content_of, model_of, read_model
from beam_bpe.model import byte_token
from beam_bpe.reference_sentencepiece import alphabet, count, learn, normalize, number, text_of
from beam_bpe.reference_sentencepiece_encoding import Encoder

spm = pytest.importorskip("sentencepiece")

SPACE = "\u2581"
QUICK = settings(max_examples=150, deadline=None)
MODELS = ("test_ja_model", "test_model", "trained_botchan_bpe_1000", "trained_botchan_bpe_2000_bytefallback")
MODELS += ("trained_botchan_unigram_1000",)


def trained(lines, size, **options):
    """Return the model that the library trains, of lines of any length, without script and number splitting."""
    writer = io.BytesIO()
    usual = {
        "model_type": "bpe", "character_coverage": 1.0, "normalization_rule_name": "identity", "split_by_unicode_script": False,
        "split_by_number": False, "max_sentence_length": 1 << 20, "hard_vocab_limit": False, "minloglevel": 2,
    }  # fmt: skip
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=writer, vocab_size=size, **{**usual, **options})
    return model_of(writer.getvalue())


def encoder_of(model):
    return Encoder(model.pieces, model.scores.tolist(), model.kinds, model.option("model_type"), model.option("byte_fallback"))


def peer_of(model):
    return spm.SentencePieceProcessor(model_proto=content_of(model))


def whitespace(model):
    return {name: model.option(name) for name in ("add_dummy_prefix", "remove_extra_whitespaces")}


# ---- learning ------------------------------------------------------------------------------------


def test_by_hand():
    """Four pairs are at 6: `ew` is the smallest; then `▁n` is shorter than `new` and `ewe`, and `ewe` smaller than `▁new`."""
    learned = learn({"▁newest": 4, "▁newer": 2, "▁to": 2}, 17)
    assert learned.pieces == "ew ▁n ewe ▁newe st ▁newest to ▁to ▁newer".split()
    assert learned.counts == [6, 6, 6, 6, 4, 4, 2, 2, 2]
    assert learned.characters == list("e▁ntwsor")


def test_ties():
    assert learn({"▁ba": 1, "▁ab": 1}, 5).pieces == ["ab", "ba"]  # ab, ba, ▁a, ▁b are at 1
    assert learn({"▁abcdab": 1, "xy": 2}, 20).pieces[:3] == ["ab", "xy", "cd"]  # two characters before three
    assert learn({"aaaa": 1, "bb": 2}, 4).counts == [3, 2]  # three pairs of a, that overlap
    assert learn({"aaaaa": 3}, 9).pieces == ["aa", "aaa", "aaaaa"]  # aa aa a, where "aaa" is shorter than "aaaa"


def test_what_no_piece_holds():
    words = {"▁a1\uff112b": 9, "▁a\x00c": 5, "▁a\u2585d": 5, "▁a\x1fe": 5}
    pieces = learn(words, 60, split_digits=True).pieces
    assert pieces == [f"{SPACE}a"]
    assert learn(words, 60).pieces[:2] == [f"{SPACE}a", "1\uff11"]
    assert max(map(len, learn({"a" * 99: 1, "▁" + "b" * 40: 2}, 60).pieces)) == 16
    assert max(map(len, learn({"a" * 99: 1}, 60, max_length=5).pieces)) == 4
    assert learn({"a▁b": 9}, 60).pieces == ["▁b"]
    with pytest.raises(ValueError, match="size is 2, and the alphabet has 3 characters"):
        learn({"abc": 1}, 2)


def test_coverage_is_exact():
    """In single precision 3,000,000,000 of 3,000,000,001 are all: the library drops x."""
    counts = {"a": 3 * 10**9, "x": 1}
    assert (
        alphabet(counts) == ["a", "x"] and alphabet(counts, "0.9999999999") == ["a", "x"] and alphabet(counts, "0.999") == ["a"]
    )
    assert alphabet({"a": 9995, "b": 5}, "0.9995") == ["a"] == alphabet({"a": 9995, "b": 5}, Fraction(1999, 2000))
    assert alphabet({"a": 2, "b": 2, "c": 2, "\0": 94}, "0.5") == ["a", "b"]
    tsv = [f"{word}\t{n}" for word, n in counts.items()]
    model = trained(tsv, 10, input_format="tsv")
    assert "x" not in model.pieces and "a" in model.pieces


LINES = st.lists(
    st.one_of(
        st.text("ab ", max_size=25),
        st.text(f"abc1\uff112日\t\x1f\0é{SPACE} ", max_size=25),
        st.text("low<unk>s er", max_size=25),
    ),
    min_size=1,
    max_size=10,
).filter(lambda lines: any(line.strip(f" \0\x1f{SPACE}") for line in lines))


@QUICK
@given(
    LINES,
    st.sampled_from(["1", "0.98", "0.995"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([3, 16]),
)
@example(["aaaaaaaab aaaa"], "1", True, False, False, False, 16)
@example(["abc abc abc", "b\tc x"], "1", True, False, False, False, 16)
def test_pieces_and_their_order(lines, coverage, remove, prefix, digits, fallback, max_length):
    whitespaces = {"remove_extra_whitespaces": remove, "add_dummy_prefix": prefix}
    options = {"split_digits": digits, "byte_fallback": fallback, "max_sentencepiece_length": max_length}
    theirs = trained(lines, 60 + 256 * fallback, character_coverage=float(coverage), **options, **whitespaces)
    meta = 3 + 256 * fallback
    words = count(lines, symbols=theirs.pieces[:meta], **whitespaces)
    learned = learn(words, 57, character_coverage=coverage, split_digits=digits, max_length=max_length)
    ours = number(learned, byte_fallback=fallback)
    # Where pairs are used up, the library goes on with those that it has seen before and that are none any more.
    end, rest = meta + len(learned.pieces), len(theirs.pieces) - len(learned.characters)
    assert [piece for piece, _, _ in ours] == [*theirs.pieces[:end], *theirs.pieces[rest:]]
    assert [kind for _, _, kind in ours] == [*theirs.kinds[:end], *theirs.kinds[rest:]]
    if end == rest:
        assert [score for _, score, _ in ours] == theirs.scores.tolist()
    assert all(n > 0 for n in learned.counts)


def test_pairs_that_are_used_up():
    """`b` and `c` are a pair until `ab` and then `abc` are merged: no word has it, and the library makes it a piece."""
    theirs = trained(["abc abc"], 30)
    learned = learn(count(["abc abc"]), 27)
    assert learned.pieces == ["ab", "abc", "▁abc"] and list(theirs.pieces[3:6]) == learned.pieces
    assert {"bc", "▁a"} <= set(theirs.pieces[6:])


@pytest.mark.parametrize(
    "options",
    [
        {"user_defined_symbols": ["<x>", "lo", "▁w"], "control_symbols": ["<c>"]},
        {"user_defined_symbols": ["</s>", "r,r", "."], "byte_fallback": True},
        {"control_symbols": ["<sep>", "<cls>", "lo"], "pad_id": 0, "unk_id": 3, "bos_id": -1, "eos_id": 7},
    ],
)
def test_meta_pieces(options):
    lines = ["low <x>lower lo <sep> r,r wow", "slow <c>low </s> <0x41> ..", "lowest newest<unk>"]
    theirs = trained(lines, 70 + 256 * options.get("byte_fallback", False), **options)
    named = {"unk_id": (0, "<unk>"), "bos_id": (1, "<s>"), "eos_id": (2, "</s>"), "pad_id": (-1, "<pad>")}
    special = {options.get(name, usual): piece for name, (usual, piece) in named.items()}
    symbols = {name: options.get(name, ()) for name in ("control_symbols", "user_defined_symbols")}
    meta = [piece for piece, kind in zip(theirs.pieces, theirs.kinds) if kind != "normal"]
    learned = learn(count(lines, symbols=meta), len(theirs.pieces) - len(meta))
    ours = number(
        learned,
        special={i: piece for i, piece in special.items() if i >= 0},
        **symbols,
        byte_fallback=options.get("byte_fallback", False),
    )
    made = len(learned.pieces)
    assert [(piece, kind) for piece, _, kind in ours][: len(meta) + made] == list(zip(theirs.pieces, theirs.kinds))[
        : len(meta) + made
    ]


def lines_of(shared):
    """Return the lines of mixed-1m without their endings; a line may hold any character but LF."""
    return (shared / "corpora" / "mixed-1m.txt").read_bytes().decode().split("\n")


@pytest.mark.parametrize(
    "size, coverage, remove, options",
    [
        (3_800, "1", True, {}),
        pytest.param(4_000, "0.9995", False, {"byte_fallback": True, "split_digits": True}, marks=pytest.mark.slow),
        *[
            pytest.param(8_000, coverage, remove, options, marks=pytest.mark.slow)
            for coverage in ("1", "0.9995")
            for remove in (True, False)
            for options in ({}, {"byte_fallback": True}, {"split_digits": True})
        ],
    ],
)
def test_real_text(size, coverage, remove, options, shared):
    lines = lines_of(shared)
    theirs = trained(
        lines, size, character_coverage=float(coverage), remove_extra_whitespaces=remove, hard_vocab_limit=True, **options
    )
    meta = theirs.kinds.index("normal")
    words = count(lines, symbols=theirs.pieces[:meta], remove_extra_whitespaces=remove)
    learned = learn(words, size - meta, character_coverage=coverage, split_digits=options.get("split_digits", False))
    pieces, scores, kinds = zip(*number(learned, byte_fallback=options.get("byte_fallback", False)))
    assert pieces == theirs.pieces and kinds == theirs.kinds and list(scores) == theirs.scores.tolist()


@pytest.fixture(scope="module")
def scripts():
    """Return the Unicode script of each character, by its name."""
    import regex
    from regex import _regex_core  # it has a public way to ask for a script, and none to list them

    names: dict[int, str] = {}
    for name, i in _regex_core.PROPERTIES["SCRIPT"][1].items():
        names.setdefault(i, name)  # the long one comes first
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    found: dict[str, str] = {}
    for name in names.values():
        found |= dict.fromkeys("".join(regex.findall(rf"\p{{Script={name}}}+", every)), name)
    return found


def test_one_script_by_hand(scripts):
    def pieces(word, **options):
        return learn({word: 1}, 99, scripts=scripts, **options).pieces

    assert pieces("▁aб") == ["▁a"] and pieces("漢あアー") and "漢あアー" in pieces("漢あアー")
    assert pieces("a\u0301b") == pieces("a\u0301b", split_by_number=False) and "a\u0301b" in pieces("a\u0301b")
    assert pieces("a1b") == [] and "a1б" in pieces("a1б", split_by_number=False) and pieces("a!b", split_by_number=False) == []


@pytest.mark.parametrize(
    "size, split_by_number",
    [
        (4_000, True),
        pytest.param(8_000, True, marks=pytest.mark.slow),
        pytest.param(8_000, False, marks=pytest.mark.slow),
    ],
)
def test_real_text_of_one_script(size, split_by_number, shared, scripts):
    """The library's default, with numbers of their own."""
    lines = lines_of(shared)
    theirs = trained(lines, size, split_by_unicode_script=True, split_by_number=split_by_number)
    learned = learn(count(lines, symbols=theirs.pieces[:3]), size - 3, scripts=scripts, split_by_number=split_by_number)
    assert tuple(piece for piece, _, _ in number(learned)) == theirs.pieces


# ---- encoding ------------------------------------------------------------------------------------


def texts_of(shared):
    nasty = [path.read_bytes() for path in sorted((shared / "corpora" / "nasty").iterdir())]
    lines = (shared / "corpora" / "mixed-1m.txt").read_bytes().split(b"\n")
    difficult = ["", " ", "   ", "▁", " ▁ ", "a▁▁", "▁ ▁", "\0", "a\0b", "<s>", "<unk>x", "<0x41>", "</s> <pad>", "a" * 20_000]
    return [*nasty, *lines[::20], *(text.encode() for text in difficult)]


@pytest.mark.parametrize("name", MODELS)
def test_ids_of_the_models(name, shared):
    model = read_model(str(shared / "reference" / "spm" / f"{name}.model"))
    peer, encoder, options = peer_of(model), encoder_of(model), whitespace(model)
    for text in texts_of(shared):
        ids = peer.encode(text)
        assert encoder.encode(text_of(peer.normalize(text))) == ids, text[:80]
        assert encoder.decode(ids, **options) == peer.decode(ids), text[:80]


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("remove", [True, False])
def test_identity_of_bytes(algorithm, remove, shared):
    lines = lines_of(shared)[:2000]
    model = trained(lines, 2500, model_type=algorithm, remove_extra_whitespaces=remove, byte_fallback=True)
    peer, encoder, options = peer_of(model), encoder_of(model), whitespace(model)
    for text in texts_of(shared):
        assert encoder.encode(normalize(text_of(text), **options)) == peer.encode(text), text[:80]


LETTERS = f"abé日{SPACE}"
PIECES = st.lists(
    st.tuples(
        st.text(LETTERS, min_size=1, max_size=5),
        # -0.0, which no trainer gives beside 0.0, is less than that to the library's BPE, and equal to it here
        st.one_of(st.sampled_from([0.0, -1.0, -2.0, -3.0]), st.floats(-9, 1, width=32).map(lambda score: score + 0.0)),
        st.sampled_from(["normal"] * 5 + ["user_defined", "unused"]),
    ),
    max_size=25,
    unique_by=lambda row: row[0],
)
TEXTS = st.lists(st.text(f"{LETTERS} \U0001f600", max_size=30), min_size=1, max_size=8)


@QUICK
@given(PIECES, st.sampled_from(["bpe", "unigram"]), st.booleans(), st.booleans(), st.booleans(), TEXTS)
@example([("b", -1.0, "unused"), ("ab", -2.0, "unused"), ("a", -3.0, "normal")], "bpe", True, True, False, ["ab abb", "b"])
@example([("bb", -1.0, "user_defined"), ("b", -2.0, "normal"), ("▁", -1.9, "normal")], "unigram", True, True, False, ["bbb"])
@example([("ab", -1.0, "user_defined"), ("abb", -1.0, "normal"), ("b", -2.0, "normal")], "bpe", False, True, False, ["abb"])
@example([("a", -1.0, "user_defined"), ("ab", -1.0, "user_defined")], "bpe", False, True, False, ["abab"])
@example([("▁", -1.0, "normal")], "unigram", False, True, False, ["▁c"])
def test_any_model(rows, algorithm, prefix, remove, fallback, texts):
    rows = [("<unk>", 0.0, "unknown"), ("c", -4.0, "normal"), *rows]
    rows += [(byte_token(byte), 0.0, "byte") for byte in range(256)] if fallback else []
    pieces, scores, kinds = zip(*rows)
    model = SentencePieceModel(
        pieces, scores, kinds, {"model_type": algorithm, "byte_fallback": fallback},
        {"name": "identity", "add_dummy_prefix": prefix, "remove_extra_whitespaces": remove},
    )  # fmt: skip
    peer, encoder, options = peer_of(model), encoder_of(model), whitespace(model)
    for text in texts:
        normalized = normalize(text, user_defined=encoder.user_defined, **options)
        assert normalized == peer.normalize(text)
        ids = encoder.encode(normalized)
        assert ids == peer.encode(text)
        assert encoder.decode(ids, **options) == peer.decode(ids)


@QUICK
@given(
    st.text(" ab▁", max_size=12), st.booleans(), st.booleans(), st.sets(st.sampled_from([" ", "  ", "a b", " b", "b  a", "▁"]))
)
def test_normalized(text, prefix, remove, symbols):
    pieces = ("<unk>", "c", *sorted(symbols))
    kinds = ("unknown", "normal", *["user_defined"] * len(symbols))
    options = {"add_dummy_prefix": prefix, "remove_extra_whitespaces": remove}
    model = SentencePieceModel(pieces, [0.0] * len(pieces), kinds, {"model_type": "bpe"}, {"name": "identity", **options})
    assert normalize(text, user_defined=symbols, **options) == peer_of(model).normalize(text)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\xe2\x96",
        b"\xed\xa0\x80",
        b"\xc0\x80\xf8\x88",
        b"\xf0\x9f\x98a",
        b"\xf4\x90\x80\x80",
        "\ufffe\U0010ffff".encode(),
    ],
)
def test_bytes_that_are_no_text(data):
    model = SentencePieceModel(
        ("<unk>", "c"), [0, 0], ("unknown", "normal"), {}, {"name": "identity", "add_dummy_prefix": False}
    )
    assert text_of(peer_of(model).normalize(data)) == text_of(data)


# ---- sums in single precision --------------------------------------------------------------------


def summed(filler, pair=-0.601, single=-0.3):
    """Return a Unigram model in which "xy" and "x", "y" differ by little, and "f" moves the sum."""
    rows = {"x": single, "y": single, "xy": pair, "f": filler}
    scores = [0.0, *rows.values()]
    return SentencePieceModel(
        ("<unk>", *rows), scores, ("unknown", *["normal"] * 4), {}, {"name": "identity", "add_dummy_prefix": False}
    )


@pytest.mark.parametrize("filler", [-1000.0, 1000.0, -12345.678, -100.0, -1e6, -99999.99, -100000.0])
def test_the_sum_of_a_long_text(filler):
    """It is kept in single precision, and taken away where it passes 100,000: near ties come and go with it."""
    model = summed(filler)
    peer, encoder = peer_of(model), encoder_of(model)
    text = "fxy" * (2000 if abs(filler) < 1000 else 400)
    ids = peer.encode(text)
    assert encoder.encode(text) == ids
    if filler in (-1000.0, -100.0):
        both = [encoder.encode("fxy"), [i for i in ids if i == model.pieces.index("xy")]]
        assert len(both[0]) == 3 and both[1]  # alone it is f, x, y; far into a text it is f, xy


@pytest.mark.parametrize("filler", [-100000.0, -100000.0078125, 100000.0, 100000.0078125])
def test_where_the_sum_is_taken_away(filler):
    """At 100,000 not yet, where 128 numbers of single precision make 1, and `xy` at -0.5999 is rounded below -0.6."""
    model = summed(filler, pair=-0.5999)
    expected = ["f", "x", "y"] if abs(filler) == 100000.0 else ["f", "xy"]
    assert peer_of(model).encode("fxy", out_type=str) == expected
    assert [piece for piece, _ in encoder_of(model).segment("fxy")] == expected


def test_a_long_document(shared):
    """Word by word it is cut differently: rounding decides, and the sum that a word is added to."""
    model = read_model(str(shared / "reference" / "spm" / "trained_botchan_unigram_1000.model"))
    peer, encoder = peer_of(model), encoder_of(model)
    text = (shared / "corpora" / "mixed-1m.txt").read_bytes()[:200_000]
    normalized = text_of(peer.normalize(text))
    ids = peer.encode(text)
    assert encoder.encode(normalized) == ids
    assert [i for word in reference.words_of(normalized) for i in encoder.encode(word)] != ids


def test_user_defined_symbols_in_unigram():
    """One of n bytes scores (n - 1) / 10, whatever its own score is: a piece with more is taken instead."""
    for symbol in ("xy", "x" * 10, "x" * 27, "日本"):
        bonus = (len(symbol.encode()) - 1) * 0.1
        for more, expected in ((bonus + 1e-4, [symbol + "w"]), (bonus - 1e-4, [symbol, "w"])):
            pieces = ("<unk>", symbol, "w", symbol + "w")
            kinds = ("unknown", "user_defined", "normal", "normal")
            model = SentencePieceModel(pieces, [0, -7, 0, more], kinds, {}, {"name": "identity", "add_dummy_prefix": False})
            assert [piece for piece, _ in encoder_of(model).segment(symbol + "w")] == expected
            assert peer_of(model).encode(symbol + "w", out_type=str) == expected


def test_an_unknown_character_costs_ten():
    """Less than the lowest score, which is that of "x?"."""
    for gain, expected in ((9.5, ["x?"]), (10.5, ["x", "?"])):
        kinds = ("unknown", "normal", "normal")
        model = SentencePieceModel(
            ("<unk>", "x", "x?"), [0, gain, -3], kinds, {}, {"name": "identity", "add_dummy_prefix": False}
        )
        assert [piece for piece, _ in encoder_of(model).segment("x?")] == expected
        assert peer_of(model).encode("x?", out_type=str) == expected


# ---- there and back ------------------------------------------------------------------------------


def lossless(algorithm, **changes):
    lines = ["low lower lowest", " new  newer newest ", "abcdefghijklmnopqrstuvwxyz"]
    options = {"remove_extra_whitespaces": False, "byte_fallback": True, "vocab_size": 340, **changes}
    model = trained(lines, options.pop("vocab_size"), model_type=algorithm, **options)
    encoder, spaces = encoder_of(model), whitespace(model)
    return lambda text: encoder.decode(encoder.encode(normalize(text, **spaces)), **spaces)


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_lossless(algorithm):
    back = lossless(algorithm)

    @QUICK
    @given(
        st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(" \n\t\0<0x41>é"))).filter(
            lambda text: SPACE not in text
        )
    )
    @example("  a  b  ")
    @example(" ")
    @example("<s></s><unk>")
    def check(text):
        assert back(text) == text

    check()


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_the_three_exceptions(algorithm):
    """U+2581 in the text, whitespace that is removed, and characters without a piece."""
    back = lossless(algorithm)
    assert back(f"a{SPACE}b") == "a b"
    assert lossless(algorithm, remove_extra_whitespaces=True)("  a  b ") == "a b"
    assert lossless(algorithm, byte_fallback=False, vocab_size=60)("aé") == "a \u2047 "


def test_options_that_are_impossible():
    with pytest.raises(ValueError, match="choose 'bpe' or 'unigram'"):
        Encoder(["<unk>"], [0.0], ["unknown"], "word")
    with pytest.raises(ValueError, match="needs a normal piece"):
        Encoder(["<unk>"], [0.0], ["unknown"], "unigram")
    with pytest.raises(ValueError, match="'<pad>' has the id 9, and there are 6 pieces"):
        number(learn({"ab": 1}, 3), special={0: "<unk>", 1: "<s>", 9: "<pad>"})
