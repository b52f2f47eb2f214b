"""Key advice (M12): which columns make a key, what is wrong with one, and whether ids come back.

The verdict is in words; verdict.py chooses them. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from setpoint.check.candidates import (
    ALMOST,
    LOAD_STAMP,
    Candidate,
    Found,
    is_content,
    is_good,
    search,
)
from setpoint.check.partitions import DAY, partition_time
from setpoint.errors import UsageError
from setpoint.flow.world import EnginePort
from setpoint.model.grain import Grain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from setpoint.sources.existing import ExistingTable
    from setpoint.spark.profile import ColumnProfile, Return

# Columns that say which of two rows of one thing is the later one.
_SEQUENCE = ("updated", "modified", "changed", "version", "sequence", "seq", "lsn", "event_time")


@dataclass(frozen=True)
class KeyQuestion:
    """What is asked: about one key, or which columns make one."""

    key: tuple[str, ...] = ()
    time: str | None = None
    every: Grain | None = None
    timezone: str = "UTC"
    examples: int = 5


@dataclass(frozen=True)
class Judged:
    """A key with the figures that were counted for it."""

    columns: tuple[str, ...]
    given: bool
    rows: int
    distinct: int
    null_rows: int
    nulls: Mapping[str, int]
    surplus: int = 0
    identical_surplus: int = 0
    differing: tuple[tuple[str, int], ...] = ()
    examples: tuple[dict[str, Any], ...] = ()
    null_examples: tuple[dict[str, Any], ...] = ()

    @property
    def is_key(self) -> bool:
        """Unique, and there in every row."""
        return not self.surplus and not self.null_rows


@dataclass(frozen=True)
class Stability:
    """What happens to the ids of a key from window to window."""

    columns: tuple[str, ...]
    time: str
    every: Grain
    seen: Return | None
    example: tuple[dict[str, Any], ...] = ()
    recycled_example: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Advice:
    """The answer: the table, its columns, its keys, and the key that was looked at closely."""

    table: str
    kind: str
    version: int | None
    rows: int
    different: int
    columns: tuple[ColumnProfile, ...]
    found: Found
    judged: Judged | None
    stability: Stability | None
    sequence: str | None
    profiles: Mapping[str, ColumnProfile] = field(repr=False)

    @property
    def is_no(self) -> bool:
        """A key was asked about, and it is none."""
        return self.judged is not None and self.judged.given and not self.judged.is_key


def advise(table: ExistingTable, question: KeyQuestion, engine: EnginePort) -> Advice:
    """Look for keys in a table, and at one of them closely."""
    from setpoint.sources.existing import unreadable

    _refuse_unknown_columns(table, question)
    if table.rows == 0:
        raise _empty(table)
    session = engine.session(table.connectors)
    try:
        with engine.pinned(session):
            return _advise(session, table, question)
    except Exception as error:
        raise unreadable(table.label, error) from error


def _advise(session: Any, table: ExistingTable, question: KeyQuestion) -> Advice:
    from setpoint.spark import check, profile

    frame = check.frame_of(session, table, table.columns)
    check.refuse_unfit_key(frame, question.key)
    content = [name for name in frame.columns if not LOAD_STAMP.search(name)] or frame.columns
    rows, different, columns = profile.profile(frame, content)
    if not rows:
        raise _empty(table)
    if any(column.generated for column in columns):
        kept = [column.name for column in columns if is_content(column)]
        different = profile.different_rows(frame, kept) if kept else rows
    time, every = _time(table, question)
    found = search(
        rows,
        different,
        columns,
        lambda sets: profile.estimates(frame, sets),
        lambda sets: profile.distinct_counts(frame, sets),
        time=time,
    )
    profiles = {column.name: column for column in columns}
    chosen = question.key or _best(found, profiles, rows)
    judged = _judge(frame, chosen, rows, profiles, found, question) if chosen else None
    sequence = _sequence(columns, (*chosen, time or ""))
    stability = None
    if judged is not None and time is not None:
        ignored = {c.name for c in columns if not is_content(c)} | {time, sequence or time}
        stability = _stability(frame, judged, time, every, ignored, profiles, question)
    return Advice(
        table=table.label,
        kind=table.kind,
        version=table.version,
        rows=rows,
        different=min(different, rows),
        columns=columns,
        found=found,
        judged=judged,
        stability=stability,
        sequence=sequence or time,
        profiles=profiles,
    )


def _best(found: Found, profiles: Mapping[str, ColumnProfile], rows: int) -> tuple[str, ...]:
    """The key to look at closely: a good one, the nearest good set, or whatever is unique."""
    keys = [c for c in found.keys if is_good(c.columns, profiles)]
    near = [c for c in found.near if is_good(c.columns, profiles)]
    for item in near:
        # Any column makes a set unique that has a duplicate or two: the set is what was meant.
        inside = any(set(item.columns) < set(key.columns) for key in keys)
        if item.distinct >= rows * ALMOST and (inside or not keys):
            return item.columns
    best = [*keys, *near, *found.keys]
    return best[0].columns if best else ()


def _judge(
    frame: DataFrame,
    key: tuple[str, ...],
    rows: int,
    profiles: Mapping[str, ColumnProfile],
    found: Found,
    question: KeyQuestion,
) -> Judged:
    from setpoint.spark import check

    nulls = {name: profiles[name].nulls for name in key if profiles[name].nulls}
    given = bool(question.key)
    known: Candidate | None = next((c for c in found.keys if set(c.columns) == set(key)), None)
    if known is not None:
        return Judged(key, given, rows, rows, 0, {})
    counts = check.key_counts(frame, key, None)
    surplus = sum(count.surplus for count in counts)
    null_rows = sum(count.null_rows for count in counts)
    judged = Judged(key, given, rows, sum(count.keys for count in counts), null_rows, nulls)
    differing = check.difference(frame, key, question.examples) if surplus else None
    return Judged(
        **{
            **vars(judged),
            "surplus": surplus,
            "identical_surplus": differing.identical_surplus if differing else 0,
            "differing": differing.columns if differing else (),
            "examples": differing.worst if differing else (),
            "null_examples": check.null_keys(frame, key, question.examples) if null_rows else (),
        }
    )


def _stability(
    frame: DataFrame,
    judged: Judged,
    time: str,
    every: Grain,
    ignored: Collection[str],
    profiles: Mapping[str, ColumnProfile],
    question: KeyQuestion,
) -> Stability | None:
    from setpoint.spark import check, profile

    identity = tuple(name for name in judged.columns if name != time)
    if not identity or any(profiles[name].nested for name in identity):
        return None
    clock = check.clock_of(frame, time, every, question.timezone)
    if identity == judged.columns and not judged.surplus:
        return Stability(identity, time, clock.grain, None)
    seen = profile.returning(frame, identity, clock, ignored, question.examples)
    changing = [name for name, _ in seen.changed][:3]

    def rows_of(keys: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        if not keys or not question.examples or seen.several_per_window:
            return ()
        return profile.versions(frame, keys[0], time, changing, question.examples)

    return Stability(
        identity,
        time,
        clock.grain,
        seen,
        rows_of(seen.examples),
        rows_of(seen.recycled_examples),
    )


def _time(table: ExistingTable, question: KeyQuestion) -> tuple[str | None, Grain]:
    """The column that tells the window: the one that was named, or the one of the partitions."""
    if question.time is not None:
        return question.time, question.every or DAY
    values = [file.partition for file in table.files]
    partition = partition_time(table.partition_columns, values, question.timezone)
    if partition is None or len(partition.columns) != 1:
        return None, DAY
    return partition.columns[0], question.every or partition.unit


def _sequence(columns: Sequence[ColumnProfile], taken: Collection[str]) -> str | None:
    """The column that tells the later of two rows, by its name."""
    for word in _SEQUENCE:
        for column in columns:
            ordered = column.moment or column.kind in ("int", "bigint", "date")
            if word in column.name.lower() and ordered and column.name not in taken:
                return column.name
    return None


def _empty(table: ExistingTable) -> UsageError:
    from setpoint.sources.existing import READ_ONLY

    return UsageError(
        "SP-K02",
        f"{table.label} holds no rows.",
        why="Whether a column is unique can only be told from rows.",
        state=READ_ONLY,
        next="Load the table, then ask again.",
    )


def _refuse_unknown_columns(table: ExistingTable, question: KeyQuestion) -> None:
    from setpoint.sources.existing import READ_ONLY

    asked = [("--key", "SP-T02", name) for name in question.key]
    asked += [("--time", "SP-R02", question.time)] if question.time is not None else []
    for option, code, name in asked:
        if name not in table.columns:
            known = ", ".join(table.columns)
            raise UsageError(
                code,
                f"{table.label} has no column {name!r:.80} (it has {known:.400}).",
                state=READ_ONLY,
                next=f"Correct {option}; a name that holds a comma goes between backticks.",
            )
