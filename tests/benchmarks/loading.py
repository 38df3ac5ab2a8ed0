"""Loading: from a file to a tokenizer, what it takes of memory, and what its pickle is."""

from __future__ import annotations

from bench import Bench
from p5_encoding import available, encoders
from report import Claim, both
from timing import Run, alternate, cpu_seconds, least, middle, seconds

SOURCES = ("folder", "rank file", "tokenizer.json")
PEERS = ("tiktoken", "tokenizers", "fastokens", "gigatoken", "quicktok")
MUST_SECONDS = 0.2


def run(bench: Bench) -> None:
    """Measure loading."""
    report = bench.report
    report.heading("load", "loading")
    rows = []
    for encoding in ("o200k_base",) if bench.quick else ("cl100k_base", "o200k_base"):
        ours = {
            f"beam_bpe, {source}": encoders(bench, "beam_bpe", "load", encoding, "--source", source) for source in SOURCES
        }
        peers = {
            name: encoders(bench, name, "load", encoding)
            for name in PEERS
            if available(name, encoding)
        }
        runs = {**alternate(bench.rounds, ours), **alternate(1, peers)}
        rows += [[f"{label}, {encoding}", *_cells(measured)] for label, measured in runs.items()]
        if encoding == "o200k_base":
            folder = runs["beam_bpe, folder"]
            spent = least(folder, cpu_seconds)
            took = f"{spent:.2f} CPU s ({least(folder, seconds):.2f} s of the wall)"
            must = f"< {MUST_SECONDS:g} s, by CPU seconds"
            report.claim(Claim("load", f"{encoding}, from our folder", took, "", spent, must, spent < MUST_SECONDS, spent))
    report.table(
        "From a file to what encodes: best (median)",
        ["from", "CPU s", "s of the wall", "grown by, MB", "pickle, MB", "dumps, CPU s", "loads, CPU s"],
        rows,
    )
    report.note("Imports are done before.  quicktok brings its own files along; what cannot be pickled has no pickle.")


def _cells(runs: list[Run]) -> list[str]:
    cells = [both(least(runs, figure), middle(runs, figure)) for figure in (cpu_seconds, seconds)]
    cells.append(f"{min(one.answer['grown'] for one in runs) / 1e6:.0f}")
    if "pickled" not in runs[0].answer:
        return [*cells, "none", "", ""]
    spent = [min(one.answer[name]["cpu"]["seconds"] for one in runs) for name in ("dumps", "loads")]
    return [*cells, f"{runs[0].answer['pickled'] / 1e6:.2f}", *(f"{took:.2f}" for took in spent)]
