"""The commits: metadata-only through deltalake, or replaceWhere through Spark's connector.

Both are conditional. The metadata-only commit is refused by the log when the table has moved
since we looked (no automatic rebase), so what we saw is what we replace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from setpoint.errors import PermanentError, RefusedError
from setpoint.model.ports import Staged
from setpoint.model.receipt import Receipt, seal
from setpoint.model.run import Run, Statement
from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch, windows_of
from setpoint.spark.failures import root_cause
from setpoint.spark.jars import FETCH_COMMAND
from setpoint.targets.delta.log import Snapshot, hints_of
from setpoint.targets.delta.mechanism import append_only
from setpoint.targets.delta.stage import DeltaStage, read_back
from setpoint.targets.delta.storage import Storage
from setpoint.targets.refusals import unseen
from setpoint.targets.storage import out_of_reach

if TYPE_CHECKING:
    from deltalake import CommitProperties
    from deltalake.transaction import AddAction
    from pyspark.sql import SparkSession


Fence: TypeAlias = tuple[str, int]
# What staged files do to the rows that are there: take their place, or come beside them.
Mode: TypeAlias = Literal["overwrite", "append"]


class TableMoved(Exception):
    """The table has a newer version than the one the commit was built on."""


def commit_files(
    snapshot: Snapshot | None,
    storage: Storage,
    run: Statement,
    receipts: Sequence[Receipt],
    stage: DeltaStage | None,
    fences: Sequence[Fence],
    mode: Mode = "overwrite",
) -> None:
    """Make staged files the slice of the windows; without a stage, add the receipts alone."""
    version = snapshot.version + 1 if snapshot else 0
    fences = [*fences, *hints_of(receipts, version)]
    properties = _properties(receipts, fences)
    if stage is not None:
        if snapshot is None:
            commit = _creation(storage, stage, properties)
        else:
            commit = _change(snapshot, run, stage, properties, mode)
    elif snapshot is not None:
        commit = _receipts_alone(snapshot, properties)
    else:
        raise TableMoved("the table is gone")
    _guarded(run, storage, commit)


def _creation(
    storage: Storage, stage: DeltaStage, properties: CommitProperties
) -> Callable[[], None]:
    from deltalake import Schema
    from deltalake.transaction import create_table_with_add_actions

    return lambda: create_table_with_add_actions(
        storage.url,
        Schema.from_json(stage.fit.schema_json),
        _adds(stage),
        mode="error",
        partition_by=list(stage.partition_by),
        storage_options=dict(storage.options),
        commit_properties=properties,
    )


def _change(
    snapshot: Snapshot,
    run: Statement,
    stage: DeltaStage,
    properties: CommitProperties,
    mode: Mode,
) -> Callable[[], None]:
    from deltalake import Schema

    table = snapshot.table
    schema = Schema.from_json(stage.fit.schema_json) if stage.fit.added else table.schema()
    return lambda: table.create_write_transaction(
        list(_adds(stage)),
        mode,
        schema,
        list(snapshot.partition_columns),
        _filters(stage.scope.rule, run.window) if stage.scope.rule else None,
        commit_properties=properties,
    )


def _receipts_alone(snapshot: Snapshot, properties: CommitProperties) -> Callable[[], None]:
    table = snapshot.table
    return lambda: table.create_write_transaction(
        [],
        "append",
        table.schema(),
        list(snapshot.partition_columns),
        commit_properties=properties,
    )


def commit_through_connector(
    session: SparkSession,
    storage: Storage,
    run: Run,
    receipt: Receipt,
    staged: Staged | None,
    fence: Fence,
) -> None:
    """Rewrite the slice with the connector, for tables that a metadata-only commit cannot serve.

    Without a stage the commit holds the receipt alone: an append of no rows.
    """
    path = storage.spark_path()
    try:
        if staged is None:
            frame = session.read.format("delta").load(path).limit(0)
        else:
            frame = read_back(session, storage, staged)
        writer = (
            frame.write.format("delta")
            .option("txnAppId", fence[0])
            .option("txnVersion", str(fence[1]))
            .option("userMetadata", seal([receipt]))
        )
        if staged is None:
            writer = writer.mode("append")
        else:
            # What the user's session says about overwriting must not count.
            writer = writer.mode("overwrite").option("partitionOverwriteMode", "static")
            condition = staged.handle.scope.condition(run.window)
            if condition is not None:
                writer = writer.option("replaceWhere", condition)
            if staged.changes_schema:
                writer = writer.option("mergeSchema", "true")
        writer.save(path)
    except Exception as error:
        raise connector_failure(error, run) from error


def _adds(stage: DeltaStage) -> list[AddAction]:
    from deltalake.transaction import AddAction

    return [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values=dict(file.partition),
            modification_time=file.modified_ms,
            data_change=True,
            stats=file.stats.as_json(),
        )
        for file in stage.files
    ]


def _properties(receipts: Sequence[Receipt], fences: Sequence[Fence]) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={"userMetadata": seal(receipts)},
        max_commit_retries=0,
        app_transactions=[Transaction(*fence) for fence in fences],
    )


def _filters(rule: SliceRule, stretch: Stretch) -> list[tuple[str, str, Any]]:
    only = rule.only_value(stretch)
    if only is not None:
        return [(rule.column, "=", only)]
    if rule.by_name:
        names = [rule.only_value(window) for window in windows_of(stretch)]
        return [(rule.column, "in", names)]
    start, end = (_filter_text(bound) for bound in rule.bounds(stretch))
    return [(rule.column, ">=", start), (rule.column, "<", end)]


def _filter_text(value: Any) -> str:
    if hasattr(value, "hour"):
        return str(value.strftime("%Y-%m-%d %H:%M:%S"))
    return str(value.isoformat())


def _guarded(run: Statement, storage: Storage, commit: Callable[[], None]) -> None:
    """Tell a lost race, a refusal and an unseen outcome apart."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        commit()
    except CommitFailedError as error:
        raise TableMoved(str(error)) from error
    except (DeltaError, OSError) as error:
        text = str(error)
        if "already exists" in text:
            raise TableMoved(text) from error
        if "append-only" in text or "appendOnly" in text:
            raise append_only(storage) from error
        told = out_of_reach(storage.uri, error)
        if isinstance(told, PermanentError):
            raise told from error  # a full disk or a missing right is an answer
        raise unseen(run, root_cause(error)) from error


def connector_failure(error: Exception, run: Run) -> Exception:
    text = str(error)
    lost_race = (
        "ConcurrentAppend",
        "ConcurrentDeleteRead",
        "ConcurrentDeleteDelete",
        "ConcurrentWrite",
        "ConcurrentTransaction",
        "MetadataChanged",
        "ProtocolChanged",
        "DELTA_CONCURRENT",
        "DELTA_METADATA_CHANGED",
        "DELTA_PROTOCOL_CHANGED",
        "DELTA_PATH_EXISTS",
        "already exists",
    )
    if any(sign in text for sign in lost_race) and "COLUMN_ALREADY_EXISTS" not in text:
        return TableMoved(root_cause(error))
    forbidden = ("CHECK constraint", "NOT NULL constraint", "DELTA_VIOLATE", "_VARCHAR_LIMIT")
    if any(sign in text for sign in forbidden):
        return RefusedError(
            "SP-T03",
            f"The target refuses rows of {run.label}: {root_cause(error)}",
            next="Correct the pipeline, then run again.",
        )
    if "AnalysisException" in text or type(error).__name__ == "AnalysisException":
        return PermanentError(
            "SP-S04",
            f"The connector does not understand the write of {run.label}: {root_cause(error)}",
            why="The statement was refused before anything was written.",
            next="Look for columns or conditions that the table's types do not allow.",
        )
    if "Failed to find the data source: delta" in text or "DATA_SOURCE_NOT_FOUND" in text:
        return PermanentError(
            "SP-S03",
            "The Spark session has no Delta connector, and this table needs it.",
            next=f"Fetch it once with: {FETCH_COMMAND}, or add the jar to your session.",
        )
    return unseen(run, root_cause(error))
