"""Inputs that a test has made by hand, in place of the sources of a pipeline.

They are read as the sources would be: clipped to the window, or from a mark on. Nothing of
production is looked at, neither the sources that they stand for nor the target.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from setpoint.errors import NOTHING_STARTED, UsageError, some_of
from setpoint.model.mark import Mark
from setpoint.model.origin import Files, Rows
from setpoint.model.pipeline import Pipeline
from setpoint.model.run import Pinned
from setpoint.model.source import Source
from setpoint.model.span import Span, Stretch
from setpoint.model.table import Delta
from setpoint.model.window import Window

_KIND = "given"
Kind = Literal["rows", "windows"]


@dataclass(frozen=True)
class Given:
    """What a test gives a pipeline to read, by argument, and where its sandbox may lie.

    An input is what `spark.frames.frame_from` takes, or a function of a window that returns it.
    """

    inputs: Mapping[str, Any]
    place: Path
    schemas: Mapping[str, str] = field(default_factory=dict)
    """The columns that the sources themselves declare."""

    @classmethod
    def of(cls, pipeline: Pipeline, inputs: Mapping[str, Any] | None, place: Path) -> Given:
        """Refuse inputs that the pipeline does not have."""
        known = [name for name, item in pipeline.sources.items() if not item.before]
        for name in inputs or {}:
            if name not in known:
                before = name in pipeline.sources
                raise UsageError(
                    "SP-V40",
                    f"{pipeline.name} reads its own window before as {name}, from its table."
                    if before
                    else f"{pipeline.name} has no input {name!r:.80}; it has: {some_of(known)}.",
                    why="Rows that no argument reads would be tried in vain.",
                    state=NOTHING_STARTED,
                    next="Run the window before it first, or call the pipeline as a function."
                    if before
                    else "An input's name is that of the argument.",
                )
        origins = {name: pipeline.sources[name].inner for name in inputs or {}}
        schemas = {
            name: item.schema for name, item in origins.items() if isinstance(item, (Files, Rows))
        }
        return cls(dict(inputs or {}), place, schemas)

    def kept(
        self, session: Any, name: str, source: Source, windows: Sequence[Window], folder: str
    ) -> dict[str, dict[str, Any]]:
        """Keep an input in the sandbox; what is known about it, window by window.

        A source whose address says the window has no column to clip on: its rows are those of
        the first window, which is the one that the test is about.
        """
        from setpoint.spark.frames import frame_from, written

        value, schema = self.inputs[name], self.schemas.get(name, "")
        place = os.path.join(folder, "inputs", name)

        def known(asked: Any, kind: Kind, *, empty: bool = False) -> dict[str, Any]:
            frame = frame_from(session, asked, schema)
            record = written(frame.limit(0) if empty else frame, place)
            return {**record, "version": None, _KIND: kind}

        if callable(value):
            return {window.id: known(value(window), "windows") for window in windows}
        if source.time or source.whole or source.cursor:
            return dict.fromkeys((window.id for window in windows), known(value, "rows"))
        return {
            window.id: known(value, "windows", empty=bool(number))
            for number, window in enumerate(windows)
        }


def standing_in(pipeline: Pipeline, names: Sequence[str]) -> Pipeline:
    """The pipeline without the origins that a test stands in for: nobody has to reach them."""
    origins = {name: Delta(path=f"given/{name}") for name in names}
    sources = {
        name: replace(item, origin=origins[name], pipeline=None) if name in origins else item
        for name, item in pipeline.sources.items()
    }
    return replace(pipeline, sources=sources)


def given_names(recorded: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """The inputs that were given, by what is known about all of them."""
    return [
        name
        for name, windows in recorded.items()
        if any(_KIND in known for known in windows.values())
    ]


def given_source(
    name: str, source: Source, pipeline: Pipeline, recorded: Mapping[str, Mapping[str, Any]]
) -> GivenWindows:
    """The port that reads a given input."""
    every = all(known[_KIND] == "rows" for known in recorded.values())
    return (GivenRows if every else GivenWindows)(name, source, pipeline, recorded)


class GivenWindows:
    """A given input with rows of its own for every window."""

    def __init__(
        self,
        name: str,
        source: Source,
        pipeline: Pipeline,
        recorded: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._name, self._source, self._recorded = name, source, recorded
        self._every, self._timezone = pipeline.every, pipeline.timezone

    @property
    def label(self) -> str:
        return self._source.label

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        known = {window: self._recorded[window.id] for window in windows}
        return {window: Pinned(None, one["fingerprint"], "given") for window, one in known.items()}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        return self.pin([window])[window]

    def bounds(self, window: Window) -> str:
        return f"{self._source.time} in {window.id}" if self._source.time else "as given"

    def read(self, session: Any, window: Window, pinned: Pinned) -> Any:
        return self._clipped(self._frame(session, window), window)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        """What is kept does not change while it is read."""

    def read_increment(
        self, session: Any, pinned: Pinned, after: Mark | None, again: tuple[str, str] | None
    ) -> tuple[Any, Mark | None]:
        from setpoint.spark.increment import increment

        window = Window.parse("incremental", self._every, self._timezone)
        frame = self._frame(session, window)
        return increment(frame, self._source, after, again, self.label)

    def _frame(self, session: Any, window: Window) -> Any:
        from setpoint.spark.rearrange import read_rows

        known = self._recorded[window.id]
        return read_rows(session, known["schema"], known["path"])

    def _clipped(self, frame: Any, stretch: Stretch) -> Any:
        if self._source.time is None:
            return frame
        from setpoint.sources.failures import clip_rule
        from setpoint.spark.clip import clipped

        kinds = {item.name: item.dataType.typeName() for item in frame.schema.fields}
        column = self._source.time
        rule = clip_rule(self._name, self.label, column, kinds, self._every, self._timezone)
        return clipped(frame, rule, stretch, self.label)


class GivenRows(GivenWindows):
    """A given input with the same rows for all windows, of which each sees its own."""

    def read_span(self, session: Any, span: Span, pins: Mapping[Window, Pinned]) -> Any:
        return self._clipped(self._frame(session, span.windows[0]), span)
