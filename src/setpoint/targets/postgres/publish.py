"""The publishing transaction: rows and receipt together, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
)
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run
from setpoint.model.write import KEYED, DeleteInsert, InsertNew
from setpoint.targets.postgres import receipts
from setpoint.targets.postgres.catalog import StoredTable, describe, server_version
from setpoint.targets.postgres.names import TableName, quote
from setpoint.targets.postgres.receipts import Landed
from setpoint.targets.postgres.server import Server
from setpoint.targets.postgres.slices import Slices, condition_of, rule_of
from setpoint.targets.refusals import (
    changed_meanwhile,
    kept_stored,
    lost_races,
    not_in_table,
    unseen,
)

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.schema import Fit
    from setpoint.targets.postgres.stage import PostgresStage

_TURNS = 20
_ASKED = 50
_LOST = ("", "57P01", "57P02", "57P03")


class Again(Exception):
    """Another session was faster: look again."""


@dataclass(frozen=True)
class Publishing:
    """One publish of one window."""

    server: Server
    pipeline: Pipeline
    name: TableName
    run: Run
    receipt: Receipt
    staged: Staged | None
    expected: SliceState

    def execute(self) -> Published:
        """Commit rows and receipt in one transaction; look again when another one was faster."""
        for _ in range(_TURNS):
            with self.server.session(f"publishing {self.run.label}") as connection:
                receipts.ensure_schema(connection)
                try:
                    return self._once(connection)
                except Again:
                    continue
        raise lost_races(self.run, _TURNS)

    def _once(self, connection: psycopg.Connection[Any]) -> Published:
        import psycopg

        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        self._lock(connection)
        found = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
        xid = int(found[0]) if found else 0
        try:
            table, notes = self._write(connection, xid)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
            raise Again from error
        if commit(connection, self.server, self.run, xid):
            return self._confirmed(connection, xid, table, notes)
        with self.server.session("reading a receipt back") as fresh:
            return self._confirmed(fresh, xid, table, notes)

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        """Wait for the sessions that publish the same; the transaction's end gives it free."""
        shared = isinstance(self.pipeline.write, KEYED) or self.pipeline.newest_counts
        what = ["setpoint", self.name.sql]
        what += [] if shared else [self.pipeline.name, self.run.window.id]
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", ["\n".join(what)]
        )

    def _write(self, connection: psycopg.Connection[Any], xid: int) -> tuple[int, tuple[str, ...]]:
        """Everything but the commit: the table's id, and what there is to say."""
        table = describe(connection, self.name)
        known = (
            receipts.latest(connection, table.oid, self.pipeline.name, self._wanted())
            if table
            else {}
        )
        before = known.get(self.run.window.id)
        self._refuse_if_fenced(connection, table, before, known)
        if self.staged is None:
            if table is None or before is None:
                raise AssertionError("a receipt alone renews one that is there")
            self._insert(connection, table, xid, before)
            return table.oid, ()
        stage: PostgresStage = self.staged.handle
        table = self._fitted(connection, table, stage.fit)
        if isinstance(self.pipeline.write, KEYED):
            notes = self._write_keyed(connection, table, stage, xid)
        else:
            notes = self._replace(connection, table, stage, xid)
        _drop_quietly(connection, stage)
        return table.oid, notes

    def _wanted(self) -> Sequence[str] | None:
        return None if self.pipeline.newest_counts else [self.run.window.id]

    def _refuse_if_fenced(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable | None,
        before: Landed | None,
        known: dict[str, Landed],
    ) -> None:
        expected, by_newest = self.expected, self.pipeline.newest_counts
        if table is None:
            if expected.generation or self.staged is None:
                raise Fenced(SliceState(0, None, None))
            return
        generation = before.generation if before else 0
        newest = newest_of(known, self.pipeline) if by_newest else ""
        newer = newest != expected.newest and (
            newest_of([newest, expected.newest], self.pipeline) == newest
        )
        moved = generation != expected.generation or (by_newest and newer)
        if not moved and self.staged is not None:
            return
        rule = rule_of(self.pipeline, table, self.name)
        slices = Slices(connection, self.pipeline, self.name, table, rule)
        state = slices.states([self.run.window])[self.run.window]
        if moved or not state.untouched:
            raise Fenced(state)

    def _fitted(
        self, connection: psycopg.Connection[Any], table: StoredTable | None, fit: Fit
    ) -> StoredTable:
        """The table as the stage was fitted to it, made or given new columns if need be."""
        import psycopg

        if table is None and fit.table is not None:
            raise changed_meanwhile(self.name, "columns")
        if table is None:
            try:
                connection.execute(self._create_sql(connection, fit))
            except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation) as error:
                raise Again from error
        else:
            fitted = {column.name: column for column in fit.table.columns} if fit.table else {}
            created = {item.name: item.mapped.create for item in fit.fields}
            now = {column.name: column for column in table.columns}
            same = all(now.get(name) == column for name, column in fitted.items())
            new = {name: column.declared for name, column in now.items() if name not in fitted}
            if not same or any(created.get(name) != kind for name, kind in new.items()):
                raise changed_meanwhile(self.name, "columns")
            missing = [item for item in fit.fields if item.name not in now]
            if missing and fit.table is None:
                raise changed_meanwhile(self.name, "columns")
            for item in missing:
                connection.execute(
                    f"ALTER TABLE {self.name.sql} ADD COLUMN {item.quoted} {item.mapped.create}"
                )
            if not missing:
                return table
        made = describe(connection, self.name)
        if made is None:
            raise changed_meanwhile(self.name, "columns")
        return made

    def _create_sql(self, connection: psycopg.Connection[Any], fit: Fit) -> str:
        columns = [f"{item.quoted} {item.mapped.create}" for item in fit.fields]
        write, more = self.pipeline.write, ""
        if isinstance(write, KEYED):
            keys = ", ".join(quote(name) for name in write.keys)
            if write.null_keys != "allow":
                columns.append(f"PRIMARY KEY ({keys})")
            elif server_version(connection) >= 15:
                columns.append(f"UNIQUE NULLS NOT DISTINCT ({keys})")
        column = self.pipeline.slice_column
        if column is not None:
            more = f"; CREATE INDEX ON {self.name.sql} ({quote(column)})"
        return f"CREATE TABLE {self.name.sql} ({', '.join(columns)}){more}"

    def _replace(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable,
        stage: PostgresStage,
        xid: int,
    ) -> tuple[str, ...]:
        """Out with the rows of the scope, in with the staged ones."""
        from setpoint.targets.postgres.batch import typed_rows

        condition = condition_of(stage.scope, self.run.window)
        if isinstance(self.pipeline.write, DeleteInsert):
            self._refuse_strays(connection, stage, condition)
        # Not TRUNCATE: readers whose snapshot is older would see an empty table.
        # Binary results need the protocol that takes one statement only: a condition is no more.
        connection.execute(f"DELETE FROM {self.name.sql} WHERE {condition}", binary=True)
        columns = ", ".join(item.quoted for item in stage.fit.fields)
        stored = connection.execute(
            f"INSERT INTO {self.name.sql} ({columns}) {typed_rows(stage)}"
        ).rowcount
        self._refuse_lost_rows(stored, connection, stage)
        self._insert(connection, table, xid, None, rows_kept=stored)
        return ()

    def _refuse_strays(
        self, connection: psycopg.Connection[Any], stage: PostgresStage, condition: str
    ) -> None:
        """What Spark takes for true PostgreSQL may not: such a row would never be replaced."""
        from setpoint.targets.postgres.batch import typed_rows

        found = connection.execute(
            f"WITH b AS ({typed_rows(stage)}) SELECT count(*) FROM b "
            f"WHERE ({condition}) IS NOT TRUE",
            binary=True,
        ).fetchone()
        if found and found[0]:
            raise RefusedError(
                "SP-O02",
                f"{found[0]:,} rows of {self.run.label} satisfy the condition in Spark, but not in "
                f"PostgreSQL: {condition}",
                why="The next run would not find them again, and publish them twice.",
                next="Write the condition so that both mean the same by it.",
            )

    def _write_keyed(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable,
        stage: PostgresStage,
        xid: int,
    ) -> tuple[str, ...]:
        from setpoint.targets.postgres.merge import KeyedWrite

        write = self.pipeline.write
        if not isinstance(write, KEYED) or self.staged is None:
            raise TypeError(f"{write.name} has no key")
        work = KeyedWrite(connection, self.name, table, self.staged, write)
        work.lock()
        staged = connection.execute(f"SELECT count(*) FROM {stage.source}").fetchone()
        self._refuse_lost_rows(int(staged[0]) if staged else 0, connection, stage)
        seen = connection.execute(
            f"SELECT pg_current_snapshot()::text, (SELECT count(*) FROM {self.name.sql}), "
            f"(SELECT table_rows FROM {receipts.RECEIPTS} WHERE table_id = $1 AND pipeline = $2 "
            "AND table_rows IS NOT NULL ORDER BY number DESC LIMIT 1)",
            [table.oid, self.pipeline.name],
        ).fetchone()
        snapshot, rows, left = seen or ("", 0, None)
        notes: tuple[str, ...] = ()
        if isinstance(write, InsertNew):
            more, kept = work.insert_new(self.run)
            notes = kept_stored(kept)
        else:
            more = work.merge(self.run)
        drifted = left is not None and left != rows
        self._insert(
            connection, table, xid, None, seen=snapshot, table_rows=rows + more, drifted=drifted
        )
        return notes

    def _refuse_lost_rows(
        self, stored: int, connection: psycopg.Connection[Any], stage: PostgresStage
    ) -> None:
        wanted = self.staged.rows if self.staged else 0
        if stored == wanted:
            return
        found = connection.execute(f"SELECT count(*) FROM {stage.source}").fetchone()
        if found and found[0] != wanted:
            raise TransientError(
                "SP-P04",
                f"The stage of {self.run.label} holds {found[0]:,} rows, not {wanted:,}.",
                why="An unlogged table is emptied when the server restarts after a crash.",
                next="Run again; the new attempt stages afresh.",
            )
        raise RefusedError(
            "SP-T03",
            f"Of {wanted:,} rows of {self.run.label} the table took {stored:,}.",
            why="A trigger of the table must have left some out.",
            next="Correct the trigger, or publish to a table without it.",
        )

    def _insert(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable,
        xid: int,
        before: Landed | None,
        *,
        rows_kept: int = 0,
        seen: str = "",
        table_rows: int | None = None,
        drifted: bool = False,
    ) -> None:
        import psycopg

        values = {
            "table_id": table.oid,
            "target": str(self.name),
            "xid": xid,
            "data_xid": before.data_xid if before else xid,
            "seen": before.seen if before else seen,
            "rows_kept": before.rows_kept if before else rows_kept,
            "table_rows": table_rows,
            "drifted": drifted,
        }
        try:
            receipts.insert(connection, self.receipt, values)
        except psycopg.errors.UniqueViolation as error:
            raise Again from error

    def _confirmed(
        self, connection: psycopg.Connection[Any], xid: int, table: int, notes: tuple[str, ...]
    ) -> Published:
        """Read the target's own word that the receipt landed."""
        import psycopg

        run, receipt = self.run, self.receipt
        try:
            found = receipts.of_attempt(
                connection, receipt.pipeline, receipt.window, receipt.attempt
            )
        except psycopg.Error as error:
            raise unseen(run, self.server.said(error)) from error
        if found is None:
            raise not_in_table(run, f"the table {receipts.RECEIPTS}")
        return Published(found[0], xid, table_id_of(connection, table), notes)


def table_id_of(connection: psycopg.Connection[Any], oid: int) -> str:
    """The table as receipts know it: a table that is made again has another id."""
    return f"{connection.info.dbname}/{oid}"


def commit(connection: psycopg.Connection[Any], server: Server, run: Run, xid: int) -> bool:
    """Commit; if the answer is lost, ask the server what became of the transaction.

    False: it has landed, but the connection is gone.
    """
    import psycopg

    try:
        status = connection.execute("COMMIT").statusmessage
    except psycopg.Error as error:
        code = error.sqlstate or ""
        if code not in _LOST and not code.startswith("08"):
            raise  # the server answered: a deferred constraint, for example
        _settle(server, run, xid, server.said(error))
        return False
    if status != "COMMIT":
        raise PermanentError(
            "SP-P01",
            f"PostgreSQL answered the commit of {run.label} with {status}.",
            next="Run again; it is always safe.",
        )
    return True


def _settle(server: Server, run: Run, xid: int, said: str) -> None:
    """Return when the transaction has committed; raise when it has not, or nobody knows."""
    import psycopg

    try:
        with server.session("asking what became of a commit") as connection:
            for _ in range(_ASKED):
                found = connection.execute(
                    "SELECT pg_xact_status($1::text::xid8)", [str(xid)]
                ).fetchone()
                if not found or found[0] != "in progress":
                    break
                connection.execute("SELECT pg_sleep(0.2)")
    except (SetpointError, psycopg.Error) as error:
        raise unseen(run, said) from error
    match found[0] if found else None:
        case "committed":
            return
        case "aborted":
            raise TransientError(
                "SP-T01",
                f"The connection was lost during the commit of {run.label}: {said}",
                why="The server says that the transaction was rolled back.",
                next="Run again; it is always safe.",
            )
        case _:
            raise unseen(run, said)


def _drop_quietly(connection: psycopg.Connection[Any], stage: PostgresStage) -> None:
    """Drop the stage with the commit, unless a task that lost its race still writes to it."""
    import psycopg

    connection.execute("SAVEPOINT stage")
    try:
        connection.execute(f"LOCK TABLE {stage.table.sql} IN ACCESS EXCLUSIVE MODE NOWAIT")
        connection.execute(f"DROP TABLE {stage.table.sql}; RELEASE SAVEPOINT stage")
    except psycopg.errors.LockNotAvailable:
        connection.execute("ROLLBACK TO SAVEPOINT stage")
