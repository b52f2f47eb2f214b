"""The numbers under which Delta keeps what was published: they outlive the log's clean-up.

Delta keeps one number for each name, demands that it grows, and the connector skips a commit whose
number does not: that is the fence. So the number of a window is its generation and nothing else.
Beside it a commit that we make ourselves leaves a hint where its receipt is, so that nobody has to
read all commits to find one. The number that windows share which state the same rows counts their
publishes and says when the newest of them began, so that an older window never replaces it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The window under which the shared number is kept.
SHARED = "*"
_HINT = "#commit"
_MINUTES = 31  # bits of the shared number
_FIRST = datetime(1, 1, 1, tzinfo=timezone.utc)
_MINUTE = timedelta(minutes=1)


def application_id(pipeline: str, window: str) -> str:
    """The name under which a window's generation is kept in the log."""
    return f"setpoint:{pipeline}:{window}"


def hint_id(pipeline: str, window: str) -> str:
    """The name under which the commit of a window's receipt is kept: its version plus one."""
    return f"{application_id(pipeline, window)}{_HINT}"


def shared_number(last: int, start: datetime) -> int:
    """The shared number after a publish of the window that begins at `start`."""
    own = -((_FIRST - start) // _MINUTE)  # rounded up: inside the window
    newest = max(_minutes(last), min(own, (1 << _MINUTES) - 1))
    return ((count_of(last) + 1) << _MINUTES) + newest


def count_of(number: int) -> int:
    """How many publishes a shared number counts."""
    return number >> _MINUTES or number  # small ones are of a time when they only counted


def start_of(number: int) -> datetime | None:
    """When the newest window began; None for numbers of a time when they only counted."""
    minutes = _minutes(number)
    return _FIRST + minutes * _MINUTE if minutes else None


def _minutes(number: int) -> int:
    return number & ((1 << _MINUTES) - 1) if number >> _MINUTES else 0
