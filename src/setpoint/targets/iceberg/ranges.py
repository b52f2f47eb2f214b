"""What a data file's metadata says about the values of one column.

The partition it lies in and the bounds in its statistics both limit the values; together they
tell which windows a file can hold rows of, also in tables that are not partitioned by time.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema

_EPOCH = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
TIME_TRANSFORMS = ("year", "month", "day", "hour")


class Values:
    """The values that a column has in a file: between least and most, with nulls or without.

    None for a bound: not known. `nothing` means that the column is null in all rows.
    """

    def __init__(self, least: Any, most: Any, nulls: bool, nothing: bool = False) -> None:
        self.least, self.most, self.nulls, self.nothing = least, most, nulls, nothing


def values_of(
    file: DataFile, column: str, kind: str, schema: Schema, specs: dict[int, PartitionSpec]
) -> Values:
    """What is known about a column's values in a file."""
    field = schema.find_field(column)
    spec = specs[file.spec_id]
    for position, part in enumerate(spec.fields):
        if part.source_id != field.field_id or not _tells(part):
            continue
        value = file.partition[position]
        if value is None:
            return Values(None, None, nulls=True, nothing=True)
        least, most = _unit(str(part.transform), value, kind)
        lower, upper, nulls = _statistics(file, field, kind)
        if str(part.transform) == "identity":
            return Values(least, most, nulls=False)
        # The statistics are the finer ones where they are kept.
        return Values(
            least if lower is None else lower, most if upper is None else upper, nulls=False
        )
    lower, upper, nulls = _statistics(file, field, kind)
    return Values(lower, upper, nulls)


def is_value_of(
    file: DataFile, column: str, schema: Schema, specs: dict[int, PartitionSpec]
) -> bool:
    """Whether a file lies in a partition that is one value of the column."""
    number = schema.find_field(column).field_id
    parts = specs[file.spec_id].fields
    return any(part.source_id == number and str(part.transform) == "identity" for part in parts)


def ordinal(transform: str, value: Any) -> int:
    """A date or a point in time as the number of its year, month, day or hour."""
    day = value.date() if isinstance(value, datetime) else value
    match transform:
        case "year":
            return int(day.year) - 1970
        case "month":
            return (int(day.year) - 1970) * 12 + int(day.month) - 1
        case "day":
            return int((day - _EPOCH).days)
        case _:
            return int((day - _EPOCH).days) * 24 + int(value.hour)


def python_value(kind: str, stored: Any) -> Any:
    """A stored value as the slice rule compares it."""
    match kind:
        case "date":
            return _EPOCH + timedelta(days=stored)
        case "timestamp":
            return datetime(1970, 1, 1, tzinfo=timezone.utc) + stored * _MICROSECOND
        case "timestamp_ntz":
            return datetime(1970, 1, 1) + stored * _MICROSECOND  # noqa: DTZ001
        case _:
            return stored


def stored_value(kind: str, value: Any) -> Any:
    """The inverse of `python_value`: what a partition holds."""
    match kind:
        case "date":
            return (value - _EPOCH).days
        case "timestamp":
            return (value - datetime(1970, 1, 1, tzinfo=timezone.utc)) // _MICROSECOND
        case "timestamp_ntz":
            return (value - datetime(1970, 1, 1)) // _MICROSECOND  # noqa: DTZ001
        case _:
            return value


def _tells(part: PartitionField) -> bool:
    return str(part.transform) in ("identity", *TIME_TRANSFORMS)


def _unit(transform: str, value: Any, kind: str) -> tuple[Any, Any]:
    """The first and the last value of a partition."""
    try:
        if transform == "identity":
            single = python_value(kind, value)
            return single, single
        first, after = _start(transform, value, kind), _start(transform, value + 1, kind)
    except (OverflowError, ValueError):  # a date that Python cannot hold
        return None, None
    return first, after - (timedelta(days=1) if kind == "date" else _MICROSECOND)


def _start(transform: str, value: int, kind: str) -> Any:
    match transform:
        case "year":
            moment = datetime(1970 + value, 1, 1)  # noqa: DTZ001
        case "month":
            moment = datetime(1970 + value // 12, value % 12 + 1, 1)  # noqa: DTZ001
        case "day":
            moment = datetime(1970, 1, 1) + timedelta(days=value)  # noqa: DTZ001
        case _:
            moment = datetime(1970, 1, 1) + timedelta(hours=value)  # noqa: DTZ001
    if kind == "date":
        return moment.date()
    return moment.replace(tzinfo=timezone.utc) if kind == "timestamp" else moment


def _statistics(file: DataFile, field: Any, kind: str) -> tuple[Any, Any, bool]:
    number = field.field_id
    counts = file.null_value_counts or {}
    nulls = not field.required and counts.get(number) != 0
    lower = _bound((file.lower_bounds or {}).get(number), field, kind)
    upper = _bound((file.upper_bounds or {}).get(number), field, kind)
    return lower, upper, nulls


def _bound(raw: bytes | None, field: Any, kind: str) -> Any:
    from pyiceberg.conversions import from_bytes

    if raw is None:
        return None
    try:
        return python_value(kind, from_bytes(field.field_type, raw))
    except (OverflowError, ValueError):
        return None
