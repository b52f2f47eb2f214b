"""SP102 random-id: a random value that becomes data, a key or a path."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.judgement import asked_for, lasting, quarantined
from setpoint.lint.knowledge.words import tokens
from setpoint.lint.model import Program, Write
from setpoint.lint.rules.telling import column, finding, named
from setpoint.lint.values import Taint

KIND = "random-id"
REPAIR = (
    "Derive the value from the row's business key (for example setpoint.surrogate_key), or seed it."
)


def check(program: Program) -> Iterator[Finding]:
    made = program.generator or program.seeds
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode in ("delete", "truncate", "drop"):
                continue
            for taint in _random(program, write.location):
                yield finding(
                    KIND,
                    taint.place,
                    f"{taint.label} is part of where {named(write.target)} is written, so "
                    f"a repetition writes a second copy.",
                    REPAIR,
                    "info" if quarantined(write) or made or _staged(write) else "error",
                )
            asked = asked_for(program, write)
            for name, taints in write.columns.items():
                for taint in _random(program, taints):
                    if write.mode == "put" and not name:
                        continue
                    yield finding(
                        KIND,
                        taint.place,
                        f"{column(name)} of {named(write.target)} is {taint.label}, so a "
                        f"repetition gives the same row another value.",
                        REPAIR,
                        "info" if made or _plain(write) or asked else "error",
                    )
    for name, taint in program.named:
        if taint.kind == "random":
            yield finding(
                KIND,
                taint.place,
                f"{name} identifies the run and is random, so each repetition is another run.",
                "Derive the identifier from the pipeline's name and its window.",
            )


def _staged(write: Write) -> bool:
    """A place that is read once more in the same run, and needs a name of its own."""
    return bool(tokens(write.target.key) & {"staging", "stage", "unload", "spool"})


def _plain(write: Write) -> bool:
    """A file that is written as text: a report more often than a table."""
    tables = ("to_", "write_table", "write_dataset", "write_to_dataset", "write_feather")
    return write.mode == "put" and not write.api.startswith(tables)


def _random(program: Program, taints: frozenset[Taint]) -> list[Taint]:
    return [
        taint
        for taint in taints
        if taint.kind == "random" and not (program.seeded and "uuid" not in taint.label.lower())
    ]
