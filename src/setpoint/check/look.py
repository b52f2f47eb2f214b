"""The check of an existing table: duplicates of a key, and grain mismatch (M2, M5).

What the log and the folders tell is judged without a JVM; the rows are read only for what they
alone can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from setpoint.check import findings as judge
from setpoint.check.duplicates import duplicates, null_key
from setpoint.check.findings import Finding, Sighting
from setpoint.check.partitions import HOUR, PartitionTime, partition_time, window_starting
from setpoint.errors import UsageError
from setpoint.flow.world import EnginePort
from setpoint.model.grain import Grain
from setpoint.model.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from setpoint.sources.existing import ExistingTable
    from setpoint.spark.check import Clock, KeyCount


@dataclass(frozen=True)
class Question:
    """What is asked about a table; `pipeline` is the pipeline that writes it, if known."""

    keys: tuple[tuple[str, ...], ...] = ()
    time: str | None = None
    every: Grain | None = None
    timezone: str = "UTC"
    examples: int = 5
    pipeline: str | None = None


@dataclass(frozen=True)
class WindowCount:
    """The rows of one window (None: not counted), and how many of them are surplus."""

    window: str
    rows: int | None
    surplus: int = 0


@dataclass(frozen=True)
class Report:
    """The answer of a check: what was looked at, and what was found."""

    table: str
    kind: str
    version: int | None
    files: int
    rows: int | None
    partitioned_by: str
    units: str = "file"
    findings: tuple[Finding, ...] = ()
    windows: tuple[WindowCount, ...] = ()
    notes: tuple[str, ...] = ()
    keys: Mapping[tuple[str, ...], int] = field(default_factory=dict)


def check(table: ExistingTable, question: Question, engine: EnginePort) -> Report:
    """Look for duplicates and grain mismatch; reads only, and starts Spark only for rows."""
    from setpoint.sources.existing import with_rows

    _refuse_unknown_columns(table, question)
    partition = partition_time(table.partition_columns, _partitions(table), question.timezone)
    _refuse_nothing_to_see(table, partition, question)
    found: list[Finding] = []
    notes: list[str] = []
    if question.every is not None:
        found, notes = _from_files(table, partition, question.every, question.examples)
    seen = _Seen()
    by_partition = False
    if question.every is not None and partition is not None:
        by_partition = question.time in (None, *partition.columns)
        table = with_rows(table) if by_partition else table
        by_partition = by_partition and (question.time is None or table.rows is not None)
        seen.sightings = _stored_sightings(table, partition) if by_partition else []
    if question.keys or (question.time and not by_partition):
        session = engine.session(table.connectors)
        with engine.pinned(session):
            _look_at_rows(session, table, partition, question, seen, count_time=not by_partition)
    found += _time_findings(seen, partition, question)
    return Report(
        table=table.label,
        kind=table.kind,
        version=table.version,
        files=len(table.files),
        rows=table.rows if seen.rows is None else seen.rows,
        partitioned_by=partition.label if partition else ", ".join(table.partition_columns),
        units=table.units,
        findings=tuple([*seen.findings, *found]),
        windows=_windows(seen, question.every),
        notes=tuple(notes),
        keys=seen.keys,
    )


class _Seen:
    """What the passes over the rows have told so far."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self.keys: dict[tuple[str, ...], int] = {}
        self.findings: list[Finding] = []
        self.sightings: list[Sighting] = []
        self.timeless = 0
        self.surplus: Counter[Window] = Counter()


def _from_files(
    table: ExistingTable, partition: PartitionTime | None, every: Grain, examples: int
) -> tuple[list[Finding], list[str]]:
    """What partitions and history tell, without a JVM."""
    from setpoint.sources.existing import history

    found = judge.coarse_partition(partition, every)
    notes = []
    if table.kind == "parquet":
        notes.append(_modification_times(table))
    elif table.kind == "delta" and partition is not None:
        writes, incomplete = history(table)
        found += judge.repeated_overwrites(writes, partition, every, examples)
        if incomplete:
            notes.append("The log no longer holds the oldest commits; earlier writes are unknown.")
    elif partition is not None:
        notes.append("Only the log of a Delta table tells how often a partition was overwritten.")
    return found, [note for note in notes if note]


def _look_at_rows(
    session: Any,
    table: ExistingTable,
    partition: PartitionTime | None,
    question: Question,
    seen: _Seen,
    *,
    count_time: bool,
) -> None:
    from setpoint.sources.existing import unreadable
    from setpoint.spark import check as rows

    needed = {name for key in question.keys for name in key} | {question.time or ""}
    stored_in = partition.columns if partition and count_time else ()
    try:
        frame = rows.frame_of(session, table, needed)
        clock = None
        if question.time and question.every:
            clock = rows.clock_of(frame, question.time, question.every, question.timezone)
        for key in question.keys:
            rows.refuse_unfit_key(frame, key)
            counts = rows.key_counts(frame, key, clock)
            _judge_key(table, question, key, counts, clock, seen, session)
        if question.time and question.every and count_time:
            # Hours even for days, to see whether a day is complete.
            fine = question.every if question.every.within_day else HOUR
            frame = rows.frame_of(session, table, needed | set(stored_in))
            clock = rows.clock_of(frame, question.time, fine, question.timezone)
            counted = rows.time_counts(frame, clock, stored_in)
            _sight(counted, clock, partition, question, seen)
    except Exception as error:
        raise unreadable(table.label, error) from error


def _judge_key(
    table: ExistingTable,
    question: Question,
    key: tuple[str, ...],
    counts: Sequence[KeyCount],
    clock: Clock | None,
    seen: _Seen,
    session: Any,
) -> None:
    from setpoint.spark import check as rows

    seen.rows = sum(count.rows for count in counts)
    seen.keys[key] = sum(count.keys for count in counts)
    null_rows = sum(count.null_rows for count in counts)
    whole: Callable[[], DataFrame] = lambda: rows.frame_of(session, table, table.columns)  # noqa: E731
    if any(count.surplus for count in counts):
        per_window: Counter[Window] = Counter()
        for count in counts:
            inside = count.surplus - count.spread_surplus
            if clock is not None and inside:
                window = window_starting(count.start, clock.naive, clock.grain, question.timezone)
                if window is not None:
                    per_window[window] += inside
        seen.surplus |= per_window
        differing = rows.difference(whole(), key, question.examples)
        seen.findings.append(
            duplicates(
                key, counts, differing, per_window, time=question.time, pipeline=question.pipeline
            )
        )
    if null_rows:
        examples = rows.null_keys(whole(), key, question.examples)
        seen.findings.append(null_key(key, null_rows, seen.rows, examples))


def _sight(
    counted: Sequence[tuple[int | None, tuple[Any, ...], int]],
    clock: Clock,
    partition: PartitionTime | None,
    question: Question,
    seen: _Seen,
) -> None:
    """Turn counts into windows."""
    columns = partition.columns if partition else ()
    for start, values, rows in counted:
        window = window_starting(start, clock.naive, clock.grain, question.timezone)
        stored = partition.window(dict(zip(columns, values, strict=True))) if partition else None
        if window is None:
            seen.timeless += rows
        else:
            seen.sightings.append(Sighting(window, stored, rows))
    seen.rows = sum(rows for _, _, rows in counted)


def _time_findings(
    seen: _Seen, partition: PartitionTime | None, question: Question
) -> list[Finding]:
    every, examples = question.every, question.examples
    if every is None or not (seen.sightings or seen.timeless):
        return []
    found: list[Finding] = []
    if seen.timeless:
        found.append(
            Finding(
                "null_time",
                f"{seen.timeless:,} rows have no {question.time} that names a window.",
                next="No window owns such rows, so no run replaces them. Fill the column.",
                figures={"rows_without_time": seen.timeless},
            )
        )
    lone: frozenset[Window] = frozenset()
    period = judge.period_of(partition)
    if seen.sightings and seen.sightings[0].window.grain.within_day and not _is_long(every):
        coarse = partition is not None and not partition.unit.nests_in(every)
        more, lone = judge.lone_windows(seen.sightings, period, examples, coarse=coarse)
        found += more
    if partition is not None:
        found += judge.outside_partition(
            seen.sightings, question.time or "time", partition, examples
        )
    step = "Run them, or see that their source has no rows."
    if question.pipeline:
        step = f"setpoint status {question.pipeline}"
    return found + judge.gaps(
        _per_window(seen, every),
        lambda window: Window.containing(window.start, period, window.timezone) in lone,
        step,
        examples,
    )


def _stored_sightings(table: ExistingTable, partition: PartitionTime) -> list[Sighting]:
    """Rows per partition as the files' statistics count them."""
    found = []
    for file in table.files:
        window = partition.window(file.partition)
        if window is not None and file.rows != 0:
            found.append(Sighting(window, None, file.rows or 0))
    return found


def _per_window(seen: _Seen, every: Grain) -> Counter[Window]:
    counts: Counter[Window] = Counter()
    for item in seen.sightings:
        window = item.window
        if not every.within_day or window.grain.within_day:
            window = Window.containing(window.start, every, window.timezone)
        counts[window] += item.rows
    return counts


def _windows(seen: _Seen, every: Grain | None) -> tuple[WindowCount, ...]:
    if every is None:
        return ()
    counts = _per_window(seen, every)
    return tuple(
        WindowCount(window.id, counts[window] or None, seen.surplus[window])
        for window in sorted({*counts, *seen.surplus})
    )


def _is_long(every: Grain) -> bool:
    return every.unit in ("week", "month")


def _refuse_nothing_to_see(
    table: ExistingTable, partition: PartitionTime | None, question: Question
) -> None:
    from setpoint.sources.existing import READ_ONLY

    if question.every is not None and question.time is None and partition is None:
        raise UsageError(
            "SP-R02",
            f"The partitions of {table.label} do not tell time, so they cannot be compared with "
            f"{question.every} windows.",
            state=READ_ONLY,
            next="Give the column that does as --time.",
        )


def _partitions(table: ExistingTable) -> list[Mapping[str, Any]]:
    """The partition values; an empty table's date columns still tell their unit."""
    if table.files:
        return [file.partition for file in table.files]
    some_day = date(2000, 1, 1)
    return [
        {name: some_day for name in table.partition_columns if table.columns.get(name) == "date"}
    ]


def _modification_times(table: ExistingTable) -> str:
    """What plain files can honestly say: how far apart the files of one partition were written."""
    spans: dict[str, list[int]] = {}
    for file in table.files:
        spans.setdefault(file.path.rpartition("/")[0], []).append(file.modified_ms)
    apart = {place: max(times) - min(times) for place, times in spans.items()}
    note = "Parquet keeps no history: how often a partition was overwritten is not known."
    worst = max(apart, key=lambda place: apart[place], default=None)
    if worst is not None and apart[worst] >= 600_000:
        times = len(spans[worst])
        note += (
            f" The {times:,} files of {worst or 'the table'} were written up to "
            f"{apart[worst] // 60_000:,} minutes apart: it was added to."
        )
    return note


def _refuse_unknown_columns(table: ExistingTable, question: Question) -> None:
    from setpoint.sources.existing import READ_ONLY

    known = ", ".join(table.columns)
    for name in [name for key in question.keys for name in key]:
        if name not in table.columns:
            raise UsageError(
                "SP-T02",
                f"{table.label} has no column {name!r:.80} (it has {known:.400}).",
                state=READ_ONLY,
                next="Correct --key; a name that holds a comma goes between backticks.",
            )
    if question.time is not None and question.time not in table.columns:
        raise UsageError(
            "SP-R02",
            f"{table.label} has no column {question.time!r:.80} (it has {known:.400}).",
            state=READ_ONLY,
            next="Correct --time.",
        )
