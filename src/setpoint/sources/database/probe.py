"""A probe: a cheap query whose answer tells whether a window's part of a database changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.errors import (
    NOTHING_STARTED,
    DefinitionError,
    PermanentError,
    SetpointError,
    TransientError,
)
from setpoint.model.fingerprint import digest
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window

if TYPE_CHECKING:
    import psycopg

_HOLE = re.compile(r"\{(start|end|date)\}")

_ADVICE = {
    "25006": "Write a probe that only reads, such as SELECT count(*), max(updated_at) FROM ...",
    "42601": "Correct probe= of the source: one SELECT, in which {start}, {end} and {date} are "
    "constants already and want no quotes.",
}

# A value of a column's kind as the database writes it: kind, then value.
Constant = Callable[[str, Any], str]


def filled(probe: str, window: Window, rule: SliceRule | None, constant: Constant) -> str:
    """The probe with the window's times in its holes, as constants of the time column's type.

    Where rows are found by the window's name, {start} is that name and {end} the next one's.
    """
    kind, first, last = bounds_of(window, rule)

    def value(found: re.Match[str]) -> str:
        if window.grain.is_incremental:
            raise _no_window(found[0])
        if found[1] == "date":
            return constant("date", window.day)
        return constant(kind, first if found[1] == "start" else last)

    return _HOLE.sub(value, probe.strip().rstrip(";"))


def bounds_of(window: Window, rule: SliceRule | None) -> tuple[str, Any, Any]:
    """The kind of a window's bounds, and the bounds."""
    if rule is None:
        rule = SliceRule("", "timestamp")
    if rule.kind in ("string", "integer", "long"):
        return rule.kind, rule.only_value(window), rule.only_value(window.next())
    return (rule.kind, *rule.bounds(window))


def asked(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    """The rows of one statement; none if it gives none.

    Sent by itself, several statements would be executed one after the other, and the first may
    end the read-only transaction in which the others were to be. A stream is sent by the
    protocol that takes one statement only.
    """
    import psycopg

    with connection.cursor() as cursor:
        try:
            return list(cursor.stream(query.encode()))
        except psycopg.ProgrammingError as error:
            if error.sqlstate:
                raise
            return []  # the driver's own: the statement was no query


def failed(name: str, label: str, error: SetpointError, said: str, code: str) -> SetpointError:
    """What the server said about a probe, with advice about the probe and not about the table."""
    if isinstance(error, TransientError):
        return error
    advice = _ADVICE.get(code, "Correct probe= of the source; it is one SELECT.")
    return PermanentError(
        "SP-R01",
        f"The probe of the source {name} ({label}) failed: {said} ({code})",
        why="Its answer tells whether the source changed; without one nothing can be told.",
        next=error.next if code == "42501" else advice,
    )


def fingerprint_of(
    name: str,
    label: str,
    probe: str,
    rows: Sequence[Sequence[Any]],
    columns: Sequence[tuple[str, str]] = (),
) -> str:
    """The fingerprint of an answer; the order of its rows does not matter.

    `columns` are those of the table with their types: a probe does not tell of a rename.
    """
    if not rows:
        raise PermanentError(
            "SP-R01",
            f"The probe of the source {name} ({label}) returned no row.",
            why="No answer is neither the same as before nor another one.",
            state=NOTHING_STARTED,
            next="Let it return one row in any case, such as SELECT count(*), max(updated_at) "
            "FROM ...",
        )
    # Another query tells of other things, even if it gives the same answer.
    answer = digest(*map(repr, sorted(map(tuple, rows), key=repr)))
    return digest(probe, answer, *(f"{column} {kind}" for column, kind in columns))


def _no_window(hole: str) -> DefinitionError:
    return DefinitionError(
        "SP-D07",
        f"A probe has the hole {hole}, but an incremental pipeline has no windows.",
        why="There is no time to put into it.",
        state=NOTHING_STARTED,
        next="Ask the whole table, for example SELECT max(updated_at) FROM ...",
    )
