"""The Python functions of a plan out of the bytes that Spark was given for them.

Loading them imports what they import and builds the values that they captured, as an executor
does. Broadcast variables are left out: they are data, and cannot be loaded on the driver.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# PySpark's function that finds a broadcast variable again, and the modules that have had it.
_FINDER = "_from_id"
_HOMES = ("pyspark.core.broadcast", "pyspark.broadcast")


@dataclass(frozen=True)
class Broadcasted:
    """The place of a broadcast variable."""

    id: int


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name == _FINDER and module in _HOMES:
            return Broadcasted
        return super().find_class(module, name)


def loaded(command: bytes, broadcast: Callable[[int], bytes]) -> Any:
    """The function in a command; `broadcast` reads the file of a broadcast variable by its id.

    A command of more than a megabyte is broadcast itself, and only its id is in the plan.
    """
    found = _Unpickler(io.BytesIO(command)).load()
    if isinstance(found, Broadcasted):
        found = _Unpickler(io.BytesIO(pickle.loads(broadcast(found.id)))).load()
    return found[0] if isinstance(found, tuple) else found
