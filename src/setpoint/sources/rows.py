"""A Python function as a source: called for every read, its rows held to the schema.

What it returns may differ from call to call, so the input's fingerprint is not known: the
window is read on every run, and published only if its rows differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    place_in,
    shortened,
    some_of,
    words_of,
)
from setpoint.model.grain import Grain
from setpoint.model.mark import Mark
from setpoint.model.origin import Rows
from setpoint.model.ports import Remarks
from setpoint.model.run import UNKNOWN, Pinned
from setpoint.model.source import Source
from setpoint.model.window import Window
from setpoint.sources.clip import Clipped, clip_counts
from setpoint.sources.failures import clip_rule, gone, unreadable
from setpoint.sources.values import fits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_MOMENT_ADVICE = "Return dates or datetimes, with date or timestamp in the schema."


class RowsSource:
    """The source port for a function of a window."""

    def __init__(self, name: str, source: Source, every: Grain, timezone: str) -> None:
        assert isinstance(source.origin, Rows)
        self._name, self._source, self._origin = name, source, source.origin
        self._every, self._timezone = every, timezone
        self._clipped: dict[Window, Clipped] = {}

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        return dict.fromkeys(windows, Pinned(None, UNKNOWN, "called anew on every run"))

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        raise gone(self._name, self.label, "What the function returned", "it was not kept")

    def bounds(self, window: Window) -> str:
        return self._source.clip if self._source.time else "as it returns them"

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        frame = self._frame(session, window)
        if self._source.time is None:
            return frame
        kinds = {field.name: field.dataType.typeName() for field in frame.schema.fields}
        rule = clip_rule(
            self._name, self.label, self._source.time, kinds, self._every, self._timezone
        )
        self._clipped[window] = clip_counts(
            frame, rule, window, self._name, self.label, _MOMENT_ADVICE
        )
        return frame.where(rule.predicate(window))

    def remarks(
        self, session: SparkSession, pins: Mapping[Window, Pinned]
    ) -> dict[Window, Remarks]:
        """Rows that the function returned for a window, and that lie outside of it."""
        time, policy = self._source.time or "", self._source.outside
        why = "The function was asked for this window; for another it need not return them."
        return {
            window: self._clipped[window].remarks(self._name, time, window, policy, why)
            for window in pins
            if window in self._clipped
        }

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """Its rows were taken once; what the function would return now does not matter."""

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        from setpoint.spark.increment import increment

        window = Window.parse("incremental", self._every, self._timezone)
        return increment(self._frame(session, window), self._source, after, again, self.label)

    def _frame(self, session: SparkSession, window: Window) -> DataFrame:
        from pyspark.sql import types as T
        from pyspark.sql.pandas.types import to_arrow_schema

        try:
            wanted = cast(T.StructType, T.StructType.fromDDL(self._origin.schema))
            fields = to_arrow_schema(wanted)
        except Exception as error:
            raise unreadable(self.label, error) from error
        table = self._table(self._returned(window), fields)
        try:
            return session.createDataFrame(table, wanted)
        except Exception as error:
            raise unreadable(self.label, error) from error

    def _returned(self, window: Window) -> Any:
        """What the function returns, its rows taken out of a generator at once."""
        try:
            found = self._origin.function(window)
            return list(found) if _is_rows(found) else found
        except SetpointError:
            raise
        except (Exception, SystemExit) as error:
            code = getattr(self._origin.function, "__code__", None)
            place = place_in(code.co_filename, error) if code else ""
            raise PermanentError(
                "SP-S05",
                f"The function {self.label}, which gives the rows of {self._name}, failed{place}: "
                f"{words_of(error)}",
                why="Without its rows there is nothing to publish.",
                next="Correct the function, then run again; it is always safe.",
            ) from error

    def _table(self, found: Any, fields: pa.Schema) -> pa.Table:
        import pyarrow as pa

        if isinstance(found, pa.RecordBatch):
            found = pa.Table.from_batches([found])
        if isinstance(found, pa.Table):
            table = self._cast(found, fields)
        elif isinstance(found, list):
            table = self._gathered(found, fields)
        else:
            raise self._misfit(f"returned {type(found).__name__}, not rows")
        for field, column in zip(fields, table.columns, strict=True):
            if not field.nullable and column.null_count:
                raise self._misfit(f"returned a null in {field.name}, which is NOT NULL")
        return table

    def _cast(self, found: pa.Table, fields: pa.Schema) -> pa.Table:
        import pyarrow as pa

        if sorted(found.column_names) != sorted(fields.names):
            raise self._other_columns(found.column_names, fields)
        try:
            return found.select(fields.names).cast(_all_nullable(fields))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._misfit(f"returned a table that does not fit: {error}") from error

    def _gathered(self, rows: list[Any], fields: pa.Schema) -> pa.Table:
        import pyarrow as pa

        columns: list[list[Any]] = [[] for _ in fields]
        for number, row in enumerate(rows, 1):
            for column, value in zip(columns, self._values(number, row, fields), strict=True):
                column.append(value)
        arrays = [self._array(column, field) for column, field in zip(columns, fields, strict=True)]
        return pa.table(arrays, schema=_all_nullable(fields))

    def _values(self, number: int, row: Any, fields: pa.Schema) -> Sequence[Any]:
        names = fields.names
        if isinstance(row, Mapping):
            if set(row) != set(names):
                raise self._other_columns([str(name) for name in row], fields, number)
            return [row[name] for name in names]
        if not isinstance(row, (tuple, list)):
            raise self._misfit(f"returned {type(row).__name__} as row {number}")
        if len(row) != len(names):
            raise self._misfit(
                f"returned {len(row)} values as row {number}, for {len(names)} columns"
            )
        return row

    def _array(self, values: list[Any], field: pa.Field) -> pa.Array:
        import pyarrow as pa

        for number, value in enumerate(values, 1):
            if not fits(value, field.type):
                raise self._unfit(value, field, number)
        # Arrow takes the entries of a map as pairs.
        held = [_entries(value) for value in values] if pa.types.is_map(field.type) else values
        failures = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
        try:
            return pa.array(held, field.type)
        except failures as error:
            raise self._misfit(
                f"returned values of {field.name} that do not fit: {error}"
            ) from error

    def _unfit(self, value: Any, field: pa.Field, number: int) -> RefusedError:
        shown = shortened(repr(value), 80)
        return self._misfit(
            f"returned {shown} as {field.name} of row {number}, which is no {field.type}"
        )

    def _other_columns(
        self, names: Sequence[str], fields: pa.Schema, number: int | None = None
    ) -> RefusedError:
        place = "a table" if number is None else f"row {number}"
        missing = [name for name in fields.names if name not in names]
        unknown = [name for name in names if name not in fields.names]
        said = [f"without {some_of(missing)}"] * bool(missing)
        said += [f"with {some_of(unknown)}, not in its schema"] * bool(unknown)
        return self._misfit(f"returned {place} {' and '.join(said) or 'with a column twice'}")

    def _misfit(self, what: str) -> RefusedError:
        return RefusedError(
            "SP-H08",
            f"The function {self.label}, which gives the rows of {self._name}, {what}.",
            why=f"Its schema is {shortened(self._origin.schema, 200)}.",
            next="Correct the function or its schema, then run again.",
        )


def _is_rows(found: Any) -> bool:
    import pyarrow as pa

    arrow = isinstance(found, (pa.Table, pa.RecordBatch))
    return (
        isinstance(found, Iterable) and not arrow and not isinstance(found, (str, bytes, Mapping))
    )


def _entries(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value


def _all_nullable(fields: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in fields])
