"""P10: learning characters with an end of word, and WordPiece by likelihood, from words that are counted already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import Bench
from p2_merges import agreement, learning, learning_cpu
from report import Claim, both
from timing import Run, alternate, cpu_seconds, installed, least, middle, program, seconds

PIECES = 30_000
MERGES = 32_000
FEW = 1_000  # for subword-nmt
FEWEST = 300  # for real-wordpiece
COLUMNS = ["", "words", "merges", "words → merges, s", "CPU", "ours / it", "loop's peak, MB", "the same a symbol"]

LIKELIHOOD = {"algorithm": "wordpiece"}
#: Most of the 30,000 are characters of Chinese and Korean; without the rare ones nearly all are learned.
COMMON = {**LIKELIHOOD, "limit_alphabet": 1000}
CHARACTERS = {"unit": "character", "end_of_word": "</w>", "attached": True}


def run(bench: Bench) -> None:
    """Measure P10."""
    report, mixed = bench.report, bench.mixed
    report.heading("P10", "learning characters and WordPiece")
    folder = bench.corpora.path(f"words-spaced-{mixed.stem}")
    rows = []
    programs = {
        f"WordPiece by likelihood, {PIECES:,} pieces": _ours(folder, {**LIKELIHOOD, "vocab_size": PIECES}),
        f"the same, {COMMON['limit_alphabet']:,} characters": _ours(folder, {**COMMON, "vocab_size": PIECES}),
        f"the same, by count, {COMMON['limit_alphabet']:,} characters": _ours(
            folder, {**COMMON, "score": "count", "vocab_size": PIECES}
        ),
        f"characters, {MERGES:,} merges": _ours(folder, {**CHARACTERS, "num_merges": MERGES}),
    }
    runs = alternate(bench.rounds, programs)
    for name, ours in runs.items():
        rows.append(_row(name, ours))
    by_likelihood, _, _, characters = runs.values()
    words = by_likelihood[0].answer["words"]
    what = f"{words:,} words → {PIECES:,} pieces by likelihood"
    claim = f"{least(by_likelihood, seconds):.2f} s, {by_likelihood[0].answer['peak_bytes'] / 1e6:.0f} MB"
    report.claim(Claim("P10", what, claim, "", None, "reported", None))
    report.table(f"Words of {mixed.name} between whitespace, by line: best (median)", COLUMNS, rows)
    rows = []
    _real_wordpiece(bench, rows)
    _subword_nmt(bench, rows)
    _tokenizers(bench, mixed, characters, rows)
    report.table("Peers, once each, beside ours on the same words", COLUMNS, rows)
    report.note(
        "words → merges: from a table of words in memory to the last merge (tokenizers: its own phases, told in the run "
        "that reads and counts). real-wordpiece does not compute scores anew where they rise, so its merges are others."
    )


def _ours(folder: Path, options: dict[str, Any], *more: object):
    return program("ours", "learn_pieces", folder, json.dumps(options), *more)


def _row(name: str, ours: list[Run]) -> list[str]:
    answer = ours[0].answer
    return [
        name,
        f"{answer['words']:,}",
        f"{answer['merges']:,}",
        both(least(ours, seconds), middle(ours, seconds)),
        f"{least(ours, cpu_seconds):.2f}",
        "",
        f"{answer['peak_bytes'] / 1e6:.0f}",
        f"{answer['peak_bytes'] / answer['symbols']:.1f}",
    ]


def _peer(bench: Bench, name: str, what: str, ours: list[Run], peer: list[Run], rows: list[list[str]], same: str = "") -> None:
    """Add the row of a peer beside the one of ours, and the claim."""
    ratio = least(ours, seconds) / least(peer, learning)
    merges = peer[0].answer.get("merges_made", ours[0].answer["merges"])
    spent = least(peer, learning_cpu)
    took = both(least(peer, learning), middle(peer, learning))
    rows.append([name, "", f"{merges:,} {same}".strip(), took, f"{spent:.2f}", f"{ratio:.4f}", "", ""])
    theirs = f"{least(peer, learning):.2f} s ({name})"
    claim = f"{least(ours, seconds):.3f} s"
    bench.report.claim(
        Claim("P10", what, claim, theirs, ratio, "reported", None, least(ours, cpu_seconds) / spent)
    )


def _tokenizers(bench: Bench, mixed: Path, ours: list[Run], rows: list[list[str]]) -> None:
    """Run tokenizers once on the same text; its vocabulary is as large as ours, so it makes about as many merges."""
    if not installed("tokenizers"):
        return
    peer = [program("peers", "tokenizers-characters", mixed, ours[0].answer["tokens"])()]
    rows.append(_row(f"characters, {MERGES:,} merges", ours))
    _peer(bench, "tokenizers", f"characters, {ours[0].answer['merges']:,} merges", ours, peer, rows)


def _subword_nmt(bench: Bench, rows: list[list[str]]) -> None:
    """Run subword-nmt once, with fewer words and merges, which must be ours."""
    if not installed("subword_nmt"):
        return
    folder = bench.corpora.path("words-spaced-mixed-1m" if bench.quick else "words-spaced-mixed-20m")
    ours_to, theirs_to = bench.scratch / "ours.characters", bench.scratch / "subword-nmt.characters"
    options = {**CHARACTERS, "num_merges": FEW, "tie_break": "lexicographic"}
    ours = [_ours(folder, options, ours_to)() for _ in range(bench.rounds)]
    peer = [program("peers", "subword-nmt", folder, FEW, "--merges-to", theirs_to)()]
    same = agreement(ours_to, theirs_to)
    what = f"characters, {ours[0].answer['words']:,} words, {FEW:,} merges"
    rows.append(_row(f"characters, {FEW:,} merges of fewer words", ours))
    _peer(bench, "subword-nmt", what, ours, peer, rows, f"({same})")


def _real_wordpiece(bench: Bench, rows: list[list[str]]) -> None:
    """Run real-wordpiece once, on the words of 1 MB."""
    if not installed("real_wordpiece"):
        bench.report.note(
            "real-wordpiece is left out: it asks for an older tokenizers than the others (pip install --no-deps real-wordpiece==0.1.7)"
        )
        return
    folder = bench.corpora.path("words-spaced-mixed-1m")
    ours = [_ours(folder, {**LIKELIHOOD, "num_merges": FEWEST})() for _ in range(bench.rounds)]
    peer = [program("peers", "real-wordpiece", folder, FEWEST)()]
    what = f"WordPiece by likelihood, words of 1 MB, {FEWEST} merges"
    rows.append(_row(f"WordPiece by likelihood, {FEWEST} merges, words of 1 MB", ours))
    _peer(bench, "real-wordpiece", what, ours, peer, rows)
