"""PostgreSQL where Spark and the table do not mean the same by a value, end to end."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from test_contract import row

from setpoint import (
    InsertNew,
    Merge,
    RefusedError,
    Replace,
    SetpointError,
    not_null,
    postgres,
    sql,
    unique,
)

LOWER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
OUT = postgres("out", connection="test")


@pytest.fixture
def lab(postgres_lab: Any) -> Any:
    return postgres_lab


def test_a_moment_that_the_column_rounds_into_the_next_window_is_refused(lab: Any, db: Any) -> None:
    """Otherwise every run would publish it once more."""
    db.all("CREATE TABLE out (id int, ts timestamptz(0))")
    late = dt.datetime(2026, 4, 25, 23, 59, 59, 700_000, tzinfo=dt.timezone.utc)
    target = postgres("out", connection="test", time="ts")
    job = lab.job([(1, late)], "id int, ts timestamp", target=target)
    with pytest.raises(RefusedError, match=r"SP-O02.*ts \(timestamp\(0\) with time zone\)"):
        lab.run(job)
    assert db.all("SELECT * FROM out") == []
    whole = lab.job([(1, late.replace(microsecond=0))], "id int, ts timestamp", target=target)
    assert [lab.run(whole).state for _ in range(2)] == ["published", "unchanged"]


def test_a_key_in_two_spellings_is_one_key_for_the_merge_and_for_the_audit(
    lab: Any, db: Any
) -> None:
    """Spark takes the texts of a uuid for two keys, the column for one."""
    db.all("CREATE TABLE out (id uuid, v text, seq bigint)")
    columns = "id string, v string, seq long"
    rows = [(LOWER.upper(), "new", 2), (LOWER, "old", 1)]
    write = Merge(key="id", sequence_by="seq")
    assert lab.run(lab.job(rows, columns, target=OUT, write=write)).state == "published"
    assert db.all("SELECT v, seq FROM out") == [("new", 2)]
    db.all("CREATE TABLE events (key uuid, id uuid)")
    events = [("b" * 32, LOWER), ("c" * 32, LOWER.upper())]
    job = lab.job(
        events,
        "key string, id string",
        target=postgres("events", connection="test"),
        write=InsertNew(key="key"),
        audits=[unique("id")],
    )
    with pytest.raises(RefusedError, match=r"SP-A01.*unique\(id\)"):
        lab.run(job)
    assert db.all("SELECT * FROM events") == []


def test_lines_of_any_length_arrive_whole(lab: Any, db: Any) -> None:
    """Long ones travel in pieces, between short ones, and each is counted once."""
    texts = ["x", "€" * 3_200, "a\\b\n\t" * 9_000, "𝄞" * 40_001 + "end", "a𝄞" * 30_000, ""]
    rows = [(number, text) for number, text in enumerate(texts)]
    db.all("CREATE TABLE out (id int PRIMARY KEY, v text)")

    def job(texts: list[str]) -> Any:
        # Made on the JVM: with a function in Python in its plan Spark cuts nothing.
        made = [f"({n}, unhex('{text.encode().hex()}'))" for n, text in enumerate(texts)]
        query = f"SELECT id, CAST(v AS STRING) AS v FROM VALUES {', '.join(made)} AS t(id, v)"
        return lab.define(
            lambda window: lab.spark.sql(query),
            target=OUT,
            write=Replace(),
            audits=[unique("id"), not_null("v")],
        )

    outcomes = [lab.run(job(texts)) for _ in range(2)]
    assert [outcome.state for outcome in outcomes] == ["published", "unchanged"]
    assert db.all("SELECT id, v FROM out ORDER BY id") == rows
    for name, usual in (("maxBytesPerBatch", "67108864b"), ("maxRecordsPerBatch", "10000")):
        assert lab.spark.conf.get(f"spark.sql.execution.arrow.{name}") == usual


def test_a_long_text_that_is_none_is_refused_as_a_short_one_is(lab: Any, db: Any) -> None:
    """Cut into pieces, its bytes would become other characters."""
    db.all("CREATE TABLE out (v text)")
    broken = "concat(repeat('x', 20000), CAST(X'FF' AS STRING)) AS v"
    job = lab.define(
        lambda window: lab.spark.range(1).selectExpr(broken), target=OUT, write=Replace()
    )
    with pytest.raises(SetpointError, match="invalid byte sequence"):
        lab.run(job)
    assert db.all("SELECT * FROM out") == []


def test_the_batches_of_a_users_python_function_stay_as_they_are(lab: Any, db: Any) -> None:
    """Its rows may be of any size, so that nobody but Spark limits them."""
    db.all("CREATE TABLE out (id int)")

    def sizes(batches: Any) -> Any:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": pa.array([len(batch)], pa.int32())})

    def function(window: Any) -> Any:
        return lab.spark.range(0, 7_000, 1, 1).mapInArrow(sizes, "id int")

    def behind(window: Any) -> Any:
        return function(window).localCheckpoint(eager=False)

    for job in (function, behind):
        lab.run(lab.define(job, target=OUT, write=Replace()))
        assert db.all("SELECT id FROM out") == [(7_000,)]


def test_the_batches_of_a_python_function_in_an_audit_stay_as_they_are(lab: Any, db: Any) -> None:
    """It runs in the same job as the rows are staged in."""
    db.all("CREATE TABLE out (id bigint)")

    def whole(ids: pd.Series) -> pd.Series:
        return pd.Series([len(ids) == 7_000] * len(ids))

    whole.__annotations__ = dict.fromkeys(("ids", "return"), pd.Series)
    lab.spark.udf.register("whole", F.pandas_udf(whole, "boolean"))
    job = lab.define(
        lambda window: lab.spark.range(0, 7_000, 1, 1),
        target=OUT,
        write=Replace(),
        audits=[sql("whole(id)")],
    )
    try:
        assert lab.run(job).state == "published"
    finally:
        lab.spark.sql("DROP TEMPORARY FUNCTION whole")
    assert db.all("SELECT count(*) FROM out") == [(7_000,)]


@pytest.mark.parametrize("name", ["line", "hash", "piece"])
def test_an_audit_of_a_column_that_is_not_there_finds_none_of_ours(
    lab: Any, db: Any, name: str
) -> None:
    """It would guard nothing, and say that all is well."""
    db.all("CREATE TABLE out (id int)")
    audits = [sql(f"{name} IS NOT NULL")]
    job = lab.job([(1,)], "id int", target=OUT, write=Replace(), audits=audits)
    with pytest.raises(SetpointError, match=name):
        lab.run(job)
    assert db.all("SELECT * FROM out") == []


ORDERS = "id int, status string, seq long, d date"
MERGE = Merge(key="id", sequence_by="seq")


def test_a_merge_after_an_update_by_hand_does_not_hide_it(lab: Any, db: Any) -> None:
    """Its rows are of the pipeline's own transaction afterwards, and their number is the same."""
    one = lab.job([row(1, "right", 5), row(2)], ORDERS, target=OUT, write=MERGE)
    late = lab.job([row(1, "late", 3)], ORDERS, target=OUT, write=MERGE)
    lab.run(one, "2026-04-25")
    db.all("UPDATE out SET status = 'wrong', seq = 0 WHERE id = 1")
    lab.run(late, "2026-04-26")
    assert lab.run(one, "2026-04-25").state == "published"
    assert db.all("SELECT status, seq FROM out WHERE id = 1") == [("right", 5)]
    assert [lab.run(late, "2026-04-26").state, lab.run(one, "2026-04-25").state] == [
        "unchanged"
    ] * 2


def test_a_merge_after_a_row_was_swapped_for_another_does_not_hide_it(lab: Any, db: Any) -> None:
    """The count is right, and the row that somebody inserted is overwritten by the merge."""
    one = lab.job([row(1), row(2)], ORDERS, target=OUT, write=MERGE)
    two = lab.job([row(3, "two", 5), row(4)], ORDERS, target=OUT, write=MERGE)
    lab.run(one, "2026-04-25")
    db.all("DELETE FROM out WHERE id = 1")
    db.all("INSERT INTO out SELECT 3, status, 0, d FROM out WHERE id = 2")
    lab.run(two, "2026-04-26")
    lab.run(one, "2026-04-25")
    assert db.all("SELECT id FROM out ORDER BY id") == [(1,), (2,), (3,), (4,)]


def test_publishes_one_after_another_are_no_drift(lab: Any, db: Any) -> None:
    """Neither its own rows nor those that were there before it."""
    db.all("CREATE TABLE out (id int, status text, seq bigint, d date)")
    db.all("INSERT INTO out VALUES (77, 'old', 1, '2026-01-01')")
    days = ["2026-04-25", "2026-04-26", "2026-04-27"]
    jobs = [lab.job([row(number)], ORDERS, target=OUT, write=MERGE) for number in (1, 2, 3)]
    for job, day in zip(jobs, days, strict=True):
        lab.run(job, day)
    assert db.all("SELECT count(*) FROM setpoint.receipts WHERE drifted") == [(0,)]
    assert [lab.run(job, day).state for job, day in zip(jobs, days, strict=True)] == [
        "unchanged"
    ] * 3


def test_a_window_that_was_merged_under_other_names_of_columns_is_looked_at(
    lab: Any, db: Any
) -> None:
    """Its order was another column's while two of them had each other's names."""
    columns = "id int, status string, seq long, alt long"
    one = lab.job([(1, "right", 5, 0)], columns, target=OUT, write=MERGE)
    late = lab.job([(1, "late", 3, 0)], columns, target=OUT, write=MERGE)

    def swap() -> None:
        for old, new in (("seq", "x"), ("alt", "seq"), ("x", "alt")):
            db.all(f"ALTER TABLE out RENAME COLUMN {old} TO {new}")

    lab.run(one, "2026-04-25")
    swap()
    lab.run(late, "2026-04-26")
    swap()
    lab.run(one, "2026-04-25")
    lab.run(late, "2026-04-26")
    assert db.all("SELECT status FROM out") == [("right",)]
