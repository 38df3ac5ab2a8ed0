"""Run a pipeline from the command line: a local runner by default, watched, and stopped by Ctrl-C."""

import argparse
import difflib
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

from beam_bpe import progress

#: Bytes of text below which a second worker costs more than it gives.
SPREAD_FROM = 32 << 20
LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner")
_POLL_SECONDS = 0.1


class UnknownOption(ValueError):
    """An option that Beam does not know."""


class JobFailed(RuntimeError):
    """A job that ended in another state than DONE."""


def workers_for(total_bytes: int, wanted: Optional[int]) -> int:
    """Return how many local workers an input of that many bytes pays for."""
    if wanted is not None:
        return wanted
    if total_bytes < SPREAD_FROM:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def options_for(flags: List[str], workers: int, native: bool) -> PipelineOptions:
    """Return Beam's options: its own flags, or else the local runner.

    The local runner is one worker in this process, in which the native scanners count in threads; a
    regex or a function holds the GIL, so those get that many processes. (Beam's own multi_threading
    hands all data through gRPC, and was seen to lose some: in 1 of 40 jobs of 200 MB.)

    Raises:
        UnknownOption: a flag that Beam does not know, for a runner that is ours to check.
    """
    flags = list(flags)
    if not any(flag == "--runner" or flag.startswith("--runner=") for flag in flags):
        # Named because Beam's plain DirectRunner first tries to download another one.
        flags.append("--runner=FnApiRunner")
        if workers > 1 and not native and not any(flag.startswith("--direct_") for flag in flags):
            flags += ["--direct_running_mode=multi_processing", f"--direct_num_workers={workers}"]
    options = PipelineOptions(flags)
    if options.view_as(StandardOptions).runner in LOCAL_RUNNERS:
        _check(flags)
    return options


def spawns(options: PipelineOptions) -> bool:
    """Whether the options make a local runner start processes as workers."""
    local = options.view_as(StandardOptions).runner in LOCAL_RUNNERS
    return local and options.view_as(DirectOptions).direct_running_mode == "multi_processing"


def _check(flags: List[str]) -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in _subclasses(PipelineOptions):
        try:
            options._add_argparse_args(parser)  # what PipelineOptions itself does
        except argparse.ArgumentError:
            pass  # two classes share an option
    known, unknown = parser.parse_known_args(flags)
    if unknown:
        names = [name for action in parser._actions for name in action.option_strings]
        close = difflib.get_close_matches(unknown[0].split("=")[0], names, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UnknownOption(f"Beam has no option {unknown[0]!r}{hint}")


def _subclasses(base: Any) -> List[Any]:
    found = []
    for one in base.__subclasses__():
        found.append(one)
        found += _subclasses(one)
    return found


def run(
    build: Callable[[beam.Pipeline], None], options: PipelineOptions, watch: Callable[[str, float], None]
) -> Any:
    """Build and run a pipeline, call `watch(state, seconds)` while it runs, and return its result.

    Raises:
        KeyboardInterrupt: after the job was told to stop; work on other machines may still finish.
        JobFailed: it ended in another state than DONE.
        Exception: whatever a local worker raised.
    """
    outcome: Dict[str, Any] = {}
    progress.reset()
    pipeline = beam.Pipeline(options=options)
    build(pipeline)

    def work() -> None:
        try:
            outcome["result"] = result = pipeline.run()
            outcome["state"] = result.wait_until_finish()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=work, daemon=True, name="beam_bpe pipeline")
    started = time.monotonic()
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            result = outcome.get("result")
            watch(str(getattr(result, "state", "RUNNING") or "RUNNING"), time.monotonic() - started)
    except KeyboardInterrupt:
        progress.cancel()
        if "result" in outcome:
            try:
                outcome["result"].cancel()
            except NotImplementedError:
                pass  # a local result: its workers see progress.cancelled()
        thread.join(2.0)
        raise
    if "error" in outcome:
        raise outcome["error"]
    if outcome["state"] not in (None, "DONE"):
        raise JobFailed(f"the job ended in the state {outcome['state']}; its runner's log says more")
    return outcome["result"]
