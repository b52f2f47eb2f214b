"""Turns at a busy table: patient, and honest about a commit that was refused."""

from __future__ import annotations

import pytest

from setpoint import TransientError, UnknownCommitError, Window, delta, edge, pipeline
from setpoint.model.run import Run
from setpoint.targets.turns import Turns, pause_before


@pipeline(every="day", target=delta("out", partition_by="d"))
def job(window: Window) -> None: ...


RUN = Run(job, Window.parse("2026-04-25"), {}, {}, "code", {})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; nobody waits."""
    asked: list[float] = []
    monkeypatch.setattr(edge, "pause", asked.append)
    return asked


def test_pauses_grow_to_a_second_and_no_two_processes_take_the_same(pauses: list[float]) -> None:
    """A table that moves all the time is not asked a hundred times in a row."""
    with pytest.raises(TransientError, match=r"SP-P01.*refused 100 times"):
        for _ in Turns(RUN, 100):
            pass
    assert len(pauses) == 99
    longest = [pause_before(turn) for turn in range(1, 100)]
    assert longest == sorted(longest)
    assert (longest[0], longest[-1]) == (0.01, 1.0)
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))
    assert len(set(pauses)) > 50


def test_one_turn_needs_no_pause(pauses: list[float]) -> None:
    assert next(iter(Turns(RUN, 100))) == 0
    assert pauses == []


def test_a_look_that_fails_after_a_refused_commit_leaves_it_unseen(pauses: list[float]) -> None:
    """The commit may have been refused for its own first sending."""
    turns = Turns(RUN, 100)
    away = TransientError("SP-T01", "The storage could not be reached.")
    with pytest.raises(TransientError), turns.looking():
        raise away
    turns.refused(ValueError("version 5 already exists"))
    with pytest.raises(UnknownCommitError, match=r"SP-P02.*could not be reached"), turns.looking():
        raise away


def test_the_last_refusal_is_told(pauses: list[float]) -> None:
    turns = Turns(RUN, 3)
    under_way = iter(turns)
    for version in (5, 6, 7):
        next(under_way)
        turns.refused(ValueError(f"version {version} already exists"))
    with pytest.raises(TransientError, match="version 7 already exists"):
        next(under_way)
