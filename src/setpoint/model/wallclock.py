"""Where windows begin and end on the clock of a time zone.

A *label* is the wall-clock time a window is named after, without an offset: midnight of a day,
the full hour. Labels are not instants. A clock that is put back shows a label twice, one that
is put forward skips it. Two rules keep windows disjoint and without holes in every zone:

* day, week, month: a window starts at the first instant at which the clock shows its label or
  later, and ends where the next one starts. Days that a zone skipped have no window.
* hour, minutes: a window is a longest stretch of time with one label and one UTC offset, so a
  change of the clock inside an hour (Lord Howe Island) also ends a window.

All instants here are in UTC: Python compares and subtracts datetimes of one zone by their wall
clocks, which is wrong exactly where it matters.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.model.grain import Grain

# Earlier dates belong to another calendar, later ones leave no room for the end of a window.
FIRST_YEAR, LAST_YEAR = 1583, 9998

_SECOND = dt.timedelta(seconds=1)
_ALL_OF_TIME = (
    dt.datetime(FIRST_YEAR, 1, 1, tzinfo=dt.timezone.utc),
    dt.datetime(LAST_YEAR, 1, 1, tzinfo=dt.timezone.utc),
)
# Names that a zone directory holds but that depend on the machine, or count leap seconds.
_NOT_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")


def zone_of(timezone: str) -> ZoneInfo:
    """The zone of an IANA name; SP-W04 if there is none."""
    try:
        if not timezone.startswith(_NOT_ZONES):
            return ZoneInfo(timezone)
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        pass  # zoneinfo's many ways of saying that there is no such zone
    raise UsageError(
        "SP-W04",
        f"{shortened(timezone)} is not a time zone.",
        why="The time zone decides where a window begins and ends.",
        state=NOTHING_STARTED,
        next="Use an IANA name such as UTC or Europe/Berlin.",
    )


def to_utc(instant: dt.datetime) -> dt.datetime:
    """The same instant in UTC; a time without a zone is refused, not guessed at."""
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise UsageError(
            "SP-W04",
            f"The time {instant.isoformat()} has no time zone.",
            why="Without one it could mean any of about forty instants.",
            state=NOTHING_STARTED,
            next="Give a datetime with tzinfo set.",
        )
    try:
        return instant.astimezone(dt.timezone.utc)
    except OverflowError:
        raise _out_of_bounds(instant) from None


def label_of(local: dt.datetime, grain: Grain) -> dt.datetime:
    """The label at or before a wall-clock time."""
    midnight = dt.datetime(local.year, local.month, local.day)  # noqa: DTZ001 - a label has no zone
    if grain.unit == "minute":
        minute = local.minute - local.minute % grain.count
        return midnight.replace(hour=local.hour, minute=minute)
    if grain.unit == "hour":
        return midnight.replace(hour=local.hour)
    if grain.unit == "week":
        return midnight - dt.timedelta(days=local.weekday())
    return midnight.replace(day=1) if grain.unit == "month" else midnight


def span_at(instant: dt.datetime, grain: Grain, zone: ZoneInfo) -> tuple[dt.datetime, dt.datetime]:
    """Start and end of the window that contains a UTC instant."""
    if grain.is_incremental:
        return _ALL_OF_TIME
    # One year of margin, so that no offset can lead out of what datetime can hold.
    if not FIRST_YEAR - 1 <= instant.year <= LAST_YEAR + 1 or instant.date() == dt.date.max:
        raise _out_of_bounds(instant)
    local = instant.astimezone(zone)
    label = label_of(local, grain)
    if not within_bounds(label):
        raise _out_of_bounds(instant)
    if grain.within_day:
        return _stretch(instant, label, local.utcoffset() or dt.timedelta(), grain, zone)
    following = _following(label, grain)
    # The clock may have been put back over midnight after the next label was first shown,
    # and the next label may be one that the zone skipped.
    while (end := _first_instant(following, zone)) <= instant:
        label, following = following, _following(following, grain)
    return _first_instant(label, zone), end


def instants_of(label: dt.datetime, grain: Grain, zone: ZoneInfo) -> list[dt.datetime]:
    """One UTC instant inside each window that has this label: none, one, or two of them."""
    if not grain.within_day:
        start = _first_instant(label, zone)
        return [start] if start < _first_instant(_following(label, grain), zone) else []
    length = dt.timedelta(minutes=grain.nominal_minutes)
    offsets = {
        time.replace(tzinfo=zone, fold=fold).utcoffset() or dt.timedelta()
        for time in (label, label + length - _SECOND)
        for fold in (0, 1)
    }
    if len(offsets) == 1:  # nearly always: the clock does not change near the label
        return [(label - offsets.pop()).replace(tzinfo=dt.timezone.utc)]
    found = []
    for offset in sorted(offsets, reverse=True):  # the greater offset shows the label first
        start = (label - offset).replace(tzinfo=dt.timezone.utc)
        for instant in (start, start + length - _SECOND):
            if _offset(instant, zone) == offset:
                found.append(instant)
                break
    return found


def within_bounds(label: dt.datetime) -> bool:
    """Whether windows exist for the year of a label."""
    return FIRST_YEAR <= label.year <= LAST_YEAR


def shortened(text: object) -> str:
    """A repr that is fit for one line of an error message."""
    shown = repr(text[:60] if isinstance(text, str) else text)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def _following(label: dt.datetime, grain: Grain) -> dt.datetime:
    if grain.unit == "month":
        return (label + dt.timedelta(days=31)).replace(day=1)
    return label + dt.timedelta(days=7 if grain.unit == "week" else 1)


def _offset(instant: dt.datetime, zone: ZoneInfo) -> dt.timedelta:
    return instant.astimezone(zone).utcoffset() or dt.timedelta()


def _first_instant(label: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """The first instant at which the clock shows `label` or later."""
    instant = label.replace(tzinfo=zone).astimezone(dt.timezone.utc)  # fold=0: the first of two
    if instant.astimezone(zone).replace(tzinfo=None) == label:
        return instant
    # Skipped: fold=1 reads the label with the later, greater offset and so lies before the change.
    before = label.replace(tzinfo=zone, fold=1).astimezone(dt.timezone.utc)
    return _change_between(before, instant, zone)


def _stretch(
    instant: dt.datetime,
    label: dt.datetime,
    offset: dt.timedelta,
    grain: Grain,
    zone: ZoneInfo,
) -> tuple[dt.datetime, dt.datetime]:
    start = (label - offset).replace(tzinfo=dt.timezone.utc)
    end = start + dt.timedelta(minutes=grain.nominal_minutes)
    inside = instant.replace(microsecond=0)  # clocks change on whole seconds
    if _offset(start, zone) != offset:
        start = _change_between(start, inside, zone)
    if _offset(end - _SECOND, zone) != offset:
        end = _change_between(inside, end - _SECOND, zone)
    return start, end


def _change_between(low: dt.datetime, high: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """The instant in (low, high] at which the offset changes."""
    before = _offset(low, zone)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high


def _out_of_bounds(instant: dt.datetime) -> UsageError:
    return UsageError(
        "SP-W01",
        f"There is no window at {instant.isoformat()}.",
        why=f"Windows exist for the years {FIRST_YEAR} to {LAST_YEAR}.",
        state=NOTHING_STARTED,
        next="Check the date.",
    )
