"""Staging for Delta: Parquet files in a folder of the attempt, below the table's root.

Nothing in it is visible until a commit names its files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import types as T

from setpoint.errors import SetpointError
from setpoint.model import tombstones
from setpoint.model.audit import Audit, rides_along
from setpoint.model.ports import Staged
from setpoint.model.receipt import files_digest
from setpoint.model.run import Chunk, Statement
from setpoint.model.scope import Scope
from setpoint.model.slice import NULL_PARTITION, typed
from setpoint.spark import stage as spark_stage
from setpoint.spark.audits import count_violations
from setpoint.spark.batch import DELETED, to_keep
from setpoint.spark.checks import Checks
from setpoint.spark.contents import quoted
from setpoint.spark.failures import explain
from setpoint.spark.union import gathered
from setpoint.targets.delta.footers import can_answer, holds
from setpoint.targets.delta.schema import Fit
from setpoint.targets.delta.stats import FileStats, footer_stats
from setpoint.targets.delta.storage import FOLDER, Storage
from setpoint.targets.refusals import rows_differ
from setpoint.targets.storage import footer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StagedFile:
    """A staged Parquet file, with what a commit has to say about it."""

    path: str
    size: int
    modified_ms: int
    partition: Mapping[str, str | None]
    stats: FileStats
    deleted: bool = False


@dataclass(frozen=True)
class DeltaStage:
    """The Delta side of a stage.

    `files` become live if they are committed as they are; `removals` are the files of rows that
    remove a key. `tombstones` is the folder that remembers those keys, or empty. `clip` is the
    condition of the window whose part of a larger stage this is, or empty.
    """

    fit: Fit
    scope: Scope
    only_value: str | None
    partition_by: tuple[str, ...]
    files: tuple[StagedFile, ...]
    schema: T.StructType
    removals: tuple[StagedFile, ...] = ()
    tombstones: str = ""
    clip: str = ""

    @property
    def written(self) -> dict[str, int]:
        """The sizes of all its files."""
        return {file.path: file.size for file in (*self.files, *self.removals)}

    def integer_bounds(self) -> dict[str, tuple[Any, Any]]:
        """Least and greatest value of the columns that hold no null, over all staged files."""
        bounds: dict[str, tuple[Any, Any]] = {}
        for name in self.schema.fieldNames():
            path = (name,)
            stats = [file.stats for file in self.files]
            if stats and all(s.nulls.get(path) == 0 and path in s.least for s in stats):
                bounds[name] = (min(s.least[path] for s in stats), max(s.most[path] for s in stats))
        return bounds


def location(run: Statement, attempt: str) -> str:
    """The attempt's folder, relative to the table's root."""
    return f"{FOLDER}/{run.pipeline.name}/{run.window.slug}/{attempt}"


def write(
    frame: DataFrame,
    run: Statement,
    attempt: str,
    audits: Sequence[Audit],
    *,
    storage: Storage,
    fit: Fit,
    scope: Scope,
    partition_by: tuple[str, ...],
) -> Staged:
    """Stage the frame in one Spark job; refuse rows that the write pattern cannot take."""
    frame = frame.select(*map(quoted, fit.columns))
    if run.pipeline.spans and scope.rule is not None and isinstance(run, Chunk):
        frame = gathered(frame, scope.rule.column)
    schema = frame.schema
    folder = location(run, attempt)
    only_value = _only_value(scope, run, partition_by)
    slice_column = scope.rule.column if scope.rule else ""
    condition = scope.condition(run.window)
    row_level = {n: audit for n, audit in enumerate(audits) if rides_along(audit)}
    by_footer = {n for n, audit in row_level.items() if can_answer(audit, schema, partition_by)}
    checks = Checks(
        frame,
        run,
        audits,
        condition=condition,
        required=fit.required,
        answered=by_footer,
        partition_by=partition_by,
    )
    in_folders = [name for name in partition_by if not (only_value and name == slice_column)]
    try:
        observed = spark_stage.write_parquet(
            checks.frame,
            storage.spark_path(folder),
            counts=checks.counts,
            partition_by=[*([DELETED] if checks.removes else []), *in_folders],
            leave_out=[*checks.ours, *([slice_column] if only_value else [])],
        )
    except Exception as error:
        _forget(storage, folder)
        raise explain(error, f"staging {run.label}") from error
    try:
        checks.refuse(observed)
    except SetpointError:
        _forget(storage, folder)
        raise
    constant = {slice_column: only_value} if only_value else {}
    kinds = {field.name: field.dataType.typeName() for field in schema.fields}
    found = staged_files(storage, folder, constant, kinds)
    stored = sum(file.stats.rows for file in found)
    if stored != observed.rows:
        raise rows_differ(run.label, observed.rows, stored, "was dropped")
    files = tuple(file for file in found if not file.deleted)
    deletes = observed.counts.get(DELETED, 0)
    stage = DeltaStage(
        fit=fit,
        scope=scope,
        only_value=only_value,
        partition_by=partition_by,
        files=files,
        schema=schema.add(DELETED, T.BooleanType()) if checks.removes else schema,
        removals=tuple(file for file in found if file.deleted),
        tombstones=tombstones.folder_of(folder) if deletes else "",
    )
    staged = Staged(
        location=folder,
        attempt=attempt,
        rows=observed.rows,
        contents=observed.contents,
        files=files_digest(file.path for file in files),
        violations=checks.violations(observed),
        changes_schema=bool(fit.added),
        handle=stage,
        deletes=deletes,
        quarantined=checks.quarantined(),
        notes=checks.notes(observed),
    )
    proven = {n for n in by_footer if holds(row_level[n], [file.stats for file in files])}
    doubtful = {n: row_level[n] for n in sorted(by_footer - proven)}
    counted = {}
    if doubtful:
        counted = count_violations(
            to_keep(read_back(frame.sparkSession, storage, staged)), doubtful
        )
    return replace(staged, violations={**staged.violations, **dict.fromkeys(proven, 0), **counted})


def _only_value(scope: Scope, run: Statement, partition_by: tuple[str, ...]) -> str | None:
    """The value of the partition column that all rows of the run share, if there is one."""
    if scope.rule is None or scope.rule.column not in partition_by:
        return None
    return scope.rule.only_value(run.window)


def _forget(storage: Storage, folder: str) -> None:
    """Clear a refused stage away; what cannot be removed now is a matter for recover."""
    with suppress(SetpointError):
        storage.drop(folder)


def read_back(session: SparkSession, storage: Storage, staged: Staged) -> DataFrame:
    """The staged rows as a frame, with the flag of a removed key where the write removes any."""
    stage: DeltaStage = staged.handle
    rule, value = stage.scope.rule, stage.only_value
    constant = {rule.column: value} if rule and value and not stage.clip else {}
    path = storage.spark_path(staged.location)
    frame = spark_stage.read_staged(session, staged, path, constant)
    return frame.where(stage.clip) if stage.clip else frame


def staged_files(
    storage: Storage, folder: str, constant: Mapping[str, str | None], kinds: Mapping[str, str]
) -> tuple[StagedFile, ...]:
    """The files below a folder that hold rows; `constant` are values of all their partitions."""
    found = []
    for file in storage.files(folder):
        if not file.holds_rows:
            continue
        with storage.open(file.path) as handle:
            stats = footer_stats(footer_of(handle, file.path))
        if not stats.rows:
            continue
        inner = file.path[len(folder) + 1 :]
        flag, _, rest = inner.partition("/")
        removed = flag == f"{DELETED}=true"
        partition = {**constant, **_folders(rest if flag.startswith(DELETED) else inner, kinds)}
        found.append(
            StagedFile(file.path, file.size, file.modified_ms, partition, stats, deleted=removed)
        )
    return tuple(found)


def _folders(path: str, kinds: Mapping[str, str]) -> dict[str, str | None]:
    """Partition values from Spark's folder names, spelled as Delta wants them."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, _, value = part.partition("=")
        name, value = unquote(name), unquote(value)
        values[name] = None if value == NULL_PARTITION else _delta_spelling(kinds[name], value)
    return values


def _delta_spelling(kind: str, text: str) -> str:
    value = typed(kind, text) if kind in ("date", "timestamp", "timestamp_ntz") else text
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            # Without a zone a reader would take it for a time of its own zone.
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
            return f"{value.isoformat('T', 'microseconds')}Z"
        return value.isoformat(" ", "microseconds" if value.microsecond else "seconds")
    return value.isoformat() if isinstance(value, date) else str(value)
