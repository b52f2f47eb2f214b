"""Logs of tables are read when they have moved, and only what is new of them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestFile

from setpoint.targets.delta import log as delta_log
from setpoint.targets.delta.storage import Storage
from setpoint.targets.iceberg.catalog import TableName
from setpoint.targets.iceberg.log import open_version
from setpoint.targets.iceberg.manifests import Manifests

ROWS = pa.table({"id": [1]})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a Delta log was read."""
    read: list[int] = []
    real = delta_log.open_snapshot
    monkeypatch.setattr(delta_log, "open_snapshot", lambda *a: (read.append(1), real(*a))[1])
    return read


def delta_table(root: Path, commits: int) -> tuple[delta_log.Log, Callable[[], None]]:
    """A table that was not changed for a moment, and what changes it."""

    def append() -> None:
        write_deltalake(str(root / "t"), ROWS, mode="append")

    for _ in range(commits):
        append()
    time.sleep(0.1)
    return delta_log.Log(Storage.at(str(root / "t"))), append


def test_a_delta_log_is_read_again_when_it_has_moved(tmp_path: Path, reads: list[int]) -> None:
    log, append = delta_table(tmp_path, 3)
    assert [found.version for found in (log.newest(), log.newest()) if found] == [2, 2]
    assert len(reads) == 1
    append()
    found = log.newest()
    assert found is not None
    assert (found.version, len(found.files), len(reads)) == (3, 4, 2)


def test_another_table_with_as_many_versions_is_another_table(tmp_path: Path) -> None:
    """Somebody drops the table and makes it anew: what was known of the old one does not count."""
    log, append = delta_table(tmp_path, 2)
    before = log.newest()
    shutil.rmtree(tmp_path / "t")
    assert log.newest() is None
    append()
    append()
    after = log.newest()
    assert before is not None
    assert after is not None
    assert (before.version, after.version) == (1, 1)
    assert before.table_id != after.table_id


def test_a_table_that_is_made_anew_between_two_looks_is_seen(tmp_path: Path) -> None:
    log, append = delta_table(tmp_path, 2)
    before = log.newest()
    shutil.rmtree(tmp_path / "t")
    append()
    append()
    after = log.newest()
    assert before is not None
    assert after is not None
    assert before.table_id != after.table_id


def test_a_log_that_was_just_written_is_not_remembered(tmp_path: Path, reads: list[int]) -> None:
    """It may have been written while we were reading, by whoever made another table there."""
    log, append = delta_table(tmp_path, 1)
    append()
    log_file = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    ahead = time.time_ns() + 10**10
    os.utime(log_file, ns=(ahead, ahead))
    log.newest()
    log.newest()
    assert len(reads) == 2


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that were read from storage."""
    read: list[str] = []
    real = ManifestFile.fetch_manifest_entry

    def fetch(self: ManifestFile, *given: object, **named: object) -> object:
        read.append(self.manifest_path)
        return real(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", fetch)
    return read


def iceberg_table(root: Path) -> tuple[SqlCatalog, TableName]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", ROWS.schema)
    for _ in range(3):
        table.append(ROWS)
    return catalog, TableName("lake", ("sales",), "orders")


def test_a_manifest_is_read_once(tmp_path: Path, fetched: list[str]) -> None:
    """Each look opens the table anew; of its manifests it reads those that it does not know."""
    catalog, name = iceberg_table(tmp_path)
    for _ in range(2):
        version = open_version(catalog, name)
        assert version is not None
        assert len(version.files) == 3
    assert len(fetched) == len(set(fetched)) == 3
    catalog.load_table("sales.orders").append(ROWS)
    version = open_version(catalog, name)
    assert version is not None
    assert len({file.file_path for file in version.files}) == 4
    assert len(fetched) == 4


def test_manifests_that_do_not_fit_are_read_again(tmp_path: Path, fetched: list[str]) -> None:
    catalog, _ = iceberg_table(tmp_path)
    table = catalog.load_table("sales.orders")
    head = table.current_snapshot()
    assert head is not None
    listed = head.manifests(table.io)
    for most, reads in ((4, 6), (6, 3), (0, 6)):
        fetched.clear()
        few = Manifests(most)
        for _ in range(2):
            found = [few.files_of(manifest, table.io) for manifest in listed]
            assert [len(files) for files in found] == [1, 1, 1]
        assert len(fetched) == reads
