"""Parquet tables on a storage that does not answer; Hadoop says so by an error of the JVM."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from py4j.protocol import Py4JError

from setpoint import TransientError, Window, parquet, pipeline
from setpoint.targets.parquet.metastore import TableInfo
from setpoint.targets.parquet.stage import _forget
from setpoint.targets.parquet.storage import Files
from setpoint.targets.parquet.view import Unit, View
from setpoint.targets.storage import StoredFile


class Silent:
    """A file system behind the bridge to the JVM that is down."""

    def listed(self, folder: str) -> list[StoredFile]:
        raise Py4JError(f"ConnectException: {folder}")

    def read(self, path: str) -> str:
        raise Py4JError(f"ConnectException: {path}")

    def write(self, path: str, text: str) -> None:
        raise Py4JError(f"ConnectException: {path}")

    def drop(self, path: str) -> None:
        raise Py4JError(f"ConnectException: {path}")

    def locked(self, path: str, owner: str) -> Any:
        return nullcontext()


def test_a_look_at_it_is_an_error_that_passes() -> None:
    """It names the table and is tried again; the JVM's error alone would end the run."""

    @pipeline(every="day", target=parquet(table="sales.orders", partition_by="d"))
    def job(window: Window) -> None: ...

    files: Files = Silent()
    info = TableInfo("hdfs://lake/orders", "{}", ("d",), {}, 1)
    unit = Unit({"d": "2026-04-25"}, "hdfs://lake/orders/d=2026-04-25")
    view = View(job, info, "sales.orders@1", [unit], files)
    with pytest.raises(TransientError, match=r"SP-T01.*sales\.orders.*could not be looked at"):
        view.hold([unit])


def test_a_refused_stage_that_cannot_be_cleared_away_hides_no_refusal() -> None:
    """Clearing away is for later; the refusal is what the user should see."""
    _forget(Silent(), "hdfs://lake/orders/_setpoint/runs/job/2026-04-25/1")
