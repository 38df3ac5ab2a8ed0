"""The commands that encode, decode, convert and show tokens: what they do, and what they say when something is wrong."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_bpe
from beam_bpe import artifacts, cli, encoding, formats, shards, train
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).resolve().parent.parent
END, PAD = "<|end|>", "<|pad|>"
TEXTS = ["low lower lowest\n", "the newest news: 12 機器 👍🏽", "wide\nwider", f"a {END} b", "low"]


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> dict[str, str]:
    """Return paths of one vocabulary in every format, and of another one."""
    folder = tmp_path_factory.mktemp("vocabularies")
    words = WordCounts.from_documents(TEXTS * 5, pattern="gpt2")
    vocabulary = train(words, 256 + 42, special_tokens=[END, PAD])
    vocabulary.save(str(folder / "ours"))
    formats.save(vocabulary, str(folder / "hf.json"), "huggingface", verify=False)
    formats.save(vocabulary, str(folder / "gpt2"), "gpt2")
    train(words, 256 + 20).save(str(folder / "other"))
    return {name: str(folder / name) for name in ("ours", "hf.json", "gpt2", "other")}


@pytest.fixture
def ours(vocabularies) -> str:
    return vocabularies["ours"]


@pytest.fixture(scope="module")
def tokenizer(vocabularies) -> Tokenizer:
    return Tokenizer.load(vocabularies["ours"])


@pytest.fixture
def jsonl(tmp_path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text, "n": i, "tags": ["x", i]}) + "\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def main(capsys):
    """Return a function that runs a command in this process, which must end well: what it prints."""

    def run(*argv: object) -> str:
        capsys.readouterr()
        code = cli.main([str(arg) for arg in argv])
        said, err = capsys.readouterr()
        assert code == 0, err
        return said

    return run


@pytest.fixture
def fails(capsys):
    """Return a function that runs a command which must fail, and returns the one line it says."""

    def run(*argv: object, code: int = 1) -> str:
        capsys.readouterr()
        found = cli.main([str(arg) for arg in argv])
        err = capsys.readouterr().err
        lines = [line for line in err.splitlines() if not line.startswith("beam-bpe: note:")]
        assert found == code, err
        assert len(lines) == 1 and lines[0].startswith("beam-bpe: error: "), err
        return lines[0]

    return run


def process(*argv: object, **options) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.run([sys.executable, "-m", "beam_bpe", *argv], env=env, capture_output=True, timeout=60, **options)


def manifest(folder) -> dict:
    return artifacts.read_manifest(str(folder), shards.KIND)


def parts(folder, suffix) -> list[Path]:
    return sorted(Path(folder).glob(f"part-*{suffix}"))


def records(folder) -> list[dict]:
    return [json.loads(line) for path in parts(folder, ".jsonl") for line in path.read_bytes().splitlines()]


# ---- encode --------------------------------------------------------------------------------------


def test_encode_says_what_it_made(jsonl, out, ours, main, tokenizer):
    said = main("encode", jsonl, "-o", out, "-v", ours)
    tokens = sum(len(tokenizer.encode(text, disallowed_special=())) for text in TEXTS)
    size = sum(len(text.encode()) for text in TEXTS)
    lines = said.splitlines()
    assert lines[0].startswith(f"shards      {out}: 1, parquet, ")
    assert lines[1].startswith(f"tokens      {tokens} of 5 documents, {size / tokens:.2f} bytes a token; vocabulary ")
    assert lines[2] == f"corpus      5 documents, {size} bytes"
    shown = main("show", out).splitlines()
    assert shown[:3] == lines and "documents   file" in shown and "special     text" in shown


def test_every_option_arrives(jsonl, out, ours, main, tokenizer):
    options = ["--special", "encode", "--bos", END, "--eos", END, "--eos", "low", "--most-tokens", 12, "--method", "longest_match"]
    main("encode", jsonl, "-o", out, "-v", ours, "--format", "npy", *options, "--keep", "n", "--max-document-bytes", 1000)
    parameters = manifest(out)["parameters"]
    end, low = tokenizer.id_of(END), tokenizer.id_of("low")
    wanted = {
        "special": "encode", "bos": [end], "eos": [end, low], "most": 12, "method": "longest_match", "keep": ["n"],
        "max_document_bytes": 1000, "format": "npy", "packing": None,
    }  # fmt: skip
    assert wanted.items() <= parameters.items()
    assert len(parts(out, ".npy")) == 2


def test_packing_options_arrive(jsonl, out, ours, main, tokenizer):
    said = main("encode", jsonl, "-o", out, "-v", ours, "--pack", 8, "--pad", PAD, "--pack-whole")
    packing = manifest(out)["parameters"]["packing"]
    pad = tokenizer.id_of(PAD)
    assert packing == {"length": 8, "remainder": "pad", "pad_id": pad, "split": False, "segments": True}
    assert "padding tokens" in said
    table = pq.read_table(parts(out, ".parquet")[0])
    assert {len(ids) for ids in table["ids"].to_pylist()} == {8}


def test_reading_options_arrive(tmp_path, out, ours, main):
    (tmp_path / "a.dat").write_text('{"body": "low"}\n')
    main("encode", tmp_path / "a.dat", "-o", out, "-v", ours, "--input-format", "jsonl", "--field", "body")
    assert manifest(out)["totals"]["documents"] == 1 and manifest(out)["parameters"]["field"] == "body"
    pq.write_table(pa.table({"body": ["low", "new"]}), tmp_path / "b.parquet")
    main("encode", tmp_path / "b.parquet", "-o", tmp_path / "two", "-v", ours, "--column", "body")
    assert manifest(tmp_path / "two")["totals"]["documents"] == 2
    (tmp_path / "c.txt").write_text("low\n--\nnew\n--\nwide")
    command = ["encode", tmp_path / "c.txt", "-v", ours, "--range-bytes", 5]
    main(*command, "-o", tmp_path / "three", "--documents", "separator", "--separator", "\\n--\\n")
    assert manifest(tmp_path / "three")["totals"]["documents"] == 3 and len(manifest(tmp_path / "three")["parts"]) == 4


def test_what_is_set_aside_is_told(tmp_path, out, ours, main, fails):
    (tmp_path / "a.txt").write_bytes(b"low\nbad \xff\nx" + END.encode() + b"\nlonger than ten\n")
    command = ["encode", tmp_path / "a.txt", "-o", out, "-v", ours, "--documents", "line", "--special", "fail"]
    line = fails(*command)
    assert f"a.txt, offset 10: the document holds the special token '{END}' at byte 1" in line and "--errors skip" in line
    assert not (out / artifacts.MANIFEST).exists()
    said = main(*command, "--errors", "skip", "--max-document-bytes", 10)
    assert f"set aside   {out / 'rejected'}" in said
    assert "1 skipped documents" in said and "1 failed documents" in said and "1 overlong documents" in said
    assert sum(len(path.read_bytes().splitlines()) for path in (out / "rejected").iterdir()) == 3
    command = ["encode", tmp_path / "a.txt", "-v", ours, "--documents", "line", "--max-document-bytes", 10]
    said = main(*command, "-o", tmp_path / "two", "--rejected", tmp_path / "aside")
    assert f"set aside   {tmp_path / 'aside'}" in said and len(list((tmp_path / "aside").iterdir())) == 1
    assert "0xff at offset 8" in fails(*command, "-o", tmp_path / "three", "--errors", "strict")


def test_resume_and_overwrite(jsonl, out, ours, main, fails):
    command = ["encode", jsonl, "-o", out, "-v", ours]
    main(*command)
    before = (out / artifacts.MANIFEST).read_bytes()
    assert "already holds encoded documents; choose another folder or overwrite it (--overwrite)" in fails(*command)
    assert "resumed     1 of 1 shards stood already" in main(*command, "--resume")
    assert (out / artifacts.MANIFEST).read_bytes() == before
    assert "encoded in another way (special is \"text\" there and \"drop\" here)" in fails(*command, "--resume", "--special", "drop")
    main(*command, "--special", "drop", "--overwrite")
    assert manifest(out)["parameters"]["special"] == "drop"
    assert fails(*command, "--resume", "--overwrite", code=2).endswith("--overwrite and --resume contradict each other")


@pytest.mark.parametrize(
    "options, said",
    [
        (["--pad", PAD], "--remainder, --pad and --pack-whole go with --pack"),
        (["--remainder", "drop"], "go with --pack"),
        (["--pack-whole"], "go with --pack"),
        (["--pack", 8, "--pack-whole"], "it needs --pad"),
        (["--pack", 8, "--pad", PAD, "--remainder", "keep"], f"--pad {PAD} goes with --remainder pad, not 'keep'"),
        (["--pack", 8, "--remainder", "pad"], "needs the id of padding"),
        (["--pack", 8, "--format", "megatron"], "--format megatron has no rows of one length"),
        (["--pack", 8, "--format", "npy", "--remainder", "keep"], "--format npy has rows of one length only: choose --remainder pad"),
        (["--pack", 8, "--keep", "n"], "a packed row holds several documents"),
        (["--pack", 0], "--pack is 0; it must be at least 1"),
        (["--most-tokens", 0], "--most-tokens is 0"),
        (["--most-tokens", 1, "--bos", END], "--most-tokens 1: must be more than the 1 ids of bos and eos"),
        (["--bos", "<none>"], "'<none>' is no token of this vocabulary"),
        (["--format", "csv"], "invalid choice: 'csv'"),
        (["--special", "x"], "invalid choice: 'x'"),
        (["--separator", "x"], "goes with a separator"),
        (["--documents", "separator"], "goes with a separator"),
        (["--rejected", "x"], "--rejected goes with --errors skip or --max-document-bytes"),
        (["--packs", 8], "there is no option --packs; did you mean --pack?"),
        (["--keep", "ids"], "columns of its own of that name"),
        (["--pattern", "gpt2"], "--pattern does not go with"),
        (["--encoding", "none"], "--encoding is 'none'; choose one of r50k_base"),
        (["--special-id", "x"], "it must be TEXT=ID"),
    ],
)
def test_options_that_are_refused(options, said, jsonl, out, ours, fails):
    assert said in fails("encode", jsonl, "-o", out, "-v", ours, *options, code=2)
    assert not out.exists()


def test_vocabularies_that_are_refused(jsonl, tmp_path, out, fails):
    assert "required: -v/--vocabulary" in fails("encode", jsonl, "-o", out, code=2)
    assert "none holds no vocabulary" in fails("encode", jsonl, "-o", out, "-v", "none")
    (tmp_path / "x.tiktoken").write_text("IQ== 0\n")
    line = fails("encode", jsonl, "-o", out, "-v", tmp_path / "x.tiktoken", code=2)
    assert "give one (--pattern gpt2" in line and "--special-id" in line
    assert "no token" in fails("encode", jsonl, "-o", out, "-v", tmp_path / "x.tiktoken", "--pattern", "gpt2")
    assert "'('" in fails("encode", jsonl, "-o", out, "-v", tmp_path / "x.tiktoken", "--pattern", "(", code=2)
    (tmp_path / "tokenizer.json").write_text("{")
    assert "is not JSON" in fails("encode", jsonl, "-o", out, "-v", tmp_path / "tokenizer.json")
    assert not out.exists()


def test_names_of_columns_that_are_refused(tmp_path, out, ours, fails):
    pq.write_table(pa.table({"text": ["low"], "ids": [1]}), tmp_path / "a.parquet")
    assert "has the column 'ids', which the output has of its own" in fails("encode", tmp_path / "a.parquet", "-o", out, "-v", ours)


def test_progress_lines(jsonl, out, ours):
    done = process("encode", jsonl, "-o", out, "-v", ours, "--progress", "json")
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {event["phase"] for event in events} <= {"running", "encoding"} and events
    done = process("encode", jsonl, "-o", out, "-v", ours, "--overwrite")
    assert (done.returncode, done.stderr) == (0, b"")


def test_workers_and_flags_of_beam_give_the_same_bytes(jsonl, tmp_path, ours, main):
    def made(name, *options) -> dict[str, bytes]:
        main("encode", jsonl, "-o", tmp_path / name, "-v", ours, "--documents", "line", "--range-bytes", 30, *options)
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.is_file()}

    plain = made("one")
    assert len(plain) > 4
    assert made("two", "--workers", 3) == plain
    assert made("three", "--", "--direct_running_mode=multi_threading", "--direct_num_workers=2") == plain


# ---- decode --------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", shards.FORMATS)
@pytest.mark.parametrize("marks", [[], ["--bos", END, "--eos", PAD, "--eos", "low"]])
@pytest.mark.parametrize("source", ["jsonl", "parquet", "lines", "files", "separated"])
def test_decoding_gives_the_corpus_back(source, marks, to, tmp_path, jsonl, ours, main):
    options, path = [], jsonl
    if source == "parquet":
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"body": TEXTS, "when": pa.array(range(5), pa.timestamp("ns"))}), path)
        options = ["--column", "body"]
    elif source != "jsonl":
        path = tmp_path / "a.txt.gz"
        path.write_bytes(gzip.compress("--".join(TEXTS).encode()))
        options = {"lines": ["--documents", "line"], "separated": ["--documents", "separator", "--separator=--"]}.get(source, [])
    main("encode", path, "-o", tmp_path / "out", "-v", ours, "--format", to, *options, *marks)
    for kind in ("jsonl", "parquet", "text"):
        said = main("decode", tmp_path / "out", "-o", tmp_path / kind, "-v", ours, "--format", kind)
        assert f"documents   {tmp_path / kind}: " in said
    name = "body" if source == "parquet" else "text"
    texts = [record[name] for record in records(tmp_path / "jsonl")]
    table = pq.read_table(parts(tmp_path / "parquet", ".parquet")[0])
    assert table[name].to_pylist() == texts
    (text,) = (path.read_text() for path in parts(tmp_path / "text", ".txt"))
    if source in ("jsonl", "parquet"):
        assert texts == TEXTS and text == "\n".join(TEXTS)
    else:
        assert text == "--".join(TEXTS)
    if source == "parquet":
        assert table["when"].type == pa.timestamp("ns") and records(tmp_path / "jsonl")[1]["when"] == "1970-01-01 00:00:00.000000001"
        assert table["source_row"].to_pylist() == list(range(5))


def test_decoded_columns_as_json(tmp_path, ours, main):
    table = pa.table({
        "text": ["low", "new"],
        "bytes": [b"\xff", None],
        "number": [float("nan"), 1.5],
        "struct": pa.array([{"t": 1, "l": [float("inf")]}, None], pa.struct([("t", pa.time64("ns")), ("l", pa.list_(pa.float32()))])),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.date32())),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    main("encode", tmp_path / "a.parquet", "-o", tmp_path / "out", "-v", ours)
    main("decode", tmp_path / "out", "-o", tmp_path / "back", "-v", ours)
    found = records(tmp_path / "back")
    source = {"source_file": str(tmp_path / "a.parquet"), "source_row": 0}
    assert found[0] == {
        "text": "low", "bytes": "/w==", "number": None, "struct": {"t": "00:00:00.000000001", "l": [None]},
        "map": [["k", "1970-01-02"]], **source,
    }  # fmt: skip
    assert found[1]["number"] == 1.5 and found[1]["struct"] is None


def test_packed_rows_are_decoded_without_their_padding(jsonl, tmp_path, out, ours, main):
    main("encode", jsonl, "-o", out, "-v", ours, "--pack", 16, "--pad", PAD, "--eos", END)
    main("decode", out, "-o", tmp_path / "back", "-v", ours)
    texts = [record["text"] for record in records(tmp_path / "back")]
    assert "".join(texts) == "".join(text + END for text in TEXTS) and len(texts) > 1


def test_decoding_is_refused(jsonl, tmp_path, out, ours, vocabularies, main, fails):
    main("encode", jsonl, "-o", out, "-v", ours)
    line = fails("decode", out, "-o", tmp_path / "back", "-v", vocabularies["other"])
    assert "was encoded with the vocabulary of fingerprint" in line and vocabularies["other"] in line
    assert not (tmp_path / "back").exists()
    for options in ([], ["--overwrite"]):  # the shards have the names of what would be written
        assert "is a folder of tokens or words" in fails("decode", out, "-o", out, "-v", ours, "--format", "parquet", *options)
    assert "not a finished folder of encoded" in fails("decode", tmp_path, "-o", tmp_path / "back", "-v", ours)
    main("decode", out, "-o", tmp_path / "back", "-v", ours)
    assert "exists; choose another folder or overwrite it" in fails("decode", out, "-o", tmp_path / "back", "-v", ours)
    (tmp_path / "back" / "part-00000-of-00007.jsonl").write_text("of an earlier run\n")
    (tmp_path / "back" / "notes.txt").write_text("of somebody else")
    main("decode", out, "-o", tmp_path / "back", "-v", ours, "--overwrite")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["notes.txt", "part-00000-of-00001.jsonl"]


def test_a_shard_of_another_vocabulary_is_found_out(jsonl, tmp_path, ours, vocabularies, main, fails):
    main("encode", jsonl, "-o", tmp_path / "a", "-v", ours)
    main("encode", jsonl, "-o", tmp_path / "b", "-v", vocabularies["other"])
    name = parts(tmp_path / "a", ".parquet")[0].name
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    assert "is of another vocabulary than its manifest says" in fails("decode", tmp_path / "a", "-o", tmp_path / "c", "-v", ours)
    assert not (tmp_path / "c").exists()


def test_bytes_that_are_no_text(tmp_path, out, ours, main, fails):
    (tmp_path / "a.jsonl").write_text('{"text": "é"}\n')
    main("encode", tmp_path / "a.jsonl", "-o", out, "-v", ours, "--most-tokens", 1)
    main("decode", out, "-o", tmp_path / "back", "-v", ours)
    assert records(tmp_path / "back")[0]["text"] == "\ufffd"
    line = fails("decode", out, "-o", tmp_path / "strict", "-v", ours, "--errors", "strict")
    assert "document 0 (from 0) of the shard part-00000-of-00001 is not UTF-8 at its byte 0" in line
    assert not list((tmp_path / "strict").glob("*"))  # whole or absent


# ---- tokens --------------------------------------------------------------------------------------


def test_tokens_are_shown(ours, main, tokenizer):
    ids = tokenizer.encode("lowest 機")
    pieces = [tokenizer.token_bytes(i) for i in ids]
    lines = main("tokens", "lowest 機", "-v", ours).splitlines()
    assert lines[1] == " ".join(map(str, ids))
    assert lines[2].startswith(f"{len(ids)} tokens, 8 characters, 10 bytes: ")
    assert lines[0].count("|") == len(pieces) - 1
    assert main("tokens", "lowest", "-v", ours, "--ids-only") == " ".join(map(str, tokenizer.encode("lowest"))) + "\n"
    assert main("tokens", "", "-v", ours) == "0 tokens\n"
    assert main("tokens", "l", "-v", ours).splitlines()[2].startswith("1 token, 1 characters, 1 bytes")


def test_half_characters_bars_and_control_characters(vocabularies, main):
    plain = main("tokens", "é|\x1b[0m\u202e\n", "-v", vocabularies["other"]).splitlines()
    assert plain[0].startswith("\\xc3|\\xa9|\\||\\x1b|") and "\u202e" not in plain[0] and "\\n" in plain[0]


def test_colours(ours, main, monkeypatch):
    assert "\x1b[" not in main("tokens", "low", "-v", ours)
    assert main("tokens", "low wide", "-v", ours, "--color", "always").startswith("\x1b[30;48;5;152m")
    master, slave = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        env.pop("NO_COLOR", None)
        subprocess.run([sys.executable, "-m", "beam_bpe", "tokens", "low", "-v", ours], env={**env, **more}, stdout=slave, check=True)
        assert (b"\x1b[" in os.read(master, 4096)) == coloured


def test_several_vocabularies(vocabularies, main, fails):
    said = main("tokens", "newest", "-v", vocabularies["ours"], "-v", vocabularies["other"])
    assert vocabularies["ours"] in said and vocabularies["other"] in said and said.count("tokens, 6 characters") == 2
    two = ["-v", vocabularies["ours"], "-v", vocabularies["gpt2"]]
    assert main("tokens", "new 12", *two, "--pattern", "o200k", "--ids-only").count("\n") == 2
    assert "goes with none of these vocabularies" in fails("tokens", "x", "-v", vocabularies["ours"], "--pattern", "gpt2", code=2)


def test_special_tokens_are_shown_as_such(ours, main, tokenizer):
    assert main("tokens", f"a{END}", "-v", ours).splitlines()[0] == f"a|{END.replace('|', chr(92) + '|')}"
    assert len(main("tokens", END, "-v", ours, "--special", "text", "--ids-only").split()) > 1


def test_invalid_bytes_on_the_command_line_and_standard_input(ours, tokenizer):
    data = b"low\xff\xe6\xa9"
    wanted = " ".join(map(str, tokenizer.encode(data))).encode() + b"\n"
    assert process("tokens", data, "-v", ours, "--ids-only").stdout == wanted
    assert process("tokens", "-v", ours, "--ids-only", input=data).stdout == wanted
    shown = process("tokens", "-v", ours, input=data, env={"PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0 and b"\\xff" in shown.stdout


def test_worked_examples(shared, main):
    cl100k, o200k = (str(shared / "reference" / f"{name}_base.tiktoken") for name in ("cl100k", "o200k"))
    said = main("tokens", "strawberry", "-v", cl100k)
    assert said.splitlines()[0] == "str|aw|berry"
    said = main("tokens", "斷詞是每個語言模型的第一步。", "-v", cl100k, "-v", o200k, "--ids-only")
    assert [len(line.split()) for line in said.splitlines()] == [18, 13]


# ---- convert and show ----------------------------------------------------------------------------


@pytest.mark.parametrize("to, name", [("parquet", "p"), ("huggingface", "x.json"), ("gpt2", "g"), ("gpt2", "g/vocab.json"), ("parquet", "p/vocabulary.parquet")])
@pytest.mark.parametrize("source", ["ours", "hf.json", "gpt2"])
def test_vocabularies_are_converted(source, to, name, vocabularies, tmp_path, main, tokenizer):
    if to == "huggingface":
        pytest.importorskip("tokenizers")
    command = ["convert", vocabularies[source], "-o", tmp_path / name]
    specials = [f"--special-id={token}={tokenizer.id_of(token)}" for token in (END, PAD)]
    command += specials if source == "gpt2" else []
    said = main(*command, "--to", to)
    assert f"298 ids, 40 merges, {to}" in said
    main(*command, "--to", to)  # the same: nothing to do
    args = specials if to == "gpt2" else []
    text = f"the newest {END} 機器"
    found = main("tokens", text, "-v", tmp_path / name, "--ids-only", *args)
    assert found.split() == [str(i) for i in tokenizer.encode(text, allowed_special="all")]
    assert "298 ids" in main("show", tmp_path / name) or "298 tokens" in main("show", tmp_path / name)


def test_a_rank_file_is_converted(shared, tmp_path, main):
    path = shared / "reference" / "r50k_base.tiktoken"
    assert "50,257 ids" in main("convert", path, "-o", tmp_path / "p", "--to", "parquet")
    assert "pattern     '(?:" in main("convert", tmp_path / "p", "-o", tmp_path / "x.tiktoken")
    assert (tmp_path / "x.tiktoken").read_bytes() == path.read_bytes()
    assert "50,257 ids" in main("show", path)


def test_conversions_that_are_refused(vocabularies, ours, tmp_path, fails, main):
    assert "does not tell a format: say it with --to" in fails("convert", ours, "-o", tmp_path / "x", code=2)
    assert "--no-verify goes with --to huggingface" in fails("convert", ours, "-o", tmp_path / "x", "--to", "gpt2", "--no-verify", code=2)
    assert "name their folder" in fails("convert", ours, "-o", tmp_path / "x.json", "--to", "parquet", code=2)
    assert "exists and is another one" in fails("convert", vocabularies["other"], "-o", vocabularies["hf.json"], "--no-verify")
    main("convert", vocabularies["other"], "-o", tmp_path / "x.json", "--no-verify")
    main("convert", ours, "-o", tmp_path / "x.json", "--no-verify", "--overwrite")
    assert formats.load(str(tmp_path / "x.json")).special_ids.keys() == {END, PAD}


def test_show_an_unfinished_folder(jsonl, out, ours, main, fails):
    encoding.claim(str(out))
    assert "beam-bpe: error: " in fails("show", out)


def test_rows_that_are_dropped_are_told(tmp_path, capfd):
    (tmp_path / "a.txt").write_text("low low lower " * 20)
    train({"low": 5, "lower": 2}, 258, min_pair_count=1).save(str(tmp_path / "v"))
    command = ["encode", tmp_path / "a.txt", "-v", tmp_path / "v", "-o", tmp_path / "out", "--pack", "4096"]
    assert cli.main([str(arg) for arg in command]) == 0
    assert "were dropped: --pad TOKEN or --remainder keep" in capfd.readouterr().err
