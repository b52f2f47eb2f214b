"""Calls, functions and traces: the whole interpreter."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from setpoint.lint.findings import Place
from setpoint.lint.growth import more
from setpoint.lint.interpret.call import Call, place_of
from setpoint.lint.interpret.expressions import OutOfBudget
from setpoint.lint.interpret.guards import words
from setpoint.lint.interpret.recording import Recording
from setpoint.lint.interpret.scope import Scope
from setpoint.lint.interpret.shapes import (
    about_failure,
    called,
    changes,
    is_request,
    is_task,
    retries,
    retry_of,
    unspoken,
)
from setpoint.lint.interpret.statements import Activation
from setpoint.lint.interpret.unknown import unknown
from setpoint.lint.judgement import CLEARING
from setpoint.lint.knowledge import library
from setpoint.lint.knowledge.words import is_dated
from setpoint.lint.model import Program, Target, Trace
from setpoint.lint.texts import Piece
from setpoint.lint.values import (
    NO_TAINTS,
    Class,
    Frame,
    Function,
    Taint,
    Value,
    joined,
)
from setpoint.lint.vocabulary import vocabulary

_DEEPEST = 9
_LOGICAL = vocabulary(
    "ds ds_nodash ts execution_date logical_date data_interval_start data_interval_end",
    "next_ds prev_ds",
)
# Modes that a helper has as its default: whoever calls it decides.
_CALLERS_CHOICE = ("append", "overwrite", "replace", "write_truncate")
_GENERATOR = 8
_VIEWS = ("items", "keys", "values")


class Machine(Recording):
    """Interprets one program into its model."""

    def __init__(self, program: Program, lines: Sequence[str]) -> None:
        super().__init__(program, lines)
        self.functions: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = []
        self.entered: set[int] = set()
        self.views: dict[str, Frame] = {}
        self.tree: ast.Module | None = None
        self.top = self.scope
        self.handed: dict[str, Value] = {}
        self.nodes: list[ast.AST] = []

    def module(self, tree: ast.Module) -> None:
        """The program from its top, then each function that nothing of it has entered."""
        self.tree = tree
        self._guarded(lambda: self.block(tree.body))
        own, classes = called(tree)
        for wanted in (False, True):
            for node, scope in list(self.functions):
                if id(node) not in self.entered and (wanted or node.name not in own):
                    self._root(node, scope)
        for kind in classes:
            self._class(kind, own)
        if not any(trace.writes for trace in self.program.traces):
            self._texts_for_others(classes)
        self._texts_that_leave(tree)
        self.program.generator = self._makes_data()

    def streaming(self) -> bool:
        """Does the program belong to a stream processor, which keeps its own marks?"""
        return any(value.ref.startswith(("pyflink", "ksql")) for value in self.top.names.values())

    def _texts_for_others(self, classes: list[ast.ClassDef]) -> None:
        """A module of nothing but statements: whoever imports them runs them, each on its own."""
        kinds = [self.top.find(kind.name) for kind in classes]
        holders = [self.top.names, *((kind.fields or {}) for kind in kinds if kind is not None)]
        outer = self.trace
        for names in holders:
            for name, value in names.items():
                for item in (value, *(value.items or ())):
                    if item.parts is not None and self._adds(item):
                        self.trace = Trace(name)
                        self.program.traces.append(self.trace)
                        library.run_text(self, item)
        self.trace = outer

    def _adds(self, text: Value) -> bool:
        """Does a statement add rows to a table that no statement of the file empties?"""
        table = library.copied(text)
        if not table:
            return library.is_insert(text)
        emptied = rf"(?i)\b(?:drop\s+table|truncate|delete\s+from)\b[^;\"']*\b{re.escape(table)}\b"
        return not re.search(emptied, "\n".join(self.lines))

    def _texts_that_leave(self, tree: ast.Module) -> None:
        """Statements that nothing here is known to run: they go into a file, or to a task."""
        ran = {write.place.line for trace in self.program.traces for write in trace.writes}
        if self.streaming() or changes("\n".join(self.lines)) <= ran:
            return
        outer, self.trace = self.trace, Trace("texts")
        for node in unspoken(tree):
            first, last = node.lineno, node.end_lineno or node.lineno
            if ran.isdisjoint(range(first, last + 1)):
                self._guarded(lambda node=node: self._left(node))  # type: ignore[misc]
        left, self.trace = self.trace, outer
        cleared = [w for t in (*self.program.traces, left) for w in t.writes if w.mode in CLEARING]
        left.writes = [
            write
            for write in left.writes
            if write.mode == "append" and not any(c.target.same(write.target) for c in cleared)
        ]
        self.program.traces.append(left)

    def _left(self, node: ast.expr) -> None:
        value = self.value(node)
        if value.parts is not None and library.is_change(value):
            library.run_whole(self, value)

    def _makes_data(self) -> bool:
        """A program that draws many kinds of random values makes test data, and means to."""
        if any(
            value.ref.startswith(("faker", "dbldatagen", "mimesis"))
            for value in self.top.names.values()
        ):
            return True
        drawn = {
            taint
            for trace in self.program.traces
            for write in trace.writes
            for taints in write.columns.values()
            for taint in taints
            if taint.kind == "random" and "uuid" not in taint.label.lower()
        }
        return len(drawn) >= _GENERATOR

    def current_function(self) -> ast.AST | None:
        """The function whose statements are being taken."""
        return self.nodes[-1] if self.nodes else None

    def _class(self, node: ast.ClassDef, own: set[str]) -> None:
        methods = [m for m in node.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))]
        if all(id(method) in self.entered for method in methods):
            return
        found = self.scope.find(node.name)
        kind = found if found is not None and isinstance(found.thing, Class) else None
        scope = self.scope
        instance = Value(fields={}, label="self")
        assert instance.fields is not None
        if kind is not None:
            instance.fields["__class__"] = kind
            instance.fields.update({k: v for k, v in (kind.fields or {}).items()})
        else:
            instance.fields["__class__"] = Value(thing=Class(node, scope))
        first = [m for m in methods if m.name == "__init__"]
        for method in [*first, *(m for m in methods if m.name not in own), *methods]:
            if id(method) not in self.entered:
                self._root(method, scope, instance)

    def _root(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        scope: Scope,
        owner: Value | None = None,
    ) -> None:
        outer = self.trace
        self.trace = Trace(node.name, request=is_request(node))
        self.trace.task = is_task(node)
        self.trace.retry = retry_of(node)
        self.program.traces.append(self.trace)
        self._guarded(
            lambda: self._returned(
                node, self.enter(Function(node, scope, owner), [], {}, place_of(node))
            )
        )
        self.trace = outer

    def _returned(self, node: ast.FunctionDef | ast.AsyncFunctionDef, value: Value) -> None:
        """Rows that leave the file: whoever calls the function stores them."""
        frame = value.frame
        if value.parts is not None and library.is_change(value):
            library.run_whole(self, value)
            return
        if frame is None or frame.literal:
            return
        self.wrote(
            place_of(node),
            Target(f"what {node.name} returns", "path"),
            "create",
            "return",
            columns={name: _leaving(taints) for name, taints in frame.columns.items()},
            rows=_leaving(frame.rows),
        )

    def _guarded(self, work: Callable[[], object]) -> None:
        depth, scope, stack = self.depth, self.scope, list(self.stack)
        self.nodes.clear()
        self.budget = max(self.budget, 0) + 30_000
        with contextlib.suppress(OutOfBudget, RecursionError):
            work()
        self.depth, self.scope, self.stack = depth, scope, stack
        self.choosing.clear()
        self.sides.clear()
        self.atomic.clear()

    def declared(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions.append((node, self.scope))
        library.decorated(self, node)

    def call(self, call: Call) -> Value:
        thing = call.callee.thing
        if call.receiver is not None and call.method in _VIEWS and not call.args:
            viewed = _view(call.receiver, call.method)
            if viewed is not None:
                return viewed
        if isinstance(thing, Function):
            if is_task(thing.node):
                return self.task(thing, call)
            return self.enter(thing, call.args, call.kwargs, place_of(call.node))
        if isinstance(thing, Class):
            return self._instance(call)
        known = library.known(self, call)
        if known is not None:
            return known
        return unknown(self, call)

    def _instance(self, call: Call) -> Value:
        kind = call.callee
        instance = Value(fields={}, label=call.callee.label, ref=f"{kind.label}()")
        assert instance.fields is not None
        instance.fields.update(kind.fields or {})
        instance.fields["__class__"] = kind
        constructor = self._method(instance, "__init__")
        if constructor is not None:
            self.enter(constructor, call.args, call.kwargs, place_of(call.node))
        else:
            instance.fields.update(call.kwargs)
        return instance

    def put_into(
        self, node: ast.expr, receiver: Value, call: Call, taints: frozenset[Taint]
    ) -> None:
        """What a method such as `append` adds to its receiver."""
        if call.method in ("append", "extend") and not self.here.guards:
            self._grow(node, receiver, more(receiver.everything(), taints, call.place))
        if receiver.items is not None:
            chosen = frozenset().union(*self.choosing)
            receiver.items.extend(value.tainted(chosen) for value in call.args[:8])
            del receiver.items[64:]
            return
        if receiver.fields is not None and call.method in ("update", "setdefault"):
            for value in call.args:
                receiver.fields.update(value.fields or {})
            receiver.fields.update(call.kwargs)
            return
        if isinstance(node, ast.Name) and receiver.frame is None:
            self.scope.rebind(node.id, receiver.tainted(taints))

    def _grow(self, node: ast.expr, receiver: Value, grown: frozenset[Taint]) -> None:
        """A list that was read is longer now, and so is all that holds it."""
        while grown:
            receiver.taints = receiver.taints | grown
            if not isinstance(node, (ast.Subscript, ast.Attribute)) or any(
                isinstance(inner, ast.Call) for inner in ast.walk(node)
            ):
                return
            node = node.value
            receiver = self.value(node)

    def enter(
        self, function: Function, args: list[Value], kwargs: dict[str, Value], place: Place
    ) -> Value:
        """A function of the file with the values it is given."""
        node = function.node
        self.entered.add(id(node))
        name = getattr(node, "name", "lambda")
        if len(self.stack) > _DEEPEST or any(frame.name == name for frame in self.stack[1:]):
            taints: frozenset[Taint] = NO_TAINTS
            for value in (*args, *kwargs.values()):
                taints = taints | value.everything()
            return Value(taints=taints)
        outer = self.scope
        self.scope = Scope(function.scope)
        self._parameters(function, args, kwargs)
        frame = Activation(name, place, retry=retry_of(node) or self.here.retry)
        frame.failing = self.here.failing or int(about_failure(name))
        frame.guards = list(self.here.guards)
        self.stack.append(frame)
        self.nodes.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body)
            self.block(node.body)
        finally:
            self.stack.pop()
            self.nodes.pop()
            self.scope = outer
        if frame.yielded:
            return Value(items=frame.yielded[:16])
        return joined(frame.returned) if frame.returned else Value(const=None)

    def _parameters(self, function: Function, args: list[Value], kwargs: dict[str, Value]) -> None:
        spec = function.node.args
        names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        given = list(args)
        decorators = getattr(function.node, "decorator_list", [])
        static = any("staticmethod" in words(item) for item in decorators)
        if function.owner is not None and names and not static:
            given.insert(0, function.owner)
        defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            names.append(arg.arg)
            if default is not None:
                defaults[arg.arg] = default
        for index, name in enumerate(names):
            if name in kwargs:
                value = kwargs[name]
            elif index < len(given):
                value = given[index]
            else:
                value = self._missing(name, defaults.get(name), function.node)
            self.scope.bind(name, value if value.label else replace(value, label=name))
        if spec.vararg is not None:
            self.scope.bind(
                spec.vararg.arg, Value(items=given[len(names) :], label=spec.vararg.arg)
            )
        if spec.kwarg is not None:
            rest = {k: v for k, v in kwargs.items() if k not in names}
            self.scope.bind(spec.kwarg.arg, Value(fields=rest, label=spec.kwarg.arg))

    def _missing(self, name: str, default: ast.expr | None, node: ast.AST) -> Value:
        """A parameter that nobody gave: it comes from outside, or it is its default."""
        place = place_of(node)
        if name in _LOGICAL:
            return Value(taints=frozenset({Taint("logical", place, name)}), label=name)
        taints = frozenset({Taint("outside", place, name)}) if is_dated(name) else NO_TAINTS
        if default is not None and not (
            isinstance(default, ast.Constant) and default.value is None
        ):
            value = self.value(default)
            if value.text == "" or (value.text or value.ref).lower().endswith(_CALLERS_CHOICE):
                return Value(taints=taints, label=name)
            if value.parts is None or not is_dated(name):
                return replace(value.tainted(taints), label=name)
        return Value(taints=taints, label=name)

    def task(self, function: Function, call: Call, kwargs: dict[str, Value] | None = None) -> Value:
        """A function that a scheduler runs and repeats on its own."""
        outer, stack = self.trace, self.stack
        name = getattr(function.node, "name", "task")
        self.trace = Trace(name, task=True)
        self.trace.retry = retry_of(function.node) or retries(call)
        self.program.traces.append(self.trace)
        self.stack = [Activation("", Place(1))]
        args = [] if kwargs is not None else call.args
        result = self.enter(
            function, args, call.kwargs if kwargs is None else kwargs, place_of(call.node)
        )
        self.trace, self.stack = outer, stack
        return result


def _leaving(taints: frozenset[Taint]) -> frozenset[Taint]:
    """What still matters when rows leave the file; a few rows to look at are only that."""
    return frozenset(
        taint
        for taint in taints
        if taint.kind != "bound"
        and not (taint.kind == "pick" and taint.label.startswith(("limit", "sample", "LIMIT")))
    )


def _view(mapping: Value, method: str) -> Value | None:
    """The entries of a dictionary that is known; a name does not depend on what it stands for."""
    if not mapping.fields or "__class__" in mapping.fields:
        return None
    names = [Value(parts=(Piece(name, None),), label=name) for name in mapping.fields]
    values = list(mapping.fields.values())
    if method == "items":
        return Value(items=[Value(items=[n, v]) for n, v in zip(names, values, strict=True)])
    return Value(items=names if method == "keys" else values)
