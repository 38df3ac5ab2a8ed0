"""Count the words of a pattern of one's own in a pipeline of one's own, and look at the most frequent.

    python examples/custom_pattern.py notes.txt

A pattern is a regular expression of the `regex` package. What stands between two matches is a word of
its own, so that nothing is lost; gaps="drop" would lose it. Patterns of one's own run many times slower
than the named ones, which have native scanners.
"""

import sys

import apache_beam as beam

import beam_bpe.transforms as bpe

CAMEL_CASE = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|\s+"


def main(path: str) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | beam.io.ReadFromText(path)
            | bpe.CountWords(pattern=CAMEL_CASE, shards=1)
            | bpe.WordRows()
            | beam.combiners.Top.Of(10, key=lambda row: (row.count, row.word))
            | beam.FlatMap(lambda rows: rows)
            | beam.Map(lambda row: print(f"{row.count:8,} {row.word!r}"))
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
