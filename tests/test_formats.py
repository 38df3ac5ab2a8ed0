"""tokenizer.json and vocab.json + merges.txt: ids equal those of `tokenizers`, both ways; what cannot be said is refused."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Tokenizer, WordCounts, formats, pre_tokenizer, train
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import bytelevel, gpt2, huggingface
from beam_bpe.formats.difficult import TEXTS, own_texts
from beam_bpe.formats.oniguruma import to_oniguruma
from beam_bpe.pretokenize import PATTERNS, in_sequence

tokenizers = pytest.importorskip("tokenizers")

TEXT = (
    "The newest lowlands aren't lower than 12345 others… naïve café: größte Übergröße, x = y+1;\n\n    return 0\n"
    "機器學習模型的訓練資料和机器学习模型的训练数据。日本語のテキストと、한국어 텍스트. Это русский текст, самый новый! "
    "cafe\u0301 WORD Word's word'LL 3.14159265 1234567890 <|im_start|>user\r\n\t  int main() { return 42; } // done  \n" * 9
)
LLAMA3 = PATTERNS["llama3"]
O200K = PATTERNS["o200k"]
NEMO = O200K.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
GPT2_OF_OLD = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = {**BYTE_LEVEL, "use_regex": True}
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
PIECES = [
    "<e>", "<e>x", "word", "Word", " a", "a ", " ", "  ", "\n", "\t", "e\u0301", "é", "Zz", "的", " 的", "12", "1", "İ", "\u3000", "\x85",
    "\x1c", "\u200d", "_", "-", "<", "e>", "x", "b", "\u0301", "A\u030a", "Å", "\u212b", "가", "\u1100", "\u1161", "\u11a8", "ſ", "'", "s",
]  # fmt: skip


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def token(text, i, **flags):
    usual = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    return {"id": i, "content": text, **usual, "special": True, **flags}


@pytest.fixture(scope="module")
def vocabulary():
    return train(WordCounts.from_documents([TEXT], pattern="gpt2"), 700)


@pytest.fixture(scope="module")
def base(vocabulary) -> dict:
    """Return a tokenizer.json of GPT-2's shape, written by hand."""
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": GPT2,
        "post_processor": None, "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {bytelevel.shown(text): i for i, text in enumerate(vocabulary.tokens)},
            "merges": [f"{bytelevel.shown(merge.left)} {bytelevel.shown(merge.right)}" for merge in vocabulary.merges],
        },
    }  # fmt: skip


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

    def ids(self, text: str, **options) -> list[int]:
        return self.theirs.encode(text, **{"add_special_tokens": False, **options}).ids

    def check(self, texts) -> None:
        for text in texts:
            assert self.ours.encode(text, allowed_special="all") == self.ids(text), text


@pytest.fixture
def both(tmp_path):
    return lambda content: Both(content, tmp_path)


def random_texts(count: int, seed: int = 0, pieces=PIECES) -> list[str]:
    rng = random.Random(seed)
    chars = [*TEXT, *"\u0301\u200d\x85\x1c\u2028\u3000\ufeff\ufffd\U000e0001"]
    texts = []
    for _ in range(count):
        texts.append("".join(rng.choices(pieces, k=rng.randrange(1, 12))))
        texts.append("".join(rng.choices(chars, k=rng.randrange(1, 60))))
    return texts


def shuffled(content: dict, seed: int, holes: int = 0) -> dict:
    """Return the same with other ids, `holes` of which are no token's."""
    rng = random.Random(seed)
    vocab = content["model"]["vocab"]
    ids = rng.sample(range(len(vocab) + holes), len(vocab))
    rows = list(zip(vocab, ids))
    rng.shuffle(rows)
    return {**content, "model": {**content["model"], "vocab": dict(rows)}}


def with_lost_tokens(content: dict, tokens=("returning", " lowest", "學習模", "don", "1234", "  \n", "\u0301e")) -> dict:
    """Return the same with tokens that no merge makes."""
    content = copy.deepcopy(content)
    vocab = content["model"]["vocab"]
    for text in [*tokens, *(merge.replace(" ", "") + "zq" for merge in content["model"]["merges"][:9])]:
        shown = bytelevel.shown(text.encode()) if text in tokens else text
        vocab.setdefault(shown, max(vocab.values()) + 1)
    return content


# ---- every shape ----

SHAPES = {
    "gpt2": GPT2,
    "gpt2 in a sequence": sequence(sequence(GPT2)),
    "gpt2 as a split": sequence(split(GPT2_OF_OLD), BYTE_LEVEL),
    "none": BYTE_LEVEL,
    "llama3": sequence(split(LLAMA3), BYTE_LEVEL),
    "o200k": sequence(split(O200K), BYTE_LEVEL),
    "o200k, removed": sequence(split(O200K, "Removed", True), BYTE_LEVEL),
    "cl100k as tiktoken has it": sequence(split(PATTERNS["cl100k"]), BYTE_LEVEL),
    "cl100k": sequence(split(to_oniguruma(PATTERNS["cl100k"])), BYTE_LEVEL),
    "gaps kept": sequence(split(r" ?\w+"), BYTE_LEVEL),
    "gaps removed": sequence(split(r" ?\w+", "Removed", True), BYTE_LEVEL),
    "whitespace": sequence(split(r"\S+", "Removed", True), BYTE_LEVEL),
    "qwen": sequence(split(PATTERNS["qwen2"]), BYTE_LEVEL),
    "deepseek": sequence(*map(split, DEEPSEEK), BYTE_LEVEL),
    "digits": sequence({"type": "Digits", "individual_digits": True}, GPT2),
    "digits together": sequence({"type": "Digits", "individual_digits": False}, GPT2),
    "nemo": sequence(split(NEMO), BYTE_LEVEL),
    "text": sequence(split("a.", kind="String"), GPT2),
    "a name as text": sequence(split("gpt2", kind="String"), split("word", "Removed", True), BYTE_LEVEL),
    "text removed": sequence(split("e", "Removed", True, "String"), BYTE_LEVEL),
    "Whitespace": sequence({"type": "Whitespace"}, BYTE_LEVEL),
    "WhitespaceSplit": sequence({"type": "WhitespaceSplit"}, GPT2),
    "BertPreTokenizer": sequence({"type": "BertPreTokenizer"}, BYTE_LEVEL),
    "Punctuation": sequence({"type": "Punctuation", "behavior": "Isolated"}, GPT2),
    "three": sequence(split(r"\d"), split("[aeiou]+", "Removed", True), GPT2),
}


@pytest.mark.parametrize("whole", [False, True], ids=["merges", "ignore_merges"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, whole, base, both):
    content = {**with_lost_tokens(base), "pre_tokenizer": SHAPES[shape]}
    content["model"]["ignore_merges"] = whole
    if shape in ("qwen", "deepseek"):
        content["normalizer"] = {"type": "NFC"} if shape == "qwen" else {"type": "Sequence", "normalizers": []}
    one = both(content)
    one.check([*TEXTS[whole::16], *random_texts(50, whole), TEXT, "returning lowest", *list(own_texts(one.vocabulary))[whole::4]])


def test_ignore_merges_changes_ids(base, both):
    content = with_lost_tokens(base)
    text = "returning lowest"
    one = both(content)
    content["model"]["ignore_merges"] = True
    whole = both(content)
    assert whole.ids(text) == whole.ours.encode(text) == [content["model"]["vocab"][shown] for shown in ("returning", "Ġlowest")]
    assert one.ids(text) == one.ours.encode(text) != whole.ids(text)
    assert one.vocabulary != whole.vocabulary


def test_shuffled_ids_holes_and_merges_as_pairs(base, both):
    for seed, holes in itertools.product(range(3), (0, 40)):
        content = shuffled(base, seed, holes)
        content["model"]["merges"] = [merge.split(" ") for merge in base["model"]["merges"]]
        one = both(content)
        one.check([TEXT, *TEXTS[seed::40], *random_texts(50, seed)])
        assert {one.ours.id_of(text): text for text in one.vocabulary.ids} == {i: t for i, t in enumerate(one.vocabulary.tokens) if t}


def test_merges_in_any_order_and_several_of_one_token(base, both):
    for seed in range(10):
        rng = random.Random(seed)
        content = copy.deepcopy(base)
        vocab, merges = content["model"]["vocab"], content["model"]["merges"]
        for merge in list(merges):  # other ways to the same token: (ab, c) and (a, bc)
            left, right = merge.split(" ")
            if len(left) > 1 and rng.random() < 0.7 and vocab.setdefault(left[-1] + right, size := max(vocab.values()) + 1) == size:
                merges += [f"{left[-1]} {right}", f"{left[:-1]} {left[-1]}{right}"] if left[:-1] in vocab else [f"{left[-1]} {right}"]
        assert len(merges) > len(base["model"]["merges"]) * 1.2
        rng.shuffle(merges)
        one = both(content)
        one.check([TEXT, *TEXTS[seed::60], *random_texts(60, seed), "".join(rng.choices(TEXT, k=3000))])
        again = both(huggingface.content_of(one.vocabulary))
        assert again.vocabulary == one.vocabulary


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))])
def test_random_vocabularies(seed, both):
    cases = 0
    for number in range(30):
        rng = random.Random(seed * 1000 + number)
        content = random_content(rng)
        letters = "abc é的 \n"
        one = both(content)
        extra = [entry["content"] for entry in content["added_tokens"]]
        for _ in range(40):
            text = "".join(rng.choices([*letters, *extra], k=rng.randrange(1, rng.choice([5, 30, 120]))))
            assert one.ours.encode(text, allowed_special="all") == one.ids(text), (content, text)
            cases += 1
        again = both(huggingface.content_of(one.vocabulary))
        again.check(random_texts(2, number, [*letters, *extra]))
    assert cases == 1200


def random_content(rng: random.Random) -> dict:
    """Return a random byte-level tokenizer.json over few letters."""
    tokens = [bytes([byte]) for byte in range(256)]
    useful = [text.encode() for text in "abc \n"] + [bytes([byte]) for byte in "é的".encode()]
    pairs = set()
    for _ in range(rng.randrange(2, 60)):
        left, right = rng.choice(useful), rng.choice(useful)
        if (left, right) in pairs or len(left + right) > 12:
            continue
        pairs.add((left, right))
        if left + right not in tokens:
            tokens.append(left + right)
            useful.append(left + right)
    for _ in range(rng.randrange(4)):  # tokens that no merge makes
        lost = b"".join(rng.choices(useful, k=3))
        if lost not in tokens:
            tokens.append(lost)
    merges = [[bytelevel.shown(left), bytelevel.shown(right)] for left, right in pairs]
    rng.shuffle(merges)
    ids = rng.sample(range(len(tokens) + rng.choice([0, 0, 9])), len(tokens))
    vocab = {bytelevel.shown(text): i for text, i in zip(tokens, ids)}
    chosen = rng.sample(["ab", " a", "<x>", "bb", "的", "é", "\n\n", " ", "a<", "cab"], rng.choice([0, 0, 1, 4]))
    chosen = [text for text in chosen if text not in vocab or bytelevel.token_of(text) == text.encode()]
    own = {*vocab}
    for text in chosen:
        if text not in vocab and (max(vocab.values()) >= len(vocab) or rng.random() < 0.3):
            vocab[text] = max(vocab.values()) + rng.randrange(1, 4)
    given = [*huggingface.given_ids(chosen, vocab)]
    if len({*given} | {i for text, i in vocab.items() if text not in chosen}) < len(given) + len(vocab.keys() - chosen):
        vocab = {text: i for text, i in vocab.items() if text in own}
        chosen = []
    added = [
        token(text, i, special=rng.random() < 0.5, normalized=rng.random() < 0.3, single_word=rng.random() < 0.2)
        for text, i in zip(chosen, given)
    ]
    pattern = rng.choice([GPT2, BYTE_LEVEL, sequence(split(O200K), BYTE_LEVEL), sequence(split("[ab]+|c"), BYTE_LEVEL)])
    return {
        "added_tokens": added, "normalizer": None, "pre_tokenizer": pattern, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": rng.random() < 0.5},
    }  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text(fuzzed, text):
    for one in fuzzed:
        assert one.ours.encode(text, allowed_special="all") == one.ids(text)


@pytest.fixture(scope="module")
def fuzzed(base, tmp_path_factory):
    return [
        Both({**base, "pre_tokenizer": SHAPES[shape], "normalizer": normalizer}, tmp_path_factory.mktemp("fuzzed"))
        for shape, normalizer in [("gpt2", None), ("o200k", {"type": "NFC"}), ("deepseek", None), ("digits", {"type": "NFC"})]
    ]


# ---- added tokens ----


@pytest.mark.parametrize("normalizer", [None, {"type": "NFC"}], ids=["as it is", "NFC"])
@pytest.mark.parametrize("special", [True, False], ids=["special", "not special"])
@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)), ids=lambda flags: "".join("-+"[f] for f in flags))
def test_added_tokens(flags, special, normalizer, base, both):
    chosen = dict(zip(FLAGS, flags), special=special)
    vocab = base["model"]["vocab"]
    texts = ["<e>", "<e>x", "x<", "的", " 的", "e\u0301", "Zz", "12", "<|im_start|>"]
    plain = [text for text in texts if text not in vocab]
    inside = "word"
    assert inside in vocab
    added = [token(text, len(vocab) + i, **(chosen if i % 3 else {})) for i, text in enumerate(plain)]
    one = both({**base, "normalizer": normalizer, "added_tokens": [token(inside, vocab[inside], **chosen), *added]})
    ends = [glue + text + other for text in [*texts, inside] for glue in ("", " ", " \n", "a", "é", "-") for other in ("", "  ", "b", "<e>")]
    one.check([*ends, *random_texts(60, sum(flags), [*PIECES, *texts, inside])])
    again = both(huggingface.content_of(one.vocabulary))
    assert again.vocabulary == one.vocabulary
    again.check(random_texts(10, 7, [*PIECES, *texts]))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))])
def test_random_added_tokens(seed, base, both):
    vocab = base["model"]["vocab"]
    cases = 0
    for number in range(25):
        rng = random.Random(seed * 1000 + number)
        texts = rng.sample([text for text in PIECES if text not in vocab or vocab[text] > 256], rng.randrange(1, 8))
        ids = huggingface.given_ids(texts, vocab)
        added = [
            token(text, i, special=rng.random() < 0.5, **{flag: rng.random() < 0.35 for flag in FLAGS}) for text, i in zip(texts, ids)
        ]
        one = both({**base, "added_tokens": added, "normalizer": rng.choice([None, {"type": "NFC"}])})
        for text in random_texts(25, number, [*PIECES, *texts * 4]):
            ours = one.ours.encode(text, allowed_special="all")
            try:
                theirs = one.ids(text)
            except BaseException as error:  # it panics where whitespace belongs to two tokens
                assert type(error).__name__ == "PanicException"
                continue
            assert ours == theirs, (added, text)
            cases += 1
    assert cases > 1200


def test_whitespace_that_a_token_took_holds_another(base, both):
    size = len(base["model"]["vocab"])
    one = both({**base, "added_tokens": [token("<m>", size, rstrip=True), token("\u3000", size + 1, lstrip=True, rstrip=True)]})
    one.check(["<m>\u3000", "<m>\u3000\u3000a", "b\u3000 \u3000"])
    one = both({**base, "added_tokens": [token("<m>", size, rstrip=True), token("\u3000", size + 1)]})
    one.check(["<m>\u3000", "<m>\u3000\u3000a", "<m> \u3000\ta"])


def test_an_added_token_may_be_spelt_as_one_of_the_model(base, both):
    """As the runs of spaces of CodeGen and Phi-2, which have two ids."""
    size = len(base["model"]["vocab"])
    one = both({**base, "added_tokens": [token("  ", size, special=False), token(" the", size + 1, special=False)]})
    one.check(["a  b", "   the  the", *random_texts(50)])
    assert one.ours.decode([size, size + 1]) == "   the"
    again = both(huggingface.content_of(one.vocabulary))
    assert again.vocabulary == one.vocabulary


def test_ids_that_the_file_claims_and_tokenizers_does_not_give(base, tmp_path):
    vocab = base["model"]["vocab"]
    size = len(vocab)
    with pytest.warns(UserWarning, match=f"'<b>' the id {size}, not 9000, '<a>' the id {size + 1}, not 5000"):
        one = Both({**base, "added_tokens": [token("<b>", 9000), token("<a>", 5000)]}, tmp_path)
    one.check(["<a><b>", "x<b>"])
    assert one.vocabulary.special_ids == {"<b>": size, "<a>": size + 1}
    last = max(vocab, key=vocab.get)
    holed = {**base["model"], "vocab": {**vocab, last: size + 5}}
    with pytest.warns(UserWarning), pytest.raises(FormatError, match=f"'<f>' has the id {size + 5}, where the model has"):
        Both({**base, "model": holed, "added_tokens": [token(f"<{c}>", size + 10 + i) for i, c in enumerate("abcdef")]}, tmp_path)


@pytest.mark.parametrize("gaps", [(), (0,), (3,), (0, 2, 5), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("whole", [False, True])
def test_export_gives_added_tokens_behind_holes_their_ids(gaps, whole, base, both, tmp_path):
    content = copy.deepcopy(base)
    content["model"]["ignore_merges"] = whole
    at = len(content["model"]["vocab"])
    added = []
    for number in range(6):
        at += 1 + 7 * (number in gaps)
        added.append(token(f"<{number}>", at - 1))
        content["model"]["vocab"][f"<{number}>"] = at - 1
    one = both({**content, "added_tokens": added[::-1]})
    huggingface.save(one.vocabulary, str(tmp_path / "out"))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert [theirs.token_to_id(entry["content"]) for entry in added] == [entry["id"] for entry in added]


# ---- post-processors and what is kept ----

SPECIALS = ["<s>", "</s>", "<t>"]


def special(name):
    return {"SpecialToken": {"id": name, "type_id": 0}}


def template(single, tokens):
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": tokens}  # fmt: skip


@pytest.mark.parametrize("kind", ["none", "byte level", "bert", "roberta", "template", "template of two ids", "behind", "sequence"])
def test_post_processors(kind, base, both):
    size = len(base["model"]["vocab"])
    ids = {name: size + i for i, name in enumerate(SPECIALS)}
    tokens = {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in ids.items()}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    llama = template([special("<s>"), text], tokens)
    made = {
        "none": None,
        "byte level": BYTE_LEVEL,
        "bert": {"type": "BertProcessing", "sep": ["</s>", ids["</s>"]], "cls": ["<s>", ids["<s>"]]},
        "roberta": {"type": "RobertaProcessing", "sep": ["</s>", ids["</s>"]], "cls": ["<s>", ids["<s>"]], "trim_offsets": True, "add_prefix_space": True},
        "template": llama,
        "template of two ids": template(
            [special("two"), text, special("</s>"), special("<s>")],
            {**tokens, "two": {"id": "two", "ids": [ids["<t>"], ids["<s>"]], "tokens": ["<t>", "<s>"]}},
        ),
        "behind": template([text, special("</s>")], tokens),
        "sequence": {"type": "Sequence", "processors": [BYTE_LEVEL, llama]},
    }[kind]  # fmt: skip
    content = {**base, "added_tokens": [token(name, i) for name, i in ids.items()], "post_processor": made}
    content["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"}
    one = both(content)
    for text in ["", "a", "the word", "a<s>b", *random_texts(10)]:
        ours = one.ours.encode(text, allowed_special="all", add_special_tokens=True)
        assert ours == one.ids(text, add_special_tokens=True)
        assert one.ours.encode_batch([text], allowed_special="all", add_special_tokens=True)[0].tolist() == ours
        assert one.ours.encode(text, allowed_special="all") == one.ids(text)
    again = huggingface.content_of(one.vocabulary)
    for name in ("truncation", "padding", "post_processor", "decoder", "added_tokens"):
        assert again[name] == content[name]


# ---- there and back ----


def trained(pattern, size=600, gaps=None, **options):
    if gaps is not None:
        pattern = pre_tokenizer(pattern, gaps=gaps)
    return train(WordCounts.from_documents([TEXT], pattern=pattern), size, special_tokens=["<|end|>", "<é的>", "<|end|>x"], **options)


CUSTOM = {
    **{name: (name, None) for name in PATTERNS},
    "words, gaps kept": (r" ?\w+", "keep"),
    "words, gaps dropped": (r" ?\w+", "drop"),
    "ends": (r"\s+$|\s+|\S+\b|\S", "keep"),
    "ends, dropped": (r"\p{L}+$|\w+|\s+\Z", "drop"),
    "old letters": (r"(?i:k|s|[a-e]+)|\p{Lu}+|.", "keep"),
}


def exported_to_tokenizers(vocabulary, folder):
    path = str(folder / "tokenizer.json")
    formats.save(vocabulary, path, "huggingface", verify=False)
    theirs, ours, back = tokenizers.Tokenizer.from_file(path), Tokenizer(vocabulary), Tokenizer(formats.load(path))
    for text in [*TEXTS[::11], *random_texts(60), TEXT, "a<|end|>b <|end|>x<é的>"]:
        ids = ours.encode(text, allowed_special="all")
        assert ids == theirs.encode(text, add_special_tokens=False).ids == back.encode(text, allowed_special="all"), text
    assert back.special_tokens == ours.special_tokens
    again = str(folder / "again.json")
    formats.save(back.vocabulary, again, "huggingface", verify=False)
    assert [merge[1:5] for merge in formats.load(again).merges] == [merge[1:5] for merge in vocabulary.merges]


@pytest.mark.parametrize("name", CUSTOM)
def test_what_is_trained_goes_to_tokenizers_and_back(name, tmp_path):
    pattern, gaps = CUSTOM[name]
    exported_to_tokenizers(trained(pattern, gaps=gaps), tmp_path)


@pytest.mark.parametrize(
    "steps", [[r"\d", "gpt2"], ["gpt2", "o200k"], [r"\p{N}{1,3}", r"[aeiou]+", "cl100k"], ["whitespace", r"[a-z]"], ["none", "qwen2"]]
)
def test_sequences_go_to_tokenizers_and_back(steps, tmp_path):
    exported_to_tokenizers(trained(in_sequence([pre_tokenizer(step) for step in steps])), tmp_path)


def test_transformers_loads_what_is_written(tmp_path):
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    for name in ("gpt2", "o200k", "whitespace"):
        vocabulary = trained(name)
        path = str(tmp_path / f"{name}.json")
        formats.save(vocabulary, path, "huggingface")
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=path)
        ours = Tokenizer(vocabulary)
        for text in [*TEXTS[::9], *random_texts(50), "a<|end|>b"]:
            assert theirs.encode(text, add_special_tokens=False) == ours.encode(text, allowed_special="all"), text


def test_the_file_is_the_same_and_is_not_written_over(tmp_path):
    vocabulary, other = trained("gpt2"), trained("gpt2", 500)
    path = tmp_path / "v"
    for _ in range(2):
        huggingface.save(vocabulary, path)
    before = (path / "tokenizer.json").read_bytes()
    with pytest.raises(FileExistsError, match="overwrite"):
        huggingface.save(other, path)
    assert (path / "tokenizer.json").read_bytes() == before
    huggingface.save(other, path, overwrite=True)
    assert formats.load(path) != formats.load(path, "huggingface") or len(formats.load(path)) == 500


def test_shared_fixtures(shared, tmp_path):
    base = json.loads((shared / "reference" / "hf" / "trained_bytelevel_bpe_4096_mixed1m.json").read_text())
    for shape, normalizer in [("gpt2", None), ("o200k", None), ("qwen", {"type": "NFC"}), ("deepseek", None), ("nemo", None)]:
        one = Both({**base, "pre_tokenizer": SHAPES[shape], "normalizer": normalizer}, tmp_path)
        one.check([*TEXTS[::7], TEXT, *random_texts(50)])


# ---- vocab.json and merges.txt ----


def test_gpt2_files_go_to_tokenizers_and_back(tmp_path):
    text = TEXT + "a   b\n\n\n  \x85\u2028\t\tc\r\n" * 50
    vocabulary = train(WordCounts.from_documents([text], pattern="gpt2"), 800, special_tokens=["<|endoftext|>"])
    assert all(any(space in token and len(token) > 1 for token in vocabulary.tokens) for space in (b" ", b"\n"))
    formats.save(vocabulary, str(tmp_path), "gpt2")
    files = str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    raw = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*files))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs = tokenizers.ByteLevelBPETokenizer(*files)
    ours = Tokenizer(vocabulary)
    for path in (tmp_path, *files):
        back = Tokenizer(formats.load(path))
        assert back.vocabulary.special_ids == vocabulary.special_ids
    for text in [*TEXTS[::3], *random_texts(100), text]:
        assert ours.encode(text) == theirs.encode(text).ids == raw.encode(text).ids == back.encode(text), text
    assert ours.encode("a<|endoftext|>", allowed_special="all") == back.encode("a<|endoftext|>", allowed_special="all")
    for token_id, text in enumerate(vocabulary.tokens):
        assert bytelevel.token_of(raw.id_to_token(token_id)) == text == back.token_bytes(token_id)


def test_gpt2_files_as_they_were_first(shared):
    loaded = formats.load(str(shared / "reference" / "encoder.json"))
    theirs = tokenizers.ByteLevelBPETokenizer(str(shared / "reference" / "encoder.json"), str(shared / "reference" / "vocab.bpe"))
    ours = Tokenizer(loaded)
    assert ours.special_tokens == {"<|endoftext|>": 50256}
    for text in [*TEXTS[::3], TEXT, *random_texts(100)]:
        assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("change", ["CRLF", "BOM", "no version", "no newline at the end"])
def test_gpt2_files_of_other_systems(change, tmp_path):
    vocabulary = trained("gpt2")
    gpt2.save(vocabulary, str(tmp_path))
    path = tmp_path / "merges.txt"
    text = path.read_text()
    changed = {"CRLF": text.replace("\n", "\r\n"), "BOM": "\ufeff" + text, "no version": text.partition("\n")[2], "no newline at the end": text[:-1]}
    path.write_bytes(changed[change].encode())
    specials = {"special_tokens": vocabulary.special_ids}
    assert [merge[:4] for merge in formats.load(str(path), **specials).merges] == [merge[:4] for merge in vocabulary.merges]
    assert Tokenizer(formats.load(str(path), **specials)).encode(TEXT) == Tokenizer(vocabulary).encode(TEXT)


def test_a_merge_that_looks_like_the_version(tmp_path):
    vocabulary = train(WordCounts.from_mapping({"#version": 9, "#versions": 8}, pre_tokenizer="gpt2"), 256 + 8)
    assert vocabulary.merges[-1].left == b"#version"
    with pytest.raises(ValueError, match="'#version s.*write a tokenizer.json"):
        gpt2.save(vocabulary, str(tmp_path))
    (tmp_path / "vocab.json").write_text(json.dumps({bytelevel.shown(t): i for i, t in enumerate(vocabulary.tokens)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{m.left.decode()} {m.right.decode()}\n" for m in vocabulary.merges))
    theirs = tokenizers.ByteLevelBPETokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    assert Tokenizer(formats.load(str(tmp_path))).encode("#versions") == theirs.encode("#versions").ids


def test_gpt2_files_cannot_hold(base, both, tmp_path):
    whole = with_lost_tokens(base)
    whole["model"]["ignore_merges"] = True
    added = {**base, "added_tokens": [token("<e>", len(base["model"]["vocab"]), special=False)]}
    for vocabulary, lost in [
        (trained("o200k"), "GPT-2's pattern, and the vocabulary has 'o200k'"),
        (dataclasses.replace(trained("gpt2"), normalizer="NFC"), "have no normalizer"),
        (both(whole).vocabulary, "tokens are made by no merge"),
        (both(added).vocabulary, "have no added tokens, and '<e>' is one"),
        (train(WordCounts.from_mapping({"low": 5}, pre_tokenizer="gpt2"), 260, special_tokens=["é"]), "spelt like another"),
    ]:
        with pytest.raises(ValueError, match=lost):
            gpt2.save(vocabulary, str(tmp_path / "out"))
        assert not (tmp_path / "out").exists()


# ---- what cannot be represented ----


def put(path, value):
    def change(content):
        *folders, last = path
        for name in folders:
            content = content[name]
        content[last] = value

    return change


REFUSED = {
    "the pre-tokenizer Metaspace": put(["pre_tokenizer"], sequence({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, GPT2)),
    "the pre-tokenizer Punctuation with behavior Removed": put(["pre_tokenizer"], sequence({"type": "Punctuation", "behavior": "Removed"}, GPT2)),
    "the pre-tokenizer CharDelimiterSplit": put(["pre_tokenizer"], {"type": "CharDelimiterSplit", "delimiter": "x"}),
    "the pre-tokenizer UnicodeScripts": put(["pre_tokenizer"], sequence({"type": "UnicodeScripts"}, GPT2)),
    "the pre-tokenizer Gpt9": put(["pre_tokenizer"], {"type": "Gpt9"}),
    "no unk_token and no byte_fallback": put(["pre_tokenizer"], None),
    "the model BPE has no unk_token and": put(["pre_tokenizer"], split("a")),
    "ByteLevel is followed by Split": put(["pre_tokenizer"], sequence(GPT2, split("a"))),
    "add_prefix_space": put(["pre_tokenizer"], {**GPT2, "add_prefix_space": True}),
    "behavior Removed cannot": put(["pre_tokenizer"], sequence(split("a", "Removed"), GPT2)),
    "behavior Isolated and invert|xx": put(["pre_tokenizer"], sequence(split("a", "MergedWithNext"), GPT2)),
    "MergedWithPrevious": put(["pre_tokenizer"], sequence(split("a", "MergedWithPrevious"), GPT2)),
    "behavior Contiguous": put(["pre_tokenizer"], sequence(split("a", "Contiguous"), GPT2)),
    "the pattern of the pre-tokenizer Split: .* no exact counterpart": put(["pre_tokenizer"], sequence(split(r"(a)\1"), GPT2)),
    "the normalizer Prepend": put(["normalizer"], {"type": "Prepend", "prepend": "▁"}),
    "the normalizer Replace": put(["normalizer"], {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": " +"}, "content": "▁"}]}),
    "the precompiled normalizer of 3 bytes is damaged": put(["normalizer"], {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "the normalizer Precompiled has no precompiled_charsmap": put(["normalizer"], {"type": "Precompiled", "precompiled_charsmap": None}),
    "the precompiled_charsmap of the normalizer Precompiled is not base64": put(["normalizer"], {"type": "Precompiled", "precompiled_charsmap": "A_"}),
    "the normalizer Strip has strip_left=1": put(["normalizer"], {"type": "Strip", "strip_left": 1, "strip_right": True}),
    "the pre-tokenizer Metaspace followed by ByteLevel": put(["pre_tokenizer"], sequence({"type": "Metaspace", "replacement": "▁"}, GPT2)),
    "the normalizer BertNormalizer has clean_text=1": put(["normalizer"], {"type": "BertNormalizer", "clean_text": 1}),
    "the normalizer BertNormalizer has strip_accents='yes'": put(["normalizer"], {"type": "BertNormalizer", "strip_accents": "yes"}),
    "the normalizer Nmt": put(["normalizer"], {"type": "Nmt"}),
    "the normalizer ByteLevel": put(["normalizer"], {"type": "ByteLevel"}),
    "byte_fallback=True": put(["model", "byte_fallback"], True),
    "dropout=0.1": put(["model", "dropout"], 0.1),
    "continuing_subword_prefix='##'": put(["model", "continuing_subword_prefix"], "##"),
    "end_of_word_suffix='</w>'": put(["model", "end_of_word_suffix"], "</w>"),
    "the model WordPiece behind the pre-tokenizer ByteLevel": put(["model"], {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]"}),
    "the model Unigram": put(["model"], {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0}),
    "the model WordLevel behind the pre-tokenizer ByteLevel": put(["model"], {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}),
    "the post-processor Odd": put(["post_processor"], {"type": "Odd"}),
    "the post-processor BertProcessing behind another": put(["post_processor"], {"type": "Sequence", "processors": [{"type": "RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2]}, {"type": "BertProcessing", "sep": ["a", 1], "cls": ["b", 2]}]}),
    "has 0 texts instead of one": put(["post_processor"], template([], {})),
    "has 2 texts instead of one": put(["post_processor"], template([{"Sequence": {"id": "A", "type_id": 0}}] * 2, {})),
    "the post-processor adds the id 99999": put(["post_processor"], {"type": "BertProcessing", "sep": ["x", 99999], "cls": ["y", 0]}),
}  # fmt: skip


@pytest.mark.parametrize("named", REFUSED)
def test_refused_by_name(named, base, tmp_path):
    content = copy.deepcopy(base)
    REFUSED[named](content)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=named.replace("behavior Isolated and invert|xx", "behavior MergedWithNext")) as caught:
        formats.load(str(path))
    assert str(path) in str(caught.value)


def test_tekken_files_are_refused_by_name(tmp_path):
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps({"config": {"pattern": "a"}, "vocab": [{"rank": 0, "token_bytes": "AA=="}], "special_tokens": []}))
    for chosen in (None, "huggingface"):
        with pytest.raises(FormatError, match="tekken"):
            formats.load(str(path), chosen)
    path.rename(tmp_path / "tokenizer.json")
    with pytest.raises(FormatError, match="tekken"):
        formats.load(str(tmp_path / "tokenizer.json"))


def test_an_export_is_refused_where_ids_would_differ(base, both, tmp_path):
    function = trained(pre_tokenizer(split_with="string:capwords"))
    with pytest.raises(ValueError, match="the function 'string:capwords'"):
        huggingface.save(function, str(tmp_path))
    spelt = train(WordCounts.from_mapping({"low": 5}, pre_tokenizer="gpt2"), 260, special_tokens=["é"])  # the spelling of byte 0xe9
    with pytest.raises(ValueError, match="spells the added token 'é' like the token"):
        huggingface.save(spelt, str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_names_of_formats(tmp_path, vocabulary):
    with pytest.raises(ValueError, match="choose one of parquet, tiktoken, huggingface, sentencepiece, gpt2, bert, subword_nmt"):
        formats.load(str(tmp_path), "word2vec")
    with pytest.raises(ValueError, match="choose one of"):
        formats.save(vocabulary, str(tmp_path), "word2vec")
    with pytest.raises(FileNotFoundError, match="holds no vocabulary"):
        formats.load(str(tmp_path / "none"))
    with pytest.raises(FormatError, match="say which it is"):
        formats.load(str(tmp_path))
    for chosen in formats.FORMATS:
        with pytest.raises(FileNotFoundError, match="none"):
            formats.load(tmp_path / "none", chosen, **({"pattern": "gpt2"} if chosen == "tiktoken" else {}))
