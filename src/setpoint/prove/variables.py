"""Which environment variables the code of a pipeline reads, by name."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# What processes need to start at all, and what other factors change already.
_NEEDED = ("PATH", "HOME", "TMPDIR", "JAVA_HOME", "TZ", "LC_ALL", "VIRTUAL_ENV")
_FAMILIES = ("SPARK_", "PYSPARK_", "PYTHON", "SETPOINT_", "LD_", "JDK_", "HADOOP_", "FAKETIME")
_READERS = ("get", "pop", "setdefault", "__getitem__")


def read_by(file: str, root: Path) -> tuple[str, ...]:
    """The variables that a pipeline's file reads, and those of the project's modules it loads."""
    files = {Path(file), *_modules(root)} if file else set(_modules(root))
    found = {name for one in files for name in _names(one)}
    return tuple(
        sorted(name for name in found if name not in _NEEDED and not name.startswith(_FAMILIES))
    )


def _modules(root: Path) -> Iterator[Path]:
    """Files of modules that are loaded, belong to the project, and were not installed."""
    installed = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = Path(file)
        if path.is_relative_to(root) and not any(path.is_relative_to(home) for home in installed):
            yield path


def _names(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=place, slice=ast.Constant(value=str(name))):
                if _is(place, "environ"):
                    yield name
            case ast.Call(func=called, args=[ast.Constant(value=str(name)), *_]):
                if _is(called, "getenv") or _reads_environ(called):
                    yield name


def _reads_environ(called: ast.expr) -> bool:
    match called:
        case ast.Attribute(value=place, attr=method):
            return method in _READERS and _is(place, "environ")
        case _:
            return False


def _is(node: ast.expr, name: str) -> bool:
    """Whether an expression is `name` or ends in it: `os.environ`, `environ`."""
    match node:
        case ast.Name(id=found) | ast.Attribute(attr=found):
            return found == name
        case _:
            return False
