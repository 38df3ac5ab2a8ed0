"""Files of encoded documents: Parquet, Megatron-LM's `.bin` and `.idx`, or NumPy arrays.

>>> import numpy as np
>>> batch = Encoded(np.array([5, 6, 7], np.uint16), np.array([2, 3], np.int64), None)
>>> with open_writer("parquet", "memory://ids", "part-00000-of-00001", {}, vocab_size=300) as writer:
...     writer.write(batch)
>>> writer.result["rows"], writer.result["tokens"], [file["name"] for file in writer.result["files"]]
(2, 3, ['part-00000-of-00001.parquet'])
>>> [some.ids.tolist() for some in read_shard("memory://ids", "part-00000-of-00001", "parquet")]
[[5, 6, 7]]
"""

from __future__ import annotations

from beam_bpe.shards.encoded import KIND, RESERVED, Encoded, dtype_for
from beam_bpe.shards.formats import FORMATS, open_writer, read_header, read_shard, remove_shard, shard_exists
from beam_bpe.shards.merging import merge_shards
from beam_bpe.shards.writer import ShardWriter

__all__ = [
    "FORMATS",
    "KIND",
    "RESERVED",
    "Encoded",
    "ShardWriter",
    "dtype_for",
    "merge_shards",
    "open_writer",
    "read_header",
    "read_shard",
    "remove_shard",
    "shard_exists",
]
