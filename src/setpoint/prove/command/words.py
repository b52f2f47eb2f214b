"""The command line of a job, with places and windows for it to be filled in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.model.fingerprint import canonical, digest

WINDOW = "window"
_SCRIPTS = (".py", ".sql", ".ipynb")


@dataclass(frozen=True)
class Command:
    """What a user runs: words and variables that may hold `{window}` and the names of tables."""

    text: str
    window: str
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, window: str | None, variables: Sequence[str]) -> Command:
        """The command as the options give it."""
        given = {}
        for item in variables:
            name, equals, value = item.partition("=")
            if not equals or not name:
                raise _unreadable(f"--env {item!r:.80} is not NAME=VALUE")
            given[name] = value
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise _unreadable(f"--command cannot be divided into words: {error}") from error
        if not words:
            raise _unreadable("--command is empty")
        made = cls(text, window or "", given)
        if made.names(WINDOW) and not window:
            raise _unreadable("the command asks for {window}: give --window")
        return made

    def names(self, name: str) -> bool:
        """Whether a name has to be filled in."""
        return any(f"{{{name}}}" in text for text in (self.text, *self.variables.values()))

    def filled(self, addresses: Mapping[str, str], window: str) -> list[str]:
        """The words to run. There is no shell in between: a kill has to hit the command."""
        return [_filled(word, addresses, window) for word in shlex.split(self.text)]

    def environment(
        self, around: Mapping[str, str], addresses: Mapping[str, str], window: str
    ) -> dict[str, str]:
        own = {name: _filled(text, addresses, window) for name, text in self.variables.items()}
        return {**around, **own}

    def scripts(self, here: Path) -> tuple[Path, ...]:
        """The files among its words that lint can read."""
        found = (here / word for word in shlex.split(self.text) if word.endswith(_SCRIPTS))
        return tuple(path for path in found if path.is_file())

    def fingerprint(self, here: Path) -> str:
        """One value for its words and for the scripts that they name."""
        texts = [path.read_text(errors="replace") for path in self.scripts(here)]
        variables = canonical(dict(self.variables))
        return digest(self.text, variables, *texts)


def _filled(text: str, addresses: Mapping[str, str], window: str) -> str:
    known = {**addresses, WINDOW: window}
    return re.sub(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda hole: known.get(hole[1], hole[0]), text)


def _unreadable(what: str) -> UsageError:
    return UsageError(
        "SP-V20",
        f"{what}.",
        why="The command is started many times, without a shell.",
        state=NOTHING_STARTED,
        next='For example: setpoint prove --command "python job.py --date {window}" '
        "--table orders=delta:lake/orders --window 2026-04-25",
    )
