"""Input and output in a real S3 server: the bytes of a local run, whole or absent, with secrets that appear nowhere."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import random
import re
import signal
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import services
from submitting import Engine

from beam_bpe import listing, remote, storage, stores
from beam_bpe.cutting import WordRule
from beam_bpe.documents import Reading, SourceRange
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reading import read_range

NAMES = ("TEST_STORE_NAME", "TEST_STORE_PHRASE")  # of the variables that hold the secrets
LARGE = 20_000_000  # bytes that are uploaded in parts


@pytest.fixture(scope="session")
def secrets(minio):
    return dict(zip(NAMES, (minio.key, minio.secret)))


def options_for(endpoint: str) -> dict[str, object]:
    key, secret = (f"env:{name}" for name in NAMES)
    return {"endpoint_url": endpoint, "client_kwargs.region_name": "us-east-1", "s3:key": key, "s3:secret": secret}


@pytest.fixture
def store(minio, secrets, monkeypatch):
    """Let this process open the server; give its file system."""
    pytest.importorskip("s3fs")
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    stores.storage_options(options_for(minio.endpoint))
    yield stores.locate("s3://any")[0]
    stores.storage_options({})


@pytest.fixture
def bucket(store):
    name = f"b{uuid.uuid4().hex[:16]}"
    store.mkdir(name)
    return f"s3://{name}"


# ---- a wire that breaks -----------------------------------------------------------------------------------------------


class Wire:
    """Passes bytes to the server and back; breaks the connection behind some bytes of an answer, as often as told."""

    def __init__(self, endpoint: str):
        self.ranges: list[tuple[int, int]] = []
        self.after, self.times, self.broken = 0, 0, 0
        host, port = endpoint.removeprefix("http://").split(":")
        wire = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.create_connection((host, int(port))) as server:
                    there = threading.Thread(target=wire.asked, args=(self.request, server), daemon=True)
                    there.start()
                    wire.answered(server, self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def asked(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                for start, end in re.findall(rb"(?i)\r\nrange: bytes=(\d+)-(\d+)", data):
                    self.ranges.append((int(start), int(end) + 1))
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def answered(self, server, client):
        passed = 0
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                passed += len(data)
                if passed > self.after and self.broken < self.times:
                    self.broken += 1
                    client.sendall(data[: len(data) // 2])
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
            server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(minio, store):
    wire = Wire(minio.endpoint)
    stores.storage_options(options_for(wire.endpoint))
    yield wire
    wire.server.shutdown()
    wire.server.server_close()


@pytest.fixture
def hasty(monkeypatch):
    """Attempts without pauses: ours, and those of the drivers."""
    monkeypatch.setattr(remote, "_PAUSE", 0.0)
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 2)


def some_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_only_the_bytes_of_a_range_are_asked_for(bucket, wire):
    """A large text read in ranges: every byte has one owner, and little else is asked for than what is owned."""
    text = " ".join(f"low{number} lower" for number in range(700_000)).encode()
    storage.write_bytes(f"{bucket}/text.txt", text)
    reading = Reading(documents="file", cut_by=(WordRule(pre_tokenizer("o200k")),))
    step, pieces, asked = 2 << 20, [], []
    for start in range(0, len(text), step):
        wire.ranges.clear()
        source = SourceRange(f"{bucket}/text.txt", None, "text", start, min(start + step, len(text)))
        pieces += [bytes(batch.data) for batch in read_range(source, reading)]
        asked.append(sum(end - begin for begin, end in wire.ranges))
    assert b"".join(pieces) == text and len(pieces) >= len(text) // step
    assert max(asked) <= step + (1 << 18) and sum(asked) < 1.2 * len(text)


def test_a_column_is_read_without_the_others(bucket, wire):
    rows = {"text": ["low lower"] * 1000, "other": [random.Random(i).randbytes(2000) for i in range(1000)]}
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    storage.write_bytes(f"{bucket}/rows.parquet", sink.getvalue())
    source = SourceRange(f"{bucket}/rows.parquet", None, "parquet", 0, None)
    assert sum(len(batch.bounds) // 2 for batch in read_range(source, Reading())) == 1000
    assert 0 < sum(end - start for start, end in wire.ranges) < 200_000 < len(sink.getvalue())


@pytest.mark.parametrize("how", ["range", "whole", "stream"])
def test_a_connection_that_breaks_once(bucket, wire, how):
    data = some_bytes(3_000_000)
    packed = gzip.compress(data, 1)
    storage.write_bytes(f"{bucket}/data.gz", packed)
    wire.after, wire.times = 300_000, 2
    url = f"{bucket}/data.gz"
    if how == "range":
        assert storage.read_range(url, 1_000_000, 2_500_000) == packed[1_000_000:2_500_000]
    elif how == "whole":
        assert storage.read_bytes(url) == packed
    else:
        with storage.open_read(url) as file:
            assert file.read() == data
    assert wire.broken == 2


@pytest.mark.parametrize("how", ["range", "stream"])
def test_a_connection_that_always_breaks(bucket, wire, hasty, monkeypatch, how):
    """An end to the attempts, and an error that says which file."""
    packed = gzip.compress(some_bytes(2_000_000), 1)
    storage.write_bytes(f"{bucket}/data.gz", packed)
    wire.after, wire.times = 20_000, 1 << 30
    with pytest.raises(OSError, match=rf"{bucket}/data.gz.*tried 3 times") as error:
        if how == "range":
            storage.read_range(f"{bucket}/data.gz", 0, 1_000_000)
        else:
            with storage.open_read(f"{bucket}/data.gz") as file:
                file.read()
    assert "\n" not in str(error.value) and 3 <= wire.broken <= 60


def test_a_connection_that_breaks_while_writing(bucket, wire, store):
    """Answers that are lost are asked for again: the file is whole."""
    data = some_bytes(LARGE)
    wire.after, wire.times = 200, 2
    storage.write_bytes(f"{bucket}/large", data)
    assert wire.broken == 2 and store.cat_file(f"{bucket}/large") == data


# ---- whole or absent ----------------------------------------------------------------------------------------------------


def unfinished(store, url: str) -> int:
    name, _, key = url.removeprefix("s3://").partition("/")
    return len(store.call_s3("list_multipart_uploads", Bucket=name, Prefix=key).get("Uploads", []))


@pytest.mark.parametrize("size", [0, 1000, LARGE])
@pytest.mark.parametrize("stands", [False, True])
def test_an_exception_publishes_nothing(bucket, store, size, stands):
    url = f"{bucket}/out/part"
    if stands:
        storage.write_bytes(url, b"old")
    with pytest.raises(KeyError), storage.write(url) as file:
        file.write(some_bytes(size))
        raise KeyError
    assert storage.list_names(f"{bucket}/out") == (["part"] if stands else [])
    assert not stands or storage.read_bytes(url) == b"old"
    assert unfinished(store, url) == 0


@pytest.mark.parametrize("size", [0, 1, (8 << 20) - 1, (8 << 20) + 1, LARGE])
def test_what_is_written_is_read(bucket, store, size):
    data = some_bytes(size)
    storage.write_bytes(f"{bucket}/file", b"an older one")
    storage.write_bytes(f"{bucket}/file", data)
    assert storage.read_bytes(f"{bucket}/file") == data and unfinished(store, f"{bucket}/file") == 0


@pytest.mark.parametrize("size", [1000, LARGE])
def test_a_killed_writer_publishes_nothing(bucket, store, minio, secrets, size):
    """In the middle of an upload, by SIGKILL; of a large file parts are left over, which are no object."""
    program = """
        import json, sys, time
        from beam_bpe import storage, storage_options
        storage_options(json.loads(sys.argv[1]))
        with storage.write(sys.argv[2]) as file:
            file.write(bytes(int(sys.argv[3])))
            file.flush()
            print("written", flush=True)
            time.sleep(600)
    """
    url = f"{bucket}/out/part"
    arguments = [json.dumps(options_for(minio.endpoint)), url, str(size)]
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **secrets})
    try:
        assert process.stdout.readline() == b"written\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert not storage.exists(url) and storage.list_names(bucket) == []
    assert unfinished(store, url) == (1 if size == LARGE else 0)
    storage.write_bytes(url, b"the next run")
    assert storage.read_bytes(url) == b"the next run"


# ---- what is wrong is said ----------------------------------------------------------------------------------------------


def test_folders_and_globs(bucket, store):
    for name in ("a/one.txt", "a/two.txt.gz", "a/_hidden.txt", "a/deep/three.jsonl", "b/four.txt", "a/image.png"):
        storage.write_bytes(f"{bucket}/{name}", b"x" * len(name))
    found = listing.expand(f"{bucket}/a", [".txt", ".jsonl"])
    names = ["a/deep/three.jsonl", "a/one.txt", "a/two.txt.gz"]
    assert [(file.url, file.size) for file in found] == [(f"{bucket}/{name}", len(name)) for name in names]
    assert [file.url for file in listing.expand(f"{bucket}/*/*.txt", [])] == [f"{bucket}/a/one.txt", f"{bucket}/b/four.txt"]
    with pytest.raises(FileNotFoundError, match=rf"{bucket}/a/five.txt"):
        listing.expand(f"{bucket}/a/five.txt", [".txt"])
    for url in ("s3://no-such-bucket/a.txt", "s3://no-such-bucket/*.txt", "s3://no-such-bucket/folder"):
        with pytest.raises(FileNotFoundError, match=rf"no bucket 'no-such-bucket'.*{re.escape(url)}"):
            listing.expand(url, [".txt"])
    with pytest.raises(FileNotFoundError, match="no bucket 'no-such-bucket'"):
        storage.list_names("s3://no-such-bucket/out")


CALLS = {
    "read": lambda url: storage.read_bytes(url),
    "list": lambda url: storage.list_names(url),
    "exists": lambda url: storage.exists(url),
    "expand": lambda url: listing.expand(url, [".txt"]),
    "write": lambda url: storage.write_bytes(url, b"x"),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_credentials(bucket, store, monkeypatch, call):
    monkeypatch.setenv(NAMES[1], "another-phrase-entirely")
    with pytest.raises(PermissionError, match=f"{bucket}/file") as error:
        CALLS[call](f"{bucket}/file")
    assert "another-phrase" not in str(error.value) and "\n" not in str(error.value)


def test_an_endpoint_that_refuses(bucket, store):
    with socket.socket() as nobody:  # bound, and not listening
        nobody.bind(("127.0.0.1", 0))
        options = options_for(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        stores.storage_options({**options, "config_kwargs.retries.max_attempts": 1})
        with pytest.raises(OSError, match=f"{bucket}/file.*Could not connect"):
            storage.exists(f"{bucket}/file")


def test_an_option_that_no_store_knows(bucket, store, minio):
    stores.storage_options({**options_for(minio.endpoint), "nonsense": True})
    with pytest.raises(OSError, match=f"{bucket}/file.*nonsense"):
        storage.read_bytes(f"{bucket}/file")


# ---- the commands -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A folder of mixed formats, with a text that is read in ranges."""
    zstandard = pytest.importorskip("zstandard")
    rng = random.Random(7)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(6000)]

    def text(count: int) -> str:
        return " ".join(rng.choices(words, k=count)) + "\n"

    folder = tmp_path_factory.mktemp("corpus") / "mixed"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(text(20) for _ in range(20_000)))
    with gzip.open(folder / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text(50), "lang": "x"}) + "\n" for _ in range(2000))
    pq.write_table(pa.table({"text": [text(50) for _ in range(2000)]}), folder / "c.parquet", row_group_size=500)
    (folder / "d.txt.zst").write_bytes(zstandard.ZstdCompressor().compress(text(50_000).encode()))
    return folder


TRAIN = ["--vocab-size", "2000", "--shards", "3", "--range-bytes", 1 << 20, "--no-report"]
ENCODE = ["--range-bytes", 1 << 20]


@pytest.fixture(scope="session")
def expected(workers, submit_from, corpus, tmp_path_factory) -> Path:
    """What a local run makes of local files."""
    folder = tmp_path_factory.mktemp("expected")
    local = Engine("local", [], submit_from)
    local.beam_bpe("train", corpus, "--output", folder / "vocabulary", *TRAIN)
    local.beam_bpe("encode", corpus, "--vocabulary", folder / "vocabulary", "--output", folder / "tokens", *ENCODE)
    local.beam_bpe("decode", folder / "tokens", "--vocabulary", folder / "vocabulary", "--output", folder / "text")
    return folder


class Remote:
    """Commands with the options of the server; remembers all that they say."""

    def __init__(self, engine: Engine, minio, bucket: str, secrets: dict[str, str]):
        self.engine, self.bucket, self.secrets, self.said = engine, bucket, secrets, ""
        engine.variables = {**engine.variables, **secrets}
        self.options = []
        for name, value in options_for(minio.endpoint).items():
            self.options += ["--storage-option", f"{name}={value}"]

    def __call__(self, *words, **more):
        done = self.engine.beam_bpe(*words, *self.options, **more)
        self.said += done.stdout + done.stderr
        return done

    def upload(self, store, folder: Path, name: str) -> str:
        for path in folder.rglob("*"):
            if path.is_file():
                store.put_file(str(path), f"{self.bucket}/{name}/{path.relative_to(folder)}")
        return f"{self.bucket}/{name}"

    def check_secrets(self, store):
        """No secret stands in an object, in what a command said, or in the log of a service."""
        texts = {"what was said": self.said.encode()}
        for name in store.find(self.bucket):
            texts[name] = store.cat_file(name)
        if self.engine.service:
            texts |= {str(path): path.read_bytes() for path in self.engine.service.folder.glob("*.log")}
        for value in self.secrets.values():
            for form in (value.encode(), base64.b64encode(value.encode()), value.encode()[::-1]):
                assert [name for name, text in texts.items() if form in text] == []


def differing(store, url: str, folder: Path) -> list[str]:
    """Return the names of the files that are not the same in both."""
    there = {name.removeprefix(url.removeprefix("s3://") + "/"): store.cat_file(name) for name in store.find(url)}
    here = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))


@pytest.mark.parametrize("engine", ["local"], indirect=True)
def test_commands(engine, minio, store, bucket, secrets, corpus, expected, tmp_path):
    run = Remote(engine, minio, bucket, secrets)
    texts, vocabulary, tokens = run.upload(store, corpus, "corpus"), f"{bucket}/vocabulary", f"{bucket}/tokens"
    run("train", texts, "--output", vocabulary, *TRAIN, "--debug")
    assert differing(store, vocabulary, expected / "vocabulary") == []
    assert "already holds" in run("train", f"{texts}/*", "--output", vocabulary, *TRAIN, fails=True).stderr
    run("train", f"{texts}/*", "--output", vocabulary, *TRAIN, "--shards", "2", "--overwrite")
    assert storage.read_bytes(f"{vocabulary}/merges.parquet") == (expected / "vocabulary" / "merges.parquet").read_bytes()
    assert sum(name.startswith("part") for name in storage.list_names(f"{vocabulary}/words")) == 2

    run("encode", texts, "--vocabulary", vocabulary, "--output", tokens, *ENCODE)
    encoded = {name: store.cat_file(name) for name in store.find(tokens) if not name.endswith("/_parts/_job.json")}
    lost = [name for name in sorted(encoded) if name.endswith(".parquet")][:2]
    for name in (*lost, f"{tokens}/_manifest.json".removeprefix("s3://")):
        store.rm_file(name)
    run("encode", texts, "--vocabulary", vocabulary, "--output", tokens, *ENCODE, "--resume")
    again = {name: store.cat_file(name) for name in encoded}
    assert [name for name in encoded if again[name] != encoded[name]] == []

    run("decode", tokens, "--vocabulary", vocabulary, "--output", f"{bucket}/text")
    back = sorted(line for name in store.find(f"{bucket}/text") if name.endswith("jsonl")
                  for line in store.cat_file(name).splitlines())
    assert [json.loads(line)["text"] for line in back] == [
        json.loads(line)["text"] for line in sorted(line.replace(str(corpus).encode(), texts.encode())
        for path in (expected / "text").rglob("*.jsonl") for line in path.read_bytes().splitlines())
    ]
    assert f"{vocabulary}/merges.parquet" in run("show", vocabulary).stdout
    run("convert", vocabulary, "--output", f"{bucket}/converted.tiktoken")
    engine.variables = minio.variables  # what the driver reads by itself
    assert engine.beam_bpe("show", vocabulary).stdout
    engine.variables = {**secrets, NAMES[1]: "another-phrase-entirely"}
    told = run("count", texts, "--output", f"{bucket}/words", fails=True)
    assert told.returncode == 1 and told.stderr.count("\n") == 1 and texts in told.stderr
    told = run("count", f"{texts}/none.txt", "--output", f"{bucket}/words", "--debug", fails=True)
    run.check_secrets(store)


def on_an_engine(run: Remote, store, corpus, expected):
    """Count, learn on a worker and encode: the bytes of the local run of local files."""
    texts, vocabulary, tokens = run.upload(store, corpus, "corpus"), f"{run.bucket}/vocabulary", f"{run.bucket}/tokens"
    run("train", texts, "--output", vocabulary, *TRAIN, "--train-on", "worker")
    assert differing(store, vocabulary, expected / "vocabulary") == []
    run("encode", texts, "--vocabulary", vocabulary, "--output", tokens, *ENCODE, "--debug")
    parts = [name for name in store.find(tokens) if name.endswith(".parquet")]
    ids = [pq.read_table(io.BytesIO(store.cat_file(name)))["ids"].to_pylist() for name in sorted(parts)]
    paths = sorted((expected / "tokens").glob("*.parquet"))
    assert ids == [pq.read_table(path)["ids"].to_pylist() for path in paths]
    run.check_secrets(store)


@pytest.mark.parametrize("engine", ["prism", pytest.param("spark-local", marks=pytest.mark.slow)], indirect=True)
def test_on_an_engine(engine, minio, store, bucket, secrets, corpus, expected):
    on_an_engine(Remote(engine, minio, bucket, secrets), store, corpus, expected)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["SparkCluster", "FlinkCluster"])
def test_on_a_cluster(cluster, _running, submit_from, minio, store, bucket, secrets, corpus, expected, tmp_path):
    """The workers' own environment holds the secrets there."""
    _running.stop()
    with getattr(services, cluster)(tmp_path, **secrets) as service:
        engine = Engine(cluster, service.flags, submit_from, service)
        on_an_engine(Remote(engine, minio, bucket, secrets), store, corpus, expected)
