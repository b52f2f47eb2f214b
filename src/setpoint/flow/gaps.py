"""Gaps upstream: windows of another pipeline that a run would read and that are not published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from setpoint.errors import PermanentError, UsageError
from setpoint.model.pipeline import Pipeline, windows_named
from setpoint.model.ports import TargetPort
from setpoint.model.ranges import covering
from setpoint.model.window import Window


@dataclass(frozen=True)
class Upstream:
    """A pipeline whose target is read, bound to that target."""

    pipeline: Pipeline
    target: TargetPort
    before: bool = False
    """What is needed is the window before, of the pipeline itself."""

    def gaps(self, windows: Sequence[Window]) -> dict[Window, list[Window]]:
        """For each window, those of the upstream pipeline that it needs and that are missing.

        What lies before the pipeline's start, or before the first window that it ever published,
        is no gap: it does not exist.
        """
        pipeline = self.pipeline
        if pipeline.every.is_incremental or pipeline.newest_counts:
            return {}
        first = pipeline.start or self._first()
        if self.before and first is None:
            return {}  # nothing was ever published: this is the first window
        try:
            needed = {window: self._needed(window) for window in windows}
        except UsageError:
            return {}  # more windows than can be looked at, such as the minutes of years
        wanted = sorted({item for found in needed.values() for item in found})
        states = self.target.inspect(wanted)
        missing = {
            item
            for item in wanted
            if not states[item].published and (first is None or item >= first)
        }
        return {
            window: [item for item in found if item in missing]
            for window, found in needed.items()
            if not missing.isdisjoint(found)
        }

    def _needed(self, window: Window) -> tuple[Window, ...]:
        if self.before:
            return (window.previous(),)
        return covering(window.start, window.end, self.pipeline.every, self.pipeline.timezone)

    def _first(self) -> Window | None:
        """The first window that was ever published."""
        known = windows_named(self.target.published_windows(), self.pipeline)
        return min(known, default=None)


def gaps_of(
    upstream: Mapping[str, Upstream], windows: Sequence[Window]
) -> dict[Window, tuple[str, list[Window]]]:
    """For each window that reads a gap, the pipeline that has it and the missing windows."""
    found: dict[Window, tuple[str, list[Window]]] = {}
    for item in upstream.values():
        for window, missing in item.gaps(windows).items():
            found.setdefault(window, (item.pipeline.name, missing))
    return found


def gap_error(
    pipeline: Pipeline, window: Window, gap: tuple[str, Sequence[Window]]
) -> PermanentError:
    """Windows that are not there are not read: they would count as windows without rows."""
    name, missing = gap
    more = f" and {len(missing) - 1:,} more windows" if len(missing) > 1 else ""
    were = "were" if more else "was"
    ids = missing[0].id if len(missing) == 1 else f"{missing[0].id}..{missing[-1].id}"
    publish = f"Publish them first: setpoint backfill {name} --window {ids}"
    force = f"setpoint run {pipeline.name} --window {window.id} --force"
    # To go on from a window that is not there would be to begin with nothing.
    own = name == pipeline.name
    return PermanentError(
        "SP-R07",
        f"{pipeline.name}[{window.id}] reads {name}, of which {missing[0].id}{more} {were} never "
        "published.",
        why="They would count as windows without rows.",
        next=publish if own else f"{publish}; or read what is there: {force}",
    )
