"""Learn a vocabulary as a Dataflow Flex Template, whose launcher gives parameters as --name=value, Beam's flags too."""

import argparse

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import beam_bpe.transforms as bpe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", required=True, help="a file, glob, folder or URL; several with commas between")
    parser.add_argument("--output", required=True, help="the folder to write into")
    parser.add_argument("--vocab_size", type=int, default=32_000, help="tokens of the vocabulary")
    parser.add_argument("--pattern", default="o200k", help="how documents are cut into words")
    parser.add_argument("--shards", type=int, default=64, help="parts of the table of words")
    own, beam_flags = parser.parse_known_args()
    pipeline = beam.Pipeline(options=PipelineOptions(beam_flags))
    pipeline | bpe.LearnVocabulary(
        own.inputs.split(","), own.output, own.vocab_size, pattern=own.pattern, shards=own.shards
    )
    pipeline.run()  # and not waited for, or the launcher would never hand the job over


if __name__ == "__main__":
    main()
