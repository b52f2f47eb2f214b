"""An input of a proof as it was before all of its rows had come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from setpoint.model.fingerprint import digest
from setpoint.model.mark import Mark
from setpoint.model.ports import SourcePort
from setpoint.model.run import UNKNOWN, Pinned
from setpoint.model.source import Source
from setpoint.model.window import Window
from setpoint.prove.inputs import Sample

_HALF = Sample(0.5)


def part_of(port: SourcePort, source: Source) -> SourcePort:
    """Half of an input; a lookup is read in full."""
    return port if source.whole else PartSource(port, source)


@dataclass(frozen=True)
class PartSource:
    """Half of the rows of an input: by their hash, or those that a cursor comes to first."""

    port: SourcePort
    source: Source

    @property
    def label(self) -> str:
        return self.port.label

    def connectors(self) -> frozenset[str]:
        return self.port.connectors()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        return {window: _partly(pinned) for window, pinned in self.port.pin(windows).items()}

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        return _partly(self.port.pin_published(window, recorded))

    def bounds(self, window: Window) -> str:
        return f"{self.port.bounds(window)}, half of the rows"

    def read(self, session: Any, window: Window, pinned: Pinned) -> Any:
        return _HALF.of(self.port.read(session, window, pinned), self.source)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        self.port.confirm(window, pinned)

    def read_increment(
        self, session: Any, pinned: Pinned, after: Mark | None, again: tuple[str, str] | None
    ) -> tuple[Any, Mark | None]:
        from setpoint.spark.increment import increment
        from setpoint.spark.rearrange import first_half

        everything, _ = self.port.read_increment(session, pinned, None, None)
        frame = first_half(everything, self.source.cursor)
        return increment(frame, self.source, after, again, self.label)


def _partly(pinned: Pinned) -> Pinned:
    known = pinned.fingerprint
    return pinned if known == UNKNOWN else replace(pinned, fingerprint=digest("part", known))
