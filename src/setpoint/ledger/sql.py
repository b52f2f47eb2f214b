"""The ledger in a SQL database: one short transaction per call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, insert, select, update

from setpoint.ledger.engine import BRIEFLY, Database
from setpoint.ledger.failure import AS_THE_RUN_LEFT_IT, BEFORE_PUBLISH, unusable
from setpoint.ledger.ledger import Ledger, NewReceipt
from setpoint.ledger.records import (
    OPEN_STATES,
    AttemptRecord,
    AuditRecord,
    BackfillRecord,
    BackfillState,
    Ending,
    ReceiptRecord,
    StepRecord,
    require_aware,
)
from setpoint.model.secret import Secret

# Below every database's limit on parameters in one statement.
WINDOWS_PER_QUERY = 5_000


class SqlLedger(Ledger):
    """See `Ledger`; made by `Ledger.open`."""

    def __init__(self, url: Secret) -> None:
        self._database = Database(url)
        self._tables = self._database.tables

    @property
    def where(self) -> str:
        return self._database.where

    def close(self) -> None:
        self._database.close()

    def begin(self, *attempts: AttemptRecord) -> None:
        with self._database.writing(BEFORE_PUBLISH) as connection:
            connection.execute(insert(self._tables.attempts), [_columns(a) for a in attempts])

    def step(self, attempt_ids: Sequence[str], step: StepRecord) -> None:
        statement, columns = self._database.upsert(self._tables.steps), _columns(step)
        with self._database.writing(AS_THE_RUN_LEFT_IT) as connection:
            connection.execute(
                statement, [{"attempt_id": attempt, **columns} for attempt in attempt_ids]
            )

    def audit(self, audits: Mapping[str, Sequence[AuditRecord]]) -> None:
        if not any(audits.values()):
            return
        table = self._tables.audits
        recorded = (
            select(table.c.attempt_id, func.count())
            .where(table.c.attempt_id.in_(list(audits)))
            .group_by(table.c.attempt_id)
        )
        with self._database.writing(AS_THE_RUN_LEFT_IT) as connection:
            first = {name: count for name, count in connection.execute(recorded)}
            connection.execute(
                insert(table),
                [
                    {"attempt_id": name, "position": position, **_columns(audit)}
                    for name, found in audits.items()
                    for position, audit in enumerate(found, first.get(name, 0))
                ],
            )

    def note(self, notes: Mapping[str, Sequence[str]]) -> None:
        rows = [
            {"attempt_id": attempt, "position": position, "note": note}
            for attempt, found in notes.items()
            for position, note in enumerate(found)
        ]
        if not rows:
            return
        with self._database.writing(AS_THE_RUN_LEFT_IT) as connection:
            connection.execute(self._database.upsert(self._tables.notes), rows)

    def finish_all(self, endings: Sequence[Ending]) -> None:
        if not endings:
            return
        table = self._tables.attempts
        ended = ("state", "finished_at", "generation", "rows", "error_code", "error_text")
        statement = (
            update(table)
            .where(table.c.attempt_id == bindparam("ended_attempt"))
            .values({name: bindparam(f"ended_{name}") for name in ended})
        )
        values = [
            {"ended_attempt": end.attempt_id, **{f"ended_{n}": getattr(end, n) for n in ended}}
            for end in endings
        ]
        known = select(func.count()).where(
            table.c.attempt_id.in_([end.attempt_id for end in endings])
        )
        with self._database.writing(AS_THE_RUN_LEFT_IT) as connection:
            connection.execute(statement, values)
            found = connection.scalar(known)
        if found != len(endings):
            raise unusable(
                self._database.where,
                f"there is no attempt {endings[0].attempt_id}",
                AS_THE_RUN_LEFT_IT,
                self._database.file,
            )

    def record_unchanged(self, attempts: Sequence[AttemptRecord]) -> None:
        if any(attempt.state != "unchanged" for attempt in attempts):
            raise ValueError("record_unchanged takes attempts whose state is 'unchanged'")
        if not attempts:
            return
        with self._database.writing(AS_THE_RUN_LEFT_IT, BRIEFLY) as connection:
            connection.execute(insert(self._tables.attempts), [_columns(a) for a in attempts])

    def attempts(
        self,
        pipeline: str | None = None,
        windows: Collection[str] | None = None,
        limit: int | None = 50,
    ) -> list[AttemptRecord]:
        table = self._tables.attempts
        clauses = [] if pipeline is None else [table.c.pipeline == pipeline]
        if windows is None:
            return self._attempts_where(*clauses, limit=limit)
        wanted = list(dict.fromkeys(windows))
        found: list[AttemptRecord] = []
        for first in range(0, len(wanted), WINDOWS_PER_QUERY):
            chunk = wanted[first : first + WINDOWS_PER_QUERY]
            found += self._attempts_where(*clauses, table.c.window_id.in_(chunk), limit=limit)
        if len(wanted) > WINDOWS_PER_QUERY:
            found.sort(key=lambda a: (a.started_at, a.try_number, a.attempt_id), reverse=True)
        return found[:limit]

    def latest_attempts(self, pipeline: str) -> dict[str, AttemptRecord]:
        table = self._tables.attempts
        age = func.row_number().over(partition_by=table.c.window_id, order_by=self._newest_first())
        ranked = select(table, age.label("age")).where(table.c.pipeline == pipeline).subquery()
        columns = [ranked.c[column.name] for column in table.c]
        query = select(*columns).where(ranked.c.age == 1).order_by(ranked.c.window_id)
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            found = [AttemptRecord(*row) for row in connection.execute(query)]
        return {attempt.window_id: attempt for attempt in found}

    def open_attempts(self) -> list[AttemptRecord]:
        return self._attempts_where(self._tables.attempts.c.state.in_(OPEN_STATES), limit=None)

    def attempts_of(self, trigger: str) -> list[AttemptRecord]:
        return self._attempts_where(self._tables.attempts.c.trigger == trigger, limit=None)[::-1]

    def begin_backfill(self, backfill: BackfillRecord) -> None:
        statement = self._database.upsert(self._tables.backfills)
        with self._database.writing(BEFORE_PUBLISH) as connection:
            connection.execute(statement, _columns(backfill))

    def end_backfill(self, backfill_id: str, state: BackfillState, finished_at: datetime) -> bool:
        require_aware("finished_at", finished_at)
        table = self._tables.backfills
        # What was interrupted would go on with the same command; it can still be called off.
        endable = ("running", "interrupted") if state == "cancelled" else ("running",)
        statement = (
            update(table)
            .where(table.c.backfill_id == backfill_id, table.c.state.in_(endable))
            .values(state=state, finished_at=finished_at)
        )
        with self._database.writing(AS_THE_RUN_LEFT_IT) as connection:
            return bool(connection.execute(statement).rowcount)

    def backfills(self, limit: int | None = 50) -> list[BackfillRecord]:
        table = self._tables.backfills
        query = select(table).order_by(table.c.started_at.desc(), table.c.backfill_id).limit(limit)
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return [BackfillRecord(*row) for row in connection.execute(query)]

    def backfill(self, backfill_id: str) -> BackfillRecord | None:
        table = self._tables.backfills
        query = select(table).where(table.c.backfill_id == backfill_id)
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            row = connection.execute(query).first()
        return BackfillRecord(*row) if row else None

    def steps(self, attempt_id: str) -> list[StepRecord]:
        table = self._tables.steps
        query = (
            select(*[table.c[field.name] for field in fields(StepRecord)])
            .where(table.c.attempt_id == attempt_id)
            .order_by(table.c.position)
        )
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return [StepRecord(*row) for row in connection.execute(query)]

    def audits(self, attempt_id: str) -> list[AuditRecord]:
        table = self._tables.audits
        query = (
            select(*[table.c[field.name] for field in fields(AuditRecord)])
            .where(table.c.attempt_id == attempt_id)
            .order_by(table.c.position)
        )
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return [AuditRecord(*row) for row in connection.execute(query)]

    def notes(self, attempt_id: str) -> list[str]:
        table = self._tables.notes
        query = (
            select(table.c.note).where(table.c.attempt_id == attempt_id).order_by(table.c.position)
        )
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return list(connection.scalars(query))

    def remember_receipts(
        self, target: str, table_id: str, receipts: Sequence[NewReceipt], recorded_at: datetime
    ) -> None:
        require_aware("recorded_at", recorded_at)
        if not receipts:
            return
        # recorded_at stays out of the comparison: it would make every repetition a change.
        statement = self._database.upsert(
            self._tables.receipts, only_if_differs=("body", "commit_version")
        )
        rows = [
            {
                "target": target,
                "table_id": table_id,
                "pipeline": pipeline,
                "window_id": window,
                "generation": generation,
                "body": body,
                "commit_version": commit_version,
                "recorded_at": recorded_at,
            }
            for pipeline, window, generation, body, commit_version in receipts
        ]
        with self._database.writing(AS_THE_RUN_LEFT_IT) as connection:
            connection.execute(statement, rows)

    def receipts(
        self, target: str, table_id: str, pipeline: str
    ) -> dict[tuple[str, int], tuple[str, int | None]]:
        table = self._tables.receipts
        same_window = table.alias("same_window")
        newest = (
            select(func.max(same_window.c.generation))
            .where(*(same_window.c[name] == table.c[name] for name in _WINDOW_OF_RECEIPT))
            .scalar_subquery()
        )
        query = select(
            table.c.window_id, table.c.generation, table.c.body, table.c.commit_version
        ).where(
            table.c.target == target,
            table.c.table_id == table_id,
            table.c.pipeline == pipeline,
            table.c.generation == newest,
        )
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return {
                (window, generation): (body, commit_version)
                for window, generation, body, commit_version in connection.execute(query)
            }

    def all_receipts(self, target: str, pipeline: str, window: str) -> list[ReceiptRecord]:
        table = self._tables.receipts
        query = (
            select(table)
            .where(
                table.c.target == target,
                table.c.pipeline == pipeline,
                table.c.window_id == window,
            )
            .order_by(table.c.recorded_at.desc(), table.c.generation.desc())
        )
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return [ReceiptRecord(*row) for row in connection.execute(query)]

    def _attempts_where(
        self, *clauses: ColumnElement[bool], limit: int | None
    ) -> list[AttemptRecord]:
        query = (
            select(self._tables.attempts)
            .where(*clauses)
            .order_by(*self._newest_first())
            .limit(limit)
        )
        with self._database.reading(AS_THE_RUN_LEFT_IT) as connection:
            return [AttemptRecord(*row) for row in connection.execute(query)]

    def _newest_first(self) -> tuple[ColumnElement[Any], ...]:
        columns = self._tables.attempts.c
        return columns.started_at.desc(), columns.try_number.desc(), columns.attempt_id.desc()


_WINDOW_OF_RECEIPT = ("target", "table_id", "pipeline", "window_id")


def _columns(record: AttemptRecord | StepRecord | AuditRecord | BackfillRecord) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
