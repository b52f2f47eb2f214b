"""What `show` says about a window, in words."""

from __future__ import annotations

from typing import Any

from setpoint.cli.output import Output
from setpoint.cli.show import _lines


def shown(**changes: Any) -> str:
    receipt = {
        "generation": 1,
        "rows": 1,
        "published_at": "2026-04-26T03:00:00+00:00",
        "attempt": "a1",
        "run_key": "key",
        "contents": "rows",
        "pattern": "overwrite",
        "high_water_mark": {},
        "tombstones": [],
        "inputs": {"orders": {"version": None}},
        "parameters": {},
    }
    item = {
        "pipeline": "daily",
        "window": "2026-04-25",
        "start": "2026-04-25T00:00:00+00:00",
        "end": "2026-04-26T00:00:00+00:00",
        "target": "out",
        "generation": 1,
        "untouched": True,
        "commit_version": 7,
        "receipt": receipt,
        "notes": [],
        "landed": [],
        "attempts": [],
    }
    output = Output("show", as_json=False, environment={})
    return "\n".join(_lines({**item, **changes}, output))


def test_what_is_not_known_is_not_called_none() -> None:
    assert "version 7 by attempt a1" in shown()
    assert "None" not in shown(commit_version=None)
    assert "generation 1, 1 row, " in shown()


def test_the_notes_of_the_publish_are_there() -> None:
    note = "lake: of 2 rows 1 outside of 2026-04-25 by d, left out"
    assert f"  note       {note}" in shown(notes=[note])
