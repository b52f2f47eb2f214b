"""Crash points: armed by a text, free of charge otherwise."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from setpoint.errors import TransientError, UnknownCommitError, UsageError
from setpoint.flow.faults import POINTS, Faults


def armed(text: str) -> Faults:
    return Faults.from_environment({"SETPOINT_FAULT": text})


def test_without_the_variable_nothing_is_armed() -> None:
    """Production reaches every point unharmed."""
    faults = Faults.from_environment({})
    assert faults.armed == ()
    for point in POINTS:
        faults.reach(point)


def test_a_fault_strikes_at_its_point_only() -> None:
    """And with the failure it names."""
    faults = armed("staged:raise,committed:lose")
    faults.reach("read")
    with pytest.raises(TransientError):
        faults.reach("staged")
    with pytest.raises(UnknownCommitError):
        faults.reach("committed")


def test_a_fault_can_wait_for_a_try() -> None:
    """point@2 leaves the first try alone."""
    faults = armed("staged@2:raise")
    faults.reach("staged", 1)
    with pytest.raises(TransientError):
        faults.reach("staged", 2)


def test_wait_holds_until_the_file_is_there(tmp_path: Path) -> None:
    """The run goes on when the test says so."""
    go = tmp_path / "go"
    thread = Thread(target=armed(f"staged:wait={go}").reach, args=("staged",))
    thread.start()
    assert thread.is_alive()
    go.touch()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("text", ["staged", "nowhere:kill", "staged:explode", "staged@x:kill", ":"])
def test_a_mistyped_fault_is_an_error(text: str) -> None:
    """A test that arms nothing would prove nothing."""
    with pytest.raises(UsageError):
        armed(text)
