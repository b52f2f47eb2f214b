"""The staging job's work on the executors: Arrow batches into PostgreSQL by binary COPY.

The functions made here travel to the executors by value: they import what they need there and
refer to nothing of this package, so that setpoint itself need not be installed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Key hashes travel to the driver to prove that keys differ; beyond these limits SQL has to.
_HASHES_PER_TASK = 1_000_000
_TASKS_WITH_HASHES = 8

INGESTED = "xid string, rows long, hashes array<binary>"

Batches = Iterable[Any]


def ingesting(
    url: str, schema: str, table: str, columns: Sequence[str], hashes: int
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: stores a task's rows in one transaction and reports it.

    The first columns of a batch are those of the table, the last are the hashes of keys.
    The rows of a task are known by its transaction id. Whoever publishes takes the rows of the
    tasks that Spark says have won; what a task that ran twice left besides is never looked at.
    """
    names, width = list(columns), len(columns)
    most_rows, most_tasks = _HASHES_PER_TASK, _TASKS_WITH_HASHES

    def ingest(batches: Batches) -> Batches:
        from itertools import chain

        import adbc_driver_postgresql.dbapi as postgres
        import numpy as np
        import pyarrow as pa
        from pyspark import TaskContext

        incoming = iter(batches)
        first = next(incoming, None)
        if first is None:
            return
        context = TaskContext.get()
        proving = bool(hashes) and (context is None or context.partitionId() < most_tasks)
        seen: list[list[Any]] = [[] for _ in range(hashes)]
        rows = 0

        def stored() -> Batches:
            nonlocal rows, proving
            for batch in chain([first], incoming):
                rows += batch.num_rows
                proving = proving and rows <= most_rows
                if proving:
                    for position, arrays in enumerate(seen):
                        arrays.append(batch.column(width + position).to_numpy())
                yield pa.RecordBatch.from_arrays(batch.columns[:width], schema=target)

        target = pa.schema([first.schema.field(n).with_name(names[n]) for n in range(width)])
        with postgres.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
            cursor.execute("SELECT pg_current_xact_id()::text")
            xid = cursor.fetchone()[0]
            reader = pa.RecordBatchReader.from_batches(target, stored())
            cursor.adbc_ingest(table, reader, mode="append", db_schema_name=schema)
            connection.commit()
        proofs: list[bytes | None] = []
        for parts in seen:
            values = np.sort(np.concatenate(parts)) if proving and parts else None
            distinct = values is not None and not (values[1:] == values[:-1]).any()
            proofs.append(values.tobytes() if values is not None and distinct else None)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([xid], pa.string()),
                pa.array([rows], pa.int64()),
                pa.array([proofs], pa.list_(pa.binary())),
            ],
            names=["xid", "rows", "hashes"],
        )

    return ingest


def proven_unique(reports: Sequence[Any], position: int) -> bool:
    """Whether all tasks together saw no hash twice: then no key occurs twice either."""
    import numpy as np

    parts = [report["hashes"][position] for report in reports]
    if any(part is None for part in parts):
        return False
    values = np.concatenate(
        [np.frombuffer(part, np.int64) for part in parts] or [np.empty(0, np.int64)]
    )
    values.sort(kind="stable")  # runs that are sorted already are merged
    return not bool((values[1:] == values[:-1]).any())


def reading(url: str, query: str, schema: Any, size: int) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: reads the staged rows that lie in the given blocks."""

    def read(batches: Batches) -> Batches:
        import adbc_driver_postgresql.dbapi as postgres
        import pyarrow as pa

        for batch in batches:
            for first in batch.column(0).to_pylist():
                blocks = f"ctid >= '({first},0)' AND ctid < '({first + size},0)'"
                with postgres.connect(url) as connection, connection.cursor() as cursor:
                    cursor.execute("SET TimeZone = 'UTC'")
                    cursor.execute(f"{query} AND {blocks}")
                    for found in cursor.fetch_record_batch():
                        table = pa.Table.from_batches([found])
                        yield from table.cast(schema).to_batches()

    return read
