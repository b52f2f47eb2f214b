"""What the partitions of a table say about time: their unit, their windows, how often written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from math import gcd
from typing import Any

from setpoint.errors import SetpointError
from setpoint.model.grain import MINUTE_COUNTS, Grain
from setpoint.model.wallclock import zone_of
from setpoint.model.window import Window

DAY, HOUR = Grain("day"), Grain("hour")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ID = re.compile(
    r"(?P<year>\d{4})(?:-?W(?P<week>\d{2})|-?(?P<month>\d{2})(?:-?(?P<day>\d{2})"
    r"(?:[T _-]?(?P<hour>\d{2})(?::?(?P<minute>\d{2})(?::?\d{2}(?:\.0+)?)?)?)?)?)Z?"
)
_ROLES: dict[str, tuple[tuple[str, ...], range]] = {
    "year": (("year", "yr", "yyyy", "y"), range(1970, 2101)),
    "month": (("month", "mon", "mm", "m"), range(1, 13)),
    "day": (("day", "dd", "d"), range(1, 32)),
    "hour": (("hour", "hr", "hh", "h"), range(0, 24)),
}


@dataclass(frozen=True)
class PartitionTime:
    """How partition values name a stretch of time, and how long it is."""

    columns: tuple[str, ...]
    unit: Grain
    timezone: str
    _roles: Mapping[str, str]

    def window(self, values: Mapping[str, Any]) -> Window | None:
        """The stretch of time that a partition is for; None when its values do not tell."""
        moment = _moment(self._roles, values)
        return None if moment is None else window_at(moment, self.unit, self.timezone)

    @property
    def label(self) -> str:
        return f"{', '.join(self.columns)} ({self.unit})"


def window_at(moment: datetime, grain: Grain, timezone: str) -> Window | None:
    """The window of an instant or of a wall-clock time; None beyond the calendar."""
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone_of(timezone))
        return Window.containing(moment, grain, timezone)
    except (SetpointError, OverflowError, ValueError):
        return None


def window_starting(seconds: int | None, naive: bool, grain: Grain, timezone: str) -> Window | None:
    """The window that starts so many seconds after 1970, by the zone's clock or as an instant."""
    if seconds is None:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return window_at(moment.replace(tzinfo=None) if naive else moment, grain, timezone)


def partition_time(
    columns: Sequence[str], partitions: Iterable[Mapping[str, Any]], timezone: str
) -> PartitionTime | None:
    """The unit of time that a table is partitioned by; None when it is not, or cannot be told."""
    rows = [dict(items) for items in {tuple(row.items()) for row in partitions}]
    roles = {role: name for name in columns for role in (_role(name, rows),) if role}
    ids = [name for name in columns if name not in roles.values() and _is_time(name, rows)]
    if ids:
        roles = {"id": ids[0], **({"hour": roles["hour"]} if "hour" in roles else {})}
    elif not {"year", "month"} <= set(roles):
        return None
    unit = _unit(roles, rows, timezone)
    if unit is None:
        return None
    return PartitionTime(tuple(roles.values()), unit, timezone, roles)


def _role(name: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Whether a column is one part of a date, as in year=2026/month=4/day=25."""
    for role, (names, allowed) in _ROLES.items():
        if name.lower() in names:
            values = [_number(row.get(name)) for row in rows if row.get(name) is not None]
            if values and all(value in allowed for value in values):
                return role
    return None


def _is_time(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    values = [row.get(name) for row in rows if row.get(name) is not None]
    return bool(values) and all(_read(value) is not None for value in values)


def _unit(
    roles: Mapping[str, str], rows: Sequence[Mapping[str, Any]], timezone: str
) -> Grain | None:
    if "hour" in roles:
        return HOUR
    if "id" not in roles:
        return DAY if "day" in roles else Grain("month")
    read = [_read(row.get(roles["id"])) for row in rows]
    units = {item[1] for item in read if item is not None}
    if units == {"moment"}:
        return _unit_of_moments([item[0] for item in read if item is not None], timezone)
    known = {"day": DAY, "hour": HOUR, "month": Grain("month"), "week": Grain("week")}
    return known.get(units.pop()) if len(units) == 1 else None


def _unit_of_moments(moments: Sequence[datetime], timezone: str) -> Grain | None:
    """Timestamps name no unit: it is what their values have in common; one value tells nothing."""
    if len(moments) < 2:
        return None
    zone = zone_of(timezone)
    local = [moment.astimezone(zone) if moment.tzinfo else moment for moment in moments]
    if any(moment.second or moment.microsecond for moment in local):
        return None
    minutes = gcd(60, *(moment.minute for moment in local))
    if minutes < 60:
        return Grain("minute", max(count for count in MINUTE_COUNTS if minutes % count == 0))
    return HOUR if any(moment.hour for moment in local) else DAY


def _moment(roles: Mapping[str, str], values: Mapping[str, Any]) -> datetime | None:
    numbers = {role: _number(values.get(name)) for role, name in roles.items() if role != "id"}
    if any(number is None for number in numbers.values()):
        return None
    if "id" in roles:
        read = _read(values.get(roles["id"]))
        if read is None:
            return None
        hour = numbers.get("hour")
        return read[0] if hour is None else read[0].replace(hour=hour)
    parts = {role: number for role, number in numbers.items() if number is not None}
    try:
        return datetime(  # noqa: DTZ001 - a wall-clock time of the table's own zone
            parts["year"], parts["month"], parts.get("day", 1), parts.get("hour", 0)
        )
    except ValueError:
        return None


def _read(value: Any) -> tuple[datetime, str] | None:
    """A partition value as a time, and the unit that its form tells."""
    match value:
        case None | bool():
            return None
        case datetime():
            return value, "moment"
        case date():
            return datetime(value.year, value.month, value.day), "day"  # noqa: DTZ001
        case int() | str():
            return _read_text(str(value))
        case _:
            return None


def _read_text(text: str) -> tuple[datetime, str] | None:
    match = _ID.fullmatch(text)
    if match is None or not 1970 <= int(match["year"]) <= 2100:
        return None
    part = {name: int(number) for name, number in match.groupdict().items() if number is not None}
    try:
        if "week" in part:
            return datetime.fromisocalendar(part["year"], part["week"], 1), "week"
        moment = datetime(  # noqa: DTZ001 - a wall-clock time of the table's own zone
            part["year"],
            part["month"],
            part.get("day", 1),
            part.get("hour", 0),
            part.get("minute", 0),
        )
    except ValueError:
        return None
    if "minute" in part:
        return moment, "moment"
    return moment, next(unit for unit in ("hour", "day", "month") if unit in part)


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
