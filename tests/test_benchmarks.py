"""The benchmarks run: the one that needs neither corpora nor peers, with small inputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).resolve().parent / "benchmarks" / "run.py"


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


def test_unknown_benchmarks_are_refused():
    done = subprocess.run([sys.executable, RUN, "P5"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no benchmark P5; choose from P1, P2, P3, P4, P9, memory" in done.stderr
