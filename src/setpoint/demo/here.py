"""Runs of the demo that need no process of their own: same project, same protocol, one session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.flow.world import Outcome
from setpoint.model.ranges import parse_windows
from setpoint.model.receipt import unseal
from setpoint.project.config import find_config
from setpoint.project.discover import pipeline_named
from setpoint.project.wiring import Project, parameters_of


@contextmanager
def one_session(project: Path) -> Iterator[None]:
    """A Spark session that the runs of this block share."""
    with Project(find_config(project)) as opened:
        opened.sessions.get()
        yield


def run_here(project: Path, name: str, window: str) -> Outcome:
    """What `setpoint run NAME --window WINDOW` does, in this process."""
    with Project(find_config(project)) as opened:
        pipeline = pipeline_named(opened.config, name)
        bound, world = opened.bind(pipeline), opened.world()
        windows = parse_windows(window, pipeline.every, pipeline.timezone)
        plan = plan_windows(bound, windows, world, parameters=parameters_of(pipeline, {}))[0]
        if plan.is_unchanged:
            return record_unchanged(bound, [plan], world)[0]
        return run_window(bound, plan, world)


def publishes(table: Path, window: str) -> int:
    """How many commits of a Delta table carry a receipt for the window."""
    from deltalake import DeltaTable

    return sum(
        receipt.window == window
        for commit in DeltaTable(str(table)).history()
        for receipt in unseal(commit.get("userMetadata"))
    )
