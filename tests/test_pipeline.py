"""The Beam transforms: the same bytes however the work is cut, and what each transform takes, gives and refuses."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.internal import pickler
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue

import beam_bpe
from beam_bpe import _words, artifacts, storage, train
from beam_bpe.documents import DocumentBatch
from beam_bpe.framing import frame, unframe
from beam_bpe.listing import SourceFile
from beam_bpe.formats.parquet import MERGES_FILE, VOCABULARY_FILE
from beam_bpe.transforms import (
    CountWords,
    LearnVocabulary,
    MergeWords,
    ReadDocuments,
    ReadWords,
    TrainVocabulary,
    WordRows,
    WriteWords,
)
from beam_bpe.transforms import count as count_module
from beam_bpe.transforms import read as read_module
from beam_bpe.transforms.count import shards_for
from beam_bpe.transforms.words import CountedWord
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.word_parts import unpack_table
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).resolve().parent.parent
SPECIALS = ["<|end|>"]
VOCAB_SIZE = 700


def run(build, *flags: str):
    """Run a pipeline in this process, or as the flags of the local runner say, and return its result."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def counted(elements, folder, **parameters) -> WordCounts:
    """Count elements of a user's own and return the table that was written."""
    run(lambda p: p | beam.Create(elements) | CountWords(**parameters) | WriteWords(str(folder)))
    return WordCounts.read(str(folder))


def listed(folder) -> list[str]:
    return sorted(path.name for path in Path(folder).rglob("*") if path.is_file())


def payload(folder) -> dict[str, bytes]:
    return {name: (Path(folder) / name).read_bytes() for name in (MERGES_FILE, VOCABULARY_FILE)}


# ---- the same words, counts and bytes ------------------------------------------------------------


def made_text(size: int) -> str:
    """Return text of several scripts, with words of a skewed distribution, digits, marks and blank lines."""
    rng = random.Random(7)
    letters = ["abcdefghijklmnop", "абвгдежзик", "中文字的是不", "ăéñöß", "กขคงจ", "😀👍🏽"]
    words = ["".join(rng.choices(rng.choice(letters), k=rng.randint(1, 9))) for _ in range(4000)]
    out, length = [], 0
    while length < size:
        word = words[int(rng.paretovariate(0.7)) % len(words)]
        out.append(word + rng.choice([" ", " ", " ", ", ", ".\n", "\n\n", "'s ", " 123 ", "\u0301", "  "]))
        length += len(out[-1].encode())
    return "".join(out)


@pytest.fixture(scope="module")
def documents() -> list[str]:
    """Return five documents of some 400 KB together, with special tokens in them."""
    path = Path(os.environ.get("BEAM_BPE_SHARED") or ROOT.parent / "shared") / "corpora" / "mixed-1m.txt"
    text = path.read_bytes()[:400_000].decode("utf-8", "ignore") if path.exists() else made_text(400_000)
    places = [0, len(text) // 2, len(text) * 3 // 4, len(text) * 7 // 8, len(text) - 500, len(text)]
    pieces = [text[i:j] for i, j in zip(places, places[1:])]
    pieces[0] = pieces[0][:5000] + SPECIALS[0] + pieces[0][5000:90_000] + SPECIALS[0] * 2 + pieces[0][90_000:]
    return pieces


@pytest.fixture(scope="module")
def corpora(documents, tmp_path_factory) -> dict[str, list[str]]:
    """Return the paths of the documents stored plain, as .gz, as .zst, and in turns."""
    folder = tmp_path_factory.mktemp("corpora")
    pack = {"": bytes, ".gz": gzip.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}
    stored: dict[str, list[str]] = {suffix: [] for suffix in pack}
    for i, text in enumerate(documents):
        for suffix, packed in pack.items():
            path = folder / f"{i}.txt{suffix}"
            path.write_bytes(packed(text.encode()))
            stored[suffix].append(str(path))
    turns = [stored[suffix][i] for i, suffix in enumerate(["", ".gz", ".zst", "", ".gz"])]
    return {"plain": stored[""], "gz": stored[".gz"], "zst": stored[".zst"], "turns": turns}


@pytest.fixture(scope="module")
def expected(documents, tmp_path_factory):
    """Return (words, bytes of the vocabulary's files) as they are without Beam."""
    folder = tmp_path_factory.mktemp("expected")
    words = WordCounts.from_documents(documents, special_tokens=SPECIALS)
    train(words, VOCAB_SIZE, special_tokens=SPECIALS).save(str(folder))
    return words, payload(folder)


def learn(inputs, folder, *flags, shards=4, range_bytes=None, memory=512 << 20, whole=False) -> None:
    """Count files and learn from the counts, all of it in one pipeline."""
    run(
        lambda p: p
        | ReadDocuments(inputs, pattern="o200k", special_tokens=SPECIALS, range_bytes=range_bytes, whole=whole)
        | CountWords(special_tokens=SPECIALS, shards=shards, memory=memory)
        | WriteWords(f"{folder}/words")
        | TrainVocabulary(str(folder), VOCAB_SIZE, special_tokens=SPECIALS),
        *flags,
    )


def check_same(folder, expected) -> None:
    words, files = expected
    table = WordCounts.read(f"{folder}/words")
    assert table.to_dict() == words.to_dict()
    assert table.totals == words.totals
    assert payload(folder) == files


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
def test_shards_change_nothing(shards, corpora, expected, tmp_path):
    learn(corpora["plain"], tmp_path, shards=shards)
    assert len(artifacts.read_manifest(str(tmp_path / "words"), "words")["parts"]) == shards
    check_same(tmp_path, expected)


@pytest.mark.parametrize("range_bytes", [1 << 10, 1 << 14, 100_003, 1 << 20, 64 << 20])
def test_ranges_change_nothing(range_bytes, corpora, expected, tmp_path):
    learn(corpora["plain"], tmp_path, range_bytes=range_bytes)
    check_same(tmp_path, expected)


@pytest.mark.parametrize("kind", ["gz", "zst", "turns"])
def test_compression_changes_nothing(kind, corpora, expected, tmp_path):
    learn(corpora[kind], tmp_path, range_bytes=1 << 15)
    check_same(tmp_path, expected)


@pytest.mark.parametrize("seed", [1, 2])
def test_order_of_files_changes_nothing(seed, corpora, expected, tmp_path):
    inputs = list(corpora["plain"])
    random.Random(seed).shuffle(inputs)
    learn(inputs, tmp_path, range_bytes=1 << 16)
    check_same(tmp_path, expected)


@pytest.mark.parametrize("range_bytes", [1, 7, 20])
def test_no_range_ends_inside_a_special_token(range_bytes, tmp_path):
    text = "word<|end|>or <|end|><|end|>ds 12<|end|>. " * 10
    (tmp_path / "a.txt").write_text(text)
    run(
        lambda p: p
        | ReadDocuments(str(tmp_path), pattern="o200k", special_tokens=SPECIALS, range_bytes=range_bytes)
        | CountWords(special_tokens=SPECIALS)
        | WriteWords(str(tmp_path / "w"))
    )
    table, want = WordCounts.read(str(tmp_path / "w")), WordCounts.from_documents([text], special_tokens=SPECIALS)
    assert table.to_dict() == want.to_dict() and table.totals == want.totals


def test_files_read_whole_are_as_those_that_were_split(corpora, expected, tmp_path):
    learn(corpora["plain"], tmp_path, range_bytes=1 << 12, whole=True)
    check_same(tmp_path, expected)


@pytest.mark.parametrize("memory", [1, 1 << 15])
def test_a_small_budget_changes_nothing(memory, corpora, expected, tmp_path, monkeypatch):
    flushes = []
    flush = count_module._CountFn._flush
    monkeypatch.setattr(count_module._CountFn, "_flush", lambda fn, bundle: flushes.append(1) or flush(fn, bundle))
    learn(corpora["plain"], tmp_path, range_bytes=1 << 14, memory=memory)
    assert len(flushes) > (20 if memory == 1 else 1)
    check_same(tmp_path, expected)


def test_two_threads_change_nothing(corpora, expected, tmp_path):
    flags = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")
    learn(corpora["plain"], tmp_path, *flags, range_bytes=1 << 14)
    check_same(tmp_path, expected)


def test_two_processes_change_nothing(corpora, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    flags = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    learn(corpora["plain"], tmp_path, *flags, range_bytes=1 << 14)
    check_same(tmp_path, expected)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_hash_seeds_change_nothing(seed, corpora, expected, tmp_path):
    command = [sys.executable, "-m", "beam_bpe", "train", *corpora["turns"], "-o", str(tmp_path / "out")]
    command += ["-n", str(VOCAB_SIZE), "--special-token", SPECIALS[0], "--shards", "3", "--range-bytes", "30000"]
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    check_same(tmp_path / "out", expected)


def test_parts_are_the_same_bytes_however_the_work_is_cut(corpora, tmp_path):
    for name, options in {"a": {"range_bytes": 1 << 13}, "b": {"memory": 1}}.items():
        learn(corpora["plain" if name == "a" else "gz"], tmp_path / name, shards=7, **options)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name / "words").iterdir()} for name in "ab")
    assert len(one) == 8 and one == two


def test_other_words_are_other_bytes(documents, expected, tmp_path):
    """The comparisons above can fail."""
    changed = WordCounts.from_documents([*documents[:-1], documents[-1] + " e e e e" * 40], special_tokens=SPECIALS)
    train(changed, VOCAB_SIZE, special_tokens=SPECIALS).save(str(tmp_path))
    assert payload(tmp_path) != expected[1]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "qwen2", "whitespace"])
def test_ranges_change_nothing_under_any_pattern(pattern, shared, tmp_path):
    path = str(shared / "corpora" / "mixed-1m.txt")
    text = Path(path).read_bytes().decode()
    want = WordCounts.from_documents([text], pattern=pattern)
    for range_bytes in (1 << 10, 1 << 16):
        folder = str(tmp_path / str(range_bytes))
        run(
            lambda p: p
            | ReadDocuments(path, pattern=pattern, range_bytes=range_bytes)
            | CountWords(pattern=pattern)
            | WriteWords(folder)
        )
        assert WordCounts.read(folder).to_dict() == want.to_dict()


# ---- CountWords on a user's own documents --------------------------------------------------------


def test_strings_and_bytes_are_documents(tmp_path):
    elements = ["low lower", b"low newest", "", "a\0b \0", "naïve 中文", b""]
    want = WordCounts.from_documents(elements, pattern="gpt2")
    table = counted(elements, tmp_path / "words", pattern="gpt2")
    assert table.to_dict() == want.to_dict() and table.totals == want.totals
    assert table.totals["documents"] == 6 and table.parameters == want.parameters


def test_many_documents_make_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(count_module._CountFn, "_BATCH", 50)
    elements = [f"word{i % 7} end" for i in range(300)]
    assert counted(elements, tmp_path / "w").to_dict() == WordCounts.from_documents(elements).to_dict()


def test_bytes_that_are_not_utf8(tmp_path):
    elements = [b"good", b"bad\xff\xfe", b"cut \xe4\xb8"]
    table = counted(elements, tmp_path / "replace", pattern="whitespace")
    assert table.to_dict() == {word.encode(): 1 for word in ("good", "bad\ufffd\ufffd", "cut", "\ufffd")}
    assert table.totals["replaced_characters"] == 3 and table.totals["documents"] == 3
    table = counted(elements, tmp_path / "skip", pattern="whitespace", errors="skip")
    assert table.to_dict() == {b"good": 1}
    assert table.totals["skipped_documents"] == 2 and table.totals["documents"] == 1
    with pytest.raises(ValueError, match=r"not valid UTF-8: b'bad\\xff\\xfe'"):
        counted(elements, tmp_path / "strict", errors="strict")
    assert listed(tmp_path / "strict") == []


@pytest.mark.parametrize("errors, words", [("replace", [b"a", b"lone\xef\xbf\xbd"]), ("skip", [b"a"])])
def test_lone_surrogates(errors, words):
    """Beam's own coder of str refuses them wherever it meets them, so this does without it."""
    fn = count_module._CountFn(CountWords(pattern="whitespace", shards=1, errors=errors))
    fn.start_bundle()
    for text in ("a", "lone\ud800"):
        list(fn.process(text, window=GlobalWindow()))
    shard, packed = next(fn.finish_bundle()).value
    assert unpack_table(unframe(packed)[1])[2]["word"].to_pylist() == words


def test_documents_that_hold_a_word_are_counted(tmp_path):
    elements = ["a a b", "a", "b b b c"]
    for memory in (1, 512 << 20):
        folder = tmp_path / str(memory)
        table = counted(elements, folder, pattern="whitespace", documents=True, memory=memory).table
        assert table.sort_by("word").to_pydict() == {
            "word": [b"a", b"b", b"c"],
            "count": [3, 4, 1],
            "documents": [2, 2, 1],
        }


def test_documents_are_counted_once_when_read_in_pieces(tmp_path, monkeypatch):
    from beam_bpe import cutting

    monkeypatch.setattr(cutting, "PIECE", 64)
    (tmp_path / "one.txt").write_text("word other " * 100)
    (tmp_path / "two.txt").write_text("word " * 100)
    run(
        lambda p: p
        | ReadDocuments([str(tmp_path / "one.txt"), str(tmp_path / "two.txt")], pattern="whitespace", whole=True)
        | CountWords(pattern="whitespace", documents=True, memory=1)
        | WriteWords(str(tmp_path / "words"))
    )
    table = WordCounts.read(str(tmp_path / "words")).table.sort_by("word")
    assert table.to_pydict() == {"word": [b"other", b"word"], "count": [100, 200], "documents": [1, 2]}


def test_special_tokens_cut_documents(tmp_path):
    table = counted(["a<|end|>b", b"<|end|>", "c<|en"], tmp_path / "w", pattern="none", special_tokens=["<|end|>"])
    assert table.to_dict() == {b"a": 1, b"b": 1, b"c<|en": 1}
    assert table.totals["special_tokens"] == 2 and table.parameters["special_tokens"] == ["<|end|>"]


def test_long_words_are_left_out_and_counted(tmp_path):
    table = counted(["ab abcdef abc abcdef"], tmp_path / "w", pattern="whitespace", max_word_bytes=3)
    assert table.to_dict() == {b"ab": 1, b"abc": 1}
    assert (table.totals["overlong_words"], table.totals["overlong_bytes"], table.totals["words"]) == (2, 12, 2)


@pytest.mark.parametrize("gaps, more", [("keep", {b"-": 2}), ("drop", {})])
def test_a_regex_of_ones_own(gaps, more, tmp_path):
    table = counted(["x-y-x"], tmp_path / "w", pattern="[a-z]", gaps=gaps)
    assert table.to_dict() == {b"x": 2, b"y": 1, **more}


def test_a_function_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "splitting_by_comma.py").write_text("def split(text):\n    return text.split(',')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    table = counted(["a,b c,a"], tmp_path / "w", split_with="splitting_by_comma:split")
    assert table.to_dict() == {b"a": 2, b"b c": 1}
    assert table.parameters["pre_tokenizer"]["name"] == "callable"


def test_windows_are_counted_apart():
    def build(p):
        rows = (
            p
            | beam.Create([("a b a", 1), ("a c", 5), ("b", 12), ("a", 25)])
            | beam.MapTuple(lambda text, second: TimestampedValue(text, second))
            | beam.WindowInto(FixedWindows(10))
            | CountWords(pattern="whitespace", memory=1)
            | WordRows()
            | beam.Map(lambda row, window=beam.DoFn.WindowParam: (int(window.start), row.word, row.count))
        )
        assert_that(rows, equal_to([(0, b"a", 3), (0, b"b", 1), (0, b"c", 1), (10, b"b", 1), (20, b"a", 1)]))

    run(build)


def test_windowed_counts_are_not_written(tmp_path):
    counts = beam.Pipeline(runner=FnApiRunner()) | beam.Create(["a"]) | beam.WindowInto(FixedWindows(10)) | CountWords()
    with pytest.raises(ValueError, match="WriteWords writes one table: it takes the counts of the global window"):
        counts | WriteWords(str(tmp_path / "w"))


@pytest.mark.parametrize("element, name", [(5, "int"), (("a", "b"), "tuple"), (None, "NoneType")])
def test_elements_of_another_type_are_refused(element, name, tmp_path):
    with pytest.raises(TypeError, match="CountWords takes str, bytes, rows or DocumentBatch, not"):
        beam.Pipeline(runner=FnApiRunner()) | beam.Create([element]) | CountWords()
    untyped = beam.Map(lambda _: element).with_output_types(beam.typehints.Any)
    with pytest.raises(TypeError, match=f"CountWords takes str, bytes, rows or DocumentBatch, not {name}"):
        run(lambda p: p | beam.Create([0]) | untyped | CountWords() | WriteWords(str(tmp_path / "w")))
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"shards": 0}, "shards is 0"),
        ({"max_word_bytes": 0}, "max_word_bytes is 0"),
        ({"errors": "ignore"}, "errors='ignore': choose one of replace, strict, skip"),
        ({"pattern": "o200"}, "did you mean 'o200k'"),
        ({"pattern": "(("}, "does not compile"),
        ({"gaps": "lose"}, "gaps='lose'"),
        ({"special_tokens": ["a", "a"]}, "'a' stands twice"),
        ({"special_tokens": [""]}, "special token 0 is empty"),
    ],
)
def test_parameters_are_checked_when_the_pipeline_is_built(options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        CountWords(**options)


def test_a_bundle_that_failed_leaves_nothing_in_its_instance():
    fn = count_module._CountFn(CountWords(pattern="whitespace", shards=1))
    fn.start_bundle()
    assert list(fn.process("lost words", window=GlobalWindow())) == []
    fn.start_bundle()
    list(fn.process("kept", window=GlobalWindow()))
    values = [each.value for each in fn.finish_bundle()]
    assert [shard for shard, _ in values] == [0, -1]
    assert b"kept" in values[0][1] and b"lost" not in values[0][1]
    assert list(fn.finish_bundle()) == []


def test_no_documents_make_a_table_without_parts(tmp_path):
    table = counted([], tmp_path / "w")
    assert len(table) == 0 and set(table.totals.values()) == {0}
    assert listed(tmp_path / "w") == ["_manifest.json"]
    with pytest.raises(ValueError, match="no words to learn from"):
        train(table, 300)


def test_documents_without_words_make_a_table_without_parts(tmp_path):
    table = counted(["", "  "], tmp_path / "w", pattern="whitespace")
    assert len(table) == 0 and table.totals["documents"] == 2
    assert listed(tmp_path / "w") == ["_manifest.json"]


@pytest.mark.parametrize("name", ["DaskRunner", "PySparkRunner"])
def test_runners_that_lose_elements_are_refused(name):
    runner = type(name, (FnApiRunner,), {})()
    documents = beam.Pipeline(runner=runner) | beam.Create(["a"])
    with pytest.raises(ValueError, match=f"{name} loses what is emitted at the end of a bundle"):
        documents | CountWords()


# ---- tables: written, read, summed ---------------------------------------------------------------


def write(folder, *texts, shards=4, overwrite=False, **parameters):
    parameters = {"pattern": "whitespace", **parameters}
    run(
        lambda p: p
        | beam.Create(list(texts))
        | CountWords(shards=shards, **parameters)
        | WriteWords(str(folder), overwrite=overwrite)
    )


def test_rows_of_a_table_that_was_read(tmp_path):
    write(tmp_path / "w", "low low", "lower newest")

    def build(p):
        assert_that(p | ReadWords(str(tmp_path / "w")) | WordRows(), equal_to([(b"low", 2), (b"lower", 1), (b"newest", 1)]))

    run(build)


def test_tables_of_two_runs_are_summed(tmp_path):
    write(tmp_path / "old", "a b", "a")

    def build(p):
        old = p | ReadWords(str(tmp_path / "old"))
        new = p | beam.Create(["b c", "d"]) | CountWords(pattern="whitespace", shards=4)
        (old, new) | beam.Flatten() | MergeWords() | WriteWords(str(tmp_path / "sum"))

    run(build)
    table = WordCounts.read(str(tmp_path / "sum"))
    assert table.to_dict() == {b"a": 2, b"b": 2, b"c": 1, b"d": 1}
    assert table.totals["documents"] == 4 and table.totals["words"] == 6
    write(tmp_path / "once", "a b", "a", "b c", "d")
    assert {p.name: p.read_bytes() for p in (tmp_path / "sum").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "once").iterdir()
    }


def test_counts_of_documents_are_summed(tmp_path):
    write(tmp_path / "old", "a a b", documents=True)

    def build(p):
        tables = [p | str(i) >> ReadWords(str(tmp_path / "old")) for i in range(2)]
        tables | beam.Flatten() | MergeWords() | WriteWords(str(tmp_path / "sum"))

    run(build)
    table = WordCounts.read(str(tmp_path / "sum")).table.sort_by("word")
    assert table.to_pydict() == {"word": [b"a", b"b"], "count": [4, 2], "documents": [2, 2]}


@pytest.mark.parametrize(
    "other, message",
    [
        ({"pattern": "gpt2"}, "counted with different parameters"),
        ({"special_tokens": ["<|end|>"]}, "counted with different parameters"),
        ({"max_word_bytes": 99}, "counted with different parameters"),
        ({"shards": 3}, "shards"),
    ],
)
@pytest.mark.parametrize("text", ["a b c d e f g h i j k l", "a"])
def test_tables_made_differently_are_not_summed(other, message, text, tmp_path):
    write(tmp_path / "old", text, shards=4)

    def build(p):
        old = p | ReadWords(str(tmp_path / "old"))
        new = p | beam.Create([text]) | CountWords(**{"pattern": "whitespace", "shards": 4, **other})
        (old, new) | beam.Flatten() | MergeWords() | WriteWords(str(tmp_path / "sum"))

    with pytest.raises(ValueError, match=message):
        run(build)
    assert "_manifest.json" not in listed(tmp_path / "sum")


def test_a_folder_without_manifest_is_no_table(tmp_path):
    write(tmp_path / "w", "a")
    (tmp_path / "w" / "_manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match="no _manifest.json: it is not a finished folder of words"):
        beam.Pipeline(runner=FnApiRunner()) | ReadWords(str(tmp_path / "w"))


def test_a_missing_part_fails_the_job(tmp_path):
    write(tmp_path / "w", "a b c d", shards=1)
    next((tmp_path / "w").glob("part-*")).unlink()
    with pytest.raises(Exception, match="No such file.*part-00000-of-00001"):
        run(lambda p: p | ReadWords(str(tmp_path / "w")) | WordRows())


def test_a_table_that_stands_is_replaced_only_when_asked(tmp_path):
    folder = tmp_path / "w"
    write(folder, "a b c d e f g h", shards=7)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FileExistsError, match="already holds words.*--overwrite"):
        write(folder, "x", shards=2)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    write(folder, "x y z w", shards=2, overwrite=True)
    assert WordCounts.read(str(folder)).to_dict() == {b"w": 1, b"x": 1, b"y": 1, b"z": 1}
    assert [name for name in listed(folder) if "-of-00007" in name] == []


def test_parts_of_a_job_that_failed_are_not_read_and_go(tmp_path):
    folder = tmp_path / "w"
    write(folder, "stale words here", shards=5)
    (folder / "_manifest.json").unlink()
    (folder / "notes.txt").write_text("of somebody else")
    write(folder, "a", shards=1)
    assert listed(folder) == ["_manifest.json", "notes.txt", "part-00000-of-00001.parquet"]
    assert WordCounts.read(str(folder)).to_dict() == {b"a": 1}


def fail_once(element, state={"failed": False}):
    if element[0] >= 0 and not state["failed"]:
        state["failed"] = True
        raise RuntimeError("the first attempt fails")
    return element


def test_a_failing_bundle_leaves_no_manifest(tmp_path):
    def build(p):
        counts = p | beam.Create(["a b c d e f"]) | CountWords(pattern="whitespace", shards=4)
        counts | beam.Map(fail_once) | WriteWords(str(tmp_path / "w"))

    with pytest.raises(RuntimeError, match="the first attempt fails"):
        run(build)
    assert "_manifest.json" not in listed(tmp_path / "w")
    run(build)  # the next attempt, in the same folder
    assert len(WordCounts.read(str(tmp_path / "w"))) == 6


def test_a_part_that_cannot_be_written_leaves_no_manifest(tmp_path, monkeypatch):
    write_parquet = artifacts.write_parquet

    def fail(url, table, header):
        if "part-00002" in url:
            raise OSError(28, "No space left on device", url)
        write_parquet(url, table, header)

    monkeypatch.setattr(artifacts, "write_parquet", fail)
    with pytest.raises(Exception, match="No space left"):
        write(tmp_path / "w", "a b c d e f g h i j k l m n o p", shards=4)
    assert not {"_manifest.json", "part-00002-of-00004.parquet"} & set(listed(tmp_path / "w"))
    assert not [name for name in listed(tmp_path / "w") if name.endswith(".tmp")]


def test_tables_live_in_any_store():
    write("memory://pipeline-store/w", "a b")
    assert WordCounts.read("memory://pipeline-store/w").to_dict() == {b"a": 1, b"b": 1}


# ---- learning ------------------------------------------------------------------------------------


def test_the_six_lines(tmp_path, corpora, documents):
    def build(p):
        done = p | LearnVocabulary(corpora["plain"], str(tmp_path / "out"), 500, special_tokens=SPECIALS, shards=2)
        assert_that(done, equal_to([str(tmp_path / "out")]))

    run(build)
    vocabulary = Vocabulary.load(str(tmp_path / "out"))
    assert len(vocabulary) == 500 and vocabulary.special_tokens == tuple(SPECIALS)
    assert vocabulary == train(WordCounts.from_documents(documents, special_tokens=SPECIALS), 500, special_tokens=SPECIALS)
    assert len(WordCounts.read(str(tmp_path / "out" / "words"))) > 500


@pytest.mark.parametrize(
    "options, message",
    [
        ({"vocab_size": 255}, "vocab_size is 255"),
        ({"vocab_size": 256, "special_tokens": ["x"]}, "256 bytes and 1 special tokens take 257"),
        ({"vocab_size": 300, "tie_break": "first"}, "depends on the order of the text"),
        ({"vocab_size": 300, "special_tokens": [""]}, "special token 0 is empty"),
        ({"vocab_size": 300, "documents": "word"}, "documents='word'"),
        ({"vocab_size": 300, "errors": "ignore"}, "errors='ignore'"),
    ],
)
def test_parameters_of_learning_are_checked_when_the_pipeline_is_built(options, message):
    with pytest.raises(ValueError, match=message):
        LearnVocabulary("anywhere", "nowhere", **options)


def learn_from(folder, output, vocab_size=258, **options):
    run(lambda p: p | beam.Create([str(folder)]) | TrainVocabulary(str(output), vocab_size, **options))


def test_learning_again_is_idempotent_and_refuses_another_vocabulary(tmp_path):
    write(tmp_path / "w", "low low lower newest newest widest")
    learn_from(tmp_path / "w", tmp_path / "v")
    before = payload(tmp_path / "v")
    learn_from(tmp_path / "w", tmp_path / "v")
    assert payload(tmp_path / "v") == before
    with pytest.raises(FileExistsError, match="already holds a vocabulary"):
        learn_from(tmp_path / "w", tmp_path / "v", 257)
    assert payload(tmp_path / "v") == before
    learn_from(tmp_path / "w", tmp_path / "v", 257, overwrite=True)
    assert len(Vocabulary.load(str(tmp_path / "v"))) == 257


def test_rare_words_are_left_out_of_learning(tmp_path):
    write(tmp_path / "w", "aa aa bb")
    learn_from(tmp_path / "w", tmp_path / "v", 300, min_count=2, min_pair_count=1)
    vocabulary = Vocabulary.load(str(tmp_path / "v"))
    assert [merge.token for merge in vocabulary.merges] == [b"aa"]
    assert (vocabulary.totals["pruned_words"], vocabulary.totals["pruned_occurrences"]) == (1, 1)


def test_special_tokens_inside_words_are_refused(tmp_path):
    write(tmp_path / "w", "a<|end|>b", "a")
    with pytest.raises(ValueError, match=r"'<\|end\|>' occurs inside the word"):
        learn_from(tmp_path / "w", tmp_path / "v", 300, special_tokens=["<|end|>"])
    assert listed(tmp_path / "v") == []


def test_no_vocabulary_when_writing_fails(tmp_path, monkeypatch):
    write(tmp_path / "w", "low low lower")
    write_parquet = artifacts.write_parquet

    def fail(url, table, header):
        if url.endswith(VOCABULARY_FILE):
            raise OSError(28, "No space left on device", url)
        write_parquet(url, table, header)

    monkeypatch.setattr(artifacts, "write_parquet", fail)
    with pytest.raises(Exception, match="No space left"):
        learn_from(tmp_path / "w", tmp_path / "v")
    with pytest.raises(FileNotFoundError, match="holds no vocabulary"):
        Vocabulary.load(str(tmp_path / "v"))


# ---- metrics, totals, display data, the graph ----------------------------------------------------


def counters(result) -> Counter:
    found: Counter = Counter()
    for counter in result.metrics().query(MetricsFilter().with_namespace("beam_bpe"))["counters"]:
        found[counter.key.metric.name] += counter.result
    return found


def test_counters_of_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one two\xff longer\n")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "one"}\nbroken\n')
    result = run(
        lambda p: p
        | ReadDocuments([str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")], documents="line", errors="skip")
        | CountWords(pattern="whitespace", max_word_bytes=5)
        | WriteWords(str(tmp_path / "w"))
    )
    found = counters(result)
    assert (found["documents"], found["skipped_documents"], found["words"]) == (1, 2, 1)
    (tmp_path / "w" / "_manifest.json").unlink()
    result = run(
        lambda p: p
        | ReadDocuments(str(tmp_path / "a.txt"), pattern="whitespace")
        | CountWords(pattern="whitespace", max_word_bytes=5)
        | WriteWords(str(tmp_path / "w"))
        | TrainVocabulary(str(tmp_path / "v"), 300, min_pair_count=1)
    )
    found = counters(result)
    assert {name: found[name] for name in ("documents", "bytes", "words", "overlong_words", "replaced_characters")} == {
        "documents": 1,
        "bytes": len("one two\ufffd longer\n".encode()),
        "words": 1,
        "overlong_words": 2,
        "replaced_characters": 1,
    }
    assert found["merges"] == 2


def test_counters_of_documents_of_ones_own():
    result = run(lambda p: p | beam.Create(["a b", b"\xff"]) | CountWords(pattern="whitespace"))
    found = counters(result)
    assert (found["documents"], found["bytes"], found["words"], found["replaced_characters"]) == (2, 6, 3, 1)


class _OverCount(beam.DoFn):
    def process(self, element):
        for name in ("documents", "bytes", "words"):
            Metrics.counter("beam_bpe", name).inc(1000)
        yield element


def test_totals_do_not_follow_metrics_that_count_too_much(tmp_path):
    result = run(
        lambda p: p
        | beam.Create(["a b", "a"])
        | beam.ParDo(_OverCount())
        | CountWords(pattern="whitespace")
        | WriteWords(str(tmp_path / "w"))
    )
    assert counters(result)["words"] == 2003
    totals = artifacts.read_manifest(str(tmp_path / "w"), "words")["totals"]
    assert (totals["documents"], totals["bytes"], totals["words"]) == (2, 4, 3)


def shown(transform) -> dict:
    return {item.key: item.value for item in DisplayData.create_from(transform).items}


def test_display_data():
    assert shown(CountWords(pattern=r"\w+", shards=3)) == {"pattern": r"\w+", "shards": 3, "documents": False}
    assert shown(ReadDocuments("gs://b/*.txt", errors="skip")) == {
        "inputs": "gs://b/*.txt",
        "documents": "file",
        "errors": "skip",
    }
    assert shown(WriteWords("gs://b/w")) == {"folder": "gs://b/w"}
    assert shown(ReadWords("gs://b/w")) == {"folder": "gs://b/w"}
    assert shown(TrainVocabulary("gs://b/v", 300)) == {"output": "gs://b/v", "algorithm": "bpe", "vocab_size": 300}


def test_types_of_outputs(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    write(tmp_path / "old", "a")
    p = beam.Pipeline(runner=FnApiRunner())
    read = p | ReadDocuments(str(tmp_path))
    assert read.element_type == DocumentBatch
    counts = read | CountWords()
    pair = beam.typehints.Tuple[int, bytes]
    assert counts.element_type == pair
    assert (counts | MergeWords()).element_type == pair
    assert (p | ReadWords(str(tmp_path / "old"))).element_type == pair
    assert (counts | WordRows()).element_type == CountedWord
    folder = counts | WriteWords(str(tmp_path / "w"))
    assert folder.element_type is str
    assert (folder | TrainVocabulary(str(tmp_path / "v"), 300)).element_type is str
    assert (p | LearnVocabulary(str(tmp_path / "a.txt"), str(tmp_path / "o"), 300)).element_type is str


def test_rows_have_a_schema():
    coder = beam.coders.registry.get_coder(CountedWord)
    row = coder.decode(coder.encode(CountedWord(b"a\xff", 2**40)))
    assert row == (b"a\xff", 2**40) and isinstance(coder, beam.coders.RowCoder)


def functions(pcollection) -> list[beam.DoFn]:
    """Return the DoFns of the pipeline that gives a collection."""
    found = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node):
            fn = getattr(node.transform, "fn", None)
            if fn is not None and type(fn).__module__.startswith("beam_bpe"):
                found.append(fn)

    pcollection.pipeline.visit(Visitor())
    return found


def test_functions_are_small_in_the_graph(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    p = beam.Pipeline(runner=FnApiRunner())
    done = p | LearnVocabulary(str(tmp_path), str(tmp_path / "o"), 300, pattern=r"\w+|\W+", special_tokens=SPECIALS)
    found = functions(done)
    assert {type(fn).__name__ for fn in found} == {"_RangesFn", "_ReadFn", "_CountFn", "_MergeFn", "_WritePartFn", "StoredMap", "_TrainFn"}
    for fn in found:
        assert len(pickler.dumps(fn)) < 4000, type(fn).__name__


def test_a_listing_of_a_hundred_thousand_files_is_a_small_graph(monkeypatch, tmp_path):
    rng = random.Random(3)
    files = [
        SourceFile(f"gs://a-bucket/crawl-2026-30/segments/part-{i:06d}-{rng.getrandbits(64):016x}.jsonl.zst", rng.getrandbits(28), "zstd")
        for i in range(100_000)
    ]
    monkeypatch.setattr(read_module, "find_files", lambda inputs, reading: files)
    p = beam.Pipeline(runner=FnApiRunner())
    p | LearnVocabulary("gs://a-bucket/**", str(tmp_path / "o"), 32000, shards=1000)
    assert p.to_runner_api().ByteSize() < 4 << 20


def test_all_the_files_of_a_long_listing_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(read_module, "_FILES_PER_PACK", 7)
    for i in range(50):
        (tmp_path / f"{i}.txt").write_text(f"word{i}")
    run(lambda p: p | ReadDocuments(str(tmp_path)) | CountWords(pattern="none") | WriteWords(str(tmp_path / "w")))
    assert WordCounts.read(str(tmp_path / "w")).to_dict() == {f"word{i}".encode(): 1 for i in range(50)}


def test_shards_grow_with_the_input():
    assert [shards_for(size) for size in (0, 1 << 30, 10 << 40)] == [4, 4, 13654]


def test_the_listing_is_asked_for_once(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a")
    calls = []
    find = read_module.find_files
    monkeypatch.setattr(read_module, "find_files", lambda *args: calls.append(args) or find(*args))
    read = ReadDocuments(str(tmp_path))
    assert read.total_bytes == 1 and len(read.files) == 1
    beam.Pipeline(runner=FnApiRunner()) | read
    assert len(calls) == 1


@pytest.mark.parametrize("options, message", [({"range_bytes": 0}, "range_bytes is 0"), ({"format": "csv"}, "format='csv'")])
def test_parameters_of_reading_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        ReadDocuments("anything", **options)


def test_parts_carry_no_trace_of_the_run(tmp_path):
    write(tmp_path / "w", "a b c")
    part = next((tmp_path / "w").glob("part-*"))
    header = json.loads(pq.read_schema(part).metadata[artifacts.KEY])
    assert set(header) == {"kind", "parameters", "version"}
    manifest = storage.read_bytes(str(tmp_path / "w" / "_manifest.json")).decode()
    assert str(tmp_path) not in manifest and storage.run_id() not in manifest


# ---- a runner that loses elements ----


def test_words_that_a_runner_lost_are_not_published(tmp_path):
    """Totals travel beside the words, so that a table that lacks some is found out."""
    kept = []

    def lose_one(pair):
        if pair[0] >= 0 and not kept:
            kept.append(pair)
            return []
        return [pair]

    with pytest.raises(Exception, match="words were counted, but .* arrived"):
        with beam.Pipeline(runner="FnApiRunner") as p:
            counted = p | beam.Create(["a b c d e f g h"]) | CountWords(pattern="whitespace", shards=4)
            counted | beam.FlatMap(lose_one) | WriteWords(str(tmp_path / "words"))
    assert not (tmp_path / "words" / "_manifest.json").exists()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_of_a_bundle_change_nothing(threads, tmp_path):
    (tmp_path / "a.txt").write_text("low lower newest widest " * 5000)
    with beam.Pipeline(runner="FnApiRunner") as p:
        documents = p | ReadDocuments(str(tmp_path / "a.txt"), pattern="whitespace", range_bytes=1000)
        documents | CountWords(pattern="whitespace", threads=threads) | WriteWords(str(tmp_path / "words"))
    words = WordCounts.read(str(tmp_path / "words"))
    assert words.to_dict() == dict.fromkeys([b"low", b"lower", b"newest", b"widest"], 5000)
    assert words.totals["bytes"] == (tmp_path / "a.txt").stat().st_size


def test_what_a_thread_raises_fails_the_bundle(tmp_path):
    (tmp_path / "a.txt").write_text("a" * 50_000)
    with pytest.raises(Exception, match="took more than"):
        with beam.Pipeline(runner="FnApiRunner") as p:
            documents = p | ReadDocuments(str(tmp_path / "a.txt"))
            documents | CountWords(pattern=r"(a+)+b", threads=3, time_limit=0.2) | WriteWords(str(tmp_path / "words"))


def test_a_large_shard_is_merged_a_few_times(monkeypatch):
    """Not for each table that comes, once it is larger than what is gathered; the sum is the same."""

    def packed(number):
        table = WordCounts.from_mapping({f"{number}-{i}": 1 for i in range(50)} | {"low": 2})
        native = _words.WordTable()
        for batch in table.batches():
            native.add_columns(batch.data, batch.offsets, batch.counts)
        return native.pack(1, ordered=True)[0][1]

    values = [frame({"a": 1}, packed(number)) for number in range(200)]
    merges = []
    merge = _words.merge_packed
    monkeypatch.setattr(count_module, "_MERGED_AT", 4000)
    monkeypatch.setattr(_words, "merge_packed", lambda waiting: merges.append(len(waiting)) or merge(waiting))
    [(shard, framed)] = count_module.merged(0, values)
    assert framed == frame({"a": 1}, merge([packed(number) for number in range(200)]))
    assert 3 < len(merges) < 12 and sum(merges) < 230


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("low")

    def refused(url, data):
        raise OSError(30, "Read-only file system", url)

    monkeypatch.setattr(storage, "write_bytes", refused)
    counted = beam.Pipeline(runner=FnApiRunner()) | ReadDocuments(str(tmp_path / "a.txt")) | CountWords()
    with pytest.raises(OSError, match="Read-only file system"):
        counted | WriteWords(str(tmp_path / "out"))
