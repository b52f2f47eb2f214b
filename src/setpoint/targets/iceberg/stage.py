"""Staging for Iceberg: plain Parquet files in a folder of the attempt, below the table's data.

Spark writes them without the connector. Each lies in one partition, and its columns carry the
table's field ids; no reader sees a file before a commit names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.errors import PermanentError, SetpointError
from setpoint.model import tombstones
from setpoint.model.audit import Audit
from setpoint.model.ports import Staged
from setpoint.model.receipt import files_digest
from setpoint.model.run import Chunk, Statement
from setpoint.model.scope import Scope
from setpoint.spark import stage as spark_stage
from setpoint.spark.batch import DELETED
from setpoint.spark.checks import Checks
from setpoint.spark.contents import quoted
from setpoint.spark.failures import explain
from setpoint.spark.union import gathered
from setpoint.targets.chunk import dividing
from setpoint.targets.iceberg.files import StagedFile, staged_files
from setpoint.targets.iceberg.partitions import WINDOW, Layout, by_window
from setpoint.targets.iceberg.schema import Fit
from setpoint.targets.iceberg.storage import ROWS, Storage
from setpoint.targets.refusals import rows_differ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELD_IDS = "spark.sql.parquet.fieldId.write.enabled"


@dataclass(frozen=True)
class IcebergStage:
    """The Iceberg side of a stage.

    `files` become live if they are committed as they are; `removals` are the files of rows that
    remove a key. `tombstones` is the folder that remembers those keys, or empty. `folder` is
    where the rows lie: those of a window that is part of a larger stage have one of their own.
    """

    storage: Storage
    fit: Fit
    scope: Scope
    layout: Layout
    files: tuple[StagedFile, ...]
    schema: T.StructType
    fields: Sequence[dict[str, Any]]
    folder: str
    removals: tuple[StagedFile, ...] = ()
    tombstones: str = ""

    @property
    def written(self) -> dict[str, int]:
        """The sizes of all its files."""
        return {file.path: file.size for file in (*self.files, *self.removals)}


def write(
    frame: DataFrame,
    run: Statement,
    attempt: str,
    audits: Sequence[Audit],
    *,
    location: str,
    storage: Storage,
    fit: Fit,
    scope: Scope,
    layout: Layout,
) -> Staged:
    """Stage the frame in one Spark job; refuse rows that the write pattern cannot take."""
    fields = frame.schema.jsonValue()["fields"]
    frame = as_stored(frame, fit)
    schema, folder = frame.schema, f"{location}/{ROWS}"
    condition = scope.condition(run.window)
    checks = Checks(frame, run, audits, condition=condition, required=fit.required)
    known = layout.constants(scope.rule, run.window)
    divided, dividers = layout.divided(with_ids(checks.frame, fit), known)
    if isinstance(run, Chunk):
        divided = by_window(divided, dividing(scope, run), run.window.windows)
        dividers = [WINDOW, *dividers]
        divided = gathered(divided, *dividers) if run.pipeline.spans else divided
    try:
        with field_ids(frame.sparkSession):
            observed = spark_stage.write_parquet(
                divided,
                storage.spark_path(folder),
                counts=checks.counts,
                partition_by=[*([DELETED] if checks.removes else []), *dividers],
                leave_out=checks.ours,
            )
    except Exception as error:
        _forget(storage, location)
        raise explain(error, f"staging {run.label}") from error
    try:
        checks.refuse(observed)
        found = staged_files(storage, folder, layout, known)
        _refuse_odd_files(run, fit, found, observed.rows)
    except SetpointError:
        _forget(storage, location)
        raise
    gone = f"{folder}/{DELETED}=true/"
    files = tuple(file for file in found if not file.path.startswith(gone))
    deletes = observed.counts.get(DELETED, 0)
    return Staged(
        location=location,
        attempt=attempt,
        rows=observed.rows,
        contents=observed.contents,
        files=files_digest(storage.path(file.path) for file in files),
        violations=checks.violations(observed),
        changes_schema=bool(fit.added),
        handle=IcebergStage(
            storage=storage,
            fit=fit,
            scope=scope,
            layout=layout,
            files=files,
            schema=schema.add(DELETED, T.BooleanType()) if checks.removes else schema,
            fields=fields,
            folder=folder,
            removals=tuple(file for file in found if file.path.startswith(gone)),
            tombstones=tombstones.folder_of(location) if deletes else "",
        ),
        deletes=deletes,
        quarantined=checks.quarantined(),
        notes=checks.notes(observed),
    )


def read_back(session: SparkSession, staged: Staged) -> DataFrame:
    """The staged rows as a frame, with the flag of a removed key where the write removes any."""
    stage: IcebergStage = staged.handle
    place = stage.storage.spark_path(stage.folder)
    return spark_stage.read_staged(session, staged, place, {})


def as_stored(frame: DataFrame, fit: Fit) -> DataFrame:
    """The frame's columns in the table's order, small integers widened as the table holds them."""
    small = (T.ByteType, T.ShortType)
    return frame.select(
        *(
            F.col(quoted(name)).cast("int").alias(name)
            if isinstance(frame.schema[name].dataType, small)
            else F.col(quoted(name))
            for name in fit.columns
        )
    )


def with_ids(frame: DataFrame, fit: Fit) -> DataFrame:
    """The frame with the table's field ids on its columns, which Spark writes into the files."""
    return frame.select(
        *(
            F.col(quoted(name)).alias(
                name, metadata={"parquet.field.id": fit.ids[name]} if name in fit.ids else {}
            )
            for name in frame.columns
        )
    )


@contextmanager
def field_ids(session: SparkSession) -> Iterator[None]:
    """Let Spark write field ids for the length of a block."""
    before = session.conf.get(_FIELD_IDS, None)
    session.conf.set(_FIELD_IDS, "true")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_FIELD_IDS)
        else:
            session.conf.set(_FIELD_IDS, before)


def _forget(storage: Storage, folder: str) -> None:
    """Clear a refused stage away; what cannot be removed now is a matter for recover."""
    with suppress(SetpointError):
        storage.drop(folder)


def _refuse_odd_files(run: Statement, fit: Fit, files: Sequence[StagedFile], rows: int) -> None:
    stored = sum(file.rows for file in files)
    if stored != rows:
        raise rows_differ(run.label, rows, stored, "was dropped")
    if any(file.ids not in ({}, fit.ids) for file in files):
        raise PermanentError(
            "SP-P04",
            f"The staged files of {run.label} carry other field ids than the table.",
            why="Readers would take one column for another.",
            state="The target is unchanged; the stage was dropped.",
            next="Please report this with the pipeline's columns.",
        )
