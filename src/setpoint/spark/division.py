"""Dividing staged rows among the windows they belong to: one job for all windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from setpoint.model.audit import Audit, Unique
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.spark.audits import violation
from setpoint.spark.contents import HASH, fingerprint_sums, fingerprint_text, quoted, row_hash
from setpoint.spark.expressions import counted
from setpoint.spark.failures import explain
from setpoint.spark.ordinal import WindowOrdinal, window_ordinal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WINDOW, _ROWS, _AUDIT = "__setpoint_window", "__setpoint_rows", "__setpoint_audit"


@dataclass
class Share:
    """What a stage holds of one window.

    `violations` counts those of row-level audits by position; `unique` are the positions of
    audits of keys that hold.
    """

    violations: dict[int, int]
    unique: frozenset[int] = frozenset()
    rows: int = 0
    low: int | None = 0
    high: int | None = 0
    contents: str | None = field(init=False, default=None)

    def add(self, rows: int, low: int | None, high: int | None) -> None:
        self.rows += rows
        self.low = None if self.low is None or low is None else self.low + low
        self.high = None if self.high is None or high is None else self.high + high


def divide(
    staged: DataFrame,
    rule: SliceRule,
    windows: Sequence[Window],
    audits: Sequence[Audit],
    violations: Mapping[int, int],
) -> dict[Window, Share]:
    """Rows, fingerprint and violations of each window; `violations` are those of all together."""
    doubtful = [position for position, count in violations.items() if count]
    shares = {window: Share(dict.fromkeys(violations, 0)) for window in windows}
    low, high = fingerprint_sums(HASH)
    place = window_ordinal(rule, windows)
    counts = [counted(violation(audits[n], staged.schema), f"a{n}") for n in doubtful]
    grouped = (
        staged.withColumn(HASH, row_hash(staged.schema))
        .groupBy(F.expr(place.sql).alias(_WINDOW))
        .agg(F.expr("count(1) AS n"), F.expr(f"{low} AS l"), F.expr(f"{high} AS h"), *counts)
    )
    try:
        found = grouped.collect()
    except Exception as error:
        raise explain(error, "counting the staged rows of each window") from error
    for row in found:
        share = shares[place.owner(row[_WINDOW])]
        share.add(row["n"], row["l"], row["h"])
        for n in doubtful:
            share.violations[n] += row[f"a{n}"]
    doubled = _doubled(staged, place, audits)
    for window, share in shares.items():
        share.contents = fingerprint_text(share.rows, share.low, share.high)
        share.unique = frozenset(n for n, found in doubled.items() if window not in found)
    return shares


def _doubled(
    staged: DataFrame, place: WindowOrdinal, audits: Sequence[Audit]
) -> dict[int, set[Window]]:
    """For audits of keys, by position, the windows in which a key is there twice; in one job."""
    keys = {n: audit.columns for n, audit in enumerate(audits) if isinstance(audit, Unique)}
    if not keys:
        return {}
    frames = [
        staged.groupBy(F.expr(place.sql).alias(_WINDOW), *map(quoted, columns))
        .agg(F.expr(f"count(1) AS {_ROWS}"))
        .where(f"{_ROWS} > 1")
        .select(_WINDOW, F.lit(n).alias(_AUDIT))
        .distinct()
        for n, columns in keys.items()
    ]
    try:
        found = reduce(lambda rows, more: rows.unionAll(more), frames).collect()
    except Exception as error:
        raise explain(error, "looking for keys that are there twice") from error
    doubled: dict[int, set[Window]] = {n: set() for n in keys}
    for row in found:
        doubled[row[_AUDIT]].add(place.owner(row[_WINDOW]))
    return doubled
