"""Logs of tables are read when they have moved, and only what is new of them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestFile

from setpoint.targets.delta import looks
from setpoint.targets.delta.history import read_commits
from setpoint.targets.delta.log import Snapshot, open_snapshot
from setpoint.targets.delta.storage import Storage
from setpoint.targets.delta.transactions import application_id
from setpoint.targets.iceberg.catalog import TableName
from setpoint.targets.iceberg.log import open_version
from setpoint.targets.iceberg.manifests import Manifests

ROWS = pa.table({"id": [1]})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a Delta log was read."""
    read: list[int] = []
    real = looks.open_snapshot
    monkeypatch.setattr(looks, "open_snapshot", lambda *a: (read.append(1), real(*a))[1])
    return read


def append(place: Path, times: int = 1) -> None:
    for _ in range(times):
        write_deltalake(str(place), ROWS, mode="append")


def looks_at(place: Path, commits: int) -> looks.Looks:
    """Looks at a new table that nobody has changed for a moment."""
    append(place, commits)
    time.sleep(0.1)
    return looks.Looks(Storage.at(str(place)))


def seen(look: looks.Looks) -> Snapshot:
    found = look.newest()
    assert found is not None
    return found


def test_a_delta_log_is_read_again_when_it_has_moved(tmp_path: Path, reads: list[int]) -> None:
    look = looks_at(tmp_path / "t", 3)
    assert [seen(look).version, seen(look).version, len(reads)] == [2, 2, 1]
    append(tmp_path / "t")
    found = seen(look)
    assert (found.version, len(found.files), len(reads)) == (3, 4, 2)


@pytest.mark.parametrize("noticed", [True, False])
def test_another_table_with_as_many_versions_is_another_table(
    tmp_path: Path, noticed: bool
) -> None:
    """Somebody drops the table and makes it anew: what was known of the old one does not count."""
    look = looks_at(tmp_path / "t", 2)
    before = seen(look)
    shutil.rmtree(tmp_path / "t")
    if noticed:
        assert look.newest() is None
    append(tmp_path / "t", 2)
    after = seen(look)
    assert (before.version, after.version) == (1, 1)
    assert before.table_id != after.table_id


def test_a_table_that_is_put_in_place_while_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With files as old as those of the first one: the folder of its log is another one."""
    look = looks_at(tmp_path / "t", 2)
    looks_at(tmp_path / "other", 2)
    real = looks.open_snapshot

    def swapping(storage: Storage) -> Snapshot | None:
        found = real(storage)
        if (tmp_path / "other").exists():
            (tmp_path / "t").rename(tmp_path / "gone")
            (tmp_path / "other").rename(tmp_path / "t")
        return found

    monkeypatch.setattr(looks, "open_snapshot", swapping)
    assert seen(look).table_id != seen(look).table_id


@pytest.mark.parametrize(("age_ns", "read"), [(-(10**10), 2), (0, 2), (10**10, 1)])
def test_a_log_that_may_have_been_written_while_it_was_read_is_not_remembered(
    tmp_path: Path, reads: list[int], age_ns: int, read: int
) -> None:
    """Nor one on a disk that knows whole seconds only, for two of them."""
    look = looks_at(tmp_path / "t", 1)
    second = (time.time_ns() - age_ns) // 10**9 * 10**9
    os.utime(tmp_path / "t" / "_delta_log" / f"{0:020d}.json", ns=(second, second))
    seen(look), seen(look)
    assert len(reads) == read


def test_a_log_that_is_cleaned_up_is_read_again(tmp_path: Path) -> None:
    """What an open table still has to read may be gone, though no version came."""
    place, app = tmp_path / "t", application_id("job", "2026-04-25")
    append(place, 3)
    fence = CommitProperties(app_transactions=[Transaction(app, 7)])
    write_deltalake(str(place), ROWS, mode="append", commit_properties=fence)
    append(place, 2)
    look = looks_at(place, 1)
    assert seen(look).version == 6
    table = DeltaTable(str(place))
    table.create_checkpoint()
    for version in range(6):
        (place / "_delta_log" / f"{version:020d}.json").unlink()
    assert seen(look).last_publish("job", "2026-04-25").generation == 7


def test_commits_have_their_own_versions(tmp_path: Path) -> None:
    """Also when others came after the table was opened, or one says nothing about itself."""
    place = tmp_path / "t"
    for number in range(3):
        told = CommitProperties(custom_metadata={"number": str(number)})
        write_deltalake(str(place), ROWS, mode="append", commit_properties=told)
    opened = open_snapshot(Storage.at(str(place)))
    assert opened is not None
    append(place, 2)
    assert sorted(opened.commits) == [0, 1, 2]
    log = place / "_delta_log" / f"{3:020d}.json"
    lines = [line for line in log.read_text().splitlines() if "commitInfo" not in line]
    log.write_text("\n".join(lines) + "\n")
    newest = open_snapshot(Storage.at(str(place)))
    assert newest is not None
    assert sorted(newest.commits) == [0, 1, 2, 3, 4]
    assert [newest.commits[n].operation for n in range(5)] == ["WRITE"] * 3 + ["", "WRITE"]
    found = read_commits(newest.table, newest.storage)
    assert [found[n]["number"] for n in range(3)] == ["0", "1", "2"]


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
    one = 1 + 10 + 5  # a column without NaN has five figures
    for most, reads in ((2 * one, 6), (3 * one, 3), (0, 6)):
        fetched.clear()
        few = Manifests(most)
        for _ in range(2):
            found = [few.files_of(manifest, table.io) for manifest in listed]
            assert [len(files) for files in found] == [1, 1, 1]
        assert len(fetched) == reads
