"""From `--table orders=delta:lake/orders` and `--state mark.json` to places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.project.adapters import Adapters
from setpoint.prove.command.files import FilePlace, FolderTable
from setpoint.prove.command.places import Place, Table
from setpoint.prove.command.postgres.table import PostgresTable

KINDS = ("delta", "parquet", "iceberg", "table", "postgres")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORMS = (
    "Write --table orders=delta:PATH, orders=parquet:PATH, orders=iceberg:CATALOG.DB.TABLE or "
    "orders=postgres:CONNECTION/SCHEMA.TABLE."
)


def table_of(text: str, adapters: Adapters, here: Path) -> Table:
    """The table that a person names."""
    name, equals, place = text.partition("=")
    kind, colon, where = place.partition(":")
    if not equals or not colon or not where or kind not in KINDS or not _NAME.fullmatch(name):
        raise _unreadable(f"--table {text!r:.120} does not say name=kind:place")
    if name == "window":
        raise _unreadable("a table cannot be called window: {window} is the window")
    match kind:
        case "delta" | "parquet":
            if "://" in where and not where.startswith("file:"):
                raise UsageError(
                    "SP-V22",
                    f"{place} lies in an object store.",
                    why="Its state before the proof could not be brought back exactly.",
                    state=NOTHING_STARTED,
                    next="Copy a part of the table to a folder of this machine and prove the "
                    "command on that.",
                )
            path = here / where.removeprefix("file://").removeprefix("file:")
            return FolderTable(name, path.absolute(), "delta" if kind == "delta" else "parquet")
        case "postgres":
            connection, _, table = where.rpartition("/")
            return PostgresTable.named(name, adapters.server(connection or "postgres"), table)
        case "iceberg":
            from setpoint.prove.command.iceberg import IcebergTable

            return IcebergTable(name, *adapters.catalogued(where))
        case _:
            raise UsageError(
                "SP-V22",
                f"{place} is in a metastore, which could not be restored along with its files.",
                why="What the command does to partitions in the metastore would stay.",
                state=NOTHING_STARTED,
                next=f"Prove the command on the table's folder: --table {name}=parquet:PATH",
            )


def state_of(text: str, number: int, here: Path) -> Place:
    """A file or folder of the command's state; it may have a name, as a table has."""
    name, equals, path = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        name, path = re.sub(r"\W", "_", f"{Path(text).name}"), text
        name = name if _NAME.fullmatch(name) else f"state{number}"
    if not path:
        raise _unreadable(f"--state {text!r:.120} names no file")
    return FilePlace(name, (here / path).absolute())


def place_named(text: str, adapters: Adapters, here: Path) -> Place:
    """A place by what was written down about it: a table if it reads like one."""
    kind = text.partition("=")[2].partition(":")[0]
    return table_of(text, adapters, here) if kind in KINDS else state_of(text, 0, here)


def places_of(
    tables: Sequence[str], states: Sequence[str], adapters: Adapters, here: Path
) -> tuple[tuple[Table, ...], tuple[Place, ...]]:
    """All tables, and all places: tables first."""
    if not tables:
        raise _unreadable("--command needs --table: which tables does it write?")
    found = tuple(table_of(text, adapters, here) for text in tables)
    others = tuple(state_of(text, number, here) for number, text in enumerate(states, 1))
    names = [place.name for place in (*found, *others)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _unreadable(f"two places are called {twice}")
    known: dict[str, str] = {}
    for place in (*found, *others):
        if (first := known.setdefault(place.identity, place.name)) != place.name:
            raise _unreadable(f"{first} and {place.name} are two names of one place: {place.label}")
    return found, (*found, *others)


def _unreadable(what: str) -> UsageError:
    return UsageError(
        "SP-V20",
        f"{what}.",
        why="A proof compares the tables that a command writes, and restores them.",
        state=NOTHING_STARTED,
        next=_FORMS,
    )
