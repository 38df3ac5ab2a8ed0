"""Tables of words in files: a folder of Parquet parts that a manifest makes whole.

A part `part-00017-of-00064.parquet` has the columns word: binary, count: int64, optionally documents: int64, sorted by
word. A table that was counted by group has a row for each word and group (group: dictionary of string; sorted by word,
then group), the column that told the groups in its parameters (`group_by`), and what was counted of each group in its
manifest (`groups`: `grouping.GROUP_TOTALS` by name).
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import __version__, _words, artifacts, grouping, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.grouping import GroupTables, add_group_totals
from beam_bpe.totals import add_totals
from beam_bpe.word_rows import batches_of, exact_total, first_rows, group_numbers

KIND = "words"
PART_NAME = re.compile(r"part-\d{5,}-of-\d{5,}\.parquet")


class LostWords(RuntimeError):
    """A table does not hold the words that were counted into it."""


def word_schema(documents: bool, groups: bool = False) -> pa.Schema:
    """Return the schema of a part."""
    fields = [pa.field("word", pa.binary(), nullable=False), pa.field("count", pa.int64(), nullable=False)]
    if documents:
        fields.append(pa.field("documents", pa.int64(), nullable=False))
    if groups:
        fields.append(pa.field("group", pa.dictionary(pa.int32(), pa.string()), nullable=False))
    return pa.schema(fields)


def unpack_table(packed: bytes | memoryview) -> tuple[int, int, pa.Table]:
    """Return (shard, shards, table) of packed words, which may be those of groups."""
    group = None
    if grouping.is_grouped(packed):
        names, tables = zip(*grouping.unpack_groups(packed))
        shard, shards, data, offsets, counts, documents, rows_of = _words.interleave(list(tables))
        group = pa.DictionaryArray.from_arrays(pa.array(np.frombuffer(rows_of, np.int32)), pa.array(names, pa.string()))
    else:
        shard, shards, data, offsets, counts, documents = _words.unpack(packed)
    bounds = np.frombuffer(offsets, np.int64)
    rows = len(bounds) - 1
    columns: list[pa.Array] = []
    slices = []
    start = 0
    while start < rows:  # a binary column holds at most 2 GiB, and offsets of 32 bits
        stop = min(rows, start + artifacts.ROW_GROUP)
        if bounds[stop] - bounds[start] > 1 << 30:
            stop = max(start + 1, int(np.searchsorted(bounds, bounds[start] + (1 << 30), "right")) - 1)
        local = (bounds[start : stop + 1] - bounds[start]).astype(np.int32)
        text = pa.py_buffer(data)[int(bounds[start]) : int(bounds[stop])]
        slices.append(pa.BinaryArray.from_buffers(pa.binary(), stop - start, [None, pa.py_buffer(local), text]))
        start = stop
    columns = [pa.chunked_array(slices, pa.binary())]
    numbers = [counts] if documents is None else [counts, documents]
    for packed_numbers in numbers:
        columns.append(pa.chunked_array([pa.array(np.frombuffer(packed_numbers, np.int64))], pa.int64()))
    if group is not None:
        columns.append(pa.chunked_array([group]))
    return shard, shards, pa.table(columns, schema=word_schema(documents is not None, group is not None))


def part_name(shard: int, shards: int) -> str:
    """Return the name of a part: part-00017-of-00064.parquet."""
    return f"part-{shard:05d}-of-{shards:05d}.parquet"


def shards_of(name: str) -> int:
    """Return the number of shards that the name of a part tells."""
    return int(name.rsplit("-of-", 1)[1].split(".")[0])


def write_part(folder: str, packed: bytes | memoryview, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Write packed, sorted words as a part and return its line of the manifest.

    It tells the rows, the bytes of the distinct words and the sum of the counts; of groups also the distinct words.
    """
    shard, shards, table = unpack_table(packed)
    name = part_name(shard, shards)
    artifacts.write_parquet(storage.join(folder, name), table, {"kind": KIND, "parameters": parameters})
    distinct = table["word"].filter(pa.array(first_rows(table))) if "group" in table.column_names else table["word"]
    return {
        "name": name,
        "rows": table.num_rows,
        **({"words": len(distinct)} if "group" in table.column_names else {}),
        "bytes": pc.sum(pc.binary_length(distinct)).as_py() or 0,
        "occurrences": exact_total(table["count"]),
    }


def publish(
    folder: str, parts: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any], totals: Mapping[str, Any]
) -> None:
    """Write the manifest of a folder whose parts all stand, then remove the parts it does not name.

    Args:
        totals: as they travel (see `add_counted`).

    Raises:
        LostWords: the parts do not hold the words that were counted; nothing is published.
    """
    ordered = sorted(parts, key=lambda part: part["name"])
    names = [part["name"] for part in ordered]
    if len(set(names)) < len(names):
        raise ValueError("a shard stands in the table more than once: sum flattened tables with MergeWords first")
    held = sum(part["occurrences"] for part in ordered) + totals.get("pruned_occurrences", 0)
    if held != totals.get("words", 0):
        raise LostWords(
            f"{totals.get('words', 0):,} words were counted, but {held:,} arrived: the runner lost or doubled some on "
            "the way, so nothing was published; run the job again, or with another runner"
        )
    artifacts.write_manifest(
        folder,
        {
            "kind": KIND,
            "version": __version__,
            "parameters": parameters,
            "parameters_digest": artifacts.digest(parameters),
            "totals": add_totals(totals),
            "parts": ordered,
            **({"groups": add_group_totals(totals.get("groups", {}))} if "group_by" in parameters else {}),
        },
    )
    named = {part["name"] for part in ordered}
    for name in storage.list_names(folder):
        if name not in named and _is_ours(folder, name):
            storage.remove(storage.join(folder, name))
    storage.sweep(folder)  # what killed workers of this run left


def claim(folder: str, overwrite: bool) -> None:
    """Prepare a folder to be written: refuse a finished one, or take its manifest away first.

    Raises:
        FileExistsError: it holds words already, and `overwrite` is not set; or Parquet files that are
            somebody else's, which no run of ours writes over or removes.
    """
    manifest = storage.join(folder, artifacts.MANIFEST)
    finished = storage.exists(manifest)
    if finished and not overwrite:
        raise FileExistsError(f"{folder} already holds words; choose another folder or overwrite it (--overwrite)")
    for name in storage.list_names(folder):
        if name.endswith(".parquet") and not name.startswith(".") and not _is_ours(folder, name):
            raise FileExistsError(f"{folder} holds {name}, which is not a part of a table of words: choose another folder")
    if finished:
        storage.remove(manifest)
    storage.sweep(folder)


def _is_ours(folder: str, name: str) -> bool:
    """Whether a file is a part that some run of ours wrote: by its name and by what it says it holds."""
    if not PART_NAME.fullmatch(name):
        return False
    url = storage.join(folder, name)
    try:
        with artifacts.open_parquet(url) as file:
            artifacts.read_header(url, file, KIND)
    except FormatError:
        return False
    return True


def groups_of_manifest(folder: str, manifest: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return what was counted of each group, as a manifest tells; FormatError if it does not."""
    groups = manifest.get("groups")
    if not isinstance(groups, dict) or not all(isinstance(totals, dict) for totals in groups.values()):
        raise FormatError(f"{storage.join(folder, artifacts.MANIFEST)} has no totals of its groups")
    return add_group_totals(groups)


def pack_table(table: pa.Table, shards: int) -> list[tuple[int, bytes]]:
    """Return (shard, packed words) for each shard that has words of a table, which may be counted by group."""
    documents = "documents" in table.column_names
    if "group" in table.column_names:
        tables = GroupTables(documents)
        tables.add_table(table)
        return tables.pack(shards)
    native = _words.WordTable(documents=documents)
    for batch in batches_of(table):
        native.add_columns(batch.data, batch.offsets, batch.counts, batch.documents)
    return native.pack(shards, ordered=True)


def read_part(url: str, part: Mapping[str, Any], manifest: Mapping[str, Any]) -> pa.Table:
    """Read a part, checked against its line of the manifest and the parameters there."""
    table, header = artifacts.read_parquet(url, KIND)
    if header.get("parameters") != manifest["parameters"]:
        raise FormatError(f"{url} was made with other parameters than its manifest says")
    grouped = "group_by" in manifest["parameters"]
    expected = word_schema("documents" in table.column_names, grouped)
    if not table.schema.remove_metadata().equals(expected):
        raise FormatError(f"{url} has the columns {table.schema.remove_metadata()}, not {expected}")
    if table.num_rows != part["rows"]:
        raise FormatError(f"{url} has {table.num_rows} rows, its manifest says {part['rows']}")
    words = table
    if grouped:
        firsts = first_rows(table)
        held = {group for chunk in table["group"].chunks for group in chunk.dictionary.to_pylist()}
        numbers = group_numbers(table, sorted(held))
        if (wrong := ~firsts[1:] & (np.diff(numbers) <= 0)).any():
            raise FormatError(f"{url}: the groups of a word are not in order at row {int(np.argmax(wrong)) + 1}")
        words = table.filter(pa.array(firsts))
    before = b""
    for batch in batches_of(words):
        row = _words.first_unordered(batch.data, batch.offsets, before)
        if row >= 0:
            raise FormatError(f"{url}: the words are not in order at row {row} of a batch of {len(batch.counts)}")
        before = batch.data[batch.offsets[-2] : batch.offsets[-1]].tobytes()
    if table.num_rows and pc.min(table["count"]).as_py() < 0:
        raise FormatError(f"{url} holds a negative count")
    if exact_total(table["count"]) != part["occurrences"]:
        raise FormatError(f"{url} does not count the {part['occurrences']} occurrences that its manifest says")
    return table
