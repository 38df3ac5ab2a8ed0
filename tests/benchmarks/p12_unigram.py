"""P12: the Unigram language model: what it is worth on unseen text, and how long it takes, beside sentencepiece."""

from __future__ import annotations

from pathlib import Path

from bench import Bench
from report import Claim, both
from timing import ProgramFailed, Run, cpu_seconds, installed, least, middle, program, seconds

#: With full coverage the characters alone are 9,171 pieces, which sentencepiece refuses to fit into fewer.
COVERAGE = {8_000: "0.9995", 32_000: "1.0"}
QUICK = {4_000: "1.0"}
MUST_OF_TIME = 1 / 2
MUST_OF_LOSS = 1.01
TOKENIZERS_SECONDS = 300
COLUMNS = ["model", "pieces", "bits per byte", "tokens", "lines → model, s", "CPU", "ours / it, CPU"]


def run(bench: Bench) -> None:
    """Measure P12."""
    report = bench.report
    report.heading("P12", "learning a Unigram language model")
    text = bench.corpora.path("mixed-1m.txt" if bench.quick else "mixed-20m.txt")
    whole = bench.corpora.path("mixed-20m.txt" if bench.quick else "mixed.txt")
    lines, held_out = bench.scratch / "unigram.lines", bench.scratch / "unigram.held-out"
    made = program("unigram_models", "prepare", text, whole, lines, held_out)().answer
    for vocab_size, coverage in (QUICK if bench.quick else COVERAGE).items():
        _measure(bench, lines, held_out, vocab_size, coverage)
    report.note(
        f"Learned from {made['lines']:,} lines of {text.name}, as identity leaves them, one thread each; scored on "
        f"{made['bytes']:,} bytes of {whole.name} whose lines do not occur there, by one evaluator: scores renormalized, "
        "the probability of a word that of all its segmentations."
    )


def _measure(bench: Bench, lines: Path, held_out: Path, vocab_size: int, coverage: str) -> None:
    models = {"beam_bpe": bench.scratch / "unigram.ours", "sentencepiece": bench.scratch / "unigram.theirs"}
    learn = program("unigram_models", "ours", lines, vocab_size, coverage, models["beam_bpe"])
    runs: dict[str, list[Run]] = {"beam_bpe": [learn() for _ in range(bench.rounds)]}
    if installed("sentencepiece"):
        peer = program("unigram_models", "sentencepiece", lines, vocab_size, coverage, models["sentencepiece"])
        runs["sentencepiece"] = [peer()]
    if installed("tokenizers") and coverage == "1.0":
        models["tokenizers"] = bench.scratch / "unigram.hf"
        hf = program(
            "unigram_models", "tokenizers", lines, vocab_size - 3, models["tokenizers"], timeout=TOKENIZERS_SECONDS
        )
        try:
            runs["tokenizers"] = [hf()]
        except ProgramFailed as error:
            bench.report.note(f"tokenizers, {vocab_size:,} pieces: {error}")
    scored = program("unigram_models", "score", held_out, *(models[name] for name in runs))().answer
    figures = dict(zip(runs, scored["models"]))
    rows = []
    for name, took in runs.items():
        ratio = "" if name == "beam_bpe" else f"{least(runs['beam_bpe'], cpu_seconds) / least(took, cpu_seconds):.3f}"
        rows.append(
            [
                name,
                f"{figures[name]['pieces']:,}",
                f"{figures[name]['bits']:.4f}",
                f"{figures[name]['tokens']:,}",
                both(least(took, seconds), middle(took, seconds)),
                f"{least(took, cpu_seconds):.1f}",
                ratio,
            ]
        )
    title = f"{vocab_size:,} pieces, coverage {coverage}; {scored['left_out']:.3%} of the words left out for unseen characters"
    bench.report.table(title, COLUMNS, rows)
    what = f"Unigram, {vocab_size:,} pieces"
    if "sentencepiece" not in runs:
        bench.report.claim(Claim("P12", what, "", "sentencepiece is not installed", None, "≤ 1/2 of its time", None))
        return
    mine, theirs = figures["beam_bpe"], figures["sentencepiece"]
    for name, digits in (("bits", ".4f"), ("tokens", ",")):
        share = mine[name] / theirs[name]
        called = {"bits": "bits per byte", "tokens": "tokens"}[name]
        told = f"{theirs[name]:{digits}} (sentencepiece)"
        must = f"≤ 1.01 × its {called}"
        bench.report.claim(
            Claim("P12", f"{what}: {called}", f"{mine[name]:{digits}}", told, share, must, share <= MUST_OF_LOSS)
        )
    ours, peer = runs["beam_bpe"], runs["sentencepiece"]
    ratio, cpu = (least(ours, figure) / least(peer, figure) for figure in (seconds, cpu_seconds))
    claim = f"{least(ours, seconds):.1f} s"
    told = f"{least(peer, seconds):.1f} s (sentencepiece)"
    bench.report.claim(Claim("P12", what, claim, told, ratio, "≤ 1/2 of its time", ratio <= MUST_OF_TIME, cpu))
