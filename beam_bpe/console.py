"""What a person sees on the command line: the progress line, tokens, sizes, errors in one line."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Collection, Iterator, Sequence, TextIO

from beam_bpe.causes import TRACEBACK, cause_in
from beam_bpe.texts import readable as readable
from beam_bpe.texts import shortened as shortened

MODES = ("auto", "bar", "json", "none")


class ProgressLine:
    """Show how far a phase has come: a line that is rewritten, JSON lines, or nothing.

    Args:
        mode: "bar", "json", "none", or "auto" (a bar on a terminal, else nothing).
        stream: where to; standard error by default.
    """

    def __init__(self, mode: str = "auto", stream: TextIO | None = None):
        self._stream = stream or sys.stderr
        if mode == "auto":
            mode = "bar" if self._stream.isatty() else "none"
        self._mode = mode
        self._phase: str | None = None
        self._started = self._shown = 0.0
        self._done = -1
        self._width = 0

    def show(self, phase: str, done: int, total: int | None, unit: str, **more: Any) -> None:
        """Show that `done` of `total` are done; at most five times a second (JSON: once)."""
        now = time.monotonic()
        fresh = phase != self._phase
        if fresh:
            self.end()
            self._phase, self._started = phase, now
        interval = 1.0 if self._mode == "json" else 0.2
        finished = done == total and done != self._done
        if self._mode == "none" or not (fresh or finished or now - self._shown >= interval):
            return
        self._shown, self._done = now, done
        seconds = now - self._started
        left = seconds * (total - done) / done if total and 0 < done <= total and unit != "tasks" else None
        if self._mode == "json":
            event = {"phase": phase, "done": done, "total": total, "unit": unit, "seconds": round(seconds, 1)}
            event["seconds_left"] = None if left is None else round(left, 1)
            self._stream.write(json.dumps({**event, **more}) + "\n")
            self._stream.flush()
            return
        parts = [f"{phase:<8}"]
        if total:
            parts.append(f"{min(1.0, done / total):4.0%}  {amount(done, unit)} of {amount(total, unit)}")
        elif done:
            parts.append(amount(done, unit))
        parts += [f"{value:,} {name.replace('_', ' ')}" for name, value in more.items() if isinstance(value, int)]
        parts += [str(value) for value in more.values() if isinstance(value, str)]
        parts.append(f"{seconds:.0f} s" + (f", {left:.0f} s left" if left is not None and seconds > 1 else ""))
        line = "  ".join(parts)
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def tasks(self, state: str, tasks: tuple[int, int] | None) -> None:
        """Show the state of a job, and how many (done, all) of its engine's tasks are done, if that is known."""
        done, total = tasks or (0, None)
        self.show("running", done, total or None, "tasks", state=state.lower())

    def end(self) -> None:
        """Leave the line of the last phase standing."""
        if self._mode == "bar" and self._phase is not None and self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._phase, self._width = None, 0


def end_children() -> None:
    """End the processes that this one started and that still run (Beam's local workers), where /proc tells them."""
    own = [os.getpid()]
    for parent in own:
        for path in glob.glob(f"/proc/{parent}/task/*/children"):
            with contextlib.suppress(OSError), open(path, encoding="ascii") as children:
                own += map(int, children.read().split())
    for child in own[1:]:
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)


class WithoutTracebacks:
    """A stream that leaves out tracebacks, which Beam's workers print beside raising the error."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._last = threading.local()  # what a thread wrote last: of a traceback the newline is left out as well

    def write(self, text: str) -> int:
        behind, self._last.traceback = getattr(self._last, "traceback", False), TRACEBACK in text
        if not self._last.traceback and not (behind and text == "\n"):
            self._stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def silent_children(stream: TextIO) -> Iterator[TextIO]:
    """Let processes that are started in the block write their standard error nowhere; yield the stream for our own.

    Beam's worker processes log each step and every failure there; what fails is also raised here.
    """
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        ours = stream.fileno() == 2
    except (OSError, ValueError):
        ours = False
    own = open(os.dup(2), "w", encoding=stream.encoding, errors=stream.errors) if ours else stream
    stream.flush()
    os.dup2(nowhere, 2)
    try:
        yield own
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
        if ours:
            own.close()


@contextlib.contextmanager
def watching(mode: str, *, spawns: bool, debug: bool) -> Iterator[ProgressLine]:
    """Yield the progress line of a pipeline that runs in the block; what Beam prints beside it is left out.

    Args:
        spawns: the pipeline starts processes, which print as well.
        debug: leave nothing out.
    """
    with contextlib.ExitStack() as quiet:
        stream: TextIO = sys.stderr
        if spawns and not debug:
            stream = quiet.enter_context(silent_children(stream))
        line = ProgressLine(mode, stream)
        quiet.callback(line.end)
        if not debug:
            quiet.enter_context(contextlib.redirect_stderr(WithoutTracebacks(stream)))
        yield line


def amount(number: int, unit: str) -> str:
    """Return a number with its unit, from a million bytes on in MB.

    >>> amount(201823211, "bytes"), amount(31744, "merges"), amount(31744, "bytes")
    ('201.8 MB', '31,744 merges', '31,744 bytes')
    """
    return f"{number / 1e6:,.1f} MB" if unit == "bytes" and number >= 1e6 else f"{number:,} {unit}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return rows of cells as lines: columns of a width, to the right but for those named.

    >>> aligned([["", "tokens"], ["byte", "12"], ["trigram", "4"]])
    ['         tokens', 'byte         12', 'trigram       4']
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]


def one_line(error: BaseException) -> str:
    """Return what an error says in one line, also one that a runner passed on as the text of a traceback."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:  # without Python's "[Errno 2]"
        text = f"{error.filename}: {error.strerror}"
    return f"KeyError: {cause_in(text)}" if isinstance(error, KeyError) else cause_in(text)
