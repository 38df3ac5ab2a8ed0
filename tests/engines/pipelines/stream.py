"""Count and encode an unbounded source in windows of a second: stream.py FOLDER VOCABULARY FLAGS …

Ten texts a second for four seconds, from an unbounded source whose time is that of START. Leaves the tables of words under
FOLDER/words, those of two windows in a row under FOLDER/rolling, and a file for each encoded row in FOLDER/rows.
"""

import json
import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

import beam_bpe.transforms as bpe

START = 1767225600  # 2026-01-01T00:00:00Z


class Seen(beam.DoFn):
    """Leave a row with its time and window as a file."""

    def __init__(self, folder):
        self._folder = folder

    def process(self, row, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        told = {"text": row.text, "ids": list(row.ids), "time": time.micros, "start": window.start.micros, "end": window.end.micros}
        with open(os.path.join(self._folder, f"{time.micros}.json"), "x", encoding="utf-8") as file:  # "x": each once
            json.dump(told, file)


def text_of(timestamp) -> str:
    """Return the text of a moment."""
    tenth = round((Timestamp.of(timestamp).micros / 1e6 - START) * 10)
    return f"low tenth{tenth} second{tenth // 10}"


if __name__ == "__main__":
    folder, vocabulary, *flags = sys.argv[1:]
    with beam.Pipeline(options=PipelineOptions([*flags, "--streaming"])) as p:
        texts = (
            p
            | PeriodicImpulse(Timestamp(START), Timestamp(START + 4), fire_interval=0.1)
            | beam.Map(text_of).with_output_types(str)
            | beam.WindowInto(
                FixedWindows(1),
                trigger=AfterWatermark(late=AfterCount(1)),  # with which Flink fires empty panes, too
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=60,
            )
        )
        counted = texts | bpe.CountWords(pattern="whitespace", shards=2)
        counted | "Tables" >> bpe.WriteWindowedWords(os.path.join(folder, "words"))
        counted | "Rolling" >> bpe.WriteWindowedWords(os.path.join(folder, "rolling"), rolling=2)
        texts | bpe.Encode(vocabulary) | beam.ParDo(Seen(os.path.join(folder, "rows")))
    os._exit(0)  # see spread.py
