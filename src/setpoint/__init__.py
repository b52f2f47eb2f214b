"""Idempotent pipelines for Apache Spark.

However often a pipeline runs, crashes, is retried or is backfilled, each window of its target
ends in the state of one clean run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpoint.api import publish as publish
    from setpoint.api import run as run
    from setpoint.errors import DefinitionError as DefinitionError
    from setpoint.errors import PermanentError as PermanentError
    from setpoint.errors import RefusedError as RefusedError
    from setpoint.errors import SetpointError as SetpointError
    from setpoint.errors import TransientError as TransientError
    from setpoint.errors import UnknownCommitError as UnknownCommitError
    from setpoint.errors import UsageError as UsageError
    from setpoint.flow.world import Outcome as Outcome
    from setpoint.model.audit import accepted as accepted
    from setpoint.model.audit import in_range as in_range
    from setpoint.model.audit import not_null as not_null
    from setpoint.model.audit import row_count as row_count
    from setpoint.model.audit import row_count_change as row_count_change
    from setpoint.model.audit import sql as sql
    from setpoint.model.audit import unique as unique
    from setpoint.model.grain import Grain as Grain
    from setpoint.model.http import by_cursor as by_cursor
    from setpoint.model.http import by_link as by_link
    from setpoint.model.http import by_page as by_page
    from setpoint.model.http import by_token as by_token
    from setpoint.model.http import http as http
    from setpoint.model.keys import Months as Months
    from setpoint.model.keys import row_hash_of as row_hash_of
    from setpoint.model.keys import surrogate_key_of as surrogate_key_of
    from setpoint.model.moment import logical_time as logical_time
    from setpoint.model.origin import files as files
    from setpoint.model.origin import jdbc as jdbc
    from setpoint.model.origin import land as land
    from setpoint.model.origin import rows as rows
    from setpoint.model.pipeline import Pipeline as Pipeline
    from setpoint.model.pipeline import pipeline as pipeline
    from setpoint.model.receipt import Receipt as Receipt
    from setpoint.model.source import source as source
    from setpoint.model.table import Delta as Delta
    from setpoint.model.table import Iceberg as Iceberg
    from setpoint.model.table import Parquet as Parquet
    from setpoint.model.table import Postgres as Postgres
    from setpoint.model.table import delta as delta
    from setpoint.model.table import iceberg as iceberg
    from setpoint.model.table import parquet as parquet
    from setpoint.model.table import postgres as postgres
    from setpoint.model.window import Window as Window
    from setpoint.model.write import DeleteInsert as DeleteInsert
    from setpoint.model.write import InsertNew as InsertNew
    from setpoint.model.write import Merge as Merge
    from setpoint.model.write import Overwrite as Overwrite
    from setpoint.model.write import Replace as Replace
    from setpoint.spark.dedupe import dedupe as dedupe
    from setpoint.spark.keys import row_hash as row_hash
    from setpoint.spark.keys import row_hash_sql as row_hash_sql
    from setpoint.spark.keys import surrogate_key as surrogate_key
    from setpoint.spark.keys import surrogate_key_sql as surrogate_key_sql

__version__ = "0.1.0"

# Loaded on first use, so that a command which needs none of it starts at once.
_HOMES = {
    "publish": "setpoint.api",
    "run": "setpoint.api",
    "DefinitionError": "setpoint.errors",
    "PermanentError": "setpoint.errors",
    "RefusedError": "setpoint.errors",
    "SetpointError": "setpoint.errors",
    "TransientError": "setpoint.errors",
    "UnknownCommitError": "setpoint.errors",
    "UsageError": "setpoint.errors",
    "Outcome": "setpoint.flow.world",
    "accepted": "setpoint.model.audit",
    "in_range": "setpoint.model.audit",
    "not_null": "setpoint.model.audit",
    "row_count": "setpoint.model.audit",
    "row_count_change": "setpoint.model.audit",
    "sql": "setpoint.model.audit",
    "unique": "setpoint.model.audit",
    "Grain": "setpoint.model.grain",
    "by_cursor": "setpoint.model.http",
    "by_link": "setpoint.model.http",
    "by_page": "setpoint.model.http",
    "by_token": "setpoint.model.http",
    "http": "setpoint.model.http",
    "Months": "setpoint.model.keys",
    "row_hash_of": "setpoint.model.keys",
    "surrogate_key_of": "setpoint.model.keys",
    "logical_time": "setpoint.model.moment",
    "Pipeline": "setpoint.model.pipeline",
    "pipeline": "setpoint.model.pipeline",
    "Receipt": "setpoint.model.receipt",
    "files": "setpoint.model.origin",
    "jdbc": "setpoint.model.origin",
    "land": "setpoint.model.origin",
    "rows": "setpoint.model.origin",
    "previous": "setpoint.model.source",
    "source": "setpoint.model.source",
    "Span": "setpoint.model.span",
    "Delta": "setpoint.model.table",
    "Iceberg": "setpoint.model.table",
    "Parquet": "setpoint.model.table",
    "Postgres": "setpoint.model.table",
    "delta": "setpoint.model.table",
    "iceberg": "setpoint.model.table",
    "parquet": "setpoint.model.table",
    "postgres": "setpoint.model.table",
    "Window": "setpoint.model.window",
    "DeleteInsert": "setpoint.model.write",
    "InsertNew": "setpoint.model.write",
    "Merge": "setpoint.model.write",
    "Overwrite": "setpoint.model.write",
    "Replace": "setpoint.model.write",
    "dedupe": "setpoint.spark.dedupe",
    "row_hash": "setpoint.spark.keys",
    "row_hash_sql": "setpoint.spark.keys",
    "surrogate_key": "setpoint.spark.keys",
    "surrogate_key_sql": "setpoint.spark.keys",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'setpoint' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
