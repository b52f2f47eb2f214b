"""The ground of a proof for a real command that writes files only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setpoint import edge
from setpoint.prove.command.ground import Ground
from setpoint.prove.command.kept import Kept
from setpoint.prove.command.words import Command


def ground(text: str, here: Path, *variables: str) -> Ground:
    """A real command without tables."""
    command = Command.of(text, "2026-04-25", variables)
    no_sessions: Any = None
    return Ground(
        command=command,
        tables=[],
        places=[],
        kept=Kept(here, ()),
        folder=here,
        here=here,
        sessions=no_sessions,
        environment={"PATH": "/usr/bin:/bin"},
        now=edge.utc_now,
        tell=lambda message: None,
    )
