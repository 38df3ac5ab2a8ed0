"""Catch processes in the middle of their work, and kill them there: by what /proc tells of them (Linux).

A process is stopped (SIGSTOP) as soon as it is seen at work, and looked at once more: whoever is killed then was in
the middle of it, however busy the machine is.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterable

import prepare
import services
from submitting import JOB_SECONDS, Engine

#: Names of what storage.write has not published yet, and what they carry: the id of their run.
TEMPORARY = re.compile(r"\..*\.([0-9a-f]{16})-[0-9a-f]{8}\.tmp")


class Missed(AssertionError):
    """Nobody was caught at that work."""


class Job:
    """`beam-bpe ARGUMENTS -- FLAGS` on an engine, while it runs; killed when the block ends, if it still runs.

    Args:
        more: further flags.
        program: what is run instead of `beam-bpe`.
    """

    def __init__(self, engine: Engine, *arguments: object, more: Iterable[str] = (), program: Iterable[object] = ()):
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        flags = [*engine.flags, *more]
        self.words = [str(word) for word in (*arguments, *(["--", *flags] if flags else []))]
        self._engine = engine
        self._process = subprocess.Popen(
            [*(program or [prepare.worker_bin("beam-bpe")]), *self.words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=engine.folder,
            env={**kept, **engine.variables},
            start_new_session=True,
        )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def runs(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end and return what came of it."""
        try:
            out, err = self._process.communicate(timeout=JOB_SECONDS)
        except subprocess.TimeoutExpired:
            logs = self._engine.service.logs() if self._engine.service else ""
            raise AssertionError(f"{self.words} still runs after {JOB_SECONDS} s\n{logs}") from None
        return subprocess.CompletedProcess(self.words, self._process.returncode, out, err)


def members(*groups: int) -> list[int]:
    """Return the processes of process groups, without those that have ended and that nobody has waited for."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = _fields(int(path.parent.name))
            if int(fields[2]) in groups and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process; nothing if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def sdk_workers(engine: Engine, job: Job) -> list[int]:
    """Return the processes in which our code runs for a job: of the pool, or the submitting process and its children."""
    pool = getattr(engine.service, "pool", None)
    if pool is None:
        return members(job.pid)
    return [pid for pid in members(pool.processes[0].group) if "SdkHarness" in command_of(pid)]


def executors(cluster: services.SparkCluster) -> list[int]:
    """Return the executors of all Spark workers."""
    groups = [daemon.group for daemon in cluster.daemons]
    return [pid for pid in members(*groups) if "CoarseGrainedExecutorBackend" in command_of(pid)]


def serving(worker: int, servers: Iterable[int]) -> int:
    """Return the process among `servers` that an SDK worker takes its work from: that listens at its control endpoint."""
    port = int(re.search(r'SdkHarness\("[^"]*:(\d+)"', command_of(worker))[1])
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return next(pid for pid in servers if inodes & set(open_files(pid)))


def open_files(pid: int) -> list[str]:
    """Return what a process has open; nothing if it is gone."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def reads(folder: Path) -> Callable[[int], bool]:
    """Return whether a process has a file of a folder open under its own name."""
    return lambda pid: any(Path(name).parent == folder and not TEMPORARY.fullmatch(Path(name).name) for name in open_files(pid))


class Writes:
    """Whether a process is writing a file of a folder, whose name begins so and is not published yet."""

    def __init__(self, folder: Path, start: str):
        self._folder, self._start = folder, f".{start}"

    def glimpse(self) -> bool:
        """Whether anybody is."""
        with contextlib.suppress(FileNotFoundError):
            return any(name.startswith(self._start) for name in os.listdir(self._folder))
        return False

    def __call__(self, pid: int) -> bool:
        paths = [Path(name) for name in open_files(pid)]
        return any(p.parent == self._folder and p.name.startswith(self._start) and TEMPORARY.fullmatch(p.name) for p in paths)


class Learns:
    """Whether a process is learning into a folder: its words stand, no merges do, and the process computes."""

    def __init__(self, folder: Path):
        self._folder, self._before = folder, {}

    def __call__(self, pid: int) -> bool:
        if not (self._folder / "words" / "_manifest.json").exists() or (self._folder / "merges.parquet").exists():
            return False
        with contextlib.suppress(OSError):
            if "/beam_bpe/_merge" in Path(f"/proc/{pid}/maps").read_text():  # else it is still importing
                ticks = sum(map(int, _fields(pid)[11:13]))
                return ticks - self._before.setdefault(pid, ticks) >= 30  # of a hundredth of a second of CPU
        return False


def catch(pids: Callable[[], list[int]], works: Callable[[int], bool], job: Job) -> int:
    """Stop the first process that is at that work, and still is when it stands still; return its id.

    Work that is soon done has a `glimpse`, which sees it without asking each process: then all are stopped at once.
    """
    until = time.monotonic() + JOB_SECONDS
    glimpse = getattr(works, "glimpse", None)
    known, seen = pids(), time.monotonic()
    while time.monotonic() < until:
        if glimpse is None or glimpse():
            suspects = stop(*known) if glimpse else [pid for pid in known if works(pid)]
            caught = next((pid for pid in stop(*suspects) if works(pid)), None)
            release(*(pid for pid in suspects if pid != caught))
            if caught is not None:
                return caught
        if time.monotonic() - seen > 0.2:
            if not job.runs():
                done = job.ended()
                raise Missed(f"the job ended with {done.returncode} before anybody was caught:\n{done.stdout}\n{done.stderr}")
            known, seen = pids(), time.monotonic()
        time.sleep(0.0002)
    raise Missed(f"nobody was caught within {JOB_SECONDS} s")


def stop(*pids: int) -> list[int]:
    """Let processes stand still, wait until they do, and return those that are still there."""
    for pid in pids:
        _signal(pid, signal.SIGSTOP)
    standing = []
    for pid in pids:
        with contextlib.suppress(OSError):
            while _fields(pid)[0] not in "TZ":
                time.sleep(0.0002)
            standing.append(pid)
    return standing


def kill(*pids: int) -> None:
    """End processes as the kernel does that is out of memory."""
    for pid in pids:
        _signal(pid, signal.SIGKILL)


def release(*pids: int) -> None:
    """Let processes that stand still go on."""
    for pid in pids:
        _signal(pid, signal.SIGCONT)


def _signal(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


def _fields(pid: int) -> list[str]:
    """Return what /proc/PID/stat tells, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Wait until something is true."""
    until = time.monotonic() + JOB_SECONDS
    while not true():
        assert time.monotonic() < until, f"{what} did not come within {JOB_SECONDS} s"
        time.sleep(0.05)
