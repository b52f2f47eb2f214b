"""File statistics from Parquet footers, so that every Delta reader can skip files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

INDEXED_COLUMNS = 32
_TEXT_LENGTH = 32
_LAST_CHARACTER = "\U0010ffff"

Path = tuple[str, ...]


@dataclass(frozen=True)
class FileStats:
    """What a footer says: the rows, and per column the nulls and the bounds."""

    rows: int
    nulls: dict[Path, int]
    least: dict[Path, Any]
    most: dict[Path, Any]

    def as_json(self) -> str:
        """The statistics as a Delta `add` action holds them."""
        body: dict[str, Any] = {"numRecords": self.rows}
        if self.nulls:
            body["minValues"] = _nested(_spelled(self.least, upper=False))
            body["maxValues"] = _nested(_spelled(self.most, upper=True))
            body["nullCount"] = _nested(self.nulls)
        return json.dumps(body)


def footer_stats(metadata: Any) -> FileStats:
    """Read the statistics of one Parquet file from its footer.

    A column is left out as soon as one row group does not tell: no statistics are better than
    wrong ones, because readers skip files by them.
    """
    nulls: dict[Path, int] = {}
    least: dict[Path, Any] = {}
    most: dict[Path, Any] = {}
    countless: set[Path] = set()
    boundless: set[Path] = set()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for position in range(min(row_group.num_columns, INDEXED_COLUMNS)):
            path = _path(metadata, position)
            if path is None:
                continue
            stats = row_group.column(position).statistics
            if stats is None or not stats.has_null_count:
                countless.add(path)
                boundless.add(path)
                continue
            nulls[path] = nulls.get(path, 0) + stats.null_count
            if stats.null_count == row_group.num_rows:
                continue
            bounds = _bounds(stats)
            if bounds is None:
                boundless.add(path)
                continue
            least[path] = min(least.get(path, bounds[0]), bounds[0])
            most[path] = max(most.get(path, bounds[1]), bounds[1])
    return FileStats(
        rows=metadata.num_rows,
        nulls={path: count for path, count in nulls.items() if path not in countless},
        least={path: value for path, value in least.items() if path not in boundless},
        most={path: value for path, value in most.items() if path not in boundless},
    )


def _path(metadata: Any, position: int) -> Path | None:
    """The column's place in the schema; None for lists, maps and names that hold a dot."""
    column = metadata.schema.column(position)
    if column.max_repetition_level > 0:
        return None
    if column.name == column.path:
        return (column.name,)
    parts = tuple(column.path.split("."))
    return parts if parts[-1] == column.name else None


def _bounds(stats: Any) -> tuple[Any, Any] | None:
    if not stats.has_min_max:
        return None
    try:
        least, most = stats.min, stats.max
    except (ValueError, OverflowError, NotImplementedError):  # a date Python cannot hold
        return None
    return (least, most) if _comparable(least) and _comparable(most) else None


def _comparable(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)  # JSON has no spelling for the others
    return isinstance(value, (bool, int, str, date, Decimal))


def _spelled(values: dict[Path, Any], *, upper: bool) -> dict[Path, Any]:
    spelled: dict[Path, Any] = {}
    for path, value in values.items():
        if isinstance(value, str) and len(value) > _TEXT_LENGTH:
            # A cut text is a lower bound; with the last of all characters it is an upper one.
            value = value[:_TEXT_LENGTH] + (_LAST_CHARACTER if upper else "")
        spelled[path] = _text(value, upper=upper)
    return spelled


def _text(value: Any, *, upper: bool) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        moment = value.astimezone(timezone.utc).replace(tzinfo=None)
        return moment.isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return _double(value, upper=upper) if isinstance(value, Decimal) else value


def _double(value: Decimal, *, upper: bool) -> float:
    """A double that is still a bound: readers hold JSON numbers as doubles, which round."""
    double = float(value)
    while (Decimal(repr(double)) < value) if upper else (Decimal(repr(double)) > value):
        double = math.nextafter(double, math.inf if upper else -math.inf)
    return double


def _nested(flat: dict[Path, Any]) -> dict[str, Any]:
    """Nested columns as nested objects, as Delta spells them."""
    body: dict[str, Any] = {}
    for (*parents, leaf), value in flat.items():
        place = body
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return body
