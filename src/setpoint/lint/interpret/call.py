"""A call as the models of the libraries see it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from setpoint.lint.findings import Place
from setpoint.lint.values import NO_TAINTS, Taint, Value

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Mult: "*",
}


@dataclass(frozen=True)
class Call:
    """A call: who is called on what, with which values, where."""

    node: ast.Call
    callee: Value
    receiver: Value | None
    method: str
    args: list[Value]
    kwargs: dict[str, Value]
    place: Place

    @property
    def ref(self) -> str:
        return self.callee.ref

    @property
    def name(self) -> str:
        """The last word of what is called."""
        return self.method or self.ref.rsplit(".", 1)[-1]

    def argument(self, position: int, *names: str) -> Value | None:
        """An argument by its name or its position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[position] if 0 <= position < len(self.args) else None

    def taints(self) -> frozenset[Taint]:
        """The taints of all arguments."""
        found: frozenset[Taint] = NO_TAINTS
        for value in (*self.args, *self.kwargs.values()):
            found = found | value.everything()
        return found

    def keyword_place(self, name: str) -> Place | None:
        """Where a keyword argument stands."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return place_of(keyword.value)
        return None


def place_of(node: ast.AST) -> Place:
    """The range of a node."""
    line = getattr(node, "lineno", 1)
    column = getattr(node, "col_offset", 0)
    end_line = getattr(node, "end_lineno", None) or line
    end_column = getattr(node, "end_col_offset", None) or column
    return Place(line, column + 1, end_line, end_column + 1)


def call_place(node: ast.Call) -> Place:
    """Where a call says what it does: at the method, not at the start of a long chain."""
    if isinstance(node.func, ast.Attribute):
        line = node.func.end_lineno or node.lineno
        column = (node.func.end_col_offset or 1) - len(node.func.attr)
        end = place_of(node)
        return Place(line, max(column, 0) + 1, end.end_line, end.end_column)
    return place_of(node)


def label_of(node: ast.expr) -> str:
    """A short name for an expression, as the source has it."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{label_of(node.value)}.{node.attr}"
        case ast.Constant():
            return repr(node.value)[:40]
        case ast.Call():
            given = [label_of(item) for item in node.args[:3]]
            given += [f"{item.arg}={label_of(item.value)}" for item in node.keywords[:3]]
            return f"{label_of(node.func)}({', '.join(given)})"[:80]
        case ast.Subscript():
            return f"{label_of(node.value)}[{label_of(node.slice)}]"[:80]
        case ast.BinOp():
            return f"{label_of(node.left)} {_SIGNS.get(type(node.op), '?')} {label_of(node.right)}"[
                :80
            ]
        case ast.Tuple() | ast.List():
            return ", ".join(label_of(item) for item in node.elts[:3])
    return "..."
