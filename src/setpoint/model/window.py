"""The window: the half-open stretch of time that one run is a statement about."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cached_property, total_ordering
from typing import Any

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.model.grain import Grain, Unit
from setpoint.model.wallclock import (
    FIRST_YEAR,
    LAST_YEAR,
    instants_of,
    label_of,
    shortened,
    span_at,
    to_utc,
    within_bounds,
    zone_of,
)

_ID = re.compile(
    r"(?P<year>[0-9]{4})-(?:W(?P<week>[0-9]{2})|(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2})"
    r"(?:T(?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2}))?"
    r"(?P<offset>[+-][0-9]{4}(?:[0-9]{2})?)?)?)?)"
)
_LONGEST_ID = len("2026-04-25T13:15+023000")


@total_ordering
@dataclass(frozen=True, eq=False, repr=False)
class Window:
    """A half-open window `[start, end)` of one grain on the clock of one time zone.

    Make one with `parse`, `containing` or `latest_complete`; the constructor takes the bounds
    as they are. Windows are equal, hashed and ordered by their instants.
    """

    grain: Grain
    start: dt.datetime
    end: dt.datetime
    timezone: str = "UTC"

    @classmethod
    def parse(cls, text: str, every: Grain | str | None = None, timezone: str = "UTC") -> Window:
        """Read a window id such as `2026-04-25`, `2026-04-25T13`, `2026-W17` or `2026-04`.

        Without `every` the grain follows from the shape of the id. An hour that the clock shows
        twice needs its UTC offset: `2026-10-25T02+0100`.
        """
        if every is not None and Grain.parse(every).is_incremental:
            return cls._all_of_time(text, timezone)
        unit, label, offset = _read(text)
        if every is None and unit == "minute":
            raise _wrong_grain(text, "does not say how long it is", "Give its grain as well.")
        grain = Grain.parse(unit if every is None else every)
        if grain.unit != unit:
            one = f"an {unit}" if unit == "hour" else f"a {unit}"
            raise _wrong_grain(text, f"is {one}, not a window of {grain}", _form(grain))
        if label_of(label, grain) != label:
            raise _wrong_grain(text, f"is not on a boundary of {grain}", _form(grain))
        zone = zone_of(timezone)
        windows = [
            cls.containing(instant, grain, timezone) for instant in instants_of(label, grain, zone)
        ]
        if offset is not None:
            windows = [window for window in windows if window.start.utcoffset() == offset]
        if not windows:
            raise _not_an_id(
                text,
                what=f"The window {text} does not exist in {timezone}.",
                why="The clock never showed that time there.",
                next="Use the window before or after it.",
            )
        if len(windows) > 1:
            raise _not_an_id(
                text,
                what=f"The window id {text} is ambiguous in {timezone}.",
                why="The clock was put back and showed that time twice.",
                next=f"Use {' or '.join(window.id for window in windows)}.",
            )
        return windows[0]

    @classmethod
    def _all_of_time(cls, text: str, timezone: str) -> Window:
        """The one window of an incremental pipeline."""
        grain = Grain("incremental")
        if text != str(grain):
            raise _wrong_grain(
                text,
                "is a stretch of time, but the pipeline goes by a high-water mark",
                "Leave the window out, or read a range of the cursor again with --range A..B.",
            )
        return cls.containing(dt.datetime(2000, 1, 1, tzinfo=dt.timezone.utc), grain, timezone)

    @classmethod
    def containing(cls, instant: dt.datetime, every: Grain | str, timezone: str = "UTC") -> Window:
        """The window in which an instant lies."""
        grain, zone = Grain.parse(every), zone_of(timezone)
        start, end = span_at(to_utc(instant), grain, zone)
        return cls(grain, start.astimezone(zone), end.astimezone(zone), timezone)

    @classmethod
    def latest_complete(cls, now: dt.datetime, every: Grain | str, timezone: str = "UTC") -> Window:
        """The last window that has ended at `now`."""
        return cls.containing(now, every, timezone).previous()

    @cached_property
    def id(self) -> str:
        """The short id, unique among the windows of one grain and time zone."""
        if self.grain.is_incremental:
            return str(self.grain)
        label = label_of(self.start, self.grain)
        if self.grain.unit == "month":
            return f"{label:%Y-%m}"
        if self.grain.unit == "week":
            year, week, _ = label.isocalendar()
            return f"{year:04d}-W{week:02d}"
        if self.grain.unit == "day":
            return f"{label:%Y-%m-%d}"
        text = f"{label:%Y-%m-%dT%H}" if self.grain.unit == "hour" else f"{label:%Y-%m-%dT%H:%M}"
        if len(instants_of(label, self.grain, zone_of(self.timezone))) > 1:
            text += f"{self.start:%z}"
        return text

    @property
    def slug(self) -> str:
        """The id without colons, for paths."""
        return self.id.replace(":", "")

    @property
    def day(self) -> dt.date:
        """The local calendar day on which the window starts."""
        return self.start.date()

    @property
    def date(self) -> Any:
        """`day` as a Spark date literal, for the partition column of a DataFrame."""
        # Imported here because a window must not cost the start-up time of pyspark.
        from pyspark.sql import functions as F

        return F.lit(self.day)

    @property
    def duration(self) -> dt.timedelta:
        """The time that really passes: 23 or 25 hours for a day on which the clock changes."""
        return to_utc(self.end) - to_utc(self.start)

    def contains(self, instant: dt.datetime) -> bool:
        """Whether an instant lies in `[start, end)`."""
        return to_utc(self.start) <= to_utc(instant) < to_utc(self.end)

    def next(self) -> Window:
        """The window that starts where this one ends; all of time has no other."""
        if self.grain.is_incremental:
            return self
        return Window.containing(self.end, self.grain, self.timezone)

    def previous(self) -> Window:
        """The window that ends where this one starts; all of time has no other."""
        if self.grain.is_incremental:
            return self
        just_before = to_utc(self.start) - dt.timedelta(microseconds=1)
        return Window.containing(just_before, self.grain, self.timezone)

    @cached_property
    def _key(self) -> tuple[dt.datetime, dt.datetime, str, str]:
        return to_utc(self.start), to_utc(self.end), str(self.grain), self.timezone

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Window) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._key < other._key if isinstance(other, Window) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        zone = "" if self.timezone == "UTC" else f", {self.timezone}"
        return f"Window({self.id}, {self.grain}{zone})"


def grain_of_id(text: str) -> Grain | None:
    """The grain that the shape of an id tells; None for minutes, whose length it does not tell."""
    unit, _, _ = _read(text)
    return None if unit == "minute" else Grain.parse(unit)


def unit_of(text: str) -> Unit | None:
    """The unit of the windows whose ids have the shape of this text, whether they exist or not."""
    found = _ID.fullmatch(text) if len(text) <= _LONGEST_ID else None
    units: tuple[Unit, ...] = ("minute", "hour", "day", "week", "month")
    return next((unit for unit in units if found and found[unit] is not None), None)


def _read(text: str) -> tuple[str, dt.datetime, dt.timedelta | None]:
    """The unit, the label and the offset that an id spells out."""
    short = isinstance(text, str) and len(text) <= _LONGEST_ID
    match = _ID.fullmatch(text) if short else None
    if match is None:
        raise _not_an_id(text)
    part = match.groupdict()
    unit = next(u for u in ("minute", "hour", "day", "week", "month") if part[u] is not None)
    year = int(part["year"])
    try:
        if unit == "week":
            label = dt.datetime.fromisocalendar(year, int(part["week"]), 1)
        else:
            label = dt.datetime(  # noqa: DTZ001 - a label has no zone
                year,
                int(part["month"]),
                int(part["day"] or 1),
                int(part["hour"] or 0),
                int(part["minute"] or 0),
            )
    except ValueError:
        raise _not_an_id(text, why="There is no such date or time.") from None
    if not within_bounds(label):
        raise _not_an_id(text, why=f"Windows exist for the years {FIRST_YEAR} to {LAST_YEAR}.")
    return unit, label, _read_offset(part["offset"])


def _read_offset(text: str | None) -> dt.timedelta | None:
    if text is None:
        return None
    hours, minutes, seconds = int(text[1:3]), int(text[3:5]), int(text[5:7] or 0)
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return -offset if text[0] == "-" else offset


def _form(grain: Grain) -> str:
    forms = {
        "minute": "2026-04-25T13:00",
        "hour": "2026-04-25T13",
        "day": "2026-04-25",
        "week": "2026-W17",
        "month": "2026-04",
        "incremental": "incremental",
    }
    return f"An id of this grain looks like {forms[grain.unit]}."


def _not_an_id(
    text: object,
    what: str = "",
    why: str = "",
    next: str = "Write 2026-04-25, 2026-04-25T13, 2026-04-25T13:15, 2026-W17 or 2026-04.",
) -> UsageError:
    what = what or f"{shortened(text)} is not a window id."
    return UsageError("SP-W01", what, why=why, state=NOTHING_STARTED, next=next)


def _wrong_grain(text: str, what: str, next: str) -> UsageError:
    return UsageError(
        "SP-W02",
        f"{shortened(text)} {what}.",
        why="A run may replace only the slice of one window of its pipeline.",
        state=NOTHING_STARTED,
        next=next,
    )
