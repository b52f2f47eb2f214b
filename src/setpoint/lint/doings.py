"""What a function does besides returning something: the writes and effects of its own."""

from __future__ import annotations

from dataclasses import dataclass

from setpoint.lint.document import read_document
from setpoint.lint.interpret.machine import Machine
from setpoint.lint.judgement import passing
from setpoint.lint.model import Program
from setpoint.lint.parsing import parse


@dataclass(frozen=True)
class Doing:
    """One write or effect of a function, or of what it calls in the same file."""

    line: int
    api: str
    target: str = ""
    on_disk: bool = False
    """It changes a file by a path, which can be watched while it happens."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.api}" + (f" to {self.target}" if self.target else "")


def doings_of(path: str, content: bytes, function: str) -> tuple[Doing, ...]:
    """The lasting writes and the effects of one function of a file, in the order of its lines."""
    document = read_document(path, content)
    if document.unreadable or document.language != "python":
        return ()
    program = Program()
    tree, _ = parse(document.python)
    Machine(program, document.python.split("\n")).module(tree)
    found = []
    for trace in program.traces:
        for write in trace.writes:
            if write.path and write.path[0].function == function and not passing(write):
                on_disk = write.target.kind == "path"
                found.append(Doing(write.place.line, write.api, write.target.key, on_disk))
        for effect in trace.effects:
            if effect.path and effect.path[0].function == function:
                found.append(Doing(effect.place.line, effect.api))
    return tuple(sorted(set(found), key=lambda doing: (doing.line, doing.api)))
