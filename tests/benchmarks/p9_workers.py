"""P9: two local workers against one, counting the same text."""

from __future__ import annotations

from bench import Bench
from report import Claim, both
from p1_counting import counting_seconds
from timing import alternate, beam_bpe, cpu, least, middle, program, wall

PATTERN = "o200k"
MUST = 1.8


def run(bench: Bench) -> None:
    """Measure P9."""
    report = bench.report
    report.heading("P9", "two workers against one")
    text = bench.corpora.path("mixed-20m-twice.txt" if bench.quick else "mixed-twice.txt")
    tiny = bench.corpora.path("tiny.txt")
    size = text.stat().st_size

    def count(path, workers):
        out = bench.scratch / f"p9-{workers}"
        return beam_bpe("count", path, "-o", out, "--pattern", PATTERN, "--workers", workers, "--overwrite")

    programs = {}
    for workers in (1, 2):
        programs[f"{workers}"] = count(text, workers)
        programs[f"start {workers}"] = count(tiny, workers)
        counted = bench.scratch / f"p9-counting-{workers}"
        programs[f"counting {workers}"] = program("ours", "counting_phase", text, PATTERN, workers, counted)
    runs = alternate(bench.rounds, programs)
    alone, alone_median, spent = {}, {}, {}
    rows = []
    for workers in (1, 2):
        whole, start = runs[f"{workers}"], runs[f"start {workers}"]
        alone[workers] = max(least(whole, wall) - least(start, wall), 1e-3)
        alone_median[workers] = middle(whole, wall) - middle(start, wall)
        spent[workers] = max(least(whole, cpu) - least(start, cpu), 1e-3)
        rows.append(
            [
                workers,
                both(least(whole, wall), middle(whole, wall)),
                both(least(start, wall), middle(start, wall)),
                both(alone[workers], alone_median[workers]),
                f"{size / alone[workers] / 1e6:.0f}",
                f"{least(whole, cpu):.1f}",
                f"{spent[workers]:.1f}",
                f"{max(one.rss for one in whole) / 1e6:.0f}",
            ]
        )
    report.table(
        f"`count` of {size / 1e6:.0f} MB, {PATTERN}: best (median) s",
        ["workers", "whole process", "its start (1 KB)", "counting alone", "MB/s", "CPU s", "CPU alone", "peak RSS, MB"],
        rows,
    )
    whole_ratio = least(runs["1"], wall) / least(runs["2"], wall)
    report.note(
        f"The whole process is {whole_ratio:.2f} times as fast with two workers. By CPU seconds alone, counting could "
        f"be {2 * spent[1] / spent[2]:.2f} times as fast at the most: two workers spend "
        f"{spent[2] / spent[1]:.2f} times what one does."
    )
    report.note(f"Without the start, but with sorting, summing and Parquet: {alone[1] / alone[2]:.2f} times as fast.")
    counting = {workers: least(runs[f"counting {workers}"], counting_seconds) for workers in (1, 2)}
    ratio = counting[1] / counting[2]
    what = f"counting itself, {size / 1e6:.0f} MB, two workers"
    theirs = f"{counting[1]:.2f} s (one worker)"
    report.claim(Claim("P9", what, f"{counting[2]:.2f} s", theirs, ratio, f"≥ {MUST} × as fast", ratio >= MUST))
