"""States of tables as frames: compared by Spark, as a whole or one window of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint.model.slice import SliceRule
from setpoint.prove.command.places import EXAMPLES, Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from setpoint.model.proof import Difference
    from setpoint.model.window import Window

_KINDS = ("date", "timestamp", "timestamp_ntz", "string")


def difference_of(expected: DataFrame, found: DataFrame, question: Question) -> Difference | None:
    """How two frames differ; None when they do not."""
    from setpoint.spark.difference import difference

    if question.window is not None:
        condition = _slice(expected, question.time, question.window)
        condition = f"NOT coalesce(({condition}), false)" if question.outside else condition
        expected, found = expected.where(condition), found.where(condition)
    told = difference(expected, found, key=question.key, examples=EXAMPLES)
    return None if told.is_empty else told


def time_column(before: DataFrame | None, frame: DataFrame, named: str, window: Window) -> str:
    """The column that says which rows are a window's, by the rows that are new in a frame."""
    names = [
        field.name
        for field in frame.schema.fields
        if field.dataType.simpleString() in _KINDS
        and named in ("", field.name)
        and not (field.dataType.simpleString() == "date" and window.grain.within_day)
    ]
    if not names:
        return ""
    counts = [f"count_if({_slice(frame, name, window)})" for name in names]
    times = frame.select(names)
    frames = [times]
    if before is not None and set(names) <= set(before.columns):
        frames.insert(0, times.exceptAll(before.select(names)))
    for rows in frames:
        (found,) = rows.selectExpr(*counts).collect()
        if any(found):
            return names[list(found).index(max(found))]
    return names[0] if named else ""


def _slice(frame: DataFrame, column: str, window: Window) -> str:
    kind = frame.schema[column].dataType.simpleString()
    return SliceRule.of(column, kind, window.grain, window.timezone).predicate(window)
