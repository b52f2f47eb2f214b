"""Expressions to values."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.flows import as_default, as_new, as_read, from_outside, is_clock
from setpoint.lint.growth import fewer, more
from setpoint.lint.interpret.call import Call, call_place, label_of, place_of
from setpoint.lint.interpret.gathering import Gathering
from setpoint.lint.interpret.scope import Scope
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.sparknames import FUNCTIONS
from setpoint.lint.literals import StringSource
from setpoint.lint.texts import Hole, Part, Piece, percent
from setpoint.lint.values import (
    NO_TAINTS,
    Class,
    Connection,
    Function,
    Taint,
    Value,
    Writer,
    joined,
    text_value,
)
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.model import Program

_CLASS = "__class__"
_LOGICAL = vocabulary(
    "ds ds_nodash ts ts_nodash execution_date logical_date data_interval_start",
    "data_interval_end next_ds prev_ds yesterday_ds tomorrow_ds next_execution_date",
    "prev_execution_date",
)


class OutOfBudget(Exception):
    """The program is larger than what is worth interpreting; what was found stays."""


class Expressions(Gathering):
    """Values of expressions; statements and calls are added by the classes on top."""

    def __init__(self, program: Program, lines: Sequence[str]) -> None:
        self.program = program
        self.lines = lines
        self.scope = Scope()
        self.stars: list[str] = []
        self.budget = 150_000
        self.depth = 0

    def value(self, node: ast.expr | None) -> Value:
        """What is known about an expression."""
        if node is None:
            return Value(const=None)
        self.budget -= 1
        if self.budget < 0:
            raise OutOfBudget
        if self.depth > 150:
            return Value()
        self.depth += 1
        try:
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            if method is None:
                return self._children(node)
            found: Value = method(node)
            return found
        finally:
            self.depth -= 1

    def _children(self, node: ast.AST) -> Value:
        taints: frozenset[Taint] = NO_TAINTS
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                taints = taints | self.value(child).taints
        return Value(taints=taints)

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str):
            return Value(
                parts=(Piece(node.value, StringSource(node, self.lines)),), label=node.value[:60]
            )
        return Value(const=node.value, label=str(node.value)[:40])

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        source = StringSource(node, self.lines)
        parts: list[Part] = []
        start = 0
        for item in node.values:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                parts.append(Piece(item.value, source, start))
                start += len(item.value)
            elif isinstance(item, ast.FormattedValue):
                value = self.value(item.value)
                # A variable is known by what it was first called, here as elsewhere.
                named = value.label if isinstance(item.value, (ast.Name, ast.Attribute)) else ""
                parts.append(Hole(value, named or label_of(item.value)))
        return text_value(parts)

    def _formattedvalue(self, node: ast.FormattedValue) -> Value:
        return self.value(node.value)

    def _name(self, node: ast.Name) -> Value:
        found = self.scope.find(node.id)
        if found is not None:
            return found if found.label else replace(found, label=node.id)
        for module in self.stars:
            known = node.id in FUNCTIONS if module.endswith("sql.functions") else True
            if known and module.endswith(("sql.functions", "datetime", "uuid")):
                return Value(ref=f"{module}.{node.id}", label=node.id)
        return Value(ref=node.id, label=node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node)

    def attribute(self, base: Value, node: ast.Attribute) -> Value:
        """`base.name`, for instances, modules and whatever else."""
        name = node.attr
        if base.fields is not None:
            if name in base.fields:
                return base.fields[name]
            method = self._method(base, name)
            if method is not None:
                return Value(thing=method, label=name)
        if isinstance(base.thing, Class):
            found = _member(base.thing, name)
            if found is not None:
                return Value(thing=Function(found, base.thing.scope), label=name)
        if name in ("write", "writeStream"):
            frame = as_frame(base)
            if name == "writeStream":
                frame = replace(frame, streaming=True)
            return Value(thing=Writer(frame), label="write")
        label = f"{base.label}.{name}" if base.label else name
        if isinstance(base.thing, Connection) and name in ("connection", "conn", "cursor"):
            return base
        frame_of = base.frame
        if frame_of is not None and name in ("na", "stat", "rdd"):
            return base
        if frame_of is not None:
            known = frame_of.columns.get(name, NO_TAINTS)
            return Value(taints=known | frame_of.rows, label=label, alias=name, ref=f".{name}")
        # What is known only by its label may still be a module path that a model knows.
        ref = f"{base.ref}.{name}" if base.ref else f".{name}"
        return Value(ref=ref, taints=base.taints, label=label)

    def _method(self, instance: Value, name: str) -> Function | None:
        kind = (instance.fields or {}).get(_CLASS)
        if kind is None or not isinstance(kind.thing, Class):
            return None
        found = _member(kind.thing, name)
        if found is None:
            for base in kind.thing.node.bases:
                parent = kind.thing.scope.find(base.id) if isinstance(base, ast.Name) else None
                if parent is not None and isinstance(parent.thing, Class):
                    found = _member(parent.thing, name)
        return Function(found, kind.thing.scope, instance) if found is not None else None

    def _subscript(self, node: ast.Subscript) -> Value:
        index = self.value(node.slice) if not isinstance(node.slice, ast.Slice) else Value()
        chooser = node.value
        if isinstance(chooser, ast.Attribute) and chooser.attr in ("loc", "iloc"):
            chosen_from = self.value(chooser.value)
            if chosen_from.frame is not None:
                # The rows that are chosen; which columns of them comes second.
                which = index.items[0] if index.items else index
                rows = fewer(chosen_from.frame.rows | as_read(which.everything()))
                return replace(chosen_from, thing=replace(chosen_from.frame, rows=rows))
            base = self.attribute(chosen_from, chooser)
        else:
            base = self.value(chooser)
        key = index.text if index.parts is not None else None
        place = place_of(node)
        if base.ref == "os.environ":
            return Value(
                taints=frozenset({Taint("env", place, f"os.environ[{key!r}]")}), label=key or ""
            )
        if key in _LOGICAL and (base.fields is None or key not in base.fields):
            return Value(taints=frozenset({Taint("logical", place, str(key))}), label=str(key))
        if base.ref == "sys.argv":
            return Value(
                taints=frozenset({Taint("outside", place, "sys.argv")}), label=label_of(node)
            )
        if base.fields is not None and key is not None and key in base.fields:
            return base.fields[key]
        if base.fields is not None and key is None and "" in base.fields:
            return base.fields[""]
        if (
            base.items is not None
            and isinstance(index.const, int)
            and not isinstance(index.const, bool)
        ) and -len(base.items) <= index.const < len(base.items):
            chosen = frozenset(taint for taint in base.taints if taint.via == "read")
            return base.items[index.const].tainted(chosen)
        frame = base.frame
        if frame is not None:
            if key is not None:
                known = frame.columns.get(key, NO_TAINTS)
                return Value(taints=known | frame.rows, alias=key, label=label_of(node))
            if index.items is not None:
                return base
            narrowed = replace(frame, rows=fewer(frame.rows | as_read(index.everything())))
            return Value(thing=narrowed, taints=base.taints, label=base.label)
        if base.parts is not None:
            return Value(taints=base.taints, label=label_of(node))
        taints = base.everything() if base.items or base.fields else base.taints
        return Value(
            taints=taints | index.taints,
            label=label_of(node),
            ref=f"{base.ref}[]" if base.ref else "",
        )

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add) and (left.parts is not None or right.parts is not None):
            return text_value([*_as_parts(left, node.left), *_as_parts(right, node.right)])
        if isinstance(node.op, ast.Mod) and left.parts is not None:
            ordered = right.items if right.items is not None else [right]
            return text_value(percent(left.parts, right.fields or {}, ordered))
        if isinstance(node.op, ast.Div) and (left.parts is not None or right.parts is not None):
            slash = Piece("/", None)
            return text_value([*_as_parts(left, node.left), slash, *_as_parts(right, node.right)])
        if isinstance(node.op, ast.Add) and (left.items is not None or right.items is not None):
            return Value(
                items=[*(left.items or []), *(right.items or [])][:64],
                taints=left.taints
                | right.taints
                | more(left.everything(), right.everything(), place_of(node))
                | more(right.everything(), left.everything(), place_of(node)),
            )
        taints = left.everything() | right.everything()
        if isinstance(node.op, ast.Sub) and is_clock(left) and is_clock(right):
            # The difference of two clock values is a duration: measured, not taken for a date.
            taints = frozenset(taint for taint in taints if taint.kind != "clock")
        return Value(taints=taints, label=label_of(node), alias=left.alias)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        inner = self.value(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(inner.const, (int, float)):
            return Value(const=-inner.const)
        taints = inner.everything()
        return Value(taints=as_new(taints) if isinstance(node.op, ast.Invert) else taints)

    def _boolop(self, node: ast.BoolOp) -> Value:
        values = [self.value(item) for item in node.values]
        if isinstance(node.op, ast.Or):
            values[1:] = [as_default(value) for value in values[1:]]
        return joined(values)

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        return self.alternatives(self.value(node.body), self.value(node.orelse), node.test)

    def alternatives(self, first: Value, second: Value, test: ast.expr | None) -> Value:
        """One of two values; a clock beside a parameter only stands in for it."""
        if is_clock(first) != is_clock(second) and test is not None:
            other = second if is_clock(first) else first
            if from_outside(other) or _asks_for_parameter(test):
                return joined([as_default(first), as_default(second)])
        return joined([first, second])

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(node.left), *(self.value(item) for item in node.comparators)]
        taints: frozenset[Taint] = NO_TAINTS
        for value in values:
            taints = taints | value.everything()
        return Value(taints=taints, label=label_of(node))

    def _call(self, node: ast.Call) -> Value:
        receiver: Value | None = None
        method = ""
        if isinstance(node.func, ast.Attribute):
            receiver = self.value(node.func.value)
            method = node.func.attr
            callee = (
                self.attribute(receiver, node.func)
                if method not in ("write",)
                else Value(ref=".write")
            )
        else:
            callee = self.value(node.func)
        args: list[Value] = []
        for argument in node.args:
            value = self.value(argument)
            if isinstance(argument, ast.Starred):
                args.extend(value.items if value.items is not None else [value])
            else:
                args.append(value)
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif value.fields is not None:
                kwargs.update(value.fields)
            else:
                kwargs.setdefault("**", value)
        return self.call(Call(node, callee, receiver, method, args, kwargs, call_place(node)))

    @abstractmethod
    def call(self, call: Call) -> Value:
        """What a call gives, and what it does."""

    def element(self, value: Value) -> Value:
        """What a loop over a value sees."""
        if value.items:
            widths = {len(item.items) if item.items is not None else -1 for item in value.items}
            if len(widths) == 1 and widths != {-1} and len(value.items) > 1:
                # Tuples of one length: what stands in one place stays apart from the others.
                columns = zip(*(item.items or () for item in value.items), strict=True)
                return Value(items=[joined(list(column)) for column in columns])
            return joined(list(value.items))
        if value.items is not None:
            return Value(taints=value.taints)
        frame = value.frame
        if frame is not None:
            return Value(taints=frame.everything())
        if isinstance(value.thing, Connection):
            return value.thing.row()  # a cursor gives the rows of what was read last
        return Value(taints=value.everything(), label=f"{value.label}[]" if value.label else "")


def _member(kind: Class, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for item in kind.node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == name:
            return item
    return None


def _as_parts(value: Value, node: ast.expr) -> tuple[Part, ...]:
    return value.parts if value.parts is not None else (Hole(value, value.label or label_of(node)),)


def _asks_for_parameter(test: ast.expr) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Name) and node.id in (
            "args",
            "argv",
            "params",
            "kwargs",
            "context",
            "conf",
        ):
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("argv", "args", "params", "conf"):
            return True
    return False
