"""Learn a vocabulary from a folder of words, as one element of a pipeline."""

import logging
import time
from typing import Iterator, Optional, Sequence

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_bpe import progress
from beam_bpe.training import check_tie_break, check_vocab_size, train
from beam_bpe.special import SpecialTokens
from beam_bpe.stores import refuse_credentials
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
        vocab_size: tokens, the 256 bytes and the special tokens included.
        special_tokens: they get the last ids.
        min_count: words that occur less often are left out.
        min_pair_count: pairs that occur less often are not merged.
        max_token_length: in bytes, inclusive; none for no limit.
        tie_break: "huggingface", "bytes" or "lexicographic".
        overwrite: replace a vocabulary that stands there.
        min_ram: memory that the worker should have, such as "16GB", for runners that heed it.
    """

    def __init__(
        self,
        output: str,
        vocab_size: int,
        special_tokens: Sequence[str] = (),
        min_count: int = 1,
        min_pair_count: int = 2,
        max_token_length: Optional[int] = None,
        tie_break: str = "huggingface",
        overwrite: bool = False,
        min_ram: Optional[str] = None,
    ):
        super().__init__()
        refuse_credentials(output)
        SpecialTokens(special_tokens)
        check_vocab_size(vocab_size, special_tokens)
        check_tie_break(tie_break)
        self._output = output
        self._min_count = min_count
        self._overwrite = overwrite
        self._min_ram = min_ram
        self._arguments = {
            "vocab_size": vocab_size,
            "special_tokens": tuple(special_tokens),
            "min_pair_count": min_pair_count,
            "max_token_length": max_token_length,
            "tie_break": tie_break,
        }

    def display_data(self):
        return {"output": self._output, "vocab_size": self._arguments["vocab_size"]}

    def expand(self, folders: beam.PCollection[str]) -> beam.PCollection[str]:
        learn = beam.ParDo(_TrainFn(self._output, self._min_count, self._overwrite, self._arguments))
        if self._min_ram:
            learn = learn.with_resource_hints(min_ram=self._min_ram)
        # A shuffle before and none fused behind: a retry learns again, and nothing else with it.
        return folders | "Alone" >> beam.Reshuffle() | "Learn" >> learn.with_output_types(str)


class _TrainFn(StoredDoFn):
    """Learn from one folder of words."""

    def __init__(self, output, min_count, overwrite, arguments):
        self._output = output
        self._min_count = min_count
        self._overwrite = overwrite
        self._arguments = arguments
        self._merges = Metrics.counter("beam_bpe", "merges")
        self._reported = 0
        self._logged = 0.0

    def process(self, folder: str) -> Iterator[str]:
        words = WordCounts.read(folder)
        if self._min_count > 1:
            words = words.prune(self._min_count)
        self._reported, self._logged = 0, time.monotonic()
        progress.add(distinct_words=len(words))
        vocabulary = train(words, progress=self._report, **self._arguments)
        self._report(len(vocabulary.left), len(vocabulary.left), 0)
        vocabulary.save(self._output, overwrite=self._overwrite)
        _LOGGER.info("%s: %d tokens (%s)", self._output, len(vocabulary), vocabulary.stop_reason)
        yield self._output

    def _report(self, done: int, wanted: int, count: int) -> None:
        self._merges.inc(done - self._reported)
        progress.add(merges=done - self._reported)
        self._reported = done
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            _LOGGER.info("%d of %d merges; the last pair occurred %d times", done, wanted, count)
