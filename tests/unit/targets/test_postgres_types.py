"""Which columns tell values apart as Spark does, and which of them have one text for each."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from setpoint import Merge, RefusedError, pipeline, postgres
from setpoint.targets.postgres.catalog import StoredColumn, StoredTable
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.order import refuse_keys_without_text
from setpoint.targets.postgres.schema import fit
from setpoint.targets.postgres.slices import rule_of
from setpoint.targets.postgres.types import mapped

ANY_CASE = "public.any_case"


def column(
    declared: str, category: str, *, base: str = "", modifier: int = -1, collation: str = ""
) -> StoredColumn:
    return StoredColumn(
        "id", declared, base or declared, modifier, category, False, "", "", False, 1, collation
    )


@pytest.mark.parametrize(
    ("kind", "stored", "exact", "normal"),
    [
        (T.StringType(), column("text", "S"), True, True),
        (T.StringType(), column("character varying", "S"), True, True),
        (T.StringType(), column("text", "S", collation=ANY_CASE), False, False),
        (T.StringType(), column("citext", "S"), False, False),
        (T.StringType(), column("uuid", "U"), False, True),
        (T.StringType(), column("interval", "T"), False, False),
        (T.StringType(), column("mood", "E"), False, True),
        (T.IntegerType(), column("bigint", "N"), True, True),
        (T.IntegerType(), column("numeric", "N"), True, True),
        (T.DecimalType(10, 2), column("numeric", "N"), True, True),
        (T.DoubleType(), column("double precision", "N"), False, True),
        (T.TimestampType(), column("timestamp with time zone", "D"), True, True),
        (
            T.TimestampType(),
            column("timestamp(0) with time zone", "D", base="timestamp with time zone"),
            False,
            True,
        ),
        (T.StringType(), None, True, True),
        (T.DoubleType(), None, False, True),
    ],
)
def test_a_column_tells_apart_what_spark_does_or_not(
    kind: T.DataType, stored: StoredColumn | None, exact: bool, normal: bool
) -> None:
    found = mapped(kind, stored)
    assert found is not None
    assert (found.exact, bool(found.normal)) == (exact, normal)


def test_a_stage_compares_texts_as_the_column_does() -> None:
    """A collation for which texts are equal that differ is that of the stage, too."""
    more = StoredColumn("seq", "bigint", "bigint", -1, "N", False, "", "", False, 2)
    table = StoredTable(1, (column("text", "S", collation=ANY_CASE), more), ())
    schema = T.StructType([T.StructField("id", T.StringType()), T.StructField("seq", T.LongType())])
    found = fit(schema, table, needed={}, evolve="refuse", label="job")
    assert found.fields[0].staged == f'"id" text COLLATE {ANY_CASE}'
    with pytest.raises(RefusedError, match=r"SP-D10.*delete_when.*id \(text public.any_case\)"):
        refuse_keys_without_text(found, Merge(key="id", sequence_by="seq", delete_when="x"), "job")


@pytest.mark.parametrize(
    "stored", [column("text", "S", collation=ANY_CASE), column("citext", "S", base="citext")]
)
def test_windows_are_not_found_by_a_text_that_has_two_spellings(stored: StoredColumn) -> None:
    def hourly(window: object) -> None: ...

    target = postgres("out", connection="c", time="id")
    job = pipeline(every="hour", target=target, name="hourly")(hourly)
    with pytest.raises(RefusedError, match=r"SP-T03.*takes different texts for equal"):
        rule_of(job, StoredTable(1, (stored,), ()), TableName("public", "out"))
