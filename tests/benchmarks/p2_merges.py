"""P2: learning merges from words that are counted already, and whether they are the peers' merges."""

from __future__ import annotations

from pathlib import Path

from bench import Bench
from report import Claim, both
from timing import Run, alternate, cpu_seconds, installed, least, middle, program, seconds

SIZES = (32_000, 100_000, 200_000)
MUST_OF_GIGABPE = 1 / 3
MUST_OF_TOKENIZERS = 1 / 20


def learning(run: Run) -> float:
    """Seconds of a peer from its table of words to the last merge."""
    return float(run.answer["index"] + run.answer["merges"])


def learning_cpu(run: Run) -> float:
    """CPU seconds of the same."""
    return float(run.answer["cpu"]["index"] + run.answer["cpu"]["merges"])


def merging(run: Run) -> float:
    """Seconds of a peer's merges alone, its first counts of pairs left out."""
    return float(run.answer["merges"])


def run(bench: Bench) -> None:
    """Measure P2."""
    report, mixed = bench.report, bench.mixed
    report.heading("P2", "merges only")
    folder = bench.corpora.path(f"words-{mixed.stem}")
    rows = []
    words = 0
    for vocab_size in SIZES[:2] if bench.quick else SIZES:
        ours_to, theirs_to = bench.scratch / "ours.merges", bench.scratch / "gigabpe.merges"
        programs = {"beam_bpe": program("ours", "learn", folder, vocab_size, "huggingface", ours_to)}
        if installed("gigabpe"):
            programs["gigabpe"] = program("peers", "gigabpe", mixed, vocab_size, "--merges-to", theirs_to)
        runs = alternate(bench.rounds, programs)
        ours, peer = runs["beam_bpe"], runs.get("gigabpe")
        words = ours[0].answer["words"]
        rows.append(_row(f"beam_bpe, {vocab_size:,}", ours, seconds, cpu_seconds, None, ours, ""))
        if peer:
            same = agreement(ours_to, theirs_to)
            rows.append(_row(f"gigabpe, {vocab_size:,}", peer, learning, learning_cpu, merging, ours, same))
            if vocab_size == SIZES[0]:
                claim(bench, "gigabpe", ours, peer, words, MUST_OF_GIGABPE, "≤ 1/3 of gigabpe's time")
                report.note(
                    "gigabpe's merges alone, its first counts of pairs left out: "
                    f"{least(peer, merging):.2f} s; ours with everything is {_ratio(ours, peer, merging):.3f} of that."
                )
        if vocab_size == SIZES[0]:
            rows += _once(bench, mixed, folder, vocab_size, ours, ours_to, words)
    report.table(
        f"{words:,} words of {mixed.name} (gpt2, by line): best (median) s",
        ["trainer, vocabulary", "words → merges", "CPU", "merges alone", "ours / it", "merges"],
        rows,
    )
    report.note(
        "words → merges: from a table of words in memory to the last merge (peers: their own phases, told in the "
        "run that reads and counts). At the same vocabulary size beam_bpe and rustbpe have all 256 bytes, the others "
        "those that occur, so they make a few dozen merges more."
    )


def _once(bench: Bench, mixed: Path, folder: Path, vocab_size: int, ours: list[Run], ours_to: Path, words: int):
    """Measure the slow peers once, with the rest of the machine as it was for ours."""
    rows = []
    if installed("rustbpe"):
        bytes_to, theirs_to = bench.scratch / "bytes.merges", bench.scratch / "rustbpe.merges"
        program("ours", "learn", folder, vocab_size, "bytes", bytes_to)()
        peer = [program("peers", "rustbpe", mixed, vocab_size, "--by-line", "--merges-to", theirs_to)()]
        same = agreement(bytes_to, theirs_to)
        rows.append(_row(f"rustbpe, {vocab_size:,}", peer, learning, learning_cpu, merging, ours, same))
    must, what = MUST_OF_TOKENIZERS, "≤ 1/20 of tokenizers' time"
    if bench.quick or not installed("tokenizers"):
        line = f"{words:,} words → {vocab_size:,}"
        bench.report.claim(Claim("P2", line, "", "tokenizers not run", None, what, None))
        return rows
    theirs_to = bench.scratch / "tokenizers.merges"
    peer = [program("peers", "tokenizers", mixed, vocab_size, "--merges-to", theirs_to)()]
    same = agreement(ours_to, theirs_to)
    rows.append(_row(f"tokenizers, {vocab_size:,}", peer, learning, learning_cpu, merging, ours, same))
    claim(bench, "tokenizers", ours, peer, words, must, what)
    return rows


def claim(bench: Bench, name: str, ours: list[Run], peer: list[Run], words: int, must: float, text: str) -> None:
    """Hold our time against a share of a peer's."""
    ratio = _ratio(ours, peer, learning)
    bench.report.claim(
        Claim(
            "P2",
            f"{words:,} words → {SIZES[0]:,}",
            f"{least(ours, seconds):.2f} s",
            f"{least(peer, learning):.2f} s ({name})",
            ratio,
            text,
            ratio <= must,
            least(ours, cpu_seconds) / least(peer, learning_cpu),
        )
    )


def _ratio(ours: list[Run], peer: list[Run], figure) -> float:
    return least(ours, seconds) / least(peer, figure)


def _row(name: str, runs: list[Run], figure, cpu, inner, ours: list[Run], same: str) -> list[str]:
    alone = both(least(runs, inner), middle(runs, inner)) if inner else ""
    ratio = "" if runs is ours else f"{_ratio(ours, runs, figure):.3f}"
    whole = both(least(runs, figure), middle(runs, figure))
    return [name, whole, f"{least(runs, cpu):.2f}", alone, ratio, same]


def agreement(ours: Path, theirs: Path) -> str:
    """Compare lists of merges, one a line; a peer that gives tokens only is compared by tokens."""
    with open(ours, encoding="ascii") as a, open(theirs, encoding="ascii") as b:
        mine, other = a.read().split("\n"), b.read().split("\n")
    if other and " " not in other[0]:
        mine = [line.replace(" ", "") for line in mine]
    shared = min(len(mine), len(other)) - 1  # both end with an empty line
    for rank in range(shared):
        if mine[rank] != other[rank]:
            return f"differ from merge {rank:,}"
    return f"identical: {shared:,}"
