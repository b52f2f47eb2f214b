"""The comparison of two sets of rows, against a multiset in Python."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import frame_of
from setpoint.model.proof import Difference, RowChange
from setpoint.spark.difference import contents, difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = dt.timezone.utc


def totals(found: Difference) -> tuple[int, int, int]:
    return found.missing, found.added, found.repeated


def same(one: DataFrame, two: DataFrame) -> bool:
    return difference(one, two).is_empty


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([None, "", "null", "a", "A"]),
        st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    ),
    max_size=12,
)


def _canonical(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple("0.0" if value == 0 and isinstance(value, float) else repr(value) for value in row)


@settings(max_examples=5, derandomize=True, suppress_health_check=list(HealthCheck))
@given(one=ROWS, two=ROWS)
def test_it_agrees_with_a_multiset(
    spark: SparkSession, one: list[tuple[Any, ...]], two: list[tuple[Any, ...]]
) -> None:
    """Missing, added and repeated rows are counted as Python counts them."""
    schema = "a int, b string, c double"
    found = difference(frame_of(spark, one, schema), frame_of(spark, two, schema))
    left, right = Counter(map(_canonical, one)), Counter(map(_canonical, two))
    assert (found.rows_expected, found.rows_found) == (len(one), len(two))
    assert found.missing == sum((left - right).values())
    assert found.added == sum((right - left).values())
    assert found.repeated == sum(n for row, n in (right - left).items() if row in left)
    assert found.is_empty == (left == right)


MOMENT = "TIMESTAMP'2026-04-25 01:02:03.000004Z'"
# Each line: a value, the same value written otherwise, another value.
VALUES = {
    "boolean": ("true", "true", "false"),
    "byte": ("1Y", "1Y", "2Y"),
    "decimal": ("1.10BD", "1.10BD", "1.11BD"),
    "wide decimal": (
        "CAST(1 AS DECIMAL(38,18))",
        "CAST(1.000BD AS DECIMAL(38,18))",
        "CAST(1.000000000000000001BD AS DECIMAL(38,18))",
    ),
    "float": ("float('-0.0')", "float('0.0')", "float('0.1')"),
    "nan": ("double('NaN')", "-double('NaN')", "CAST(NULL AS DOUBLE)"),
    "date": ("DATE'2026-04-25'", "DATE'2026-04-25'", "DATE'2026-04-26'"),
    "timestamp": (
        MOMENT,
        "TIMESTAMP'2026-04-25 03:02:03.000004+02:00'",
        f"{MOMENT} + INTERVAL '0.000001' SECOND",
    ),
    "ntz": (
        "TIMESTAMP_NTZ'2026-04-25 01:02:03.000004'",
        "TIMESTAMP_NTZ'2026-04-25 01:02:03.000004'",
        "TIMESTAMP_NTZ'2026-04-25 01:02:03.000005'",
    ),
    "time": ("TIME'01:02:03'", "TIME'01:02:03.000000'", "TIME'01:02:03.000001'"),
    "binary": ("X'00'", "X'00'", "X'0000'"),
    "days": (
        "INTERVAL '1 00:00:00' DAY TO SECOND",
        "CAST(INTERVAL '24' HOUR AS INTERVAL DAY TO SECOND)",
        "INTERVAL '1 00:00:00.000001' DAY TO SECOND",
    ),
    "months": (
        "INTERVAL '1-0' YEAR TO MONTH",
        "CAST(INTERVAL '12' MONTH AS INTERVAL YEAR TO MONTH)",
        "INTERVAL '1-1' YEAR TO MONTH",
    ),
    "calendar": ("make_interval(0,1)", "make_interval(0,1)", "make_interval(0,0,0,30)"),
    "collated": (
        "collate('a', 'UTF8_LCASE')",
        "collate('a', 'UTF8_LCASE')",
        "collate('A', 'UTF8_LCASE')",
    ),
    "empty text": ("''", "''", "CAST(NULL AS STRING)"),
    "array": ("array(1, NULL)", "array(1, NULL)", "array(1)"),
    "empty array": (
        "CAST(array() AS ARRAY<INT>)",
        "slice(array(1), 1, 0)",
        "CAST(NULL AS ARRAY<INT>)",
    ),
    "nested zero": ("array(double('-0.0'))", "array(0D)", "array(1D)"),
    "nested nan": ("array(double('NaN'))", "array(-double('NaN'))", "array(CAST(NULL AS DOUBLE))"),
    "nested text": ("array('a,b')", "array('a,b')", "array('a\",\"b')"),
    "broken text": (
        "array(CAST(X'ff' AS STRING))",
        "array(CAST(X'ff' AS STRING))",
        "array(CAST(X'fe' AS STRING))",
    ),
    "nested binary": ("array(X'00')", "array(X'00')", "array(X'0000')"),
    "nested moment": (
        f"array({MOMENT})",
        "array(TIMESTAMP'2026-04-25 03:02:03.000004+02:00')",
        f"array({MOMENT} + INTERVAL '0.000001' SECOND)",
    ),
    "nested collated": (
        "array(collate('a', 'UTF8_LCASE'))",
        "array(collate('a', 'UTF8_LCASE'))",
        "array(collate('A', 'UTF8_LCASE'))",
    ),
    "nested intervals": (
        "array(INTERVAL '1' DAY)",
        "array(INTERVAL '1' DAY)",
        "array(INTERVAL '2' DAY)",
    ),
    "struct": (
        "named_struct('x', 1, 'y', 2)",
        "named_struct('y', 2, 'x', 1)",
        "named_struct('x', 2, 'y', 1)",
    ),
    "empty struct": (
        "named_struct('x', CAST(NULL AS INT))",
        "named_struct('x', CAST(NULL AS INT))",
        "CAST(NULL AS STRUCT<x: INT>)",
    ),
    "map": ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('a', 2, 'b', 1)"),
    "map of null": (
        "map('a', CAST(NULL AS INT))",
        "map('a', CAST(NULL AS INT))",
        "CAST(map() AS MAP<STRING, INT>)",
    ),
    "map of structs": (
        "map(1, map('x', 0D), 2, NULL)",
        "map(2, NULL, 1, map('x', double('-0.0')))",
        "map(2, map('x', 0D), 1, NULL)",
    ),
    "variant": (
        'parse_json(\'{"a": 1, "b": [2]}\')',
        'parse_json(\'{"b":[2],"a":1}\')',
        'parse_json(\'{"a": 1, "b": [3]}\')',
    ),
    "variant types": (
        "parse_json('\"2026-04-25\"')",
        "CAST('2026-04-25' AS VARIANT)",
        "CAST(DATE'2026-04-25' AS VARIANT)",
    ),
    "variant null": ("parse_json('null')", "parse_json('null')", "CAST(NULL AS VARIANT)"),
    "map of variants": (
        "map('a', parse_json('1'), 'b', parse_json('2'))",
        "map('b', parse_json('2'), 'a', parse_json('1'))",
        "map('a', parse_json('2'), 'b', parse_json('1'))",
    ),
    "void": ("NULL", "NULL", None),
}


def _row_of(spark: SparkSession, choice: int, changed: str = "") -> DataFrame:
    columns = [
        f"{values[2] if name == changed else values[choice]} AS `{name}`"
        for name, values in VALUES.items()
    ]
    return spark.sql(f"SELECT {', '.join(columns)}")


def test_values_of_every_type_are_the_same_however_they_are_written(spark: SparkSession) -> None:
    """Order of entries and fields, zones, NaN and -0.0 make no difference."""
    one, two = _row_of(spark, 0), _row_of(spark, 1)
    found = difference(one, two.select(*reversed([f"`{name}`" for name in VALUES])))
    assert not found.columns
    assert found.is_empty


def test_the_least_change_in_any_type_is_seen_and_named(spark: SparkSession) -> None:
    """One pass over all columns tells exactly those whose values differ."""
    kept = [name for name, values in VALUES.items() if values[2] is not None]
    one = _row_of(spark, 0).select(*(f"`{name}`" for name in kept))
    columns = [f"{VALUES[name][2]} AS `{name}`" for name in kept]
    two = spark.sql(f"SELECT {', '.join(columns)}")
    first, second = contents(one), contents(two)
    differing = {n for n in kept if first.columns[n] != second.columns[n]}
    assert first.kinds == second.kinds
    assert differing == set(kept)
    assert not first.is_same(second)


def test_a_null_in_another_column_is_another_row(spark: SparkSession) -> None:
    """Spark's hash passes over nulls; the sums of whole rows must not."""
    one = frame_of(spark, [(5, None), (1, 1)], "a int, b int")
    assert not contents(one).is_same(contents(frame_of(spark, [(None, 5), (1, 1)], "a int, b int")))
    turned = frame_of(spark, [(1, 1), (None, 5)], "b int, a int")
    assert difference(one, turned).is_empty


@pytest.fixture(scope="module")
def day(spark: SparkSession) -> DataFrame:
    return spark.range(200).selectExpr(
        "id AS order_id",
        "concat('customer ', id % 7) AS customer",
        "CAST(id % 10 AS DECIMAL(10,2)) AS amount",
        "TIMESTAMP'2026-04-25 10:00:00Z' AS processed_at",
    )


def test_a_column_that_moved_is_told_with_its_rows(day: DataFrame) -> None:
    """The rows are matched by a key that was found, and pairs of values are shown."""
    later = day.selectExpr(
        "* EXCEPT (processed_at)", "TIMESTAMP'2026-04-26 11:00:00Z' AS processed_at"
    )
    found = difference(day, later.repartition(3))
    assert totals(found) == (200, 200, 0)
    assert (found.key, found.matched) == (("order_id",), 200)
    (change,) = found.columns
    assert (change.name, change.kind, change.rows) == ("processed_at", "timestamp", 200)
    assert change.examples == (("2026-04-25 10:00:00", "2026-04-26 11:00:00"),)
    assert found.examples[0] == RowChange(
        {"order_id": "0"},
        {"processed_at": "2026-04-25 10:00:00"},
        {"processed_at": "2026-04-26 11:00:00"},
    )
    assert [row.key["order_id"] for row in found.examples] == ["0", "1", "2", "3", "4"]


def test_rows_that_are_there_twice_are_repeated(day: DataFrame) -> None:
    """An append of the same rows adds as many as there were, all of known content."""
    found = difference(day, day.unionAll(day.where("order_id < 180")), key=["order_id"])
    assert totals(found) == (0, 180, 180)
    assert (found.rows_expected, found.rows_found, found.key) == (200, 380, ())
    assert {row.expected for row in found.examples} == {None}
    assert len({row.found["order_id"] for row in found.examples if row.found}) == 5


def test_missing_changed_and_added_rows_by_key(day: DataFrame) -> None:
    """Each side's own rows and the changed ones are told apart by the key."""
    other = day.selectExpr(
        "IF(order_id < 2, order_id + 1000, order_id) AS order_id",
        "customer",
        "IF(order_id = 5, 99.99BD, amount) AS amount",
        "processed_at",
    )
    other = other.selectExpr(
        "processed_at", "CAST(amount AS DECIMAL(10,2)) AS amount", "order_id", "customer"
    )
    found = difference(day, other, key=["order_id"], examples=3)
    assert totals(found) == (3, 3, 0)
    assert (found.key, found.matched) == (("order_id",), 198)
    assert [(c.name, c.rows, c.examples) for c in found.columns] == [
        ("amount", 1, (("5.00", "99.99"),))
    ]
    assert [(r.key["order_id"], r.expected is None, r.found is None) for r in found.examples] == [
        ("0", False, True),
        ("1", False, True),
        ("5", False, False),
    ]


def test_an_id_made_anew_does_not_match_but_a_pair_does(spark: SparkSession) -> None:
    """The key that was asked for is unique and useless; country and number are found instead."""
    rows = spark.range(60).selectExpr("id % 6 AS country", "id % 10 AS number", "id AS n")
    one = rows.selectExpr("md5(concat('a', n)) AS id", "country", "number", "1 AS x")
    two = rows.selectExpr("md5(concat('b', n)) AS id", "country", "number", "1 AS x")
    one, two = one.dropDuplicates(["country", "number"]), two.dropDuplicates(["country", "number"])
    found = difference(one, two, key=["id"])
    assert found.key == ("country", "number")
    assert [(c.name, c.rows) for c in found.columns] == [("id", found.rows_expected)]


def test_columns_that_are_missing_added_or_of_another_type(day: DataFrame) -> None:
    """They are told in words, and the rest is compared."""
    other = day.selectExpr("CAST(order_id AS INT) AS order_id", "amount", "customer", "1 AS extra")
    found = difference(day, other)
    assert not found.is_empty
    assert totals(found) == (0, 0, 0)
    assert found.schema == (
        "column order_id is int instead of bigint",
        "column processed_at (timestamp) is missing",
        "column extra (int) was added",
    )


def test_without_a_key_the_columns_are_told_without_rows(spark: SparkSession) -> None:
    """Rows that nothing tells apart: which columns differ is known, by how many rows is not."""
    one = frame_of(spark, [(1, 1.5), (1, 1.5), (2, 1.5)], "`a.b` int, `ä ``b` double")
    two = frame_of(spark, [(1, 1.5), (1, 2.5), (2, 1.5)], "`a.b` int, `ä ``b` double")
    found = difference(one, two)
    assert (found.key, found.matched, totals(found)) == ((), 0, (1, 1, 0))
    assert [(c.name, c.rows) for c in found.columns] == [("ä `b", None)]
    assert found.examples == (
        RowChange({}, {"a.b": "1", "ä `b": "1.5"}, None),
        RowChange({}, None, {"a.b": "1", "ä `b": "2.5"}),
    )


def test_long_values_are_cut_where_they_differ(spark: SparkSession) -> None:
    """What is shown of two long texts is what tells them apart."""
    long = "x" * 500
    one = frame_of(spark, [(1, f"{long}a{long}", "NULL")], "id int, text string, n string")
    two = frame_of(spark, [(1, f"{long}b{long}", None)], "id int, text string, n string")
    (row,) = difference(one, two, key=["id"]).examples
    assert row.expected
    assert row.found
    assert "xax" in row.expected["text"]
    assert "xbx" in row.found["text"]
    assert max(map(len, row.expected.values())) < 70
    assert (row.expected["n"], row.found["n"]) == ("'NULL'", "NULL")


def test_contents_are_kept_for_the_next_comparison(day: DataFrame) -> None:
    """The clean run is read once, however often something is compared with it."""
    known = contents(day)
    assert difference(day.where("false"), day, known=known).is_empty
    other = day.drop("amount")
    assert difference(day, other, known=known).schema == (
        "column amount (decimal(10,2)) is missing",
    )


def test_empty_sides(day: DataFrame) -> None:
    """Nothing against nothing is the same; all rows against none are missing."""
    nothing = day.where("order_id < 0")
    assert same(nothing, nothing)
    assert totals(difference(day, nothing, key=["order_id"])) == (200, 0, 0)
    assert totals(difference(nothing, day)) == (0, 200, 0)
