"""Write word tables as folders of Parquet parts, and read them."""

import json
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import apache_beam as beam

from beam_bpe import artifacts, storage, word_parts
from beam_bpe.framing import TOTALS_SHARD, frame, unframe
from beam_bpe.totals import add_counted
from beam_bpe.transforms.stored import StoredDoFn, StoredMap
from beam_bpe.words import WordCounts


class WriteWords(beam.PTransform):
    """Write counted words into a folder: a Parquet part for each shard, then the manifest.

    The output holds the path of the folder, once all of it stands. Each part is whole or absent, and the
    folder counts as a table of words only from the moment that its manifest stands.

    Args:
        folder: where to write; a folder or URL.
        overwrite: replace a table that stands there.
    """

    def __init__(self, folder: str, overwrite: bool = False):
        super().__init__()
        self._folder = folder
        self._overwrite = overwrite

    def display_data(self):
        return {"folder": self._folder}

    def expand(self, packed: beam.PCollection[Tuple[int, bytes]]) -> beam.PCollection[str]:
        if not packed.windowing.is_default():
            raise ValueError("WriteWords writes one table: it takes the counts of the global window")
        word_parts.claim(self._folder, self._overwrite)
        storage.check_writable(self._folder)
        lines = packed | "Part" >> beam.ParDo(_WritePartFn(self._folder))
        return (
            packed.pipeline
            | "Once" >> beam.Create([self._folder], reshuffle=False)
            | "Manifest" >> beam.ParDo(StoredMap(_publish), beam.pvalue.AsList(lines)).with_output_types(str)
        )


class _WritePartFn(StoredDoFn):
    """Write a shard as a part and yield its line of the manifest; pass the totals on."""

    def __init__(self, folder: str):
        self._folder = folder

    def process(self, element: Tuple[int, bytes]) -> Iterator[str]:
        shard, framed = element
        parameters, payload = unframe(framed)
        line: Dict[str, Any] = {"parameters": parameters}
        if shard == TOTALS_SHARD:
            line["totals"] = json.loads(bytes(payload))
        else:
            line["part"] = word_parts.write_part(self._folder, payload, parameters)
        yield json.dumps(line)


def _publish(folder: str, lines: List[str]) -> str:
    parsed = [json.loads(line) for line in lines]
    parameters = parsed[0]["parameters"] if parsed else {}
    if any(line["parameters"] != parameters for line in parsed):
        raise ValueError("words that were counted with different parameters do not make one table")
    shards = {word_parts.shards_of(line["part"]["name"]) for line in parsed if "part" in line}
    if len(shards) > 1:
        raise ValueError(f"word tables cut into {' and '.join(map(str, sorted(shards)))} shards do not make one table")
    totals = add_counted(*(line["totals"] for line in parsed if "totals" in line))
    word_parts.publish(folder, [line["part"] for line in parsed if "part" in line], parameters, totals)
    return folder


class ReadWords(beam.PTransform):
    """Read a folder of words, which WriteWords or `WordCounts.write` made, part by part.

    The output holds (shard, packed words) pairs as CountWords gives them, so that tables of several
    runs (counted alike, with the same number of shards) can be flattened and summed by MergeWords.

    Args:
        folder: the folder; its manifest is demanded, and only the parts that it names are read.
    """

    def __init__(self, folder: str):
        super().__init__()
        self._folder = folder

    def display_data(self):
        return {"folder": self._folder}

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[Tuple[int, bytes]]:
        manifest = artifacts.read_manifest(self._folder, word_parts.KIND)
        parts = [json.dumps(part) for part in manifest["parts"]]
        head = {"parameters": manifest["parameters"]}
        counted = dict(manifest["totals"])
        if "group_by" in manifest["parameters"]:
            counted["groups"] = word_parts.groups_of_manifest(self._folder, manifest)
        totals = (TOTALS_SHARD, frame(manifest["parameters"], json.dumps(counted).encode()))
        read = (
            pbegin
            | "Parts" >> beam.Create(parts)
            | "Read" >> beam.ParDo(_ReadPartFn(self._folder, head)).with_output_types(Tuple[int, bytes])
        )
        rest = pbegin | "Totals" >> beam.Create([totals], reshuffle=False).with_output_types(Tuple[int, bytes])
        return (read, rest) | beam.Flatten()


class _ReadPartFn(StoredDoFn):
    """Read a part and pack it again."""

    def __init__(self, folder: str, head: Dict[str, Any]):
        self._folder = folder
        self._head = head

    def process(self, line: str) -> Iterator[Tuple[int, bytes]]:
        part = json.loads(line)
        table = word_parts.read_part(storage.join(self._folder, part["name"]), part, self._head)
        for shard, packed in word_parts.pack_table(table, word_parts.shards_of(part["name"])):
            yield shard, frame(self._head["parameters"], packed)


class CountedWord(NamedTuple):
    """A row of a word table."""

    word: bytes
    count: int  # type: ignore[assignment]


class GroupedWord(NamedTuple):
    """A row of a word table that was counted by group."""

    word: bytes
    count: int  # type: ignore[assignment]
    group: str


beam.coders.registry.register_coder(CountedWord, beam.coders.RowCoder)
beam.coders.registry.register_coder(GroupedWord, beam.coders.RowCoder)


class WordRows(beam.PTransform):
    """Turn (shard, packed words) pairs into rows with the fields `word` (bytes) and `count`.

    An element a word is costly; this is for small tables and for joining with other data.

    Args:
        groups: of words that were counted by group give a row for each word and group, with the field `group` too;
            without it their sums.
    """

    def __init__(self, groups: bool = False):
        super().__init__()
        self._groups = groups

    def expand(self, packed: beam.PCollection[Tuple[int, bytes]]) -> beam.PCollection[Any]:
        if self._groups:
            return packed | "Rows" >> beam.FlatMap(_grouped_rows).with_output_types(GroupedWord)
        return packed | "Rows" >> beam.FlatMap(_rows).with_output_types(CountedWord)


def _rows(element: Tuple[int, bytes]) -> Iterator[CountedWord]:
    shard, framed = element
    if shard == TOTALS_SHARD:
        return
    parameters, payload = unframe(framed)
    for batch in WordCounts(word_parts.unpack_table(payload)[2], parameters).ungrouped().table.to_batches():
        for word, count in zip(batch.column("word").to_pylist(), batch.column("count").to_pylist()):
            yield CountedWord(word, count)


def _grouped_rows(element: Tuple[int, bytes]) -> Iterator[GroupedWord]:
    shard, framed = element
    if shard == TOTALS_SHARD:
        return
    parameters, payload = unframe(framed)
    if "group_by" not in parameters:
        raise ValueError("WordRows(groups=True) takes words that were counted by group: CountWords(group_by=…)")
    for batch in word_parts.unpack_table(payload)[2].to_batches():
        yield from map(GroupedWord, *(batch.column(name).to_pylist() for name in GroupedWord._fields))
