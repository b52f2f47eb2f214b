"""Keyed writes inside the publishing transaction: only rows that differ get a new version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.model.ports import Staged
from setpoint.model.run import Run
from setpoint.model.write import InsertNew, Merge
from setpoint.spark.batch import DELETED
from setpoint.targets.postgres.batch import typed_rows
from setpoint.targets.postgres.catalog import StoredTable
from setpoint.targets.postgres.names import TableName, literal, quote
from setpoint.targets.postgres.order import (
    event_text,
    in_bytes,
    key_text,
    later,
    row_text,
    same_key,
    sequence,
    wins,
)
from setpoint.targets.postgres.receipts import TOMBSTONES, of_table
from setpoint.targets.postgres.triggers import counted, keep_writers_out
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
        run: Run,
        xid: int,
    ) -> None:
        stage: PostgresStage = staged.handle
        self._connection, self._staged, self._run, self._xid = connection, staged, run, xid
        self._name, self._table, self._stage, self._write = name, table, stage, write
        self._nulls = write.null_keys == "allow"
        self._columns = ", ".join(item.quoted for item in stage.fit.fields)
        self._batch = f"WITH b AS ({typed_rows(stage)})"
        self._same = same_key(stage.fit, write.keys, "t", "b", nulls=self._nulls)
        self._absent = f"NOT EXISTS (SELECT FROM {name.sql} t WHERE {self._same})"

    @property
    def has_unique(self) -> bool:
        """Whether an index lets two sessions insert one key at once without making it twice."""
        return self._table.has_unique(self._write.keys, nulls=self._nulls)

    def lock(self) -> None:
        """Keep other writers out where no index would; readers are not kept waiting."""
        write = self._write
        complete = isinstance(write, Merge) and write.when_missing == "delete"
        # A removal of a key that is not there locks no row, so an older row could slip past it.
        alone = isinstance(write, InsertNew) or complete or self._stage.removes
        if alone or self._table.triggers or not self.has_unique:
            keep_writers_out(self._connection, self._name)

    def adopt_removals(self) -> None:
        """A restored dump gives the table another id; its removals are still its own."""
        self._connection.execute(
            f"WITH d AS (DELETE FROM {TOMBSTONES} WHERE target = $1 AND table_id <> $2 RETURNING *)"
            f' INSERT INTO {TOMBSTONES} (table_id, target, key, sequence, pipeline, "window") '
            'SELECT $2, target, key, sequence, pipeline, "window" FROM d ON CONFLICT DO NOTHING',
            [str(self._name), self._table.oid],
        )

    def merge(self) -> int:
        """Bring each key to its latest row; how many rows more the table has now."""
        write, table = self._write, self._name.sql
        assert isinstance(write, Merge)
        removes = self._stage.removes
        if not self._run.window.grain.is_incremental and (removes or self._staged.corrects):
            self._forget_removals()
        deleted = f"b.{quote(DELETED)}" if removes else ""
        late = self._late_sql() if removes else "true"
        stays = f"NOT {deleted} AND {late}" if removes else "true"
        wins_now = wins(
            self._stage.fit, write.sequence, "b", "t", deleted, corrects=self._staged.corrects
        )
        gone = 0
        if removes:
            beaten = f"WHERE {deleted} AND {late} AND {self._same} AND {wins_now}"
            gone = self._execute(
                f"DELETE FROM {table} t USING b {beaten}", f"{table} t, b {beaten}"
            )
        # Insert first: a key that somebody commits meanwhile is met by the index, or seen by the
        # UPDATE that follows. The other way round it could be seen by neither.
        absent = f"FROM b WHERE {stays} AND {self._absent}"
        fresh = self._execute(
            f"INSERT INTO {table} AS t ({self._columns}) SELECT {self._columns} {absent}"
            f"{self._on_conflict(write)}",
            absent.removeprefix("FROM "),
        )
        if fresh < self._staged.rows:
            sets = ", ".join(f"{i.quoted} = b.{i.quoted}" for i in self._stage.fit.fields)
            older = f"t.xmin <> '{self._xid & 0xFFFFFFFF}'::xid AND {self._same} AND {wins_now}"
            self._execute(
                f"UPDATE {table} t SET {sets} FROM b WHERE {stays} AND {older}",
                f"{table} t, b WHERE {stays} AND {older}",
            )
        if write.when_missing == "delete":
            kept = f"{self._same} AND NOT {deleted}" if removes else self._same
            missing = f"WHERE NOT EXISTS (SELECT FROM b WHERE {kept})"
            gone += self._execute(f"DELETE FROM {table} t {missing}", f"{table} t {missing}")
        if removes:
            self._remember(write)
        return fresh - gone

    def insert_new(self) -> tuple[int, int]:
        """Insert the absent keys: how many, and how many stored rows contradict the batch."""
        write = self._write
        assert isinstance(write, InsertNew)
        ours, theirs = (row_text(self._stage.fit, alias) for alias in ("b", "t"))
        said = (event_text(self._stage.fit, write.keys, alias) for alias in ("b", "t"))
        differs = " <> ".join(said)
        clash = f"FROM {self._name.sql} t JOIN b ON {self._same} WHERE {differs}"
        found = self._connection.execute(f"{self._batch} SELECT count(*) {clash}").fetchone()
        contradicting = int(found[0]) if found else 0
        if contradicting and write.conflicts == "refuse":
            row = self._connection.execute(
                f"{self._batch} SELECT {theirs}, {ours} {clash} ORDER BY 1 LIMIT 1"
            ).fetchone()
            columns = ", ".join(sorted(self._stage.fit.names))
            example = f"{row[0]} is stored, not {row[1]} ({columns})" if row else ""
            raise contradicts(self._run, write, contradicting, self._staged.rows, example)
        fresh = self._execute(
            f"INSERT INTO {self._name.sql} ({self._columns}) "
            f"SELECT {self._columns} FROM b WHERE {self._absent}",
            f"b WHERE {self._absent}",
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

    def _late_sql(self, more: str = "") -> str:
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
            f"NOT EXISTS (SELECT FROM {TOMBSTONES} d WHERE {self._theirs} "
            f"AND d.key = {key_text(self._stage.fit, write.keys, 'b')}{more} AND NOT {newer})"
        )

    @property
    def _theirs(self) -> str:
        return of_table("d", str(self._table.oid), literal(str(self._name)))

    def _forget_removals(self) -> None:
        """A window that is published again says anew which keys are removed."""
        self._connection.execute(
            f"DELETE FROM {TOMBSTONES} d WHERE {self._theirs} "
            'AND d.pipeline = $1 AND d."window" = $2',
            [self._run.pipeline.name, self._run.window.id],
        )

    def _remember(self, write: Merge) -> None:
        """Keep the removed keys with their place in the sequence, for each window its own."""
        parts = ", ".join(f"b.{quote(name)}::text" for name in write.sequence)
        own = ' AND d.pipeline = $1 AND d."window" = $2'
        self._connection.execute(
            f"{self._batch} INSERT INTO {TOMBSTONES} AS d (table_id, target, key, sequence, "
            f'pipeline, "window") SELECT {self._table.oid}, $3, '
            f"{key_text(self._stage.fit, write.keys, 'b')}, ARRAY[{parts}], $1, $2 "
            f"FROM b WHERE b.{quote(DELETED)} AND {self._late_sql(own)} "
            'ON CONFLICT (table_id, key, pipeline, "window") DO UPDATE '
            "SET sequence = EXCLUDED.sequence, target = EXCLUDED.target",
            [self._run.pipeline.name, self._run.window.id, str(self._name)],
        )

    def _execute(self, statement: str, matching: str) -> int:
        """Execute a statement with the batch as `b`; `matching` are the rows it is about."""
        if self._table.triggers:
            return counted(self._connection, self._run, self._batch, statement, matching)
        return self._connection.execute(f"{self._batch} {statement}").rowcount
