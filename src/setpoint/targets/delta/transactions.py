"""The numbers under which Delta keeps what was published: they outlive the log's clean-up.

Delta keeps one number for each name, and demands that it grows. The number of a window holds its
generation and the commit to look for its receipt in, so that nobody has to read all commits to
find one. The number that windows share which state the same rows counts their publishes and says
when the newest of them began, so that an older window never replaces it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The window under which the shared number is kept.
SHARED = "*"
_COUNTED = 24  # bits of the shared number
_GENERATIONS = 20  # bits of a window's number
_FIRST = datetime(1, 1, 1, tzinfo=timezone.utc)
_MINUTE = timedelta(minutes=1)


def window_number(version: int, generation: int) -> int:
    """The number of a window that is published by the commit `version`, or by a later one."""
    return ((version + 1) << _GENERATIONS) + generation


def generation_of(number: int) -> int:
    """How often the window was published."""
    return number & ((1 << _GENERATIONS) - 1)


def version_of(number: int) -> int | None:
    """The first commit that can hold the window's receipt; None for numbers that only count."""
    found = (number >> _GENERATIONS) - 1
    return found if found >= 0 else None


def shared_number(last: int, start: datetime) -> int:
    """The shared number after a publish of the window that begins at `start`."""
    newest = max(last >> _COUNTED, -((_FIRST - start) // _MINUTE))  # rounded up: inside the window
    return (newest << _COUNTED) + count_of(last) + 1


def count_of(number: int) -> int:
    """How many publishes a shared number counts."""
    return number & ((1 << _COUNTED) - 1)


def start_of(number: int) -> datetime | None:
    """When the newest window began; None for numbers of a time when they only counted."""
    minutes = number >> _COUNTED
    return _FIRST + minutes * _MINUTE if minutes else None
