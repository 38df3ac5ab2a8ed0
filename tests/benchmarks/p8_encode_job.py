"""P8: `beam-bpe encode` of Parquet into Parquet with local Beam, against its kernel; its stages and its memory."""

from __future__ import annotations

from bench import Bench
from p3_job import memory
from report import Claim, both
from timing import Run, alternate, beam_bpe, cpu, cpu_seconds, least, middle, program, seconds, wall

ENCODING = "cl100k_base"
MUST_OF_KERNEL = 0.6
MUST_GROWTH = 1.1
STAGES = ("read", "encode", "write")


def phase(run: Run) -> float:
    """Seconds from the first range begun to the last shard closed."""
    return float(run.answer["encoding"])


def phase_cpu(run: Run) -> float:
    """CPU seconds of the process in the same time."""
    return float(run.answer["cpu"]["encoding"])


def workers_of(bench: Bench) -> tuple[int, ...]:
    """Return how many local workers are tried."""
    return (1,) if bench.quick else (1, 2)


def run(bench: Bench) -> None:
    """Measure P8."""
    report = bench.report
    report.heading("P8", "the encoding job")
    groups = (2, 4, 8) if bench.quick else (16, 32, 64)  # row groups of 6 MB
    paths = {number: bench.corpora.path(f"documents-{number}.parquet") for number in groups}
    vocabulary = bench.corpora.path(f"vocabulary-{ENCODING}")
    middle_one = paths[groups[1]]

    def command(path, workers: int):
        out = bench.scratch / f"p8-{workers}"
        return beam_bpe("encode", path, "-v", vocabulary, "-o", out, "--workers", workers, "--overwrite")

    programs = {"kernel": program("ours", "encode_kernel", middle_one, vocabulary)}
    for workers in workers_of(bench):
        out = bench.scratch / f"p8-phase-{workers}"
        programs[f"phase {workers}"] = program("ours", "encode_phase", middle_one, vocabulary, workers, out)
        programs[f"command {workers}"] = command(middle_one, workers)
    runs = alternate(min(bench.rounds, 2), programs)
    kernel = runs["kernel"]
    size = kernel[0].answer["bytes"]
    rows = [_row("kernel (encode_documents), one thread", kernel, seconds, cpu_seconds, size)]
    for workers in workers_of(bench):
        rows.append(_row(f"while encoding, {workers} at a time", runs[f"phase {workers}"], phase, phase_cpu, size))
    for workers in workers_of(bench):
        rows.append(_row(f"`encode --workers {workers}`, whole process", runs[f"command {workers}"], wall, cpu, size))
    report.table(
        f"{size / 1e6:.0f} MB of text in Parquet → Parquet, {ENCODING}: best (median)",
        ["", "s of the wall", "MB/s", "CPU s", "MB a CPU second"],
        rows,
    )
    _stages(bench, runs)
    for workers in workers_of(bench):
        measured = runs[f"phase {workers}"]
        by_cpu = least(kernel, cpu_seconds) / least(measured, phase_cpu)
        by_wall = least(kernel, seconds) / least(measured, phase)
        what = f"while encoding {size / 1e6:.0f} MB, {workers} worker{'s' if workers > 1 else ''}"
        rates = [f"{size / took / 1e6:.1f} MB/CPU s" for took in (least(measured, phase_cpu), least(kernel, cpu_seconds))]
        must, reached = "reported", None
        if workers == 1:
            must, reached = f"≥ {MUST_OF_KERNEL} of the kernel's rate, by CPU seconds", by_cpu >= MUST_OF_KERNEL
        report.claim(Claim("P8", what, rates[0], f"{rates[1]} (kernel)", by_wall, must, reached, by_cpu))
    _memory(bench, command, paths, groups, size, runs)


def _row(name: str, runs: list[Run], figure, cpu_figure, size: int) -> list[str]:
    took, spent = least(runs, figure), least(runs, cpu_figure)
    return [
        name,
        both(took, middle(runs, figure)),
        f"{size / took / 1e6:.1f}",
        both(spent, middle(runs, cpu_figure)),
        f"{size / spent / 1e6:.1f}",
    ]


def _stages(bench: Bench, runs) -> None:
    rows = []
    for workers in workers_of(bench):
        best = min(runs[f"phase {workers}"], key=phase_cpu)
        stages = best.answer["stages"]
        rest = phase_cpu(best) - sum(stages[name]["cpu"] for name in STAGES)
        spent = [f"{stages[name]['cpu']:.2f} ({stages[name]['seconds']:.2f})" for name in STAGES]
        rows.append([f"{workers}", *spent, f"{rest:.2f}", f"{phase_cpu(best):.2f} ({phase(best):.2f})"])
    bench.report.table(
        "Its stages: CPU s (s of the wall, summed over threads)",
        ["at a time", *STAGES, "the rest, and other threads", "all"],
        rows,
    )


def _memory(bench: Bench, command, paths, groups, size: int, runs) -> None:
    rows = []
    for workers in workers_of(bench):
        peaks = []
        for number, path in paths.items():
            measured = runs[f"command {workers}"] if number == groups[1] else [command(path, workers)()]
            peaks.append(memory(measured))
        rows.append([f"{workers}", *(f"{peak / 1e6:.0f}" for peak in peaks)])
        growth = max(peaks[1:]) / peaks[0]
        what = f"peak memory, {_size(size, groups, 0)} → {_size(size, groups, 2)}, {workers} at a time"
        took = " → ".join(f"{peak / 1e6:.0f}" for peak in peaks) + " MB"
        must = f"≤ {MUST_GROWTH} × that of the smallest"
        bench.report.claim(Claim("P8", what, took, "", growth, must, growth <= MUST_GROWTH))
    sizes = [_size(size, groups, number) for number in range(len(groups))]
    bench.report.table("Peak RSS of the whole process, MB", ["workers", *sizes], rows)


def _size(size: int, groups, number: int) -> str:
    return f"{size * groups[number] / groups[1] / 1e6:.0f} MB"
