"""The scope of a write: the part of the target that a publish replaces."""

from __future__ import annotations

from dataclasses import dataclass

from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch
from setpoint.model.write import DeleteInsert, Overwrite, WritePattern, pattern_of


@dataclass(frozen=True)
class Scope:
    """What a write pattern replaces, given the rule of the window's slice if there is one."""

    write: WritePattern
    rule: SliceRule | None = None

    @property
    def name(self) -> str:
        """The scope as a receipt names it: two publishes with one name replace by one rule."""
        pattern = pattern_of(self.write)
        return f"{pattern} by {self.rule.kind} {self.rule.column}" if self.rule else pattern

    def condition(self, stretch: Stretch) -> str | None:
        """The rows that are replaced, as a SQL condition that all staged rows must satisfy.

        None: the pattern goes by key, or replaces the whole table.
        """
        match self.write:
            case Overwrite():
                return self._slice(stretch)
            case DeleteInsert(where) if self.rule is None:
                return where
            case DeleteInsert(where):
                end = "\n)" if "--" in where else ")"  # a comment ends with its line
                return f"({where}{end} AND {self._slice(stretch)}"
            case _:
                return None

    def _slice(self, stretch: Stretch) -> str:
        if self.rule is None:
            raise TypeError("the target names no column for the window")
        return self.rule.predicate(stretch)
