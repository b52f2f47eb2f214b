"""The cases of the gallery: files whose docstrings say what a proof has to find in them.

A command is a script in `commands/`, a pipeline a function in a file of `pipelines/`. Whether it
is broken or correct is the folder. The last lines of the docstring are fields:

    Caught by: twice            the experiments, for broken ones
    Cause: appended             the kind of cause that has to be named, or several of them
    Passes: twice, killed       the experiments, for correct ones
    Table: sales (id int)       tables of a command in PostgreSQL, made before it is tried
    Lake: delta:sales           tables of a command in the lake
    State: mark.txt             a file of its state
    Before: INSERT ...          a statement that is run first
    Window, Neighbour           windows other than 2026-04-25 and the one before
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HOME = Path(__file__).parent
WINDOW = "2026-04-25"
FIELDS = ("Caught by", "Cause", "Passes", "Table", "Lake", "State", "Before", "Window", "Neighbour")
_FIELD = re.compile(rf"({'|'.join(FIELDS)}): (.+)")


@dataclass(frozen=True)
class Case:
    """One broken or correct piece of code, and what a proof has to say about it."""

    sort: Literal["command", "pipeline"]
    broken: bool
    name: str
    file: Path
    what: str
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def experiments(self) -> tuple[str, ...]:
        return self._listed("Caught by" if self.broken else "Passes")

    @property
    def causes(self) -> tuple[str, ...]:
        return self._listed("Cause")

    @property
    def window(self) -> str:
        return self.one("Window", WINDOW)

    @property
    def label(self) -> str:
        return f"{self.sort}s/{'broken' if self.broken else 'correct'}/{self.name}"

    def one(self, name: str, default: str = "") -> str:
        return next(iter(self.fields.get(name, ())), default)

    def _listed(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.one(name).split(",") if part.strip())


def cases() -> list[Case]:
    """All cases, broken ones first."""
    return [
        case
        for broken, folder in ((True, "broken"), (False, "correct"))
        for case in (
            *_commands(HOME / "commands" / folder, broken),
            *_pipelines(HOME / "pipelines" / folder, broken),
        )
    ]


def _commands(folder: Path, broken: bool) -> Iterator[Case]:
    for file in sorted(folder.glob("*.py")):
        doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        yield Case("command", broken, file.stem, file, *_read(doc))


def _pipelines(folder: Path, broken: bool) -> Iterator[Case]:
    for file in sorted(folder.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and _is_pipeline(node):
                doc = ast.get_docstring(node) or ""
                yield Case("pipeline", broken, node.name, file, *_read(doc))


def _is_pipeline(node: ast.FunctionDef) -> bool:
    return any("pipeline(" in f"{ast.unparse(item)}(" for item in node.decorator_list)


def _read(doc: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    fields: dict[str, tuple[str, ...]] = {}
    for line in doc.splitlines():
        if found := _FIELD.fullmatch(line.strip()):
            fields[found[1]] = (*fields.get(found[1], ()), found[2])
    return " ".join(doc.partition("\n\n")[0].split()), fields
