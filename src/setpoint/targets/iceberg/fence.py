"""The fence: is the table still what the run looked at, and the stage was made for?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Fenced, Staged
from setpoint.model.receipt import SliceState
from setpoint.model.window import Window
from setpoint.targets.iceberg.catalog import TableName
from setpoint.targets.iceberg.log import Version
from setpoint.targets.iceberg.partitions import Layout
from setpoint.targets.iceberg.slices import Slices
from setpoint.targets.iceberg.types import same_type, spark_type
from setpoint.targets.refusals import changed_meanwhile

if TYPE_CHECKING:
    from pyiceberg.table import Transaction

    from setpoint.targets.iceberg.stage import IcebergStage


def refuse_if_fenced(
    pipeline: Pipeline,
    version: Version | None,
    expected: Mapping[Window, SliceState],
    staged: Staged | None,
) -> None:
    """Refuse to commit when a window, or the newest one where that counts, has moved."""
    if version is None:
        if staged is None or any(state.generation for state in expected.values()):
            raise Fenced(SliceState(0, None, None))
        return
    last = version.last_publishes(pipeline.name)
    known = {window: last[window.id].generation for window in expected if window.id in last}
    by_newest = pipeline.newest_counts
    moved = [w for w, state in expected.items() if known.get(w, 0) != state.generation]
    if moved or staged is None or by_newest:
        states = Slices(pipeline, version).states(list(expected))
        for window, state in states.items():
            newer = by_newest and _is_newer(pipeline, state.newest, expected[window].newest)
            if window in moved or newer or not (staged or state.untouched):
                raise Fenced(state)
    if staged is not None:
        _refuse_if_moved_away(version, staged.handle)


def refuse_other_ids(name: TableName, transaction: Transaction, stage: IcebergStage) -> None:
    """The ids in the staged files must be those that the table gives the columns."""
    fields = transaction.table_metadata.schema().fields
    given = {field.name: field.field_id for field in fields}
    if stage.fit.ids and given != stage.fit.ids:
        raise changed_meanwhile(name, "column ids")


def _is_newer(pipeline: Pipeline, now: str, then: str) -> bool:
    """Whether another window has become the newest."""
    return now != then and newest_of([now, then], pipeline) == now


def _refuse_if_moved_away(version: Version, stage: IcebergStage) -> None:
    """The table may have changed since the stage was fitted to it."""
    fit, fields = stage.fit, version.schema.fields
    here = {item["name"]: item["type"] for item in stage.fields}
    names = tuple(name for name in fit.columns if name not in fit.added_names)
    if names != tuple(field.name for field in fields) or any(
        not same_type(here[field.name], spark_type(field.field_type))
        or (fit.ids and fit.ids[field.name] != field.field_id)
        or (field.required and field.name not in fit.required)
        for field in fields
    ):
        raise changed_meanwhile(version.name, "columns")
    if Layout.of(version.table.spec(), version.schema) != stage.layout:
        raise changed_meanwhile(version.name, "partitioning")
    if version.table.location() != stage.storage.location:
        raise changed_meanwhile(version.name, "location")
