"""Backfills that are killed, cancelled, or met by others: every window ends as after one run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import command, environment, make_project
from deltalake import DeltaTable, write_deltalake

PIPELINE = """
from pyspark.sql import DataFrame, functions as F
from setpoint import Span, delta, pipeline, source

BAD = ["2026-03-05", "2026-03-17", "2026-04-11"]

@pipeline(every="day", target=delta("out", partition_by="d"), spans=True)
def job(window: Span, orders: DataFrame = source(delta("lake"), time="d")) -> DataFrame:
    bad = F.col("d").isin(*(F.lit(day).cast("date") for day in BAD))
    poison = F.raise_error(F.lit("a poisoned row")).cast("bigint")
    total = F.when(F.max(bad), poison).otherwise(F.sum("amount"))
    return orders.groupBy("customer", "d").agg(total.alias("amount"))
"""
FIRST, DAYS = date(2026, 3, 1), 60
BAD = {"2026-03-05", "2026-03-17", "2026-04-11"}
RANGE = ("--from", FIRST.isoformat(), "--to", (FIRST + timedelta(DAYS - 1)).isoformat())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path, PIPELINE)
    days = [FIRST + timedelta(n) for n in range(DAYS)]
    rows = [(day, customer) for day in days for customer in range(4)]
    orders = pa.table(
        {
            "d": [day for day, _ in rows],
            "customer": [customer for _, customer in rows],
            "amount": [day.day * 10 + customer for day, customer in rows],
        }
    )
    write_deltalake(str(tmp_path / "lake"), orders, partition_by=["d"])
    return tmp_path


def clean() -> list[tuple[str, int, int]]:
    """What one clean run of all windows would leave, without the poisoned ones."""
    days = [FIRST + timedelta(n) for n in range(DAYS)]
    return sorted(
        (day.isoformat(), customer, day.day * 10 + customer)
        for day in days
        for customer in range(4)
        if day.isoformat() not in BAD
    )


def stored(root: Path) -> list[tuple[str, int, int]]:
    rows = DeltaTable(str(root / "out")).to_pyarrow_table().to_pylist()
    return sorted((row["d"].isoformat(), row["customer"], row["amount"]) for row in rows)


def receipts(root: Path) -> list[dict[str, Any]]:
    history = DeltaTable(str(root / "out")).history()
    texts = [entry["userMetadata"] for entry in history if "userMetadata" in entry]
    return [receipt for text in texts for receipt in json.loads(text)["receipts"]]


def commits(root: Path) -> int:
    return len(list((root / "out" / "_delta_log").glob("*.json")))


def answer(text: str) -> dict[str, Any]:
    return json.loads(text.splitlines()[-1])["data"]


def started(root: Path, *words: str, windows: Sequence[str] = RANGE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "setpoint", "backfill", "job", *windows, "--json", *words],
        cwd=root,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def wait_for_commit(root: Path, process: subprocess.Popen[str]) -> None:
    before, deadline = commits(root), time.monotonic() + 120
    while commits(root) == before and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_killed_again_and_again_every_good_window_is_published_exactly_once(
    project: Path, times: int
) -> None:
    """57 of 60 windows; the three poisoned ones are named with their errors."""
    chance = random.Random(20260301)
    kills = 0
    for _ in range(times):
        process = started(project, "--chunk", "6")
        wait_for_commit(project, process)
        time.sleep(chance.uniform(0, 0.6))
        kills += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert kills >= times - 1
    # Another machine, with an empty ledger, goes on as well as the one that was killed.
    for file in (project / ".setpoint").glob("ledger.db*"):
        file.unlink()
    done = command(project, "backfill", "job", *RANGE, "--chunk", "6", "--json")
    found = answer(done.stdout)
    assert found["failed"] == 3
    assert {w["window"] for w in found["windows"] if w["state"] == "failed"} == BAD
    assert all("poisoned" in w["error"]["what"] for w in found["windows"] if w["state"] == "failed")
    assert stored(project) == clean()
    assert Counter(r["window"] for r in receipts(project)) == Counter(
        {day: 1 for day, _, _ in clean()}
    )
    again = answer(command(project, "backfill", "job", *RANGE, "--json").stdout)
    assert (again["published"], again["failed"]) == (0, 3)


@pytest.mark.slow
def test_two_backfills_and_a_schedule_at_once(project: Path) -> None:
    """They meet on the same windows; each window holds one clean run, and no row twice."""
    late = ("--from", "2026-04-12", "--to", "2026-04-29")
    others = [
        started(project, "--chunk", "5", windows=late),
        started(project, "--chunk", "3", "--newest-first", windows=late),
    ]
    daily = command(project, "run", "job", "--window", "2026-04-25..2026-04-29", "--json")
    assert daily.returncode == 0, daily.stderr
    for process in others:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, out
    assert stored(project) == [row for row in clean() if row[0] >= "2026-04-12"]
    assert {r["generation"] for r in receipts(project)} == {1}


@pytest.mark.slow
def test_a_cancelled_backfill_starts_no_further_chunk(project: Path) -> None:
    process = started(project, "--chunk", "2")
    wait_for_commit(project, process)
    (listed,) = answer(command(project, "backfill", "list", "--json").stdout)["backfills"]
    assert (listed["state"], listed["windows"]) == ("running", DAYS)
    told = answer(command(project, "backfill", "cancel", listed["backfill"], "--json").stdout)
    assert told["cancelled"] is True
    out, _ = process.communicate(timeout=240)
    assert answer(out)["not_started"] > 0
    assert process.returncode != 0
    shown = answer(command(project, "backfill", "show", listed["backfill"], "--json").stdout)
    assert shown["state"] == "cancelled"
    assert shown["left"] == answer(out)["not_started"]
    assert len(shown["windows"]) == DAYS
