"""Fingerprints: what makes two runs the same run.

The code fingerprint covers the pipeline's function and the project code it can reach through
names: helpers, classes, constants, imported project modules. Comments, docstrings, formatting
and decorators do not count. Installed packages do not count either.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def digest(*parts: str) -> str:
    """A short stable hash of texts; the parts cannot run into each other."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.hexdigest()[:32]


def canonical(value: object) -> str:
    """JSON with one spelling per value, for hashing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def run_key(
    *,
    pipeline: str,
    window: str,
    timezone: str,
    code: str,
    definition: Mapping[str, object],
    parameters: Mapping[str, object],
    inputs: Mapping[str, str],
) -> str:
    """The identity of a run: the same key means the same statement about the window."""
    return digest(
        pipeline,
        window,
        timezone,
        code,
        canonical(definition),
        canonical(parameters),
        canonical(inputs),
    )


def code_fingerprint(function: Callable[..., Any]) -> str:
    """The fingerprint of a function and of the project code it reaches."""
    return digest(*sorted(_reachable(function, set())))


def _reachable(function: Any, seen: set[int]) -> Iterator[str]:
    function = inspect.unwrap(function)
    if id(function) in seen:
        return
    seen.add(id(function))
    yield f"{getattr(function, '__qualname__', '?')}={_source(function)}"
    code = getattr(function, "__code__", None)
    if code is None:
        return
    scope = dict(getattr(function, "__globals__", {}))
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    for name in sorted(_names(code)):
        if name in scope:
            yield from _value(name, scope[name], seen)


def _value(name: str, value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, ModuleType):
        if _is_project_file(getattr(value, "__file__", None)) and id(value) not in seen:
            seen.add(id(value))
            yield f"{name}={_normalised(inspect.getsource(value))}"
    elif inspect.isfunction(value) or inspect.ismethod(value):
        if _is_project_file(value.__code__.co_filename):
            yield from _reachable(value, seen)
    elif inspect.isclass(value):
        file = getattr(sys.modules.get(value.__module__), "__file__", None)
        if _is_project_file(file) and id(value) not in seen:
            seen.add(id(value))
            yield f"{name}={_source(value)}"
    elif callable(value) and hasattr(value, "function"):
        yield from _reachable(value.function, seen)
    else:
        yield f"{name}={_constant(value)}"


def _constant(value: Any) -> str:
    """A constant by its value where its text is stable, otherwise by its type."""
    try:
        return canonical(value)
    except (TypeError, ValueError, RecursionError):
        return f"{type(value).__module__}.{type(value).__qualname__}"


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(canonical(item) for item in value)
    if type(value).__module__ in ("datetime", "decimal", "zoneinfo", "pathlib"):
        return f"{type(value).__name__}:{value}"
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__qualname__} has no canonical text")


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names) | set(code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _source(value: Any) -> str:
    try:
        return _normalised(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        code = getattr(value, "__code__", None)
        return "" if code is None else f"{code.co_code.hex()} {code.co_consts!r}"


def _normalised(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node.decorator_list = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _is_project_file(file: str | None) -> bool:
    if not file or file.startswith("<"):
        return False
    path = Path(file).resolve()
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    library = Path(sysconfig.get_path("stdlib")).resolve()
    ours = Path(__file__).resolve().parents[1]
    return not any(path.is_relative_to(folder) for folder in (*installed, library, ours))
