"""Python functions in a plan: their source is searched for what a plan cannot show.

Names are looked up in the function's own scope, so an alias hides nothing and a column called
`now` is no clock. Functions of the project that it calls are searched too; installed packages
are taken at their word.
"""

from __future__ import annotations

import ast
import inspect
import os
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

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
    "numpy.random.mtrand": "numpy.random",
    "numpy.random._generator": "numpy.random",
}


def judged(function: Any, name: str) -> list[Taint]:
    """The taints of a Python function; one of its own if its source cannot be read."""
    plain = _plain(function)
    if plain is None:
        return [unreadable(name)]
    try:
        return list(dict.fromkeys(_search(plain, name, set())))
    except (OSError, SyntaxError, TypeError):
        return [unreadable(name)]


def unreadable(name: str) -> Taint:
    """The taint of a function whose source is out of reach."""
    return Taint("udf", f"{name}(): its source cannot be read")


def _plain(function: Any) -> FunctionType | None:
    """The function behind a partial, a method, a class or an object that is called."""
    while not isinstance(function, FunctionType):
        if isinstance(function, type):
            function = getattr(function, "eval", None)  # the class of a table function
        elif hasattr(function, "func"):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        else:
            function = vars(type(function)).get("__call__")
        if function is None or hasattr(function, "__objclass__"):
            return None
    inner = inspect.unwrap(function)
    return inner if isinstance(inner, FunctionType) else None


def _search(function: FunctionType, name: str, seen: set[int]) -> Iterator[Taint]:
    if id(function.__code__) in seen:
        return
    seen.add(id(function.__code__))
    body, file = _body(function), function.__code__.co_filename
    scope = _scope(function)
    imports = dict(_imports(body))
    for node in ast.walk(body):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        path, value = _resolved(node, scope, imports)
        kind = _kind(path)
        if kind:
            said = f"{ast.unparse(node)} in the Python function {name}"
            line = f"{os.path.basename(file)}:{node.lineno}"
            yield Taint(kind, said, place=line)
        elif isinstance(value, FunctionType) and _is_project(value):
            yield from _search(inspect.unwrap(value), name, seen)


def _body(function: FunctionType) -> ast.AST:
    """The syntax of a function, with the line numbers of its file."""
    lines, first = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    try:
        parsed = ast.parse(source)
    except SyntaxError:
        # A lambda in the middle of a chain: its lines are no statement, the file is.
        file = Path(function.__code__.co_filename).read_text(encoding="utf-8")
        parsed, first = ast.parse(file), 1
    ast.increment_lineno(parsed, first - 1)
    code = function.__code__
    if code.co_name != "<lambda>":
        return next(
            node
            for node in ast.walk(parsed)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == code.co_name
        )
    arguments = list(code.co_varnames[: code.co_argcount])
    found = [
        node
        for node in ast.walk(parsed)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and [argument.arg for argument in node.args.args] == arguments
    ]
    return ast.Module(body=[ast.Expr(node) for node in found], type_ignores=[])


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
        following = getattr(value, part, None)
        value = following
        path = f"{path}.{part}" if path else ""
    return path, value


def _path(value: Any) -> str:
    if isinstance(value, ModuleType):
        return _home(value.__name__)
    if isinstance(value, (type, FunctionType)) or hasattr(value, "__qualname__"):
        owner = getattr(value, "__self__", None)
        if isinstance(owner, type):
            return f"{_home(owner.__module__)}.{owner.__qualname__}.{value.__name__}"
        if owner is not None and not isinstance(owner, ModuleType):
            kind = type(owner)
            return f"{_home(kind.__module__)}.{kind.__qualname__}"
        return f"{_home(str(getattr(value, '__module__', '')))}.{value.__qualname__}"
    kind = type(value)
    if kind.__module__ == "os" and kind.__name__ == "_Environ":
        return "os.environ"
    return f"{_home(kind.__module__)}.{kind.__qualname__}"


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
    plain = _plain(function)
    if plain is None or not name.isidentifier():
        return ""
    try:
        body = _body(plain)
    except (OSError, SyntaxError, TypeError, StopIteration):
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
