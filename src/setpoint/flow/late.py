"""Late rows: inputs that changed after a window was published, and what their policies say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from setpoint.errors import RefusedError
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.ports import TargetPort
from setpoint.model.receipt import SliceState
from setpoint.model.run import Run
from setpoint.model.window import Window


def changed_inputs(run: Run, recorded: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The inputs that are not what a receipt says."""
    return [
        name
        for name, pinned in run.inputs.items()
        if recorded.get(name, {}).get("fingerprint") != pinned.fingerprint
    ]


def following(pipeline: Pipeline, target: TargetPort) -> Mapping[str, Window]:
    """For sources that restate only some windows, the first window that follows its input."""
    counts = {
        name: item.late.restate
        for name, item in pipeline.sources.items()
        if item.late.restate is not None
    }
    newest = newest_of(target.published_windows(), pipeline) if counts else ""
    if not newest:
        return {}
    first = {}
    for name, count in counts.items():
        window = Window.parse(newest, every=pipeline.every, timezone=pipeline.timezone)
        for _ in range(count):
            window = window.previous()
        first[name] = window
    return first


def late_inputs(run: Run, state: SliceState, first: Mapping[str, Window]) -> list[str]:
    """The inputs that changed after the publish, or may have, and by their policy do not count."""
    if state.receipt is None:
        return []
    late = []
    changed = {*changed_inputs(run, state.receipt.inputs), *run.unsure}
    for name, source in run.pipeline.sources.items():
        final = source.late.policy == "ignore" or (name in first and run.window < first[name])
        if name in changed and final:
            late.append(name)
    return late


def refuse_late(run: Run, state: SliceState) -> None:
    """Refuse to publish over a window whose late rows its source says are an error.

    Asked whenever it becomes known what is read and what is published: by the plan of every
    try, by a source that sees newer rows than were planned on, and by a rival's publish.
    """
    receipt = state.receipt
    if receipt is None:
        return
    for name in changed_inputs(run, receipt.inputs):
        source = run.pipeline.sources.get(name)  # a frame that was handed over has none
        if source is not None and source.late.policy == "fail":
            raise RefusedError(
                "SP-R06",
                f"{run.label}: the input {name} has changed since the window was published at "
                f"{receipt.published_at}.",
                why='Its source says late="fail": a published window is final.',
                next=f"Look at the rows, then restate the window: setpoint run "
                f"{run.pipeline.name} --window {run.window.id} --force; or keep to what was read: "
                "--as-published",
            )
