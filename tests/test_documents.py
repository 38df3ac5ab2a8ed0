"""What is read and in which ranges: the choices that are checked, the files that are found."""

from __future__ import annotations

import pickle

import pytest

from beam_bpe import cutting, documents
from beam_bpe.cutting import WordRule
from beam_bpe.documents import InputError, Reading, SourceRange, find_files, range_bytes_for, ranges
from beam_bpe.listing import SourceFile
from beam_bpe.pretokenize import pre_tokenizer

MIB = 1 << 20
O200K = WordRule(pre_tokenizer("o200k"))


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ({"documents": "sentence"}, ValueError, "documents='sentence': choose one of file, line, paragraph, separator"),
        ({"errors": "ignore"}, ValueError, "errors='ignore': choose one of replace, strict, skip"),
        ({"format": "csv"}, ValueError, "format='csv': choose one of auto, text, jsonl, parquet, arrow"),
        ({"documents": "separator"}, ValueError, "goes with a separator"),
        ({"separator": "|"}, ValueError, "a separator with it"),
        ({"documents": "line", "separator": "|"}, ValueError, "a separator with it"),
        ({"documents": "separator", "separator": ""}, ValueError, "the separator is empty"),
    ],
)
def test_a_wrong_choice_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        Reading(**wrong)


@pytest.mark.parametrize(
    "tokens, error, message",
    [
        (("",), ValueError, "special token 0 is empty"),
        (("a", "b", "a"), ValueError, "'a' stands twice"),
        ("<|x|>", TypeError, "not one text"),
    ],
)
def test_a_wrong_special_token_is_refused(tokens, error, message):
    with pytest.raises(error, match=message):
        WordRule(O200K.pre_tokenizer, tokens)


def test_a_reading_can_be_sent_to_workers():
    reading = Reading(documents="separator", separator="|", cut_by=(WordRule(O200K.pre_tokenizer, ("<|x|>",)),))
    assert pickle.loads(pickle.dumps(reading)) == reading


def test_the_format_goes_by_the_name():
    names = {
        "a.txt": "text", "a": "text", "a.md": "text", "a.jsonl": "jsonl", "a.NDJSON.gz": "jsonl", "a.parquet": "parquet",
        "a.arrow.zst": "arrow", "s3://b/a.feather": "arrow", "a.jsonl.txt": "text", "a.parquet.bak": "text",
    }  # fmt: skip
    assert {name: Reading().format_of(name) for name in names} == names
    assert Reading(format="jsonl").format_of("a.txt") == "jsonl"


def test_the_cutter_goes_by_the_unit():
    def cutter(kind="text", **options):
        return type(Reading(**options).cutter(kind))

    assert cutter() == cutter(cut_by=(WordRule(pre_tokenizer(r"\w+")),)) == cutting.NoCutter
    assert cutter(cut_by=(WordRule(pre_tokenizer("none")),)) == cutter("parquet") == cutting.NoCutter
    assert cutter(cut_by=(O200K,)) == cutting.WordCutter
    assert cutter(documents="line") == cutter("jsonl") == cutter("jsonl", documents="paragraph") == cutting.LineCutter
    gpt2, none = WordRule(pre_tokenizer("gpt2")), WordRule(pre_tokenizer("none"))
    assert cutter(cut_by=(O200K, gpt2)) == cutting.CommonCutter and cutter(cut_by=(O200K, none)) == cutting.NoCutter
    assert cutter(documents="paragraph") == cutting.ParagraphCutter
    assert cutter(documents="separator", separator="\n\n") == cutting.SeparatorCutter


# ---- files ----


def test_the_largest_file_is_first(tmp_path):
    for name, size in (("b.txt", 5), ("a.txt", 5), ("c.jsonl", 9), ("d.txt.gz", 7), ("e.parquet", 6), ("f.csv", 99)):
        (tmp_path / name).write_bytes(b"x" * size)
    names = [file.url.rsplit("/", 1)[1] for file in find_files(str(tmp_path), Reading())]
    assert names == ["c.jsonl", "d.txt.gz", "e.parquet", "a.txt", "b.txt"]
    only = find_files(str(tmp_path), Reading(format="text"))
    assert [file.url.rsplit("/", 1)[1] for file in only] == ["d.txt.gz", "a.txt", "b.txt"]
    assert [file.size for file in find_files([str(tmp_path / "f.csv")], Reading())] == [99]


def test_what_is_not_there_is_named(tmp_path):
    for missing in ("no.txt", "*.txt", "."):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            find_files(str(tmp_path / missing), Reading())


def test_a_huge_file_that_cannot_be_cut_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LARGEST_UNCUT", 10)
    (tmp_path / "fits.txt").write_bytes(b"x" * 10)
    assert len(find_files(str(tmp_path), Reading())) == 1
    (tmp_path / "huge.txt").write_bytes(b"x" * 11)
    for refused in (Reading(), Reading(cut_by=(WordRule(pre_tokenizer("none")),)), Reading(cut_by=(WordRule(pre_tokenizer(".+?")),))):
        with pytest.raises(InputError, match="huge.txt has 11 bytes .* limit is 10.* documents='line'"):
            find_files(str(tmp_path), refused)
    for read in (
        Reading(cut_by=(O200K,)),
        Reading(documents="line"),
        Reading(documents="paragraph"),
        Reading(documents="separator", separator="--"),
        Reading(format="jsonl"),
    ):
        inputs = [str(path) for path in tmp_path.iterdir()]
        assert len(find_files(inputs, read)) == 2


# ---- ranges ----


def test_range_bytes_grow_with_the_input():
    assert range_bytes_for(0) == range_bytes_for(1) == 64 << 10
    assert range_bytes_for(8 * MIB) == MIB
    assert range_bytes_for(8 * MIB, workers=4) == MIB // 4
    assert range_bytes_for(8 * MIB + 1) == MIB + 1
    assert range_bytes_for((4 << 30) - 1) == 8 * MIB
    assert range_bytes_for(4 << 30) == range_bytes_for(1 << 44, workers=1000) == 64 * MIB
    for workers in (1, 3, 64):
        assert len(range(0, 1 << 30, range_bytes_for(1 << 30, workers))) >= 8 * workers


def test_ranges_lie_side_by_side():
    reading = Reading(documents="line")
    for size in (0, 1, 9, 10, 11, 20, 95):
        for range_bytes in (1, 3, 10, 100):
            found = list(ranges([SourceFile("a.txt", size, None)], reading, range_bytes))
            assert found[0].start == 0 and found[-1].end is None
            assert all(one.end == two.start for one, two in zip(found, found[1:]))
            assert all(each.start + range_bytes == each.end for each in found[:-1])
            assert len(found) == max(1, -(-size // range_bytes))
            assert {(each.url, each.compression, each.format) for each in found} == {("a.txt", None, "text")}


@pytest.mark.parametrize(
    "name, options, whole",
    [
        ("a.txt", {"documents": "line"}, False),
        ("a.txt.gz", {"documents": "line"}, True),
        ("a.txt", {"documents": "separator", "separator": "aa"}, False),
        ("a.txt", {}, True),
        ("a.txt", {"cut_by": (O200K,)}, False),
        ("a.txt", {"cut_by": (O200K,), "whole": True}, True),
        ("a.txt", {"cut_by": (O200K,), "errors": "skip"}, True),
        ("a.txt", {"cut_by": (O200K,), "errors": "strict"}, False),
        ("a.txt", {"documents": "line", "errors": "skip", "whole": True}, False),
        ("a.jsonl", {"errors": "skip", "whole": True}, False),
        ("a.parquet", {"whole": True}, False),
        ("a.arrow", {}, True),
    ],
)
def test_what_is_read_by_one_worker(name, options, whole):
    reading = Reading(**options)
    file = SourceFile(name, 100, "gzip" if name.endswith("gz") else None)
    found = list(ranges([file], reading, 30))
    assert len(found) == (1 if whole else 4)
    if whole:
        assert found == [SourceRange(name, file.compression, reading.format_of(name), 0, None)]
