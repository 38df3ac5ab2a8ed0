"""Compression by suffix, and streaming decompression that takes no shortened or damaged file for a whole one."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
_CHUNK = 1 << 16  # kept small: gzip, bz2 and xz copy what remains of a chunk once per member


class CorruptInputError(OSError):
    """Say that a compressed file is damaged or ends too early."""


def compression_of(url: str) -> str | None:
    """Name the compression that a suffix stands for, in any case: `gzip`, `zstd`, `bz2`, `xz`, or None.

    >>> compression_of("s3://corpus/en.jsonl.zst"), compression_of("notes.txt")
    ('zstd', None)
    """
    return SUFFIXES.get(os.path.splitext(file_link(url))[1].lower())


def strip_compression(url: str) -> str:
    """Take one compression suffix off a name; of a chain of urls only the link that names the file is returned.

    >>> strip_compression("en.jsonl.gz"), strip_compression("en.jsonl"), strip_compression("zip://en.csv.gz::all.zip")
    ('en.jsonl', 'en.jsonl', 'zip://en.csv')
    """
    link = file_link(url)
    return os.path.splitext(link)[0] if compression_of(link) else link


def file_link(url: str) -> str:
    """Return the link of a chain of urls that names the file.

    >>> file_link("zip://en.txt.gz::s3://bucket/all.zip"), file_link("simplecache::s3://bucket/en.gz")
    ('zip://en.txt.gz', 's3://bucket/en.gz')
    """
    return next((link for link in url.split("::") if "://" in link), url)


def decompress(file: BinaryIO, compression: str, url: str) -> BinaryIO:
    """Read the uncompressed bytes of an open file as a stream, in bounded memory; closing it closes the file.

    All members or frames are read. A file that is empty, ends early, is damaged, or has anything else behind its last
    member raises CorruptInputError, naming the url, at the read that meets it; one cut exactly between two members
    cannot be told from a whole one. Errors of the file itself pass unchanged.

    >>> import gzip
    >>> decompress(io.BytesIO(gzip.compress(b"one ") + gzip.compress(b"two")), "gzip", "notes.gz").read()
    b'one two'
    """
    return io.BufferedReader(_Decoded(file, compression, url), _CHUNK)


class _Decoded(io.RawIOBase):
    def __init__(self, file: BinaryIO, compression: str, url: str):
        self.file, self.blocks, self.rest = file, _blocks(file, compression, url), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.rest:
            self.rest = memoryview(next(self.blocks, b""))
        size = min(len(buffer), len(self.rest))
        buffer[:size], self.rest = self.rest[:size], self.rest[size:]
        return size

    def readall(self) -> bytes:
        head, self.rest = self.rest, self.rest[:0]
        return b"".join([head, *self.blocks])

    def close(self) -> None:
        super().close()
        self.file.close()


class _Stored(io.RawIOBase):
    """The stored bytes; remembers the file's own failure, so that the data are not blamed for it."""

    failure: Exception | None = None

    def __init__(self, file: BinaryIO):
        self.file, self.size = file, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            data = self.file.read(size)
        except Exception as exc:
            self.failure = exc
            raise
        self.size += len(data)
        return data


def _blocks(file: BinaryIO, compression: str, url: str) -> Iterator[bytes]:
    """Yield non-empty blocks of at most _CHUNK bytes; every failure of the decoder is a CorruptInputError."""
    stored = _Stored(file)
    try:
        yield from _frames(stored) if compression == "zstd" else _members(stored, compression)
        if not stored.size:
            raise EOFError
    except (OSError, zlib.error, lzma.LZMAError, EOFError) as exc:
        if stored.failure is not None:
            raise stored.failure
        if isinstance(exc, EOFError) or "Truncated" in str(exc):
            raise CorruptInputError(f"{url}: truncated: the file ends before its {compression} stream does") from exc
        raise CorruptInputError(f"{url}: damaged, or not a {compression} stream: {exc}") from exc


def _frames(stored: _Stored) -> Iterator[bytes]:
    # pyarrow and not the zstandard package: its stream_reader ends without a word in the middle of a cut frame, and its
    # decompressobj has no bound on the output (a 32 KB file may hold 1 GB). pyarrow was right on both, on several
    # frames, skippable frames and garbage behind the last; windows above 128 MB (zstd --long=28) are refused by both.
    stream = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "zstd")
    while block := stream.read(_CHUNK):
        yield block


def _members(stored: _Stored, compression: str) -> Iterator[bytes]:
    # Not the file classes of gzip, bz2 and lzma: the last two end without a word at a damaged second member, and
    # lzma's at the zero padding that the .xz format allows between streams.
    data = stored.read(_CHUNK)
    while data:
        decoder: Any = (zlib.decompressobj(wbits=31) if compression == "gzip" else
                        bz2.BZ2Decompressor() if compression == "bz2" else lzma.LZMADecompressor(lzma.FORMAT_XZ))
        while True:
            if block := decoder.decompress(data, _CHUNK):
                yield block
            if decoder.eof:
                break
            data = getattr(decoder, "unconsumed_tail", b"")  # zlib's; the others keep theirs and say needs_input
            if not data and getattr(decoder, "needs_input", True) and not (data := stored.read(_CHUNK)):
                raise EOFError
        data = decoder.unused_data or stored.read(_CHUNK)
        while compression != "bz2" and data and not (data := data.lstrip(b"\0")):
            data = stored.read(_CHUNK)
