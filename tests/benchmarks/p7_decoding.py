"""P7: decoding, beside the peers and a join in plain Python."""

from __future__ import annotations

from bench import Bench
from p5_encoding import available, encoders
from report import Claim
from timing import Run, alternate, cpu_seconds, least, middle, seconds

ENCODING = "cl100k_base"
MUST_RATE = 287  # MB/s: the fastest decoder that was found
DOCUMENTS, ARRAYS, LISTS = "decode_documents", "decode_bytes of arrays", "decode of lists"
WAYS = (
    *(("beam_bpe", way) for way in (DOCUMENTS, ARRAYS, LISTS)),
    ("gigatoken", "decode of arrays"),
    ("gigatoken", "decode of lists"),
    ("tiktoken", "decode_bytes of lists"),
    ("tiktoken", "decode of lists"),
    ("quicktok", "decode_bytes of lists"),
    ("fastokens", "decode of lists"),
    ("tokenizers", "decode of lists"),
    ("python", 'b"".join of lists'),
)


def run(bench: Bench) -> None:
    """Measure P7."""
    report = bench.report
    report.heading("P7", "decoding")
    for text in ("English",) if bench.quick else ("English", "Chinese"):
        ids = bench.corpora.path(f"ids-{ENCODING}-{text.lower()}-{1 if bench.quick else 6}m.npz")
        duration = ("--seconds", 0.05 if bench.quick else 0.25)
        programs = {
            f"{name} {way}": encoders(bench, name, "decode", ENCODING, ids, "--way", way, *duration)
            for name, way in WAYS
            if name in ("beam_bpe", "python") or available(name, ENCODING)
        }
        runs = alternate(min(bench.rounds, 2), programs)
        size = runs[f"beam_bpe {DOCUMENTS}"][0].answer["bytes"]
        rows = []
        for label, measured in runs.items():
            spent = least(measured, cpu_seconds), middle(measured, cpu_seconds)
            same = "=" if all(one.answer["same"] for one in measured) else "✗"
            rates = [f"{size / took / 1e6:.0f}" for took in (*spent, least(measured, seconds))]
            rows.append([label, f"{rates[0]} ({rates[1]})", rates[2], same])
        report.table(
            f"{text}, {size / 1e6:.1f} MB in documents of about 4 KB, {ENCODING}: best (median) MB/s",
            ["decoder", "MB a CPU second", "MB/s of the wall", "text"],
            rows,
        )
        _claims(bench, text, size, runs)
    report.note("decode_documents takes all of them by one call; everything else is one call a document.")


def _claims(bench: Bench, text: str, size: int, runs: dict[str, list[Run]]) -> None:
    peers = {label: measured for label, measured in runs.items() if not label.startswith(("beam_bpe", "python"))}
    for way in (DOCUMENTS, ARRAYS, LISTS):
        measured = runs[f"beam_bpe {way}"]
        rate = size / least(measured, cpu_seconds) / 1e6
        what, took = f"{text}, {way}", f"{rate:.0f} MB/CPU s"
        if way != LISTS:
            must = f"≥ {MUST_RATE} MB/s, by CPU seconds"
            bench.report.claim(Claim("P7", what, took, "", rate / MUST_RATE, must, rate >= MUST_RATE, rate / MUST_RATE))
        rivals = {label: one for label, one in peers.items() if way != LISTS or label.endswith("lists")}
        best = min(rivals, key=lambda label: least(rivals[label], cpu_seconds), default=None)
        must = "reported" if way == LISTS else "> each peer, by CPU seconds"
        if best is None:
            bench.report.claim(Claim("P7", what, took, "no peer is installed", None, must, None))
            continue
        ratio = least(rivals[best], cpu_seconds) / least(measured, cpu_seconds)
        theirs = f"{size / least(rivals[best], cpu_seconds) / 1e6:.0f} ({best})"
        bench.report.claim(Claim("P7", what, took, theirs, ratio, must, None if way == LISTS else ratio > 1, ratio))
