"""Several windows at once on Delta: a stage divided among them, and one commit for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.model.audit import Audit
from setpoint.model.ports import Published, Staged
from setpoint.model.receipt import Receipt, SliceState, files_digest
from setpoint.model.run import Chunk
from setpoint.model.slice import typed
from setpoint.model.window import Window
from setpoint.targets.chunk import dividing, shares
from setpoint.targets.delta import commit
from setpoint.targets.delta.fence import refuse_if_fenced
from setpoint.targets.delta.log import fence_of, open_snapshot
from setpoint.targets.delta.mechanism import choose
from setpoint.targets.delta.publisher import TURNS, refuse_other_rows
from setpoint.targets.delta.slices import Slices, stated
from setpoint.targets.delta.stage import DeltaStage, StagedFile, read_back
from setpoint.targets.delta.storage import Storage
from setpoint.targets.refusals import (
    after_commit,
    changed_meanwhile,
    not_in_table,
    refuse_incomplete,
)
from setpoint.targets.turns import Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def divided(
    session: SparkSession,
    storage: Storage,
    staged: Staged,
    chunk: Chunk,
    attempts: Mapping[Window, str],
    audits: Sequence[Audit],
) -> dict[Window, Staged]:
    """What a stage holds of each window: its files, rows, fingerprint and violations."""
    stage: DeltaStage = staged.handle
    rule = dividing(stage.scope, chunk)
    windows, owner = chunk.window.windows, rule.index(chunk.window)
    files: dict[Window, list[StagedFile]] = {window: [] for window in windows}
    for file in stage.files:
        window = owner(typed(rule.kind, file.partition[rule.column]))
        if window is None:
            raise AssertionError("a row outside of the span was staged")
        files[window].append(file)
    parts = shares(read_back(session, storage, staged), staged, chunk, attempts, audits)
    return {
        window: replace(
            part,
            files=files_digest(file.path for file in files[window]),
            handle=replace(
                stage,
                files=tuple(files[window]),
                only_value=rule.only_value(window),
                clip=rule.predicate(window),
            ),
        )
        for window, part in parts.items()
    }


def publish(
    storage: Storage,
    chunk: Chunk,
    receipts: Sequence[Receipt],
    parts: Sequence[Staged] | None,
    expected: Mapping[Window, SliceState],
) -> list[Published]:
    """One commit: the windows' parts in place of what they held, and a receipt for each.

    Without parts the receipts are renewed alone. Raises `Fenced` when one of the windows is not
    what it was in `expected`; then nothing of the chunk is committed.
    """
    pipeline, windows, turns = chunk.pipeline, chunk.window.windows, Turns(chunk, TURNS)
    for _ in turns:
        with turns.looking():
            snapshot = open_snapshot(storage)
        for number, window in enumerate(windows):
            part = parts[number] if parts else None
            refuse_if_fenced(pipeline, snapshot, window, expected[window], part)
        if choose(snapshot, pipeline.write, pipeline.slice_column).kind != "files":
            raise changed_meanwhile(f"at {storage.uri}", "features")
        receipts = stated(pipeline, snapshot, parts[0] if parts else None, receipts)
        fences = [
            fence_of(snapshot, receipt, window, newest_counts=False)
            for window, receipt in zip(windows, receipts, strict=True)
        ]
        stage = _together(parts) if parts else None
        if parts and stage:
            refuse_incomplete(chunk, storage.files, parts[0].location, stage.written)
        try:
            commit.commit_files(snapshot, storage, chunk, receipts, stage, fences)
        except commit.TableMoved as error:
            turns.refused(error)
            continue
        with after_commit(chunk):
            version = snapshot.version + 1 if snapshot else 0
            return _counted(storage, chunk, receipts, version, counted=parts is not None)
    raise AssertionError("the turns ended without an outcome")


def _together(parts: Sequence[Staged]) -> DeltaStage:
    stages: list[DeltaStage] = [part.handle for part in parts]
    return replace(stages[0], files=tuple(file for stage in stages for file in stage.files))


def _counted(
    storage: Storage, chunk: Chunk, receipts: Sequence[Receipt], version: int, *, counted: bool
) -> list[Published]:
    """Count the published slices in the log."""
    snapshot = open_snapshot(storage, version)
    if snapshot is None:
        raise not_in_table(chunk, f"who removed the table at {storage.uri}")
    if counted:
        files = Slices(chunk.pipeline, snapshot).files(chunk.window.windows)
        for run, receipt in zip(chunk.runs, receipts, strict=True):
            refuse_other_rows(run, receipt, receipt.rows, files[run.window], storage, version)
    return [Published(receipt, version, snapshot.table_id) for receipt in receipts]
