"""The report: its numbers against plain recounts, hostile text, and that page, Markdown and JSON say the same."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_bpe
from beam_bpe import cli, merging, train
from beam_bpe.audit import audit
from beam_bpe.commands import train as train_command
from beam_bpe.commands import report as report_command
from beam_bpe.report import figures, files, markdown, page, record
from beam_bpe.report.blocks import Plot
from beam_bpe.report.group_sections import BARS, ROWS
from beam_bpe.report.record import CURVES, report_of
from beam_bpe.report.sections import page_of
from beam_bpe.report.wording import label
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.words import WordCounts

pytest.importorskip("html5lib")
sys.path.insert(0, str(Path(__file__).parent))

from report_pages import parsed, tables_of_markdown, tables_of_page, words_of  # noqa: E402

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

TEXTS = [
    "low low low low low lower lower",
    "newest newest newest newest newest newest widest widest widest",
    "größer größer tief",
]
LANGUAGES = ["en", "en", "de"]
HOSTILE = (
    "<script>alert(1)</script>", "]]>", "</svg></style><img src=x onerror=alert(1)>", "\u202eRTL\u202c", "שלום", "a\x00b\x1b[31m", "$\\frac{1}{",
    "_under", "|pipe|", "`tick`", "\u2028\ufffe", "{{ 7 * 7 }}", "%s{0}", "&amp;", "--></title>", "", "機器", "#000011 url(#x)",
)  # fmt: skip


@pytest.fixture(scope="module")
def words() -> WordCounts:
    return WordCounts.from_documents(TEXTS, pattern="gpt2", groups=LANGUAGES, group_by="language")


@pytest.fixture(scope="module")
def report(words) -> dict:
    return report_of(train(words, 266), words, name="small", command="beam-bpe train corpus")


def grouped(names, text="low lower newest ") -> WordCounts:
    texts = [f"{name} {text}" * (1 + i % 7) for i, name in enumerate(names)]
    return WordCounts.from_documents(texts, pattern="gpt2", groups=list(names), group_by="language")


# ---- numbers -------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_a_plain_recount(words, report):
    vocabulary = train(words, 266)
    tokenizer = Tokenizer(vocabulary)
    total = report["measures"]["total"]
    everything: dict[int, int] = {}
    for name, texts in {"en": TEXTS[:2], "de": TEXTS[2:]}.items():
        pieces = [word for text in texts for word in words.pre_tokenizer.split(text)]
        ids = [i for word in pieces for i in tokenizer.encode(word)]
        for i in ids:
            everything[i] = everything.get(i, 0) + 1
        told = report["measures"]["groups"][name]
        assert (told["tokens"], told["words"], told["documents"]) == (len(ids), len(pieces), len(texts))
        assert told["fertility"] == len(ids) / len(pieces)
        shares = [ids.count(i) / len(ids) for i in set(ids)]
        assert told["entropy"] == pytest.approx(-sum(p * math.log2(p) for p in shares), rel=1e-12)
        renyi = math.log2(sum(p**2.5 for p in shares)) / -1.5
        assert told["renyi_efficiency"] == pytest.approx(renyi / math.log2(266), rel=1e-12)
        assert (told["used"], told["used_share"]) == (len(set(ids)), len(set(ids)) / 266)
        assert told["single_byte_share"] == sum(len(vocabulary.tokens[i]) == 1 for i in ids) / len(ids)
    assert total["tokens"] == sum(everything.values()) and total["used"] == len(everything)
    covered = sorted(everything.values(), reverse=True)
    assert report["coverage"]["occurrences"] == [sum(covered[:k]) for k in report["coverage"]["ranks"]]
    assert report["coverage"]["needed"]["100"] == len(covered)
    half = next(k for k in range(len(covered)) if sum(covered[: k + 1]) * 2 >= sum(covered)) + 1
    assert report["coverage"]["needed"]["50"] == half
    lengths = [0] * 33
    used = [0] * 33
    for i, token in enumerate(vocabulary.tokens):
        lengths[min(len(token), 32)] += 1
        used[min(len(token), 32)] += everything.get(i, 0)
    assert (report["lengths"]["tokens"], report["lengths"]["occurrences"]) == (lengths[1:], used[1:])
    assert report["tokens"]["frequent"][0]["count"] == covered[0]
    longest = sorted(vocabulary.tokens, key=len)[-1]
    assert report["tokens"]["longest"][0]["bytes"] == len(longest)
    assert report["merges"]["counts"] == vocabulary.counts.tolist()
    assert report["text"] == {"distinct_words": 9, "words_seen_once": 5, "totals": dict(words.totals)}


def test_the_curve_is_that_of_smaller_vocabularies(words, report):
    curve = report["curve"]
    assert curve["sizes"] == list(range(256, 267)) and curve["characters"] == sum(
        len(word.decode()) * n for word, n in words.to_dict().items()
    )
    for size, tokens in zip(curve["sizes"], curve["tokens"]):
        tokenizer = Tokenizer(train(words, size))
        assert tokens == sum(len(tokenizer.encode(word)) * count for word, count in words.to_dict().items())
    assert [group["name"] for group in curve["groups"]] == ["en", "de"]
    summed = [sum(parts) for parts in zip(*(group["tokens"] for group in curve["groups"]))]
    assert summed == curve["tokens"] and curve["knee"] in curve["sizes"]


def test_premiums_are_of_the_group_of_most_text_or_of_that_which_is_named(words, report):
    groups = report["measures"]["groups"]
    assert report["measures"]["reference"] == "en" and groups["en"]["premium_character"] == 1.0
    expected = groups["de"]["tokens"] / groups["de"]["characters"] / (groups["en"]["tokens"] / groups["en"]["characters"])
    assert groups["de"]["premium_character"] == pytest.approx(expected)
    other = report_of(train(words, 266), words, name="x", reference="de")["measures"]
    assert other["reference"] == "de" and other["groups"]["en"]["premium_character"] == pytest.approx(1 / expected)
    with pytest.raises(ValueError, match="no group 'fr'"):
        report_of(train(words, 266), words, name="x", reference="fr")
    with pytest.raises(ValueError, match="were not counted by group"):
        report_of(train(words, 266), words.ungrouped(), name="x", reference="de")


def test_counts_of_10_to_the_12_stay_exact():
    words = WordCounts.from_mapping({"low": 10**12, "lower": 3 * 10**12, "x": 10**15 + 1})
    told = report_of(train(words, 258), words, name="x")
    assert told["measures"]["total"]["tokens"] == 10**12 * (1 + 3 * 3) + 10**15 + 1
    assert told["coverage"]["all"] == told["measures"]["total"]["tokens"]
    assert f"{10**15 + 1:,}" in markdown.text(page_of(told))


def test_words_cut_in_another_way_are_refused_or_noted(words):
    other = train(WordCounts.from_documents(TEXTS, pattern="whitespace"), 260)
    with pytest.raises(ValueError, match="cut by 'gpt2'"):
        report_of(other, words, name="x")
    told = report_of(other, words, name="x", allow_mismatch=True)
    assert "cut by 'gpt2'" in told["measures"]["notes"][0]
    assert "The words were cut by 'gpt2'" in page.html(page_of(told)).replace("&#39;", "'")


# ---- the same in all three -----------------------------------------------------------------------


def test_page_markdown_and_json_agree(report):
    made = page_of(json.loads(json.dumps(report)))
    tree, text = parsed(page.html(made)), markdown.text(made)
    of_page, of_markdown = tables_of_page(tree), tables_of_markdown(text)
    assert of_page == of_markdown and len(of_page) > 10
    rows = {row[0]: row for row in of_page["Measures of each group, by language"]}
    for name, one in report["measures"]["groups"].items():
        assert rows[name][1:4] == [f"{one[key]:,}" for key in ("documents", "characters", "tokens")]
        assert rows[name][4] == f"{one['compression_ratio']:.2f}" and rows[name][8] == f"{one['premium_character']:.2f}"
    rows = {row[0]: row for row in of_page["Tokens of each group, by language"]}
    for name, one in report["measures"]["groups"].items():
        assert rows[name][1:5] == [
            f"{one['used']:,}", f"{100 * one['used_share']:.1f} %", f"{one['entropy']:.2f}", f"{one['renyi_efficiency']:.3f}"
        ]  # fmt: skip
    figures_of_page = {
        words_of(one.find("dt")): words_of(one.find("dd")) for one in tree.iter("div") if one.find("dt") is not None
    }
    total = report["measures"]["total"]
    assert figures_of_page["Fertility"] == f"{total['fertility']:.2f}" and f"- Fertility: {total['fertility']:.2f} (" in text
    assert (
        figures_of_page["Fingerprint"] == report["vocabulary"]["fingerprint"]
        and f"`{report['vocabulary']['fingerprint']}`" in text
    )
    assert figures_of_page["Command"] == "beam-bpe train corpus"
    sizes = of_page["What a size costs and saves"]
    assert [row[1] for row in sizes[1:]] == [f"{row['tokens']:,}" for row in report["curve"]["costs"]["rows"]]


def test_the_page_is_built_for_all_readers(report):
    tree = parsed(page.html(page_of(report)))
    html = tree if tree.tag == "html" else tree.find(".//html")
    assert html.get("lang") == "en"
    heads = [int(element.tag[1]) for element in tree.iter() if re.fullmatch("h[1-6]", str(element.tag))]
    assert heads.count(1) == 1 and heads[0] == 1 and all(b - a <= 1 for a, b in zip(heads, heads[1:]))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for table in tree.iter("table"):
        assert words_of(table.find("caption"))
        assert all(cell.get("scope") in ("col", "row") for cell in table.iter("th"))
        assert all(row[0].tag == "th" for row in table.iter("tr"))
    plots = [element for element in tree.iter("div") if element.get("class") == "plot"]
    assert len(plots) == 7
    for plot in plots:
        assert plot.get("role") == "img" and {plot.get("aria-labelledby"), plot.get("aria-describedby")} <= set(ids)
    assert len(list(tree.iter("details"))) == len(plots)
    links = [element.get("href") for element in tree.iter("a")]
    assert links[0] == "#main" and all(link[1:] in ids for link in links)


@pytest.mark.parametrize(
    "kind",
    ["no_text", "no_groups", "no_words", "empty_group", "no_spaces", "pieces", "whole words", "scored", "whole texts"],
)
def test_all_kinds_of_reports_are_valid(kind, words):
    vocabulary, table = train(words, 262), words
    if kind == "no_text":
        table = None
    elif kind == "no_groups":
        table = words.ungrouped()
    elif kind == "no_words":
        table = WordCounts.from_documents([], pattern="gpt2", groups=[], group_by="language")
    elif kind == "empty_group":
        table = WordCounts.from_documents(["low", ""], pattern="gpt2", groups=["en", "none"], group_by="language")
    elif kind == "no_spaces":  # the pattern drops them, so that characters and bytes are not known
        table = WordCounts.from_documents(TEXTS, pattern="whitespace", groups=LANGUAGES, group_by="language")
        vocabulary = train(table, 262)
    elif kind == "pieces":
        vocabulary = train(words, 40, algorithm="wordpiece")
    elif kind == "whole words":
        vocabulary = train(words, None, algorithm="wordlevel")
    elif kind in ("scored", "whole texts"):
        table = WordCounts.from_documents(
            TEXTS, pattern="metaspace", normalizer="metaspace", groups=LANGUAGES, group_by="language"
        )
        vocabulary = train(table, 24, algorithm="sentencepiece-bpe" if kind == "scored" else "unigram")
        if kind == "whole texts":  # sums as in SentencePiece depend on what stands before a word
            vocabulary = replace(vocabulary, model=replace(vocabulary.model, single_precision=True))
    made = page_of(json.loads(json.dumps(report_of(vocabulary, table, name="small"), allow_nan=False)))
    text = markdown.text(made)
    assert tables_of_page(parsed(page.html(made))) == tables_of_markdown(text)
    assert "nan" not in text.lower().replace("finance", "") and "None" not in text.replace("`None`", "")
    titles = [section.title for section in made.sections]
    assert ("Groups by language" in titles) == (kind not in ("no_text", "no_groups", "whole texts"))
    assert "Audit" in titles
    assert ("Nothing is measured: " in text) == (kind in ("no_text", "whole texts"))
    if kind in ("pieces", "whole words", "scored"):
        assert "There is no curve of sizes: a vocabulary of algorithm" in text


def test_300_groups_stay_a_page(tmp_path):
    words = grouped([f"g{i:03}" for i in range(300)])
    report = report_of(train(words, 270), words, name="many")
    assert len(report["measures"]["groups"]) == 300 and len(report["curve"]["groups"]) == CURVES
    others = [sum(parts) for parts in zip(*(group["tokens"] for group in report["curve"]["groups"]))]
    assert all(a < b for a, b in zip(others, report["curve"]["tokens"]))
    made = page_of(report)
    text = page.html(made)
    assert len(text) < 2_000_000 and f"the {BARS} groups of most text" in text
    assert len(tables_of_page(parsed(text))["Measures of each group, by language"]) == 301
    (curve,) = (
        block
        for section in made.sections
        for block in section.blocks
        if isinstance(block, Plot) and block.name == "size-curve"
    )
    assert len(curve.series) == CURVES + 1


def test_very_many_groups_are_told_by_the_json():
    words = grouped([f"g{i}" for i in range(ROWS + 7)])
    report = report_of(train(words, 258), words, name="many")
    text = markdown.text(page_of(report))
    assert (
        "7 groups of less text are left out here; the JSON has them." in text
        and len(report["measures"]["groups"]) == ROWS + 7
    )


def test_the_findings_are_those_of_the_audit():
    words = WordCounts.from_documents(["a@b.com a@b.com aaaa aaaa", "lower"], pattern="whitespace", groups=["x", "y"])
    vocabulary = train(words, 264)
    found = audit(vocabulary, words)
    told = report_of(vocabulary, words, name="x")["findings"]
    assert {one["kind"]: one["count"] for one in told} == found.counts and found.counts["email"] == 1
    (email,) = (one["examples"] for one in told if one["kind"] == "email")
    assert email == [{"token": "'a@b.com'", "characters": 7, "detail": found.of_kind("email")["detail"][0].as_py(), "count": 2}]


# ---- hostile text --------------------------------------------------------------------------------


def test_markup_of_a_corpus_is_text():
    words = grouped(HOSTILE, " ".join(name for name in HOSTILE if name) + " ")
    vocabulary = train(words, 420)
    report = report_of(vocabulary, words, name="<b>&\x00", command="beam-bpe train '<script>' --x '`a` | b'")
    made = page_of(json.loads(json.dumps(report)))
    text, source = page.html(made), markdown.text(made)
    tree = parsed(text)
    assert not [
        element
        for element in tree.iter()
        if element.tag in ("script", "img", "iframe", "object", "link") and element.get("href") != "data:,"
    ]
    assert not [key for element in tree.iter() for key in element.attrib if str(key).startswith("on")]
    assert "<script" not in text and "49" not in [words_of(element) for element in tree.iter("code")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u2028]", text + source)
    tables = tables_of_page(tree)
    assert tables == tables_of_markdown(source)
    names = [row[0] for row in tables["Measures of each group, by language"][1:]]
    assert sorted(names) == sorted(label(name) for name in set(HOSTILE))
    drawn = [words_of(element) for element in tree.iter() if str(element.tag).endswith("text")]
    assert (
        "機器" in drawn
        and any(one.startswith("<script>") for one in drawn)
        and any(one.startswith("$\\frac{") for one in drawn)
    )


def test_a_page_asks_for_nothing(report):
    text = page.html(page_of(report))
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "default-src 'none'" in text and "@import" not in text and "/tmp" not in text and str(Path.home()) not in text


def test_the_same_numbers_give_the_same_bytes(report, tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(report))
    code = "import json, sys; from beam_bpe.report.files import write; write(sys.argv[2], json.load(open(sys.argv[1])))"
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "TZ": f"UTC{seed}"}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "report.json"), str(folder)], env=environment, check=True)
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert found[0] == found[1] and set(found[0]) == {"report.html", "report.md", "report.json"}
    assert json.loads(found[0]["report.json"]) == report


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    def call(*argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main([str(arg) for arg in argv])
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def prototype(tmp_path_factory, words) -> tuple[Path, str]:
    """Return a folder with a table and a vocabulary that train learned from it, and what train said."""
    home = tmp_path_factory.mktemp("prototype")
    words.write(str(home / "words"))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert cli.main(["train", "--words", str(home / "words"), "-o", str(home / "out"), "-n", "266"]) == 0
    return home, said.getvalue()


@pytest.fixture
def trained(prototype, tmp_path) -> tuple[Path, str]:
    """Return a copy of the vocabulary, beside its words in tmp_path, and what train said."""
    home, said = prototype
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out", said


def test_learning_from_groups_is_learning_from_their_sum(trained, tmp_path, words, run):
    words.ungrouped().write(str(tmp_path / "sum"))
    for inputs in ([tmp_path / "sum"], [tmp_path / "words", tmp_path / "sum"], [tmp_path / "words", tmp_path / "words"]):
        other = tmp_path / "other"
        assert run("train", "--words", *inputs, "-o", other, "-n", 266, "--overwrite")[0] == 0
        grouped = json.loads((other / "report.json").read_text())["measures"]["group_by"]
        assert grouped == ("language" if inputs[0] == inputs[-1] == tmp_path / "words" else None)
        if len(inputs) == 1:
            for name in ("merges.parquet", "vocabulary.parquet"):
                assert (other / name).read_bytes() == (trained[0] / name).read_bytes()


def test_train_writes_the_report_and_says_it_in_ten_lines(prototype):
    home, said = prototype
    out = home / "out"
    lines = said.splitlines()
    assert len(lines) <= 10 and lines[-1].split() == ["report", str(out / "report.html")]
    report = json.loads((out / "report.json").read_text())
    total = report["measures"]["total"]
    told = next(line for line in lines if line.startswith("measured"))
    assert f"{total['compression_ratio']:.2f} characters and {total['bytes_per_token']:.2f} bytes a token" in told
    assert next(line for line in lines if line.startswith("groups")).startswith(
        "groups      2 by language; a character of de costs"
    )
    assert report["command"] == f"beam-bpe train --words {home / 'words'} -o {out} -n 266" and report["name"] == "out"


def test_report_of_a_folder_is_that_of_train(trained, tmp_path, run):
    out, _ = trained
    before = {path.name: path.read_bytes() for path in out.glob("report.*")}
    code, said, err = run("report", out, "--words", tmp_path / "words")
    assert (code, err) == (0, "") and {path.name: path.read_bytes() for path in out.glob("report.*")} == before
    code, said, err = run(
        "report", out, "--words", tmp_path / "words", "-o", tmp_path / "elsewhere", "--reference", "de", "--price", "2"
    )
    assert code == 0 and "a character of en costs 0." in said
    report = json.loads((tmp_path / "elsewhere" / "report.json").read_text())
    assert (
        report["measures"]["reference"] == "de"
        and report["curve"]["costs"]["model"]["price"] == 2.0
        and report["command"] is None
    )
    assert "Price of a million characters" in (tmp_path / "elsewhere" / "report.md").read_text()


def test_without_words_nothing_is_measured(trained, run):
    out, _ = trained
    code, said, err = run("report", out)
    assert (code, said) == (1, "") and err.count("\n") == 1 and "--words TABLE" in err and "--overwrite" in err
    assert json.loads((out / "report.json").read_text())["measures"] is not None  # the report that train measured
    for where in (["--overwrite"], ["-o", out.parent / "elsewhere"]):
        code, said, err = run("report", out, *where)
        folder = where[1] if where[1:] else out
        assert code == 0 and "holds no table of words" in err and said.split() == ["report", str(folder / "report.html")]
    assert json.loads((out / "report.json").read_text())["measures"] is None
    assert run("report", out)[0] == 0  # nothing is lost


def test_a_report_on_another_vocabulary_is_replaced(trained, tmp_path, words, run):
    out, _ = trained
    train(words, 262).save(str(out), overwrite=True)
    assert run("report", out)[0] == 0 and json.loads((out / "report.json").read_text())["vocabulary"]["size"] == 262


def test_no_report(tmp_path, words, run):
    words.write(str(tmp_path / "words"))
    code, said, err = run("train", "--words", tmp_path / "words", "-o", tmp_path / "out", "-n", 260, "--no-report")
    assert (code, err) == (0, "") and "measured" not in said and not list((tmp_path / "out").glob("report.*"))


def test_a_vocabulary_that_a_worker_learned_has_its_report(tmp_path, run, monkeypatch):
    (tmp_path / "a.txt").write_text("low lower newest widest " * 30)
    told = {}
    for where in ("submitter", "worker"):
        code, said, err = run("train", tmp_path / "a.txt", "-o", tmp_path / where, "-n", 262, "--train-on", where)
        assert (code, err) == (0, "") and said.splitlines()[-1].split() == ["report", str(tmp_path / where / "report.html")]
        told[where] = json.loads((tmp_path / where / "report.json").read_text())
        assert told[where].pop("command").endswith(where) and told[where].pop("name") == where
    assert told["submitter"] == told["worker"] and told["worker"]["measures"]["total"]["words"] == 121  # the last space is one
    monkeypatch.setattr(train_command, "check_memory", lambda cells, words: merging.check_memory(1 << 60, words))  # of this process
    code, said, err = run("train", tmp_path / "a.txt", "-o", tmp_path / "small", "-n", 262, "--train-on", "worker")
    assert code == 0 and "measured" not in said and (tmp_path / "small" / "merges.parquet").exists()
    assert "are available" in err and f"beam-bpe report {tmp_path / 'small'} writes it" in err and err.count("\n") == 1
    assert not list((tmp_path / "small").glob("report.*"))


def test_an_old_report_does_not_stay_beside_a_new_vocabulary(trained, tmp_path, run):
    out, _ = trained
    code, _, err = run("train", "--words", tmp_path / "words", "-o", out, "-n", 260, "--no-report", "--overwrite")
    assert (code, err) == (0, "") and not list(out.glob("report.*"))


def test_without_matplotlib_the_rest_is_written_and_a_line_says_how_to_get_it(trained, tmp_path, run, monkeypatch):
    out, _ = trained
    monkeypatch.setattr(figures, "available", lambda: False)
    code, said, err = run("train", "--words", tmp_path / "words", "-o", out, "-n", 260, "--overwrite")
    assert code == 0 and err.count("\n") == 1 and "pip install 'beam_bpe[report]'" in err
    assert sorted(path.name for path in out.glob("report.*")) == ["report.json", "report.md"]
    code, said, err = run("report", out, "--words", tmp_path / "words")
    assert code == 0 and "pip install 'beam_bpe[report]'" in err
    with pytest.raises(ModuleNotFoundError, match="needs matplotlib"):
        page.html(page_of(files.read(str(out))))


def test_files_of_others_are_not_written_over(trained, tmp_path, run):
    out, _ = trained
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.html").write_text("of mine")
    code, _, err = run("report", out, "--words", tmp_path / "words", "-o", elsewhere)
    assert (
        code == 1 and "holds a report.html of something else" in err and (elsewhere / "report.html").read_text() == "of mine"
    )
    (out / "report.json").write_text("[1]")
    code, _, err = run("report", out, "--words", tmp_path / "words")
    assert code == 1 and "is not the JSON of a report" in err
    code, _, err = run("train", "--words", tmp_path / "words", "-o", out, "-n", 260, "--overwrite")
    assert (code, err) == (0, "")
    code, _, err = run("report", out, "--words", tmp_path / "words", "-o", elsewhere, "--overwrite")
    assert (code, err) == (0, "") and (elsewhere / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_report_that_cannot_be_written_fails_no_training(tmp_path, words, run):
    words.write(str(tmp_path / "words"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("of mine")
    code, said, err = run("train", "--words", tmp_path / "words", "-o", tmp_path / "out", "-n", 260)
    assert code == 0 and "there is no report: " in err and (tmp_path / "out" / "merges.parquet").exists()
    assert (tmp_path / "out" / "report.md").read_text() == "of mine"


def test_a_reference_goes_with_groups(trained, tmp_path, words, run):
    out, _ = trained
    words.ungrouped().write(str(tmp_path / "sum"))
    code, said, err = run("report", out, "--words", tmp_path / "sum", "--reference", "de")
    assert (code, said) == (2, "") and "'de'" in err and "not counted by group" in err and err.count("\n") == 1
    for option in ("--reference", "--words-pattern"):
        code, said, err = run("report", out, option, "de")
        assert (code, said) == (2, "") and f"{option} goes with words" in err and "--words TABLE" in err


def test_counts_made_elsewhere_are_reported_on(trained, tmp_path, words, run):
    out, _ = trained
    table = words.ungrouped().to_dict()
    pq.write_table(pa.table({"word": list(table), "count": list(table.values())}), tmp_path / "counts.parquet")
    code, _, err = run("report", out, "--words", tmp_path / "counts.parquet", "--words-pattern", "gpt2")
    assert (code, err) == (0, "")
    total = json.loads((out / "report.json").read_text())["measures"]["total"]
    assert total["tokens"] == sum(len(Tokenizer(train(words, 266)).encode(word)) * n for word, n in table.items())
    assert "Documents" not in (out / "report.md").read_text()  # they are not known


def test_a_place_where_nothing_can_be_written_is_refused_before_the_work(trained, tmp_path, run, monkeypatch):
    out, _ = trained
    (tmp_path / "file").write_text("of mine")
    monkeypatch.setattr(report_command, "report_of", None)  # calling it fails
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        code, said, err = run("report", out, "--words", tmp_path / "words", "-o", place)
        assert (code, said) == (1, "") and err.count("\n") == 1 and "[Errno" not in err
        assert f"{place} cannot hold a report" in err and "--output" in err
    code, _, err = run("diff", out, out, "--report", tmp_path / "file")
    assert code == 1 and "cannot hold a report" in err and "--report" in err and "[Errno" not in err


def test_whoever_stops_reading_does_not_take_the_report_away(tmp_path, words, run, monkeypatch):
    words.write(str(tmp_path / "words"))

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("measured"):
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", Closed())
    assert cli.main(["train", "--words", str(tmp_path / "words"), "-o", str(tmp_path / "out"), "-n", "260"]) == 1
    monkeypatch.undo()
    assert {path.name for path in (tmp_path / "out").glob("report.*")} == {"report.html", "report.json", "report.md"}
    assert run("report", tmp_path / "out", "--words", tmp_path / "words")[2] == ""


def test_nothing_is_said_of_the_error_of_whoever_stops_reading(tmp_path, words, capsys, monkeypatch):
    words.write(str(tmp_path / "words"))
    monkeypatch.setattr(report_command, "summary", lambda report: (_ for _ in ()).throw(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    assert cli.main(["train", "--words", str(tmp_path / "words"), "-o", str(tmp_path / "out"), "-n", "260"]) == 1
    assert capsys.readouterr().err == "" and (tmp_path / "out" / "report.html").exists()


def test_train_says_why_nothing_is_measured(tmp_path, run, monkeypatch):
    (tmp_path / "a.txt").write_text("low lower newest widest " * 30)
    monkeypatch.setattr(record, "needs_texts", lambda vocabulary: "it finds tokens in whole texts; measure documents")
    code, said, err = run("train", tmp_path / "a.txt", "-o", tmp_path / "out", "-n", 262)
    assert code == 0 and "measured " not in said and "–" not in said
    assert err == "beam-bpe: note: nothing is measured: it finds tokens in whole texts; measure documents\n"


@pytest.mark.parametrize(
    "more, code, told",
    [
        (["--reference", "fr"], 1, "there is no group 'fr'"),
        (["--layers", "0"], 2, "layers is 0"),
        (["--words", "nowhere"], 1, "nowhere"),
        (["--pattern", "gpt2"], 2, "--pattern does not go with"),
        (["--words-pattern", "gpt2"], 2, "--words-pattern goes with tables made elsewhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(more, code, told, trained, tmp_path, run):
    out, _ = trained
    options = more if "--words" in more else ["--words", tmp_path / "words", *more]
    found, _, err = run("report", out, *options)
    assert found == code and told in err and err.count("\n") == 1


def test_words_of_another_pattern_and_files_are_refused_with_the_option_that_helps(trained, tmp_path, run):
    out, _ = trained
    WordCounts.from_documents(TEXTS, pattern="o200k").write(str(tmp_path / "o200k"))
    code, _, err = run("report", out, "--words", tmp_path / "o200k")
    assert code == 1 and "'gpt2'" in err and "'o200k'" in err and "--allow-mismatch goes on all the same" in err
    assert run("report", out, "--words", tmp_path / "o200k", "--allow-mismatch")[0] == 0
    code, _, err = run("report", out / "vocabulary.parquet", "--words", tmp_path / "words")
    assert code == 2 and "--output FOLDER" in err


def test_no_secret_of_the_command_is_written(tmp_path, words, run):
    words.write(str(tmp_path / "words"))
    argv = [
        "train",
        "--words",
        tmp_path / "words",
        "-o",
        tmp_path / "out",
        "-n",
        260,
        "--storage-option",
        "s3:secret=env:HOME",
    ]
    code, _, _ = run(*argv)
    assert (
        code == 0
        and str(Path.home()) not in json.loads((tmp_path / "out" / "report.json").read_text())["command"].split("secret=")[1]
    )


def test_where_it_ran_is_not_told(tmp_path, run):
    """Beam's flags, among which there may be secrets, are not in the report, which is the same on all engines."""
    (tmp_path / "a.txt").write_text("low lower lowest newest widest " * 9)
    own = ["train", tmp_path / "a.txt", "-o", tmp_path / "out", "-n", 262]
    code, _, err = run(*own, "--", "--runner=FnApiRunner", "--s3_secret_access_key=hushhush")
    assert code == 0, err
    assert json.loads((tmp_path / "out" / "report.json").read_text())["command"] == " ".join(map(str, ["beam-bpe", *own]))
    assert all(b"hushhush" not in path.read_bytes() for path in (tmp_path / "out").glob("report.*"))


def test_the_package_holds_template_and_style():
    here = Path(beam_bpe.__file__).parent / "report"
    assert {"page.html.jinja", "page.css"} <= {path.name for path in here.iterdir()}
    assert '"report/*.css", "report/*.jinja"' in (here.parents[1] / "pyproject.toml").read_text()
