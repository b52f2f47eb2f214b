"""Audits by a function of the user's own, which needs no JVM to go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from setpoint.errors import PermanentError, TransientError, for_example, some_of
from setpoint.model.audit import Custom
from setpoint.spark.audits import sample, set_level, shown


def with_assert(frame: Any) -> bool:
    assert frame.columns
    return True


def on_a_lost_executor(frame: Any) -> bool:
    raise RuntimeError("Job aborted: ExecutorLostFailure (executor 3 exited)")


def judged(function: Any) -> Any:
    frame: Any = type("Frame", (), {"columns": ()})()
    return set_level([Custom(function=function)], frame, rows=1)


def test_an_assertion_without_words_names_its_line() -> None:
    """The most natural audit of all, `assert df.count() > 0`, says where it stopped."""
    with pytest.raises(PermanentError, match=r"SP-A02.*with_assert.*test_audits.py:\d+: Assertion"):
        judged(with_assert)


def test_a_passing_failure_inside_an_audit_is_tried_again() -> None:
    """An executor that was lost says nothing about the audit."""
    with pytest.raises(TransientError, match="ExecutorLostFailure"):
        judged(on_a_lost_executor)


class Unreadable:
    """A frame whose rows cannot be fetched."""

    def limit(self, rows: int) -> Any:
        return self

    def collect(self) -> Any:
        raise RuntimeError("FetchFailed")


def test_an_example_that_cannot_be_read_is_left_out() -> None:
    """The verdict was reached without it and must not be lost to it."""
    frame: Any = Unreadable()
    assert sample(frame) == ()
    assert for_example(sample(frame)) == ""


def test_an_example_and_a_list_of_names_have_an_end() -> None:
    """A document of a megabyte or a table of 600 columns does not fill the terminal."""
    assert len(shown("x" * 1_000_000)) == 60
    assert len(for_example([{f"c{n}": shown("x" * 100) for n in range(600)}])) < 450
    many = [f"column_{n}" for n in range(600)]
    assert some_of(many[:3], "column_1") == "column_0, column_1, column_2"
    listed = some_of(many, "column_599")
    assert listed.startswith("column_599, ")
    assert listed.endswith(" and 580 more")
