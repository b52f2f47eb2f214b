"""Several windows at once on Iceberg: a stage divided among them, and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.model.audit import Audit
from setpoint.model.ports import Staged
from setpoint.model.receipt import files_digest
from setpoint.model.run import Chunk
from setpoint.model.window import Window
from setpoint.spark.ordinal import window_ordinal
from setpoint.targets.chunk import dividing, shares
from setpoint.targets.iceberg.files import StagedFile
from setpoint.targets.iceberg.partitions import window_in
from setpoint.targets.iceberg.stage import IcebergStage, read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def divided(
    session: SparkSession,
    staged: Staged,
    chunk: Chunk,
    attempts: Mapping[Window, str],
    audits: Sequence[Audit],
) -> dict[Window, Staged]:
    """What a stage holds of each window: its files, rows, fingerprint and violations."""
    stage: IcebergStage = staged.handle
    windows = chunk.window.windows
    place = window_ordinal(dividing(stage.scope, chunk), windows)
    files: dict[Window, list[StagedFile]] = {window: [] for window in windows}
    for file in stage.files:
        files[place.owner(window_in(file.path))].append(file)
    parts = shares(read_back(session, staged), staged, chunk, attempts, audits)
    return {
        window: replace(
            part,
            files=files_digest(stage.storage.path(file.path) for file in files[window]),
            handle=_of_window(stage, files[window]),
        )
        for window, part in parts.items()
    }


def together(parts: Sequence[Staged]) -> Staged:
    """The stage of some windows of a chunk."""
    stages: list[IcebergStage] = [part.handle for part in parts]
    files = tuple(file for stage in stages for file in stage.files)
    handle = replace(stages[0], files=files)
    return replace(parts[0], rows=sum(part.rows for part in parts), handle=handle)


def _of_window(stage: IcebergStage, files: Sequence[StagedFile]) -> IcebergStage:
    if not files:
        return replace(stage, files=())
    # All files of a window lie in one folder below the one of the chunk.
    first = files[0].path[len(stage.folder) + 1 :].split("/")[0]
    return replace(stage, files=tuple(files), folder=f"{stage.folder}/{first}")
