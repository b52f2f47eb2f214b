"""The staging job's work on the executors: lines into PostgreSQL by COPY, counted on the way.

The functions made here travel to the executors by value: they import what they need there and
refer to nothing of this package, so that setpoint itself need not be installed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from setpoint.spark.workers import quick_next

# Key hashes travel to the driver to prove that keys differ; beyond these limits SQL has to.
_HASHES_PER_TASK = 1_000_000
_TASKS_WITH_HASHES = 8

INGESTED = (
    "xid string, rows long, low long, high long, counts array<array<long>>, hashes array<binary>"
)

Batches = Iterable[Any]


def ingesting(
    url: str, settings: str, copy: str, masks: int, keys: int
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: stores a task's rows in one transaction and reports it.

    A batch has the rows as lines for COPY, their hashes, the masks of the conditions that hold
    for them, and the hashes of their keys.

    The rows of a task are known by its transaction id. Whoever publishes takes the rows of the
    tasks that Spark says have won; what a task that ran twice left besides is never looked at.
    """
    most_rows, most_tasks, forget = _HASHES_PER_TASK, _TASKS_WITH_HASHES, quick_next()

    def ingest(batches: Batches) -> Batches:
        import numpy as np
        import psycopg
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        proving = bool(keys) and (context is None or context.partitionId() < most_tasks)
        seen: list[list[Any]] = [[] for _ in range(keys)]
        counts = np.zeros((masks, 64), np.int64)
        rows = low = high = 0
        with psycopg.connect(url, autocommit=False) as connection:
            connection.execute("SET LOCAL synchronous_commit = off; " + settings)
            found = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
            xid = found[0] if found else ""
            with connection.cursor().copy(copy) as target:
                for batch in batches:
                    lines = batch.column(0)
                    rows += len(lines)
                    wide = np.int64 if pa.types.is_large_string(lines.type) else np.int32
                    _, offsets, data = lines.buffers()
                    if data is not None:
                        edges = np.frombuffer(offsets, wide)
                        first, last = edges[lines.offset], edges[lines.offset + len(lines)]
                        target.write(memoryview(data)[first:last])
                    hashes = batch.column(1).to_numpy().view(np.uint64)
                    low += int((hashes & np.uint64(0xFFFFFFFF)).sum())
                    high += int((hashes >> np.uint64(32)).sum())
                    for number in range(masks):
                        bits = batch.column(2 + number).to_numpy()
                        if bits.any():
                            for bit in range(60):
                                counts[number, bit] += int((bits >> bit & 1).sum())
                    proving = proving and rows <= most_rows
                    if proving:
                        for number, arrays in enumerate(seen):
                            arrays.append(batch.column(2 + masks + number).to_numpy())
            connection.commit()
        forget()
        proofs: list[bytes | None] = []
        for parts in seen:
            values = np.sort(np.concatenate(parts)) if proving and parts else None
            distinct = values is not None and not (values[1:] == values[:-1]).any()
            proofs.append(values.tobytes() if values is not None and distinct else None)
        if rows:
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([xid], pa.string()),
                    pa.array([rows], pa.int64()),
                    pa.array([low], pa.int64()),
                    pa.array([high], pa.int64()),
                    pa.array([counts.tolist()], pa.list_(pa.list_(pa.int64()))),
                    pa.array([proofs], pa.list_(pa.binary())),
                ],
                names=["xid", "rows", "low", "high", "counts", "hashes"],
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


def reading(url: str, schema: Any, query_of: Callable[[int], str]) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: for each number that comes in, the rows of its query."""

    def read(batches: Batches) -> Batches:
        import adbc_driver_postgresql.dbapi as postgres
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                with postgres.connect(url) as connection, connection.cursor() as cursor:
                    cursor.execute("SET LOCAL TimeZone = 'UTC'")
                    cursor.execute("SET LOCAL statement_timeout = 0")
                    cursor.execute(query_of(number))
                    for found in cursor.fetch_record_batch():
                        table = pa.Table.from_batches([found])
                        yield from table.cast(schema).to_batches()

    return read
