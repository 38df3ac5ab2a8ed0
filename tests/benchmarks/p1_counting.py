"""P1: scanning and counting words in one thread, and what the local pipeline keeps of that rate."""

from __future__ import annotations

from bench import Bench
from report import Claim, both, rate
from timing import Run, alternate, beam_bpe, cpu_seconds, installed, least, middle, program, seconds, wall

PATTERNS = ("gpt2", "cl100k", "o200k", "llama3")
#: 150 MB/s where gigabpe's two threads do 75 to 90.
MUST_OVER_GIGABPE = 150 / 82.5
MUST_OF_KERNEL = 0.8


def counting(run: Run) -> float:
    """Seconds of a peer's counting phase."""
    return float(run.answer["count"])


def counting_cpu(run: Run) -> float:
    """CPU seconds of the same, of all its threads."""
    return float(run.answer["cpu"]["count"])


def with_reading(run: Run) -> float:
    """Seconds of our counting with reading and checking the file."""
    return float(run.answer["seconds"] + run.answer["reading"] + run.answer["checking"])


def run(bench: Bench) -> None:
    """Measure P1."""
    bench.report.heading("P1", "scan and count")
    english = bench.corpora.path("english.txt")
    _against_peers(bench, english)
    _by_pattern(bench)
    _pipeline(bench)


def _against_peers(bench: Bench, english) -> None:
    report, size = bench.report, english.stat().st_size
    programs = {
        "beam_bpe cl100k, 1 thread": program("ours", "count", english, "cl100k"),
        "beam_bpe gpt2, 1 thread": program("ours", "count", english, "gpt2"),
    }
    if installed("gigabpe"):
        for threads in (2, 1):
            programs[f"gigabpe gpt2, threads={threads}"] = program("peers", "gigabpe", english, 256, "--threads", threads)
    runs = alternate(bench.rounds, programs)
    if installed("rustbpe"):
        more = ("--threads", 1, "--pattern", "cl100k")
        runs["rustbpe cl100k, 1 thread"] = [program("peers", "rustbpe", english, 256, *more)()]
    if installed("tokenizers"):
        runs["tokenizers gpt2, 1 thread"] = [program("peers", "tokenizers", english, 256, "--threads", 1)()]
    most = 2_000_000 if bench.quick else 8_000_000
    python = program("ours", "python_count", english, "cl100k", most)()
    rows = []
    for name, measured in runs.items():
        if name.startswith("beam_bpe"):
            whole, figure, spent = with_reading, seconds, cpu_seconds
        else:
            whole, figure, spent = seconds, counting, counting_cpu
        rows.append(
            [
                name,
                rate(size, least(measured, figure), middle(measured, figure)),
                f"{size / least(measured, spent) / 1e6:.0f}",
                rate(size, least(measured, whole), middle(measured, whole)),
            ]
        )
    speed, by_cpu = (python.answer["bytes"] / figure(python) / 1e6 for figure in (seconds, cpu_seconds))
    rows.append(["Python regex + Counter, cl100k", f"{speed:.0f}", f"{by_cpu:.0f}", ""])
    report.table(
        f"English, {size / 1e6:.0f} MB: best (median) MB/s",
        ["", "count", "MB per CPU second", "all that it does"],
        rows,
    )
    report.note(
        "beam_bpe: `count` = scan and count 8 MiB ranges in memory; all = with reading and checking UTF-8. "
        "Peers: `count` = their own phase up to the table of words, reading included; all = the call at vocab_size "
        "256, which for them includes the first counts of pairs."
    )
    ours = runs["beam_bpe cl100k, 1 thread"]
    peer = runs.get("gigabpe gpt2, threads=2")
    must = f"≥ {MUST_OVER_GIGABPE:.2f} × gigabpe's two threads (150 against 75–90 MB/s)"
    what = "scan + count, English, cl100k, one thread"
    speed = size / least(ours, seconds) / 1e6
    if peer is None:
        report.claim(Claim("P1", what, f"{speed:.0f} MB/s", "not installed", None, must, None))
        return
    by_cpu = least(peer, counting_cpu) / least(ours, cpu_seconds)
    report.note(f"By CPU seconds, all threads summed, our counting takes 1/{by_cpu:.1f} of gigabpe's.")
    for label, figure in (("its counting phase", counting), ("its whole call", seconds)):
        ratio = least(peer, figure) / least(ours, seconds)
        theirs = f"{size / least(peer, figure) / 1e6:.0f} MB/s ({label})"
        report.claim(Claim("P1", what, f"{speed:.0f} MB/s", theirs, ratio, must, ratio >= MUST_OVER_GIGABPE))


def _by_pattern(bench: Bench) -> None:
    rows, by_cpu = [], []
    paths = {
        "English": bench.corpora.path("english.txt"),
        "Chinese": bench.corpora.path("chinese.txt"),
        "code": bench.corpora.path("code.txt"),
        "mixed": bench.mixed,
    }
    for text, path in paths.items():
        size = path.stat().st_size
        runs = alternate(bench.rounds, {pattern: program("ours", "count", path, pattern) for pattern in PATTERNS})
        speeds = [rate(size, least(runs[p], seconds), middle(runs[p], seconds)) for p in PATTERNS]
        distinct = runs["o200k"][0].answer["distinct"]
        rows.append([f"{text}, {size / 1e6:.0f} MB", *speeds, f"{distinct:,}"])
        by_cpu.append([text, *(f"{size / least(runs[p], cpu_seconds) / 1e6:.0f}" for p in PATTERNS)])
    bench.report.table(
        "Kernel, one thread, best (median) MB/s", ["text", *PATTERNS, "distinct words (o200k)"], rows
    )
    bench.report.table("The same, MB per CPU second", ["text", *PATTERNS], by_cpu)


def _pipeline(bench: Bench) -> None:
    report, mixed, tiny = bench.report, bench.mixed, bench.corpora.path("tiny.txt")
    size = mixed.stat().st_size

    def command(path):
        return beam_bpe(
            "count", path, "-o", bench.scratch / "p1", "--pattern", "cl100k", "--workers", 1, "--overwrite"
        )

    runs = alternate(
        bench.rounds,
        {
            "kernel": program("ours", "count", mixed, "cl100k"),
            "stages": program("ours", "stages", mixed, "cl100k"),
            "start": command(tiny),
            "command": command(mixed),
            "counting": program("ours", "counting_phase", mixed, "cl100k", 1, bench.scratch / "p1-counting"),
        },
    )
    start, whole = runs["start"], runs["command"]
    alone = max(least(whole, wall) - least(start, wall), 1e-3)
    alone_median = middle(whole, wall) - middle(start, wall)
    kernel = least(runs["kernel"], seconds)
    counting = least(runs["counting"], counting_seconds)
    rows = [
        ["kernel (scan and count)", both(kernel, middle(runs["kernel"], seconds)), f"{size / kernel / 1e6:.0f}"],
        _row("the same with reading and checking", runs["kernel"], with_reading, size),
        _row("all that the job does, without Beam", runs["stages"], seconds, size),
        _row("counting itself, in the pipeline", runs["counting"], counting_seconds, size),
        ["`count`, whole process", both(least(whole, wall), middle(whole, wall)), f"{size / least(whole, wall) / 1e6:.0f}"],
        ["its start (1 KB)", both(least(start, wall), middle(start, wall)), ""],
        ["`count` without its start", both(alone, alone_median), f"{size / alone / 1e6:.0f}"],
    ]
    report.table(f"Local pipeline, one worker, mixed {size / 1e6:.0f} MB, cl100k", ["", "s", "MB/s"], rows)
    best = min(runs["stages"], key=seconds).answer["stages"]
    report.table("Its stages, without Beam", ["stage", "s"], [[name, f"{took:.2f}"] for name, took in best.items()])
    plain = least(runs["stages"], seconds)
    report.note(f"The same work without Beam takes {plain / alone:.2f} of the time of `count` without its start.")
    report.note(f"With sorting, summing and Parquet, `count` without its start keeps {kernel / alone:.2f} of the kernel's rate.")
    ratio = kernel / counting
    report.claim(
        Claim(
            "P1",
            f"counting itself in the local pipeline, {size / 1e6:.0f} MB",
            f"{size / counting / 1e6:.0f} MB/s",
            f"{size / kernel / 1e6:.0f} MB/s (kernel)",
            ratio,
            f"≥ {MUST_OF_KERNEL} of the kernel's rate",
            ratio >= MUST_OF_KERNEL,
        )
    )


def counting_seconds(run):
    """Seconds from the first batch read to the last one counted, in the pipeline."""
    return float(run.answer["counting"])


def _row(name, runs, figure, size):
    return [name, both(least(runs, figure), middle(runs, figure)), f"{size / least(runs, figure) / 1e6:.0f}"]
