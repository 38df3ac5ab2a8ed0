"""Start and stop the engines as real processes: on loopback, on free ports, each with its log in a file.

A service is a context manager: it is ready when the block begins, and it is gone with all that it started when the
block ends, also if the process that started it was killed. Nothing else is ever touched.

    with SparkCluster(folder) as spark:
        subprocess.run(["beam-bpe", "count", …, "--", *spark.flags])
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Callable, Sequence

import prepare

HOST = "127.0.0.1"
#: Seconds until a service must be ready; far more than it takes on a machine that is not busy with other work.
PATIENCE = 180.0

# Runs a command, and ends its whole process group once standard input is closed: by us, or because we are gone.
_LEASH = """
import os, signal, subprocess, sys, threading, time
signal.signal(signal.SIGTERM, lambda *_: None)
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
def watch():
    child.wait()
    os._exit(0 if child.returncode == 0 else 1)
threading.Thread(target=watch, daemon=True).start()
sys.stdin.buffer.read()
os.killpg(0, signal.SIGTERM)
try:
    child.wait(8)
except subprocess.TimeoutExpired:
    pass
os.killpg(0, signal.SIGKILL)
"""

# Beam's worker pool, which would listen on every interface of the machine.
_WORKER_POOL = """
import runpy
from grpc import _server
listen = _server._Server.add_insecure_port
_server._Server.add_insecure_port = lambda self, address: listen(self, address.replace("[::]", "127.0.0.1"))
runpy.run_module("apache_beam.runners.worker.worker_pool_main", run_name="__main__", alter_sys=True)
"""

_PACKAGES = "lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic".split()
_OPENS = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _PACKAGES]
_OPENS += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
_FLINK_OPENS = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("text", "time", "util.concurrent.locks")]
_FLINK_OPENS += ["--add-exports=java.base/sun.net.util=ALL-UNNAMED"]


class NotReady(RuntimeError):
    """A service did not start; the message ends with the last lines of its log."""


class Service:
    """Something that runs as long as a with-block; subclasses say what in `start`.

    Args:
        folder: for logs and working files; made if it is absent.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.processes: list[Process] = []
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def logs(self, lines: int = 15) -> str:
        """Return the last lines of each log."""
        tails = [(path.name, path.read_text(errors="replace").splitlines()[-lines:]) for path in self.folder.glob("*.log")]
        return "\n".join(f"--- {name}\n" + "\n".join(tail) for name, tail in sorted(tails))

    def within(self, other: Service) -> Any:
        """Start another service, which is a part of this one, and return it."""
        self._stack.enter_context(other)
        self.processes += other.processes
        return other

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all the processes so far, those that have ended included."""
        groups, ticks = {process.group for process in self.processes}, 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[2]) in groups:
                    ticks += sum(map(int, fields[11:15]))  # of user and system, its own and of children it waited for
        return ticks / os.sysconf("SC_CLK_TCK")

    def run(self, name: str, command: Sequence[object], ready: Callable[[], bool], **variables: object) -> Process:
        """Start a process and wait until it is ready."""
        process = Process(self.folder / f"{name}.log", command, variables)
        self.processes.append(process)
        self._stack.callback(process.stop)
        process.wait_until(ready)
        return process


class Process:
    """A process and all that it starts."""

    def __init__(self, log: Path, command: Sequence[object], variables: dict[str, object]):
        self.log = log
        self._name = log.stem
        self._command, self._variables = [str(word) for word in command], {k: str(v) for k, v in variables.items()}
        self._start("wb")

    def _start(self, mode: str) -> None:
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        with open(self.log, mode) as file:
            self._leash = subprocess.Popen(
                [sys.executable, "-c", _LEASH, *self._command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.log.parent,
                env=kept | self._variables,
            )

    def again(self, ready: Callable[[], bool]) -> None:
        """Start it once more after it was killed, with the same command, and wait until it is ready."""
        self.stop()
        self._start("ab")
        self.wait_until(ready)

    @property
    def group(self) -> int:
        """The process group, in which all that the process starts is."""
        return self._leash.pid

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready()`; raise NotReady if the process ends before or it takes too long."""
        until = time.monotonic() + PATIENCE
        while not ready():
            if self._leash.poll() is not None:
                raise NotReady(f"{self._name} ended at once:\n{self.tail()}")
            if time.monotonic() > until:
                raise NotReady(f"{self._name} was not ready within {PATIENCE:.0f} s:\n{self.tail()}")
            time.sleep(0.1)

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """End the process and all that it started."""
        assert self._leash.stdin is not None
        self._leash.stdin.close()
        try:
            self._leash.wait(20)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)  # also what outlived its parent
        self._leash.wait()


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a port."""
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


def ask(port: int, path: str) -> Any:
    """Return the JSON that a server answers, or None if it does not."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://{HOST}:{port}{path}", timeout=5) as answer:
            return json.loads(answer.read() or b"{}")
    except (OSError, ValueError):
        return None


def java() -> str:
    """Return the path of the Java runtime."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"


class WorkerPool(Service):
    """Beam's own external worker pool, in the environment that holds only the wheel: each worker is a process."""

    def __init__(self, folder: Path, **variables: object):
        super().__init__(folder)
        self._variables = variables

    def start(self) -> None:
        self.port = free_ports(1)[0]
        path = f"{prepare.workers_home() / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # it runs `python`
        command = [prepare.worker_bin("python"), "-c", _WORKER_POOL, f"--service_port={self.port}"]
        self.run("worker-pool", command, lambda: listens(self.port), PATH=path, **self._variables)
        self.flags = ["--environment_type=EXTERNAL", f"--environment_config={HOST}:{self.port}"]


class PrismJobServer(Service):
    """Beam's portable runner in Go; the submitting process is its worker."""

    def start(self) -> None:
        port, web = free_ports(2)
        command = [prepare.prism_binary(), f"--job_port={port}", f"--web_port={web}", "--serve_http=false"]
        self.run("prism", command, lambda: listens(port))
        self.flags = ["--runner=PortableRunner", f"--job_endpoint={HOST}:{port}", "--environment_type=LOOPBACK"]


def _job_server(service: Service, name: str, command: Sequence[object], **variables: object) -> list[str]:
    """Start a job server in Java and return the flags that submit to it."""
    job, artifacts, expansion = free_ports(3)
    ports = [f"--job-host={HOST}", f"--job-port={job}", f"--artifact-port={artifacts}", f"--expansion-port={expansion}"]
    service.run(name, [*command, *ports], lambda: listens(job), **variables)
    return ["--runner=PortableRunner", f"--job_endpoint={HOST}:{job}"]


def _spark_job_server(service: Service, master: str, *properties: str) -> list[str]:
    jars = f"{prepare.job_server_jars('spark')}/*{os.pathsep}{prepare.spark_home()}/jars/*"
    command = [java(), "-Xmx1g", *_OPENS, "-Dspark.ui.enabled=false", *properties, "-cp", jars]
    command += ["org.apache.beam.runners.spark.SparkJobServerDriver", f"--spark-master-url={master}"]
    return _job_server(service, "spark-job-server", command, SPARK_LOCAL_IP=HOST)


class SparkLocal(Service):
    """Spark's local[2] inside the job server; the submitting process is its worker."""

    def start(self) -> None:
        self.flags = [*_spark_job_server(self, "local[2]"), "--environment_type=LOOPBACK"]


class SparkCluster(Service):
    """A standalone Spark cluster: a master, workers, a pool of SDK workers, the job server.

    The further flags `spread` give each core an SDK worker, a process, of its own.

    Args:
        folder: for logs and working files.
        workers: how many Spark workers.
        parallelism: spark.default.parallelism, the number of partitions after a shuffle.
        cores: of each Spark worker.
    """

    def __init__(self, folder: Path, workers: int = 2, parallelism: int = 12, cores: int = 2, **variables: object):
        super().__init__(folder)
        self.workers, self.parallelism, self.cores, self._variables = workers, parallelism, cores, variables

    def start(self) -> None:
        home = prepare.spark_home()
        variables = {"SPARK_HOME": home, "SPARK_LOCAL_IP": HOST, "SPARK_SCALA_VERSION": "2.12"}
        daemon = [java(), "-Xmx512m", "-cp", f"{home}/jars/*"]
        port, self.web = free_ports(2)
        master = [*daemon, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", port]
        master += ["--webui-port", self.web]
        self.master = self.run("spark-master", master, lambda: self.alive() is not None, **variables)
        self.daemons = []
        for number in range(self.workers):
            web, work = free_ports(1)[0], self.folder / f"work-{number}"
            worker = [*daemon, "org.apache.spark.deploy.worker.Worker", "--host", HOST, "--cores", self.cores]
            worker += ["--memory", "2g", "--work-dir", work, "--webui-port", web, f"spark://{HOST}:{port}"]
            alive = lambda: (self.alive() or 0) > number  # noqa: E731
            self.daemons.append(self.run(f"spark-worker-{number}", worker, alive, **variables))
        self.pool = self.within(WorkerPool(self.folder, **self._variables))
        chosen = [f"-Dspark.default.parallelism={self.parallelism}", "-Dspark.executor.memory=1g"]
        self.url = f"spark://{HOST}:{port}"
        flags = _spark_job_server(self, self.url, *chosen)
        # Without the cache the SDK workers are ended and started again for each stage: twice the time.
        self.flags = [*flags, *self.pool.flags, "--environment_cache_millis=60000"]
        self.spread = [f"--sdk_worker_parallelism={self.cores}"]

    def alive(self) -> int | None:
        """Return how many Spark workers the master knows, or None if it does not answer."""
        answer = ask(self.web, "/json/")
        return answer and answer.get("aliveworkers", 0)


class FlinkCluster(Service):
    """A Flink session cluster: job manager, one task manager, a pool of SDK workers, the job server.

    The further flags `spread` give each slot of a pipeline with two stages in Python an SDK worker of its own.

    Args:
        folder: for logs and working files.
        slots: of the task manager.
    """

    def __init__(self, folder: Path, slots: int = 4, **variables: object):
        super().__init__(folder)
        self.slots, self._variables = slots, variables

    def start(self) -> None:
        home, conf = prepare.flink_home(), self.folder / "conf"
        conf.mkdir(exist_ok=True)
        rpc, self.rest = free_ports(2)
        settings = {
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": rpc,
            "jobmanager.bind-host": HOST,
            "jobmanager.memory.process.size": "1200m",
            "taskmanager.memory.process.size": "1800m",
            "taskmanager.numberOfTaskSlots": self.slots,
            "taskmanager.host": HOST,
            "taskmanager.bind-host": HOST,
            "rest.address": HOST,
            "rest.bind-address": HOST,
            "rest.port": self.rest,
            "parallelism.default": self.slots,
            "heartbeat.interval": 2000,  # milliseconds: a killed task manager is missed after two of them
            "restart-strategy.type": "fixed-delay",  # without one, a job fails with the first of its tasks
            "restart-strategy.fixed-delay.attempts": 2,
            "restart-strategy.fixed-delay.delay": "1 s",
            "io.tmp.dirs": self.folder,
        }
        (conf / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
        classes = ["-cp", f"{home}/lib/*"]
        options = ["--configDir", conf]
        entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        manager = [java(), "-Xmx600m", *_OPENS, *_FLINK_OPENS, *classes, entry, *options]
        self.manager = self.run("flink-job-manager", manager, lambda: ask(self.rest, "/overview") is not None)
        jvm, given = self._resources(conf)
        runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        worker = [java(), *jvm, *_OPENS, *_FLINK_OPENS, *classes, runner, *options, *given]
        self.task_manager = self.run("flink-task-manager", worker, lambda: (self.alive() or 0) > 0)
        self.pool = self.within(WorkerPool(self.folder, **self._variables))
        driver = [java(), "-Xmx600m", *_OPENS, *_FLINK_OPENS, "-cp", f"{prepare.job_server_jars('flink')}/*"]
        driver += ["org.apache.beam.runners.flink.FlinkJobServerDriver", f"--flink-master={HOST}:{self.rest}"]
        flags = _job_server(self, "flink-job-server", driver)
        self.flags = [*flags, *self.pool.flags, f"--parallelism={self.slots}", "--sdk_worker_parallelism=2"]
        # A task manager's SDK workers are dealt out in turn to the slots of all stages in Python, as these begin: two
        # slots of a stage share one, by chance, unless there are as many as slots in all stages.
        self.spread = [f"--sdk_worker_parallelism={2 * self.slots}"]

    def alive(self) -> int | None:
        """Return how many task managers the job manager knows, or None if it does not answer."""
        answer = ask(self.rest, "/overview")
        return answer and answer.get("taskmanagers", 0)

    def _resources(self, conf: Path) -> tuple[list[str], list[str]]:
        """Return the JVM's flags and the options that a task manager must be given."""
        home = prepare.flink_home()
        classes = f"{home}/lib/*{os.pathsep}{home}/bin/bash-java-utils.jar"
        command = [java(), "-cp", classes, "org.apache.flink.runtime.util.bash.BashJavaUtils"]
        command += ["GET_TM_RESOURCE_PARAMS", "--configDir", str(conf)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder)
        mark = "BASH_JAVA_UTILS_EXEC_RESULT:"
        lines = [line.partition(mark)[2] for line in done.stdout.splitlines() if mark in line]
        if len(lines) < 2:
            raise NotReady(f"Flink did not say what its task manager needs:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        return lines[0].split(), lines[1].split()


class Minio(Service):
    """An S3 server. `options` are those of fsspec's s3 file system, `variables` the environment for it."""

    key, secret = "testkey", "testsecret"

    def start(self) -> None:
        port, console = free_ports(2)
        command = [prepare.minio_binary(), "server", self.folder / "data", "--quiet"]
        command += ["--address", f"{HOST}:{port}", "--console-address", f"{HOST}:{console}"]
        users = {"MINIO_ROOT_USER": self.key, "MINIO_ROOT_PASSWORD": self.secret, "MINIO_BROWSER": "off"}
        self.endpoint = f"http://{HOST}:{port}"
        self.run("minio", command, lambda: ask(port, "/minio/health/live") is not None, HOME=self.folder, **users)
        self.options = {"key": self.key, "secret": self.secret, "client_kwargs": {"endpoint_url": self.endpoint}}
        self.variables = {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
