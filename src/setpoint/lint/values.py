"""What is known about a value of the program without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from setpoint.lint.findings import Place
from setpoint.lint.texts import Hole, Part, Piece, flatten, plain

if TYPE_CHECKING:
    from setpoint.lint.interpret.scope import Scope

TaintKind = Literal[
    "clock",  # the wall clock
    "random",  # entropy: uuid4, random, rand()
    "mono",  # monotonically_increasing_id, a row number over nothing
    "rank",  # a row number over columns that may tie
    "pick",  # some row, and no order says which
    "env",  # an environment variable, a host name
    "serial",  # a counter of the database
    "read",  # rows of a table; the label names it
    "outside",  # an argument, a widget, a parameter of the run
    "logical",  # the logical date of the run
    "bound",  # a read from a mark on, without an upper bound
    "order",  # the order of a window by a column; the label names it
    "column",  # another column of the same frame; the label names it
    "new",  # rows that a table did not have; the label names it
    "whole",  # all that a file holds; the label names it
    "grown",  # all that a file holds, and more
]


@dataclass(frozen=True)
class Taint:
    """Where a property of a value comes from, and which way it took."""

    kind: TaintKind
    place: Place
    label: str
    # "read": it decided what was read. "default": it only stands in for a missing parameter.
    # "until": it only ends what is read, as the end of the data does anyway.
    via: Literal["", "read", "until", "default"] = ""
    # The name that held the value first, where the program gives it one.
    holder: str = ""


# The label of a number that follows an id: it has no ties, but a new row moves those behind it.
BY_ID = "row_number() by an id"
# Branches have a few texts to choose from; a program that has more makes them up.
_OTHERS = 6
# The label of rows that some table did not have, whichever it was.
ANY = "*"
NO_TAINTS: frozenset[Taint] = frozenset()
UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN"})()


@dataclass(frozen=True)
class Frame:
    """Rows in memory: which taints decide about the rows, and which about each column."""

    rows: frozenset[Taint] = NO_TAINTS
    columns: dict[str, frozenset[Taint]] = field(default_factory=dict)
    ordered: bool = False
    chosen: frozenset[str] | None = None
    windowed: bool = False
    literal: bool = False
    empty: bool = False
    streaming: bool = False
    diffed: frozenset[str] = frozenset()
    grouped: tuple[str, ...] | None = None
    pivoted: bool = False
    engine: Literal["spark", "pandas", ""] = ""

    def everything(self) -> frozenset[Taint]:
        return self.rows.union(*self.columns.values()) if self.columns else self.rows

    def with_column(self, name: str, taints: frozenset[Taint]) -> Frame:
        columns = {key: value for key, value in self.columns.items() if key != name}
        if taints:
            columns[name] = taints
        chosen = None if self.chosen is None else self.chosen | {name}
        return replace(self, columns=columns, chosen=chosen)


@dataclass(frozen=True)
class Writer:
    """A write that is being put together: `df.write.mode(...).option(...)`."""

    frame: Frame
    mode: str = ""
    mode_place: Place | None = None
    partitioned: tuple[str, ...] = ()
    options: dict[str, Value] = field(default_factory=dict)
    format: str = ""
    table: Value | None = None
    conditional: bool = False


@dataclass(frozen=True)
class WindowSpec:
    """A window of SQL: is it divided, is it ordered, and by what."""

    partitioned: bool = False
    ordered: bool = False
    taints: frozenset[Taint] = NO_TAINTS
    columns: tuple[str, ...] = ()
    divided: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ranking:
    """`row_number()` that still waits for its window."""

    place: Place


@dataclass(frozen=True)
class Function:
    """A function or lambda of the file, with the names that it sees."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: Value | None = None


@dataclass(frozen=True)
class Class:
    node: ast.ClassDef
    scope: Scope


@dataclass
class Connection:
    """A database connection or what behaves like one: counts its transactions."""

    name: str
    autocommit: bool = False
    transaction: int = 0
    last_read: frozenset[Taint] = NO_TAINTS
    # The columns of what was read last, in their order, where one of them matters.
    last_row: tuple[frozenset[Taint], ...] = ()

    def row(self) -> Value:
        """A row of what was read last; its cells stay apart where the clock is one of them."""
        cells = [Value(taints=cell | self.last_read) for cell in self.last_row]
        return Value(items=cells or None, taints=self.last_read)


@dataclass(eq=False)
class Value:
    """One value. Fields that do not apply stay empty."""

    taints: frozenset[Taint] = NO_TAINTS
    parts: tuple[Part, ...] | None = None
    const: Any = UNKNOWN
    ref: str = ""
    label: str = ""
    alias: str = ""
    thing: Frame | Writer | WindowSpec | Ranking | Function | Class | Connection | None = None
    items: list[Value] | None = None
    fields: dict[str, Value] | None = None
    places: dict[str, Place] | None = None
    # What the text may be instead, where conditions choose between several.
    others: tuple[tuple[Part, ...], ...] = ()
    # What an object of another module's class was made with: columns, where it is stored.
    given: dict[str, Value] | None = None

    @property
    def text(self) -> str | None:
        """The string, if nothing is filled in."""
        return plain(self.parts)

    @property
    def frame(self) -> Frame | None:
        return self.thing if isinstance(self.thing, Frame) else None

    def everything(self, depth: int = 0) -> frozenset[Taint]:
        """The taints of the value and of all that it holds."""
        found = set(self.taints)
        if isinstance(self.thing, Frame):
            found |= self.thing.everything()
        if self.parts:
            for part in self.parts:
                if isinstance(part, Hole):
                    found |= part.value.taints
        if depth < 6:
            for inner in self.items or ():
                found |= inner.everything(depth + 1)
            for inner in (self.fields or {}).values():
                found |= inner.everything(depth + 1)
        return frozenset(found)

    def tainted(self, taints: Iterable[Taint]) -> Value:
        """The same value with more taints."""
        more = self.taints.union(taints)
        return self if more == self.taints else replace(self, taints=more)


def unknown(label: str = "", taints: frozenset[Taint] = NO_TAINTS) -> Value:
    return Value(label=label, taints=taints)


def text_value(parts: Iterable[Part], label: str = "") -> Value:
    """A string put together of parts."""
    flat = flatten(parts)
    taints: frozenset[Taint] = NO_TAINTS
    for part in flat:
        if isinstance(part, Hole):
            taints = taints | part.value.everything()
    return Value(taints=taints, parts=flat, label=label)


def joined(values: list[Value]) -> Value:
    """What is known when a value is one of several: the union of what may be."""
    known = [value for value in values if value is not None]
    if not known:
        return Value()
    first = known[0]
    if len(known) == 1 or all(value is first for value in known):
        return first
    taints: frozenset[Taint] = NO_TAINTS
    for value in known:
        taints = taints | value.taints
    real = [value for value in known if value.const is not None or value.const is UNKNOWN]
    kept = max(real or known, key=_richness)
    frames = [value.thing for value in known if isinstance(value.thing, Frame)]
    thing = kept.thing
    if len(frames) > 1:
        thing = joined_frames(frames)
    elif frames and not isinstance(thing, Frame):
        thing = frames[0]
    same = all(value.parts == kept.parts for value in known)
    const = kept.const if all(value.const == kept.const for value in known) else UNKNOWN
    items = kept.items
    listed = [value for value in known if value.items is not None]
    if len(listed) > 1:
        items = [item for value in listed for item in value.items or ()][:64]
    return replace(
        kept,
        taints=taints,
        thing=thing,
        const=const,
        items=items,
        parts=kept.parts if same or kept.parts is not None else None,
        others=() if same else _others(kept, known),
    )


def _others(kept: Value, known: list[Value]) -> tuple[tuple[Part, ...], ...]:
    """The texts that were not kept; words alone, such as a mode, are not worth it."""
    found: list[tuple[Part, ...]] = []
    for value in known:
        for parts in (value.parts, *value.others):
            if parts is None or parts == kept.parts or parts in found:
                continue
            if any(isinstance(part, Piece) and " " in part.text for part in parts):
                found.append(parts)
    return tuple(found[:_OTHERS])


def _richness(value: Value) -> int:
    return (
        8 * (value.thing is not None)
        + 4 * bool(value.fields)
        + 4 * bool(value.items)
        + 2 * (value.parts is not None and value.text != "")
        + bool(value.ref)
        + bool(value.taints)
    )


def joined_frames(frames: list[Frame]) -> Frame:
    """Rows that come from one of several places, or from all of them."""
    columns: dict[str, frozenset[Taint]] = {}
    rows: frozenset[Taint] = NO_TAINTS
    for frame in frames:
        rows = rows | frame.rows
        for name, taints in frame.columns.items():
            columns[name] = columns.get(name, NO_TAINTS) | taints
    return Frame(
        rows=rows,
        columns=columns,
        ordered=all(frame.ordered for frame in frames),
        windowed=any(frame.windowed for frame in frames),
        literal=all(frame.literal for frame in frames),
        streaming=any(frame.streaming for frame in frames),
        diffed=frozenset().union(*(frame.diffed for frame in frames)),
        engine=next((frame.engine for frame in frames if frame.engine), ""),
    )
