"""The publishing transaction: rows and receipt together, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import UNCHANGED, PermanentError, TransientError
from setpoint.model.pipeline import newest_of
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run, Statement
from setpoint.model.span import windows_of
from setpoint.model.window import Window
from setpoint.model.write import KEYED, InsertNew, Merge
from setpoint.targets.claim import Quiet
from setpoint.targets.postgres import receipts
from setpoint.targets.postgres.catalog import StoredTable, describe
from setpoint.targets.postgres.commit import (
    Again,
    MoreStaged,
    commit,
    drop_quietly,
    limited,
    rename_rest,
    unread,
)
from setpoint.targets.postgres.create import fitted
from setpoint.targets.postgres.lock import lock
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.receipts import Landed
from setpoint.targets.postgres.server import SETTINGS, Server
from setpoint.targets.postgres.slices import Slices, look, rule_of
from setpoint.targets.postgres.triggers import left_out
from setpoint.targets.refusals import kept_stored, unseen
from setpoint.targets.turns import Turns

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.stage import PostgresStage

_TURNS = 20


@dataclass(frozen=True)
class _Written:
    """What a transaction has done before its commit: the table's id, and what there is to say."""

    table: int
    notes: tuple[str, ...] = ()
    tidy: bool = False


@dataclass(frozen=True)
class Publishing:
    """One publish of one window, or of several at once; each has a receipt."""

    server: Server
    name: TableName
    run: Statement
    receipts: Sequence[Receipt]
    staged: Staged | None
    expected: Mapping[Window, SliceState]

    def execute(self) -> list[Published]:
        """Commit rows and receipts in one transaction; look again when another one was faster."""
        trusting = True
        for _ in Turns(self.run, _TURNS):
            with self.server.open(f"publishing {self.run.label}") as connection:
                receipts.ensure_schema(connection)
                try:
                    return self._once(connection, trusting=trusting)
                except Again:
                    continue
                except MoreStaged:
                    connection.rollback()  # else the end of the block would commit
                    trusting = False
        raise AssertionError("the turns ended without an outcome")

    def _once(self, connection: psycopg.Connection[Any], *, trusting: bool) -> list[Published]:
        import psycopg

        connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {SETTINGS}")
        try:
            lock(connection, self.name, self.run)
            found = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
            xid = int(found[0]) if found else 0
            written = self._write(connection, xid, trusting=trusting)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
            raise Again from error
        limit = self.server.commit_seconds
        if commit(connection, self.server, self.run, xid):
            try:
                with limited(connection, limit):
                    return self._confirmed(connection, xid, written)
            except psycopg.Error as error:
                raise unread(self.run, xid, self.server.said(error)) from error
        try:
            with self.server.session("reading a receipt back") as fresh, limited(fresh, limit):
                return self._confirmed(fresh, xid, written)
        except (TransientError, PermanentError) as error:
            raise unread(self.run, xid, error.what) from error

    def _write(self, connection: psycopg.Connection[Any], xid: int, *, trusting: bool) -> _Written:
        """Everything but the commit."""
        table = describe(connection, self.name)
        known = (
            receipts.latest(
                connection, table.oid, self.name, self.run.pipeline.name, self._wanted()
            )
            if table
            else {}
        )
        self._refuse_if_fenced(connection, table, known)
        if self.staged is None:
            if table is None or any(receipt.window not in known for receipt in self.receipts):
                raise AssertionError("a receipt alone renews one that is there")
            for receipt in self.receipts:
                self._insert(connection, receipt, table, xid, known[receipt.window])
            return _Written(table.oid)
        stage: PostgresStage = self.staged.handle
        if table is None:
            receipts.forget_removals(connection, self.name)
        table = fitted(connection, self.name, self.run.pipeline, table, stage.fit)
        write, notes = self.run.pipeline.write, tuple[str, ...]()
        if isinstance(self.run, Run) and isinstance(write, KEYED):
            notes = self._write_keyed(connection, table, self.run, self.staged, write, xid)
        else:
            self._replace(connection, table, stage, xid, trusting=trusting)
        if stage.clip is None:
            return _Written(table.oid, notes, tidy=drop_quietly(connection, stage))
        rename_rest(connection, stage)
        return _Written(table.oid, notes)

    def _wanted(self) -> Sequence[str] | None:
        if self.run.pipeline.newest_counts:
            return None
        return [window.id for window in windows_of(self.run.window)]

    def _refuse_if_fenced(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable | None,
        known: dict[str, Landed],
    ) -> None:
        expected, pipeline = self.expected, self.run.pipeline
        if table is None:
            if self.staged is None or any(state.generation for state in expected.values()):
                raise Fenced(SliceState(0, None, None))
            return
        newest = newest_of(known, pipeline) if pipeline.newest_counts else ""
        moved = set()
        for window, state in expected.items():
            generation = known[window.id].generation if window.id in known else 0
            newer = newest != state.newest and newest_of([newest, state.newest], pipeline) == newest
            if generation != state.generation or (pipeline.newest_counts and newer):
                moved.add(window)
        if not moved and self.staged is not None:
            return
        rule = rule_of(pipeline, table, self.name)
        states = Slices(connection, pipeline, self.name, table, rule).states(list(expected))
        for window, state in states.items():
            if window in moved or (self.staged is None and not state.untouched):
                raise Fenced(state)

    def _replace(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable,
        stage: PostgresStage,
        xid: int,
        *,
        trusting: bool,
    ) -> None:
        """Out with the rows of the scope, in with the staged ones."""
        from setpoint.targets.postgres.replace import Replacement

        wanted = {receipt.window: receipt.rows for receipt in self.receipts}
        work = Replacement(connection, self.name, table, stage, self.run, xid, wanted, trusting)
        self._refuse_lost_rows(work.execute(), connection, stage)
        for receipt in self.receipts:
            self._insert(connection, receipt, table, xid, None, rows_kept=receipt.rows)

    def _write_keyed(
        self,
        connection: psycopg.Connection[Any],
        table: StoredTable,
        run: Run,
        staged: Staged,
        write: Merge | InsertNew,
        xid: int,
    ) -> tuple[str, ...]:
        from setpoint.targets.postgres.merge import KeyedWrite

        stage: PostgresStage = staged.handle
        work = KeyedWrite(connection, self.name, table, staged, write, run, xid)
        work.lock()
        there = connection.execute(f"SELECT count(*) FROM {stage.source}").fetchone()
        self._refuse_lost_rows(int(there[0]) if there else 0, connection, stage)
        left = receipts.last_keyed(connection, table.oid, self.name, self.run.pipeline.name)
        found = look(connection, self.name, left)
        if left is None:
            work.adopt_removals()  # once for a table: it scans all removals of the database
        notes: tuple[str, ...] = ()
        if isinstance(write, InsertNew):
            more, kept = work.insert_new()
            notes = kept_stored(kept)
        else:
            more = work.merge()
        (receipt,) = self.receipts
        self._insert(
            connection,
            receipt,
            table,
            xid,
            None,
            seen=found.seen,
            table_rows=found.rows + more,
            drifted=found.drifted,
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
                state=UNCHANGED,
                next="Run again; the new attempt stages afresh.",
            )
        raise left_out(f"Of {wanted:,} rows of {self.run.label} the table took {stored:,}.")

    def _insert(
        self,
        connection: psycopg.Connection[Any],
        receipt: Receipt,
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
        pipeline = self.run.pipeline
        rule = rule_of(pipeline, table, self.name)
        claim = Slices(connection, pipeline, self.name, table, rule).claim
        stated = claim.stated(receipt, Quiet())
        try:
            receipts.insert(connection, stated, {**values, "scope": claim.kind_of(stated)})
        except psycopg.errors.UniqueViolation as error:
            raise Again from error

    def _confirmed(
        self, connection: psycopg.Connection[Any], xid: int, written: _Written
    ) -> list[Published]:
        """Read the target's own word that the receipts landed."""
        import psycopg

        landed = []
        for receipt in self.receipts:
            try:
                found = receipts.of_attempt(
                    connection, receipt.pipeline, receipt.window, receipt.attempt
                )
            except psycopg.Error as error:
                raise unread(self.run, xid, self.server.said(error)) from error
            if found is None:
                missing = f"it was acknowledged, but {receipts.RECEIPTS} has no receipt of it"
                raise unseen(self.run, missing)
            table_id = table_id_of(connection, written.table)
            landed.append(Published(found[0], xid, table_id, written.notes, written.tidy))
        return landed


def table_id_of(connection: psycopg.Connection[Any], oid: int) -> str:
    """The table as receipts know it: a table that is made again has another id."""
    return f"{connection.info.dbname}/{oid}"
