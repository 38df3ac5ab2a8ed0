"""tokenizer.json of the families of SentencePiece, and Unigram: ids equal those of tokenizers; what cannot be held is told."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from beam_bpe import Tokenizer, charsmap, formats, train
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import components, huggingface
from beam_bpe.formats.difficult import TEXTS, own_texts
from beam_bpe.formats.scored import is_rounding
from beam_bpe.layout import AddedToken
from beam_bpe.model import byte_token
from beam_bpe.words import WordCounts

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers  # noqa: E402

SPACE = "\u2581"
BYTES = [byte_token(byte) for byte in range(256)]
TEXT = (
    "The newest lowlands aren't lower than 12345 others… naïve café: größte Übergröße, x = y+1;\n\n    return 0\n"
    "機器學習模型的訓練資料和机器学习模型的训练数据。日本語のテキストと、한국어 텍스트. Это русский текст, самый новый!\n"
    "cafe\u0301 WORD Word's word'LL 3.14159265 ①ﬁ Ｌow 1234567890 a##b int main() { return 42; }  // done  \u2581 low\n"
) * 9
EXTRA = [("<extra_id_0>", {}), ("<mask>", {"lstrip": True, "normalized": True}), ("New", {"normalized": True, "special": False}), ("</s>", {})]


def component(one) -> dict | None:
    """Return a component of tokenizers as a tokenizer.json has it."""
    frame = tokenizers.Tokenizer(models.BPE())
    if isinstance(one, normalizers.Normalizer):
        frame.normalizer = one
        return json.loads(frame.to_str())["normalizer"]
    if one is not None:
        frame.pre_tokenizer = one
    return json.loads(frame.to_str())["pre_tokenizer"]


def added(i: int, text: str, **options) -> dict:
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": i, "content": text, **usual, **options}


@cache
def learned_bpe(normalizer: str, pre: str, fallback: bool) -> str:
    frame = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    content = json.loads(frame.to_str())
    frame = tokenizers.Tokenizer.from_str(json.dumps({**content, "normalizer": json.loads(normalizer), "pre_tokenizer": json.loads(pre)}))
    special = ["<unk>", "<s>", "</s>", *(BYTES if fallback else [])]
    lines = TEXT.split("\n") if pre != "null" else [f" {word}" for word in TEXT.split()]
    frame.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=600, special_tokens=special, limit_alphabet=90, show_progress=False))
    return frame.to_str()


def bpe(normalizer, pre, fallback=True, **options) -> dict:
    """Return a tokenizer.json of BPE with these components; `options` are of its special tokens."""
    content = json.loads(learned_bpe(json.dumps(component(normalizer) if normalizer else None), json.dumps(component(pre)), fallback))
    content["added_tokens"] = [{**token, **options} for token in content["added_tokens"] if token["content"] not in BYTES]
    return content


@cache
def learned_pieces() -> list[list]:
    """Return pieces and scores that look like a Unigram model's: substrings of words by their counts."""
    counts: dict[str, int] = {}
    for word in TEXT.split():
        for start in range(len(word) + 1):
            for end in range(start + 1, min(len(word), start + 6) + 1):
                piece = (SPACE + word)[start:end]
                counts[piece] = counts.get(piece, 0) + end - start
    total = sum(counts.values())
    kept = sorted(counts, key=lambda piece: (-counts[piece], piece))
    alphabet = [piece for piece in kept if len(piece) == 1][:80]
    longer = [piece for piece in kept if len(piece) > 1][:500]
    return [["<unk>", 0.0], *([piece, float(np.log(counts[piece] / total))] for piece in dict.fromkeys([SPACE, *alphabet, *longer]))]


def unigram(normalizer=None, pre=None, extra=EXTRA, fallback=False) -> dict:
    vocab = [*learned_pieces(), *([[name, -9 - i / 100] for i, name in enumerate(BYTES)] if fallback else [])]
    content = json.loads(tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0)], 0, fallback)).to_str())
    content["model"]["vocab"] = vocab
    content["normalizer"] = component(normalizer) if normalizer else None
    content["pre_tokenizer"] = component(pre)
    content["added_tokens"] = [added(0, "<unk>"), *(added(len(vocab) + i, text, **options) for i, (text, options) in enumerate(extra))]
    return content


def metaspace(scheme="always", split=True):
    return pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)


def words():
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace()])


def precompiled():
    return normalizers.Precompiled(charsmap.shipped("nmt_nfkc"))


LLAMA = [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
RUNS = Regex(" {2,}")
FAMILIES = {
    "llama 2": lambda: bpe(normalizers.Sequence(LLAMA), None),
    "llama 2 at first": lambda: bpe(normalizers.Sequence(LLAMA), None, normalized=True),
    "llama 2 of today": lambda: bpe(None, metaspace("first", False)),
    "llama 2 of today, normalized": lambda: bpe(None, metaspace("first", False), normalized=True),
    "gemma": lambda: bpe(normalizers.Replace(" ", SPACE), pre_tokenizers.Split(" ", "merged_with_previous")),
    "nllb": lambda: bpe(normalizers.Sequence([precompiled(), normalizers.Replace(RUNS, " ")]), metaspace(), fallback=False),
    "t5": lambda: unigram(precompiled(), words()),
    "t5 of today": lambda: unigram(normalizers.Sequence([precompiled(), normalizers.Strip(left=False), normalizers.Replace(RUNS, SPACE)]), metaspace()),
    "xlm-r": lambda: unigram(normalizers.Sequence([precompiled(), normalizers.Replace(RUNS, " ")]), words()),
    "albert": lambda: unigram(normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), precompiled(), normalizers.Replace(RUNS, " "),
    ]), metaspace()),
    "unigram": lambda: unigram(None, metaspace()),
    "unigram, first": lambda: unigram(normalizers.Sequence([normalizers.NFKD(), normalizers.Replace(RUNS, SPACE)]), metaspace("first")),
    "unigram, never": lambda: unigram(None, metaspace("never")),
    "unigram, not split": lambda: unigram(normalizers.Strip(), metaspace(split=False)),
    "unigram, bare": lambda: unigram(),
    "unigram, bytes": lambda: unigram(None, metaspace(), fallback=True),
}  # fmt: skip


class Both:
    """A tokenizer.json in both libraries."""

    def __init__(self, content: dict, folder: Path):
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(content))
        self.theirs = tokenizers.Tokenizer.from_file(str(path))
        self.vocabulary = formats.load(str(path))
        self.ours = Tokenizer(self.vocabulary)

    def check(self, texts) -> None:
        texts = list(texts)
        theirs = self.theirs.encode_batch(texts, add_special_tokens=False)
        for text, found, expected in zip(texts, self.ours.encode_batch(texts, allowed_special="all"), theirs):
            assert found.tolist() == expected.ids, text


@pytest.mark.parametrize("family", FAMILIES)
def test_ids(family, tmp_path):
    both = Both(FAMILIES[family](), tmp_path)
    rng = random.Random(len(family))
    parts = [*TEXT, " ", "  ", SPACE, "<s>", "<mask>", "New", "<unk>", "<0xE4>", "\u0301", "☃", "\u3000", "①"]
    both.check([*TEXTS[::9], *own_texts(both.vocabulary, 200), *("".join(rng.choices(parts, k=rng.randrange(1, 40))) for _ in range(500))])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_of_all_texts(family, shared, tmp_path):
    both = Both(FAMILIES[family](), tmp_path)
    both.check([*TEXTS, *own_texts(both.vocabulary), *(shared / "corpora" / "mixed-1m.txt").read_text().split("\n")])
    both.check(path.read_bytes().decode("utf-8", "replace") for path in sorted((shared / "corpora" / "nasty").iterdir()))


def test_shared_fixture(shared, tmp_path):
    content = json.loads((shared / "reference" / "hf" / "trained_unigram_4096_mixed1m.json").read_text())
    both = Both(content, tmp_path)
    both.check([*TEXTS[::5], *own_texts(both.vocabulary, 500), *(shared / "corpora" / "mixed-1m.txt").read_text().split("\n")[::5]])
    both.check(path.read_bytes().decode("utf-8", "replace") for path in sorted((shared / "corpora" / "nasty").iterdir()))
    assert huggingface.content_of(both.vocabulary) == content
    layout = both.vocabulary.layout
    assert layout.scores.tolist() == [score for _, score in content["model"]["vocab"]] and both.vocabulary.normalizer == "Metaspace:always"
    huggingface.save(both.vocabulary, str(tmp_path / "again"))
    assert formats.load(str(tmp_path / "again")) == both.vocabulary


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("family", FAMILIES)
def test_there_and_back(family, tmp_path):
    content = FAMILIES[family]()
    vocabulary = Both(content, tmp_path).vocabulary
    written = huggingface.content_of(vocabulary)
    for name in ("normalizer", "pre_tokenizer", "added_tokens", "model"):
        if (family, name) != ("gemma", "pre_tokenizer"):  # which never cuts
            assert written[name] == content[name], name
    folder = str(tmp_path / "folder")
    vocabulary.save(folder)
    assert formats.load(folder) == vocabulary and huggingface.content_of(formats.load(folder)) == written
    huggingface.save(vocabulary, str(tmp_path / "again.json"), verify=family == "llama 2 of today")
    assert formats.load(str(tmp_path / "again.json")) == vocabulary


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "llama 2 at first"])
def test_decoding(family, tmp_path):
    """As the decoder says that is written; bytes that are no text become other numbers of U+FFFD."""
    vocabulary = Both(FAMILIES[family](), tmp_path).vocabulary
    theirs = tokenizers.Tokenizer.from_str(json.dumps(huggingface.content_of(vocabulary)))
    ours = Tokenizer(vocabulary)
    for text in [*TEXTS[::40], " a  b ", "a", " ", f"{SPACE}a", "<mask> a"]:
        if "<0x" in text:
            continue
        ids = ours.encode(text, allowed_special="all")
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False), text


@pytest.mark.parametrize("options", [{"algorithm": "unigram"}, {"algorithm": "sentencepiece-bpe"}, {"unit": "character", "byte_fallback": True}])
def test_decoding_of_what_was_learned(options):
    """The normalizer has a short name there."""
    words = WordCounts.from_documents(["low lower  newest "], pattern="metaspace", normalizer="metaspace")
    vocabulary = train(words, 300, **options)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(huggingface.content_of(vocabulary)))
    for text in ("low", " low  new ", "", " "):
        assert theirs.decode(theirs.encode(text).ids) == text == Tokenizer(vocabulary).decode(Tokenizer(vocabulary).encode(text))


def test_components_there_and_back():
    for one in [
        normalizers.Prepend(" "), normalizers.Replace(" ", SPACE), normalizers.Replace(RUNS, " "), normalizers.Replace(RUNS, SPACE),
        normalizers.Strip(), normalizers.Strip(left=False), normalizers.Strip(right=False), normalizers.Replace("a", ""),
        normalizers.Sequence(LLAMA), normalizers.Sequence([normalizers.NFC(), *LLAMA, normalizers.Lowercase()]), precompiled(),
        normalizers.Sequence([normalizers.Strip(right=False), normalizers.NFC(), normalizers.Strip(left=False)]),
    ]:  # fmt: skip
        assert components.write_normalizer(components.read_normalizer(component(one))) == component(one)
    for name in ("remove_extra_whitespaces+dummy_prefix+escape_whitespaces", "NFC+remove_extra_whitespaces", "collapse_spaces+strip_left"):
        written = components.write_normalizer(name)
        assert components.read_normalizer(written) == name
        theirs = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(tokenizers.Tokenizer(models.BPE()).to_str()), "normalizer": written})).normalizer
        for text in ("", " ", "  a  b  ", f" a{SPACE} {SPACE}", f"{SPACE}", f"  {SPACE}a", "a\n b \n"):
            assert theirs.normalize_str(text) == components_normalize(text, name)
    for pre, normalizer in [(metaspace(), None), (metaspace("first", False), "NFC"), (metaspace("never"), None), (words(), "NFKC")]:
        chosen, byte_level, name = components.read_pre_tokenizer(component(pre), normalizer)
        assert not byte_level and components.write_pre_tokenizer(chosen, False, name) == component(pre)
        written = components.write_normalizer(name)
        assert (written and written["type"]) == normalizer


def components_normalize(text, name):
    from beam_bpe.normalize import normalize

    return normalize(text, name)


def test_old_metaspace():
    old = {"type": "Metaspace", "replacement": SPACE}
    for changes, said in [
        ({"add_prefix_space": True}, "Metaspace:always"),
        ({"add_prefix_space": True, "str_rep": SPACE}, "Metaspace:always"),
        ({"add_prefix_space": True, "prepend_scheme": "first"}, "Metaspace:first"),
        ({"add_prefix_space": False, "prepend_scheme": "never"}, "Metaspace:never"),
        ({"add_prefix_space": False}, "Metaspace:never"),
        ({}, "Metaspace:always"),
    ]:
        assert components.read_pre_tokenizer({**old, **changes})[2] == said


# ---- what is refused, and damaged files ----------------------------------------------------------


def with_model(content: dict, **changes) -> dict:
    return {**content, "model": {**content["model"], **changes}}


REFUSED = {
    "no unk_id": lambda c: with_model(c, unk_id=None),
    "unk_id=900000": lambda c: with_model(c, unk_id=900_000),
    "unk_id=-1": lambda c: with_model(c, unk_id=-1),
    "unk_id=True": lambda c: with_model(c, unk_id=True),
    "unk_id=0.0": lambda c: with_model(c, unk_id=0.0),
    "no vocab that lists pieces and scores": lambda c: with_model(c, vocab=[]),
    "no vocab that lists": lambda c: with_model(c, vocab={"a": 0}),
    "no vocab that|x": lambda c: with_model(c, vocab=None),
    "the entry of id 1 of the vocab is \\['a'\\]": lambda c: with_model(c, vocab=[["<unk>", 0], ["a"]]),
    "the entry of id 1 of the vocab is \\['a', '0'\\]": lambda c: with_model(c, vocab=[["<unk>", 0], ["a", "0"]]),
    "the entry of id 1 of the vocab is \\['a', True\\]": lambda c: with_model(c, vocab=[["<unk>", 0], ["a", True]]),
    "the entry of id 1 of the vocab is \\[5, 0\\]": lambda c: with_model(c, vocab=[["<unk>", 0], [5, 0]]),
    "the pieces of ids 1 and 2 of the vocab are both 'a'": lambda c: with_model(c, vocab=[["<unk>", 0], ["a", 0], ["a", -1]]),
    "the piece of id 1 of the vocab, 'a', has the score nan": lambda c: with_model(c, vocab=[["<unk>", 0], ["a", float("nan")]]),
    "the piece of id 1 of the vocab, 'a', has the score inf": lambda c: with_model(c, vocab=[["<unk>", 0], ["a", float("inf")]]),
    "'a', has the score -10000000": lambda c: with_model(c, vocab=[["<unk>", 0], ["a", -(10**400)]]),
    "the token of id 1 is empty": lambda c: with_model(c, vocab=[["<unk>", 0], ["", 0]]),
    "special tokens only": lambda c: with_model(c, vocab=[["<unk>", 0]]),
    "the special token of id 0 has the lowest score": lambda c: with_model(c, vocab=[["<unk>", -5], ["a", -1]]),
    "byte_fallback='yes', neither true nor false": lambda c: with_model(c, byte_fallback="yes"),
    "byte_fallback needs the tokens": lambda c: with_model(c, byte_fallback=True),
    "byte_fallback with an unk token '<unk>' that is not special": lambda c: {**with_model(c, byte_fallback=True), "added_tokens": []},
    "the model Unigram behind the pre-tokenizer whitespace": lambda c: {**c, "pre_tokenizer": {"type": "WhitespaceSplit"}},
    "behind the pre-tokenizer sequence": lambda c: {**c, "pre_tokenizer": component(pre_tokenizers.Sequence([metaspace(), pre_tokenizers.Digits()]))},
    "the model Unigram behind the pre-tokenizer ByteLevel": lambda c: {**c, "pre_tokenizer": component(pre_tokenizers.ByteLevel(add_prefix_space=False))},
    "Metaspace \\(never, split: True\\) behind WhitespaceSplit": lambda c: {**c, "pre_tokenizer": component(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace("never")]))},
    "Metaspace \\(always, split: False\\) behind WhitespaceSplit": lambda c: {**c, "pre_tokenizer": component(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace(split=False)]))},
    "Metaspace \\(always, split: True\\) behind Digits": lambda c: {**c, "pre_tokenizer": component(pre_tokenizers.Sequence([pre_tokenizers.Digits(), metaspace()]))},
    "Metaspace followed by Metaspace": lambda c: {**c, "pre_tokenizer": component(pre_tokenizers.Sequence([metaspace(), metaspace()]))},
    "prepend_scheme first behind the normalizer strip_left": lambda c: {**c, "normalizer": component(normalizers.Strip()), "pre_tokenizer": component(metaspace("first"))},
    "Metaspace with replacement='_'": lambda c: {**c, "pre_tokenizer": {"type": "Metaspace", "replacement": "_"}},
    "Metaspace has split=no": lambda c: {**c, "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "split": "no"}},
    "Metaspace has prepend_scheme='odd'": lambda c: {**c, "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "odd"}},
    "Metaspace contradicts itself": lambda c: {**c, "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "add_prefix_space": False}},
    "Prepend of 'x'": lambda c: {**c, "normalizer": component(normalizers.Prepend("x"))},
    "Prepend of '\u2581' cannot be represented unless": lambda c: {**c, "normalizer": component(normalizers.Prepend(SPACE))},
    "Replace of {'Regex': ' '}": lambda c: {**c, "normalizer": {"type": "Replace", "pattern": {"Regex": " "}, "content": SPACE}},
    "Replace of {'Regex': .* by ''": lambda c: {**c, "normalizer": component(normalizers.Replace(Regex(rf"\A |[ {SPACE}]+\z"), ""))},
    "Replace of {'String': ''}": lambda c: {**c, "normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": SPACE}},
    "Replace of {'String': 5}": lambda c: {**c, "normalizer": {"type": "Replace", "pattern": {"String": 5}, "content": SPACE}},
    "Replace of None": lambda c: {**c, "normalizer": {"type": "Replace", "content": SPACE}},
    "Strip has strip_right=no": lambda c: {**c, "normalizer": {"type": "Strip", "strip_right": "no"}},
    "the precompiled normalizer of 12 bytes is damaged": lambda c: {**c, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "A" * 16}},
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_refused_by_name(said, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(REFUSED[said](unigram(None, metaspace()))))
    with pytest.raises(FormatError, match=said) as caught:
        formats.load(str(path))
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value) and len(str(caught.value)) < 1200


@pytest.mark.filterwarnings("ignore:.*gives an added token the id")
def test_random_values_in_place_of_others(tmp_path):
    """A file loads or is refused in one line, and nothing else happens."""
    rng = random.Random(8)
    path = tmp_path / "tokenizer.json"
    values = [None, True, -1, 1 << 70, 1e300, "", "a", SPACE, [], ["a", 0], {}, {"type": "Metaspace"}, [["<unk>", 0], ["a", -1]]]
    refused = 0
    for _ in range(400):
        content = copy.deepcopy(unigram(normalizers.Sequence([normalizers.Strip(), *LLAMA]), metaspace(), fallback=True))
        content["model"]["vocab"] = content["model"]["vocab"][:60]
        inside = content
        while isinstance(inside, (dict, list)) and inside:
            keys = list(inside) if isinstance(inside, dict) else range(len(inside))
            key = rng.choice(keys)
            if rng.random() < 0.35 or not isinstance(inside[key], (dict, list)) or not inside[key]:
                inside[key] = rng.choice(values)
                break
            inside = inside[key]
        path.write_text(json.dumps(content))
        try:
            formats.load(str(path))
        except FormatError as error:
            refused += 1
            assert str(error).startswith(str(path)) and "\n" not in str(error)
    assert 100 < refused <= 400


def test_what_a_tokenizer_json_cannot_hold(tmp_path):
    vocabulary = Both(unigram(None, metaspace()), tmp_path).vocabulary
    layout = vocabulary.layout

    def refused(said, **changes):
        with pytest.raises(ValueError, match=said):
            huggingface.save(replace(vocabulary, **changes), str(tmp_path / "out"), verify=False)

    piece = layout.ids[b"lo"]
    refused("no user-defined tokens: that 'lo' is one", layout=replace(layout, user_defined=(piece,)))
    refused("no unused tokens", layout=replace(layout, unused=(piece,)))
    refused("appends a space", normalizer="dummy_suffix+escape_whitespaces")
    refused("by grapheme clusters: 'sentencepiece:nfkc'", normalizer="sentencepiece:nfkc+dummy_prefix+escape_whitespaces")
    refused("no pre-tokenizer for 'Metaspace:always\\+NFC'", normalizer="Metaspace:always+NFC")
    hole = (*layout.tokens[:piece], b"", *layout.tokens[piece + 1 :])
    refused(f"there is none of id {piece}", layout=replace(layout, tokens=hole))
    far = (*layout.added_tokens, AddedToken("<far>", len(vocabulary) + 5))
    more = replace(layout, added_tokens=far, scores=np.append(layout.scores, np.zeros(6)))
    refused("there is none of id", layout=more, special_tokens=(*vocabulary.special_tokens, "<far>"))
    both = Both(unigram(None, metaspace(), fallback=True), tmp_path).vocabulary
    with pytest.raises(ValueError, match="finds the tokens of bytes in texts that spell them"):
        huggingface.content_of(replace(both, model=replace(both.model, single_precision=True)))


def test_rounding(tmp_path):
    """Sums of 32 bits may prefer another way to cut a text only where both score nearly the same."""
    vocabulary = Both(unigram(None, metaspace()), tmp_path).vocabulary
    low, o = vocabulary.ids[b"lo"], vocabulary.ids[b"o"]
    assert is_rounding(vocabulary, [low] * 50 + [o], [o] + [low] * 50)
    assert not is_rounding(vocabulary, [low], [o]) and not is_rounding(vocabulary, [low, 0], [low])
    assert not is_rounding(vocabulary, [low, 0], [0])
    assert not is_rounding(Both(FAMILIES["gemma"](), tmp_path).vocabulary, [300], [300])
