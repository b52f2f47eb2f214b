"""Staging for PostgreSQL: an unlogged table of the attempt, in the schema `setpoint`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UsageError,
)
from setpoint.model.audit import Audit, Unique, rides_along
from setpoint.model.ports import Staged
from setpoint.model.run import Run
from setpoint.model.scope import Scope
from setpoint.model.write import DeleteInsert, InsertNew, Merge
from setpoint.spark import audits as spark_audits
from setpoint.spark import stage as spark_stage
from setpoint.spark.batch import DELETED, Incoming
from setpoint.spark.checks import OUTSIDE, outside, refuse_unless_condition, required
from setpoint.spark.contents import fingerprint_text, quoted, row_hash
from setpoint.spark.failures import explain
from setpoint.targets.postgres import batch as keyed
from setpoint.targets.postgres import lines
from setpoint.targets.postgres.ingest import INGESTED, ingesting, proven_unique, reading
from setpoint.targets.postgres.names import OURS, TableName, literal, quote
from setpoint.targets.postgres.receipts import ensure_schema
from setpoint.targets.postgres.schema import Field, Fit
from setpoint.targets.postgres.server import Server

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PREFIX = "stage_"
_LOCATION = re.compile(rf"{_PREFIX}[0-9a-z_]{{1,50}}")
_BLOCK = 8192
_DRIVER_SAID = re.compile(r"^((?:psycopg|adbc_driver_manager)\.[\w.]+): (.+)$", re.MULTILINE)
_PASSING = re.compile(
    r"^psycopg\.OperationalError|AdminShutdown|CrashShutdown|CannotConnectNow|TooManyConnections"
    r"|DiskFull|server closed the connection|connection to server|terminating connection"
    r"|consuming input failed|Connection (refused|reset|timed out)|LockNotAvailable"
)


@dataclass(frozen=True)
class PostgresStage:
    """The PostgreSQL side of a stage: its table, and the transactions whose rows count.

    `only_value` is what all rows have in the column of the window, if the window says so: that
    column is checked while the rows are staged, and not stored.
    """

    table: TableName
    xids: tuple[int, ...]
    fit: Fit
    scope: Scope
    schema: T.StructType
    removes: bool
    only_value: str | None = None
    distinct: frozenset[tuple[str, ...]] = field(default=frozenset())

    @property
    def counted(self) -> str:
        """The condition that a staged row was written by a task that won."""
        return f"s.xmin = ANY ('{{{','.join(str(xid & 0xFFFFFFFF) for xid in self.xids)}}}'::xid[])"

    @property
    def stored(self) -> tuple[Field, ...]:
        """The fields that the table has a column for."""
        return tuple(item for item in self.fit.fields if item != self._constant)

    @property
    def source(self) -> str:
        """The rows that count, as `s`, with all their columns."""
        table, column = self.table.sql, self._constant
        if column is not None:
            value = f"CAST({literal(self.only_value or '')} AS {column.mapped.cast})"
            table = f"(SELECT t.ctid, t.xmin, t.*, {value} AS {column.quoted} FROM {table} AS t)"
        return f"{table} AS s WHERE {self.counted}"

    @property
    def kept(self) -> str:
        """The staged rows that readers will see: what the audits are about."""
        return f"{self.source} AND NOT s.{quote(DELETED)}" if self.removes else self.source

    @property
    def _constant(self) -> Field | None:
        rule = self.scope.rule
        return self.fit.field(rule.column) if rule and self.only_value is not None else None


def location(attempt: str) -> str:
    """The attempt's table in the schema `setpoint`."""
    return _PREFIX + re.sub(r"[^0-9a-z_]", "_", attempt.lower())[:50]


def table_at(place: str) -> TableName:
    """The staging table at a location; nothing else can be named this way."""
    if not _LOCATION.fullmatch(place):
        raise PermanentError(
            "SP-P04",
            f"{place!r:.80} is not a staging table.",
            why="Only tables that setpoint staged may be removed.",
            state="Nothing was removed.",
            next="Please report this with the output of: setpoint show",
        )
    return TableName(OURS, place)


def write(
    frame: DataFrame,
    run: Run,
    attempt: str,
    audits: Sequence[Audit],
    *,
    server: Server,
    uri: str,
    fit: Fit,
    scope: Scope,
) -> Staged:
    """Stage the frame in one Spark job; refuse rows that the write pattern cannot take."""
    write = run.pipeline.write
    frame = given = frame.select(*(F.col(quoted(name)) for name in fit.names))
    schema = frame.schema
    incoming = Incoming(frame, write, run) if isinstance(write, (Merge, InsertNew)) else None
    frame = incoming.frame if incoming else frame
    removes = isinstance(write, Merge) and write.delete_when is not None
    if isinstance(write, Merge) and write.delete_when is not None:
        refuse_unless_condition(frame, write.delete_when, run)
        frame = frame.withColumn(DELETED, F.coalesce(F.expr(write.delete_when), F.lit(False)))
    condition = scope.condition(run.window)
    counts = _counts(frame, run, fit, condition, audits, schema, removes)
    keys = _key_sets(write, audits)
    only_value = _only_value(scope, run, schema)
    stage = PostgresStage(table_at(location(attempt)), (), fit, scope, schema, removes, only_value)
    _create(server, stage, run, attempt, uri)
    try:
        stage, observed = _ingest(frame, counts, stage, keys, server, run)
        _refuse_unfit(given, run, fit, condition, observed)
        if incoming is not None:
            incoming.refuse_nulls()
            session = frame.sparkSession
            return _keyed(stage, observed, incoming, audits, run, attempt, server, session)
    except SetpointError:
        _forget(server, stage)
        raise
    return _staged(stage, observed, audits, attempt)


def _only_value(scope: Scope, run: Run, schema: T.StructType) -> str | None:
    """The value of the window's column, where the condition of the write lets no other pass."""
    rule = scope.rule
    if rule is None or scope.condition(run.window) is None or len(schema) == 1:
        return None
    kind = schema[rule.column].dataType
    if isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY":
        return None  # other spellings would be equal
    return rule.only_value(run.window)


def _counts(
    frame: DataFrame,
    run: Run,
    fit: Fit,
    condition: str | None,
    audits: Sequence[Audit],
    schema: T.StructType,
    removes: bool,
) -> dict[str, Column]:
    stays = ~F.col(DELETED) if removes else F.lit(True)
    counts: dict[str, Column] = {}
    if condition is not None:
        if isinstance(run.pipeline.write, DeleteInsert):
            refuse_unless_condition(frame, run.pipeline.write.where, run)
        counts[OUTSIDE] = spark_stage.is_not_true(condition)
    counts |= {f"null {name}": spark_stage.is_null(name) & stays for name in fit.required}
    counts |= {
        f"audit {n}": spark_audits.violation(audit, schema) & stays
        for n, audit in enumerate(audits)
        if rides_along(audit)
    }
    return counts | ({DELETED: F.col(DELETED)} if removes else {})


def _key_sets(write: Any, audits: Sequence[Audit]) -> list[tuple[str, ...]]:
    """The column sets whose uniqueness somebody will ask for."""
    wanted = [write.keys] if isinstance(write, (Merge, InsertNew)) else []
    wanted += [audit.columns for audit in audits if isinstance(audit, Unique)]
    return list(dict.fromkeys(wanted))


def _create(server: Server, stage: PostgresStage, run: Run, attempt: str, uri: str) -> None:
    columns = [f"{item.quoted} {item.mapped.cast}" for item in stage.stored]
    columns += [f"{quote(DELETED)} boolean"] if stage.removes else []
    with server.session(f"making the stage of {run.label}") as connection:
        ensure_schema(connection)
        now = connection.execute("SELECT (extract(epoch FROM now()) * 1000)::int8").fetchone()
        about = {
            "pipeline": run.pipeline.name,
            "window": run.window.id,
            "attempt": attempt,
            "target": uri,
            "made_ms": now[0] if now else 0,
        }
        connection.execute(
            f"CREATE UNLOGGED TABLE {stage.table.sql} ({', '.join(columns)}) "
            "WITH (autovacuum_enabled = false); "
            f"COMMENT ON TABLE {stage.table.sql} IS {literal(json.dumps(about))}"
        )


def _ingest(
    frame: DataFrame,
    counts: Mapping[str, Column],
    stage: PostgresStage,
    keys: list[tuple[str, ...]],
    server: Server,
    run: Run,
) -> tuple[PostgresStage, spark_stage.Observed]:
    flags = [DELETED] if stage.removes else []
    masks = lines.masks(list(counts.values()))
    outgoing = [lines.line(stage.stored, stage.schema, flags), row_hash(frame.schema), *masks]
    outgoing += [row_hash(T.StructType([stage.schema[name] for name in key])) for key in keys]
    named = [column.alias(f"c{position}") for position, column in enumerate(outgoing)]
    columns = ", ".join([item.quoted for item in stage.stored] + [quote(flag) for flag in flags])
    copy = f"COPY {stage.table.sql} ({columns}) FROM STDIN"
    ingest = ingesting(server.url, copy, len(masks), len(keys))
    try:
        # As rows the hashes would be pickled, which takes longer than to sort them.
        reports = frame.select(*named).mapInArrow(ingest, INGESTED).toArrow().to_pylist()
    except Exception as error:
        raise _explained(error, run, server) from error
    rows = sum(report["rows"] for report in reports)
    places = {name: lines.place_of(number) for number, name in enumerate(counts)}
    observed = spark_stage.Observed(
        rows=rows,
        counts={
            name: sum(report["counts"][mask][bit] for report in reports)
            for name, (mask, bit) in places.items()
        },
        contents=fingerprint_text(
            rows, sum(report["low"] for report in reports), sum(r["high"] for r in reports)
        ),
    )
    distinct = (columns for n, columns in enumerate(keys) if proven_unique(reports, n))
    xids = tuple(int(report["xid"]) for report in reports)
    return replace(stage, xids=xids, distinct=frozenset(distinct)), observed


def _explained(error: Exception, run: Run, server: Server) -> SetpointError:
    text = str(error)
    if "ModuleNotFoundError" in text and ("psycopg" in text or "adbc_driver" in text):
        return UsageError(
            "SP-C08",
            "The packages psycopg and adbc-driver-postgresql are missing where Spark runs Python.",
            why="Every executor writes its rows to PostgreSQL itself.",
            next="Install them there: pip install 'psycopg[binary]' adbc-driver-postgresql",
        )
    if "CharacterNotInRepertoire" in text and "0x00" in text:
        return RefusedError(
            "SP-O05",
            f"A text of {run.label} holds the character U+0000.",
            why="PostgreSQL cannot store it.",
            state="The target is unchanged; the stage was dropped.",
            next="Remove it, for example with F.translate(column, '\\u0000', '').",
        )
    causes = _DRIVER_SAID.findall(text)
    if not causes:
        found = explain(error, f"staging {run.label}")
        found.what = server.scrubbed(found.what)
        return found
    kind, words = causes[-1]
    said = server.scrubbed(" ".join(words.split()))[:400]
    if _PASSING.search(f"{kind}: {words}"):
        return TransientError(
            "SP-T01",
            f"Staging {run.label} on the connection {server.name} failed: {said}",
            why="A task could not write its rows.",
            state="The target is unchanged; what was staged is not visible to any reader.",
            next="Run again; it is always safe.",
        )
    return RefusedError(
        "SP-T03",
        f"A value of {run.label} does not fit its column: {said}",
        why="PostgreSQL converts every value or none.",
        state="The target is unchanged; the stage was dropped.",
        next="Correct the rows or the column, then run again.",
    )


def _keyed(
    stage: PostgresStage,
    observed: spark_stage.Observed,
    incoming: Incoming,
    audits: Sequence[Audit],
    run: Run,
    attempt: str,
    server: Server,
    session: SparkSession,
) -> Staged:
    """The stage of a keyed write, brought to one row per key inside PostgreSQL."""
    write = run.pipeline.write
    assert isinstance(write, (Merge, InsertNew))
    staged = _staged(stage, observed, audits, attempt)
    notes: tuple[str, ...] = ()
    with server.session(f"resolving the keys of {run.label}") as connection:
        connection.execute(f"ANALYZE {stage.table.sql}")
        if write.keys not in stage.distinct:
            rows, deletes, tied = keyed.resolve(connection, stage, write, incoming)
            notes = incoming.notes(rows, tied)
            staged = replace(staged, rows=rows, deletes=deletes)
    staged = replace(staged, quarantined=incoming.quarantined(), notes=notes)
    if staged.rows != observed.rows and any(staged.violations.values()):
        # Some of the rows that were counted are no longer there.
        staged = replace(staged, violations=_recounted(session, server, staged, audits))
    return staged


def _recounted(
    session: SparkSession, server: Server, staged: Staged, audits: Sequence[Audit]
) -> dict[int, int]:
    rows = read_back(session, server, staged)
    wanted = {n: audits[n] for n in staged.violations}
    counts = [
        F.count_if(spark_audits.violation(audit, rows.schema)).alias(str(n))
        for n, audit in wanted.items()
    ]
    try:
        found = rows.agg(*counts).collect()[0]
    except Exception as error:
        raise explain(error, "counting violations") from error
    return {n: int(found[str(n)]) for n in wanted}


def _staged(
    stage: PostgresStage,
    observed: spark_stage.Observed,
    audits: Sequence[Audit],
    attempt: str,
) -> Staged:
    return Staged(
        location=stage.table.table,
        attempt=attempt,
        rows=observed.rows,
        contents=observed.contents,
        files=None,
        violations={
            n: observed.counts[f"audit {n}"] for n, a in enumerate(audits) if rides_along(a)
        },
        changes_schema=bool(stage.fit.added),
        handle=stage,
        deletes=observed.counts.get(DELETED, 0),
    )


def read_back(session: SparkSession, server: Server, staged: Staged) -> DataFrame:
    """The staged rows that readers will see, as a frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    stage: PostgresStage = staged.handle
    with server.session("reading the stage back") as connection:
        found = connection.execute(
            f"SELECT pg_catalog.pg_relation_size({literal(stage.table.sql)}::regclass)"
        ).fetchone()
    blocks = int(found[0]) // _BLOCK + 1 if found else 1
    size = max(64, -(-blocks // 64))
    wire = T.StructType(
        [
            T.StructField(f"c{position}", _wire(item.dataType, stage, item.name))
            for position, item in enumerate(stage.schema.fields)
        ]
    )
    columns = ", ".join(
        f"s.{quote(item.name)}::{stage.fit.field(item.name).mapped.plain} AS c{position}"
        for position, item in enumerate(stage.schema.fields)
    )
    query = f"SELECT {columns} FROM {stage.kept}"
    read = reading(
        server.url,
        to_arrow_schema(wire),
        lambda first: f"{query} AND ctid >= '({first},0)' AND ctid < '({first + size},0)'",
    )
    starts = session.range(0, blocks, size)
    frame = starts.mapInArrow(read, wire)
    return frame.select(
        *(
            _restored(f"c{position}", item, stage.fit.field(item.name).mapped.as_json)
            for position, item in enumerate(stage.schema.fields)
        )
    )


def _wire(kind: T.DataType, stage: PostgresStage, name: str) -> T.DataType:
    if stage.fit.field(name).mapped.as_json or isinstance(kind, T.DecimalType):
        return T.StringType()
    if isinstance(kind, T.ByteType):
        return T.ShortType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_wire(kind.elementType, stage, name))
    return kind


def _restored(name: str, item: T.StructField, as_json: bool) -> Column:
    column = F.col(name)
    if not as_json:
        return column.cast(item.dataType).alias(item.name)
    if isinstance(item.dataType, T.VariantType):
        return F.parse_json(column).alias(item.name)
    return F.from_json(column, item.dataType, lines.TO_JSON).alias(item.name)  # type: ignore[arg-type]


def _refuse_unfit(
    frame: DataFrame,
    run: Run,
    fit: Fit,
    condition: str | None,
    observed: spark_stage.Observed,
) -> None:
    """Refuse rows that were counted as unfit while they were staged."""
    if condition is not None and observed.counts[OUTSIDE]:
        raise outside(frame, run, condition, observed.counts[OUTSIDE], observed.rows)
    for name in fit.required:
        if count := observed.counts[f"null {name}"]:
            raise required(run, name, count, observed.rows)


def _forget(server: Server, stage: PostgresStage) -> None:
    """Clear a refused stage away; what cannot be removed now is a matter for recover."""
    with suppress(SetpointError), server.session("dropping a stage") as connection:
        connection.execute(f"DROP TABLE IF EXISTS {stage.table.sql}")
