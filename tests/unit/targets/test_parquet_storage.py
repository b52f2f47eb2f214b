"""Parquet tables on a storage that does not answer; Hadoop says so by an error of the JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from setpoint import PermanentError, TransientError, Window, parquet, pipeline
from setpoint.targets.parquet.content import count_rows
from setpoint.targets.parquet.metastore import TableInfo
from setpoint.targets.parquet.stage import _forget
from setpoint.targets.parquet.storage import Files, LocalFiles, ToldFiles
from setpoint.targets.parquet.view import Unit, View
from setpoint.targets.storage import StoredFile, out_of_reach


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
        raise Py4JError(f"ConnectException: {path}")


SILENT: Files = ToldFiles(Silent())


def test_whatever_is_asked_of_it_is_an_error_that_passes() -> None:
    """It names the place and is tried again; the JVM's error alone would end the run."""
    for ask in (
        lambda: SILENT.listed("hdfs://lake/orders"),
        lambda: SILENT.read("hdfs://lake/orders"),
        lambda: SILENT.write("hdfs://lake/orders", "text"),
        lambda: SILENT.drop("hdfs://lake/orders"),
        lambda: SILENT.locked("hdfs://lake/orders", "me").__enter__(),
    ):
        with pytest.raises(TransientError, match=r"SP-T01.*hdfs://lake/orders.*ConnectException"):
            ask()


def test_what_is_done_under_the_lock_keeps_its_own_errors(tmp_path: Path) -> None:
    """Taking the lock may fail for the storage; the work under it fails for itself."""
    with (
        pytest.raises(ValueError, match="mine"),
        ToldFiles(LocalFiles()).locked(str(tmp_path / "lock"), "me"),
    ):
        raise ValueError("mine")


@pytest.mark.parametrize("said", ["[Errno 28] No space left on device", "Permission denied"])
def test_what_a_retry_cannot_heal_is_not_retried(said: str) -> None:
    """A full disk and a missing right stay until somebody does something."""
    assert isinstance(out_of_reach("/lake", OSError(said)), PermanentError)
    assert isinstance(out_of_reach("/lake", OSError("Broken pipe")), TransientError)


def test_a_look_at_it_is_an_error_that_passes() -> None:
    """A file that is replaced while we look is looked for again; silence is told."""

    @pipeline(every="day", target=parquet(table="sales.orders", partition_by="d"))
    def job(window: Window) -> None: ...

    info = TableInfo("hdfs://lake/orders", "{}", ("d",), {}, 1)
    unit = Unit({"d": "2026-04-25"}, "hdfs://lake/orders/d=2026-04-25")
    view = View(job, info, "sales.orders@1", [unit], SILENT)
    with pytest.raises(TransientError, match=r"SP-T01.*d=2026-04-25"):
        view.hold([unit])


def test_a_refused_stage_that_cannot_be_cleared_away_hides_no_refusal() -> None:
    """Clearing away is for later; the refusal is what the user should see."""
    _forget(SILENT, "hdfs://lake/orders/_setpoint/runs/job/2026-04-25/1")


def test_a_staged_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """Half a Parquet file has no footer; the next attempt stages afresh."""
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no end")
    with pytest.raises(TransientError, match=r"SP-P04.*half\.parquet"):
        count_rows(str(tmp_path), ["half.parquet"])


def test_a_lock_that_others_hold_says_how_to_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel knows whose it is, and ends it with their process."""
    monkeypatch.setattr("setpoint.targets.parquet.storage._PATIENCE", 0)
    path = str(tmp_path / "lock")
    with (
        LocalFiles().locked(path, "first"),
        pytest.raises(TransientError, match=f"SP-P03.*fuser {path}"),
        LocalFiles().locked(path, "second"),
    ):
        pass
