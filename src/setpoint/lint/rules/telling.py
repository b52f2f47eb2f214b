"""How rules say what they found."""

from __future__ import annotations

from setpoint.lint.findings import Finding, Fix, Place, Severity
from setpoint.lint.kinds import BY_NAME
from setpoint.lint.model import Target


def finding(
    kind: str,
    place: Place,
    message: str,
    repair: str,
    severity: Severity = "error",
    fix: Fix | None = None,
) -> Finding:
    return Finding(BY_NAME[kind].code, kind, place, message, repair, severity, fix=fix)


def named(target: Target) -> str:
    """A target in a message."""
    single = target.key.startswith("{") and target.key.endswith("}") and target.key.count("{") == 1
    return (target.key.strip("{}") if single else target.key) or "its target"


def column(name: str) -> str:
    return f"column {name}" if name else "a column"
