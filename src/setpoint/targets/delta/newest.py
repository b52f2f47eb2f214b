"""The transaction number that windows share which state the same rows.

It counts their publishes and says when the newest of them began, so that an older window never
replaces it, whatever else of the log is cleaned up. It grows with every publish, as Delta demands.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The window under which the shared number is kept.
SHARED = "*"
_COUNTED = 24  # bits
_FIRST = datetime(1, 1, 1, tzinfo=timezone.utc)
_MINUTE = timedelta(minutes=1)


def next_number(last: int, start: datetime) -> int:
    """The number of a publish of the window that begins at `start`, after the last one."""
    newest = max(last >> _COUNTED, -((_FIRST - start) // _MINUTE))  # rounded up: inside the window
    return (newest << _COUNTED) + count_of(last) + 1


def count_of(number: int) -> int:
    """How many publishes a number counts."""
    return number & ((1 << _COUNTED) - 1)


def start_of(number: int) -> datetime | None:
    """When the newest window began; None for numbers of a time when they only counted."""
    minutes = number >> _COUNTED
    return _FIRST + minutes * _MINUTE if minutes else None
