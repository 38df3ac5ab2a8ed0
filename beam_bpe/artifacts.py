"""Read and write artifacts: Parquet files with a JSON header, and the manifest of a folder of parts.

A file says what it is in its key-value metadata, under the key `beam_bpe`: its kind, the parameters
it was made with, its totals.  It holds no time, host, path, run or number of shards, so that two runs
give the same bytes (with the same version of pyarrow, which writes its own name into the footer).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from beam_bpe import __version__, storage

KEY = b"beam_bpe"
MANIFEST = "_manifest.json"
_LOOKED_INTO = 100  # names of a folder without a manifest
ROW_GROUP = 1 << 20  # rows
DISTINCT = ("word", "token", "id", "rank")  # columns of which a dictionary would hold every value
BROKEN = (pa.ArrowException, OSError, UnicodeDecodeError)  # what pyarrow raises on bytes that are no Parquet


class FormatError(ValueError):
    """A broken artifact, or not the one expected; the message names the path and what is wrong."""


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a value, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def table_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return rows of values as a table of that schema."""
    columns = zip(*rows) if rows else ((),) * len(schema)
    return pa.table([pa.array(list(column), kind) for column, kind in zip(columns, schema.types)], schema=schema)


def write_parquet(url: str, table: pa.Table, header: Mapping[str, Any]) -> None:
    """Write a table and its header, whole or not at all."""
    table = table.replace_schema_metadata({KEY: canonical_json({**header, "version": __version__})})
    repeated = [name for name in table.column_names if name not in DISTINCT]
    with storage.write(url) as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            row_group_size=ROW_GROUP,
            use_dictionary=repeated,
            write_statistics=False,
            write_page_checksum=True,
        )


def open_parquet(url: str) -> pq.ParquetFile:
    """Open a Parquet file; FormatError names the path when it is none."""
    store, path = storage.locate(url)
    # Arrow's threads may let go of a file while Python ends, and abort if the file is Python's: local files
    # are Arrow's own, and what is read from a store is not read ahead in threads.
    if store is None:
        storage.open_read(url, compression=None).close()  # for its errors, which name the url
        file = pa.OSFile(path)
    else:
        file = storage.open_read(url, compression=None)
    try:
        return pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
    except BROKEN as error:
        file.close()
        raise FormatError(f"{url} is not a whole Parquet file: {error}") from None


def read_header(url: str, file: pq.ParquetFile, kind: str | None = None) -> dict[str, Any]:
    """Return the header of an artifact; FormatError if it has none or is of another kind."""
    raw = (file.schema_arrow.metadata or {}).get(KEY)
    if raw is None:
        raise FormatError(f"{url} was not written by beam_bpe: it has no {KEY.decode()!r} metadata")
    try:
        header: dict[str, Any] = json.loads(raw)
    except ValueError as error:
        raise FormatError(f"the {KEY.decode()!r} metadata of {url} is not JSON: {error}") from None
    if kind is not None and header.get("kind") != kind:
        raise FormatError(f"{url} holds {header.get('kind')!r}, not {kind!r}")
    return header


def read_parquet(url: str, kind: str) -> tuple[pa.Table, dict[str, Any]]:
    """Return table and header of an artifact of that kind."""
    with open_parquet(url) as file:
        header = read_header(url, file, kind)
        try:
            return file.read(), header
        except BROKEN as error:
            raise FormatError(f"{url} is broken: {error}") from None


def write_manifest(folder: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest that makes the parts of a folder an artifact."""
    text = json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=True) + "\n"
    storage.write_bytes(storage.join(folder, MANIFEST), text.encode())


def read_manifest(folder: str, kind: str) -> dict[str, Any]:
    """Return the manifest of a folder of that kind.

    Raises:
        FileNotFoundError: there is none, so the folder is not (yet) an artifact.
        FormatError: it is broken or of another kind.
    """
    url = storage.join(folder, MANIFEST)
    try:
        manifest = json.loads(storage.read_bytes(url))
    except FileNotFoundError:
        inner = [storage.join(folder, name) for name in storage.list_names(folder)[:_LOOKED_INTO]]
        held = [one for one in inner if storage.exists(storage.join(one, MANIFEST))]
        told = "a job that writes it may have failed or still be running (files made elsewhere are named one by one)"
        if held:
            told = f"it holds several, name one: {', '.join(held)}"
        raise FileNotFoundError(f"{folder} has no {MANIFEST}: it is not a finished folder of {kind}; {told}") from None
    except ValueError as error:
        raise FormatError(f"{url} is not JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise FormatError(f"{url} is not the manifest of {kind}")
    for name, type_ in (("parameters", dict), ("totals", dict), ("parts", list)):
        if not isinstance(manifest.get(name), type_):
            raise FormatError(f"{url} has no {name}")
    if not all(isinstance(part, dict) and {"name", "rows"} <= part.keys() for part in manifest["parts"]):
        raise FormatError(f"{url} lists a part without its name and rows")
    return manifest
