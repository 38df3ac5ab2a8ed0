"""Submit with the commands of the README: by each engine's own runner, with progress, and failures in one line."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
from pathlib import Path

import prepare
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import services
from classpath_jar import classpath_jar
from conftest import demand
from submitting import Engine

README = Path(__file__).parents[2] / "README.md"
PARALLELISM = 6
RUNNERS = {"prism": "PrismRunner", "spark-cluster": "SparkRunner", "flink-cluster": "FlinkRunner"}
JAVA_OPENS = " ".join([*services._OPENS, *services._FLINK_OPENS])


# ---- by the engine's own runner ------------------------------------------------------------------


@pytest.fixture(scope="session")
def jars(tmp_path_factory):
    """The jar of an engine's job server, which its runner would download where it can."""
    folder = tmp_path_factory.mktemp("jars")
    made: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in made:
            made[name] = classpath_jar(name, folder)
        return made[name]

    return of


def readme_flags(runner: str) -> list[str]:
    """Return Beam's flags in the README's command for a runner."""
    text = README.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("beam-bpe ") and f" --runner={runner}" in line]
    assert len(lines) == 1, f"the README has {len(lines)} commands for {runner}"
    words = shlex.split(lines[0])
    return words[words.index("--") + 1 :]


def by_own_runner(engine: Engine, jars) -> Engine:
    """Return the engine with the README's flags for it: each with the value for here, and what stands in for a download."""
    service, runner = engine.service, RUNNERS[engine.name]
    here = {"--runner": runner}
    if engine.name == "prism":
        here["--environment_type"] = "LOOPBACK"
        more = [f"--prism_location={prepare.prism_binary()}"]
    else:
        here |= dict(flag.split("=", 1) for flag in service.pool.flags)
    if engine.name == "spark-cluster":
        here |= {"--spark_master_url": service.url, "--environment_cache_millis": "60000"}
        here["--job_server_jvm_property"] = f"-Dspark.default.parallelism={PARALLELISM}"
        more = [f"--spark_job_server_jar={jars('spark')}"]
    if engine.name == "flink-cluster":
        here |= {"--flink_master": f"{services.HOST}:{service.rest}", "--parallelism": str(service.slots)}
        here["--flink_version"] = "1.19"
        more = [f"--flink_job_server_jar={jars('flink')}"]
    names = [flag.split("=")[0] for flag in readme_flags(runner)]
    assert set(names) == set(here), f"the README gives {runner} other flags than are known here"
    flags = [f"{name}={here[name]}" for name in names]
    variables = {"JDK_JAVA_OPTIONS": JAVA_OPENS, "SPARK_LOCAL_IP": services.HOST}
    return Engine(engine.name, [*flags, *more], engine.folder, service, variables)


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> Path:
    """Ten files of 300 kB, each with words of its own."""
    folder = tmp_path_factory.mktemp("texts")
    for number in range(10):
        lines = (f"{place * 7919 % 10007:05} low lower newest widest {chr(97 + number) * (place % 9 + 1)}\n" for place in range(9000))
        (folder / f"{number}.txt").write_text("".join(lines))
    return folder


@pytest.fixture(scope="session")
def learned(workers, submit_from, texts, tmp_path_factory) -> Path:
    """The vocabulary of the local runner."""
    folder = tmp_path_factory.mktemp("learned") / "out"
    train(Engine("local", [], submit_from), texts, folder)
    return folder


def train(engine, texts, folder, *more, **keywords):
    sizes = ["--vocab-size", 400, "--range-bytes", 150_000]
    return engine.beam_bpe("train", texts / "*.txt", "--output", folder, *sizes, *more, **keywords)


def events(done: subprocess.CompletedProcess[str]) -> list[dict]:
    """Return the lines of progress, which are all that stands on standard error."""
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize("engine", list(RUNNERS), indirect=True)
def test_command_of_the_readme(engine, jars, texts, learned, tmp_path):
    """The same vocabulary, and progress as far as the engine tells it."""
    done = train(by_own_runner(engine, jars), texts, tmp_path / "out", "--progress", "json")
    for name in ("merges.parquet", "vocabulary.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (learned / name).read_bytes()
    told = events(done)
    assert told[0]["phase"] == "running" and told[0]["state"] == "starting"
    assert {event["state"] for event in told if event["phase"] == "running"} > {"starting"} or engine.name == "prism"
    if engine.name == "prism":
        assert [event["done"] for event in told if event["phase"] == "counting"][-1] == sum(
            path.stat().st_size for path in texts.glob("*.txt")
        )
        return
    tasks = [(event["done"], event["total"]) for event in told if event["unit"] == "tasks" and event["total"]]
    assert tasks and all(0 <= finished <= total for finished, total in tasks)
    if engine.name == "spark-cluster":
        assert max(total for _, total in tasks) % PARALLELISM == 0  # spark.default.parallelism reached the driver


# ---- progress and failures -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool(workers, tmp_path_factory):
    """Workers in processes of their own, as on a cluster."""
    with services.WorkerPool(tmp_path_factory.mktemp("pool")) as service:
        yield service


def elsewhere(engine: Engine, pool: services.WorkerPool, **variables: str) -> Engine:
    """Return an engine whose workers are those of the pool, and not the submitting process."""
    flags = [flag for flag in engine.flags if not flag.startswith("--environment_")]
    return Engine(engine.name, [*flags, *pool.flags], engine.folder, engine.service, variables)


_AUDIT = """
import os, sys
def hook(event, arguments, log=os.environ["OPENED"]):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        told = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if os.fspath(arguments[0]) != log else None
        if told is not None:
            os.write(told, os.fsencode(arguments[0]) + b"\\n")
            os.close(told)
sys.addaudithook(hook)
"""
_ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "beam_bpe":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
_SLOW = """
import time
def words(document):
    time.sleep(1)
    return document.split()
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """Folders for PYTHONPATH, by what they do to a Python that has them there."""
    folder = tmp_path_factory.mktemp("modules")
    for name, file, text in (
        ("audit", "sitecustomize.py", _AUDIT),
        ("absent", "sitecustomize.py", _ABSENT),
        ("slow", "slow.py", _SLOW),
    ):
        (folder / name).mkdir()
        (folder / name / file).write_text(text)
    return folder


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    """A file of each kind, each of several ranges of 50,000 bytes where it can be cut."""
    folder = tmp_path_factory.mktemp("kinds")
    lines = [f"{place:05} low lower newest widest" for place in range(4000)]
    (folder / "a.txt").write_text("\n".join(lines))
    (folder / "b.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    (folder / "c.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    pq.write_table(pa.table({"text": lines}), folder / "d.parquet", row_group_size=100)
    return folder


@pytest.mark.parametrize("engine", ["prism"], indirect=True)
def test_corpus_is_not_read_where_it_is_submitted(engine, pool, modules, mixed, learned, submit_from, tmp_path):
    """Not even the footers of Parquet; the local runner, which reads it all, shows that opening is seen."""

    def opened(place: Engine, name: str, *arguments: object) -> set[str]:
        log = tmp_path / f"{place.name}-{name}.log"
        place.variables.update(PYTHONPATH=str(modules / "audit"), OPENED=str(log))
        place.beam_bpe(*arguments, "--output", tmp_path / place.name / name, "--range-bytes", 50_000)
        return {Path(line).name for line in log.read_text().splitlines() if Path(line).parent == mixed}

    names = {path.name for path in mixed.iterdir()}
    commands = {
        "train": ["train", mixed, "--vocab-size", 300],
        "encode": ["encode", mixed, "--vocabulary", learned],
    }
    assert opened(Engine("local", [], submit_from, None, {}), "train", *commands["train"]) == names
    for name, command in commands.items():
        assert opened(elsewhere(engine, pool), name, *command) == set()


@pytest.mark.parametrize("engine", ["prism"], indirect=True)
def test_counters_of_other_processes(engine, workers, modules, texts, tmp_path):
    """What workers elsewhere have counted is asked of the engine while they work."""
    slow = {"PYTHONPATH": str(modules / "slow")}
    with services.WorkerPool(tmp_path / "pool", **slow) as pool:
        place = elsewhere(engine, pool, **slow)
        words = ["--split-with", "slow:words", "--progress", "json"]
        done = place.beam_bpe("count", texts / "*.txt", "--output", tmp_path / "out", *words)
    counted = [event for event in events(done) if event["phase"] == "counting"]
    assert any(0 < event["done"] < event["total"] for event in counted)


CLUSTERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("spark-cluster", "flink-cluster")]


@pytest.mark.parametrize("engine", ["prism", "spark-local", *CLUSTERS], indirect=True)
def test_failure_is_one_line(engine, tmp_path):
    """The cause, whatever the engine wraps around it."""
    check_failure(engine, tmp_path)


def test_failure_of_flink_is_one_line(workers, jars, submit_from, tmp_path):
    """On a cluster of Flink's that lives within its job server."""
    demand("flink")
    flags = ["--runner=FlinkRunner", "--flink_master=[local]", "--environment_type=LOOPBACK", "--parallelism=1"]
    variables = {"JDK_JAVA_OPTIONS": JAVA_OPENS}
    engine = Engine("flink-local", [*flags, f"--flink_job_server_jar={jars('flink')}"], submit_from, None, variables)
    check_failure(engine, tmp_path)


def check_failure(engine: Engine, folder: Path) -> None:
    (folder / "good.txt").write_text("low lower newest widest " * 50)
    (folder / "bad.txt").write_bytes(b"abc \xff def")
    done = engine.beam_bpe("count", folder / "*.txt", "--output", folder / "out", "--errors", "strict", fails=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"beam-bpe: error: {folder}/bad.txt: the byte 0xff at offset 4 is not valid UTF-8")
    assert not (folder / "out" / "_manifest.json").exists()


@pytest.mark.parametrize("engine", ["prism"], indirect=True)
def test_workers_without_the_package(engine, modules, texts, tmp_path):
    """The cause, and what to do. (Spark waits for such workers without an end: only their pool's log tells.)"""
    with services.WorkerPool(tmp_path / "pool", PYTHONPATH=modules / "absent") as pool:
        place = elsewhere(engine, pool)
        done = place.beam_bpe("count", texts / "*.txt", "--output", tmp_path / "out", fails=True)
    assert done.stderr.startswith("beam-bpe: error: the workers have no beam_bpe: install its wheel where they run")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("flags", [["--runner=FlinkRunner", "--flink_master=localhost:1"], ["--runner=PortableRunner"]])
def test_workers_from_beams_image_are_refused_early(flags, workers, submit_from, texts, tmp_path):
    engine = Engine("image", [*flags, "--job_endpoint=localhost:1"], submit_from)
    done = engine.beam_bpe("count", texts / "*.txt", "--output", tmp_path / "out", fails=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "which lacks beam_bpe: say --environment_type=EXTERNAL --environment_config=HOST:PORT" in done.stderr


def test_job_server_that_does_not_answer(workers, submit_from, texts, tmp_path):
    flags = ["--runner=PortableRunner", "--environment_type=LOOPBACK", "--job_server_timeout=2"]
    endpoint = f"localhost:{services.free_ports(1)[0]}"
    engine = Engine("nowhere", [*flags, f"--job_endpoint={endpoint}"], submit_from)
    done = engine.beam_bpe("count", texts / "*.txt", "--output", tmp_path / "out", fails=True)
    assert done.stderr.startswith(f"beam-bpe: error: no job server answers at --job_endpoint={endpoint}: ")
    assert done.stderr.count("\n") == 1
