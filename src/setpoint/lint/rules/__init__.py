"""The rules, one file each. A rule looks at the model of a program and yields findings.

To add one: a kind in `kinds.py`, a file here with `check`, a line in `CHECKS`, a page in
`docs/lint/`, and fixtures in `tests/unit/lint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.model import Program
from setpoint.lint.rules import (
    append_write,
    do_nothing,
    env_drift,
    grain_mismatch,
    non_atomic_delete_insert,
    random_id,
    relative_now_read,
    retry_around_append,
    serial_key,
    split_state,
    static_overwrite,
    unbounded_read,
    unguarded_effect,
    unordered_pick,
    unstable_order_key,
    wall_clock,
)

CHECKS: dict[str, Callable[[Program], Iterator[Finding]]] = {
    "wall-clock": wall_clock.check,
    "random-id": random_id.check,
    "unstable-order-key": unstable_order_key.check,
    "append-write": append_write.check,
    "static-overwrite": static_overwrite.check,
    "non-atomic-delete-insert": non_atomic_delete_insert.check,
    "split-state": split_state.check,
    "unguarded-effect": unguarded_effect.check,
    "serial-key": serial_key.check,
    "do-nothing": do_nothing.check,
    "unbounded-read": unbounded_read.check,
    "relative-now-read": relative_now_read.check,
    "unordered-pick": unordered_pick.check,
    "grain-mismatch": grain_mismatch.check,
    "retry-around-append": retry_around_append.check,
    "env-drift": env_drift.check,
}


def check(program: Program) -> list[Finding]:
    """All findings of a program; a kind is told once per line, by its worst severity."""
    found: dict[tuple[str, int], Finding] = {}
    for rule in CHECKS.values():
        for finding in rule(program):
            key = (finding.kind, finding.place.line)
            known = found.get(key)
            if known is None or (known.severity == "info" and finding.severity == "error"):
                found[key] = finding
    return sorted(_once(list(found.values())), key=Finding.order)


def _once(findings: list[Finding]) -> list[Finding]:
    """One cause is told once, also when it decides which rows there are and what they say."""
    errors = {(f.kind, f.line) for f in findings if f.severity == "error"}
    said = {"relative-now-read": "wall-clock", "unordered-pick": "unstable-order-key"}
    return [f for f in findings if (said.get(f.kind), f.line) not in errors]
