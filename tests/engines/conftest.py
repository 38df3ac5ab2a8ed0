"""Engines for the tests: each is started when its first test comes, and stopped when its last one is done.

Whatever is submitted, is submitted as a user would: by the command of the environment that holds only the wheel.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import prepare  # noqa: E402
import services  # noqa: E402
from submitting import Engine  # noqa: E402

ENGINES = ("local", "processes", "prism", "spark-local", "spark-cluster", "flink-cluster")
LOCAL_FLAGS = {
    "local": [],
    "processes": ["--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2"],
}
#: Seeds of the hashes of the workers that run in pools of their own.
POOL_SEEDS = {"spark-cluster": "1", "flink-cluster": "2"}
_PARTS = {
    "prism": ["prism"],
    "spark-local": ["spark"],
    "spark-cluster": ["spark"],
    "flink-cluster": ["flink"],
    "minio": ["minio"],
}


_STARTED = time.monotonic()


def demand(*parts: str) -> None:
    """Skip the test if a part was not prepared, or if BEAM_BPE_ENGINES_MINUTES have passed."""
    minutes = os.environ.get("BEAM_BPE_ENGINES_MINUTES")
    if minutes and time.monotonic() - _STARTED > 60 * float(minutes):
        pytest.skip(f"the {minutes} minutes for engines are over (BEAM_BPE_ENGINES_MINUTES)")
    for part in parts:
        if reason := prepare.absent(part):
            pytest.skip(reason)


@pytest.fixture(scope="session")
def workers() -> Path:
    """Return the environment that holds the wheel of this checkout, as its sources are now."""
    demand("workers")
    if not os.environ.get("BEAM_BPE_ENGINES_KEEP"):  # set it to try an older wheel, or while sources are in the making
        prepare.prepare_workers()
    return prepare.workers_home()


@pytest.fixture(scope="session")
def submit_from(tmp_path_factory) -> Path:
    """Return the folder that commands are run in."""
    return tmp_path_factory.mktemp("submit")


def _service_of(name: str, folder: Path) -> services.Service | None:
    pool = {"PYTHONHASHSEED": POOL_SEEDS.get(name, "0")}
    if name == "prism":
        return services.PrismJobServer(folder)
    if name == "spark-local":
        return services.SparkLocal(folder)
    if name == "spark-cluster":
        return services.SparkCluster(folder, **pool)
    if name == "flink-cluster":
        return services.FlinkCluster(folder, **pool)
    return None


class _Running:
    """The engine that runs now: one at a time, since each takes a gigabyte or two."""

    def __init__(self, factory: pytest.TempPathFactory, folder: Path):
        self._factory, self._folder = factory, folder
        self._stack = contextlib.ExitStack()
        self._engine: Engine | None = None

    def get(self, name: str) -> Engine:
        if self._engine is None or self._engine.name != name:
            self.stop()
            service = _service_of(name, self._factory.mktemp(name))
            if service is not None:
                self._stack.enter_context(service)
            flags = LOCAL_FLAGS[name] if service is None else service.flags
            self._engine = Engine(name, flags, self._folder, service)
        return self._engine

    def stop(self) -> None:
        self._engine = None
        self._stack.close()


@pytest.fixture(scope="session")
def _running(submit_from, tmp_path_factory):
    running = _Running(tmp_path_factory, submit_from)
    yield running
    running.stop()


@pytest.fixture
def engine(request, workers, _running) -> Engine:
    """Give the engine whose name the test is parametrized with (indirectly)."""
    demand(*_PARTS.get(request.param, []))
    return _running.get(request.param)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Run the tests of one engine after another, so that each is started once."""
    here = Path(__file__).parent
    ours = [place for place, item in enumerate(items) if here in item.path.parents]
    chosen = [items[place] for place in ours]
    chosen.sort(key=lambda item: ENGINES.index(_engine_of(item)) if _engine_of(item) else -1)
    for place, item in zip(ours, chosen):
        items[place] = item


def _engine_of(item: pytest.Item) -> str | None:
    return item.callspec.params.get("engine") if hasattr(item, "callspec") else None


@pytest.fixture(scope="session")
def minio(workers, tmp_path_factory):
    """Give an S3 server."""
    demand("minio")
    with services.Minio(tmp_path_factory.mktemp("minio")) as service:
        yield service
