"""The quarantine: a table beside the target for rows with a null in their key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from setpoint.errors import NOTHING_STARTED, DefinitionError
from setpoint.flow.plan import Bound
from setpoint.model.pipeline import Pipeline
from setpoint.model.run import Run
from setpoint.model.table import Delta, Postgres
from setpoint.model.write import KEYED, Overwrite

SUFFIX = "__quarantine"
COLUMN = "setpoint_window"


def quarantine_of(pipeline: Pipeline) -> Pipeline | None:
    """The pipeline that fills the quarantine, one slice per window; None if there is none."""
    write = pipeline.write
    if not isinstance(write, KEYED) or write.null_keys != "quarantine":
        return None
    target = pipeline.target
    beside: Any
    if isinstance(target, Delta) and target.path is not None:
        beside = replace(target, path=f"{target.path.rstrip('/')}{SUFFIX}")
    elif isinstance(target, Delta):
        raise DefinitionError(
            "SP-D09",
            f'{pipeline.name}: null_keys="quarantine" needs a Delta table by path, and '
            f"{target.label} is a name in a catalog.",
            why="The quarantine is a table beside the target, and is made when it is needed.",
            state=NOTHING_STARTED,
            next='Name the target by its path, or use null_keys="refuse".',
        )
    else:
        beside = replace(target, table=_beside(target.table))
    by_time = isinstance(target, Postgres)
    return replace(
        pipeline,
        name=f"{pipeline.name}{SUFFIX}",
        write=Overwrite(),
        target=replace(
            beside,
            partition_by=() if by_time else (COLUMN,),
            time=COLUMN if by_time else None,
            partition_every=None,
            evolve="add",
        ),
        audits=(),
        sources={},
        parameters={},
    )


def _beside(name: str) -> str:
    """A table's name with the suffix, inside its quotes if it has any."""
    quote = name[-1] if name[-1] in '"`' else ""
    return f"{name[: len(name) - len(quote)]}{SUFFIX}{quote}"


def put_aside(quarantine: Bound, frame: Any, run: Run) -> Bound:
    """The quarantine, about to receive the rows of a frame whose key holds a null."""
    write = run.pipeline.write
    if not isinstance(write, KEYED):
        raise TypeError(f"{write.name} has no key")
    missing = " OR ".join(f"`{name.replace('`', '``')}` IS NULL" for name in write.keys)
    rows = frame.where(missing).selectExpr("*", f"'{run.window.id}' AS {COLUMN}")
    return replace(quarantine, pipeline=replace(quarantine.pipeline, function=lambda window: rows))
