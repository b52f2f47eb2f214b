"""Lines on their way to Python tasks, without a look at the size of a batch after every row.

Since version 4.1 Spark weighs a batch after each of its rows, which takes as long as to fill it.
Lines that are cut into short pieces need not be weighed: a batch of them has its limit anyway.
The Python functions of a user have batches too, of rows as long as they like: with one of them in
the plan, Spark goes on weighing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from setpoint.spark.expressions import Expression, named
from setpoint.spark.settings import held

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS = 5_000
_CHARACTERS = 3_200  # of four bytes at most, and 5,000 times that is Spark's own 64 MB
_UNWEIGHED = {
    "spark.sql.execution.arrow.maxBytesPerBatch": f"{2**31 - 1}b",  # Spark takes it for none
    "spark.sql.execution.arrow.maxRecordsPerBatch": f"{_ROWS}",
}
# How the nodes and expressions that run Python are called, in Spark's JSON of a plan.
_PYTHON = ("Python", "PySpark", "InPandas", "InArrow")


def reports_of(
    frame: DataFrame,
    columns: Mapping[str, Expression],
    task: Callable[[Iterable[Any]], Iterable[Any]],
    reports: str,
) -> pa.Table:
    """What `task` reports of the batches that it gets: of these columns, one of them the `line`.

    A long line may come in several rows, which the column `piece` counts from zero.
    """
    chosen = [named(column, name) for name, column in columns.items()]
    if not _may_be_unweighed(frame):
        return frame.select(named("0", "piece"), *chosen).mapInArrow(task, reports).toArrow()
    with held(frame.sparkSession, _UNWEIGHED):
        return in_pieces(frame.select(*chosen)).mapInArrow(task, reports).toArrow()


def in_pieces(frame: DataFrame) -> DataFrame:
    """The frame with long lines cut up; what is no text at all stays whole, byte for byte."""
    short = f"octet_length(line) <= {4 * _CHARACTERS} OR NOT is_valid_utf8(line)"
    cut = f"regexp_extract_all(line, '(?s).{{1,{_CHARACTERS}}}', 0)"
    pieces = f"posexplode(IF({short}, array(line), {cut})) AS (piece, line)"
    return frame.selectExpr(pieces, *(name for name in frame.columns if name != "line"))


def _may_be_unweighed(frame: DataFrame) -> bool:
    if not hasattr(frame, "_jdf") or frame.sparkSession.version.startswith("4.0."):
        return False
    plan = frame._jdf.queryExecution().analyzed().toJSON()
    return not any(name in plan for name in _PYTHON)
