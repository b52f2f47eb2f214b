"""Tables that do more than they are told: triggers that leave rows out, keys that cascade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.errors import UNCHANGED, RefusedError
from setpoint.model.pipeline import Pipeline
from setpoint.model.run import Statement
from setpoint.model.write import KEYED
from setpoint.targets.postgres.catalog import StoredTable
from setpoint.targets.postgres.names import TableName

if TYPE_CHECKING:
    import psycopg


def keep_writers_out(connection: psycopg.Connection[Any], name: TableName) -> None:
    """Let nobody else write until the transaction ends; readers are not kept waiting."""
    connection.execute(f"LOCK TABLE {name.sql} IN SHARE ROW EXCLUSIVE MODE")


def counted(
    connection: psycopg.Connection[Any], run: Statement, batch: str, statement: str, matching: str
) -> int:
    """Execute a statement that must concern every row of `matching`: how many it wrote.

    Both are of one snapshot, so with other writers kept out only a trigger makes them differ.
    """
    head = f"{batch}, " if batch else "WITH "
    found = connection.execute(
        f"{head}wanted AS (SELECT count(*) AS rows FROM {matching}), "
        f"done AS ({statement} RETURNING 1) SELECT (SELECT count(*) FROM done), rows FROM wanted",
        binary=True,
    ).fetchone()
    done, wanted = found or (0, 0)
    if done != wanted:
        verb = statement.split(maxsplit=1)[0]
        raise left_out(
            f"{verb} had to change {wanted:,} rows for {run.label}, and changed {done:,}."
        )
    return int(done)


def left_out(what: str) -> RefusedError:
    """A trigger answered a row with nothing."""
    return RefusedError(
        "SP-T03",
        what,
        why="A BEFORE trigger of the table must have left the others out, and the window would "
        "not hold what the pipeline says.",
        state=UNCHANGED,
        next="Correct the trigger, or publish to a table without it.",
    )


def refuse_cascades(pipeline: Pipeline, table: StoredTable, name: TableName) -> None:
    """Rows that come back in the same transaction have taken others with them all the same."""
    if isinstance(pipeline.write, KEYED) or not table.cascades:
        return
    raise RefusedError(
        "SP-T03",
        f"{name} is referenced with ON DELETE CASCADE, SET NULL or SET DEFAULT: "
        f"{', '.join(sorted(table.cascades)[:5])}.",
        why=f"{type(pipeline.write).__name__} deletes the rows of a window before it inserts them "
        "anew, and the foreign key would change rows elsewhere that nobody meant.",
        state=UNCHANGED,
        next="Use Merge, which deletes no row that stays, or make the foreign key ON DELETE NO "
        "ACTION DEFERRABLE INITIALLY DEFERRED.",
    )
