"""Prepare what the tests on real engines need: ``python tests/engines/prepare.py [workers prism spark flink minio gcp chromium]``.

Everything lands in a cache folder (BEAM_BPE_ENGINES, else ~/.cache/beam_bpe/engines), each part once: what is there
and made by the same recipe is left alone. A part that cannot be prepared here is skipped with the reason in one line;
the others are prepared all the same, and the tests of what is absent skip. With --within MINUTES parts that are not
ready by then are given up (BEAM_BPE_PREPARE_MINUTES says the same). The exit code is 0, or with --strict 1 if a part failed.

    prism     Beam's own portable runner, through the Go module proxy
    spark     Spark 3.5 (the pyspark package) and the jars of Beam's job server for it, through Maven
    flink     Flink 1.19 (the apache-flink-libraries package) and the jars of its job server
    minio     an S3 server, through the Go module proxy
    gcp       the packages of apache-beam[gcp] that the Dataflow runner imports
    chromium  a headless Chromium and the rules of axe-core, through npm
    workers   a Python environment that holds the built wheel of this checkout and its dependencies, nothing else
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("BEAM_BPE_ENGINES") or Path.home() / ".cache" / "beam_bpe" / "engines").absolute()

PRISM = "github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
SPARK = "pyspark==3.5.7"
FLINK = "apache-flink-libraries==1.19.3"
CHROMIUM = ("@sparticuz/chromium@153.0.0", "axe-core@4.14.1")
GCP = ("google-cloud-storage<", "google-cloud-dataflow-client<", "google-auth<", "google-apitools<", "google-auth-httplib2<")
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"


class Missing(Exception):
    """A part cannot be prepared on this machine; the message says why, in one line."""


class Failed(Exception):
    """Preparing a part failed."""


class _Clock:
    """When preparing is given up."""

    until: float | None = None

    @classmethod
    def left(cls) -> float | None:
        """Return the seconds that are left, or None for any number."""
        return None if cls.until is None else max(0.1, cls.until - time.monotonic())


def log(text: str) -> None:
    print(f"engines: {text}", flush=True)


# --- Parts: where they stand, and whether they do -------------------------------------------------------------------


def prism_binary() -> Path:
    """Return the path of the Prism binary."""
    return CACHE / "prism" / "prism"


def minio_binary() -> Path:
    """Return the path of the MinIO binary."""
    return CACHE / "minio" / "minio"


def spark_home() -> Path:
    """Return the folder that holds Spark's bin and jars."""
    return CACHE / "spark" / "pyspark"


def flink_home() -> Path:
    """Return the folder that holds Flink's lib and bin."""
    return CACHE / "flink" / "pyflink"


def job_server_jars(engine: str) -> Path:
    """Return the folder of the jars of Beam's job server for "spark" or "flink"."""
    return CACHE / f"{engine}-job-server"


def workers_home() -> Path:
    """Return the environment in which the SDK workers and the command run."""
    return CACHE / f"workers-{PYTHON}"


def gcp_packages() -> Path:
    """Return the folder of packages that the Dataflow runner needs beside the worker environment."""
    return CACHE / "gcp"


def chromium_home() -> Path:
    """Return the folder that holds the browser `chromium`, its libraries in `lib`, and `axe.min.js`."""
    return CACHE / "chromium"


def worker_bin(name: str) -> Path:
    """Return a program of the worker environment."""
    return workers_home() / "bin" / name


def absent(part: str) -> str | None:
    """Return why a part cannot be used as it stands, or None if it can."""
    folders = {"spark": ["spark", "spark-job-server"], "flink": ["flink", "flink-job-server"]}
    folders["workers"] = [workers_home().name]
    if all((CACHE / folder / "READY").exists() for folder in folders.get(part, [part])):
        return None
    return f"{part} is not prepared: python tests/engines/prepare.py {part}"


# --- How they are made ----------------------------------------------------------------------------------------------


def prepare_prism() -> None:
    """Build the Prism binary."""
    _go_install("prism", PRISM)


def prepare_minio() -> None:
    """Build the MinIO binary."""
    _go_install("minio", MINIO)


def prepare_spark() -> None:
    """Fetch Spark and the jars of its job server."""
    _needs("java", "a Java runtime")
    _pip_target("spark", SPARK)
    _jars("spark")


def prepare_flink() -> None:
    """Fetch Flink and the jars of its job server."""
    _needs("java", "a Java runtime")
    _pip_target("flink", FLINK)
    _jars("flink")


def prepare_chromium() -> None:
    """Fetch a headless Chromium, which stands packed in a package of npm, and axe-core."""
    _needs("npm", "npm")
    _needs("node", "Node.js")
    with _made("chromium", " ".join(CHROMIUM)) as folder:
        if folder:
            log(f"chromium: npm install {' '.join(CHROMIUM)} (70 MB)")
            _run("npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, *CHROMIUM)
            modules = folder / "node_modules"
            packed = modules / "@sparticuz" / "chromium" / "bin"
            for name in ("chromium", "al2023.tar", "swiftshader.tar", "fonts.tar"):
                _run("node", "-e", _UNPACK, packed / f"{name}.br", folder / name)
                if name.endswith(".tar"):
                    _run("tar", "-xf", folder / name, "-C", folder)
                    (folder / name).unlink()
            (modules / "axe-core" / "axe.min.js").rename(folder / "axe.min.js")
            shutil.rmtree(modules)


_UNPACK = (
    "const fs = require('fs'); const [from, to] = process.argv.slice(1); "
    "fs.writeFileSync(to, require('zlib').brotliDecompressSync(fs.readFileSync(from)), {mode: 0o755})"
)


def prepare_workers() -> None:
    """Make the worker environment, and install the wheel of this checkout when its sources have changed."""
    _needs("cc", "a C compiler")
    home = workers_home()
    stamp = home / "READY"
    with _lock(home.name):
        recipe = _digest(ROOT / "pyproject.toml")
        sources = _digest(*_sources())
        if stamp.exists() and stamp.read_text().split() == [recipe, sources]:
            return
        fresh = not (home / "RECIPE").exists() or (home / "RECIPE").read_text() != recipe
        log("workers: building the wheel of this checkout")
        wheel = _build_wheel(CACHE / f"wheel-{PYTHON}")
        stamp.unlink(missing_ok=True)
        if fresh:
            log("workers: a new environment with the wheel's dependencies")
            shutil.rmtree(home, ignore_errors=True)
            _run(sys.executable, "-m", "venv", home)
            _run(worker_bin("python"), "-m", "pip", "install", "-q", f"{wheel}[s3,yaml]", "zstandard")
            (home / "RECIPE").write_text(recipe)
        else:
            _run(worker_bin("python"), "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", wheel)
        where = _run(worker_bin("python"), "-I", "-c", "import beam_bpe; print(beam_bpe.__file__)", cwd="/").strip()
        if not where.startswith(str(home)):
            raise Failed(f"beam_bpe is imported from {where} and not from the wheel")
        stamp.write_text(f"{recipe} {sources}")


def prepare_gcp() -> None:
    """Fetch what the Dataflow runner imports, in the versions that Beam asks for, to lie over the worker environment."""
    if reason := absent("workers"):
        raise Missing(reason)
    script = "from importlib.metadata import requires; print(*requires('apache-beam'), sep='\\n')"
    lines = _run(worker_bin("python"), "-c", script).splitlines()
    wanted = [line.partition(";")[0] for line in lines if line.startswith(GCP) and "extra == 'gcp'" in line.replace('"', "'")]
    kept = _run(worker_bin("python"), "-m", "pip", "freeze", "--exclude", "beam_bpe")
    with _made("gcp", " ".join(wanted)) as folder:
        if folder:
            log(f"gcp: pip install {' '.join(wanted)}")
            (folder / "constraints.txt").write_text(kept)
            pip = [worker_bin("python"), "-m", "pip", "install", "-q", "--no-compile"]
            _run(*pip, "--constraint", folder / "constraints.txt", "--target", folder, *wanted)


def _sources() -> list[Path]:
    """Return all that goes into the wheel."""
    files = [ROOT / name for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")]
    for folder, suffixes in (("beam_bpe", (".py", ".pyi", ".typed", ".yaml")), ("cython_ext", (".pyx", ".h"))):
        files += [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes or path.name == "py.typed"]
    return [path for path in files if path.is_file()]


def _build_wheel(home: Path) -> Path:
    """Build the wheel from a copy of the sources, in which only the kernels that changed are compiled again."""
    shutil.rmtree(home / "dist", ignore_errors=True)
    wanted = {path.relative_to(ROOT): path for path in _sources()}
    for path in [*home.rglob("*.py"), *home.rglob("*.pyi")]:
        if path.relative_to(home) not in wanted:  # also what an earlier build gathered
            path.unlink()
    for name, path in wanted.items():
        copy = home / name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", home / "dist", home, cwd=home)
    return next((home / "dist").glob("beam_bpe-*.whl"))


def _go_install(name: str, package: str) -> None:
    _needs("go", "the Go toolchain")
    with _made(name, package) as folder:
        if folder:
            log(f"{name}: go install {package} (a minute or more)")
            _run("go", "install", package, GOBIN=str(folder), cwd=folder)


def _pip_target(name: str, requirement: str) -> None:
    with _made(name, requirement) as folder:
        if folder:
            log(f"{name}: pip install {requirement} (hundreds of MB)")
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
            _run(*pip, "--target", folder, requirement)


def _jars(engine: str) -> None:
    name = f"{engine}-job-server"
    pom = HERE / f"{name}.pom.xml"
    _needs("mvn", "Maven")
    with _made(name, _digest(pom)) as folder:
        if folder:
            log(f"{name}: jars through Maven (100 MB and more)")
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
            _run("mvn", "-B", "-q", "-f", pom, *goal)


@contextmanager
def _made(name: str, recipe: str) -> Iterator[Path | None]:
    """Give a temporary folder that becomes CACHE/name if the body succeeds, or None if it is there already."""
    home = CACHE / name
    with _lock(name):
        if (home / "READY").exists() and (home / "READY").read_text() == recipe:
            yield None
            return
        folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
        folder.chmod(0o755)
        try:
            yield folder
            (folder / "READY").write_text(recipe)
            shutil.rmtree(home, ignore_errors=True)
            folder.rename(home)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Let one process at a time prepare a part."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f".{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _needs(program: str, what: str) -> None:
    if shutil.which(program) is None:
        raise Missing(f"there is no {what} ({program}) here")


def _run(*command: object, cwd: object = None, **variables: str) -> str:
    """Run a command at low priority and return what it prints; its last lines are the error if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")} | variables
    words = [str(word) for word in command]
    if shutil.which("nice"):
        words = ["nice", "-n", "10", *words]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=_Clock.left())
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Missing("the minutes of --within are over") from None
        raise
    if process.returncode:
        tail = "\n".join((out + err).strip().splitlines()[-15:])
        raise Failed(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{tail}")
    return out


PARTS: dict[str, Callable[[], None]] = {
    "workers": prepare_workers,
    "chromium": prepare_chromium,
    "gcp": prepare_gcp,
    "spark": prepare_spark,
    "prism": prepare_prism,
    "flink": prepare_flink,
    "minio": prepare_minio,
}


def main(arguments: list[str] | None = None) -> int:
    """Prepare the parts that are named, or all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--within", type=float, metavar="MINUTES", help="for all of them together (no limit)")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a part failed")
    options = parser.parse_args(arguments)
    chosen = options.parts or list(PARTS)
    minutes = options.within or os.environ.get("BEAM_BPE_PREPARE_MINUTES")
    if minutes:
        _Clock.until = time.monotonic() + 60 * float(minutes)
    for part in chosen:
        if part not in PARTS:
            parser.error(f"{part!r} is no part; choose from {', '.join(PARTS)}")
    failures = 0
    for part in chosen:
        start = time.monotonic()
        try:
            PARTS[part]()
        except Missing as reason:
            log(f"{part}: skipped, {reason}")
        except (Failed, OSError) as reason:
            failures += 1
            log(f"{part}: FAILED after {time.monotonic() - start:.0f} s: {reason}")
        else:
            log(f"{part}: ready ({time.monotonic() - start:.0f} s)")
    return 1 if failures and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
