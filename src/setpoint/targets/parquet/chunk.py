"""Several windows at once in a Parquet table: a stage divided among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.model.audit import Audit
from setpoint.model.ports import Staged
from setpoint.model.run import Chunk
from setpoint.model.window import Window
from setpoint.targets.chunk import dividing, shares
from setpoint.targets.parquet.stage import ParquetStage, read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def divided(
    session: SparkSession,
    staged: Staged,
    chunk: Chunk,
    attempts: Mapping[Window, str],
    audits: Sequence[Audit],
) -> dict[Window, Staged]:
    """What a stage holds of each window: its rows, fingerprint and violations."""
    stage: ParquetStage = staged.handle
    rule = dividing(stage.scope, chunk)
    parts = shares(read_back(session, staged), staged, chunk, attempts, audits)
    return {
        window: replace(part, handle=replace(stage, clip=rule.predicate(window)))
        for window, part in parts.items()
    }


def together(parts: Sequence[Staged]) -> Staged:
    """The stage of some windows of a chunk: their partitions are found by their values."""
    handle = replace(parts[0].handle, clip="")
    return replace(parts[0], rows=sum(part.rows for part in parts), handle=handle)
