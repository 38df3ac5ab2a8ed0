"""Storage options: what stores are opened with, how it reaches workers, and that no secret is written anywhere."""

from __future__ import annotations

import base64
import binascii
import bz2
import contextlib
import functools
import json
import os
import pickle
import re
import subprocess
import sys
import traceback
import zlib

import apache_beam as beam
import fsspec
import pytest
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from fsspec.implementations.memory import MemoryFileSystem

from beam_bpe import cli, storage, stores, transforms
from beam_bpe.transforms.shards import _WriteShardFn
from beam_bpe.transforms.stored import StoredDoFn, StoredMap
from beam_bpe.transforms.words import _WritePartFn

SECRET = "Tr0ub4dor3/correct+horse"
FLAGS = ["--runner=PortableRunner", "--environment_type=EXTERNAL", "--environment_config=localhost:1", "--job_endpoint=localhost:2"]
GIVEN = {"endpoint_url": "http://host:9000", "key": "env:TEST_STORE_KEY", "client_kwargs.aws_session_token": "env:TEST_STORE_KEY"}


class VaultStore(MemoryFileSystem):
    """A store that opens with a key alone."""

    protocol = "vault"
    store: dict = {}
    pseudo_dirs = [""]

    def __init__(self, key=None, **options):
        super().__init__()
        self.given = {"key": key, **options}
        if key != SECRET:
            raise PermissionError("another key")


fsspec.register_implementation("vault", VaultStore, clobber=True)


@pytest.fixture(autouse=True)
def options(monkeypatch):
    monkeypatch.setenv("TEST_STORE_KEY", SECRET)
    monkeypatch.setattr(VaultStore, "store", {})
    yield
    stores.storage_options({})


def given_to(url: str) -> dict:
    return storage.locate(url)[0].given


def test_options_reach_the_store():
    stores.storage_options({"vault:key": "env:TEST_STORE_KEY", "s3:anon": True, "client_kwargs.a.b": 1, "client_kwargs.a": {"c": 2}})
    assert given_to("vault://bucket/file") == {"key": SECRET, "client_kwargs": {"a": {"b": 1, "c": 2}}}
    assert storage.locate("memory://bucket/file")[0].storage_options == {}
    assert storage.locate("file:///tmp")[0] is None


def test_options_reach_the_last_link_of_a_chain(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("en.txt", "low lower")
    stores.storage_options({"key": "env:TEST_STORE_KEY"})
    storage.write_bytes("vault://bucket/all.zip", (tmp_path / "all.zip").read_bytes())
    assert storage.read_bytes("zip://en.txt::vault://bucket/all.zip") == b"low lower"


@pytest.mark.parametrize("given, wanted", [
    ("anon=true", True), ("anon=True", True), ("anon=False", False), ("n=5", 5), ('n="5"', "5"), ("url=http://a?b=c", "http://a?b=c"),
    ("empty=", ""), ('client_kwargs={"verify": false}', {"verify": False}),
])  # fmt: skip
def test_values_of_the_command_line(given, wanted):
    assert list(stores.parse_options([given]).values()) == [wanted]


@pytest.mark.parametrize("given, told", [
    ("anon", "has no ="), ("=x", "KEY=VALUE"), ("a..b=1", "has no name"), ("a=1 a=2", "given twice"), ("key=env:", "env:"),
    ("key=env:A-B", "env:"), *((f"{name}=abc", "is secret") for name in (
        "key", "s3:key", "secret", "password", "account_key", "connection_string", "sas_token", "client_kwargs.aws_access_key_id",
        "token", "client_secret", "SAS", "headers.Authorization")),
    ('client_kwargs={"aws_secret_access_key":"abc"}', "is secret"), ("endpoint_url=http://me:abc@host", "is secret"),
    ("key=12345", "is secret"), ("url=https://host/x?sig=abc", "is secret"),
])  # fmt: skip
def test_what_is_refused(given, told, capsys):
    """In one line, without the value."""
    flags = [word for one in given.split(" ") for word in ("--storage-option", one)]
    assert cli.main(["show", "memory://nothing", *flags]) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1 and "abc" not in said and "12345" not in said


def test_what_only_sounds_secret():
    stores.storage_options({"token": "anon", "config_kwargs.signature_version": "s3v4", "anon": False, "key": None, "use_ssl": True})


def test_an_absent_variable_is_named(monkeypatch):
    monkeypatch.delenv("TEST_STORE_KEY")
    stores.storage_options({"key": "env:TEST_STORE_KEY"})
    with pytest.raises(OSError, match="no environment variable TEST_STORE_KEY"):
        storage.read_bytes("vault://bucket/file")


@pytest.mark.parametrize("url", [
    f"s3://key:{SECRET}@bucket/file", f"ftp://me:{SECRET}@host/x", f"https://host/x?part=1&X-Amz-Signature={SECRET}",
    f"https://acct.blob.core.windows.net/c/x?sv=1&sig={SECRET}", f"zip://a::https://me:{SECRET}@host/b.zip",
])  # fmt: skip
def test_urls_with_credentials_are_refused(url, capsys, tmp_path):
    for command in (["count", url, "--output", str(tmp_path / "out")], ["show", url], ["count", __file__, "--output", url],
                    ["train", "--words", url, "--vocab-size", "300", "--output", str(tmp_path / "out")]):
        assert cli.main(command) in (1, 2)
        printed = capsys.readouterr()
        assert SECRET not in printed.err + printed.out and "holds credentials" in printed.err and printed.err.count("\n") == 1
    assert cli.main(["count", url, "--output", str(tmp_path / "out"), "--debug"]) in (1, 2)
    assert SECRET not in "".join(capsys.readouterr())


def test_urls_without_credentials():
    for url in ("abfs://container@account.dfs.core.windows.net/x", "s3://bucket/a:b@c?d=e", "s3://bucket/*?key=1", "sftp://me@host/x"):
        assert stores.redacted(url) == url or "key=" in url
        with pytest.raises(ImportError, match="nothing"):  # as far as the driver
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fsspec.core, "url_to_fs", absent)
                storage.locate(url)


def absent(*_, **__):
    raise ImportError("nothing")


def test_a_driver_that_tells_secrets(capsys):
    """In its error, which would be printed with its traceback as well."""
    stores.storage_options({"key": "env:TEST_STORE_KEY", "other": "env:TEST_STORE_KEY"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VaultStore, "info", lambda self, path, **_: (_ for _ in ()).throw(OSError(f"bad key {SECRET}")))
        for flags in ([], ["--debug"]):
            given = ["--storage-option", "key=env:TEST_STORE_KEY"]
            assert cli.main(["count", "vault://bucket/file", "--output", "memory://out", *given, *flags]) == 1
            said = "".join(capsys.readouterr())
            assert "vault://bucket/file: bad key ***" in said and SECRET not in said
        with pytest.raises(OSError, match=r"vault://bucket/file: bad key \*\*\*") as error:
            storage.exists("vault://bucket/file")
        assert SECRET not in "".join(traceback.format_exception(error.value))


# ---- how they reach workers ---------------------------------------------------------------------------------------------


def test_steps_bring_them_along():
    stores.storage_options(GIVEN)
    packed = pickler.dumps(StoredMap(len))
    stores.storage_options({})
    step = pickler.loads(packed)
    assert stores.current_options() == GIVEN and list(step.process("four")) == [4]


def test_another_process_opens_the_store(tmp_path):
    """A pipeline with a worker process that was told nothing but what the steps bring."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "import test_storage_options as t, pickle\n"
        "from apache_beam.internal import pickler\n"
        "from beam_bpe import storage, stores\n"
        "step = pickler.loads(open(sys.argv[1], 'rb').read())\n"
        "storage.write_bytes('vault://bucket/x', b'low')\n"
        "print(*step.process('vault://bucket/x'))\n"
    )
    stores.storage_options({"key": "env:TEST_STORE_KEY"})
    (tmp_path / "step").write_bytes(pickler.dumps(StoredMap(storage.read_bytes)))
    done = subprocess.run([sys.executable, program, tmp_path / "step"], capture_output=True, text=True)
    assert done.stdout == "b'low'\n", done.stderr


def test_every_step_that_opens_files_is_one():
    """Those of which the code speaks of files, vocabularies and tables in some way."""
    import inspect

    opening = r"(?<![\w.])(?:(?:storage|word_parts|measured|shards|encoding)\.(?!part_name)\w|read_range|WordCounts\.read)|\.acquire|vocabulary\.save"
    found = 0
    for name in ("count", "encode", "measure", "read", "shards", "train", "windowed", "words"):
        module = pytest.importorskip(f"beam_bpe.transforms.{name}")
        for _, each in inspect.getmembers(module, inspect.isclass):
            if issubclass(each, beam.DoFn) and each.__module__ == module.__name__:
                body = inspect.getsource(each)
                if re.search(opening, body):
                    found += 1
                    assert issubclass(each, StoredDoFn), each
        assert "beam.Map(_publish" not in inspect.getsource(module)
    assert found >= 10


# ---- no secret in what is submitted -------------------------------------------------------------------------------------


def layers(data: bytes, depth: int = 0):
    """Yield the bytes and what is packed in them anywhere: base64, zlib, bz2."""
    yield data
    if depth > 4:
        return
    for found in re.finditer(rb"[A-Za-z0-9+/]{40,}={0,2}", data):
        run = found[0].rstrip(b"=")
        with contextlib.suppress(binascii.Error):
            yield from layers(base64.b64decode(run[: len(run) // 4 * 4]), depth + 1)
    for magic, decoder in ((rb"x[\x01\x5e\x9c\xda]", zlib.decompressobj), (b"BZh", bz2.BZ2Decompressor)):
        for found in re.finditer(magic, data):
            with contextlib.suppress(zlib.error, OSError, EOFError):
                if len(inner := decoder().decompress(data[found.start():])) > 8:
                    yield from layers(inner, depth + 1)


@functools.cache
def environment():
    """Return the workers' environment as PortableRunner tells it, which takes seconds."""
    from apache_beam.runners.portability.portable_runner import PortableRunner

    return PortableRunner._create_environment(PipelineOptions(FLAGS))


def holds(pipeline: beam.Pipeline, text: str) -> bool:
    """Whether a text stands anywhere in what a portable runner would be sent."""
    proto = pipeline.to_runner_api(default_environment=environment())
    forms = [text.encode(), *(base64.b64encode(b"xxx"[:shift] + text.encode())[4:-4] for shift in range(3))]
    options = json.dumps(pipeline._options.get_all_options(), default=str).encode()
    return any(form in layer for data in (proto.SerializeToString(), options) for layer in layers(data) for form in forms)


def pipelines(folder, vocabulary):
    text = str(folder / "text.txt")
    (folder / "text.txt").write_text("low lower newest widest " * 50)
    yield "count", lambda p: (p | transforms.ReadDocuments(text, pattern="o200k") | transforms.CountWords()
                              | transforms.WriteWords(str(folder / "words")))
    yield "train", lambda p: p | transforms.LearnVocabulary(text, str(folder / "learnt"), vocab_size=260)
    yield "encode", lambda p: p | transforms.EncodeFiles(text, str(folder / "tokens"), vocabulary)
    yield "encode by path", lambda p: p | transforms.EncodeFiles(text, str(folder / "tokens2"), vocabulary, by_path=True)
    yield "rows", lambda p: (p | beam.Create(["low"]) | transforms.Encode(vocabulary, by_path=True)
                             | transforms.WriteShards(str(folder / "shards"), vocabulary))
    yield "decode", lambda p: p | beam.Create([[1, 2]]) | transforms.Decode(vocabulary, by_path=True)
    yield "read", lambda p: p | transforms.ReadWords(str(folder / "table")) | transforms.MergeWords()


def test_no_secret_in_the_proto(tmp_path):
    from beam_bpe import WordCounts, train

    words = WordCounts.from_documents(["low lower newest"], pattern="whitespace")
    train(words, 258).save(str(tmp_path / "vocabulary"))
    words.write(str(tmp_path / "table"))
    stores.storage_options(GIVEN)
    seen = 0
    for name, build in pipelines(tmp_path, str(tmp_path / "vocabulary")):
        pipeline = beam.Pipeline(options=PipelineOptions(FLAGS))
        build(pipeline)
        assert holds(pipeline, "env:TEST_STORE_KEY"), name  # so the search looks into the steps
        assert not holds(pipeline, SECRET), name
        seen += 1
    assert seen == 7
    for hidden in (SECRET, zlib.compress(SECRET.encode()), base64.b64encode(zlib.compress(pickle.dumps([SECRET])))):
        pipeline = beam.Pipeline(options=PipelineOptions(FLAGS))
        pipeline | beam.Create([1]) | beam.ParDo(StoredMap(Keeper(hidden)))
        assert holds(pipeline, SECRET)


class Keeper:
    def __init__(self, value):
        self.value = value

    def __call__(self, element):
        return element


@pytest.mark.parametrize("where", ["submitter", "worker"])
def test_no_secret_in_artifacts_and_what_is_said(where, capfd, tmp_path):
    """Of a whole run in a store that opens with a secret alone, with Beam's log."""
    given = ["--storage-option", "key=env:TEST_STORE_KEY", "--debug"]
    stores.storage_options({"key": "env:TEST_STORE_KEY"})
    storage.write_bytes("vault://corpus/text.txt", b"low lower newest widest " * 50)
    commands = [
        ["train", "vault://corpus", "--output", "vault://out", "--vocab-size", "262", "--train-on", where],
        ["encode", "vault://corpus", "--output", "vault://tokens", "--vocabulary", "vault://out"],
        ["decode", "vault://tokens", "--output", "vault://text", "--vocabulary", "vault://out"],
        ["show", "vault://out"],
        ["convert", "vault://out", "--output", "vault://other.tiktoken"],
    ]
    for command in commands:
        assert cli.main([*command, *given]) == 0
    said = "".join(capfd.readouterr())
    assert "vault://out/merges.parquet" in said and SECRET not in said
    assert len(VaultStore.store) > 8
    for name, file in VaultStore.store.items():
        assert SECRET.encode() not in file.getvalue(), name


def test_urls_with_credentials_are_refused_where_a_step_is_made():
    """Also by steps that open nothing then, since the url would travel with the job."""
    from beam_bpe.transforms import TrainVocabulary, WriteWindowedWords

    for make in (lambda url: TrainVocabulary(url, 300), WriteWindowedWords):
        with pytest.raises(OSError, match="the URL holds credentials") as error:
            make("s3://akey:hunter2@bucket/x")
        assert "hunter2" not in str(error.value)


def test_options_that_are_none():
    with pytest.raises(TypeError, match="a mapping from names to values"):
        stores.storage_options("key")
    with pytest.raises(ValueError, match="the storage option 1 has no name"):
        stores.storage_options({1: 2})
    with pytest.raises(ValueError, match="'client_kwargs' begins as JSON, but is none"):
        stores.parse_options(['client_kwargs={"region_name": '])


def test_workers_write_for_the_run_that_was_submitted(tmp_path):
    """So that its last step sweeps what killed workers left: steps of every transform that writes."""
    steps = [_WritePartFn(str(tmp_path)), _WriteShardFn(str(tmp_path), "npy", 1, {}), StoredMap(str)]
    for number, step in enumerate(steps):
        (tmp_path / f"step-{number}").write_bytes(pickle.dumps(step))
        program = "import pickle, sys; from beam_bpe import storage; pickle.load(open(sys.argv[1], 'rb')); print(storage.run_id())"
        done = subprocess.run([sys.executable, "-c", program, tmp_path / f"step-{number}"], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == storage.run_id()
