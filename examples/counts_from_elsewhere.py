"""Learn a vocabulary from a table of two columns that SQL, Spark or anything else has made.

    python examples/counts_from_elsewhere.py counts.parquet vocabulary

The table has a row per distinct word, for example from

    SELECT token AS word, count(*) AS count FROM tokens GROUP BY token

and may be Parquet, CSV or TSV. Without arguments a small one is made first.
"""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from beam_bpe import WordCounts, train


def make_table(path: str) -> None:
    """Write the counts that any other program might have written."""
    rows = {" low": 5, " lower": 2, " newest": 6, " widest": 3}
    pq.write_table(pa.table({"token": list(rows), "n": list(rows.values())}), path)


def main(table: str, output: str) -> None:
    # The pattern says how the words were cut; the vocabulary keeps it, for encoding text alike.
    words = WordCounts.read_foreign([table], word_column="token", count_column="n", pre_tokenizer="gpt2")
    vocabulary = train(words, vocab_size=256 + 10 + 1, special_tokens=["<|endoftext|>"])
    vocabulary.save(output)
    for merge in vocabulary.merges:
        print(merge.rank, merge.token, merge.count)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(*sys.argv[1:])
    else:
        folder = Path(tempfile.mkdtemp())
        make_table(str(folder / "counts.parquet"))
        main(str(folder / "counts.parquet"), str(folder / "vocabulary"))
