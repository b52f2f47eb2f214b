"""Which of several windows a row belongs to, as an expression that Spark evaluates cheaply.

A timestamp has far more values than there are windows, and the edges of windows need not be
evenly spaced: months differ, and so do days in which the clock changes. All edges lie on whole
units of some length, though, so a division finds the unit, and a table of a few thousand numbers
the window that it is part of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from math import gcd
from typing import Any

from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.spark.contents import quoted

_MOST_UNITS = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECONDS = {
    "timestamp": "unix_micros({0})",
    "timestamp_ntz": "unix_micros(CAST({0} AS TIMESTAMP))",  # the session's time zone is UTC
}


@dataclass(frozen=True)
class WindowOrdinal:
    """`sql` has one value for the rows of a window, which `owners` spells as a text.

    The expression is about rows that are known to lie in one of the windows.
    """

    sql: str
    owners: Mapping[str, Window]

    def owner(self, value: Any) -> Window:
        """The window that a value of the expression stands for."""
        window = self.owners.get(str(value))
        if window is None:
            raise AssertionError("a row outside of the windows was staged")
        return window


def window_ordinal(rule: SliceRule, windows: Sequence[Window]) -> WindowOrdinal:
    """The expression for windows that follow each other, oldest first."""
    column = quoted(rule.column)
    if rule.by_name:
        return WindowOrdinal(column, {rule.only_value(window) or "": window for window in windows})
    owners = {str(number): window for number, window in enumerate(windows)}
    value = _MICROSECONDS.get(rule.kind, "unix_date({0})").format(column)
    edges = [_number(edge) for window in windows for edge in rule.bounds(window)]
    first, starts, end = edges[0], edges[::2], edges[-1]
    unit = gcd(*(edge - first for edge in edges))
    units = (end - first) // unit
    if units > _MOST_UNITS:
        among = ", ".join(f"{start}L" for start in starts)
        return WindowOrdinal(f"size(filter(array({among}), edge -> edge <= {value})) - 1", owners)
    place = f"TRY_CAST(({value} - {first}L) DIV {unit}L AS INT)"
    if units == len(windows):
        return WindowOrdinal(place, owners)
    ends = edges[1::2]
    table = [
        n for n, (a, b) in enumerate(zip(starts, ends, strict=True)) for _ in range(a, b, unit)
    ]
    text = ",".join(map(str, table))
    return WindowOrdinal(f"get(from_json('[{text}]', 'array<int>'), {place})", owners)


def _number(edge: date | datetime) -> int:
    """An edge of a window as the expressions above count it."""
    if not isinstance(edge, datetime):
        return (edge - _EPOCH.date()).days
    moment = edge if edge.tzinfo else edge.replace(tzinfo=timezone.utc)
    seconds = (moment - _EPOCH).total_seconds()
    return int(seconds) * 1_000_000
