"""Precompiled normalizers as tokenizers runs them: equal on every character and on random clusters; damaged ones are told."""

from __future__ import annotations

import io
import random
from functools import cache

import numpy as np
import pytest
import regex

from beam_bpe import charsmap
from beam_bpe.formats.model_file import model_of, read_model
from beam_bpe.normalize import normalize, steps_of
from beam_bpe.precompiled import Precompiled, check_charsmap

tokenizers = pytest.importorskip("tokenizers")
spm = pytest.importorskip("sentencepiece")

EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
NEW_MARKS = "\u1acf\u1add\u1ae0\u1aeb\U00010efa\U00011b60\U00011b67\U0001e6e3\U0001e6f5"


def of_rules(rules: dict[str, str], tmp_path) -> bytes:
    """Return the charsmap of replacements."""
    path = tmp_path / "rules.tsv"
    path.write_text("".join("\t".join(" ".join(f"{ord(char):X}" for char in side) for side in rule) + "\n" for rule in rules.items()))
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower"]), model_writer=model, vocab_size=20, hard_vocab_limit=False, minloglevel=2,
        normalization_rule_tsv=str(path),
    )  # fmt: skip
    return model_of(model.getvalue()).option("precompiled_charsmap")


class Both:
    def __init__(self, tables: bytes):
        self.ours, self.theirs = Precompiled(tables), tokenizers.normalizers.Precompiled(tables)

    def check(self, *texts: str) -> None:
        for text in texts:
            assert self.ours.normalize(text) == self.theirs.normalize_str(text), ascii(text)


@pytest.fixture(scope="module")
def nmt_nfkc():
    return Both(charsmap.shipped("nmt_nfkc"))


@cache
def marks() -> list[str]:
    joining = r"\p{M}|\p{Cf}|\p{Cc}|\p{GCB=L}|\p{GCB=V}|\p{GCB=T}|\p{GCB=Prepend}"
    return regex.findall(joining, "".join(EVERY))


def clusters(count: int, seed: int = 0):
    rng = random.Random(seed)
    kinds = [[*marks(), *NEW_MARKS], [*"aeinoEN é<>=ß①ﬁ㎏Åᾳ\u0431\u0915\u094d\u1100\u1161\u11a8가©😀🇦🇧\u200d\u00a0"], EVERY, EVERY[:0x3000]]
    return ["".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(1, 8))) for _ in range(count)]


def test_every_character(nmt_nfkc):
    nmt_nfkc.check(*EVERY[::5], *EVERY[:0x3400], *EVERY[0xF800:0x10000])


@pytest.mark.slow
@pytest.mark.parametrize("rule", charsmap.RULES)
def test_every_rule_on_every_character(rule, shared):
    both = Both(charsmap.shipped(rule))
    both.check(*EVERY, *(char + mark for char in EVERY[::3] for mark in "\u0301\u200d"), *clusters(50_000, 1))


def test_clusters(nmt_nfkc):
    nmt_nfkc.check(*clusters(15_000))
    nmt_nfkc.check(*(f"{char}{mark}" for char in EVERY[0x20:0x250] for mark in "\u0300\u0301\u0338\u3099\u0903" + NEW_MARKS))


def test_nasty_texts(nmt_nfkc, shared):
    for path in sorted((shared / "corpora" / "nasty").iterdir()):
        nmt_nfkc.check(path.read_bytes().decode("utf-8", "replace"))
    nmt_nfkc.check(*(shared / "corpora" / "mixed-1m.txt").read_text().split("\n")[::20])


def test_the_tables_of_a_file(shared):
    Both(read_model(str(shared / "reference" / "spm" / "test_model.model")).option("precompiled_charsmap")).check(*clusters(2000, 2))


def test_the_shortest_text_of_a_cluster_is_taken(tmp_path):
    """And what follows in it is lost; a cluster of six bytes is taken by characters."""
    both = Both(of_rules({"a": "X", "é": "", "a\u0301": "Y", "\u0301": "m", "\r": "R"}, tmp_path))
    both.check("a\u0301", "a\u0301\u0301", "a\u0301\u0301\u0301", "é\u0301", "éaé", "\r\n", "\n\r", "b\u0301", "")
    assert both.ours.normalize("a\u0301b a\u0301\u0301\u0301") == "Xb Xmmm"
    both.check(*(f"a{char}" for char in EVERY[:0x3400] + list(NEW_MARKS)), *clusters(2000, 3))


def test_every_character_replaced(tmp_path):
    """Next to nothing is passed by then."""
    Both(of_rules({chr(code): "x" for code in range(1, 0x500) if code != ord("x")}, tmp_path)).check("Low é\u0301 lower \u4e00", *clusters(500, 4))


def test_as_a_step(nmt_nfkc):
    step = charsmap.embedded(charsmap.shipped("nmt_nfkc"), charsmap.PRECOMPILED)
    assert steps_of(f"NFC+{step}+lowercase") == ("NFC", step, "lowercase")
    for text in ("", "①  ﬁ\u3000Ｌow", "a\u0301"):
        assert normalize(text, step) == nmt_nfkc.theirs.normalize_str(text)


def test_damaged_tables():
    tables = charsmap.shipped("nfkc")
    size = int.from_bytes(tables[:4], "little")
    units = np.frombuffer(tables, "<u4", size // 4, offset=4)
    check_charsmap(tables)

    def refused(changed: bytes, said: str) -> None:
        for function in (check_charsmap, Precompiled):
            with pytest.raises(ValueError, match=f"the precompiled normalizer.* damaged: {said}"):
                function(changed)

    def with_unit(place: int, unit: int) -> bytes:
        changed = units.copy()
        changed[place] = unit
        return tables[:4] + changed.tobytes() + tables[4 + size :]

    refused(tables[:900], "its array has")
    refused(tables[:-1], "its array has")
    refused(b"\xff\xff\xff\x7f" + tables[4:], "its array has")
    refused(with_unit(0, 0x7FFFFE00), "its array leads out of itself")
    ending = int(np.argmax((units >> 31 == 0) & (units >> 8 & 1 == 1)))  # a text of the table ends there
    refused(with_unit(ending, int(units[ending]) ^ 1 << 10), "its array leads out of itself")
    refused(tables[:-3] + b"\xff\xff\0", "its replacements are not UTF-8")
    leaf = int(np.argmax(units >> 31 == 1))
    inside = next(i for i, byte in enumerate(tables[4 + size :]) if byte & 0xC0 == 0x80)
    refused(with_unit(leaf, 1 << 31 | inside), "a replacement begins inside of a character")


def test_a_loop_in_the_tables_ends():
    """A unit may lead to itself: nothing is walked further than the text."""
    units = np.zeros(256, "<u4")
    units[0x61] = 0x61 | 0x61 << 10  # by "a", and by "a" again
    units[0] = 0
    looping = (1024).to_bytes(4, "little") + units.tobytes() + b"x\0"
    assert Precompiled(looping).normalize("a" * 10_000 + "a\u0301") == "a" * 10_000 + "a\u0301"
