"""Retries: for passing failures, a few times, and never for an answer."""

from __future__ import annotations

import pytest

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UnknownCommitError,
    UsageError,
)
from setpoint.flow.retry import RetryPolicy


def call(*failures: type[Exception], tries: int = 3) -> tuple[int, int]:
    """How many tries a call took that fails like this, and how many retries were told."""
    seen, told = [], []

    def attempt(number: int) -> int:
        seen.append(number)
        if len(seen) <= len(failures):
            kind = failures[len(seen) - 1]
            raise kind("SP-S04", "no") if issubclass(kind, SetpointError) else kind("no")
        return number

    try:
        last = RetryPolicy(tries, 0, 0).call(attempt, lambda *parts: told.append(parts))
    finally:
        assert seen == list(range(1, len(seen) + 1))
    return last, len(told)


def test_success_needs_one_try() -> None:
    """Nothing is repeated that went well."""
    assert call() == (1, 0)


@pytest.mark.parametrize("kind", [TransientError, UnknownCommitError])
def test_passing_failures_are_tried_again(kind: type[Exception]) -> None:
    """Up to the last try, each retry told."""
    assert call(kind, kind) == (3, 2)


@pytest.mark.parametrize(
    "kind", [RefusedError, PermanentError, UsageError, ValueError, KeyboardInterrupt]
)
def test_other_failures_are_not(kind: type[Exception]) -> None:
    """A refusal is an answer; a mistake is met again."""
    with pytest.raises(kind):
        call(kind)


def test_the_last_failure_is_raised() -> None:
    """After the tries are used up."""
    with pytest.raises(TransientError):
        call(TransientError, TransientError, TransientError)


def test_one_try_is_possible() -> None:
    """retry.tries = 1 means no retry."""
    with pytest.raises(TransientError):
        call(TransientError, tries=1)
