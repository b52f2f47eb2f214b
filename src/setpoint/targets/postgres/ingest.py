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
    "xid string, hashes array<binary>, shares array<struct<window: string, rows: long, low: long, "
    "high: long, counts: array<array<long>>>>"
)

Batches = Iterable[Any]


def ingesting(
    url: str, settings: str, copy: str, masks: int, keys: int, *, by_window: bool = False
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: stores a task's rows in one transaction and reports it.

    A batch has the rows as lines for COPY, their hashes, the masks of the conditions that hold
    for them, and the hashes of their keys. With `by_window` a column says which window a row
    belongs to, and what is counted is counted for each; otherwise there is one share of all.
    A long line may come in several rows; the first counts, as piece 0.

    The rows of a task are known by its transaction id. Whoever publishes takes the rows of the
    tasks that Spark says have won; what a task that ran twice left besides is never looked at.
    """
    most_rows, most_tasks, forget = _HASHES_PER_TASK, _TASKS_WITH_HASHES, quick_next()

    def groups_of(batch: Any) -> tuple[list[str], Any, Any]:
        """The windows of a batch, an order that has the rows of each together, and the starts."""
        import numpy as np

        if not by_window:
            return [""], slice(None), np.zeros(1, np.int64)
        found = batch.column("window").dictionary_encode()
        codes = found.indices.fill_null(len(found.dictionary)).to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.append(0, np.flatnonzero(np.diff(codes[order])) + 1)
        names = [*map(str, found.dictionary.to_pylist()), ""]
        return [names[code] for code in codes[order[starts]]], order, starts

    def add_to(shares: dict[str, dict[str, Any]], batch: Any) -> None:
        """Add what a batch holds to the counts of its windows."""
        import numpy as np

        windows, order, starts = groups_of(batch)
        hashes = batch.column("hash").to_numpy().view(np.uint64)[order]
        rows = np.diff(np.append(starts, len(hashes)))
        low = np.add.reduceat(hashes & np.uint64(0xFFFFFFFF), starts)
        high = np.add.reduceat(hashes >> np.uint64(32), starts)
        for place, window in enumerate(windows):
            if window not in shares:
                shares[window] = {"window": window, "rows": 0, "low": 0, "high": 0}
                shares[window]["counts"] = np.zeros((masks, 64), np.int64)
            share = shares[window]
            share["rows"] += int(rows[place])
            share["low"] += int(low[place])
            share["high"] += int(high[place])
        for number in range(masks):
            bits = batch.column(f"mask{number}").to_numpy()[order]
            for bit in range(60) if bits.any() else ():
                found = np.add.reduceat(bits >> bit & 1, starts)
                for place in np.flatnonzero(found).tolist():
                    shares[windows[place]]["counts"][number, bit] += found[place]

    def ingest(batches: Batches) -> Batches:
        import numpy as np
        import psycopg
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        proving = bool(keys) and (context is None or context.partitionId() < most_tasks)
        seen: list[list[Any]] = [[] for _ in range(keys)]
        shares: dict[str, dict[str, Any]] = {}
        rows = 0
        with psycopg.connect(url, autocommit=False) as connection:
            connection.execute("SET LOCAL synchronous_commit = off; " + settings)
            found = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
            xid = found[0] if found else ""
            with connection.cursor().copy(copy) as target:
                for batch in batches:
                    lines = batch.column("line")
                    wide = np.int64 if pa.types.is_large_string(lines.type) else np.int32
                    _, offsets, data = lines.buffers()
                    if data is not None:
                        edges = np.frombuffer(offsets, wide)
                        first, last = edges[lines.offset], edges[lines.offset + len(lines)]
                        target.write(memoryview(data)[first:last])
                    pieces = batch.column("piece").to_numpy()
                    if pieces.any():  # rows that go on with a long line
                        batch = batch.filter(pa.array(pieces == 0))
                    rows += len(batch)
                    if len(batch):
                        add_to(shares, batch)
                    proving = proving and rows <= most_rows
                    if proving:
                        for number, arrays in enumerate(seen):
                            # Runs are sorted while rows are on their way, and merged at the end.
                            arrays.append(np.sort(batch.column(f"key{number}").to_numpy()))
            connection.commit()
        forget()
        proofs: list[bytes | None] = []
        for parts in seen:
            values = np.concatenate(parts) if proving and parts else None
            if values is not None:
                values.sort(kind="stable")
            distinct = values is not None and not (values[1:] == values[:-1]).any()
            proofs.append(values.tobytes() if values is not None and distinct else None)
        if rows:
            kinds = {"window": pa.string(), "rows": pa.int64(), "low": pa.int64()}
            kinds |= {"high": pa.int64(), "counts": pa.list_(pa.list_(pa.int64()))}
            counted = [{**share, "counts": share["counts"].tolist()} for share in shares.values()]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([xid], pa.string()),
                    pa.array([proofs], pa.list_(pa.binary())),
                    pa.array([counted], pa.list_(pa.struct(list(kinds.items())))),
                ],
                names=["xid", "hashes", "shares"],
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
