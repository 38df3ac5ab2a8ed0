"""How a report tells tokens, names, sizes and what is not known."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from beam_bpe import cli, train
from beam_bpe.report import figures, markdown, page
from beam_bpe.report.blocks import Plot
from beam_bpe.report.record import report_of
from beam_bpe.report.sections import page_of
from beam_bpe.report.summary import summary
from beam_bpe.report.wording import KNEE
from beam_bpe.words import WordCounts

pytest.importorskip("html5lib")
sys.path.insert(0, str(Path(__file__).parent))

from report_pages import parsed, tables_of_markdown, tables_of_page, words_of  # noqa: E402

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

TEXTS = ["low low low low low lower lower", "newest newest newest newest newest widest widest", "größer größer tief"]
LANGUAGES = ["en", "en", "de"]


@pytest.fixture(scope="module")
def words() -> WordCounts:
    return WordCounts.from_documents(TEXTS, pattern="gpt2", groups=LANGUAGES, group_by="language")


@pytest.fixture(scope="module")
def places(tmp_path_factory, words) -> tuple[str, str, str]:
    """Return a table and a vocabulary that train learned from it, as paths, and what train said."""
    home = tmp_path_factory.mktemp("places")
    words.write(str(home / "words"))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert cli.main(["train", "--words", str(home / "words"), "-o", str(home / "out"), "-n", "266"]) == 0
    return str(home / "words"), str(home / "out"), said.getvalue()


# ---- tokens --------------------------------------------------------------------------------------


def of_family(kind: str):
    """Return (vocabulary, words) of a family whose tokens bring a space, or are spelled with marks."""
    if kind == "bytes":
        words = WordCounts.from_documents(TEXTS, pattern="gpt2")
        return train(words, 266), words
    if kind == "sentencepiece":
        words = WordCounts.from_documents(TEXTS, pattern="metaspace", normalizer="metaspace")
        return train(words, 30, algorithm="sentencepiece-bpe"), words
    words = WordCounts.from_documents([*TEXTS, "x , y . z"], pattern="whitespace")
    options = {
        "wordpiece": {"vocab_size": 30, "algorithm": "wordpiece", "special_tokens": ["[UNK]"]},
        "whole words": {"vocab_size": 8, "algorithm": "wordlevel"},
        "end of word": {"num_merges": 9, "unit": "character", "end_of_word": "</w>", "attached": True},
    }
    return train(words, **options[kind]), words


@pytest.mark.parametrize("kind", ["bytes", "wordpiece", "whole words", "end of word", "sentencepiece"])
def test_lengths_are_those_of_the_text_whatever_decoding_brings(kind):
    vocabulary, words = of_family(kind)
    report = report_of(vocabulary, words, name="x")
    lengths, total = report["lengths"], report["measures"]["total"]
    at = lengths["bytes"].index(1)
    assert lengths["occurrences"][at] == total["single_byte_tokens"] > 0 or kind == "whole words"
    assert sum(lengths["occurrences"]) == total["tokens"] - total["unknown_tokens"]
    share = f"{total['single_byte_share']:.1%}".replace("%", " %")
    tables = tables_of_markdown(markdown.text(page_of(report)))
    row = next((row for row in tables["Tokens by their length"] if row[0] == "1"), None)
    assert row is None or row[4] == share or not total["single_byte_tokens"]
    spelled = {one["id"]: one for name in ("frequent", "longest") for one in report["tokens"][name]}
    added = {token.id for token in vocabulary.added_tokens}
    marks = {"wordpiece": "##", "sentencepiece": "\u2581", "end of word": "</w>"}.get(kind, "")
    for i, one in spelled.items():
        if i in added:
            continue
        text = vocabulary.tokens[i].decode("utf-8", "replace")
        assert one["characters"] == len(text) and (one["token"] == f"'{text}'" or kind == "bytes" and "\ufffd" in text)
        own = text.replace(marks, "") if marks else text
        assert one["bytes"] == (len(own.encode()) if kind != "bytes" else len(vocabulary.tokens[i])), one
    assert report["tokens"]["marked"] == bool(marks)
    longest = report["tokens"]["longest"]
    assert [one["bytes"] for one in longest] == sorted((one["bytes"] for one in longest), reverse=True)


def test_how_long_a_token_is_counts_no_quotes_and_no_escapes():
    words = WordCounts.from_mapping({" " * 256: 9, "\n" * 128: 9})
    report = report_of(train(words, 275), words, name="x")
    rows = {row[2]: row[0] for row in tables_of_markdown(markdown.text(page_of(report)))["Longest tokens"]}
    assert rows["256"].endswith("… (256 characters)'") and rows["128"].endswith("… (128 characters)'")
    short = WordCounts.from_mapping({" " * 32: 9})
    told = tables_of_markdown(markdown.text(page_of(report_of(train(short, 262), short, name="x"))))["Longest tokens"]
    assert told[1][0] == f"'{' ' * 32}'"


# ---- sizes ---------------------------------------------------------------------------------------


def test_the_knee_is_told_for_what_it_is(words, places, tmp_path, capsys):
    report = report_of(train(words, 266), words, name="x")
    made = page_of(report)
    plots = {block.name: block for section in made.sections for block in section.blocks if isinstance(block, Plot)}
    knee, curve = report["curve"]["knee"], report["curve"]
    assert plots["size-curve"].mark is None and plots["knee"].mark == (knee, f"knee {knee}") and not plots["knee"].log_x
    line, chord = plots["knee"].series
    slope = (chord.y[1] - chord.y[0]) / (chord.x[1] - chord.x[0])
    below = {x: chord.y[0] + slope * (x - chord.x[0]) - y for x, y in zip(line.x, line.y)}
    assert max(below, key=lambda size: below[size]) == knee and line.x == curve["sizes"]
    assert KNEE in plots["knee"].description and "moves with the last" in KNEE
    (row,) = (row for row in tables_of_markdown(markdown.text(made))["What a size costs and saves"] if "knee" in row[0])
    assert row[:2] == [f"{knee} (knee)", f"{curve['tokens'][curve['sizes'].index(knee)]}"]
    assert cli.main(["curve", "--words", places[0], "--vocabulary", places[1], "-o", str(tmp_path / "curve.parquet")]) == 0
    assert f"{'knee':<11} {knee}: {KNEE}\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["curve", "--help"])
    assert KNEE in " ".join(capsys.readouterr().out.split())


# ---- groups --------------------------------------------------------------------------------------


def test_names_that_differ_in_a_few_characters_stay_apart():
    names = [f"an-organisation/documentation.{middle}/articles/of/the/year-{i}" for middle in ("fr-fr", "de-de") for i in range(5)]
    groups = [*names, "", "(none)"]
    texts = [f"{name} low lower newest " for name in groups]
    words = WordCounts.from_documents(texts, pattern="gpt2", groups=groups, group_by="language")
    report = report_of(train(words, 270), words, name="x")
    made = page_of(report)
    tables = tables_of_page(parsed(page.html(made)))
    for caption in ("Measures of each group, by language", "Tokens of each group, by language", "Fertility"):
        told = [row[0] for row in tables[caption][1:]]
        assert set(names) < set(told) and len(set(told)) == len(told) == 12
    for block in (block for section in made.sections for block in section.blocks if isinstance(block, Plot)):
        if block.name in ("size-curve", "premium", "fertility"):
            drawn = [words_of(one) for one in ET.fromstring(figures.svg(block)).iter() if str(one.tag).endswith("text")]
            drawn = [one for one in drawn if "…" in one or "none" in one]
            assert len(drawn) == len(set(drawn)) == 12 and all(len(one) <= 24 for one in drawn)


def test_what_is_not_known_is_left_out():
    table = WordCounts.from_documents(TEXTS, pattern="whitespace", groups=LANGUAGES, group_by="language")  # drops spaces
    one = WordCounts.from_documents(TEXTS, pattern="gpt2", groups=["en"] * 3, group_by="language")
    scored = WordCounts.from_documents(TEXTS, pattern="metaspace", normalizer="metaspace")
    for made, vocabulary in (
        (table, train(table, 262)), (one, train(one, 262)), (scored, train(scored, 30, algorithm="sentencepiece-bpe"))
    ):  # fmt: skip
        report = report_of(vocabulary, made, name="x")
        lines = summary(report)
        assert len(lines) == 2 + (made.group_by is not None) and "–" not in "".join(lines), lines
        if made.group_by is not None:
            assert lines[2].split(None, 1)[1] == ("2 by language" if made is table else "1 by language")
        text = markdown.text(page_of(json.loads(json.dumps(report))))
        assert not re.search(r"(?<!\d)–", text), text  # of numbers from one to another there are some
        assert "1 groups" not in text and ("1 group." in text) == (made is one)


def test_the_gini_coefficient_is_told_as_measure_tells_it(places, capsys):
    table, vocabulary, said = places
    assert cli.main(["measure", "--words", table, "--vocabulary", vocabulary, "--reference", "en"]) == 0
    told = capsys.readouterr().out
    (line,) = (line for line in told.splitlines() if "Gini" in line)
    assert line in said and line.startswith("Gini coefficient of tokens per character: 0.")
    assert line in (Path(vocabulary) / "report.md").read_text()
