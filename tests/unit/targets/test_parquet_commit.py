"""The calls of the metastore by which a publish lands, and what is said when they fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import types as T

from setpoint import UnknownCommitError, Window, parquet, pipeline
from setpoint.errors import PermanentError
from setpoint.model.receipt import Receipt
from setpoint.model.run import Run
from setpoint.targets.parquet.commit import Commit
from setpoint.targets.parquet.content import Content
from setpoint.targets.parquet.metastore import Metastore
from setpoint.targets.parquet.storage import LocalFiles

WINDOW = Window.parse("2026-04-25", every="day")


@pipeline(every="day", target=parquet(table="sales.orders", partition_by="d"))
def orders(window: Window) -> Any: ...


def commit() -> Commit:
    session: Any = SimpleNamespace(_jsparkSession=None)
    run = Run(orders, WINDOW, {}, {}, "c", {})
    receipt = Receipt("orders", WINDOW.id, "UTC", "day", "key", 1, "attempt", 2, None, None, "")
    return Commit(Metastore(session, "sales", "orders"), LocalFiles(), None, run, {WINDOW: receipt})


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "said",
    [
        "An error occurred while calling o45.alterPartitions",
        "org.postgresql.util.PSQLException: An I/O error occurred while sending to the backend.",
    ],
)
def test_a_call_without_an_answer_is_an_unknown_outcome(said: str) -> None:
    """The JVM or the connection ended: the metastore may have carried the call out."""
    with pytest.raises(UnknownCommitError, match="SP-P02"):
        commit()._guarded(lambda: fail(Py4JError(said)))


def test_a_call_that_was_refused_changed_nothing() -> None:
    """The metastore answered, so its rows are the old ones."""
    with pytest.raises(PermanentError, match=r"SP-P01.*holds its old rows"):
        commit()._guarded(lambda: fail(ValueError("no such column")))


class AddsAndRefuses:
    """A metastore that takes new columns and moves nothing."""

    def add_columns(self, schema_json: str) -> None: ...

    def move_table(self, location: str, root: str) -> None:
        raise ValueError("no such place")

    def unanswered(self, error: Exception) -> bool:
        return False


def test_columns_that_were_added_before_a_refusal_are_told() -> None:
    """The old rows are live, and readers see columns that were not there before."""
    added = T.StructType([T.StructField("amount", T.DoubleType())])
    stage: Any = SimpleNamespace(fit=SimpleNamespace(added=added), partition_by=(), root="/lake")
    one = commit()
    one._metastore, one._view = cast("Any", AddsAndRefuses()), cast("Any", object())
    with pytest.raises(PermanentError, match=r"old rows.*\(amount\) are in the table already"):
        one._swap([Content({}, "/lake/new", {}, 0)], [], stage)
