"""The model of a program: what each run of it reads, writes, commits and sends, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from setpoint.lint.findings import Place
from setpoint.lint.sql.statement import Statement
from setpoint.lint.values import NO_TAINTS, Taint

Mode = Literal[
    "append", "overwrite", "replace_slice", "merge", "ignore", "delete", "truncate", "drop",
    "create", "create_as", "update", "rename", "put",
]  # fmt: skip


# How the target of a task that is told something begins: not a place, but what follows from it.
ARGUMENTS = "the arguments of "


@dataclass(frozen=True)
class Target:
    """Where rows go: a table, a path, an object; holes are named between braces."""

    key: str
    kind: Literal["table", "path", "object", "state"] = "table"

    @property
    def last(self) -> str:
        """What equal targets have in common."""
        return self.key.rsplit(".", 1)[-1] if self.kind == "table" else self.key

    def same(self, other: Target) -> bool:
        """One place? A name without its schema matches one with it."""
        if not self.key or not other.key:
            return False
        if self.key == other.key:
            return True
        mine, others = self.key.split("."), other.key.split(".")
        if self.kind != "table" or other.kind != "table" or len(mine) == len(others):
            return False
        short, long = sorted((mine, others), key=len)
        if long[-len(short) :] != short:
            return False
        # A name that is filled in may be one of several schemas; one that is filled in too is not.
        filled = all(word.startswith("{") for word in long[: -len(short)])
        return filled or not short[-1].startswith("{")


@dataclass(frozen=True)
class Step:
    """A call on the way from the root of a trace to an event."""

    function: str
    place: Place


@dataclass(frozen=True)
class Write:
    """One change of persisted data."""

    place: Place
    target: Target
    mode: Mode
    api: str
    transaction: str
    order: int
    path: tuple[Step, ...] = ()
    # The sides of the conditions that led here.
    sides: tuple[tuple[int, bool], ...] = ()
    columns: dict[str, frozenset[Taint]] = field(default_factory=dict)
    rows: frozenset[Taint] = NO_TAINTS
    where: frozenset[Taint] = NO_TAINTS
    location: frozenset[Taint] = NO_TAINTS
    partitioned: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    guarded: bool = False
    failing: bool = False
    windowed: bool = False
    literal: bool = False
    scoped: bool = False
    diffed: bool = False
    # What is stored is the start of what is written.
    accumulating: bool = False
    temporary: bool = False
    # Called temporary, but neither made nor dropped by the script that fills it.
    outlives: bool = False
    retry: Place | None = None
    statement: Statement | None = None


def either(first: Write, second: Write) -> bool:
    """Does a run do one or the other, never both?"""
    return any((test, not side) in second.sides for test, side in first.sides)


@dataclass(frozen=True)
class Effect:
    """Something that leaves the data: a mail, a message, a call."""

    place: Place
    api: str
    order: int
    notification: bool
    guarded: bool
    failing: bool
    content: frozenset[Taint] = NO_TAINTS
    path: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Maximum:
    """The largest key of a table, read at some moment."""

    place: Place
    table: str
    column: str
    order: int


@dataclass
class Trace:
    """One unit that is repeated as a whole: a run of a script, or one task of a DAG."""

    name: str
    task: bool = False
    writes: list[Write] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    retry: Place | None = None
    request: bool = False
    # Writes that do more than add rows, by the last word of their target.
    shaping: dict[str, list[Write]] = field(default_factory=dict)
    maxima: list[Maximum] = field(default_factory=list)

    def add(self, write: Write) -> None:
        self.writes.append(write)
        if write.mode != "append":
            self.shaping.setdefault(write.target.last, []).append(write)

    def shaped(self, target: Target) -> list[Write]:
        """What else happens to a target: it is made, emptied, replaced, renamed."""
        return [write for write in self.shaping.get(target.last, ()) if write.target.same(target)]


@dataclass(frozen=True)
class Table:
    """What the file's DDL says about a table."""

    key: str
    place: Place
    serial: str = ""
    unique: bool = False
    defaults: tuple[tuple[str, Taint], ...] = ()
    temporary: bool = False
    fresh: bool = False


@dataclass
class Program:
    """All that the rules may look at."""

    traces: list[Trace] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    dynamic_overwrite: bool = False
    seeded: bool = False
    generator: bool = False
    seeds: bool = False
    access: bool = False
    script: bool = False
    schedule: str = ""
    schedule_place: Place | None = None
    retries: Place | None = None
    named: list[tuple[str, Taint]] = field(default_factory=list)
    model: bool = False
    orchestrated: bool = False
