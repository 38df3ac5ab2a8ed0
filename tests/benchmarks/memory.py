"""Memory: what the merge loop takes for each distinct word."""

from __future__ import annotations

from bench import Bench
from report import Claim
from timing import installed, program

VOCAB_SIZE = 32_000
MUST_BYTES = 570


def run(bench: Bench) -> None:
    """Measure bytes per distinct word."""
    report = bench.report
    report.heading("memory", "bytes for each distinct word in the merge loop")
    rows = []
    for name in ("words-mixed-20m", "words-1m") if bench.quick else ("words-mixed", "words-10m"):
        answer = program("ours", "memory", bench.corpora.path(name), VOCAB_SIZE)().answer
        words = answer["words"]
        per_word = answer["peak_bytes"] / words
        rows.append(
            [
                "real words" if "mixed" in name else "halves of real words",
                f"{words:,}",
                f"{answer['bytes'] / words:.1f}",
                f"{per_word:.0f}",
                f"{answer['peak_bytes'] / (answer['bytes'] + words):.1f}",
                f"{answer['rss_grown'] / words:.0f}",
                f"{(answer['rss_before'] + answer['rss_grown']) / 1e6:.0f}",
                f"{answer['seconds']:.1f}",
            ]
        )
        first = "mixed" in name
        peer = ""
        if first and installed("gigabpe"):
            whole = program("peers", "gigabpe", bench.mixed, VOCAB_SIZE)()
            peer = f"{whole.rss / words:.0f} (gigabpe, RSS of its whole process)"
        report.claim(
            Claim(
                "memory",
                f"merge loop, {words:,} words → {VOCAB_SIZE:,}",
                f"{per_word:.0f} bytes a word",
                peer,
                per_word,
                f"< {MUST_BYTES} bytes" if first else "reported",
                per_word < MUST_BYTES if first else None,
            )
        )
    report.table(
        f"Learning {VOCAB_SIZE:,} tokens",
        [
            "words",
            "distinct",
            "bytes of text a word",
            "loop's peak, bytes a word",
            "the same a symbol",
            "growth of RSS, bytes a word",
            "peak RSS, MB",
            "s",
        ],
        rows,
    )
