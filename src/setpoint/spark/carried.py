"""Code that Python workers cannot import goes with the tasks that call it, by value.

A pipeline file is loaded under a name of its own, and its folder is put on the path of this
process only. A function of it that rows are given to (`udf`, `mapInPandas`) would be looked for
under that name where tasks run, and not be found there.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from setpoint.model.fingerprint import is_project_file


def carry_code(function: Callable[..., Any]) -> None:
    """Have the function's module, and what it takes from others like it, sent with tasks.

    What workers can import stays where it is: code by value takes its constants along, and not
    every constant can travel.
    """
    carried = list(_only_here(function.__module__))
    if carried:
        from pyspark import cloudpickle

        for module in carried:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _only_here(name: str) -> Iterator[ModuleType]:
    """A module and those that its names are from, as far as no worker can import them."""
    waiting, seen = [name], {name}
    while waiting:
        module = sys.modules.get(waiting.pop())
        if module is None or _is_importable(module):
            continue
        yield module
        for value in list(vars(module).values()):
            is_module = isinstance(value, ModuleType)
            origin = value.__name__ if is_module else getattr(value, "__module__", None)
            if isinstance(origin, str) and origin not in seen:
                seen.add(origin)
                waiting.append(origin)


def _is_importable(module: ModuleType) -> bool:
    """Whether another interpreter finds the module: in this folder, by PYTHONPATH, or installed."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if not is_project_file(file) or name == "__main__":
        return True
    path = Path(str(file))
    named = path.parent if path.stem == "__init__" else path
    if named.stem != name.rpartition(".")[2]:
        return False  # loaded under another name than its own
    folder = str(named.parents[name.count(".")])
    # What was put on the path of this process alone stands before the standard library.
    library = sysconfig.get_path("stdlib")
    start = sys.path[: sys.path.index(library)] if library in sys.path else []
    shared = {os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    return folder not in start or folder in shared
