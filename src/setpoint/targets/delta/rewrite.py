"""A merge without MERGE: of rows that are all new, or of changes in every file.

MERGE shuffles all columns of all rows of the files it touches, because it has to join both ways
at once. A staged batch is small and has one row per key, so it can be sent to every task instead:
one pass over the keys finds the files that change and the rows that are new. If no file changes,
the new rows are added; if all do, a second pass writes the table in the order in which it lies.
Changes in a part of the files are left to MERGE, which leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as F

from setpoint.errors import SetpointError
from setpoint.model.ports import Staged
from setpoint.model.receipt import Receipt
from setpoint.model.run import Run
from setpoint.model.scope import Scope
from setpoint.model.tombstones import against
from setpoint.model.write import Merge
from setpoint.spark import tombstones
from setpoint.spark.batch import DELETED, without_flag
from setpoint.spark.contents import quoted
from setpoint.spark.failures import explain
from setpoint.spark.ordering import later_sql, same_key_sql, wins_sql
from setpoint.spark.session import own_session
from setpoint.spark.settings import pinned_settings
from setpoint.spark.stage import metrics_of, write_rows
from setpoint.targets.delta.commit import Mode
from setpoint.targets.delta.log import Snapshot
from setpoint.targets.delta.mechanism import demand_of
from setpoint.targets.delta.slices import count_rows
from setpoint.targets.delta.stage import DeltaStage, read_back, staged_files
from setpoint.targets.delta.storage import MERGED, Storage
from setpoint.targets.refusals import rows_differ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every task holds the batch in memory: no more than Spark sends to all tasks of its own accord.
_LARGEST_BATCH = 10 * 2**20
_MOST_ROWS = 1_000_000
# With fewer rows for a file it is likely that some file holds none of their keys.
_ROWS_PER_FILE = 8
# So small a table is written anew sooner than MERGE has found the files to spare.
_SMALL_TABLE = 8 * 2**20
# What Spark says of a batch that cannot be sent around, whether by its rows, bytes or the memory.
_TOO_LARGE = "broadcast the table"
_FILE, _HIT, _WINS = "__setpoint_file", "__setpoint_hit", "__setpoint_wins"


def is_likely(
    snapshot: Snapshot,
    storage: Storage,
    run: Run,
    receipt: Receipt,
    staged: Staged,
    unapplied: Collection[str],
) -> bool:
    """Whether the batch is small and may well change a row in every file; costs no Spark job."""
    write, stage = run.pipeline.write, staged.handle
    if not isinstance(write, Merge) or write.when_missing == "delete":
        return False
    if receipt.generation > 1 or unapplied or stage.fit.added or demand_of(snapshot) is not None:
        return False  # what was merged before changes little; the others are MERGE's to know
    if not count_rows(snapshot.files) or _has_moments(snapshot):
        return False
    size = sum(file.size for file in storage.files(staged.location))
    if size > _LARGEST_BATCH or staged.rows > _MOST_ROWS:
        return False
    if _is_small(snapshot):
        return True
    if staged.rows < _ROWS_PER_FILE * len(snapshot.files):
        return False
    bounds = stage.integer_bounds()
    return all(
        _overlap(file.least.get(name), file.most.get(name), *bounds[name])
        for name in write.keys
        if name in bounds
        for file in snapshot.files
    )


def rewritten(
    session: SparkSession,
    storage: Storage,
    run: Run,
    receipt: Receipt,
    staged: Staged,
    snapshot: Snapshot,
) -> tuple[DeltaStage, Mode] | None:
    """The table with the batch merged into it, staged: whole, or what is to be added to it.

    None where a part of the files changes.
    """
    own = own_session(session)
    with pinned_settings(own):
        try:
            return _rewritten(own, storage, run, receipt, staged, snapshot)
        except SetpointError:
            raise
        except Exception as error:
            if _TOO_LARGE in str(error):  # in memory, more than its files let expect
                forget(storage, staged)
                return None
            raise explain(error, f"merging {run.label}") from error


def forget(storage: Storage, staged: Staged) -> None:
    """Drop what was written and not committed: whatever is there later has been committed."""
    storage.drop(f"{staged.location}/{MERGED}")


def _rewritten(
    own: SparkSession,
    storage: Storage,
    run: Run,
    receipt: Receipt,
    staged: Staged,
    snapshot: Snapshot,
) -> tuple[DeltaStage, Mode] | None:
    write = run.pipeline.write
    assert isinstance(write, Merge)
    stage: DeltaStage = staged.handle
    folder = f"{staged.location}/{MERGED}"
    places = against(receipt.tombstones, run.window)
    batch = tombstones.without_removed(
        read_back(own, storage, staged), write, [storage.spark_path(place) for place in places]
    )
    table = own.read.format("delta").option("versionAsOf", snapshot.version)
    there = table.load(storage.spark_path())
    if _kinds(there) != _kinds(batch.drop(DELETED)):
        return None
    seen, written = Observation(), Observation()
    mode: Mode = "overwrite"
    hits = _hits(there, batch, write).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        touched = hits.where(F.col(_WINS)).select(_FILE).distinct().count()
        rows = _new(batch, hits, write)
        if not touched:
            mode = "append"
        elif touched == len(snapshot.files) or _is_small(snapshot):
            rows = _merged(there, batch, write, staged, seen).unionByName(rows)
        else:
            return None
        rows = rows.select(*(F.col(quoted(name)) for name in stage.fit.columns))
        rows = rows.observe(written, F.expr("count(1) AS rows"))
        write_rows(rows, storage.spark_path(folder), snapshot.partition_columns)
    finally:
        hits.unpersist()
    if touched and count_rows(snapshot.files) != metrics_of(seen).get("rows"):
        # The log is wrong about its files, or a key of the batch is not unique.
        forget(storage, staged)
        return None
    kinds = {field.name: field.dataType.typeName() for field in stage.schema.fields}
    files = staged_files(storage, folder, {}, kinds)
    stored, made = sum(file.stats.rows for file in files), int(metrics_of(written).get("rows") or 0)
    if not files or stored != made:
        forget(storage, staged)
    if stored != made:
        raise rows_differ(run.label, made, stored, "was dropped")
    return replace(stage, files=files, scope=Scope(write, None)), mode


def _hits(stored: DataFrame, batch: DataFrame, write: Merge) -> DataFrame:
    """The keys of the batch that the table holds, the files they are in, and who may win there."""
    columns = [F.col(f"t.{quoted(name)}") for name in (*write.keys, *write.sequence)]
    theirs = stored.alias("t").select(*columns, F.col("_metadata.file_path").alias(_FILE))
    ours = batch.select(*(F.col(quoted(name)) for name in (*write.keys, *write.sequence)))
    wins = f"NOT {later_sql(write.sequence, 't', 's')} AS {_WINS}"
    found = theirs.alias("t").join(F.broadcast(ours).alias("s"), F.expr(_same(write)))
    return found.selectExpr(*(f"s.{quoted(name)}" for name in write.keys), _FILE, wins)


def _merged(
    stored: DataFrame, batch: DataFrame, write: Merge, staged: Staged, seen: Observation
) -> DataFrame:
    """Every stored row, or the row of the batch that replaces it; without those it removes."""
    removed = f"s.{DELETED}" if DELETED in batch.columns else ""
    stage: DeltaStage = staged.handle
    schema, corrects = without_flag(stage.schema), staged.corrects
    wins = wins_sql(write.sequence, schema, "s", "t", removed, corrects=corrects)
    ours = batch.withColumn(_HIT, F.lit(True))
    joined = stored.alias("t").join(F.broadcast(ours).alias("s"), F.expr(_same(write)), "left")
    joined = joined.observe(seen, F.expr("count(1) AS rows"))
    decided = joined.withColumn(_WINS, F.expr(f"CASE WHEN s.{_HIT} THEN {wins} ELSE false END"))
    if removed:
        decided = decided.where(f"NOT ({_WINS} AND {removed})")
    return decided.selectExpr(
        *(
            f"IF({_WINS}, s.{quoted(name)}, t.{quoted(name)}) AS {quoted(name)}"
            for name in stage.fit.columns
        )
    )


def _new(batch: DataFrame, hits: DataFrame, write: Merge) -> DataFrame:
    """The rows of the batch whose key the table does not hold."""
    new = batch.alias("s").join(F.broadcast(hits).alias("t"), F.expr(_same(write)), "left_anti")
    return new.where(~F.col(DELETED)).drop(DELETED) if DELETED in batch.columns else new


def _kinds(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def _same(write: Merge) -> str:
    return same_key_sql(write.keys, "s", "t", nulls=write.null_keys == "allow")


def _is_small(snapshot: Snapshot) -> bool:
    """Whether the whole table may be written anew; but others may work on other partitions."""
    size = sum(file.size for file in snapshot.files)
    return size <= _SMALL_TABLE and not snapshot.partition_columns


def _has_moments(snapshot: Snapshot) -> bool:
    """Whether folders are named by moments: what a name without a zone means is not ours to say."""
    kinds = {field.name: field.kind for field in snapshot.fields}
    return any(kinds.get(name) == "timestamp" for name in snapshot.partition_columns)


def _overlap(least: object, most: object, low: int, high: int) -> bool:
    """Whether a file's values may lie among those of the batch; unknown ones may."""
    if not isinstance(least, int) or not isinstance(most, int):
        return True
    return least <= high and low <= most
