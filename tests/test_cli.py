"""The command line: what each command does, and what it says when something is wrong."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import beam_bpe
from beam_bpe import artifacts, cli, console, storage
from beam_bpe.formats.parquet import MERGES_FILE, VOCABULARY_FILE
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).resolve().parent.parent
TEXT = "low low low low low lower lower newest newest newest newest newest newest widest widest widest"
THREADS = ["--", "--direct_running_mode=multi_threading", "--direct_num_workers=2"]
PROCESSES = ["--", "--direct_running_mode=multi_processing", "--direct_num_workers=2"]


@pytest.fixture
def corpus(tmp_path) -> Path:
    """Return a folder with one text in it."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text(TEXT)
    return tmp_path / "corpus"


@pytest.fixture
def out(tmp_path) -> Path:
    """Return the path of an output that is not there yet."""
    return tmp_path / "out"


@pytest.fixture
def beam_bpe_main(capsys):
    """Return a function that runs a command in this process: (exit code, standard output, standard error)."""

    def run(*argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main([str(arg) for arg in argv])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def fails(beam_bpe_main):
    """Return a function that runs a command which must fail, and returns the one line it says."""

    def run(*argv: object, code: int = 1) -> str:
        found, _, err = beam_bpe_main(*argv)
        lines = [line for line in err.splitlines() if not line.startswith("beam-bpe: note:")]
        assert found == code, err
        assert len(lines) == 1 and lines[0].startswith("beam-bpe: error: "), err
        assert "Traceback" not in err
        return lines[0]

    return run


def start(*argv: object, **options) -> subprocess.Popen:
    """Start the command as a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *options.pop("path", [])])}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **options}
    # A run in the background of a shell ignores SIGINT, and its children would too.
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    return subprocess.Popen([sys.executable, "-m", "beam_bpe", *map(str, argv)], env=env, text=True, **options)


def run(*argv: object, **options) -> tuple[int, str, str]:
    process = start(*argv, **options)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def words_of(folder: Path) -> dict[bytes, int]:
    return WordCounts.read(str(folder)).to_dict()


def split_by_space(folder: Path, name: str, body: str = "return text.split()", head: str = "") -> str:
    """Write a module with a function that splits, and return the function's name."""
    (folder / f"{name}.py").write_text(f"import time\n{head}\ndef split(text):\n    {body}\n")
    return f"{name}:split"


# ---- what the commands do ------------------------------------------------------------------------


def test_count(corpus, out, beam_bpe_main):
    code, said, err = beam_bpe_main("count", corpus, "-o", out, "--pattern", "whitespace")
    assert (code, err) == (0, "")
    assert "4 distinct, 16 in all" in said and "1 documents, 94 bytes" in said
    assert words_of(out) == {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}


def test_train(corpus, out, beam_bpe_main):
    code, said, err = beam_bpe_main("train", corpus, "-o", out, "-n", 260, "--pattern", "whitespace", "--no-report")
    assert (code, err) == (0, "")
    assert str(out / MERGES_FILE) in said and "260 tokens" in said and "'west'" not in said and "'est'" in said
    assert [merge.token for merge in Vocabulary.load(str(out)).merges] == [b"es", b"est", b"lo", b"low"]
    assert listed(out)[:2] == [MERGES_FILE, VOCABULARY_FILE]
    assert len(words_of(out / "words")) == 4


def test_python_m_and_options_of_beam(corpus, out):
    code, said, err = run("train", corpus, "-o", out, "-n", 260, "--pattern", "whitespace", "--no-report", "--", "--job_name=a-name")
    assert (code, err) == (0, "") and len(said.splitlines()) == 5  # no progress where there is no terminal
    assert len(Vocabulary.load(str(out))) == 260


def test_options_reach_the_learning(corpus, out, beam_bpe_main):
    options = ["--pattern", " ?\\w+", "--tie-break", "lexicographic", "--max-token-length", 3, "--min-pair-count", 7]
    code, said, _ = beam_bpe_main("train", corpus, "-o", out, "-n", 300, *options, "--special-token", "<|end|>")
    assert code == 0 and "no pair left is frequent enough" in said
    vocabulary = Vocabulary.load(str(out))
    assert [merge.token for merge in vocabulary.merges] == [b"st", b"est", b"ow", b"low"]
    assert vocabulary.special_tokens == ("<|end|>",)
    assert {**vocabulary.parameters, "words": 0} == {
        "vocab_size": 300,
        "min_pair_count": 7,
        "max_token_length": 3,
        "tie_break": "lexicographic",
        "words": 0,
    }


def test_rare_words_are_left_out(corpus, out, beam_bpe_main):
    assert beam_bpe_main("train", corpus, "-o", out, "-n", 300, "--pattern", "whitespace", "--min-count", 6)[0] == 0
    totals = Vocabulary.load(str(out)).totals
    assert (totals["distinct_words"], totals["pruned_words"], totals["pruned_occurrences"]) == (1, 3, 10)


def test_learning_on_a_worker_gives_the_same_bytes(corpus, out, tmp_path, beam_bpe_main):
    command = ["train", corpus, "-n", 270, "--min-count", 3, "--special-token", "<|end|>", "--tie-break", "bytes", "--no-report"]
    assert beam_bpe_main(*command, "-o", out)[0] == 0
    assert beam_bpe_main(*command, "-o", tmp_path / "two", "--train-on", "worker")[0] == 0
    assert listed(out) == listed(tmp_path / "two")
    for name in listed(out):
        assert (out / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_separator_with_escapes(tmp_path, out, beam_bpe_main):
    (tmp_path / "a.txt").write_text("a b\n--\nc d\n--\n")
    command = ["count", tmp_path / "a.txt", "-o", out, "--pattern", "none", "--documents", "separator"]
    assert beam_bpe_main(*command, "--separator", "\\n--\\n")[0] == 0
    assert words_of(out) == {b"a b": 1, b"c d": 1}


def test_documents_of_words_are_counted(tmp_path, out, beam_bpe_main):
    (tmp_path / "a.txt").write_text("a a\na b\n")
    command = ["count", tmp_path / "a.txt", "-o", out, "--pattern", "whitespace", "--documents", "line"]
    assert beam_bpe_main(*command, "--count-documents")[0] == 0
    table = WordCounts.read(str(out)).table.sort_by("word")
    assert table.to_pydict() == {"word": [b"a", b"b"], "count": [3, 1], "documents": [2, 1]}


def test_a_folder_of_mixed_formats(tmp_path, out, beam_bpe_main):
    folder = tmp_path / "mixed"
    (folder / "deeper").mkdir(parents=True)
    texts = {name: f"every {name} word" for name in ("txt", "jsonl", "parquet", "arrow", "gz", "zst", "jsonlgz", "two")}
    (folder / "a.txt").write_text(texts["txt"])
    (folder / "b.jsonl").write_text(json.dumps({"text": texts["jsonl"]}) + '\n{"text": null}\n')
    pq.write_table(pa.table({"text": [texts["parquet"], None], "n": [1, 2]}), folder / "c.parquet")
    table = pa.table({"text": [texts["arrow"]]})
    with pa.ipc.new_file(folder / "d.arrow", table.schema) as writer:
        writer.write_table(table)
    (folder / "e.txt.gz").write_bytes(gzip.compress(texts["gz"].encode()))
    (folder / "f.txt.zst").write_bytes(pa.compress(texts["zst"].encode(), "zstd", asbytes=True))
    (folder / "g.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": texts["jsonlgz"]}).encode()))
    (folder / "deeper" / "h.txt").write_text(texts["two"])
    (folder / "README.md").write_text("not a known format")
    (folder / "_hidden.txt").write_text("hidden")
    code, said, err = beam_bpe_main("count", folder, "-o", out)
    assert (code, err) == (0, "")
    assert words_of(out) == WordCounts.from_documents(texts.values()).to_dict()
    totals = artifacts.read_manifest(str(out), "words")["totals"]
    assert (totals["documents"], totals["null_documents"]) == (8, 2)
    assert "2 null documents" in said


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], THREADS, PROCESSES])
def test_real_documents_of_a_parquet_file(shared, out, flags):
    code, _, err = run("train", shared / "corpora" / "docs.parquet", "-o", out, "-n", 1000, *flags)
    assert (code, err) == (0, "") and len(Vocabulary.load(str(out))) == 1000


def test_version_and_help(capsys):
    for argv, text in ((["--version"], beam_bpe.__version__), (["train", "--help"], "--tie-break")):
        with pytest.raises(SystemExit) as left:
            cli.main(argv)
        assert left.value.code == 0 and text in capsys.readouterr().out


# ---- train --words -------------------------------------------------------------------------------

COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
FIRST_MERGES = [b"es", b"est", b"lo", b"low"]


def learned(folder: Path) -> list[bytes]:
    return [merge.token for merge in Vocabulary.load(str(folder)).merges]


def test_learn_from_a_folder_of_words(corpus, out, tmp_path, beam_bpe_main):
    beam_bpe_main("count", corpus, "-o", tmp_path / "w", "--pattern", "whitespace")
    assert beam_bpe_main("train", "--words", tmp_path / "w", "-o", out, "-n", 260)[0] == 0
    assert beam_bpe_main("train", corpus, "-o", tmp_path / "at once", "-n", 260, "--pattern", "whitespace")[0] == 0
    for name in (MERGES_FILE, VOCABULARY_FILE):
        assert (out / name).read_bytes() == (tmp_path / "at once" / name).read_bytes()
    assert not (out / "words").exists()


def test_learn_from_several_folders_of_words(out, tmp_path, beam_bpe_main):
    for name, text in (("a", "low low low lower"), ("b", "low low lower " + "newest " * 6 + "widest " * 3)):
        (tmp_path / f"{name}.txt").write_text(text)
        beam_bpe_main("count", tmp_path / f"{name}.txt", "-o", tmp_path / name, "--pattern", "whitespace")
    assert beam_bpe_main("train", "--words", tmp_path / "a", tmp_path / "b", "-o", out, "-n", 260)[0] == 0
    assert learned(out) == FIRST_MERGES
    assert Vocabulary.load(str(out)).totals["documents"] == 2


def test_folders_of_different_patterns_are_not_summed(corpus, out, tmp_path, beam_bpe_main, fails):
    for pattern in ("gpt2", "none"):
        beam_bpe_main("count", corpus, "-o", tmp_path / pattern, "--pattern", pattern)
    line = fails("train", "--words", tmp_path / "gpt2", tmp_path / "none", "-o", out, "-n", 260)
    assert "counted with different parameters cannot be summed: pre_tokenizer" in line


def foreign(path: Path, word: str = "word", count: str = "count") -> Path:
    table = pa.table({word: list(COUNTS), "other": [1.5] * 4, count: list(COUNTS.values())})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in path.name else ",")
        with storage.write(str(path)) as file:
            pa.csv.write_csv(table, file, options)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.tsv", "t.csv.gz"])
def test_learn_from_tables_made_elsewhere(name, tmp_path, out, beam_bpe_main):
    path = foreign(tmp_path / name, "token", "n")
    columns = ["--word-column", "token", "--count-column", "n"]
    code, _, err = beam_bpe_main("train", "--words", path, *columns, "-o", out, "-n", 260, "--pattern", "gpt2")
    assert (code, err) == (0, "")
    assert learned(out) == FIRST_MERGES
    assert Vocabulary.load(str(out)).pre_tokenizer.name == "gpt2"


def test_unknown_pre_tokenization_is_recorded_as_none_and_said(tmp_path, out, beam_bpe_main):
    code, _, err = beam_bpe_main("train", "--words", foreign(tmp_path / "t.csv"), "-o", out, "-n", 260)
    assert code == 0 and "note: the vocabulary records no pre-tokenization: --pattern says" in err
    assert Vocabulary.load(str(out)).pre_tokenizer.name == "none"


def test_the_pattern_of_a_folder_of_words_is_its_own(corpus, out, tmp_path, beam_bpe_main, fails):
    beam_bpe_main("count", corpus, "-o", tmp_path / "w")
    line = fails("train", "--words", tmp_path / "w", "--pattern", "gpt2", "-o", out, "-n", 260, code=2)
    assert "--pattern goes with tables made elsewhere" in line


@pytest.mark.parametrize(
    "rows, message",
    [
        ({"word": ["a", "b"], "count": [1, -2]}, "row 1 counts -2 of b'b'"),
        ({"word": ["a", None], "count": [1, 2]}, "row 1 has no word"),
        ({"word": ["a", "b"], "count": [None, 2]}, "row 0 has no count"),
        ({"word": ["a", "b", "a"], "count": [1, 2, 3]}, "the word b'a' stands in more than one row"),
        ({"word": ["a", ""], "count": [1, 2]}, "the word of row 1 is empty"),
        ({"word": ["a"], "n": [1]}, "has no column 'count'; it has word, n"),
        ({"word": ["a"], "count": ["many"]}, "'count' whole numbers"),
        ({"word": ["a"], "count": [0]}, "no words to learn from"),
    ],
)
def test_tables_that_are_no_counts(rows, message, tmp_path, out, fails):
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    assert message in fails("train", "--words", tmp_path / "t.parquet", "-o", out, "-n", 260)
    assert not out.exists()


def test_folders_and_files_of_words_do_not_mix(corpus, out, tmp_path, beam_bpe_main, fails):
    beam_bpe_main("count", corpus, "-o", tmp_path / "w")
    line = fails("train", "--words", tmp_path / "w", foreign(tmp_path / "t.csv"), "-o", out, "-n", 260, code=2)
    assert "not both" in line


def test_words_without_manifest(corpus, out, tmp_path, beam_bpe_main, fails):
    beam_bpe_main("count", corpus, "-o", tmp_path / "w")
    (tmp_path / "w" / "_manifest.json").unlink()
    for command in (["train", "-o", out, "-n", 260, "--words"], ["show"]):
        assert "has no _manifest.json: it is not a finished folder of words" in fails(*command, tmp_path / "w")


def test_stale_parts_beside_a_table_are_not_read(corpus, tmp_path, beam_bpe_main):
    for shards in (7, 2):
        beam_bpe_main("count", corpus, "-o", tmp_path / str(shards), "--pattern", "whitespace", "--shards", shards)
    for part in (tmp_path / "7").glob("part-*"):
        (tmp_path / "2" / part.name).write_bytes(part.read_bytes())
    assert "4 distinct, 16 in all" in beam_bpe_main("show", tmp_path / "2")[1]
    assert words_of(tmp_path / "2") == words_of(tmp_path / "7")


def test_a_broken_part(corpus, out, tmp_path, beam_bpe_main, fails):
    beam_bpe_main("count", corpus, "-o", tmp_path / "w")
    part = next((tmp_path / "w").glob("part-*"))
    part.write_bytes(part.read_bytes()[:-20])
    assert f"{part} is not a whole Parquet file" in fails("train", "--words", tmp_path / "w", "-o", out, "-n", 260)


# ---- show ----------------------------------------------------------------------------------------


def test_show(corpus, out, beam_bpe_main):
    beam_bpe_main("train", corpus, "-o", out, "-n", 260, "--pattern", "whitespace", "--shards", 1)
    _, said, _ = beam_bpe_main("show", out / "words", "--most", 2)
    assert "4 distinct, 16 in all, parts: 1" in said and "94 bytes" in said and "whitespace" in said
    assert said.splitlines()[-3:] == ["2 most frequent words", "               6  'newest'", "               5  'low'"]
    shown = [beam_bpe_main("show", path) for path in (out, out / MERGES_FILE, out / VOCABULARY_FILE)]
    assert shown[0] == shown[1] == shown[2]
    code, said, err = shown[0]
    assert (code, err) == (0, "")
    assert f"{out / MERGES_FILE}: 4; the vocabulary is full" in said
    assert re.search(r"\n +0 +9  'e' \+ 's'\n", said) and "tie_break   huggingface" in said
    code, said, _ = beam_bpe_main("show", out / "words" / "part-00000-of-00001.parquet")
    assert code == 0 and "4 distinct, 16 in all, one part of a table" in said and "'newest'" in said


def test_show_something_else(corpus, tmp_path, fails):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    for path, message in (
        (tmp_path / "nowhere", "nowhere does not exist"),
        (tmp_path / "nowhere.parquet", "nowhere.parquet does not exist"),
        (corpus, "holds no vocabulary"),
        (corpus / "a.txt", "holds no vocabulary"),
        (tmp_path / "t.parquet", "was not written by beam_bpe"),
        (tmp_path / "broken.parquet", "is not a whole Parquet file"),
    ):
        assert message in fails("show", path)


# ---- usage ---------------------------------------------------------------------------------------


def test_no_command(beam_bpe_main):
    code, said, _ = beam_bpe_main()
    assert code == 2 and said.startswith("usage: beam-bpe")


@pytest.mark.parametrize(
    "argv, message",
    [
        (["cuont", "x", "-o", "y"], "invalid choice: 'cuont'"),
        (["count", "x"], "required: -o/--output"),
        (["count", "x", "--ouput", "y"], "there is no option --ouput; did you mean --output?"),
        (["count", "x", "-o", "y", "--shard=3"], "there is no option --shard; did you mean --shards?"),
        (["count", "x", "-o", "y", "--vocab-size", "300"], "there is no option --vocab-size"),
        (["train", "x", "-o", "y", "--vocab_size", "300"], "did you mean --vocab-size?"),
        (["count", "x", "-o", "y", "--runner", "FnApiRunner"], "Beam's own options come after --"),
        (["count", "x", "-o", "y", "-z"], "there is no option -z"),
        (["train", "x", "-o", "y", "-n", "many"], "invalid int value: 'many'"),
        (["train", "x", "-o", "y", "-n", "300", "--tie-break", "first"], "invalid choice: 'first'"),
        (["train", "-o", "y", "-n", "300"], "train takes either a corpus"),
        (["train", "x", "-o", "y", "-n", "300", "--words", "z"], "train takes either a corpus"),
        (["train", "x", "-o", "y", "-n", "200"], "--vocab-size is 200, but the 256 bytes and 0 special tokens take 256"),
        (["train", "x", "-o", "y", "-n", "257", "--special-token=a", "--special-token=b"], "2 special tokens take 258"),
        (["train", "x", "-o", "y", "-n", "300", "--special-token="], "special token 0 is empty"),
        (["train", "x", "-o", "y", "-n", "300", "--special-token=a", "--special-token=a"], "'a' stands twice"),
        (["train", "x", "-o", "y", "-n", "300", "--min-pair-count=0"], "--min-pair-count is 0"),
        (["count", "x", "-o", "y", "--special-token=a", "--special-token=a"], "'a' stands twice"),
        (["count", "x", "-o", "y", "--workers", "0"], "--workers is 0; it must be at least 1"),
        (["count", "x", "-o", "y", "--max-word-bytes", "-1"], "--max-word-bytes is -1"),
        (["count", "x", "-o", "y", "--pattern", "cl100"], "did you mean 'cl100k'?"),
        (["count", "x", "-o", "y", "--pattern", "(a"], "does not compile"),
        (["count", "x", "-o", "y", "--split-with", "nowhere:f"], "'nowhere:f' cannot be imported"),
        (["count", "x", "-o", "y", "--split-with", "json"], "write it as module:function"),
        (["count", "x", "-o", "y", "--documents", "separator"], "goes with a separator"),
        (["count", "x", "-o", "y", "--documents", "sentence"], "invalid choice: 'sentence'"),
        (["count", "{corpus}", "-o", "y", "--", "--direct_num_worker=2"], "did you mean --direct_num_workers?"),
    ],
)
def test_wrong_words(argv, message, corpus, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in fails(*(arg.format(corpus=corpus) for arg in argv), code=2)
    assert not (tmp_path / "y").exists()


def test_an_option_as_the_value_of_another(corpus, out, beam_bpe_main):
    code, _, err = beam_bpe_main("count", corpus, "-o", out, "--special-token=--shard")
    assert code == 0, err


# ---- input ---------------------------------------------------------------------------------------


def test_paths_that_lead_nowhere(tmp_path, out, fails):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.pdf").write_text("no")
    assert f"{tmp_path}/none.txt: No such file or directory" in fails("count", tmp_path / "none.txt", "-o", out)
    assert f"{tmp_path}/*.xyz: no file matches this glob" in fails("count", tmp_path / "*.xyz", "-o", out)
    assert "empty: no file here ends with .txt, .jsonl" in fails("count", tmp_path / "empty", "-o", out)
    assert not out.exists()


def test_an_unreadable_file(corpus, out, fails, monkeypatch):
    path = corpus / "a.txt"
    path.chmod(0)
    if os.geteuid() == 0:  # who may read everything
        open_read = storage.open_read

        def refuse(url, *args):
            if url == str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), url)
            return open_read(url, *args)

        monkeypatch.setattr(storage, "open_read", refuse)
    line = fails("count", corpus, "-o", out)
    assert "Permission denied" in line and str(path) in line
    assert not out.exists()


@pytest.mark.parametrize("text, pattern", [("", "o200k"), ("\n \t", "whitespace"), ("abc", "[0-9]+")])
def test_a_corpus_without_words(text, pattern, tmp_path, out, fails):
    (tmp_path / "a.txt").write_text(text)
    for command in (["count", "-o", out], ["train", "-n", 300, "-o", out], ["train", "-n", 300, "-o", out]):
        line = fails(*command, tmp_path / "a.txt", "--pattern", pattern, "--gaps", "drop")
        assert "the corpus has no words" in line
        assert listed(out) == []


def test_more_tokens_than_can_be_learned(corpus, out, beam_bpe_main):
    command = ["train", corpus, "-n", 100_000, "--pattern", "whitespace", "-o"]
    code, said, _ = beam_bpe_main(*command, out)
    assert code == 0 and "no pair is left" in said
    assert set(learned(out)) >= {word.encode() for word in COUNTS}
    code, said, _ = beam_bpe_main(*command, f"{out}1", "--min-pair-count", 7)
    assert code == 0 and "no pair left is frequent enough" in said
    assert learned(Path(f"{out}1")) == FIRST_MERGES


@pytest.mark.parametrize("flags", [[], THREADS, PROCESSES], ids=["memory", "threads", "processes"])
def test_bytes_that_are_not_utf8_under_strict(flags, tmp_path, out, beam_bpe_main):
    (tmp_path / "a.txt").write_bytes(b"fine " * 100 + b"\xff fine")
    command = ["count", tmp_path / "a.txt", "-o", out, "--errors", "strict", *flags]
    code, said, err = (run if flags == PROCESSES else beam_bpe_main)(*command)
    assert code == 1 and said == ""
    assert err == (
        f"beam-bpe: error: {tmp_path}/a.txt: the byte 0xff at offset 500 is not valid UTF-8; --errors replace puts "
        "U+FFFD in its place, --errors skip sets its document aside\n"
    )
    assert not out.exists()


def test_bytes_that_are_not_utf8_under_replace_and_skip(corpus, out, beam_bpe_main):
    (corpus / "b.txt").write_bytes(b"a\xff\xfe b")
    code, said, err = beam_bpe_main("count", corpus, "-o", out, "--pattern", "whitespace")
    assert (code, err) == (0, "") and "2 replaced characters" in said
    assert words_of(out)["a\ufffd\ufffd".encode()] == 1
    command = ["count", corpus, "-o", out, "--pattern", "whitespace", "--errors", "skip", "--overwrite"]
    code, said, err = beam_bpe_main(*command)
    assert (code, err) == (0, "") and "1 skipped documents" in said and f"{out}/rejected" in said
    assert words_of(out) == {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}
    (name,) = (out / "rejected").iterdir()
    letter = json.loads(name.read_text())
    assert (letter["source"], letter["offset"]) == (str(corpus / "b.txt"), 1)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.parquet"])
def test_files_that_end_too_early(name, corpus, out, fails, beam_bpe_main):
    data = TEXT.encode() * 50
    path = corpus / name
    if name.endswith("gz"):
        path.write_bytes(gzip.compress(data)[:-5])
    elif name.endswith("zst"):
        path.write_bytes(pa.compress(data, "zstd", asbytes=True)[:-5])
    else:
        pq.write_table(pa.table({"text": [data.decode()]}), path)
        path.write_bytes(path.read_bytes()[:-5])
    line = fails("count", corpus, "-o", out)
    assert str(path) in line and ("truncated" in line or "not a whole Parquet file" in line)
    assert "--errors skip sets it aside" in line and not out.exists()
    code, said, _ = beam_bpe_main("count", corpus, "-o", out, "--errors", "skip", "--pattern", "whitespace")
    assert code == 0 and "1 skipped documents" in said
    assert words_of(out) == {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"text": "a"', "not JSON"),
        ('{"body": "a", "n": 1}', "no field 'text'; it has 'body', 'n'"),
        ('["a"]', "a list, not an object"),
        ('{"text": 5}', "'text' is a int, not text"),
    ],
)
def test_json_lines_that_do_not_hold_a_text(line, message, tmp_path, out, fails, beam_bpe_main):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x y"}\n' * 3 + line + '\n{"text": "z"}\n')
    said = fails("count", path, "-o", out)
    assert f"{path}, line 4: " in said and message in said and not out.exists()
    command = ["count", path, "-o", out, "--errors", "skip", "--pattern", "whitespace", "--rejected", tmp_path / "aside"]
    code, said, _ = beam_bpe_main(*command)
    assert code == 0 and "1 skipped documents" in said and str(tmp_path / "aside") in said
    assert words_of(out) == {b"x": 3, b"y": 3, b"z": 1}
    (name,) = (tmp_path / "aside").iterdir()
    letter = json.loads(name.read_text())
    assert letter["source"] == str(path) and letter["offset"] == 48 and message in letter["reason"]
    assert not (out / "rejected").exists()


def test_a_field_and_a_column_by_name(tmp_path, out, beam_bpe_main):
    (tmp_path / "a.jsonl").write_text('{"body": "x"}\n')
    pq.write_table(pa.table({"content": ["y"]}), tmp_path / "b.parquet")
    names = ["--field", "body", "--column", "content"]
    assert beam_bpe_main("count", tmp_path / "a.jsonl", tmp_path / "b.parquet", "-o", out, *names)[0] == 0
    assert words_of(out) == {b"x": 1, b"y": 1}


def test_a_parquet_file_without_the_column(tmp_path, out, fails):
    pq.write_table(pa.table({"content": ["y"], "lang": ["en"], "n": [1]}), tmp_path / "b.parquet")
    line = fails("count", tmp_path / "b.parquet", "-o", out)
    assert f"{tmp_path}/b.parquet has no column 'text'; it has content, lang, n" in line
    assert "holds int64, not text" in fails("count", tmp_path / "b.parquet", "-o", out, "--column", "n")


def test_words_that_are_too_long(tmp_path, out, beam_bpe_main):
    (tmp_path / "a.txt").write_text("ab abcdef abcdef abc")
    command = ["count", tmp_path / "a.txt", "-o", out, "--pattern", "whitespace", "--max-word-bytes", 3]
    code, said, _ = beam_bpe_main(*command)
    assert code == 0 and "2 overlong words" in said and "12 overlong bytes" in said
    assert words_of(out) == {b"ab": 1, b"abc": 1}


@pytest.mark.parametrize("flags", [[], THREADS], ids=["memory", "threads"])
def test_a_regex_that_backtracks_without_end(flags, tmp_path, out, fails):
    (tmp_path / "a.txt").write_text("start " + "a" * 60 + "b")
    command = ["count", tmp_path / "a.txt", "-o", out, "--pattern", "(a|aa)+$", "--time-limit", "0.3"]
    line = fails(*command, *flags)
    assert "'(a|aa)+$' took more than 0.3 s on one document of 67 characters that starts with 'start aaa" in line
    assert not out.exists()


def test_the_slow_path_is_said(corpus, out, beam_bpe_main):
    code, _, err = beam_bpe_main("count", corpus, "-o", out, "--pattern", r"\w+|\W+")
    assert code == 0 and err == r"beam-bpe: note: the pattern '\\w+|\\W+' has no native scanner: this is the slow path" + "\n"


# ---- output --------------------------------------------------------------------------------------


def test_an_output_that_exists_is_refused_before_anything_is_read(corpus, out, fails, beam_bpe_main, monkeypatch):
    command = ["train", corpus, "-o", out, "-n", 260]
    assert beam_bpe_main(*command)[0] == 0
    before = {name: (out / name).read_bytes() for name in listed(out)}
    (corpus / "a.txt").write_text("other words " * 5)
    monkeypatch.setattr("apache_beam.Pipeline.run", lambda pipeline: pytest.fail("it counts"))
    assert "already holds a vocabulary" in fails(*command)
    assert "--overwrite" in fails("count", corpus, "-o", out / "words")
    assert {name: (out / name).read_bytes() for name in listed(out)} == before
    monkeypatch.undo()
    assert beam_bpe_main(*command, "--overwrite")[0] == 0
    assert b" words" in words_of(out / "words")
    assert (out / MERGES_FILE).read_bytes() != before[MERGES_FILE]


def test_counted_words_without_a_vocabulary_are_not_counted_again(corpus, out, fails, beam_bpe_main):
    beam_bpe_main("count", corpus, "-o", out / "words")
    line = fails("train", corpus, "-o", out, "-n", 260)
    assert f"learn from them (--words {out}/words) or count again (--overwrite)" in line
    assert beam_bpe_main("train", "--words", out / "words", "-o", out, "-n", 260)[0] == 0


def test_an_output_that_is_a_file(corpus, fails):
    assert "Not a directory" in fails("count", corpus, "-o", corpus / "a.txt")
    assert (corpus / "a.txt").read_text() == TEXT


def failing_writes(monkeypatch, name: str, code: int) -> None:
    """Let every write of a file of that name fail."""
    write = storage._Sink.write

    def fail(sink, data):
        if re.search(name, str(sink.url)):
            sink.failure = OSError(code, os.strerror(code), sink.url)
            raise sink.failure
        return write(sink, data)

    monkeypatch.setattr(storage._Sink, "write", fail)


@pytest.mark.parametrize("name", ["part-00001", "_manifest.json", "merges.parquet", "vocabulary.parquet"])
@pytest.mark.parametrize("where, code", [("submitter", errno.ENOSPC), ("worker", errno.EROFS)])
def test_a_disk_that_takes_no_more(name, code, where, corpus, out, fails, monkeypatch, beam_bpe_main):
    failing_writes(monkeypatch, name, code)
    command = ["train", corpus, "-o", out, "-n", 270, "--shards", 2, "--train-on", where]
    line = fails(*command)
    assert os.strerror(code) in line and name in line
    assert not [path for path in listed(out) if name in path or path.endswith(".tmp")]
    assert not (out / VOCABULARY_FILE).exists()
    if name.startswith(("part", "_manifest")):
        assert not (out / "words" / "_manifest.json").exists()
        monkeypatch.undo()
        assert beam_bpe_main(*command)[0] == 0  # what a failed attempt left is in nobody's way


def test_a_limit_of_the_system_on_files(corpus, out):
    """A failure of the kernel's own, in the middle of a part."""
    import resource

    (corpus / "b.txt").write_text(" ".join(f"w{i * 7919 % 10007}x{i}" for i in range(5000)))
    limit = 2_000

    def restrict():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code, _, err = run("count", corpus, "-o", out, "--shards", 1, preexec_fn=restrict)
    assert code == 1 and "File too large" in err and len(err.splitlines()) == 1
    assert listed(out) == []


def test_an_old_vocabulary_outlives_a_failed_overwrite_or_is_gone(corpus, out, fails, monkeypatch, beam_bpe_main):
    beam_bpe_main("train", corpus, "-o", out, "-n", 260)
    failing_writes(monkeypatch, "merges.parquet", errno.ENOSPC)
    fails("train", corpus, "-o", out, "-n", 262, "--overwrite")
    monkeypatch.undo()
    with contextlib.suppress(FileNotFoundError):
        assert len(Vocabulary.load(str(out))) == 260


# ---- functions -----------------------------------------------------------------------------------


def test_a_function_that_a_vocabulary_names_is_not_imported(corpus, out, tmp_path, beam_bpe_main, monkeypatch):
    mark = tmp_path / "imported"
    name = split_by_space(tmp_path, "splitting_and_telling", head=f"open({str(mark)!r}, 'w').close()")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert beam_bpe_main("train", corpus, "-o", out, "-n", 260, "--split-with", name)[0] == 0
    assert mark.exists() and words_of(out / "words")[b"newest"] == 6
    mark.unlink()
    sys.modules.pop("splitting_and_telling")
    assert beam_bpe_main("show", out)[0] == beam_bpe_main("show", out / "words")[0] == 0
    assert beam_bpe_main("train", "--words", out / "words", "-o", tmp_path / "v", "-n", 260)[0] == 0
    with pytest.raises(ValueError, match="imported only when you allow it"):
        Vocabulary.load(str(out)).pre_tokenizer.split("a b")
    assert not mark.exists()
    assert Vocabulary.load(str(out), allow_callables=[name]).pre_tokenizer.split("a b") == ["a", "b"]
    assert mark.exists()


def test_a_function_that_fails(corpus, out, tmp_path, fails, monkeypatch):
    name = split_by_space(tmp_path, "splitting_badly", "return [1]")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "splitting_badly:split must give words of type str, not int" in fails("count", corpus, "-o", out, "--split-with", name)


# ---- errors --------------------------------------------------------------------------------------


ALL_MODES = [[], pytest.param(THREADS, marks=pytest.mark.slow), pytest.param(PROCESSES, marks=pytest.mark.slow)]


@pytest.mark.parametrize("flags", ALL_MODES, ids=["memory", "threads", "processes"])
def test_the_traceback_is_shown_only_when_asked_for(flags, tmp_path, out):
    (tmp_path / "a.jsonl").write_text("broken\n")
    command = ["count", tmp_path / "a.jsonl", "-o", out]
    code, _, err = run(*command, *flags)
    assert code == 1
    assert err.startswith(f"beam-bpe: error: {tmp_path}/a.jsonl, line 1: not JSON") and err.count("\n") == 1
    code, _, err = run(*command, "--debug", *flags)
    assert code == 1 and "Traceback (most recent call last)" in err


def test_one_line_of_an_error_that_a_runner_passed_on():
    text = (
        "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\n    raise E\n"
        "beam_bpe.documents.InputError: a.txt, line 2: not JSON [while running 'Read']\n\nmore\n"
    )
    assert console.one_line(RuntimeError(text)) == "a.txt, line 2: not JSON"
    assert console.one_line(ValueError("two\nlines [while running 'A/B']")) == "two lines"
    assert console.one_line(KeyError("x")) == "KeyError: 'x'"
    assert console.one_line(MemoryError()) == "MemoryError"


# ---- progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["submitter", "worker"])
def test_progress_in_json(where, corpus, out):
    (corpus / "b.txt").write_text("more words " * 100_000)
    command = ["train", corpus, "-o", out, "-n", 262, "--progress", "json", "--range-bytes", "100000"]
    code, said, err = run(*command, "--train-on", where, "--documents", "line")
    assert code == 0 and "merges" in said
    events = [json.loads(line) for line in err.splitlines()]
    assert {event["phase"] for event in events} >= {"counting", "learning"}
    total = sum(path.stat().st_size for path in corpus.iterdir())
    for phase, end, unit in (("counting", total, "bytes"), ("learning", 6, "merges")):
        own = [event for event in events if event["phase"] == phase]
        done = [event["done"] for event in own]
        assert done == sorted(done) and {event["unit"] for event in own} == {unit}
        assert own[-1]["done"] == own[-1]["total"] == end
        assert all(event["total"] == end for event in own)


def on_a_terminal(*argv: object) -> tuple[int, str]:
    """Run a command whose standard error is a terminal; return its exit code and what stands there."""
    master, slave = pty.openpty()
    process = start(*argv, stderr=slave, stdout=subprocess.DEVNULL)
    os.close(slave)
    seen = []

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while data := os.read(master, 4096):
                seen.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait(60)
    reader.join(10)
    os.close(master)
    return code, b"".join(seen).decode()


def test_a_bar_on_a_terminal(corpus, out):
    (corpus / "b.txt").write_text("more words " * 200_000)
    code, seen = on_a_terminal("train", corpus, "-o", out, "-n", 262, "--documents", "line")
    assert code == 0
    assert re.search(r"counting\s+100%\s+2\.2 MB of 2\.2 MB\s+400,0\d\d words", seen), seen
    assert re.search(r"learning\s+100%\s+6 merges of 6 merges", seen), seen
    assert "\r" in seen and "Traceback" not in seen


@pytest.mark.slow
def test_no_bar_when_it_is_not_wanted(corpus, out):
    assert on_a_terminal("train", corpus, "-o", out, "-n", 260, "--progress", "none") == (0, "")


def test_a_line_of_progress():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    line = console.ProgressLine("auto", stream)
    line.show("counting", 5_000_000, 20_000_000, "bytes", words=1234)
    line.show("counting", 5_000_001, 20_000_000, "bytes", words=1234)  # too soon
    line.show("counting", 20_000_000, 20_000_000, "bytes", words=5000)
    line.end()
    assert stream.getvalue().split("\r") == [
        "",
        "counting   25%  5.0 MB of 20.0 MB  1,234 words  0 s",
        "counting  100%  20.0 MB of 20.0 MB  5,000 words  0 s\n",
    ]


# ---- Ctrl-C --------------------------------------------------------------------------------------


def interrupt(process: subprocess.Popen, phase: str, seconds: float = 10) -> tuple[int, str, float]:
    """Send SIGINT to a command and its children once it is in a phase; return code, message, seconds it took."""
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        for line in process.stderr:
            if f'"phase": "{phase}"' in line:
                break
        else:
            pytest.fail(f"it ended before {phase}")
        sent = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=seconds)
        return process.returncode, err, time.monotonic() - sent
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize("flags", [[], THREADS, PROCESSES], ids=["memory", "threads", "processes"])
def test_interrupted_while_counting(flags, corpus, out, tmp_path):
    (corpus / "b.txt").write_text("line\n" * 2000)
    name = split_by_space(tmp_path, "splitting_slowly", "time.sleep(0.05); return text.split()")
    command = ["count", corpus, "-o", out, "--split-with", name, "--documents", "line", "--progress", "json"]
    process = start(*command, *flags, path=[str(tmp_path)])
    code, err, seconds = interrupt(process, "running")
    assert code == 130 and seconds < 5
    assert "interrupted; nothing half-written" in err and "Traceback" not in err
    assert not children_of(process), "worker processes outlive the command"
    assert not out.exists()


def children_of(process: subprocess.Popen, seconds: float = 10) -> list[int]:
    """Return the processes of a command's group that are still there after a while."""
    left = time.monotonic() + seconds
    while time.monotonic() < left:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return []
        time.sleep(0.1)
    return [process.pid]


@pytest.fixture(scope="module")
def much_to_learn(tmp_path_factory) -> Path:
    """Return a table of words that takes minutes to learn from."""
    rng = np.random.default_rng(5)
    letters = rng.integers(97, 123, (300_000, 30), dtype=np.uint8)
    words = np.unique(letters.view("S30").ravel())
    path = tmp_path_factory.mktemp("much") / "words.parquet"
    counts = rng.integers(1, 1000, len(words))
    pq.write_table(pa.table({"word": pa.array(words.tolist(), pa.binary()), "count": counts}), path)
    return path


def test_interrupted_while_learning(much_to_learn, out):
    command = ["train", "--words", much_to_learn, "-o", out, "-n", 4_000_000, "--min-pair-count", 1]
    code, err, seconds = interrupt(start(*command, "--progress", "json"), "learning")
    assert code == 130 and seconds < 4
    assert "interrupted" in err and "Traceback" not in err
    assert not out.exists()


def test_interrupted_while_a_worker_learns(out, tmp_path):
    rng = np.random.default_rng(5)
    letters = rng.integers(97, 123, (150_000, 31), dtype=np.uint8)
    letters[:, -1] = 10
    (tmp_path / "a.txt").write_bytes(letters.tobytes())
    command = ["train", tmp_path / "a.txt", "-o", out, "-n", 4_000_000, "--min-pair-count", 1, "--train-on", "worker"]
    code, err, seconds = interrupt(start(*command, "--pattern", "whitespace", "--progress", "json"), "learning")
    assert code == 130 and seconds < 6
    assert "interrupted" in err and "Traceback" not in err
    assert not (out / VOCABULARY_FILE).exists() and not (out / MERGES_FILE).exists()
    assert len(words_of(out / "words")) > 149_000  # whole, and to be learned from


def test_interrupted_while_a_regex_backtracks(tmp_path, out):
    (tmp_path / "a.txt").write_text("a" * 80 + "b")
    command = ["count", tmp_path / "a.txt", "-o", out, "--pattern", "(a|aa)+$", "--progress", "json"]
    code, err, seconds = interrupt(start(*command), "running")
    assert code == 130 and seconds < 5 and not out.exists()


def test_inputs_may_stand_on_either_side_of_options(corpus, out, tmp_path, beam_bpe_main):
    (tmp_path / "b.txt").write_text("more low")
    assert beam_bpe_main("count", corpus / "a.txt", "-o", out, tmp_path / "b.txt", "--pattern", "whitespace")[0] == 0
    assert WordCounts.read(str(out)).to_dict()[b"low"] == 6


def test_an_option_like_no_other(corpus, out, fails):
    assert "there is no option --xyzzy. Beam's own options come after --" in fails("count", corpus, "-o", out, "--xyzzy", code=2)


def test_overwriting_with_inputs_that_do_not_exist_takes_nothing_away(tmp_path):
    (tmp_path / "a.txt").write_text("low low lower " * 20)
    command = ["train", tmp_path / "a.txt", "-o", tmp_path / "v", "--vocab-size", "260", "--progress", "none"]
    assert cli.main([str(arg) for arg in command]) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "v").glob("*.parquet")}
    for inputs in (["nope.txt"], ["--words", str(tmp_path / "nope.parquet")]):
        assert cli.main(["train", *inputs, "-o", str(tmp_path / "v"), "--vocab-size", "260", "--overwrite"]) == 1
        assert {path.name: path.read_bytes() for path in (tmp_path / "v").glob("*.parquet")} == before
    assert cli.main([str(arg) for arg in [*command, "--overwrite"]]) == 0


# ---- convert: characters, WordPiece ----

VOCAB_TXT = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\nnew\n##est\nA\n"
CODES = "l o\nlo w</w>\ne s\nes t</w>\n"


@pytest.fixture
def pieces(tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "vocab.txt").write_text(VOCAB_TXT)
    (tmp_path / "bpe.codes").write_text("#version: 0.2\n" + CODES)
    (tmp_path / "old.codes").write_text("l o\nlo w\nlow </w>\n")
    return tmp_path


def test_vocab_txt_is_converted(beam_bpe_main, pieces):
    for path in (pieces / "bert", pieces / "bert" / "vocab.txt"):
        code, said, _ = beam_bpe_main("convert", path, "-o", pieces / "t.json", "--overwrite")
        assert code == 0 and "9 ids, 0 merges, huggingface" in said and "unreached" not in said
    content = json.loads((pieces / "t.json").read_text())
    assert content["model"]["type"] == "WordPiece" and content["normalizer"]["lowercase"] and content["pre_tokenizer"] == {"type": "BertPreTokenizer"}
    code, said, _ = beam_bpe_main("convert", pieces / "t.json", "-o", pieces / "again" / "vocab.txt")
    assert code == 0 and "normalizer  bert: do_lower_case=True for its readers" in said
    assert (pieces / "again" / "vocab.txt").read_text() == VOCAB_TXT
    assert beam_bpe_main("convert", pieces / "bert", "--cased", "-o", pieces / "cased", "--to", "parquet")[0] == 0
    cased = Vocabulary.load(str(pieces / "cased"))
    assert cased.normalizer == "bert_cased" and cased.special_ids == {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    options = ["--normalizer", "NFC+lowercase", "--pattern", "whitespace", "--unk-token", "low", "--continuing-subword-prefix", "@", "--max-input-chars-per-word", 7]
    assert beam_bpe_main("convert", pieces / "bert", *options, "-o", pieces / "odd", "--to", "parquet")[0] == 0
    odd = Vocabulary.load(str(pieces / "odd"))
    assert odd.normalizer == "NFC+lowercase" and odd.pre_tokenizer.name == "whitespace" and odd.model.unk_token == "low"
    assert odd.model.continuing_subword_prefix == "@" and odd.model.max_input_chars_per_word == 7
    assert beam_bpe_main("convert", pieces / "bert", "--normalizer", "none", "-o", pieces / "plain", "--to", "parquet")[0] == 0
    assert Vocabulary.load(str(pieces / "plain")).normalizer is None


def test_codes_are_converted(beam_bpe_main, pieces):
    command = ["convert", pieces / "bpe.codes", "--unk-token", "<unk>", "--alphabet", "xyz"]
    code, said, _ = beam_bpe_main(*command, "-o", pieces / "t.json")
    assert code == 0 and "4 merges, huggingface" in said
    model = json.loads((pieces / "t.json").read_text())["model"]
    assert model["end_of_word_suffix"] == "</w>" and model["unk_token"] == "<unk>" and {"z", "z</w>"} <= model["vocab"].keys()
    assert beam_bpe_main("convert", pieces / "t.json", "-o", pieces / "back.codes")[0] == 0
    assert (pieces / "back.codes").read_text() == "#version: 0.2\n" + CODES
    assert beam_bpe_main("convert", pieces / "bpe.codes", "-o", pieces / "ours", "--to", "parquet")[0] == 0
    assert Vocabulary.load(str(pieces / "ours")).model.byte_fallback


def test_what_convert_says_would_be_lost(beam_bpe_main, pieces):
    for source, output, lost in [
        ("old.codes", "x.json", "'</w>' as a symbol of its own would be lost"),
        ("bpe.codes", "x.json", "tokenizers spells the bytes of '</w>' too under byte_fallback"),
        ("bpe.codes", "vocab.txt", "a vocab.txt holds WordPiece, and the vocabulary is bpe of characters"),
        ("bpe.codes", "x.tiktoken", "tiktoken has BPE of bytes only"),
        ("bpe.codes", "merges.txt", "mean BPE of bytes, and the vocabulary is bpe of characters"),
        ("bert", "x.codes", "codes hold merges of characters with '</w>', and the vocabulary is wordpiece"),
        ("bert", "vocab.json", "mean BPE of bytes, and the vocabulary is wordpiece"),
    ]:
        code, _, told = beam_bpe_main("convert", pieces / source, "-o", pieces / output)
        assert code == 1 and lost in told and told.count("\n") == 1, told
        assert not (pieces / output).exists()


def test_options_of_convert_that_do_not_go_with_the_file(beam_bpe_main, pieces):
    for options, said in [
        (["bert", "--alphabet", "abc"], "--alphabet does not go with"),
        (["bert", "--encoding", "gpt2"], "--encoding is 'gpt2'"),
        (["bpe.codes", "--max-input-chars-per-word", "9"], "--max-input-chars-per-word does not go with"),
        (["bert", "--cased", "--normalizer", "NFC"], "--cased and --normalizer contradict each other"),
        (["bert", "--normalizer", "NFX"], "there is no normalizer 'NFX'"),
        (["bpe.codes", "--alphabet", "ab", "--unk-token", "lo"], "--unk-token='lo' is a symbol of"),
        (["bert", "--max-input-chars-per-word", "0"], "--max-input-chars-per-word=0"),
        (["bpe.codes", "--no-verify", "--to", "bert"], "--no-verify goes with"),
    ]:
        code, _, told = beam_bpe_main("convert", pieces / options[0], "-o", pieces / "x.json", *options[1:])
        assert code == 2 and said in told, told
    code, _, told = beam_bpe_main("convert", pieces / "bert", "--unk-token", "<unk>", "-o", pieces / "x.json")
    assert code == 1 and "vocab.txt has no piece '<unk>'" in told
