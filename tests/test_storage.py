"""storage: what stands under a name is whole; what is read is all there was."""

from __future__ import annotations

import errno
import functools
import gc
import io
import os
import re
import subprocess
import sys
import threading
import time
import uuid

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.spec import AbstractBufferedFile

from beam_bpe import listing, remote, storage


class PlainStore(fsspec.AbstractFileSystem):
    """A store with neither commit nor discard: what is written shows at once. Moves are copy and delete."""

    protocol = "plain"
    files: dict = {}
    cachable = False

    def _open(self, path, mode="rb", **kwargs):
        if mode == "rb":
            self.info(path)
            return io.BytesIO(self.files[path])
        return PlainFile(self.files, path)

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        if path in self.files:
            return {"name": path, "size": len(self.files[path]), "type": "file"}
        if any(name.startswith(path + "/") for name in self.files):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        if path in self.files:
            return [self.info(path)]
        below = {name[len(path) + 1:].partition("/")[0] for name in self.files if name.startswith(path + "/")}
        if not below:
            raise FileNotFoundError(path)
        return [self.info(f"{path}/{name}") for name in sorted(below)]

    def cat_file(self, path, version_id=None, start=None, end=None, **kwargs):  # s3fs's order of parameters
        assert version_id is None
        return self.files[path][start:end]

    def cp_file(self, path1, path2, **kwargs):
        self.files[path2] = self.files[path1]

    def _rm(self, path):
        self.info(path)
        del self.files[path]


class PlainFile(io.BytesIO):
    def __init__(self, files, path):
        super().__init__()
        self.files, self.path = files, path
        files[path] = b""

    def write(self, data):
        size = super().write(data)
        self.files[self.path] = self.getvalue()
        return size

    def close(self):  # as fsspec's MemoryFile: a late flush would still arrive
        pass


class KeepingStore(PlainStore):
    """A store that moves by itself, but as HDFS not onto a file."""

    protocol = ("keeping", "kept")
    files: dict = {}

    def mv(self, path1, path2, **kwargs):
        if path2 not in self.files:
            self.files[path2] = self.files.pop(path1)


class UploadStore(PlainStore):
    """A store as s3fs and gcsfs are."""

    protocol = "upload"
    cachable = True
    uploads: list = []
    fail, error = None, None

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if mode == "rb":
            return super()._open(path, mode)
        return UploadFile(self, path, mode, block_size=100, autocommit=autocommit)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        if self.fail:
            raise self.error
        self.files[path] = value


class UploadFile(AbstractBufferedFile):
    """Parts are sent as they fill; commit() makes them the object."""

    def _initiate_upload(self):
        self.parts = []
        self.fs.uploads.append(self.path)

    def _upload_chunk(self, final=False):
        if self.fs.fail == "part":
            raise self.fs.error
        self.parts.append(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self):
        if self.fs.fail == "commit":
            raise self.fs.error
        self.fs.files[self.path] = b"".join(self.parts)
        self.fs.uploads.remove(self.path)

    def discard(self):
        if self.path in self.fs.uploads:
            self.fs.uploads.remove(self.path)


class DriverError(Exception):
    """As a driver's own exceptions: no OSError."""


fsspec.register_implementation("upload", UploadStore, clobber=True)
fsspec.register_implementation("plain", PlainStore, clobber=True)
fsspec.register_implementation("keeping", KeepingStore, clobber=True)


@pytest.fixture
def upload(monkeypatch):
    monkeypatch.setattr(remote, "_COMMITTING", {"upload"})
    monkeypatch.setattr(remote, "_ONE_REQUEST", 0)  # in parts, but for what is empty
    monkeypatch.setattr(UploadStore, "files", {})
    monkeypatch.setattr(UploadStore, "uploads", [])
    return UploadStore


@pytest.fixture(params=["local", "memory", "upload", "upload-at-once", "plain", "keeping"])
def root(request, tmp_path, upload, monkeypatch):
    """A folder's url on every kind of target that `write` tells apart."""
    monkeypatch.setattr(PlainStore, "files", {})
    monkeypatch.setattr(KeepingStore, "files", {})
    monkeypatch.setattr(remote, "_KEEPING", {"kept"})
    if request.param == "upload-at-once":
        monkeypatch.setattr(remote, "_ONE_REQUEST", 2_000_000)
    protocol = request.param.partition("-")[0]
    return str(tmp_path) if protocol == "local" else f"{protocol}://{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}"


# ---- writing: whole or absent

def test_a_file_appears_only_when_the_block_ends(root):
    url = storage.join(root, "deep", "part.bin")
    with storage.write(url) as file:
        assert file.write(b"x" * 3_000_000) == 3_000_000  # more than every buffer
        file.flush()
        assert file.tell() == 3_000_000
        assert not storage.exists(url)
    assert storage.read_bytes(url) == b"x" * 3_000_000
    assert storage.list_names(storage.join(root, "deep")) == ["part.bin"]


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
@pytest.mark.parametrize("error", [ValueError("mine"), OSError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_publishes_nothing_and_leaves_nothing(root, size, error):
    url = storage.join(root, "part.bin")
    with pytest.raises(type(error)) as caught:
        with storage.write(url) as file:
            file.write(b"x" * size)
            raise error
    assert caught.value is error
    error.__traceback__ = file = None
    gc.collect()  # what a file object does when it dies counts, too
    assert not storage.exists(url)
    assert storage.list_names(root) == []
    assert UploadStore.uploads == []


def test_an_existing_file_stands_untouched_until_replaced(root):
    url = storage.join(root, "part.bin")
    storage.write_bytes(url, b"old")
    with pytest.raises(KeyboardInterrupt):
        with storage.write(url) as file:
            file.write(b"new" * 1_000_000)
            assert storage.read_bytes(url) == b"old"
            raise KeyboardInterrupt
    assert storage.read_bytes(url) == b"old"
    storage.write_bytes(url, b"")
    assert storage.read_bytes(url) == b""
    assert storage.list_names(root) == ["part.bin"]


def test_two_writers_of_one_name_never_mix(root):
    url = storage.join(root, "part.bin")
    with storage.write(url) as first, storage.write(url) as second:
        for _ in range(100):
            first.write(b"1" * 50_000)
            second.write(b"2" * 40_000)
    assert storage.read_bytes(url) == b"1" * 5_000_000  # the inner block ended first, the last one wins
    assert storage.list_names(root) == ["part.bin"]


def test_many_threads_write_one_name(folder):
    url, seen = storage.join(folder, "part.bin"), []
    start = threading.Barrier(8)

    def work(i):
        start.wait()
        for _ in range(5):
            storage.write_bytes(url, bytes([i]) * 100_000)
            seen.append(storage.read_bytes(url))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(seen) == 40
    assert all(len(data) == 100_000 and len(set(data)) == 1 for data in seen)


def test_closing_early_is_harmless(root):
    url = storage.join(root, "part.txt")
    with storage.write(url) as file:
        text = io.TextIOWrapper(file, encoding="utf-8")
        text.write("grün")
        text.close()
        assert not storage.exists(url)
    assert storage.read_bytes(url) == "grün".encode()


def test_parquet_goes_through(root):
    url, table = storage.join(root, "t.parquet"), pa.table({"word": [b"a", b"b"], "count": [1, 2]})
    with storage.write(url) as file:
        pq.write_table(table, file)
    with storage.open_read(url) as file:
        assert pq.read_table(file).equals(table)


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("swallow", [False, True])
def test_a_failed_write_fails_the_file_and_names_it(root, monkeypatch, swallow):
    """A block that swallows the error cannot publish half a file."""
    url = storage.join(root, "part.bin")
    storage.write_bytes(url, b"old")
    real = storage._Sink.__init__

    class FullOnce:
        def __init__(self, inner):
            self.inner, self.calls = inner, 0

        def write(self, data):
            self.calls += 1
            return full() if self.calls == 2 else self.inner.write(data)

    with monkeypatch.context() as patch, pytest.raises(OSError) as caught:
        patch.setattr(storage._Sink, "__init__", lambda self, inner, url: real(self, FullOnce(inner), url))
        with storage.write(url) as file:
            for _ in range(5):
                try:
                    file.write(b"x" * 2_000_000)
                    file.flush()
                except OSError:
                    if not swallow:
                        raise
    assert caught.value.errno == errno.ENOSPC
    assert url in str(caught.value)
    assert storage.read_bytes(url) == b"old"
    assert storage.list_names(root) == ["part.bin"]


def test_full_disk_for_real(tmp_path):
    """RLIMIT_FSIZE makes the kernel refuse: in the block's write, or in the flush when the block ends."""
    script = """
import resource, signal, sys
from beam_bpe import storage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for size in (150_000, 5_000_000):
    try:
        with storage.write(sys.argv[1]) as file:
            file.write(b"x" * size)
    except OSError as exc:
        print(exc)
"""
    url = str(tmp_path / "part.bin")
    shown = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, timeout=60,
                           cwd=os.path.dirname(os.path.dirname(os.path.abspath(storage.__file__))))
    assert shown.stdout.count(url) == 2, shown
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "replace", "makedirs"])
def test_every_local_step_may_fail(tmp_path, monkeypatch, call):
    url = str(tmp_path / "part.bin")
    storage.write_bytes(url, b"old")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left on device.*part.bin") as caught:
        storage.write_bytes(url, b"new")
    assert ".tmp" not in str(caught.value)
    monkeypatch.undo()
    assert storage.read_bytes(url) == b"old"
    assert os.listdir(tmp_path) == ["part.bin"]
    assert not storage._live


def test_read_only_folder(tmp_path, monkeypatch):
    os.chmod(tmp_path, 0o555)
    try:
        if os.access(tmp_path, os.W_OK):  # root writes everywhere
            real = open

            def refuse(file, mode="r", *args, **kwargs):
                if "x" in mode:
                    raise PermissionError(errno.EACCES, "Permission denied", file)
                return real(file, mode, *args, **kwargs)
            monkeypatch.setattr("builtins.open", refuse)
        with pytest.raises(PermissionError, match=r"'[^']*/part\.bin'$"):
            storage.write_bytes(str(tmp_path / "part.bin"), b"x")
    finally:
        os.chmod(tmp_path, 0o755)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fail", ["part", "commit"])
@pytest.mark.parametrize("error", [PermissionError("Access Denied"), DriverError("no credentials")])
def test_failing_uploads_are_discarded_and_named(upload, monkeypatch, fail, error):
    monkeypatch.setattr(upload, "fail", fail)
    monkeypatch.setattr(upload, "error", error)
    kind = PermissionError if isinstance(error, PermissionError) else OSError
    with pytest.raises(kind, match="upload://b/part.bin") as caught:
        storage.write_bytes("upload://b/part.bin", b"x" * 1000)
    assert str(error) in str(caught.value)
    caught.value.__traceback__ = caught.value.__context__ = caught.value.__cause__ = None
    gc.collect()
    assert upload.uploads == []
    assert upload.files == {}


def test_uploads_do_not_enter_the_stores_transaction(upload):
    """fs.open(autocommit=False) would keep every file and its buffer there."""
    with storage.write("upload://b/part.bin") as file:
        file.write(b"x" * 1000)
    assert not fsspec.filesystem("upload").transaction.files
    assert storage.read_bytes("upload://b/part.bin") == b"x" * 1000


def test_a_link_is_followed_and_a_device_refused(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real" / "data", tmp_path / "link")
    storage.write_bytes(str(tmp_path / "link"), b"x")
    assert os.path.islink(tmp_path / "link") and (tmp_path / "real" / "data").read_bytes() == b"x"
    os.mkfifo(tmp_path / "device")  # never /dev/null itself here: if the guard broke, root would replace it
    for target in (str(tmp_path / "device"), str(tmp_path)):
        with pytest.raises(OSError, match="not a regular file"):
            storage.write_bytes(target, b"x")
    assert (tmp_path / "device").is_fifo()


def test_names_up_to_the_limit_and_odd_ones(folder):
    for name in ("n" * 255, "ü" * 127, "a b", "a[1]*?.bin", ".hidden", "a::b"):
        url = storage.join(folder, name)
        if "::" in name and "://" in url:
            continue
        storage.write_bytes(url, name.encode())
        assert storage.read_bytes(url) == name.encode()
        assert storage.list_names(folder) == [name]
        storage.remove(url)
        storage.remove(url)
        assert not storage.exists(url)


def test_remove_reads_no_glob(root):
    storage.write_bytes(storage.join(root, "a1"), b"")
    storage.remove(storage.join(root, "a*"))
    assert storage.list_names(root) == ["a1"]


# ---- temporaries

def test_sweep_takes_ours_and_the_old_only(tmp_path):
    def leave(name, age):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)

    other = "0123456789abcdef"
    mine = f".a.{storage.run_id()}-00000000.tmp"
    leave(mine, 0)
    leave(f".old.{other}-00000000.tmp", 90_000)
    keep = [f".new.{other}-00000000.tmp", ".mine.tmp", "a.tmp", f"a.{other}-00000000.tmp", f".x.{other}.tmp", "part"]
    for name in keep:
        leave(name, 100 if name == keep[0] else 90_000)
    (tmp_path / f".dir.{other}-00000000.tmp").mkdir()
    os.utime(tmp_path / f".dir.{other}-00000000.tmp", (0, 0))
    with storage.write(str(tmp_path / "live")) as file:
        file.write(b"x")
        assert storage.sweep(str(tmp_path)) == sorted([mine, f".old.{other}-00000000.tmp"])
    assert (tmp_path / "live").read_bytes() == b"x"
    assert all((tmp_path / name).exists() for name in keep)
    assert storage.sweep(str(tmp_path), older_than=50) == [keep[0]]
    assert storage.sweep(str(tmp_path / "absent")) == []


def test_a_killed_writer_leaves_a_temporary_of_the_swept_shape(tmp_path):
    script = """
import os, sys
from beam_bpe import storage
with storage.write(sys.argv[1]) as file:
    file.write(b"x" * 3_000_000)
    os._exit(9)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "part.bin")], timeout=60,
                   cwd=os.path.dirname(os.path.dirname(os.path.abspath(storage.__file__))))
    left = os.listdir(tmp_path)
    assert len(left) == 1 and left[0].startswith(".part.bin.")
    assert storage.sweep(str(tmp_path)) == []
    assert storage.sweep(str(tmp_path), older_than=-1) == left


def test_a_forked_child_is_a_run_of_its_own():
    read, wrote = os.pipe()
    mine = storage.run_id()
    pid = os.fork()
    if pid == 0:
        os.write(wrote, storage.run_id().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    child = os.read(read, 100).decode()
    os.close(read), os.close(wrote)
    assert len(child) == len(mine) == 16 and child != mine


# ---- reading

def test_unknown_compression_and_missing_file(folder):
    with pytest.raises(ValueError, match="brotli.*gzip, zstd, bz2, xz"):
        storage.open_read("x", "brotli")
    url = storage.join(folder, "absent.gz")
    for call in (storage.open_read, storage.read_bytes, lambda url: storage.read_range(url, 0, 1)):
        with pytest.raises(FileNotFoundError, match=url):
            call(url)


def test_unreadable_file_names_its_path(tmp_path, monkeypatch):
    path = tmp_path / "secret.txt"
    path.write_bytes(b"x")
    os.chmod(path, 0)
    if os.access(path, os.R_OK):  # root
        monkeypatch.setattr("builtins.open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "denied")))
    with pytest.raises(PermissionError, match="secret.txt"):
        storage.open_read(str(path))


def test_ranges(root):
    url = storage.join(root, "in.bin")
    storage.write_bytes(url, b"0123456789")
    for start, end in [(0, 10), (0, 3), (3, 7), (7, 100), (10, 20), (50, 60), (4, 4), (0, 2**62)]:
        assert storage.read_range(url, start, end) == b"0123456789"[start:end]
    for start, end in [(-1, 3), (5, 4)]:
        with pytest.raises(ValueError, match=r"\[-?\d, \d\)"):
            storage.read_range(url, start, end)


def test_readers_do_not_share_a_position(root):
    url, data = storage.join(root, "in.bin"), bytes(range(200))
    storage.write_bytes(url, data)
    with storage.open_read(url) as one, storage.open_read(url) as two:
        assert (one.read(5), two.read(5), one.read(5)) == (data[:5], data[:5], data[5:10])
        assert one.seek(100) == 100 and one.read(3) == data[100:103]


def test_a_missing_driver_names_its_package(monkeypatch):
    def absent(*_, **__):
        raise ImportError("Install s3fs to access S3")
    monkeypatch.setattr(fsspec.core, "url_to_fs", absent)
    for call in (storage.read_bytes, storage.exists, lambda url: listing.expand(url, [".txt"]),
                 lambda url: storage.write_bytes(url, b"")):
        with pytest.raises(ImportError, match="s3://b/x.*Install s3fs"):
            call("s3://b/x")


def test_join_and_list_names(root):
    assert storage.join("/", "a", "b/") == "/a/b"
    assert storage.join("memory://", "a") == "memory://a"
    for name in ("x/a.txt", "x/.b", "x/sub/c.txt"):
        storage.write_bytes(storage.join(root, name), b"")
    assert storage.list_names(storage.join(root, "absent")) == []
    assert storage.list_names(storage.join(root, "x")) == [".b", "a.txt", "sub"]
    with pytest.raises(NotADirectoryError, match="a.txt"):
        storage.list_names(storage.join(root, "x", "a.txt"))


def test_a_store_that_refuses_does_not_look_empty(upload, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError("Forbidden")
    monkeypatch.setattr(upload, "info", refuse)
    monkeypatch.setattr(upload, "ls", refuse)
    for call in (storage.exists, storage.list_names):
        with pytest.raises(PermissionError, match="Forbidden.*upload://b/x"):
            call("upload://b/x")


# ---- files that are read by ranges --------------------------------------------------------------------------------------


class RangedFile(AbstractBufferedFile):
    """Answers to ranges as `answers` say, then well."""

    def _fetch_range(self, start, end):
        self.fs.asked.append((start, end))
        data = self.fs.files[self.path][start:end]
        if not self.fs.answers:
            return data
        answer = self.fs.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return data[:answer]


class RangedStore(PlainStore):
    protocol = "ranged"
    asked: list = []
    answers: list = []

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        return RangedFile(self, path, mode, cache_type="none")


fsspec.register_implementation("ranged", RangedStore, clobber=True)


@pytest.fixture
def ranged(monkeypatch):
    monkeypatch.setattr(RangedStore, "files", {"big": bytes(range(256)) * 4096, "empty": b""})
    monkeypatch.setattr(RangedStore, "asked", [])
    monkeypatch.setattr(RangedStore, "answers", [])
    monkeypatch.setattr(remote, "_PAUSE", 0.0)
    return RangedStore


READINGS = {
    "all": lambda url: storage.read_bytes(url),
    "range": lambda url: b"".join(storage.read_range(url, at, at + 200_000) for at in range(0, 1 << 20, 200_000)),
    "lines": lambda url: b"".join(storage.open_read(url)),
    "small": lambda url: b"".join(iter(functools.partial(storage.open_read(url).read, 1000), b"")),
    "seeks": lambda url: b"".join(sought(url)),
}


def sought(url):
    with storage.open_read(url) as file:
        assert file.seek(0, 2) == 1 << 20 and file.read(5) == b""
        for at in range(0, 1 << 20, 1 << 16):
            file.seek((1 << 20) - at - 1)
            file.read(1)
            file.seek(at)
            assert file.tell() == at
            file.seek(-at, 1)
            file.seek(at - (1 << 20), 2)
            yield file.read(1 << 16)


@pytest.mark.parametrize("how", READINGS)
@pytest.mark.parametrize("answers", [
    [], [0], [100], [DriverError("broken pipe")], [OSError("reset")], [65535, TimeoutError("late")], [ConnectionResetError(104, "reset"), 3],
])  # fmt: skip
def test_ranges_that_fail_or_come_short_are_asked_for_again(ranged, how, answers):
    ranged.answers += answers
    assert READINGS[how]("ranged://big") == ranged.files["big"]
    assert ranged.answers == [] and storage.read_bytes("ranged://empty") == b""


@pytest.mark.parametrize("answers, told, kind, times", [
    ([0] * 9, "sent 0 bytes of 10 at byte 5", OSError, 3), ([9] * 9, "sent 9 bytes of 10 at byte 5", OSError, 3),
    ([DriverError("broken")] * 9, "DriverError: broken", OSError, 3), ([ConnectionResetError(104, "reset")] * 9, "reset", OSError, 3),
    ([PermissionError("Forbidden")], "Forbidden", PermissionError, 1), ([FileNotFoundError("big")], "No such file", FileNotFoundError, 1),
])  # fmt: skip
def test_attempts_end(ranged, answers, told, kind, times):
    ranged.answers += answers
    with storage.open_read("ranged://big") as file:
        file.seek(5)
        file.raw.position = 5
        with pytest.raises(kind, match=f"{told}.*ranged://big|ranged://big.*{told}"):
            file.raw.read(10)
    assert len(ranged.asked) == times


def test_large_reads_are_exact_and_streams_read_ahead(ranged, monkeypatch):
    with storage.open_read("ranged://big") as file:
        file.seek(1000)
        file.read(500_000)
    assert ranged.asked[0] == (1000, 1000 + 7 * 65536) and ranged.asked[-1][1] <= 1000 + 8 * 65536
    ranged.asked.clear()
    with storage.open_read("ranged://big") as file:
        while file.read(10_000):
            pass
    sizes = [end - start for start, end in ranged.asked]
    assert sizes[:4] == [1 << 16, 1 << 17, 1 << 18, 1 << 19] and sum(sizes) == 1 << 20


def test_a_file_that_shrinks_is_no_shorter_file(ranged):
    """Its size is that of when it was opened."""
    with storage.open_read("ranged://big") as file:
        ranged.files["big"] = ranged.files["big"][:300_000]
        with pytest.raises(OSError, match="ranged://big.*sent"):
            file.read()


class ListedStore(PlainStore):
    """Answers from an earlier listing of the folder above, as adlfs does, until it is told to forget it."""

    protocol = "listed"
    cachable = True
    listings: dict = {}

    def ls(self, path, detail=True, **kwargs):
        self.listings[self._strip_protocol(path)] = found = super().ls(path, detail)
        return found

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        above = self.listings.get(path.rpartition("/")[0])
        if above is not None and all(one["name"] != path for one in above):
            raise FileNotFoundError(path)
        return super().info(path)

    def invalidate_cache(self, path=None):
        self.listings.clear() if path is None else self.listings.pop(path, None)


fsspec.register_implementation("listed", ListedStore, clobber=True)


def test_no_answer_from_an_earlier_listing(monkeypatch):
    monkeypatch.setattr(ListedStore, "files", {"bucket/a/x.txt": b"x"})
    assert storage.list_names("listed://bucket") == ["a"]
    ListedStore.files["bucket/b/y.txt"] = b"y"  # by another worker
    assert storage.exists("listed://bucket/b")
    assert [file.url for file in listing.expand("listed://bucket/b", [".txt"])] == ["listed://bucket/b/y.txt"]


def test_a_folder_that_cannot_be_written_is_known_early(tmp_path):
    storage.check_writable(str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []  # neither the folder nor the probe is left
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "file"))):
        storage.check_writable(str(tmp_path / "file" / "b"))
