"""Retries: passing failures only, a few tries, exponential backoff with jitter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from setpoint.errors import TransientError, UnknownCommitError

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently. A write that is not idempotent cannot be expressed, so a
    retry is always safe."""

    tries: int = 3
    first_wait: float = 1.0
    longest_wait: float = 60.0

    def call(self, attempt: Callable[[int], T], on_retry: Callable[[int, Exception], None]) -> T:
        """Call `attempt(number)` until it succeeds or fails for good."""
        import stamina

        last = 0
        for trial in stamina.retry_context(
            on=worth_a_retry,
            attempts=self.tries,
            timeout=None,
            wait_initial=self.first_wait,
            wait_max=self.longest_wait,
            wait_jitter=self.first_wait,
        ):
            with trial:
                last = trial.num
                try:
                    return attempt(last)
                except Exception as error:
                    if worth_a_retry(error) and last < self.tries:
                        on_retry(last, error)
                    raise
        raise AssertionError("the retry loop ended without an outcome")


def worth_a_retry(error: Exception) -> bool:
    """Transient failures and unseen commits; the next try reads the target and finds out."""
    return isinstance(error, (TransientError, UnknownCommitError))
