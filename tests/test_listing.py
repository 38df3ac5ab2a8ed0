"""listing: every file that an input stands for, once, and nothing else."""

from __future__ import annotations

import gzip
import os
import uuid
import zipfile

import pytest

from beam_bpe import compression, listing, storage


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}"


def put(folder, *names):
    for name in names:
        storage.write_bytes(storage.join(folder, name), name.encode())


def found(folder, inputs, suffixes=(".txt", ".jsonl")):
    """Names relative to folder; the urls must also open."""
    files = listing.expand(inputs, suffixes)
    for file in files:
        assert len(storage.read_bytes(file.url)) == file.size
        assert file.compression == compression.compression_of(file.url)
    assert [file.url for file in files] == sorted(file.url for file in files)
    return [file.url.removeprefix(folder).lstrip("/") for file in files]


def test_folders(folder):
    put(folder, "b.txt", "a.jsonl.zst", "sub/c.TXT", "sub/d.txt.gz", "sub/.hidden.txt", "_SUCCESS.txt", "_sub/x.txt",
        ".git/y.txt", "e.bin", "f.gz", "grün und blau.txt")
    expected = ["a.jsonl.zst", "b.txt", "grün und blau.txt", "sub/c.TXT", "sub/d.txt.gz"]
    assert found(folder, folder) == expected
    assert found(folder, folder + "/") == expected
    assert found(folder, [folder, storage.join(folder, "b.txt"), storage.join(folder, "sub")]) == expected
    assert found(folder, folder, ".txt") == expected[1:]
    with pytest.raises(FileNotFoundError, match=rf"{folder}.*\.parquet, \.arrow.*\.gz"):
        listing.expand(folder, [".parquet", ".arrow"])


def test_a_folder_may_itself_be_hidden(folder):
    put(folder, "_data/.x/a.txt")
    assert found(folder, storage.join(folder, "_data/.x")) == ["_data/.x/a.txt"]


def test_globs(folder):
    put(folder, "a1.txt", "a2.txt", "b1.bin", "sub/a3.txt", "sub/deep/a4.txt", ".a.txt", "_a.txt", "sub/.h/a.txt")

    def matches(pattern):
        return found(folder, storage.join(folder, pattern))

    assert matches("*") == ["a1.txt", "a2.txt", "b1.bin"]  # any suffix: the glob says it all
    assert matches("a?.txt") == matches("a[0-9].txt") == ["a1.txt", "a2.txt"]
    assert matches("*/*.txt") == ["sub/a3.txt"]
    assert matches("**/*.txt") == ["a1.txt", "a2.txt", "sub/a3.txt", "sub/deep/a4.txt"]
    assert matches("_*.txt") == ["_a.txt"]
    assert matches("sub/.h/*") == ["sub/.h/a.txt"]
    for nothing in ("z*", "su*", "absent/*.txt"):
        with pytest.raises(FileNotFoundError, match="no file matches this glob"):
            matches(nothing)


def test_literal_names_win_over_globs(folder):
    put(folder, "a[1].txt", "a1.txt", "data [x]/b.txt")
    assert found(folder, storage.join(folder, "a[1].txt")) == ["a[1].txt"]
    assert found(folder, storage.join(folder, "a[12].txt")) == ["a1.txt"]
    assert found(folder, storage.join(folder, "data [x]")) == ["data [x]/b.txt"]
    if "://" not in folder:
        assert found(folder, storage.join(folder, "data [x]", "*.txt")) == ["data [x]/b.txt"]


def test_named_files_need_no_known_suffix(folder):
    put(folder, "_odd.bin")
    assert found(folder, storage.join(folder, "_odd.bin")) == ["_odd.bin"]
    missing = storage.join(folder, "missing.txt")
    with pytest.raises(FileNotFoundError, match=missing):
        listing.expand([storage.join(folder, "_odd.bin"), missing], [".txt"])


def test_no_input_is_an_error():
    for nothing in ([], "", ["", "x"]):
        with pytest.raises(ValueError, match="no input"):
            listing.expand(nothing, [".txt"])


def test_local_spellings_are_one_file(tmp_path, monkeypatch):
    put(str(tmp_path), "a.txt")
    monkeypatch.chdir(tmp_path)
    inputs = ["a.txt", "./a.txt", tmp_path / "a.txt", f"file://{tmp_path}/a.txt", "*.txt", "."]
    assert listing.expand(inputs, [".txt"]) == [(str(tmp_path / "a.txt"), 5, None)]
    assert listing.expand(tmp_path, [".txt"]) == [(str(tmp_path / "a.txt"), 5, None)]


def test_links_are_followed_once(tmp_path):
    put(str(tmp_path), "blobs/1234", "set/a.txt")
    os.symlink(tmp_path / "blobs" / "1234", tmp_path / "set" / "b.txt")
    os.symlink(tmp_path / "set", tmp_path / "set" / "loop")
    assert found(str(tmp_path), str(tmp_path / "set")) == ["set/a.txt", "set/b.txt"]
    assert found(str(tmp_path), str(tmp_path / "set" / "*.txt")) == ["set/a.txt", "set/b.txt"]
    os.symlink(tmp_path / "nowhere", tmp_path / "set" / "c.txt")
    with pytest.raises(FileNotFoundError, match="set"):
        listing.expand(str(tmp_path / "set"), [".txt"])


def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(OSError, match="not a regular file.*pipe.txt"):
        listing.expand(str(tmp_path / "pipe.txt"), [".txt"])


def test_urls_keep_their_chain(tmp_path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("in/a.txt.gz", gzip.compress(b"alpha"))
    url = f"zip://in::{tmp_path}/all.zip"
    assert found("", url) == [f"zip://in/a.txt.gz::{tmp_path}/all.zip"]
    with storage.open_read(f"zip://in/a.txt.gz::{tmp_path}/all.zip") as file:
        assert file.read() == b"alpha"
    assert storage.join("zip://in::/x/all.zip", "a.txt") == "zip://in/a.txt::/x/all.zip"
