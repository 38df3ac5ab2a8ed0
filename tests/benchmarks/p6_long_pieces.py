"""P6: strings of a megabyte and ten without a place to cut them must cost nothing special."""

from __future__ import annotations

from bench import Bench
from p5_encoding import available, encoders
from report import Claim, both
from timing import ProgramFailed, alternate, cpu_seconds, least, middle

ENCODING = "cl100k_base"
KINDS = {
    "letter": "one letter",
    "spaces": "spaces, then an x",
    "han": "Chinese without a break",
    "letters": "random letters",
}
MUST_RATE = {"letter": 100, "spaces": 100}  # MB/s
MUST_GROWTH = 12  # for ten times the size
PEERS = ("fastokens", "gigatoken", "quicktok", "tiktoken", "tokenizers")
PATIENCE = 15.0
WAYS = {"encode_documents": "encode_documents", "call": "encode, a list"}


def run(bench: Bench) -> None:
    """Measure P6."""
    report = bench.report
    report.heading("P6", "long pieces")
    small, large = (100, 1000) if bench.quick else (1000, 10_000)
    rows, peers_rows = [], []
    growths = {}
    for kind, text in list(KINDS.items())[: 2 if bench.quick else None]:
        paths = {size: bench.corpora.path(f"{kind}-{size}k.txt") for size in (small, large)}
        runs = alternate(
            bench.rounds,
            {
                f"{way} {size}": encoders(bench, "beam_bpe", "long", ENCODING, path, "--way", way)
                for way in WAYS
                for size, path in paths.items()
            },
        )
        for way, label in WAYS.items():
            less, more = runs[f"{way} {small}"], runs[f"{way} {large}"]
            sizes = [one[0].answer["bytes"] / 1e6 for one in (less, more)]
            took = [least(one, cpu_seconds) for one in (less, more)]
            growth = took[1] / max(took[0], 1e-6) / (sizes[1] / sizes[0]) * 10
            rows.append(
                [
                    f"{text}, {label}",
                    both(took[0] * 1000, middle(less, cpu_seconds) * 1000, 1),
                    f"{sizes[0] / took[0]:.0f}",
                    both(took[1] * 1000, middle(more, cpu_seconds) * 1000, 1),
                    f"{sizes[1] / took[1]:.0f}",
                    f"{growth:.1f}",
                ]
            )
            growths[text, label] = growth
            if way == "encode_documents" and kind in MUST_RATE:
                rate, must = sizes[0] / took[0], MUST_RATE[kind]
                what = f"{_size(small)} of {text}, {label}"
                report.claim(
                    Claim("P6", what, f"{rate:.0f} MB/CPU s", "", rate, f"≥ {must} MB/s, by CPU seconds", rate >= must)
                )
        if not bench.quick or not peers_rows:
            peers_rows.append([text, *_peers(bench, paths[small], runs[f"call {small}"][0].answer["digests"])])
    report.table(
        f"One string by one call, {ENCODING}: best (median) CPU ms",
        ["string", f"{_size(small)}, ms", "MB/s", f"{_size(large)}, ms", "MB/s", "growth for 10 ×"],
        rows,
    )
    report.table(
        f"The same {_size(small)} by the peers, once, MB a CPU second (✗: ids differ)", ["string", *PEERS], peers_rows
    )
    (text, label), worst = max(growths.items(), key=lambda item: item[1])
    what, must = f"growth with the size, the worst of them ({text}, {label})", f"≤ {MUST_GROWTH} × for 10 × the size"
    report.claim(Claim("P6", what, f"{worst:.1f} ×", "", worst, must, worst <= MUST_GROWTH))


def _size(thousands: int) -> str:
    return f"{thousands / 1000:g} MB"


def _peers(bench: Bench, path, digests: list[str]) -> list[str]:
    cells = []
    for name in PEERS:
        if not available(name, ENCODING):
            cells.append("–")
            continue
        try:
            measured = encoders(bench, name, "long", ENCODING, path, timeout=PATIENCE)()
        except ProgramFailed as error:
            cells.append(f"more than {PATIENCE:.0f} s" if "took more than" in str(error) else "fails")
            continue
        rate = measured.answer["bytes"] / cpu_seconds(measured) / 1e6
        cells.append(f"{rate:.1f}" + ("" if measured.answer["digests"] == digests else " ✗"))
    return cells
