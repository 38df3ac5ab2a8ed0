"""Files, local or on any fsspec store: read as a stream, and written whole or not at all.

A *url* is a local path, `file://…`, or any URL that fsspec knows (`s3://`, `gs://`, `memory://`, …).
Every OSError raised here names the url that the caller gave.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from beam_bpe import remote
from beam_bpe.compression import SUFFIXES, compression_of, decompress
from beam_bpe.stores import locate as locate
from beam_bpe.stores import naming as naming

_TEMPORARY = re.compile(r"\..*\.([0-9a-f]{16})-[0-9a-f]{8}\.tmp")
_runs: dict[int, str] = {}
_live: set[str] = set()  # temporaries that a thread of this process is writing now; sweep leaves them alone


def join(base: str | os.PathLike[str], *names: str) -> str:
    """Append names to a folder's path or URL.

    >>> join("gs://bucket/words/", "_manifest.json"), join("out", "words", "part.parquet")
    ('gs://bucket/words/_manifest.json', 'out/words/part.parquet')
    """
    base = os.fspath(base)
    inner, chain, outer = base.partition("::") if "://" in base.partition("::")[0] else (base, "", "")
    for name in names:
        inner = f"{inner}{'' if not inner or inner.endswith('/') else '/'}{name.strip('/')}"
    return inner + chain + outer


def open_read(url: str, compression: str | None = "infer") -> BinaryIO:
    """Open a file for reading its uncompressed bytes as a stream, in bounded memory; close it or use `with`.

    compression is `gzip`, `zstd`, `bz2`, `xz`, None (as stored), or `infer` (by suffix); `compression.decompress` says
    what is an error. A plain file can also be sought where its store can.

    >>> write_bytes("memory://notes.txt", b"one two")
    >>> with open_read("memory://notes.txt") as file:
    ...     file.read(5), file.read()
    (b'one t', b'wo')
    """
    url = os.fspath(url)
    compression = compression_of(url) if compression == "infer" else compression
    if compression not in {None, *SUFFIXES.values()}:
        raise ValueError(f"compression={compression!r}: must be infer, None, {', '.join(SUFFIXES.values())}")
    store, path = locate(url)
    with naming(url):
        inner = open(path, "rb", buffering=0) if store is None else remote.open_file(store, path)
    file = io.BufferedReader(remote.Source(inner, url, store), 1 << 16)
    return decompress(file, compression, url) if compression else file


def read_bytes(url: str) -> bytes:
    """Read a whole file as stored.

    >>> write_bytes("memory://greeting", b"hello"); read_bytes("memory://greeting")
    b'hello'
    """
    with open_read(url, None) as file:
        return file.read()


def read_range(url: str, start: int, end: int) -> bytes:
    """Read the bytes [start, min(end, size)) of a file as stored; empty when start is at or behind its end.

    >>> write_bytes("memory://greeting", b"hello"); read_range("memory://greeting", 3, 100)
    b'lo'
    """
    if not 0 <= start <= end:
        raise ValueError(f"{url}: the range [{start}, {end}) must satisfy 0 <= start <= end")
    with open_read(url, None) as file:
        end = min(end, file.seek(0, os.SEEK_END))
        file.seek(start)
        return file.read(end - start) if start < end else b""


def exists(url: str) -> bool:
    """Tell whether a file or folder stands under url; a store that cannot be asked raises OSError.

    >>> exists("memory://nowhere/at/all")
    False
    """
    store, path = locate(url)
    try:
        with naming(os.fspath(url)):  # not fsspec's exists(): it answers False to a refused or broken connection
            return os.path.exists(path) if store is None else bool(store.info(path))
    except FileNotFoundError:
        return False


def list_names(folder: str) -> list[str]:
    """List the base names of what stands directly in a folder, sorted; empty when the folder is absent.

    >>> write_bytes("memory://shelf/b", b""); write_bytes("memory://shelf/a/x", b""); list_names("memory://shelf")
    ['a', 'b']
    """
    store, path = locate(folder)
    try:
        with naming(os.fspath(folder)):
            if store is None:
                return sorted(os.listdir(path))
            entries = {entry["name"].rstrip("/"): entry for entry in store.ls(path, detail=True)}
    except FileNotFoundError:
        if store is not None:
            remote.check_bucket(store, path, os.fspath(folder))
        return []
    itself = entries.pop(path, None)  # ls of a file lists that file; some stores list a folder's own marker object
    if itself and not entries and itself["type"] == "file" and not itself["name"].endswith("/"):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    return sorted(name.rpartition("/")[2] for name in entries)


def run_id() -> str:
    """Return the 16 random hex digits of this process, part of the names of its temporaries.

    >>> run_id() == run_id(), len(run_id())
    (True, 16)
    """
    return _runs.setdefault(os.getpid(), secrets.token_hex(8))  # by pid: a forked child is a run of its own


def join_run(run: str) -> None:
    """Let what this process writes from now on be of a run that another began: a worker of the job that was submitted."""
    _runs[os.getpid()] = run


@contextmanager
def write(url: str) -> Iterator[BinaryIO]:
    """Write a file whole or not at all: it appears under url, in place of an older one, when the block ends well.

    Any exception in the block, and any failed write even if the block swallows its OSError, publishes nothing and
    leaves what stood there. Local folders are made, links followed, files synced. The file object cannot be sought;
    closing it early is harmless. A killed process leaves a local temporary (see `sweep`) or, of a large file, an
    unfinished upload, which is no object: the bucket's lifecycle rule removes it (AbortIncompleteMultipartUpload).

    >>> with write("memory://report.txt") as file:
    ...     file.write(b"half"), exists("memory://report.txt")
    (4, False)
    """
    url = os.fspath(url)
    store, path = locate(url)
    target = _local(path) if store is None else remote.target(store, path, _temporary_name(path.rpartition("/")[2]))
    with naming(url):
        sink = _Sink(target.__enter__(), url)
    file = io.BufferedWriter(sink, 1 << 20)
    try:
        yield file
        file.close()
        if sink.failure is not None:
            raise sink.failure
    except BaseException as exc:  # as it is: the block's own errors are not the store's
        sink.inner = None  # what the buffer still holds goes nowhere
        target.__exit__(type(exc), exc, exc.__traceback__)
        raise
    with naming(url):
        target.__exit__(None, None, None)


def write_bytes(url: str, data: bytes) -> None:
    """Write data as a whole file, as `write` does."""
    with write(url) as file:
        file.write(data)


def check_writable(folder: str) -> None:
    """Write an empty file into a folder and remove it, so that what cannot be written is known before it is needed.

    A local folder that is not there is not made: the one is tried in which it would be.

    >>> check_writable("memory://somewhere"); list_names("memory://somewhere")
    []
    """
    store, path = locate(folder)
    while store is None and not os.path.exists(path):
        folder = path = os.path.dirname(path)
    probe = join(folder, _temporary_name("probe"))
    write_bytes(probe, b"")
    remove(probe)


def remove(url: str) -> None:
    """Delete one file; a missing one is fine.

    >>> write_bytes("memory://old", b""); remove("memory://old"); remove("memory://old"); exists("memory://old")
    False
    """
    store, path = locate(url)
    with suppress(FileNotFoundError), naming(os.fspath(url)):
        os.remove(path) if store is None else store.rm_file(path)  # not fsspec's rm(): it reads the path as a glob


def sweep(folder: str, *, older_than: float = 86400.0) -> list[str]:
    """Remove the temporaries that killed writers left in a local folder; return their names, sorted.

    Removes those of this run that no thread is writing now, and those of other runs untouched for older_than seconds
    (a killed submitter's job may still be writing). Object stores show no temporaries: nothing is done there.

    >>> sweep("memory://anywhere")
    []
    """
    store, path = locate(folder)
    removed: list[str] = []
    for name in list_names(folder) if store is None else ():
        match, full = _TEMPORARY.fullmatch(name), os.path.join(os.path.realpath(path), name)
        if not match or full in _live:
            continue
        with suppress(OSError):
            status = os.lstat(full)
            old = match[1] == run_id() or time.time() - status.st_mtime > older_than
            if old and stat.S_ISREG(status.st_mode):
                os.remove(full)
                removed.append(name)
    return removed


def _temporary_name(name: str) -> str:
    name = os.fsencode(name)[:200].decode(errors="ignore")  # most filesystems stop at 255 bytes
    return f".{name}.{run_id()}-{secrets.token_hex(4)}.tmp"


class _Sink(io.RawIOBase):
    """Passes bytes on to the target's file; remembers a failed write, after which nobody knows what arrived."""

    failure: BaseException | None = None

    def __init__(self, inner: Any, url: str):
        self.inner, self.url, self.size = inner, url, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        if self.inner is None:
            return len(data)
        try:
            with naming(self.url):
                written: int = self.inner.write(data)
        except BaseException as exc:
            self.failure = exc
            raise
        self.size += written
        return written


@contextmanager
def _local(path: str) -> Iterator[Any]:
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # root could replace /dev/null
        raise OSError(errno.EISDIR if os.path.isdir(path) else errno.EINVAL, "not a regular file: cannot be replaced")
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, _temporary_name(name))
    _live.add(temporary)
    try:
        with open(temporary, "xb", buffering=0) as file:
            yield file
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            os.remove(temporary)  # gone already when all went well
        _live.discard(temporary)
    with suppress(OSError):  # the file stands; not every filesystem can sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
