"""Commands that are printed: each does what its sentence says when it is pasted.

Whoever writes an error knows the pipeline's name and the window, but not how this command was
called. A command that is printed is completed with that: the configuration, the file in which
the pipeline was named, and its parameters.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_COMMAND = re.compile(
    r"\bsetpoint (?P<verb>run|backfill|plan|show|status|recover|check|prove|keys|doctor)\b"
    r"(?: (?P<name>[A-Za-z_][A-Za-z0-9_.-]*[A-Za-z0-9_]|[A-Za-z_])(?![^\s;,)]))?"
)
_PARAMETRIC = ("run", "backfill", "plan")


@dataclass(frozen=True)
class Completion:
    """What a printed command has to say again, because this one was told so."""

    config: str | None = None
    reference: str = ""
    parameters: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: argparse.Namespace) -> Completion:
        """The part of a command line that others need, too."""
        return cls(
            config=getattr(options, "config", None),
            reference=getattr(options, "pipeline", None) or "",
            parameters=tuple(getattr(options, "param", None) or ()),
        )

    @property
    def name(self) -> str:
        """The name of the pipeline that this command is about."""
        return self.reference.rpartition(":")[2]

    @property
    def is_needed(self) -> bool:
        return bool(self.config or self.parameters or self.reference != self.name)

    def text(self, text: str) -> str:
        """A text whose commands are complete."""
        return _COMMAND.sub(self._completed, text) if self.is_needed else text

    def value(self, value: Any) -> Any:
        """The same for all texts inside of plain JSON values."""
        match value:
            case _ if not self.is_needed:
                return value
            case str():
                return self.text(value)
            case Mapping():
                return {key: self.value(item) for key, item in value.items()}
            case list() | tuple():
                return [self.value(item) for item in value]
        return value

    def _completed(self, found: re.Match[str]) -> str:
        verb, name = found["verb"], found["name"]
        words = ["setpoint", verb]
        if name == self.name and name:
            words.append(self.reference)
            given = self.parameters if verb in _PARAMETRIC else ()
            words += [word for item in given for word in ("--param", item)]
        elif name:
            words.append(name)
        if self.config:
            words += ["--config", self.config]
        return shlex.join(words)
