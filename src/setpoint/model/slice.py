"""The slice: which values of a column belong to a window.

One rule per type of the column. The same rule clips a source, checks the staged rows, finds
the files to replace and writes the predicate that a person reads in the table's history.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any, Literal, cast, get_args

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.grain import Grain, Unit
from setpoint.model.span import Stretch, windows_of
from setpoint.model.wallclock import label_of, to_utc
from setpoint.model.window import Window, unit_of

ColumnKind = Literal["date", "timestamp", "timestamp_ntz", "string", "integer", "long"]

# The name of the partition whose value is null, as Hive, Spark and the formats spell it.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_DAY = Grain.parse("day")
# Two centuries, so that seconds since 1970 are not taken for the number of an hour.
_YEAR, _MONTH = "(19|20)[0-9][0-9]", "(0[1-9]|1[0-2])"
_OF_DAY, _HOUR = "(0[1-9]|[12][0-9]|3[01])", "([01][0-9]|2[0-3])"
_NUMBERS = {
    6: _YEAR + _MONTH,
    8: _YEAR + _MONTH + _OF_DAY,
    10: _YEAR + _MONTH + _OF_DAY + _HOUR,
}
_OFFSET = "[+-][0-9]{4}([0-9]{2})?"
_INTEGER_IDS = {"day": "%Y%m%d", "hour": "%Y%m%d%H", "month": "%Y%m"}
# Where numbers that name windows lie. Seconds and milliseconds since 1970 do not lie there.
_INTEGER_RANGES: dict[Unit, tuple[int, int]] = {
    "month": (1900_01, 9999_12),
    "day": (1900_01_01, 9999_12_31),
    "hour": (1900_01_01_00, 9999_12_31_23),
}


@dataclass(frozen=True)
class SliceRule:
    """How a window's slice is found in a column of a given type."""

    column: str
    kind: ColumnKind

    @classmethod
    def of(cls, column: str, kind: str, every: Grain, timezone: str) -> SliceRule:
        """The rule for a column, or a clear refusal when the type cannot tell windows apart."""
        if kind not in get_args(ColumnKind):
            raise _unfit(column, kind, every, "Its values are not points in time.")
        if kind == "date" and not _DAY.nests_in(every):
            raise DefinitionError(
                "SP-D04",
                f"{column} is a date, but the windows are {every} windows.",
                why="All windows of a day share one value of the column: replacing one would "
                "delete the rows of the others.",
                state=NOTHING_STARTED,
                next=f'Use a column as fine as the window (a timestamp), or write every="day" '
                f"instead of {str(every)!r}.",
            )
        if kind == "timestamp_ntz" and timezone != "UTC" and not _DAY.nests_in(every):
            raise _unfit(
                column, kind, every, f"In {timezone} an hour without an offset can occur twice."
            )
        if kind in ("integer", "long") and str(every) not in _INTEGER_IDS:
            raise _unfit(column, kind, every, "There is no number that names such a window.")
        if kind in ("integer", "long") and str(every) == "hour" and timezone != "UTC":
            raise _unfit(column, kind, every, f"In {timezone} an hour can occur twice.")
        return cls(column, cast(ColumnKind, kind))

    def only_value(self, stretch: Stretch) -> str | None:
        """The one value that all rows of the stretch share, as Delta spells it, or None."""
        windows = windows_of(stretch)
        if len(windows) > 1:
            return None
        if self.kind == "date" and str(stretch.grain) == "day":
            first, end = self.bounds(stretch)
            return str(first) if (end - first).days == 1 else None
        return str(self._name(windows[0])) if self.by_name else None

    @property
    def by_name(self) -> bool:
        """Whether rows belong to a window by its name, and not by a point in time."""
        return self.kind in ("string", "integer", "long")

    def unit_named(self, value: Any) -> Unit | None:
        """The unit of the windows that a value of this shape names; None if it names none."""
        if self.kind == "string":
            return unit_of(str(value).rstrip(" "))
        number = int(value)
        ranges = _INTEGER_RANGES.items()
        return next((unit for unit, (low, high) in ranges if low <= number <= high), None)

    def bounds(self, stretch: Stretch) -> tuple[Any, Any]:
        """The half-open interval of values, for the kinds that are ordered in time.

        A local time is held against the label of the window. Where a day begins at one o'clock,
        a column may hold times before that all the same, and they are of this date.
        """
        first, end = (label_of(bound, stretch.grain) for bound in (stretch.start, stretch.end))
        match self.kind:
            case "date":
                return first.date(), end.date()
            case "timestamp":
                return to_utc(stretch.start), to_utc(stretch.end)
            case "timestamp_ntz":
                return first, end
            case _:
                raise TypeError(f"{self.kind} values are names, not an interval")

    def holds(self, stretch: Stretch, value: Any) -> bool:
        """Whether a value of the column lies in the stretch's slice."""
        return self.index(windows_of(stretch))(value) is not None

    def index(self, windows: Iterable[Window]) -> Callable[[Any], Window | None]:
        """A function from a value of the column to the window among these that owns it."""
        if self.by_name:
            named = {self._name(window): window for window in windows}
            return lambda value: named.get(value)
        ordered = sorted(((*self.bounds(window), window) for window in windows), key=lambda x: x[0])
        starts = [start for start, _, _ in ordered]

        def owner(value: Any) -> Window | None:
            if value is None:
                return None
            position = bisect_right(starts, value) - 1
            if position < 0 or value >= ordered[position][1]:
                return None
            return ordered[position][2]

        return owner

    def overlaps(self, stretch: Stretch, least: Any, most: Any) -> bool:
        """Whether values between least and most (None: not known) can lie in the slice."""
        if self.by_name:
            return any(
                not ((least is not None and name < least) or (most is not None and name > most))
                for name in map(self._name, windows_of(stretch))
            )
        start, end = self.bounds(stretch)
        return not ((most is not None and most < start) or (least is not None and least >= end))

    def predicate(self, stretch: Stretch) -> str:
        """The slice as a SQL condition."""
        column = f"`{self.column.replace('`', '``')}`"
        if self.by_name:
            names = [
                f"'{name}'" if isinstance(name, str) else str(name)
                for name in map(self._name, windows_of(stretch))
            ]
            return f"{column} IN ({', '.join(names)})" if names[1:] else f"{column} = {names[0]}"
        start, end = (self._literal(bound) for bound in self.bounds(stretch))
        if self.only_value(stretch) is not None:
            return f"{column} = {start}"
        return f"{column} >= {start} AND {column} < {end}"

    def shape(self, stretch: Stretch) -> str:
        """A regular expression for the ids of all windows of a grain, from the id of one."""
        own = self.only_value(windows_of(stretch)[0]) or ""
        if self.kind != "string":
            return f"^{_NUMBERS[len(own)]}$"
        timed = "T" in own
        plain = re.sub(rf"{_OFFSET}$", "", own) if timed else own
        shape = re.sub("[0-9]", "[0-9]", plain)
        return f"^{shape}({_OFFSET})?$" if timed else f"^{shape}$"

    def _literal(self, value: Any) -> str:
        match self.kind:
            case "date":
                return f"DATE'{value.isoformat()}'"
            case "timestamp":
                return f"TIMESTAMP'{value.strftime('%Y-%m-%d %H:%M:%S')}+00:00'"
            case _:
                return f"TIMESTAMP_NTZ'{value.strftime('%Y-%m-%d %H:%M:%S')}'"

    def _name(self, window: Window) -> str | int:
        if self.kind == "string":
            return window.id
        return int(window.start.strftime(_INTEGER_IDS[str(window.grain)]))


def typed(kind: str, text: str | None) -> Any:
    """A partition value as Python sees it, from Delta's or Hive's spelling."""
    if text is None:
        return None
    match kind:
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            moment = datetime.fromisoformat(_padded(text.replace("Z", "+00:00")))
            return moment.replace(tzinfo=moment.tzinfo or timezone.utc).astimezone(timezone.utc)
        case "timestamp_ntz":
            return datetime.fromisoformat(_padded(text))
        case "integer" | "long":
            return int(text)
        case _:
            return text


def _padded(text: str) -> str:
    """A time with six digits of a fraction: Spark cuts zeros, Python 3.10 needs them."""
    return re.sub(r"\.(\d{1,6})(?!\d)", lambda found: f".{found[1]:0<6}", text, count=1)


def _unfit(column: str, kind: str, every: Grain, because: str) -> DefinitionError:
    return DefinitionError(
        "SP-D03",
        f"{column} is of type {kind}, which cannot tell one {every} window from another.",
        why=because,
        state=NOTHING_STARTED,
        next="Use a date, a timestamp, or a string that holds the window's id.",
    )
