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

from setpoint.errors import PermanentError, SetpointError
from setpoint.model.audit import Audit, Unique, rides_along
from setpoint.model.ports import Staged
from setpoint.model.run import Chunk, Statement
from setpoint.model.scope import Scope
from setpoint.model.span import Stretch
from setpoint.model.write import KEYED, DeleteInsert, Merge
from setpoint.spark import audits as spark_audits
from setpoint.spark import stage as spark_stage
from setpoint.spark.batch import DELETED, Incoming
from setpoint.spark.batches import reports_of
from setpoint.spark.checks import OUTSIDE, outside, refuse_unless_condition, required
from setpoint.spark.contents import fingerprint_text, hash_sql, quoted
from setpoint.spark.expressions import Expression, any_null, is_not_true, unless
from setpoint.spark.ordinal import window_ordinal
from setpoint.targets.chunk import dividing
from setpoint.targets.postgres import batch as keyed
from setpoint.targets.postgres import lines
from setpoint.targets.postgres.failures import explained, without_secrets
from setpoint.targets.postgres.ingest import INGESTED, ingesting, proven_unique
from setpoint.targets.postgres.names import OURS, TableName, literal, quote
from setpoint.targets.postgres.readback import read_back
from setpoint.targets.postgres.receipts import ensure_schema
from setpoint.targets.postgres.schema import Field, Fit
from setpoint.targets.postgres.server import SETTINGS, Server
from setpoint.targets.postgres.slices import slice_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PREFIX = "stage_"
_LOCATION = re.compile(rf"{_PREFIX}[0-9a-z_]{{1,50}}")


@dataclass(frozen=True)
class PostgresStage:
    """The PostgreSQL side of a stage: its table, and the transactions whose rows count.

    `only_value` is what all rows have in the column of the window, if the window says so: that
    column is checked while the rows are staged, and not stored. `shares` are what the tasks
    counted of each window of a chunk, `clip` the windows whose rows a part of it is about.
    `distinct` are keys of which no two rows of a window share one.
    """

    table: TableName
    xids: tuple[int, ...]
    fit: Fit
    scope: Scope
    schema: T.StructType
    removes: bool
    only_value: str | None = None
    distinct: frozenset[tuple[str, ...]] = field(default=frozenset())
    shares: Mapping[str, spark_stage.Observed] = field(default_factory=dict)
    clip: Stretch | None = None

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
        clip = f" AND {slice_sql(self.scope.rule, self.clip)}" if self.clip else ""
        return f"{self.everything} WHERE {self.counted}{clip}"

    @property
    def everything(self) -> str:
        """All rows in the table, as `s`; those of a task that ran twice are there twice."""
        table, column = self.table.sql, self._constant
        if column is not None:
            value = f"CAST({literal(self.only_value or '')} AS {column.mapped.cast})"
            table = f"(SELECT t.ctid, t.xmin, t.*, {value} AS {column.quoted} FROM {table} AS t)"
        return f"{table} AS s"

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
            next="Please report this with the output of: setpoint doctor",
        )
    return TableName(OURS, place)


def write(
    frame: DataFrame,
    run: Statement,
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
    if frame.columns != list(fit.names):
        frame = frame.select(*map(quoted, fit.names))
    given, schema = frame, frame.schema
    incoming = Incoming(frame, write, run) if isinstance(write, KEYED) else None
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


def _only_value(scope: Scope, run: Statement, schema: T.StructType) -> str | None:
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
    run: Statement,
    fit: Fit,
    condition: str | None,
    audits: Sequence[Audit],
    schema: T.StructType,
    removes: bool,
) -> dict[str, Expression]:
    counts: dict[str, Expression] = {}
    if condition is not None:
        if isinstance(run.pipeline.write, DeleteInsert):
            refuse_unless_condition(frame, run.pipeline.write.where, run)
        counts[OUTSIDE] = is_not_true(condition)
    unfit: dict[str, Expression] = {f"null {name}": any_null([name]) for name in fit.required}
    unfit |= {
        f"audit {n}": spark_audits.violation(audit, schema)
        for n, audit in enumerate(audits)
        if rides_along(audit)
    }
    if not removes:
        return counts | unfit
    unfit = {name: unless(condition, DELETED) for name, condition in unfit.items()}
    return counts | unfit | {DELETED: quoted(DELETED)}


def _key_sets(write: Any, audits: Sequence[Audit]) -> list[tuple[str, ...]]:
    """The column sets whose uniqueness somebody will ask for."""
    wanted = [write.keys] if isinstance(write, KEYED) else []
    wanted += [audit.columns for audit in audits if isinstance(audit, Unique)]
    return list(dict.fromkeys(wanted))


def _create(server: Server, stage: PostgresStage, run: Statement, attempt: str, uri: str) -> None:
    columns = [item.staged for item in stage.stored]
    columns += [f"{quote(DELETED)} boolean"] if stage.removes else []
    with server.open(f"making the stage of {run.label}") as connection:
        ensure_schema(connection)
        now = connection.execute("SELECT (extract(epoch FROM now()) * 1000)::int8").fetchone()
        about = {
            "pipeline": run.pipeline.name,
            "window": run.window.id,
            "attempt": attempt,
            "target": uri,
            "made_ms": now[0] if now else 0,
        }
        connection.execute(  # one message, so that it is one transaction
            f"{SETTINGS}; CREATE UNLOGGED TABLE {stage.table.sql} ({', '.join(columns)}) "
            "WITH (autovacuum_enabled = false); "
            f"COMMENT ON TABLE {stage.table.sql} IS {literal(json.dumps(about))}"
        )


def _ingest(
    frame: DataFrame,
    counts: Mapping[str, Expression],
    stage: PostgresStage,
    keys: list[tuple[str, ...]],
    server: Server,
    run: Statement,
) -> tuple[PostgresStage, spark_stage.Observed]:
    flags = [DELETED] if stage.removes else []
    masks = lines.masks(list(counts.values()))
    hashes = [hash_sql(T.StructType([stage.schema[name] for name in key])) for key in keys]
    outgoing: dict[str, Expression] = {
        "line": lines.line(stage.stored, stage.schema, flags),
        "hash": hash_sql(frame.schema),
    }
    outgoing |= {f"mask{number}": mask for number, mask in enumerate(masks)}
    if isinstance(run, Chunk):
        rule = dividing(stage.scope, run)
        outgoing["window"] = window = window_ordinal(rule, run.window.windows).sql
        hashes = [f"xxhash64({window}, {key})" for key in hashes]
    outgoing |= {f"key{number}": key for number, key in enumerate(hashes)}
    columns = ", ".join([item.quoted for item in stage.stored] + [quote(flag) for flag in flags])
    copy = f"COPY {stage.table.sql} ({columns}) FROM STDIN"
    ingest = ingesting(
        server.url.reveal(), SETTINGS, copy, len(masks), len(keys), by_window=isinstance(run, Chunk)
    )
    try:
        # As rows the hashes would be pickled, which takes longer than to sort them.
        reports = reports_of(frame, outgoing, ingest, INGESTED).to_pylist()
    except Exception as error:
        raise explained(error, run, server) from error
    return _reported(stage, list(counts), keys, reports)


def _reported(
    stage: PostgresStage,
    counts: Sequence[str],
    keys: Sequence[tuple[str, ...]],
    reports: Sequence[Any],
) -> tuple[PostgresStage, spark_stage.Observed]:
    """The stage that the tasks which won have made."""
    by_window: dict[str, list[Any]] = {}
    for share in (share for report in reports for share in report["shares"]):
        by_window.setdefault(share["window"], []).append(share)
    observed = _observed(counts, [share for shares in by_window.values() for share in shares])
    shares = {window: _observed(counts, shares) for window, shares in by_window.items()}
    distinct = (
        columns
        for n, columns in enumerate(keys)
        if stage.fit.is_exact(columns) and proven_unique(reports, n)
    )
    xids = tuple(int(report["xid"]) for report in reports)
    return replace(stage, xids=xids, distinct=frozenset(distinct), shares=shares), observed


def _observed(counts: Sequence[str], shares: Sequence[Any]) -> spark_stage.Observed:
    """What tasks counted, put together."""
    rows, low, high = (sum(share[name] for share in shares) for name in ("rows", "low", "high"))
    places = {name: lines.place_of(number) for number, name in enumerate(counts)}
    return spark_stage.Observed(
        rows=rows,
        counts={
            name: sum(share["counts"][mask][bit] for share in shares)
            for name, (mask, bit) in places.items()
        },
        contents=fingerprint_text(rows, low, high),
    )


def _keyed(
    stage: PostgresStage,
    observed: spark_stage.Observed,
    incoming: Incoming,
    audits: Sequence[Audit],
    run: Statement,
    attempt: str,
    server: Server,
    session: SparkSession,
) -> Staged:
    """The stage of a keyed write, brought to one row per key inside PostgreSQL."""
    write = run.pipeline.write
    assert isinstance(write, KEYED)
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
        wanted = {n: audits[n] for n in staged.violations}
        with without_secrets(server):
            counted = spark_audits.count_violations(read_back(session, server, staged), wanted)
        staged = replace(staged, violations=counted)
    return staged


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
        violations=violations_of(observed, audits),
        changes_schema=bool(stage.fit.added),
        handle=stage,
        deletes=observed.counts.get(DELETED, 0),
    )


def violations_of(observed: spark_stage.Observed, audits: Sequence[Audit]) -> dict[int, int]:
    """The violations of the row-level audits, by position."""
    return {n: observed.counts[f"audit {n}"] for n, a in enumerate(audits) if rides_along(a)}


def _refuse_unfit(
    frame: DataFrame,
    run: Statement,
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
