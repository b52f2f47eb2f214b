"""Names and what they stand for."""

from __future__ import annotations

from setpoint.lint.values import Value


class Scope:
    """The names of a module, a class or a function, and of what surrounds it."""

    __slots__ = ("names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.names: dict[str, Value] = {}
        self.parent = parent

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def bind(self, name: str, value: Value) -> None:
        self.names[name] = value

    def rebind(self, name: str, value: Value) -> None:
        """Changes what a name stands for where it was bound."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                scope.names[name] = value
                return
            scope = scope.parent
        self.names[name] = value
