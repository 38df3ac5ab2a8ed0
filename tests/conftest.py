"""Fixtures shared by the tests, the option that adds the slow ones, and what processes of pytest-xdist run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_configure(config):
    """Draw the same examples in every run, so that a change alone decides on what it lands; new ones with --slow."""
    settings.register_profile("the same", derandomize=True)
    settings.load_profile("default" if config.getoption("--slow") else "the same")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        skipped = pytest.mark.skip(reason="slow: run with --slow")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skipped)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run a file's tests in one process, and all that start engines in one, one after another."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "engines" if nodeid.startswith("tests/engines/") else super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared corpora and references (BEAM_BPE_SHARED, else ../shared)."""
    folder = Path(os.environ.get("BEAM_BPE_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"there are no shared fixtures at {folder} (set BEAM_BPE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def mixed_20m(shared, tmp_path_factory) -> Path:
    """Return the path of mixed-20m.txt, decompressed once."""
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path_factory.mktemp("corpora") / "mixed-20m.txt"
    with open(shared / "corpora" / "mixed-20m.txt.zst", "rb") as packed, open(path, "wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    return path
