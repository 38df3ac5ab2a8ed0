"""The report on two vocabularies: its numbers against plain recounts, all kinds, hostile text, the command."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from beam_bpe import Tokenizer, WordCounts, cli, train
from beam_bpe.difference import compare, compare_documents
from beam_bpe.grouping import Groups
from beam_bpe.reading import documents_of
from beam_bpe.report import figures, markdown, page
from beam_bpe.report.difference import PIECES, difference_report
from beam_bpe.report.difference_sections import difference_page
from beam_bpe.report.wording import label
from beam_bpe.texts import readable

pytest.importorskip("html5lib")
sys.path.insert(0, str(Path(__file__).parent))

from report_pages import parsed, tables_of_markdown, tables_of_page, words_of  # noqa: E402

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

HOSTILE = ("<script>alert(1)</script>", "]]></style><img src=x onerror=alert(1)>", "|a`b|", "\u202ex\u2028\x00", "{{7*7}}", "機器")
MARKUP = "".join(f" {text} {text}" for text in HOSTILE)


@pytest.fixture(scope="module")
def words() -> WordCounts:
    """Return words in three groups."""
    documents = ["low low lower newest widest", "newest widest low", "der niedrigste neueste", "机器 学习 机器 机器"]
    return WordCounts.from_documents(documents, pattern="whitespace", groups=["en", "en", "de", "zh"], group_by="lang")


@pytest.fixture(scope="module")
def vocabularies(words):
    """Return two vocabularies that share tokens at other ranks, and have others alone."""
    other = WordCounts.from_mapping({"neueste": 9, "low": 4, "niedrigste": 3, "wide": 2}, pre_tokenizer="whitespace")
    return train(words.ungrouped(), 275, min_pair_count=1), train(other, 280, min_pair_count=1)


@pytest.fixture(scope="module")
def report(words, vocabularies):
    return difference_report(compare(*vocabularies, words, names=("a", "b"), prices=(2.0, 3.0)), command="beam-bpe diff a b")


# ---- numbers -------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_a_plain_recount(words, vocabularies, report):
    tokenizers = [Tokenizer(one) for one in vocabularies]
    held = [set(one.tokens) for one in vocabularies]
    assert report["shared"] == len(held[0] & held[1])
    for place, side in enumerate("ab"):
        one, alone = report[side], held[place] - held[1 - place]
        assert (one["alone"], one["fingerprint"]) == (len(alone), vocabularies[place].fingerprint) and alone
        used = [
            (vocabularies[place].tokens[i], count)
            for word, count in words.ungrouped().to_dict().items()
            for i in tokenizers[place].encode(word)
        ]
        occurrences = sum(count for token, count in used if token in alone)
        assert one["alone_share"] == occurrences / sum(count for _, count in used)
        told = [entry[f"count_{side}"] for entry in one["tokens_alone"]]
        assert told == sorted(told, reverse=True) and sum(told) == occurrences
    for name in ("en", "de", "zh"):
        (found,) = (one for one in report["groups"] if one["name"] == name)
        a, b = (
            sum(len(tokenizer.encode(word)) * count for word, count in words.of_group(name).to_dict().items())
            for tokenizer in tokenizers
        )
        assert (found["tokens_a"], found["tokens_b"], found["share"]) == (a, b, (b - a) / a)
        assert found["price_share"] == pytest.approx(b * 3 / (a * 2) - 1)
    for row in report["words"]:
        word = row["word"][1:-1]
        for side, tokenizer in zip("ab", tokenizers):
            assert len(row[f"pieces_{side}"]) == min(PIECES, row[f"tokens_{side}"] // row["count"])
            pieces = [readable(tokenizer.decode_bytes([i])) for i in tokenizer.encode(word)]
            assert row[f"pieces_{side}"] == pieces[:PIECES]


def test_ranks_and_shifts_are_those_of_a_plain_recount(vocabularies, report):
    ranks = [{merge.token: rank for rank, merge in reversed(list(enumerate(one.merges)))} for one in vocabularies]
    both = sorted((ranks[0][token], ranks[1][token]) for token in ranks[0].keys() & ranks[1].keys())
    shifts = [b - a for a, b in both]
    told = report["shifts"]
    assert (told["ranked"], told["moved"]) == (len(both), sum(map(bool, shifts))) and told["moved"] > 2
    assert told["largest"] == max(map(abs, shifts)) and told["median"] == sorted(map(abs, shifts))[(len(shifts) - 1) // 2]
    assert told["lowest"] == [1, 10][: len(str(told["largest"]))]
    assert told["later"][0] == sum(1 <= shift < 10 for shift in shifts)
    assert told["earlier"][0] == sum(-10 < shift <= -1 for shift in shifts)
    assert sum(told["earlier"]) + sum(told["later"]) == told["moved"]
    drawn = report["ranks"]  # so few that each rank is told
    assert list(zip(drawn["ranks"], drawn["middle"])) == both
    assert drawn["lower"] == drawn["middle"] == drawn["upper"]
    assert abs(report["moved"][0]["shift"]) == told["largest"]


def test_many_ranks_are_told_by_quartiles():
    table = {f"w{i:04}": 4000 - i for i in range(3000)}
    a, b = train(table, 3000, algorithm="wordlevel"), train(dict.fromkeys(table, 1), 3000, algorithm="wordlevel")
    ranks = difference_report(compare(a, b))["ranks"]
    assert len(ranks["ranks"]) <= 40 and ranks["ranks"][-1] == max(ranks["ranks"])
    assert all(x <= y <= z for x, y, z in zip(ranks["lower"], ranks["middle"], ranks["upper"]))


# ---- pages ---------------------------------------------------------------------------------------


def tables_of(report: dict, plots: list[str] | None = None) -> dict[str, list[list[str]]]:
    """Return the tables of a report, which are the same in both, and add the names of its plots to a list."""
    made = difference_page(json.loads(json.dumps(report, allow_nan=False)))
    text = page.html(made)
    told = tables_of_markdown(markdown.text(made))
    tree = parsed(text)
    assert tables_of_page(tree) == told and len(text) < 2_000_000
    if plots is not None:
        plots += [one.get("id") for one in tree.iter("figure")]
    assert "None" not in markdown.text(made) and "nan" not in markdown.text(made)
    return told


def test_page_markdown_and_json_agree(report):
    plots: list[str] = []
    told = tables_of(report, plots)
    rows = {row[0]: row for row in told["Tokens of the same text"]}
    for one in [report["total"], *report["groups"]]:
        row = rows["all text" if one["name"] is None else one["name"]]
        assert row[1:4] == [f"{one['tokens_a']:,}", f"{one['tokens_b']:,}", f"{one['difference']:+,}"]
        assert row[5:7] == [f"{one['price_a']:.4g}", f"{one['price_b']:.4g}"]
    assert [row[0] for row in told["Words that change most, most first"][1:]] == [row["word"] for row in report["words"]]
    assert told["The two vocabularies"][2] == ["Fingerprint", report["a"]["fingerprint"], report["b"]["fingerprint"]]
    assert plots == ["tokens-by-group", "money-by-group", "ranks-of-both", "shift-sizes"]


@pytest.mark.parametrize("kind", ["no text", "no groups", "no words", "documents", "the same", "families", "nothing learned"])
def test_all_kinds_of_reports_are_valid(kind, words, vocabularies):
    a, b = vocabularies
    if kind == "no text":
        found = compare(a, b)
    elif kind == "no groups":
        found = compare(a, b, words.ungrouped(), prices=(1.0, 1.0))
    elif kind == "no words":
        found = compare(a, b, WordCounts.from_documents([], pattern="whitespace", groups=[], group_by="lang"), prices=(0.0, 1.0))
    elif kind == "documents":
        batch = documents_of(["low lower", "机器", ""], "strict", Groups.of("lang", ["en", "zh", ""]))
        found = compare_documents(a, b, [("file", batch)], prices=(0.0, 1.0))
    elif kind == "the same":
        found = compare(a, a, words)
    elif kind == "families":
        found = compare(a, train(words.ungrouped(), 40, algorithm="wordpiece"), words)
    else:
        found = compare(train(words.ungrouped(), 256), b, words)
    told = tables_of(difference_report(found))
    assert ("Tokens of the same text" in told) == (kind != "no text")
    assert ("Documents that change most, most first" in told) == (kind == "documents")
    assert ("Largest shifts" in told) == (kind not in ("the same", "nothing learned"))
    text = markdown.text(difference_page(difference_report(found)))
    assert ("No text was given" in text) == (kind == "no text")
    assert ("learned have the same ranks" in text) == (kind == "the same")
    assert ("make as many tokens of each" in text) == (kind in ("the same", "no words"))


def test_markup_of_a_corpus_is_text():
    groups = [f"{text}g" for text in HOSTILE]
    table = WordCounts.from_documents([f"{MARKUP} {text}" for text in HOSTILE], pattern="whitespace", groups=groups, group_by="lang")
    a, b = train(table.ungrouped(), 270), train(table.ungrouped(), 330)
    batch = documents_of([MARKUP, *HOSTILE], "strict", Groups.of("lang", ["<b>g", *groups]))
    options = {"names": ("<script>", "</title>"), "prices": (1.0, 2.0)}
    for found in (compare(a, b, table, **options), compare_documents(a, b, [("<img src=x>|", batch)], **options)):
        made = difference_page(difference_report(found, command="diff '<script>' `x` | y"))
        text, source = page.html(made), markdown.text(made)
        tree = parsed(text)
        assert "<script" not in text and not [one for one in tree.iter() if one.tag in ("script", "img", "iframe", "object")]
        assert not [key for one in tree.iter() for key in one.attrib if str(key).startswith("on")]
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u2028]", text + source)
        told = tables_of_page(tree)
        assert told == tables_of_markdown(source)
        assert {row[0] for row in told["Tokens of the same text"]} >= {label(name) for name in groups}
        changed = "Words" if found.documents is None else "Documents"
        assert any("<script>" in row[0] for row in told[f"{changed} that change most, most first"])
        assert "49" not in [words_of(one) for one in tree.iter("code")]


def test_credentials_are_not_shown(words, vocabularies):
    names = ("s3://key:secret@bucket/a", "b?sig=secret")
    batch = documents_of(["low lower"], "strict")
    found = compare_documents(*vocabularies, [("https://me:secret@host/x", batch)], names=names)
    told = json.dumps(difference_report(found))
    assert "key:secret" not in told and "me:secret" not in told and "***@host/x" in told and len(found.documents)


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, words, vocabularies):
    """Return two vocabularies, their words, and a corpus, as paths."""
    words.write(str(tmp_path / "words"))
    for name, one in zip("ab", vocabularies):
        one.save(str(tmp_path / name))
    (tmp_path / "c.jsonl").write_text('{"text": "low lower newest", "lang": "en"}\n{"text": "low", "lang": null}\n')
    return [str(tmp_path / name) for name in ("a", "b", "words", "c.jsonl")]


@pytest.mark.parametrize("on", ["words", "corpus"])
def test_the_command_writes_a_report(on, places, tmp_path, capsys):
    a, b, words, corpus = places
    argv = ["diff", a, b, *(["--words", words] if on == "words" else [corpus, "--group-by", "lang"])]
    argv += ["--price", "2", "--report", str(tmp_path / "out")]
    assert cli.main(argv) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["report", str(tmp_path / "out" / "report.html")]
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(before) == {"report.html", "report.md", "report.json"}
    told = json.loads(before["report.json"])
    assert told["command"] == " ".join(["beam-bpe", *argv]) and told["a"]["name"] == a
    assert told["compared_on"] == ("words" if on == "words" else "documents")
    if on == "corpus":
        return
    assert cli.main(argv) == 1 and "holds a comparison already" in capsys.readouterr().err
    argv.append("--overwrite")
    assert cli.main([*argv, "--json"]) == 0 and json.loads(capsys.readouterr().out)["kind"] == "difference"
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(before)
    assert cli.main([*argv, "--output", str(tmp_path / "compared")]) == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    told.pop("command")
    again = json.loads(written["report.json"])
    assert again.pop("command").endswith("compared") and again == told
    svg = [re.findall("<svg.*?</svg>", one["report.html"].decode(), re.S) for one in (before, written)]
    assert svg[0] == svg[1] and len(svg[0]) == 3
    said = capsys.readouterr().out.splitlines()
    assert said[-2].startswith("comparison") and said[-1].startswith("report")


def test_other_reports_are_not_written_over(places, tmp_path, capsys):
    a, b, words, _ = places
    argv = ["diff", a, b, "--words", words, "--report"]
    assert cli.main(["report", a, "--words", words]) == 0
    capsys.readouterr()
    assert cli.main([*argv, a]) == 1
    said = capsys.readouterr().err
    assert "is not the JSON of a comparison report" in said and "--report" in said and said.count("\n") == 1
    assert json.loads((tmp_path / "a" / "report.json").read_text())["kind"] == "report"
    assert cli.main([*argv, str(tmp_path / "out")]) == 0
    assert cli.main(["report", a, "--words", words, "-o", str(tmp_path / "out")]) == 1
    assert "is not the JSON of a report" in capsys.readouterr().err
    assert cli.main([*argv, a, "--overwrite"]) == 0
    assert json.loads((tmp_path / "a" / "report.json").read_text())["kind"] == "comparison report"


def test_without_matplotlib_the_rest_is_written(places, tmp_path, capsys, monkeypatch):
    a, b, _, _ = places
    monkeypatch.setattr(figures, "available", lambda: False)
    assert cli.main(["diff", a, b, "--report", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "pip install 'beam_bpe[report]'" in said.err and said.err.count("\n") == 1
    assert said.out.splitlines()[-1].endswith("report.json")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.json", "report.md"]
