"""Surrogate keys and row hashes: Spark SQL, the DataFrame API and plain Python say the same."""

# ruff: noqa: DTZ001 - a time without a zone is what is meant
from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint import (
    Months,
    row_hash,
    row_hash_of,
    row_hash_sql,
    surrogate_key,
    surrogate_key_of,
    surrogate_key_sql,
)
from setpoint.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.timezone.utc
# Spark's own zone when it is none of the zones of the values; and one with clock changes.
ZONE = "America/New_York"


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    # As a text: arithmetic would round to the 28 digits of Python's default context.
    return st.integers(-top, top).map(lambda n: Decimal(f"{n}E-{scale}"))


def moments(zone: Any) -> st.SearchStrategy[dt.datetime]:
    low, high = dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29)
    return st.datetimes(low, high, timezones=st.just(zone))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INNER = T.StructType().add("z", T.LongType()).add("ä.`'\\", T.StringType())
FLOATS = st.floats(width=32)
STRUCT = st.builds(
    lambda z, text: Row("z", "ä.`'\\")(z, text),
    st.none() | st.integers(-9, 9),
    st.none() | TEXT,
)

KINDS: dict[str, tuple[T.DataType, st.SearchStrategy[Any]]] = {
    "flag": (T.BooleanType(), st.booleans()),
    "tiny": (T.ByteType(), st.integers(-128, 127)),
    "short": (T.ShortType(), st.integers(-(2**15), 2**15 - 1)),
    "int": (T.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (T.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "money": (T.DecimalType(10, 2), decimals(10, 2)),
    "whole": (T.DecimalType(38, 0), decimals(38, 0)),
    "wide": (T.DecimalType(38, 18), decimals(38, 18)),
    "small": (T.DecimalType(38, 38), decimals(12, 38)),
    "float": (T.FloatType(), FLOATS),
    "double": (T.DoubleType(), st.floats()),
    "text": (T.StringType(), TEXT),
    "bytes": (T.BinaryType(), st.binary(max_size=8)),
    "day": (T.DateType(), st.dates()),
    "local": (T.TimestampNTZType(), moments(None)),
    "span": (T.DayTimeIntervalType(), st.timedeltas(dt.timedelta(-(10**6)), dt.timedelta(10**6))),
    "list": (T.ArrayType(T.DoubleType()), st.lists(st.none() | st.floats(), max_size=3)),
    "nested": (
        T.ArrayType(T.ArrayType(T.StringType())),
        st.lists(st.none() | st.lists(st.none() | TEXT, max_size=2), max_size=3),
    ),
    "struct": (INNER, STRUCT),
    "structs": (T.ArrayType(INNER), st.lists(st.none() | STRUCT, max_size=2)),
    "map": (
        T.MapType(T.StringType(), T.DecimalType(9, 3)),
        st.dictionaries(TEXT, st.none() | decimals(9, 3), max_size=4),
    ),
    "deep": (
        T.MapType(T.LongType(), T.MapType(T.DateType(), T.ArrayType(INNER))),
        st.dictionaries(
            st.integers(-5, 5),
            st.none()
            | st.dictionaries(st.dates(), st.none() | st.lists(STRUCT, max_size=2), max_size=2),
            max_size=3,
        ),
    ),
}
ROW = st.tuples(*(st.none() | values for _, values in KINDS.values()))


@contextmanager
def conf(spark: SparkSession, **values: str) -> Iterator[None]:
    names = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def one(spark: SparkSession, query: str, *columns: str) -> str:
    """The key of the only row of a query."""
    frame = spark.sql(query)
    return str(frame.select(surrogate_key(frame, *(columns or frame.columns))).collect()[0][0])


def random_rows(count: int) -> list[tuple[Any, ...]]:
    """Rows that hypothesis makes up, all for one Spark job; the same ones in every run."""
    rows: list[tuple[Any, ...]] = []

    @settings(max_examples=count, derandomize=True, phases=[Phase.generate])
    @given(row=ROW)
    def gather(row: tuple[Any, ...]) -> None:
        rows.append(row)

    gather()
    return rows


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_and_python_agree_on_random_values_of_every_type(
    spark: SparkSession, ansi: str
) -> None:
    """For each column alone, for all together and for the row, whatever the session's settings."""
    names, rows = list(KINDS), random_rows(200)
    schema = T.StructType([T.StructField(name, kind) for name, (kind, _) in KINDS.items()])
    numbered = T.StructType([T.StructField("n", T.LongType()), *schema.fields])
    with conf(spark, spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=ZONE):
        frame = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], numbered)
        found = frame.select(
            "n",
            *(surrogate_key(schema, name).alias(f"k{i}") for i, name in enumerate(names)),
            surrogate_key(frame, *names).alias("all"),
            row_hash(frame, exclude=["n"]).alias("row"),
        ).collect()
    assert len(found) == len(rows) >= 200
    for answer in found:
        values = rows[answer["n"]]
        for i, name in enumerate(names):
            assert answer[f"k{i}"] == surrogate_key_of(values[i]), (name, values[i])
        assert answer["all"] == surrogate_key_of(*values)
        assert answer["row"] == row_hash_of(dict(zip(names, values, strict=True)))


def test_an_instant_is_the_same_in_every_zone(spark: SparkSession) -> None:
    """A timestamp is microseconds since 1970; neither the session's zone nor Python's counts."""
    moments = [
        dt.datetime(2026, 4, 25, 12, 0, 0, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        dt.datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
        dt.datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
        dt.datetime(1, 1, 3, tzinfo=UTC),
    ]
    query = " union all ".join(
        f"select {i} as i, timestamp'{m.strftime('%Y').zfill(4)}-{m:%m-%d %H:%M:%S.%f}+00:00' as t"
        for i, m in enumerate(moments)
    )
    for zone in (ZONE, "Asia/Kolkata"):
        with conf(spark, spark__sql__session__timeZone=zone):
            frame = spark.sql(query)
            found = frame.select("i", surrogate_key(frame, "t")).collect()
        for i, key in found:
            there = moments[i].astimezone(dt.timezone(dt.timedelta(hours=5)))
            assert key == surrogate_key_of(moments[i]) == surrogate_key_of(there)


def test_a_local_time_that_the_session_skips_keeps_its_key(spark: SparkSession) -> None:
    """02:30 on the day the clock goes forward is a local time like any other."""
    with conf(spark, spark__sql__session__timeZone=ZONE):
        skipped = one(spark, "select timestamp_ntz'2026-03-08 02:30:00' as t")
        later = one(spark, "select timestamp_ntz'2026-03-08 03:30:00' as t")
    assert skipped == surrogate_key_of(dt.datetime(2026, 3, 8, 2, 30))
    assert later == surrogate_key_of(dt.datetime(2026, 3, 8, 3, 30))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("cast(null as void)", None),
        ("cast(null as double)", None),
        ("cast(null as boolean)", None),
        ("interval '-2-3' year to month", Months(-27)),
        ("interval '2' year", Months(24)),
        ("interval '3' hour", dt.timedelta(hours=3)),
        ("interval '106751991 04:00:54.775807' day to second", dt.timedelta(0, 0, 2**63 - 1)),
        ("collate('Ä', 'UNICODE_CI')", "Ä"),
        ("cast('Ä' as char(1))", "Ä"),
        ("map(1.5D, 'a', double('NaN'), 'b')", {1.5: "a", float("nan"): "b"}),
        ("map('b', 1, 'a', 2)", {"a": 2, "b": 1}),
        ("map()", {}),
        ("array()", []),
        ("array(null)", [None]),
        ("named_struct('b', 1, 'a', null)", Row(a=None, b=1)),
        ("cast(null as struct<a: int>)", None),
        ("float('1.5')", 1.5),
        ("float('0.1')", 0.10000000149011612),
        ("double('-0.0')", 0.0),
        ("double('-Infinity')", float("-inf")),
        ("4.9E-324D", 5e-324),
        ("cast('0.00000001' as decimal(10, 8))", Decimal("1E-8")),
    ],
)
def test_single_values(spark: SparkSession, expression: str, value: Any) -> None:
    """Types and values that random data does not reach."""
    assert one(spark, f"select {expression} as v") == surrogate_key_of(value)


def test_a_time_of_day(spark: SparkSession) -> None:
    """TIME, where this Spark has it."""
    if not hasattr(T, "TimeType"):
        pytest.skip("this Spark has no TIME type")
    with conf(spark, spark__sql__timeType__enabled="true"):
        found = one(spark, "select time'12:34:56.123456' as t")
    assert found == surrogate_key_of(dt.time(12, 34, 56, 123_456))


@pytest.mark.parametrize(
    "kinds",
    [
        ("1Y", "1S", "1", "1L", "1BD", "cast(1 as decimal(20, 4))"),
        ("1.50BD", "cast(1.5 as decimal(10, 1))", "cast(1.5 as decimal(38, 20))"),
        ("float('0.5')", "0.5D"),
        ("double('NaN')", "float('NaN')", "double('Infinity') - double('Infinity')"),
        ("'a'", "cast('a' as varchar(5))", "collate('a', 'UTF8_LCASE')"),
        ("array(1, 2)", "array(1L, 2L)", "array(1.0BD, 2.00BD)"),
    ],
)
def test_equal_values_of_different_types_have_one_key(
    spark: SparkSession, kinds: tuple[str, ...]
) -> None:
    """A column that was widened keeps its keys."""
    columns = ", ".join(f"{kind} as c{i}" for i, kind in enumerate(kinds))
    frame = spark.sql(f"select {columns}")
    keys = frame.select(*(surrogate_key(frame, name).alias(name) for name in frame.columns))
    assert len(set(keys.collect()[0])) == 1


def test_values_that_look_alike_have_different_keys(spark: SparkSession) -> None:
    """Null, empty, "null", a number and its text, and parts that could run into each other."""
    query = """
        select * from values
          ('a:b', 'c'), ('a', 'b:c'), ('a', ''), ('', 'a'), ('a', null), (null, 'a'), (null, null),
          ('null', 'a'), ('~', 'a'), ('1', '1'), ('s1:', 'a'), ('a;', ''),
          ('\\u00e9', ''), ('e\\u0301', '')
          as t(x, y)"""
    frame = spark.sql(query)
    keys = {row[0] for row in frame.select(surrogate_key(frame, "x", "y")).collect()}
    assert len(keys) == 14
    kinds = "1 as a, '1' as b, 1D as c, true as d, X'31' as e, date'1970-01-02' as f, '' as g, "
    kinds += "array(1) as h, array(array(1)) as i, map(1, 1) as j, named_struct('x', 1) as k"
    frame = spark.sql(f"select {kinds}")
    alone = frame.select(*(surrogate_key(frame, c).alias(c) for c in frame.columns)).collect()[0]
    assert len(set(alone)) == len(frame.columns)


def test_the_text_of_the_expression_works_in_sql(spark: SparkSession) -> None:
    """The SQL text, the column and Python give one value; odd names are no obstacle."""
    frame = spark.sql("select 1 as `a.b`, 'x' as `it's \\\\ ``é`, null as n")
    frame.createOrReplaceTempView("odd")
    named = frame.columns
    texts = f"{surrogate_key_sql(frame, *named)} as k, {row_hash_sql(frame)} as h"
    for escaped in ("true", "false"):
        with conf(spark, spark__sql__parser__escapedStringLiterals=escaped):
            found = spark.sql(f"select {texts} from odd").collect()[0]
        assert found["k"] == surrogate_key_of(1, "x", None)
        assert found["h"] == row_hash_of(dict(zip(named, (1, "x", None), strict=True)))


def test_a_struct_is_not_mistaken_for_a_table_of_its_name(spark: SparkSession) -> None:
    """In a view called s, the field f of the column s is not the column f."""
    spark.sql("select named_struct('f', 1) as s, 2 as f").createOrReplaceTempView("s")
    frame = spark.table("s")
    assert frame.select(surrogate_key(frame, "s")).collect()[0][0] == surrogate_key_of(Row(f=1))


def test_a_row_hash_follows_names_and_not_positions(spark: SparkSession) -> None:
    """The order of columns does not count, their names do, and what is excluded does not."""
    frame = spark.sql("select 1 as id, 'new' as status, current_timestamp() as loaded_at")
    turned = frame.select("loaded_at", "status", "id")
    renamed = frame.withColumnRenamed("status", "state")
    hashes = [
        item.select(row_hash(item, exclude=["loaded_at"])).collect()[0][0]
        for item in (frame, turned, renamed)
    ]
    assert hashes[0] == hashes[1] == row_hash_of({"id": 1, "status": "new"})
    assert hashes[2] == row_hash_of({"id": 1, "state": "new"}) != hashes[0]


def test_rows_as_spark_gives_them_can_be_hashed(spark: SparkSession) -> None:
    """A Row, nested ones included, goes into row_hash_of as it is."""
    frame = spark.sql("select 1 as id, named_struct('b', array(1, 2), 'a', map('k', 1.5BD)) as s")
    row = frame.select("*").collect()[0]
    assert row_hash_of(row) == frame.select(row_hash(frame)).collect()[0][0]


def test_the_vectors_of_the_documentation_hold_in_spark(spark: SparkSession) -> None:
    """Each SQL expression of the page gives the key that stands beside it."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "keys.md"
    pattern = r"^\| `[^`]+` \| `([^`]+)` \| `[^`]+` \| `([0-9a-f]{32})` \|$"
    vectors = re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(vectors) > 25
    with conf(spark, spark__sql__timeType__enabled="true"):
        frame = spark.sql(
            "select " + ", ".join(f"{text} as v{i}" for i, (text, _) in enumerate(vectors))
        )
        found = frame.select(*(surrogate_key(frame, name) for name in frame.columns)).collect()[0]
    assert {text: key for text, key in vectors} == {
        text: key for (text, _), key in zip(vectors, found, strict=True)
    }


def test_no_python_worker_is_needed(spark: SparkSession) -> None:
    """The plan holds expressions of the JVM only."""
    frame = spark.range(1).withColumn("m", F.create_map(F.col("id"), F.array("id")))
    plan = frame.select(surrogate_key(frame, "id", "m"))._jdf.queryExecution().toString()
    assert "Python" not in plan
    assert "UDF" not in plan


def test_what_has_no_encoding_is_refused(spark: SparkSession) -> None:
    """Variants, unknown columns, columns that exist twice, and a key of nothing."""
    frame = spark.sql("select parse_json('1') as v, 1 as a, 2 as a")
    variant = frame.select("v")
    for call in (
        lambda: surrogate_key(variant, "v"),
        lambda: row_hash(T.StructType().add("l", T.ArrayType(T.VariantType()))),
        lambda: surrogate_key(variant, "nope"),
        lambda: surrogate_key(variant),
        lambda: surrogate_key(variant, ["v"]),  # type: ignore[arg-type]
        lambda: surrogate_key(variant, F.col("v")),  # type: ignore[arg-type]
        lambda: row_hash(variant, exclude=["nope"]),
        lambda: row_hash(variant, exclude=["v"]),
        lambda: surrogate_key(frame, "a"),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.code == "SP-K01"
        assert caught.value.next
