"""Encode the rows of a collection of your own, and measure them: tokens per language.

    python examples/encode_rows.py vocabulary

The vocabulary may be of any format: a folder that beam-bpe wrote, a tokenizer.json, a rank file of tiktoken.
"""

import sys

import apache_beam as beam

import beam_bpe.transforms as bpe

ROWS = [
    beam.Row(lang="en", text="The newest lowlands are the widest."),
    beam.Row(lang="fr", text="Les plaines les plus récentes sont les plus larges."),
    beam.Row(lang="en", text="Lower than low."),
]


def main(vocabulary: str) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | beam.Create(ROWS)
            | bpe.Encode(vocabulary)
            | beam.GroupBy("lang").aggregate_field(lambda row: len(row.ids), sum, "tokens")
            | beam.Map(lambda row: print(row.lang, row.tokens))
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
