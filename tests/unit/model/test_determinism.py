"""Findings and allowances as values; logical time."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from setpoint import DefinitionError, RefusedError, UsageError, delta, logical_time, pipeline
from setpoint.model.determinism import KINDS, ROWS, Finding, judged, refuse
from setpoint.model.pipeline import Pipeline
from setpoint.model.window import Window

CLOCK = Finding("clock", "loaded_at", "current_timestamp()", "daily.py:7")
PICK = Finding("pick", ROWS, "limit 3 after no order")
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "determinism.md"


def define(function: Any = lambda window: None, **rest: Any) -> Pipeline:
    target = delta("out", partition_by="d")
    return pipeline(**{"every": "day", "target": target, "name": "daily", **rest})(function)


def test_a_finding_is_allowed_by_its_kind_or_by_its_column() -> None:
    """A name with a column allows that one, a kind allows all of it."""
    assert judged([CLOCK], {"clock:loaded_at": "audit"}).refused == ()
    assert judged([CLOCK], {"clock": "audit"}).refused == ()
    assert judged([CLOCK], {"clock:other": "audit"}).refused == (CLOCK,)
    assert judged([PICK], {"pick:(rows)": "a sample"}).allowed == ((PICK, "a sample"),)


def test_what_is_allowed_is_told_and_so_is_what_met_nothing() -> None:
    """The notes name the finding with its reason, and each idle allowance."""
    verdict = judged([CLOCK], {"clock:loaded_at": "audit", "random": "left over"})
    assert verdict.notes == (
        "allowed: clock:loaded_at (current_timestamp()): audit",
        "allow has 'random', but nothing of that kind was found",
    )


def test_a_refusal_lists_every_finding_with_its_place_and_its_way_out() -> None:
    """The message has kind, column, expression, line, the deterministic way, and allow."""
    with pytest.raises(RefusedError) as caught:
        refuse("daily[2026-04-25]", [CLOCK, PICK])
    text = str(caught.value)
    assert caught.value.code == "SP-N01"
    assert "clock:loaded_at  column loaded_at: current_timestamp(), daily.py:7" in text
    assert "pick:(rows)  which rows are returned: limit 3 after no order" in text
    assert KINDS["clock"][1] in text
    assert KINDS["pick"][1] in text
    assert 'allow={"clock:loaded_at": "..."}' in text
    assert "Nothing was staged" in text


def test_no_finding_refuses_nothing() -> None:
    """A clean plan goes on."""
    refuse("daily[2026-04-25]", [])


@pytest.mark.parametrize(
    "allow",
    [{"clocks": "typed"}, {"clock": " "}, {"clock": None}, {"clock:": "why"}, ["clock"], {1: "x"}],
)
def test_an_allowance_needs_a_known_kind_and_a_reason(allow: Any) -> None:
    """A wrong allowance is found when the file is loaded."""
    with pytest.raises(DefinitionError) as caught:
        define(allow=allow)
    assert caught.value.code == "SP-D01"
    assert "float_key" in caught.value.next


def test_an_allowance_is_no_part_of_the_definition() -> None:
    """Adding one makes no window stale."""
    assert define(allow={"clock": "audit"}).definition() == define().definition()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_explained(kind: str) -> None:
    """The reference has a row for each kind."""
    assert f"| `{kind}` |" in PAGE.read_text(encoding="utf-8")


def test_logical_time_is_the_end_of_the_window() -> None:
    """Inside a pipeline that is called directly it is aware, and in the window's zone."""
    job = define(lambda window: logical_time(), timezone="Europe/Berlin")
    window = Window.parse("2026-04-25", timezone="Europe/Berlin")
    assert job(window) == window.end
    assert job(window).utcoffset() == dt.timedelta(hours=2)


def test_there_is_no_logical_time_outside_of_a_pipeline() -> None:
    """Before, after and without a pipeline it is refused."""
    define(lambda window: logical_time())(Window.parse("2026-04-25"))
    with pytest.raises(UsageError) as caught:
        logical_time()
    assert caught.value.code == "SP-N02"


def test_an_incremental_pipeline_has_no_logical_time() -> None:
    """Its window is all of time, whose end is no moment."""
    job = define(lambda window: logical_time())
    with pytest.raises(UsageError) as caught:
        job(Window.parse("incremental", every="incremental"))
    assert caught.value.code == "SP-N02"
