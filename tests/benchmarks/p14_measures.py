"""P14: measures from the table of words and from documents, the curve of sizes, the report; counting with tokenizers."""

from __future__ import annotations

from bench import Bench
from report import Claim, both
from timing import Run, alternate, cpu_seconds, installed, least, middle, program, seconds

ENCODING = "cl100k_base"
MUST_SECONDS = 5
MUST_OF_TRAINING = 1.5
MUST_OF_ENCODING = 1.3
PEER_BYTES = 4_000_000


def run(bench: Bench) -> None:
    """Measure P14."""
    bench.report.heading("P14", "measures and the curve of sizes")
    _tables(bench)
    _groups(bench)
    _documents(bench)


def figure(step: str, kind: str = "seconds"):
    """Return what reads the seconds of a step, of the wall or (kind "cpu") of the CPU."""
    if kind == "cpu":
        return lambda run: float(run.answer[step]["cpu"]["seconds"])
    return lambda run: float(run.answer[step]["seconds"])


def curve_of(kind: str):
    """Return what reads the seconds from the table to the curve: the measures, and what follows from them."""
    return lambda run: figure("measures", kind)(run) + figure("curve", kind)(run)


def _tables(bench: Bench) -> None:
    report, size = bench.report, 8_000 if bench.quick else 100_000
    names = ("words-mixed-20m", "words-grouped-4") if bench.quick else ("words-mixed", "words-grouped-32")
    rows = []
    for name in names:
        call = program("measures", "table", bench.corpora.path(name), size)
        runs = [call() for _ in range(bench.rounds)]
        told = runs[0].answer
        cells = [both(least(runs, figure(step)), middle(runs, figure(step))) for step in ("training", "measures", "curve", "report")]
        rows.append(
            [f"{told['words']:,}", told["groups"], f"{told['vocab_size']:,}", *cells, "=" if told["exact"] else "differs"]
        )
        measures, what = least(runs, figure("measures")), f"{told['words']:,} words, {told['groups']} groups"
        report.claim(
            Claim("P14", f"all measures, {what}", f"{measures:.2f} s", "", measures / MUST_SECONDS, f"≤ {MUST_SECONDS} s",
                  measures <= MUST_SECONDS, least(runs, figure("measures", "cpu")) / MUST_SECONDS)
        )  # fmt: skip
        reported, page = least(runs, figure("report")), told["page"]
        size_told = "without its page: install beam_bpe[report]" if page is None else f"{page / 1e6:.2f} MB"
        must = f"≤ {MUST_SECONDS} s"
        report.claim(
            Claim(
                "P14",
                f"report, {what}",
                f"{reported:.2f} s, {size_told}",
                "",
                reported / MUST_SECONDS,
                must,
                reported <= MUST_SECONDS,
                least(runs, figure("report", "cpu")) / MUST_SECONDS,
            )
        )
        ratio, cpu = (least(runs, curve_of(kind)) / least(runs, figure("training", kind)) for kind in ("seconds", "cpu"))
        ours, training = f"{least(runs, curve_of('seconds')):.2f} s", f"{least(runs, figure('training')):.2f} s (training)"
        must = f"≤ {MUST_OF_TRAINING} × training"
        report.claim(
            Claim(
                "P14",
                f"curve of {told['vocab_size']:,} sizes, {what}",
                ours,
                training,
                ratio,
                must,
                ratio <= MUST_OF_TRAINING,
                cpu,
            )
        )
        report.claim(Claim("P14", f"it falls by what training replaced, {what}", "", "", None, "exactly", told["exact"]))
    columns = ["distinct words", "groups", "tokens", "training, s", "measures, s", "curve, s", "report, s", "merge by merge"]
    report.table("From a table of words in memory: best (median)", columns, rows)


def _groups(bench: Bench) -> None:
    path = bench.corpora.path("documents-2.parquet" if bench.quick else "documents-16.parquet")
    numbers = (0, 13, 300)
    runs = alternate(bench.rounds, {str(number): program("measures", "groups", path, number) for number in numbers})
    rows = []
    for number, some in runs.items():
        told = some[0].answer
        cells = [f"{told['rows']:,}", f"{told['words']:,}", f"{told['megabytes']:.0f}"]
        for step in ("counting", "table", "training"):
            cells.append(both(least(some, figure(step, "cpu")), middle(some, figure(step, "cpu"))))
        rows.append([number, *cells])
    columns = ["groups", "rows", "distinct words", "tables, MB"]
    columns += ["counting, CPU s", "and sorted rows, CPU s", "8,000 tokens, CPU s"]
    bench.report.table("Documents in memory counted by group, one thread, and learned from: best (median)", columns, rows)
    same = len({some[0].answer["fingerprint"] for some in runs.values()}) == 1
    bench.report.claim(Claim("P14", "learning from groups is learning from their sum", "", "", None, "exactly", same))


def _documents(bench: Bench) -> None:
    report = bench.report
    path = bench.corpora.path("documents-2.parquet" if bench.quick else "documents-16.parquet")
    vocabulary = bench.corpora.path(f"vocabulary-{ENCODING}")
    ways = ("encode", "measure", "measure by group")
    programs = {way: program("measures", "documents", path, vocabulary, way) for way in ways}
    if installed("tokenizers"):
        most = PEER_BYTES // 10 if bench.quick else PEER_BYTES
        programs["tokenizers"] = program(
            "measures", "tokenizers", path, bench.corpora.path(f"tokenizer-{ENCODING}.json"), most
        )
    transforms = ("Encode", "MeasureTokens", "MeasureTokens by group")
    programs |= {way: program("measures", "transform", path, vocabulary, way) for way in transforms}
    runs = alternate(bench.rounds, programs)
    report.table(
        f"Documents in memory, {ENCODING}, one thread, of which the last are transforms of rows: best (median)",
        ["", "MB", "s", "CPU s", "MB a CPU second"],
        [_row(way, some) for way, some in runs.items()],
    )
    for way in (*ways[1:], *transforms[1:]):
        base = ways[0] if way in ways else transforms[0]
        encoding = runs[base]
        ratio, cpu = (least(runs[way], one) / least(encoding, one) for one in (seconds, cpu_seconds))
        same = runs[way][0].answer["tokens"] == encoding[0].answer["tokens"]
        told = [f"{least(some, seconds):.2f} s" for some in (runs[way], encoding)]
        must = f"≤ {MUST_OF_ENCODING} × encoding"
        report.claim(
            Claim(
                "P14",
                f"{way}, documents",
                told[0],
                f"{told[1]} ({base})",
                ratio,
                must,
                same and ratio <= MUST_OF_ENCODING,
                cpu,
            )
        )
    if "tokenizers" in runs:
        rates = [runs[way][0].answer["bytes"] / least(runs[way], cpu_seconds) / 1e6 for way in ("measure", "tokenizers")]
        told = [f"{rate:.1f} MB/CPU s" for rate in rates]
        report.claim(
            Claim("P14", "counting documents", told[0], f"{told[1]} (tokenizers)", rates[0] / rates[1], "reported", None)
        )


def _row(name: str, runs: list[Run]) -> list[str]:
    size, spent = runs[0].answer["bytes"], least(runs, cpu_seconds)
    return [
        name,
        f"{size / 1e6:.1f}",
        both(least(runs, seconds), middle(runs, seconds)),
        both(spent, middle(runs, cpu_seconds)),
        f"{size / spent / 1e6:.1f}",
    ]
