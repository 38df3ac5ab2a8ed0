"""BERT's words: its normalizer and pre-tokenizer as `tokenizers` has them, counted in ranges and in pipelines."""

from __future__ import annotations

import json
import random
from collections import Counter

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_bpe import transforms
from beam_bpe.cli import main
from beam_bpe.counting import WordCounter
from beam_bpe.cutting import WordRule
from beam_bpe.documents import DocumentBatch, Reading, ranges
from beam_bpe.listing import SourceFile
from beam_bpe.normalize import normalize, spec
from beam_bpe.pretokenize import HUGGINGFACE_WHITESPACE, PATTERNS, pre_tokenizer
from beam_bpe.reading import read_range
from beam_bpe.special import SpecialTokens
from beam_bpe.word_parts import unpack_table
from beam_bpe.words import WordCounts

tokenizers = pytest.importorskip("tokenizers")
PRE_TOKENIZER = tokenizers.pre_tokenizers.BertPreTokenizer()
NORMALIZERS = {
    "bert": tokenizers.normalizers.BertNormalizer(),
    "bert_cased": tokenizers.normalizers.BertNormalizer(lowercase=False),
    None: None,
}
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def their_words(text: str, name: str | None) -> list[str]:
    """Return the words that `tokenizers` finds in a text."""
    normalizer = NORMALIZERS[name]
    return [word for word, _ in PRE_TOKENIZER.pre_tokenize_str(normalizer.normalize_str(text) if normalizer else text)]


def words(text: str, name: str | None) -> list[str]:
    """Return the words that we find."""
    return pre_tokenizer("bert").split(normalize(text, name))


# ---- words ----


def test_every_character_between_letters():
    text = "".join(f"a{char}b " for char in EVERY if not 0x40000 <= ord(char) < 0xE0000 and ord(char) < 0xF1000)
    assert words(text, None) == their_words(text, None)


@pytest.mark.parametrize("name", ["bert", "bert_cased"])
def test_many_characters_between_letters(name):  # every one under the normalizer: tests/test_normalize.py
    text = "".join(f"a{char}b {char} " for char in [*EVERY[:0x3400], *random.Random(name).sample(EVERY, 30_000)])
    assert words(text, name) == their_words(text, name)


@pytest.mark.slow
def test_every_code_point():
    for context in ("a{0}b{0}{0} ", "{0}\u0301Ab"):
        for start in range(0, len(EVERY), 1 << 14):  # tokenizers is slow on long texts
            text = "".join(context.format(char) for char in EVERY[start : start + (1 << 14)])
            for name in NORMALIZERS:
                assert words(text, name) == their_words(text, name)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_nasty_files(name, shared):
    files = sorted((shared / "corpora" / "nasty").iterdir())
    assert len(files) > 20
    for file in files:
        text = file.read_bytes().decode("utf-8", "replace")
        assert words(text, name) == their_words(text, name), file.name


def of_language(shared) -> dict[str, str]:
    """Return the documents of each language as one text."""
    table = pq.read_table(shared / "corpora" / "docs.parquet", columns=["text", "lang"])
    found: dict[str, list[str]] = {}
    for text, language in zip(table["text"].to_pylist(), table["lang"].to_pylist()):
        found.setdefault(language, []).append(text)
    return {language: "\n".join(texts) for language, texts in found.items()}


def test_100_kb_of_each_language(shared):
    texts = of_language(shared)
    assert len(texts) > 10
    for language, text in texts.items():
        assert words(text[:100_000], "bert") == their_words(text[:100_000], "bert"), language


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "bert_cased"])
def test_8_mb_of_each_language(name, shared):
    for language, text in of_language(shared).items():
        text = text.encode()[: 8 << 20].decode("utf-8", "ignore")
        for start in range(0, len(text), 1 << 18):  # tokenizers is slow on long texts
            piece = text[start : start + (1 << 18)]
            assert words(piece, name) == their_words(piece, name), language


def test_by_hand():
    assert words("It's 5 o'clock—naïve Ünïcode, 你好!\t\x00x", "bert") == [
        "it", "'", "s", "5", "o", "'", "clock", "—", "naive", "unicode", ",", "你", "好", "!", "x",
    ]  # fmt: skip
    assert words("Straße ΟΔΟΣ ﬁx ½", "bert") == ["straße", "οδοσ", "ﬁx", "½"]
    assert words("a\u200db \ufffd c\u00add", "bert_cased") == ["ab", "cd"]


def test_the_text_of_the_pattern_is_equal_on_ascii():
    as_regex, native = pre_tokenizer(f"(?:{PATTERNS['bert']})", gaps="drop"), pre_tokenizer("bert")
    rng = random.Random(1)
    for _ in range(5000):
        text = "".join(map(chr, rng.choices(range(128), k=rng.randrange(12))))
        assert as_regex.split(text) == native.split(text), text


def test_whitespace_of_hugging_face_is_a_regex():
    text = "".join(f"a{char}b{char} {char}_" for char in [*EVERY[:0x3500], *EVERY[0x9F00:0xAC00], *EVERY[0xF000:0x17000], *EVERY[0x1B000:0x1FA00]])
    theirs = [word for word, _ in tokenizers.pre_tokenizers.Whitespace().pre_tokenize_str(text)]
    assert pre_tokenizer(HUGGINGFACE_WHITESPACE, gaps="drop").split(text) == theirs


# ---- counting ----

PARTS = ["Low", "LÖW", "lo\u0308w", "\u0308", "中文", "é", "!", "'", "\u2014", "<s>", "<s", ">", "a b", "\x00", "\ufffd", "\u200d", "\x0b", "\x85",
         "\u3000", " ", " ", "  ", "\t", "\n", "\r\n", "\u0958", "ﹺ", "ﷺ", "İ", "Ａ", "1", "½", "가", "\u1100\u1161", "\u11a8"]  # fmt: skip
BROKEN = [b"\xff", b"\xc3", b"\xe2\x80", b"\xf0\x9f"]


def counted(data: bytes, path, pattern, normalizer, range_bytes, specials=()) -> tuple[dict[bytes, int], int]:
    """Return the words of a file that is read in ranges, and the pieces in which it was counted."""
    path.write_bytes(data)
    chosen = pre_tokenizer(pattern)
    reading = Reading(cut_by=(WordRule(chosen, tuple(specials), normalizer),))
    counter = WordCounter(chosen, SpecialTokens(specials), normalizer=normalizer)
    pieces = 0
    for source in ranges([SourceFile(str(path), len(data), None)], reading, range_bytes):
        for batch in read_range(source, reading):
            counter.add(batch)
            pieces += 1
    packed, _ = counter.finish(1)
    table = unpack_table(packed[0][1])[2] if packed else None
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist())) if table else {}, pieces


@pytest.mark.parametrize("normalizer", ["bert", "NFC", "NFKC+lowercase", "NFD+strip_accents", "clean_text", None])
@pytest.mark.parametrize("pattern", ["bert", "whitespace", "o200k", "gpt2", "none", r"\w+|[^\w\s]+"])
def test_ranges_change_no_count(pattern, normalizer, tmp_path, monkeypatch):
    monkeypatch.setattr("beam_bpe.cutting.PIECE", 64)
    rng = random.Random(f"{pattern}{normalizer}")
    cuts = 0
    for number in range(25):
        specials = ("<s>", "a b") if number % 2 else ()
        data = b"".join(part.encode() if isinstance(part, str) else part for part in rng.choices(PARTS + BROKEN, k=120))
        text = data.decode("utf-8", "replace")
        expected = Counter()
        for piece in text.replace("a b", "<s>").split("<s>") if specials else [text]:
            expected.update(word.encode() for word in pre_tokenizer(pattern).split(normalize(piece, normalizer)))
        for range_bytes in (1 << 20, rng.randrange(1, 40)):
            found, pieces = counted(data, tmp_path / "text", pattern, normalizer, range_bytes, specials)
            assert found == dict(expected), (number, range_bytes)
            cuts += pieces - 1
    chosen = pre_tokenizer(pattern)
    assert (cuts > 50) == WordRule(chosen, (), normalizer).may_be_cut == (chosen.drops_spaces or chosen.may_be_cut and normalizer != "bert")


def test_the_words_of_documents_are_those_of_tokenizers():
    texts = ["Low LÖW!", "lo\u0308w 中文", ""]
    found = WordCounts.from_documents(texts, pattern="bert", normalizer="bert")
    assert found.to_dict() == {word.encode(): n for word, n in Counter(w for text in texts for w in their_words(text, "bert")).items()}
    assert found.normalizer == "bert" and found.parameters["normalizer"] == spec("bert")
    assert found.totals["bytes"] == sum(len(text.encode()) for text in texts)


def test_special_tokens_are_cut_out_before_the_text_is_normalized():
    found = WordCounts.from_documents(["e<S>\u0301 A<S>"], pattern="whitespace", normalizer="NFC+lowercase", special_tokens=["<S>"])
    assert found.to_dict() == {b"e": 1, "\u0301".encode(): 1, b"a": 1} and found.totals["special_tokens"] == 2


def test_without_a_normalizer_a_table_is_what_it_was():
    found = WordCounts.from_documents(["low"], pattern="bert")
    assert found.normalizer is None and set(found.parameters) == {"pre_tokenizer", "special_tokens", "max_word_bytes"}


def test_tables_keep_their_normalizer_and_are_not_mixed(tmp_path):
    some = WordCounts.from_documents(["Low low lower"], pattern="bert", normalizer="bert")
    some.write(str(tmp_path / "words"))
    assert WordCounts.read(str(tmp_path / "words")).normalizer == some.prune(2).normalizer == some.weigh(2).normalizer == "bert"
    assert some.merge(some).to_dict() == {b"low": 4, b"lower": 2}
    for other in (None, "bert_cased"):
        with pytest.raises(ValueError, match="cannot be summed: normalizer"):
            some.merge(WordCounts.from_documents(["low"], pattern="bert", normalizer=other))


def test_a_normalizer_that_is_not_known():
    for call in (
        lambda: WordCounts.from_documents(["low"], normalizer="nfc"),
        lambda: WordCounter(pre_tokenizer("bert"), SpecialTokens(), normalizer="nfc"),
        lambda: WordRule(pre_tokenizer("bert"), (), "nfc"),
        lambda: transforms.CountWords(normalizer="nfc"),
        lambda: transforms.ReadDocuments("x", normalizer="nfc"),
        lambda: transforms.LearnVocabulary("x", "y", 300, normalizer="nfc"),
    ):
        with pytest.raises(ValueError, match="there is no normalizer 'nfc'; there is bert"):
            call()


def test_what_is_read_and_counted_with_different_normalizers_is_refused():
    batch = DocumentBatch(b"a", np.array([0, 1]), cut_by=(WordRule(pre_tokenizer("bert"), (), "bert"),))
    counter = WordCounter(pre_tokenizer("bert"), SpecialTokens(), normalizer="NFC")
    with pytest.raises(ValueError, match="cut by 'bert' with the special tokens .. and the normalizer bert, and are counted by .* NFC"):
        counter.add(batch)


# ---- pipelines ----


@pytest.mark.parametrize("pattern, normalizer", [("bert", "bert"), ("o200k", "NFKC+lowercase")])
def test_a_pipeline_counts_them(pattern, normalizer, tmp_path):
    rng = random.Random(2)
    text = "".join(rng.choices([part for part in PARTS if part not in ("<s>", "a b")], k=3000))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8", newline="")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | transforms.ReadDocuments(str(tmp_path / "text.txt"), pattern=pattern, normalizer=normalizer, range_bytes=100)
            | transforms.CountWords(pattern=pattern, normalizer=normalizer, shards=2)
            | transforms.WriteWords(str(tmp_path / "words"))
        )
    found, expected = WordCounts.read(str(tmp_path / "words")), WordCounts.from_documents([text], pattern=pattern, normalizer=normalizer)
    assert found.to_dict() == expected.to_dict() and found.parameters == expected.parameters


def test_the_command_counts_them(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("Low LÖW low,", encoding="utf-8")
    words_folder = str(tmp_path / "words")
    assert main(["count", str(tmp_path / "text.txt"), "--output", words_folder, "--pattern", "bert", "--normalizer", "bert"]) == 0
    assert WordCounts.read(words_folder).to_dict() == {b"low": 3, b",": 1}
    manifest = json.loads((tmp_path / "words" / "_manifest.json").read_text(encoding="utf-8"))
    assert manifest["parameters"]["normalizer"] == spec("bert")
    capsys.readouterr()
    assert main(["count", str(tmp_path / "text.txt"), "--output", words_folder, "--normalizer", "brt", "--overwrite"]) == 2
    assert "there is no normalizer 'brt'" in capsys.readouterr().err
