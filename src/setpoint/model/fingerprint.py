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
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
# CPython 3.11 fails when two threads make syntax trees at once.
_PARSING = threading.Lock()


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


def code_fingerprint(function: Callable[..., Any], *inputs: Callable[..., Any]) -> str:
    """The fingerprint of a function and of the project code it reaches.

    `inputs` are further functions whose code counts: those that give the rows of an input.
    """
    with _PARSING:
        parts = sorted(_function(inspect.unwrap(function), set(), outermost=True))
        for position, item in enumerate(inputs):
            parts += sorted(_value(f"input {position}", item, set()))
        return digest(*parts)


def _function(function: Any, seen: set[int], *, outermost: bool = False) -> Iterator[str]:
    """A function's own code, its defaults, and what its names stand for.

    The defaults and decorators of the outermost function are the pipeline's definition, which
    has its own place in the run key.
    """
    if id(function) in seen:
        return
    seen.add(id(function))
    label = getattr(function, "__qualname__", "?")
    yield f"{label}={_source(function, outermost=outermost)}"
    if not outermost:
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        yield from _items(f"{label} default", defaults, seen)
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    for name in sorted(_names(function.__code__)):
        if name in scope:
            yield from _value(name, scope[name], seen)


def _value(name: str, value: Any, seen: set[int]) -> Iterator[str]:
    """What a name stands for: project code is followed, anything else is a constant."""
    if isinstance(value, ModuleType):
        yield from _module(name, value, seen)
    elif inspect.isfunction(value) or inspect.ismethod(value):
        plain = inspect.unwrap(getattr(value, "__func__", value))
        if inspect.isfunction(plain) and is_project_file(plain.__code__.co_filename):
            yield from _function(plain, seen)
    elif inspect.isclass(value):
        yield from _class(value, seen)
    elif isinstance(value, partial):
        parts = [value.func, *value.args, *value.keywords.values()]
        yield from _items(f"{name} partial {sorted(value.keywords)}", parts, seen)
    elif isinstance(value, (list, tuple)):
        yield from _items(name, list(value), seen)
    elif isinstance(value, dict):
        keys = sorted(value, key=repr)
        yield from _items(f"{name} {keys!r}", [value[key] for key in keys], seen)
    elif hasattr(value, "function") and inspect.isfunction(value.function):
        yield from _function(value.function, seen)
    else:
        yield f"{name}={_constant(value)}"
        yield from _class(type(value), seen)


def _items(name: str, values: list[Any], seen: set[int]) -> Iterator[str]:
    if id(values) in seen:
        return
    yield f"{name}: {len(values)}"
    for position, value in enumerate(values):
        yield from _value(f"{name}[{position}]", value, seen)


def _class(value: type, seen: set[int]) -> Iterator[str]:
    """A project class with its project bases, and what its methods reach."""
    for kind in value.__mro__:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if id(kind) in seen or not is_project_file(file):
            continue
        seen.add(id(kind))
        yield f"{kind.__qualname__}={_source(kind)}"
        for member in vars(kind).values():
            plain = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
            if inspect.isfunction(plain) and is_project_file(plain.__code__.co_filename):
                yield from _function(plain, seen)


def _module(name: str, module: ModuleType, seen: set[int]) -> Iterator[str]:
    """A project module as a whole, and the project modules that it takes things from."""
    if id(module) in seen or not is_project_file(getattr(module, "__file__", None)):
        return
    seen.add(id(module))
    yield f"{name}={_normalised(inspect.getsource(module))}"
    for inner_name, inner in sorted(vars(module).items()):
        home = inner if isinstance(inner, ModuleType) else None
        if inspect.isfunction(inner) or inspect.isclass(inner):
            home = sys.modules.get(inner.__module__)
        if home is not None and home is not module:
            yield from _module(inner_name, home, seen)


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


def _source(value: Any, *, outermost: bool = False) -> str:
    try:
        return _normalised(textwrap.dedent(inspect.getsource(value)), outermost=outermost)
    except (OSError, TypeError, SyntaxError):
        code = getattr(value, "__code__", None)
        return "" if code is None else f"{code.co_code.hex()} {code.co_consts!r}"


@lru_cache(maxsize=256)
def _normalised(source: str, *, outermost: bool = False) -> str:
    tree = ast.parse(source)
    first = tree.body[0] if tree.body else None
    if outermost and isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first.decorator_list = []
        first.args.defaults, first.args.kw_defaults = [], [None] * len(first.args.kwonlyargs)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def is_project_file(file: str | None) -> bool:
    """Whether a file is of the user's own code: neither installed, nor Python's, nor ours."""
    if not file or file.startswith("<"):
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _folders_of_others())


@cache
def _folders_of_others() -> tuple[Path, ...]:
    """Where packages are installed, Python's own library, and this package."""
    found = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")]
    return tuple(path.resolve() for path in (*found, Path(__file__).parents[1]))
