"""What a PostgreSQL server answers instead of doing it, in our words: by the SQLSTATE."""

from __future__ import annotations

import re

from setpoint.errors import (
    UNCHANGED,
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
)

LOST = ("57P01", "57P02", "57P03")
_PASSING = ("08", "53", "57P", "40", "55P03", "58")
_ACCESS = ("28", "3D", "3F")
_SAFE = "Run again; it is always safe."
_STAGE = re.compile(r'relation "(?:setpoint\.)?stage_')
_DENIED = re.compile(r"permission denied for (table|relation|schema|sequence|function) (.+)")
_RIGHTS = {"schema": "USAGE ON SCHEMA", "sequence": "USAGE ON SEQUENCE", "function": "EXECUTE ON"}
_BLOCKERS = (
    "SELECT pid, usename, state, query FROM pg_stat_activity "
    "WHERE pid IN (SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity)"
)


def refusal(
    code: str, said: str, doing: str, *, server: str, user: str, named: str = "", state: str = ""
) -> SetpointError:
    """The error behind an SQLSTATE; `named` is the constraint or column that the server names."""
    state = state or UNCHANGED
    if code.startswith("08") or code in LOST:
        return TransientError(
            "SP-T01",
            f"The connection {server} was lost while {doing}: {said}",
            why="The server has rolled back what was not committed.",
            state=state,
            next=_SAFE,
        )
    if code == "57014":
        return TransientError(
            "SP-T01",
            f"PostgreSQL cancelled a statement while {doing}: {said}",
            why="Somebody cancelled it, or a time limit of the server did.",
            state=state,
            next=_SAFE,
        )
    if code in ("55P03", "40P01", "40001"):
        return TransientError(
            "SP-P01",
            f"PostgreSQL gave up waiting while {doing}: {said}",
            why="Another session holds what this one needs.",
            state=state,
            next=f"{_SAFE} Who is in the way: {_BLOCKERS}",
        )
    if code == "42P01" and _STAGE.search(said):
        return TransientError(
            "SP-P04",
            f"The stage is gone ({doing}): {said}",
            why="Somebody dropped it, for example with setpoint recover --clean.",
            state=state,
            next="Run again; the new attempt stages afresh.",
        )
    if code.startswith(("22", "23")):
        return _of_the_rows(code, said, doing, named, state)
    return _of_the_server(code, said, doing, user, state)


def _of_the_rows(code: str, said: str, doing: str, named: str, state: str) -> SetpointError:
    if code == "23514" and "no partition" in said:
        return RefusedError(
            "SP-T03",
            f"The table has no partition for rows of this run ({doing}): {said}",
            why="PostgreSQL stores a row only where a partition takes it.",
            state=state,
            next="Create the partition, for example CREATE TABLE ... PARTITION OF ... FOR "
            "VALUES FROM ... TO ..., then run again.",
        )
    if code.startswith("23"):
        return RefusedError(
            "SP-T03",
            f"The constraint {named or '?'} of the table was violated while {doing}: {said}",
            why="The table allows no such row.",
            state=state,
            next="Correct the rows or the constraint, then run again.",
        )
    return RefusedError(
        "SP-T03",
        f"A value does not fit its column ({doing}): {said}",
        why="PostgreSQL converts or stores every value or none.",
        state=state,
        next="Correct the rows or the column, then run again.",
    )


def _of_the_server(code: str, said: str, doing: str, user: str, state: str) -> SetpointError:
    what = f"PostgreSQL refused while {doing}: {said} ({code})"
    if code == "53100":
        return PermanentError(
            "SP-T01",
            what,
            why="The server's disk is full.",
            state=state,
            next="Make room there, then run again; it is always safe.",
        )
    if code == "25006":
        return PermanentError(
            "SP-T01",
            what,
            why="The server takes no writes: a standby, or default_transaction_read_only.",
            state=state,
            next="Name the primary in the connection; with several hosts add "
            "target_session_attrs=read-write to its URL.",
        )
    denied = _DENIED.search(said)
    if code == "42501" and denied:
        kind, thing = denied.groups()
        rights = _RIGHTS.get(kind, "SELECT, INSERT, UPDATE, DELETE ON")
        return PermanentError(
            "SP-T03",
            what,
            why=f"The user {user} lacks a right." if user else "The user lacks a right.",
            state=state,
            next=f"Have it granted: GRANT {rights} {thing} TO "
            + (f'"{user}"' if user else "<user>"),
        )
    kind_of = TransientError if code.startswith(_PASSING) else PermanentError
    return kind_of(
        "SP-T01" if code.startswith(_ACCESS) else "SP-T03",
        what,
        why="The server's own words say what it lacks or does not allow.",
        state=state,
        next="Correct the cause, then run again; it is always safe.",
    )
