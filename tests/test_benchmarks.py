"""The benchmarks run, with small inputs: some that need few peers, so that it takes seconds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent / "benchmarks" / "run.py"


@pytest.mark.slow
def test_long_words_print_their_tables(tmp_path):
    results = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, RUN, "P4", "--quick", "--json", results], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    summary = done.stdout.split("## Summary")[1]
    assert summary.count("| P4 |") == 5
    assert "| P4 | one word of 1 MB, random letters, 1,000 merges |" in summary
    claims = json.loads(results.read_text())["claims"]
    assert len(claims) == 5 and all(claim["ratio"] > 0 for claim in claims)


PEERS = ("fastokens", "gigatoken", "quicktok", "tokenizers")


@pytest.mark.slow
def test_encoding_prints_its_tables_and_compares_ids(shared, tmp_path):
    pytest.importorskip("tiktoken")
    pytest.importorskip("zstandard")
    results = tmp_path / "results.json"
    without = [option for peer in PEERS for option in ("--without", peer)]
    argv = [sys.executable, RUN, "P5", "--quick", "--json", results, *without]
    environment = {**os.environ, "BEAM_BPE_SHARED": str(shared)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    claims = json.loads(results.read_text())["claims"]
    assert [claim["reached"] for claim in claims if claim["what"] == "ids on all that is measured"] == [True]
    undecided = [claim for claim in claims if claim["peer"].endswith("is not installed")]
    assert undecided and all(claim["reached"] is None for claim in undecided)
    assert {claim["benchmark"] for claim in claims} == {"P5"}
    tables = json.loads(results.read_text())["tables"]
    assert all(row[-1] == "=" for table in tables for row in table["rows"] if table["columns"][-1] == "ids")


@pytest.mark.slow
def test_learning_as_sentencepiece_prints_its_tables(shared, tmp_path):
    pytest.importorskip("sentencepiece")
    pytest.importorskip("zstandard")
    results = tmp_path / "results.json"
    argv = [sys.executable, RUN, "P12", "--quick", "--json", results, "--without", "tokenizers"]
    environment = {**os.environ, "BEAM_BPE_SHARED": str(shared)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    claims = {claim["what"]: claim for claim in json.loads(results.read_text())["claims"]}
    assert claims["merges, 4,000 pieces: shared with sentencepiece"]["reached"]
    assert claims["Unigram, 4,000 pieces: bits per byte"]["reached"] and claims["Unigram, 4,000 pieces: tokens"]["reached"]


def test_unknown_benchmarks_are_refused():
    done = subprocess.run([sys.executable, RUN, "P0"], capture_output=True, text=True)
    assert done.returncode == 2
    every = "P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, latency, load, memory, engines"
    assert f"there is no benchmark P0; choose from {every}" in done.stderr


def test_unigram_models_are_scored_by_all_segmentations(tmp_path):
    """ "▁ab" is ▁·a·b, ▁·ab or ▁a·b; "▁c" has a character that is not known."""
    sys.path.insert(0, str(RUN.parent))
    try:
        import unigram_models
    finally:
        sys.path.remove(str(RUN.parent))
    shares = {"▁": 4, "a": 2, "b": 2, "ab": 1, "▁a": 1}
    model, text = tmp_path / "model", tmp_path / "text"
    model.write_text(json.dumps({piece: math.log(n / 5) for piece, n in shares.items()}))
    text.write_text("ab ab\nc\n")
    found = unigram_models.score(str(text), str(model))
    probability = 4 * 2 * 2 / 1000 + 4 * 1 / 100 + 1 * 2 / 100
    assert math.isclose(found["models"][0]["bits"], -math.log2(probability) / 3)  # a space belongs to each word
    assert found["models"][0]["tokens"] == 4 and math.isclose(found["left_out"], 1 / 3) and found["bytes"] == 6
