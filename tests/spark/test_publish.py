"""`setpoint.publish`: the one-line change in an existing PySpark job."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

import setpoint
from setpoint import RefusedError, UsageError, Window, delta, not_null, unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = "2026-04-25"


def orders(spark: SparkSession, count: int, day: str = DAY) -> DataFrame:
    rows = [(number, f"customer {number % 3}", date.fromisoformat(day)) for number in range(count)]
    return spark.createDataFrame(rows, "order_id long, customer string, order_date date")


def ids(path: Path) -> list[int]:
    table = DeltaTable(str(path))
    rows = table.to_pyarrow_dataset().to_table(columns=["order_id"])
    return sorted(rows["order_id"].to_pylist())


def test_the_small_incident_ends_with_300_rows(spark: SparkSession, project_dir: Path) -> None:
    """100 rows, then 300 partial, then 300 complete: an append gives 700, publish gives 300."""
    place = project_dir / "orders"
    target = delta("orders", partition_by="order_date")
    setpoint.publish(orders(spark, 100), target=target, window=DAY)
    partial = orders(spark, 300).union(orders(spark, 1, "2026-04-26"))
    with pytest.raises(RefusedError):
        setpoint.publish(partial, target=target, window=DAY)
    assert ids(place) == list(range(100))
    setpoint.publish(orders(spark, 300), target=target, window=DAY)
    assert ids(place) == list(range(300))


def test_the_same_rows_again_change_nothing(spark: SparkSession, project_dir: Path) -> None:
    """A second publish of the same rows, in another order, adds no version and no file."""
    target = delta("orders", partition_by="order_date")
    first = setpoint.publish(orders(spark, 50), target=target, window=DAY)
    before = DeltaTable("orders").file_uris()
    again = orders(spark, 50).repartition(7).orderBy("customer")
    second = setpoint.publish(again, target=target, window=Window.parse(DAY))
    assert (first.state, second.state) == ("published", "unchanged")
    assert DeltaTable("orders").version() == 0
    assert DeltaTable("orders").file_uris() == before
    stages = [path for path in Path("orders/setpoint").rglob("*.parquet")]
    assert len(stages) == len(before)


def test_other_rows_replace_the_window_only(spark: SparkSession, project_dir: Path) -> None:
    """New rows for one day leave the other day's files as they are."""
    target = delta("orders", partition_by="order_date")
    setpoint.publish(orders(spark, 10, "2026-04-24"), target=target, window="2026-04-24")
    neighbour = {path: Path(path).read_bytes() for path in DeltaTable("orders").file_uris()}
    setpoint.publish(orders(spark, 20), target=target, window=DAY)
    outcome = setpoint.publish(orders(spark, 30), target=target, window=DAY)
    assert outcome.receipt is not None
    assert (outcome.receipt.generation, outcome.receipt.rows) == (2, 30)
    assert set(neighbour) <= set(DeltaTable("orders").file_uris())
    assert all(Path(path).read_bytes() == data for path, data in neighbour.items())


def test_a_failing_audit_publishes_nothing(spark: SparkSession, project_dir: Path) -> None:
    """Audits guard a publish as they guard a run; the error names the offending rows."""
    target = delta("orders", partition_by="order_date")
    doubled = orders(spark, 5).union(orders(spark, 5))
    audits = [not_null("order_id"), unique("order_id")]
    with pytest.raises(RefusedError, match=r"unique\(order_id\) failed on 5 of 10") as caught:
        setpoint.publish(doubled, target=target, window=DAY, audits=audits)
    assert caught.value.code == "SP-A01"
    assert not DeltaTable.is_deltatable("orders")


def test_the_session_settings_are_put_back(spark: SparkSession, project_dir: Path) -> None:
    """A job that works in another time zone finds its session as it was."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        target = delta("orders", partition_by="order_date")
        setpoint.publish(orders(spark, 3), target=target, window=DAY)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_without_a_project_no_ledger_is_left_behind(spark: SparkSession, project_dir: Path) -> None:
    """A job in a folder without setpoint.toml gets a table and nothing else."""
    target = delta("orders", partition_by="order_date")
    setpoint.publish(orders(spark, 3), target=target, window=DAY)
    assert [path.name for path in project_dir.iterdir()] == ["orders"]


def test_a_dead_publish_is_settled_by_recover(
    spark: SparkSession,
    project_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An attempt of publish() that fails for good is known to the ledger, and recover says so."""
    from setpoint.cli.main import main

    Path("setpoint.toml").write_text("[retry]\ntries = 1\n")
    monkeypatch.setenv("SETPOINT_FAULT", "staged:raise")
    target = delta("orders", partition_by="order_date")
    with pytest.raises(setpoint.TransientError):
        setpoint.publish(orders(spark, 3), target=target, window=DAY)
    monkeypatch.delenv("SETPOINT_FAULT")
    assert main(["recover"]) == 0
    assert "Nothing to recover" in capfd.readouterr().out


def test_a_window_of_another_grain_is_refused(spark: SparkSession, project_dir: Path) -> None:
    """An hour window on a date column is refused before anything is staged."""
    target = delta("orders", partition_by="order_date")
    with pytest.raises(setpoint.DefinitionError) as caught:
        setpoint.publish(orders(spark, 3), target=target, window="2026-04-25T13")
    assert caught.value.code == "SP-D04"
    assert not Path("orders").exists()


def test_a_window_must_be_a_window(spark: SparkSession, project_dir: Path) -> None:
    """Garbage where a window belongs is a usage error."""
    target = delta("orders", partition_by="order_date")
    with pytest.raises(UsageError, match="SP-W01"):
        setpoint.publish(orders(spark, 3), target=target, window="yesterday")
