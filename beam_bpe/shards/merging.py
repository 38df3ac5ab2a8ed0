"""One shard of several."""

from __future__ import annotations

from typing import Any, Sequence

from beam_bpe.shards.formats import open_writer, read_header, read_shard

_OF_ONE = {"columns", "rows", "tokens", "files"}  # what a writer says of one shard; empty ones may have no columns
_OWN = {"format", "dtype", "vocab_size", "row_length", "version"} | _OF_ONE


def merge_shards(folder: str, names: Sequence[str], format: str, into: str, name: str) -> dict[str, Any]:
    """Write the documents of shards, in the order of names, as one shard of the same format; return its line.

    The documents' columns and boundaries are kept. The bytes are those of a shard that was written at once. Streams:
    memory is that of one reader and one writer; the parts stay.

    Raises:
        ValueError: there are no parts, or their headers differ (another vocabulary's, other parameters).
        FileNotFoundError, FormatError: a part is absent or broken; nothing is written.
    """
    if isinstance(names, str) or not names:
        raise ValueError(f"names={names!r}: must be a sequence of the names of shards")
    header = read_header(folder, names[0], format)
    for each in names[1:]:
        other = read_header(folder, each, format)
        keys = sorted({*header, *other} - _OF_ONE)
        if differing := [key for key in keys if header.get(key) != other.get(key)]:
            told = "; ".join(f"{key} is {header.get(key)!r} and {other.get(key)!r}" for key in differing)
            raise ValueError(f"the shards {names[0]} and {each} cannot be one: {told}")
    given = {key: value for key, value in header.items() if key not in _OWN}
    options = {"vocab_size": header["vocab_size"], "row_length": header["row_length"]}
    with open_writer(format, into, name, given, **options) as writer:
        for each in names:
            for batch in read_shard(folder, each, format):
                writer.write(batch)
    return writer.close()
