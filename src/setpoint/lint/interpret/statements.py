"""Statements: bindings, branches, loops, blocks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read, held
from setpoint.lint.growth import more
from setpoint.lint.interpret.call import label_of, place_of
from setpoint.lint.interpret.definitions import Definitions
from setpoint.lint.interpret.guards import ends, refuses, verdict, words
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.words import is_identity
from setpoint.lint.texts import shown
from setpoint.lint.values import ANY, Connection, Frame, Taint, Value, joined

if TYPE_CHECKING:
    from setpoint.lint.model import Program

_TURNS = 24
_RETRY = ("attempt", "retry", "retries", "tries")


@dataclass
class Activation:
    """A function that is being entered: what its statements need to know."""

    name: str
    place: Place
    guards: list[frozenset[str]] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    retry: Place | None = None
    failing: int = 0
    loops: int = 0


class Statements(Definitions):
    """Takes statements in their order and keeps the scope."""

    def __init__(self, program: Program, lines: Sequence[str]) -> None:
        super().__init__(program, lines)
        self.stack: list[Activation] = [Activation("", Place(1))]
        self.atomic: list[str] = []
        # Clocks that decide whether the statements of a branch are taken.
        self.choosing: list[frozenset[Taint]] = []
        self.sides: list[tuple[int, bool]] = []
        self.connections: dict[str, Connection] = {}

    @property
    def here(self) -> Activation:
        return self.stack[-1]

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements one after the other; a guard that leaves protects what follows."""
        guards = len(self.here.guards)
        for statement in body:
            self.statement(statement)
        del self.here.guards[guards:]

    def statement(self, node: ast.stmt) -> None:
        method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if method is not None:
            method(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.stmt):
                self.statement(child)

    def _do_expr(self, node: ast.Expr) -> None:
        # A string that stands alone is prose.
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _do_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        combined = ast.BinOp(left=_loaded(node.target), op=node.op, right=node.value)
        ast.copy_location(combined, node)
        result = self.value(combined)
        if isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            old = self.scope.find(node.target.id) or Value()
            # What is called was called already.
            called = any(isinstance(inner, ast.Call) for inner in ast.walk(node.value))
            new = Value() if called else self.value(node.value)
            result = result.tainted(more(old.everything(), new.everything(), place_of(node)))
        self.bind(node.target, result)

    def bind(self, target: ast.expr, value: Value) -> None:
        """Gives a name, an attribute, a column or a tuple of them a value."""
        if isinstance(target, ast.Name):
            if not value.label or value.parts is None:
                value = replace(value, label=target.id) if not value.label else value
            self.scope.bind(target.id, held(value, target.id))
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items
            for index, item in enumerate(target.elts):
                if items is not None and len(items) == len(target.elts):
                    self.bind(item, items[index])
                elif items is not None and len(items) == 1 and items[0].items is not None:
                    self.bind(item, self.element(value))
                else:
                    self.bind(item, Value(taints=value.everything()))
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self._bind_item(target, value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)

    def _bind_attribute(self, target: ast.Attribute, value: Value) -> None:
        base = self.value(target.value)
        if isinstance(base.thing, Connection) and target.attr in ("autocommit", "isolation_level"):
            base.thing.autocommit = value.const is True or (
                target.attr == "isolation_level" and value.const is None
            )
        if base.fields is None and isinstance(target.value, ast.Name):
            base = replace(base, fields={}, places={})
            self.scope.rebind(target.value.id, base)
        if base.fields is not None:
            base.fields[target.attr] = value
            if base.places is not None:
                base.places[target.attr] = place_of(target)

    def _bind_item(self, target: ast.Subscript, value: Value) -> None:
        base = self.value(target.value)
        key = self.value(target.slice).text if not isinstance(target.slice, ast.Slice) else None
        if base.ref == "os.environ":
            return
        if isinstance(target.value, ast.Attribute) and target.value.attr in ("loc", "iloc", "at"):
            # df.loc[rows, "column"] = value
            owner = target.value.value
            if (
                isinstance(target.slice, ast.Tuple)
                and target.slice.elts
                and isinstance(owner, ast.Name)
            ):
                key = self.value(target.slice.elts[-1]).text
                base, target = self.value(owner), ast.Subscript(value=owner, slice=target.slice)
        named = isinstance(target.slice, (ast.Name, ast.Attribute))
        if key is not None or named:
            value = held(value, key or label_of(target.slice))
        name = key if key is not None else ""
        if isinstance(base.thing, Frame):
            given = value.everything()
            if not name:
                # Several columns get their own values back, changed or not.
                given = (given - base.thing.everything()) | base.thing.columns.get("", frozenset())
            changed = replace(base, thing=base.thing.with_column(name, given))
            if isinstance(target.value, ast.Name):
                self.scope.rebind(target.value.id, changed)
            return
        if base.fields is not None and key is None and value.fields:
            # Whatever its name is: an entry with parts of its own.
            base.fields[""] = joined([base.fields[""], value]) if "" in base.fields else value
        elif base.fields is not None and key is not None:
            base.fields[key] = value
        elif isinstance(target.value, ast.Name):
            if key is None:
                changed = base.tainted(value.everything())
            elif base.ref.endswith("()") and base.items is None:
                frame = as_frame(base).with_column(key, value.everything())
                changed = replace(base, thing=frame)
            else:
                changed = replace(base, fields={**(base.fields or {}), key: value})
            self.scope.rebind(target.value.id, changed)

    def _do_if(self, node: ast.If) -> None:
        test = self.value(node.test)
        sign, tables = verdict(node.test, test)
        before = dict(self.scope.names)
        chosen = frozenset(o for o in as_read(test.everything()) if o.via == "read")
        self.choosing.append(chosen)
        self._side(node, True, lambda: self._branch(node.body, guarded=sign < 0, tables=tables))
        self.choosing.pop()
        after = self.scope.names
        self.scope.names = dict(before)
        self._side(node, False, lambda: self._branch(node.orelse, guarded=sign > 0, tables=tables))
        other = self.scope.names
        if sign:
            self._refused(other if sign > 0 else after, before, tables, place_of(node))
        if ends(node.body):
            self.scope.names = other
            if sign > 0:
                self.here.guards.append(tables)
        elif node.orelse and ends(node.orelse):
            self.scope.names = after
            if sign < 0:
                self.here.guards.append(tables)
        else:
            self.scope.names = self._merged(after, other, node.test)
        self._decided(before, test)

    def _refused(
        self, names: dict[str, Value], before: dict[str, Value], tables: frozenset[str], at: Place
    ) -> None:
        """A text that is chosen where the rows are not there yet, to be run later."""
        new = frozenset(Taint("new", at, table) for table in tables or (ANY,))
        for name, value in names.items():
            inserts = value.parts is not None and "insert" in shown(value.parts).lower()
            if inserts and before.get(name) is not value:
                names[name] = value.tainted(new)

    def _side(self, node: ast.If, side: bool, take: Callable[[], None]) -> None:
        """Takes one side of a condition; the turns of a loop may take both."""
        if any(frame.loops for frame in self.stack):
            take()
            return
        self.sides.append((id(node), side))
        take()
        self.sides.pop()

    def _decided(self, before: dict[str, Value], test: Value) -> None:
        """What a branch assigns depends on its test: on rows that the clock has chosen, too."""
        deciding = frozenset(o for o in test.everything() if o.kind == "clock" and o.via == "read")
        if deciding:
            for name, value in self.scope.names.items():
                if before.get(name) is not value:
                    self.scope.names[name] = value.tainted(deciding)

    def _branch(self, body: list[ast.stmt], *, guarded: bool, tables: frozenset[str]) -> None:
        count = len(self.here.guards)
        if guarded:
            self.here.guards.append(tables)
        self.block(body)
        del self.here.guards[count:]

    def _merged(
        self, first: dict[str, Value], second: dict[str, Value], test: ast.expr | None
    ) -> dict[str, Value]:
        merged = dict(second)
        for name, value in first.items():
            other = second.get(name)
            if other is None:
                merged[name] = value
            elif other is not value:
                merged[name] = self.alternatives(value, other, test)
        return merged

    def _do_for(self, node: ast.For | ast.AsyncFor) -> None:
        collection = self.value(node.iter)
        named = f"{words(node.target)} {words(node.iter)}".lower()
        retry = place_of(node) if any(w in named for w in _RETRY) else None
        for turn in self._turns(collection):
            self.bind(node.target, turn)
            self._loop(node.body, retry)
        self._kept(node)
        self.block(node.orelse)

    def _turns(self, collection: Value) -> list[Value]:
        """A loop is taken once; one over a few texts, once for each: they may be statements."""
        items = collection.items or []
        if 1 < len(items) <= _TURNS and all(item.parts is not None for item in items):
            return items
        return [self.element(collection)]

    def _kept(self, node: ast.For | ast.AsyncFor) -> None:
        """What the loop has put into its elements, the collection holds."""
        if not (isinstance(node.iter, ast.Name) and isinstance(node.target, ast.Name)):
            return
        element = self.scope.find(node.target.id)
        holder = self.scope.find(node.iter.id)
        if element is None or holder is None or holder.frame is not None:
            return
        if element.fields:
            kept = [*(holder.items or []), element][:64]
            self.scope.rebind(node.iter.id, replace(holder, items=kept))
        elif element.taints - holder.taints:
            self.scope.rebind(node.iter.id, holder.tainted(element.taints))

    _do_asyncfor = _do_for

    def _do_while(self, node: ast.While) -> None:
        self.value(node.test)
        named = words(node.test).lower()
        self._loop(node.body, place_of(node) if any(w in named for w in _RETRY) else None)
        self.block(node.orelse)

    def _loop(self, body: list[ast.stmt], retry: Place | None) -> None:
        outer, self.here.retry = self.here.retry, retry or self.here.retry
        before = dict(self.scope.names)
        self.here.loops += 1
        self.block(body)
        self.here.loops -= 1
        self.here.retry = outer
        self.scope.names = self._merged(self.scope.names, before, None)

    def _do_try(self, node: ast.Try) -> None:
        before = dict(self.scope.names)
        refused = any(refuses(handler.type) for handler in node.handlers if handler.type)
        self._branch(node.body, guarded=refused, tables=frozenset())
        done = self.scope.names
        for handler in node.handlers:
            self.scope.names = {**before, **done}
            if handler.name:
                self.scope.bind(handler.name, Value(label=handler.name))
            self.here.failing += 1
            self.block(handler.body)
            self.here.failing -= 1
            if not ends(handler.body):
                done = self._merged(done, self.scope.names, None)
        self.scope.names = done
        self.block(node.orelse)
        self.block(node.finalbody)

    _do_trystar = _do_try

    def _do_with(self, node: ast.With | ast.AsyncWith) -> None:
        opened: list[Value] = []
        began = 0
        for item in node.items:
            value = self.value(item.context_expr)
            opened.append(value)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
            if self.begins(item.context_expr, value):
                self.atomic.append(f"atomic@{node.lineno}.{len(self.atomic)}")
                began += 1
        self.block(node.body)
        del self.atomic[len(self.atomic) - began :]
        for value, item in zip(opened, node.items, strict=True):
            # `with connection:` commits at its end; a cursor's block does not.
            if isinstance(value.thing, Connection) and "cursor" not in words(item.context_expr):
                value.thing.transaction += 1

    _do_asyncwith = _do_with

    def begins(self, node: ast.expr, value: Value) -> bool:
        """Does a block hold one transaction?"""
        func = node.func if isinstance(node, ast.Call) else node
        name = func.attr if isinstance(func, ast.Attribute) else ""
        return name in ("begin", "transaction", "atomic", "begin_nested")

    def _do_return(self, node: ast.Return) -> None:
        value = self.value(node.value)
        self.here.returned.append(value)
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if name and (is_identity(name) or is_identity(self.here.name)):
            self.program.named += [
                (name, taint)
                for taint in value.taints
                if taint.kind in ("clock", "random") and not taint.via
            ]

    def _yield(self, node: ast.Yield) -> Value:
        self.here.yielded.append(self.value(node.value))
        return Value()

    def _do_match(self, node: ast.Match) -> None:
        self.value(node.subject)
        before = dict(self.scope.names)
        results = []
        for case in node.cases:
            self.scope.names = dict(before)
            self.block(case.body)
            results.append(self.scope.names)
        merged = before
        for result in results:
            merged = self._merged(merged, result, None)
        self.scope.names = merged

    def _do_delete(self, node: ast.Delete) -> None:
        return

    def _do_global(self, node: ast.Global) -> None:
        return


def _loaded(target: ast.expr) -> ast.expr:
    """A target as an expression that reads it."""
    copied: ast.expr
    match target:
        case ast.Name(id=name):
            copied = ast.Name(id=name, ctx=ast.Load())
        case ast.Attribute(value=value, attr=attr):
            copied = ast.Attribute(value=value, attr=attr, ctx=ast.Load())
        case ast.Subscript(value=value, slice=index):
            copied = ast.Subscript(value=value, slice=index, ctx=ast.Load())
        case _:
            copied = target
    return ast.copy_location(copied, target)
