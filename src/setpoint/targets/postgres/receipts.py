"""The tables of the schema `setpoint`: receipts and tombstones, changed with the rows they tell of.

All receipts are kept: PostgreSQL has no log retention that would take them away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError
from setpoint.model.receipt import Receipt, seal, unseal
from setpoint.targets.postgres.names import OURS

if TYPE_CHECKING:
    import psycopg

RECEIPTS = f"{OURS}.receipts"
TOMBSTONES = f"{OURS}.tombstones"
_TURNS = 5
# `table_rows` counts the table after a keyed write; `drifted` tells that the count was not what the
# receipt before had left.
_TABLES = f"""
CREATE TABLE IF NOT EXISTS {RECEIPTS} (
    number bigint GENERATED ALWAYS AS IDENTITY,
    table_id bigint NOT NULL,
    target text NOT NULL,
    pipeline text NOT NULL,
    "window" text NOT NULL,
    generation bigint NOT NULL,
    attempt text NOT NULL,
    xid bigint NOT NULL,
    data_xid bigint NOT NULL,
    seen text NOT NULL,
    rows_kept bigint NOT NULL,
    table_rows bigint,
    drifted boolean NOT NULL DEFAULT false,
    receipt text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_id, pipeline, "window", generation)
);
CREATE TABLE IF NOT EXISTS {TOMBSTONES} (
    table_id bigint NOT NULL,
    key text[] NOT NULL,
    sequence text[] NOT NULL,
    pipeline text NOT NULL,
    "window" text NOT NULL,
    PRIMARY KEY (table_id, key, pipeline, "window")
);
"""
_LATEST = f"""
SELECT DISTINCT ON ("window") "window", receipt, number, generation, xid, data_xid, seen, rows_kept
FROM {RECEIPTS}
WHERE table_id = $1 AND pipeline = $2 AND ($3::text[] IS NULL OR "window" = ANY ($3::text[]))
ORDER BY "window", generation DESC
"""


@dataclass(frozen=True)
class Landed:
    """A receipt's row: the receipt, and what tells later whether its rows are still there.

    `data_xid` is the transaction that wrote the rows, `seen` the snapshot it saw, `rows_kept` the
    rows it left in its slice.
    """

    receipt: Receipt | None
    number: int
    generation: int
    xid: int
    data_xid: int
    seen: str
    rows_kept: int


def ensure_schema(connection: psycopg.Connection[Any]) -> None:
    """The schema `setpoint` with its tables, made on first use, by several at once if need be."""
    import psycopg

    for _ in range(_TURNS):
        if exists(connection):
            return
        try:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {OURS}; {_TABLES}")
            return
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
            continue  # IF NOT EXISTS looks before it makes: another session was in between
        except psycopg.errors.DuplicateTable:
            continue
        except psycopg.errors.InsufficientPrivilege as error:
            raise PermanentError(
                "SP-T03",
                "This user may not create the schema setpoint in the database.",
                why="Receipts and stages are kept there, in the transaction of the rows.",
                next=f"Have it made once: CREATE SCHEMA {OURS} AUTHORIZATION <user>",
            ) from error
    if not exists(connection):
        raise PermanentError(
            "SP-T03",
            f"The tables of the schema {OURS} could not be made.",
            next="Run again; if it happens twice, look at the server's log.",
        )


def exists(connection: psycopg.Connection[Any]) -> bool:
    """Whether both tables are there."""
    found = connection.execute(
        f"SELECT to_regclass('{RECEIPTS}') IS NOT NULL AND to_regclass('{TOMBSTONES}') IS NOT NULL"
    ).fetchone()
    return bool(found and found[0])


def latest(
    connection: psycopg.Connection[Any],
    table: int,
    pipeline: str,
    windows: Sequence[str] | None = None,
) -> dict[str, Landed]:
    """The latest receipt of each window."""
    ids = None if windows is None else list(windows)
    found = connection.execute(_LATEST, [table, pipeline, ids]).fetchall()
    return {row[0]: Landed(_read(row[1]), *row[2:]) for row in found}


def of_attempt(
    connection: psycopg.Connection[Any], pipeline: str, window: str, attempt: str
) -> tuple[Receipt, int, int] | None:
    """An attempt's receipt with its transaction and table."""
    row = connection.execute(
        f"SELECT receipt, xid, table_id FROM {RECEIPTS} "
        'WHERE attempt = $1 AND "window" = $2 AND pipeline = $3',
        [attempt, window, pipeline],
    ).fetchone()
    receipt = _read(row[0]) if row else None
    return (receipt, row[1], row[2]) if row and receipt else None


def insert(
    connection: psycopg.Connection[Any], receipt: Receipt, values: Mapping[str, Any]
) -> None:
    """Write a receipt; the primary key is the fence behind the lock."""
    row = {
        "pipeline": receipt.pipeline,
        '"window"': receipt.window,
        "generation": receipt.generation,
        "attempt": receipt.attempt,
        "receipt": seal([receipt]),
        **values,
    }
    places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
    connection.execute(
        f"INSERT INTO {RECEIPTS} ({', '.join(row)}) VALUES ({places})", list(row.values())
    )


def _read(text: str) -> Receipt | None:
    found = unseal(text)
    return found[0] if found else None
