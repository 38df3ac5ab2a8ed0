"""Submit by the real Dataflow runner, as far as it goes without the service: what it would send is looked at."""

from __future__ import annotations

import base64
import bz2
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import prepare
import pytest
from conftest import demand
from google_services import Google
from submitting import Engine

EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGE = "example.com/images/beam_bpe:1"
ERROR = (
    "Traceback (most recent call last):\n  File \"sdk_worker.py\", line 1, in _execute\n"
    "ModuleNotFoundError: No module named 'beam_bpe'\n"
)
# What the service's workers do with the graph: unpickle every function, in an environment that holds only the wheel.
_UNPICKLE = """
import sys
from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2 as api
graph = api.Pipeline.FromString(open(sys.argv[1], "rb").read())
for transform in graph.components.transforms.values():
    if transform.spec.urn == "beam:transform:pardo:v1":
        do_fn = api.ParDoPayload.FromString(transform.spec.payload).do_fn
        assert do_fn.urn == "beam:dofn:pickled_python_info:v1", do_fn.urn
        print(type(pickler.loads(do_fn.payload)[0]).__name__)
"""


@pytest.fixture
def google():
    demand("gcp")
    with Google("JOB_STATE_FAILED", ERROR) as server:
        yield server


@pytest.fixture
def dataflow(workers, submit_from, google, minio) -> Engine:
    """The flags of the README's command, the endpoints of the server in the place of Google's."""
    flags = [
        "--runner=DataflowRunner",
        "--project=project",
        "--region=us-central1",
        "--temp_location=gs://bucket/temp",
        f"--sdk_container_image={IMAGE}",
        "--worker_machine_type=n2-standard-8",
        "--max_num_workers=40",
        "--number_of_worker_harness_threads=4",
        f"--dataflow_endpoint={google.endpoint}",
        "--no_auth",
    ]
    overlay = {"PYTHONPATH": str(prepare.gcp_packages()), "STORAGE_EMULATOR_HOST": google.endpoint}
    return Engine("dataflow", flags, submit_from, None, {**overlay, **minio.variables})


_BUCKETS = """
import fsspec
files = fsspec.filesystem("s3")
for name in ("corpus", "corpus-out", "corpus-ids"):
    files.makedirs(name, exist_ok=True)
for number in range(10):
    files.pipe(f"corpus/{number}.txt", b"low lower newest widest" * 1000)
"""


@pytest.fixture
def bucket(workers, minio):
    """A bucket with ten texts."""
    python = [prepare.worker_bin("python"), "-c", _BUCKETS]
    subprocess.run(python, check=True, env={**os.environ, **minio.variables}, timeout=60)
    return "s3://corpus"


def sent(google: Google, folder: Path) -> tuple[Path, bytes, dict]:
    """Return the graph that was staged (a file, and its content) and the request that was made."""
    staged = [content for name, content in google.objects.items() if name.endswith("pipeline.pb")]
    assert len(staged) == len(google.requests) == 1
    (folder / "pipeline.pb").write_bytes(staged[0])
    return folder / "pipeline.pb", staged[0], json.loads(google.requests[0])


def unpacked(graph: bytes) -> bytes:
    """Return the graph and all that is pickled in it, in the clear."""
    from apache_beam.portability.api import beam_runner_api_pb2 as api

    found = [graph]
    for transform in api.Pipeline.FromString(graph).components.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1":
            packed = base64.b64decode(api.ParDoPayload.FromString(transform.spec.payload).do_fn.payload)
            found.append(bz2.decompress(packed) if packed.startswith(b"BZh") else zlib.decompress(packed))
    return b"\n".join(found)


COMMANDS = {
    "train": ["train", "{corpus}/*.txt", "--output", "{corpus}-out", "--vocab-size", 300, "--train-on", "worker"],
    "encode": ["encode", "{corpus}/*.txt", "--output", "{corpus}-ids", "--vocabulary", "{vocabulary}"],
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_job_as_dataflow_gets_it(command, dataflow, google, bucket, minio, workers, shared, tmp_path):
    """Small, whole, without secrets; encoding with 200,000 tokens."""
    vocabulary = shared / "reference" / "o200k_base.tiktoken"
    words = [str(word).format(corpus=bucket, vocabulary=vocabulary) for word in COMMANDS[command]]
    done = dataflow.beam_bpe(*words, fails=True)
    path, graph, request = sent(google, tmp_path)

    assert done.stderr.startswith("beam-bpe: error: the workers have no beam_bpe: ") and done.stderr.count("\n") == 1
    print(f"{command}: a graph of {len(graph):,} bytes, a request of {len(google.requests[0]):,}")
    assert len(graph) < 4e6 and len(google.requests[0]) < 4e6  # of 10 MB and 20 MB

    pools = request["environment"]["workerPools"]
    assert pools[0]["machineType"] == "n2-standard-8" and pools[0]["autoscalingSettings"]["maxNumWorkers"] == 40
    assert any(IMAGE in json.dumps(pool) for pool in pools)

    alone = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    script = [prepare.worker_bin("python"), "-I", "-c", _UNPICKLE, path]
    loaded = subprocess.run(script, capture_output=True, text=True, env=alone, cwd="/")
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    assert ("_EncodeRangeFn" if command == "encode" else "_TrainFn") in loaded.stdout.split()

    # Beam's own lambdas name the files that they stand in, which is nothing of ours; no other place may be in there.
    own = next(workers.glob("lib/*/site-packages")) / "apache_beam"
    clear = unpacked(graph).replace(f"{own}/".encode(), b"")
    places = {Path.cwd(), dataflow.folder, Path.home(), workers, vocabulary.parent, Path(tempfile.gettempdir())}
    secrets = [minio.secret, minio.key, minio.endpoint]
    assert [place for place in places if f"{place}/".encode() in clear] == []
    assert [text for text in secrets if text.encode() in clear or text.encode() in google.requests[0]] == []
    host = socket.gethostname()
    assert len(host) < 6 or host.encode() not in clear  # shorter names are found anywhere


def test_workers_without_the_package_are_refused_early(dataflow, bucket):
    """Before anything is uploaded."""
    dataflow.flags.remove(f"--sdk_container_image={IMAGE}")
    done = dataflow.beam_bpe("count", f"{bucket}/*.txt", "--output", "s3://corpus/words", fails=True)
    assert "--sdk_container_image=IMAGE or --extra_package=WHEEL" in done.stderr and done.stderr.count("\n") == 1


# ---- the image and the template of examples/ -----------------------------------------------------


def test_flex_template(workers, tmp_path):
    """Its program takes the parameters that its metadata declares, and learns."""
    metadata = json.loads((EXAMPLES / "flex_template" / "metadata.json").read_text())
    (tmp_path / "a.txt").write_text("low lower newest widest " * 200)
    values = {"inputs": tmp_path / "a.txt", "output": tmp_path / "out", "vocab_size": 270, "pattern": "gpt2", "shards": 2}
    assert {parameter["name"] for parameter in metadata["parameters"]} == set(values)
    required = {parameter["name"] for parameter in metadata["parameters"] if not parameter.get("isOptional")}
    assert required == {"inputs", "output"}
    command = [prepare.worker_bin("python"), EXAMPLES / "flex_template" / "learn.py", "--runner=FnApiRunner"]
    command += [f"--{name}={value}" for name, value in values.items()]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=120, capture_output=True)
    assert (tmp_path / "out" / "vocabulary.parquet").exists()
    assert len(list((tmp_path / "out" / "words").glob("part-*-of-00002.parquet"))) > 0


@pytest.mark.slow
def test_dockerfile(workers, tmp_path):
    """What it runs, run in an environment with Beam alone, which is what Beam's image is."""
    text = (EXAMPLES / "Dockerfile").read_text().replace("\\\n", " ")
    stage = text[text.index("AS workers") : text.index("AS template")]
    runs = re.findall(r"^RUN (.+)$", stage, re.M)
    assert len(runs) == 2
    home, wheels = tmp_path / "image", tmp_path / "wheels"
    wheels.mkdir()
    shutil.copy(next((prepare.CACHE / f"wheel-{prepare.PYTHON}" / "dist").glob("*.whl")), wheels)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    image = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    image["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for command in ["pip install -q apache-beam==2.77.0", *runs]:
        command = command.replace("/wheels/", f"{wheels}/").replace("--no-cache-dir", "-q")
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=image, cwd=tmp_path, timeout=900)
        assert done.returncode == 0, f"{command}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
    assert done.stdout.startswith("beam-bpe ")
