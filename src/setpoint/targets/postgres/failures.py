"""A staging job that failed, in our words: by the class that the driver's error has on a worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UsageError,
)
from setpoint.model.run import Statement
from setpoint.spark.failures import explain
from setpoint.spark.workers import told_by_task
from setpoint.targets.postgres.server import Server

_DRIVER_SAID = re.compile(r"^((?:psycopg|adbc_driver_manager)\.[\w.]+): (.+)$", re.MULTILINE)
_PASSING = re.compile(
    r"^psycopg\.(OperationalError|InterfaceError)|server closed the connection"
    r"|connection to server|terminating connection|consuming input failed"
    r"|Connection (refused|reset|timed out)"
)
_SQLSTATE = re.compile(r"SQLSTATE:? ?([0-9A-Z]{5})")
_STATE = "The target is unchanged; what was staged is not visible to any reader."


@contextmanager
def without_secrets(server: Server) -> Iterator[None]:
    """Keep the password that the workers were given out of what Spark says."""
    try:
        yield
    except SetpointError as error:
        error.what, error.why = server.scrubbed(error.what), server.scrubbed(error.why)
        raise


def explained(error: Exception, run: Statement, server: Server) -> SetpointError:
    """What a worker could not do, and whether a retry may heal it."""
    if (told := told_by_task(error)) is not None:
        return told
    text = str(error)
    if "ModuleNotFoundError" in text and ("psycopg" in text or "adbc_driver" in text):
        return UsageError(
            "SP-C08",
            "The packages psycopg and adbc-driver-postgresql are missing where Spark runs Python.",
            why="Every executor writes its rows to PostgreSQL itself.",
            next="Install them there: pip install 'psycopg[binary]' adbc-driver-postgresql",
        )
    if "CharacterNotInRepertoire" in text and "0x00" in text:
        return RefusedError(
            "SP-O05",
            f"A text of {run.label} holds the character U+0000.",
            why="PostgreSQL cannot store it.",
            state="The target is unchanged; the stage was dropped.",
            next="Remove it, for example with F.translate(column, '\\u0000', '').",
        )
    causes = _DRIVER_SAID.findall(text)
    if not causes:
        found = explain(error, f"staging {run.label}")
        found.what, found.why = server.scrubbed(found.what), server.scrubbed(found.why)
        return found
    kind, words = causes[-1]
    said = server.scrubbed(" ".join(words.split()))[:400]
    code = _sqlstate(kind, words)
    if code.startswith(("22", "23")):
        return RefusedError(
            "SP-T03",
            f"A value of {run.label} does not fit its column: {said}",
            why="PostgreSQL converts every value or none.",
            state="The target is unchanged; the stage was dropped.",
            next="Correct the rows or the column, then run again.",
        )
    if code:
        return server.refusal(code, said, f"a task staged {run.label}", state=_STATE)
    passing = _PASSING.search(f"{kind}: {words}") is not None
    return (TransientError if passing else PermanentError)(
        "SP-T01",
        f"Staging {run.label} on the connection {server.name} failed: {said} ({kind})",
        why="A task could not write its rows.",
        state=_STATE,
        next="Run again; it is always safe."
        if passing
        else "Correct the cause, then run again; it is always safe.",
    )


def _sqlstate(kind: str, words: str) -> str:
    """The server's code: psycopg has a class for each, ADBC writes it into the text."""
    import psycopg

    module, _, name = kind.rpartition(".")
    if module == "psycopg.errors":
        return getattr(getattr(psycopg.errors, name, None), "sqlstate", None) or ""
    found = _SQLSTATE.search(words)
    return found[1] if found else ""
