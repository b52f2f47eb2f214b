"""SP115 retry-around-append: retries repeat a write that adds rows each time."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding, Place
from setpoint.lint.judgement import bare_appends, quarantined
from setpoint.lint.model import Program
from setpoint.lint.rules.telling import finding, named

KIND = "retry-around-append"
REPAIR = "Make the write repeatable first; then retries are safe."


def check(program: Program) -> Iterator[Finding]:
    told: set[Place] = set()
    for trace, write in bare_appends(program):
        if quarantined(write) or write.failing:
            continue
        place = write.retry or trace.retry
        if place is None and trace.task:
            place = program.retries
        if place is not None and place not in told:
            told.add(place)
            yield finding(
                KIND,
                place,
                f"Retries repeat the append to {named(write.target)} (line "
                f"{write.place.line}): each attempt adds its rows.",
                REPAIR,
            )
