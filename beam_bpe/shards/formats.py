"""The formats of shards by name: open, read, look for, remove."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from beam_bpe import storage
from beam_bpe.shards import megatron, npy, parquet, publishing
from beam_bpe.shards.encoded import Encoded
from beam_bpe.shards.writer import ShardWriter

FORMATS = ("parquet", "megatron", "npy")
_WRITERS: Mapping[str, type[ShardWriter]] = {
    "parquet": parquet.ParquetShardWriter,
    "megatron": megatron.MegatronShardWriter,
    "npy": npy.NpyShardWriter,
}
_READERS: Mapping[str, Any] = {"parquet": parquet, "megatron": megatron, "npy": npy}


def _check(format: str) -> str:
    if format not in FORMATS:
        raise ValueError(f"format={format!r}: must be one of {', '.join(FORMATS)}")
    return format


def open_writer(
    format: str,
    folder: str,
    name: str,
    header: Mapping[str, Any],
    *,
    vocab_size: int,
    row_length: int | None = None,
) -> ShardWriter:
    """Begin a shard; see `ShardWriter` for the arguments.

    Raises:
        ValueError: the format is none of `FORMATS`, or another argument is not allowed.
        TypeError: the header is no JSON.
    """
    return _WRITERS[_check(format)](folder, name, header, vocab_size=vocab_size, row_length=row_length)


def read_shard(folder: str, name: str, format: str) -> Iterator[Encoded]:
    """Return an iterator over the documents of a shard in order, about 64 MB at a time, whole documents always.

    Raises (as it goes):
        FileNotFoundError: the shard is absent or not whole.
        FormatError: a file is broken, too short, or does not fit the others.
    """
    found: Iterator[Encoded] = _READERS[_check(format)].read(folder, name)
    return found


def read_header(folder: str, name: str, format: str) -> dict[str, Any]:
    """Return the header of a whole shard: what its writer was given, `format`, `dtype`, `vocab_size`, `row_length`.

    Raises:
        FileNotFoundError: the shard is absent or not whole.
        FormatError: it is not one of ours.
    """
    header: dict[str, Any] = _READERS[_check(format)].read_header(folder, name)
    return header


def shard_exists(folder: str, name: str, format: str) -> bool:
    """Tell whether a shard is whole: whether the file stands that is written last."""
    return storage.exists(storage.join(folder, _WRITERS[_check(format)].names_of(name)[-1]))


def remove_shard(folder: str, name: str, format: str) -> None:
    """Remove the files of a shard, the deciding one first; an absent shard is fine."""
    publishing.remove(folder, _WRITERS[_check(format)].names_of(name))
