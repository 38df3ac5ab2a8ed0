"""Encode a stream of rows, and count its tokens by language in each window of a second.

    python examples/encode_stream.py vocabulary --runner=PrismRunner

A row arrives every tenth of a second for three seconds, as if from Kafka or Pub/Sub, whose sources take the place of
PeriodicImpulse. Rows keep their time and window. Prints START LANGUAGE TOKENS; what cannot be encoded is printed with
the reason, and stops nothing.
"""

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse, RebaseMode
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

import beam_bpe.transforms as bpe

ROWS = [
    {"lang": "en", "text": "The newest lowlands are the widest."},
    {"lang": "fr", "text": "Les plaines les plus récentes sont les plus larges."},
    {"lang": "en", "text": None},
]


def main(vocabulary: str, *beam_options: str) -> None:
    with beam.Pipeline(options=PipelineOptions([*beam_options, "--streaming"])) as pipeline:
        encoded = (
            pipeline
            | PeriodicImpulse(Timestamp(0), Timestamp(3), fire_interval=0.1, data=ROWS * 10, rebase=RebaseMode.REBASE_ALL)
            | beam.WindowInto(FixedWindows(1))
            | bpe.Encode(vocabulary, dead_letters=True)
        )
        (
            encoded.encoded
            | beam.Map(lambda row: (row["lang"], len(row["ids"])))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, window=beam.DoFn.WindowParam: print(window.start.to_utc_datetime(), *pair, flush=True))
        )
        encoded.dead_letters | beam.MapTuple(lambda row, reason: print("failed:", row["lang"], reason, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
