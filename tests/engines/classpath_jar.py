"""A job server in one jar, as `--spark_job_server_jar` and `--flink_job_server_jar` want it, made of many thin ones.

Beam publishes a fat jar for each, which its runners download by themselves. Where that is not to be had, a jar that
holds nothing but a manifest with the class path and the main class serves as well.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import prepare

MAIN = {
    "spark": "org.apache.beam.runners.spark.SparkJobServerDriver",
    "flink": "org.apache.beam.runners.flink.FlinkJobServerDriver",
}


def classpath_jar(engine: str, folder: Path) -> Path:
    """Write the jar of the job server for "spark" or "flink" into a folder and return its path."""
    folders = [prepare.job_server_jars(engine)]
    if engine == "spark":
        folders.append(prepare.spark_home() / "jars")
    jars = [jar.resolve().as_uri() for where in folders for jar in sorted(where.glob("*.jar"))]
    line = f"Class-Path: {' '.join(jars)}"
    wrapped = [line[:72], *(" " + line[start : start + 71] for start in range(72, len(line), 71))]  # 72 bytes at most
    path = folder / f"{engine}-job-server.jar"
    with zipfile.ZipFile(path, "w") as jar:
        lines = ["Manifest-Version: 1.0", f"Main-Class: {MAIN[engine]}", *wrapped, "", ""]
        jar.writestr("META-INF/MANIFEST.MF", "\r\n".join(lines))
    return path
