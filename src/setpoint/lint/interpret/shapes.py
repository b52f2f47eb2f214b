"""What the shape of a function says: is it a task, a request handler, is it retried?"""

from __future__ import annotations

import ast

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call, place_of
from setpoint.lint.interpret.guards import words
from setpoint.lint.vocabulary import vocabulary

_REQUEST = vocabulary("route get post put patch delete websocket")
TASK = vocabulary("task short_circuit branch virtualenv docker")
_RETRYING = vocabulary("retry retrying on_exception on_predicate retry_call")


def called(tree: ast.AST) -> tuple[set[str], list[ast.ClassDef]]:
    """The names of functions that the program calls itself, and its classes."""
    found: set[str] = set()
    classes: list[ast.ClassDef] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                found.add(node.func.id)
            elif isinstance(node.func, ast.Attribute):
                found.add(node.func.attr)
        elif isinstance(node, ast.ClassDef):
            classes.append(node)
    return found, classes


def is_request(node: ast.AST) -> bool:
    for decorator in getattr(node, "decorator_list", []):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Attribute) and target.attr in _REQUEST:
            return True
    return False


def is_task(node: ast.AST) -> bool:
    for decorator in getattr(node, "decorator_list", []):
        named = words(decorator.func if isinstance(decorator, ast.Call) else decorator).split()
        if named and (named[0] == "task" or named[-1] == "task" or named[0] in ("asset", "op")):
            return True
    return False


def about_failure(name: str) -> bool:
    lowered = name.lower()
    return any(
        word in lowered
        for word in ("fail", "on_error", "error_", "_error", "alert", "sla_miss", "on_retry")
    )


def retries(call: Call) -> Place | None:
    value = call.kwargs.get("retries")
    if value is not None and isinstance(value.const, int) and value.const > 0:
        return call.keyword_place("retries")
    return None


def positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 0


def retry_of(node: ast.AST) -> Place | None:
    """The decorator that repeats a function, if there is one."""
    for decorator in getattr(node, "decorator_list", []):
        named = words(decorator).lower().split()
        if _RETRYING.intersection(named):
            return place_of(decorator)
        if isinstance(decorator, ast.Call) and any(
            word in TASK or word == "flow" for word in named
        ):
            for keyword in decorator.keywords:
                if keyword.arg == "retries" and positive(keyword.value):
                    return place_of(keyword.value)
    return None
