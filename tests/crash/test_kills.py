"""kill -9 of the real command at every crash point, then a retry: the state of one clean run."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import command, make_project
from deltalake import DeltaTable, write_deltalake
from staging import Bench

from setpoint.flow.faults import ALWAYS

PIPELINE = """
from pyspark.sql import DataFrame, functions as F
from setpoint import Window, delta, not_null, pipeline, source, unique

@pipeline(
    every="day",
    target=delta("out", partition_by="d"),
    audits=[unique("d", "id"), not_null("amount")],
)
def job(
    window: Window, orders: DataFrame = source(delta("lake"), time="d"), factor: int = 1
) -> DataFrame:
    return orders.select("id", (F.col("amount") * factor).alias("amount"), "d")
"""
DAYS = {point: date(2026, 4, 1 + n) for n, point in enumerate(ALWAYS)}
SPARE = date(2026, 4, 1 + len(ALWAYS))
AROUND_THE_COMMIT = ("audited", "committed")
FARTHER = tuple(point for point in ALWAYS if point not in AROUND_THE_COMMIT)
LANDED = ("committed", "published", "recorded")
ROWS = 50


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose windows all hold the rows of a first, clean run."""
    root = tmp_path_factory.mktemp("kills") / "project"
    fill(root)
    done = run(root, window=f"{min(DAYS.values())}..{SPARE}")
    assert done.returncode == 0, done.stderr
    return root


def fill(root: Path) -> None:
    make_project(root, PIPELINE)
    for day in (*DAYS.values(), SPARE):
        orders = pa.table(
            {"id": list(range(ROWS)), "amount": [float(n) for n in range(ROWS)], "d": [day] * ROWS}
        )
        write_deltalake(str(root / "lake"), orders, mode="append", partition_by=["d"])


def run(
    root: Path, *, window: str, factor: int = 1, fault: str = "", extra: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    words = ["run", "job", "--window", window, "--param", f"factor={factor}", "--json", *extra]
    return command(root, *words, fault=fault)


def slice_of(root: Path, day: date) -> list[float]:
    table = DeltaTable(str(root / "out")).to_pyarrow_table(filters=[("d", "=", day)])
    return sorted(table.column("amount").to_pylist())


def receipts(root: Path, day: date) -> list[dict[str, Any]]:
    return [r for r in Bench(root).receipts() if r["window"] == day.isoformat()]


def bytes_of(root: Path, day: date) -> dict[str, str]:
    uris = [uri for uri in DeltaTable(str(root / "out")).file_uris() if f"/{day}/" in uri]
    return {uri: hashlib.sha256(Path(uri).read_bytes()).hexdigest() for uri in uris}


OLD = [float(n) for n in range(ROWS)]
NEW = [3.0 * n for n in range(ROWS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "points", [AROUND_THE_COMMIT, pytest.param(FARTHER, marks=pytest.mark.soak)], ids=" ".join
)
def test_kill_and_retry_at_every_point(home: Path, points: Sequence[str]) -> None:
    """Killed anywhere, the window holds the old rows or the new ones; a retry ends all alike.

    The demo and the proof of a pipeline kill at every point too: here the two around the commit do.
    """
    days = {point: DAYS[point] for point in points}
    before = {day: bytes_of(home, day) for day in (*days.values(), SPARE)}
    for point, day in days.items():
        killed = run(home, window=day.isoformat(), factor=3, fault=f"{point}:kill")
        assert killed.returncode == -signal.SIGKILL, (point, killed.stderr)
        landed = point in LANDED
        assert slice_of(home, day) == (NEW if landed else OLD), point
        assert len(receipts(home, day)) == (2 if landed else 1), point
        if not landed:
            assert bytes_of(home, day) == before[day], point
    retried = run(home, window=",".join(day.isoformat() for day in days.values()), factor=3)
    assert retried.returncode == 0, retried.stderr
    states = {w["window"]: w["state"] for w in json.loads(retried.stdout)["data"]["windows"]}
    for point, day in days.items():
        assert states[day.isoformat()] == ("unchanged" if point in LANDED else "published"), point
        assert slice_of(home, day) == NEW, point
        assert [r["generation"] for r in receipts(home, day)] == [1, 2], point
        assert receipts(home, day)[-1]["rows"] == ROWS
    assert bytes_of(home, SPARE) == before[SPARE]
    assert Bench(home).missing_files() == []


@pytest.mark.slow
def test_a_lost_answer_ends_well_in_one_process(home: Path) -> None:
    """The commit landed, its answer did not come: the process asks the target and ends with 0."""
    day = SPARE.isoformat()
    done = run(home, window=day, factor=5, fault="committed:lose")
    assert done.returncode == 0, done.stderr
    (window,) = json.loads(done.stdout)["data"]["windows"]
    assert (window["state"], window["tries"]) == ("published", 1)
    assert slice_of(home, SPARE) == [5.0 * n for n in range(ROWS)]
    assert [r["generation"] for r in receipts(home, SPARE)] == [1, 2]
