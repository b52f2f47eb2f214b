"""What the destinations share when several windows go into one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.model.audit import Audit
from setpoint.model.ports import Staged
from setpoint.model.run import Chunk
from setpoint.model.scope import Scope
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.model.write import Overwrite, WritePattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def alone_by_pattern(write: WritePattern) -> str:
    """Why a write pattern takes one window at a time; empty when it need not."""
    if isinstance(write, Overwrite):
        return ""
    return f"{type(write).__name__} publishes each window by itself"


def dividing(scope: Scope, chunk: Chunk) -> SliceRule:
    """The rule that says which window a row of a chunk belongs to."""
    if scope.rule is None:
        raise TypeError(f"{chunk.label} is not divided by a column")
    return scope.rule


def shares(
    frame: DataFrame,
    staged: Staged,
    chunk: Chunk,
    attempts: Mapping[Window, str],
    audits: Sequence[Audit],
) -> dict[Window, Staged]:
    """The stage of a chunk, given as a frame, by window: rows, fingerprint and violations.

    Files and handles are still those of the whole.
    """
    from setpoint.spark.division import divide

    rule, windows = dividing(staged.handle.scope, chunk), chunk.window.windows
    found = divide(frame, rule, windows, audits, staged.violations)
    return {
        window: replace(
            staged,
            attempt=attempts[window],
            rows=found[window].rows,
            contents=found[window].contents,
            violations=found[window].violations,
            proven=found[window].unique,
        )
        for window in windows
    }
