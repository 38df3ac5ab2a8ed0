"""Faults on the engines: processes that are killed in the middle of their work, interrupts, broken and vanishing inputs.

After each fault the job ends with the bytes of an undisturbed run, or it fails with a message and a second run ends
with them. Whatever stands under its own name meanwhile is whole, and the manifest comes last.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import killing
import prepare
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import services
from beam_bpe import WordCounts
from killing import TEMPORARY, Job
from submitting import Engine

PATTERN = r"\p{L}+|\P{L}+"  # it has no native scanner, so that a document takes its time
CLUSTERS = ["spark-cluster", "flink-cluster"]
ENGINES = ["local", "processes", "prism", "spark-local", *CLUSTERS]
PIPELINES = Path(__file__).parent / "pipelines"
slow = pytest.mark.slow


@pytest.fixture(scope="session")
def corpus(shared, tmp_path_factory) -> Path:
    """About 4 MB in many languages, in 16 files."""
    table = pq.read_table(shared / "corpora" / "docs.parquet", columns=["text"])
    texts = table.take(list(range(0, table.num_rows, 50))).column("text").to_pylist()
    folder = tmp_path_factory.mktemp("faults") / "corpus"
    folder.mkdir()
    for number in range(16):
        (folder / f"{number:02}.txt").write_text("\n\n".join(texts[number::16]), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def arguments(corpus, tmp_path_factory, workers, submit_from):
    """What is run, by its name: the arguments behind which the folder comes."""
    vocabulary = tmp_path_factory.mktemp("vocabulary") / "out"
    learn = ["train", corpus / "00.txt", "--pattern", PATTERN, "--vocab-size", 2000, "--output", vocabulary]
    Engine("local", [], submit_from).beam_bpe(*learn)
    return {
        "count": ["count", corpus, "--pattern", PATTERN, "--shards", 16, "--output"],
        "train": ["train", corpus, "--train-on", "worker", "--vocab-size", 300_000, "--min-pair-count", 1, "--output"],
        "encode": ["encode", corpus, "--vocabulary", vocabulary, "--documents", "line", "--range-bytes", 100_000, "--output"],
    }


@pytest.fixture(scope="session")
def expected(arguments, submit_from, tmp_path_factory):
    """Return what an undisturbed local run leaves, by the name of what is run."""
    made = {}

    def of(what: str) -> dict[str, bytes]:
        if what not in made:
            folder = tmp_path_factory.mktemp(f"undisturbed-{what}") / "out"
            Engine("local", [], submit_from).beam_bpe(*arguments[what], folder)
            made[what] = contents(folder)
            assert not temporaries(folder)
        return made[what]

    return of


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of what stands under its own name."""
    found = {}
    for path in folder.rglob("*"):
        if not TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def temporaries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob(".*") if path.is_file())


def check_whole(folder: Path, wanted: dict[str, bytes]) -> None:
    """Whatever stands is what will stand in the end, the manifest only beside all that it names."""
    found = contents(folder)
    meanwhile = {"_parts/_job.json": b"{}\n", **wanted}
    assert [name for name, data in sorted(found.items()) if data != meanwhile.get(name)] == []
    for manifest in (name for name in found if name.endswith("_manifest.json")):
        names = re.findall(r'"name": "([^"]+\.parquet)"', found[manifest].decode())
        named = {(Path(manifest).parent / name).as_posix() for name in names}
        assert named and named <= contents(folder).keys()
    assert all(TEMPORARY.fullmatch(path.name) for path in temporaries(folder))


class Watch(threading.Thread):
    """Check that all is whole, again and again, while a job runs."""

    def __init__(self, folder: Path, wanted: dict[str, bytes]):
        super().__init__(daemon=True)
        self._folder, self._wanted, self._over = folder, wanted, threading.Event()
        self.looks, self.failure = 0, None

    def run(self) -> None:
        while not self._over.wait(0.1):
            try:
                check_whole(self._folder, self._wanted)
                self.looks += 1
            except AssertionError as failure:
                self.failure = failure
                return

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        if self.failure:
            raise self.failure


def at_work(when: str, corpus: Path, folder: Path):
    """Return (what is run, whether a process is at that work)."""
    return {
        "counting": ("count", killing.reads(corpus)),
        "writing": ("count", killing.Writes(folder, "part-")),
        "learning": ("train", killing.Learns(folder)),
        "encoding": ("encode", killing.Writes(folder, "part-")),
    }[when]


def kill(whom: str, engine: Engine, worker: int, job: Job) -> None:
    """Kill someone, given the SDK worker that was caught."""
    service = engine.service
    if whom == "worker":
        killing.kill(worker)
    elif whom == "submitter":
        killing.kill(job.pid)
    elif whom == "executor":
        killing.kill(killing.serving(worker, killing.executors(service)))
    elif whom == "daemon":  # with its executor
        executor = killing.serving(worker, killing.executors(service))
        os.killpg(next(daemon.group for daemon in service.daemons if executor in killing.members(daemon.group)), signal.SIGKILL)
    elif whom == "task manager":
        os.killpg(service.task_manager.group, signal.SIGKILL)
    killing.release(worker)


def repair(whom: str, engine: Engine) -> None:
    """Start again what was killed, as whoever runs a cluster would."""
    service = engine.service
    if whom == "daemon":
        killing.wait_for(lambda: service.alive() == service.workers - 1, "the loss of a Spark worker")
        dead = next(daemon for daemon in service.daemons if not killing.members(daemon.group))
        dead.again(lambda: service.alive() == service.workers)
    elif whom == "task manager":
        killing.wait_for(lambda: service.alive() == 0, "the loss of the task manager")
        service.task_manager.again(lambda: service.alive() == 1)
    elif whom == "submitter" and engine.name == "spark-local":  # whose only worker it was: the job waits for it for ever
        port = int(next(flag for flag in service.flags if "--job_endpoint" in flag).rpartition(":")[2])
        service.processes[0].again(lambda: services.listens(port))


# A Spark executor that keeps SDK workers for later stages also keeps one that was killed, and fails its tasks again.
FRESH = ["--environment_cache_millis=0"]
KILLED = [
    # (engine, whom, when, further flags, whether the job survives)
    ("flink-cluster", "worker", "writing", [], True),
    ("prism", "submitter", "writing", [], False),
    *(pytest.param(*case, marks=slow) for case in [
        ("processes", "worker", "counting", [], False),
        ("spark-cluster", "worker", "counting", FRESH, True),
        ("spark-cluster", "worker", "writing", FRESH, True),
        ("spark-cluster", "worker", "learning", FRESH, True),
        ("spark-cluster", "worker", "encoding", FRESH, True),
        ("spark-cluster", "executor", "counting", [], True),
        ("spark-cluster", "executor", "writing", [], True),
        ("spark-cluster", "executor", "learning", [], True),
        ("spark-cluster", "executor", "encoding", [], True),
        ("spark-cluster", "daemon", "counting", [], True),
        ("spark-cluster", "daemon", "writing", [], True),
        ("spark-cluster", "daemon", "learning", [], True),
        ("spark-cluster", "daemon", "encoding", [], True),
        ("flink-cluster", "worker", "counting", [], True),
        ("flink-cluster", "worker", "learning", [], True),
        ("flink-cluster", "worker", "encoding", [], True),
        ("flink-cluster", "task manager", "counting", [], True),
        ("flink-cluster", "task manager", "writing", [], True),
        ("flink-cluster", "task manager", "learning", [], True),
        ("flink-cluster", "task manager", "encoding", [], True),
        ("local", "submitter", "counting", [], False),
        ("local", "submitter", "encoding", [], False),
        ("prism", "submitter", "learning", [], False),
        ("prism", "submitter", "encoding", [], False),
        ("spark-local", "submitter", "writing", [], False),
    ]),
]


@pytest.mark.parametrize("engine, whom, when, flags, survives", KILLED, indirect=["engine"])
def test_killed(engine, whom, when, flags, survives, corpus, arguments, expected, tmp_path):
    out = tmp_path / "out"
    what, works = at_work(when, corpus, out)
    wanted = expected(what)
    with Watch(out, wanted) as watch, Job(engine, *arguments[what], out, more=flags) as job:
        worker = killing.catch(lambda: killing.sdk_workers(engine, job), works, job)
        kill(whom, engine, worker, job)
        repair(whom, engine)
        done = job.ended()
    assert watch.looks > 0
    assert (done.returncode == 0) == survives, f"{done.stdout}\n{done.stderr}\n{engine.service and engine.service.logs()}"
    if not survives:
        assert contents(out) != wanted
        if whom != "submitter":
            assert done.returncode == 1 and "the process of a worker was lost" in done.stderr
        done = run_again(engine, [*arguments[what], out])
    assert contents(out) == wanted
    if survives:
        assert temporaries(out) == []


def run_again(engine: Engine, words: list[object]) -> subprocess.CompletedProcess[str]:
    """Give the command once more; where words stand already, with what its message says."""
    with Job(engine, *words) as job:
        done = job.ended()
    if done.returncode:
        assert "already holds words; learn from them" in done.stderr
        done = engine.beam_bpe(*words, "--overwrite")
    return done


@pytest.mark.parametrize("engine", [pytest.param(name, marks=slow) for name in CLUSTERS], indirect=True)
def test_a_cluster_goes_on_without_the_submitter(engine, corpus, arguments, expected, tmp_path):
    out = tmp_path / "out"
    what, works = at_work("counting", corpus, out)
    wanted = expected(what)
    with Watch(out, wanted), Job(engine, *arguments[what], out) as job:
        worker = killing.catch(lambda: killing.sdk_workers(engine, job), works, job)
        killing.kill(job.pid)
        killing.release(worker)
        killing.wait_for(lambda: (out / "_manifest.json").exists(), "the manifest")
    killing.wait_for(lambda: not temporaries(out), "the end of the last step")
    assert contents(out) == wanted
    assert "already holds words" in engine.beam_bpe(*arguments[what], out, fails=True).stderr


def test_leftovers(workers, submit_from, corpus, arguments, expected, tmp_path):
    """A killed run leaves temporaries that carry its id; another run leaves them alone until they are a day old."""
    out = tmp_path / "out"
    local = Engine("local", [], submit_from)
    what, works = at_work("writing", corpus, out)
    with Job(local, *arguments[what], out) as job:
        killing.catch(lambda: killing.sdk_workers(local, job), works, job)
        killing.kill(job.pid)
        job.ended()
    left = temporaries(out)
    assert len({TEMPORARY.fullmatch(path.name)[1] for path in left}) == 1
    local.beam_bpe(*arguments[what], out)
    assert temporaries(out) == left  # that run may still write, for all that is known
    for path in left[1:]:
        path.unlink()
    os.utime(left[0], (time.time() - 2 * 86400,) * 2)
    local.beam_bpe(*arguments[what], out, "--overwrite")
    assert temporaries(out) == []
    assert contents(out) == expected(what)


def newest_job(flink: services.FlinkCluster) -> dict[str, Any]:
    return max(services.ask(flink.rest, "/jobs/overview")["jobs"], key=lambda job: job["start-time"])


INTERRUPTED = ["prism", *(pytest.param(name, marks=slow) for name in ("spark-local", "spark-cluster", "flink-cluster"))]


@pytest.mark.parametrize("engine", INTERRUPTED, indirect=True)
def test_interrupted(engine, corpus, arguments, expected, tmp_path):
    """After Ctrl-C the job is cancelled, and the message says what may still finish."""
    out, service = tmp_path / "out", engine.service
    what, works = at_work("counting", corpus, out)
    wanted = expected(what)
    # Beam's job server leaves a job on Flink alone: the command cancels it there, if it knows where that is.
    flags = [f"--flink_master={services.HOST}:{service.rest}"] if engine.name == "flink-cluster" else []
    with Watch(out, wanted), Job(engine, *arguments[what], out, more=flags) as job:
        worker = killing.catch(lambda: killing.sdk_workers(engine, job), works, job)
        os.kill(job.pid, signal.SIGINT)
        killing.release(worker)
        done = job.ended()
        assert done.returncode == 130, done.stderr
        assert "interrupted" in done.stderr and "may still finish" in done.stderr
        if engine.name == "flink-cluster":
            killing.wait_for(lambda: newest_job(service)["state"] == "CANCELED", "the end of the job")
        if engine.name == "spark-cluster":
            killing.wait_for(lambda: not services.ask(service.web, "/json/")["activeapps"], "the end of the job")
            killing.wait_for(lambda: not killing.executors(service), "the end of the executors")
    assert not (out / "_manifest.json").exists()


EVERYWHERE = [name if name == "prism" else pytest.param(name, marks=slow) for name in ENGINES]


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    """Return what went wrong, which is said in one line."""
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("beam-bpe: error: "), done.stderr
    return done.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A disk that holds 200 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("engine", EVERYWHERE, indirect=True)
def test_full_disk(engine, corpus, small_disk):
    """The error names the file, nothing stands under its own name, and the disk is left as it was."""
    out = small_disk / "out"
    done = engine.beam_bpe("count", corpus, "--shards", 1, "--output", out, fails=True)
    assert f"{out / 'part-00000-of-00001.parquet'}" in the_error(done) and os.strerror(28) in done.stderr
    assert not contents(out) and not temporaries(out)


@pytest.mark.parametrize("engine", EVERYWHERE, indirect=True)
def test_vanishing_input(engine, corpus, tmp_path):
    """A file that is gone when it is to be read is named."""
    (tmp_path / "in").mkdir()
    for name in ("stays.txt", "goes.txt"):
        (tmp_path / "in" / name).write_text("low lower newest widest\n" * 50)
    job = ["count", tmp_path / "in", "--output", tmp_path / "out"]
    program = [prepare.worker_bin("python"), PIPELINES / "vanishing.py", tmp_path / "in" / "goes.txt"]
    with Job(engine, *job, program=program) as running:
        done = running.ended()
    assert str(tmp_path / "in" / "goes.txt") in the_error(done) and os.strerror(2) in done.stderr
    assert not contents(tmp_path / "out")


@pytest.mark.parametrize("engine", EVERYWHERE, indirect=True)
def test_poisoned_inputs(engine, corpus, submit_from, tmp_path):
    """A truncated .gz and a broken Parquet file: one of them is named, or both are set aside, counted."""
    folder = tmp_path / "in"
    folder.mkdir()
    text = (corpus / "00.txt").read_bytes()
    (folder / "good.txt").write_bytes(text)
    packed = gzip.compress(b"".join(json.dumps({"text": line}).encode() + b"\n" for line in text.decode().split("\n")))
    (folder / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    pq.write_table(pa.table({"text": text.decode().split("\n")}), folder / "broken.parquet")
    whole = (folder / "broken.parquet").read_bytes()
    (folder / "broken.parquet").write_bytes(whole[: len(whole) // 2])
    done = engine.beam_bpe("count", folder, "--output", tmp_path / "out", fails=True)
    error = the_error(done)
    assert f"{folder / 'cut.jsonl.gz'}: truncated" in error or f"{folder / 'broken.parquet'} is not a whole Parquet file" in error
    assert "--errors skip sets it aside" in error
    assert not contents(tmp_path / "out")

    engine.beam_bpe("count", folder, "--output", tmp_path / "out", "--errors", "skip")
    assert json.loads((tmp_path / "out" / "_manifest.json").read_text())["totals"]["skipped_documents"] == 2
    letters = [json.loads(line) for path in (tmp_path / "out" / "rejected").iterdir() for line in path.read_text().splitlines()]
    assert sorted(letter["source"] for letter in letters) == [str(folder / "broken.parquet"), str(folder / "cut.jsonl.gz")]
    Engine("local", [], submit_from).beam_bpe("count", folder / "good.txt", "--output", tmp_path / "good")
    good, found = (WordCounts.read(str(tmp_path / name)).to_dict() for name in ("good", "out"))
    assert good == found
