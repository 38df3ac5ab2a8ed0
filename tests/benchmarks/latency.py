"""Latency: one short string a call, as a list of ids."""

from __future__ import annotations

from bench import Bench
from p5_encoding import available, encoders
from report import Claim
from timing import alternate

ENCODING = "cl100k_base"
PEERS = ("tiktoken", "quicktok", "gigatoken", "fastokens", "tokenizers")


def run(bench: Bench) -> None:
    """Measure the latency of a call."""
    report = bench.report
    report.heading("latency", "one short string")
    texts = bench.corpora.path(f"chunks-english-{1 if bench.quick else 16}m.parquet")
    names = ("beam_bpe", *(peer for peer in PEERS if available(peer, ENCODING)))
    arguments = ("latency", ENCODING, texts, "--repeats", 3 if bench.quick else 7)
    runs = alternate(bench.rounds, {name: encoders(bench, name, *arguments) for name in names})
    took: dict[str, dict[str, float]] = {}  # by way, then by text
    for name, measured in runs.items():
        for text, ways in measured[0].answer.items():
            for way in ways:
                took.setdefault(f"{name} {way}", {})[text] = min(one.answer[text][way] for one in measured)
    ours = took["beam_bpe encode"]
    report.table(
        f"{ENCODING}, the same string again and again: best µs of CPU a call",
        ["call", *ours],
        [[way, *(f"{by_text[text] * 1e6:.2f}" for text in ours)] for way, by_text in took.items()],
    )
    report.note("fastokens and gigatoken keep what they have seen, a whole text too.  An array or bytes are no list of int.")
    must = "at most tiktoken.encode's time"
    for text, spent in ours.items():
        what, mine = f"{text}, one call", f"{spent * 1e6:.2f} µs"
        if "tiktoken encode" not in took:
            report.claim(Claim("latency", what, mine, "tiktoken is not installed", None, must, None))
            continue
        theirs, ordinary = (took[f"tiktoken {way}"][text] for way in ("encode", "encode_ordinary"))
        peer = f"{theirs * 1e6:.2f} µs (encode_ordinary {ordinary * 1e6:.2f})"
        report.claim(Claim("latency", what, mine, peer, theirs / spent, must, theirs >= spent, theirs / spent))
