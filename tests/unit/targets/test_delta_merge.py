"""Looks at stored events around a MERGE: they change nothing, so nothing is unknown after them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as T

from setpoint import InsertNew, PermanentError, TransientError, Window, delta, pipeline
from setpoint.model.ports import Published, Staged
from setpoint.model.receipt import Receipt
from setpoint.model.run import Run
from setpoint.targets.delta.log import Commit
from setpoint.targets.delta.merge import contradictions
from setpoint.targets.delta.publisher import Publisher, _removal_pending
from setpoint.targets.delta.storage import Storage
from setpoint.targets.refusals import lost_races

EMPTY = T.StructType()
WINDOW = Window.parse("2026-04-25", every="day")
STORAGE = Storage("/lake/events")
RECEIPT = Receipt("events", WINDOW.id, "UTC", "day", "k", 2, "mine", 3, None, None, "", looked_at=4)


@pipeline(every="day", target=delta("/lake/events"), write=InsertNew(key="id"))
def events(window: Window) -> Any: ...


RUN = Run(events, WINDOW, {}, {}, "c", {})


class Lost:
    """A session whose executors are gone."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("ExecutorLostFailure (executor 3 exited)")


def staged() -> Staged:
    handle = SimpleNamespace(scope=SimpleNamespace(rule=None), only_value=None, schema=EMPTY)
    return Staged("stage/mine", "mine", 3, None, None, {}, False, handle)


def test_a_count_before_the_merge_that_fails_has_sent_nothing() -> None:
    """It passes and is tried again; an unknown commit would ask for a recovery."""
    session: Any = Lost()
    with pytest.raises(TransientError, match=r"SP-S04.*The target is unchanged"):
        contradictions(session, 4, STORAGE, RUN, staged(), refuse=True)


def test_a_count_after_the_commit_that_fails_does_not_fail_the_publish() -> None:
    """The rows are in the table; that the look could not be taken is a note."""
    session: Any = Lost()
    removed: Any = None
    now: Any = SimpleNamespace(commits={6: Commit(6, "MERGE", 5, (RECEIPT,))})
    notes = Publisher(session, RUN, STORAGE, removed)._slipped_in(
        RECEIPT, staged(), Published(RECEIPT, 6, "id"), now
    )
    assert "could not be told" in notes[0]


def test_a_removal_that_could_not_be_applied_does_not_deny_the_rows() -> None:
    """The first turn of the attempt has landed; what fails in the second says so."""
    with (
        pytest.raises(PermanentError, match=r"refused 100 times.*are published, generation 7"),
        _removal_pending(RUN, 7),
    ):
        raise lost_races(RUN, 100)


def test_races_that_were_lost_name_what_was_said_last() -> None:
    """What loops need not be a race: a locked database looks like one."""
    assert "the last time: database is locked" in lost_races(RUN, 100, "database is locked").what
