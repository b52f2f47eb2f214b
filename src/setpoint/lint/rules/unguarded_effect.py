"""SP108 unguarded-effect: a message or call that every repetition sends again."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding

KIND = "unguarded-effect"
REPAIR = "Send it once per run key: give the call a dedup key, or let setpoint's outbox send it."


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        if trace.request:
            continue
        for effect in trace.effects:
            if effect.guarded or effect.failing:
                continue
            yield finding(
                KIND,
                effect.place,
                f"{effect.api} has no dedup key: each repetition of the run sends it again.",
                REPAIR,
                "info" if effect.notification else "error",
            )
