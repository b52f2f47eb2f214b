"""What a publish changes: the files that go and the files that come, by write pattern.

Where whole files go, nothing is computed. Where a file holds other rows too, Spark reads it
through the connector, which knows about delete files and renamed columns, and writes what
stays beside the staged rows. Whatever is computed holds for one version of the table only: the
commit is refused when the table has moved since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.ports import Staged
from setpoint.model.run import Statement
from setpoint.model.write import DeleteInsert, InsertNew, Merge, Overwrite, Replace
from setpoint.spark import tombstones
from setpoint.spark.audits import sample
from setpoint.spark.batch import DELETED, without_flag
from setpoint.spark.contents import event_hash_sql, quoted
from setpoint.spark.expressions import is_not_true
from setpoint.spark.ordering import same_key_sql, wins_sql
from setpoint.spark.stage import write_rows
from setpoint.targets.iceberg.commit import TableMoved
from setpoint.targets.iceberg.files import StagedFile, staged_files
from setpoint.targets.iceberg.log import Version
from setpoint.targets.iceberg.ranges import python_value
from setpoint.targets.iceberg.slices import Slices
from setpoint.targets.iceberg.stage import IcebergStage, field_ids, read_back, with_ids
from setpoint.targets.iceberg.types import KINDS
from setpoint.targets.refusals import contradicts, kept_stored

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyspark.sql import DataFrame, SparkSession

_FILE = "__setpoint_file"
_WINS = "__setpoint_wins"
_HERE = "__setpoint_here"


@dataclass(frozen=True)
class Change:
    """The data files to remove, the staged files to add, and what was decided on the way."""

    remove: tuple[DataFile, ...] = ()
    add: tuple[StagedFile, ...] = ()
    notes: tuple[str, ...] = ()


class Changes:
    """Computes the change for one version of the table."""

    def __init__(
        self,
        open_session: Callable[[], SparkSession],
        version: Version,
        run: Statement,
        staged: Staged,
        folder: str,
    ) -> None:
        """`open_session` gives one that knows the catalog; `folder` is where rows are rewritten."""
        self._open_session, self._version, self._run = open_session, version, run
        self._staged, self._folder = staged, folder
        self._stage: IcebergStage = staged.handle

    @cached_property
    def _session(self) -> SparkSession:
        return self._open_session()

    def compute(self, removed_before: Sequence[str] = ()) -> Change:
        """The change; `removed_before` are the tombstones that count, as Spark spells them."""
        files, version = self._stage.files, self._version
        match self._run.pipeline.write:
            case Replace():
                return Change(version.files, files)
            case Overwrite():
                slice_ = Slices(self._run.pipeline, version).files([self._run.window])
                found = slice_[self._run.window]
                if not found.shared:
                    return Change(tuple(found.inside), files)
                change = self._without(found.shared)
                return replace(change, remove=(*found.inside, *change.remove))
            case DeleteInsert():
                slice_ = Slices(self._run.pipeline, version).files([self._run.window])
                found = slice_[self._run.window]
                return self._without(found.all) if found.all else Change((), files)
            case Merge() as merge:
                if not version.files and not removed_before:
                    return Change((), files)
                return self._merged(merge, removed_before)
            case InsertNew() as insert:
                return self._inserted(insert) if version.files else Change((), files)

    def _without(self, candidates: Sequence[DataFile]) -> Change:
        """Take the rows of the scope out of files that may hold others too."""
        condition = self._stage.scope.condition(self._run.window)
        assert condition is not None
        hit = self._stored().where(F.expr(condition)).groupBy(_FILE).count().collect()
        counts = {row[_FILE]: int(row["count"]) for row in hit}
        among = {file.file_path for file in candidates}
        remove = tuple(file for file in self._named(counts) if file.file_path in among)
        partial = [file for file in remove if counts[file.file_path] < file.record_count]
        if not partial:
            return Change(remove, self._stage.files)
        rows = self._of_files(partial).where(is_not_true(condition))
        return Change(remove, (*self._stage.files, *self._write(rows)))

    def _merged(self, merge: Merge, removed_before: Sequence[str]) -> Change:
        batch = self._batch(merge, removed_before)
        deleted = f"s.{quoted(DELETED)}" if DELETED in batch.columns else ""
        stays = ~F.col(DELETED) if deleted else F.lit(True)
        same = same_key_sql(merge.keys, "s", "t", nulls=merge.null_keys == "allow")
        wins = wins_sql(
            merge.sequence, self._row, "s", "t", deleted, corrects=self._staged.corrects
        )
        stored = self._stored()
        looked = (
            batch.alias("s")
            .join(stored.alias("t"), F.expr(same), "left")
            .select(
                *(F.col(f"s.{quoted(name)}") for name in batch.columns),
                F.col(f"t.{_FILE}").alias(_FILE),
                F.expr(f"t.{_FILE} IS NOT NULL AND {wins}").alias(_WINS),
            )
            .persist()
        )
        try:
            new = F.col(_FILE).isNull() & stays
            found = looked.groupBy(_FILE).agg(
                F.count_if(F.col(_WINS)).alias("wins"), F.count_if(new).alias("new")
            )
            counts = found.collect()
            touched = {row[_FILE] for row in counts if row["wins"]}
            inserted = sum(int(row["new"]) for row in counts)
            whole_state = merge.when_missing == "delete"
            if whole_state:
                missing = stored.alias("t").join(batch.alias("s"), F.expr(same), "left_anti")
                touched |= {row[_FILE] for row in missing.select(_FILE).distinct().collect()}
            if not touched and inserted == self._staged.rows - self._staged.deletes:
                return Change((), self._stage.files)
            rows = looked.where(new).select(*self._columns)
            remove = self._named(touched)
            if remove:
                kept = self._kept(batch, remove, same, wins, deleted, whole_state=whole_state)
                rows = kept.unionByName(rows) if inserted else kept
            return Change(remove, self._write(rows) if remove or inserted else ())
        finally:
            looked.unpersist()

    def _kept(
        self,
        batch: DataFrame,
        files: Sequence[DataFile],
        same: str,
        wins: str,
        deleted: str,
        *,
        whole_state: bool,
    ) -> DataFrame:
        """The rows of rewritten files, each replaced by the batch's row where that one wins."""
        here = batch.withColumn(_HERE, F.lit(True))
        joined = (
            self._of_files(files).alias("t").join(here.alias("s"), F.expr(same), "left")
        ).withColumn(_WINS, F.expr(f"coalesce(s.{_HERE} AND {wins}, false)"))
        if whole_state:
            joined = joined.where(f"s.{_HERE}")
        if deleted:
            joined = joined.where(f"NOT ({_WINS} AND {deleted})")
        return joined.select(
            *(
                F.expr(f"IF({_WINS}, s.{quoted(name)}, t.{quoted(name)})").alias(name)
                for name in self._stage.fit.columns
            )
        )

    def _inserted(self, insert: InsertNew) -> Change:
        batch = read_back(self._session, self._staged)
        same = same_key_sql(insert.keys, "s", "t", nulls=insert.null_keys == "allow")
        differs = f"{event_hash_sql(self._row, 's')} <> {event_hash_sql(self._row, 't')}"
        looked = (
            batch.alias("s")
            .join(self._stored().alias("t"), F.expr(same), "left")
            .select(
                "s.*",
                F.col(f"t.{_FILE}").alias(_FILE),
                F.expr(f"t.{_FILE} IS NOT NULL AND {differs}").alias(_WINS),
            )
            .persist()
        )
        try:
            found = looked.agg(
                F.count_if(F.col(_FILE).isNull()).alias("new"),
                F.count_if(F.col(_WINS)).alias("differ"),
            ).collect()[0]
            new, differ = int(found["new"]), int(found["differ"])
            if differ and insert.conflicts == "refuse":
                example = sample(looked.where(_WINS).select(*self._columns))[:1]
                raise contradicts(self._run, insert, differ, self._staged.rows, *example)
            notes = kept_stored(differ)
            if new == self._staged.rows:
                return Change((), self._stage.files, notes)
            rows = looked.where(F.col(_FILE).isNull()).select(*self._columns)
            return Change((), self._write(rows) if new else (), notes)
        finally:
            looked.unpersist()

    @property
    def _row(self) -> T.StructType:
        return without_flag(self._stage.schema)

    @property
    def _columns(self) -> list[Any]:
        return [F.col(quoted(name)) for name in self._stage.fit.columns]

    def _batch(self, merge: Merge, removed_before: Sequence[str]) -> DataFrame:
        batch = read_back(self._session, self._staged)
        return tombstones.without_removed(batch, merge, removed_before)

    def _stored(self) -> DataFrame:
        """The table's rows with the file of each; columns that are to be added are null."""
        frame = self._session.table(self._version.name.sql)
        row, added = self._row, self._stage.fit.added_names
        return frame.select(
            *(
                F.lit(None).cast(row[name].dataType).alias(name)
                if name in added
                else F.col(quoted(name))
                for name in self._stage.fit.columns
            ),
            F.col("_file").alias(_FILE),
        )

    def _of_files(self, files: Sequence[DataFile]) -> DataFrame:
        """The rows of some files.

        The connector reads every file and drops the rows of others afterwards, unless it is told
        in terms of a partition where to look.
        """
        rows = self._stored().where(F.col(_FILE).isin([file.file_path for file in files]))
        spec = self._version.table.spec()
        if any(file.spec_id != spec.spec_id for file in files):
            return rows
        for position, part in enumerate(self._stage.layout.parts):
            kind = KINDS.get(part.kind)
            if part.transform == "identity" and kind in ("date", "string", "integer", "long"):
                values = {file.partition[position] for file in files}
                column = F.col(quoted(part.column))
                known = [python_value(kind, value) for value in values if value is not None]
                here = column.isin(known)
                rows = rows.where(here | column.isNull() if None in values else here)
        return rows

    def _named(self, paths: Iterable[str]) -> tuple[DataFile, ...]:
        """Live files by their paths; the connector may have seen a newer version than we did."""
        live = {file.file_path: file for file in self._version.files}
        try:
            return tuple(live[path] for path in sorted(paths))
        except KeyError as error:
            text = f"{error} is not a file of the version that was looked at"
            raise TableMoved(text) from error

    def _write(self, rows: DataFrame) -> tuple[StagedFile, ...]:
        """Write rows as files of the table's layout, beside the stage."""
        stage = self._stage
        rows = rows.select(*self._columns)
        known = stage.layout.constants(None, self._run.window)
        divided, dividers = stage.layout.divided(with_ids(rows, stage.fit), known)
        if dividers:
            divided = divided.repartition(*(F.col(name) for name in dividers))
        with field_ids(self._session):
            write_rows(divided, stage.storage.spark_path(self._folder), dividers)
        return staged_files(stage.storage, self._folder, stage.layout, known)
