"""kill -9 of a real merge into PostgreSQL around its commit, then one clean command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
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
from setpoint import Merge, Window, pipeline, postgres

@pipeline(
    every="day",
    target=postgres("killed_orders", connection="shop"),
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


@pytest.mark.slow
def test_killed_merges_end_like_clean_ones(tmp_path: Path, postgres_url: str) -> None:
    """What was killed before its commit runs again, what was killed after it is unchanged."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "job.py").write_text(PIPELINE)
    (tmp_path / "setpoint.toml").write_text(PROJECT)

    def command(*words: str, fault: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(setpoint.__file__).parents[1])}
        environment |= {"SETPOINT_FAULT": fault, "SETPOINT_CONNECTION_SHOP": postgres_url}
        line = [sys.executable, "-m", "setpoint.cli.main", *words]
        return subprocess.run(
            line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    for window, fault in (("2026-04-02", "committed:kill"), ("2026-04-03", "audited:kill")):
        killed = command("run", "job", "--window", window, fault=fault)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    both = command("run", "job", "--window", "2026-04-02..2026-04-03")
    assert both.returncode == 0, both.stderr
    assert "unchanged  job[2026-04-02]" in both.stdout
    assert "published  job[2026-04-03]" in both.stdout
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT id, at FROM killed_orders ORDER BY id").fetchall()
        assert found == [(0, 3), (1, 3)]
        told = connection.execute(
            'SELECT "window", generation FROM setpoint.receipts WHERE target LIKE %s ORDER BY 1',
            ["%killed_orders%"],
        ).fetchall()
        assert told == [("2026-04-02", 1), ("2026-04-03", 1)]
    cleaned = command("recover", "--clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "Nothing to recover" in command("recover").stdout
