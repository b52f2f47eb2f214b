"""The grain of a pipeline: how long one window is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from setpoint.errors import NOTHING_STARTED, DefinitionError

Unit = Literal["minute", "hour", "day", "week", "month", "incremental"]

MINUTE_COUNTS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)

_CALENDAR: dict[str, Unit] = {
    "hour": "hour",
    "day": "day",
    "week": "week",
    "month": "month",
    "incremental": "incremental",
}
_MINUTES = re.compile(r"(?:([0-9]{1,2}) ?(?:minutes|minute|min|m)|minute)")
# Only the order of these matters, so a month may be taken as thirty days.
_NOMINAL_MINUTES: dict[Unit, int] = {
    "minute": 1,
    "hour": 60,
    "day": 24 * 60,
    "week": 7 * 24 * 60,
    "month": 30 * 24 * 60,
    "incremental": 10_000 * 366 * 24 * 60,
}


@dataclass(frozen=True)
class Grain:
    """A window length: `count` minutes (a divisor of the hour), or one hour, day, week, month.

    `incremental` is the grain of pipelines that go by a high-water mark: one window for all of
    time, published again and again.
    """

    unit: Unit
    count: int = 1

    def __post_init__(self) -> None:
        if self.unit == "minute":
            known = self.count in MINUTE_COUNTS
        else:
            known = self.unit in _CALENDAR and self.count == 1
        if not known:
            raise _unknown(f"{self.count} {self.unit}")

    @classmethod
    def parse(cls, text: str | Grain) -> Grain:
        """Read `day`, `hour`, `week`, `month`, `incremental`, `15 minutes`, `15min` or `15m`."""
        if isinstance(text, Grain):
            return text
        if not isinstance(text, str):
            raise _unknown(text)
        if text in _CALENDAR:
            return cls(_CALENDAR[text])
        minutes = _MINUTES.fullmatch(text)
        if minutes is None or int(minutes[1] or 1) not in MINUTE_COUNTS:
            raise _unknown(text)
        return cls("minute", int(minutes[1] or 1))

    @property
    def is_incremental(self) -> bool:
        """Whether runs go by a high-water mark instead of windows."""
        return self.unit == "incremental"

    @property
    def nominal_minutes(self) -> int:
        """The usual length in minutes; real windows differ at clock changes and by month."""
        return _NOMINAL_MINUTES[self.unit] * self.count

    @property
    def within_day(self) -> bool:
        """Whether a day holds several windows, so that an id needs a time of day."""
        return self.unit in ("minute", "hour")

    def nests_in(self, other: Grain) -> bool:
        """Whether every window of this grain lies inside one window of `other`.

        Longer is not enough: a week can lie in two months, 15 minutes in two times 20 minutes.
        """
        if self == other:
            return True
        if self.is_incremental or other.is_incremental:
            return False
        if self.unit == "week" or self.unit == "month":
            return False
        if other.unit == "week" or other.unit == "month":
            return True
        return other.nominal_minutes % self.nominal_minutes == 0

    def __str__(self) -> str:
        if self.unit != "minute":
            return self.unit
        return "1 minute" if self.count == 1 else f"{self.count} minutes"


def _unknown(text: object) -> DefinitionError:
    shown = repr(text)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    counts = ", ".join(str(count) for count in MINUTE_COUNTS[:-1])
    return DefinitionError(
        "SP-D02",
        f"{shown} is not a grain.",
        why="The grain says which slice of the target one run owns.",
        state=NOTHING_STARTED,
        next=f"Use day, hour, week, month, incremental, or N minutes with N one of {counts} or "
        f"{MINUTE_COUNTS[-1]}.",
    )
