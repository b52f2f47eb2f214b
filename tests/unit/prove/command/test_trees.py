"""A folder comes back byte by byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from setpoint.errors import PermanentError
from setpoint.prove.command import trees
from setpoint.prove.command.entries import remove


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

    trees.restore(tmp_path / "kept", exact=True)

    assert state(table) == before


def test_a_file_of_the_same_size_and_time_is_not_taken_for_the_same(
    table: Path, tmp_path: Path
) -> None:
    before, file = state(table), table / "d=1" / "a.parquet"
    trees.keep(table, tmp_path / "kept")
    info = file.stat()
    file.write_bytes(b"TWO")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))

    trees.restore(tmp_path / "kept", exact=True)

    assert state(table) == before


def test_what_did_not_change_is_not_written(table: Path, tmp_path: Path) -> None:
    trees.keep(table, tmp_path / "kept")
    inode = (table / "d=1" / "a.parquet").stat().st_ino
    (table / "new").touch()

    trees.restore(tmp_path / "kept", exact=True)
    trees.restore(tmp_path / "kept", exact=True)

    assert (table / "d=1" / "a.parquet").stat().st_ino == inode


def test_what_was_absent_is_absent_again(tmp_path: Path) -> None:
    place = tmp_path / "mark.json"
    trees.keep(place, tmp_path / "kept")
    place.write_text("{}")
    trees.restore(tmp_path / "kept", exact=True)
    assert not place.exists()


def test_a_file_that_was_replaced_by_a_folder_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "mark.json"
    place.write_text("7")
    trees.keep(place, tmp_path / "kept")
    place.unlink()
    place.mkdir()
    (place / "x").touch()
    trees.restore(tmp_path / "kept", exact=True)
    assert place.read_text() == "7"


def test_what_is_removed_altogether_comes_back(table: Path, tmp_path: Path) -> None:
    before = state(table)
    trees.keep(table, tmp_path / "kept")
    remove(table)
    trees.restore(tmp_path / "kept", exact=True)
    assert state(table) == before


def test_a_folder_behind_a_link_keeps_link_and_files(table: Path, tmp_path: Path) -> None:
    """A removed link is made again; a file that is gone counts as changed, mark or no mark."""
    link = tmp_path / "link"
    link.symlink_to("table")
    before = state(table)
    trees.keep(link, tmp_path / "kept")
    (tmp_path / "kept" / "marks.json").unlink()
    (table / "d=1" / "a.parquet").unlink()
    link.unlink()
    link.mkdir()
    (link / "x").touch()
    trees.restore(tmp_path / "kept")
    assert (os.readlink(link), state(table)) == ("table", before)


def test_two_names_of_one_file_stay_two_names(table: Path, tmp_path: Path) -> None:
    os.link(table / "d=1" / "a.parquet", table / "empty" / "b")
    trees.keep(table, tmp_path / "kept")
    (table / "empty" / "b").unlink()
    (table / "empty" / "b").write_bytes(b"other")
    trees.restore(tmp_path / "kept", exact=True)
    one, two = table / "d=1" / "a.parquet", table / "empty" / "b"
    assert os.path.samefile(one, two)
    assert two.read_bytes() == b"one"


def test_folders_that_were_made_on_the_way_go_unless_somebody_uses_them(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "table"
    trees.keep(place, tmp_path / "kept")
    place.mkdir(parents=True)
    (tmp_path / "a" / "other").touch()
    trees.restore(tmp_path / "kept", exact=True)
    assert sorted(tmp_path.rglob("a/*")) == [tmp_path / "a" / "other"]


def test_what_differs_after_a_restore_is_named(table: Path, tmp_path: Path) -> None:
    """A backup that is broken is noticed; its place is not called restored."""
    trees.keep(table, tmp_path / "kept")
    (table / "d=1" / "a.parquet").write_bytes(b"two")
    (tmp_path / "kept" / "content" / "d=1" / "a.parquet").write_bytes(b"eno")
    with pytest.raises(PermanentError, match=r"SP-V23.*a.parquet has other bytes"):
        trees.restore(tmp_path / "kept", exact=True)


_OTHER_USER = """
import os, sys
from pathlib import Path
from setpoint.prove.command import trees
from setpoint.prove.command.entries import remove
os.setgid(65534); os.setuid(65534)
here = Path(sys.argv[1])
table = here / "table"
(table / "d").mkdir(parents=True)
(table / "d" / "a").write_text("1")
(table / "d" / "a").chmod(0o400)
(table / "d").chmod(0o500)
before = [(p.name, p.lstat().st_mode, p.lstat().st_mtime_ns) for p in sorted(table.rglob("*"))]
trees.keep(table, here / "kept")
(table / "d").chmod(0o700)
(table / "d" / "a").unlink()
(table / "d" / "closed").mkdir()
(table / "d" / "closed" / "x").touch()
(table / "d" / "closed").chmod(0)
(table / "d").chmod(0o500)
trees.restore(here / "kept", exact=True)
after = [(p.name, p.lstat().st_mode, p.lstat().st_mtime_ns) for p in sorted(table.rglob("*"))]
assert after == before, (before, after)
remove(here / "kept")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_whose_folders_are_read_only_gets_them_back() -> None:
    """Somebody who is not root: for root every folder can be written."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as here:
        os.chmod(here, 0o777)
        done = subprocess.run(
            [sys.executable, "-c", _OTHER_USER, here], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
