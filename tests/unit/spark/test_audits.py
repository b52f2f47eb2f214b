"""Audits by a function of the user's own, which needs no JVM to go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from setpoint.errors import PermanentError, TransientError
from setpoint.model.audit import Custom
from setpoint.spark.audits import set_level


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
