"""The frames of several windows as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from setpoint.errors import PermanentError
from setpoint.model.window import Window
from setpoint.spark.contents import quoted
from setpoint.spark.workers import OWN_END, OWN_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Predicate = Callable[[Window, Mapping[str, str]], str]


def united(
    frames: Sequence[tuple[Window, DataFrame]], predicate: Predicate | None = None
) -> DataFrame:
    """All rows of the frames of some windows.

    With `predicate`, which says as SQL which rows are a window's, a row of another window is an
    error: its own window may well be in the union, and would hold one row too many.
    """
    wanted = frames[0][1].schema
    kinds = {field.name: field.dataType.typeName() for field in wanted.fields}
    guarded = []
    for window, frame in frames:
        fields = [(field.name, field.dataType) for field in frame.schema.fields]
        if fields != [(field.name, field.dataType) for field in wanted.fields]:
            raise PermanentError(
                "SP-S05",
                f"{window.id} has other columns than {frames[0][0].id}.",
                why="Rows of several windows can only be written together if they are alike.",
                next="Run the windows one by one: --chunk 1",
            )
        guarded.append(_guarded(frame, window, predicate(window, kinds)) if predicate else frame)
    return reduce(lambda rows, more: rows.unionAll(more), guarded)


def gathered(frame: DataFrame, *columns: str) -> DataFrame:
    """The rows of one value of some columns side by side, if they are shuffled anyway.

    After a shuffle every task holds rows of every window, and would write a file for each. Where
    nothing is shuffled, rows stay where they are: to move all of them only for this would cost
    more than it gains.
    """
    if not _shuffles(frame):
        return frame
    return frame.hint("rebalance", *(F.col(quoted(name)) for name in columns))


def _shuffles(frame: DataFrame) -> bool:
    if hasattr(frame, "_jdf"):
        text = frame._jdf.queryExecution().executedPlan().toString()
    else:
        text = frame._explain_string()  # type: ignore[operator]
    return "Exchange" in text.replace("BroadcastExchange", "")


def _guarded(frame: DataFrame, window: Window, condition: str) -> DataFrame:
    """The rows of a frame, or an error if one of them is not the window's.

    A filter that depends on the rows alone would be moved down the plan, below joins, and would
    see rows that the joins drop. One that names the task that it runs in stays where it is.
    """
    message = F.concat(
        F.lit(
            f"{OWN_START}SP-O02|Rows of {window.id} lie outside of the window: "
            f"{condition} does not hold.{OWN_END} Task "
        ),
        F.spark_partition_id(),
    )
    inside = F.coalesce(F.expr(condition), F.lit(False))
    return frame.where(
        F.when(inside, F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    )
