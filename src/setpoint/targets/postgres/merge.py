"""Keyed writes inside the publishing transaction: only rows that differ get a new version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.model.ports import Staged
from setpoint.model.run import Run
from setpoint.model.write import InsertNew, Merge
from setpoint.spark.batch import DELETED
from setpoint.targets.postgres.batch import typed_rows
from setpoint.targets.postgres.catalog import StoredTable
from setpoint.targets.postgres.names import TableName, quote
from setpoint.targets.postgres.order import (
    in_bytes,
    key_text,
    later,
    row_text,
    same_key,
    sequence,
    wins,
)
from setpoint.targets.postgres.receipts import TOMBSTONES
from setpoint.targets.refusals import contradicts

if TYPE_CHECKING:
    import psycopg

    from setpoint.targets.postgres.stage import PostgresStage


class KeyedWrite:
    """One keyed write of a staged batch into a table, statement by statement."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        name: TableName,
        table: StoredTable,
        staged: Staged,
        write: Merge | InsertNew,
    ) -> None:
        stage: PostgresStage = staged.handle
        self._connection, self._staged = connection, staged
        self._name, self._table, self._stage, self._write = name, table, stage, write
        self._nulls = write.null_keys == "allow"
        self._columns = ", ".join(item.quoted for item in stage.fit.fields)
        self._batch = f"WITH b AS ({typed_rows(stage)})"
        self._same = same_key(write.keys, "t", "b", nulls=self._nulls)

    @property
    def has_unique(self) -> bool:
        """Whether an index lets two sessions insert one key at once without making it twice."""
        return self._table.has_unique(self._write.keys, nulls=self._nulls)

    def lock(self) -> None:
        """Keep other writers out where no index would; readers are not kept waiting."""
        write = self._write
        complete = isinstance(write, Merge) and write.when_missing == "delete"
        # A removal of a key that is not there locks no row, so an older row could slip past it.
        if isinstance(write, InsertNew) or complete or self._stage.removes or not self.has_unique:
            self._execute(f"LOCK TABLE {self._name.sql} IN SHARE ROW EXCLUSIVE MODE")

    def merge(self, run: Run) -> int:
        """Bring each key to its latest row; how many rows more the table has now."""
        write = self._write
        assert isinstance(write, Merge)
        removes = self._stage.removes
        if self._staged.corrects and not run.window.grain.is_incremental:
            self._forget_removals(run)
        deleted = f"b.{quote(DELETED)}" if removes else ""
        late = self._late_sql() if removes else "true"
        stays = f"NOT {deleted} AND {late}" if removes else "true"
        wins_now = wins(
            self._stage.fit, write.sequence, "b", "t", deleted, corrects=self._staged.corrects
        )
        gone = 0
        if removes:
            gone = self._execute(
                f"{self._batch} DELETE FROM {self._name.sql} t USING b "
                f"WHERE {deleted} AND {late} AND {self._same} AND {wins_now}"
            )
        sets = ", ".join(f"{i.quoted} = b.{i.quoted}" for i in self._stage.fit.fields)
        self._execute(
            f"{self._batch} UPDATE {self._name.sql} t SET {sets} FROM b "
            f"WHERE {stays} AND {self._same} AND {wins_now}"
        )
        # Somebody else may insert a key in between: the index notices, and the greater row stays.
        fresh = self._execute(
            f"{self._batch} INSERT INTO {self._name.sql} AS t ({self._columns}) "
            f"SELECT {self._columns} FROM b WHERE {stays} AND NOT EXISTS "
            f"(SELECT FROM {self._name.sql} t WHERE {self._same}){self._on_conflict(write)}"
        )
        if write.when_missing == "delete":
            kept = f"{self._same} AND NOT {deleted}" if removes else self._same
            gone += self._execute(
                f"{self._batch} DELETE FROM {self._name.sql} t "
                f"WHERE NOT EXISTS (SELECT FROM b WHERE {kept})"
            )
        if removes:
            self._remember(run, write)
        return fresh - gone

    def insert_new(self, run: Run) -> tuple[int, int]:
        """Insert the absent keys: how many, and how many stored rows contradict the batch."""
        write = self._write
        assert isinstance(write, InsertNew)
        differs = f"{row_text(self._stage.fit, 'b')} <> {row_text(self._stage.fit, 't')}"
        clash = f"FROM {self._name.sql} t JOIN b ON {self._same} WHERE {differs}"
        found = self._connection.execute(f"{self._batch} SELECT count(*) {clash}").fetchone()
        contradicting = int(found[0]) if found else 0
        if contradicting and write.conflicts == "refuse":
            row = self._connection.execute(
                f"{self._batch} SELECT {row_text(self._stage.fit, 't')}, "
                f"{row_text(self._stage.fit, 'b')} {clash} ORDER BY 1 LIMIT 1"
            ).fetchone()
            columns = ", ".join(sorted(self._stage.fit.names))
            example = f"{row[0]} is stored, not {row[1]} ({columns})" if row else ""
            raise contradicts(run, write, contradicting, self._staged.rows, example)
        fresh = self._execute(
            f"{self._batch} INSERT INTO {self._name.sql} ({self._columns}) "
            f"SELECT {self._columns} FROM b WHERE NOT EXISTS "
            f"(SELECT FROM {self._name.sql} t WHERE {self._same})"
        )
        return fresh, contradicting

    def _on_conflict(self, write: Merge) -> str:
        if not self.has_unique:
            return ""
        keys = ", ".join(quote(name) for name in write.keys)
        sets = ", ".join(f"{i.quoted} = EXCLUDED.{i.quoted}" for i in self._stage.fit.fields)
        greater = wins(
            self._stage.fit, write.sequence, "EXCLUDED", "t", corrects=self._staged.corrects
        )
        return f" ON CONFLICT ({keys}) DO UPDATE SET {sets} WHERE {greater}"

    def _late_sql(self) -> str:
        """The condition that no removal at the same or a later point of the sequence is known."""
        write = self._write
        assert isinstance(write, Merge)
        fields = [self._stage.fit.field(name) for name in write.sequence]
        theirs = [
            in_bytes(f"CAST(d.sequence[{n}] AS {item.mapped.cast})", item)
            for n, item in enumerate(fields, 1)
        ]
        newer = later([sequence(item, "b") for item in fields], theirs, "false")
        return (
            f"NOT EXISTS (SELECT FROM {TOMBSTONES} d WHERE d.table_id = {self._table.oid} "
            f"AND d.key = {key_text(write.keys, 'b')} AND NOT {newer})"
        )

    def _forget_removals(self, run: Run) -> None:
        """A window that is published again says anew which keys are removed."""
        self._connection.execute(
            f'DELETE FROM {TOMBSTONES} WHERE table_id = $1 AND pipeline = $2 AND "window" = $3',
            [self._table.oid, run.pipeline.name, run.window.id],
        )

    def _remember(self, run: Run, write: Merge) -> None:
        """Keep the removed keys with their place in the sequence, for each window its own."""
        parts = ", ".join(f"b.{quote(name)}::text" for name in write.sequence)
        self._connection.execute(
            f"{self._batch} INSERT INTO {TOMBSTONES} AS d (table_id, key, sequence, pipeline, "
            f'"window") SELECT {self._table.oid}, {key_text(write.keys, "b")}, ARRAY[{parts}], '
            f"$1, $2 FROM b WHERE b.{quote(DELETED)} AND {self._late_sql()} "
            'ON CONFLICT (table_id, key, pipeline, "window") DO UPDATE '
            "SET sequence = EXCLUDED.sequence",
            [run.pipeline.name, run.window.id],
        )

    def _execute(self, statement: str) -> int:
        return self._connection.execute(statement).rowcount
