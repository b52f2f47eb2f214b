"""Lines on their way to Python tasks, without a look at the size of a batch after every row.

Since version 4.1 Spark weighs a batch after each of its rows, which takes as long as to fill it.
Lines that are cut into short pieces need not be weighed: a batch of them has its limit anyway.
The Python functions of a user have batches too, of rows as long as they like: with one of them in
the plan, Spark goes on weighing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from setpoint.spark.contents import quoted
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
# Under names of ours: what an audit asks for must not be found among our own columns.
_OURS = "__setpoint_"
_LINE = f"{_OURS}line"
_WHOLE = ("0 AS piece", f"{_LINE} AS line")
# What is no text at all stays whole, byte for byte: nobody but the server may judge it.
_SHORT = f"octet_length({_LINE}) <= {4 * _CHARACTERS} OR NOT is_valid_utf8({_LINE})"
_CUT = f"regexp_extract_all({_LINE}, '(?s).{{1,{_CHARACTERS}}}+', 0)"
_PIECES = (f"posexplode(IF({_SHORT}, array({_LINE}), {_CUT})) AS (piece, line)",)
# How the nodes and expressions that run Python are called, in Spark's JSON of a plan, and the node
# behind which nobody can look.
_PYTHON = ("Python", "PySpark", "InPandas", "InArrow", "LogicalRDD")


def reports_of(
    frame: DataFrame,
    columns: Mapping[str, Expression],
    task: Callable[[Iterable[Any]], Iterable[Any]],
    reports: str,
) -> pa.Table:
    """What `task` reports of the batches that it gets: of these columns, one of them the `line`.

    A long line may come in several rows, which the column `piece` counts from zero.
    """
    rows = frame.select(*(named(column, _OURS + name) for name, column in columns.items()))
    others = [f"{_OURS}{name} AS {quoted(name)}" for name in columns if name != "line"]
    # What a user wrote is a column, and Python may be in it.
    ours = all(isinstance(column, str) for column in columns.values())
    if not _may_be_unweighed(frame if ours else rows):
        return rows.selectExpr(*_WHOLE, *others).mapInArrow(task, reports).toArrow()
    with held(frame.sparkSession, _UNWEIGHED):
        return rows.selectExpr(*_PIECES, *others).mapInArrow(task, reports).toArrow()


def _may_be_unweighed(frame: DataFrame) -> bool:
    from py4j.protocol import Py4JError

    if not hasattr(frame, "_jdf") or frame.sparkSession.version.startswith("4.0."):
        return False
    try:
        plan = frame._jdf.queryExecution().analyzed().toJSON()
    except Py4JError:
        return False  # a plan that Spark cannot show may hold anything
    return not any(name in plan for name in _PYTHON)
