"""Windows and unbounded input, as far as the local runners go: tables a window, late data, bounded memory."""

from __future__ import annotations

import gc
import json
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, IntervalWindow, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from beam_bpe import WordCounts, train
from beam_bpe.framing import TOTALS_SHARD, unframe
from beam_bpe.transforms import CountWords, Encode, EncodeFiles, WriteShards, WriteWindowedWords
from beam_bpe.transforms import count as count_module
from beam_bpe.transforms import windowed as windowed_module

START = 1767225600  # 2026-01-01T00:00:00Z
TEXTS = ["low low", "newest", "lower low", "widest", "low newest"]  # one in five seconds


def counted(pipeline, **options):
    stamped = [TimestampedValue(text, START + 5 * i) for i, text in enumerate(TEXTS)]
    return pipeline | beam.Create(stamped) | beam.WindowInto(FixedWindows(10)) | CountWords("whitespace", **options)


def tables(folder: Path) -> dict[str, dict[bytes, int]]:
    return {path.name: WordCounts.read(str(path)).to_dict() for path in folder.iterdir()}


def words_of(*texts: str) -> dict[bytes, int]:
    return dict(Counter(" ".join(texts).encode().split()))


@pytest.mark.parametrize("shards", [1, 4])
def test_a_table_for_each_window(shards, tmp_path):
    with beam.Pipeline(runner=FnApiRunner()) as p:
        written = counted(p, shards=shards) | WriteWindowedWords(str(tmp_path / "w"))
        written | beam.Map(lambda folder, w=beam.DoFn.WindowParam: (folder, float(w.start))) | beam.Map(told_of(tmp_path))
    found = tables(tmp_path / "w")
    assert found == {
        "20260101T000000Z-20260101T000010Z-0000": words_of(*TEXTS[:2]),
        "20260101T000010Z-20260101T000020Z-0000": words_of(*TEXTS[2:4]),
        "20260101T000020Z-20260101T000030Z-0000": words_of(*TEXTS[4:]),
    }
    first = WordCounts.read(str(tmp_path / "w" / "20260101T000000Z-20260101T000010Z-0000"))
    assert first.totals == WordCounts.from_documents(TEXTS[:2], pattern="whitespace").totals
    told = dict(line.rsplit(" ", 1) for line in (tmp_path / "told").read_text().splitlines())
    assert told == {str(tmp_path / "w" / name): f"{START + 10.0 * i}" for i, name in enumerate(sorted(found))}


def told_of(folder: Path):
    def tell(pair):
        with open(folder / "told", "a") as file:
            file.write(f"{pair[0]} {pair[1]}\n")

    return tell


def test_a_rolling_table_is_the_sum_of_windows(tmp_path):
    with beam.Pipeline(runner=FnApiRunner()) as p:
        counted(p) | WriteWindowedWords(str(tmp_path), rolling=2)
    windows = [TEXTS[:2], TEXTS[2:4], TEXTS[4:]]
    assert tables(tmp_path) == {
        "20251231T235950Z-20260101T000010Z-0000": words_of(*windows[0]),
        "20260101T000000Z-20260101T000020Z-0000": words_of(*windows[0], *windows[1]),
        "20260101T000010Z-20260101T000030Z-0000": words_of(*windows[1], *windows[2]),
        "20260101T000020Z-20260101T000040Z-0000": words_of(*windows[2]),
    }


def test_windows_with_an_offset_and_fractions_of_seconds(tmp_path):
    with beam.Pipeline(runner=FnApiRunner()) as p:
        stamped = p | beam.Create([TimestampedValue("low", START + 0.3)]) | beam.WindowInto(FixedWindows(0.5, offset=0.25))
        stamped | CountWords("whitespace") | WriteWindowedWords(str(tmp_path), rolling=2)
    day = "20260101T000000"
    assert sorted(tables(tmp_path)) == [f"20251231T235959.750000Z-{day}.750000Z-0000", f"{day}.250000Z-20260101T000001.250000Z-0000"]


def test_late_documents_make_another_table_of_their_window(tmp_path):
    stream = (
        test_stream.TestStream()
        .add_elements([TimestampedValue("low low", 1), TimestampedValue("newest", 11)])
        .advance_watermark_to(20)
        .add_elements([TimestampedValue("late low", 2)])
        .advance_watermark_to(80)
        .add_elements([TimestampedValue("dropped", 3)])
        .advance_watermark_to_infinity()
    )
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    windowed = (
        pipeline
        | stream
        | beam.Map(str).with_output_types(str)
        | beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=60,
        )
    )
    windowed | CountWords("whitespace", shards=2) | WriteWindowedWords(str(tmp_path))
    pipeline.run().wait_until_finish()
    found = tables(tmp_path)
    first = [found[name] for name in sorted(found) if name.startswith("19700101T000000Z")]
    assert first[0] == {b"low": 2} and first[-1] == {b"low": 3, b"late": 1} and len(first) == 2
    assert found["19700101T000010Z-19700101T000020Z-0000"] == {b"newest": 1}
    assert not any(b"dropped" in table for table in found.values())


def test_a_firing_that_lacks_words_or_totals_writes_nothing(tmp_path):
    bundle = count_module._CountFn(CountWords("whitespace", shards=1))
    bundle.start_bundle()
    window = IntervalWindow(0, 10)
    assert list(bundle.process("low low", window)) == []
    pairs = [each.value for each in bundle.finish_bundle()]
    write = windowed_module._WriteTableFn(str(tmp_path))
    panes = [PaneInfo(False, False, PaneInfoTiming.LATE, index, index) for index in range(3)]
    assert list(write.process((b"", pairs[:1]), window, panes[0])) == []
    assert list(write.process((b"", pairs[1:]), window, panes[1])) == []
    assert list(tmp_path.iterdir()) == []
    assert list(write.process((b"", pairs), window, panes[2])) == [str(tmp_path / "19700101T000000Z-19700101T000010Z-0002")]
    assert [*tables(tmp_path).values()] == [{b"low": 2}]
    assert list(write.process((b"", pairs), window, panes[2])) != []  # the bundle runs again
    assert [*tables(tmp_path).values()] == [{b"low": 2}]


def test_empty_panes_are_nothing(tmp_path):
    """Flink fires them when a window with a trigger for late data ends."""
    for shard in (0, TOTALS_SHARD):
        assert list(count_module._MergeFn().process((shard, []))) == []
    pane = PaneInfo(False, True, PaneInfoTiming.LATE, 1, 1)
    assert list(windowed_module._WriteTableFn(str(tmp_path)).process((b"", []), IntervalWindow(0, 10), pane)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "windows, options, message",
    [
        (None, {}, "takes the counts of fixed windows, not of GlobalWindows"),
        (SlidingWindows(20, 10), {}, "not of SlidingWindows"),
        (Sessions(10), {}, "not of Sessions"),
        (FixedWindows(10), {"trigger": AfterWatermark(), "accumulation_mode": AccumulationMode.ACCUMULATING}, "discard them"),
    ],
)
def test_windows_that_cannot_be_written(windows, options, message, tmp_path):
    texts = beam.Pipeline(runner=FnApiRunner()) | beam.Create(TEXTS)
    if windows is not None:
        texts = texts | beam.WindowInto(windows, **options)
    with pytest.raises(ValueError, match=message):
        texts | CountWords("whitespace") | WriteWindowedWords(str(tmp_path))
    with pytest.raises(ValueError, match="rolling is 0; it must be at least 1"):
        WriteWindowedWords(str(tmp_path), rolling=0)


# ---- memory --------------------------------------------------------------------------------------


def test_memory_is_bounded_over_many_windows(monkeypatch):
    """Tables and waiting documents of all windows of a bundle stay within their budgets, and nothing is lost."""
    memory = 1 << 20
    monkeypatch.setattr(count_module._CountFn, "_BATCH", 1 << 10)
    fn = count_module._CountFn(CountWords("whitespace", shards=1, memory=memory))
    seen: Counter[float] = Counter()
    fn.start_bundle()
    for i in range(4_000):
        window = IntervalWindow(i % 200, i % 200 + 1)
        emitted = list(fn.process(f"word{i} again", window))
        assert sum(bundle.counter.nbytes for bundle in fn._bundles.values()) <= memory
        assert sum(bundle.waiting_bytes for bundle in fn._bundles.values()) == fn._waiting_bytes <= 16 * (1 << 10)
        seen.update(words_by_window(emitted))
    assert len(seen) > 150  # sent on before the bundle's end
    seen.update(words_by_window(fn.finish_bundle()))
    assert seen == {float(second): 40 for second in range(200)}


def words_by_window(emitted) -> Counter[float]:
    found: Counter[float] = Counter()
    for each in emitted:
        shard, framed = each.value
        if shard == TOTALS_SHARD:
            found[float(each.windows[0].start)] += json.loads(bytes(unframe(framed)[1]))["words"]
    return found


def test_tables_are_dropped_at_the_end_of_each_bundle():
    fn = count_module._CountFn(CountWords("whitespace", shards=1))
    gc.collect()
    before = len(count_module._Budget._counters)
    for _ in range(10):
        fn.start_bundle()
        for second in range(20):
            assert list(fn.process("low lower", IntervalWindow(second, second + 1))) == []
        assert len(count_module._Budget._counters) == before + 20
        assert len(list(fn.finish_bundle())) == 40  # a table and totals for each window
        gc.collect()
        assert len(count_module._Budget._counters) == before and fn._bundles == {}


# ---- runners that lose elements -------------------------------------------------------------------


class DaskRunner(FnApiRunner):
    """Named as one that drops what is emitted in finish_bundle."""


class PySparkRunner(FnApiRunner):
    """As above."""


@pytest.mark.parametrize("runner", [DaskRunner, PySparkRunner])
def test_runners_that_lose_elements_are_refused(runner, tmp_path):
    vocabulary = train(WordCounts.from_documents(TEXTS), 260)
    p = beam.Pipeline(runner=runner())
    texts = p | beam.Create(TEXTS)
    rows = p | "Rows" >> beam.Create([{"ids": [1]}])
    (tmp_path / "a.txt").write_text("low")
    files = EncodeFiles(str(tmp_path / "a.txt"), str(tmp_path / "out"), vocabulary, threads=2)
    sentence = f"{runner.__name__} loses what is emitted at the end of a bundle"
    for collection, transform in [
        (texts, CountWords()),
        (texts, Encode(vocabulary)),
        (rows, WriteShards(str(tmp_path / "s"), vocabulary)),
        (p, files),
    ]:
        with pytest.raises(ValueError, match=sentence):
            collection | transform
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt"]
    p | "One thread" >> EncodeFiles(str(tmp_path / "a.txt"), str(tmp_path / "out"), vocabulary)  # emits nothing there


# ---- rows ----------------------------------------------------------------------------------------


class Page:
    """A row that is an object with attributes."""

    def __init__(self, text):
        self.text = text


@pytest.mark.parametrize("make", [lambda t: beam.Row(n=1, text=t), lambda t: {"text": t, "n": 1}, Page], ids=["Row", "dict", "object"])
def test_rows_are_counted_by_a_column(make, tmp_path):
    rows = [make("low low"), make(b"newest"), make(None), make("")]
    with beam.Pipeline(runner=FnApiRunner()) as p:
        given = p | beam.Create([0]) | beam.FlatMap(lambda _: rows).with_output_types(beam.typehints.Any)
        windowed = given | beam.Map(lambda row: TimestampedValue(row, START)) | beam.WindowInto(FixedWindows(10))
        windowed | CountWords("whitespace") | WriteWindowedWords(str(tmp_path))
    (folder,) = tmp_path.iterdir()
    table = WordCounts.read(str(folder))
    assert table.to_dict() == {b"low": 2, b"newest": 1}
    assert table.totals["documents"] == 3 and table.totals["null_documents"] == 1


def test_rows_without_the_column_are_refused(tmp_path):
    p = beam.Pipeline(runner=FnApiRunner())
    with pytest.raises(ValueError, match="the rows have no column 'body'; they have n, text"):
        p | beam.Create([beam.Row(n=1, text="low")]) | CountWords(column="body")
    fn = count_module._CountFn(CountWords(column="body"))
    fn.start_bundle()
    with pytest.raises(TypeError, match="the element, a dict, has no column 'body'; it has text"):
        list(fn.process({"text": "low"}, IntervalWindow(0, 1)))
    with pytest.raises(TypeError, match="the column 'body' holds a list, neither str nor bytes"):
        list(fn.process({"body": ["low"]}, IntervalWindow(0, 1)))
