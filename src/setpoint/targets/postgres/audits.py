"""Set-level audits over a stage: uniqueness inside PostgreSQL, the rest in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from setpoint.model.audit import Audit, AuditResult, Unique
from setpoint.model.ports import Staged
from setpoint.model.run import Run
from setpoint.spark.audits import SAMPLE_ROWS, set_level, shown
from setpoint.targets.postgres.failures import without_secrets
from setpoint.targets.postgres.names import quote
from setpoint.targets.postgres.readback import read_back
from setpoint.targets.postgres.server import Server
from setpoint.targets.postgres.stage import PostgresStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def evaluate(
    session: SparkSession, server: Server, staged: Staged, run: Run, audits: Sequence[Audit]
) -> list[AuditResult]:
    """The verdicts, in the order of the audits."""
    others = [audit for audit in audits if not isinstance(audit, Unique)]
    rows = staged.rows - staged.deletes
    with without_secrets(server):
        frame = read_back(session, server, staged) if others else None
        answered = set_level(others, frame, rows=rows) if frame is not None else []
    answers = iter(answered)
    return [
        _unique(server, staged, run, audit) if isinstance(audit, Unique) else next(answers)
        for audit in audits
    ]


def _unique(server: Server, staged: Staged, run: Run, audit: Unique) -> AuditResult:
    stage: PostgresStage = staged.handle
    rows = staged.rows - staged.deletes
    if audit.columns in stage.distinct:
        # No two rows had one hash, so no two have one key: nothing is left to be asked.
        return AuditResult(audit.name, audit.severity, True, 0, rows)
    columns = ", ".join(compared(stage, name) for name in audit.columns)
    groups = f"SELECT {columns}, count(*) AS rows FROM {stage.kept} GROUP BY {columns}"
    with server.session(f"auditing {run.label}") as connection:
        connection.execute("SET LOCAL work_mem = '256MB'")
        found = connection.execute(
            f"SELECT coalesce(sum(rows - 1), 0)::int8 FROM ({groups} HAVING count(*) > 1) g"
        ).fetchone()
        count = int(found[0]) if found else 0
        sample: tuple[dict[str, Any], ...] = ()
        if count:
            names = [*audit.columns, "rows"]
            worst = connection.execute(
                f"{groups} HAVING count(*) > 1 ORDER BY rows DESC LIMIT {SAMPLE_ROWS}"
            ).fetchall()
            sample = tuple(
                {name: shown(value) for name, value in zip(names, row, strict=True)}
                for row in worst
            )
    detail = f"{count:,} surplus rows share a key with another row" if count else ""
    return AuditResult(audit.name, audit.severity, not count, count, rows, detail, sample)


def compared(stage: PostgresStage, name: str) -> str:
    """A column that can be grouped by: json and xml have no equality of their own."""
    equal = stage.fit.field(name).mapped.cast not in ("json", "xml")
    return f"s.{quote(name)}" if equal else f"s.{quote(name)}::text"
