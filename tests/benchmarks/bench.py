"""What every benchmark is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpora import Corpora
from report import Report


@dataclass(frozen=True)
class Bench:
    """Where inputs come from and figures go.

    Attributes:
        scratch: a folder for outputs, removed at the end.
        rounds: how often each program of an alternation runs.
        quick: small inputs, for a look at whether everything works.
    """

    report: Report
    corpora: Corpora
    scratch: Path
    rounds: int
    quick: bool

    @property
    def mixed(self) -> Path:
        """The mixed text: 202 MB, or 20 MB of it if quick."""
        return self.corpora.path("mixed-20m.txt" if self.quick else "mixed.txt")
