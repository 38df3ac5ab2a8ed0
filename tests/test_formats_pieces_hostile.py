"""Broken and hostile tokenizer.json of pieces, vocab.txt and codes: FormatError with the path, in bounded time and memory."""

from __future__ import annotations

import copy
import json
import random
import warnings

import pytest

from beam_bpe import Tokenizer, formats
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import huggingface
from beam_bpe.layout import MOST_IDS
from beam_bpe.model import byte_token

FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def token(text, i):
    return {"id": i, "content": text, **FLAGS}


def frame(model, normalizer, pre_tokenizer, added):
    special = {text: {"id": text, "ids": [i], "tokens": [text]} for text, i in added.items()}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [token(text, i) for text, i in added.items()],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": text}} for text in added] + [{"Sequence": {"id": "A"}}],
                           "pair": [], "special_tokens": special},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": model,
    }  # fmt: skip


def ids(*texts):
    return {text: i for i, text in enumerate(texts)}


BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
CONTENTS = {
    "wordpiece": frame(
        {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
         "vocab": ids("[UNK]", "[CLS]", "a", "b", "##a", "##b", "ab", "##ab", "é")},
        {"type": "Sequence", "normalizers": [BERT, {"type": "NFC"}]}, {"type": "BertPreTokenizer"}, {"[UNK]": 0, "[CLS]": 1},
    ),
    "marked": frame(
        {"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>", "fuse_unk": True, "byte_fallback": False, "dropout": None,
         "continuing_subword_prefix": None, "ignore_merges": False, "vocab": ids("<unk>", "a", "b", "a</w>", "b</w>", "ab", "ab</w>", "bab</w>"),
         "merges": ["a b", "a b</w>", ["b", "ab</w>"]]},
        {"type": "Lowercase"}, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}]}, {"<unk>": 0},
    ),
    "bytes": frame(
        {"type": "BPE", "unk_token": None, "byte_fallback": True, "vocab": ids("<s>", *map(byte_token, range(256)), "a", "b", "ab"), "merges": [["a", "b"]]},
        None, None, {"<s>": 0},
    ),
    "words": frame({"type": "WordLevel", "unk_token": "<unk>", "vocab": ids("<unk>", "low", "é")}, {"type": "NFKC"}, {"type": "Whitespace"}, {"<unk>": 0}),
}  # fmt: skip


@pytest.fixture
def load(tmp_path):
    """Return what writes a file, reads it, and gives the tokenizer or None for a FormatError of one line that names the path."""

    def loaded(name, content, said="", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                vocabulary = formats.load(str(path), **options)
        except FormatError as error:
            assert str(error).startswith(str(path)) and len(str(error)) < 2000 and "\n" not in str(error)
            assert said is not None and said in str(error), error
            return None
        assert not said
        return Tokenizer(vocabulary)

    return loaded


def nodes(value, path=()):
    """Yield the path of each node of a tree, but of few of the tokens."""
    yield path
    if isinstance(value, dict):
        for key in list(value)[:: 37 if len(value) > 100 else 1]:
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from nodes(value[i], (*path, i))


VALUES = [None, 0, -1, 1 << 63, 1.5, True, False, "", "text", "a", [], [0], [[]], {}, {"type": "Split"}, {"a": 1}, [None, None], float("inf")]  # fmt: skip


@pytest.mark.parametrize("family", CONTENTS)
def test_every_node_replaced(family, load):
    cases = broken = 0
    for number, path in enumerate(nodes(CONTENTS[family])):
        for value in VALUES[number % 3 :: 3]:
            changed = copy.deepcopy(CONTENTS[family])
            at = changed
            for key in path[:-1]:
                at = at[key]
            if path:
                at[path[-1]] = value
            else:
                changed = value
            tokenizer = load("tokenizer.json", changed)
            cases += 1
            broken += tokenizer is None
            if tokenizer is not None and cases % 10 == 0:
                tokenizer.encode("ab bab é", allowed_special="all", add_special_tokens=True)
                huggingface.content_of(tokenizer.vocabulary)
    assert cases > 250 and broken > 150


@pytest.mark.parametrize("family", CONTENTS)
def test_random_bytes_changed(family, load):
    data = json.dumps(CONTENTS[family], ensure_ascii=False).encode()
    assert load("tokenizer.json", data) is not None
    rng = random.Random(7)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(data))] = rng.choice(b'{}[]",:0-\\u\xff\x00nA9')
        load("tokenizer.json", bytes(changed))
    for part in range(20):
        load("tokenizer.json", data[: len(data) * part // 20], "not JSON")


def with_model(family, **changes):
    content = copy.deepcopy(CONTENTS[family])
    content["model"].update(changes)
    return content


@pytest.mark.parametrize(
    "said, content",
    [
        ("ids from 0 to 1000000000", with_model("wordpiece", vocab={"[UNK]": 0, "a": 10**9})),
        ("ids from -1 to", with_model("wordpiece", vocab={"[UNK]": 0, "a": -1})),
        ("no whole number: 1.5", with_model("words", vocab={"<unk>": 0, "a": 1.5})),
        ("have one id", with_model("words", vocab={"<unk>": 0, "a": 3, "b": 3})),
        ("the token of id 3 is empty", with_model("marked", vocab={"<unk>": 0, "": 3}, merges=[])),
        ("has no vocab", with_model("words", vocab={})),
        ("has no vocab", with_model("marked", vocab=None)),
        ("unk_token is '[UNK]', which is not in the vocab", with_model("wordpiece", vocab={"a": 0})),
        ("<0x00> is missing", with_model("bytes", vocab={"<s>": 0, "a": 1, "b": 2, "ab": 3})),
        ("needs the token 'zz'", with_model("marked", merges=["a zz"])),
        ("not two tokens", with_model("marked", merges=["a b c"])),
        ("are both of b'a' and b'b'", with_model("marked", merges=["a b", "a b"])),
        ("needs the token '<unk>', which is a special token", with_model("marked", merges=[["<unk>", "a"]])),
        ("max_input_chars_per_word=-3", with_model("wordpiece", max_input_chars_per_word=-3)),
        ("fuse_unk=1, neither true nor false", with_model("marked", fuse_unk=1)),
        ("stands twice", {**CONTENTS["words"], "added_tokens": [token("<unk>", 0)] * 2}),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_vocabulary_that_cannot_be(said, content, load):
    assert load("tokenizer.json", content, said) is None


def test_a_piece_of_megabytes(load):
    long = "a" * (10 << 20)
    content = with_model("wordpiece", vocab={**CONTENTS["wordpiece"]["model"]["vocab"], long: 9, "##" + long: 10})
    assert load("tokenizer.json", content).encode("ab") == [6]
    assert load("tokenizer.json", with_model("wordpiece", unk_token=long), "unk_token is 'aaa") is None
    assert load("tokenizer.json", {**content, "added_tokens": [token(long, 9), token(long, 9)], "post_processor": None}, "the added token 'aaa") is None
    assert load("vocab.txt", f"[UNK]\na\n{long}\n##b\n".encode()).encode("ab") == [1, 3]
    assert load("vocab.txt", f"[UNK]\n{long}\n{long}\n".encode(), "line 3: the piece 'aaa") is None
    lines = ["#version: 0.2"]
    symbol = "a"
    while len(symbol) < 1 << 20:
        lines.append(f"{symbol} {symbol}")
        symbol += symbol
    tokenizer = load("codes", "\n".join(lines).encode())
    assert len(tokenizer.token_bytes(len(tokenizer.vocabulary) - 1)) == len(symbol)
    assert len(tokenizer.encode("a" * (1 << 21) + "a")) == 3  # two of the longest, and the end of the word
    assert load("codes", b"a " + b"b" * (10 << 20), "line 1: the symbol 'bbb") is None


# ---- vocab.txt ----

VOCAB = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n\xc3\xa9\n"


def test_broken_vocab_txt(load):
    for data, said in [
        (b"", "has 0 lines"),
        (b"a\nb\n", "has no piece '[UNK]'"),
        (b"\n\n", "has no piece '[UNK]'"),
        (VOCAB + b"a\n", "line 8: the piece 'a' stands in line 5 as well"),
        (VOCAB + b"a \n", "line 8: the piece 'a' stands in line 5 as well"),
        (VOCAB + b"[UNK]", "line 8: the piece '[UNK]' stands in line 2"),
        (VOCAB + b"\xff\n", f"not UTF-8 at byte {len(VOCAB)}"),
        (VOCAB + b"\xed\xa0\x80\n", f"not UTF-8 at byte {len(VOCAB)}"),
        (VOCAB.decode().encode("utf-16"), "not UTF-8 at byte 0"),
        (b"\x00" * 100, "has no piece '[UNK]'"),
        (b"\x28\xb5\x2f\xfd" + VOCAB, "not UTF-8 at byte 1"),
    ]:
        assert load("vocab.txt", data, said) is None
    for end in range(len(VOCAB)):
        tokenizer = load("vocab.txt", VOCAB[:end])
        assert tokenizer is None or end >= VOCAB.index(b"[UNK]") + 5
    with pytest.raises(FileNotFoundError, match="vocab.txt"):
        formats.load("none/vocab.txt")


def test_options_of_vocab_txt_that_cannot_be(load):
    for options, said in [
        ({"normalizer": "NFX"}, "there is no normalizer 'NFX'"),
        ({"pattern": "berd"}, "there is no pattern named 'berd'"),
        ({"max_input_chars_per_word": 0}, "max_input_chars_per_word=0"),
        ({"unk_token": ""}, "unk_token=''"),
    ]:
        with pytest.raises(ValueError, match=said):
            load("vocab.txt", VOCAB, **options)
    assert load("vocab.txt", VOCAB, "has no piece '<unk>'", unk_token="<unk>") is None
    with pytest.raises(TypeError, match="casing"):
        load("vocab.txt", VOCAB, casing=True)


@pytest.mark.slow
def test_a_vocab_txt_with_too_many_lines(load):
    data = b"[UNK]\n" + b"".join(b"%d\n" % i for i in range(MOST_IDS))
    assert load("vocab.txt", data, f"has {MOST_IDS + 1:,} lines") is None


# ---- codes ----


def test_broken_codes(load):
    good = b"#version: 0.2\nl o\nlo w</w>\n"
    assert load("codes", good) is not None
    for data, said in [
        (b"", "line 1: '' is not two symbols"),
        (b"#version: 0.3\na b\n", "line 1: the version is '0.3'; 0.1, 0.2 are read"),
        (b"#version: 0.2 - Trained by `huggingface/tokenizers`\na b\n", "line 1: the version is '0.2 - Trained"),
        (b"#version:\na b\n", "line 1: the version is ''"),
        (good + b"l\n", "line 4: 'l' is not two symbols"),
        (good + b"l o w\n", "line 4: 'l o w' is not two symbols"),
        (good + b"l  o\n", "line 4: 'l  o' is not two symbols"),
        (good + b"\nl l\n", "line 4: '' is not two symbols"),
        (good + b"l o\n", "line 4: the merge 'l o' stands in line 2 as well"),
        (b"l o\nlo w\nw l\nlo l\nl o w\n", "line 5"),
        (b"lo w\nl o\n", "line 2: the merge makes 'lo', which a line before merges already"),
        (b"#version: 0.1\na b\nb c\nab c\nabc a\na bc\n", "line 6: the merge makes 'abc', which a line before merges already"),
        (good + b"xy z\n", "line 4: the symbol 'xy' is no character, and no merge makes it"),
        (good + b"x </w>\n", "line 4: the symbol '</w>' is no character"),
        (good + b"\xff a\n", f"not UTF-8 at byte {len(good)}"),
        (good.decode().encode("utf-16"), "not UTF-8 at byte 0"),
        (b"#version: 0.2\n\xc4\xa0 t\n\xc4\xa0t h\n", "holds merges of bytes as GPT-2's merges.txt"),
        (b"a b</w>\n", "line 1: the symbol 'b</w>' is no character"),
    ]:
        assert load("codes", data, said) is None
    for end in range(len(good)):
        load("codes", good[:end])
    for end in (b"\r\n", b"\n\n\n", b"", b" \n"):
        assert load("codes", good[:-1] + end) is not None


def test_options_of_codes_that_cannot_be(load):
    for options, said in [
        ({"normalizer": "NFX"}, "there is no normalizer 'NFX'"),
        ({"alphabet": ["ab"]}, "the alphabet holds 'ab', which is no character"),
        ({"alphabet": "\ud800"}, "no character"),
        ({"unk_token": "ab"}, "unk_token='ab' is a symbol of"),
        ({"unk_token": "a"}, "unk_token='a' is a symbol of"),
    ]:
        with pytest.raises(ValueError, match=said):
            load("codes", b"a b\n", **options)
