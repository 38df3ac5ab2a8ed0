"""From raw text to packed training shards: learn a vocabulary, then encode with it into rows of 2,048 tokens.

    python examples/packed_shards.py 'corpus/*.txt' out

Add Beam's own options to run it elsewhere, such as --runner=FlinkRunner --flink_master=HOST:8081.
"""

import sys

import apache_beam as beam

import beam_bpe.transforms as bpe

END = "<|endoftext|>"


def main(inputs: str, output: str, *beam_options: str) -> None:
    options = beam.options.pipeline_options.PipelineOptions(list(beam_options) or ["--runner=FnApiRunner"])
    with beam.Pipeline(options=options) as pipeline:
        pipeline | bpe.LearnVocabulary(inputs, f"{output}/vocabulary", vocab_size=4_000, special_tokens=[END])
    with beam.Pipeline(options=options) as pipeline:
        pipeline | bpe.EncodeFiles(
            inputs, f"{output}/tokens", f"{output}/vocabulary", format="npy", eos=[END], pack=2048, remainder="pad", pad=END
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
