"""Runners that break Beam's model are refused, since what they lose would be missing without a word."""

import apache_beam as beam

#: What a DoFn emits in finish_bundle never arrives there.
_LOSSY = ("DaskRunner", "PySparkRunner")


def refuse_lossy(pipeline: beam.Pipeline) -> None:
    """Raise ValueError for a pipeline of a runner that loses what is emitted at the end of a bundle."""
    runner = type(pipeline.runner).__name__
    if runner in _LOSSY:
        raise ValueError(
            f"{runner} loses what is emitted at the end of a bundle (finish_bundle), so results would be wrong "
            "without a word: use another runner"
        )
