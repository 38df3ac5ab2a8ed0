"""P12: learning what sentencepiece learns, from raw lines: Unigram and its worth on unseen text, and merges; beside it."""

from __future__ import annotations

import signal
from pathlib import Path

from bench import Bench
from report import Claim, both
from timing import ProgramFailed, Run, cpu_seconds, installed, least, middle, program, say, seconds

#: With full coverage the characters alone are more than 8,000.
COVERAGE = {8_000: "0.9995", 32_000: "1.0"}
QUICK = {4_000: "1.0"}
MUST_OF_TIME = 1 / 2
MUST_OF_LOSS = 1.01
LIMIT = {"sentencepiece": 900, "tokenizers": 200}  # seconds of CPU
COLUMNS = ["model", "pieces", "bits per byte", "tokens", "lines → model, s", "CPU", "ours / it, CPU"]


def run(bench: Bench) -> None:
    """Measure P12."""
    report = bench.report
    report.heading("P12", "learning what sentencepiece learns")
    text = bench.corpora.path("mixed-1m.txt" if bench.quick else "mixed-20m.txt")
    whole = bench.corpora.path("mixed-20m.txt" if bench.quick else "mixed.txt")
    lines, held_out = bench.scratch / "unigram.lines", bench.scratch / "unigram.held-out"
    made = program("unigram_models", "prepare", text, whole, lines, held_out)().answer
    sizes = QUICK if bench.quick else COVERAGE
    for vocab_size in sizes:
        if vocab_size < made["characters"]:
            report.note(f"{vocab_size:,} pieces of coverage 1.0 are impossible: there are {made['characters']:,} characters.")
    for vocab_size, coverage in sizes.items():
        _unigram(bench, lines, held_out, vocab_size, coverage)
    for vocab_size, coverage in sizes.items():
        _merges(bench, lines, vocab_size, coverage)
    report.note(
        f"Learned from {made['lines']:,} lines of {text.name}, as identity leaves them, one thread each; scored on "
        f"{made['bytes']:,} bytes of {whole.name} whose lines do not occur there, by one evaluator: scores renormalized, "
        "the probability of a word that of all its segmentations."
    )


def _learned(
    bench: Bench, algorithm: str, lines: Path, vocab_size: int, coverage: str
) -> tuple[dict[str, list[Run]], dict[str, Path]]:
    """Return the runs of each library that does not take more CPU than its limit, and where its model is."""
    models = {name: bench.scratch / f"{algorithm}.{name}" for name in ("beam_bpe", "sentencepiece", "tokenizers")}
    options = (algorithm, lines, vocab_size, coverage)
    programs = {"beam_bpe": program("unigram_models", "ours", *options, models["beam_bpe"])}
    if installed("sentencepiece"):
        programs["sentencepiece"] = program(
            "unigram_models", "sentencepiece", *options, models["sentencepiece"], LIMIT["sentencepiece"]
        )
    if installed("tokenizers") and algorithm == "unigram" and coverage == "1.0":  # it has no coverage
        programs["tokenizers"] = program(
            "unigram_models", "tokenizers", lines, vocab_size - 2, models["tokenizers"], LIMIT["tokenizers"]
        )
    runs: dict[str, list[Run]] = {}
    for name, call in programs.items():
        say(f"{algorithm}, {vocab_size:,} pieces: {name}")
        try:
            runs[name] = [call() for _ in range(bench.rounds if name == "beam_bpe" else 1)]
        except ProgramFailed as error:
            if name == "beam_bpe":
                raise
            late = str(error).rstrip().endswith(f"ended with {-signal.SIGXCPU}:")
            why = f"not done after {LIMIT[name]} s of CPU" if late else str(error)
            bench.report.note(f"{name}, {algorithm} of {vocab_size:,} pieces: {why}")
    return runs, {name: models[name] for name in runs}


def _times(name: str, runs: dict[str, list[Run]]) -> list[str]:
    took = runs[name]
    ratio = "" if name == "beam_bpe" else f"{least(runs['beam_bpe'], cpu_seconds) / least(took, cpu_seconds):.3f}"
    return [both(least(took, seconds), middle(took, seconds)), f"{least(took, cpu_seconds):.1f}", ratio]


def _unigram(bench: Bench, lines: Path, held_out: Path, vocab_size: int, coverage: str) -> None:
    runs, models = _learned(bench, "unigram", lines, vocab_size, coverage)
    scored = program("unigram_models", "score", held_out, *models.values())().answer
    figures = dict(zip(models, scored["models"]))
    rows = [
        [name, f"{found['pieces']:,}", f"{found['bits']:.4f}", f"{found['tokens']:,}", *_times(name, runs)]
        for name, found in figures.items()
    ]
    left_out = f"{scored['left_out']:.3%} of the words left out for unseen characters"
    bench.report.table(f"Unigram, {vocab_size:,} pieces, coverage {coverage}; {left_out}", COLUMNS, rows)
    what = f"Unigram, {vocab_size:,} pieces"
    if "sentencepiece" in runs:
        mine, theirs = figures["beam_bpe"], figures["sentencepiece"]
        for name, called, digits in (("bits", "bits per byte", ".4f"), ("tokens", "tokens", ",")):
            share = mine[name] / theirs[name]
            told, must = f"{theirs[name]:{digits}} (sentencepiece)", f"≤ 1.01 × its {called}"
            bench.report.claim(
                Claim("P12", f"{what}: {called}", f"{mine[name]:{digits}}", told, share, must, share <= MUST_OF_LOSS)
            )
    _claim(bench, what, runs, f"≤ 1/2 of its time{'' if vocab_size == max(COVERAGE) else ' at 32k'}", MUST_OF_TIME)


def _merges(bench: Bench, lines: Path, vocab_size: int, coverage: str) -> None:
    runs, models = _learned(bench, "sentencepiece-bpe", lines, vocab_size, coverage)
    rows = [[name, *_times(name, runs)] for name in runs]
    bench.report.table(f"Merges, {vocab_size:,} pieces, coverage {coverage}", [COLUMNS[0], *COLUMNS[4:]], rows)
    what = f"merges, {vocab_size:,} pieces"
    if "sentencepiece" in runs:
        found = program("unigram_models", "alike", *models.values())().answer
        told = f"{found['shared']:,} of {found['pieces']:,}, {'' if found['in_order'] else 'not '}in the same order"
        reached, must = found["shared"] == found["pieces"] and found["in_order"], "all"
        if coverage != "1.0":  # its coverage is of single precision: it may keep a character more or less
            reached, must = None, "reported"
        bench.report.claim(Claim("P12", f"{what}: shared with sentencepiece", told, "", None, must, reached))
    _claim(bench, what, runs, "reported")


def _claim(bench: Bench, what: str, runs: dict[str, list[Run]], must: str, most: float | None = None) -> None:
    """Add the claim of how long it takes."""
    ours = f"{least(runs['beam_bpe'], seconds):.1f} s"
    if "sentencepiece" not in runs:
        bench.report.claim(Claim("P12", what, ours, "sentencepiece is not there", None, must, None))
        return
    ratio, cpu = (least(runs["beam_bpe"], figure) / least(runs["sentencepiece"], figure) for figure in (seconds, cpu_seconds))
    told = f"{least(runs['sentencepiece'], seconds):.1f} s (sentencepiece)"
    bench.report.claim(Claim("P12", what, ours, told, ratio, must, None if most is None else ratio <= most, cpu))
