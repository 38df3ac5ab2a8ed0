"""Files in stores: read by ranges that are asked for again when a connection breaks, and uploaded whole or not at all."""

from __future__ import annotations

import errno
import io
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile

from beam_bpe.stores import naming

# Stores in which nothing is visible before the end of an upload: s3fs and gcsfs keep autocommit=False until commit();
# adlfs stages blocks and commits their list when the file is closed, and one that is left unclosed stays uncommitted.
# Others accept the argument and publish all the same, and only opening, which may clobber the target, would tell.
_COMMITTING = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
_KEEPING = {"hdfs", "webhdfs", "smb"}  # stores whose move does not replace a file: it fails, or does nothing
_LASTING = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError,
            NotImplementedError, io.UnsupportedOperation)  # errors that another attempt would meet again
_ATTEMPTS, _PAUSE = 3, 1.0  # of a read, and seconds before the second; the drivers try a few times by themselves
_SMALL = 1 << 16  # reads up to this size are a stream's: read ahead, the more the longer it goes on
_AHEAD = 8 << 20
_REQUEST = 16 << 20  # bytes asked for at the most, and those of a part of an upload
_ONE_REQUEST = 8 << 20  # files up to this size are uploaded by one request


def protocols(store: Any) -> set[str]:
    """Return the names of a store's protocol."""
    return {store.protocol} if isinstance(store.protocol, str) else set(store.protocol)


def check_bucket(store: Any, path: str, url: str) -> None:
    """Raise FileNotFoundError if S3 says that the bucket is not there, which an absent folder does not tell."""
    bucket = path.partition("/")[0]
    if {"s3", "s3a"} & protocols(store):  # gcsfs also says so of one that the account may not look at
        try:
            store.info(bucket)
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, f"there is no bucket {bucket!r}", url) from None
        except Exception:  # an account may be allowed to use a folder and not to look at its bucket
            return


def open_file(store: Any, path: str) -> Any:
    """Open a file of a store for reading."""
    if isinstance(store, MemoryFileSystem):
        return io.BytesIO(store.cat_file(path))  # its open() shares one position
    # Without the drivers' read-ahead, which asks for 50 MB behind each range.
    return store.open(path, "rb", **({"cache_type": "none"} if _COMMITTING & protocols(store) else {}))


class Source(io.RawIOBase):
    """A file of a store: errors name the url, reads that break off are repeated, and what comes short is an error.

    Large reads are requests of their own, of just these bytes. Only files that are read by ranges are read again: where
    a broken stream stands nobody knows.
    """

    def __init__(self, inner: Any, url: str, store: Any):
        self.inner, self.url, self.store = inner, url, store  # a zip:// store closes its archive when nobody holds it
        self.size: int | None = inner.size if isinstance(inner, AbstractBufferedFile) else None
        self.position, self.block, self.block_end = 0, memoryview(b""), -1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.inner.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        if self.size is None:
            return int(self.inner.seek(offset, whence))
        self.position = max(0, offset + (0, self.position, self.size)[whence])
        return self.position

    def readinto(self, buffer: Any) -> int:
        if self.size is None:
            with naming(self.url):
                data = self.inner.read(len(buffer))
        else:
            data = self._read(min(len(buffer), self.size - self.position))
        buffer[:len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        if self.size is None:
            with naming(self.url):
                return bytes(self.inner.read())
        blocks = []
        while self.position < self.size:
            blocks.append(self._read(self.size - self.position))
        return b"".join(blocks)

    def _read(self, size: int) -> Any:
        """Return 1 to size bytes at the position; none at the end."""
        assert self.size is not None
        if size <= 0:
            return b""
        into = self.position - (self.block_end - len(self.block))
        if not 0 <= into < len(self.block):
            ahead = 0
            if size <= _SMALL and self.position == self.block_end:
                ahead = min(2 * len(self.block), _AHEAD, self.size - self.position)
            block = self._fetch(self.position, min(max(size, ahead), _REQUEST))
            if size > _SMALL:
                self.block, self.block_end = memoryview(b""), -1
                self.position += len(block)
                return block
            self.block, self.block_end, into = memoryview(block), self.position + len(block), 0
        data = self.block[into:into + size]
        self.position += len(data)
        return data

    def _fetch(self, start: int, size: int) -> bytes:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with naming(self.url):
                    self.inner.seek(start)
                    data = bytes(self.inner.read(size))
                    if len(data) != size:
                        raise OSError(f"the store sent {len(data):,} bytes of {size:,} at byte {start:,}")
                return data
            except _LASTING:
                raise
            except OSError as error:
                if attempt == _ATTEMPTS:
                    raise OSError(f"{error} (tried {attempt} times)") from error
                time.sleep(_PAUSE * 2 ** (attempt - 1))
        raise AssertionError

    def close(self) -> None:
        super().close()
        self.inner.close()


def target(store: Any, path: str, temporary: str) -> AbstractContextManager[Any]:
    """Return a context that gives a file to write, publishes it under path when its block ends well, else clears away.

    Args:
        temporary: the name of another file, for stores that need one in between.
    """
    if isinstance(store, MemoryFileSystem):
        return _memory(store, path)
    return _upload(store, path) if _COMMITTING & protocols(store) else _moved(store, path, temporary)


@contextmanager
def _memory(store: Any, path: str) -> Iterator[Any]:
    file = io.BytesIO()
    yield file
    store.pipe_file(path, file.getvalue())


@contextmanager
def _upload(store: Any, path: str) -> Iterator[Any]:
    upload = _Upload(store, path)
    try:
        yield upload
        upload.commit()
    except BaseException:
        upload.discard()
        raise


class _Upload:
    """A file that is uploaded by one request if it is small, and otherwise in parts that are committed at the end."""

    def __init__(self, store: Any, path: str):
        self.store, self.path = store, path
        self.head = io.BytesIO()
        self.file: Any = None

    def write(self, data: Any) -> int:
        if self.file is None:
            if self.head.tell() + len(data) <= _ONE_REQUEST:
                return self.head.write(data)
            # Not store.open(): with autocommit=False it also appends the file to store.transaction, which keeps every
            # file and its buffer alive, and would commit them when anyone in the process ends a transaction.
            self.file = self.store._open(self.path, mode="wb", autocommit=False, block_size=_REQUEST)
            self.file.write(self.head.getvalue())
            self.head = io.BytesIO()
        return int(self.file.write(data))

    def commit(self) -> None:
        if self.file is None:
            self.store.pipe_file(self.path, self.head.getvalue())
            return
        self.file.close()  # sends the last part
        self.file.commit()

    def discard(self) -> None:
        if self.file is not None:
            self.file.closed = True  # else its __del__ begins a new upload, or commits this one
            with suppress(Exception):
                self.file.discard()


@contextmanager
def _moved(store: Any, path: str, name: str) -> Iterator[Any]:
    # Any other store: a temporary key, then a move. Where that does not replace, the target is absent for a moment.
    folder, slash, _ = path.rpartition("/")
    temporary = folder + slash + name
    try:
        file = store.open(temporary, "wb")
    except FileNotFoundError:
        store.makedirs(folder, exist_ok=True)
        file = store.open(temporary, "wb")
    try:
        yield file
        file.close()
        if type(store).mv is fsspec.AbstractFileSystem.mv:  # it would read both names as globs
            store.cp_file(temporary, path)
            store.rm_file(temporary)
        else:
            if _KEEPING & protocols(store) and store.exists(path):
                store.rm_file(path)
            store.mv(temporary, path)
    except BaseException:
        for clear in (file.close, lambda: store.rm_file(temporary)):
            with suppress(Exception):
                clear()
        raise
