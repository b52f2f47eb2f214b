"""The fence: is the table still what the run looked at, and the stage was made for?"""

from __future__ import annotations

import json

from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import Fenced, Staged
from setpoint.model.receipt import SliceState
from setpoint.model.window import Window
from setpoint.targets.delta.log import Snapshot
from setpoint.targets.delta.schema import same_type
from setpoint.targets.delta.slices import Slices
from setpoint.targets.refusals import changed_meanwhile


def refuse_if_fenced(
    pipeline: Pipeline,
    snapshot: Snapshot | None,
    window: Window,
    expected: SliceState,
    staged: Staged | None,
) -> None:
    """Refuse to commit when the window, or the newest one where that counts, has moved."""
    if snapshot is None:
        if expected.generation or staged is None:
            raise Fenced(SliceState(0, None, None))
        return
    generation = snapshot.last_publish(pipeline.name, window.id).generation
    by_newest = pipeline.newest_counts
    if generation != expected.generation or staged is None or by_newest:
        state = Slices(pipeline, snapshot).states([window])[window]
        newer = by_newest and _is_newer(pipeline, state.newest, expected.newest)
        if generation != expected.generation or newer or not (staged or state.untouched):
            raise Fenced(state)
    if staged is not None:
        _refuse_if_moved_away(snapshot, staged)


def _is_newer(pipeline: Pipeline, now: str, then: str) -> bool:
    """Whether another window has become the newest; what the log forgot does not count."""
    return now != then and newest_of([now, then], pipeline) == now


def _refuse_if_moved_away(snapshot: Snapshot, staged: Staged) -> None:
    """The table's columns may have changed since the stage was fitted to them."""
    fitted = json.loads(staged.handle.fit.schema_json)["fields"]
    added = set(staged.handle.fit.added)
    same = snapshot.partition_columns == staged.handle.partition_by and [
        (field.name, field.nullable) for field in snapshot.fields
    ] == [(item["name"], item["nullable"]) for item in fitted if item["name"] not in added]
    if not same or not all(
        same_type(field.kind, item["type"])
        for field, item in zip(snapshot.fields, fitted, strict=False)
    ):
        raise changed_meanwhile(f"at {snapshot.storage.uri}", "columns")
