"""kill -9 around and inside a location swap: readers find the old rows or the new ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from command import command, environment, make_project

WORKER = Path(__file__).with_name("parquet_worker.py")
PIPELINE = """
from pyspark.sql import SparkSession, functions as F
from setpoint import Window, parquet, pipeline

@pipeline(every="day", target=parquet(table="t", partition_by=("d", "region")))
def job(window: Window, first: int = 0):
    rows = SparkSession.active().range(first, first + 3)
    return rows.select(
        F.col("id").cast("int").alias("id"),
        F.concat(F.lit("r"), F.col("id").cast("string")).alias("region"),
        window.date.alias("d"),
    )
"""
KILLED = {"audited": "2026-04-01", "committed": "2026-04-02"}


def worker(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WORKER), *words],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def healed(root: Path, *windows: str) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The ids of each day, before and after the windows are run again."""
    done = worker(root, "heal", *windows)
    assert done.returncode == 0, done.stderr
    before, after = (_by_day(json.loads(line)) for line in done.stdout.splitlines()[-2:])
    return before, after


def _by_day(rows: list[tuple[str, str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for day, _, number in rows:
        found.setdefault(day, []).append(number)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_project(tmp_path, PIPELINE)
    return tmp_path


@pytest.mark.slow
def test_a_killed_run_leaves_the_old_rows_or_the_new_ones(root: Path) -> None:
    """H10: old partitions, new ones and emptied ones change together or not at all."""
    first, second = KILLED.items()
    assert worker(root, "begin", *first, *KILLED.values()).returncode == -signal.SIGKILL
    point, window = second
    words = ("run", "job", "--window", window, "--param", "first=1")
    assert command(root, *words, fault=f"{point}:kill").returncode == -signal.SIGKILL
    found, after = healed(root, *KILLED.values())
    for point, window in KILLED.items():
        assert found[window] == ([1, 2, 3] if point == "committed" else [0, 1, 2]), point
    assert set(map(tuple, after.values())) == {(1, 2, 3)}


@pytest.mark.slow
def test_a_metastore_that_dies_while_it_moves_partitions_moved_all_or_none(root: Path) -> None:
    """The JVM is killed inside the call; the next one finds all partitions on one side."""
    for moment in (0.05, None):
        worker: Any = subprocess.Popen(
            [sys.executable, str(WORKER), "swap"],
            cwd=root,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            sides = json.loads(worker.stdout.readline())
            assert len(sides) == 1, sides
            if moment is not None:
                while json.loads(worker.stdout.readline()) < 3:
                    pass
                Event().wait(moment)  # somewhere inside the call, or in one of those that follow
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
