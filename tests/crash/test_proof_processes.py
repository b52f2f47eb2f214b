"""Experiments of a proof in processes of their own, on small windows and with real kills."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import PROJECT
from deltalake import DeltaTable, write_deltalake

from setpoint.model.proof import Proof, Result
from setpoint.model.window import Window
from setpoint.project.config import find_config
from setpoint.project.discover import pipeline_named
from setpoint.prove.pipeline import choose, prove_pipeline
from setpoint.prove.trials import kills

DAY, ROWS = date(2026, 4, 25), 200

GOOD = """
from pyspark.sql import DataFrame, functions as F
from setpoint import Window, delta, pipeline, source, unique

@pipeline(every="day", target=delta("out", partition_by="d"), audits=[unique("d", "id")])
def job(window: Window, orders: DataFrame = source(delta("lake"), time="d")) -> DataFrame:
    return orders.select("id", (F.col("amount") * 2).alias("amount"), "d")
"""
# Three columns, and each depends on something else than the window and its inputs.
MOVED = """
import os
from datetime import datetime
from pyspark.sql import DataFrame, functions as F, types as T
from setpoint import Window, delta, pipeline, source, unique

@F.udf(returnType=T.LongType())
def shop(amount):
    return hash(f"shop {amount}")

@pipeline(every="day", target=delta("out", partition_by="d"), audits=[unique("d", "id")])
def job(
    window: Window,
    orders: DataFrame = source(delta("lake"), time="d"),
    loaded: str = str(datetime.now().date()),
    by: str = os.environ.get("USER", "nobody"),
) -> DataFrame:
    return orders.select(
        "id", "d", F.lit(loaded).alias("loaded"), shop("amount").alias("shop"),
        F.lit(by).alias("by"),
    )
"""


@pytest.fixture
def proven(tmp_path: Path, spark: Any) -> Any:
    """Prove one day of a pipeline; the clean run and the comparisons use the suite's session."""

    def prove(code: str, *experiments: str) -> Proof:
        root = tmp_path / "project"
        (root / "pipelines").mkdir(parents=True)
        (root / "setpoint.toml").write_text(PROJECT)
        (root / "pipelines" / "job.py").write_text(code)
        amounts = [float(n) for n in range(ROWS)]
        orders = pa.table({"id": list(range(ROWS)), "amount": amounts, "d": [DAY] * ROWS})
        write_deltalake(str(root / "lake"), orders, partition_by=["d"])
        config = find_config(root)
        job = pipeline_named(config, "job")
        window = Window.parse(DAY.isoformat(), every="day")
        proof = prove_pipeline(config, job, window, choose(only=experiments))
        assert not DeltaTable.is_deltatable(str(root / "out"))
        assert not list((root / ".setpoint").rglob("request.json"))
        return proof

    return prove


def by_name(results: Sequence[Result]) -> dict[str, Result]:
    return {result.experiment: result for result in results}


def test_a_correct_pipeline_withstands_processes(
    proven: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, run by two at once and with failing tasks, it ends in the state of one run."""
    names = ("killed", "task-failures", "two-at-once")
    monkeypatch.setattr(kills, "QUICK", ("staged",))  # every point costs a JVM
    proof = proven(GOOD, *names)
    told = by_name(proof.results)
    assert {name: told[name].state for name in names} == dict.fromkeys(names, "passed"), told
    assert told["killed"].detail["points"] == ["staged"]
    assert told["task-failures"].detail["failed attempts"] >= 2
    assert "published and unchanged" in told["two-at-once"].message


@pytest.mark.soak  # black boxes show it in small: tests/cli/test_prove_command.py
def test_what_the_rows_depend_on_is_named(proven: Any) -> None:
    """A default by the clock, hash() of a text and $USER: each is found, with its column."""
    (result,) = proven(MOVED, "surroundings").results
    assert result.state == "failed"
    assert result.detail.get("varied") == ["clock", "hash seed", "environment"], result
    assert {change.name for change in result.difference.columns} == {"loaded", "shop", "by"}
    assert result.message.startswith("the rows depend on the clock: ")
    assert "`loaded` differs in 200 of 200 rows and moves with the wall clock" in result.cause
    assert "`shop` differs in 200 of 200 rows and changes with the hash seed" in result.cause
    assert "`by` differs in 200 of 200 rows and changes with the environment (USER)" in result.cause


@pytest.mark.soak  # a cluster of two executors
def test_a_task_that_runs_twice_at_once_counts_once(proven: Any) -> None:
    """Two executors have the same task under way, and the table holds its rows once."""
    (result,) = proven(GOOD, "speculation").results
    assert result.state == "passed", result
    assert result.detail["duplicates"] == 1
