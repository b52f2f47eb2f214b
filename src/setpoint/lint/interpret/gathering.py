"""Lists, dictionaries and comprehensions to values."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_new, as_read, held
from setpoint.lint.interpret.call import place_of
from setpoint.lint.interpret.scope import Scope
from setpoint.lint.values import NO_TAINTS, Function, Taint, Value


class Gathering(ABC):
    """What holds other values."""

    scope: Scope

    @abstractmethod
    def value(self, node: ast.expr | None) -> Value:
        """What is known about an expression."""

    @abstractmethod
    def bind(self, target: ast.expr, value: Value) -> None:
        """Give a value to a name, an attribute, an item, or several at once."""

    @abstractmethod
    def element(self, value: Value) -> Value:
        """What a loop over a value sees."""

    def _dict(self, node: ast.Dict) -> Value:
        fields: dict[str, Value] = {}
        places: dict[str, Place] = {}
        rest: frozenset[Taint] = NO_TAINTS
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            name = self.value(key).text if key is not None else None
            if name is not None and key is not None:
                fields[name] = held(value, name)
                places[name] = place_of(key)
            elif key is None and value.fields:
                fields.update(value.fields)
                places.update(value.places or {})
            else:
                rest = rest | value.everything()
        return Value(fields=fields, places=places, taints=rest)

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        return Value(items=[self.value(item) for item in node.elts[:200]])

    _tuple = _list
    _set = _list

    def _starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.scope.bind(node.target.id, value)
        return value

    def _lambda(self, node: ast.Lambda) -> Value:
        return Value(thing=Function(node, self.scope), label="lambda")

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            chosen: frozenset[Taint] = NO_TAINTS
            for generator in node.generators:
                self.bind(generator.target, self.element(self.value(generator.iter)))
                for test in generator.ifs:
                    value = self.value(test)
                    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn):
                        chosen = chosen | as_new(value.everything())
                    chosen = chosen | frozenset(
                        taint for taint in as_read(value.everything()) if taint.via == "read"
                    )
            new = frozenset(taint for taint in chosen if taint.kind in ("new", "clock"))
            return Value(items=[self.value(node.elt)], taints=new)
        finally:
            self.scope = outer

    _setcomp = _listcomp
    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> Value:
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            for generator in node.generators:
                self.bind(generator.target, self.element(self.value(generator.iter)))
            key, value = self.value(node.key), self.value(node.value)
            fields = {key.text: value} if key.text is not None else {}
            return Value(fields=fields, taints=key.taints | value.everything())
        finally:
            self.scope = outer
