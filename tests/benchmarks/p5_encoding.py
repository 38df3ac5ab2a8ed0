"""P5: encoding unseen text beside the peers, one thread, and whether the ids are tiktoken's."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from bench import Bench
from report import Claim
from timing import Run, alternate, installed, least, middle, program

CASES = (
    *(("cl100k_base", text) for text in ("English", "Chinese", "Japanese", "code", "Russian")),
    *((encoding, text) for encoding in ("o200k_base", "r50k_base") for text in ("English", "Chinese")),
)
QUICK = (("cl100k_base", "English"), ("r50k_base", "Chinese"))
#: What is claimed of cl100k: how many times tiktoken's rate, and the peers to be passed, cold too or not.
CLAIMS: Mapping[str, tuple[int, Mapping[str, tuple[str, ...]]]] = {
    "English": (12, {"fastokens": ("steady", "cold"), "gigatoken": ("steady", "cold")}),
    "Chinese": (6, {"fastokens": ("steady",)}),
    "Japanese": (6, {"fastokens": ("steady",)}),
}


class Way(NamedTuple):
    """A program of `encoders.py`, and how it is named in tables."""

    encoder: str
    way: str
    label: str


OURS = Way("beam_bpe", "encode_documents", "beam_bpe encode_documents")
OUR_CALL = Way("beam_bpe", "call", "beam_bpe encode, a list a call")
WAYS = (
    OURS,
    Way("beam_bpe", "encode_batch", "beam_bpe encode_batch"),
    OUR_CALL,
    Way("fastokens", "encode_batch_flat", "fastokens encode_batch_flat"),
    Way("fastokens", "call", "fastokens encode_ordinary().ids, a list a call"),
    Way("gigatoken", "encode_batch", "gigatoken encode_batch"),
    Way("gigatoken", "call", "gigatoken encode, an array a call"),
    Way("quicktok", "encode_batch", "quicktok encode_batch"),
    Way("quicktok", "call", "quicktok encode_ordinary, a list a call"),
    Way("tiktoken", "call", "tiktoken encode_ordinary, a list a call"),
    Way("tokenizers", "call", "tokenizers encode, an Encoding a call"),
)
SLOW = "tokenizers"  # sees less text, and once
MUCH, LITTLE = 16, 3  # MB, half of it cold


def figure(phase: str, clock: str = "cpu") -> Callable[[Run], float]:
    """Return what takes the seconds of a megabyte from a run."""

    def seconds(run: Run) -> float:
        took: Any = run.answer[phase]
        return float(took["cpu"]["seconds"] if clock == "cpu" else took["seconds"]) * 1e6 / took["bytes"]

    return seconds


def encoders(bench: Bench, name: str, what: str, encoding: str, *arguments: object, **options: Any) -> Callable[[], Run]:
    """Return a call that measures a program of `encoders.py`."""
    more: list[object] = []
    if name == "beam_bpe":
        more += ["--vocabulary", bench.corpora.path(f"vocabulary-{encoding}")]
    if name in ("tokenizers", "fastokens") or "tokenizer.json" in arguments:
        more += ["--tokenizer-json", bench.corpora.path(f"tokenizer-{encoding}.json")]
    return program("encoders", name, what, encoding, bench.corpora.reference, *arguments, *more, **options)


def available(name: str, encoding: str) -> bool:
    """Whether an encoder can be measured with an encoding."""
    return installed(name) and not (name == "quicktok" and encoding == "r50k_base")


def run(bench: Bench) -> None:
    """Measure P5."""
    report = bench.report
    report.heading("P5", "encoding")
    report.note(
        "MB of UTF-8 a CPU second (all threads of the process) over documents of about 4 KB, cut at newlines and "
        "shuffled.  cold: the first half of the text, 8 MB at most, with a new object; steady: the other half, which it "
        "has not seen, after that.  Each number is the best of the rounds (the median).  RAYON_NUM_THREADS is 1."
    )
    wrong: list[str] = []
    for encoding, text in QUICK if bench.quick else CASES:
        wrong += _case(bench, encoding, text)
    ours = [line for line in wrong if line.startswith("beam_bpe")]
    if wrong:
        report.note("Ids that differ from tiktoken's: " + "; ".join(wrong) + ".")
    if installed("tiktoken"):
        found = "equal" if not ours else "differ: " + "; ".join(ours)
        report.claim(Claim("P5", "ids on all that is measured", found, "tiktoken", None, "equal", not ours))


def _case(bench: Bench, encoding: str, text: str) -> list[str]:
    """Measure one text under one encoding; return what has other ids than tiktoken."""
    report = bench.report
    much, little = (1, 1) if bench.quick else (MUCH, LITTLE)
    chunks = bench.corpora.path(f"chunks-{text.lower()}-{much}m.parquet")
    claimed = encoding == "cl100k_base" and text in CLAIMS
    programs: dict[str, Callable[[], Run]] = {}
    once: dict[str, Callable[[], Run]] = {}
    for way in WAYS:
        if way.encoder != "beam_bpe" and not available(way.encoder, encoding):
            continue
        most = little if way.encoder == SLOW else much
        arguments = (chunks, "--way", way.way, "--most", most * 1_000_000)
        plain = encoders(bench, way.encoder, "encode", encoding, *arguments)
        first = encoders(bench, way.encoder, "encode", encoding, *arguments, "--digests")
        (once if way.encoder == SLOW else programs)[way.label] = _first(first, plain)
    runs = alternate(bench.rounds if claimed else min(bench.rounds, 2), programs)
    runs.update(alternate(1, once))
    truth = runs.get("tiktoken encode_ordinary, a list a call")
    rows, wrong = [], []
    ours = runs[OURS.label]
    for label, measured in runs.items():
        same = _same(measured, truth)
        if same == "✗":
            wrong.append(f"{label} ({encoding}, {text})")
        per_cpu = [_rate(measured, figure(phase)) for phase in ("cold", "steady")]
        by_wall = 1 / least(measured, figure("steady", "wall"))
        ratio = "" if measured is ours else f"{_ratio(ours, measured, 'steady'):.2f}"
        rows.append([label, *per_cpu, f"{by_wall:.1f}", ratio, same])
    size = ours[0].answer["cold"]["bytes"] + ours[0].answer["steady"]["bytes"]
    report.table(
        f"{encoding}, {text}, {size / 1e6:.1f} MB: best (median) MB a CPU second",
        ["encoder", "cold", "steady", "steady, MB/s of the wall", "steady: encode_documents / it", "ids"],
        rows,
    )
    many = sorted({label.split()[0] for label, measured in runs.items() if _threads(measured) > 1.1})
    if many:
        report.note(f"Kept more than one core busy all the same: {', '.join(many)}.")
    if claimed:
        _claims(bench, text, runs)
    return wrong


def _first(first: Callable[[], Run], later: Callable[[], Run]) -> Callable[[], Run]:
    """Return a call that does one thing the first time, and another from then on."""
    calls = iter([first])
    return lambda: next(calls, later)()


def _threads(runs: list[Run]) -> float:
    return max(figure(phase)(one) / figure(phase, "wall")(one) for one in runs for phase in ("cold", "steady"))


def _rate(runs: list[Run], seconds: Callable[[Run], float]) -> str:
    return f"{1 / least(runs, seconds):.1f} ({1 / middle(runs, seconds):.1f})"


def _ratio(ours: list[Run], other: list[Run], phase: str) -> float:
    return least(other, figure(phase)) / least(ours, figure(phase))


def _same(runs: list[Run], truth: list[Run] | None) -> str:
    """Compare ids with tiktoken's, as far as both have encoded the same documents."""
    if truth is None:
        return "–"
    found, expected = runs[0].answer["digests"], truth[0].answer["digests"]
    shared = min(len(found), len(expected))
    return "=" if shared and found[:shared] == expected[:shared] else "✗"


def _claims(bench: Bench, text: str, runs: Mapping[str, list[Run]]) -> None:
    times, peers = CLAIMS[text]
    for peer, phases in peers.items():
        for phase in phases:
            _claim(bench, text, phase, runs, OURS, peer, f"> {peer}, by CPU seconds", lambda ratio: ratio > 1)
    must = f"≥ {times} × tiktoken, by CPU seconds"
    _claim(bench, text, "steady", runs, OURS, "tiktoken", must, lambda ratio: ratio >= times)
    for peer in peers:
        _claim(bench, text, "steady", runs, OUR_CALL, peer, "reported", None, calls_only=True)


def _claim(
    bench: Bench,
    text: str,
    phase: str,
    runs: Mapping[str, list[Run]],
    ours: Way,
    peer: str,
    must: str,
    holds: Callable[[float], bool] | None,
    calls_only: bool = False,
) -> None:
    """Hold a way of ours against the fastest of a peer's."""
    ways = [way for way in WAYS if way.encoder == peer and way.label in runs and not (calls_only and way.way != "call")]
    own = least(runs[ours.label], figure(phase))
    what = f"cl100k, {text}, {phase}, {'one call a document' if calls_only else ours.way}"
    took = f"{1 / own:.1f} MB/CPU s"
    if not ways:
        bench.report.claim(Claim("P5", what, took, f"{peer} is not installed", None, must, None))
        return
    best = min(ways, key=lambda way: least(runs[way.label], figure(phase)))
    ratio = _ratio(runs[ours.label], runs[best.label], phase)
    theirs = f"{1 / least(runs[best.label], figure(phase)):.1f} ({best.label.split(',')[0]})"
    bench.report.claim(Claim("P5", what, took, theirs, ratio, must, None if holds is None else holds(ratio), ratio))
