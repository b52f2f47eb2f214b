"""Several windows at once on PostgreSQL: a stage divided among them, and put together again.

The tasks that copied the rows have counted those of each window on the way, so dividing them
costs no pass over the rows, unless keys have to be looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from setpoint.model.audit import Audit, Unique
from setpoint.model.ports import Staged
from setpoint.model.run import Chunk
from setpoint.model.window import Window
from setpoint.spark.ordinal import window_ordinal
from setpoint.spark.stage import Observed
from setpoint.targets.chunk import dividing
from setpoint.targets.postgres.audits import compared
from setpoint.targets.postgres.server import Server
from setpoint.targets.postgres.slices import Buckets
from setpoint.targets.postgres.stage import PostgresStage, violations_of


def divided(
    server: Server,
    staged: Staged,
    chunk: Chunk,
    attempts: Mapping[Window, str],
    audits: Sequence[Audit],
) -> dict[Window, Staged]:
    """What a stage holds of each window: its rows, fingerprint and violations."""
    stage: PostgresStage = staged.handle
    windows = chunk.window.windows
    place = window_ordinal(dividing(stage.scope, chunk), windows)
    found = {place.owner(value): share for value, share in stage.shares.items()}
    none = Observed(0, dict.fromkeys((f"audit {n}" for n in staged.violations), 0), "1:0:0:0")
    doubled = _doubled(server, stage, chunk, audits)
    parts = {}
    for window in windows:
        share = found.get(window, none)
        parts[window] = replace(
            staged,
            attempt=attempts[window],
            rows=share.rows,
            contents=share.contents,
            violations=violations_of(share, audits),
            proven=frozenset(n for n, refused in doubled.items() if window not in refused),
            handle=replace(stage, clip=window),
        )
    return parts


def together(chunk: Chunk, parts: Sequence[Staged]) -> Staged:
    """The stage of some windows of a chunk; not clipped when it has no other rows."""
    rows, stage = sum(part.rows for part in parts), parts[0].handle
    whole = rows == sum(share.rows for share in stage.shares.values())
    handle = replace(stage, clip=None if whole else chunk.window)
    return replace(parts[0], rows=rows, handle=handle)


def _doubled(
    server: Server, stage: PostgresStage, chunk: Chunk, audits: Sequence[Audit]
) -> dict[int, set[Window]]:
    """For audits of keys, by position, the windows in which a key is there twice.

    Nothing is asked about keys whose hashes differed; the others take one pass each.
    """
    among = Buckets.of(dividing(stage.scope, chunk), chunk.window.windows)
    doubled: dict[int, set[Window]] = {}
    for position, audit in enumerate(audits):
        if not isinstance(audit, Unique):
            continue
        if audit.columns in stage.distinct:
            doubled[position] = set()
            continue
        columns = ", ".join(compared(stage, name) for name in audit.columns)
        with server.session(f"auditing {chunk.label}") as connection:
            connection.execute("SET LOCAL work_mem = '256MB'")
            found = connection.execute(
                f"SELECT DISTINCT bucket FROM (SELECT {among.sql} AS bucket FROM {stage.kept} "
                f"AND {among.condition} GROUP BY 1, {columns} HAVING count(*) > 1) g",
                among.values,
            ).fetchall()
        doubled[position] = {among.owners[bucket] for (bucket,) in found}
    return doubled
