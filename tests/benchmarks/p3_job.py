"""P3: the whole job as a process, from a text file to a vocabulary on disk, beside the peers."""

from __future__ import annotations

from bench import Bench
from report import Claim, both
from timing import Run, alternate, beam_bpe, cpu, installed, least, middle, program, wall

VOCAB_SIZE = 32_000
MUST_OF_GIGABPE = 0.8
MUST_MEMORY = 1_000_000_000


def run(bench: Bench) -> None:
    """Measure P3."""
    report, mixed = bench.report, bench.mixed
    report.heading("P3", "the whole job")
    out = bench.scratch / "p3"
    job = ("train", mixed, "--pattern", "gpt2", "-n", VOCAB_SIZE, "-o", out, "--overwrite", "--no-report")
    programs = {"beam_bpe": beam_bpe(*job), "beam_bpe --workers 1": beam_bpe(*job, "--workers", 1)}
    if installed("gigabpe"):
        programs["gigabpe"] = program("peers", "gigabpe", mixed, VOCAB_SIZE, "--save", bench.scratch / "gigabpe.json")
    runs = alternate(bench.rounds, programs)
    for name in ("sentencepiece", "rustbpe", "tokenizers"):
        if installed(name) and not (bench.quick and name == "tokenizers"):
            saved = bench.scratch / f"{name}.json"
            runs[name] = [program("peers", name, mixed, VOCAB_SIZE, "--save", saved)()]
    ours = runs["beam_bpe"]
    report.table(
        f"{mixed.name} ({mixed.stat().st_size / 1e6:.0f} MB) → {VOCAB_SIZE:,}, start-up included",
        ["process", "runs", "wall s, best (median)", "CPU s", "peak RSS, MB", "ours / it"],
        [
            [
                name,
                len(measured),
                both(least(measured, wall), middle(measured, wall)),
                f"{least(measured, cpu):.1f}",
                f"{memory(measured) / 1e6:.0f}",
                "" if measured is ours else f"{least(ours, wall) / least(measured, wall):.3f}",
            ]
            for name, measured in runs.items()
        ],
    )
    what = f"{mixed.stat().st_size / 1e6:.0f} MB → {VOCAB_SIZE:,}, whole process"
    must = f"≤ {MUST_OF_GIGABPE} × gigabpe's"
    peer = runs.get("gigabpe")
    if peer:
        ratio = least(ours, wall) / least(peer, wall)
        theirs = f"{least(peer, wall):.2f} s (gigabpe)"
        spent = least(ours, cpu) / least(peer, cpu)
        took = f"{least(ours, wall):.2f} s"
        report.claim(Claim("P3", what, took, theirs, ratio, must, ratio <= MUST_OF_GIGABPE, spent))
    else:
        report.claim(Claim("P3", what, f"{least(ours, wall):.2f} s", "not installed", None, must, None))
    peak = memory(ours)
    theirs = f"{memory(peer) / 1e9:.2f} GB (gigabpe)" if peer else ""
    share = peak / MUST_MEMORY
    report.claim(Claim("P3", "its peak memory", f"{peak / 1e9:.2f} GB", theirs, share, "≤ 1 GB", share <= 1))


def memory(runs: list[Run]) -> int:
    """Return the largest peak of several runs."""
    return max(one.rss for one in runs)
