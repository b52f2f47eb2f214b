"""Many windows at once: ranges, lists, and the windows that cover an interval."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.model.grain import Grain
from setpoint.model.wallclock import shortened, to_utc
from setpoint.model.window import Window, grain_of_id

MOST_WINDOWS = 1_000_000


def windows_between(first: Window, last: Window) -> tuple[Window, ...]:
    """All windows from `first` to `last`, both included."""
    if (first.grain, first.timezone) != (last.grain, last.timezone):
        raise _invalid(
            f"{first!r} and {last!r} are not of one grain and time zone.",
            "Give two windows of the same pipeline.",
        )
    if last < first:
        raise _invalid(f"The range {first}..{last} ends before it starts.", "Swap its ends.")
    return covering(first.start, last.end, first.grain, first.timezone)


def covering(
    start: dt.datetime, end: dt.datetime, every: Grain | str, timezone: str = "UTC"
) -> tuple[Window, ...]:
    """The windows that have an instant in common with the interval `[start, end)`."""
    low, high = to_utc(start), to_utc(end)
    grain = Grain.parse(every)
    if high < low:
        raise _invalid(
            f"The interval from {start.isoformat()} to {end.isoformat()} ends before it starts.",
            "Swap its ends.",
        )
    # Estimated first: a refusal should not take the time of a million windows.
    if (high - low) / dt.timedelta(minutes=grain.nominal_minutes) > MOST_WINDOWS + 1:
        raise _too_many()
    found = []
    for window in _from(low, high, grain, timezone):
        found.append(window)
        if len(found) > MOST_WINDOWS:
            raise _too_many()
    return tuple(found)


def onward(windows: Iterable[Window], among: Iterable[Window]) -> set[Window]:
    """The windows among some that come after the given ones, one after the other without a gap."""
    begun, candidates = set(windows), set(among)
    found: set[Window] = set()
    for window in begun:
        following = window.next()
        while following in candidates and following not in begun:
            found.add(following)
            following = following.next()
    return found


def parse_windows(text: str, every: Grain | str, timezone: str = "UTC") -> tuple[Window, ...]:
    """Read `A`, `A..B` (both included) or a comma-separated list of those.

    The windows come in order of time and once each. A coarser id stands for all its windows:
    `2026-04` is every day of April for a daily pipeline.
    """
    if not isinstance(text, str):
        raise _invalid(f"{shortened(text)} is not a range of windows.", "Write A, A..B or A,B.")
    grain = Grain.parse(every)
    if grain.is_incremental:
        return (Window.parse(text, grain, timezone),)
    found: dict[dt.datetime, Window] = {}
    for item in text.split(","):
        first_id, dots, last_id = item.partition("..")
        if dots and not (first_id.strip(" ") and last_id.strip(" ")):
            raise _invalid(f"The range {shortened(item.strip(' '))} lacks an end.", "Write A..B.")
        first, last = _ends(first_id.strip(" "), grain, timezone)
        if dots:
            _, last = _ends(last_id.strip(" "), grain, timezone)
        if last < first:
            raise _invalid(
                f"The range {shortened(item.strip(' '))} ends before it starts.", "Swap its ends."
            )
        found.update((to_utc(w.start), w) for w in windows_between(first, last))
        if len(found) > MOST_WINDOWS:
            raise _too_many()
    return tuple(found[start] for start in sorted(found))


def _ends(text: str, grain: Grain, timezone: str) -> tuple[Window, Window]:
    """The first and the last window of `grain` that an id of it or of a coarser grain names."""
    shape = grain_of_id(text)
    if shape is None or shape == grain or not grain.nests_in(shape):
        window = Window.parse(text, grain, timezone)
        return window, window
    whole = Window.parse(text, shape, timezone)
    first = Window.containing(whole.start, grain, timezone)
    just_before_end = to_utc(whole.end) - dt.timedelta(microseconds=1)
    return first, Window.containing(just_before_end, grain, timezone)


def _from(low: dt.datetime, high: dt.datetime, grain: Grain, timezone: str) -> Iterator[Window]:
    at = low
    while at < high:
        window = Window.containing(at, grain, timezone)
        yield window
        at = to_utc(window.end)


def _too_many() -> UsageError:
    return _invalid(
        f"The range holds more than {MOST_WINDOWS:,} windows.",
        "Check its ends, or take it in parts.",
    )


def _invalid(what: str, next: str) -> UsageError:
    return UsageError("SP-W03", what, state=NOTHING_STARTED, next=next)
