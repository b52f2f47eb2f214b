"""Tables that cannot be brought back, and tables that come or go while a command is proven."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from setpoint.errors import PermanentError, TransientError
from setpoint.prove.command import iceberg
from setpoint.prove.command.kept import Kept
from setpoint.prove.command.places import Question

LASTING = PermanentError(
    "SP-V23",
    "postgres:shop/out could not be restored: its columns were changed.",
    why="The command has changed more than rows.",
    next="Make the table as it was.",
)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (LASTING, LASTING.what),
        (
            TransientError("SP-T01", "It does not answer.", next="Try again."),
            "postgres:shop/out could not be restored: SP-T01  It does not answer.",
        ),
        (OSError(28, "no room"), "postgres:shop/out could not be restored: OSError: [Errno 28]"),
    ],
)
def test_a_table_that_cannot_be_restored_is_told_once(
    error: Exception, what: str, tmp_path: Path
) -> None:
    """One code, one way out, and it names the folder."""

    class Place:
        name, label = "out", "postgres:shop/out"

        def restore(self, folder: Path) -> None:
            raise error

    place: Any = Place()
    with pytest.raises(PermanentError) as raised:
        Kept(tmp_path, (place,)).restore()
    told = str(raised.value)
    assert raised.value.what.startswith(what)
    assert told.count("SP-V23") == told.count("could not be restored") == 1
    assert raised.value.next == f"Remove the cause, then: setpoint prove --restore {tmp_path}"


@pytest.mark.parametrize(("wanted", "found"), [("", "new"), ("old", "")])
def test_rows_of_an_iceberg_table_on_one_side_only_are_counted(
    wanted: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.json").write_text(json.dumps({"pointer": wanted, "location": ""}))
    monkeypatch.setattr(iceberg, "_pointer", lambda catalog, name: found)
    monkeypatch.setattr(iceberg, "_count", lambda pointer: {"": 0, "old": 7, "new": 9}[pointer])
    settings: Any = SimpleNamespace(open=lambda: None)
    name: Any = "lake.db.out"
    table = iceberg.IcebergTable("out", name, settings)
    sessions: Any = None
    told = table.difference(tmp_path, Question(), sessions)
    assert told is not None
    rows = (told.rows_expected, told.rows_found, told.missing, told.added)
    assert rows == ((0, 9, 0, 9) if found else (7, 0, 7, 0))
