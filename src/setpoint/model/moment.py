"""The logical time of a run: what a pipeline uses instead of the clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from setpoint.errors import UsageError
from setpoint.model.span import Span, Stretch

_WINDOW: ContextVar[Stretch | None] = ContextVar("setpoint_window", default=None)


def logical_time() -> dt.datetime:
    """The moment a run is for: the end of its window, with its time zone.

    It is the same however often and whenever the window is run. Call it inside a pipeline's
    function; elsewhere there is no window, and an incremental pipeline has none with an end.
    """
    window = _WINDOW.get()
    if window is None:
        raise UsageError(
            "SP-N02",
            "logical_time() was called outside of a pipeline.",
            why="It is the end of the window that a run is for, and nothing runs here.",
            next="Call it inside the pipeline's function, or pass window.end on.",
        )
    if window.grain.is_incremental:
        raise UsageError(
            "SP-N02",
            "logical_time() was called in an incremental pipeline.",
            why="Such a pipeline goes by a high-water mark: no moment is the end of its window.",
            next="Use a column of the data, for example the cursor.",
        )
    if isinstance(window, Span):
        raise UsageError(
            "SP-N02",
            "logical_time() was called in a pipeline with spans=True.",
            why="It takes many windows at once, and each of them ends at another moment.",
            next="Use a column of the data, or leave spans=True out.",
        )
    return window.end


@contextmanager
def during(window: Stretch) -> Iterator[None]:
    """The time in which a pipeline's function is called for a window, or for a span of them."""
    token = _WINDOW.set(window)
    try:
        yield
    finally:
        _WINDOW.reset(token)
