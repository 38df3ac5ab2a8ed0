"""P13: encoding by scores, SentencePiece's BPE and Unigram, beside sentencepiece, one thread; are the ids its own?"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from bench import Bench
from p5_encoding import Way, figure
from report import Claim
from timing import Run, alternate, installed, least, middle, program

OURS = Way("beam_bpe", "encode_documents", "beam_bpe encode_documents")
PEER = Way("sentencepiece", "encode", "sentencepiece encode of a list")
WAYS = (
    OURS,
    Way("beam_bpe", "encode_batch", "beam_bpe encode_batch"),
    Way("beam_bpe", "call", "beam_bpe encode, a list a call"),
    PEER,
    Way("sentencepiece", "call", "sentencepiece encode, a list a call"),
)
MUCH = {"beam_bpe": 16, "sentencepiece": 4}  # MB, half of it cold
TIMES = 3
MODELS = {"bpe": "SentencePiece BPE", "unigram": "Unigram"}
TEXTS = ("english", "chinese")
#: A normalizer of the package itself, which we run through it: its figures are reported, and nothing is claimed of them.
NORMALIZED = ("unigram-nmt", "Unigram with nmt_nfkc")


def run(bench: Bench) -> None:
    """Measure P13."""
    report = bench.report
    report.heading("P13", "encoding by scores")
    report.note(
        "MB of UTF-8 a CPU second (all threads of the process) over documents of about 4 KB, from raw text, by models of "
        "32,000 pieces that sentencepiece learned from mixed-20m, identity normalization.  cold: the first half of the text "
        "with a new object; steady: the other half, which it has not seen, after that.  Each number is the best of the "
        "rounds (the median)."
    )
    if not installed("sentencepiece"):
        report.note("sentencepiece is not installed, which makes the models.")
        return
    wrong: list[str] = []
    for text in TEXTS[:1] if bench.quick else TEXTS:
        for model, title in MODELS.items():
            runs = _case(bench, model, title, text, wrong)
            own, best = (_best(runs, name) for name in ("beam_bpe", "sentencepiece"))
            what = f"{title}, {text.capitalize()}, steady, {OURS.way}"
            took, must = f"{1 / own:.1f} MB/CPU s", f"≥ {TIMES} × sentencepiece, by CPU seconds"
            report.claim(Claim("P13", what, took, f"{1 / best:.2f}", best / own, must, best / own >= TIMES, best / own))
    if not bench.quick:
        _case(bench, *NORMALIZED, TEXTS[0], wrong)
    found = "differ: " + "; ".join(wrong) if wrong else "equal"
    report.claim(Claim("P13", "ids on all that is measured", found, "sentencepiece", None, "equal", not wrong))


def _case(bench: Bench, model: str, title: str, text: str, wrong: list[str]) -> Mapping[str, list[Run]]:
    """Measure one model on one text; note what has other ids than sentencepiece."""
    chunks = bench.corpora.path(f"chunks-{text}-{2 if bench.quick else MUCH['beam_bpe']}m.parquet")
    path = bench.corpora.path(f"scores-{model}{'-1m' if bench.quick else ''}.model")
    programs: dict[str, Callable[[], Run]] = {}
    for way in WAYS:
        most = 500_000 if bench.quick else MUCH[way.encoder] * 1_000_000
        arguments: list[Any] = [model, bench.corpora.reference, chunks, "--way", way.way, "--most", most, "--digests"]
        arguments += ["--source", "model", "--model", path]
        programs[way.label] = program("encoders", way.encoder, "encode", *arguments)
    runs = alternate(bench.rounds, programs)
    truth = runs[PEER.label][0].answer["digests"]
    rows = []
    for label, measured in runs.items():
        found = measured[0].answer["digests"]
        shared = min(len(found), len(truth))
        same = shared > 0 and found[:shared] == truth[:shared]
        if not same:
            wrong.append(f"{label} ({title}, {text})")
        figures = [figure(phase) for phase in ("cold", "steady")]
        rates = [f"{1 / least(measured, one):.2f} ({1 / middle(measured, one):.2f})" for one in figures]
        ratio = least(measured, figure("steady")) / least(runs[OURS.label], figure("steady"))
        rows.append([label, *rates, f"{ratio:.1f}", "=" if same else "✗"])
    bench.report.table(
        f"{title}, {text}: best (median) MB a CPU second",
        ["encoder", "cold", "steady", "steady: encode_documents / it", "ids"],
        rows,
    )
    return runs


def _best(runs: Mapping[str, list[Run]], encoder: str) -> float:
    """Return the seconds of a megabyte of the fastest way of an encoder; of ours those of encode_documents."""
    ways = [OURS] if encoder == OURS.encoder else [way for way in WAYS if way.encoder == encoder]
    return min(least(runs[way.label], figure("steady")) for way in ways)
