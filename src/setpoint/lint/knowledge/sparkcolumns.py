"""Columns of Spark: literals, expressions, windows and the numbers that they give rows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.words import is_key
from setpoint.lint.sql.mask import Masked
from setpoint.lint.texts import Rendered
from setpoint.lint.values import (
    BY_ID,
    NO_TAINTS,
    Frame,
    Ranking,
    Taint,
    TaintKind,
    Value,
    WindowSpec,
)

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

# A key has a column or two; who divides by more wants to drop rows that are equal throughout.
_FEW = 2


def literal(call: Call) -> Value:
    value = call.args[0]
    if call.name == "lit":
        return Value(taints=value.everything(), const=0, label="lit")
    name = value.text or ""
    return Value(taints=value.taints | _reference(call, name), alias=name, label=name)


def _reference(call: Call, name: str) -> frozenset[Taint]:
    return frozenset({Taint("column", call.place, name)}) if name else NO_TAINTS


def function(call: Call) -> Value:
    """A function of columns: it depends on all that it is given, by value or by name."""
    taints = call.taints()
    for value in (*call.args, *call.kwargs.values()):
        for item in value.items if value.items is not None else [value]:
            if item.text:
                taints = taints | _reference(call, item.text)
    return Value(taints=taints, ref="column()")


def window(call: Call) -> Value | None:
    """`Window.partitionBy(...).orderBy(...)`."""
    receiver = call.receiver
    if receiver is None:
        return None
    spec = receiver.thing if isinstance(receiver.thing, WindowSpec) else None
    if spec is None and (receiver.ref.endswith("Window") or receiver.label == "Window"):
        spec = WindowSpec()
    if spec is None:
        return None
    values = [item for value in call.args for item in (value.items or [value])]
    if call.method == "partitionBy":
        constant = bool(values) and all(value.label == "lit" for value in values)
        names = tuple(v.text or v.alias for v in values)
        return Value(thing=replace(spec, partitioned=bool(values) and not constant, divided=names))
    if call.method == "orderBy":
        real = [
            value
            for value in values
            if (value.label != "lit" and value.const is not None) or value.parts
        ]
        taints = frozenset(
            o for value in values for o in value.everything() if o.kind in ("mono", "random")
        )
        ordered = (
            any(v.parts is not None or v.alias or v.label not in ("lit",) for v in real)
            and not taints
        )
        columns = tuple(v.text or v.alias for v in values if v.text or v.alias)
        if columns and len(spec.divided) <= _FEW and set(columns) <= set(spec.divided):
            ordered = False  # within a part all rows have the same value
        return Value(thing=replace(spec, ordered=ordered, taints=taints, columns=columns))
    return Value(thing=spec)


def over(call: Call, receiver: Value) -> Value:
    """A function over a window: it is as stable as the order of the window."""
    spec = call.args[0].thing if call.args and isinstance(call.args[0].thing, WindowSpec) else None
    if spec is None:
        return receiver
    kept = receiver.taints
    if spec.ordered:
        kept = frozenset(taint for taint in kept if taint.kind != "pick")
    orders = frozenset(Taint("order", call.place, name) for name in spec.columns)
    return replace(receiver, taints=kept | spec.taints | orders, ref="")


def resolved(frame: Frame, taints: frozenset[Taint]) -> frozenset[Taint]:
    """Taints of a new column: another column stands for what that one depends on."""
    found = {taint for taint in taints if taint.kind not in ("order", "column")}
    # Spark does not tell upper from lower case in the names of columns.
    columns = {name.lower(): known for name, known in frame.columns.items()}
    for taint in taints:
        known = columns.get(taint.label.lower(), NO_TAINTS)
        if taint.kind == "order":
            found |= {inner for inner in known if inner.kind in ("mono", "random")}
        elif taint.kind == "column":
            found |= known
    return frozenset(found) - frame.rows


def ranked(call: Call, ranking: Ranking) -> Value:
    spec = call.args[0].thing if call.args and isinstance(call.args[0].thing, WindowSpec) else None
    if spec is None or (spec.ordered and spec.partitioned):
        return Value(label="row_number()", ref="rank()")
    kind: TaintKind = "rank" if spec.ordered else "mono"
    if spec.taints:
        kind = "mono"
    why = "row_number()" if spec.ordered else "row_number() without an order"
    if spec.ordered and any(map(is_key, spec.columns)):
        why = BY_ID
    orders = frozenset(Taint("order", ranking.place, name) for name in spec.columns)
    return Value(taints=orders | {Taint(kind, ranking.place, why)}, label="row_number()")


def expression(machine: Machine, text: Value, call: Call) -> Value:
    """A column as SQL text."""
    rendered = Rendered(text.parts or (), call.place)
    masked = Masked(rendered.text)
    kinds: dict[str, TaintKind] = {
        "clock": "clock",
        "random": "random",
        "mono": "mono",
        "serial": "serial",
    }
    taints = text.taints | {
        Taint(kinds[mark.kind], rendered.place(mark.offset), mark.text)
        for mark in masked.marks.values()
        if mark.kind in kinds
    }
    alias = re.search(r"\bas\s+`?(\w+)`?\s*$", rendered.text, re.IGNORECASE)
    return Value(taints=frozenset(taints), alias=alias[1] if alias else "")
