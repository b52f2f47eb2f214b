"""A folder comes back byte by byte."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from setpoint.prove.command import trees


def state(root: Path) -> dict[str, tuple[str, int, int]]:
    """Every entry with its bytes, its time and its mode."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        info = path.lstat()
        body = os.readlink(path) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            body = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = (body, info.st_mtime_ns, info.st_mode)
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    root = tmp_path / "table"
    (root / "d=1").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "d=1" / "a.parquet").write_bytes(b"one")
    (root / "d=1" / ".a.parquet.crc").write_bytes(b"crc")
    (root / "link").symlink_to("d=1")
    return root


def test_everything_that_a_command_can_do_is_undone(table: Path, tmp_path: Path) -> None:
    before = state(table)
    trees.keep(table, tmp_path / "kept")
    (table / "d=1" / "a.parquet").write_bytes(b"two")
    (table / "d=1" / ".a.parquet.crc").unlink()
    (table / "empty").rmdir()
    (table / "empty").write_text("a file where a folder was")
    (table / "link").unlink()
    (table / "link").mkdir()
    (table / "d=2" / "deep").mkdir(parents=True)
    (table / "d=2" / "deep" / "b").write_text("new")

    trees.restore(tmp_path / "kept", table)

    assert state(table) == before


def test_a_file_of_the_same_size_and_time_is_not_taken_for_the_same(
    table: Path, tmp_path: Path
) -> None:
    before, file = state(table), table / "d=1" / "a.parquet"
    trees.keep(table, tmp_path / "kept")
    info = file.stat()
    file.write_bytes(b"TWO")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))

    trees.restore(tmp_path / "kept", table)

    assert state(table) == before


def test_what_did_not_change_is_not_written(table: Path, tmp_path: Path) -> None:
    trees.keep(table, tmp_path / "kept")
    inode = (table / "d=1" / "a.parquet").stat().st_ino
    (table / "new").touch()

    trees.restore(tmp_path / "kept", table)
    trees.restore(tmp_path / "kept", table)

    assert (table / "d=1" / "a.parquet").stat().st_ino == inode


def test_what_was_absent_is_absent_again(tmp_path: Path) -> None:
    place = tmp_path / "mark.json"
    trees.keep(place, tmp_path / "kept")
    place.write_text("{}")
    trees.restore(tmp_path / "kept", place)
    assert not place.exists()


def test_a_file_that_was_replaced_by_a_folder_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "mark.json"
    place.write_text("7")
    trees.keep(place, tmp_path / "kept")
    place.unlink()
    place.mkdir()
    (place / "x").touch()
    trees.restore(tmp_path / "kept", place)
    assert place.read_text() == "7"


def test_links_survive_the_removal_of_what_they_link_to(table: Path, tmp_path: Path) -> None:
    before = state(table)
    trees.keep(table, tmp_path / "kept", links=True)
    trees.remove(table)
    trees.restore(tmp_path / "kept", table)
    assert state(table) == before
