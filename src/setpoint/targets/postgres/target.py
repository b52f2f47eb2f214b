"""A PostgreSQL table as the target of one pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.errors import NOTHING_STARTED, UNCHANGED, DefinitionError, RefusedError
from setpoint.model.audit import Audit, AuditResult
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import Leftover, Published, Recall, Staged
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Chunk, Run, Statement
from setpoint.model.scope import Scope
from setpoint.model.support import MATRIX
from setpoint.model.table import Postgres
from setpoint.model.window import Window
from setpoint.model.write import DeleteInsert
from setpoint.targets.chunk import alone_by_pattern
from setpoint.targets.postgres import receipts
from setpoint.targets.postgres.catalog import StoredTable, describe, server_version
from setpoint.targets.postgres.names import OURS, literal, parse_name
from setpoint.targets.postgres.publish import Publishing, table_id_of
from setpoint.targets.postgres.server import Server
from setpoint.targets.postgres.slices import Slices, rule_of
from setpoint.targets.postgres.triggers import refuse_cascades

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from setpoint.targets.postgres.schema import Fit

_STAGES = f"""
SELECT c.relname::text, obj_description(c.oid, 'pg_class'), pg_total_relation_size(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = '{OURS}' AND c.relkind = 'r' AND c.relname LIKE 'stage\\_%'
ORDER BY c.relname
"""


class PostgresTarget:
    """The target port for PostgreSQL; everything but staging is done without Spark."""

    def __init__(self, pipeline: Pipeline, table: Postgres, server: Server) -> None:
        self._pipeline = pipeline
        self._spec = table
        self._server = server
        self._name = parse_name(table.table)
        if self._name.schema == OURS:
            raise DefinitionError(
                "SP-D01",
                f"{pipeline.name}: the schema {OURS} holds receipts and stages.",
                why="A table among them could be taken for one of them.",
                state=NOTHING_STARTED,
                next="Choose another schema for the target.",
            )

    @property
    def uri(self) -> str:
        return f"postgres:{self._spec.connection}/{self._name}"

    def connectors(self) -> frozenset[str]:
        return frozenset()

    def mechanism(self) -> str:
        return MATRIX[(self._pipeline.write.name, "postgres")].mechanism

    def table_id(self) -> str | None:
        with self._server.session(f"looking at {self._name}") as connection:
            table = describe(connection, self._name)
            return table_id_of(connection, table.oid) if table else None

    def published_windows(self) -> Sequence[str]:
        with self._server.session(f"looking at {self._name}") as connection:
            table = self._published(connection)
            if table is None:
                return ()
            found = receipts.latest(connection, table.oid, self._name, self._pipeline.name)
            return sorted(found)

    def check_definition(self) -> None:
        """Compare the definition with the existing table: its kind, its slice column."""
        with self._server.session(f"looking at {self._name}") as connection:
            server_version(connection)
            table = describe(connection, self._name)
            if table is not None:
                rule_of(self._pipeline, table, self._name)
                refuse_cascades(self._pipeline, table, self._name)
                self._refuse_condition(connection, self._name.sql)

    def inspect(
        self, windows: Sequence[Window], recall: Recall | None = None
    ) -> Mapping[Window, SliceState]:
        with self._server.session(f"looking at {self._name}") as connection:
            table = self._published(connection)
            if table is None:
                return {window: SliceState(0, None, None) for window in windows}
            rule = rule_of(self._pipeline, table, self._name)
            return Slices(connection, self._pipeline, self._name, table, rule).states(windows)

    def location(self, run: Statement, attempt: str) -> str:
        from setpoint.targets.postgres import stage

        return stage.location(attempt)

    def stage(
        self, frame: DataFrame, run: Statement, attempt: str, audits: Sequence[Audit]
    ) -> Staged:
        from setpoint.spark.audits import check_columns
        from setpoint.targets.postgres import stage

        fit, scope = self.fitted(frame.schema, run)
        check_columns(audits, frame.schema, run.label)
        return stage.write(
            frame,
            run,
            attempt,
            audits,
            server=self._server,
            uri=self.uri,
            fit=fit,
            scope=scope,
        )

    def fitted(self, columns: T.StructType, run: Statement) -> tuple[Fit, Scope]:
        """How rows of these columns get into the table, and which rows they replace."""
        from setpoint.targets.postgres import schema
        from setpoint.targets.postgres.order import refuse_keys_without_text

        pipeline = self._pipeline
        with self._server.session(f"looking at {self._name}") as connection:
            table = describe(connection, self._name)
            fit = schema.fit(
                columns,
                table,
                needed=pipeline.needed_columns(),
                evolve=self._spec.evolve,
                label=run.label,
            )
            refuse_keys_without_text(fit, pipeline.write, run.label)
            if table is None:
                nulls = (f"NULL::{item.mapped.cast} AS {item.quoted}" for item in fit.fields)
                self._refuse_condition(connection, f"(SELECT {', '.join(nulls)}) AS t")
        if table is not None:
            return fit, Scope(pipeline.write, rule_of(pipeline, table, self._name))
        rule = pipeline.slice_rule(lambda name: columns[name].dataType.typeName())
        return fit, Scope(pipeline.write, rule)

    def audit(
        self, session: SparkSession, staged: Staged, run: Run, audits: Sequence[Audit]
    ) -> list[AuditResult]:
        from setpoint.targets.postgres.audits import evaluate

        return evaluate(session, self._server, staged, run, audits)

    def sample(
        self, session: SparkSession, staged: Staged, audit: Audit
    ) -> tuple[dict[str, Any], ...]:
        from setpoint.spark.audits import sample, violation
        from setpoint.targets.postgres.failures import without_secrets
        from setpoint.targets.postgres.readback import read_back

        with without_secrets(self._server):
            frame = read_back(session, self._server, staged)
            return sample(frame.where(violation(audit, frame.schema)))

    def publish(
        self,
        session: SparkSession,
        run: Run,
        receipt: Receipt,
        staged: Staged | None,
        expected: SliceState,
    ) -> Published:
        states = {run.window: expected}
        work = Publishing(self._server, self._name, run, [receipt], staged, states)
        (published,) = work.execute()
        return published

    def alone(self) -> str:
        return alone_by_pattern(self._pipeline.write)

    def divide(
        self,
        session: SparkSession,
        staged: Staged,
        chunk: Chunk,
        attempts: Mapping[Window, str],
        audits: Sequence[Audit],
    ) -> Mapping[Window, Staged]:
        from setpoint.targets.postgres.chunk import divided

        return divided(self._server, staged, chunk, attempts, audits)

    def publish_chunk(
        self,
        session: SparkSession,
        chunk: Chunk,
        receipts: Sequence[Receipt],
        parts: Sequence[Staged] | None,
        expected: Mapping[Window, SliceState],
    ) -> Sequence[Published]:
        from setpoint.targets.postgres.chunk import together

        staged = together(chunk, parts) if parts else None
        return Publishing(self._server, self._name, chunk, receipts, staged, expected).execute()

    def landed(self, window: str, attempt: str) -> Published | None:
        with self._server.session(f"looking at {self._name}") as connection:
            if not receipts.exists(connection):
                return None
            found = receipts.of_attempt(connection, self._pipeline.name, window, attempt)
            if found is None:
                return None
            receipt, xid, oid = found
            return Published(receipt, xid, table_id_of(connection, oid))

    def has_stage(self, location: str) -> bool:
        from setpoint.targets.postgres.stage import table_at

        with self._server.session("looking at a stage") as connection:
            found = connection.execute(
                f"SELECT to_regclass({literal(table_at(location).sql)}) IS NOT NULL"
            ).fetchone()
            return bool(found and found[0])

    def drop_stage(self, location: str) -> None:
        from setpoint.targets.postgres.stage import table_at

        table = table_at(location)
        with self._server.session("dropping a stage") as connection:
            connection.execute("SET LOCAL lock_timeout = '5s'")
            connection.execute(f"DROP TABLE IF EXISTS {table.sql}")

    def tidy_stage(self, staged: Staged) -> None:
        # A task that lost its race was still writing to it, so that the commit left it.
        self.drop_stage(staged.location)

    def leftovers(self) -> Sequence[Leftover]:
        with self._server.session("looking for stages") as connection:
            found = connection.execute(_STAGES).fetchall()
        left = []
        for name, comment, size in found:
            try:
                about = json.loads(comment or "")
                ours = about["target"] == self.uri
                leftover = Leftover(
                    location=name,
                    attempt=about["attempt"],
                    pipeline=about["pipeline"],
                    window=about["window"],
                    files=1,
                    size=int(size),
                    modified_ms=int(about["made_ms"]),
                )
            except (ValueError, KeyError, TypeError):
                continue
            if ours:
                left.append(leftover)
        return left

    def _published(self, connection: psycopg.Connection[Any]) -> StoredTable | None:
        """The table, if it is there and anything was ever published in this database."""
        table = describe(connection, self._name)
        return table if table is not None and receipts.exists(connection) else None

    def _refuse_condition(self, connection: psycopg.Connection[Any], rows: str) -> None:
        """A condition that PostgreSQL does not understand is refused before anything is staged."""
        import psycopg

        write = self._pipeline.write
        if not isinstance(write, DeleteInsert):
            return
        try:
            # Binary results need the protocol that takes one statement only.
            query = f"EXPLAIN SELECT FROM {rows} WHERE ({write.where}\n)"
            connection.execute(query, binary=True)
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith(("42", "22")):
                raise  # it says nothing about the condition
            raise RefusedError(
                "SP-D09",
                f"PostgreSQL cannot evaluate the condition {write.where!r:.200} of "
                f"{self._pipeline.name}: {self._server.said(error)}",
                why="It says which rows are meant, in Spark and in PostgreSQL alike.",
                state=UNCHANGED,
                next="Write it so that both understand it, then run again.",
            ) from error
