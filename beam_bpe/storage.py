"""Files, local or on any fsspec store: found, read as a stream, and written whole or not at all.

A *url* is a local path, `file://…`, or any URL that fsspec knows (`s3://`, `gs://`, `memory://`, …).
Every OSError raised here names the url that the caller gave.
"""

from __future__ import annotations

import bz2
import errno
import glob
import io
import lzma
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs",
             "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
             "http": "aiohttp", "https": "aiohttp", "sftp": "paramiko"}
# Stores whose files keep autocommit=False: nothing is visible before commit(). Others accept the argument and publish
# all the same (memory:// at open, adlfs at close), and only opening, which may already clobber the target, would tell.
_COMMITTING = {"s3", "s3a", "gs", "gcs"}
_CODES = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, FileExistsError: errno.EEXIST,
          IsADirectoryError: errno.EISDIR, NotADirectoryError: errno.ENOTDIR}
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{16})-[0-9a-f]{8}\.tmp")
_CHUNK = 1 << 16  # kept small: gzip, bz2 and xz copy what remains of a chunk once per member
_live: set[str] = set()  # temporaries that a thread of this process is writing now; sweep leaves them alone


class CorruptInputError(OSError):
    """Say that a compressed file is damaged or ends too early."""


class SourceFile(NamedTuple):
    """Describe one input file: its url, its size in stored bytes, its compression (None for plain)."""

    url: str
    size: int
    compression: str | None


def compression_of(url: str) -> str | None:
    """Name the compression that a suffix stands for, in any case: `gzip`, `zstd`, `bz2`, `xz`, or None.

    >>> compression_of("s3://corpus/en.jsonl.zst"), compression_of("notes.txt")
    ('zstd', None)
    """
    return _COMPRESSIONS.get(os.path.splitext(_inner(url))[1].lower())


def _inner(url: str) -> str:
    """Return the part of a chain that names the file: zip://a.txt.gz of zip://a.txt.gz::s3://bucket/all.zip."""
    return next((link for link in url.split("::") if "://" in link), url)


def strip_compression(name: str) -> str:
    """Take one compression suffix off a name.

    >>> strip_compression("en.jsonl.gz"), strip_compression("en.jsonl")
    ('en.jsonl', 'en.jsonl')
    """
    return os.path.splitext(name)[0] if compression_of(name) else name


def join(base: str, *names: str) -> str:
    """Append names to a folder's path or URL.

    >>> join("gs://bucket/words/", "_manifest.json"), join("out", "words", "part.parquet")
    ('gs://bucket/words/_manifest.json', 'out/words/part.parquet')
    """
    inner, chain, outer = base.partition("::") if "://" in base.partition("::")[0] else (base, "", "")
    for name in names:
        inner = f"{inner}{'' if not inner or inner.endswith('/') else '/'}{name.strip('/')}"
    return inner + chain + outer


# ---- finding

def expand(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
           suffixes: Sequence[str]) -> list[SourceFile]:
    """List the files that inputs stand for, sorted by url, each once.

    An input is a file (whatever its suffix), a glob, or a folder. A folder is walked recursively for names ending with
    one of `suffixes`, in any case, optionally followed by a compression suffix. Names that start with `.` or `_` are
    skipped in folders and not matched by wildcards (write `_*` to mean them). What exists literally is never read as a
    glob. Local urls come back as absolute paths.

    Raises FileNotFoundError for a missing path, a glob without match and a folder without known files; ValueError for
    no input at all; ImportError naming the package for a store whose driver is not installed.

    >>> write_bytes("memory://corpus/en.txt.gz", b"..."); write_bytes("memory://corpus/_notes.txt", b"...")
    >>> expand("memory://corpus", [".txt"])
    [SourceFile(url='memory://corpus/en.txt.gz', size=3, compression='gzip')]
    """
    inputs = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    if not inputs or not all(os.fspath(each) for each in inputs):
        raise ValueError(f"no input: got {inputs!r}; name at least one file, folder, glob or URL")
    known = (suffixes,) if isinstance(suffixes, str) else tuple(suffixes)
    found: dict[str, SourceFile] = {}
    for each in inputs:
        for url, size in _listing(os.fspath(each), known):
            found[url] = SourceFile(url, size, compression_of(url))
    return [found[url] for url in sorted(found)]


def _listing(url: str, known: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    store, path = _locate(url)
    with _naming(url):
        kind, files = _local_files(path) if store is None else _store_files(store, path, url)
    if kind == "missing":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if kind == "folder":
        ends = tuple(suffix.lower() for suffix in known)
        files = [(name, size) for name, size in files if strip_compression(_inner(name).lower()).endswith(ends)]
    if not files and kind == "glob":
        raise FileNotFoundError(f"{url}: no file matches this glob")
    if not files:
        raise FileNotFoundError(f"{url}: no file here ends with {', '.join(known)} "
                                f"(alone or followed by {', '.join(_COMPRESSIONS)})")
    yield from files


def _local_files(path: str) -> tuple[str, list[tuple[str, int]]]:
    """Return what a local path is (file, folder, glob, missing) and its files with their sizes."""
    if os.path.isdir(path):
        return "folder", [(name, os.stat(name).st_size) for name in _walk(path, set())]
    if os.path.lexists(path):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # a pipe has no size and no second reading: it would count as empty
            raise OSError(errno.EINVAL, "not a regular file (store it first)", path)
        return "file", [(path, status.st_size)]
    if not glob.has_magic(path):
        return "missing", []
    head = path
    while glob.has_magic(head) and not os.path.isdir(head):
        head = os.path.dirname(head)
    pattern = glob.escape(head) + path[len(head):]  # folders that exist are literal: `data[1]/*.txt`
    names = [str(name) for name in LocalFileSystem().glob(pattern)]
    return "glob", [(name, os.stat(name).st_size) for name in names
                    if os.path.isfile(name) and not _hidden(name, path, head)]


def _walk(folder: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    # Not fsspec's find: it leaves out unreadable folders without a word. Links are followed (model hubs keep their
    # data sets as links), each real folder once, so that a loop of links ends.
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name[0] in "._":
            continue
        if entry.is_dir():
            yield from _walk(entry.path, seen)
        elif entry.is_file() or entry.is_symlink():  # a broken link fails in the caller's stat, by name
            yield entry.path


def _store_files(store: Any, path: str, url: str) -> tuple[str, list[tuple[str, int]]]:
    kind, names = "file", {}
    try:
        names = {path: store.info(path)}
    except FileNotFoundError:
        if not glob.has_magic(path):
            return "missing", []
        kind, head = "glob", re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        names = {name: info for name, info in store.glob(path, detail=True).items() if info["type"] == "file"}
    else:
        if names[path]["type"] == "directory":
            kind, head, names = "folder", path, store.find(path, detail=True)
    if kind != "file":
        names = {name: info for name, info in names.items() if not _hidden(name, path, head)}
    if unknown := [name for name, info in names.items() if info.get("size") is None]:
        raise OSError(f"{url}: the server does not tell the size of {unknown[0]}; copy it to a store that does")
    return kind, [(_url_of(store, name, path, url), int(info["size"])) for name, info in names.items()]


def _hidden(name: str, pattern: str, head: str) -> bool:
    """Tell whether a part of name below head starts with `.` or `_` where the pattern does not say so itself."""
    said = {part[:1] for part in pattern[len(head):].split("/")}
    return any(part[:1] in (".", "_") and part[:1] not in said for part in name[len(head):].split("/"))


def _url_of(store: Any, name: str, path: str, url: str) -> str:
    """Write a name that the store listed in the spelling of the url that led to it (host, alias, chain)."""
    link = _inner(url).rstrip("/")
    if not link.endswith(path):
        return str(store.unstrip_protocol(name))
    return url.replace(_inner(url), link.removesuffix(path) + name, 1)


def _locate(url: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return (fsspec filesystem, path in it), or (None, absolute path) for local files."""
    url = os.fspath(url)
    if not url:
        raise ValueError("an empty string is no path or URL")
    if "://" not in url:  # before fsspec sees it: "::" in a local name is no chain
        return None, os.path.abspath(os.path.expanduser(url))
    try:
        store, path = fsspec.core.url_to_fs(url)
    except ImportError as exc:
        scheme = url.partition("://")[0].rpartition("::")[2]
        package = _PACKAGES.get(scheme)
        hint = f"{scheme}:// needs `pip install {package}`" if package else str(exc)
        raise ImportError(f"{url}: {hint}") from exc
    if isinstance(store, LocalFileSystem):
        return None, path
    store.invalidate_cache(path)  # other workers write here too: never answer from an earlier listing
    return store, path


# ---- errors

def _named(exc: Exception, url: str) -> Exception:
    """Return an OSError that names the url, for an OSError or a driver's own exception; any other as it is."""
    if isinstance(exc, CorruptInputError) or url in str(exc):
        return exc
    if isinstance(exc, OSError):
        text = exc.strerror or str(exc)
        code = exc.errno or next((code for kind, code in _CODES.items() if isinstance(exc, kind)), None)
        if code is None:
            return OSError(f"{url}: {text}")
        return OSError(code, os.strerror(code) if not text or text.strip("'/") in url else text, url)
    if type(exc).__module__ != "builtins" or isinstance(exc, NotImplementedError):
        return OSError(f"{url}: {type(exc).__name__}: {exc}")
    return exc


@contextmanager
def _naming(url: str) -> Iterator[None]:
    try:
        yield
    except Exception as exc:
        if (named := _named(exc, url)) is exc:
            raise
        raise named from exc


# ---- reading

def open_read(url: str, compression: str | None = "infer") -> BinaryIO:
    """Open a file for reading its uncompressed bytes as a stream, in bounded memory; close it or use `with`.

    compression is `gzip`, `zstd`, `bz2`, `xz`, None (as stored), or `infer` (by suffix). Files of several members or
    frames are read whole. A plain file can also be sought where its store can. A compressed file that is empty, ends
    early, is damaged or has anything else behind its last member raises CorruptInputError, at opening or at the read
    that meets it; one cut exactly between two members cannot be told from a whole one.

    >>> write_bytes("memory://notes.gz", zlib.compress(b"one ", wbits=31) + zlib.compress(b"two", wbits=31))
    >>> with open_read("memory://notes.gz") as file:
    ...     file.read(5), file.read()
    (b'one t', b'wo')
    """
    url = os.fspath(url)
    if compression == "infer":
        compression = compression_of(url)
    if compression not in {None, *_COMPRESSIONS.values()}:
        raise ValueError(f"compression={compression!r}: must be infer, None, {', '.join(_COMPRESSIONS.values())}")
    store, path = _locate(url)
    with _naming(url):
        if store is None:
            inner: Any = open(path, "rb", buffering=0)
        elif isinstance(store, MemoryFileSystem):  # its open() hands every reader the same object and position
            inner = io.BytesIO(store.cat_file(path))
        else:
            inner = store.open(path, "rb")
    source = _Source(inner, url, store)
    plain = io.BufferedReader(source, _CHUNK)
    if compression is None:
        return plain
    return io.BufferedReader(_Decoded(plain, source, compression, url), _CHUNK)


class _Source(io.RawIOBase):
    """The stored bytes of a file; remembers its own failure so that a decoder does not blame the data."""

    failure: Exception | None = None

    def __init__(self, inner: Any, url: str, store: Any):
        self.inner, self.url, self.store = inner, url, store  # a zip:// store closes its archive when nobody holds it

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.inner.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self.inner.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[:len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._read(-1)

    def _read(self, size: int) -> bytes:
        try:
            data: bytes = self.inner.read(size)
            return data
        except Exception as exc:
            self.failure = _named(exc, self.url)
            raise self.failure from exc

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.inner.close()


class _Decoded(io.RawIOBase):
    def __init__(self, plain: BinaryIO, source: _Source, compression: str, url: str):
        self.plain, self.rest = plain, memoryview(b"")
        self.blocks = _decode(plain, source, compression, url)

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
        if not self.closed:
            super().close()
            self.plain.close()


def _decode(plain: Any, source: _Source, compression: str, url: str) -> Iterator[bytes]:
    """Yield non-empty blocks of at most _CHUNK bytes; every failure of the decoder is a CorruptInputError."""
    try:
        if not plain.peek(1):
            raise EOFError
        yield from _frames(plain) if compression == "zstd" else _members(plain, compression)
    except (OSError, zlib.error, lzma.LZMAError, EOFError) as exc:
        if source.failure is not None:
            raise source.failure from exc
        if isinstance(exc, EOFError) or "Truncated" in str(exc):
            raise CorruptInputError(f"{url}: truncated: the file ends before its {compression} stream does") from exc
        raise CorruptInputError(f"{url}: damaged, or not a {compression} stream: {exc}") from exc


def _frames(plain: BinaryIO) -> Iterator[bytes]:
    # pyarrow and not the zstandard package: its stream_reader ends without a word in the middle of a cut frame, and its
    # decompressobj has no bound on the output (a 32 KB file may hold 1 GB). pyarrow was right on both, on several
    # frames, skippable frames and garbage behind the last; windows above 128 MB (zstd --long=28) are refused by both.
    stream = pa.CompressedInputStream(pa.PythonFile(plain, mode="r"), "zstd")
    while block := stream.read(_CHUNK):
        yield block


def _members(plain: BinaryIO, compression: str) -> Iterator[bytes]:
    # Not the file classes of gzip, bz2 and lzma: the last two end without a word at a damaged second member, and
    # lzma's at the zero padding that the .xz format allows between streams.
    data = plain.read(_CHUNK)
    while data:
        decoder: Any = (zlib.decompressobj(wbits=31) if compression == "gzip" else
                        bz2.BZ2Decompressor() if compression == "bz2" else lzma.LZMADecompressor(lzma.FORMAT_XZ))
        while True:
            if block := decoder.decompress(data, _CHUNK):
                yield block
            if decoder.eof:
                break
            data = getattr(decoder, "unconsumed_tail", b"")  # zlib's; the others keep theirs and say needs_input
            if not data and getattr(decoder, "needs_input", True) and not (data := plain.read(_CHUNK)):
                raise EOFError
        data = decoder.unused_data or plain.read(_CHUNK)
        while compression != "bz2" and data and not (data := data.lstrip(b"\0")):
            data = plain.read(_CHUNK)


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
    store, path = _locate(url)
    with _naming(os.fspath(url)):
        if store is None:
            with open(path, "rb", buffering=0) as file:
                end = min(end, os.fstat(file.fileno()).st_size)
                file.seek(start)
                return io.BufferedReader(file).read(max(0, end - start))
        end = min(end, store.size(path) or 0)  # stores answer a range behind the end with an error
        return store.cat_file(path, start=start, end=end) if start < end else b""  # s3fs: the second is a version


def exists(url: str) -> bool:
    """Tell whether a file or folder stands under url; a store that cannot be asked raises OSError.

    >>> exists("memory://nowhere/at/all")
    False
    """
    store, path = _locate(url)
    if store is None:
        return os.path.exists(path)
    try:
        with _naming(os.fspath(url)):
            store.info(path)  # not fsspec's exists(): it answers False to a refused or broken connection
    except FileNotFoundError:
        return False
    return True


def list_names(folder: str) -> list[str]:
    """List the base names of what stands directly in a folder, sorted; empty when the folder is absent.

    >>> write_bytes("memory://shelf/b", b""); write_bytes("memory://shelf/a/x", b""); list_names("memory://shelf")
    ['a', 'b']
    """
    store, path = _locate(folder)
    try:
        with _naming(os.fspath(folder)):
            if store is None:
                return sorted(os.listdir(path))
            entries = {entry["name"].rstrip("/"): entry for entry in store.ls(path, detail=True)}
    except FileNotFoundError:
        return []
    itself = entries.pop(path, None)  # ls of a file lists that file; some stores list a folder's own marker object
    if itself and not entries and itself["type"] == "file" and not itself["name"].endswith("/"):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    return sorted(name.rpartition("/")[2] for name in entries)


# ---- writing

def run_id() -> str:
    """Return the 16 random hex digits of this process, part of the names of its temporaries.

    >>> run_id() == run_id(), len(run_id())
    (True, 16)
    """
    return _run_id(os.getpid())


@lru_cache(maxsize=None)
def _run_id(pid: int) -> str:  # by pid, so that a forked child is a run of its own
    return secrets.token_hex(8)


@contextmanager
def write(url: str) -> Iterator[BinaryIO]:
    """Write a file whole or not at all: it appears under url, in place of an older one, when the block ends well.

    An exception in the block, KeyboardInterrupt included, publishes nothing, leaves what stood there, and removes what
    was written. A write that failed stays failed, even if the block swallows its OSError. Local folders are made, the
    file is on the disk (fsync) when the block ends, a link is followed. The file object can be written and told, not
    sought; closing it early is harmless. A killed process leaves a local temporary (see `sweep`) or an unfinished
    upload that only the bucket's lifecycle rule removes.

    >>> with write("memory://report.txt") as file:
    ...     _ = file.write(b"half")
    ...     exists("memory://report.txt")
    False
    >>> exists("memory://report.txt")
    True
    """
    url = os.fspath(url)
    store, path = _locate(url)
    target = (_local(path) if store is None else
              _memory(store, path) if isinstance(store, MemoryFileSystem) else
              _upload(store, path) if _COMMITTING & set(_protocols(store)) else
              _moved(store, path))
    with _naming(url):
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
    with _naming(url):
        target.__exit__(None, None, None)


def write_bytes(url: str, data: bytes) -> None:
    """Write data as a whole file, as `write` does.

    >>> write_bytes("memory://greeting", b"hello")
    """
    with write(url) as file:
        file.write(data)


def remove(url: str) -> None:
    """Delete one file; a missing one is fine.

    >>> write_bytes("memory://old", b""); remove("memory://old"); remove("memory://old"); exists("memory://old")
    False
    """
    store, path = _locate(url)
    with suppress(FileNotFoundError), _naming(os.fspath(url)):
        os.remove(path) if store is None else store.rm_file(path)  # not fsspec's rm(): it reads the path as a glob


def sweep(folder: str, *, older_than: float = 86400.0) -> list[str]:
    """Remove the temporaries that killed writers left in a local folder; return their names, sorted.

    Removes those of this run that no thread is writing now, and those of other runs untouched for older_than seconds
    (a killed submitter's job may still be writing). Object stores show no temporaries: nothing is done there.

    >>> sweep("memory://anywhere")
    []
    """
    store, path = _locate(folder)
    removed: list[str] = []
    for name in list_names(folder) if store is None else ():
        match, full = _TEMPORARY.fullmatch(name), os.path.join(os.path.realpath(path), name)
        if match and full not in _live:
            with suppress(OSError):
                status = os.lstat(full)
                old = match[1] == run_id() or time.time() - status.st_mtime > older_than
                if old and stat.S_ISREG(status.st_mode):
                    os.remove(full)
                    removed.append(name)
    return removed


def _temporary_name(name: str) -> str:
    while len(os.fsencode(name)) > 200:  # most filesystems stop at 255 bytes
        name = name[:-1]
    return f".{name}.{run_id()}-{secrets.token_hex(4)}.tmp"


def _protocols(store: Any) -> tuple[str, ...]:
    return (store.protocol,) if isinstance(store.protocol, str) else tuple(store.protocol)


class _Sink(io.RawIOBase):
    """Passes bytes on to the target's file; remembers a failed write, after which nobody knows what arrived."""

    failure: Exception | None = None

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
            with _naming(self.url):
                written: int = self.inner.write(data)
        except BaseException as exc:
            self.failure = exc if isinstance(exc, Exception) else OSError(f"{self.url}: write interrupted")
            raise
        self.size += written
        return written


# The four targets: each yields a file to write, publishes when the block ends well, and otherwise clears away.

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
    except BaseException:
        with suppress(OSError):
            os.remove(temporary)
        raise
    finally:
        _live.discard(temporary)
    with suppress(OSError):  # the file stands; not every filesystem can sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _memory(store: Any, path: str) -> Iterator[Any]:
    file = io.BytesIO()
    yield file
    store.pipe_file(path, file.getvalue())


@contextmanager
def _upload(store: Any, path: str) -> Iterator[Any]:
    # Not store.open(): with autocommit=False it also appends the file to store.transaction, which keeps every file and
    # its buffer alive, and would commit them when anyone in the process ends a transaction.
    file = store._open(path, mode="wb", autocommit=False)
    try:
        yield file
        file.close()  # sends the last block
        file.commit()
    except BaseException:
        file.closed = True  # else its __del__ begins a new upload
        with suppress(Exception):
            file.discard()
        raise


@contextmanager
def _moved(store: Any, path: str) -> Iterator[Any]:
    # Any other store: write under a temporary key, then move. The target is whole or, on HDFS, for a moment absent.
    folder, slash, name = path.rpartition("/")
    temporary = folder + slash + _temporary_name(name)
    try:
        file = store.open(temporary, "wb")
    except FileNotFoundError:
        store.makedirs(folder, exist_ok=True)
        file = store.open(temporary, "wb")
    try:
        try:
            yield file
        except BaseException:
            with suppress(Exception):
                file.close()
            raise
        file.close()
        if type(store).mv is fsspec.AbstractFileSystem.mv:  # it would read both names as globs
            store.cp_file(temporary, path)
            store.rm_file(temporary)
        else:
            if "hdfs" in _protocols(store) and store.exists(path):  # HDFS does not move onto a file
                store.rm_file(path)
            store.mv(temporary, path)
    except BaseException:
        with suppress(Exception):
            store.rm_file(temporary)
        raise
