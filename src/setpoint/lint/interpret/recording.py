"""What the interpreter tells the model: writes and effects, each with its moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from setpoint.lint.findings import Place
from setpoint.lint.growth import grows
from setpoint.lint.interpret.statements import Statements
from setpoint.lint.model import Effect, Mode, Program, Step, Target, Trace, Write
from setpoint.lint.values import NO_TAINTS, Connection, Taint, Value


class Recording(Statements):
    """Knows the trace, the transaction and the way that led here."""

    def __init__(self, program: Program, lines: Sequence[str]) -> None:
        super().__init__(program, lines)
        self.trace = Trace("run")
        self.program.traces.append(self.trace)
        self.order = 0
        self.unique = 0

    def transaction(self, connection: Connection | None) -> str:
        """The transaction that a statement of this moment belongs to."""
        if self.atomic:
            return self.atomic[-1]
        if connection is None or connection.autocommit:
            self.unique += 1
            return f"own#{self.unique}"
        return f"{connection.name}#{connection.transaction}"

    def connection(self, value: Value | None) -> Connection:
        """The connection behind a cursor, a session or a name."""
        if value is not None and isinstance(value.thing, Connection):
            return value.thing
        label = (value.label if value is not None else "") or "?"
        if label not in self.connections:
            self.connections[label] = Connection(label)
        return self.connections[label]

    def wrote(self, place: Place, target: Target, mode: Mode, api: str, **facts: Any) -> Write:
        """Records a write with what is known about this moment."""
        self.order += 1
        guards = self.here.guards
        guarded = any(
            not tables or any(target.same(Target(t)) for t in tables) for tables in guards
        )
        if mode in ("put", "overwrite") and grows(facts.get("rows", NO_TAINTS), target.key):
            mode, facts["accumulating"] = "append", True
        transaction = facts.pop("transaction", None) or self.transaction(None)
        write = Write(
            place,
            target,
            mode,
            api,
            str(transaction),
            self.order,
            path=self.path(),
            sides=tuple(self.sides),
            guarded=guarded,
            failing=bool(self.here.failing),
            retry=self.here.retry,
            **facts,
        )
        self.trace.add(write)
        return write

    def sent(
        self,
        place: Place,
        api: str,
        *,
        notification: bool,
        guarded: bool,
        content: frozenset[Taint],
    ) -> None:
        """Records an effect."""
        self.order += 1
        self.trace.effects.append(
            Effect(
                place,
                api,
                self.order,
                notification,
                guarded,
                bool(self.here.failing),
                content,
                self.path(),
            )
        )

    def path(self) -> tuple[Step, ...]:
        return tuple(Step(frame.name, frame.place) for frame in self.stack[1:])
