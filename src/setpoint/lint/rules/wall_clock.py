"""SP101 wall-clock: a clock value that becomes data, a key, a partition or a path."""

from __future__ import annotations

from collections.abc import Iterator

from setpoint.lint.findings import Finding, Severity
from setpoint.lint.judgement import lasting, quarantined, stateful
from setpoint.lint.knowledge.words import (
    is_audit_column,
    is_dated,
    is_done_list,
    is_identity,
    tokens,
)
from setpoint.lint.model import ARGUMENTS, Program, Write
from setpoint.lint.rules.telling import column, finding, named
from setpoint.lint.values import Taint
from setpoint.lint.vocabulary import vocabulary

KIND = "wall-clock"
REPAIR = "Take the value from the run's window or logical date, and pass it in as a parameter."
AUDIT_REPAIR = (
    "Leave the column out of keys, comparisons and MERGE conditions, or derive it from the window."
)
_KEPT = vocabulary(
    "backup backups archive archived log logs plot plots model models benchmark benchmarks",
)
_AWAY = vocabulary("processed done completed loaded imported old finished used")
_REPORTS = vocabulary("report reports")
_ROWS = (".csv", ".json", ".jsonl", ".parquet", ".avro", ".orc", ".tsv", ".gz")
_NO_DATA = (
    ".png",
    ".jpg",
    ".svg",
    ".pdf",
    ".html",
    ".log",
    ".pkl",
    ".pt",
    ".h5",
    ".joblib",
    ".zip",
)
_WRITING = (
    "append",
    "merge",
    "ignore",
    "overwrite",
    "replace_slice",
    "create",
    "create_as",
    "update",
    "put",
    "rename",
)


def check(program: Program) -> Iterator[Finding]:
    for trace in program.traces:
        for write in lasting(trace):
            if write.mode == "delete":
                yield from _location(write, generator=program.generator or program.seeds)
            if write.mode in _WRITING:
                yield from _location(write, generator=program.generator or program.seeds)
                yield from _columns(write, generator=program.generator or program.seeds)
        for effect in trace.effects:
            for taint in _clock(effect.content):
                yield finding(
                    KIND,
                    taint.place,
                    f"{taint.label} is part of what {effect.api} sends, so a repetition "
                    f"sends something else.",
                    REPAIR,
                    "info",
                )
    for name, taint in program.named:
        if taint.kind == "clock":
            yield finding(
                KIND,
                taint.place,
                f"{name} identifies the run and comes from the clock, so each repetition "
                f"is another run.",
                "Derive the identifier from the pipeline's name and its window.",
            )
    for table in program.tables:
        for name, taint in table.defaults:
            if taint.kind == "clock":
                yield finding(
                    KIND,
                    taint.place,
                    f"{column(name)} of {table.key} is filled by the clock.",
                    AUDIT_REPAIR,
                    "info",
                )


def _clock(taints: frozenset[Taint]) -> list[Taint]:
    return [taint for taint in taints if taint.kind == "clock" and taint.via in ("", "default")]


def _location(write: Write, *, generator: bool) -> Iterator[Finding]:
    for taint in _clock(write.location):
        kept = bool(tokens(write.target.key) & _KEPT) or quarantined(write)
        if tokens(write.target.key) & _REPORTS:
            kept = kept or not write.target.key.endswith(_ROWS)
        kept = kept or write.target.key.rstrip("}").endswith(_NO_DATA)
        # A file that was worked off is put away, under a name of its own.
        away = write.mode == "rename" and bool(tokens(write.target.key) & _AWAY)
        quiet = taint.via == "default" or kept or away or write.failing or generator
        told = write.target.key.startswith(ARGUMENTS)
        yield finding(
            KIND,
            taint.place,
            f"{taint.label} is among {write.target.key}, so a repetition is told something else."
            if told
            else f"{taint.label} is part of which place is emptied, {named(write.target)}: a "
            f"repetition on another day empties another one."
            if write.mode == "delete"
            else f"{taint.label} is part of where {named(write.target)} is written, so a "
            f"repetition writes a second copy.",
            REPAIR,
            "info" if quiet else "error",
        )


def _columns(write: Write, *, generator: bool) -> Iterator[Finding]:
    for name, taints in write.columns.items():
        for taint in _clock(taints):
            if write.mode == "put" and not name and write.target.kind != "state":
                continue
            severity, message, repair = _verdict(write, name, taint)
            severity = "info" if generator else severity
            yield finding(KIND, taint.place, message, repair, severity)


def _verdict(write: Write, name: str, taint: Taint) -> tuple[Severity, str, str]:
    where = f"{column(name)} of {named(write.target)}"
    said = name or taint.holder
    if taint.via == "default":
        return "info", f"{where} is {taint.label} when no parameter is given.", REPAIR
    if name and name in write.partitioned:
        return (
            "error",
            f"{taint.label} decides the partition {name} of {named(write.target)}: a "
            f"repetition on another day writes another one.",
            REPAIR,
        )
    if (is_audit_column(said) and not is_identity(name)) or quarantined(write):
        return "info", f"{where} is {taint.label}: it differs in every repetition.", AUDIT_REPAIR
    if not name and is_done_list(write.target.key):
        return "info", f"{where} is {taint.label}.", AUDIT_REPAIR
    if stateful(write):
        return (
            "error",
            f"{taint.label} becomes the mark in {named(write.target)}: rows that arrive "
            f"late are never read.",
            "Save the largest value that was read, not the time of reading.",
        )
    if write.target.kind in ("path", "object") and write.mode == "put" and not is_dated(name):
        return "info", f"{where} is {taint.label}.", AUDIT_REPAIR
    return "error", f"{where} is {taint.label}, so a repetition stores another value.", REPAIR
