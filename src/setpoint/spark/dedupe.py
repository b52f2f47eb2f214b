"""One row per key, the same one on every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from setpoint.model.keys import no_columns, no_such_column
from setpoint.spark.contents import hash_sql, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = "__setpoint_place"
_HASH = "__setpoint_order"


def dedupe(frame: DataFrame, key: str | Sequence[str], order_by: str | Sequence[str]) -> DataFrame:
    """The latest row of each key: of several, the one with the greatest `order_by`.

    Rows that tie are ordered by all of their columns, so the same row is kept on every run,
    however the rows lie. Nulls come last in `order_by` and count as a value in the key. Use it
    instead of `dropDuplicates(key)`, which keeps whichever row comes first.
    """
    keys = [key] if isinstance(key, str) else list(key)
    order = [order_by] if isinstance(order_by, str) else list(order_by)
    example = 'dedupe(frame, "order_id", "updated_at")'
    known = frame.columns
    if not keys or not order:
        raise no_columns("dedupe", example)
    for name in [*keys, *order]:
        if name not in known:
            raise no_such_column(name, known)
    latest = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in order)
    partition = ", ".join(map(quoted, keys))
    over = f"PARTITION BY {partition} ORDER BY {latest}, {_HASH} DESC"
    ranked = frame.selectExpr("*", f"{hash_sql(frame.schema)} AS {_HASH}").selectExpr(
        "*", f"row_number() OVER ({over}) AS {_PLACE}"
    )
    return ranked.where(f"{_PLACE} = 1").drop(_PLACE, _HASH)
