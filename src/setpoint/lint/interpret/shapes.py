"""What the shape of a function says: is it a task, a request handler, is it retried?"""

from __future__ import annotations

import ast
import re

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call, place_of
from setpoint.lint.interpret.guards import words
from setpoint.lint.vocabulary import vocabulary

_REQUEST = vocabulary("route get post put patch delete websocket")
TASK = vocabulary("task short_circuit branch virtualenv docker")
_SAYING = vocabulary(
    "print log info debug warning error exception startswith endswith add_argument",
)
_CHANGES = re.compile(
    r"\s*(?:insert\s+into\s+[\w\"`\[]|delete\s+from\s+[\w\"`\[]|truncate\s+table\s)",
    re.IGNORECASE,
)
_CHANGING = re.compile(r"['\"]\s*(insert\s+into|delete\s+from|truncate\s+table)\s", re.IGNORECASE)
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


def changes(text: str) -> set[int]:
    """The lines of a program that hold the first words of a change."""
    return {text.count("\n", 0, match.start(1)) + 1 for match in _CHANGING.finditer(text)}


def unspoken(tree: ast.AST) -> list[ast.expr]:
    """Texts that begin like a change of a table, and that the program does not only say."""
    said: set[int] = set()
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if id(node) in said:
            said.update(id(child) for child in ast.iter_child_nodes(node))
            continue
        if isinstance(node, (ast.Expr, ast.Compare, ast.Assert, ast.Raise, ast.Call)) and _says(
            node
        ):
            said.update(id(child) for child in ast.iter_child_nodes(node))
        elif isinstance(node, ast.JoinedStr):
            said.update(id(child) for child in ast.iter_child_nodes(node))
            first = node.values[0] if node.values else None
            if isinstance(first, ast.Constant) and _CHANGES.match(str(first.value) + "_"):
                found.append(node)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _CHANGES.match(node.value)
        ):
            found.append(node)
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _says(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Call):
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        return name in _SAYING
    return True


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
