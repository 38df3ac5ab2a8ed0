"""The transforms that encode and decode: the same bytes however the work is cut, and rows that keep what they had."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import typing
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.internal import pickler
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from apache_beam.typehints import row_type
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

import beam_bpe.cli
from beam_bpe import artifacts, encoding, shards, storage, train
from beam_bpe.documents import InputError
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.transforms import Decode, Encode, EncodeFiles
from beam_bpe.transforms import encode as module
from beam_bpe.transforms import encode_files, vocabularies
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).resolve().parent.parent
END = "<|end|>"
TEXTS = ["low lower lowest", "", "the newest news: 12 機器 👍🏽", "wide wider", f"a {END} b", "low"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return train(WordCounts.from_documents(TEXTS * 5), 256 + 40, special_tokens=[END])


@pytest.fixture(scope="module")
def tokenizer(vocabulary) -> Tokenizer:
    return Tokenizer(vocabulary)


def run(build, *flags: str):
    """Run a pipeline in this process, or as the flags of the local runner say, and return its result."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def counters(result) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace("beam_bpe"))["counters"]
    return {counter.key.metric.name: counter.committed for counter in found}


def ids_of(tokenizer, text, special="text") -> list[int]:
    data = text.encode() if isinstance(text, str) else text
    return tokenizer.encode_documents(data, np.array([0, len(data)], np.int64), special=special).ids.tolist()


def contents(folder) -> dict[str, bytes]:
    paths = (path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.parent.name != encoding.PARTS)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Return a folder of text, JSON lines and Parquet, of some 12 ranges of 1,000 bytes."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(" ".join(TEXTS * 30))
    (folder / "b.jsonl").write_text("".join(json.dumps({"text": text, "n": i}) + "\n" for i, text in enumerate(TEXTS * 12)))
    table = pa.table({"text": TEXTS * 40, "n": range(len(TEXTS) * 40)})
    pq.write_table(table, folder / "c.parquet", row_group_size=20)
    return folder


@pytest.fixture(scope="module")
def plain(corpus, vocabulary, tmp_path_factory) -> dict[str, bytes]:
    """Return the bytes of the output of one run."""
    out = tmp_path_factory.mktemp("plain") / "out"
    run(lambda p: p | EncodeFiles(str(corpus), str(out), vocabulary, range_bytes=1000))
    assert len(contents(out)) > 8
    return contents(out)


THREADS = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("flags", [[], THREADS, PROCESSES], ids=["one", "threads", "processes"])
def test_bytes_are_the_same_for_any_workers(flags, threads, corpus, plain, vocabulary, tmp_path):
    job = EncodeFiles(str(corpus), str(tmp_path / "out"), vocabulary, range_bytes=1000, threads=threads)
    run(lambda p: p | job, *flags)
    assert contents(tmp_path / "out") == plain


def test_the_output_is_the_folder_and_metrics_are_the_totals(corpus, vocabulary, tmp_path):
    out = str(tmp_path / "out")
    result = run(lambda p: assert_that(p | EncodeFiles(str(corpus), out, vocabulary), equal_to([out])))
    manifest = artifacts.read_manifest(out, shards.KIND)
    found = counters(result)
    assert found["tokens"] == manifest["totals"]["tokens"] and found["encoded_documents"] == 1 + len(TEXTS) * 52
    again = run(lambda p: p | EncodeFiles(str(corpus), out, vocabulary, resume=True))
    assert counters(again) == {"resumed_shards": 3}
    assert artifacts.read_manifest(out, shards.KIND) == manifest


@pytest.mark.parametrize("format", shards.FORMATS)
def test_files_of_every_format(format, corpus, vocabulary, tokenizer, tmp_path):
    out = str(tmp_path / "out")
    options = {"format": format, "special": "encode", "eos": [END], "documents": "line"}
    run(lambda p: p | EncodeFiles(str(corpus / "b.jsonl"), out, vocabulary, keep=["n"], **options))
    end = tokenizer.id_of(END)
    found = [(ids.tolist(), n) for _, batch in encoding.read_documents(out)
             for ids, n in zip(np.split(batch.ids, batch.ends[:-1]), batch.columns["n"].to_pylist())]  # fmt: skip
    assert found == [([*ids_of(tokenizer, text, "encode"), end], str(i)) for i, text in enumerate(TEXTS * 12)]


def test_output_in_memory(corpus, vocabulary, plain):
    run(lambda p: p | EncodeFiles(str(corpus), "memory://encode-files/out", vocabulary, range_bytes=1000))
    for name, data in plain.items():
        assert storage.read_bytes(f"memory://encode-files/out/{name}") == data


def test_one_failing_range_fails_the_job_and_leaves_no_manifest(corpus, vocabulary, tmp_path):
    out = tmp_path / "out"
    for threads in (1, 3):
        with pytest.raises(InputError, match="holds the special token.*errors='skip' sets the document aside"):
            run(lambda p: p | EncodeFiles(str(corpus), str(out), vocabulary, special="fail", threads=threads))
        assert not (out / artifacts.MANIFEST).exists()
    job = EncodeFiles(str(corpus), str(out), vocabulary, special="fail", errors="skip")
    run(lambda p: p | job)
    totals = artifacts.read_manifest(str(out), shards.KIND)["totals"]
    assert totals["failed_documents"] == 53 and totals["documents"] == 53 + totals["encoded_documents"]
    assert sum(len(path.read_bytes().splitlines()) for path in (out / "rejected").iterdir()) == 53


def test_lost_shards_are_found_out(tmp_path):
    with pytest.raises(ValueError, match="3 ranges were read, but 1 shards arrived"):
        encode_files._publish(str(tmp_path), ['{"name": "a"}', '{"name": "a"}'], {}, 3)


def test_what_is_refused_when_files_are_encoded(corpus, vocabulary, tmp_path):
    out = str(tmp_path / "out")

    def refused(kind, match, **options):
        with pytest.raises(kind, match=match):
            EncodeFiles(str(corpus), out, vocabulary, **options)

    refused(ValueError, "format='csv'", format="csv")
    refused(ValueError, "special='x'", special="x")
    refused(ValueError, "errors='x'", errors="x")
    refused(ValueError, "documents='x'", documents="x")
    refused(ValueError, "method='x'", method="x")
    refused(ValueError, "goes with a separator", separator="x")
    refused(ValueError, "range_bytes is 0", range_bytes=0)
    refused(ValueError, "threads is 0", threads=0)
    refused(ValueError, "must be more than", most=1, bos=[END])
    refused(ValueError, "go with pack", remainder="pad")
    refused(ValueError, "go with pack", pad=END)
    refused(ValueError, "needs pad", pack=8, pack_whole=True)
    refused(ValueError, "goes with remainder='pad', not 'drop'", pack=8, pad=END, remainder="drop")
    refused(ValueError, "needs the id of padding", pack=8, remainder="pad")
    refused(ValueError, "packs documents itself", pack=8, format="megatron")
    refused(ValueError, "has rows of one length only", pack=8, remainder="keep", format="npy")
    refused(ValueError, "holds several documents", pack=8, keep=["n"])
    refused(ValueError, "by_path=True goes with the path", by_path=True)
    refused(ValueError, "contradict each other", overwrite=True, resume=True)
    refused(KeyError, "no token of this vocabulary", bos=["<none>"])
    refused(KeyError, "no token of this vocabulary", eos=[5000])
    refused(KeyError, "no token of this vocabulary", pack=8, pad=5000)
    refused(TypeError, "not one text", bos=END)
    refused(TypeError, "not one text", keep="n")
    with pytest.raises(FileNotFoundError):
        EncodeFiles(str(corpus), out, str(tmp_path / "none"))
    with pytest.raises(ValueError, match="text files have no columns"):
        run(lambda p: p | EncodeFiles(str(corpus / "a.txt"), out, vocabulary, keep=["n"]))
    with pytest.raises(FileNotFoundError):
        run(lambda p: p | EncodeFiles(str(tmp_path / "none"), out, vocabulary))
    assert not os.path.exists(out)


def test_padding_chooses_the_remainder(vocabulary):
    packing = EncodeFiles("x", "y", vocabulary, pack=8, pad=END).parameters["packing"]
    assert packing["remainder"] == "pad" and packing["pad_id"] == vocabulary.special_ids[END]


def test_a_folder_that_holds_documents_is_refused(corpus, vocabulary, tmp_path):
    out = str(tmp_path / "out")
    run(lambda p: p | EncodeFiles(str(corpus), out, vocabulary))
    with pytest.raises(FileExistsError, match="already holds encoded documents"):
        run(lambda p: p | EncodeFiles(str(corpus), out, vocabulary))
    with pytest.raises(FileExistsError, match="encoded in another way"):
        run(lambda p: p | EncodeFiles(str(corpus), out, vocabulary, special="drop", resume=True))
    run(lambda p: p | EncodeFiles(str(corpus), out, vocabulary, special="drop", overwrite=True))
    assert artifacts.read_manifest(out, shards.KIND)["parameters"]["special"] == "drop"


SCRIPT = """
import sys, time
from beam_bpe import encoding
real = encoding.encode_range
def slowed(*args, **options):
    line = real(*args, **options)
    time.sleep(0.3)
    return line
encoding.encode_range = slowed
from beam_bpe.cli import main
main()
"""


def test_killed_in_the_middle(corpus, vocabulary, plain, tmp_path):
    vocabulary.save(str(tmp_path / "v"))
    for format, again in (("parquet", []), ("parquet", ["--resume"]), ("npy", ["--resume"])):
        out, undisturbed = tmp_path / f"out-{format}-{len(again)}", tmp_path / f"plain-{format}"
        command = ["encode", str(corpus), "-v", str(tmp_path / "v"), "--range-bytes", "1000", "--format", format, "-o"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, *command, str(out)], env=env, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(list(out.glob("_parts/part-*.json"))) < 3 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        stand = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
        finished = {path.stem for path in out.glob("_parts/part-*.json")}
        assert len(finished) >= 3 and not (out / artifacts.MANIFEST).exists()
        with pytest.raises(FileNotFoundError, match="not a finished folder"):
            list(encoding.read_documents(str(out)))
        assert beam_bpe.cli.main([*command, str(out), *again]) == 0
        if not undisturbed.exists():
            assert beam_bpe.cli.main([*command, str(undisturbed)]) == 0
        left = {name for name in contents(out) if name.startswith(".")}  # of the killed one: swept after a day
        assert {name: data for name, data in contents(out).items() if name not in left} == contents(undisturbed)
        for path, written in stand.items():
            if again and path.name.split(".")[0] in finished:
                assert path.stat().st_mtime_ns == written
    assert contents(tmp_path / "plain-parquet") == plain


# ---- elements of a collection --------------------------------------------------------------------


Named = typing.NamedTuple("Named", [("text", str), ("n", int)])  # its types must be types, not their names


@dataclasses.dataclass
class Data:
    text: str
    n: int


def as_dict(row) -> dict:
    return row if isinstance(row, dict) else row._asdict()


ELEMENTS = {
    "str": lambda text, n: text,
    "bytes": lambda text, n: text.encode(),
    "row": lambda text, n: beam.Row(text=text, n=n),
    "named": Named,
    "data": Data,
    "dict": lambda text, n: {"text": text, "n": n},
}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_of_every_kind(kind, vocabulary, tokenizer):
    elements = [ELEMENTS[kind](text, i) for i, text in enumerate(TEXTS)]
    rest = [{} if kind in ("str", "bytes") else {"n": i} for i in range(len(TEXTS))]
    wanted = [
        {"text": text.encode() if kind == "bytes" else text, "ids": ids_of(tokenizer, text), **more}
        for text, more in zip(TEXTS, rest)
    ]

    def plain_row(row) -> dict:
        return {**as_dict(row), "ids": list(as_dict(row)["ids"])}

    def build(p):
        found = p | beam.Create(elements) | Encode(vocabulary)
        assert_that(found | "Plain" >> beam.Map(plain_row), equal_to(wanted))
        back = found | Decode(vocabulary, text="again") | "Text" >> beam.Map(lambda row: as_dict(row)["again"])
        assert_that(back, equal_to(TEXTS), label="back")

    run(build)


def test_the_type_of_the_rows(vocabulary):
    p = beam.Pipeline(runner=FnApiRunner())

    def fields(collection) -> dict:
        assert isinstance(collection.element_type, row_type.RowTypeConstraint)
        return dict(collection.element_type._fields)

    ids = typing.Sequence[np.int64]
    assert fields(p | "a" >> beam.Create(TEXTS) | "A" >> Encode(vocabulary)) == {"text": str, "ids": ids}
    assert fields(p | "b" >> beam.Create([b"x"]) | "B" >> Encode(vocabulary, column="t", ids="i")) == {"t": bytes, "i": ids}
    named = p | "c" >> beam.Create([Named("x", 1)]).with_output_types(Named)
    assert fields(named | "C" >> Encode(vocabulary)) == {"text": str, "n": int, "ids": ids}
    rows = p | "d" >> beam.Create(["x"]) | beam.Select(text=lambda text: text, n=lambda text: 1)
    encoded = rows | "D" >> Encode(vocabulary, dead_letters=True)
    assert list(fields(encoded.encoded)) == ["text", "n", "ids"]
    assert list(fields(encoded.encoded | "E" >> Decode(vocabulary, text="back"))) == ["text", "n", "ids", "back"]
    listed = p | "f" >> beam.Create([[1, 2]]) | "F" >> Decode(vocabulary)
    assert listed.element_type is str
    dicts = p | "g" >> beam.Create([{"ids": [1]}]) | "G" >> Decode(vocabulary)
    assert dicts.element_type is not str


def test_rows_can_be_used_as_rows(vocabulary, tokenizer):
    def build(p):
        rows = p | beam.Create([("low", 1), ("newest", 2)]) | beam.Select(text=lambda e: str(e[0]), n=lambda e: int(e[1]))
        encoded = rows | Encode(vocabulary) | beam.Reshuffle()  # through the coder of rows
        summed = encoded | beam.GroupBy().aggregate_field(lambda row: len(row.ids), sum, "tokens") | beam.Map(lambda r: r.tokens)
        assert_that(summed, equal_to([sum(len(ids_of(tokenizer, text)) for text in ("low", "newest"))]))
        chosen = encoded | beam.Select("n", first=lambda row: int(row.ids[0])) | "Plain" >> beam.Map(tuple)
        assert_that(chosen, equal_to([(n, ids_of(tokenizer, t)[0]) for n, t in ((1, "low"), (2, "newest"))]), label="select")

    run(build)


class _Windowing(beam.DoFn):
    def process(self, row, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
        yield as_dict(row)["text"], float(time), (float(window.start), float(window.end)), repr(pane)


class _WithPane(beam.DoFn):
    def process(self, text, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        yield WindowedValue(text, time, [window], PaneInfo(False, False, PaneInfoTiming.LATE, len(text), 3))


@pytest.mark.parametrize("batch_bytes", [1, 20, 1 << 20])
@pytest.mark.parametrize("windows", [FixedWindows(10), SlidingWindows(10, 5)], ids=["fixed", "sliding"])
def test_windows_timestamps_and_panes_stay(windows, batch_bytes, vocabulary):
    def build(p):
        elements = [TimestampedValue(text, 3.0 * i) for i, text in enumerate(TEXTS * 3)]
        windowed = p | beam.Create(elements) | beam.WindowInto(windows) | beam.ParDo(_WithPane())
        before = windowed | "As rows" >> beam.Map(lambda text: beam.Row(text=text)) | "Before" >> beam.ParDo(_Windowing())
        after = windowed | Encode(vocabulary, batch_bytes=batch_bytes) | "After" >> beam.ParDo(_Windowing())
        counted = (
            (before | "One" >> beam.Map(lambda found: (found, 1)), after | "Other" >> beam.Map(lambda found: (found, -1)))
            | beam.Flatten()
            | "All" >> beam.WindowInto(beam.window.GlobalWindows())
            | beam.CombinePerKey(sum)
            | beam.Values()
        )
        assert_that(counted | beam.Distinct(), equal_to([0]))

    run(build)


def test_dead_letters_keep_their_windows(vocabulary):
    def build(p):
        elements = [TimestampedValue(text, 10.0 * i) for i, text in enumerate(["low", f"x{END}", "new"])]
        windowed = p | beam.Create(elements) | beam.WindowInto(FixedWindows(10))
        failed = (windowed | Encode(vocabulary, special="fail", dead_letters=True)).dead_letters
        told = failed | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (pair[0], float(w.start)))
        assert_that(told | "All" >> beam.WindowInto(beam.window.GlobalWindows()), equal_to([(f"x{END}", 10.0)]))

    run(build)


def test_what_cannot_be_encoded(vocabulary):
    elements = [
        {"text": "low", "n": 1},
        {"text": f"a{END}", "n": 2},
        {"text": None, "n": 3},
        {"n": 4},
        {"text": "x", "ids": [1], "n": 5},
        {"text": "new", "n": 6},
    ]

    def build(p):
        found = p | beam.Create(elements) | Encode(vocabulary, special="fail", dead_letters=True)
        assert_that(found.encoded | "N" >> beam.Map(lambda row: row["n"]), equal_to([1, 6]))
        reasons = [
            (2, f"the document holds the special token '{END}' at byte 1, and special='fail': choose 'text', 'encode' or 'drop'"),
            (3, "the text is a NoneType, neither str nor bytes: 'None'"),
            (4, "the element, a dict, has no column 'text'; it has n"),
            (5, "the element has a column 'ids' already: choose another name for the new one"),
        ]
        assert_that(found.dead_letters | beam.Map(lambda pair: (pair[0]["n"], pair[1])), equal_to(reasons), label="letters")

    result = run(build)
    assert counters(result)["failed_documents"] == 4 and counters(result)["encoded_documents"] == 2
    for element in elements[1:5]:
        with pytest.raises((ValueError, TypeError)):
            run(lambda p: p | beam.Create([element]) | Encode(vocabulary, special="fail"))


def test_what_cannot_be_decoded(vocabulary, tokenizer):
    halves = tokenizer.encode("é".encode()[:1])

    def build(p):
        elements = [ids_of(tokenizer, "low"), [99_999], [-1], halves, []]
        found = p | beam.Create(elements) | Decode(vocabulary, errors="strict", dead_letters=True)
        assert_that(found.decoded, equal_to(["low", ""]))
        assert_that(found.dead_letters | beam.Map(lambda pair: list(pair[0])), equal_to([[99_999], [-1], halves]), label="letters")
        told = found.dead_letters | "Reason" >> beam.Map(lambda pair: pair[1][:30])
        reasons = ["id 99999", "id -1", "'utf-8' codec"]
        assert_that(told | "Begins" >> beam.Map(lambda reason: next(r for r in reasons if reason.startswith(r))), equal_to(reasons), label="reasons")

    run(build)
    with pytest.raises(KeyError):
        run(lambda p: p | beam.Create([[99_999]]) | Decode(vocabulary))


def test_bytes_come_back_as_they_were(vocabulary, tokenizer):
    data = bytes(range(256)) * 3

    def build(p):
        rows = p | beam.Create([data, b"\xff", b""]) | Encode(vocabulary)
        assert_that(rows | beam.Map(lambda row: tokenizer.decode_bytes(np.array(row.ids, np.uint32))), equal_to([data, b"\xff", b""]))

    run(build)


@pytest.mark.parametrize("special", ["text", "encode", "drop"])
def test_marks_and_special_tokens(special, vocabulary, tokenizer):
    end = tokenizer.id_of(END)
    wanted = [[7, *ids_of(tokenizer, text, special)[:6], end] for text in TEXTS]

    def build(p):
        rows = p | beam.Create(TEXTS) | Encode(vocabulary, special=special, bos=[7], eos=[END], most=8)
        assert_that(rows | beam.Map(lambda row: list(row.ids)), equal_to(wanted))

    found = counters(run(build))
    assert found["tokens"] == sum(map(len, wanted))
    assert found["cut_documents"] == sum(len(ids_of(tokenizer, text, special)) > 6 for text in TEXTS)


@pytest.mark.parametrize("text, same", [("\ud83d\udc4d", "👍"), ("a\ud83d", "a\ufffd"), ("é", "é")])
def test_surrogates_are_those_of_the_tokenizer(text, same, tokenizer):
    assert module._bytes_of(text) == same.encode()  # Beam's own coders of text refuse them
    assert tokenizer.encode(text) == tokenizer.encode(same)


def test_unbounded_input(vocabulary, tokenizer):
    def build(p):
        stream = test_stream.TestStream()
        for i, text in enumerate(TEXTS):
            stream = stream.add_elements([TimestampedValue(text, 10 * i)]).advance_watermark_to(10 * i + 5)
        texts = p | stream.advance_watermark_to_infinity() | beam.Map(str).with_output_types(str)
        rows = texts | beam.WindowInto(FixedWindows(10)) | Encode(vocabulary)
        counted = rows | beam.Map(lambda row: (len(row.ids), row.text)) | beam.WithKeys(0) | beam.GroupByKey()
        found = counted | beam.Map(lambda kv, w=beam.DoFn.WindowParam: (float(w.start), list(kv[1])))
        wanted = [(10.0 * i, [(len(ids_of(tokenizer, text)), text)]) for i, text in enumerate(TEXTS)]
        assert_that(found | "All" >> beam.WindowInto(beam.window.GlobalWindows()), equal_to(wanted))

    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    build(pipeline)
    pipeline.run().wait_until_finish()


def test_wrong_arguments(vocabulary, tmp_path):
    for kind, match, make in [
        (ValueError, "special='x'", lambda: Encode(vocabulary, special="x")),
        (ValueError, "method='x'", lambda: Encode(vocabulary, method="x")),
        (ValueError, "column and ids are both 'text'", lambda: Encode(vocabulary, ids="text")),
        (ValueError, "batch_bytes is 0", lambda: Encode(vocabulary, batch_bytes=0)),
        (ValueError, "must be more than", lambda: Encode(vocabulary, most=1, eos=[END])),
        (KeyError, "no token", lambda: Encode(vocabulary, eos=["<none>"])),
        (TypeError, "not one text", lambda: Encode(vocabulary, eos=END)),
        (TypeError, "name of a column", lambda: Encode(vocabulary, column=3)),
        (ValueError, "errors='ignore'", lambda: Decode(vocabulary, errors="ignore")),
        (ValueError, "column and text are both 'ids'", lambda: Decode(vocabulary, text="ids")),
        (ValueError, "by_path=True goes with the path", lambda: Decode(vocabulary, by_path=True)),
        (FileNotFoundError, "holds no vocabulary", lambda: Encode(str(tmp_path / "none"))),
    ]:
        with pytest.raises(kind, match=match):
            make()
    p = beam.Pipeline(runner=FnApiRunner())
    rows = p | beam.Create([Named("x", 1)]).with_output_types(Named)
    with pytest.raises(ValueError, match="the rows have no column 'body'; they have text, n"):
        rows | "a" >> Encode(vocabulary, column="body")
    with pytest.raises(ValueError, match="have a column 'n' already"):
        rows | "b" >> Encode(vocabulary, ids="n")


# ---- the vocabulary ------------------------------------------------------------------------------


def test_the_vocabulary_is_loaded_once_a_process(vocabulary, tmp_path, monkeypatch):
    vocabulary.save(str(tmp_path / "v"))
    made = []
    real = vocabularies.Tokenizer

    def counted(*args, **options):
        made.append(args)
        return real(*args, **options)

    step = Encode(str(tmp_path / "v"), by_path=True)
    monkeypatch.setattr(vocabularies, "Tokenizer", counted)
    run(lambda p: p | beam.Create(TEXTS * 40) | beam.Reshuffle() | step, *THREADS)
    assert len(made) == 1


def test_a_vocabulary_that_changes_is_found_out(vocabulary, tmp_path):
    vocabulary.save(str(tmp_path / "v"))
    step = Encode(str(tmp_path / "v"), by_path=True)
    train({"low": 5, "lower": 3}, 258).save(str(tmp_path / "v"), overwrite=True)
    with pytest.raises(ValueError, match="it was changed in between"):
        run(lambda p: p | beam.Create(TEXTS) | step)
    # By content it travels with the job.
    step = Encode(str(tmp_path / "v"))
    (tmp_path / "v" / "vocabulary.parquet").unlink()
    run(lambda p: p | beam.Create(TEXTS) | step)


def test_transforms_are_pickled_by_content_or_by_path(vocabulary, tmp_path):
    vocabulary.save(str(tmp_path / "v"))
    big = train(WordCounts.from_documents(TEXTS), 20_000 + 256, special_tokens=[f"<{i}>" for i in range(19_900)])
    big.save(str(tmp_path / "big"))
    content = pickler.dumps(module._EncodeFn(Encode(str(tmp_path / "big"))))
    path = pickler.dumps(module._EncodeFn(Encode(str(tmp_path / "big"), by_path=True)))
    assert len(path) < 5_000 < len(content)
    for step in (Encode(vocabulary), Decode(vocabulary), Encode(str(tmp_path / "v"), by_path=True)):
        again = pickler.loads(pickler.dumps(step))
        assert again._vocabulary.fingerprint == vocabulary.fingerprint
    job = EncodeFiles("x", "y", vocabulary, pack=8)
    assert pickler.loads(pickler.dumps(job)).parameters == job.parameters
    assert pickle.loads(pickle.dumps(encode_files._EncodeRangeFn(job, 3)))._count == 3


def test_steps_show_what_they_do(vocabulary):
    from apache_beam.transforms.display import DisplayData

    for step in (Encode(vocabulary), Decode(vocabulary), EncodeFiles("x", "y", vocabulary)):
        assert DisplayData.create_from(step).items


def test_rows_reach_a_step_that_takes_batches(vocabulary, tokenizer, tmp_path):
    """Beam loses what finish_bundle hands to such a step directly: all rows of a small collection."""
    rows = [beam.Row(text=text, n=n) for n, text in enumerate(TEXTS)]
    run(lambda p: p | beam.Create(rows) | Encode(vocabulary) | beam.io.WriteToParquet(str(tmp_path / "rows")))
    written = pq.read_table(str(next(tmp_path.iterdir()))).to_pylist()
    assert sorted((row["n"], row["ids"]) for row in written) == [(n, ids_of(tokenizer, text)) for n, text in enumerate(TEXTS)]
