"""What lint says: a finding, where it is, how bad it is, and how it could be repaired."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "info"]


@dataclass(frozen=True, order=True)
class Place:
    """A range of a file; lines and columns start at one, the end is exclusive."""

    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True)
class Edit:
    """Text that replaces a range of the file."""

    place: Place
    text: str


@dataclass(frozen=True)
class Fix:
    """A repair as edits; `safe` ones do not change what a correct run would write."""

    message: str
    edits: tuple[Edit, ...]
    safe: bool


@dataclass(frozen=True)
class Finding:
    """One violation: the rule that found it, the line, the reason and the repair in words."""

    code: str
    kind: str
    place: Place
    message: str
    repair: str
    severity: Severity = "error"
    path: str = ""
    text: str = ""
    fix: Fix | None = field(default=None, compare=False)

    @property
    def line(self) -> int:
        return self.place.line

    def order(self) -> tuple[str, int, int, str]:
        """Findings are told file by file, top to bottom."""
        return (self.path, self.place.line, self.place.column, self.code)
