"""What engines tell of a job, and what is made of it: without any engine."""

import io
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_bpe import console
from beam_bpe.causes import cause_in
from beam_bpe.transforms import engines, running

JOB = "BeamApp-me-1130-ab12_0b0cd2f3-aa11"


@pytest.fixture
def rest():
    """Serve the JSON in `answers` by path; `asked` holds what else was asked for."""
    answers, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(f"{self.command} {self.path}")
            body = json.dumps(answers.get(self.path, {})).encode()
            self.send_response(200 if self.path in answers or self.command != "GET" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PATCH = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(answers=answers, asked=asked, port=server.server_address[1])
        server.shutdown()


def flink_job(number, name, ended=-1, finished=3):
    tasks = {"finished": finished, "total": 40, "running": 37}
    return {"jid": f"j{number}", "name": name, "start-time": number, "end-time": ended, "tasks": tasks}


def test_flink_is_asked_for_the_job_that_is_under_way(rest):
    url, own = f"http://127.0.0.1:{rest.port}", JOB.rpartition("_")[0]
    rest.answers["/jobs/overview"] = {"jobs": [flink_job(9, "other"), flink_job(8, own, ended=99, finished=40)]}
    assert engines.flink_tasks(url, JOB) is None
    rest.answers["/jobs/overview"]["jobs"] += [flink_job(3, own, finished=1), flink_job(4, own, finished=5)]
    assert engines.flink_tasks(url, JOB) == (5, 40)
    engines.cancel_on_flink(url, JOB)
    assert rest.asked[-1] == "PATCH /jobs/j4?mode=cancel"


def test_spark_is_asked_through_the_driver_of_the_job(rest, monkeypatch):
    monkeypatch.setattr(engines, "_SPARK_PORTS", (1, rest.port))
    assert engines.spark_tasks("127.0.0.1", JOB) is None  # something else listens there
    rest.answers["/api/v1/applications"] = [{"id": "a-1", "name": "other"}]
    assert engines.spark_tasks("127.0.0.1", JOB) is None
    rest.answers["/api/v1/applications"].append({"id": "a-2", "name": JOB})
    job = {"numTasks": 12, "numCompletedTasks": 5, "numSkippedTasks": 1}
    rest.answers["/api/v1/applications/a-2/jobs"] = [job, {**job, "numCompletedTasks": 0, "numSkippedTasks": 0}]
    assert engines.spark_tasks("127.0.0.1", JOB) == (6, 24)


def test_progress_that_fails_fails_nothing(monkeypatch):
    class Broken:
        asked = 0

        @property
        def state(self):
            Broken.asked += 1
            raise OSError("gone")

        def metrics(self):
            raise OSError("gone")

    monkeypatch.setattr(engines, "DATAFLOW_LOOK_SECONDS", 0.01)
    observer = engines.Observer(Broken(), object(), running.options_for([], 1, True))
    until = time.monotonic() + 20
    while Broken.asked < 3 and time.monotonic() < until:
        time.sleep(0.01)
    observer.stop()
    assert Broken.asked >= 3 and observer.seen == engines.Seen("RUNNING")


def test_counters_are_asked_anew_and_only_ours():
    def counter(name, attempted, committed, namespace="beam_bpe"):
        key = SimpleNamespace(metric=SimpleNamespace(name=name, namespace=namespace))
        return SimpleNamespace(key=key, attempted=attempted, committed=committed)

    class Result:
        _metrics = "the first answer, which a portable result keeps"

        def metrics(self):
            assert self._metrics is None
            both = [counter("bytes", 5, None), counter("bytes", 7, None), counter("words", None, 2)]
            return SimpleNamespace(query=lambda: {"counters": [*both, counter("bytes", 9, 9, "other")]})

    assert engines.counters(Result()) == {"bytes": 12, "words": 2}


JAVA = (
    "java.util.concurrent.ExecutionException: java.lang.RuntimeException: Error received from SDK harness: {}\n"
    "\tat java.base/java.util.concurrent.CompletableFuture.get(CompletableFuture.java:396)\n"
    "Caused by: java.lang.RuntimeException: the same once more\n\t... 40 more\n"
)
PYTHON = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    raise E\n{}\n'


@pytest.mark.parametrize(
    "text, cause",
    [
        (JAVA.format(PYTHON.format("a.b.InputError: x.gz: broken [while running 'Read/Read']")), "x.gz: broken"),
        (JAVA.format(PYTHON.format("KeyError: 'ids'")), "KeyError: 'ids'"),
        (JAVA.format(PYTHON.format("MemoryError")), "MemoryError"),
        (JAVA.format(PYTHON.format("ValueError: one") + "\nDuring handling:\n\n" + PYTHON.format("ValueError: two")), "two"),
        (JAVA.format("no traceback"), "the same once more"),
        ("job failed: quota", "job failed: quota"),
    ],
)
def test_cause_out_of_a_stack_of_java(text, cause):
    assert cause_in(text) == cause


@pytest.mark.parametrize(
    "text, start",
    [
        (JAVA.format(PYTHON.format("ModuleNotFoundError: No module named 'beam_bpe'")), "the workers have no beam_bpe: install"),
        ('java.io.IOException: Cannot run program "docker": error=2\n\tat x', "the engine was to start its workers from a Docker image"),
    ],
)
def test_causes_that_need_explaining(text, start):
    assert cause_in(text).startswith(start) and "\n" not in cause_in(text)


FLINK, SPARK = ["--runner=FlinkRunner", "--flink_master=h:8081"], ["--runner=SparkRunner", "--spark_master_url=spark://h:7077"]
DATAFLOW = ["--runner=DataflowRunner"]


@pytest.mark.parametrize("flags", [FLINK, SPARK, DATAFLOW, ["--runner=PortableRunner", "--job_endpoint=h:1"]])
def test_workers_of_beams_own_image_are_refused(flags):
    with pytest.raises(running.BadFlags, match="which lacks beam_bpe: say .*--sdk_container_image=IMAGE"):
        running.options_for(flags, 1, True)
    for more in ("--sdk_container_image=x", "--extra_package=a.whl", "--setup_file=./setup.py"):
        running.options_for([*flags, more], 1, True)
    if flags is not DATAFLOW:
        running.options_for([*flags, "--environment_type=EXTERNAL", "--environment_config=h:1"], 1, True)


@pytest.mark.parametrize("flags", [["--runner=FlinkRunner"], ["--runner=SparkRunner", "--spark_master_url=local[2]"], ["--runner=PrismRunner"]])
def test_engines_on_this_machine_need_no_environment(flags):
    running.options_for(flags, 1, True)


def test_line_of_tasks():
    stream = io.StringIO()
    line = console.ProgressLine("bar", stream)
    line.tasks("RUNNING", (3, 24))
    line.end()
    assert stream.getvalue() == "\rrunning    12%  3 tasks of 24 tasks  running  0 s\n"
    stream = io.StringIO()
    console.ProgressLine("json", stream).tasks("STARTING", None)
    event = json.loads(stream.getvalue())
    assert (event["state"], event["done"], event["total"], event["unit"]) == ("starting", 0, None, "tasks")


@pytest.mark.parametrize(
    "flag, meant",
    [("--prism_lcation=x", "--prism_location"), ("--enviroment_config=x", "--environment_config"), ("--parallelsm=3", "--parallelism")],
)
def test_misspelt_flags_for_engines_are_refused(flag, meant):
    with pytest.raises(running.BadFlags, match=f"no option '{flag}'; did you mean {meant}"):
        running.options_for(["--runner=PrismRunner", "--environment_type=LOOPBACK", flag], 1, True)


def test_flags_of_an_engine_itself_pass():
    running.options_for(["--runner=FlinkRunner", "--flink_master=[local]", "--max_parallelism=4", "--checkpointing_interval=9"], 1, True)


@pytest.mark.parametrize("endpoint", ["localhost", "localhost:port", ":1"])
def test_an_endpoint_is_a_host_and_a_port(endpoint):
    options = PipelineOptions([f"--job_endpoint={endpoint}"]).view_as(PortableOptions)
    with pytest.raises(engines.JobFailed, match=f"--job_endpoint={endpoint}: it must be HOST:PORT"):
        engines._reach(options)
