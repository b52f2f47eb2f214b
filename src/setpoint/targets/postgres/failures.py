"""A staging job that failed, in our words: by the class that the driver's error has on a worker."""

from __future__ import annotations

import re

from setpoint.errors import RefusedError, SetpointError, TransientError, UsageError
from setpoint.model.run import Run
from setpoint.spark.failures import explain
from setpoint.targets.postgres.server import Server

_DRIVER_SAID = re.compile(r"^((?:psycopg|adbc_driver_manager)\.[\w.]+): (.+)$", re.MULTILINE)
_PASSING = re.compile(
    r"^psycopg\.OperationalError|AdminShutdown|CrashShutdown|CannotConnectNow|TooManyConnections"
    r"|DiskFull|server closed the connection|connection to server|terminating connection"
    r"|consuming input failed|Connection (refused|reset|timed out)|LockNotAvailable"
)


def explained(error: Exception, run: Run, server: Server) -> SetpointError:
    """What a worker could not do, and whether a retry may heal it."""
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
        found.what = server.scrubbed(found.what)
        return found
    kind, words = causes[-1]
    said = server.scrubbed(" ".join(words.split()))[:400]
    if _PASSING.search(f"{kind}: {words}"):
        return TransientError(
            "SP-T01",
            f"Staging {run.label} on the connection {server.name} failed: {said}",
            why="A task could not write its rows.",
            state="The target is unchanged; what was staged is not visible to any reader.",
            next="Run again; it is always safe.",
        )
    return RefusedError(
        "SP-T03",
        f"A value of {run.label} does not fit its column: {said}",
        why="PostgreSQL converts every value or none.",
        state="The target is unchanged; the stage was dropped.",
        next="Correct the rows or the column, then run again.",
    )
