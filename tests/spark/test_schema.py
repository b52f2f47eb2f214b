"""Columns: what fits a table, what is refused, and what evolve="add" may add."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from setpoint import RefusedError, TransientError, delta
from setpoint.flow.publish import publish as flow_publish

DAY = dt.date(2026, 4, 25)
AFTER = DAY + dt.timedelta(1)


@pytest.mark.parametrize(
    ("schema", "row", "word"),
    [
        ("id int, d date", (1, DAY), "amount is missing"),
        ("id int, amount string, d date", (1, "x", DAY), "amount is string"),
        ("id bigint, amount double, d date", (1, 1.0, DAY), "id is long"),
        ("id int, amount double, d date, extra int", (1, 1.0, DAY, 5), "does not have extra"),
        ("id int, Amount double, d date", (1, 1.0, DAY), "spelled Amount"),
        ("id int, amount double, d string", (1, 1.0, "2026-04-25"), "d is string"),
    ],
)
def test_a_misfit_is_refused_before_anything_is_staged(
    lab: Any, schema: str, row: tuple[Any, ...], word: str
) -> None:
    """Missing, retyped, renamed and new columns leave the table as it was."""
    lab.run(lab.job([(1, 1.0, DAY)]))
    before = lab.rows(), lab.version(), lab.stages()
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job([row], schema))
    assert caught.value.code == "SP-O03"
    assert word in caught.value.what
    assert (lab.rows(), lab.version(), lab.stages()) == before


def test_another_order_of_columns_fits(lab: Any) -> None:
    """Columns are matched by name."""
    lab.run(lab.job([(1, 1.0, DAY)]))
    lab.run(lab.job([(DAY, 2.0, 7)], "d date, amount double, id int"))
    assert lab.rows() == [(7, 2.0, DAY)]


def test_evolve_adds_the_column_in_the_same_commit(lab: Any) -> None:
    """One commit holds the new schema, the new rows and the receipt; old rows read as null."""
    place = delta("out", partition_by="d", evolve="add")
    lab.run(lab.job([(1, 1.0, DAY)], target=place))
    lab.run(lab.job([(2, 2.0, AFTER)], target=place), "2026-04-26")
    version = lab.version()
    wider = lab.job(
        [(1, 1.0, DAY, "n")], "id int, amount double, d date, note string", target=place
    )
    lab.run(wider)
    assert lab.version() == version + 1
    kinds = [kind for action in lab.actions(version + 1) for kind in action]
    assert {"metaData", "add", "remove", "txn", "commitInfo"} <= set(kinds)
    assert lab.rows() == [(1, 1.0, DAY, "n"), (2, 2.0, AFTER, None)]
    assert lab.run(wider).state == "unchanged"


def test_evolve_with_an_empty_result_adds_the_column(lab: Any) -> None:
    """The schema follows the code, also when no row is there to show it."""
    place = delta("out", partition_by="d", evolve="add")
    lab.run(lab.job([(1, 1.0, DAY)], target=place))
    lab.run(lab.job([], "id int, amount double, d date, note string", target=place))
    assert [field.name for field in lab.table().schema().fields][-1] == "note"
    assert lab.rows() == []


def test_evolve_keeps_a_column_that_the_code_lost_refused(lab: Any) -> None:
    """Adding is not dropping."""
    place = delta("out", partition_by="d", evolve="add")
    lab.run(lab.job([(1, 1.0, DAY)], target=place))
    with pytest.raises(RefusedError):
        lab.run(lab.job([(1, DAY)], "id int, d date", target=place))


@pytest.mark.parametrize("types", [pa.string(), pa.int64()])
def test_a_table_retyped_while_the_rows_were_staged_is_not_written(
    lab: Any, types: pa.DataType
) -> None:
    """A stage that was fitted to other types is never added to the table."""
    job = lab.job([(1, 1.0, DAY)])
    bound = lab.bind(job)
    plan = lab.plan(job, "2026-04-25")
    frame = job(plan.run.window)
    staged = bound.target.stage(frame, plan.run, "attempt", ())
    somebody = pa.table(
        {
            "id": pa.array([5], pa.int32()),
            "amount": pa.array([7]).cast(types),
            "d": pa.array([AFTER]),
        }
    )
    write_deltalake(str(lab.root / "out"), somebody, partition_by=["d"])
    with pytest.raises(TransientError):
        publish(lab, bound, plan, staged)
    assert lab.version() == 0


def test_a_table_partitioned_otherwise_while_the_rows_were_staged_is_not_written(
    lab: Any,
) -> None:
    """Files without a value for a partition column never reach the log."""
    job = lab.job([(1, 1.0, DAY)])
    bound = lab.bind(job)
    plan = lab.plan(job, "2026-04-25")
    staged = bound.target.stage(job(plan.run.window), plan.run, "attempt", ())
    somebody = pa.table({"id": pa.array([5], pa.int32()), "amount": [7.0], "d": pa.array([AFTER])})
    write_deltalake(str(lab.root / "out"), somebody, partition_by=["d", "id"])
    with pytest.raises((TransientError, RefusedError)):
        publish(lab, bound, plan, staged)
    assert lab.version() == 0


def publish(lab: Any, bound: Any, plan: Any, staged: Any) -> Any:
    return flow_publish(
        bound.target, lab.spark, plan.run, staged, (), plan.state, "2026-04-26T00:00:00+00:00"
    )


def test_a_not_null_column_of_the_table_is_kept(lab: Any) -> None:
    """A null where the table says NOT NULL is refused; the rest is as it was."""
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("amount", pa.float64()),
            pa.field("d", pa.date32()),
        ]
    )
    DeltaTable.create(str(lab.root / "out"), schema, partition_by=["d"])
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job([(None, 1.0, DAY), (2, 1.0, DAY)]))
    assert caught.value.code == "SP-O04"
    assert "1 of 2" in caught.value.what
    assert lab.version() == 0
    lab.run(lab.job([(2, 1.0, DAY)]))
    assert lab.rows() == [(2, 1.0, DAY)]
    assert not lab.table().schema().fields[0].nullable


@pytest.mark.parametrize(
    ("names", "code"),
    [(("id", "ID"), "SP-O05"), (("id", "a b"), "SP-O05"), (("id", "x=y"), "SP-O05")],
)
def test_names_that_cannot_be_stored_are_refused(
    lab: Any, names: tuple[str, str], code: str
) -> None:
    """Doubled and forbidden names are found before a table exists."""
    spark = lab.spark

    def odd(window: Any) -> Any:
        from pyspark.sql import functions as F

        return spark.range(1).select(
            F.lit(1).alias(names[0]), F.lit(2).alias(names[1]), window.date.alias("d")
        )

    with pytest.raises(RefusedError) as caught:
        lab.run(lab.define(odd))
    assert caught.value.code == code
    assert not DeltaTable.is_deltatable(str(lab.root / "out"))


@pytest.mark.parametrize(
    "value",
    [
        "INTERVAL 1 DAY",
        "array(INTERVAL 1 DAY)",
        "named_struct('x', map('k', INTERVAL 1 MONTH))",
        "parse_json('1')",
        "array(parse_json('1'))",
        "array(NULL)",
    ],
)
def test_types_that_cannot_be_stored_are_refused(lab: Any, value: str) -> None:
    """At any depth, for a new table and for a new column: not once accepted and then refused."""
    plain = lab.job([(1, DAY)], "id int, d date", target=delta("plain", partition_by="d"))
    lab.run(plain)
    spark = lab.spark

    def odd(window: Any) -> Any:
        return spark.range(1).selectExpr("1 AS id", f"{value} AS odd", "DATE'2026-04-25' AS d")

    for place in ("out", "plain"):
        job = lab.define(odd, target=delta(place, partition_by="d", evolve="add"))
        with pytest.raises(RefusedError, match=r"SP-O05.* odd .*cannot store"):
            lab.run(job)
    assert not DeltaTable.is_deltatable(str(lab.root / "out"))
    assert lab.rows("plain") == [(1, DAY)]


def test_nested_columns_keep_their_shape(lab: Any) -> None:
    """Structs, arrays and maps come back as they went in, and fit on the second run."""
    schema = "id int, s struct<a:int,b:struct<c:string>>, l array<int>, m map<string,int>, d date"
    row = (1, (5, ("x",)), [1, 2], {"k": 3}, DAY)
    lab.run(lab.job([row], schema))
    lab.run(lab.job([(2, None, None, None, DAY), row], schema))
    found = {item[0]: item for item in lab.rows()}
    assert found[1][1] == {"a": 5, "b": {"c": "x"}}
    assert found[1][2] == [1, 2]
    assert found[2][1:4] == (None, None, None)


def test_a_new_table_promises_nothing_about_nulls(lab: Any) -> None:
    """A literal column is not nullable in Spark; the table must not remember that."""
    spark = lab.spark

    def literal(window: Any) -> Any:
        from pyspark.sql import functions as F

        return spark.range(1).select(F.lit(1).alias("id"), window.date.alias("d"))

    lab.run(lab.define(literal))
    fields = json.loads(lab.table().schema().to_json())["fields"]
    assert all(field["nullable"] for field in fields)
    lab.run(lab.job([(None, DAY)], "id int, d date"))
    assert lab.rows() == [(None, DAY)]
