"""Finding input files: what paths, folders, globs and URLs stand for."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fsspec.implementations.local import LocalFileSystem

from beam_bpe import remote, storage
from beam_bpe.compression import SUFFIXES, compression_of, file_link, strip_compression


class SourceFile(NamedTuple):
    """Describe one input file: its url, its size in stored bytes, its compression (None for plain)."""

    url: str
    size: int
    compression: str | None


def expand(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
           suffixes: str | Sequence[str]) -> list[SourceFile]:
    """List the files that inputs stand for, sorted by url, each once.

    An input is a file (whatever its suffix), a glob, or a folder. A folder is walked recursively for names ending with
    one of `suffixes`, in any case, optionally followed by a compression suffix. Names that start with `.` or `_` are
    skipped in folders and not matched by wildcards (write `_*` to mean them). What exists literally is never read as a
    glob. Local urls come back as absolute paths.

    Raises FileNotFoundError for a missing path, a glob without match and a folder without known files; ValueError for
    no input at all; ImportError naming the package for a store whose driver is not installed.

    >>> storage.write_bytes("memory://corpus/en.txt.gz", b"...")
    >>> storage.write_bytes("memory://corpus/_notes.txt", b"...")
    >>> expand("memory://corpus", [".txt"])
    [SourceFile(url='memory://corpus/en.txt.gz', size=3, compression='gzip')]
    """
    inputs = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    if not inputs or not all(os.fspath(each) for each in inputs):
        raise ValueError(f"no input: got {inputs!r}; name at least one file, folder, glob or URL")
    known = (suffixes,) if isinstance(suffixes, str) else tuple(suffixes)
    found: dict[str, int] = {}
    for each in inputs:
        found.update(_files(os.fspath(each), known))
    return [SourceFile(url, size, compression_of(url)) for url, size in sorted(found.items())]


def _files(url: str, known: tuple[str, ...]) -> list[tuple[str, int]]:
    store, path = storage.locate(url)
    with storage.naming(url):
        kind, files = _local_files(path) if store is None else _store_files(store, path, url)
    if kind in ("missing", "glob") and not files and store is not None:
        remote.check_bucket(store, path, url)
    if kind == "missing":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if kind == "glob" and not files:
        raise FileNotFoundError(f"{url}: no file matches this glob")
    if kind == "folder":
        ends = tuple(suffix.lower() for suffix in known)
        files = [(name, size) for name, size in files if strip_compression(name.lower()).endswith(ends)]
        if not files:
            raise FileNotFoundError(f"{url}: no file here ends with {', '.join(known)} "
                                    f"(alone or followed by {', '.join(SUFFIXES)})")
    return files


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
    """Return what a path in a store is, and the urls of its files with their sizes."""
    kind, head = "file", path
    try:
        found = {path: store.info(path)}
    except FileNotFoundError:
        if not glob.has_magic(path):
            return "missing", []
        kind, head = "glob", re.split(r"[*?\[]", path)[0].rpartition("/")[0]
        found = {name: info for name, info in store.glob(path, detail=True).items() if info["type"] == "file"}
    else:
        if found[path]["type"] == "directory":
            kind, found = "folder", store.find(path, detail=True)
    files = []
    for name, info in found.items():
        if kind != "file" and _hidden(name, path, head):
            continue
        if info.get("size") is None:
            raise OSError(f"{url}: the server does not tell the size of {name}; copy it to a store that does")
        files.append((_url_of(store, name, path, url), int(info["size"])))
    return kind, files


def _hidden(name: str, pattern: str, head: str) -> bool:
    """Tell whether a part of name below head starts with `.` or `_` where the pattern does not say so itself."""
    said = {part[:1] for part in pattern[len(head):].split("/")}
    return any(part[:1] in (".", "_") and part[:1] not in said for part in name[len(head):].split("/"))


def _url_of(store: Any, name: str, path: str, url: str) -> str:
    """Write a name that the store listed in the spelling of the url that led to it (host, alias, chain)."""
    link = file_link(url).rstrip("/")
    if not link.endswith(path):
        return str(store.unstrip_protocol(name))
    return url.replace(file_link(url), link.removesuffix(path) + name, 1)
