"""tokenizer.json, vocab.txt and codes of characters, WordPiece and whole words: ids equal their libraries', both ways."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Tokenizer, Vocabulary, WordCounts, formats, pre_tokenizer, train
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import components, huggingface, subword_nmt
from beam_bpe.formats.difficult import TEXTS, own_texts
from beam_bpe.formats.punctuation import PUNCTUATION
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.model import Model, byte_token
from beam_bpe.normalize import CHARACTER_STEPS
from beam_bpe.pretokenize import HUGGINGFACE_WHITESPACE as WHITESPACE

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import models, normalizers, pre_tokenizers, trainers  # noqa: E402

TEXT = (
    "The newest lowlands aren't lower than 12345 others… naïve café: größte Übergröße, x = y+1;\n\n    return 0\n"
    "機器學習模型的訓練資料和机器学习模型的训练数据。日本語のテキストと、한국어 텍스트. Это русский текст, самый новый! "
    "cafe\u0301 WORD Word's word'LL 3.14159265 1234567890 [UNK] </w> a##b ##s int main() { return 42; } // done  \n" * 9
)
NOTHING = {"version": "1.0", "truncation": None, "padding": None, "post_processor": None}
TRAINED = {
    "wordpiece": (models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])),
    "characters": (models.BPE(unk_token="<unk>"), trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>"])),
    "fused": (models.BPE(unk_token="<unk>", fuse_unk=True), trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>"], limit_alphabet=40)),
    "marked": (
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>"], end_of_word_suffix="</w>", limit_alphabet=80),
    ),
    "marked, fused": (
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True),
        trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=30),
    ),
    "bytes": (
        models.BPE(byte_fallback=True),
        trainers.BpeTrainer(vocab_size=600, special_tokens=["<s>"], limit_alphabet=40),
    ),
    "words": (models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=40, special_tokens=["<unk>", "<s>"])),
}  # fmt: skip
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
SHAPES = {
    "bert": (BERT, {"type": "BertPreTokenizer"}),
    "bert cased": ({**BERT, "lowercase": False}, {"type": "BertPreTokenizer"}),
    "whitespace": (None, {"type": "WhitespaceSplit"}),
    "words": ({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}, {"type": "Whitespace"}),
    "punctuation": ({"type": "NFC"}, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]}),
    "split": ({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {**BERT, "lowercase": True, "strip_accents": False}]},
              {"type": "Split", "pattern": {"Regex": r"\w+|\s+"}, "behavior": "Isolated", "invert": False}),
    "none": (None, None),
}  # fmt: skip


def trained_by_them(family: str, shape: str = "whitespace") -> dict:
    """Return the tokenizer.json of a model that `tokenizers` trained."""
    model, trainer = TRAINED[family]
    normalizer, pre = SHAPES[shape]
    frame = tokenizers.Tokenizer(copy.copy(model))
    base = {**json.loads(frame.to_str()), "normalizer": normalizer, "pre_tokenizer": pre}
    frame = tokenizers.Tokenizer.from_str(json.dumps(base))
    lines = TEXT.split("\n") if shape != "none" else TEXT.split()
    frame.train_from_iterator(lines, trainer)
    content = json.loads(frame.to_str())
    if family == "bytes":
        vocab = content["model"]["vocab"]
        for byte in range(256):
            vocab.setdefault(byte_token(byte), len(vocab))
    return content


@pytest.fixture(scope="module")
def of_them():
    known: dict[tuple[str, str], dict] = {}

    def content(family, shape="whitespace"):
        key = family, shape
        known[key] = known.get(key) or trained_by_them(*key)
        return copy.deepcopy(known[key])

    return content


class Both:
    """A tokenizer.json in both libraries."""

    def __init__(self, content: dict, folder: Path):
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(content))
        self.theirs = tokenizers.Tokenizer.from_file(str(path))
        self.theirs.no_truncation()
        self.theirs.no_padding()
        self.vocabulary = formats.load(str(path))
        self.ours = Tokenizer(self.vocabulary)

    def check(self, texts, **options) -> None:
        options = {"add_special_tokens": False, **options}
        for text in texts:
            assert self.ours.encode(text, allowed_special="all", **options) == self.theirs.encode(text, **options).ids, text


@pytest.fixture
def both(tmp_path):
    return lambda content: Both(content, tmp_path)


def random_texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices([*TEXT, "[UNK]", "</w>", "##", "☃", "İ", "\u0301"], k=rng.randrange(1, 60))) for _ in range(count)]


# ---- tokenizer.json ----

PAIRS = [(family, shape) for family in TRAINED for shape in SHAPES]


@pytest.mark.parametrize("family, shape", PAIRS, ids=[", ".join(pair) for pair in PAIRS])
def test_shapes(family, shape, of_them, both):
    one = both(of_them(family, shape))
    start = PAIRS.index((family, shape))
    texts = [*TEXTS[start % 13 :: 13], *random_texts(60, start), *list(own_texts(one.vocabulary))[start % 4 :: 4]]
    one.check([*texts, TEXT] if shape != "none" else texts)
    again = both(huggingface.content_of(one.vocabulary))
    assert again.vocabulary == one.vocabulary
    again.check(texts[::20])


def random_content(rng: random.Random) -> dict:
    """Return a random tokenizer.json of characters, pieces or words over few letters, with holes and added tokens."""
    letters, kind = "abAé的#<", rng.choice(["BPE", "BPE", "WordPiece", "WordLevel"])
    unk, mark, merges = rng.choice(["[UNK]", "b"]), rng.choice([None, "</w>", "b"]), []
    model: dict = {"type": kind, "unk_token": unk}
    if kind == "BPE":
        fallback = mark is None and rng.random() < 0.3
        symbols = [*rng.sample(letters, rng.randrange(1, 8)), *(char + mark for char in letters if mark and rng.random() < 0.7)]
        for _ in range(rng.randrange(40)):
            left, right = rng.choice(symbols), rng.choice(symbols)
            if len(left + right) < 12 and [left, right] not in merges and unk not in (left, right):
                merges.append([left, right])
                symbols.append(left + right)
        rng.shuffle(merges)
        symbols += BYTES if fallback else []
        model |= {"end_of_word_suffix": mark, "fuse_unk": rng.random() < 0.5, "byte_fallback": fallback, "merges": merges}
    else:
        prefix = rng.choice(["##", "##", "#", "a", ""]) if kind == "WordPiece" else ""
        symbols = ["".join(rng.choices(letters, k=rng.randrange(1, 5))) for _ in range(rng.randrange(1, 50))]
        symbols += [prefix + symbol for symbol in symbols if rng.random() < 0.7]
        if kind == "WordPiece":
            model |= {"continuing_subword_prefix": prefix, "max_input_chars_per_word": rng.choice([3, 8, 100])}
    symbols = [*dict.fromkeys([unk, *symbols])]
    ids = rng.sample(range(len(symbols) + rng.choice([0, 0, 9])), len(symbols))
    model["vocab"] = dict(zip(symbols, ids))
    chosen = [text for text in ["[UNK]", "[S]", "[S]a", "的", "ab"] if rng.random() < 0.4 and not (text in symbols and text != "[UNK]")]
    given = [*huggingface.given_ids(chosen, model["vocab"])]
    if {*given} & {i for text, i in model["vocab"].items() if text not in chosen} or max(ids) >= len(ids):
        chosen = [text for text in chosen if text in model["vocab"]]
        given = [model["vocab"][text] for text in chosen]
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    added = [
        {"id": i, "content": text, "special": text[0] == "[", **{flag: text[0] != "[" and rng.random() < 0.3 for flag in flags}}
        for text, i in zip(chosen, given)
    ]
    pre = rng.choice([None, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "Whitespace"}])
    return {**NOTHING, "added_tokens": added, "normalizer": rng.choice([None, BERT, {"type": "Lowercase"}]), "pre_tokenizer": pre, "decoder": None, "model": model}


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_random_vocabularies(seed, both):
    for number in range(60):
        rng = random.Random(seed * 1000 + number)
        content = random_content(rng)
        one = both(content)
        letters = [*"abAé的#<  \n", "☃", "##", "</w>", "[UNK]", "[S]", "<0x61>"]
        texts = ["".join(rng.choices(letters, k=rng.randrange(1, 25))) for _ in range(30)]
        for text in texts:
            assert one.ours.encode(text, allowed_special="all") == one.theirs.encode(text, add_special_tokens=False).ids, (content, text)
        both(huggingface.content_of(one.vocabulary)).check(texts[:5])


def test_shared_fixtures(shared, tmp_path):
    content = json.loads((shared / "reference" / "hf" / "trained_wordpiece_4096_mixed1m.json").read_text())
    one = Both(content, tmp_path)
    lines = (shared / "corpora" / "mixed-1m.txt").read_text().split("\n")
    one.check([*TEXTS[::5], *lines[::7]])
    assert huggingface.content_of(one.vocabulary)["model"]["vocab"] == content["model"]["vocab"]


@pytest.mark.parametrize("family", TRAINED)
def test_what_is_kept(family, of_them):
    content = of_them(family, "bert")
    if content["model"]["type"] == "BPE":
        content["model"]["merges"] = [list(merge) for merge in content["model"]["merges"]]
    content["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    again = huggingface.content_of(huggingface._read(copy.deepcopy(content), "x"))
    for name in content:
        if name != "model":
            assert again[name] == content[name], name
    theirs, ours = content["model"], again["model"]
    assert {**ours, "vocab": None, "merges": None} == {**theirs, "vocab": None, "merges": None}
    assert ours["vocab"] == theirs["vocab"] and ours.get("merges") == theirs.get("merges")


def test_model_of_a_file(of_them):
    def model(family, **changes):
        content = of_them(family)
        content["model"].update(changes)
        return huggingface._read(content, "x").model

    assert model("wordpiece") == Model("wordpiece", "character", continuing_subword_prefix="##", unk_token="[UNK]", max_input_chars_per_word=100)
    assert model("wordpiece", continuing_subword_prefix="", max_input_chars_per_word=1 << 40) == Model("wordpiece", "character", unk_token="[UNK]")
    assert model("words") == Model("wordlevel", "character", unk_token="<unk>")
    assert model("marked, fused") == Model("bpe", "character", end_of_word="</w>", attached=True, unk_token="<unk>", fuse_unk=True)
    assert model("bytes") == Model("bpe", "character", byte_fallback=True)
    assert model("bytes", unk_token="<s>", fuse_unk=True) == Model("bpe", "character", byte_fallback=True, unk_token="<s>")
    assert model("bytes", unk_token="<none>") == Model("bpe", "character", byte_fallback=True)


def test_special_tokens_are_no_pieces(of_them):
    content = of_them("wordpiece")
    content["added_tokens"].append({**content["added_tokens"][0], "id": content["model"]["vocab"]["The"], "content": "The", "special": False})
    read = huggingface._read(content, "x")
    assert read.special_ids == {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3} and not read.special_ids.keys() & {*map(bytes.decode, read.ids)}
    assert read.tokens[:4] == (b"",) * 4 and b"The" in read.ids and read.unk_id == 1


@pytest.mark.parametrize("family", ["wordpiece", "marked", "words"])
def test_unk_token_is_in_the_vocab(family, of_them, both, tmp_path):
    """Also where its id would follow from the others: without it tokenizers fails at the first unknown text."""
    content = of_them(family)
    unk = content["model"]["unk_token"]
    special = {entry["content"] for entry in content["added_tokens"]}
    vocab = {text: i for i, text in enumerate(text for text in content["model"]["vocab"] if text not in special)}
    vocab[unk] = len(vocab)
    content["model"]["vocab"] = vocab
    content["added_tokens"] = [{**content["added_tokens"][0], "content": unk, "id": vocab[unk]}]
    one = both(content)
    huggingface.save(one.vocabulary, str(tmp_path / "out"))
    written = json.loads((tmp_path / "out" / "tokenizer.json").read_text())
    assert written["model"]["vocab"] == vocab and unk.encode() not in one.vocabulary.ids


@pytest.mark.parametrize("name", [*CHARACTER_STEPS, "bert", "bert_cased", "NFC+lowercase", "bert+NFKC", "lowercase+clean_text", "clean_text+lowercase", "NFD+bert_cased"])
def test_normalizers_there_and_back(name):
    component = components.write_normalizer(name)
    assert components.read_normalizer(component) == name
    wrapped = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    wrapped = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(wrapped.to_str()), "normalizer": component}))
    assert json.loads(wrapped.to_str())["normalizer"] == component


def test_normalizers_that_are_none():
    assert components.read_normalizer({"type": "Sequence", "normalizers": []}) is None
    assert components.read_normalizer({"type": "BertNormalizer", **dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)}) is None
    assert components.read_normalizer({"type": "BertNormalizer"}) == "bert"
    assert components.read_normalizer({**BERT, "strip_accents": True, "lowercase": False}) == "clean_text+handle_chinese_chars+bert_strip_accents"


@pytest.mark.parametrize(
    "pattern, gaps, theirs",
    [
        (WHITESPACE, "drop", pre_tokenizers.Whitespace()),
        (PUNCTUATION, "keep", pre_tokenizers.Punctuation()),
        ("whitespace", "drop", pre_tokenizers.WhitespaceSplit()),
        ("bert", "drop", pre_tokenizers.BertPreTokenizer()),
    ],
)
def test_pre_tokenizers_on_every_character(pattern, gaps, theirs):
    ours = pre_tokenizer(pattern, gaps=gaps)
    assert components.read_pre_tokenizer(components.write_pre_tokenizer(ours, False)) == (ours, False, None)
    chars = [chr(code) for code in [*range(0x20000), *range(0x20000, 0x110000, 97)] if not 0xD800 <= code < 0xE000]
    for start in range(0, len(chars), 2048):
        text = "".join(f"a{char}" for char in chars[start : start + 2048])
        assert ours.split(text) == [word for word, _ in theirs.pre_tokenize_str(text)]
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choices(chars[:0x3000], k=30))
        assert ours.split(text) == [word for word, _ in theirs.pre_tokenize_str(text)]


def changed(content: dict, **changes) -> dict:
    return {**content, "model": {**content["model"], **changes}}


def test_refused_by_name(of_them, tmp_path):
    path = tmp_path / "tokenizer.json"
    marked, plain, pieces, words, fallback = map(of_them, ("marked", "characters", "wordpiece", "words", "bytes"))
    vocab = {text: i for text, i in fallback["model"]["vocab"].items() if text != "<0xE4>"}
    merged = {**fallback["model"]["vocab"], "<0xE4>a": len(fallback["model"]["vocab"])}
    special = {**plain["model"]["vocab"], "<s>a": len(plain["model"]["vocab"])}
    for content, said in [
        (changed(plain, unk_token=None), "no unk_token and no byte_fallback: tokenizers loses characters"),
        (changed(plain, dropout=0.5), "the model's dropout=0.5 cannot be represented"),
        (changed(plain, ignore_merges=True), "the model's ignore_merges=True cannot be represented"),
        (changed(plain, continuing_subword_prefix="##"), "the model's continuing_subword_prefix='##' cannot be represented"),
        (changed(marked, byte_fallback=True), "end_of_word_suffix='</w>' with byte_fallback"),
        (changed(fallback, vocab=vocab), "byte_fallback needs the tokens <0x00> to <0xFF>, and <0xE4> is missing"),
        (changed(fallback, vocab=merged, merges=[["<0xE4>", "a"]]), "the merge of rank 0 is of '<0xE4>', which stands for characters without a token"),
        (changed(plain, unk_token="a", merges=[["a", "b"]], vocab={"a": 0, "b": 1, "ab": 2}), "the merge of rank 0 is of 'a', which stands for"),
        (changed(plain, vocab=special, merges=[["<s>", "a"]]), "needs the token '<s>', which is a special token"),
        (changed(plain, merges=[["qzq", "a"]]), "needs the token 'qzq', which is not in the vocab"),
        (changed(plain, merges=None), "the model BPE has no list of merges"),
        (changed(plain, fuse_unk="yes"), "fuse_unk='yes', neither true nor false"),
        (changed(plain, unk_token="<none>"), "unk_token is '<none>', which is not in the vocab"),
        (changed(pieces, unk_token="<none>"), "unk_token is '<none>', which is not in the vocab"),
        (changed(words, unk_token="<none>"), "unk_token is '<none>', which is not in the vocab"),
        (changed(words, unk_token=None), "'wordlevel' needs a token for words that it cannot cut|unk_token is None"),
        (changed(pieces, max_input_chars_per_word=0), "max_input_chars_per_word=0: it is a whole number from 1"),
        (changed(pieces, max_input_chars_per_word="9"), "max_input_chars_per_word='9': it is a whole number from 1"),
        (changed(pieces, continuing_subword_prefix=3), "continuing_subword_prefix=3: it is a text"),
        (changed(pieces, vocab={**pieces["model"]["vocab"], "": 9000}), "the token of id 9000 is empty"),
        ({**pieces, "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}}, "Metaspace with replacement='_'"),
        ({**pieces, "pre_tokenizer": {"type": "Punctuation", "behavior": "MergedWithNext"}}, "Punctuation with behavior MergedWithNext"),
        ({**pieces, "normalizer": {"type": "Sequence", "normalizers": [BERT, {"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"}]}}, "the normalizer Replace"),
        (changed(pieces, type="Bigram"), "the model Bigram cannot be represented; BPE, WordPiece, WordLevel, Unigram can"),
    ]:  # fmt: skip
        path.write_text(json.dumps(content))
        with pytest.raises(FormatError, match=said) as caught:
            formats.load(str(path))
        assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def vocabulary_of(model: Model, tokens, merges=(), special=("[UNK]",), pattern="whitespace", normalizer=None, **layout) -> Vocabulary:
    """Return a vocabulary of pieces, special tokens first."""
    spelt = [b""] * len(special) + [token.encode() for token in tokens]
    ids = {token.decode(): i for i, token in enumerate(spelt) if token}
    prefix = model.continuing_subword_prefix or ""
    columns = np.array([[ids[a], ids[b], ids[a + b.removeprefix(prefix)]] for a, b in merges], np.uint32).reshape(-1, 3).T
    zeros = np.zeros(len(merges), np.int64)
    added = tuple(AddedToken(text, i) for i, text in enumerate(special))
    return Vocabulary(
        pre_tokenizer(pattern), b"", columns[0].copy(), columns[1].copy(), zeros, zeros, tuple(special), normalizer,
        layout=Layout(tuple(spelt), columns[2].copy(), added, **layout), model=model,
    )  # fmt: skip


CHARACTERS = Model("bpe", "character", unk_token="[UNK]")
PIECES = Model("wordpiece", "character", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100)
BYTES = [byte_token(byte) for byte in range(256)]


def test_a_tokenizer_json_cannot_hold(tmp_path):
    replace = dataclasses.replace
    marked = replace(CHARACTERS, end_of_word="</w>")
    for vocabulary, said in [
        (vocabulary_of(marked, ["</w>", "a", "b"]), "'</w>' as a symbol of its own would be lost"),
        (vocabulary_of(replace(marked, attached=True, byte_fallback=True), [*BYTES, "a"]), "tokenizers spells the bytes of '</w>' too"),
        (vocabulary_of(replace(PIECES, unk_characters=True), ["a"]), "unk_characters would be lost"),
        (vocabulary_of(replace(CHARACTERS, byte_fallback=True), [*BYTES, "a", "<0x61>a"], [("<0x61>", "a")]), "of '<0x61>', which stands for"),
        (vocabulary_of(PIECES, ["a"], pattern=pre_tokenizer(split_with="string:capwords")), "the function 'string:capwords'"),
    ]:  # fmt: skip
        for verify in (True, False):
            with pytest.raises(ValueError, match=said) as caught:
                huggingface.save(vocabulary, str(tmp_path / "out"), verify=verify)
            assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    for save, said in [(formats.save, "mean BPE of bytes, and the vocabulary is wordpiece of characters")]:
        with pytest.raises(ValueError, match=said):
            save(vocabulary_of(PIECES, ["a"]), str(tmp_path / "out"), "gpt2")
    with pytest.raises(ValueError, match="tiktoken has BPE of bytes only, and the vocabulary is wordpiece"):
        formats.save(vocabulary_of(PIECES, ["a"]), str(tmp_path / "out.tiktoken"), "tiktoken")


LEARNED = {
    "wordpiece": {"algorithm": "wordpiece", "special_tokens": ["[UNK]", "[CLS]", "[SEP]"]},
    "characters": {"unit": "character", "special_tokens": ["<unk>", "<s>"]},
    "marked": {"unit": "character", "end_of_word": "</w>", "attached": True, "character_coverage": 0.98},
    "fused": {"unit": "character", "end_of_word": "</w>", "attached": True, "limit_alphabet": 40, "fuse_unk": True},
    "bytes": {"unit": "character", "byte_fallback": True, "limit_alphabet": 40},
    "words": {"algorithm": "wordlevel", "special_tokens": ["<UNK>", "<s>"]},
}


@pytest.mark.parametrize("pattern, normalizer", [("whitespace", None), ("bert", "bert"), (WHITESPACE, "NFKC+lowercase")], ids=["as it is", "bert", "words"])
@pytest.mark.parametrize("family", LEARNED)
def test_what_is_learned_goes_to_tokenizers_and_back(family, pattern, normalizer, tmp_path):
    chosen = pre_tokenizer(pattern, gaps="drop")
    options = LEARNED[family]
    words = WordCounts.from_documents([TEXT], pattern=chosen, normalizer=normalizer, special_tokens=options.get("special_tokens", ()))
    vocabulary = train(words, 60 if family == "words" else 400, **options)
    assert vocabulary.normalizer == normalizer
    path = str(tmp_path / "tokenizer.json")
    huggingface.save(vocabulary, path, verify=pattern == "whitespace")
    theirs, ours, back = tokenizers.Tokenizer.from_file(path), Tokenizer(vocabulary), Tokenizer(formats.load(path))
    if family != "wordpiece":  # whose merges, which decide nothing, are not in the file
        assert back.vocabulary == vocabulary
    for name in ("tokens", "model", "normalizer", "pre_tokenizer", "added_tokens"):
        assert getattr(back.vocabulary, name) == getattr(vocabulary, name)
    for text in [*random_texts(60, 3), *TEXTS[::29], TEXT, *options.get("special_tokens", [])]:
        ids = ours.encode(text, allowed_special="all")
        assert ids == theirs.encode(text, add_special_tokens=False).ids == back.encode(text, allowed_special="all"), text


# ---- vocab.txt ----


@pytest.fixture(scope="module")
def bert_base(shared):
    path = str(shared / "reference" / "bert-base-uncased-vocab.txt")
    return Tokenizer(formats.load(path)), tokenizers.BertWordPieceTokenizer(path), path


def test_bert_base_uncased(bert_base, shared):
    ours, theirs, path = bert_base
    assert formats.format_of(path) == "bert" and len(ours.vocabulary) == 30522
    assert ours.special_tokens == {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
    assert ours.vocabulary.ids[b"[unused0]"] == 1 and ours.vocabulary.ids[b"##ing"] == theirs.token_to_id("##ing")
    texts = [path.read_bytes().decode("utf-8", "replace") for path in sorted((shared / "corpora" / "nasty").iterdir())]
    texts += [*TEXTS, TEXT, *random_texts(100), *(shared / "corpora" / "mixed-1m.txt").read_text()[:200_000].split("\n")]
    for text in texts:
        for special in (False, True):
            ids = ours.encode(text, allowed_special="all", add_special_tokens=special)
            assert ids == theirs.encode(text, add_special_tokens=special).ids, text[:200]


@pytest.mark.slow
def test_bert_base_uncased_on_every_language(bert_base, shared):
    table = pytest.importorskip("pyarrow.parquet").read_table(shared / "corpora" / "docs.parquet", columns=["text", "lang"])
    ours, theirs, _ = bert_base
    taken: dict[str, int] = {}
    for text, lang in zip(table["text"].to_pylist(), table["lang"].to_pylist()):
        taken[lang] = taken.get(lang, 0) + len(text.encode())
        if taken[lang] < 8 << 20:
            assert ours.encode(text, allowed_special="all") == theirs.encode(text, add_special_tokens=False).ids, (lang, text[:200])
    assert len(taken) > 5


@pytest.mark.parametrize("lowercase", [True, False])
def test_vocab_txt_with_options(lowercase, tmp_path):
    pieces = ["<unk>", "[CLS]", "a", "b", "c", "ä", "A", "@@b", "@@ab", "@@c", "的", "[unused1]"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    ids = {piece: i for i, piece in enumerate(pieces)}
    theirs = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="<unk>", continuing_subword_prefix="@@", max_input_chars_per_word=9))
    theirs.normalizer, theirs.pre_tokenizer = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    theirs.add_special_tokens(["<unk>", "[CLS]"])
    ours = Tokenizer(
        formats.load(
            tmp_path, normalizer="bert" if lowercase else "bert_cased", unk_token="<unk>", continuing_subword_prefix="@@",
            max_input_chars_per_word=9,
        )
    )  # fmt: skip
    assert ours.special_tokens == {"<unk>": 0, "[CLS]": 1}
    for text in ["c", "Äc", "A", "cab c", "abcab", "[CLS]c", "的c", "[unused1]", "c@@b", "c" + "b" * 8, "c" + "b" * 9]:
        assert ours.encode(text, allowed_special="all") == theirs.encode(text, add_special_tokens=False).ids, text


def test_vocab_txt_there_and_back(tmp_path, shared):
    path = shared / "reference" / "bert-base-uncased-vocab.txt"
    loaded = formats.load(path)
    formats.save(loaded, str(tmp_path / "out"), "bert")
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == path.read_bytes()
    assert formats.format_of(str(tmp_path / "out")) == "bert" and formats.load(tmp_path / "out") == loaded
    formats.save(loaded, str(tmp_path / "t.json"), "huggingface", verify=False)
    again = formats.load(tmp_path / "t.json")
    assert again == loaded and again.layout.prefix == (101,) and again.layout.suffix == (102,)
    huggingface_post = json.loads((tmp_path / "t.json").read_text())["post_processor"]
    assert huggingface_post == {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]}


def test_what_is_learned_goes_to_bert_and_back(tmp_path):
    words = WordCounts.from_documents([TEXT], pattern="bert", normalizer="bert", special_tokens=["[UNK]"])
    vocabulary = train(words, 400, algorithm="wordpiece", special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    formats.save(vocabulary, str(tmp_path / "vocab.txt"), "bert")
    theirs = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"))
    ours, back = Tokenizer(vocabulary), Tokenizer(formats.load(tmp_path / "vocab.txt"))
    assert back.vocabulary.tokens == vocabulary.tokens and back.special_tokens == ours.special_tokens
    for text in [*random_texts(100, 5), *TEXTS[::9], TEXT]:
        ids = ours.encode(text, allowed_special="all")
        assert ids == back.encode(text, allowed_special="all") == theirs.encode(text, add_special_tokens=False).ids, text


def test_vocab_txt_of_other_systems(tmp_path):
    lines = ["[UNK]", "a", "##b", "\x85", "c"]
    plain = "".join(line + "\n" for line in lines)
    read = []
    for text in (plain, plain.replace("\n", "\r\n"), "\ufeff" + plain, plain[:-1], plain.replace("a\n", "a \t\n")):
        (tmp_path / "vocab.txt").write_bytes(text.encode())
        read.append(formats.load(tmp_path / "vocab.txt"))
    assert len({one.fingerprint for one in read}) == 1 and read[0].tokens == (b"", b"a", b"##b", b"", b"c")


def test_a_vocab_txt_cannot_hold(tmp_path):
    replace = dataclasses.replace
    whole = vocabulary_of(PIECES, ["a", "##a"], pattern="bert", normalizer="bert")
    formats.save(whole, str(tmp_path / "vocab.txt"), "bert")
    assert (tmp_path / "vocab.txt").read_bytes() == b"[UNK]\na\n##a\n" and formats.load(tmp_path / "vocab.txt") == whole

    def of(*tokens, model=PIECES, pattern="bert", normalizer="bert", special=("[UNK]",)):
        return vocabulary_of(model, tokens, (), special, pattern, normalizer)

    hole = replace(whole, layout=Layout((b"", b"a", b"", b"b"), whole.layout.merged, whole.layout.added_tokens))
    extra = replace(whole.layout, added_tokens=(*whole.layout.added_tokens, AddedToken("zz", 3, special=False)))
    for vocabulary, said in [
        (of("a", model=CHARACTERS), "a vocab.txt holds WordPiece, and the vocabulary is bpe of characters"),
        (of("a", pattern="whitespace"), "the pre-tokenizer 'whitespace' \\('bert' is meant by it\\), which would be lost: write a tokenizer.json"),
        (of("a", normalizer="NFC"), "the normalizer 'NFC' \\('bert' or 'bert_cased' is meant by it\\)"),
        (of("a", normalizer=None), "the normalizer None"),
        (of("a", model=replace(PIECES, max_input_chars_per_word=50)), "max_input_chars_per_word=50 \\(100 is meant by it\\)"),
        (of("a", model=replace(PIECES, max_input_chars_per_word=None)), "max_input_chars_per_word=None \\(100"),
        (of("a", model=replace(PIECES, continuing_subword_prefix=None)), "continuing_subword_prefix=None \\('##'"),
        (of("a", model=replace(PIECES, continuing_subword_prefix="@@")), "continuing_subword_prefix='@@' \\('##'"),
        (of("a", model=replace(PIECES, unk_characters=True)), "unk_characters=True \\(False"),
        (of("a", model=replace(PIECES, unk_token="<unk>"), special=("<unk>",)), "unk_token='<unk>' \\('\\[UNK\\]'"),
        (of("a", special=("[UNK]", "<|end|>")), "that '<\\|end\\|>' is an added token"),
        (replace(whole, layout=extra), "that 'zz' is an added token"),
        (of("[MASK]"), "that the piece '\\[MASK\\]' is not special"),
        (of("a", "b "), "the piece 'b ' of id 2, whose whitespace is lost"),
        (of("a", "\u3000b"), "the piece '\\\\u3000b' of id 2, whose whitespace is lost"),
        (of("a", "b\nc"), "the piece 'b\\\\nc' of id 2"),
        (of("a", "b\rc"), "the piece 'b\\\\rc' of id 2"),
        (hole, "there is none of id 2"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=said) as caught:
            formats.save(vocabulary, str(tmp_path / "out.txt"), "bert")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.txt").exists()


# ---- codes of subword-nmt ----


def codes_of(text: str, merges: int) -> str:
    """Return codes that subword-nmt learned."""
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")
    out = io.StringIO()
    learn_bpe.learn_bpe(io.StringIO(text), out, merges)
    assert out.getvalue().startswith("#version: 0.2\n")
    return out.getvalue()


def codes_as(version: str, codes: str) -> str:
    """Return codes of version 0.2 in another one."""
    if version == "0.2":
        return codes
    # The same symbols with the end of the word apart: a merge of each attached character with it, then the rest.
    pairs = [line.split(" ") for line in codes.split("\n")[1:-1]]
    ends = dict.fromkeys(part for pair in pairs for part in pair if part.endswith("</w>") and len(part) == 5)
    lines = ["#version: 0.1", *(f"{end[0]} </w>" for end in ends), *(" ".join(pair) for pair in pairs)]
    return "\n".join(lines[version == "none" :]) + "\n"


def segments(ours: Tokenizer, word: str) -> list[str]:
    """Return what subword-nmt would call the segments of a word: the text of its tokens, but that of the end alone."""
    texts = [ours.token_bytes(i) for i in ours.encode(word)]
    texts = [text.removesuffix(b"</w>") if i == len(texts) - 1 else text for i, text in enumerate(texts)]
    return [text.decode() for text in texts if text]


@pytest.fixture(scope="module")
def english(shared) -> str:
    text = (shared / "corpora" / "mixed-1m.txt").read_text()[:120_000]
    return " ".join(text.split())


@pytest.fixture(scope="module")
def english_codes(english) -> str:
    return codes_of(english, 700)


@pytest.mark.parametrize("version", ["0.2", "0.1", "none"])
def test_segments_of_subword_nmt(version, english, english_codes, tmp_path):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    codes = codes_as(version, english_codes)
    (tmp_path / "codes").write_text(codes)
    assert formats.format_of(str(tmp_path / "codes")) == "subword_nmt"
    loaded = formats.load(tmp_path / "codes", alphabet=set(english) - {" "})
    assert loaded.model == Model("bpe", "character", end_of_word="</w>", attached=version == "0.2", byte_fallback=True)
    ours, theirs = Tokenizer(loaded), apply_bpe.BPE(io.StringIO(codes))
    words = [*dict.fromkeys(english.split())]
    assert len(words) > 3000
    for word in words:
        assert segments(ours, word) == [part.removesuffix("@@") for part in theirs.segment_tokens([word])], word
    path = tmp_path / "back.codes"
    formats.save(loaded, str(path), "subword_nmt")
    expected = codes if version != "none" else "#version: 0.1\n" + codes
    assert path.read_text() == expected
    assert [merge[1:4] for merge in formats.load(path).merges] == [merge[1:4] for merge in loaded.merges]


def test_ids_of_codes(tmp_path):
    (tmp_path / "bpe.codes").write_text("#version: 0.2\nl o\nlo w</w>\ne s\nes t</w>\n")
    loaded = formats.load(tmp_path / "bpe.codes", unk_token="<unk>", alphabet="z")
    assert loaded.special_ids == {"<unk>": 0}
    symbols = sorted([*"elostwz", *(char + "</w>" for char in "elostwz")])
    assert [token.decode() for token in loaded.tokens] == ["", *symbols, "lo", "low</w>", "es", "est</w>"]
    assert segments(Tokenizer(loaded), "widest") == ["w", *2 * ["<unk>"], "est"]
    bytes_instead = formats.load(tmp_path / "bpe.codes")
    assert [token.decode() for token in bytes_instead.tokens] == [*BYTES, "</w>", *(s for s in symbols if s[0] != "z"), "lo", "low</w>", "es", "est</w>"]
    assert [bytes_instead.tokens[i].decode() for i in Tokenizer(bytes_instead).encode("lowé low")] == ["lo", "w", "<0xC3>", "<0xA9>", "</w>", "low</w>"]
    (tmp_path / "bpe.codes").write_text("l o\nlo w\nlow </w>\n")
    apart = formats.load(tmp_path / "bpe.codes", unk_token="<unk>")
    assert [token.decode() for token in apart.tokens] == ["", "</w>", *"low", "lo", "low", "low</w>"]


def random_codes(rng: random.Random, letters: str, attached: bool) -> str:
    """Return random merges, several of which may make one symbol, but none what was merged already."""
    symbols = [*letters, *([char + "</w>" for char in letters] if attached else ["</w>"])]
    pairs: dict[tuple[str, str], None] = {}
    for _ in range(rng.randrange(1, 60)):
        left, right = rng.choice(symbols), rng.choice([*symbols, *symbols[-9:]])
        if not left.endswith("</w>") and len(left + right) < 16 and not any(left + right in pair for pair in [*pairs, (left, right)]):
            pairs[left, right] = None
            symbols.append(left + right)
    lines = [" ".join(pair) for pair in pairs or {(letters[0], letters[1]): None}]
    return "\n".join(["#version: 0.2" if attached else "#version: 0.1", *lines]) + "\n"


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 30), st.booleans(), st.lists(st.text("abcé的</w>", min_size=1, max_size=12), min_size=1, max_size=40))
def test_any_codes_and_words(tmp_path_factory, seed, attached, words):
    rng = random.Random(seed)
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    letters = rng.choice(["ab", "abcé的</w>"])
    codes = random_codes(rng, letters, attached)
    path = tmp_path_factory.mktemp("codes") / "codes"
    path.write_text(codes)
    loaded = formats.load(path, alphabet="abcé的</w>", unk_token="?")
    ours, theirs = Tokenizer(loaded), apply_bpe.BPE(io.StringIO(codes))
    words += ["".join(rng.choices(letters[:5], k=rng.randrange(1, 14))) for _ in range(20)]
    for word in words:
        assert segments(ours, word) == [part.removesuffix("@@") for part in theirs.segment_tokens([word])], (codes, word)
    formats.save(loaded, str(path.with_name("out")), "subword_nmt")
    assert path.with_name("out").read_text() == codes


def test_words_of_subword_nmt(tmp_path):
    """It cuts at spaces alone; our usual pattern at all whitespace."""
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\na b\n")
    alphabet, text = "ab\t\xa0", "ab\tab  ab\xa0ab ba"
    alike = Tokenizer(formats.load(tmp_path / "codes", pattern=subword_nmt.SPACES, alphabet=alphabet))
    theirs = apply_bpe.BPE(io.StringIO((tmp_path / "codes").read_text()))
    found = [alike.token_bytes(i).removesuffix(b"</w>").decode() for i in alike.encode(text)]
    assert found == [part.removesuffix("@@") for part in theirs.segment_tokens(text.split(" "))]
    usual = Tokenizer(formats.load(tmp_path / "codes", alphabet=alphabet))
    assert [usual.token_bytes(i) for i in usual.encode(text)] == [b"ab</w>"] * 4 + [b"b", b"a</w>"]


@pytest.mark.parametrize("attached", [True, False])
def test_what_is_learned_goes_to_subword_nmt_and_back(attached, english, english_codes, tmp_path):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    words = WordCounts.from_documents([english], pattern="whitespace")
    options = {"unit": "character", "end_of_word": "</w>", "attached": attached, "tie_break": "lexicographic"}
    vocabulary = train(words, num_merges=700, **options)
    formats.save(vocabulary, str(tmp_path / "codes"), "subword_nmt")
    ours, back = Tokenizer(vocabulary), Tokenizer(formats.load(tmp_path / "codes", unk_token="<unk>", alphabet=set(english) - {" "}))
    theirs = apply_bpe.BPE(io.StringIO((tmp_path / "codes").read_text()))
    assert [merge[1:4] for merge in back.vocabulary.merges] == [merge[1:4] for merge in vocabulary.merges]
    if attached:
        assert (tmp_path / "codes").read_text() == english_codes
    for word in dict.fromkeys(english.split()):
        assert segments(ours, word) == segments(back, word) == [part.removesuffix("@@") for part in theirs.segment_tokens([word])]


def test_codes_cannot_hold(tmp_path):
    replace = dataclasses.replace
    marked = replace(CHARACTERS, end_of_word="</w>", attached=True)
    whole = vocabulary_of(marked, ["a", "b</w>", "ab</w>"], [("a", "b</w>")])
    formats.save(whole, str(tmp_path / "codes"), "subword_nmt")
    assert (tmp_path / "codes").read_text() == "#version: 0.2\na b</w>\n"
    added = replace(whole.layout, added_tokens=(*whole.layout.added_tokens, AddedToken("zz", 9, special=False)))
    for vocabulary, said in [
        (vocabulary_of(CHARACTERS, ["a", "b", "ab"], [("a", "b")]), "bpe of characters and ends words with None"),
        (vocabulary_of(replace(marked, end_of_word="@@"), ["a"]), "ends words with '@@'"),
        (vocabulary_of(PIECES, ["a"]), "wordpiece of characters and has no merges that are applied"),
        (train({"ab": 9}, 257), "bpe of bytes"),
        (replace(whole, normalizer="NFC"), "subword-nmt has no normalizer, and the vocabulary has NFC"),
        (replace(whole, pre_tokenizer=pre_tokenizer("gpt2")), "cuts text at spaces, and the vocabulary has the pre-tokenizer 'gpt2'"),
        (replace(whole, layout=added), "no added tokens, and 'zz' is one"),
        (vocabulary_of(marked, ["a", "b", "ab", "aba"], [("ab", "a"), ("a", "b")]), "the merge of rank 1 makes 'ab', which a merge before it"),
        (vocabulary_of(marked, ["a"]), "reads no codes without a merge"),
        (vocabulary_of(marked, ["a", " ", "a "], [("a", " ")]), "cannot hold the symbol ' '"),
        (vocabulary_of(marked, ["a", "\r", "a\r"], [("a", "\r")]), "cannot hold the symbol '\\\\r'"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=said) as caught:
            formats.save(vocabulary, str(tmp_path / "out"), "subword_nmt")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


# ---- names, and our own files ----


def test_formats_by_name(tmp_path):
    (tmp_path / "some").write_text("#version: 0.2\na b\n")
    (tmp_path / "other").write_text("low lower\n")
    for name, format in [("vocab.txt", "bert"), ("bert-base-vocab.txt", "bert"), ("bpe.codes", "subword_nmt"), ("en-de.codes", "subword_nmt"), ("some", "subword_nmt")]:
        assert formats.format_of(str(tmp_path / name)) == format
    with pytest.raises(FormatError, match="say which it is"):
        formats.format_of(str(tmp_path / "other"))
    FAMILIES["apart"].save(str(tmp_path / "codes"))
    assert formats.format_of(str(tmp_path / "codes")) == "parquet"


FAMILIES = {
    "apart": vocabulary_of(dataclasses.replace(CHARACTERS, end_of_word="</w>"), ["</w>", "a", "b", "ab", "ab</w>"], [("a", "b"), ("ab", "</w>")]),
    "attached": vocabulary_of(dataclasses.replace(CHARACTERS, end_of_word="</w>", attached=True, fuse_unk=True), ["a", "b</w>", "ab</w>"], [("a", "b</w>")]),
    "bytes": vocabulary_of(Model("bpe", "character", byte_fallback=True), [*BYTES, "a", "b", "ab"], [("a", "b")], special=("<s>",)),
    "wordpiece": vocabulary_of(PIECES, ["a", "##b", "ab"], [("a", "##b")], normalizer="bert_cased", prefix=(1,)),
    "no prefix": vocabulary_of(dataclasses.replace(PIECES, continuing_subword_prefix=None, unk_characters=True), ["a", "b"], special=("[UNK]", "[CLS]")),
    "words": vocabulary_of(Model("wordlevel", "character", unk_token="[UNK]"), ["low", "lower", "é"], normalizer="NFKC+lowercase"),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_our_own_files(family, tmp_path):
    vocabulary = FAMILIES[family]
    vocabulary.save(str(tmp_path / "v"))
    back = Vocabulary.load(str(tmp_path / "v"))
    assert back.fingerprint == vocabulary.fingerprint and back.model == vocabulary.model and back.layout.tokens == vocabulary.layout.tokens
    assert back.normalizer == vocabulary.normalizer and back.alphabet == b""
    assert [merge[:5] for merge in back.merges] == [merge[:5] for merge in vocabulary.merges]
    assert len({one.fingerprint for one in FAMILIES.values()}) == len(FAMILIES)


@pytest.mark.parametrize(
    "header, said",
    [
        ({"model": {"unk_tokens": "a"}}, "the model has the property 'unk_tokens', which is not known"),
        ({"model": {"unk_token": 7}}, "unk_token=7: it is a text"),
        ({"model": {"unk_token": "[UNK]", "attached": True}}, "attached=True says where"),
        ({"model": {"unk_token": "[UNK]", "continuing_subword_prefix": "##"}}, "continuing_subword_prefix='##' has no meaning for bpe"),
        ({"model": {"unk_token": "<none>"}}, "unk_token is '<none>', which is no token"),
        ({"model": {"unk_token": "[UNK]", "byte_fallback": True}}, "byte_fallback needs the tokens"),
        ({"model": {"unk_token": "[UNK]", "fuse_unk": True}}, "fingerprint"),
        ({"model": {"unk_token": "[UNK]", "end_of_word": ["</w>"]}}, "end_of_word=\\['</w>'\\]: it is a text"),
        ({"model": []}, "its header holds what it must not"),
        ({"model": 5}, "its header holds what it must not"),
        ({"model": None}, "its header holds what it must not"),
        ({"algorithm": "wordlevel"}, "end_of_word=|has no merges"),
        ({"algorithm": None}, "algorithm=None: choose one of"),
        ({"algorithm": ["bpe"]}, "algorithm=\\['bpe'\\]: choose one of"),
        ({"unit": {}}, "unit=\\{\\}: choose one of"),
        ({"normalizer": 3}, "header holds what it must not|there is no normalizer"),
        ({"normalizer": "NFX", "normalizer_spec": {}}, "there is no normalizer 'NFX'"),
        ({"normalizer": "NFC"}, "no 'normalizer_spec'"),
        ({"layout": None}, "its header holds what it must not"),
        ({"layout": {**FAMILIES["apart"].layout.spec(), "origin": [1]}}, "its header holds what it must not"),
    ],
    ids=range(20),
)  # fmt: skip
def test_damaged_headers(header, said, tmp_path):
    from beam_bpe import artifacts
    from beam_bpe.formats import parquet

    folder = str(tmp_path / "v")
    FAMILIES["apart"].save(folder)
    for name, kind in ((parquet.MERGES_FILE, "merges"), (parquet.VOCABULARY_FILE, "vocabulary")):
        table, own = artifacts.read_parquet(f"{folder}/{name}", kind)
        artifacts.write_parquet(f"{folder}/{name}", table.replace_schema_metadata(None), {**own, **header})
    with pytest.raises(FormatError, match=said) as caught:
        Vocabulary.load(folder)
    assert "v" in str(caught.value) and "\n" not in str(caught.value)


def test_lines_of_a_vocab_txt_end_as_in_tokenizers(tmp_path):
    pieces = ["[UNK]", "a", "c\x1d", "b\x85", "d \u3000", "e\ufeff"]
    (tmp_path / "vocab.txt").write_bytes("".join(piece + "\n" for piece in pieces).encode())
    theirs = tokenizers.models.WordPiece.read_file(str(tmp_path / "vocab.txt"))
    found = formats.load(str(tmp_path / "vocab.txt"))
    assert {token.decode(): i for token, i in found.ids.items()} == {piece: i for piece, i in theirs.items() if piece != "[UNK]"}
