"""MeasureTokens and the commands measure and curve: the same numbers however the work is cut, and what they say when something is wrong."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue

from beam_bpe import cli, measured, train
from beam_bpe.cutting import WordRule
from beam_bpe.documents import DocumentBatch
from beam_bpe.grouping import Groups
from beam_bpe.measuring import Meter, measure_words
from beam_bpe.reading import documents_of
from beam_bpe.statistics import Statistics, Subject
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.transforms import MeasureTokens, ReadDocuments, WriteStatistics
from beam_bpe.transforms import measure as module
from beam_bpe.words import WordCounts

END = "<|end|>"
ROWS = [
    ("low lower lowest", "en"), ("", "en"), ("die Löwen 12", "de"), ("機器學習", "zh"), ("newest low", "en"), ("wide", None),
    (f"low{END}est", "en"), ("x" * 2000 + " low", "de"),
]  # fmt: skip
TEXTS = [text for text, _ in ROWS]
GROUPS = [group or "" for _, group in ROWS]


@pytest.fixture(scope="module")
def vocabularies():
    words = WordCounts.from_documents(TEXTS * 3, pattern="gpt2", special_tokens=[END])
    return [
        train(words, 256 + 30, special_tokens=[END]),
        train(words, unit="character", num_merges=20, unk_token="<unk>", limit_alphabet=9),
    ]


@pytest.fixture(scope="module")
def saved(vocabularies, tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("vocabularies")
    for name, vocabulary in zip("ab", vocabularies):
        vocabulary.save(str(folder / name))
    return [str(folder / name) for name in "ab"]


@pytest.fixture(scope="module")
def expected(vocabularies) -> list[Statistics]:
    return of_documents(vocabularies, ["byte", "trigram"])


def of_documents(vocabularies, baselines=(), grouped=True, special="text") -> list[Statistics]:
    meter = Meter([Tokenizer(one) for one in vocabularies], baselines, special)
    meter.add(documents_of(TEXTS, "strict", Groups.of("lang", GROUPS) if grouped else None))
    subjects = [Subject.of(one, one.fingerprint[:12]) for one in vocabularies] + [Subject(name) for name in baselines]
    return [Statistics(subject, groups, "lang" if grouped else None) for subject, groups in zip(subjects, meter.take())]


def measures_of(statistics) -> list:
    return [one.groups for one in statistics]


def run(build, *flags: str):
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    build(pipeline)
    return pipeline.run().wait_until_finish()


# ---- the transform -------------------------------------------------------------------------------


PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


@pytest.mark.parametrize(("memory", "flags"), [(1, ()), (1 << 28, ()), (1, PROCESSES)])
def test_rows_in_groups(vocabularies, expected, tmp_path, memory, flags):
    measure = MeasureTokens(vocabularies, baselines=["byte", "trigram"], group_by="lang", memory=memory)
    rows = [{"text": text, "lang": group, "n": i} for i, (text, group) in enumerate(ROWS)] + [{"text": None, "lang": "en"}]
    folder = str(tmp_path / "out")
    run(lambda p: p | beam.Create(rows) | beam.Reshuffle() | measure | WriteStatistics(folder, vocabularies), *flags)
    expected = [replace(one, left_out={"null_documents": 1}) for one in expected]
    assert measured.load(folder) == expected
    measured.save(str(tmp_path / "again"), expected, vocabularies)
    names = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert [(tmp_path / "out" / name).read_bytes() for name in names] == [
        (tmp_path / "again" / name).read_bytes() for name in names
    ]


def test_elements_are_small_and_mergeable(vocabularies, expected):
    """What is found of several bundles, one element a vocabulary and group, sums up to all."""
    measure = MeasureTokens(vocabularies[0], group_by="lang")

    def check(found):
        assert sorted(name for one in found for name in one.groups) == ["", "de", "en", "zh"]
        (nothing,) = [one for one in found if not one.groups]  # of what is left out
        assert len(found) == 5 and nothing.subject == expected[0].subject and nothing.left_out == {}
        assert found[0].merge(*found[1:]) == expected[0]
        assert all(len(pickle.dumps(one)) < 1500 for one in found)  # of ids that occur, not of all

    rows = [beam.Row(text=text, lang=group) for text, group in ROWS]
    run(lambda p: assert_that(p | beam.Create(rows) | measure, check))


def test_texts_and_windows(vocabularies):
    measure = MeasureTokens(vocabularies[:1])

    def check(found):
        assert sorted(one.total.tokens for one in found) == sorted(
            Tokenizer(vocabularies[0]).count(text) for text in ("low low", "lower")
        )

    texts = [TimestampedValue("low low", 1), TimestampedValue(b"lower", 100)]
    run(lambda p: assert_that(p | beam.Create(texts) | beam.WindowInto(FixedWindows(10)) | measure, check))


@pytest.mark.parametrize("options", [{}, {"range_bytes": 40}])
def test_files(vocabularies, saved, expected, tmp_path, options):
    lines = [json.dumps({"text": text, "lang": group}) for text, group in ROWS]
    (tmp_path / "some.jsonl").write_text("\n".join(lines[:3]) + "\n")
    (tmp_path / "others.jsonl").write_text("\n".join(lines[3:]) + "\n")
    measure = MeasureTokens(saved, baselines=["byte", "trigram"], group_by="lang", by_path=True)
    read = ReadDocuments(str(tmp_path), group_by="lang", **options)
    folder = str(tmp_path / "out")
    run(lambda p: p | read | measure | WriteStatistics(folder, saved, by_path=True))
    loaded = measured.load(folder)
    assert measures_of(loaded) == measures_of(expected) and [one.subject.name for one in loaded][:2] == saved


def test_a_large_text_is_cut_between_words_and_put_together(vocabularies, tmp_path):
    text = "low lower lowest newest\n" * 3000
    (tmp_path / "a.txt").write_text(text)
    whole = Meter([Tokenizer(vocabularies[0])], ["trigram"])
    whole.add(documents_of([text], "strict"))
    (want, trigram) = (groups[""] for groups in whole.take())
    for whole_files in (True, False):
        measure = MeasureTokens(vocabularies[0], baselines=["trigram"])
        read = ReadDocuments(str(tmp_path / "a.txt"), pattern="gpt2", range_bytes=20_000, whole=whole_files)
        folder = str(tmp_path / f"out-{whole_files}")
        run(lambda p: p | read | measure | WriteStatistics(folder, vocabularies[0]))
        found, trigrams = (one.total for one in measured.load(folder))
        assert np.array_equal(found.frequencies, want.frequencies) and found.words == want.words
        if whole_files:
            assert found == want and trigrams == trigram
        else:  # nobody saw its length
            assert {**found.record(), "lengths": 0} == {**want.record(), "lengths": 0} and found.lengths is None
            assert trigrams.tokens is None and trigrams.characters == len(text)
    other = MeasureTokens(vocabularies[0])
    with pytest.raises(Exception, match="documents were cut between words of 'o200k'"):
        run(lambda p: p | ReadDocuments(str(tmp_path / "a.txt"), pattern="o200k") | other)


def test_the_pieces_of_a_document_are_not_torn_apart(vocabularies):
    """However little memory there may be, what is found goes on between documents."""
    fn = module._MeasureFn(MeasureTokens(vocabularies[:1], memory=1))
    fn.setup()
    fn.start_bundle()
    rule = (WordRule(vocabularies[0].pre_tokenizer, (END,)),)
    emitted = []
    for text, first in (("low", True), (" lower", False), (" low", False), ("wide", True)):
        batch = DocumentBatch(text.encode(), np.array([0, len(text)]), not first, {"documents": int(first)}, cut_by=rule)
        emitted.append([found.value for found in fn.process(batch, window=GlobalWindow())])
    emitted.append([found.value for found in fn.finish_bundle()])
    assert list(map(len, emitted)) == [0, 0, 0, 1, 1]
    assert [found[0][1].documents for found in emitted[3:]] == [1, 1]
    assert emitted[3][0][1].lengths.counts == {Tokenizer(vocabularies[0]).count("low lower low"): 1}


def test_what_the_transform_refuses(vocabularies, saved, tmp_path):
    one = vocabularies[0]
    for options, told in (
        ({"special": "keep"}, "special='keep': choose one of"),
        ({"errors": "ignore"}, "errors='ignore'"),
        ({"baselines": ["syllable"]}, "no baseline 'syllable'"),
        ({"names": ["a", "b"]}, "2 names of 1 vocabularies"),
    ):
        with pytest.raises(ValueError, match=told):
            MeasureTokens(one, **options)
    with pytest.raises(ValueError, match="nothing to measure"):
        MeasureTokens([])
    with pytest.raises(ValueError, match="measured twice"):
        MeasureTokens([one, one])
    with pytest.raises(TypeError, match="lists, not one text"):
        MeasureTokens(one, baselines="byte")
    with pytest.raises(TypeError, match="takes rows or DocumentBatch, not texts"):
        run(lambda p: p | beam.Create(["low"]).with_output_types(str) | MeasureTokens(one, group_by="lang"))
    with pytest.raises(ValueError, match="no column 'lang'; they have text"):
        run(lambda p: p | beam.Create([beam.Row(text="low")]) | MeasureTokens(one, group_by="lang"))
    for element, told in ((5, "takes str, bytes, rows"), ({"text": 5}, "holds a int"), ({"lang": "en"}, "no column 'text'")):
        with pytest.raises(Exception, match=told):
            run(lambda p: p | beam.Create([element]) | MeasureTokens(one))
    (tmp_path / "a.jsonl").write_text('{"text": "low", "lang": "en"}\n')
    with pytest.raises(Exception, match="group_by='lang', and are measured with None"):
        run(lambda p: p | ReadDocuments(str(tmp_path / "a.jsonl"), group_by="lang") | MeasureTokens(one))
    measure = MeasureTokens(one)
    with pytest.raises(ValueError, match="statistics of the global window"):
        run(lambda p: p | beam.Create(["low"]) | beam.WindowInto(FixedWindows(10)) | measure | WriteStatistics("x", one))
    with pytest.raises(Exception, match="is not among the vocabularies of WriteStatistics"):
        run(lambda p: p | beam.Create(["low"]) | MeasureTokens(vocabularies) | WriteStatistics(str(tmp_path / "x"), one))


def test_no_documents(vocabularies, tmp_path):
    measure = MeasureTokens(vocabularies, baselines=["byte"])
    run(lambda p: p | beam.Create([], reshuffle=False) | measure | WriteStatistics(str(tmp_path / "out"), vocabularies))
    loaded = measured.load(str(tmp_path / "out"))
    assert [one.total.tokens for one in loaded] == [0, 0, 0] and [one.groups for one in loaded] == [{}, {}, {}]
    assert [one.subject for one in loaded] == measure.subjects


def test_what_is_left_out_travels_with_the_statistics(vocabularies, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "low"}\n{"text": null}\n{"text": "a\xff"}\n{"no": 1}\n{"text": "low"\n')
    vocabularies[0].save(str(tmp_path / "v"))
    count = ["count", tmp_path / "a.jsonl", "--errors", "skip", "--pattern", "gpt2", "-o", tmp_path / "words"]
    assert command(capsys, *count)[0] == 0
    told = []
    for given in ([tmp_path / "a.jsonl", "--errors", "skip"], ["--words", tmp_path / "words"]):
        code, out, _ = command(capsys, "measure", *given, "-v", tmp_path / "v", "-o", tmp_path / f"out-{len(told)}")
        assert code == 0 and "left out    skipped documents 3, null documents 1" in out, out
        told.append(measured.load(str(tmp_path / f"out-{len(told)}"))[0].left_out)
    assert told[0] == told[1] == {"skipped_documents": 3, "null_documents": 1}


def test_special_tokens_in_a_pipeline(vocabularies):
    for special in ("encode", "drop"):
        (want,) = of_documents(vocabularies[:1], grouped=False, special=special)
        measure = MeasureTokens(vocabularies[:1], special=special)

        def check(found, want=want):
            assert found[0].merge(*found[1:]).total == want.total

        run(lambda p: assert_that(p | beam.Create(TEXTS) | measure, check))


# ---- the commands --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    texts, groups = zip(*ROWS)
    pq.write_table(pa.table({"text": texts, "lang": groups}), folder / "rows.parquet")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text, "lang": group}) + "\n" for text, group in ROWS))
    (folder / "one.txt").write_text("\n".join(TEXTS))
    assert (
        cli.main(
            ["count", str(folder / "rows.parquet"), "--pattern", "gpt2", "--group-by", "lang", "-o", str(folder / "words")]
        )
        == 0
    )
    return folder


def command(capsys, *arguments) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def cells(out: str, name: str) -> dict[str, str]:
    """Return the first line of a printed table that begins with a name, by the heads of its columns."""
    lines = out.splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith(name + " "))
    heads = next(line for line in lines[number - 1 :: -1] if line.startswith(" ")).split("  ")
    return dict(zip((head.strip() for head in heads if head.strip()), lines[number][len(name) :].split(), strict=True))


def test_measure_a_corpus_and_its_words(capsys, corpus, saved, expected, tmp_path):
    options = ["-v", saved[0], "-v", saved[1], "--baseline", "byte", "--baseline", "trigram", "--reference", "en"]
    outputs = []
    for source in (["rows.jsonl", "--group-by", "lang"], ["rows.parquet", "--group-by", "lang"]):
        code, out, err = command(capsys, "measure", corpus / source[0], *source[1:], *options, "-o", tmp_path / source[0])
        assert code == 0, err
        assert measures_of(measured.load(str(tmp_path / source[0]))) == measures_of(expected)
        outputs.append(out.replace(source[0], ""))
    assert outputs[0] == outputs[1]
    shown = cells(outputs[0], "de")
    measures, statistics = expected[0].groups["de"], expected[0]
    assert shown["tokens"] == f"{measures.tokens:,}" and shown["characters"] == f"{measures.characters:,}" == "2,016"
    assert (
        shown["tokens/word"] == f"{measures.fertility:.3f}"
        and shown["premium"] == f"{statistics.parity_premiums('en')['de']:.3f}"
    )
    assert (
        shown["kept whole"] == f"{measures.kept_share:.1%}"
        and shown["Renyi eff."] == f"{statistics.renyi_efficiency(measures):.4f}"
    )
    assert f"Gini coefficient of tokens per character: {statistics.gini('character'):.4f}" in outputs[0]
    code, out, err = command(capsys, "measure", "--words", corpus / "words", *options, "-o", tmp_path / "of-words")
    assert code == 0, err
    for one, whole in zip(measured.load(str(tmp_path / "of-words")), expected):
        for name, found in one.groups.items():
            record = {**whole.groups[name].record(), "lengths": None}
            assert found.record() == ({**record, "tokens": None} if one.subject.name == "trigram" else record)
    assert cells(out, "de")["tokens"] == shown["tokens"] and "median" not in out


def test_measure_without_groups(capsys, corpus, saved, vocabularies, tmp_path):
    code, out, err = command(
        capsys, "measure", corpus / "one.txt", "--documents", "line", "-v", saved[0], "--special", "encode"
    )
    assert code == 0 and "Gini" not in out, err
    lines = "\n".join(TEXTS).splitlines(keepends=True)
    tokens = sum(len(Tokenizer(vocabularies[0]).encode(line, allowed_special="all")) for line in lines)
    row = out.splitlines()[1].split()
    assert row[1:5] == [str(len(lines)), f"{sum(map(len, lines)):,}", row[3], f"{tokens:,}"]
    code, out, err = command(capsys, "measure", corpus / "one.txt", "-v", saved[0], "-v", saved[1])
    assert code == 0 and len(out.splitlines()) == 3, err  # one document, cut or not
    other = tmp_path / "other"  # that cuts in another way, so that the text is read whole
    train(WordCounts.from_documents(TEXTS, pattern="cl100k"), 260).save(str(other))
    code, out, err = command(capsys, "measure", corpus / "one.txt", "-v", saved[0], "-v", other)
    assert code == 0 and len(out.splitlines()) == 3, err


def test_documents_that_are_set_aside(capsys, saved, tmp_path):
    """They are told of, and kept where there is a place for them: beside the statistics, or where --rejected says."""
    (tmp_path / "a.txt").write_bytes(b"low\nnew\xffest\nlower\xff")
    measure = ["measure", tmp_path / "a.txt", "--documents", "line", "-v", saved[0], "--errors", "skip"]
    code, out, err = command(capsys, *measure)
    assert code == 0 and "set aside   2 documents, which --output or --rejected keeps" in out.splitlines(), err
    for more, folder in ((["-o", "one"], "one/rejected"), (["-o", "two", "--rejected", "aside"], "aside"), (["--rejected", "b"], "b")):
        code, out, err = command(capsys, *measure, *(one if one.startswith("-") else tmp_path / one for one in more))
        assert code == 0 and f"set aside   {tmp_path / folder}" in out.splitlines(), err
        (letters,) = (tmp_path / folder).iterdir()
        assert [json.loads(line)["offset"] for line in letters.read_text().splitlines()] == [4, 12]
    (tmp_path / "a.txt").write_bytes(b"low\n")
    code, out, err = command(capsys, *measure, "-o", tmp_path / "one", "--overwrite")
    assert code == 0 and "set aside" not in out and not any((tmp_path / "one" / "rejected").iterdir())


def test_hostile_group_names(capsys, saved, tmp_path):
    names = ["<script>alert(1)</script>", "a\x1b[31m\nb", "é" * 100, ""]
    rows = [{"text": "low", "lang": name} for name in names]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = command(
        capsys, "measure", tmp_path / "a.jsonl", "-v", saved[0], "--group-by", "lang", "-o", tmp_path / "out"
    )
    assert code == 0 and "\x1b" not in out and "a\\x1b[31m\\nb" in out and "(none)" in out, err
    assert max(map(len, out.splitlines())) < 250
    assert sorted(measured.load(str(tmp_path / "out"))[0].groups) == sorted(names)


def test_many_groups_are_summed_up(capsys, saved, tmp_path):
    rows = [{"text": "low " * (i + 1), "lang": f"l{i:03d}"} for i in range(300)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = command(
        capsys, "measure", tmp_path / "a.jsonl", "-v", saved[0], "--group-by", "lang", "-o", tmp_path / "out"
    )
    assert code == 0 and "261 more groups" in out and len(out.splitlines()) < 50, err
    (one,) = measured.load(str(tmp_path / "out"))
    tokens = [Tokenizer(Tokenizer.load(saved[0]).vocabulary).count(row["text"]) for row in rows]
    assert [measures.tokens for measures in one.groups.values()] == tokens and one.total.tokens == sum(tokens)


def test_what_measure_refuses(capsys, corpus, saved, tmp_path):
    words, rows = corpus / "words", corpus / "rows.jsonl"
    for arguments, code, told in (
        (["-v", saved[0]], 2, "either a corpus"),
        ([rows, "--words", words, "-v", saved[0]], 2, "either a corpus"),
        ([rows, "-v", saved[0], "--allow-mismatch"], 2, "--allow-mismatch goes with --words"),
        ([rows, "-v", saved[0], "--group-by", "language"], 1, "no field 'language' to group by; it has 'text', 'lang'"),
        (["--words", words, "-v", saved[0], "--group-by", "lang"], 2, "--group-by goes with a corpus"),
        (["--words", words, "-v", saved[0], "--reference", "fr", "-o", tmp_path / "kept"], 1, "no group 'fr'; there are '', 'de', 'en', 'zh'"),
        (["--words", tmp_path / "x.csv", "-v", saved[0]], 2, "give --words-pattern"),
        ([rows, "-v", saved[0], "--", "--runner=PrismRunner"], 2, "give --output"),
        ([rows, "-v", saved[0], "-v", saved[0]], 2, "measured twice"),
    ):
        found = command(capsys, "measure", *arguments)
        assert found[0] == code and told in found[2], found
    other = tmp_path / "other"
    train(WordCounts.from_documents(TEXTS, pattern="cl100k"), 260).save(str(other))
    code, _, err = command(capsys, "measure", "--words", words, "-v", other)
    assert code == 1 and "cut by 'gpt2'" in err and "cuts by 'cl100k'" in err and "--allow-mismatch goes on" in err
    code, _, err = command(capsys, "measure", "--words", words, "-v", other, "--allow-mismatch", "-o", tmp_path / "out")
    assert code == 0 and "note: the words were cut by 'gpt2'" in err
    assert "cut by 'gpt2'" in measured.load(str(tmp_path / "out"))[0].notes[0]
    code, _, err = command(capsys, "measure", "--words", words, "-v", other, "--allow-mismatch", "-o", tmp_path / "out")
    assert code == 1 and "already holds statistics" in err
    assert command(capsys, "measure", "--words", words, "-v", saved[0], "--overwrite", "-o", tmp_path / "out")[0] == 0


def test_curve(capsys, corpus, saved, vocabularies, tmp_path):
    path = tmp_path / "curve.parquet"
    code, out, err = command(
        capsys,
        "curve",
        "--words",
        corpus / "words",
        "-v",
        saved[0],
        "-o",
        path,
        "--check",
        "--price",
        "2",
        "--d-model",
        "10",
    )
    assert code == 0 and out.startswith("checked ") and "groups: 4" in out and out.count("knee") == 2, err
    table = pq.read_table(path)
    rows = table.filter(pa.compute.equal(table["size"], len(vocabularies[0]))).to_pylist()
    (statistics,) = measure_words(WordCounts.read(str(corpus / "words")), vocabularies[:1])
    assert {row["group"]: row["tokens"] for row in rows} == {
        None: statistics.total.tokens, **{name: measures.tokens for name, measures in statistics.groups.items()},
    }  # fmt: skip
    assert rows[0]["price_per_million_characters"] == 2 * (statistics.total.tokens / statistics.total.characters)
    assert rows[0]["embedding_parameters"] == 20 * len(vocabularies[0])
    code, out, _ = command(capsys, "show", path, "--most", "1")
    assert code == 0 and f"curve       {path}: {len(table):,} rows" in out and "embedding_parameters" in out
    code, _, err = command(capsys, "curve", "--words", corpus / "words", "-v", saved[0], "-o", path)
    assert code == 1 and "is there already" in err
    assert command(capsys, "curve", "--words", corpus / "words", "-v", saved[0], "-o", path, "--overwrite")[0] == 0
    code, _, err = command(capsys, "curve", "--words", corpus / "words", "-v", saved[0], "-o", path, "--layers", "0")
    assert code == 2 and "layers is 0" in err
    wordlevel = tmp_path / "wordlevel"
    train(WordCounts.from_documents(TEXTS, pattern="gpt2"), algorithm="wordlevel").save(str(wordlevel))
    code, _, err = command(capsys, "curve", "--words", corpus / "words", "-v", wordlevel, "-o", tmp_path / "no.parquet")
    assert code == 1 and "'wordlevel' does not find tokens by the order of merges" in err.replace("--algorithm ", "")
