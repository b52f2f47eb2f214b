"""kill -9 of a real merge into Iceberg before and after its commit, then one clean command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import setpoint

PROJECT = """
[spark]
master = "local[2]"
[spark.conf]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = 1
[retry]
first_wait = 0
longest_wait = 0
"""
PIPELINE = """
from setpoint import Merge, Window, iceberg, pipeline

@pipeline(
    every="day",
    target=iceberg("sales.orders"),
    write=Merge(key="id", sequence_by="at", delete_when="gone"),
)
def job(window: Window):
    from pyspark.sql import SparkSession

    day = window.day.day
    return SparkSession.getActiveSession().sql(
        f"SELECT cast(id as int) AS id, {day} AS at, id = {day} AS gone FROM range(0, {day})"
        f" UNION ALL SELECT {day - 1}, {day}, true"
    )
"""


def command(root: Path, *words: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(setpoint.__file__).parents[1])}
    environment["SETPOINT_FAULT"] = fault
    line = [sys.executable, "-m", "setpoint.cli.main", *words]
    return subprocess.run(
        line, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_killed_merges_end_like_clean_ones(tmp_path: Path, has_iceberg_connector: bool) -> None:
    """What was killed before its commit runs again, what was killed after it is unchanged."""
    if not has_iceberg_connector:
        if os.environ.get("CI"):
            pytest.fail("the Iceberg connector is not cached: python -m setpoint.spark.setup")
        pytest.skip("the Iceberg connector is not cached: python -m setpoint.spark.setup")
    from pyiceberg.catalog.sql import SqlCatalog

    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "job.py").write_text(PIPELINE)
    (tmp_path / "setpoint.toml").write_text(PROJECT)
    for window, fault in (("2026-04-02", "committed:kill"), ("2026-04-03", "audited:kill")):
        killed = command(tmp_path, "run", "job", "--window", window, fault=fault)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    both = command(tmp_path, "run", "job", "--window", "2026-04-02..2026-04-03")
    assert both.returncode == 0, both.stderr
    assert "unchanged  job[2026-04-02]" in both.stdout
    assert "published  job[2026-04-03]" in both.stdout
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/.setpoint/catalog.db")
    found = catalog.load_table("sales.orders").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["at"]) for row in found) == [(0, 3), (1, 3)]
    assert command(tmp_path, "recover", "--clean", "--yes").returncode == 0
    assert "Nothing to recover" in command(tmp_path, "recover").stdout
