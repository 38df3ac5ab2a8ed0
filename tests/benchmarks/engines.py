"""What counting costs on each engine, against the kernel alone, and what a large job is planned from.

It needs what `python tests/engines/prepare.py` prepares; an engine that is not prepared is left out.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from bench import Bench
from report import Claim, both
from timing import ROOT, Run, cpu_seconds, least, measure, middle, program, say, seconds, wall

sys.path.insert(0, str(ROOT / "tests" / "engines"))

import prepare  # noqa: E402
import services  # noqa: E402

PATTERN = "o200k"
LINKS = 16  # times the text is counted where executors are compared
MUST_HOURS = 25  # core-hours to scan and count 10 TB
PROCESSES = ("--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2")


@dataclass(frozen=True)
class Place:
    """Where the command counts: the part that must be prepared, how to start it, options of the command, Beam's flags."""

    name: str
    part: str | None = None
    start: Callable[[Path], services.Service] | None = None
    options: tuple[object, ...] = ()
    flags: tuple[str, ...] = ()


def _spark(workers: int) -> Callable[[Path], services.Service]:
    return lambda folder: services.SparkCluster(folder, workers=workers, cores=1, parallelism=3 * workers)


ONE, TWO = "Spark cluster, one executor of one core", "Spark cluster, two executors of one core"
PLACES = (
    Place("local, one worker", options=("--workers", 1)),
    Place("local, two threads", options=("--workers", 2)),
    Place("local, two processes", flags=PROCESSES),
    Place("Prism", "prism", services.PrismJobServer),
    Place("Spark `local[2]`", "spark", services.SparkLocal),
    Place(ONE, "spark", _spark(1)),
    Place(TWO, "spark", _spark(2)),
    Place("Flink cluster, two slots", "flink", lambda folder: services.FlinkCluster(folder, slots=2)),
)


def run(bench: Bench) -> None:
    """Measure the engines."""
    report = bench.report
    report.heading("engines", "counting on each engine")
    if reason := prepare.absent("workers"):
        report.note(f"Nothing is measured: {reason}")
        return
    prepare.prepare_workers()
    text, tiny = bench.mixed, bench.corpora.path("tiny.txt")
    size = text.stat().st_size
    kernel = [program("ours", "count", text, PATTERN)() for _ in range(max(2, bench.rounds))]
    alone = f"{least(kernel, seconds):.2f}"
    rows = [["the kernel, one thread", "", "", alone, "", f"{least(kernel, cpu_seconds):.1f}", "1.0"]]
    for place in PLACES:
        if place.part and (reason := prepare.absent(place.part)):
            report.note(f"{place.name} is left out: {reason}")
            continue
        whole, begun = _measured(bench, place, text, tiny)
        alone = least(whole, wall) - least(begun, wall)
        spent = least(whole, _spent) - least(begun, _spent)
        rows.append(
            [
                place.name,
                both(least(whole, wall), middle(whole, wall), 1),
                both(least(begun, wall), middle(begun, wall), 1),
                f"{alone:.2f}",
                f"{least(whole, _spent):.1f}",
                f"{spent:.1f}",
                f"{spent / least(kernel, cpu_seconds):.1f}",
            ]
        )
    columns = ["", "whole job, s", "of it start and end (1 KB)", "the rest, s", "CPU s", "CPU without start", "of the kernel's"]
    report.table(f"`count` of {size / 1e6:.0f} MB, {PATTERN}, CPU of all processes of the engine: best (median)", columns, rows)
    if not prepare.absent("spark"):
        _executors(bench, text, tiny)
    _tables(bench)


def _executors(bench: Bench, text: Path, tiny: Path) -> None:
    """Measure two executors against one, with so much text that it takes longer than the start, which varies by seconds."""
    folder = bench.scratch / "many"
    folder.mkdir()
    for number in range(LINKS):
        (folder / f"{number:02}.txt").symlink_to(text)
    rows, alone = [], {}
    for place in (place for place in PLACES if place.name in (ONE, TWO)):
        whole, begun = _measured(bench, place, folder, tiny)
        alone[place.name] = least(whole, wall) - least(begun, wall)
        times = [both(least(runs, wall), middle(runs, wall), 1) for runs in (whole, begun)]
        rows.append([place.name, *times, f"{alone[place.name]:.1f}", f"{least(whole, _spent) - least(begun, _spent):.1f}"])
    size = LINKS * text.stat().st_size
    columns = ["", "whole job, s", "of it start and end (1 KB)", "the rest, s", "CPU without start"]
    bench.report.table(f"`count` of {size / 1e9:.1f} GB, the same text {LINKS} times: best (median)", columns, rows)
    bench.report.note(f"Two executors are {alone[ONE] / alone[TWO]:.2f} times as fast as one, start and end left out.")


def _spent(run: Run) -> float:
    return float(run.answer["cpu"])


def _measured(bench: Bench, place: Place, text: Path, tiny: Path) -> tuple[list[Run], list[Run]]:
    """Count the text and the tiny text on an engine; `cpu` of the answers is that of all its processes."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        service = stack.enter_context(place.start(Path(folder) / "engine")) if place.start else None
        flags = [*place.flags, *(service.flags if service else ())]

        def count(path: Path) -> Run:
            command = [prepare.worker_bin("beam-bpe"), "count", path, "-o", Path(folder) / "out", "--overwrite"]
            command += ["--pattern", PATTERN, *place.options, *(["--", *flags] if flags else [])]
            before = service.cpu_seconds() if service else 0.0
            run = measure([str(word) for word in command], timeout=900)
            more = service.cpu_seconds() - before if service else 0.0
            return Run(run.wall, run.cpu, run.rss, {"cpu": run.cpu + more}, run.stderr)

        count(tiny)  # the first job of a cluster starts more than the others do
        runs: tuple[list[Run], list[Run]] = ([], [])
        for done in range(bench.rounds):
            say(f"round {done + 1} of {bench.rounds}: {place.name}")
            for found, path in zip(runs, (text, tiny)):
                found.append(count(path))
        return runs


def _tables(bench: Bench) -> None:
    """Measure the bytes that tables take on their way, and what each step costs, by the text of a bundle."""
    size = bench.mixed.stat().st_size
    rows = []
    for bundle in [*([8] if bench.quick else [8, 32, 128]), size >> 20]:
        found = program("ours", "tables", bench.mixed, PATTERN, bundle << 20)().answer
        rows.append(
            [
                "all in one" if bundle == size >> 20 else f"{bundle} MiB",
                f"{found['packed'] / size:.3f}",
                f"{found['distinct'] / found['tables']:,.0f}",
                f"{found['packed'] / found['distinct']:.1f}",
                f"{found['memory'] / found['distinct']:.0f}",
                *(f"{size / found['cpu'][step] / 1e6:.0f}" for step in ("count", "pack", "merge")),
            ]
        )
    columns = ["text of a bundle", "shuffled bytes a byte of text", "distinct words a table", "bytes a word, packed", "in memory"]
    hours = 1e13 / size * found["cpu"]["count"] / 3600  # the last, and slowest: one table of all
    what, must = "core-hours to scan and count 10 TB, from the rate above", f"≤ {MUST_HOURS}"
    bench.report.claim(Claim("engines", what, f"{hours:.1f}", "", hours, must, hours <= MUST_HOURS))
    columns += [f"{step}, MB of text a CPU second" for step in ("scan and count", "sort and pack", "merge")]
    bench.report.table(f"Packed tables of {size / 1e6:.0f} MB, {PATTERN}", columns, rows)
