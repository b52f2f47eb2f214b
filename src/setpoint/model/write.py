"""The write patterns: how a run's rows become the state of the target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overwrite:
    """Replace the window's slice with the run's rows; an empty result leaves an empty slice."""

    def definition(self) -> dict[str, object]:
        """The pattern as it enters the run key."""
        return {"pattern": "overwrite"}


WritePattern = Overwrite
