"""Python functions in a plan: their source is searched for what a plan cannot show.

Names are looked up in the function's own scope, so an alias hides nothing and a column called
`now` is no clock. Functions of the project that it calls are searched too; installed packages
are taken at their word. Nothing of what is looked at is called: no property, no proxy.
"""

from __future__ import annotations

import ast
import inspect
import os
import sysconfig
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from setpoint.spark.determinism.catalogue import MOMENTS
from setpoint.spark.determinism.facts import Taint

# What is called, by its full name or the beginning of it, and what kind of finding that is.
_CALLS = {
    "time.time": "clock",
    "time.time_ns": "clock",
    "time.monotonic": "clock",
    "time.perf_counter": "clock",
    "time.localtime": "clock",
    "time.gmtime": "clock",
    "time.ctime": "clock",
    "time.strftime": "clock",
    "datetime.datetime.now": "clock",
    "datetime.datetime.utcnow": "clock",
    "datetime.datetime.today": "clock",
    "datetime.date.today": "clock",
    "pandas.Timestamp.now": "clock",
    "pandas.Timestamp.today": "clock",
    "pandas.Timestamp.utcnow": "clock",
    "random": "random",
    "secrets": "random",
    "numpy.random": "random",
    "os.urandom": "random",
    "uuid.uuid1": "random",
    "uuid.uuid4": "random",
    "uuid.uuid6": "random",
    "uuid.uuid7": "random",
    "os.environ": "session",
    "os.getenv": "session",
    "os.getpid": "session",
    "os.getcwd": "session",
    "os.getlogin": "session",
    "getpass.getuser": "session",
    "platform": "session",
    "socket.gethostname": "session",
    "pyspark.taskcontext": "placement",
    "pyspark.TaskContext": "placement",
    "requests": "network",
    "httpx": "network",
    "aiohttp": "network",
    "urllib.request": "network",
    "urllib3": "network",
    "http.client": "network",
    "socket": "network",
    "boto3": "network",
    "psycopg": "network",
    "psycopg2": "network",
    "sqlalchemy": "network",
    "redis": "network",
}
# Names under which implementations call themselves.
_HOMES = {
    "posix": "os",
    "nt": "os",
    "_random": "random",
    "_socket": "socket",
    "pandas._libs.tslibs.timestamps": "pandas",
    "pandas.core.tools.datetimes": "pandas",
    "numpy.random.mtrand": "numpy.random",
    "numpy.random._generator": "numpy.random",
}
# With a seed that comes from the row, what it draws is the same every time.
_SEEDED = "random.Random"
# These read "now" and "today" as the clock.
_MOMENT_READERS = frozenset(["pandas.Timestamp", "pandas.to_datetime", "numpy.datetime64"])


def judged(function: Any, name: str) -> list[Taint]:
    """The taints of a Python function; one of its own if its source cannot be read.

    Whatever goes wrong here is no fault of the run, and becomes a finding that can be allowed.
    """
    try:
        plain = _plain(function)
        if plain is None:
            return _native(function, name)
        return list(dict.fromkeys(_Reading(name).search(plain)))
    except Exception:  # objects of the user, of any kind, edited files, odd encodings
        return [unreadable(name)]


def unreadable(name: str) -> Taint:
    """The taint of a function whose source is out of reach."""
    return Taint("udf", f"{name}(): its source cannot be read")


def _native(function: Any, name: str) -> list[Taint]:
    """A function that is not written in Python: `len`, `str.upper`, a ufunc of numpy."""
    kind = _kind(_path(function))
    return [Taint(kind, f"the function {name}")] if kind else []


def _plain(function: Any) -> FunctionType | None:
    """The function behind a partial, a method, a class or an object that is called.

    None if there is no Python behind it.
    """
    while not _is(function, FunctionType):
        if _is(function, type):
            # The class of a table function, or one whose objects are the values.
            function = _static(function, "eval") or _static(function, "__init__")
        elif _is(function, partial, MethodType, staticmethod, classmethod):
            inner = "func" if _is(function, partial) else "__func__"
            function = getattr(function, inner)
        elif _is(_static(function, "__wrapped__"), FunctionType):
            function = _static(function, "__wrapped__")
        elif _is(function, BuiltinFunctionType):
            return None
        else:
            function = _static(type(function), "__call__")
        if function is None or _is(function, WrapperDescriptorType, MethodDescriptorType):
            return None
    return _unwrapped(function)


def _is(value: Any, *kinds: type) -> bool:
    """Whether a value is of a type; `isinstance` would ask a proxy for what it stands for."""
    return issubclass(type(value), kinds)


def _static(value: Any, name: str) -> Any:
    """An attribute as it is stored: no property and no `__getattr__` of the user runs."""
    found = inspect.getattr_static(value, name, None)
    return found.__func__ if _is(found, staticmethod, classmethod) else found


def _unwrapped(function: FunctionType) -> FunctionType:
    """The function that decorators were put around."""
    seen = {id(function)}
    while _is(inner := _static(function, "__wrapped__"), FunctionType) and id(inner) not in seen:
        seen.add(id(inner))
        function = inner
    return function


class _Reading:
    """The search of one function, with the functions of the project that it calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: set[CodeType] = set()
        self._files: dict[str, ast.Module] = {}

    def search(self, function: FunctionType) -> Iterator[Taint]:
        code = function.__code__
        if code in self._seen:
            return
        self._seen.add(code)
        body = _body(code, self._files)
        scope = _scope(function)
        imports = dict(_imports(body))
        moments = {id(node) for node in _readers_of_moments(body)}
        seeded = {id(node) for node in _given_a_seed(body)}
        for node in ast.walk(body):
            if not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            if not isinstance(node.ctx, ast.Load):
                continue
            path, value = _resolved(node, scope, imports)
            if id(node) in seeded and path == _SEEDED:
                continue
            kind = _kind(path) or (_kind(_path(value)) if _is_named(value) else "")
            if not kind and id(node) in moments and path in _MOMENT_READERS:
                kind = "clock"
            if kind:
                said = f"{ast.unparse(node)} in the Python function {self._name}"
                line = f"{os.path.basename(code.co_filename)}:{node.lineno}"
                yield Taint(kind, said, place=line)
                continue
            inner = value.fget if _is(value, property) else value
            if _is(inner, FunctionType) and _is_project(inner):
                yield from self.search(_unwrapped(inner))


def _given_a_seed(body: ast.AST) -> Iterator[ast.expr]:
    """What is called with a first argument that is no constant.

    A constant seed gives every task the same numbers, in whatever order its rows come.
    """
    for node in ast.walk(body):
        match node:
            case ast.Call(func=called, args=[seed, *_]):
                if any(isinstance(part, ast.Name) for part in ast.walk(seed)):
                    yield called


def _readers_of_moments(body: ast.AST) -> Iterator[ast.expr]:
    """What is called with a text such as "now" as its first argument."""
    for node in ast.walk(body):
        match node:
            case ast.Call(func=called, args=[ast.Constant(value=str(text)), *_]):
                if text.strip().lower() in MOMENTS:
                    yield called


def _body(code: CodeType, files: dict[str, ast.Module]) -> ast.AST:
    """The syntax of a function, with the line numbers of its file.

    The whole file is parsed: the lines of a lambda in the middle of a chain are no statement. A
    file that no longer has the function where it was has been edited since it was loaded.
    """
    if code.co_filename not in files:
        lines, _ = inspect.findsource(code)
        files[code.co_filename] = ast.parse("".join(lines))
    arguments = list(code.co_varnames[: code.co_argcount])
    found = [
        node
        for node in ast.walk(files[code.co_filename])
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and code.co_name == getattr(node, "name", "<lambda>")
        and code.co_firstlineno == _first_line(node)
        and arguments == [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    ]
    if not found:
        raise OSError(f"{code.co_filename} no longer has {code.co_name}")
    if len(found) == 1:
        return found[0]
    # Two lambdas on one line: either could be meant, so both are searched.
    body: list[ast.stmt] = [
        ast.Expr(node) if isinstance(node, ast.Lambda) else node for node in found
    ]
    return ast.Module(body=body, type_ignores=[])


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    """The line that Python keeps for a function: that of its first decorator."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(item.lineno for item in (node, *decorators))


def _scope(function: FunctionType) -> dict[str, Any]:
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
    return scope


def _imports(body: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that a function imports inside its body, with what they stand for."""
    for node in ast.walk(body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    (alias.name if alias.asname else alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _resolved(
    node: ast.expr, scope: Mapping[str, Any], imports: Mapping[str, str]
) -> tuple[str, Any]:
    """The full name of `a.b.c` in its scope, and its value where that is at hand."""
    parts: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        parts.insert(0, inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return "", None
    if inner.id in imports:
        return ".".join([imports[inner.id], *parts]), None
    if inner.id not in scope:
        return "", None
    value = scope[inner.id]
    path = _path(value)
    for part in parts:
        value = _static(value, part)
        path = f"{path}.{part}" if path else ""
    return path, value


def _is_named(value: Any) -> bool:
    """Whether a value has a name of its own, wherever it was imported from."""
    return _is(value, ModuleType, FunctionType, BuiltinFunctionType)


def _path(value: Any) -> str:
    """The full name of a value, or that of its type."""
    if _is(value, ModuleType):
        return _home(value.__name__)
    if _is(value, BuiltinFunctionType, MethodType) and not _is(value.__self__, ModuleType):
        owner = value.__self__
        kind = owner if _is(owner, type) else type(owner)
        return f"{_home(kind.__module__)}.{kind.__qualname__}.{value.__name__}"
    if _is(value, type, FunctionType, BuiltinFunctionType):
        return f"{_home(str(value.__module__))}.{value.__qualname__}"
    if _is(value, MethodDescriptorType, ClassMethodDescriptorType, WrapperDescriptorType):
        kind = value.__objclass__
        return f"{_home(kind.__module__)}.{kind.__qualname__}.{value.__name__}"
    kind = type(value)
    if kind.__module__ == "os" and kind.__name__ == "_Environ":
        return "os.environ"
    return f"{_home(str(kind.__module__))}.{kind.__qualname__}"


def _home(module: str) -> str:
    return _HOMES.get(module, module)


def _kind(path: str) -> str:
    """The kind of finding that a name is; a package counts once something of it is used."""
    while "." in path:
        if path in _CALLS:
            return _CALLS[path]
        path = path.rpartition(".")[0]
        if path in _CALLS and "." not in path:
            return _CALLS[path]
    return ""


def _is_project(function: FunctionType) -> bool:
    file = Path(function.__code__.co_filename)
    installed = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    return file.exists() and not any(file.is_relative_to(folder) for folder in installed)


def line_in(function: Any, name: str) -> str:
    """The line on which a function calls something of this name, if it is the only one."""
    try:
        plain = _plain(function)
        if plain is None or not name.isidentifier():
            return ""
        body = _body(plain.__code__, {})
    except Exception:  # a line is a help, no more
        return ""
    lines = {
        node.lineno
        for node in ast.walk(body)
        if isinstance(node, ast.Call) and _called(node) in (name, f"{name}s")
    }
    if len(lines) != 1:
        return ""
    return f"{os.path.basename(plain.__code__.co_filename)}:{lines.pop()}"


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""
