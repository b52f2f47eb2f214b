"""Trouble inside Spark, made on purpose: tasks whose first attempts fail, or hang behind a twin.

The rows of an input pass through a function that lets every one of them through, and strikes on
the way. A strike leaves a file in a folder, so that it can be told from a trouble that never
came. The function travels by value: it needs nothing of this package where tasks run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# More rows than Python takes at once: some of a task's rows are on their way when it fails.
_LATER = 150
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    # A stage of a single task has no other tasks to be slower than.
    "spark.speculation.task.duration.threshold": "1s",
    "spark.speculation.efficiency.enabled": "false",
}
RETRIES = "local[2,4]"
"""Tasks of a local master are tried once, unless it says otherwise."""


def failing(folder: str) -> Callable[[DataFrame], DataFrame]:
    """Inputs whose tasks fail: the first attempt at its first row, the second further on."""

    def strike(rows: int, attempt: int, name: str) -> None:
        if (attempt == 0 and rows == 1) or (attempt == 1 and rows == _LATER):
            with open(os.path.join(folder, name), "w"):
                pass
            raise RuntimeError("this attempt was made to fail")

    return _passing(strike)


def overtaken(folder: str, patience: float = 60.0) -> Callable[[DataFrame], DataFrame]:
    """Inputs whose first partition waits for its own duplicate, and then goes on beside it.

    Without a duplicate it goes on when its patience has come to an end.
    """

    def strike(rows: int, attempt: int, name: str) -> None:
        import time

        place, _, _ = name.rpartition("-")
        if rows != 1 or not place.endswith("-0"):
            return
        with open(os.path.join(folder, name), "w"):
            pass
        waited = 0.0
        while attempt == 0 and waited < patience:
            if any(other != name and other.startswith(place) for other in os.listdir(folder)):
                break
            time.sleep(0.05)
            waited += 0.05

    return _passing(strike)


def struck(folder: str) -> list[tuple[str, int]]:
    """The attempts that were struck: the task, and the number of the attempt."""
    found = (file.name.rpartition("-") for file in Path(folder).iterdir())
    return sorted((place, int(attempt)) for place, _, attempt in found)


def _passing(strike: Callable[[int, int, str], None]) -> Callable[[DataFrame], DataFrame]:
    def through(frame: DataFrame) -> DataFrame:
        seen = {"rows": 0}

        def passes() -> bool:
            from pyspark import TaskContext

            seen["rows"] += 1
            context = TaskContext.get()
            if context is not None:
                place = f"{context.stageId()}-{context.partitionId()}"
                attempt = context.attemptNumber()
                strike(seen["rows"], attempt, f"{place}-{attempt}")
            return True

        check: Any = F.udf(passes, "boolean").asNondeterministic()
        return frame.where(check())

    return through
