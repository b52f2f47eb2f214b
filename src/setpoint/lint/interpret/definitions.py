"""Imports, functions and classes: what gives a module its names."""

from __future__ import annotations

import ast
from abc import abstractmethod

from setpoint.lint.interpret.expressions import Expressions
from setpoint.lint.interpret.scope import Scope
from setpoint.lint.values import Class, Function, Value


class Definitions(Expressions):
    """Statements that define names."""

    @abstractmethod
    def statement(self, node: ast.stmt) -> None:
        """What a statement does."""

    def _do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.scope.bind(name, Value(ref=alias.name if alias.asname else name, label=name))

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                name = alias.asname or alias.name
                self.scope.bind(name, Value(ref=f"{module}.{alias.name}", label=name))

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scope.bind(node.name, Value(thing=Function(node, self.scope), label=node.name))
        self.declared(node)

    _do_asyncfunctiondef = _do_functiondef

    def declared(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Called for each function that the program defines."""

    def _do_classdef(self, node: ast.ClassDef) -> None:
        inner = Scope(self.scope)
        outer, self.scope = self.scope, inner
        for statement in node.body:
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.statement(statement)
        self.scope = outer
        self.scope.bind(
            node.name,
            Value(thing=Class(node, self.scope), fields=dict(inner.names), label=node.name),
        )
