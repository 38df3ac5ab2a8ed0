"""Write the rows of `Encode` as shards, like those that `EncodeFiles` writes from files."""

import json
import zlib
from collections import defaultdict
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from beam_bpe import encoding, formats, shards
from beam_bpe.shards import Encoded
from beam_bpe.transforms.rows import row_of
from beam_bpe.transforms.runners import refuse_lossy
from beam_bpe.transforms.stored import StoredDoFn, StoredMap
from beam_bpe.vocabulary import Vocabulary


class WriteShards(beam.PTransform):
    """Write rows with ids into a folder of shards; the output holds its path, once its manifest stands.

    Elements are rows (beam.Row, named tuples, dicts) with a column of ids, as `Encode` gives them; their other
    columns are written beside the ids.  The rows of a shard are those of one hash of the ids; their order, and so
    the bytes of the files, are not promised.

    Args:
        folder: where to write; a folder or URL.
        vocabulary: the one that made the ids, or its path; its fingerprint and size go into the shards.
        format: "parquet", "megatron" or "npy".
        column: the column of the ids.
        shards: how many there are; what all rows of one hold must fit into a worker.
        overwrite: replace what stands in the folder.
        vocabulary_options: of the vocabulary's format, such as pattern and special_tokens of a rank file.
    """

    def __init__(
        self,
        folder: str,
        vocabulary: Union[str, Vocabulary],
        format: str = "parquet",
        column: str = "ids",
        shards: int = 16,
        overwrite: bool = False,
        vocabulary_options: Optional[Dict[str, Any]] = None,
    ):
        super().__init__()
        if shards < 1:
            raise ValueError(f"shards is {shards}; it must be at least 1")
        encoding.Encoding(format=format)
        loaded = vocabulary if isinstance(vocabulary, Vocabulary) else formats.load(vocabulary, **(vocabulary_options or {}))
        self._folder, self._format, self._column, self._shards = folder, format, column, shards
        self._overwrite = overwrite
        self._parameters = {"fingerprint": loaded.fingerprint, "vocab_size": len(loaded), "format": format}

    def display_data(self):
        return {"folder": self._folder, "format": self._format, "shards": self._shards}

    def expand(self, rows: beam.PCollection) -> beam.PCollection[str]:
        refuse_lossy(rows.pipeline)
        if not rows.windowing.is_default():
            raise ValueError("WriteShards writes one folder: it takes the rows of the global window")
        encoding.claim(self._folder, overwrite=self._overwrite)
        lines = (
            rows
            | "Pack" >> beam.ParDo(_PackFn(self._column, self._shards)).with_output_types(Tuple[int, bytes])
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteShardFn(self._folder, self._format, self._shards, self._parameters))
        )
        return (
            rows.pipeline
            | "Once" >> beam.Create([self._folder], reshuffle=False)
            | "Manifest" >> beam.ParDo(StoredMap(_publish), beam.pvalue.AsList(lines), self._parameters).with_output_types(str)
        )


class _PackFn(beam.DoFn):
    """Gather the rows of a bundle by shard, as Arrow in bytes."""

    _ROWS = 4096

    def __init__(self, column: str, count: int):
        self._column, self._count = column, count

    def start_bundle(self) -> None:
        self._rows: Dict[int, List[Dict[str, Any]]] = defaultdict(list)

    def process(self, element: Any) -> Iterator[Tuple[int, bytes]]:
        row = dict(row_of(element, self._column))
        row["ids"] = np.asarray(row.pop(self._column), np.uint32)
        shard = zlib.crc32(row["ids"].tobytes()) % self._count
        self._rows[shard].append(row)
        if len(self._rows[shard]) >= self._ROWS:
            yield shard, _packed(self._rows.pop(shard))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for shard, rows in self._rows.items():
            yield WindowedValue(
                (shard, _packed(rows)), beam.transforms.window.MIN_TIMESTAMP, [beam.transforms.window.GlobalWindow()]
            )
        self._rows.clear()


class _WriteShardFn(StoredDoFn):
    """Write a shard and yield its line of the manifest as JSON."""

    def __init__(self, folder: str, format: str, count: int, parameters: Dict[str, Any]):
        self._folder, self._format, self._count, self._parameters = folder, format, count, parameters

    def process(self, element: Tuple[int, Iterable[bytes]]) -> Iterator[str]:
        number, packed = element
        name = encoding.part_name(number, self._count)
        schema = pa.unify_schemas([_unpacked(some).schema for some in packed])
        others = [field for field in schema if field.name != "ids"]
        writer = shards.open_writer(
            self._format, self._folder, name, {"parameters": self._parameters}, vocab_size=self._parameters["vocab_size"]
        )
        with writer:
            for some in packed:
                table = _unpacked(some)
                column = table["ids"].combine_chunks()
                ends = column.offsets.to_numpy().astype(np.int64)[1:] - column.offsets[0].as_py()
                arrays = [
                    table[field.name].combine_chunks().cast(field.type)
                    if field.name in table.column_names
                    else pa.nulls(len(table), field.type)
                    for field in others
                ]
                columns = pa.RecordBatch.from_arrays(arrays, [field.name for field in others]) if others else None
                ids = np.asarray(column.flatten())
                writer.write(Encoded(ids, ends, columns))
        line = writer.close()
        yield json.dumps({**line, "totals": {"encoded_documents": line["rows"], "tokens": line["tokens"]}})


def _publish(folder: str, lines: List[str], parameters: Dict[str, Any]) -> str:
    encoding.publish(folder, [json.loads(line) for line in lines], parameters)
    return folder


def _packed(rows: List[Dict[str, Any]]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {
        name: pa.array([row.get(name) for row in rows], pa.list_(pa.uint32()) if name == "ids" else None) for name in names
    }
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()
