"""The tables of the ledger, and how its values become columns."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
)

SCHEMA_VERSION = 3
"""2 added backfills, 3 notes."""


class PlainText(TypeDecorator[str]):
    """Text that every database takes.

    PostgreSQL refuses NUL and neither database takes a lone surrogate; both occur in messages
    from file systems and JVMs. They are stored as the escape a Python literal would show, so
    that an odd character never costs the record of a run.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        encodable = value if value.isascii() else _without_surrogates(value)
        return encodable.replace("\0", "\\x00")


def _without_surrogates(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


class UtcText(TypeDecorator[datetime]):
    """A moment as ISO text in UTC with a fixed width, so that text order is time order."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


class LedgerTables:
    """The tables, inside `schema` where the database has such a thing."""

    def __init__(self, schema: str | None) -> None:
        self.schema = schema
        self.metadata = MetaData(schema=schema)
        self.version = Table("ledger_schema", self.metadata, Column("version", Integer))
        self.attempts = Table(
            "attempts",
            self.metadata,
            Column("attempt_id", PlainText, primary_key=True),
            Column("pipeline", PlainText, nullable=False),
            Column("window_id", PlainText, nullable=False),
            Column("run_key", PlainText, nullable=False),
            Column("state", PlainText, nullable=False),
            Column("started_at", UtcText, nullable=False),
            Column("finished_at", UtcText),
            Column("generation", BigInteger),
            Column("rows", BigInteger),
            Column("host", PlainText, nullable=False),
            Column("pid", BigInteger, nullable=False),
            Column("process_started", PlainText, nullable=False),
            Column("trigger", PlainText),
            Column("resolved_default", Boolean, nullable=False),
            Column("error_code", PlainText),
            Column("error_text", PlainText),
            Column("target", PlainText, nullable=False),
            Column("stage", PlainText, nullable=False),
            Column("try_number", Integer, nullable=False),
            Index("attempts_by_window", "pipeline", "window_id", "started_at"),
            Index("attempts_by_time", "started_at"),
            Index("attempts_by_state", "state"),
        )
        self.steps = Table(
            "steps",
            self.metadata,
            Column("attempt_id", PlainText, primary_key=True),
            Column("position", Integer, primary_key=True),
            Column("name", PlainText, nullable=False),
            Column("started_at", UtcText, nullable=False),
            Column("seconds", Float, nullable=False),
            Column("detail", PlainText, nullable=False),
        )
        self.audits = Table(
            "audits",
            self.metadata,
            Column("attempt_id", PlainText, primary_key=True),
            Column("position", Integer, primary_key=True),
            Column("name", PlainText, nullable=False),
            Column("severity", PlainText, nullable=False),
            Column("passed", Boolean, nullable=False),
            Column("violations", BigInteger),
            Column("rows", BigInteger),
            Column("detail", PlainText, nullable=False),
            Column("sample", PlainText, nullable=False),
        )
        self.notes = Table(
            "notes",
            self.metadata,
            Column("attempt_id", PlainText, primary_key=True),
            Column("position", Integer, primary_key=True),
            Column("note", PlainText, nullable=False),
        )
        self.backfills = Table(
            "backfills",
            self.metadata,
            Column("backfill_id", PlainText, primary_key=True),
            Column("pipeline", PlainText, nullable=False),
            Column("state", PlainText, nullable=False),
            Column("started_at", UtcText, nullable=False),
            Column("finished_at", UtcText),
            Column("host", PlainText, nullable=False),
            Column("pid", BigInteger, nullable=False),
            Column("process_started", PlainText, nullable=False),
            Column("plan", PlainText, nullable=False),
            Index("backfills_by_time", "started_at"),
        )
        self.receipts = Table(
            "receipts",
            self.metadata,
            Column("target", PlainText, primary_key=True),
            Column("table_id", PlainText, primary_key=True),
            Column("pipeline", PlainText, primary_key=True),
            Column("window_id", PlainText, primary_key=True),
            Column("generation", BigInteger, primary_key=True, autoincrement=False),
            Column("body", PlainText, nullable=False),
            Column("commit_version", BigInteger),
            Column("recorded_at", UtcText, nullable=False),
            Index("receipts_by_window", "pipeline", "window_id"),
        )
