"""The real command in a small project of its own, for tests that kill it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import setpoint

PROJECT = """
[spark]
master = "local[2]"
[spark.conf]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = 1
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
[retry]
first_wait = 0
longest_wait = 0
"""
# Each window removes its last key and brings the others up to its day.
MERGES = """
from setpoint import Merge, Window, pipeline, {kind}

@pipeline(
    every="day",
    target={target},
    write=Merge(key="id", sequence_by="at", delete_when="gone"),
)
def job(window: Window):
    from pyspark.sql import SparkSession

    day = window.day.day
    return SparkSession.getActiveSession().sql(
        f"SELECT cast(id as int) AS id, {{day}} AS at, id = {{day}} AS gone FROM range(0, {{day}})"
        f" UNION ALL SELECT {{day - 1}}, {{day}}, true"
    )
"""


def make_project(root: Path, pipeline: str) -> None:
    """A project with one pipeline, called job."""
    (root / "pipelines").mkdir(parents=True)
    (root / "setpoint.toml").write_text(PROJECT)
    (root / "pipelines" / "job.py").write_text(pipeline)


def environment(fault: str = "", **more: str) -> dict[str, str]:
    """What a process of its own needs to find setpoint, and a fault to meet."""
    found = {**os.environ, "PYTHONPATH": str(Path(setpoint.__file__).parents[1]), **more}
    return {**found, "SETPOINT_FAULT": fault}


def command(
    root: Path, *words: str, fault: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `setpoint WORDS` in the project."""
    return subprocess.run(
        [sys.executable, "-m", "setpoint.cli.main", *words],
        cwd=root,
        env=environment(fault, **more),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
