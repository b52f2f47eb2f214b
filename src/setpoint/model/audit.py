"""Audits: what must hold for the staged rows before they are published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from setpoint.errors import NOTHING_STARTED, DefinitionError

Severity = Literal["fail", "warn"]


@dataclass(frozen=True)
class NotNull:
    columns: tuple[str, ...]
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"not_null({', '.join(self.columns)})"


@dataclass(frozen=True)
class Accepted:
    column: str
    values: tuple[Any, ...]
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"accepted({self.column})"


@dataclass(frozen=True)
class InRange:
    column: str
    min: Any = None
    max: Any = None
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"in_range({self.column}, {_limits(self.min, self.max)})"


@dataclass(frozen=True)
class Unique:
    columns: tuple[str, ...]
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"unique({', '.join(self.columns)})"


@dataclass(frozen=True)
class RowCount:
    min: int | None = None
    max: int | None = None
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"row_count({_limits(self.min, self.max)})"


@dataclass(frozen=True)
class RowCountChange:
    max: float
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return f"row_count_change({self.max})"


@dataclass(frozen=True)
class Sql:
    text: str
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        shown = " ".join(self.text.split())
        return f"sql({shown if len(shown) <= 60 else shown[:57] + '...'})"

    @property
    def is_query(self) -> bool:
        """A query returns the offending rows; anything else is a condition for each row."""
        return self.text.split(None, 1)[0].lower() in ("select", "with")


@dataclass(frozen=True)
class Custom:
    function: Callable[[Any], Any]
    severity: Severity = "fail"

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "audit")


Audit = NotNull | Accepted | InRange | Unique | RowCount | RowCountChange | Sql | Custom


@dataclass(frozen=True)
class AuditResult:
    """The verdict of one audit over the staged rows of one window."""

    name: str
    severity: Severity
    passed: bool
    violations: int
    rows: int
    detail: str = ""
    sample: tuple[dict[str, Any], ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether this result alone stops the publish."""
        return not self.passed and self.severity == "fail"


def _limits(least: Any, most: Any) -> str:
    limits = {"min": least, "max": most}
    return ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None)


def rides_along(audit: Audit) -> bool:
    """Row-level audits are evaluated while the rows are staged, at no extra pass."""
    return isinstance(audit, (NotNull, Accepted, InRange)) or (
        isinstance(audit, Sql) and not audit.is_query
    )


def not_null(*columns: str, severity: Severity = "fail") -> NotNull:
    """No staged row may hold a null in one of the columns."""
    return NotNull(_columns("not_null", columns), _severity(severity))


def accepted(column: str, values: Sequence[Any], *, severity: Severity = "fail") -> Accepted:
    """The column holds only the given values; a null passes (add `not_null` to forbid it)."""
    allowed = tuple(values)
    if isinstance(values, str) or not allowed:
        raise _invalid(f"accepted({column!r}) needs a list with at least one value")
    return Accepted(_columns("accepted", (column,))[0], allowed, _severity(severity))


def in_range(
    column: str, min: Any = None, max: Any = None, *, severity: Severity = "fail"
) -> InRange:
    """The column's values lie between min and max, both included; a null passes, NaN does not."""
    if min is None and max is None:
        raise _invalid(f"in_range({column!r}) needs min=, max= or both")
    if min is not None and max is not None and min > max:
        raise _invalid(f"in_range({column!r}) has min {min!r} above max {max!r}")
    return InRange(_columns("in_range", (column,))[0], min, max, _severity(severity))


def unique(*columns: str, severity: Severity = "fail") -> Unique:
    """No two staged rows share the values of the columns; nulls are equal to each other."""
    return Unique(_columns("unique", columns), _severity(severity))


def row_count(
    min: int | None = None, max: int | None = None, *, severity: Severity = "fail"
) -> RowCount:
    """The window holds at least min and at most max rows."""
    if min is None and max is None:
        raise _invalid("row_count() needs min=, max= or both")
    if min is not None and max is not None and min > max:
        raise _invalid(f"row_count() has min {min} above max {max}")
    return RowCount(min, max, _severity(severity))


def row_count_change(max: float, *, severity: Severity = "fail") -> RowCountChange:
    """The row count differs from the previous window's by at most this share (0.5: 50 %).

    Passes, and says so, while the previous window was never published.
    """
    if max < 0:
        raise _invalid("row_count_change() needs a share of 0 or more")
    return RowCountChange(max, _severity(severity))


def sql(text: str, *, severity: Severity = "fail") -> Sql:
    """A condition that every row meets, or a query over `staged` that returns offending rows."""
    if not isinstance(text, str) or not text.strip():
        raise _invalid("sql() needs a condition or a query")
    return Sql(text, _severity(severity))


def as_audit(value: object) -> Audit:
    """Accept an audit or any function of a DataFrame."""
    if isinstance(
        value, (NotNull, Accepted, InRange, Unique, RowCount, RowCountChange, Sql, Custom)
    ):
        return value
    if callable(value):
        return Custom(value)
    raise _invalid(f"{value!r:.80} is neither an audit nor a function of a DataFrame")


def definition(audit: Audit) -> str:
    """The audit as it enters the run key."""
    if isinstance(audit, Custom):
        from setpoint.model.fingerprint import code_fingerprint

        return f"custom {audit.name} {code_fingerprint(audit.function)} {audit.severity}"
    return repr(audit)


def _columns(audit: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    if not columns or any(not isinstance(name, str) or not name for name in columns):
        raise _invalid(f"{audit}() needs one or more column names")
    return columns


def _severity(severity: str) -> Severity:
    if severity in ("fail", "warn"):
        return cast(Severity, severity)
    raise _invalid(f'severity={severity!r:.40} is neither "fail" nor "warn"')


def _invalid(what: str) -> DefinitionError:
    return DefinitionError(
        "SP-D06",
        f"{what}.",
        why="An audit that cannot be evaluated guards nothing.",
        state=NOTHING_STARTED,
        next="Correct the audits=[...] of the pipeline; the docs list them all: Audits.",
    )
