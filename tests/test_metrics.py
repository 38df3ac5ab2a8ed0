"""What runners show of the transforms: the metrics that README lists, and display data."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.display import DisplayData

from beam_bpe import WordCounts, train, transforms

ROOT = Path(__file__).parents[1]
#: They have no parameters to show.
BARE = {"MergeWords", "WordRows"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a pipeline with every transform in it, which is not run, and the transforms by name."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "a.txt").write_text("low lower")
    text, vocabulary = str(folder / "a.txt"), train(WordCounts.from_documents(["low lower"]), 258)
    WordCounts.from_documents(["low"]).write(str(folder / "words"))
    p = beam.Pipeline(runner=FnApiRunner())
    texts, none = p | beam.Create(["low"]), p | "Ids" >> beam.Create([{"ids": [1]}])
    windowed = texts | beam.WindowInto(beam.window.FixedWindows(1)) | "Windowed" >> transforms.CountWords()
    measure = transforms.MeasureTokens(vocabulary)
    made = {
        "ReadDocuments": (p, transforms.ReadDocuments(text)),
        "CountWords": (texts, transforms.CountWords()),
        "MergeWords": (windowed, transforms.MergeWords()),
        "WriteWords": (texts | "Counted" >> transforms.CountWords(), transforms.WriteWords(str(folder / "w"))),
        "WriteWindowedWords": (windowed, transforms.WriteWindowedWords(str(folder / "windows"))),
        "ReadWords": (p, transforms.ReadWords(str(folder / "words"))),
        "WordRows": (windowed, transforms.WordRows()),
        "TrainVocabulary": (texts, transforms.TrainVocabulary(str(folder / "v"), 300)),
        "LearnVocabulary": (p, transforms.LearnVocabulary(text, str(folder / "l"), 300)),
        "EncodeFiles": (p, transforms.EncodeFiles(text, str(folder / "e"), vocabulary)),
        "Encode": (texts, transforms.Encode(vocabulary)),
        "Decode": (none, transforms.Decode(vocabulary)),
        "MeasureTokens": (texts, measure),
        "WriteStatistics": (texts | "Measured" >> measure, transforms.WriteStatistics(str(folder / "m"), vocabulary)),
        "WriteShards": (none, transforms.WriteShards(str(folder / "s"), vocabulary)),
    }
    for name, (collection, transform) in made.items():
        collection | name >> transform
    return p, {name: transform for name, (_, transform) in made.items()}


class _Counters(PipelineVisitor):
    """Gather the counters of the steps of each of our transforms."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = defaultdict(set)

    def visit_transform(self, node) -> None:
        fn = getattr(node.transform, "fn", None)
        above = node
        while above is not None and type(above.transform).__module__.split(".")[0] != "beam_bpe":
            above = above.parent
        for value in vars(fn).values() if fn is not None and above is not None else ():
            for counter in value.values() if isinstance(value, dict) else [value]:
                name = getattr(counter, "metric_name", None)
                if name is not None:
                    assert name.namespace == "beam_bpe"
                    self.found[name.name].add(type(above.transform).__name__)


def test_readme_lists_the_metrics(built):
    visitor = _Counters()
    built[0].visit(visitor)
    rows = re.search(r"\| metric \| of \|.*?\n((?:\|.*\n)+)", (ROOT / "README.md").read_text())
    assert rows, "README has no table of metrics"
    listed = {}
    for line in rows[1].splitlines()[1:]:
        names, of = line.split("|")[1:3]
        listed.update({name: set(re.findall(r"`(\w+)`", of)) for name in re.findall(r"`(\w+)`", names)})
    assert listed == visitor.found


def test_every_transform_is_built(built):
    assert set(built[1]) == {name for name, each in vars(transforms).items() if isinstance(each, type) and issubclass(each, beam.PTransform)}


def test_display_data(built):
    for name, transform in built[1].items():
        shown = {item.key for item in DisplayData.create_from(transform).items}
        assert bool(shown) == (name not in BARE), name
