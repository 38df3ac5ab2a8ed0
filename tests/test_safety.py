"""What must never happen: somebody's files lost, words that were miscounted published, artifacts mixed."""

import subprocess
import sys

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_bpe import Vocabulary, WordCounts, cli
from beam_bpe.transforms import CountWords, ReadDocuments, ReadWords, WriteWords

TEXT = "low low lower newest widest " * 50


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return path


def run(*argv):
    return cli.main([str(arg) for arg in argv])


@pytest.mark.parametrize("name", ["part-00000-1b2c-c000.snappy.parquet", "part-00000-of-00004.parquet", "x.parquet"])
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_parquet_files_of_others_are_neither_written_over_nor_removed(name, overwrite, tmp_path, text, capsys):
    folder = tmp_path / "corpus"
    folder.mkdir()
    pq.write_table(pa.table({"text": [TEXT]}), folder / name)
    before = (folder / name).read_bytes()
    assert run("count", folder, "-o", folder, *overwrite) == 1
    assert f"holds {name}, which is not a part of a table of words" in capsys.readouterr().err
    assert run("train", text, "-o", tmp_path, "-n", 260, *overwrite) == 0  # its words folder is another one
    (tmp_path / "words" / "_manifest.json").unlink()
    (folder / name).rename(tmp_path / "words" / "theirs.parquet")
    assert run("train", text, "-o", tmp_path, "-n", 260, "--overwrite") == 1
    assert (tmp_path / "words" / "theirs.parquet").read_bytes() == before


def test_what_reading_and_counting_disagree_on_is_refused(text):
    for other in ({"pattern": "gpt2"}, {"pattern": r"\w+|\W+"}, {"pattern": "o200k", "special_tokens": ["low"]}):
        with pytest.raises(Exception, match="give ReadDocuments and CountWords the same"):
            with beam.Pipeline(runner="FnApiRunner") as p:
                p | ReadDocuments(str(text), pattern="o200k", range_bytes=100) | CountWords(**other)


def test_documents_that_are_whole_may_be_counted_by_any_pattern(text, tmp_path):
    with beam.Pipeline(runner="FnApiRunner") as p:
        p | ReadDocuments(str(text)) | CountWords("whitespace") | WriteWords(str(tmp_path / "words"))
    assert WordCounts.read(str(tmp_path / "words")).to_dict()[b"low"] == 100


def test_tables_that_were_flattened_but_not_summed_are_not_published(tmp_path):
    for name in "ab":
        WordCounts.from_documents([TEXT]).write(str(tmp_path / name))
    with pytest.raises(Exception, match="sum flattened tables with MergeWords first"):
        with beam.Pipeline(runner="FnApiRunner") as p:
            tables = [p | name >> ReadWords(str(tmp_path / name)) for name in "ab"]
            tables | beam.Flatten() | WriteWords(str(tmp_path / "c"))
    assert not (tmp_path / "c" / "_manifest.json").exists()


def test_a_manifest_that_lacks_a_part_is_found_out(tmp_path):
    WordCounts.from_documents([TEXT]).write(str(tmp_path / "w"), shards=3)
    manifest = tmp_path / "w" / "_manifest.json"
    import json

    changed = json.loads(manifest.read_text())
    changed["parts"].pop()
    manifest.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="words were counted, but its parts hold"):
        WordCounts.read(str(tmp_path / "w"))


def test_one_text_is_no_collection_of_texts():
    for one in ("low low", b"low low"):
        with pytest.raises(TypeError, match="a collection of texts, not one"):
            WordCounts.from_documents(one)


def test_a_part_of_ours_is_no_table_made_elsewhere(tmp_path):
    WordCounts.from_documents([TEXT]).write(str(tmp_path / "w"))
    with pytest.raises(ValueError, match="name its folder"):
        WordCounts.read_foreign([str(tmp_path / "w" / "part-00000-of-00001.parquet")])


def test_a_failed_replacement_leaves_no_old_vocabulary_beside_new_words(tmp_path, text):
    assert run("train", text, "-o", tmp_path / "out", "-n", 258) == 0
    assert run("train", text, "-o", tmp_path / "out", "-n", 258, "--overwrite", "--special-token", "h") == 1
    with pytest.raises(FileNotFoundError):
        Vocabulary.load(str(tmp_path / "out"))


@pytest.mark.parametrize("where", ["submitter", "worker"])
def test_an_empty_corpus_is_in_nobodys_way(where, tmp_path, text, capsys):
    (tmp_path / "empty.txt").write_text("")
    command = ["-o", tmp_path / "out", "-n", 258, "--train-on", where]
    assert run("train", tmp_path / "empty.txt", *command) == 1
    assert run("train", text, *command) == 0


def test_set_aside_in_an_earlier_run_does_not_stay(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"low \xff")
    (tmp_path / "b.txt").write_text(TEXT)
    command = ["count", tmp_path / "*.txt", "-o", tmp_path / "out", "--errors", "skip"]
    assert run(*command) == 0 and list((tmp_path / "out" / "rejected").iterdir())
    path.write_text("low")
    assert run(*command, "--overwrite") == 0 and not list((tmp_path / "out" / "rejected").iterdir())


def test_separators_are_what_was_typed(tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\nc")
    command = ["count", tmp_path / "a.txt", "--documents", "separator", "-o"]
    assert run(*command, tmp_path / "x", "--separator", r"\r\n") == 0
    assert WordCounts.read(str(tmp_path / "x")).totals["documents"] == 3
    assert run(*command, tmp_path / "y", "--separator", r"\q") == 2
    assert r"knows the escapes \n, \r, \t and \\, not \q" in capsys.readouterr().err


def test_a_terminal_that_is_not_utf8_and_a_reader_that_leaves(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("größe 中文 " * 40)
    command = f"{sys.executable} -m beam_bpe train {path} -n 270 --overwrite -o {tmp_path}/out"
    for shell in (f"PYTHONIOENCODING=ascii {command}", f"{command} 2>&-"):
        done = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "merges" in done.stdout
    done = subprocess.run(f"{command} | head -c 1", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""


def test_documents_of_words_are_not_counted_where_documents_are_split(text, tmp_path):
    with pytest.raises(Exception, match=r"ReadDocuments\(whole=True\)"):
        with beam.Pipeline(runner="FnApiRunner") as p:
            p | ReadDocuments(str(text), pattern="o200k", range_bytes=100) | CountWords("o200k", documents=True)
    with beam.Pipeline(runner="FnApiRunner") as p:
        read = p | ReadDocuments(str(text), pattern="o200k", range_bytes=100, whole=True)
        read | CountWords("o200k", documents=True) | WriteWords(str(tmp_path / "words"))
    assert set(WordCounts.read(str(tmp_path / "words")).table["documents"].to_pylist()) == {1}
