"""Clipping a frame to a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch, windows_of
from setpoint.spark.contents import quoted
from setpoint.spark.workers import OWN_END, OWN_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def clipped(frame: DataFrame, rule: SliceRule, stretch: Stretch, label: str) -> DataFrame:
    """The rows of a stretch of time.

    A text or a number tells a window by being its id. Where other values stand in the column,
    no window would ever hold their rows: that is an error, not an empty window.
    """
    if not rule.by_name:
        return frame.where(rule.predicate(stretch))
    value = F.col(quoted(rule.column))
    text = value.cast("string")
    message = F.concat(
        F.lit(f"{OWN_START}SP-R02|The column {rule.column} of {label} holds '"),
        F.substr(text, F.lit(1), F.lit(40)),
        F.lit(f"', which is not the id of a window such as {windows_of(stretch)[0].id}.{OWN_END}"),
    )
    unfit = value.isNotNull() & ~text.rlike(rule.shape(stretch))
    mine = F.expr(rule.predicate(stretch))
    return frame.where(F.when(unfit, F.raise_error(message).cast("boolean")).otherwise(mine))
