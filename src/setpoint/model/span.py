"""The span: windows that follow each other without a gap, taken together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, TypeAlias

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.model.grain import Grain
from setpoint.model.wallclock import to_utc
from setpoint.model.window import Window


@dataclass(frozen=True)
class Span:
    """One or more windows of one grain and time zone, oldest first, without a gap.

    A pipeline with `spans=True` is called with one in place of a window. Its rows belong to
    several windows, so it has no one date: a row's own column says which window it is of.
    """

    windows: tuple[Window, ...]

    def __post_init__(self) -> None:
        if not self.windows:
            raise ValueError("a span has at least one window")
        for before, after in zip(self.windows, self.windows[1:], strict=False):
            if not follows(before, after):
                raise ValueError(f"{after!r} does not follow {before!r}")

    @property
    def start(self) -> dt.datetime:
        """Where the first window starts."""
        return self.windows[0].start

    @property
    def end(self) -> dt.datetime:
        """Where the last window ends; not part of the span."""
        return self.windows[-1].end

    @property
    def grain(self) -> Grain:
        """The grain of the windows."""
        return self.windows[0].grain

    @property
    def timezone(self) -> str:
        """The time zone of the windows."""
        return self.windows[0].timezone

    @cached_property
    def id(self) -> str:
        """The first and the last window, or the only one."""
        first, last = self.windows[0].id, self.windows[-1].id
        return first if len(self.windows) == 1 else f"{first}..{last}"

    @property
    def slug(self) -> str:
        """The id without colons, for paths."""
        return self.id.replace(":", "")

    @property
    def day(self) -> NoReturn:
        """Refused: the rows of a span are of several days."""
        raise _not_one("day")

    @property
    def date(self) -> NoReturn:
        """Refused: the rows of a span are of several days."""
        raise _not_one("date")

    def contains(self, instant: dt.datetime) -> bool:
        """Whether an instant lies in `[start, end)`."""
        return to_utc(self.start) <= to_utc(instant) < to_utc(self.end)

    def __iter__(self) -> Iterator[Window]:
        return iter(self.windows)

    def __len__(self) -> int:
        return len(self.windows)

    def __str__(self) -> str:
        return self.id


Stretch: TypeAlias = "Window | Span"


def windows_of(stretch: Stretch) -> tuple[Window, ...]:
    """The windows of a stretch of time: one, or those of a span."""
    return stretch.windows if isinstance(stretch, Span) else (stretch,)


def follows(before: Window, after: Window) -> bool:
    """Whether a window starts where another one of its kind ends."""
    same = (before.grain, before.timezone) == (after.grain, after.timezone)
    return same and to_utc(before.end) == to_utc(after.start)


def _not_one(name: str) -> DefinitionError:
    return DefinitionError(
        "SP-D11",
        f"The pipeline asks for window.{name}, but spans=True says that it takes many windows at "
        "once.",
        why="Each row belongs to one of them, and only a column of the row can say to which.",
        state=NOTHING_STARTED,
        next=f"Take the {name} from a column of the input, or leave spans=True out.",
    )
