"""Dividing staged rows among the windows they belong to: one job for all windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from setpoint.model.audit import Audit, Unique
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.spark.audits import violation
from setpoint.spark.contents import HASH, fingerprint_sums, fingerprint_text, quoted, row_hash
from setpoint.spark.failures import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


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
    value = quoted(rule.column)
    counts = [F.count_if(violation(audits[n], staged.schema)).alias(f"a{n}") for n in doubtful]
    grouped = (
        staged.withColumn(HASH, row_hash(staged.schema))
        # Instants reach Python as times of the machine's clock; a number does not change.
        .groupBy(F.expr(f"unix_micros({value})" if rule.kind == "timestamp" else value).alias("v"))
        .agg(F.expr("count(1) AS n"), F.expr(f"{low} AS l"), F.expr(f"{high} AS h"), *counts)
    )
    try:
        found = grouped.collect()
    except Exception as error:
        raise explain(error, "counting the staged rows of each window") from error
    owner = rule.index(windows)
    for row in found:
        window = owner(_typed(rule, row["v"]))
        if window is None:
            raise AssertionError("a row outside of the windows was staged")
        shares[window].add(row["n"], row["l"], row["h"])
        for n in doubtful:
            shares[window].violations[n] += row[f"a{n}"]
    doubled = _doubled(staged, rule, windows, audits)
    for window, share in shares.items():
        share.contents = fingerprint_text(share.rows, share.low, share.high)
        share.unique = frozenset(n for n, found in doubled.items() if window not in found)
    return shares


def _doubled(
    staged: DataFrame, rule: SliceRule, windows: Sequence[Window], audits: Sequence[Audit]
) -> dict[int, set[Window]]:
    """For audits of keys, by position, the windows in which a key is there twice.

    All in one job, where a window has one value of the column that divides the rows; no audit is
    named where that is not so.
    """
    keys = {n: audit.columns for n, audit in enumerate(audits) if isinstance(audit, Unique)}
    if not keys or any(rule.only_value(window) is None for window in windows):
        return {}
    value = quoted(rule.column)
    frames = [
        staged.groupBy(*map(quoted, dict.fromkeys((rule.column, *columns))))
        .agg(F.expr("count(1) AS n"))
        .where("n > 1")
        .groupBy(F.expr(value).alias("v"))
        .agg(F.lit(n).alias("audit"))
        for n, columns in keys.items()
    ]
    try:
        found = reduce(lambda rows, more: rows.unionAll(more), frames).collect()
    except Exception as error:
        raise explain(error, "looking for keys that are there twice") from error
    owner = rule.index(windows)
    doubled: dict[int, set[Window]] = {n: set() for n in keys}
    for row in found:
        if (window := owner(row["v"])) is not None:
            doubled[row["audit"]].add(window)
    return doubled


def _typed(rule: SliceRule, value: Any) -> Any:
    if rule.kind == "timestamp" and value is not None:
        return _EPOCH + timedelta(microseconds=value)
    return value
