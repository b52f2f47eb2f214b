"""Replacing the rows of a scope inside the publishing transaction: a DELETE and an INSERT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import UNCHANGED, RefusedError
from setpoint.model.run import Statement
from setpoint.model.span import windows_of
from setpoint.model.write import DeleteInsert, Overwrite
from setpoint.targets.postgres.batch import typed_rows
from setpoint.targets.postgres.catalog import StoredTable
from setpoint.targets.postgres.commit import MoreStaged
from setpoint.targets.postgres.names import TableName
from setpoint.targets.postgres.slices import Slices, condition_of
from setpoint.targets.postgres.triggers import counted, keep_writers_out, refuse_cascades

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.stage import PostgresStage


@dataclass(frozen=True)
class Replacement:
    """One DELETE and INSERT of a staged batch; `wanted` says how many rows each window gets.

    To ask of every row which task wrote it takes time, and there is seldom another answer than the
    one: with `trusting` all staged rows are taken, and counted.
    """

    connection: psycopg.Connection[Any]
    name: TableName
    table: StoredTable
    stage: PostgresStage
    run: Statement
    xid: int
    wanted: Mapping[str, int]
    trusting: bool

    def execute(self) -> int:
        """Replace the rows; how many the table took."""
        refuse_cascades(self.run.pipeline, self.table, self.name)
        self._delete()
        return self._insert()

    @property
    def _condition(self) -> str:
        return condition_of(self.stage.scope, self.run.window)

    def _delete(self) -> None:
        # Not TRUNCATE: readers whose snapshot is older would see an empty table.
        # Binary results need the protocol that takes one statement only: a condition is no more.
        rows = f"{self.name.sql} WHERE {self._condition}"
        if "DELETE" not in self.table.triggers:
            self.connection.execute(f"DELETE FROM {rows}", binary=True)
            return
        keep_writers_out(self.connection, self.name)
        counted(self.connection, self.run, "", f"DELETE FROM {rows}", rows)

    def _insert(self) -> int:
        columns = ", ".join(item.quoted for item in self.stage.fit.fields)
        into = f"INSERT INTO {self.name.sql} ({columns})"
        if not self._may_stray and self.trusting and self.stage.clip is None:
            return self._insert_everything(into)
        insert = f"{into} {typed_rows(self.stage)}"
        if not self._may_stray:
            return self.connection.execute(insert).rowcount
        found = self.connection.execute(
            f"WITH i AS ({insert} RETURNING ({self._condition}) IS TRUE AS inside) "
            "SELECT count(*), count(*) FILTER (WHERE NOT inside) FROM i",
            binary=True,
        ).fetchone()
        stored, strays = found or (0, 0)
        if strays := int(strays) or self._moved():
            raise self._strayed(strays)
        return int(stored)

    def _insert_everything(self, into: str) -> int:
        import psycopg

        try:
            rows = typed_rows(self.stage, everything=True)
            stored = self.connection.execute(f"{into} {rows}").rowcount
        except psycopg.IntegrityError as error:
            raise MoreStaged from error  # of rows that are there twice, or of the rows themselves
        if stored != sum(self.wanted.values()):
            raise MoreStaged
        return stored

    def _moved(self) -> int:
        """How many rows went to another window of the chunk than the one they were staged for."""
        windows, rule = windows_of(self.run.window), self.stage.scope.rule
        if len(windows) == 1:
            return 0
        slices = Slices(self.connection, self.run.pipeline, self.name, self.table, rule)
        found = slices.written_by(self.xid, windows)
        return sum(max(0, self.wanted[window.id] - rows) for window, rows in found.items())

    @property
    def _may_stray(self) -> bool:
        """Whether a row that was in the scope for Spark may be stored outside of it.

        Where the column stores what it is given there is nothing to look for, and a million rows
        need not be looked at.
        """
        scope = self.stage.scope
        if isinstance(scope.write, DeleteInsert):
            return True
        if not isinstance(scope.write, Overwrite) or scope.rule is None:
            return False
        column = self.stage.fit.field(scope.rule.column)
        return "INSERT" in self.table.triggers or not column.mapped.exact

    def _strayed(self, count: int) -> RefusedError:
        label, condition = self.run.label, self._condition
        why = "The next run would not find them again, and publish them twice."
        if isinstance(self.run.pipeline.write, DeleteInsert):
            return RefusedError(
                "SP-O02",
                f"{count:,} rows of {label} satisfy the condition in Spark, but not in "
                f"PostgreSQL: {condition}",
                why=why,
                state=UNCHANGED,
                next="Write the condition so that both mean the same by it.",
            )
        rule = self.stage.scope.rule
        column = self.table.column(rule.column) if rule else None
        kind = f"{column.name} ({column.declared})" if column else "its column"
        return RefusedError(
            "SP-O02",
            f"{count:,} rows of {label} lie outside the window as {kind} stores them.",
            why=f"The column rounds, or a trigger changes the value. {why}",
            state=UNCHANGED,
            next="Give the column the full precision (ALTER TABLE ... ALTER COLUMN ... TYPE), "
            "round the values in the pipeline, or correct the trigger.",
        )
