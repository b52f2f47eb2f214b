"""Runs without a JVM: rows are staged with pyarrow, all else is the real thing.

Planning, the protocol, the fence, the commit, the log, the files and the ledger are the ones of
production; only the Spark job that writes the Parquet files is replaced. A run then costs
milliseconds, so that races and long histories can be tried by the hundred.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import types as T

from setpoint import edge
from setpoint.flow.faults import Faults
from setpoint.flow.plan import Bound
from setpoint.flow.retry import RetryPolicy
from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.flow.world import Outcome, World
from setpoint.ledger import Ledger
from setpoint.model.audit import Audit
from setpoint.model.fingerprint import digest
from setpoint.model.pipeline import Pipeline, pipeline
from setpoint.model.ports import Staged
from setpoint.model.receipt import files_digest
from setpoint.model.run import Run
from setpoint.model.scope import Scope
from setpoint.model.table import delta
from setpoint.model.window import Window
from setpoint.targets.delta import schema
from setpoint.targets.delta import stage as delta_stage
from setpoint.targets.delta.storage import Storage
from setpoint.targets.delta.target import DeltaTarget

Rows = Sequence[int]
SCHEMA = T.StructType([T.StructField("id", T.IntegerType()), T.StructField("d", T.DateType())])


@dataclass(frozen=True)
class Frame:
    """What a pipeline returns here: ids, all of the window's day."""

    rows: tuple[int, ...]
    schema: Any = SCHEMA
    sparkSession: Any = None


class NoSpark:
    """An engine that has no session to give."""

    def session(self, connectors: frozenset[str]) -> Any:
        return None

    def pinned(self, session: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def as_input(self, frame: Any) -> Any:
        return frame

    def findings(self, frame: Any, keys: Any, function: Any) -> tuple[()]:
        return ()


class FilesTarget(DeltaTarget):
    """A Delta target whose rows are staged by pyarrow, two rows a file."""

    def stage(self, frame: Any, run: Run, attempt: str, audits: Sequence[Audit]) -> Staged:
        snapshot = self._snapshot()
        fit = schema.fit(
            SCHEMA.jsonValue()["fields"],
            snapshot,
            partition_by=("d",),
            needed={"d": "the window's column"},
            evolve="refuse",
            label=run.label,
        )
        rule = self._pipeline.slice_rule(lambda _: "date")
        assert rule is not None
        folder = delta_stage.location(run, attempt)
        place = Path(self.uri, folder)
        place.mkdir(parents=True)
        for start in range(0, len(frame.rows), 2):
            ids = pa.array(frame.rows[start : start + 2], pa.int32())
            pq.write_table(pa.table({"id": ids}), place / f"part-{start:05d}.parquet")
        only = rule.only_value(run.window)
        files = delta_stage.staged_files(self._storage, folder, {"d": only}, {"id": "integer"})
        return Staged(
            location=folder,
            attempt=attempt,
            rows=len(frame.rows),
            contents=digest(*sorted(map(str, frame.rows))),
            files=files_digest(file.path for file in files),
            violations={},
            changes_schema=False,
            handle=delta_stage.DeltaStage(
                fit, Scope(run.pipeline.write, rule), only, ("d",), files, SCHEMA
            ),
        )


@dataclass
class Bench:
    """A table, a ledger and pipelines over them, in a folder."""

    root: Path
    ledger: Ledger | None = None
    tries: int = 3

    @property
    def place(self) -> str:
        return str(self.root / "out")

    def job(self, rows: Rows, version: int = 0) -> Pipeline:
        """Code whose fingerprint depends on its rows and its version."""
        fixed = (tuple(rows), version)

        def job(window: Window) -> Frame:
            return Frame(fixed[0])

        return pipeline(every="day", target=delta("out", partition_by="d"))(job)

    def bind(self, job: Pipeline) -> Bound:
        return Bound(job, FilesTarget(job, job.target, Storage.at(self.place)), {})

    def world(self, fault: str = "") -> World:
        return World(
            engine=NoSpark(),
            ledger=self.ledger,
            now=edge.utc_now,
            new_attempt_id=edge.new_attempt_id,
            identity=edge.process_identity(),
            faults=Faults.from_environment({"SETPOINT_FAULT": fault}),
            retry=RetryPolicy(self.tries, 0, 0),
        )

    def run(
        self, job: Pipeline, window: str, *, fault: str = "", world: World | None = None
    ) -> Outcome:
        bound, world = self.bind(job), world or self.world(fault)
        chosen = Window.parse(window, every="day")
        plans = plan_windows(bound, [chosen], world, parameters={})
        if plans[0].is_unchanged:
            return record_unchanged(bound, plans, world)[0]
        return run_window(bound, plans[0], world)

    def rows(self) -> dict[date, list[int]]:
        """The ids of each day, as a reader sees them."""
        found: dict[date, list[int]] = {}
        if not DeltaTable.is_deltatable(self.place):
            return found
        for row in DeltaTable(self.place).to_pyarrow_table().to_pylist():
            found.setdefault(row["d"], []).append(row["id"])
        return {day: sorted(ids) for day, ids in found.items()}

    def receipts(self) -> list[dict[str, Any]]:
        """Every receipt in the log, oldest first."""
        return list(self._receipts())

    def _receipts(self) -> Iterator[dict[str, Any]]:
        if not DeltaTable.is_deltatable(self.place):
            return
        for commit in reversed(DeltaTable(self.place).history()):
            text = commit.get("userMetadata")
            if text:
                yield from json.loads(text)["receipts"]

    def missing_files(self) -> list[str]:
        """Live files that are not on the disk: lost rows."""
        uris = DeltaTable(self.place).file_uris()
        return [uri for uri in uris if not Path(uri).exists()]


def held(world: World, ready: Callable[[], None]) -> World:
    """A world whose clock calls back; the protocol reads it right before it publishes."""

    def now() -> Any:
        ready()
        return edge.utc_now()

    return replace(world, now=now)
