"""Why a job failed, in one line, out of what runners pass on: tracebacks of Python within those of Java."""

from __future__ import annotations

import re

TRACEBACK = "Traceback (most recent call last)"
_PYTHON_ERROR = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (.*))?$")
_JAVA_CAUSE = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable): (.+)$", re.M)
_WHILE_RUNNING = re.compile(r" \[while running '[^']*'\]\s*$")
_NO_PACKAGE = "No module named 'beam_bpe"

_EXPLAINED = (
    (
        _NO_PACKAGE,
        "the workers have no beam_bpe: install its wheel where they run (in the environment of the worker pool, in the image "
        "of --sdk_container_image), or send it along where the engine honours that (--extra_package)",
    ),
    (
        'Cannot run program "docker"',
        "the engine was to start its workers from a Docker image, and has no docker: say where they are "
        "(--environment_type=EXTERNAL --environment_config=HOST:PORT)",
    ),
)
# What is left of a worker that was killed, in the words of Beam's local runner, of its Flink and of its Spark runner.
_LOST = ("Channel closed prematurely", "CANCELLED: client cancelled", "CANCELLED: call already cancelled")
_LOST_WORKER = (
    "the process of a worker was lost in the middle of its work (killed, or out of memory), and the engine did not start "
    "its part of the work again, or not often enough: run the command again"
)


def cause_in(text: str) -> str:
    r"""Return in one line the cause that a text names: the last error of Python in it, else the innermost of Java.

    >>> cause_in("java.lang.RuntimeException: Error: Traceback (most recent call last):\n  File …\nValueError: no [while running 'A']\n\n\tat org.…")
    'no'
    """
    for part, explanation in _EXPLAINED:
        if part in text:
            return explanation
    if TRACEBACK in text:
        found = _python_error(text)
    elif any(part in text for part in _LOST):
        found = _LOST_WORKER
    else:
        java = _JAVA_CAUSE.findall(text)
        found = java[-1] if java and "\tat " in text else text
    return " ".join(_without_steps(found).split("\n"))


def _without_steps(text: str) -> str:
    """Return what an error says without the names of the steps that Beam puts behind it."""
    text = text.strip()
    while _WHILE_RUNNING.search(text):
        text = _WHILE_RUNNING.sub("", text)
    return text


def _python_error(text: str) -> str:
    """Return what the last traceback of a text ends with: its first line that is not indented."""
    last = text.rpartition(TRACEBACK)[2].split("\n")[1:]
    lines = [line for line in last if line.strip() and not line[0].isspace()]
    for line in lines:
        if match := _PYTHON_ERROR.match(line):
            name = match[1].rpartition(".")[2]
            said = match[2] or ""
            return f"{name}: {said}" if name == "KeyError" else said or name
    return lines[0] if lines else text
