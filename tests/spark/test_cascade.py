"""Pipelines that feed each other, filled from one end to the other with one command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from setpoint.cli.main import main

PIPELINES = """
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F
from setpoint import Window, delta, pipeline, source


@pipeline(every="15 minutes", target=delta("quarters", partition_by="at"))
def quarters(window: Window) -> DataFrame:
    spark = SparkSession.getActiveSession()
    if window.id == "2026-04-30T21:15" and Path("broken").exists():
        raise ValueError("this quarter is broken")
    return spark.range(2).select(F.lit(window.start).alias("at"), F.lit(1).alias("n"))


@pipeline(every="hour", target=delta("hours", partition_by="hour"))
def hours(window: Window, rows: DataFrame = source(quarters)) -> DataFrame:
    return rows.agg(F.sum("n").alias("n")).withColumn("hour", F.lit(window.start))


@pipeline(every="day", target=delta("days", partition_by="d"))
def days(window: Window, rows: DataFrame = source(hours)) -> DataFrame:
    return rows.agg(F.sum("n").alias("n")).withColumn("d", window.date)


@pipeline(every="month", target=delta("months", partition_by="month"))
def months(window: Window, rows: DataFrame = source(days)) -> DataFrame:
    return rows.agg(F.sum("n").alias("n")).withColumn("month", window.date)
"""


EVENING = ("--from", "2026-04-30T20:00", "--to", "2026-04-30T23:45")


@pytest.fixture
def project(project_dir: Path, spark: Any) -> Path:
    (project_dir / "setpoint.toml").write_text('[pipelines]\npaths = ["pipelines"]\n')
    (project_dir / "pipelines").mkdir(exist_ok=True)
    (project_dir / "pipelines" / "graph.py").write_text(PIPELINES)
    return project_dir


def total(project: Path, table: str) -> int:
    return sum(DeltaTable(str(project / table)).to_pyarrow_table()["n"].to_pylist())


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def tell(*words: str) -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        code = main(["backfill", *words, "--json"])
        return code, json.loads(capfd.readouterr().out.splitlines()[-1])["data"]

    return tell


def test_four_grains_from_the_top_and_from_the_bottom(project: Path, told: Any) -> None:
    """One command fills quarters, hours, a day and its month, each when its inputs are there."""
    code, plan = told("quarters", *EVENING, "--downstream", "--dry-run")
    counts = [w["pipeline"] for w in plan["windows"]]
    assert [counts.count(name) for name in ("quarters", "hours", "days", "months")] == [16, 4, 1, 1]
    code, done = told("quarters", *EVENING, "--downstream")
    assert (code, done["published"], done["failed"]) == (0, 22, 0)
    assert [total(project, name) for name in ("quarters", "hours", "days", "months")] == [32] * 4
    code, again = told("months", "--window", "2026-04", "--upstream", "--dry-run")
    assert len(again["windows"]) == 30 * 96 + 30 * 24 + 30 + 1
    code, again = told("quarters", *EVENING, "--downstream")
    assert (again["published"], again["unchanged"]) == (0, 22)


def test_a_failed_window_blocks_only_what_depends_on_it(
    project: Path, told: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "broken").touch()
    assert main(["backfill", "quarters", *EVENING, "--downstream"]) != 0
    summary = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [line[:2] for line in summary if line[0] in ("failed", "blocked")] == [
        ["failed", "quarters[2026-04-30T21:15]"],
        ["blocked", "hours[2026-04-30T21]"],
        ["blocked", "days[2026-04-30]"],
        ["blocked", "months[2026-04]"],
    ]
    assert total(project, "hours") == 3 * 8
    (project / "broken").unlink()
    code, _ = told("quarters", *EVENING, "--downstream")
    assert code == 0
    assert total(project, "months") == 32


def test_a_gap_upstream_is_refused_and_not_read_as_no_rows(project: Path, told: Any) -> None:
    """An hour without one of its quarters would be a smaller hour, and nobody would notice."""
    assert (
        told("quarters", "--window", "2026-04-30T20:00,2026-04-30T20:30..2026-04-30T20:45")[0] == 0
    )
    assert main(["run", "hours", "--window", "2026-04-30T20", "--json"]) == 3
    code, done = told("hours", "--window", "2026-04-30T20")
    assert code == 3
    (window,) = done["windows"]
    assert window["error"]["code"] == "SP-R07"
    assert "2026-04-30T20:15" in window["error"]["what"]
    assert told("hours", "--window", "2026-04-30T20", "--upstream")[0] == 0
    assert total(project, "hours") == 8


CARRIED = """
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F
from setpoint import Window, delta, pipeline, previous, source


@pipeline(every="day", target=delta("moves", partition_by="d"))
def moves(window: Window) -> DataFrame:
    n = 100 if window.day.day == 1 and Path("corrected").exists() else 1
    spark = SparkSession.getActiveSession()
    return spark.range(1).select(F.lit(n).alias("n"), window.date.alias("d"))


@pipeline(every="day", target=delta("balance", partition_by="d"))
def balance(
    window: Window,
    before: DataFrame = previous("n bigint"),
    rows: DataFrame = source(moves),
) -> DataFrame:
    both = before.unionByName(rows.select("n"))
    return both.agg(F.sum("n").alias("n")).withColumn("d", window.date)
"""


def test_a_correction_goes_on_through_a_pipeline_that_reads_itself(
    project: Path, told: Any
) -> None:
    """One day is restated: every later balance that was published goes on from it."""
    (project / "pipelines" / "graph.py").write_text(CARRIED)
    code, done = told("moves", "--window", "2026-04-01..2026-04-03", "--downstream")
    assert (code, done["published"], total(project, "balance")) == (0, 6, 1 + 2 + 3)
    (project / "corrected").touch()
    first = ("--window", "2026-04-01", "--restate", "--downstream")
    code, plan = told("moves", *first, "--dry-run")
    assert [(w["pipeline"], w["window"], w["reason"]) for w in plan["windows"]] == [
        ("moves", "2026-04-01", "asked for"),
        ("balance", "2026-04-01", "it reads moves"),
        ("balance", "2026-04-02", "it goes on from the window before"),
        ("balance", "2026-04-03", "it goes on from the window before"),
    ]
    code, done = told("moves", *first, "--yes")
    assert (code, done["published"], total(project, "balance")) == (0, 4, 100 + 101 + 102)
    code, done = told("balance", *first, "--yes")
    assert (code, done["published"], done["unchanged"]) == (0, 1, 2)
