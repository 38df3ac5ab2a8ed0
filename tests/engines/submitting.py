"""Submit to an engine as a user would: by the command, or a program, of the environment that holds only the wheel."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Sequence

import prepare
import pytest
import services

#: Seconds until a job is given up; far more than it takes on a machine that is not busy with other work.
JOB_SECONDS = 300


@dataclass
class Engine:
    """A place where pipelines run: Beam's flags for it, and how to submit."""

    name: str
    flags: list[str]
    folder: Path
    service: services.Service | None = None
    variables: dict[str, str] = field(default_factory=dict)

    def beam_bpe(self, *arguments: object, seed: object = 0, fails: bool = False) -> subprocess.CompletedProcess[str]:
        """Run `beam-bpe ARGUMENTS -- FLAGS` and return what came of it."""
        flags = ["--", *self.flags] if self.flags else []
        return self._run([prepare.worker_bin("beam-bpe"), *arguments, *flags], seed, fails)

    def python(
        self, script: Path, *arguments: object, more: Sequence[str] = (), seed: object = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with the flags behind its arguments, and more flags, which overrule them."""
        return self._run([prepare.worker_bin("python"), script, *arguments, *self.flags, *more], seed, False)

    def _run(self, command: list[object], seed: object, fails: bool) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        words = [str(word) for word in command]
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                timeout=JOB_SECONDS,
                cwd=self.folder,  # not the checkout
                env={**kept, "PYTHONHASHSEED": str(seed), **self.variables},
            )
        except subprocess.TimeoutExpired as late:
            done = subprocess.CompletedProcess(words, None, _text(late.stdout), _text(late.stderr))
            pytest.fail(f"{words} took more than {JOB_SECONDS} s\n{done.stderr[-4000:]}\n{self._logs()}")
        if bool(done.returncode) != fails:
            told = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}\n{self._logs()}"
            pytest.fail(f"{words} ended with {done.returncode}\n{told}")
        return done

    def _logs(self) -> str:
        return self.service.logs() if self.service else ""


def _text(printed: bytes | str | None) -> str:
    """Return what a process had printed when it was given up; bytes, whatever was asked for."""
    return printed.decode(errors="replace") if isinstance(printed, bytes) else printed or ""
