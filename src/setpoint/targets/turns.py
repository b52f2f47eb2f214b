"""Turns at a table that others write to: each looks anew, after a pause that grows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from setpoint import edge
from setpoint.model.run import Statement
from setpoint.spark.failures import root_cause
from setpoint.targets.refusals import after_commit, lost_races

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


class Turns:
    """The turns of one publish, and what the last of them was refused with."""

    def __init__(self, run: Statement, most: int) -> None:
        self._run, self._most, self._refused = run, most, ""

    def __iter__(self) -> Iterator[int]:
        for turn in range(self._most):
            if turn:
                edge.pause(pause_before(turn) * (0.5 + edge.chance() / 2))
            yield turn
        raise lost_races(self._run, self._most, self._refused)

    def refused(self, error: Exception) -> None:
        """A commit was refused because the table is no longer what it was made for."""
        self._refused = root_cause(error)

    def looking(self) -> AbstractContextManager[None]:
        """For a look at the table: after a refused commit its failure leaves that one unseen.

        What the commit was refused for may be the commit itself: a client that lost the answer
        has sent it again.
        """
        return after_commit(self._run) if self._refused else nullcontext()


def pause_before(turn: int) -> float:
    """The longest pause before a turn, in seconds."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(turn - 1, 16)))
