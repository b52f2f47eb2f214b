"""The content fingerprint and the file statistics of real rows."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

from setpoint import InsertNew, Merge, Overwrite, delta
from setpoint.spark.contents import fingerprint_sums, fingerprint_text, row_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOLDEN = ["1:1:d407d4a:6ed122a6", "1:1:b56ee94d:cf1469d6", "1:1:324a4f6f:1db99fdb"]
DAY = dt.date(2026, 4, 25)
UTC = dt.timezone.utc


def fingerprint(frame: DataFrame) -> str | None:
    (only,) = fingerprints(frame)
    return only


def fingerprints(*frames: DataFrame) -> list[str | None]:
    """The fingerprints of frames, by one Spark job."""
    from pyspark.sql import functions as F

    low, high = map(F.expr, fingerprint_sums("h"))
    hashed = [
        f.select(F.lit(n).alias("n"), row_hash(f.schema).alias("h")) for n, f in enumerate(frames)
    ]
    summed = reduce(type(hashed[0]).unionAll, hashed).groupBy("n")
    counted = summed.agg(F.count("*").alias("rows"), low.alias("low"), high.alias("high"))
    found = {row["n"]: row[1:] for row in counted.collect()}
    return [fingerprint_text(*found.get(n, (0, None, None))) for n in range(len(frames))]


DIFFERENT = [
    ("a int, b int", [(1, None)], [(None, 1)]),
    ("a int, b int", [(1, 2)], [(2, 1)]),
    ("a int", [(1,)], [(1,), (1,)]),
    ("a int", [(1,), (1,), (2,)], [(1,), (2,), (2,)]),
    ("a int", [], [(None,)]),
    ("a string", [("",)], [(None,)]),
    ("a string", [("null",)], [(None,)]),
    ("a string, b string", [("a:b", "c")], [("a", "b:c")]),
    ("a string, b string", [("ab", "")], [("a", "b")]),
    ("a double", [(float("nan"),)], [(None,)]),
    ("a decimal(10,2)", [(Decimal("1.00"),)], [(Decimal("10.00"),)]),
    ("a struct<x:int,y:int>", [((1, None),)], [((None, 1),)]),
    ("a struct<x:int>", [((None,),)], [(None,)]),
    ("a array<int>", [([1, None],)], [([1],)]),
    ("a array<int>", [([],)], [(None,)]),
    ("a array<string>", [(["a", "b"],)], [(["a,b"],)]),
    ("a map<string,int>", [({"x": 1},)], [({"x": 2},)]),
    ("a map<string,int>", [({"x": None},)], [({},)]),
    ("a map<string,int>, b int", [({}, 1)], [(None, 1)]),
    (
        "a struct<t:timestamp>",
        [((dt.datetime(2026, 4, 25, 1, 2, 3, 4, tzinfo=UTC),),)],
        [((dt.datetime(2026, 4, 25, 1, 2, 3, 5, tzinfo=UTC),),)],
    ),
    ("a array<map<string,int>>", [([{"x": 1, "y": 2}],)], [([{"x": 2, "y": 1}],)]),
    ("a binary", [(b"\x00",)], [(b"\x00\x00",)]),
    ("a double", [(0.0,)], [(-0.0,)]),
    ("a float", [(0.0,)], [(-0.0,)]),
    ("a double, b double", [(0.0, -0.0)], [(-0.0, 0.0)]),
    ("a double", [(-0.0,)], [(None,)]),
    ("a array<double>", [([0.0],)], [([-0.0],)]),
    ("a map<int,double>", [({1: 0.0},)], [({1: -0.0},)]),
]
# Texts that are not UTF-8, as hexadecimal digits of their bytes.
NOT_UTF_8 = [
    "{0}",
    "array({0})",
    "array('x', {0})",
    "map('k', {0})",
    "map({0}, 1)",
    "named_struct('x', {0})",
    "array(named_struct('x', map('k', array({0}))))",
]


def test_different_rows_have_different_fingerprints(spark: SparkSession) -> None:
    """Nulls, order of columns, multiplicity and nested values all count."""
    frames = [spark.createDataFrame(r, s) for s, *both in DIFFERENT for r in both]
    found = fingerprints(*frames)
    for (schema, one, other), first, second in zip(DIFFERENT, found[::2], found[1::2], strict=True):
        assert first != second, (schema, one, other)


def test_texts_that_are_not_utf_8_differ_by_their_bytes(spark: SparkSession) -> None:
    """JSON has one mark for them all, and the mark itself is a text like others."""
    texts = [f"CAST(X'{digits}' AS STRING)" for digits in ("FF", "FE", "FFFE")] + ["'\ufffd'"]
    frames = [spark.sql(f"SELECT {made.format(text)} AS a") for made in NOT_UTF_8 for text in texts]
    found = fingerprints(*frames)
    for place, made in enumerate(NOT_UTF_8):
        assert len(set(found[4 * place : 4 * place + 4])) == 4, made


def test_the_fingerprint_of_ordinary_rows_is_what_it_always_was(spark: SparkSession) -> None:
    """Receipts hold it: another one would publish every window once more."""
    plain = "1 AS i, 2.5D AS d, CAST(0 AS FLOAT) AS f, double('nan') AS n, 'täxt' AS t, X'FF' AS b"
    nested = "array('x', 'a\ufffdb', NULL) AS a, map('k', 0.0D, 'l', 1.5D) AS m"
    inner = "named_struct('p', array(named_struct('q', 'r')), 'z', CAST(NULL AS STRING)) AS s"
    frames = [spark.sql(f"SELECT {columns}") for columns in (plain, nested, inner)]
    assert fingerprints(*frames) == GOLDEN


def test_order_files_and_partitions_do_not_count(spark: SparkSession) -> None:
    """A fingerprint is of a set of rows, wherever they lie."""
    rows = [(n, f"t{n % 7}", {"b": n, "a": 1}) for n in range(200)]
    schema = "a int, b string, m map<string,int>"
    one = spark.createDataFrame(rows, schema).coalesce(1)
    turned = [(n, text, dict(reversed(m.items()))) for n, text, m in reversed(rows)]
    other = spark.createDataFrame(turned, schema).repartition(5)
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one.select("m", "b", "a")) == fingerprint(one)


def test_nested_values_count_under_their_names(spark: SparkSession) -> None:
    """Fields in another order are the same row; values that changed places are not."""
    rows = [((1, 2), [(1, 2)], {"k": (1, 2)})]
    turned = [((2, 1), [(2, 1)], {"k": (2, 1)})]
    schema, other = (
        f"a struct<{f}>, b array<struct<{f}>>, c map<string,struct<{f}>>"
        for f in ("x:int,y:int", "y:int,x:int")
    )
    one = fingerprint(spark.createDataFrame(rows, schema))
    assert fingerprint(spark.createDataFrame(turned, other)) == one
    assert fingerprint(spark.createDataFrame(rows, other)) != one


def _required(frame: DataFrame, *required: str) -> DataFrame:
    from pyspark.sql import types as T

    fields = [T.StructField(f.name, f.dataType, f.name not in required) for f in frame.schema]
    return frame.sparkSession.createDataFrame(frame.collect(), T.StructType(fields))


def test_what_a_schema_says_about_nulls_does_not_hide_them(spark: SparkSession) -> None:
    """(null, 5) and (5, null) differ, also when each schema allows just the null it has."""
    one = _required(spark.createDataFrame([(None, 5)], "a int, b int"), "b")
    other = _required(spark.createDataFrame([(5, None)], "a int, b int"), "a")
    assert fingerprint(one) != fingerprint(other)


def test_the_same_rows_under_another_nullability_are_the_same(spark: SparkSession) -> None:
    """A column that became a literal in the code does not rewrite the slice."""
    frame = spark.createDataFrame([(1, 5), (2, 6)], "a int, b int")
    assert fingerprint(frame) == fingerprint(_required(frame, "a", "b"))


LONG = "x" * 40
MOMENT = dt.datetime(2026, 4, 25, 1, 2, 3, 123456, tzinfo=UTC)
LOCAL = dt.datetime.fromisoformat("2026-04-25T01:02:03.000005")
KINDS: dict[str, tuple[str, list[Any]]] = {
    "i": ("int", [3, None, -7]),
    "l": ("bigint", [2**53 + 1, 0, -(2**60)]),
    "y": ("tinyint", [1, -128, 127]),
    "f": ("float", [0.5, None, -2.25]),
    "x": ("double", [1.5, -0.25, 1e300]),
    "nan": ("double", [1.0, float("nan"), 2.0]),
    "inf": ("double", [1.0, float("inf"), 2.0]),
    "small": ("decimal(9,2)", [Decimal("12.34"), Decimal("-0.01"), None]),
    "mid": ("decimal(18,4)", [Decimal("12345.6789"), Decimal("-1.5"), None]),
    "big": ("decimal(38,10)", [Decimal("123456789012345678901.5"), Decimal("1"), None]),
    "s": ("string", ["beta", "alpha", None]),
    "u": ("string", ["ä", "𐍈", "z"]),
    "long_text": ("string", [LONG + "b", LONG + "a", "a"]),
    "t": (
        "timestamp",
        [
            dt.datetime(2026, 4, 25, 1, 2, 3, 123456, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            None,
        ],
    ),
    "tn": ("timestamp_ntz", [LOCAL, None, None]),
    "dt": ("date", [dt.date(2026, 4, 25), dt.date(1900, 1, 1), None]),
    "b": ("boolean", [True, False, None]),
    "none": ("int", [None, None, None]),
    "st": ("struct<a:int,n:struct<c:string>>", [(1, ("q",)), (5, None), None]),
    "li": ("array<int>", [[1, 99], [], None]),
    "bin": ("binary", [b"\x01", None, b"\xff"]),
}


@pytest.fixture
def measured(lab: Any) -> tuple[Any, dict[str, Any]]:
    """A table with every type, and the statistics of its one file."""
    names = list(KINDS)
    schema = ", ".join(["id int", *(f"{name} {KINDS[name][0]}" for name in names), "d date"])
    rows = [(n, *(KINDS[name][1][n] for name in names), DAY) for n in range(3)]
    spark = lab.spark

    def wide(window: Any) -> Any:
        return spark.createDataFrame(rows, schema).coalesce(1)

    lab.run(lab.define(wide))
    adds = [a["add"] for a in lab.actions(0) if "add" in a]
    assert len(adds) == 1
    return lab, json.loads(adds[0]["stats"])


def test_file_statistics_are_right(measured: tuple[Any, dict[str, Any]]) -> None:
    """Rows, null counts and bounds in the log are those of the rows."""
    _, stats = measured
    least, most, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"]
    assert stats["numRecords"] == 3
    for name, (kind, values) in KINDS.items():
        if kind.startswith(("struct", "array")):
            continue
        assert nulls[name] == values.count(None), name
    assert (least["i"], most["i"]) == (-7, 3)
    assert (least["l"], most["l"]) == (-(2**60), 2**53 + 1)
    assert (least["y"], most["y"]) == (-128, 127)
    assert (least["f"], most["f"]) == (-2.25, 0.5)
    assert (least["x"], most["x"]) == (-0.25, 1e300)
    assert not {"nan", "inf"} & set(most)
    assert Decimal(str(least["small"])) == Decimal("-0.01")
    assert Decimal(str(most["small"])) == Decimal("12.34")
    assert Decimal(str(most["mid"])) == Decimal("12345.6789")
    assert Decimal(repr(most["big"])) >= Decimal("123456789012345678901.5")
    assert Decimal(repr(least["big"])) <= Decimal(1)
    assert (least["s"], most["s"]) == ("alpha", "beta")
    assert (least["u"], most["u"]) == ("z", "𐍈")
    assert least["long_text"] == "a"
    assert most["long_text"] > LONG + "b"
    assert (least["b"], most["b"]) == (False, True)
    assert most["t"] == "2026-04-25T01:02:03.123456Z"
    assert least["t"] == "1969-12-31T23:59:59.999999Z"
    assert most["tn"] == "2026-04-25T01:02:03.000005"
    assert (least["dt"], most["dt"]) == ("1900-01-01", "2026-04-25")
    assert "none" not in least
    assert (least["st"]["a"], most["st"]["a"]) == (1, 5)
    assert nulls["st"] == {"a": 1, "n": {"c": 2}}


FILTERS = [
    ("b", "=", True),
    ("i", "=", 3), ("i", ">", 2), ("l", "=", 2**53 + 1), ("s", "=", "beta"), ("u", ">", "ä"),
    ("x", ">", 1e299), ("nan", ">=", 2.0), ("inf", ">", 5.0), ("dt", "<", dt.date(1950, 1, 1)),
    ("small", ">", Decimal("12.33")), ("mid", "=", Decimal("12345.6789")),
    ("big", ">", Decimal("123456789012345678901.4")), ("long_text", "=", LONG + "b"),
    ("long_text", ">", LONG + "a"), ("t", ">=", MOMENT),
    ("t", "<", dt.datetime(1970, 1, 1, tzinfo=UTC)), ("tn", "=", LOCAL),
]  # fmt: skip


# deltalake's pyarrow reader takes a bound that is not there for "no row" (its own tables too);
# for these values JSON has no bound to give.
NO_BOUNDS = ("nan", "inf", "big")


def test_no_reader_skips_a_row_it_asked_for(
    measured: tuple[Any, dict[str, Any]], has_delta_connector: bool
) -> None:
    """Filters at the very bounds find their rows, in deltalake and in the connector."""
    from pyspark.sql import functions as F

    lab, _ = measured
    table = lab.table()
    for name, operator, value in FILTERS:
        expected = sum(1 for v in KINDS[name][1] if v is not None and _holds(v, operator, value))
        assert expected, name
        found = table.to_pyarrow_table(filters=[(name, operator, value)]).num_rows
        if name not in NO_BOUNDS:
            assert found == expected, (name, "deltalake")
        if has_delta_connector:
            frame = lab.spark.read.format("delta").load(str(lab.root / "out"))
            column, literal = F.col(name), F.lit(value).cast(KINDS[name][0])
            condition = {
                "=": column == literal,
                ">": column > literal,
                ">=": column >= literal,
                "<": column < literal,
            }[operator]
            counted = frame.where(condition).count()
            spark_expected = expected + (1 if name == "nan" else 0)
            assert counted == spark_expected, (name, "connector")


def _holds(value: Any, operator: str, bound: Any) -> bool:
    if isinstance(value, float) and math.isnan(value):
        return False
    return bool(
        {"=": value == bound, ">": value > bound, ">=": value >= bound, "<": value < bound}[
            operator
        ]
    )


def test_readers_can_skip(lab: Any) -> None:
    """Two files with disjoint ids: a filter on id touches one of them."""
    spark = lab.spark

    def ranged(window: Any) -> Any:
        from pyspark.sql import functions as F

        rows = spark.range(100).repartitionByRange(2, "id")
        return rows.select(F.col("id"), window.date.alias("d"))

    lab.run(lab.define(ranged, target=delta("out", partition_by="d")))
    actions = lab.table().get_add_actions(flatten=True)
    columns = {name: actions[name].to_pylist() for name in actions.column_names}
    spans = sorted(zip(columns["min.id"], columns["max.id"], strict=True))
    assert len(spans) == 2
    assert spans[0][1] < spans[1][0]
    assert sum(columns["num_records"]) == 100


@pytest.mark.parametrize("write", [Overwrite(), Merge(key="id", sequence_by="seq")])
def test_a_zero_that_changes_its_sign_is_published(lab: Any, write: Any) -> None:
    """Readers see the difference, so it is one."""
    schema, target = "id int, seq int, amount double, d date", delta("out", partition_by="d")
    for amount in (0.0, -0.0):
        job = lab.job([(1, 1, amount, DAY)], schema, target=target, write=write)
        outcome = lab.run(job)
        assert (outcome.state, outcome.only_receipt) == ("published", False)
    ((_, _, stored, _),) = lab.rows()
    assert math.copysign(1, stored) == -1


def test_a_zero_that_changes_its_sign_contradicts_no_event(lab: Any) -> None:
    """Equal values contradict nothing: neither in one batch nor against what is stored."""
    schema, write = "id int, amount double, d date", InsertNew(key="id")
    for rows in ([(1, 0.0, DAY)], [(1, -0.0, DAY), (2, 0.0, DAY), (2, -0.0, DAY)]):
        lab.run(lab.job(rows, schema, target=delta("out"), write=write))
    assert [(key, abs(amount)) for key, amount, _ in lab.rows()] == [(1, 0.0), (2, 0.0)]
