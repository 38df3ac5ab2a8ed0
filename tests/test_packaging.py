"""sdist -> wheel -> clean environment -> the command of the README, outside the source tree."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments, **keywords):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, env=environment, **keywords)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is built from it alone."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def test_sdist_holds_what_a_build_needs(built):
    names = {name.split("/", 1)[-1] for name in tarfile.open(built[0]).getnames()}
    kernels = {f"cython_ext/{path.name}" for path in (ROOT / "cython_ext").iterdir() if path.suffix in (".pyx", ".h")}
    assert kernels <= names
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py", "beam_bpe/py.typed"} <= names
    assert not any(name.endswith((".c", ".so")) for name in names)


def test_wheel_holds_kernels_and_types(built):
    names = zipfile.ZipFile(built[1]).namelist()
    for kernel in ("_scan", "_words", "_merge", "_encode", "_normalize", "_statistics", "_unigram"):
        assert any(name.startswith(f"beam_bpe/{kernel}.") and name.endswith((".so", ".pyd")) for name in names)
        assert f"beam_bpe/{kernel}.pyi" in names
    assert "beam_bpe/py.typed" in names and "beam_bpe/transforms/count.py" in names
    assert not any(name.startswith(("tests/", "cython_ext/", "examples/")) for name in names)


@pytest.mark.slow  # tests/engines run in such an environment by default
def test_clean_environment(built, tmp_path):
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", home)
    run(home / "bin" / "pip", "install", "-q", built[1], cwd=tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("low lower newest widest " * 500)
    shown = run(home / "bin" / "beam-bpe", "train", text, "-o", tmp_path / "out", "-n", "280", cwd=tmp_path)
    assert str(tmp_path / "out" / "merges.parquet") in shown
    where = run(home / "bin" / "python", "-c", "import beam_bpe._merge as m; print(m.__file__)", cwd=tmp_path)
    assert where.startswith(str(home))
    assert "merges" in run(home / "bin" / "python", "-m", "beam_bpe", "show", tmp_path / "out", cwd=tmp_path)
