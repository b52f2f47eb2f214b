"""What a check tells from the rows of real tables."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from setpoint.check.findings import Finding
from setpoint.check.look import Question, Report, check
from setpoint.errors import UsageError
from setpoint.model.grain import Grain
from setpoint.sources.existing import open_table
from setpoint.spark.engine import SparkEngine
from setpoint.spark.session import Sessions
from setpoint.targets.delta.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, HOUR = Grain("day"), Grain("hour")


def look(path: Path, **question: Any) -> Report:
    """Check with the session that is active."""
    table = open_table(str(path), None, Storage.at(str(path)))
    with Sessions() as sessions:
        return check(table, Question(**question), SparkEngine(sessions))


def only(report: Report) -> Finding:
    assert len(report.findings) == 1, [finding.message for finding in report.findings]
    return report.findings[0]


def orders(n: int, day: int = 25, first: int = 0, **columns: Any) -> pa.Table:
    ids = list(range(first, first + n))
    return pa.table(
        {
            "order_id": ids,
            "amount": [float(i % 7) for i in ids],
            "d": pa.array([dt.date(2026, 4, day)] * n, pa.date32()),
            **{name: [value] * n for name, value in columns.items()},
        }
    )


def at(*moments: tuple[int, int]) -> list[dt.datetime]:
    return [dt.datetime(2026, 4, day, hour, tzinfo=dt.timezone.utc) for day, hour in moments]


def test_a_retry_that_appended_is_recognised(spark: SparkSession, tmp_path: Path) -> None:
    """180 rows, then all 250: 430 rows, 180 of them surplus and identical, all of one day."""
    path = tmp_path / "orders"
    write_deltalake(path, orders(100, day=24, first=1000), partition_by=["d"])
    write_deltalake(path, orders(180), mode="append")
    write_deltalake(path, orders(250), mode="append")
    report = look(path, keys=(("order_id",),), time="d", every=DAY)
    finding = only(report)
    assert finding.kind == "duplicates"
    assert finding.figures["rows"] == 530
    assert finding.figures["distinct_keys"] == 350
    assert finding.figures["surplus_rows"] == 180
    assert finding.figures["keys_affected"] == 180
    assert finding.figures["identical"] is True
    assert finding.figures["windows"] == [{"window": "2026-04-25", "surplus_rows": 180}]
    assert "looks like a retry that appended" in finding.message
    assert [(w.window, w.rows, w.surplus) for w in report.windows] == [
        ("2026-04-24", 100, 0),
        ("2026-04-25", 430, 180),
    ]


def test_a_changed_row_is_told_from_a_doubled_load(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that share a key and differ name the columns that do."""
    path = tmp_path / "orders"
    write_deltalake(path, orders(10, status="open"))
    write_deltalake(path, orders(3, status="paid"), mode="append")
    finding = only(look(path, keys=(("order_id",),)))
    assert finding.figures["differing_columns"] == {"status": 3}
    assert finding.figures["identical"] is False
    assert "looks like changed rows that were appended" in finding.message
    assert finding.examples[0] == {"key": {"order_id": 0}, "rows": 2, "identical": False}


def test_a_load_stamp_does_not_hide_a_retry(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that differ only in when they were loaded are still a doubled load."""
    path = tmp_path / "orders"
    write_deltalake(path, orders(10, _loaded_at="02:00"))
    write_deltalake(path, orders(10, _loaded_at="02:30"), mode="append")
    message = only(look(path, keys=(("order_id",),))).message
    assert "different only in _loaded_at; looks like a retry that appended" in message


def test_null_against_value_is_a_difference(spark: SparkSession, tmp_path: Path) -> None:
    """A null and a value in another column are not identical."""
    table = pa.table({"k": [1, 1, 2, 2], "v": [None, "x", None, None]})
    pq.write_table(table, tmp_path / "t.parquet")
    finding = only(look(tmp_path / "t.parquet", keys=(("k",),)))
    assert finding.figures["identical_surplus_rows"] == 1
    assert finding.figures["differing_columns"] == {"v": 1}


def test_nulls_in_the_key_are_counted_apart(spark: SparkSession, tmp_path: Path) -> None:
    """Rows without a complete key are a finding of their own, not duplicates of each other."""
    table = pa.table({"a": [1, 1, None, None], "b": ["x", "y", "x", None]})
    pq.write_table(table, tmp_path / "t.parquet")
    finding = only(look(tmp_path / "t.parquet", keys=(("a", "b"),), examples=1))
    assert finding.kind == "null_key"
    assert finding.figures["null_rows"] == 2
    assert len(finding.examples) == 1


def test_a_clean_table_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    """A key that is unique and complete: rows and distinct keys agree."""
    write_deltalake(tmp_path / "t", orders(20))
    report = look(tmp_path / "t", keys=(("order_id",),))
    assert report.findings == ()
    assert report.keys == {("order_id",): 20}


def test_an_empty_table_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    """No rows, no findings, no failure."""
    write_deltalake(tmp_path / "t", orders(0), partition_by=["d"])
    report = look(tmp_path / "t", keys=(("order_id", "d"),), time="d", every=DAY)
    assert (report.rows, report.findings) == (0, ())


def test_replaced_files_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Only live files count: a Delta table that was overwritten is not doubled."""
    for _ in range(2):
        write_deltalake(tmp_path / "t", orders(5), mode="overwrite")
    assert look(tmp_path / "t", keys=(("order_id",),)).findings == ()


def test_a_key_that_repeats_every_day_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """A key without its date repeats across windows; the report says that it may be incomplete."""
    for day in (24, 25):
        write_deltalake(tmp_path / "t", orders(4, day), mode="append", partition_by=["d"])
    finding = only(look(tmp_path / "t", keys=(("order_id",),), time="d", every=DAY))
    assert finding.figures["keys_in_several_windows"] == 4
    assert finding.figures["windows"] == []
    assert "looks like a key that lacks d" in finding.message
    assert "add the column that is missing" in finding.next


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_hostile_names_are_taken_literally(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Dots, blanks, backticks and our own names in columns, signs of a pattern in the path."""
    name = "a.b `c`"
    part = "p q"
    table = pa.table(
        {
            name: [1, 1, 2],
            "n": [7, 7, 8],
            "_metadata": ["x", "x", "x"],
            "rows": [1, 2, 3],
            part: ["a b:c%d", "a b:c%d", "e+f"],
        }
    )
    path = tmp_path / "some {x,y} table*"
    if kind == "delta":
        write_deltalake(path, table, partition_by=[part])
    else:
        pq.write_to_dataset(table, path, partition_cols=[part])
    finding = only(look(path, keys=((name, part, "n", "_metadata"),)))
    assert finding.figures["surplus_rows"] == 1
    assert finding.figures["differing_columns"] == {"rows": 1}
    assert finding.examples[0]["key"] == {name: 1, part: "a b:c%d", "n": 7, "_metadata": "x"}


def test_many_partitions_need_no_connector(spark: SparkSession, tmp_path: Path) -> None:
    """A hundred partitions are one scan; their values come from the log."""
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(100)]
    write_deltalake(tmp_path / "t", pa.table({"id": [1] * 100, "d": days}), partition_by=["d"])
    report = look(tmp_path / "t", keys=(("id", "d"),))
    assert report.findings == ()
    assert report.keys == {("id", "d"): 100}


def test_a_day_that_holds_one_hour_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """The rows themselves show what an hourly overwrite of a daily partition leaves."""
    for hour in range(24):
        table = orders(2, first=hour * 10).append_column("ts", [at((25, hour), (25, hour))])
        write_deltalake(
            tmp_path / "t",
            table,
            mode="overwrite",
            partition_by=["d"],
            predicate="d = '2026-04-25'" if hour else None,
        )
    report = look(tmp_path / "t", time="ts", every=HOUR)
    assert [finding.kind for finding in report.findings] == [
        "coarse_partition",
        "repeated_overwrites",
        "lone_window",
    ]
    assert report.findings[2].message.startswith("Day 2026-04-25 holds rows of hour 23 only")


def test_rows_outside_their_partition_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """A row stored under another day than its time is counted, with both days."""
    table = orders(3).append_column("ts", [at((25, 1), (25, 2), (24, 23))])
    write_deltalake(tmp_path / "t", table, partition_by=["d"])
    finding = only(look(tmp_path / "t", time="ts", every=DAY))
    assert finding.kind == "outside_partition"
    assert finding.examples == ({"partition": "2026-04-25", "time_in": "2026-04-24", "rows": 1},)


@pytest.mark.parametrize(
    ("every", "timezone", "window"),
    [
        ("15 minutes", "UTC", "2026-10-25T00:15"),
        ("hour", "Europe/Berlin", "2026-10-25T02+0200"),
        ("hour", "Asia/Kathmandu", "2026-10-25T06"),
        ("day", "America/New_York", "2026-10-24"),
        ("week", "UTC", "2026-W43"),
        ("month", "UTC", "2026-10"),
    ],
)
def test_duplicates_are_counted_in_their_window(
    spark: SparkSession, tmp_path: Path, every: str, timezone: str, window: str
) -> None:
    """Two rows of a key in one window, whatever its grain and zone, are counted there."""
    times = [dt.datetime(2026, 10, 25, 0, m, tzinfo=dt.timezone.utc) for m in (20, 29)]
    pq.write_table(pa.table({"k": [1, 1], "ts": times}), tmp_path / "t.parquet")
    report = look(
        tmp_path / "t.parquet",
        keys=(("k",),),
        time="ts",
        every=Grain.parse(every),
        timezone=timezone,
    )
    assert only(report).figures["windows"] == [{"window": window, "surplus_rows": 1}]
    assert [(w.window, w.rows, w.surplus) for w in report.windows] == [(window, 2, 1)]


def test_numbers_that_spell_a_day_are_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """20260425 names a day; 7 names nothing."""
    pq.write_table(pa.table({"day": [20260425, 20260425, 7]}), tmp_path / "t.parquet")
    report = look(tmp_path / "t.parquet", time="day", every=DAY)
    assert only(report).kind == "null_time"
    assert [(w.window, w.rows) for w in report.windows] == [("2026-04-25", 2)]


def test_the_time_zone_decides_which_day_a_row_is_of(spark: SparkSession, tmp_path: Path) -> None:
    """22:30 UTC is the next day in Berlin: right there, outside the partition in UTC."""
    late = dt.datetime(2026, 4, 24, 22, 30, tzinfo=dt.timezone.utc)
    table = orders(2).append_column("ts", [[late, late]])
    write_deltalake(tmp_path / "t", table, partition_by=["d"])
    assert look(tmp_path / "t", time="ts", every=DAY, timezone="Europe/Berlin").findings == ()
    assert only(look(tmp_path / "t", time="ts", every=DAY)).kind == "outside_partition"


def test_rows_without_a_time_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """A null or unreadable time belongs to no window, so no run would replace the row."""
    table = pa.table({"t": ["2026-04-25 10:00:00", "2026-04-25", "soon", None]})
    pq.write_table(table, tmp_path / "t.parquet")
    report = look(tmp_path / "t.parquet", time="t", every=DAY)
    assert only(report).figures["rows_without_time"] == 2
    assert [(w.window, w.rows) for w in report.windows] == [("2026-04-25", 2)]


def test_parquet_written_by_spark_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    """A partitioned folder that two appends have doubled, with year, month and day folders."""
    path = str(tmp_path / "t")
    frame = spark.sql("SELECT id, 2026 AS year, 4 AS month, 25 AS day FROM range(5)")
    for _ in range(2):
        frame.write.mode("append").partitionBy("year", "month", "day").parquet(path)
    report = look(tmp_path / "t", keys=(("id",),), every=DAY)
    assert only(report).figures["surplus_rows"] == 5
    assert report.partitioned_by == "year, month, day (day)"
    assert [(w.window, w.rows) for w in report.windows] == [("2026-04-25", 10)]


def test_deletion_vectors_are_read_through_the_connector(
    spark: SparkSession, has_delta_connector: bool, tmp_path: Path
) -> None:
    """A deleted row that is still in its file is not a duplicate."""
    if not has_delta_connector:
        pytest.skip("the Delta connector's jars are not in the cache")
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v INT) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ 1, id FROM range(2)")
    assert only(look(tmp_path / "t", keys=(("id",),))).figures["surplus_rows"] == 1
    spark.sql(f"DELETE FROM delta.`{path}` WHERE v = 1")
    assert look(tmp_path / "t", keys=(("id",),)).findings == ()


@pytest.mark.parametrize(
    ("question", "code"),
    [({"keys": (("m",),)}, "SP-T02"), ({"time": "x", "every": DAY}, "SP-R02")],
)
def test_types_that_do_not_fit_are_refused(
    spark: SparkSession, tmp_path: Path, question: dict[str, Any], code: str
) -> None:
    """A map cannot be a key and a number with a fraction is no time: one line, no trace."""
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table({"m": pa.array([[("a", 1)]], kind), "x": [1.5]})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UsageError) as error:
        look(tmp_path / "t.parquet", **question)
    assert error.value.code == code
