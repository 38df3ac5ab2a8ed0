"""What the engines tell of a job that runs there: its state, what was counted, the engine's own tasks.

Beam's counters come while a job runs from Prism and Dataflow, and from Spark and Flink only at its end:
these are asked for their tasks, over their own REST. All of it is for looking at, and none of it ends a job.
"""

import contextlib
import json
import re
import shutil
import signal
import socket
import threading
import time
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions
from apache_beam.runners.portability.portable_runner import PipelineResult, PortableRunner

from beam_bpe.causes import TRACEBACK, cause_in

#: Seconds between two looks at a job.
LOOK_SECONDS = 1.0
#: Dataflow's counters are some ten seconds old, and its quota of questions is shared by a project.
DATAFLOW_LOOK_SECONDS = 10.0
_ANSWER_SECONDS = 2.0
#: Seconds that a job server may take to listen.
_REACH_SECONDS = 10.0
#: Where the driver of Spark shows its jobs: the first of these that is free.
_SPARK_PORTS = range(4040, 4050)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class JobFailed(RuntimeError):
    """A job that failed on an engine, or ended in another state than DONE."""


class Seen(NamedTuple):
    """How far a job has come: its state, amounts by name, and how many of the engine's tasks are done."""

    state: str = "STARTING"
    done: Dict[str, int] = {}
    tasks: Optional[Tuple[int, int]] = None


def submits(runner: Any) -> bool:
    """Whether a runner hands the job over and returns, rather than work until it is done."""
    return isinstance(runner, PortableRunner) or type(runner).__name__ == "DataflowRunner"


def submit(pipeline: Any, stack: contextlib.ExitStack) -> Any:
    """Hand a pipeline over and return the runner's result; the stack ends the job server that the runner started.

    The server is out of reach of Ctrl-C, which would end it before it could cancel the job.

    Raises:
        JobFailed: it could not be submitted.
    """
    runner = pipeline.runner
    if isinstance(runner, PortableRunner):
        _reach(pipeline.options.view_as(PortableOptions))
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(runner, PortableRunner):
        start = runner.default_job_server

        def started(options: PipelineOptions) -> Any:
            server = start(options)
            inner: Any = getattr(server, "_job_server", None)
            if hasattr(inner, "subprocess_cmd_and_endpoint") and shutil.which("setsid"):
                command, endpoint = inner.subprocess_cmd_and_endpoint()
                inner.subprocess_cmd_and_endpoint = lambda: (["setsid", *command], endpoint)
            stack.callback(server.stop)
            return server

        runner.default_job_server = started
    try:
        return pipeline.run()
    except grpc.FutureTimeoutError:
        raise JobFailed("the job server did not answer in time (--job_endpoint, --job_server_timeout)") from None
    except grpc.RpcError as error:
        raise JobFailed(f"the job server refused the job: {cause_in(_details(error))}") from error
    except RuntimeError as error:
        if "Service failed to start up" in str(error):
            raise JobFailed(f"the runner's job server did not start; --debug shows its log: {error}") from error
        raise
    finally:
        signal.signal(signal.SIGINT, handler)  # a job server's own ends it at once


def _reach(options: PortableOptions) -> None:
    """Raise JobFailed if nobody listens at the job endpoint, for which Beam would wait five minutes."""
    endpoint = options.job_endpoint
    if not endpoint or endpoint == "embed":
        return
    try:
        place = urllib.parse.urlsplit(f"//{endpoint}")
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise JobFailed(f"--job_endpoint={endpoint}: it must be HOST:PORT")
    until = time.monotonic() + min(_REACH_SECONDS, float(options.job_server_timeout))
    while True:
        try:
            socket.create_connection((host, port), _ANSWER_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise JobFailed(f"no job server answers at --job_endpoint={endpoint}: {error}") from None
            time.sleep(0.5)


def _details(error: Any) -> str:
    return str(error.details() if hasattr(error, "details") else error)


def cancel(result: Any, options: PipelineOptions) -> None:
    """Tell a submitted job to stop; whatever comes of it."""
    _told(result.cancel)
    if url := _flink_url(options):
        _told(lambda: cancel_on_flink(url, job_of(result)))


def cause_of(result: Any, error: BaseException) -> str:
    """Return in one line why a job failed, out of the error and of the messages that its engine sent."""
    texts = [str(error) or type(error).__name__]
    for message in reversed(getattr(result, "_messages", ())):
        if message.HasField("message_response"):
            texts.append(message.message_response.message_text)
    for text in texts:
        if TRACEBACK in text:
            return cause_in(text)
    return cause_in(texts[0])


class Observer:
    """Look at a submitted job from a thread of its own, which may wait for answers as long as it likes.

    Args:
        result: what the runner returned.
        runner: that one.
        options: those of the pipeline.
    """

    def __init__(self, result: Any, runner: Any, options: PipelineOptions):
        self.seen = Seen("RUNNING")
        self._result = result
        portable = isinstance(result, PipelineResult)
        self._ask = _tasks_of(runner, options, job_of(result)) if portable else None
        self._seconds = LOOK_SECONDS if portable else DATAFLOW_LOOK_SECONDS
        self._over = threading.Event()
        threading.Thread(target=self._look, daemon=True, name="beam_bpe progress").start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def _look(self) -> None:
        while not self._over.is_set():
            state = _told(lambda: str(self._result.state)) or self.seen.state
            done = _told(lambda: counters(self._result)) or self.seen.done
            self.seen = Seen(state, done, self.seen.tasks)
            if self._ask is not None:
                self.seen = Seen(state, done, _told(self._ask) or self.seen.tasks)
            self._over.wait(self._seconds)


def job_of(result: Any) -> str:
    """Return the name under which an engine knows a job that was submitted."""
    return str(getattr(result, "_job_id", ""))


def _told(ask: Callable[[], Any]) -> Any:
    """Return an answer, or None whatever is wrong: a job does not fail because its progress is not known."""
    try:
        return ask()
    except Exception:
        return None


def counters(result: Any) -> Dict[str, int]:
    """Return this package's counters by name, as far as a job has told them."""
    if hasattr(result, "_metrics"):
        result._metrics = None  # a portable result keeps its first answer
    found: Dict[str, int] = {}
    for counter in result.metrics().query()["counters"]:
        if counter.key.metric.namespace == "beam_bpe":
            value = counter.attempted if counter.committed is None else counter.committed
            found[counter.key.metric.name] = found.get(counter.key.metric.name, 0) + (value or 0)
    return found


# ---- the engines' own tasks ----------------------------------------------------------------------


def _tasks_of(runner: Any, options: PipelineOptions, job: str) -> Optional[Callable[[], Optional[Tuple[int, int]]]]:
    """Return what asks an engine for the tasks of a job, if it is one that can be asked."""
    if url := _flink_url(options):
        return lambda: flink_tasks(url, job)
    if type(runner).__name__ == "PrismRunner":
        return None
    endpoint = options.view_as(PortableOptions).job_endpoint  # of the job server, in which the driver of Spark runs
    host = urllib.parse.urlsplit(f"//{endpoint}").hostname if endpoint else "localhost"
    return (lambda: spark_tasks(host, job)) if host else None


def _flink_url(options: PipelineOptions) -> Optional[str]:
    master = options.view_as(FlinkRunnerOptions).flink_master.strip()
    if master in ("[local]", "[auto]", ""):
        return None
    return master if re.match("https?://", master) else f"http://{master}"


def _ask(url: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, method=method)
    with _DIRECT.open(request, timeout=_ANSWER_SECONDS) as answer:
        return json.loads(answer.read() or b"null")


def flink_tasks(url: str, job: str) -> Optional[Tuple[int, int]]:
    """Return (done, all) of the tasks of a job on Flink; None if it is not there.

    Args:
        url: of the job manager's REST.
        job: the name of the job.
    """
    found = _on_flink(url, job)
    return found and (int(found["tasks"]["finished"]), int(found["tasks"]["total"]))


def cancel_on_flink(url: str, job: str) -> None:
    """Cancel a job on Flink, if it is there."""
    if found := _on_flink(url, job):
        _ask(f"{url}/jobs/{found['jid']}?mode=cancel", "PATCH")


def _on_flink(url: str, job: str) -> Any:
    """Return what Flink knows of a job that is under way there: it leaves out the last part of the name."""
    jobs = _ask(f"{url}/jobs/overview")["jobs"]
    own = [each for each in jobs if each["name"] == job.rpartition("_")[0] and each["end-time"] < 0]
    return max(own, key=lambda each: each["start-time"], default=None)


def spark_tasks(host: str, job: str) -> Optional[Tuple[int, int]]:
    """Return (done, all) of the tasks of a job on Spark, as its driver's web interface tells; None if there is none.

    Args:
        host: the machine of the driver.
        job: the name of the job, which is that of the application.
    """
    for port in _SPARK_PORTS:
        url = f"http://{host}:{port}/api/v1/applications"
        try:
            applications = _ask(url)
        except (OSError, ValueError):
            continue  # nobody listens there, or something else
        for application in applications:
            if application["name"] == job:
                jobs = _ask(f"{url}/{application['id']}/jobs")
                done = sum(each["numCompletedTasks"] + each["numSkippedTasks"] for each in jobs)
                return done, sum(each["numTasks"] for each in jobs)
    return None
