"""From files to a vocabulary in one transform."""

from typing import Any, Optional, Sequence, Union

import apache_beam as beam

from beam_bpe import storage
from beam_bpe.model import default_cutting
from beam_bpe.transforms.count import DEFAULT_SHARDS, CountWords
from beam_bpe.transforms.read import ReadDocuments
from beam_bpe.transforms.train import TrainVocabulary
from beam_bpe.transforms.words import WriteWords


class LearnVocabulary(beam.PTransform):
    """Read documents, count their words and learn a vocabulary from the counts.

    Writes the folder `words`, `merges.parquet` and `vocabulary.parquet` into the output folder; the
    output holds its path. It is ReadDocuments, CountWords, WriteWords and TrainVocabulary in a row, for
    more of whose parameters use those.

    Args:
        inputs: a path, glob, folder or URL, or a list of them.
        output: the folder to write into.
        vocab_size: tokens, those included that are not learned.
        pattern: the pre-tokenization pattern: a name, or a regex; None: o200k, and metaspace for the algorithms of
            SentencePiece.
        normalizer: steps that text goes through before it is cut into words, such as "NFC" (see CountWords); with no
            pattern given, metaspace for the algorithms of SentencePiece.
        special_tokens: they cut documents and get ids of their own.
        documents: what a document of a text file is: "file", "line" or "paragraph".
        field: the field of a JSON object that holds the text.
        column: the column of a Parquet or Arrow table that holds the text.
        errors: what happens to bytes that are not UTF-8: "replace", "strict" or "skip".
        shards: into how many parts the table of words is cut.
        overwrite: replace what stands in the output folder.
        group_by: the column or field whose values the words are counted apart by; what is learned is of their sums.
        options: those of TrainVocabulary.
    """

    def __init__(
        self,
        inputs: Union[str, Sequence[str]],
        output: str,
        vocab_size: Optional[int] = None,
        pattern: Optional[str] = None,
        special_tokens: Sequence[str] = (),
        documents: str = "file",
        field: str = "text",
        column: str = "text",
        errors: str = "replace",
        normalizer: Optional[str] = None,
        shards: int = DEFAULT_SHARDS,
        overwrite: bool = False,
        group_by: Optional[str] = None,
        **options: Any,
    ):
        super().__init__()
        usual, its_normalizer = default_cutting(options.get("algorithm", "bpe"))
        if pattern is None:
            pattern, normalizer = usual, normalizer or its_normalizer
        self._output, self._vocab_size, self._pattern = output, vocab_size, pattern
        train = TrainVocabulary(output, vocab_size, overwrite=overwrite, special_tokens=special_tokens, **options)
        self._steps = (
            ReadDocuments(
                inputs,
                documents=documents,
                field=field,
                column=column,
                errors=errors,
                pattern=pattern,
                special_tokens=special_tokens,
                normalizer=normalizer,
                group_by=group_by,
            ),
            CountWords(pattern=pattern, special_tokens=special_tokens, shards=shards, normalizer=normalizer, group_by=group_by),
            WriteWords(storage.join(output, "words"), overwrite=overwrite),
            train,
        )

    def display_data(self):
        return {"output": self._output, "vocab_size": self._vocab_size, "pattern": self._pattern}

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        result = pbegin
        for step in self._steps:
            result = result | step
        return result
