"""The clip of rows to a window, and how many rows it leaves out, by one and the same condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from setpoint.errors import RefusedError, shortened
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Clipped:
    """What the clip makes of some rows: how many there are, without a time, and outside."""

    rows: int
    untimed: int
    outside: int


def clip_counts(
    frame: DataFrame, rule: SliceRule, window: Window, name: str, label: str, advice: str
) -> Clipped:
    """Count what the clip leaves out, in one job.

    A column of texts or numbers is compared with the window's id. If it holds anything but ids,
    a time for example, its rows would be in no window at all: that is refused.
    """
    from setpoint.spark.contents import quoted

    column = quoted(rule.column)
    odd = "false"
    if rule.by_name:
        odd = f"NOT (CAST({column} AS STRING) RLIKE '{rule.shape(window)}')"
    found = frame.selectExpr(
        "count(*) AS every",
        f"count_if({column} IS NULL) AS untimed",
        f"count_if(NOT ({rule.predicate(window)})) AS outside",
        f"count_if({odd}) AS odd",
        f"min(IF({odd}, CAST({column} AS STRING), NULL)) AS example",
    ).first()
    assert found is not None
    if found["odd"]:
        raise RefusedError(
            "SP-R02",
            f"The source {name} ({label}) cannot be clipped to a window: {found['odd']:,} of "
            f"{found['every']:,} values of {rule.column} ({rule.kind}) do not look like "
            f"{rule.only_value(window)}, for example {shortened(found['example'], 80)!r}.",
            why="A text or a number is compared with the window's id: these rows would be in no "
            "window.",
            next=advice,
        )
    return Clipped(found["every"], found["untimed"], found["outside"])
