"""Streaming on real engines: an unbounded source on Prism and Flink, late data and the examples on Prism.

Only Prism runs a TestStream, and so late data; Spark's portable runner does not stream.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from beam_bpe import Tokenizer, WordCounts, train

PIPELINES = Path(__file__).parent / "pipelines"
EXAMPLES = Path(__file__).parents[2] / "examples"
START = 1767225600  # of stream.py
SECOND = 1_000_000


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary") / "v"
    train(WordCounts.from_documents(["low tenth second newest lower widest late " * 9]), 290).save(str(folder))
    return folder


def latest(folder: Path) -> dict[str, dict[bytes, int]]:
    """Return the last table of each window."""
    return {path.name.rsplit("-", 1)[0]: WordCounts.read(str(path)).to_dict() for path in sorted(folder.iterdir())}


def words_of(*texts: str) -> dict[bytes, int]:
    return dict(Counter(" ".join(texts).encode().split()))


def run(engine, script: Path, folder: Path, vocabulary: Path, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        (folder / kind).mkdir()
    engine.python(script, folder, vocabulary, more=["--parallelism=1"] if engine.name == "flink-cluster" else [])


@pytest.mark.parametrize("engine", ["prism", "flink-cluster"], indirect=True)
def test_an_unbounded_source(engine, vocabulary, tmp_path):
    run(engine, PIPELINES / "stream.py", tmp_path, vocabulary, ("rows",))
    texts = [f"low tenth{i} second{i // 10}" for i in range(40)]
    seconds = [texts[10 * i : 10 * i + 10] for i in range(4)]
    names = [f"20260101T00000{i}Z" for i in range(6)]
    assert latest(tmp_path / "words") == {f"{names[i]}-{names[i + 1]}": words_of(*seconds[i]) for i in range(4)}
    rolling = {f"{names[i]}-{names[i + 2]}": words_of(*seconds[i], *sum(seconds[i + 1 : i + 2], [])) for i in range(4)}
    assert latest(tmp_path / "rolling") == {"20251231T235959Z-20260101T000001Z": words_of(*seconds[0]), **rolling}
    tokenizer = Tokenizer.load(str(vocabulary))
    rows = [json.loads(path.read_text()) for path in sorted((tmp_path / "rows").iterdir())]
    assert rows == [
        {
            "text": text,
            "ids": tokenizer.encode(text),
            "time": START * SECOND + i * SECOND // 10,
            "start": (START + i // 10) * SECOND,
            "end": (START + i // 10 + 1) * SECOND,
        }
        for i, text in enumerate(texts)
    ]


@pytest.mark.parametrize("engine", ["prism"], indirect=True)
def test_late_data(engine, vocabulary, tmp_path):
    run(engine, PIPELINES / "late.py", tmp_path, vocabulary, ("before", "after"))
    first, second, third = ["low low", "lower", "late low", "later low"], ["newest"], ["widest"]
    names = ["19691231T235950Z", "19700101T000000Z", "19700101T000010Z", "19700101T000020Z", "19700101T000030Z"]
    windows = {f"{names[i]}-{names[i + 1]}": texts for i, texts in enumerate([first, second, third], 1)}
    assert latest(tmp_path / "words") == {name: words_of(*texts) for name, texts in windows.items()}
    on_time = WordCounts.read(str(tmp_path / "words" / f"{names[1]}-{names[2]}-0000"))
    assert on_time.to_dict() == words_of("low low", "lower")
    rolling = latest(tmp_path / "rolling")
    assert rolling[f"{names[0]}-{names[2]}"] == words_of(*first)
    assert rolling[f"{names[1]}-{names[3]}"] == words_of(*first, *second)
    assert rolling[f"{names[2]}-{names[4]}"] == words_of(*second, *third)
    before, after = (sorted(json.loads(path.read_text()) for path in (tmp_path / kind).iterdir()) for kind in ("before", "after"))
    assert after == before
    late = {text for text, *_, timing, index, is_first, is_last in after if timing == 2}
    assert late == {"late low", "later low"} and len(after) == 6


@pytest.mark.parametrize("engine", ["prism", pytest.param("flink-cluster", marks=pytest.mark.slow)], indirect=True)
def test_the_example_of_rolling_words(engine, tmp_path):
    (tmp_path / "notes.txt").write_text("".join(f"low line{i}\n" for i in range(15)))
    engine.python(EXAMPLES / "rolling_words.py", tmp_path / "notes.txt", tmp_path / "tables")
    total = sum((Counter(table) for table in latest(tmp_path / "tables" / "windows").values()), Counter())
    assert total[b"low"] == 15 and total[b" line"] == 15
    rolling = sum((Counter(table) for table in latest(tmp_path / "tables" / "rolling").values()), Counter())
    assert rolling == Counter({word: 3 * count for word, count in total.items()})


@pytest.mark.parametrize("engine", ["prism"], indirect=True)  # elsewhere workers print, not we
def test_the_example_of_encoding(engine, vocabulary):
    lines = engine.python(EXAMPLES / "encode_stream.py", vocabulary).stdout.splitlines()
    counted = [line.split() for line in lines if not line.startswith("failed:")]
    expected = 10 * Tokenizer.load(str(vocabulary)).count("The newest lowlands are the widest.")
    assert sum(int(tokens) for *_, lang, tokens in counted if lang == "en") == expected
    assert sum(line.startswith("failed: en the text is a NoneType") for line in lines) == 10
