"""A laboratory for runs: real pipelines on the suite's session, real tables, a real ledger."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from setpoint import Outcome, Pipeline, delta, pipeline
from setpoint.flow.faults import Faults
from setpoint.flow.plan import Bound
from setpoint.flow.retry import RetryPolicy
from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.flow.steps import EVERY, How, Plan
from setpoint.model.ranges import parse_windows
from setpoint.model.receipt import SliceState
from setpoint.model.window import Window
from setpoint.project.config import Config
from setpoint.project.wiring import Project

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parent))

Rows = Sequence[tuple[Any, ...]]


class Shelf:
    """Rows that lie outside the code: changing them changes no fingerprint."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows


def frame_of(spark: SparkSession, rows: Rows, schema: str) -> DataFrame:
    """Rows as a local relation: no Python worker has to start for them."""
    if "<" in schema:
        return spark.createDataFrame(list(rows), schema)
    wanted = T.StructType.fromDDL(schema)
    kinds = to_arrow_schema(wanted)
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, kinds, strict=True)]
    return spark.createDataFrame(pa.table(arrays, schema=kinds), wanted)


@dataclass
class Lab:
    """A project folder in which tests define, run and look at pipelines."""

    root: Path
    spark: SparkSession
    project: Project
    told: list[str] = field(default_factory=list)
    shelf: type[Shelf] = Shelf
    _opened: tuple[Any, Any] | None = None

    def job(
        self,
        rows: Rows | Shelf,
        schema: str = "id int, amount double, d date",
        *,
        every: str = "day",
        target: Any = None,
        **definition: Any,
    ) -> Pipeline:
        """A pipeline called job that returns these rows for every window."""
        spark, fixed = self.spark, rows

        def job(window: Window) -> DataFrame:
            held = fixed.rows if isinstance(fixed, Shelf) else fixed
            return frame_of(spark, held, schema)

        place = target if target is not None else delta("out", partition_by="d")
        return pipeline(every=every, target=place, **definition)(job)

    def define(
        self, function: Callable[..., Any], *, every: str = "day", target: Any = None, **rest: Any
    ) -> Pipeline:
        place = target if target is not None else delta("out", partition_by="d")
        return pipeline(every=every, target=place, **{"name": "job", **rest})(function)

    def frame(self, rows: Rows, schema: str) -> DataFrame:
        return frame_of(self.spark, rows, schema)

    def bind(self, job: Pipeline) -> Bound:
        return self.project.bind(job)

    def windows(self, job: Pipeline, text: str) -> Sequence[Window]:
        return tuple(parse_windows(text, job.every, job.timezone))

    def plan(
        self,
        job: Pipeline,
        text: str,
        *,
        force: bool = False,
        parameters: Mapping[str, Any] | None = None,
    ) -> Plan:
        given = {**job.parameters, **(parameters or {})}
        windows = self.windows(job, text)
        plans = plan_windows(
            self.bind(job), windows, self.world(), parameters=given, how=How(force)
        )
        assert len(plans) == 1
        return plans[0]

    def world(self, fault: str = "") -> Any:
        faults = Faults.from_environment({"SETPOINT_FAULT": fault})
        retry = RetryPolicy(tries=3, first_wait=0, longest_wait=0)
        return replace(self._world(), faults=faults, retry=retry)

    def _world(self) -> Any:
        """The world of the project; its ledger is opened again when its file is another one."""
        if self._opened is None or self._opened[0] != self._ledger_mark():
            world = self.project.world()
            self._opened = (self._ledger_mark(), world)
        return self._opened[1]

    def _ledger_mark(self) -> tuple[Project, int | None]:
        file = self.root / ".setpoint" / "ledger.db"
        return self.project, file.stat().st_ino if file.exists() else None

    def run(
        self,
        job: Pipeline,
        text: str = "2026-04-25",
        *,
        force: bool = False,
        fault: str = "",
        parameters: Mapping[str, Any] | None = None,
        again: tuple[str, str] | None = None,
        as_published: bool = False,
        refresh: bool | str = False,
        restate: bool = False,
    ) -> Outcome:
        """Plan and run one window, as the command line does."""
        anew = EVERY if refresh is True else refresh or ""
        how = How(force, again, as_published, anew, restate)
        bound, world = self.bind(job), self.world(fault)
        given = {**job.parameters, **(parameters or {})}
        windows = self.windows(job, text)
        plans = plan_windows(bound, windows, world, parameters=given, how=how)
        assert len(plans) == 1
        if plans[0].is_unchanged:
            return record_unchanged(bound, plans, world)[0]
        return run_window(bound, plans[0], world)

    def state(self, job: Pipeline, text: str = "2026-04-25") -> SliceState:
        (window,) = self.windows(job, text)
        return self.bind(job).target.inspect([window])[window]

    def table(self, place: str = "out") -> DeltaTable:
        return DeltaTable(str(self.root / place))

    def rows(self, place: str = "out") -> list[tuple[Any, ...]]:
        """All rows as deltalake reads them, columns in the table's order."""
        found = self.table(place).to_pyarrow_table()
        names = [field.name for field in self.table(place).schema().fields]
        rows = [tuple(item[name] for name in names) for item in found.to_pylist()]
        return sorted(rows, key=repr)

    def version(self, place: str = "out") -> int:
        return int(self.table(place).version())

    def live(self, place: str = "out") -> dict[str, str]:
        """Every live file with the sha256 of its bytes."""
        paths = self.table(place).file_uris()
        return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}

    def actions(self, version: int, place: str = "out") -> list[dict[str, Any]]:
        """The actions of one commit, as the log holds them."""
        file = self.root / place / "_delta_log" / f"{version:020d}.json"
        return [json.loads(line) for line in file.read_text().splitlines()]

    def stages(self, place: str = "out") -> list[str]:
        """The attempt folders that hold files."""
        folder = self.root / place / "setpoint"
        return sorted({str(f.parent) for f in folder.rglob("*.parquet")})


@pytest.fixture
def lab(project_dir: Path, spark: SparkSession) -> Iterator[Lab]:
    told: list[str] = []
    config = Config(root=project_dir, ledger="sqlite:///.setpoint/ledger.db")
    with Project(config, tell=told.append, warn=told.append) as project:
        yield Lab(project_dir, spark, project, told)


@pytest.fixture
def postgres_lab(lab: Lab, db: Any) -> Iterator[Lab]:
    """The laboratory with the test's database as the connection `test`."""
    config = replace(lab.project.config, connections={"test": db.url})
    with Project(config, tell=lab.told.append, warn=lab.told.append) as project:
        lab.project = project
        yield lab


@pytest.fixture
def shelf() -> type[Shelf]:
    return Shelf


class Lake:
    """The default catalog of a project, seen by pyiceberg and by Spark's connector."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    @property
    def catalog(self) -> SqlCatalog:
        from pyiceberg.catalog.sql import SqlCatalog

        db = self._lab.root / "warehouse" / "_catalog.sqlite"
        db.parent.mkdir(exist_ok=True)
        return SqlCatalog("lake", uri=f"sqlite:///{db}", warehouse=f"file://{self._lab.root}/w")

    def table(self, name: tuple[str, ...] = ("sales", "orders")) -> Table:
        return self.catalog.load_table(name)

    def rows(self, name: tuple[str, ...] = ("sales", "orders")) -> list[tuple[Any, ...]]:
        """All rows as pyiceberg reads them."""
        found = self.table(name).scan().to_arrow().to_pylist()
        return sorted((tuple(item.values()) for item in found), key=repr)

    def spark_rows(self, text: str = "lake.sales.orders") -> list[tuple[Any, ...]]:
        """All rows as Spark's connector reads them."""
        return sorted((tuple(row) for row in self.spark.table(text).collect()), key=repr)

    @property
    def spark(self) -> SparkSession:
        own = self._lab.spark.newSession()
        prefix, db = "spark.sql.catalog.lake", self._lab.root / "warehouse" / "_catalog.sqlite"
        own.conf.set("spark.sql.session.timeZone", "UTC")
        own.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        own.conf.set(f"{prefix}.type", "jdbc")
        own.conf.set(f"{prefix}.uri", f"jdbc:sqlite:{db}")
        own.conf.set(f"{prefix}.jdbc.schema-version", "V1")
        own.conf.set(f"{prefix}.warehouse", f"file://{self._lab.root}/warehouse")
        own.conf.set(f"{prefix}.cache-enabled", "false")
        return own

    def snapshots(self) -> list[int]:
        return [item.snapshot_id for item in self.table().snapshots()]

    def live(self) -> set[str]:
        return {task.file.file_path for task in self.table().scan().plan_files()}


@pytest.fixture
def lake(lab: Lab, has_iceberg_connector: bool) -> Lake:
    if not has_iceberg_connector:
        if os.environ.get("CI"):
            pytest.fail("the Iceberg connector is not cached: python -m setpoint.spark.setup")
        pytest.skip("the Iceberg connector is not cached: python -m setpoint.spark.setup")
    return Lake(lab)
