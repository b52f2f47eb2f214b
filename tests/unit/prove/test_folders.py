"""Folders of proofs: only those that this user has made are obeyed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from setpoint.errors import PermanentError, UsageError
from setpoint.prove.command.files import FilePlace
from setpoint.prove.command.kept import MARKER, keeping, restore_left
from setpoint.prove.folders import clear, made_here, proof_folder

GONE = [os.uname().nodename, 0, ""]


def test_a_marker_that_came_with_a_clone_is_not_obeyed(tmp_path: Path) -> None:
    """It names a table of its reader, and what would be written there."""
    table = tmp_path / "table"
    table.write_text("rows")
    folder = tmp_path / "clone" / "left"
    folder.mkdir(parents=True)
    for made in ({}, {"made": made_here(tmp_path / "elsewhere")}, {"made": ["x"]}):
        marker = {"process": GONE, "here": str(tmp_path), "copies": [], "labels": [str(table)]}
        (folder / MARKER).write_text(json.dumps({**marker, "places": [f"t={table}"], **made}))
        with pytest.raises(UsageError, match="SP-V29"):
            restore_left(folder, _never)
    for text in ("[]", "{", "", "4"):
        (folder / MARKER).write_text(text)
        with pytest.raises(UsageError, match="SP-V29"):
            restore_left(folder, _never)
    assert table.read_text() == "rows"
    assert (folder / MARKER).exists()


def _never(specs: Sequence[str], here: Path) -> Any:
    raise AssertionError(specs)


KILLED = """
import os, signal, sys
from pathlib import Path
from setpoint.prove.command.files import FilePlace
from setpoint.prove.command.kept import keeping
root = Path(sys.argv[1])
place = FilePlace("t", root / "table")
with keeping(root / "work" / "left", [place], {"t": place}, root):
    (root / "table").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_proof_of_ours_has_kept_is_restored(tmp_path: Path) -> None:
    """Its marker says that this user made it."""
    table, folder = tmp_path / "table", tmp_path / "work" / "left"
    table.write_text("rows")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert table.read_text() == "half"
    assert folder.stat().st_mode & 0o077 == 0, "it holds rows of production"
    restore_left(folder, lambda specs, here: [FilePlace("t", table)] if specs else [])
    assert table.read_text() == "rows"


def test_without_a_key_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed proof has kept could not be told from what others have put there."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SETPOINT_HOME", str(tmp_path / "file" / "home"))
    with (
        pytest.raises(PermanentError, match=r"SP-V29.*SETPOINT_HOME"),
        keeping(tmp_path / "work" / "a", [], {}, tmp_path),
    ):
        raise AssertionError
    assert not (tmp_path / "work").exists()


def test_a_folder_that_came_with_a_clone_removes_nothing(tmp_path: Path) -> None:
    """Its note names a folder of somebody's own as that of a server to throw away."""
    precious = tmp_path / "setpoint-precious"
    precious.mkdir()
    (precious / "file").touch()
    folder = tmp_path / "pipelines" / "x-1"
    folder.mkdir(parents=True)
    (folder / "server.json").write_text(json.dumps({"home": str(precious)}))
    for owner in (GONE, [*GONE, ""], [*GONE, "0" * 64]):
        (folder / "owner.json").write_text(json.dumps(owner))
        clear(folder.parent)
        assert (precious / "file").exists()
        assert folder.exists()


def test_a_folder_of_a_killed_proof_of_ours_is_removed(tmp_path: Path) -> None:
    """By the next proof."""
    with proof_folder(tmp_path, "daily", keep=True) as folder:
        assert folder.stat().st_mode & 0o077 == 0, "it holds rows of production"
    (folder / "kept").unlink()
    owner = json.loads((folder / "owner.json").read_text())
    (folder / "owner.json").write_text(json.dumps([*GONE, owner[3]]))
    clear(folder.parent)
    assert not folder.exists()
