"""The clip of a read, and whether a column of names holds the names of windows at all.

A text or a number belongs to a window if it is the window's name. A column that holds anything
else, times of day or seconds since 1970, would be clipped to nothing, and an empty window looks
like a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from setpoint.errors import RefusedError, shortened
from setpoint.model.grain import Grain
from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch
from setpoint.sources.failures import unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOOKED_AT = 100

# The least and the most value of a part of the source: a file, a partition; None: not known.
Range = tuple[Any, Any]


def clipped(frame: DataFrame, rule: SliceRule, stretch: Stretch, label: str) -> DataFrame:
    """The rows of a stretch of time."""
    try:
        return frame.where(rule.predicate(stretch))
    except Exception as error:
        raise unreadable(label, error) from error


def check_names(
    name: str, label: str, rule: SliceRule, every: Grain, ranges: Iterable[Range]
) -> bool:
    """Refuse a column of which values are known that name no window; whether any were known.

    A value that is the name of nothing is refused wherever it lies. Names of windows of another
    grain may stand beside those of this one; where there are none but others, they are refused.
    """
    fits, other = False, None
    for least, most in dict.fromkeys(ranges):
        known = [value for value in (least, most) if value is not None]
        units = [rule.unit_named(value) for value in known]
        if None in units:
            raise _misnamed(name, label, rule, every, known[units.index(None)])
        if len(units) == 2 and units[0] == units[1] != every.unit:
            other = least
        elif units:
            fits = True
    if other is not None and not fits:
        raise _misnamed(name, label, rule, every, other)
    return fits


def look_at_names(name: str, label: str, rule: SliceRule, every: Grain, frame: DataFrame) -> None:
    """The same, by a look at a few rows: for sources whose own records do not tell."""
    from pyspark.sql import functions as F

    from setpoint.spark.contents import quoted

    column = F.col(quoted(rule.column))
    try:
        rows = frame.select(column).where(column.isNotNull()).take(LOOKED_AT)
    except Exception as error:
        raise unreadable(label, error) from error
    check_names(name, label, rule, every, ((row[0], row[0]) for row in rows))


def _misnamed(name: str, label: str, rule: SliceRule, every: Grain, value: Any) -> RefusedError:
    shown = shortened(repr(value), 60)
    return RefusedError(
        "SP-R02",
        f"The source {name} ({label}) cannot be clipped to a window: {rule.column}, of type "
        f"{rule.kind}, holds {shown}, which is not the name of a window of a pipeline with "
        f'every="{every}".',
        why="Texts and numbers belong to a window by its name alone. Such rows would be in no "
        "window, and the window would look empty.",
        next="Give a column with dates or times as time=, or read a view of the source that has "
        "one.",
    )
