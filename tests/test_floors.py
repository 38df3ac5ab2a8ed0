"""The floors of the package: imports point down, and importing costs little."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import beam_bpe

PACKAGE = Path(beam_bpe.__file__).resolve().parent
SOURCES = Path(__file__).resolve().parent.parent / "cython_ext"
MODULES = sorted(PACKAGE.rglob("*.py"))
GROUND, MODEL, BEAM, ROOF = range(4)
KERNELS = {path.name.split(".")[0] for path in PACKAGE.iterdir() if path.suffix in (".so", ".pyd")}
#: Modules of the roof: the command line, and what only it uses.
ROOF_MODULES = {"beam_bpe.cli", "beam_bpe.console", "beam_bpe.__main__"}  # and those of beam_bpe.commands


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str) -> int:
    """Return the floor of a module of the package."""
    parts = module.split(".")
    if module in ROOF_MODULES or parts[1:2] == ["commands"]:
        return ROOF
    if parts[1:2] == ["transforms"]:
        return BEAM
    if len(parts) == 2 and parts[1] in KERNELS:
        return GROUND
    return MODEL


NAMES = {name_of(path) for path in MODULES} | {f"beam_bpe.{kernel}" for kernel in KERNELS}


def imports_of(source: str, module: str, is_package: bool = False) -> set[str]:
    """Return what a module imports anywhere in it, names of the package as those of their modules."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in NAMES else base)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                found.add(str(node.args[0].value))
    return found


IMPORTS = {name_of(path): imports_of(path.read_text(), name_of(path), path.name == "__init__.py") for path in MODULES}


def within(imported: str, package: str) -> bool:
    return imported == package or imported.startswith(package + ".")


def test_the_imports_are_found():
    source = (
        "import apache_beam as beam\nfrom . import storage, _scan\nfrom .words import WordCounts\n"
        "def late():\n    from beam_bpe import _words, train\n    importlib.import_module('beam_bpe.cli')\n"
    )
    assert imports_of(source, "beam_bpe.x") == {
        "apache_beam", "beam_bpe.storage", "beam_bpe._scan", "beam_bpe.words", "beam_bpe._words", "beam_bpe", "beam_bpe.cli",
    }  # fmt: skip
    assert imports_of("from .. import words\nfrom .read import x", "beam_bpe.transforms.count") == {
        "beam_bpe.words", "beam_bpe.transforms.read",
    }  # fmt: skip
    assert imports_of("from .read import x", "beam_bpe.transforms", True) == {"beam_bpe.transforms.read"}
    assert KERNELS >= {"_scan", "_words", "_merge"} and len(MODULES) > 15
    assert "apache_beam" in IMPORTS["beam_bpe.transforms.count"] and "beam_bpe._merge" in IMPORTS["beam_bpe.training"]


@pytest.mark.parametrize("module", IMPORTS)
def test_imports_point_down(module):
    for imported in IMPORTS[module]:
        if within(imported, "beam_bpe") and imported != "beam_bpe":
            assert floor_of(imported) <= floor_of(module), f"{module} imports {imported}, which stands above it"


@pytest.mark.parametrize("module", IMPORTS)
def test_only_the_upper_floors_import_beam(module):
    if floor_of(module) != BEAM:
        above = [imported for imported in IMPORTS[module] if within(imported, "apache_beam")]
        assert not above, f"{module} imports {above}"


@pytest.mark.parametrize("module", IMPORTS)
def test_nothing_imports_the_tests(module):
    assert not [imported for imported in IMPORTS[module] if imported.split(".")[0] in ("tests", "pytest", "hypothesis")]


def test_no_module_imports_in_a_circle():
    def reach(module: str, seen: tuple[str, ...]) -> None:
        assert module not in seen, " -> ".join([*seen, module])
        for imported in IMPORTS.get(module, ()):
            if imported != "beam_bpe" and imported in IMPORTS and imported != module:
                reach(imported, (*seen, module))

    for module in IMPORTS:
        if module != "beam_bpe":  # its names are imported when they are used
            reach(module, ())


def test_the_reference_needs_no_kernel():
    todo, needed = ["beam_bpe.reference"], set()
    while todo:
        for imported in IMPORTS[todo.pop()] - needed:
            needed.add(imported)
            if imported in IMPORTS:
                todo.append(imported)
    assert not [name for name in needed if name.rpartition(".")[2] in KERNELS]
    assert not [name for name in needed if within(name, "beam_bpe")]


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_kernels_import_nothing_of_the_package(kernel):
    source = (SOURCES / f"{kernel[1:]}.pyx").read_text()
    lines = [line.split("#")[0].split() for line in source.splitlines()]
    imported = {line[1] for line in lines if len(line) > 1 and line[0] in ("import", "from", "cimport")}
    outside = {name for name in imported if not name.startswith(("cpython.", "libc."))}
    assert outside <= {"os", "time"}


# ---- in a process of its own ----


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True)


def loaded_by(code: str) -> set[str]:
    done = run(f"{code}\nimport sys; print(*sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    loaded = loaded_by("import beam_bpe; beam_bpe.__version__; dir(beam_bpe)")
    assert "beam_bpe" in loaded
    assert not loaded & {"apache_beam", "pyarrow", "numpy", "regex", "fsspec", "beam_bpe.words"}


@pytest.mark.parametrize("name", ["train", "WordCounts", "Vocabulary", "pre_tokenizer", "PreTokenizer", "PATTERNS", "FormatError"])
def test_the_model_loads_no_beam(name):
    loaded = loaded_by(f"from beam_bpe import {name}")
    assert not [module for module in loaded if within(module, "apache_beam") or within(module, "beam_bpe.transforms")]
    assert len([module for module in loaded if within(module, "beam_bpe")]) > 1


def test_every_name_of_the_package_is_there():
    code = "import beam_bpe; print(all(hasattr(beam_bpe, name) and name in dir(beam_bpe) for name in beam_bpe.__all__))"
    assert run(code).stdout.strip() == "True"
    done = run("import beam_bpe; beam_bpe.trane")
    assert "AttributeError: module 'beam_bpe' has no attribute 'trane'" in done.stderr


def test_importing_the_package_is_quick():
    """It adds less than 0.3 s of CPU time to a bare interpreter (the best of three)."""

    def seconds(code: str) -> float:
        before = os.times()
        assert run(code).returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds("import beam_bpe") for _ in range(3)) - min(seconds("pass") for _ in range(3)) < 0.3


# ---- kernels that were not built ----


@pytest.mark.parametrize("kernel", ["_scan", "_words", "_merge"])
def test_a_missing_kernel_says_how_to_build(kernel, tmp_path):
    """Import a copy of the package that lacks one extension (-S: an editable install would bring it)."""
    (tmp_path / "beam_bpe").mkdir()
    for path in PACKAGE.iterdir():
        if path.name != "__pycache__" and not path.name.startswith(f"{kernel}."):
            (tmp_path / "beam_bpe" / path.name).symlink_to(path)
    packages = os.pathsep.join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import beam_bpe; beam_bpe.train"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": packages}, capture_output=True, text=True,
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ") and kernel in last and "pip install" in last, last
