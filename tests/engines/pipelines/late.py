"""Late data: late.py FOLDER VOCABULARY FLAGS …, with a stream of texts, some of them late, one too late.

Leaves the tables of words under FOLDER/words and FOLDER/rolling, and FOLDER/before and FOLDER/after with a file for each
text: its time, window and pane before and after Encode.
"""

import json
import os
import sys
import uuid

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import beam_bpe.transforms as bpe

STREAM = (
    TestStream()
    .add_elements([TimestampedValue("low low", 1), TimestampedValue("newest", 12), TimestampedValue("lower", 3)])
    .advance_watermark_to(10)
    .add_elements([TimestampedValue("late low", 4)])
    .advance_watermark_to(25)
    .add_elements([TimestampedValue("later low", 5), TimestampedValue("widest", 21)])
    .advance_watermark_to(100)
    .add_elements([TimestampedValue("dropped", 6)])
    .advance_watermark_to_infinity()
)


class Seen(beam.DoFn):
    """Leave what an element comes with as a file."""

    def __init__(self, folder):
        self._folder = folder

    def process(self, element, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
        text = element if isinstance(element, str) else element.text
        told = [text, time.micros, window.start.micros, window.end.micros, pane.timing, pane.index, pane.is_first, pane.is_last]
        with open(os.path.join(self._folder, uuid.uuid4().hex), "w", encoding="utf-8") as file:
            json.dump(told, file)


if __name__ == "__main__":
    folder, vocabulary, *flags = sys.argv[1:]
    with beam.Pipeline(options=PipelineOptions([*flags, "--streaming"])) as p:
        texts = (
            p
            | STREAM
            | beam.Map(str).with_output_types(str)
            | beam.WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=60,
            )
        )
        counted = texts | bpe.CountWords(pattern="whitespace", shards=2)
        counted | "Tables" >> bpe.WriteWindowedWords(os.path.join(folder, "words"))
        counted | "Rolling" >> bpe.WriteWindowedWords(os.path.join(folder, "rolling"), rolling=2)
        fired = texts | beam.WithKeys(0) | beam.GroupByKey() | beam.FlatMap(lambda pair: pair[1]).with_output_types(str)
        fired | "Before" >> beam.ParDo(Seen(os.path.join(folder, "before")))
        fired | bpe.Encode(vocabulary) | "After" >> beam.ParDo(Seen(os.path.join(folder, "after")))
    os._exit(0)  # see spread.py
