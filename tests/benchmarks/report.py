"""Tables in Markdown, claims with their criteria, and all of it as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Sequence

PACKAGES = (
    *("beam_bpe", "apache-beam", "pyarrow", "numpy", "gigabpe", "rustbpe", "tokenizers", "sentencepiece", "regex"),
    *("tiktoken", "gigatoken", "fastokens", "quicktok-v1", "real-wordpiece", "subword-nmt"),
)


@dataclass(frozen=True)
class Claim:
    """One line of the summary: a figure, what it must reach, and whether it does.

    Attributes:
        ratio: what is held against the criterion, None where there is nothing to hold.
        must: the criterion in words.
        reached: None if it could not be decided, for instance without the peer.
        cpu_ratio: the same of CPU seconds, where each side is one thread: on a busy machine the better witness.
    """

    benchmark: str
    what: str
    ours: str
    peer: str
    ratio: float | None
    must: str
    reached: bool | None
    cpu_ratio: float | None = None


@dataclass
class Report:
    """What a run has found so far; everything that is added is printed at once."""

    quick: bool
    claims: list[Claim] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def heading(self, benchmark: str, title: str) -> None:
        """Begin a benchmark."""
        print(f"\n## {benchmark}: {title}", flush=True)
        taken = taken_by_others()
        if taken is not None and taken > 0.1:
            self.note(
                f"Other work takes {taken:.0%} of the machine: figures of the wall are too slow, CPU seconds less so."
            )

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table and keep it."""
        self.tables.append({"title": title, "columns": list(columns), "rows": [list(row) for row in rows]})
        print(f"\n{title}\n\n{markdown(columns, rows)}", flush=True)

    def note(self, text: str) -> None:
        """Print a remark and keep it."""
        self.notes.append(text)
        print(f"\n{text}", flush=True)

    def claim(self, claim: Claim) -> None:
        """Keep a line of the summary."""
        self.claims.append(claim)

    def summary(self, benchmark: str | None = None) -> None:
        """Print the claims of one benchmark, or all of them, in one table."""
        lines = [_line(claim) for claim in self.claims if benchmark in (None, claim.benchmark)]
        title = "## Summary" if benchmark is None else f"{benchmark} against its criteria"
        title += " (--quick: small inputs, no claim)" if self.quick else ""
        print(f"\n{title}\n\n{markdown(SUMMARY, lines, left=2)}", flush=True)

    def write(self, path: str) -> None:
        """Write everything as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "quick": self.quick,
                    "machine": machine(),
                    "claims": [asdict(claim) for claim in self.claims],
                    "tables": self.tables,
                    "notes": self.notes,
                },
                file,
                indent=1,
                ensure_ascii=False,
            )


SUMMARY = ("", "what", "ours", "peer", "ratio", "CPU ratio", "must", "reached")


def _line(claim: Claim) -> list[str]:
    reached = {True: "yes", False: "**no**", None: "not decided"}[claim.reached]
    ratio, cpu = ("" if value is None else f"{value:.3g}" for value in (claim.ratio, claim.cpu_ratio))
    return [claim.benchmark, claim.what, claim.ours, claim.peer, ratio, cpu, claim.must, reached]


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1) -> str:
    """Return a Markdown table; the first columns stand left, the others right.

    >>> print(markdown(["peer", "s"], [["a", 1]]))
    | peer | s |
    |---|---:|
    | a | 1 |
    """
    lines = [columns, ["---"] * left + ["---:"] * (len(columns) - left), *rows]
    texts = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]
    texts[1] = texts[1].replace(" ", "")
    return "\n".join(texts)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "from the tree" if package == "beam_bpe" else "not installed"
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system(), **versions}


def taken_by_others(seconds: float = 1.0) -> float | None:
    """Return the share of all cores that is busy now, while nothing of ours runs; None where the system is silent."""
    try:
        before = _ticks()
        time.sleep(seconds)
        after = _ticks()
    except (OSError, ValueError):
        return None
    spent = [b - a for a, b in zip(before, after)]
    return 1 - (spent[3] + spent[4]) / max(1, sum(spent))  # all but idle and waiting for disks


def _ticks() -> list[int]:
    with open("/proc/stat", encoding="ascii") as lines:
        return [int(number) for number in lines.readline().split()[1:9]]


def both(smallest: float, median: float, digits: int = 2) -> str:
    """Return "minimum (median)".

    >>> both(1.234, 2)
    '1.23 (2.00)'
    """
    return f"{smallest:.{digits}f} ({median:.{digits}f})"


def rate(size: int, smallest: float, median: float) -> str:
    """Return the best (and the median) MB/s of `size` bytes."""
    return f"{size / smallest / 1e6:.0f} ({size / median / 1e6:.0f})"
