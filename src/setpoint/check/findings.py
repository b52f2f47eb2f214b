"""What a check can find in a table, and when the figures amount to a finding."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from setpoint.check.partitions import DAY, PartitionTime
from setpoint.model.grain import Grain
from setpoint.model.window import Window

if TYPE_CHECKING:
    from setpoint.sources.existing import Write

FindingKind = Literal[
    "duplicates",
    "null_key",
    "null_time",
    "coarse_partition",
    "repeated_overwrites",
    "lone_window",
    "gaps",
    "outside_partition",
]

# One run and the retries that people make by hand; a partition that is replaced more often is
# not being retried.
_OFTEN = 5
# A longer stretch without rows separates two stretches of data; it is no gap in one of them.
_LONGEST_GAP = 366


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a table: a sentence, figures, examples and a next step."""

    kind: FindingKind
    message: str
    next: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The finding as it stands in the JSON answer."""
        return {
            "kind": self.kind,
            "message": self.message,
            "next": self.next,
            **self.figures,
            "examples": list(self.examples),
        }


@dataclass(frozen=True)
class Sighting:
    """Rows that share a fine window, seen in a partition."""

    window: Window
    partition: Window | None
    rows: int


def coarse_partition(partition: PartitionTime | None, every: Grain) -> list[Finding]:
    """A partition that holds several windows: replacing it for one of them wipes the others."""
    if partition is None or partition.unit.nests_in(every):
        return []
    windows = _windows_in(partition.unit, every)
    others = (
        f"the other {windows - 1} {every} windows in it"
        if windows > 1
        else "parts of its neighbours"
    )
    return [
        Finding(
            "coarse_partition",
            f"The table is partitioned by {partition.unit} ({', '.join(partition.columns)}), but "
            f"written every {every}: a run that replaces its partition deletes {others}.",
            next=f"Partition the table by {every} or finer, or run every {partition.unit}.",
            figures={
                "partition_unit": str(partition.unit),
                "partition_columns": list(partition.columns),
                "every": str(every),
                "windows_per_partition": windows,
            },
        )
    ]


def repeated_overwrites(
    writes: Sequence[Write], partition: PartitionTime | None, every: Grain, examples: int
) -> list[Finding]:
    """Partitions that were replaced more often than a pipeline of this grain would do it."""
    if partition is None:
        return []
    counts: Counter[Window] = Counter()
    lost: Counter[Window] = Counter()
    moments: defaultdict[Window, list[int]] = defaultdict(list)
    for write in writes:
        window = partition.window(write.partition)
        if window is not None and write.overwrites:
            counts[window] += 1
            lost[window] += bool(write.removed)
            moments[window].append(write.timestamp_ms)
    coarse = not partition.unit.nests_in(every)
    often = 2 if coarse else _OFTEN
    found = {window: n for window, n in counts.items() if n >= often and lost[window]}
    if not found:
        return []
    worst, most = max(found.items(), key=lambda item: (item[1], item[0]))
    expected = _windows_in(partition.unit, every) if coarse else 1
    why = (
        f"{_a(every)} pipeline runs {expected} times per {partition.unit}, and each run replaced "
        "the rows of the run before"
        if coarse
        else f"{_a(every)} pipeline writes it once; this looks like runs that are more frequent "
        "than their partition"
    )
    more = "" if len(found) == 1 else f" ({len(found):,} partitions like this)"
    return [
        Finding(
            "repeated_overwrites",
            f"The partition of {worst.id} was overwritten {most:,} times{more}: {why}. Only the "
            "rows of the last run survive.",
            next="Partition by the unit of the run, or replace only the run's own slice, then "
            "run the lost windows again.",
            figures={
                "partitions": len(found),
                "most_overwrites": most,
                "expected_overwrites": 1,
                "runs_per_partition": expected,
            },
            examples=tuple(
                {
                    "partition": window.id,
                    "overwrites": n,
                    "first": _moment(min(moments[window])),
                    "last": _moment(max(moments[window])),
                }
                for window, n in sorted(found.items(), key=lambda item: (-item[1], item[0]))
            )[:examples],
        )
    ]


def lone_windows(
    sightings: Sequence[Sighting], period: Grain, examples: int, *, coarse: bool
) -> tuple[list[Finding], frozenset[Window]]:
    """Days (or other partitions) whose rows all lie in one window, though they should spread.

    They should where the partition is coarser than the window, or where most other days do.
    """
    days: defaultdict[Window, Counter[Window]] = defaultdict(Counter)
    for item in sightings:
        day = Window.containing(item.window.start, period, item.window.timezone)
        days[day][item.window] += item.rows
    lone = {day: next(iter(parts)) for day, parts in days.items() if len(parts) == 1}
    if all(window.start == day.start for day, window in lone.items()):
        return [], frozenset()  # midnight only: a day that has begun, or a date without a time
    if not coarse and median(len(parts) for parts in days.values()) < 3:
        return [], frozenset()
    newest = max(days)
    found = {
        day: window
        for day, window in sorted(lone.items())
        if days[day][window] > 1 and not (day == newest and window.start == day.start)
    }
    if not found:
        return [], frozenset()
    day, window = next(iter(found.items()))
    more = "" if len(found) == 1 else f", and so do {len(found) - 1:,} more of {len(days):,}"
    finding = Finding(
        "lone_window",
        f"{str(period).capitalize()} {day.id} holds rows of {_part(window)} only{more}: it looks "
        f"as if each run had replaced the whole {period}.",
        next="Find out which write replaces the whole partition, then run the lost windows again.",
        figures={"periods": len(found), "of": len(days), "unit": str(period)},
        examples=tuple(
            {"period": day.id, "window": window.id, "rows": days[day][window]}
            for day, window in found.items()
        )[:examples],
    )
    return [finding], frozenset(found)


def gaps(
    filled: Mapping[Window, int], inside: Callable[[Window], bool], next_step: str, examples: int
) -> list[Finding]:
    """Windows without rows between windows with rows; regular pauses and lone days excepted."""
    ordered = sorted(filled)
    empty: list[Window] = []
    for before, after in pairwise(ordered):
        stretch: list[Window] = []
        window = before.next()
        while window < after and len(stretch) <= _LONGEST_GAP:
            stretch.append(window)
            window = window.next()
        if len(stretch) <= _LONGEST_GAP:
            empty += [window for window in stretch if not inside(window)]
    pauses = _pauses(ordered, empty)
    missing = [window for window in empty if not any(slot in pauses for slot in _slots(window))]
    if not missing or len(missing) > len(ordered):
        return []
    listed = ", ".join(window.id for window in missing[:3])
    more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
    total = len(ordered) + len(missing)
    return [
        Finding(
            "gaps",
            f"{len(missing):,} of {total:,} {missing[0].grain} windows from {ordered[0].id} to "
            f"{ordered[-1].id} are empty, though their neighbours hold rows: {listed}{more}.",
            next=next_step,
            figures={"empty": len(missing), "windows_in_range": total},
            examples=tuple({"window": window.id} for window in missing[:examples]),
        )
    ]


def outside_partition(
    sightings: Iterable[Sighting], time: str, partition: PartitionTime, examples: int
) -> list[Finding]:
    """Rows whose time lies in another partition than the one they are stored in."""
    counts: Counter[tuple[Window, Window]] = Counter()
    for item in sightings:
        if item.partition is None:
            continue
        own = Window.containing(item.window.start, partition.unit, partition.timezone)
        if own != item.partition:
            counts[item.partition, own] += item.rows
    if not counts:
        return []
    rows = sum(counts.values())
    (stored, own), most = max(counts.items(), key=lambda item: item[1])
    return [
        Finding(
            "outside_partition",
            f"{rows:,} rows lie outside their partition: {most:,} rows of partition {stored.id} "
            f"have a {time} in {own.id}.",
            next="A run that replaces a partition deletes such rows, or leaves them behind. Derive "
            f"the partition from {time}; if the partition is in another time zone than "
            f"{partition.timezone}, give --timezone.",
            figures={"rows_outside": rows, "partitions": len({pair[0] for pair in counts})},
            examples=tuple(
                {"partition": pair[0].id, "time_in": pair[1].id, "rows": n}
                for pair, n in counts.most_common(examples)
            ),
        )
    ]


def period_of(partition: PartitionTime | None) -> Grain:
    """The stretch over which rows should spread: the partition's unit, at least a day."""
    if partition is None or partition.unit.within_day:
        return DAY
    return partition.unit


def _pauses(filled: Sequence[Window], empty: Sequence[Window]) -> set[tuple[str, int]]:
    """Weekdays and times of day that never hold rows: closed, not missing."""
    used = {slot for window in filled for slot in _slots(window)}
    days: defaultdict[tuple[str, int], set[object]] = defaultdict(set)
    for window in empty:
        for slot in _slots(window):
            days[slot].add(window.day)
    return {slot for slot, on in days.items() if slot not in used and len(on) > 1}


def _slots(window: Window) -> list[tuple[str, int]]:
    slots = []
    if window.grain.within_day:
        slots.append(("time", window.start.hour * 60 + window.start.minute))
    if window.grain.within_day or window.grain == DAY:
        slots.append(("weekday", window.start.weekday()))
    return slots


def _windows_in(unit: Grain, every: Grain) -> int:
    return unit.nominal_minutes // every.nominal_minutes


def _part(window: Window) -> str:
    if window.grain.unit == "hour":
        return f"hour {window.start:%H}"
    return window.id


def _a(every: Grain) -> str:
    return f"{'an' if every.unit == 'hour' else 'a'} {every}"


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")
