"""Learn a vocabulary from a folder of words, as one element of a pipeline."""

import logging
import time
from typing import Any, Iterator, Optional

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_bpe import progress
from beam_bpe.learning import Learning, learning_of
from beam_bpe.stores import refuse_credentials
from beam_bpe.training import learn
from beam_bpe.transforms.stored import StoredDoFn
from beam_bpe.words import WordCounts

_LOG_SECONDS = 30.0
_LOGGER = logging.getLogger(__name__)


class TrainVocabulary(beam.PTransform):
    """Learn a vocabulary from each folder of words and write it into a folder.

    The input holds paths of word folders (as WriteWords gives them), usually one; the output holds the
    path of the folder with `merges.parquet` and `vocabulary.parquet`. Learning is one element of work on
    one worker, which reads the parts by itself: no element carries the table.

    Args:
        output: the folder to write into.
        vocab_size: tokens, those included that are not learned.
        overwrite: replace a vocabulary that stands there.
        min_ram: memory that the worker should have, such as "16GB", for runners that heed it.
        options: attributes of `beam_bpe.Learning`: what is learned (`algorithm`, `unit`, `end_of_word`, …) and how
            (`special_tokens`, `min_count`, `min_pair_count`, `tie_break`, …).
    """

    def __init__(
        self,
        output: str,
        vocab_size: Optional[int] = None,
        overwrite: bool = False,
        min_ram: Optional[str] = None,
        **options: Any,
    ):
        super().__init__()
        refuse_credentials(output)
        self._learning = learning_of(vocab_size, options)
        self._output = output
        self._overwrite = overwrite
        self._min_ram = min_ram

    def display_data(self):
        learning = self._learning
        size = {"num_merges": learning.num_merges} if learning.vocab_size is None else {"vocab_size": learning.vocab_size}
        return {"output": self._output, "algorithm": learning.algorithm, **size}

    def expand(self, folders: beam.PCollection[str]) -> beam.PCollection[str]:
        step = beam.ParDo(_TrainFn(self._output, self._overwrite, self._learning))
        if self._min_ram:
            step = step.with_resource_hints(min_ram=self._min_ram)
        # A shuffle before and none fused behind: a retry learns again, and nothing else with it.
        return folders | "Alone" >> beam.Reshuffle() | "Learn" >> step.with_output_types(str)


class _TrainFn(StoredDoFn):
    """Learn from one folder of words."""

    def __init__(self, output: str, overwrite: bool, learning: Learning):
        self._output = output
        self._overwrite = overwrite
        self._learning = learning
        self._merges = Metrics.counter("beam_bpe", "merges")
        self._reported = 0
        self._logged = 0.0

    def process(self, folder: str) -> Iterator[str]:
        words = WordCounts.read(folder).ungrouped()
        self._reported, self._logged = 0, time.monotonic()
        progress.add(distinct_words=len(words))
        vocabulary = learn(words, self._learning, self._report)
        if self._learning.family != "unigram":
            self._report(len(vocabulary.left), len(vocabulary.left), 0)
        vocabulary.save(self._output, overwrite=self._overwrite)
        _LOGGER.info("%s: %d tokens (%s)", self._output, len(vocabulary), vocabulary.stop_reason)
        yield self._output

    def _report(self, done: int, wanted: int, count: int) -> None:
        unigram = self._learning.family == "unigram"
        if not unigram:
            self._merges.inc(done - self._reported)
            progress.add(merges=done - self._reported)
            self._reported = done
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            told = "prunings; %d pieces are left" if unigram else "merges; the last pair occurred %d times"
            _LOGGER.info(f"%d of %d {told}", done, wanted, count)
