"""Keyed writes to an existing Delta table: the connector's MERGE of a staged batch.

MERGE takes the receipt and the fence from the session's settings only, and settings leak
between threads that share a session: each merge has a session of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from setpoint.model.ports import Staged
from setpoint.model.receipt import Receipt, seal
from setpoint.model.run import Run
from setpoint.model.tombstones import against
from setpoint.model.write import KEYED, InsertNew, Merge
from setpoint.spark import tombstones
from setpoint.spark.audits import sample
from setpoint.spark.batch import DELETED, without_flag
from setpoint.spark.contents import event_hash_sql, quoted
from setpoint.spark.failures import explain
from setpoint.spark.ordering import same_key_sql, wins_sql
from setpoint.spark.session import own_session
from setpoint.spark.settings import pinned_settings
from setpoint.targets.delta.commit import connector_failure
from setpoint.targets.delta.stage import DeltaStage, read_back
from setpoint.targets.delta.storage import Storage
from setpoint.targets.refusals import contradicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH = "setpoint_batch"


def merge(
    session: SparkSession,
    storage: Storage,
    run: Run,
    receipt: Receipt,
    staged: Staged,
    fence: tuple[str, int],
    unapplied: Collection[str] = (),
) -> None:
    """Merge the staged batch into the table, in one commit with the receipt.

    `unapplied` are removed keys that an earlier merge did not know of: they are removed along.
    """
    write = run.pipeline.write
    if not isinstance(write, KEYED):
        raise TypeError(f"{write.name} does not go by key")
    own = own_session(session)
    with pinned_settings(own):
        try:
            _prepare(own, storage, run, receipt, staged, unapplied)
            # The whole table is joined with a batch that has one row per key: a hash map of a
            # batch that is much smaller spares the sorting of the table.
            own.conf.set("spark.sql.join.preferSortMergeJoin", "false")
            own.conf.set("spark.databricks.delta.write.txnAppId", fence[0])
            own.conf.set("spark.databricks.delta.write.txnVersion", str(fence[1]))
            own.conf.set("spark.databricks.delta.commitInfo.userMetadata", seal([receipt]))
        except Exception as error:
            raise explain(error, f"preparing the merge of {run.label}") from error
        text = statement(write, staged.handle, _named(storage), corrects=staged.corrects)
        try:
            own.sql(text)
        except Exception as error:
            raise connector_failure(error, run) from error


def _prepare(
    own: SparkSession,
    storage: Storage,
    run: Run,
    receipt: Receipt,
    staged: Staged,
    unapplied: Collection[str],
) -> None:
    """Set the batch up as a view of the session."""
    write = run.pipeline.write
    batch, as_staged = read_back(own, storage, staged), True
    if isinstance(write, Merge):
        places = against(receipt.tombstones, run.window)
        batch = tombstones.without_removed(
            batch, write, [storage.spark_path(place) for place in places]
        )
        if unapplied and DELETED in batch.columns:
            missed = [storage.spark_path(place) for place in sorted(unapplied)]
            batch = tombstones.with_removed(batch, write, missed)
        if receipt.generation > 1 and write.when_missing == "keep":
            batch, as_staged = _that_win(batch, write, staged, own, storage), False
    if as_staged:
        # Staged files do not change, so the connector needs no copy of the batch.
        own.conf.set("spark.databricks.delta.merge.materializeSource", "none")
    batch.createOrReplaceTempView(_BATCH)


def statement(
    write: Merge | InsertNew, stage: DeltaStage, target: str, *, corrects: bool = False
) -> str:
    """The MERGE statement, from the view of the batch into the target.

    `corrects` says that the rows correct what their window said before.
    """
    columns = [quoted(name) for name in stage.fit.columns]
    nulls = write.null_keys == "allow"
    removed = f"s.{DELETED}" if DELETED in stage.schema.fieldNames() else ""
    stays = f"AND NOT {removed} " if removed else ""  # the connector computes every condition
    lines = [
        f"MERGE {'WITH SCHEMA EVOLUTION ' if stage.fit.added else ''}INTO {target} AS t",
        f"USING {_BATCH} AS s ON {same_key_sql(write.keys, 's', 't', nulls=nulls)}",
    ]
    if isinstance(write, Merge):
        schema = without_flag(stage.schema)
        wins = wins_sql(
            write.sequence, schema, "s", "t", removed, stage.fit.added, corrects=corrects
        )
        if removed:
            lines.append(f"WHEN MATCHED AND {removed} AND {wins} THEN DELETE")
        assigned = ", ".join(f"{name} = s.{name}" for name in columns)
        lines.append(f"WHEN MATCHED {stays}AND {wins} THEN UPDATE SET {assigned}")
    values = ", ".join(f"s.{name}" for name in columns)
    lines.append(f"WHEN NOT MATCHED {stays}THEN INSERT ({', '.join(columns)}) VALUES ({values})")
    if isinstance(write, Merge) and write.when_missing == "delete":
        lines.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    return "\n".join(lines)


def contradictions(
    session: SparkSession,
    version: int,
    storage: Storage,
    run: Run,
    staged: Staged,
    *,
    refuse: bool,
) -> int:
    """How many events a version of the table holds with other content."""
    write, stage = run.pipeline.write, staged.handle
    if not isinstance(write, InsertNew) or not staged.rows:
        return 0
    same = same_key_sql(write.keys, "s", "t", nulls=write.null_keys == "allow")
    try:
        batch = read_back(session, storage, staged)
        stored = _stored(session, storage, version)
        added = stage.fit.added
        ours, theirs = event_hash_sql(batch.schema, "s"), event_hash_sql(batch.schema, "t", added)
        differs = f"{ours} <> {theirs}"
        pairs = batch.alias("s").join(stored.alias("t"), F.expr(f"{same} AND {differs}"))
        count = pairs.count()
    except Exception as error:
        raise explain(error, f"comparing {run.label} with the stored events") from error
    if not refuse or not count:
        return count
    raise contradicts(run, write, count, staged.rows, *sample(pairs.select("s.*"))[:1])


def _that_win(
    batch: DataFrame, write: Merge, staged: Staged, session: SparkSession, storage: Storage
) -> DataFrame:
    """The rows that would change the table.

    MERGE rewrites every file in which a key of its source is found, also where no row of it
    changes. A window that was merged before has few rows that are new, so it pays to look first.
    """
    stage: DeltaStage = staged.handle
    removed = f"s.{DELETED}" if DELETED in stage.schema.fieldNames() else ""
    same = same_key_sql(write.keys, "s", "t", nulls=write.null_keys == "allow")
    schema, added = without_flag(stage.schema), stage.fit.added
    wins = wins_sql(write.sequence, schema, "s", "t", removed, added, corrects=staged.corrects)
    loses = f"{same} AND NOT {wins}"
    stored = _stored(session, storage)
    return batch.alias("s").join(stored.alias("t"), F.expr(loses), "left_anti")


def _stored(session: SparkSession, storage: Storage, version: int | None = None) -> DataFrame:
    reader = session.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(storage.spark_path())


def _named(storage: Storage) -> str:
    return f"delta.{quoted(storage.spark_path())}"
