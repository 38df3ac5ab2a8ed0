"""Learn a vocabulary from files with a pipeline of six lines.

    python examples/learn_vocabulary.py 'corpus/*.txt' vocabulary

Add Beam's own options to run it elsewhere, such as --runner=FlinkRunner --flink_master=HOST:8081.
"""

import sys

import apache_beam as beam

import beam_bpe.transforms as bpe


def main(inputs: str, output: str, *beam_options: str) -> None:
    options = beam.options.pipeline_options.PipelineOptions(list(beam_options) or ["--runner=FnApiRunner"])
    with beam.Pipeline(options=options) as pipeline:
        (
            pipeline
            | bpe.ReadDocuments(inputs, pattern="o200k")
            | bpe.CountWords(pattern="o200k")
            | bpe.WriteWords(f"{output}/words")
            | bpe.TrainVocabulary(output, vocab_size=4_000)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
