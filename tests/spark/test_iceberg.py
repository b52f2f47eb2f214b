"""Iceberg: one snapshot with rows and receipt, by pyiceberg's commit of files that Spark staged."""

from __future__ import annotations

import os
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from setpoint import DeleteInsert, InsertNew, Merge, RefusedError, Replace, iceberg

DAY, NEXT = date(2026, 4, 25), date(2026, 4, 26)
ORDERS = iceberg("sales.orders", partition_by="d")


def test_overwrite(lab: Any, lake: Any) -> None:
    """A window is published in one snapshot that both readers see; a second run does nothing."""
    job = lab.job([(1, 1.0, DAY), (2, 2.0, DAY)], target=ORDERS)
    outcome = lab.run(job)
    assert outcome.state == "published"
    assert lake.rows() == lake.spark_rows() == [(1, 1.0, DAY), (2, 2.0, DAY)]
    assert len(lake.snapshots()) == 1
    assert lab.run(job).state == "unchanged"
    assert len(lake.snapshots()) == 1


def test_other_windows_stay_byte_for_byte(lab: Any, lake: Any, shelf: Any) -> None:
    """Publishing one window, full or empty, leaves the files of the others alone."""
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held, target=ORDERS)
    lab.run(job)
    first = lake.live()
    held.rows = [(7, 7.0, NEXT)]
    lab.run(job, "2026-04-26")
    assert first < lake.live()
    held.rows = []
    assert lab.run(job, "2026-04-26", force=True).receipt.rows == 0
    assert lake.live() == first
    assert lab.run(job, "2026-04-27").receipt.rows == 0
    assert lab.state(job, "2026-04-27").untouched
    assert lake.spark_rows() == [(1, 1.0, DAY)]


def test_same_rows_again(lab: Any, lake: Any) -> None:
    """A window that is restated with the same rows commits a receipt and no file."""
    job = lab.job([(1, 1.0, DAY)], target=ORDERS)
    lab.run(job)
    files = lake.live()
    again = lab.run(job, restate=True)
    assert again.only_receipt
    assert again.receipt.generation == 2
    assert lake.live() == files
    assert lab.state(job).generation == 2
    assert lab.run(job).state == "unchanged"


TYPES = (
    "id int, big bigint, small smallint, price decimal(12,3), wide decimal(30,10), f float, "
    "x double, ok boolean, name string, raw binary, d date, at timestamp, local timestamp_ntz"
)


def test_every_type_reads_right(lab: Any, lake: Any) -> None:
    """Values and nulls of every plain type come back the same from both readers."""
    moment = datetime(2026, 4, 25, 23, 59, 59, 999999)  # noqa: DTZ001
    full = (
        1,
        2**40,
        -3,
        Decimal("12.345"),
        Decimal("-1.0000000001"),
        0.5,
        float("inf"),
        True,
        "ä'\"`\n",
        b"\x00\xff",
        DAY,
        moment.replace(tzinfo=timezone.utc),
        moment,
    )
    empty = (None,) * 10 + (DAY, None, None)
    job = lab.job([full, empty], TYPES, target=ORDERS)
    lab.run(job)
    wanted = sorted([full, empty], key=repr)
    assert lake.rows() == wanted
    naive = [
        tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row)
        for row in wanted
    ]
    found = lake.spark.table("lake.sales.orders").selectExpr(
        "* except (at)", "cast(at as timestamp_ntz) as at"
    )
    spark_rows = [
        tuple(row[name] for name in lake.table().schema().column_names) for row in found.collect()
    ]
    assert sorted(spark_rows, key=repr) == sorted(naive, key=repr)


def test_nested_types(lab: Any, lake: Any) -> None:
    """Structs, lists and maps are read by name, nulls at every depth included."""
    schema = "id int, d date, s struct<a:int,b:array<string>>, m map<string,struct<q:int>>"
    rows = [
        (1, DAY, (5, ["x", None]), {"k": (7,), "n": None}),
        (2, DAY, None, None),
        (3, DAY, (None, []), {}),
    ]
    job = lab.job(rows, schema, target=ORDERS)
    lab.run(job)
    found = {item["id"]: item for item in lake.table().scan().to_arrow().to_pylist()}
    assert found[1]["s"] == {"a": 5, "b": ["x", None]}
    assert dict(found[1]["m"]) == {"k": {"q": 7}, "n": None}
    assert found[2]["s"] is None
    assert found[3]["s"] == {"a": None, "b": []}
    spark = {
        row["id"]: row.asDict(recursive=True)
        for row in lake.spark.table("lake.sales.orders").collect()
    }
    assert spark[1]["s"] == {"a": 5, "b": ["x", None]}
    assert spark[1]["m"] == {"k": {"q": 7}, "n": None}
    assert spark[2]["m"] is None
    more = [(4, NEXT, (1, None), None, [(8,)])]
    wider = lab.job(
        more,
        f"{schema}, l array<struct<z:int>>",
        target=iceberg("sales.orders", partition_by="d", evolve="add"),
    )
    lab.run(wider, "2026-04-26")
    for found in (lake.table().scan().to_arrow().to_pylist(), _dicts(lake)):
        by_id = {item["id"]: item for item in found}
        assert by_id[4]["l"] == [{"z": 8}]
        assert by_id[1]["l"] is None
        assert by_id[1]["s"]["b"] == ["x", None]


def _dicts(lake: Any) -> list[dict[str, Any]]:
    rows = lake.spark.table("lake.sales.orders").collect()
    return [row.asDict(recursive=True) for row in rows]


def test_renamed_and_added_columns(lab: Any, lake: Any) -> None:
    """A column that was renamed, and its old name taken by another, reads right in old files."""
    lab.run(lab.job([(1, 1.0, DAY)], target=ORDERS))
    lake.spark.sql("ALTER TABLE lake.sales.orders RENAME COLUMN amount TO total")
    job = lab.job(
        [(2, 2.0, NEXT, "n")],
        "id int, total double, d date, amount string",
        target=iceberg("sales.orders", partition_by="d", evolve="add"),
    )
    lab.run(job, "2026-04-26")
    assert lake.table().schema().column_names == ["id", "total", "d", "amount"]
    wanted = [(1, 1.0, DAY, None), (2, 2.0, NEXT, "n")]
    assert lake.rows() == lake.spark_rows() == wanted


def test_wrong_columns_are_refused(lab: Any, lake: Any) -> None:
    """Missing, extra and retyped columns are refused before anything is staged."""
    lab.run(lab.job([(1, 1.0, DAY)], target=ORDERS))
    for rows, schema in (
        ([(1, DAY)], "id int, d date"),
        ([(1, 1.0, DAY, 1)], "id int, amount double, d date, more int"),
        ([(1, 1, DAY)], "id int, amount int, d date"),
    ):
        with pytest.raises(RefusedError, match="SP-O03"):
            lab.run(lab.job(rows, schema, target=ORDERS))
    assert lake.rows() == [(1, 1.0, DAY)]


def test_stray_rows_are_refused(lab: Any, lake: Any) -> None:
    """A row of another window is refused, and the stage is dropped."""
    with pytest.raises(RefusedError, match="SP-O02"):
        lab.run(lab.job([(1, 1.0, NEXT)], target=ORDERS))
    assert not list((lab.root / "warehouse").rglob("*.parquet"))


def test_lost_answer(lab: Any, lake: Any) -> None:
    """A commit whose answer was lost is found in the target."""
    outcome = lab.run(lab.job([(1, 1.0, DAY)], target=ORDERS), fault="committed:lose")
    assert outcome.state == "published"
    assert "answer was lost" in outcome.reason
    assert lake.rows() == [(1, 1.0, DAY)]


def test_foreign_rows_make_the_window_run_again(lab: Any, lake: Any) -> None:
    """Somebody else's insert into the slice is seen, and the next run replaces it."""
    job = lab.job([(1, 1.0, DAY)], target=ORDERS)
    lab.run(job)
    lake.spark.sql("INSERT INTO lake.sales.orders VALUES (9, 9.0, DATE'2026-04-26')")
    assert lab.state(job).untouched
    lake.spark.sql("INSERT INTO lake.sales.orders VALUES (8, 8.0, DATE'2026-04-25')")
    assert not lab.state(job).untouched
    assert lab.run(job).state == "published"
    assert lake.spark_rows() == [(1, 1.0, DAY), (9, 9.0, NEXT)]


def test_compaction_is_not_a_change(lab: Any, lake: Any) -> None:
    """rewrite_data_files leaves the window as it was; so does rewriting the manifests."""
    job = lab.job([(1, 1.0, DAY), (2, 2.0, DAY)], target=ORDERS)
    lab.run(job)
    before = lake.live()
    spark = lake.spark
    spark.sql(
        "CALL lake.system.rewrite_data_files(table => 'sales.orders', "
        "options => map('rewrite-all', 'true'))"
    )
    spark.sql("CALL lake.system.rewrite_manifests('sales.orders')")
    assert lake.live() != before
    assert lab.run(job).state == "unchanged"


def test_expired_receipts(lab: Any, lake: Any) -> None:
    """A window whose snapshot expired is published, details unknown, unless the ledger knows."""
    job = lab.job([(1, 1.0, DAY)], target=ORDERS)
    lab.run(job)
    lake.spark.sql("INSERT INTO lake.sales.orders VALUES (9, 9.0, DATE'2026-04-26')")
    lake.spark.sql(
        "CALL lake.system.expire_snapshots(table => 'sales.orders', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    state = lab.state(job)
    assert (state.generation, state.receipt) == (1, None)
    assert lab.bind(job).target.published_windows() == ["2026-04-25"]
    assert lab.run(job).state == "unchanged"  # the ledger remembers, the files are the same
    (lab.root / ".setpoint" / "ledger.db").unlink()


def test_rollback(lab: Any, lake: Any, shelf: Any) -> None:
    """After a rollback the older receipt counts again, and the generation still grows."""
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held, target=ORDERS)
    lab.run(job)
    first = lake.snapshots()[0]
    held.rows = [(2, 2.0, DAY)]
    lab.run(job, force=True)
    lake.spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {first})")
    state = lab.state(job)
    assert (state.generation, state.receipt.generation, state.untouched) == (2, 1, True)
    assert lab.run(job, force=True).receipt.generation == 3
    assert lake.spark_rows() == [(2, 2.0, DAY)]


def test_rollback_of_the_newest_window(lab: Any, lake: Any, shelf: Any) -> None:
    """What was rolled back is not the newest any more, so the older window counts again."""
    held = shelf([(1, "a")])
    job = lab.job(held, "id int, what string", target=iceberg("sales.orders"), write=Replace())
    lab.run(job, "2026-04-26")
    first = lake.snapshots()[0]
    held.rows = [(2, "b")]
    lab.run(job, "2026-04-27")
    lake.spark.sql(f"CALL lake.system.rollback_to_snapshot('sales.orders', {first})")
    state = lab.state(job, "2026-04-26")
    assert (state.newest, state.untouched) == ("2026-04-26", True)
    assert lab.run(job, "2026-04-26").reason == "nothing changed"
    assert lab.run(job, "2026-04-27").receipt.generation == 2
    assert lake.spark_rows() == [(2, "b")]


def test_hours_in_a_table_by_day(lab: Any, lake: Any, shelf: Any) -> None:
    """Hour windows in day partitions own their files; what others mixed in is carried over."""
    at = iceberg("sales.orders", partition_by="at", partition_every="hour")
    lake.catalog.create_namespace_if_not_exists("sales")
    lake.spark.sql(
        "CREATE TABLE lake.sales.orders (id int, at timestamp) USING iceberg "
        "PARTITIONED BY (days(at))"
    )

    def moment(hour: int, minute: int = 0) -> datetime:
        return datetime(2026, 4, 25, hour, minute, tzinfo=timezone.utc)

    held = shelf([(1, moment(10))])
    job = lab.job(held, "id int, at timestamp", every="hour", target=at)
    lab.run(job, "2026-04-25T10")
    held.rows = [(2, moment(11, 59))]
    lab.run(job, "2026-04-25T11")
    assert not lab.bind(job).target.connectors()
    lake.spark.sql(
        "CALL lake.system.rewrite_data_files(table => 'sales.orders', "
        "options => map('rewrite-all', 'true'))"
    )
    assert len(lake.live()) == 1
    assert lab.run(job, "2026-04-25T11").state == "unchanged"
    held.rows = [(3, moment(11, 1))]
    lab.run(job, "2026-04-25T11", force=True)
    assert [row[0] for row in lake.spark_rows()] == [1, 3]
    assert [row[0] for row in lake.rows()] == [1, 3]
    held.rows = [(1, moment(10))]
    assert lab.run(job, "2026-04-25T10", restate=True).only_receipt


def merge_job(lab: Any, rows: Any, **options: Any) -> Any:
    write = Merge(key="id", sequence_by="at", **options)
    target = iceberg("sales.orders", partition_by="region")
    return lab.job(rows, "id int, at int, region string, op string", target=target, write=write)


def test_merge(lab: Any, lake: Any, shelf: Any) -> None:
    """The latest row of each key counts, whatever the order of the windows, and only once."""
    held = shelf([(1, 5, "eu", "a"), (2, 5, "us", "a"), (2, 4, "us", "old")])
    job = merge_job(lab, held)
    assert "1 of 3 rows" in lab.run(job).notes[0]
    held.rows = [(1, 4, "eu", "late"), (2, 6, "eu", "moved"), (3, 1, "", "new")]
    lab.run(job, "2026-04-26")
    wanted = [(1, 5, "eu", "a"), (2, 6, "eu", "moved"), (3, 1, "", "new")]
    assert lake.rows() == lake.spark_rows() == wanted
    files = lake.live()
    assert lab.run(job, "2026-04-26").state == "unchanged"
    lab.run(job, "2026-04-26", force=True)
    held.rows = [(1, 5, "eu", "a"), (2, 5, "us", "a"), (2, 4, "us", "old")]
    lab.run(job, "2026-04-25", force=True)
    held.rows = []
    lab.run(job, "2026-04-27")
    assert lake.live() == files
    partitions = {tuple(task.file.partition) for task in lake.table().scan().plan_files()}
    assert partitions == {("eu",), ("",)}


def test_merge_removes_and_remembers(lab: Any, lake: Any, shelf: Any) -> None:
    """A removed key stays away from late older rows, also when snapshots expired; newer return."""
    held = shelf([(1, 1, "eu", "a"), (2, 1, "eu", "a")])
    job = merge_job(lab, held, delete_when="op = 'D'")
    lab.run(job)
    held.rows = [(1, 5, "eu", "D"), (9, 9, "eu", "D")]
    lab.run(job, "2026-04-26")
    assert lake.rows() == [(2, 1, "eu", "a")]
    lake.spark.sql("INSERT INTO lake.sales.orders VALUES (7, 1, 'eu', 'x')")
    spark = lake.spark
    spark.sql(
        "CALL lake.system.expire_snapshots(table => 'sales.orders', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    for file in (lab.root / "warehouse").rglob("*"):
        os.utime(file, (0, 0))
    spark.sql("CALL lake.system.remove_orphan_files('sales.orders')")
    held.rows = [(1, 4, "eu", "late"), (9, 10, "eu", "back")]
    lab.run(job, "2026-04-27")
    wanted = [(2, 1, "eu", "a"), (7, 1, "eu", "x"), (9, 10, "eu", "back")]
    assert lake.rows() == lake.spark_rows() == wanted


def test_insert_new(lab: Any, lake: Any, shelf: Any) -> None:
    """Known events are left alone, new ones added, contradictions refused or reported."""
    target = iceberg("sales.orders")
    held = shelf([(1, "a"), (2, "b"), (2, "b")])

    def job(**options: Any) -> Any:
        write = InsertNew(key="id", **options)
        return lab.job(held, "id int, what string", target=target, write=write)

    lab.run(job())
    first = lake.live()
    held.rows = [(3, "c")]
    lab.run(job(), "2026-04-26")
    held.rows = [(2, "b"), (4, "d")]
    lab.run(job(), "2026-04-27")
    assert first < lake.live()
    assert lake.rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    held.rows = [(1, "other"), (5, "e")]
    with pytest.raises(RefusedError, match="SP-O07"):
        lab.run(job(), "2026-04-28")
    outcome = lab.run(job(conflicts="keep"), "2026-04-28")
    assert "1 rows have a key" in " ".join(outcome.notes)
    assert lake.spark_rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]


def test_delete_insert(lab: Any, lake: Any, shelf: Any) -> None:
    """Exactly the rows of the condition are replaced, also where files hold others."""
    held = shelf([(1, "eu"), (2, "us")])
    whole = lab.job(held, "id int, region string", target=iceberg("sales.orders"), write=Replace())
    lab.run(whole)
    part = lab.define(
        lambda window: lab.spark.createDataFrame([(3, "eu")], "id int, region string"),
        target=iceberg("sales.orders"),
        write=DeleteInsert(where="region = 'eu'"),
        name="part",
    )
    lab.run(part)
    assert lake.rows() == lake.spark_rows() == [(2, "us"), (3, "eu")]
    assert lab.run(part).state == "unchanged"
    assert lab.run(whole, force=True).state == "published"
    assert lake.rows() == [(1, "eu"), (2, "us")]


def test_replace(lab: Any, lake: Any, shelf: Any) -> None:
    """The table holds the rows of the newest window; an older one is superseded."""
    held = shelf([(1, "a")])
    job = lab.job(held, "id int, what string", target=iceberg("sales.orders"), write=Replace())
    lab.run(job, "2026-04-26")
    held.rows = [(2, "b"), (3, "c")]
    lab.run(job, "2026-04-27")
    assert "superseded" in lab.run(job, "2026-04-26").reason
    assert lab.run(job, "2026-04-27").state == "unchanged"
    held.rows = []
    lab.run(job, "2026-04-28")
    assert lake.spark_rows() == []


def test_merge_into_rows_with_delete_files(lab: Any, lake: Any, shelf: Any) -> None:
    """A table in which somebody deletes with delete files is merged and overwritten right."""
    held = shelf([(n, 1, "eu", "a") for n in range(10)])
    job = merge_job(lab, held)
    lab.run(job)
    spark = lake.spark
    spark.sql(
        "ALTER TABLE lake.sales.orders SET TBLPROPERTIES "
        "('write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
    )
    spark.sql("DELETE FROM lake.sales.orders WHERE id = 3")
    spark.sql("UPDATE lake.sales.orders SET op = 'u' WHERE id = 4")
    assert not lab.state(job).untouched
    held.rows = [(3, 2, "eu", "back"), (4, 2, "eu", "b")]
    lab.run(job, "2026-04-26")
    wanted = sorted([(n, 1, "eu", "a") for n in range(10) if n not in (3, 4)] + held.rows)
    assert lake.rows() == lake.spark_rows() == wanted
