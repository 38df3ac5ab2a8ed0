"""SentencePiece's .model files as vocabularies: ids equal the library's, the same bytes again, and what cannot be held is told."""

from __future__ import annotations

import builtins
import io
import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Tokenizer, WordCounts, charsmap, formats, normalize, train
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import huggingface, model_file, scored, sentencepiece
from beam_bpe.formats.difficult import TEXTS, own_texts
from beam_bpe.formats.model_file import SentencePieceModel, content_of, model_of
from beam_bpe.formats.sentencepiece import model_of_vocabulary, vocabulary_of
from beam_bpe.layout import AddedToken
from beam_bpe.model import byte_token
from beam_bpe.pretokenize import pre_tokenizer

spm = pytest.importorskip("sentencepiece")

MODELS = ("test_ja_model", "test_model", "trained_botchan_bpe_1000", "trained_botchan_bpe_2000_bytefallback")
MODELS += ("trained_botchan_unigram_1000",)
TEXT = (
    "The newest lowlands aren't lower than 12345 others… naïve café: größte Übergröße, x = y+1;\n    return 0\n"
    "機器學習模型的訓練資料和机器学习模型的训练数据。日本語のテキストと、한국어 텍스트. Это русский текст, самый новый!\n"
    "cafe\u0301 WORD Word's word'LL 3.14159265 ①ﬁ Ｌow 1234567890 a##b int main() { return 42; }  // done  low\n"
) * 9
IDENTITY = {"normalization_rule_name": "identity", "model_type": "bpe"}


def trained(**options) -> bytes:
    writer = io.BytesIO()
    usual = {"vocab_size": 420, "hard_vocab_limit": False, "minloglevel": 2}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(TEXT.split("\n")), model_writer=writer, **{**usual, **options})
    return writer.getvalue()


def check(data: bytes, texts) -> None:
    """Check that ids equal the library's."""
    texts = list(texts)
    ours, theirs = Tokenizer(vocabulary_of(model_of(data))), spm.SentencePieceProcessor(model_proto=data)
    for text, found, expected in zip(texts, ours.encode_batch(texts, disallowed_special=()), theirs.encode(texts)):
        assert found.tolist() == expected, text


def small(**changes) -> SentencePieceModel:
    given = {"pieces": ("<unk>", "▁", "a", "ab", "é"), "scores": [0, -3.5, -2, -1, -9], "kinds": ("unknown", *["normal"] * 4)}
    return SentencePieceModel(**{**given, "trainer": {"model_type": "unigram"}, "normalizer": {"name": "identity"}, **changes})


# ---- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_ids_of_the_shared_models(name, shared, tmp_path):
    path = shared / "reference" / "spm" / f"{name}.model"
    vocabulary = formats.load(str(path))
    nasty = [file.read_bytes().decode("utf-8", "replace") for file in sorted((shared / "corpora" / "nasty").iterdir())]
    lines = (shared / "corpora" / "mixed-1m.txt").read_text().split("\n")
    check(path.read_bytes(), [*TEXTS[::7], *own_texts(vocabulary, 1000), *nasty, *lines[::20]])
    folder = str(tmp_path / "folder")
    vocabulary.save(folder)
    again = formats.load(folder)
    assert again == vocabulary
    formats.save(again, str(tmp_path / "again.model"), "sentencepiece", verify=False)
    assert (tmp_path / "again.model").read_bytes() == path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_ids_of_megabytes(name, shared):
    data = (shared / "reference" / "spm" / f"{name}.model").read_bytes()
    text = (shared / "corpora" / "mixed-1m.txt").read_text()
    check(data, [*TEXTS, text, *text.split("\n"), text.replace(" ", "")])


SHAPES = [
    {**IDENTITY},
    {**IDENTITY, "model_type": "unigram", "add_dummy_prefix": False, "remove_extra_whitespaces": False},
    {**IDENTITY, "byte_fallback": True, "vocab_size": 600, "remove_extra_whitespaces": False, "user_defined_symbols": "<x>,▁▁,▁▁▁,low,\n,a  b"},
    {**IDENTITY, "model_type": "unigram", "treat_whitespace_as_suffix": True, "user_defined_symbols": "<x>,▁▁"},
    {**IDENTITY, "split_by_whitespace": False, "pad_id": 0, "unk_id": 3, "bos_id": -1, "unk_piece": "[UNK]", "unk_surface": "?", "control_symbols": "<c>"},
    {"model_type": "unigram", "user_defined_symbols": "①,ﬁ,<sep>,a  b", "control_symbols": "<c>,<d>"},
    {"model_type": "bpe", "remove_extra_whitespaces": False, "treat_whitespace_as_suffix": True, "user_defined_symbols": "①,low"},
    {"model_type": "bpe", "normalization_rule_name": "nfkc_cf", "treat_whitespace_as_suffix": True},
    {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf", "remove_extra_whitespaces": False, "byte_fallback": True, "vocab_size": 600},
]  # fmt: skip


@pytest.mark.parametrize("options", SHAPES, ids=range(len(SHAPES)))
def test_what_the_library_trains(options, tmp_path):
    data = trained(**options)
    rng = random.Random(3)
    parts = [*TEXT, " ", "  ", "▁", "<x>", "low", "①", "ﬁ", "a  b", "\n", "\x01", "\u3000", "<c>", "<unk>", "<0x41>", "☃", "<sep>"]
    check(data, [*TEXTS[::9], *("".join(rng.choices(parts, k=rng.randrange(1, 30))) for _ in range(1500))])
    vocabulary = vocabulary_of(model_of(data))
    assert content_of(model_of_vocabulary(vocabulary)) == data
    peer = spm.SentencePieceProcessor(model_proto=data)
    ours = Tokenizer(vocabulary)
    for text in [] if "treat_whitespace_as_suffix" in options else [*TEXT.split("\n")[:3], "☃ low <x>low", "", " ", "low"]:
        assert ours.decode(peer.encode(text)) == peer.decode(peer.encode(text))


def test_what_a_vocabulary_says(tmp_path):
    (tmp_path / "some.model").write_bytes(trained(**SHAPES[4]))
    vocabulary = formats.load(str(tmp_path / "some.model"))
    assert vocabulary.model.algorithm == "sentencepiece-bpe" and vocabulary.model.unk_token == "[UNK]"
    assert vocabulary.special_ids == {"<pad>": 0, "</s>": 2, "[UNK]": 3, "<c>": 1} and vocabulary.unk_id == 3
    assert vocabulary.normalizer == "remove_extra_whitespaces+dummy_prefix+escape_whitespaces"
    assert vocabulary.pre_tokenizer.name == "none" and vocabulary.model.unk_surface == "?"
    marked = vocabulary_of(model_of(trained(**SHAPES[2])))
    spelt = {marked.tokens[i].decode() for i in marked.layout.user_defined}
    assert spelt == {"<x>", "▁▁", "▁▁▁", "low", "\n", "a  b"} and marked.tokens[marked.ids[byte_token(65).encode()]] == b"<0x41>"
    unused = vocabulary_of(small(kinds=("unknown", "normal", "normal", "unused", "normal")))
    assert unused.layout.unused == (3,) and unused.model.single_precision
    assert vocabulary_of(small(normalizer={"add_dummy_prefix": False, "remove_extra_whitespaces": False, "escape_whitespaces": False})).normalizer is None


def test_files_in_a_folder(tmp_path):
    data = trained(**IDENTITY)
    for name in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(data)
        assert formats.format_of(str(folder)) == formats.format_of(str(folder / name)) == "sentencepiece"
        assert formats.load(str(folder)) == formats.load(str(folder / name)) == vocabulary_of(model_of(data))
    (folder / "tokenizer.json").write_text("{}")
    assert formats.format_of(str(folder)) == "huggingface"
    (tmp_path / "other").write_bytes(data)
    assert formats.load(str(tmp_path / "other"), "sentencepiece") == vocabulary_of(model_of(data))
    with pytest.raises(FileNotFoundError):
        formats.load(str(tmp_path / "none.model"))


@pytest.mark.parametrize(
    "said, changes",
    [
        ("the model_type 'word' cannot be represented; bpe and unigram can", {"trainer": {"model_type": "word"}}),
        ("the model_type 'char' cannot", {"trainer": {"model_type": "char"}}),
        ("a Unigram model needs a normal piece", {"kinds": ("unknown", *["control"] * 4)}),
        ("unk_surface=''", {"trainer": {"model_type": "bpe", "unk_surface": ""}}),
        ("without escape_whitespaces cannot", {"normalizer": {"escape_whitespaces": False}}),
    ],
)
def test_refused_by_name(said, changes, tmp_path):
    model = small(**changes)
    with pytest.raises(ValueError, match=said):
        vocabulary_of(model)
    path = str(tmp_path / "some.model")
    model_file.write_model(model, path)
    with pytest.raises(FormatError, match=f"some.model: .*{said}"):
        formats.load(path)


def test_a_denormalizer_is_refused(tmp_path):
    (tmp_path / "rules").write_text("61\t62\n")
    data = trained(**IDENTITY, denormalization_rule_tsv=str(tmp_path / "rules"))
    with pytest.raises(ValueError, match="it has a denormalizer, which changes decoded text"):
        vocabulary_of(model_of(data))
    bare = replace(model_of(data), denormalizer={"name": "x", "precompiled_charsmap": b""})
    assert content_of(model_of_vocabulary(vocabulary_of(bare))) == content_of(bare)


def test_fields_that_are_not_known_come_back():
    strange = content_of(small()) + b"\x22\x02hi" + b"\xc2\x0c\x01x"
    assert content_of(model_of_vocabulary(vocabulary_of(model_of(strange)))) == strange


def test_a_rule_of_ones_own(tmp_path):
    """It stands in the vocabulary; one that makes two spaces is exact as well."""
    (tmp_path / "rules").write_text("61\t78 20 20 79\n62\t\n63\t20 20\n")
    data = trained(model_type="bpe", normalization_rule_tsv=str(tmp_path / "rules"))
    vocabulary = vocabulary_of(model_of(data))
    assert vocabulary.normalizer.startswith("charsmap:")
    check(data, ["a", "aa", " a ", "b", "bb a", "c c", "cac", "lob", "  c", "c"] + TEXTS[:800])
    assert content_of(model_of_vocabulary(vocabulary)) == data


def test_without_the_package(tmp_path, monkeypatch):
    """Identity models need it neither for reading nor for encoding; others say what is to be installed."""
    plain, other = trained(**IDENTITY), trained(model_type="bpe")
    given = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "sentencepiece":
            raise ImportError(name)
        return given(name, *args, **kwargs)

    for known in (charsmap.shipped, normalize._passes):
        known.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    vocabulary = vocabulary_of(model_of(plain))
    assert Tokenizer(vocabulary).decode(Tokenizer(vocabulary).encode("low lower")) == "low lower"
    sentencepiece.save(vocabulary, str(tmp_path / "a.model"), verify=False)
    with pytest.raises(ImportError, match=r"pip install 'beam-bpe\[sentencepiece\]'"):
        vocabulary_of(model_of(other))
    with pytest.raises(ImportError, match="or give verify=False"):
        sentencepiece.save(vocabulary, str(tmp_path / "b.model"))


# ---- writing -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned():
    words = WordCounts.from_documents(TEXT.split("\n"), pattern="metaspace", normalizer="metaspace")
    squeezed = WordCounts.from_documents(TEXT.split("\n"), pattern="metaspace", normalizer="sentencepiece")
    return {
        "bpe": train(words, vocab_size=300, algorithm="sentencepiece-bpe", special_tokens=["<s>", "</s>", "<pad>", "<c>"]),
        "bpe, bytes": train(squeezed, vocab_size=520, algorithm="sentencepiece-bpe", byte_fallback=True, user_defined_symbols=["<x>"]),
        "unigram": train(squeezed, vocab_size=300, algorithm="unigram", special_tokens=["<s>", "</s>"]),
        "unigram, bytes": train(words, vocab_size=520, algorithm="unigram", byte_fallback=True),
    }


@pytest.mark.parametrize("family", ["bpe", "bpe, bytes", "unigram", "unigram, bytes"])
def test_what_is_learned(family, learned, tmp_path):
    vocabulary = learned[family]
    path = str(tmp_path / "learned")
    formats.save(vocabulary, path, "sentencepiece")
    again = formats.load(path)
    assert again.layout.scores.tolist() == vocabulary.layout.scores.tolist() and again.tokens == vocabulary.tokens
    assert (again.added_tokens, again.layout.user_defined) == (vocabulary.added_tokens, vocabulary.layout.user_defined)
    assert (again.model, again.normalizer.split("+")[-1]) == (vocabulary.model, "escape_whitespaces")
    formats.save(again, str(tmp_path / "again.model"), "sentencepiece")
    assert (tmp_path / "again.model").read_bytes() == (tmp_path / "learned" / "tokenizer.model").read_bytes()
    peer = spm.SentencePieceProcessor(model_file=str(tmp_path / "again.model"))
    assert (peer.unk_id(), peer.bos_id(), peer.eos_id(), peer.pad_id()) == tuple(
        vocabulary.special_ids.get(text, -1) for text in ("<unk>", "<s>", "</s>", "<pad>")
    )
    model = model_file.read_model(str(tmp_path / "again.model"))
    assert [model.option(f"{name}_id") for name in ("unk", "bos", "eos", "pad")] == [peer.unk_id(), peer.bos_id(), peer.eos_id(), peer.pad_id()]
    assert model.option("vocab_size") == len(vocabulary) and model.option("byte_fallback") == vocabulary.model.byte_fallback
    assert model.option("control_symbols") == (("<c>",) if family == "bpe" else ())
    assert model.option("user_defined_symbols") == (("<x>",) if family == "bpe, bytes" else ())


@pytest.mark.parametrize("kept", [5, {"trainer": {"none": 1}}, {"trainer": {"vocab_size": "x"}}, {"normalizer": [1]}, {"others": 5}])
def test_what_is_kept_of_a_file_and_is_damaged(kept, learned, tmp_path):
    vocabulary = learned["bpe"]
    damaged = replace(vocabulary, layout=replace(vocabulary.layout, origin={"sentencepiece": kept}))
    with pytest.raises(ValueError, match="keeps of its .model file is damaged"):
        formats.save(damaged, str(tmp_path / "m.model"), "sentencepiece")


@pytest.mark.parametrize("family", ["bpe", "bpe, bytes", "unigram", "unigram, bytes"])
def test_to_tokenizers_and_back(family, learned, tmp_path):
    pytest.importorskip("tokenizers")
    vocabulary = learned[family]
    path = str(tmp_path / "tokenizer.json")
    if "bytes" in family:
        with pytest.raises(ValueError, match="no user-defined tokens|finds the tokens of bytes"):
            formats.save(vocabulary, path, "huggingface")
        return
    formats.save(vocabulary, path, "huggingface")
    other = formats.load(path)
    assert other.normalizer == "+".join(sentencepiece.steps_of(vocabulary.normalizer)) and other.pre_tokenizer.name == "metaspace"
    ours, theirs = Tokenizer(vocabulary), Tokenizer(other)
    for text in TEXT.split("\n")[:6]:
        assert ours.encode(text) == theirs.encode(text) and ours.decode(ours.encode(text)) == theirs.decode(ours.encode(text))
    if family == "unigram":
        formats.save(other, str(tmp_path / "back.model"), "sentencepiece")
        back = formats.load(str(tmp_path / "back.model"))
        assert back.layout.scores.tolist() == vocabulary.layout.scores.tolist() and back.tokens == vocabulary.tokens
    else:
        with pytest.raises(ValueError, match="holds sentencepiece-bpe or unigram, and the vocabulary is bpe of characters"):
            formats.save(other, str(tmp_path / "back.model"), "sentencepiece")


def parts_of(piece: str, ranks: dict[str, int]) -> list[str]:
    """Return what merges make of a piece before it is formed, two parts or more that do not merge."""
    symbols = list(piece)
    while len(symbols) > 2:
        joined = [ranks.get(left + right, len(ranks)) for left, right in zip(symbols, symbols[1:])]
        if min(joined) == len(ranks):
            break
        at = joined.index(min(joined))
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]
    return symbols


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("abé▁😀", min_size=2, max_size=7), unique=True, max_size=30))
def test_merges_of_pieces(pieces):
    ranks = dict(zip(pieces, range(len(pieces))))
    assert scored._parts(pieces) == [parts for piece in pieces if len(parts := parts_of(piece, ranks)) == 2]


def test_what_a_model_cannot_hold(learned, tmp_path):
    vocabulary = learned["unigram"]
    layout = vocabulary.layout

    def refused(said, **changes):
        with pytest.raises(ValueError, match=said):
            sentencepiece.save(replace(vocabulary, **changes), str(tmp_path / "out"), verify=False)

    for normalizer in ("NFC", "lowercase+dummy_prefix", "escape_whitespaces+dummy_prefix", "dummy_prefix+dummy_suffix", "Metaspace:always"):
        refused("the normalizer '", normalizer=normalizer)
    refused("remove_extra_whitespaces without escape_whitespaces", normalizer="remove_extra_whitespaces")
    refused("the pre-tokenizer 'gpt2' \\(whole texts", pre_tokenizer=pre_tokenizer("gpt2"))
    scores = layout.scores.copy()
    scores[-1] = 0.1
    refused(f"a .model has scores of 32 bits, and that of id {len(vocabulary) - 1} is", layout=replace(layout, scores=scores))
    inside = (*layout.tokens[:-1], "a▁b".encode())
    refused("'a▁b' goes beyond one", layout=replace(layout, tokens=inside), model=replace(vocabulary.model, single_precision=False))
    nul = (*layout.tokens[:-1], b"a\0")
    refused("holds a NUL", layout=replace(layout, tokens=nul))
    hole = (*layout.tokens[:9], b"", *layout.tokens[10:])
    refused("there is none of id 9", layout=replace(layout, tokens=hole))
    for options, said in [({"special": False}, "'<y>' is an added token, which"), ({"lstrip": True}, "'<y>' is an added token with options")]:
        more = (*layout.added_tokens, AddedToken("<y>", len(vocabulary), **options))
        special = (*vocabulary.special_tokens, *(["<y>"] if "lstrip" in options else []))
        refused(said, layout=replace(layout, added_tokens=more, scores=np.append(layout.scores, 0)), special_tokens=special)
    assert not list(tmp_path.iterdir())
    bytes_only = train({"low": 5}, 258)
    with pytest.raises(ValueError, match="the vocabulary is bpe of bytes"):
        sentencepiece.save(bytes_only, str(tmp_path / "out"))


def test_verification_tells_other_ids(learned, tmp_path, monkeypatch):
    from beam_bpe import tokenizer

    monkeypatch.setattr(tokenizer.Tokenizer, "encode_batch", lambda self, texts, **options: [np.array([1, 2, 3])] * len(texts))
    with pytest.raises(ValueError, match="sentencepiece would encode"):
        sentencepiece.save(learned["bpe"], str(tmp_path / "a.model"))
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_replaced(learned, tmp_path):
    path = str(tmp_path / "a.model")
    sentencepiece.save(learned["bpe"], path, verify=False)
    sentencepiece.save(learned["bpe"], path, verify=False)
    with pytest.raises(FileExistsError):
        sentencepiece.save(learned["unigram"], path, verify=False)
    sentencepiece.save(learned["unigram"], path, overwrite=True, verify=False)
    assert formats.load(path).model.algorithm == "unigram"


PIECES = st.lists(
    st.tuples(st.text("ab▁é", min_size=1, max_size=4), st.floats(-9, 9, width=32), st.sampled_from(["normal", "normal", "user_defined", "unused", "control"])),
    max_size=9,
    unique_by=lambda one: one[0],
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(PIECES, st.sampled_from(["bpe", "unigram"]), st.booleans(), st.booleans(), st.booleans())
def test_any_model_there_and_back(rows, kind, prefix, removes, suffix):
    rows = [("<unk>", 0.0, "unknown"), ("a", -2.0, "normal"), *[row for row in rows if row[0] != "a"]]
    pieces, scores, kinds = zip(*rows)
    spaces = {"add_dummy_prefix": prefix, "remove_extra_whitespaces": removes}
    model = SentencePieceModel(pieces, scores, kinds, {"model_type": kind, "treat_whitespace_as_suffix": suffix}, spaces)
    vocabulary = vocabulary_of(model)
    assert content_of(model_of_vocabulary(vocabulary)) == content_of(model)
    bare = replace(vocabulary, layout=replace(vocabulary.layout, origin={}))
    again = vocabulary_of(model_of(content_of(model_of_vocabulary(bare))))
    assert again == vocabulary


def test_any_bpe_in_tokenizers():
    """Merges of tokenizers give what scores give, whatever their order: pieces may be formed of parts that score less."""
    tokenizers = pytest.importorskip("tokenizers")
    rng = random.Random(0)
    for _ in range(120):
        pieces = list(dict.fromkeys("".join(rng.choices("abc▁", k=rng.randrange(2, 6))) for _ in range(rng.randrange(1, 13))))
        scores = [-float(score) for score in rng.sample(range(1, 100), len(pieces) + 4)]
        model = SentencePieceModel(
            ("<unk>", *pieces, *"abc▁"), [0.0, *scores], ("unknown", *["normal"] * len(scores)), {"model_type": "bpe"}
        )
        content = json.dumps(huggingface.content_of(vocabulary_of(model)))
        theirs, peer = tokenizers.Tokenizer.from_str(content), spm.SentencePieceProcessor(model_proto=content_of(model))
        for _ in range(40):
            text = "".join(rng.choices("abcabc d", k=rng.randrange(1, 13)))
            assert theirs.encode(text, add_special_tokens=False).ids == peer.encode(text), (model.pieces, text)


@pytest.mark.parametrize(
    "said, changes",
    [
        ("'ab' and 'bc' have one score", {"scores": [0, -1, -1, -5, -6, -7]}),
        ("'c' of the piece 'bc' is none", {"pieces": ("<unk>", "ab", "bc", "a", "b", "d")}),
        ("no unused tokens: that 'ab' is one", {"kinds": ("unknown", "unused", *["normal"] * 4)}),
        ("no user-defined tokens: that 'ab' is one", {"kinds": ("unknown", "user_defined", *["normal"] * 4)}),
    ],
)
def test_what_merges_cannot_say(said, changes):
    given = {"pieces": ("<unk>", "ab", "bc", "a", "b", "c"), "scores": [0, -1, -2, -5, -6, -7], "kinds": ("unknown", *["normal"] * 5)}
    model = SentencePieceModel(**{**given, "trainer": {"model_type": "bpe"}, **changes})
    with pytest.raises(ValueError, match=said):
        huggingface.content_of(vocabulary_of(model))
