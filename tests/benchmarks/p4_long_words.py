"""P4: words of megabytes without a space, such as base64, DNA or a broken file, must cost nothing special."""

from __future__ import annotations

from bench import Bench
from report import Claim, both
from timing import ProgramFailed, Run, alternate, cpu_seconds, installed, least, middle, program, seconds

KINDS = {
    "letters": "random letters",
    "letter": "one letter",
    "digits": "random digits",
    "newlines": "newlines",
}
MERGES = 1000
MUST_SECONDS = 1.0
MUST_GROWTH = 15  # for ten times the size
PATIENCE = 90.0


def run(bench: Bench) -> None:
    """Measure P4."""
    report = bench.report
    report.heading("P4", "one long word")
    large, small = (1000, 100) if bench.quick else (10_000, 1000)
    rows = []
    claims = []
    for kind, text in KINDS.items():
        paths = {size: bench.corpora.path(f"{kind}-{size}k.txt") for size in (large, small)}
        programs = {str(size): program("ours", "learn_word", path, MERGES) for size, path in paths.items()}
        runs = alternate(bench.rounds, programs)
        ours, less = runs[str(large)], runs[str(small)]
        took, growth = least(ours, seconds), least(ours, seconds) / max(least(less, seconds), 1e-3)
        claims.append((text, took, growth, least(ours, cpu_seconds)))
        rows.append(
            [
                text,
                f"{ours[0].answer['merges']:,}",
                both(least(less, seconds), middle(less, seconds), 3),
                both(took, middle(ours, seconds), 3),
                f"{growth:.1f}",
                _peer(kind, paths[large], ours[0].answer["merges"]),
            ]
        )
    report.table(
        f"Learning {MERGES:,} merges from one word: best (median) s",
        ["word", "merges made", _size(small), _size(large), "growth", f"gigabpe, {_size(large)}, once"],
        rows,
    )
    _counting(bench, large)
    must = f"≤ {MUST_SECONDS:g} s"
    for text, took, _, spent in claims:
        what = f"one word of {_size(large)}, {text}, {MERGES:,} merges"
        report.claim(Claim("P4", what, f"{took:.2f} s", "", took, must, took <= MUST_SECONDS, spent))
    worst = max(growth for _, _, growth, _ in claims)
    what, must = "growth with the size, the worst of them", f"≤ {MUST_GROWTH} × for 10 × the size"
    report.claim(Claim("P4", what, f"{worst:.1f} ×", "", worst, must, worst <= MUST_GROWTH))


def _size(thousands: int) -> str:
    return f"{thousands / 1000:g} MB"


def _peer(kind: str, path, merges: int) -> str:
    """Return gigabpe's time for the same, run once; it reads by line, so newlines are no word to it."""
    if kind == "newlines" or not installed("gigabpe"):
        return "–"
    try:
        measured: Run = program("peers", "gigabpe", path, _alphabet(kind) + merges, timeout=PATIENCE)()
    except ProgramFailed as error:
        return f"more than {PATIENCE:.0f}" if "took more than" in str(error) else "failed"
    return f"{measured.answer['index'] + measured.answer['merges']:.2f}"


def _alphabet(kind: str) -> int:
    return {"letters": 26, "letter": 1, "digits": 10}[kind]


def _counting(bench: Bench, size: int) -> None:
    patterns = ("gpt2", "cl100k", "o200k")
    rows = []
    for kind, text in KINDS.items():
        path = bench.corpora.path(f"{kind}-{size}k.txt")
        runs = {p: [program("ours", "count_whole", path, p)() for _ in range(bench.rounds)] for p in patterns}
        rows.append([text, *(both(least(runs[p], seconds), middle(runs[p], seconds), 3) for p in patterns)])
    bench.report.table(f"Scanning and counting the same {_size(size)}: best (median) s", ["word", *patterns], rows)
