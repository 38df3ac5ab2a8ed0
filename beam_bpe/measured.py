"""Statistics as an artifact: a folder with `statistics.json`, all exact numbers, and the frequencies of tokens in Parquet.

`statistics.json` is canonical JSON: the same statistics give the same bytes.  `frequencies-00000.parquet` and so on are
those of each vocabulary in turn: a row for each token and group that has it (id: uint32, token: binary, group: string,
count: int64; by group, then id).  The JSON is written last: without it the folder holds no statistics.
"""

from __future__ import annotations

import json
from typing import Any, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import artifacts, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.encoders import decoded_tokens
from beam_bpe.statistics import Statistics, exact_sum
from beam_bpe.vocabulary import Vocabulary

KIND, FREQUENCIES = "statistics", "frequencies"
STATISTICS_FILE = "statistics.json"
SCHEMA = pa.schema(
    [pa.field("id", pa.uint32(), False), pa.field("token", pa.binary(), False), pa.field("group", pa.string(), False)]
    + [pa.field("count", pa.int64(), False)]
)


def claim(folder: str, overwrite: bool) -> None:
    """Refuse a folder that holds statistics already (FileExistsError), or take their JSON away."""
    url = storage.join(folder, STATISTICS_FILE)
    if storage.exists(url):
        if not overwrite:
            raise FileExistsError(f"{folder} already holds statistics; choose another folder or overwrite it (--overwrite)")
        storage.remove(url)


def frequency_table(statistics: Statistics, vocabulary: Vocabulary) -> pa.Table:
    """Return the frequencies of the tokens of each group, with the bytes that they decode to."""
    spelt = pa.array(_spelt(vocabulary), pa.binary())
    tables = []
    for name, measures in statistics.groups.items():
        frequencies = np.empty(0, np.int64) if measures.frequencies is None else measures.frequencies
        ids = np.flatnonzero(frequencies)
        columns = [
            pa.array(ids, pa.uint32()),
            spelt.take(pa.array(ids)),
            pa.array([name], pa.string()).take(pa.array(np.zeros(len(ids), np.int64))),
            pa.array(frequencies[ids], pa.int64()),
        ]
        tables.append(pa.table(columns, schema=SCHEMA))
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def _spelt(vocabulary: Vocabulary) -> list[bytes]:
    return decoded_tokens(vocabulary)[0]


def frequency_file(number: int) -> str:
    """Return the name of the file with the frequencies of the vocabulary of that number: frequencies-00000.parquet."""
    return f"frequencies-{number:05d}.parquet"


def statistics_json(statistics: Sequence[Statistics]) -> str:
    """Return all but the frequencies as canonical JSON."""
    return artifacts.canonical_json({"kind": KIND, "statistics": [one.record() for one in statistics]}) + "\n"


def save(
    folder: str, statistics: Sequence[Statistics], vocabularies: Sequence[Vocabulary], *, overwrite: bool = False
) -> None:
    """Write statistics into a folder.

    Args:
        vocabularies: those that were measured, in any order.

    Raises:
        FileExistsError: it holds statistics already, and `overwrite` is not set.
        ValueError: a vocabulary is missing.
    """
    known = {vocabulary.fingerprint: vocabulary for vocabulary in vocabularies}
    missing = [
        one.subject.name for one in statistics if not one.subject.is_baseline and one.subject.fingerprint not in known
    ]
    if missing:
        raise ValueError(f"the vocabulary of {missing[0]} is needed for the spelling of its tokens")
    claim(folder, overwrite)
    for number, one in enumerate(statistics):
        if not one.subject.is_baseline:
            header = {"kind": FREQUENCIES, "fingerprint": one.subject.fingerprint, "group_by": one.group_by}
            url = storage.join(folder, frequency_file(number))
            artifacts.write_parquet(url, frequency_table(one, known[str(one.subject.fingerprint)]), header)
    storage.write_bytes(storage.join(folder, STATISTICS_FILE), statistics_json(statistics).encode())


def load(folder: str) -> list[Statistics]:
    """Read the statistics of a folder.

    Raises:
        FileNotFoundError: it holds none.
        FormatError: a file is broken, or the frequencies are not those of the statistics.
    """
    url = storage.join(folder, STATISTICS_FILE)
    try:
        found = json.loads(storage.read_bytes(url))
    except ValueError as error:
        raise FormatError(f"{url} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise FormatError(f"{url} holds no statistics")
    try:
        return [_loaded(folder, number, record) for number, record in enumerate(found["statistics"])]
    except (KeyError, TypeError) as error:
        raise FormatError(f"{url} is broken: {error!r}") from None


def _loaded(folder: str, number: int, record: dict[str, Any]) -> Statistics:
    subject, groups = record["subject"], record["groups"]
    frequencies: dict[str, np.ndarray] = {}
    if subject["fingerprint"] is not None:
        url = storage.join(folder, frequency_file(number))
        table, header = artifacts.read_parquet(url, FREQUENCIES)
        if header.get("fingerprint") != subject["fingerprint"] or not table.schema.remove_metadata().equals(SCHEMA):
            raise FormatError(f"{url} does not hold the frequencies of {subject['name']}")
        frequencies = {name: np.zeros(subject["size"], np.int64) for name in groups}
        for name in pc.unique(table["group"]).to_pylist():
            rows = table.filter(pc.equal(table["group"], name))
            ids, counts = np.asarray(rows["id"]), np.asarray(rows["count"])
            if name not in groups or (ids >= subject["size"]).any() or len(np.unique(ids)) < len(ids) or (counts < 1).any():
                raise FormatError(f"{url} holds frequencies of the group {name!r} that its statistics do not have")
            frequencies[name][ids] = counts
        for name, own in frequencies.items():
            if exact_sum(own) != groups[name]["tokens"]:
                raise FormatError(f"{url} does not count the {groups[name]['tokens']:,} tokens of the group {name!r}")
    return Statistics.from_record(record, frequencies)
