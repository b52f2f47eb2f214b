"""A PostgreSQL target without a JVM: the executors' own code stages rows that a test spells out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from setpoint import Pipeline, RefusedError, pipeline, postgres
from setpoint.flow.plan import why
from setpoint.flow.publish import publish
from setpoint.model.ports import Staged
from setpoint.model.receipt import SliceState
from setpoint.model.run import Pinned, Run
from setpoint.model.window import Window
from setpoint.model.write import KEYED, Merge
from setpoint.spark.batch import DELETED
from setpoint.targets.postgres import batch, stage
from setpoint.targets.postgres.ingest import ingesting
from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.server import SETTINGS, Server
from setpoint.targets.postgres.target import PostgresTarget

_TYPES: Mapping[str, T.DataType] = {
    "int": T.IntegerType(),
    "long": T.LongType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "decimal2": T.DecimalType(10, 2),
    "decimal3": T.DecimalType(10, 3),
    "timestamps": T.ArrayType(T.TimestampType()),
}
Rows = Sequence[tuple[Any, ...]]
_ATTEMPTS = itertools.count()


class Contradiction:
    """What a batch of events says when rows under one key differ."""

    def refuse_contradictions(self, tied: int, example: str) -> None:
        raise RefusedError("SP-O07", f"{tied} keys have rows that differ.{example}")


@dataclass
class Job:
    """One pipeline on a database: rows are given as texts for COPY, columns as `id int, d date`."""

    url: str
    pipeline: Pipeline
    target: PostgresTarget = field(init=False)

    def __post_init__(self) -> None:
        self.target = PostgresTarget(self.pipeline, self.pipeline.target, Server("test", self.url))

    def window(self, text: str) -> Window:
        return Window.parse(text, self.pipeline.every, self.pipeline.timezone)

    def state(self, text: str = "2026-04-25") -> SliceState:
        window = self.window(text)
        return self.target.inspect([window])[window]

    def stage(self, rows: Rows, columns: str, text: str, version: str) -> tuple[Run, Staged]:
        """Stage rows as the executors do; with `delete_when` the last value is the flag."""
        schema = T.StructType(
            [T.StructField(*_named(item)) for item in columns.split(",")],
        )
        inputs = {"rows": Pinned(1, version or repr(rows))}
        run = Run(self.pipeline, self.window(text), {}, inputs, "", self.pipeline.definition())
        write, attempt = self.pipeline.write, f"a{next(_ATTEMPTS)}"
        server = Server("test", self.url)
        fit, scope = self.target.fitted(schema, run)
        removes = isinstance(write, Merge) and write.delete_when is not None
        only = stage._only_value(scope, run, schema)
        made = stage.PostgresStage(
            stage.table_at(stage.location(attempt)), (), fit, scope, schema, removes, only
        )
        stage._create(server, made, run, attempt, self.target.uri)
        keys = stage._key_sets(write, ())
        names = [item.name for item in made.stored]
        copied = ", ".join([quote(n) for n in names] + ([quote(DELETED)] if removes else []))
        copy = f"COPY {made.table.sql} ({copied}) FROM STDIN"
        work = ingesting(self.url, SETTINGS, copy, 0, len(keys))
        reports = [
            report
            for found in work([_batch(rows, schema.fieldNames(), names, keys, removes)])
            for report in found.to_pylist()
        ]
        made, observed = stage._reported(made, [], keys, reports)
        staged = replace(
            stage._staged(made, observed, (), attempt),
            contents=version or repr(sorted(map(repr, rows))),
            deletes=sum(row[-1] for row in rows) if removes else 0,
        )
        if isinstance(write, KEYED) and write.keys not in made.distinct:
            with server.session("resolving") as connection:
                count, gone, _ = batch.resolve(connection, made, write, Contradiction())  # type: ignore[arg-type]
            staged = replace(staged, rows=count, deletes=gone)
        return run, staged

    def run(self, rows: Rows, columns: str, text: str = "2026-04-25", version: str = "") -> str:
        """Plan and publish: `published`, or `unchanged` when there is nothing to do."""
        state = self.state(text)
        run, staged = self.stage(rows, columns, text, version)
        if why(run, state) is None:
            self.target.drop_stage(staged.location)
            return "unchanged"
        publish(self.target, None, run, staged, (), state, "2026-05-01T00:00:00+00:00")
        return "published"


class Warehouse:
    """A database of one test's own, with jobs that publish to it."""

    def __init__(self, db: Any) -> None:
        self.url, self.all, self.rows = db.url, db.all, db.rows

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url)

    def job(
        self,
        write: Any = None,
        *,
        time: str | None = None,
        table: str = "out",
        every: str = "day",
        name: str = "job",
        url: str = "",
    ) -> Job:
        """A job as the database's owner, or as the user of `url`."""

        def nothing(window: Window) -> None: ...

        given: dict[str, Any] = {} if write is None else {"write": write}
        target = postgres(table, connection="test", time=time)
        made = pipeline(every=every, target=target, name=name, **given)(nothing)
        return Job(url or self.url, made)


@pytest.fixture
def warehouse(db: Any) -> Warehouse:
    return Warehouse(db)


def _named(item: str) -> tuple[str, T.DataType]:
    name, kind = item.split()
    return name, _TYPES[kind]


def _batch(
    rows: Rows,
    columns: Sequence[str],
    stored: Sequence[str],
    keys: Sequence[tuple[str, ...]],
    removes: bool,
) -> pa.RecordBatch:
    """What Spark hands to a task: lines for COPY, hashes of the rows, hashes of the keys."""
    places = [columns.index(name) for name in stored]
    lines = [
        "\t".join(
            [r"\N" if row[n] is None else str(row[n]) for n in places]
            + ([str(row[-1])] if removes else [])
        )
        + "\n"
        for row in rows
    ]
    arrays = {"piece": pa.array([0] * len(rows), pa.int32()), "line": pa.array(lines, pa.string())}
    arrays["hash"] = _hashes(rows)
    for number, key in enumerate(keys):
        values = [tuple(row[columns.index(name)] for name in key) for row in rows]
        arrays[f"key{number}"] = _hashes(values)
    return pa.RecordBatch.from_pydict(arrays)


def _hashes(rows: Rows) -> pa.Array:
    return pa.array(np.array([hash(row) for row in rows], np.int64))
