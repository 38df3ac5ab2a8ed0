"""Count by group, measure, learn pieces and encode, in one job: groups.py READ ENCODED FOLDER VOCABULARY … -- FLAGS …

READ and ENCODED are folders with the same rows, of columns text and lang, in .jsonl.gz and .parquet; shards keep the
order of those of ENCODED. Leaves under FOLDER: `words` and `pieces`, tables by group; `statistics`, and those of the same
rows as elements of a collection, `of-rows`; the vocabularies `unigram` and `bpe` of `pieces`; `ids`, by the last VOCABULARY.
"""

import gzip
import json
import os
import sys
from glob import glob

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions

import beam_bpe.transforms as bpe

RANGE_BYTES = 1 << 20
PIECES = dict(vocab_size=3000, min_count=2, limit_alphabet=1500, byte_fallback=True)


def rows_of(path):
    """Yield the rows of a file."""
    if path.endswith(".parquet"):
        found = pq.read_table(path).to_pylist()
    else:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found = [json.loads(line) for line in lines]
    for row in found:
        yield beam.Row(text=row["text"], lang=row["lang"])


def files_of(folder):
    """Return the files whose documents have a language."""
    return sorted(glob(f"{folder}/*.jsonl.gz") + glob(f"{folder}/*.parquet"))


if __name__ == "__main__":
    flags = sys.argv.index("--") + 1
    read, encoded, folder, *vocabularies = sys.argv[1 : flags - 1]
    measure = dict(vocabularies=vocabularies, baselines=["byte", "trigram"], group_by="lang")
    with beam.Pipeline(options=PipelineOptions(sys.argv[flags:])) as p:
        documents = p | bpe.ReadDocuments(files_of(read), group_by="lang", range_bytes=RANGE_BYTES)

        words = documents | bpe.CountWords(group_by="lang", shards=3)
        words | bpe.WriteWords(f"{folder}/words")

        pieces = documents | "Pieces" >> bpe.CountWords("metaspace", normalizer="metaspace", group_by="lang", shards=3)
        table = pieces | "WritePieces" >> bpe.WriteWords(f"{folder}/pieces")
        table | "Unigram" >> bpe.TrainVocabulary(f"{folder}/unigram", algorithm="unigram", seed_size=10_000, **PIECES)
        table | "BPE" >> bpe.TrainVocabulary(f"{folder}/bpe", algorithm="sentencepiece-bpe", **PIECES)

        measured = documents | bpe.MeasureTokens(**measure)
        measured | bpe.WriteStatistics(f"{folder}/statistics", vocabularies)

        rows = p | beam.Create(files_of(read)) | beam.FlatMap(rows_of)
        measured = rows | "MeasureRows" >> bpe.MeasureTokens(**measure, by_path=True)
        measured | "WriteOfRows" >> bpe.WriteStatistics(f"{folder}/of-rows", vocabularies, by_path=True)

        p | bpe.EncodeFiles(files_of(encoded), f"{folder}/ids", vocabularies[-1], range_bytes=RANGE_BYTES)
    os._exit(0)  # see spread.py
