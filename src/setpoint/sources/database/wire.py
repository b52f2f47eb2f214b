"""Columns of PostgreSQL on their way to Spark: by ADBC and Arrow, read by the tasks themselves.

The schema follows from the catalog, never from the rows. A value that Spark cannot hold is an
error and not a null, a rounded number or another date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from setpoint.sources.database.division import Division
from setpoint.sources.database.snapshot import Snapshot
from setpoint.spark.workers import MARK, quick_next
from setpoint.targets.postgres.catalog import StoredColumn
from setpoint.targets.postgres.names import literal, quote
from setpoint.targets.postgres.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# PostgreSQL's types as Spark and Arrow know them; any other travels as its text.
PLAIN = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "date": "date",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "bytea": "binary",
}
# The first and the last that Spark's times can hold; `infinity` lies beyond.
ENDS = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp without time zone": ("0001-01-01", "9999-12-31 23:59:59.999999"),
    "timestamp with time zone": ("0001-01-01+00", "9999-12-31 23:59:59.999999+00"),
}
_MOST_DIGITS = 38
# What Spark's own JDBC reader takes a number without limits for; here what does not fit is refused.
_ANY_NUMBER = "decimal(38,18)"
# Whose elements are sent as text, because the driver would not notice a value out of range.
_TEXT_ELEMENTS = ("numeric", *ENDS)

# Spark works on a batch while the next one is fetched.
_BYTES_AT_A_TIME = ("adbc.postgresql.batch_size_hint_bytes", str(2 << 20))

Batches = Iterable[Any]


@dataclass(frozen=True)
class Wired:
    """One column: the expression that is selected, and its type in Spark."""

    name: str
    selected: str
    kind: str


def wired(column: StoredColumn, *, clipped: bool = False) -> Wired:
    """A column as it is read; `clipped` if its values are known to lie within a window."""
    name = quote(column.name)
    if column.base.endswith("[]"):
        return Wired(column.name, *_array(column))
    if column.base in ENDS and not clipped:
        low, high = (f"'{end}'::{column.base}" for end in ENDS[column.base])
        beyond = f"{name} < {low} OR {name} > {high}"
        selected = _or_fail(beyond, column, f"{name}::{column.base}", column.base)
    elif column.base in PLAIN:
        selected = f"{name}::{column.base}"
    else:
        selected = f"{name}::text"
    return Wired(column.name, selected, kind_of(column))


def kind_of(column: StoredColumn) -> str:
    """The type of a column in Spark."""
    element = column.base.removesuffix("[]")
    kind = PLAIN.get(element, "string")
    if element == "numeric":
        kind = _decimal(column)
    return f"array<{kind}>" if element != column.base else kind


def _decimal(column: StoredColumn) -> str:
    limits = replace(column, base="numeric").precision_and_scale  # of the elements of an array
    if limits is None:
        return _ANY_NUMBER
    digits, scale = limits
    # PostgreSQL also knows numbers that are rounded to hundreds, and fractions that start late.
    whole, fraction = max(digits - scale, 0), max(scale, 0)
    return (
        f"decimal({max(whole + fraction, 1)},{fraction})" if _fits(whole + fraction) else "string"
    )


def _fits(digits: int) -> bool:
    return digits <= _MOST_DIGITS


def _array(column: StoredColumn) -> tuple[str, str]:
    name, element = quote(column.name), column.base.removesuffix("[]")
    sent = element if element in PLAIN and element not in _TEXT_ELEMENTS else "text"
    nested = f"pg_catalog.array_ndims({name}) > 1"
    return _or_fail(nested, column, f"{name}::{sent}[]", f"{sent}[]"), kind_of(column)


def _or_fail(condition: str, column: StoredColumn, value: str, kind: str) -> str:
    """The value, or a failure of the query that names the column and the value.

    PostgreSQL has no expression that raises an error with words of ours, but it repeats a text
    that it cannot take for a value.
    """
    name = quote(column.name)
    told = f"{literal(f'unreadable: {column.name} = ')} || pg_catalog.left({name}::text, 100)"
    return f"CASE WHEN {condition} THEN ({told})::{kind} ELSE {value} END"


def frame_of(
    session: SparkSession,
    server: Server,
    snapshot: Snapshot,
    table: str,
    columns: Sequence[Wired],
    division: Division,
    label: str,
) -> DataFrame:
    """The rows of a table that the division names, as the snapshot has them.

    Nothing is read before Spark evaluates the frame, and each evaluation reads the same.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = [T.DataType.fromDDL(column.kind) for column in columns]
    wire = T.StructType([T.StructField(f"c{n}", kind) for n, kind in enumerate(kinds)])
    selected = ", ".join(f"{column.selected} AS c{n}" for n, column in enumerate(columns))
    read = reading(
        server.reached_at(snapshot.place).reveal(),
        server.secrets,
        snapshot.entering(),
        f"SELECT {selected} FROM {table}",
        division,
        to_arrow_schema(wire),
        [column.name for column in columns],
        label,
        MARK,
    )
    numbers = session.range(0, len(division), 1, len(division))
    rows = numbers.mapInArrow(read, wire)
    return rows.select(*(F.col(f"c{n}").alias(item.name) for n, item in enumerate(columns)))


def reading(
    url: str,
    secrets: Sequence[str],
    entering: Sequence[str],
    query: str,
    division: Division,
    schema: Any,
    names: Sequence[str],
    label: str,
    mark: str,
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: for each task's number that comes in, its rows.

    It travels to the executors by value and refers to nothing of this package, so that setpoint
    itself need not be installed there. A failure is told in one line that the driver reads.
    """
    forget, at_a_time = quick_next(), _BYTES_AT_A_TIME

    def read(batches: Batches) -> Batches:
        import json

        import pyarrow as pa

        def failure(error: Exception, name: str = "") -> RuntimeError:
            said = " ".join(str(error).split())
            for secret in secrets:
                said = said.replace(secret, "***")
            body = {
                "label": label,
                "state": getattr(error, "sqlstate", None) or "",
                "said": said[:400],
                "column": name,
                "kind": type(error).__name__,
            }
            return RuntimeError(mark + json.dumps(body))

        try:
            import adbc_driver_postgresql.dbapi as postgres
        except ImportError as error:
            raise failure(error) from None

        def fitted(found: Any) -> Any:
            arrays = []
            for name, field, array in zip(names, schema, found.columns, strict=True):
                try:
                    arrays.append(array if array.type == field.type else array.cast(field.type))
                except pa.ArrowException as error:
                    raise failure(error, name) from None
            return pa.RecordBatch.from_arrays(arrays, schema=schema)

        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    with postgres.connect(url) as connection, connection.cursor() as cursor:
                        for statement in entering:
                            cursor.execute(statement)
                        cursor.adbc_statement.set_options(**{at_a_time[0]: at_a_time[1]})
                        for condition in division[number]:
                            cursor.execute(f"{query} WHERE {condition}")
                            for found in cursor.fetch_record_batch():
                                yield fitted(found)
                except (postgres.Error, pa.ArrowException, OSError) as error:
                    raise failure(error) from None
        forget()

    return read
