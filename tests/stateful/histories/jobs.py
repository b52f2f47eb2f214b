"""The pipelines of a history, defined alike in the process that plays it and in its writers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from histories.model import OTHER, Meaning
from histories.rows import DAYS, GONE, SCHEMA
from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    Overwrite,
    Pipeline,
    Replace,
    delta,
    files,
    iceberg,
    parquet,
    pipeline,
    postgres,
    source,
)
from setpoint.flow.backfill import Request, plan_backfill
from setpoint.flow.execution import Execution
from setpoint.flow.retry import RetryPolicy
from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.flow.steps import How
from setpoint.flow.world import Outcome, World
from setpoint.model.ranges import parse_windows
from setpoint.project.config import Config
from setpoint.project.wiring import Project


@dataclass(frozen=True)
class Definition:
    """A pipeline as it is written down: a destination, a table, a layout and a pattern."""

    kind: str
    table: str
    pattern: str
    partitioned: bool
    column: str | None
    removes: bool = False
    complete: bool = False

    @property
    def meaning(self) -> Meaning:
        column = self.column if self.pattern in ("overwrite", "delete_insert") else None
        return Meaning(self.pattern, column, self.removes, self.complete)

    def pipeline(self) -> Pipeline:
        origin = files(f"facts/{self.meaning.reads}/{{date}}.parquet", schema=SCHEMA)

        def job(window: Any, facts: Any = source(origin)) -> Any:
            return facts

        target, write = self._target(), self._write()
        return pipeline(every="day", target=target, write=write, name="job")(job)

    def _target(self) -> Any:
        layout: dict[str, Any] = {"time": self.column} if self.column else {}
        if self.partitioned and self.column == "d":
            layout = {"partition_by": "d"}
        match self.kind:
            case "delta":
                return delta(self.table, **layout)
            case "iceberg":
                return iceberg(self.table, **layout)
            case "parquet":
                return parquet(table=self.table, **layout)
            case _:
                return postgres(self.table, connection="test", **layout)

    def _write(self) -> Any:
        match self.pattern:
            case "overwrite":
                return Overwrite()
            case "merge":
                removal = f"v = '{GONE}'" if self.removes else None
                missing: Any = "delete" if self.complete else "keep"
                return Merge("id", "seq", delete_when=removal, when_missing=missing)
            case "delete_insert":
                return DeleteInsert(where=f"w <> '{OTHER}'")
            case "insert_new":
                return InsertNew(key="id")
            case _:
                return Replace()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Bench:
    """A project's folder with its ledger, in which pipelines are run as the command line does."""

    def __init__(self, root: Path, connections: dict[str, str]) -> None:
        self._root = root
        self._config = Config(
            root=root, ledger="sqlite:///.setpoint/ledger.db", connections=connections
        )
        self._opened: tuple[int | None, Project, World] | None = None

    def run(
        self,
        definition: Definition,
        day: dt.date,
        *,
        force: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> Outcome:
        project, world = self._world()
        world = replace(world, tell=tell) if tell else world
        job = definition.pipeline()
        bound = project.bind(job)
        windows = tuple(parse_windows(day.isoformat(), job.every, job.timezone))
        (plan,) = plan_windows(bound, windows, world, parameters={}, how=How(force))
        if plan.is_unchanged:
            return record_unchanged(bound, [plan], world)[0]
        return run_window(bound, plan, world)

    def backfill(self, definition: Definition, longest: int | None, restate: bool) -> list[Any]:
        """Every window, in chunks."""
        project, world = self._world()
        job = definition.pipeline()
        text = f"{DAYS[0]}..{DAYS[-1]}"
        windows = tuple(parse_windows(text, job.every, job.timezone))
        request = Request(only=("all",), longest=longest, restate=restate)
        plan = plan_backfill(project.bind(job), world, world.now(), request, {}, windows)
        return list(Execution(plan, world).run())

    def close(self) -> None:
        if self._opened is not None:
            self._opened[1].__exit__(None, None, None)
            self._opened = None

    def _world(self) -> tuple[Project, World]:
        """The project and its world; opened again when somebody deleted the ledger."""
        file = self._root / ".setpoint" / "ledger.db"
        mark = file.stat().st_ino if file.exists() else None
        if self._opened is None or self._opened[0] != mark:
            self.close()
            project = Project(self._config)
            world = replace(project.world(), retry=RetryPolicy(3, 0, 0))
            self._opened = (file.stat().st_ino if file.exists() else None, project, world)
        return self._opened[1], self._opened[2]
