"""P11: encoding with WordPiece and with merges of characters beside the peers, one thread; are the ids theirs?"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from bench import Bench
from p5_encoding import Way, figure
from report import Claim
from timing import Run, alternate, installed, least, middle, program

OURS = Way("beam_bpe", "encode_documents", "beam_bpe encode_documents")
WAYS = (
    OURS,
    Way("beam_bpe", "encode_batch", "beam_bpe encode_batch"),
    Way("beam_bpe", "call", "beam_bpe encode, a list a call"),
    Way("tokenizers", "encode_batch_fast", "tokenizers encode_batch_fast"),
    Way("tokenizers", "call", "tokenizers encode, an Encoding a call"),
    Way("subword_nmt", "call", "subword-nmt segment_tokens, a list of str a call"),
)
MUCH = {"beam_bpe": 16, "tokenizers": 8, "subword_nmt": 2}  # MB, half of it cold


class Case(NamedTuple):
    """A vocabulary, the text that it encodes, and by peer how many times its rate is claimed."""

    name: str
    title: str
    text: str
    times: Mapping[str, int]


CASES = (
    Case("wordpiece", "WordPiece, bert-base-uncased's pieces", "lower-english", {"tokenizers": 5}),
    Case("bert", "bert-base-uncased with its normalizer", "chunks-english", {"tokenizers": 5}),
    Case("characters", "characters, 32,000 tokens", "chunks-english", {"tokenizers": 5, "subword_nmt": 50}),
    Case("characters", "characters, 32,000 tokens", "chunks-chinese", {}),
    Case("bert", "bert-base-uncased with its normalizer", "chunks-chinese", {}),
)


def run(bench: Bench) -> None:
    """Measure P11."""
    report = bench.report
    report.heading("P11", "encoding with pieces and characters")
    report.note(
        "MB of UTF-8 a CPU second (all threads of the process) over documents of about 4 KB in words between whitespace, "
        "lower-cased for BERT's pieces; bert-base-uncased is the whole of it, from raw text.  cold: the first half of the text with a new object; steady: the other half, which it "
        "has not seen, after that.  Each number is the best of the rounds (the median).  All read one tokenizer.json."
    )
    if not installed("tokenizers"):
        report.note("tokenizers is not installed, which makes the vocabularies.")
        return
    wrong: list[str] = []
    for case in CASES[:3] if bench.quick else CASES:
        wrong += _case(bench, case)
    found = "differ: " + "; ".join(wrong) if wrong else "equal"
    report.claim(Claim("P11", "ids on all that is measured", found, "tokenizers, subword-nmt", None, "equal", not wrong))


def _case(bench: Bench, case: Case) -> list[str]:
    """Measure one vocabulary on one text; return what has other ids than tokenizers."""
    chunks = bench.corpora.path(f"{case.text}-{2 if bench.quick else MUCH['beam_bpe']}m.parquet")
    programs: dict[str, Callable[[], Run]] = {}
    for way in WAYS:
        if way.encoder == "subword_nmt" and case.name != "characters":
            continue
        if way.encoder != "beam_bpe" and not installed(way.encoder):
            continue
        most = 500_000 if bench.quick else MUCH[way.encoder] * 1_000_000
        arguments: list[Any] = [case.name, bench.corpora.reference, chunks, "--way", way.way, "--most", most, "--digests"]
        arguments += ["--source", "tokenizer.json", "--tokenizer-json", bench.corpora.path(f"tokenizer-{case.name}.json")]
        if way.encoder == "subword_nmt":
            arguments += ["--codes", bench.corpora.path("codes-characters.txt")]
        programs[way.label] = program("encoders", way.encoder, "encode", *arguments)
    runs = alternate(bench.rounds, programs)
    truth = runs["tokenizers encode_batch_fast"][0].answer["digests"]
    rows, wrong = [], []
    for label, measured in runs.items():
        found = measured[0].answer["digests"]
        shared = min(len(found), len(truth))
        same = shared > 0 and found[:shared] == truth[:shared]
        if not same:
            wrong.append(f"{label} ({case.title}, {case.text})")
        rates = [_rate(measured, phase) for phase in ("cold", "steady")]
        ratio = least(measured, figure("steady")) / least(runs[OURS.label], figure("steady"))
        rows.append([label, *rates, f"{ratio:.1f}", "=" if same else "✗"])
    bench.report.table(
        f"{case.title}, {case.text}: best (median) MB a CPU second",
        ["encoder", "cold", "steady", "steady: encode_documents / it", "ids"],
        rows,
    )
    for peer, times in case.times.items():
        _claim(bench, case, runs, peer, times)
    return wrong


def _rate(runs: list[Run], phase: str) -> str:
    return f"{1 / least(runs, figure(phase)):.2f} ({1 / middle(runs, figure(phase)):.2f})"


def _claim(bench: Bench, case: Case, runs: Mapping[str, list[Run]], peer: str, times: int) -> None:
    """Hold our way against the fastest of a peer's."""
    ways = [way.label for way in WAYS if way.encoder == peer and way.label in runs]
    own = least(runs[OURS.label], figure("steady"))
    what, took = f"{case.title}, English, steady, {OURS.way}", f"{1 / own:.1f} MB/CPU s"
    must = f"≥ {times} × {peer}, by CPU seconds"
    if not ways:
        bench.report.claim(Claim("P11", what, took, f"{peer} is not installed", None, must, None))
        return
    best = min(least(runs[label], figure("steady")) for label in ways)
    bench.report.claim(Claim("P11", what, took, f"{1 / best:.2f}", best / own, must, best / own >= times, best / own))
