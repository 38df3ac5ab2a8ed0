"""Each example runs as its docstring says."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from beam_bpe import Tokenizer, Vocabulary, WordCounts, train

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXT = "The newest of the lowlands is the widest, newer than the lowest. " * 40 + "parseHTTPResponse2 "


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_example_has_a_test():
    tested = {"learn_vocabulary.py", "counts_from_elsewhere.py", "custom_pattern.py", "packed_shards.py", "encode_rows.py", "plan.py"}
    tested |= {"rolling_words.py", "encode_stream.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
    in_yaml = (EXAMPLES.parent / "tests" / "test_yaml.py").read_text()
    assert all(f'"{path.name}"' in in_yaml for path in EXAMPLES.glob("*.yaml"))


def test_learn_vocabulary(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(TEXT)
    run("learn_vocabulary.py", tmp_path / "*.txt", tmp_path / "out")
    vocabulary = Vocabulary.load(str(tmp_path / "out"))
    assert b" the" in vocabulary.ids and b" lowest" in vocabulary.ids
    assert WordCounts.read(str(tmp_path / "out" / "words")).totals["documents"] == 3


def test_packed_shards(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(TEXT * 20)
    run("packed_shards.py", tmp_path / "*.txt", tmp_path / "out")
    tokenizer = Tokenizer.load(str(tmp_path / "out" / "vocabulary"))
    end = tokenizer.special_tokens["<|endoftext|>"]
    expected = [*tokenizer.encode(TEXT * 20), end]
    expected += [end] * (-len(expected) % 2048)
    for i in range(3):
        rows = np.load(tmp_path / "out" / "tokens" / f"part-0000{i}-of-00003.npy")
        assert rows.shape == (len(expected) // 2048, 2048) and rows.ravel().tolist() == expected


def test_encode_rows(tmp_path):
    train(WordCounts.from_documents([TEXT]), 400).save(str(tmp_path / "v"))
    lines = run("encode_rows.py", tmp_path / "v").splitlines()
    tokenizer = Tokenizer.load(str(tmp_path / "v"))
    english = sum(map(tokenizer.count, ("The newest lowlands are the widest.", "Lower than low.")))
    french = tokenizer.count("Les plaines les plus récentes sont les plus larges.")
    assert sorted(lines) == [f"en {english}", f"fr {french}"]


def test_counts_from_elsewhere(tmp_path):
    assert run("counts_from_elsewhere.py").splitlines()[:3] == ["0 b'es' 9", "1 b'est' 9", "2 b'lo' 7"]


def test_custom_pattern(tmp_path):
    (tmp_path / "notes.txt").write_text(TEXT)
    lines = run("custom_pattern.py", tmp_path / "notes.txt").splitlines()
    assert len(lines) == 10
    assert lines[0].split(maxsplit=1) == ["481", "b' '"]
    assert "     120 b'the'" in lines


def test_plan():
    printed = run("plan.py", "--text", "10TB", "--scan-rate", "100", "--engine-cost", "1")
    rows = {line[2:30].strip(): line[31:55].strip() for line in printed.splitlines() if line.startswith("  ")}
    assert rows["ranges"] == f"{-(-(10**13) // (64 << 20)):,} of 64 MiB"
    assert rows["shards"] == f"{-(-(10**13) // 6 // (128 << 20)):,}"
    assert rows["scan and count"] == "27.8 core-hours"  # 10**13 / 10**8 seconds
    hours = [float(rows[name].split()[0]) for name in ("scan and count", "sort, pack and merge tables", "with the engine")]
    assert abs(hours[0] + hours[1] - hours[2]) < 0.2
    shuffle, shards = float(rows["shuffle"].split()[0].replace(",", "")), 12_418
    assert abs(float(rows["all values of a shard"].split()[0]) - shuffle * 1e3 / shards) < 1


def test_rolling_words(tmp_path):
    (tmp_path / "notes.txt").write_text("".join(f"low line{i}\n" for i in range(12)))
    run("rolling_words.py", tmp_path / "notes.txt", tmp_path / "tables", "--runner=FnApiRunner")
    windows = sum((Counter(WordCounts.read(str(each)).to_dict()) for each in (tmp_path / "tables" / "windows").iterdir()), Counter())
    assert windows[b"low"] == windows[b" line"] == 12
    rolling = sum((Counter(WordCounts.read(str(each)).to_dict()) for each in (tmp_path / "tables" / "rolling").iterdir()), Counter())
    assert rolling == Counter({word: 3 * count for word, count in windows.items()})


def test_encode_stream(tmp_path):
    train(WordCounts.from_documents([TEXT]), 400).save(str(tmp_path / "v"))
    lines = run("encode_stream.py", tmp_path / "v", "--runner=FnApiRunner").splitlines()
    tokenizer = Tokenizer.load(str(tmp_path / "v"))
    found = Counter()
    for *_, lang, tokens in (line.split() for line in lines if not line.startswith("failed:")):
        found[lang] += int(tokens)
    assert found["en"] == 10 * tokenizer.count("The newest lowlands are the widest.")
    assert found["fr"] == 10 * tokenizer.count("Les plaines les plus récentes sont les plus larges.")
    assert lines.count("failed: en the text is a NoneType, neither str nor bytes: 'None'") == 10
