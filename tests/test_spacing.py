"""Spaces as SentencePiece treats them, and its precompiled normalizers, held against the reference and the package."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_bpe import charsmap, cutting, reference_sentencepiece
from beam_bpe.normalize import NAMES, normalize, normalize_documents, normalizer_of, spec, steps_of
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

TEXTS = st.text(st.sampled_from("a b▁é \t\u3000ﬁ") | st.characters(codec="utf-8"), max_size=30)


@pytest.mark.parametrize(
    "steps, text, made",
    [
        ("sentencepiece", "  Hello   world ▁ ", "▁Hello▁world"),
        ("metaspace", " a  b ", "▁▁a▁▁b▁"),
        ("metaspace", "", ""),
        ("sentencepiece", "   ", ""),
        ("remove_extra_whitespaces", "  a   b  ", "a b"),
        ("dummy_prefix", "a", " a"),
        ("dummy_suffix+escape_whitespaces", "a b", "a▁b▁"),
        ("escape_whitespaces+dummy_prefix", "a b", " a▁b"),
        ("dummy_prefix+dummy_prefix", "a", "  a"),
        ("NFC+escape_whitespaces", "e\u0301 a", "é▁a"),
        ("escape_whitespaces", "a\u3000\t\u00a0\nb", "a\u3000\t\u00a0\nb"),
    ],
)
def test_by_hand(steps, text, made):
    assert normalize(text, steps) == made


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.booleans(), st.booleans())
@example("▁", False, True)
@example(" ▁ ", True, True)
@example("a ▁▁ ", True, True)
def test_as_the_reference(text, prefix, squeeze):
    wanted = [("remove_extra_whitespaces", squeeze), ("dummy_prefix", prefix), ("escape_whitespaces", True)]
    name = "+".join(step for step, there in wanted if there)
    expected = reference_sentencepiece.normalize(text, add_dummy_prefix=prefix, remove_extra_whitespaces=squeeze)
    assert normalize(text, name) == expected


def test_documents_side_by_side():
    parts = [b"", b" a b", b"", b"x", b"   "]
    stops = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    data, bounds = normalize_documents(b"".join(parts), np.repeat(stops, 2)[1:-1], "metaspace")
    found = [bytes(data[start:end]).decode() for start, end in zip(bounds[::2], bounds[1::2])]
    assert found == ["", "▁▁a▁b", "", "▁x", "▁▁▁▁"]


def test_one_pass_for_steps_in_order():
    from beam_bpe.normalize import _passes

    assert len(_passes(steps_of("sentencepiece"))) == 1
    assert len(_passes(steps_of("escape_whitespaces+dummy_prefix"))) == 2
    assert len(_passes(steps_of("NFC+sentencepiece+lowercase"))) == 3


def test_no_text_is_cut_where_spaces_are_added_or_lost():
    for name in ("metaspace", "sentencepiece", "remove_extra_whitespaces", "NFC+dummy_suffix"):
        assert not cutting.WordRule(pre_tokenizer("whitespace"), (), name).may_be_cut
    assert cutting.WordRule(pre_tokenizer("whitespace"), (), "NFC").may_be_cut


def test_words_begin_with_their_space():
    words = WordCounts.from_documents(["low lower", " low"], pattern="metaspace", normalizer="metaspace")
    assert words.to_dict() == {"▁low".encode(): 2, "▁lower".encode(): 1, "▁".encode(): 1}
    assert words.normalizer == "metaspace"


def test_what_artifacts_record():
    assert spec("metaspace") == {"steps": ["dummy_prefix", "escape_whitespaces"]}  # whatever the version of any library
    assert spec("NFC+metaspace")["library"] == spec("NFC")["library"]
    for name in ("metaspace", "sentencepiece", "NFC+dummy_suffix"):
        assert normalizer_of(spec(name)) == name


# ---- precompiled normalizers ---------------------------------------------------------------------


def peers(rule):
    spm = pytest.importorskip("sentencepiece")
    whole = spm.SentencePieceNormalizer(rule_name=rule)
    return spm, whole


@pytest.mark.parametrize("rule", charsmap.RULES)
def test_rules_as_the_package(rule):
    _, peer = peers(rule)
    name = f"sentencepiece:{rule}+sentencepiece"
    assert normalizer_of(spec(name)) == f"sentencepiece:{rule}+{NAMES['sentencepiece']}"
    letters = ["ﬁ", "Ａ", "é", "e\u0301", "\u3000", "\t", "a", " ", "  ", "▁", "ß", "\x01", "가", "\u1100\u1161", "\u00ad", "\u200b", "A"]
    for some in itertools.chain(itertools.product(letters, repeat=2), [letters]):
        text = "".join(some)
        assert normalize(text, name) == peer.normalize(text), text


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_any_text_as_the_package(text):
    _, peer = peers("nmt_nfkc")
    assert normalize(text, "sentencepiece:nmt_nfkc+sentencepiece") == peer.normalize(text)


def test_symbols_spelled_as_what_the_package_needs():
    pytest.importorskip("sentencepiece")
    assert bytes(normalize_documents("ﬁ <unk>x".encode(), np.array([0, 10]), "sentencepiece:nfkc", ("<unk>",))[0]) == b"fi <unk>x"
    with pytest.raises(ValueError, match="sentencepiece cannot take the user-defined symbols"):
        normalize_documents(b"low lower", np.array([0, 9]), "sentencepiece:nfkc", ("a\0",))


def test_tables_of_another_file():
    spm, peer = peers("nfkc_cf")
    tables = charsmap.shipped("nfkc_cf")
    assert charsmap.step_of(tables, "nfkc_cf") == "sentencepiece:nfkc_cf"
    step = charsmap.step_of(tables, "mine")
    assert step.startswith("charsmap:") and charsmap.unpacked(step) == tables
    assert normalize("ＡB ﬁ", f"{step}+sentencepiece") == peer.normalize("ＡB ﬁ") == "▁ab▁fi"
    assert normalizer_of(spec(step)) == step
    with pytest.raises(ValueError, match="has other tables than the installed sentencepiece"):
        normalizer_of({**spec("sentencepiece:nfkc"), "tables": {"sentencepiece:nfkc": "0" * 64}})


def test_hostile_steps():
    for step, message in [
        ("sentencepiece:nfkd", "there is no normalizer 'sentencepiece:nfkd'; sentencepiece has sentencepiece:nmt_nfkc"),
        ("charsmap:AAAA", "the step 'charsmap' of the normalizer is (damaged|cut off)"),
        ("charsmap:é", "the step 'charsmap' of the normalizer is (damaged|cut off)"),
        (charsmap.embedded(b"abc")[:-8], "damaged|cut off"),
    ]:
        with pytest.raises(ValueError, match=message):
            steps_of(step)
    bomb = charsmap.embedded(bytes(charsmap.MOST_BYTES + 1))
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="cut off, or has more than 16,777,216 bytes"):
        steps_of(bomb)


def test_without_the_package():
    code = (
        "import sys; sys.modules['sentencepiece'] = None\n"
        "from beam_bpe.normalize import normalize\n"
        "assert normalize('a b', 'sentencepiece') == '▁a▁b'\n"
        "try: normalize('a', 'sentencepiece:nmt_nfkc')\n"
        "except ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'beam-bpe[sentencepiece]'" in told


def test_a_vocabulary_knows_its_tables(tmp_path):
    from beam_bpe import train

    words = WordCounts.from_documents(["ﬁne ﬁle"], pattern="gpt2", normalizer="sentencepiece:nmt_nfkc")
    vocabulary = train(words, 260)
    vocabulary.save(str(tmp_path))
    assert Vocabulary.load(str(tmp_path)) == vocabulary and b"fi" in vocabulary.ids
