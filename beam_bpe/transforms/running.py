"""Run a pipeline from the command line: a local runner by default, or an engine; watched, and stopped by Ctrl-C."""

import argparse
import contextlib
import difflib
import os
import sys
import threading
from typing import Any, Callable, List, Optional

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_bpe import progress
from beam_bpe.transforms import engines
from beam_bpe.transforms.engines import JobFailed, Seen

#: Bytes of text below which a second worker costs more than it gives.
SPREAD_FROM = 32 << 20
LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner")
_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 15.0


class BadFlags(ValueError):
    """Flags for Beam that cannot work."""


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
        BadFlags: a flag that Beam does not know, for a runner that is ours to check; or workers of an
            engine that would start from an image without this package.
    """
    flags = list(flags)
    if not any(flag == "--runner" or flag.startswith("--runner=") for flag in flags):
        # Named because Beam's plain DirectRunner first tries to download another one.
        flags.append("--runner=FnApiRunner")
        if workers > 1 and not native and not any(flag.startswith("--direct_") for flag in flags):
            flags += ["--direct_running_mode=multi_processing", f"--direct_num_workers={workers}"]
    options = PipelineOptions(flags)
    _check(flags, options.view_as(StandardOptions).runner in LOCAL_RUNNERS)
    if options.view_as(StandardOptions).runner not in LOCAL_RUNNERS:
        _check_workers(options)
    return options


def spawns(options: PipelineOptions) -> bool:
    """Whether the options make a local runner start processes as workers."""
    local = options.view_as(StandardOptions).runner in LOCAL_RUNNERS
    return local and options.view_as(DirectOptions).direct_running_mode == "multi_processing"


def _check_workers(options: PipelineOptions) -> None:
    """Refuse workers that would start, after minutes, from Beam's own image and fail."""
    runner = options.view_as(StandardOptions).runner
    setup, worker = options.view_as(SetupOptions), options.view_as(WorkerOptions)
    portable = options.view_as(PortableOptions)
    given = (worker.sdk_container_image, setup.extra_packages, setup.setup_file, setup.requirements_file)
    if any(given) or worker.sdk_harness_container_image_overrides:
        return
    image = f"Beam's image apache/beam_python{sys.version_info.major}.{sys.version_info.minor}_sdk, which lacks beam_bpe"
    if runner == "DataflowRunner":
        raise BadFlags(f"workers start from {image}: say --sdk_container_image=IMAGE or --extra_package=WHEEL")
    local = {
        "FlinkRunner": options.view_as(FlinkRunnerOptions).flink_master.strip() in ("[local]", "[auto]"),
        "SparkRunner": options.view_as(SparkRunnerOptions).spark_master_url.startswith("local"),
        "PortableRunner": False,
    }
    named = portable.environment_type or portable.environment_config or portable.environment_options
    if local.get(runner, True) or named or portable.output_executable_path or portable.job_endpoint == "embed":
        return
    raise BadFlags(
        f"workers start from {image}: say --environment_type=EXTERNAL --environment_config=HOST:PORT for a pool of workers "
        "that have it, --sdk_container_image=IMAGE, or --extra_package=WHEEL"
    )


def _check(flags: List[str], local: bool) -> None:
    """Refuse flags that Beam does not know; on engines, which have flags of their own, those that are all but Beam's."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in _subclasses(PipelineOptions):
        try:
            options._add_argparse_args(parser)  # what PipelineOptions itself does
        except argparse.ArgumentError:
            pass  # two classes share an option
    known, unknown = parser.parse_known_args(flags)
    names = [name for action in parser._actions for name in action.option_strings]
    for flag in unknown:
        close = difflib.get_close_matches(flag.split("=")[0], names, 1, cutoff=0.6 if local else 0.92)
        if local or close:
            hint = f"; did you mean {close[0]}?" if close else ""
            raise BadFlags(f"Beam has no option {flag!r}{hint}")


def _subclasses(base: Any) -> List[Any]:
    found = []
    for one in base.__subclasses__():
        found.append(one)
        found += _subclasses(one)
    return found


def run(build: Callable[[beam.Pipeline], None], options: PipelineOptions, watch: Callable[[Seen], None]) -> Any:
    """Build and run a pipeline, call `watch(seen)` while it runs, and return its result.

    A job server that the runner starts is ended with the job.

    Raises:
        KeyboardInterrupt: after the job was told to stop; work on other machines may still finish.
        JobFailed: it failed on an engine, or ended in another state than DONE.
        Exception: whatever a local worker raised.
    """
    progress.reset()
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    with contextlib.ExitStack() as stack:
        if not engines.submits(pipeline.runner):
            job = _Job(lambda: pipeline.run())
        else:
            watch(Seen("STARTING"))
            result = engines.submit(pipeline, stack)  # in the main thread, as runners with a job server demand
            observer = engines.Observer(result, pipeline.runner, options)
            stack.callback(observer.stop)
            job = _Job(lambda: result, observer)
        try:
            while job.is_alive():
                job.join(_POLL_SECONDS)
                watch(job.seen())
        except KeyboardInterrupt:
            progress.cancel()
            job.cancel(options)
            raise
        return job.outcome()


class _Job(threading.Thread):
    """A thread in which a job is waited for."""

    def __init__(self, begin: Callable[[], Any], observer: Optional[engines.Observer] = None):
        super().__init__(daemon=True, name="beam_bpe pipeline")
        self._begin, self._observer = begin, observer
        self._result: Any = None
        self._state: Optional[str] = None
        self._error: Optional[BaseException] = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._begin()
            self._state = self._result.wait_until_finish()
        except BaseException as error:
            self._error = error

    def seen(self) -> Seen:
        """Return how far the job has come; what was done in this process is known best."""
        here = progress.done()
        if self._observer is None:
            return Seen("RUNNING", here)
        seen = self._observer.seen
        return seen._replace(done=here or seen.done)

    def cancel(self, options: PipelineOptions) -> None:
        """Tell the job to stop, and wait a little for it."""
        if self._observer is None:  # a local one: its workers see progress.cancelled()
            self.join(2.0)
            return
        asking = threading.Thread(target=engines.cancel, args=(self._result, options), daemon=True)
        asking.start()
        asking.join(_CANCEL_SECONDS)  # a server that is gone never answers

    def outcome(self) -> Any:
        """Return the result, or raise what went wrong."""
        if self._error is None and self._state not in (None, "DONE"):
            self._error = JobFailed(f"the job ended in the state {self._state}; its runner's log says more")
        if self._error is None:
            return self._result
        if self._observer is None or not isinstance(self._error, Exception):
            raise self._error
        raise JobFailed(engines.cause_of(self._result, self._error)) from self._error
