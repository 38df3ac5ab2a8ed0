"""A corpus counted under several patterns in one pass, and vocabularies measured on the table of each."""

from __future__ import annotations

import filecmp
import json

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions

from beam_bpe import WordCounts, cli, measured, train
from beam_bpe.measuring import measure_words
from beam_bpe.transforms import CountWords, ReadDocuments, WriteWords

TEXT = "The lowest low can't be 1234 lower,\n\n  it's “wide” – 機器學習 <|x|>ok\t東京 É e\u0301 " * 40


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "b.txt").write_text(TEXT[7:], encoding="utf-8")
    return str(tmp_path / "*.txt")


def same_files(one, other) -> bool:
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and filecmp.cmpfiles(one, other, names, False)[0] == names


def test_each_table_is_that_of_a_run_of_its_own(corpus, tmp_path, capsys):
    options = ["--range-bytes", "500", "--special-token", "<|x|>", "--progress", "none"]
    several = ["--pattern", "gpt2", "--pattern", "bert", "--pattern", r"\w+|\W", "--normalizer", "none", "--normalizer", "NFC"]
    assert cli.main(["count", corpus, *options, *several, "--normalizer", "none", "-o", str(tmp_path / "all")]) == 0
    told = capsys.readouterr().out
    for name, own in (("gpt2", ["gpt2"]), ("bert", ["bert", "--normalizer", "NFC"]), ("pattern-3", [r"\w+|\W"])):
        assert f"{tmp_path / 'all' / name}:" in told
        assert cli.main(["count", corpus, *options, "--pattern", *own, "-o", str(tmp_path / name)]) == 0
        assert same_files(tmp_path / "all" / name, tmp_path / name)
        manifest = json.loads((tmp_path / name / "_manifest.json").read_text())
        assert manifest["totals"]["documents"] == 2 and manifest["totals"]["words"] > 500
    assert cli.main(["count", corpus, *options, *several[:2], *several[2:4], "-o", str(tmp_path / "all")]) == 1
    assert "already holds words" in capsys.readouterr().err


def test_the_corpus_is_read_once(corpus, tmp_path):
    with beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([])) as pipeline:
        documents = pipeline | ReadDocuments(corpus, pattern=["gpt2", "o200k"], range_bytes=700)
        for pattern in ("gpt2", "o200k"):
            documents | f"Count {pattern}" >> CountWords(pattern=pattern) | f"Write {pattern}" >> WriteWords(str(tmp_path / pattern))
        result = pipeline.run()
        result.wait_until_finish()
    (read,) = result.metrics().query(MetricsFilter().with_namespace("beam_bpe").with_name("documents"))["counters"]
    assert read.committed == 2
    for pattern in ("gpt2", "o200k"):
        found = WordCounts.read(str(tmp_path / pattern))
        assert found.to_dict() == WordCounts.from_documents([TEXT, TEXT[7:]], pattern=pattern).to_dict()


def test_a_pattern_that_documents_were_not_read_for_is_refused(corpus):
    with pytest.raises(Exception, match="read to be cut by 'gpt2' .* and by 'cl100k' .*, and are counted by 'o200k'"):
        with beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([])) as pipeline:
            pipeline | ReadDocuments(corpus, pattern=["gpt2", "cl100k"], range_bytes=700) | CountWords(pattern="o200k")
    with pytest.raises(ValueError, match="2 patterns go with as many normalizers, or with one: not with 3"):
        ReadDocuments(corpus, pattern=["gpt2", "cl100k"], normalizer=["NFC", None, None])


@pytest.mark.parametrize(
    "options, code, told",
    [
        (["--pattern", "gpt2,bert"], 2, "--pattern gpt2,bert would be one regex"),
        (["--pattern", "gpt2", "--pattern", "gpt2"], 2, "--pattern gpt2 is given twice"),
        (["--pattern", "gpt2", "--pattern", "bert"] + ["--normalizer", "NFC"] * 3, 2, "--normalizer is given 3 times and --pattern 2"),
        (["--pattern", "gpt2", "--pattern", "bert", "--split-with", "a:b"], 2, "goes with one --pattern"),
        (["--pattern", "gpt2", "--pattern", "metaspace"], 2, "the pattern 'metaspace' begins words at U+2581"),
        (["--pattern", "gpt2", "--pattern", "[0-9]{99}", "--gaps", "drop"], 1, r"no words under '[0-9]{99}' (files read: 2)"),
    ],
)
def test_what_is_refused(corpus, tmp_path, capsys, options, code, told):
    assert cli.main(["count", corpus, "-o", str(tmp_path / "words"), *options]) == code
    assert told in capsys.readouterr().err
    if code == 1:  # the table that has words stands, and nothing in the way of the next attempt
        assert [path.parent.name for path in (tmp_path / "words").rglob("_manifest.json")] == ["gpt2"]


def test_tables_that_were_cut_alike_are_summed_or_refused(corpus, tmp_path, capsys):
    for name, more in (("a", []), ("b", []), ("c", ["--special-token", "<|x|>"])):
        assert cli.main(["count", corpus, "--pattern", "gpt2", "-o", str(tmp_path / name), *more]) == 0
    train(WordCounts.read(str(tmp_path / "a")), 300).save(str(tmp_path / "v"))
    words = [str(tmp_path / name) for name in "abc"]
    assert cli.main(["measure", "--words", *words[:2], "-v", str(tmp_path / "v"), "-o", str(tmp_path / "twice")]) == 0
    assert measured.load(str(tmp_path / "twice"))[0].total.words == 2 * WordCounts.read(words[0]).occurrences
    capsys.readouterr()
    assert cli.main(["measure", "--words", words[0], words[2], "-v", str(tmp_path / "v")]) == 1
    assert "cannot be summed: special_tokens" in capsys.readouterr().err
    assert cli.main(["measure", "--words", str(tmp_path), "-v", str(tmp_path / "v")]) == 1
    assert "it holds several, name one: " + ", ".join(words) in capsys.readouterr().err
    several = ["--pattern", "gpt2", "--pattern", "bert"]
    assert cli.main(["count", corpus, *several, "-o", words[0], "--overwrite"]) == 1
    assert "holds a table of words itself" in capsys.readouterr().err
    assert cli.main(["train", corpus, *several, "--vocab-size", "300", "-o", str(tmp_path / "w")]) == 2
    assert "--pattern is given twice: gpt2 and bert" in capsys.readouterr().err


def test_tables_with_and_without_groups_are_both_told(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "low lower", "lang": "en"}\n')
    for name, more in (("gpt2", ["--group-by", "lang"]), ("bert", [])):
        assert cli.main(["count", str(tmp_path / "a.jsonl"), "--pattern", name, "-o", str(tmp_path / name), *more]) == 0
        train(WordCounts.read(str(tmp_path / name)).ungrouped(), 258).save(str(tmp_path / f"v-{name}"))
    capsys.readouterr()
    words = [str(tmp_path / name) for name in ("gpt2", "bert")]
    given = [option for name in ("gpt2", "bert") for option in ("-v", str(tmp_path / f"v-{name}"))]
    assert cli.main(["measure", "--words", *words, *given]) == 0
    told = capsys.readouterr().out
    assert "by lang" in told and "v-bert " in told.splitlines()[-1]
    assert cli.main(["measure", "--words", words[1], *given[2:], "--reference", "en"]) == 2
    assert "these words were not counted by group" in capsys.readouterr().err
    kept = str(tmp_path / "kept")
    assert cli.main(["measure", "--words", words[0], *given[:2], "--reference", "fr", "-o", kept]) == 1
    shown = capsys.readouterr()
    assert f"no group 'fr'; there are 'en'; what was measured stands in {kept}: --overwrite" in shown.err and "\nen " in shown.out


def test_each_vocabulary_is_measured_on_the_table_of_its_own_pattern(corpus, tmp_path, capsys):
    count = ["count", corpus, "--pattern", "gpt2", "--pattern", "cl100k", "-o", str(tmp_path / "words")]
    assert cli.main(count) == 0
    names = ("cl100k", "gpt2")
    tables = [WordCounts.read(str(tmp_path / "words" / name)) for name in names]
    vocabularies = [train(table, 300) for table in tables]
    for name, vocabulary in zip(names, vocabularies):
        vocabulary.save(str(tmp_path / f"v-{name}"))
    given = [option for name in reversed(names) for option in ("--vocabulary", str(tmp_path / f"v-{name}"))]
    options = [*given, "--baseline", "byte", "--baseline", "word"]
    words = ["--words", *(str(tmp_path / "words" / name) for name in names)]
    assert cli.main(["measure", *words, *options, "-o", str(tmp_path / "of-words")]) == 0
    assert cli.main(["measure", corpus, *options, "--range-bytes", "500", "-o", str(tmp_path / "of-text")]) == 0
    of_words, of_text = measured.load(str(tmp_path / "of-words")), measured.load(str(tmp_path / "of-text"))
    assert len(of_words) == len(of_text) == 4
    for one, other in zip(of_words, of_text):
        assert (one.total.tokens, one.total.words, one.total.bytes) == (other.total.tokens, other.total.words, other.total.bytes)
    assert of_words[0].total.words != of_words[1].total.words
    capsys.readouterr()
    assert cli.main(["measure", *words[:2], *options]) == 1
    assert "cut by 'cl100k'" in capsys.readouterr().err
    other = train(WordCounts.from_documents([TEXT], pattern="o200k"), 300)
    with pytest.raises(ValueError, match="cut by 'cl100k'.*cuts by 'o200k'.*; the words were cut by 'gpt2'.*allow_mismatch"):
        measure_words(tables, [other])
    (noted,) = measure_words(tables, [other], allow_mismatch=True)
    assert noted.total.words == tables[0].occurrences and "cut by 'cl100k'" in noted.notes[0]
    with pytest.raises(ValueError, match="no table of words"):
        measure_words([], [other])
