"""Keep a rolling table of the words of a stream: a table for each window, and one of the last three windows.

    python examples/rolling_words.py notes.txt tables --runner=PrismRunner

Each line of the text arrives a tenth of a second after the one before, as if from Kafka or Pub/Sub, whose sources take
the place of PeriodicImpulse. Leaves tables/windows/START-END-PANE and tables/rolling/START-END-PANE, as folders of words: a
vocabulary can be learned from each, and of several panes of a window, which late lines make, the last one counts.
"""

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse, RebaseMode
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

import beam_bpe.transforms as bpe


def main(text: str, folder: str, *beam_options: str) -> None:
    with open(text, encoding="utf-8") as file:
        lines = file.read().splitlines()
    stop = Timestamp(0.1 * len(lines))
    with beam.Pipeline(options=PipelineOptions([*beam_options, "--streaming"])) as pipeline:
        counted = (
            pipeline
            | PeriodicImpulse(Timestamp(0), stop, fire_interval=0.1, data=lines, rebase=RebaseMode.REBASE_ALL)
            | beam.WindowInto(
                FixedWindows(1),
                trigger=AfterWatermark(late=AfterCount(1)),  # a line that comes late makes another table of its window
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=60,
            )
            | bpe.CountWords(pattern="o200k", shards=2)  # few shards: the table of a window is small
        )
        counted | "Windows" >> bpe.WriteWindowedWords(f"{folder}/windows")
        counted | "Rolling" >> bpe.WriteWindowedWords(f"{folder}/rolling", rolling=3)


if __name__ == "__main__":
    main(*sys.argv[1:])
