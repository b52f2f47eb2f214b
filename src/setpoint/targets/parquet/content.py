"""The new content of units: from a stage as it lies, or computed from what is there and a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from setpoint.model.ports import Staged
from setpoint.model.run import Chunk, Run, Statement
from setpoint.model.slice import NULL_PARTITION
from setpoint.model.span import windows_of
from setpoint.model.write import KEYED, InsertNew, Merge
from setpoint.spark import stage as spark_stage
from setpoint.spark import tombstones
from setpoint.spark.audits import sample
from setpoint.spark.batch import DELETED, to_keep
from setpoint.spark.contents import event_hash_sql, quoted
from setpoint.spark.expressions import is_not_true
from setpoint.spark.ordering import same_key_sql, wins_sql
from setpoint.targets.parquet.metastore import Spec
from setpoint.targets.parquet.stage import (
    ROWS,
    ParquetStage,
    read_back,
    spec_of,
)
from setpoint.targets.parquet.storage import Files
from setpoint.targets.parquet.view import Unit, View, typed_value
from setpoint.targets.refusals import contradicts, kept_stored, rows_differ
from setpoint.targets.storage import footer_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Content:
    """What one unit is to hold: a folder with these files, which may be empty."""

    spec: Spec
    folder: str
    files: dict[str, int]
    rows: int | None


@dataclass(frozen=True)
class Change:
    """The new contents of the units that change; none when the rows are there already."""

    contents: tuple[Content, ...]
    notes: tuple[str, ...] = ()


def staged_as_read(view: View | None, run: Statement, staged: Staged, files: Files) -> Change:
    """The stage itself; units of the windows that it does not fill become empty.

    Of a chunk's stage only the rows of the windows that are published now are taken.
    """
    stage: ParquetStage = staged.handle
    rule, windows = stage.scope.rule, windows_of(run.window)
    constant: Spec = {}
    if stage.only_value is not None and rule is not None:
        constant = {rule.column: stage.only_value}
    mine = rule.index(windows) if rule is not None and isinstance(run, Chunk) else None
    found = _contents(
        files,
        stage.folder,
        stage.in_folders,
        constant,
        staged.rows,
        run,
        lambda spec: mine is None or rule is None or mine(typed_value(rule, spec)) is not None,
    )
    owned = view.owned(windows) if view else {}
    old = [unit for units in owned.values() for unit in units]
    if rule is not None and stage.partition_by == (rule.column,):
        # A window that is one partition has it even if it is empty, as when it is run by itself.
        values = ((window, rule.only_value(window)) for window in windows)
        old += [Unit({rule.column: v}, "") for w, v in values if v and not owned.get(w)]
    return Change(_in_units(found, old, stage, f"{stage.folder}-none/{run.window.slug}"))


def computed(
    session: SparkSession,
    view: View | None,
    stored: DataFrame | None,
    run: Run,
    staged: Staged,
    files: Files,
    number: int,
    dead: Sequence[str],
) -> Change:
    """Read what is there, apply the batch, write the units that change beside the old ones."""
    stage: ParquetStage = staged.handle
    folder = f"{stage.root}/{staged.location}/{ROWS}{number}"
    batch = read_back(session, staged)
    notes: tuple[str, ...] = ()
    if isinstance(run.pipeline.write, KEYED):
        kept, new, notes, changes = _by_key(
            session, stored, batch, run, staged, dead, f"{folder}-changes"
        )
        if changes is None:
            return Change((), notes)
        affected = _partitions(changes, stage) if view else []
        units = [u for u in view.units if _canonical(u.spec, stage) in affected] if view else []
        if kept is not None and stage.partition_by:
            kept = kept.where(_in_partitions(units, stage))
    else:
        units = view.owned([run.window])[run.window] if view else []
        kept, new = stored, batch
        if kept is not None:
            rule = stage.scope.rule
            if view is not None and view.by_partition and rule is not None:
                kept = kept.where(rule.predicate(run.window))
            kept = kept.where(is_not_true(stage.scope.condition(run.window) or "true"))
    rows = new if kept is None else kept.unionByName(new, allowMissingColumns=True)
    rows = rows.select(*map(quoted, stage.fit.columns))
    parts = list(stage.partition_by)
    found = _contents(files, folder, parts, {}, _written(rows, folder, parts), run)
    return Change(_in_units(found, units, stage, f"{folder}-none"), notes)


def _by_key(
    session: SparkSession,
    stored: DataFrame | None,
    batch: DataFrame,
    run: Run,
    staged: Staged,
    dead: Sequence[str],
    place: str,
) -> tuple[DataFrame | None, DataFrame, tuple[str, ...], DataFrame | None]:
    """What stays of the stored rows, what is new, notes, and all rows that come or go."""
    write = run.pipeline.write
    assert isinstance(write, KEYED)
    same = same_key_sql(write.keys, "s", "t", nulls=write.null_keys == "allow")
    notes: tuple[str, ...] = ()
    if isinstance(write, InsertNew):
        if stored is not None:
            notes = _refuse_contradictions(batch, stored, same, write, run, staged)
        wins = batch if stored is None else _without(batch, stored, same)
    else:
        alive = tombstones.without_removed(batch, write, dead)
        wins = alive if stored is None else _that_win(alive, stored, same, write, staged)
    # Written, not computed twice: the look and the rewrite must see the same rows.
    won = _written(wins, place)
    wins = spark_stage.read_parquet(session, wins.schema, place)
    new = to_keep(wins)
    if stored is None:
        return None, new, notes, new
    replaced = _with(stored, wins, same)
    kept = _without(stored, wins, same)
    changed = won > 0
    if isinstance(write, Merge) and write.when_missing == "delete":
        missing = _without(stored, batch, same)
        changed = changed or bool(missing.limit(1).count())
        replaced = replaced.unionByName(missing)
        kept = _with(kept, batch, same)
    changes = new.unionByName(replaced, allowMissingColumns=True) if changed else None
    return kept, new, notes, changes


def _written(rows: DataFrame, folder: str, partition_by: Sequence[str] = ()) -> int:
    """Write rows into a new folder; gives back how many."""
    seen = Observation()
    observed = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    spark_stage.write_rows(observed, folder, partition_by)
    return int(spark_stage.metrics_of(seen).get("rows") or 0)


def _that_win(
    batch: DataFrame,
    stored: DataFrame,
    same: str,
    write: Merge,
    staged: Staged,
) -> DataFrame:
    """The rows that replace what is stored under their key."""
    schema, added = staged.handle.fit.schema, staged.handle.fit.added.fieldNames()
    removed = f"s.{quoted(DELETED)}" if DELETED in batch.columns else ""
    wins = wins_sql(write.sequence, schema, "s", "t", removed, added, corrects=staged.corrects)
    found = _without(batch, stored, f"{same} AND NOT {wins}")
    if not removed:
        return found
    gone = _with(found.where(F.col(DELETED)), stored, same)
    return found.where(~F.col(DELETED)).unionByName(gone)


def _refuse_contradictions(
    batch: DataFrame,
    stored: DataFrame,
    same: str,
    write: InsertNew,
    run: Run,
    staged: Staged,
) -> tuple[str, ...]:
    """Events that are stored with other content: refused, or reported when they are kept."""
    schema, added = staged.handle.fit.schema, staged.handle.fit.added.fieldNames()
    ours, theirs = event_hash_sql(schema, "s"), event_hash_sql(schema, "t", added)
    differs = f"{same} AND {ours} <> {theirs}"
    others = _with(batch, stored, differs)
    count = others.count()
    if write.conflicts == "keep" or not count:
        return kept_stored(count)
    raise contradicts(run, write, count, staged.rows, *sample(others)[:1])


def _with(rows: DataFrame, others: DataFrame, condition: str) -> DataFrame:
    return rows.alias("s").join(others.alias("t"), F.expr(condition), "left_semi")


def _without(rows: DataFrame, others: DataFrame, condition: str) -> DataFrame:
    return rows.alias("s").join(others.alias("t"), F.expr(condition), "left_anti")


def _partitions(rows: DataFrame, stage: ParquetStage) -> list[tuple[str, ...]]:
    """The partitions in which some rows lie, as the metastore spells their values."""
    texts = [
        F.coalesce(F.col(quoted(name)).cast("string"), F.lit(NULL_PARTITION)).alias(f"v{position}")
        for position, name in enumerate(stage.partition_by)
    ]
    if not texts:
        return [()]
    return [tuple(row) for row in rows.select(*texts).distinct().collect()]


def _in_partitions(units: Sequence[Unit], stage: ParquetStage) -> Column:
    """The condition that a stored row lies in one of the units."""

    def one(unit: Unit) -> Column:
        values = [
            F.col(quoted(name)).eqNullSafe(
                F.lit(None if unit.spec[name] == NULL_PARTITION else unit.spec[name]).cast(
                    stage.schema[name].dataType
                )
            )
            for name in stage.partition_by
        ]
        return reduce(and_, values)

    return reduce(or_, (one(unit) for unit in units), F.lit(False))


def _canonical(spec: Spec, stage: ParquetStage) -> tuple[str, ...]:
    """A partition's values in one spelling: for a whole number 05 and 5 are the same."""
    values = []
    for name in stage.partition_by:
        text = spec[name]
        whole = isinstance(stage.schema[name].dataType, T.IntegralType)
        values.append(str(int(text)) if whole and text != NULL_PARTITION else text)
    return tuple(values)


def _contents(
    files: Files,
    folder: str,
    in_folders: Sequence[str],
    constant: Spec,
    rows: int,
    run: Statement,
    mine: Callable[[Spec], bool] = lambda spec: True,
) -> list[Content]:
    """What a job has written, unit by unit; a window that is one unit has it even if empty."""
    found: dict[str, dict[str, int]] = {} if in_folders else {"": {}}
    for file in files.listed(folder):
        inner, _, name = file.path.rpartition("/")
        if not name.startswith(("_", ".")):
            found.setdefault(inner, {})[name] = file.size
    contents = []
    for inner, listed in found.items():
        place = f"{folder}/{inner}" if inner else folder
        spec = {**constant, **spec_of(inner)} if inner else dict(constant)
        if mine(spec):
            contents.append(Content(spec, place, listed, count_rows(place, listed)))
    counts = [content.rows for content in contents]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        if sum(known) != rows:
            raise rows_differ(run.label, rows, sum(known), "is kept")
    elif len(contents) == 1:
        return [replace(contents[0], rows=rows)]
    return contents


def count_rows(folder: str, names: Iterable[str]) -> int | None:
    """The rows in some files by their footers; None where that would need a job."""
    if "://" in folder:
        return None
    places = (f"{folder}/{name}" for name in names)
    return sum(int(footer_of(place, place).num_rows) for place in places)


def _in_units(
    found: Sequence[Content], old: Sequence[Unit], stage: ParquetStage, nothing: str
) -> tuple[Content, ...]:
    """The contents under the names that their units have; other units become empty.

    `nothing` is the folder below which the empty ones get theirs.
    """
    names: dict[tuple[str, ...], Spec] = {}
    for unit in old:
        names.setdefault(_canonical(unit.spec, stage), unit.spec)
    renamed = [replace(c, spec=names.get(_canonical(c.spec, stage), c.spec)) for c in found]
    filled = [content.spec for content in renamed]
    empty = [unit.spec for unit in old if unit.spec not in filled]
    emptied = [Content(spec, f"{nothing}/{n}", {}, 0) for n, spec in enumerate(empty)]
    return (*renamed, *emptied)
