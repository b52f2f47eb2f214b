"""Staging: rows as files in a folder of the attempt, below the table's root.

A window that owns its partitions, or the table, is staged as it will be read: publishing moves
a location and copies nothing. Patterns that look at the rows which are there stage their batch,
from which the new content is computed when it is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import types as T

from setpoint.errors import SetpointError
from setpoint.model import tombstones
from setpoint.model.audit import Audit
from setpoint.model.ports import Staged
from setpoint.model.run import Chunk, Statement
from setpoint.model.scope import Scope
from setpoint.spark import stage as spark_stage
from setpoint.spark.batch import DELETED
from setpoint.spark.checks import Checks
from setpoint.spark.contents import quoted
from setpoint.spark.failures import explain
from setpoint.spark.union import gathered
from setpoint.targets.parquet.schema import Fit
from setpoint.targets.parquet.storage import Files
from setpoint.targets.parquet.view import RUNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, BATCH = "rows", "batch"


@dataclass(frozen=True)
class ParquetStage:
    """Our side of a stage: `folder` holds the rows; `direct` means as they will be read.

    `written` are the sizes of its files by their paths below the folder. `tombstones` is the folder
    that remembers the keys of removed rows, or empty. `clip` is the condition of the window whose
    part of a larger stage this is, or empty.
    """

    fit: Fit
    scope: Scope
    root: str
    folder: str
    direct: bool
    only_value: str | None
    partition_by: tuple[str, ...]
    schema: T.StructType
    written: Mapping[str, int] = field(default_factory=dict)
    tombstones: str = ""
    clip: str = ""

    @property
    def in_folders(self) -> list[str]:
        """The partition columns that are in the names of the staged folders."""
        rule = self.scope.rule
        named = rule.column if rule and self.only_value else None
        return [name for name in self.partition_by if name != named]


def location(run: Statement, attempt: str) -> str:
    """The attempt's folder, relative to the table's root."""
    return f"{RUNS}/{run.pipeline.name}/{run.window.slug}/{attempt}"


def write(
    frame: DataFrame,
    run: Statement,
    attempt: str,
    audits: Sequence[Audit],
    *,
    files: Files,
    root: str,
    fit: Fit,
    scope: Scope,
    partition_by: tuple[str, ...],
    direct: bool,
) -> Staged:
    """Stage the frame in one Spark job; refuse rows that the write pattern cannot take."""
    frame = frame.select(*map(quoted, fit.columns))
    if run.pipeline.spans and scope.rule is not None and isinstance(run, Chunk):
        frame = gathered(frame, scope.rule.column)
    schema, window = frame.schema, run.window
    place = location(run, attempt)
    rule = scope.rule
    owns = direct and rule is not None and rule.column in partition_by
    only_value = rule.only_value(window) if owns and rule else None
    condition = scope.condition(window)
    checks = Checks(
        frame,
        run,
        audits,
        condition=condition,
        required=fit.required,
        partition_by=partition_by,
    )
    stage = ParquetStage(
        fit=fit,
        scope=scope,
        root=root,
        folder=f"{root}/{place}/{ROWS if direct else BATCH}",
        direct=direct,
        only_value=only_value,
        partition_by=partition_by,
        schema=schema.add(DELETED, T.BooleanType()) if checks.removes else schema,
    )
    try:
        observed = spark_stage.write_parquet(
            checks.frame,
            stage.folder,
            counts=checks.counts,
            partition_by=stage.in_folders if direct else [],
            leave_out=[*checks.ours, *([rule.column] if only_value and rule else [])],
        )
    except Exception as error:
        _forget(files, f"{root}/{place}")
        raise explain(error, f"staging {run.label}") from error
    try:
        checks.refuse(observed)
        listed = files.listed(stage.folder)
    except SetpointError:
        _forget(files, f"{root}/{place}")
        raise
    deletes = observed.counts.get(DELETED, 0)
    return Staged(
        location=place,
        attempt=attempt,
        rows=observed.rows,
        contents=observed.contents,
        files=None,
        violations=checks.violations(observed),
        changes_schema=bool(fit.added.fields),
        handle=replace(
            stage,
            written={file.path: file.size for file in listed if file.holds_rows},
            tombstones=tombstones.folder_of(place) if deletes else "",
        ),
        deletes=deletes,
        quarantined=checks.quarantined(),
        notes=checks.notes(observed),
    )


def read_back(session: SparkSession, staged: Staged) -> DataFrame:
    """The staged rows as a frame, with the flag of a removed key where the write removes any."""
    stage: ParquetStage = staged.handle
    rule, value = stage.scope.rule, stage.only_value
    constant = {rule.column: value} if rule and value else {}
    frame = spark_stage.read_staged(session, staged, stage.folder, constant)
    return frame.where(stage.clip) if stage.clip else frame


def spec_of(folders: str) -> dict[str, str]:
    """Partition values from Spark's folder names, as the metastore spells them."""
    values = {}
    for part in folders.split("/"):
        name, _, value = part.partition("=")
        values[unquote(name)] = unquote(value)
    return values


def _forget(files: Files, folder: str) -> None:
    """Clear a refused stage away; what cannot be removed now is a matter for recover."""
    with suppress(SetpointError):
        files.drop(folder)
