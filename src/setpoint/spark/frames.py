"""Small frames, made by hand and looked at by eye: for tests, not for data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from setpoint.errors import NOTHING_STARTED, UsageError, shortened, some_of, words_of
from setpoint.model.fingerprint import digest
from setpoint.sources.values import fits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FAILURES = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


def frame_of(session: SparkSession, rows: Sequence[Any], schema: str | T.StructType) -> DataFrame:
    """A frame of tuples or dicts; no Python worker has to start for it.

    A dict may leave columns out: they are null. Dates, times and decimals may be written as
    texts; a time without a zone is one in UTC.
    """
    wanted = schema if isinstance(schema, T.StructType) else _parsed(schema)
    fields = to_arrow_schema(wanted)
    members = [_members(row, number, fields.names) for number, row in enumerate(rows, 1)]
    columns = list(zip(*members, strict=True)) or [()] * len(fields)
    arrays = [_array(values, field) for values, field in zip(columns, fields, strict=True)]
    nullable = pa.schema([field.with_nullable(True) for field in fields])
    return session.createDataFrame(pa.table(arrays, schema=nullable), wanted)


def frame_from(session: SparkSession, value: Any, schema: str = "") -> DataFrame:
    """A frame of what a test gives as an input.

    That is a frame, rows with their schema as a pair, an Arrow or pandas table, rows for which
    `schema` is known, or dicts whose types Spark finds out.
    """
    if hasattr(value, "schema") and hasattr(value, "sparkSession"):
        return cast("DataFrame", value)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], (str, T.StructType)):
        return frame_of(session, value[0], value[1])
    if isinstance(value, pa.Table) or type(value).__module__.startswith("pandas."):
        return session.createDataFrame(value)
    if isinstance(value, (list, tuple)):
        if schema:
            return frame_of(session, value, schema)
        if value and all(isinstance(row, Mapping) for row in value):
            return session.createDataFrame([dict(row) for row in value])
    raise _misfit(
        f"{shortened(repr(value), 80)} is no frame, and its columns are not known",
        'Give a frame, or rows with their schema: ([(1, "2026-04-25")], "id long, d date").',
    )


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows as tuples, in an order of their own; nulls come first."""
    found = [tuple(row) for row in frame.collect()]
    try:
        return sorted(found, key=lambda row: [(value is not None, value) for value in row])
    except TypeError:  # maps, for example, have no order
        return sorted(found, key=repr)


def written(frame: DataFrame, folder: str) -> dict[str, Any]:
    """Keep the rows of a small frame in a file; where, how many, and what tells them apart."""
    import pyarrow.parquet as pq

    table = frame.toArrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    schema = frame.schema.json()
    fingerprint = digest("given", schema, sink.getvalue().to_pybytes().hex())
    path = os.path.join(folder, fingerprint[:16])
    os.makedirs(path, exist_ok=True)
    pq.write_table(table, os.path.join(path, "rows.parquet"))
    return {"fingerprint": fingerprint, "rows": len(table), "schema": schema, "path": path}


def _parsed(schema: str) -> T.StructType:
    try:
        return cast(T.StructType, T.StructType.fromDDL(schema))
    except Exception as error:
        raise _misfit(
            f"the schema {shortened(schema, 80)!r} cannot be read: {words_of(error)}",
            'Write it as in SQL: "id long, amount decimal(12,2), d date".',
        ) from error


def _members(row: Any, number: int, names: Sequence[str]) -> Sequence[Any]:
    """The values of a row in the order of the columns."""
    if isinstance(row, Mapping):
        unknown = [str(name) for name in row if name not in names]
        if unknown:
            raise _misfit(f"row {number} has {some_of(unknown)}, which its schema does not have")
        return [row.get(name) for name in names]
    if not isinstance(row, (tuple, list)):
        raise _misfit(f"row {number} is {type(row).__name__}, neither a tuple nor a dict")
    if len(row) != len(names):
        raise _misfit(f"row {number} has {len(row)} values for {len(names)} columns")
    return row


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    read = [_value(value, field.type) for value in values]
    for number, value in enumerate(read, 1):
        if not fits(value, field.type):
            shown = shortened(repr(value), 80)
            raise _misfit(f"{shown} as {field.name} of row {number} is no {field.type}")
    try:
        # Arrow takes the entries of a map as pairs.
        is_map = pa.types.is_map(field.type)
        held = [list(item.items()) if is_map and item is not None else item for item in read]
        return pa.array(held, field.type)
    except _FAILURES as error:
        raise _misfit(f"values of {field.name} do not fit: {error}") from error


def _value(value: Any, kind: pa.DataType) -> Any:
    """A date, a time or a decimal that is written as a text; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        if pa.types.is_date(kind):
            return date.fromisoformat(value)
        if pa.types.is_timestamp(kind):
            # Python 3.10 does not know the Z.
            return datetime.fromisoformat(value.removesuffix("Z") + "+00:00" * value.endswith("Z"))
        if pa.types.is_decimal(kind):
            return Decimal(value)
    except (ValueError, InvalidOperation):
        return value  # told as a value that does not fit
    return value


def _misfit(what: str, next: str = "Correct the rows of the test, or their schema.") -> UsageError:
    return UsageError(
        "SP-V40",
        f"An input of a test cannot be used: {what}.",
        why="A value that is not what was written would be tried instead of it.",
        state=NOTHING_STARTED,
        next=next,
    )
