"""How the rows of a read are divided among tasks: without gaps and without overlaps.

A task gets several stretches that lie apart rather than one long one. Rows are rarely spread
evenly: those of a day lie close together in a table that only grows, and a shop sells little
at night.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch
from setpoint.sources.database.relation import Relation, expected_rows
from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.slices import moment, slice_sql

if TYPE_CHECKING:
    import psycopg

MOST_TASKS = 8
_ROWS_PER_TASK = 500_000
_STRETCHES_OF_TIME = 4
_STRETCHES_OF_BLOCKS = 64
_FEWEST_BLOCKS = 128  # one megabyte: below that, asking costs more than reading
_TID_RANGES_FROM = 14  # older servers read the whole table for every range of blocks

# For each task, the conditions of the queries that it asks one after the other.
Division = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Part:
    """The rows to read: all that fulfil `condition`; `rule` and `stretch` say which time it is."""

    condition: str
    rule: SliceRule | None = None
    stretch: Stretch | None = None


def division_of(
    connection: psycopg.Connection[Any], relation: Relation, part: Part, tasks: int | None = None
) -> Division:
    """The division of a read among so many tasks, or as many as its rows deserve."""
    if tasks is None:
        rows = expected_rows(connection, relation, part.condition)
        tasks = max(1, min(MOST_TASKS, rows // _ROWS_PER_TASK))
    return divided(relation, part, tasks, connection.info.server_version // 10_000)


def divided(relation: Relation, part: Part, tasks: int, server_version: int) -> Division:
    """The conditions for each task.

    By time where an index finds the stretches, else by the blocks of the table, which together
    are read once. What has no blocks of its own is read by one task: two queries of a view or
    of a foreign table need not see the same rows.
    """
    if tasks == 1 or not relation.blocks:
        return [[part.condition]]
    if part.rule is not None and part.stretch is not None and part.rule.column in relation.indexed:
        by_time = _by_time(part.rule, part.stretch, tasks * _STRETCHES_OF_TIME)
        if len(by_time) >= tasks:
            return _dealt(by_time, tasks)
    each = _STRETCHES_OF_BLOCKS if server_version >= _TID_RANGES_FROM else 1
    wanted = max(tasks, min(tasks * each, relation.blocks // _FEWEST_BLOCKS))
    return _dealt(_by_blocks(part.condition, relation.blocks, wanted), tasks)


def stretches(start: Any, end: Any, most: int) -> list[tuple[Any, Any]]:
    """At most so many half-open stretches that make up `[start, end)`: of days, or of seconds."""
    unit = timedelta(seconds=1) if isinstance(start, datetime) else timedelta(days=1)
    units = (end - start) // unit
    edges = sorted({start + unit * (units * n // most) for n in range(most)} | {start})
    return list(zip(edges, [*edges[1:], end], strict=True))


def _by_time(rule: SliceRule, stretch: Stretch, most: int) -> list[str]:
    if rule.kind not in ("date", "timestamp", "timestamp_ntz"):
        return [slice_sql(rule, stretch)]
    column = quote(rule.column)
    return [
        f"{column} >= {moment(rule.kind, low)} AND {column} < {moment(rule.kind, high)}"
        for low, high in stretches(*rule.bounds(stretch), most)
    ]


def _by_blocks(condition: str, blocks: int, count: int) -> list[str]:
    """Ranges of blocks; the first and the last are open, so that no row is left out."""
    edges = sorted({blocks * n // count for n in range(1, count)} - {0})
    lows: list[str] = ["", *(f" AND ctid >= '({edge},0)'::pg_catalog.tid" for edge in edges)]
    highs: list[str] = [*(f" AND ctid < '({edge},0)'::pg_catalog.tid" for edge in edges), ""]
    return [f"({condition}){low}{high}" for low, high in zip(lows, highs, strict=True)]


def _dealt(conditions: Sequence[str], tasks: int) -> Division:
    """Conditions dealt out like cards."""
    return [conditions[number::tasks] for number in range(min(tasks, len(conditions)))]
