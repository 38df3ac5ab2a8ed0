"""Run a program as a process of its own and tell what it took: wall time, CPU time, peak memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
Figure = Callable[["Run"], float]


class ProgramFailed(RuntimeError):
    """A measured program ended with an error or ran out of time."""


@dataclass(frozen=True)
class Run:
    """What one process took.

    Attributes:
        wall: seconds from its start to its end.
        cpu: seconds of user and system time, its own children included.
        rss: peak resident memory in bytes.
        answer: the JSON object of its last line of output, if that is one.
        stderr: what it wrote there.
    """

    wall: float
    cpu: float
    rss: int
    answer: Mapping[str, Any]
    stderr: str


def measure(argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None) -> Run:
    """Run a program and measure it.

    The parent must stay small: the kernel counts the memory of a process before `exec` as its own.

    Raises:
        ProgramFailed: it ended with an error, or after `timeout` seconds.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        process = subprocess.Popen(list(argv), stdout=out, stderr=err, env=environment(env), cwd=tempfile.gettempdir())
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), process.kill())) if timeout else None
        if timer:
            timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        finally:
            if timer:
                timer.cancel()
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if process.returncode:
        why = f"took more than {timeout:g} s" if late.is_set() else f"ended with {process.returncode}: {stderr[-2000:]}"
        raise ProgramFailed(f"{' '.join(map(str, argv[1:4]))} {why}")
    lines = stdout.strip().splitlines()
    answer = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, answer, stderr)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a child: the package is found there as it is here."""
    env = {**os.environ, **(more or {})}
    if not any((Path(folder) / "beam_bpe").is_dir() for folder in _site_folders()):
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    return env


def _site_folders() -> list[str]:
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


left_out: set[str] = set()  # peers not to be run (--without)


def installed(package: str) -> bool:
    """Whether a peer can be imported and is wanted."""
    return package not in left_out and find_spec(package) is not None


def program(name: str, *arguments: object, **options: Any) -> Callable[[], Run]:
    """Return a call that measures a program of this folder, such as program("ours", "count", path)."""
    argv = [sys.executable, str(HERE / f"{name}.py"), *map(str, arguments)]
    return lambda: measure(argv, **options)


def beam_bpe(*arguments: object) -> Callable[[], Run]:
    """Return a call that measures the command beam-bpe as a whole process."""
    argv = [sys.executable, "-m", "beam_bpe", *map(str, arguments)]
    return lambda: measure(argv, env={"PYTHONSAFEPATH": "1"})


def alternate(rounds: int, programs: Mapping[str, Callable[[], Run]]) -> dict[str, list[Run]]:
    """Run programs in turn, A B A B …, so that a slow minute of the machine hits all of them."""
    runs: dict[str, list[Run]] = {name: [] for name in programs}
    for done in range(rounds):
        for name, call in programs.items():
            say(f"round {done + 1} of {rounds}: {name}")
            runs[name].append(call())
    return runs


def wall(run: Run) -> float:
    """Seconds of the whole process."""
    return run.wall


def cpu(run: Run) -> float:
    """CPU seconds of the whole process."""
    return run.cpu


def seconds(run: Run) -> float:
    """Seconds that the program measured inside itself."""
    return float(run.answer["seconds"])


def cpu_seconds(run: Run) -> float:
    """CPU seconds of the same."""
    return float(run.answer["cpu"]["seconds"])


def least(runs: Sequence[Run], figure: Figure) -> float:
    """Return the smallest figure: what the machine can do when nobody disturbs it."""
    return min(map(figure, runs))


def middle(runs: Sequence[Run], figure: Figure) -> float:
    """Return the median figure."""
    return statistics.median(map(figure, runs))


def say(text: str) -> None:
    """Tell on the terminal what is being done; tables go to standard output."""
    if sys.stderr.isatty() or os.environ.get("BENCHMARK_PROGRESS"):
        print(f"  … {text}", file=sys.stderr, flush=True)
