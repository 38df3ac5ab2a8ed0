"""The types hold: mypy on the package, and the stubs of the kernels against the kernels."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytest.importorskip("mypy")


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_package():
    run("mypy")


def test_stubs_of_kernels(tmp_path):
    made_by_cython = tmp_path / "allowed"
    made_by_cython.write_text(".*__(reduce|setstate)_cython__\n.*__test__\n")
    kernels = [f"beam_bpe.{path.stem}" for path in sorted((ROOT / "beam_bpe").glob("_*.pyi"))]
    assert len(kernels) == 7
    run(
        "mypy.stubtest",
        "--mypy-config-file=pyproject.toml",
        f"--allowlist={made_by_cython}",
        "--ignore-unused-allowlist",
        *kernels,
    )
