"""What tasks of ours have in common: they travel by value, and tell of failures in one line.

A task cannot raise errors of this package: it need not be installed where tasks run. It writes
one line with a mark instead, which every explanation of a Spark failure looks for first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UsageError,
    shortened,
)
from setpoint.spark.bad_lines import told_of_line

# What an expression of ours raises inside of a Spark job: a code, a bar, and what happened.
OWN_START, OWN_END = "[[setpoint:", ":setpoint]]"
_OWN = re.compile(rf"{re.escape(OWN_START)}(SP-[A-Z]\d\d)\|(.*?){re.escape(OWN_END)}", re.DOTALL)
MARK = "setpoint could not read a source: "
_LINE = re.compile(re.escape(MARK) + r"(\{.*\})")
_UNREADABLE = re.compile(r'"unreadable: (?P<which>.*?)"')
_PASSING = ("08", "40", "53", "55P03", "57", "58")
# The words of a connection that broke off; the server could send no code for it.
_BROKEN = re.compile(
    r"server closed the connection|connection to server|terminating connection"
    r"|Connection (refused|reset|timed out)|consuming input failed|no connection to the server"
    r"|SSL (connection|SYSCALL)",
    re.IGNORECASE,
)
_SERVER_SAID = re.compile(r"(?:ERROR|FATAL): +(.*?)(?:\.? SQLSTATE:.*)?$")
_STATE = "The target is unchanged; what was staged is not visible to any reader."
_AGAIN = "Run again; it is always safe."


def quick_next() -> Callable[[], None]:
    """A function for the end of a task, after which the next one in its worker starts at once.

    At the start of a task Spark has every finder read its archive again: pyspark's own, a tenth
    of a second of processor time. Without its finders the next task starts at once.
    """

    def forget() -> None:
        import sys
        from zipimport import zipimporter

        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimporter):
                del sys.path_importer_cache[path]

    return forget


def told_by_task(error: BaseException) -> SetpointError | None:
    """The failure of a reading task behind a Spark error, or None if it is another one."""
    text = str(error)
    if own := _OWN.search(text):
        if own[2].startswith("{"):
            return told_of_line(own[2])
        landed = " What was landed is kept." if own[1] == "SP-H05" else ""
        return RefusedError(
            own[1],
            shortened(" ".join(own[2].split())),
            why="A value that is not what it should be must not become a null or another value.",
            state=_STATE + landed,
            next="Correct the schema of the source, then run again.",
        )
    found = _LINE.search(text)
    if found is None:
        return None
    try:
        body: dict[str, Any] = json.loads(found[1])
    except ValueError:
        return None
    return _failure(body)


def _failure(body: dict[str, Any]) -> SetpointError:
    label, code, said = str(body["label"]), str(body["state"]), _words(str(body["said"]))
    if body["kind"] in ("ImportError", "ModuleNotFoundError"):
        return UsageError(
            "SP-C08",
            f"A package is missing where Spark runs Python: {said}.",
            why=f"Every executor reads its rows of {label} itself.",
            state=_STATE,
            next="Install it there: pip install adbc-driver-postgresql",
        )
    if code in ("22023", "42704") and "snapshot" in said:
        return TransientError(
            "SP-R04",
            f"The snapshot in which {label} is read was lost: {said}.",
            why="The transaction that holds it has ended: somebody ended it, or the server "
            "restarted. Another snapshot would show other rows.",
            state=_STATE,
            next=f"{_AGAIN} A retry reads everything afresh.",
        )
    if code == "55P03":
        return TransientError(
            "SP-R01",
            f"{_capital(label)} could not be read to its end: {said}.",
            why="Another session wants the table to itself, as TRUNCATE, ALTER TABLE and VACUUM "
            "FULL do. It waits for the read to end, and new tasks of the read wait behind it.",
            state=_STATE,
            next=f"{_AGAIN} The other session goes first then.",
        )
    unreadable = _UNREADABLE.search(said)
    if unreadable or body["column"]:
        which = unreadable["which"] if unreadable else f"{body['column']}: {said}"
        return PermanentError(
            "SP-R01",
            f"{_capital(label)} holds a value that Spark cannot hold: {which}.",
            why="Dates go from the year 1 to 9999, numbers have at most 38 digits (a numeric "
            "without limits 18 of them after the point), and arrays one dimension.",
            state=_STATE,
            next="Correct the value, or read a view that leaves it out or casts it to text.",
        )
    passing = code.startswith(_PASSING) if code else bool(_BROKEN.search(said))
    return (TransientError if passing else PermanentError)(
        "SP-R01",
        f"{_capital(label)} could not be read to its end: {said}.",
        why="A task lost its connection, or the server refused it.",
        state=_STATE,
        next=_AGAIN if passing else "Correct the cause, then run again; it is always safe.",
    )


def _words(said: str) -> str:
    """What the server said, without what the driver says around it."""
    found = _SERVER_SAID.search(said)
    return (found[1] if found else said).rstrip(" .")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
