"""Retries: passing failures only, a few tries, exponential backoff with jitter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from setpoint.errors import TransientError, UnknownCommitError

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently a run is tried.

    A write that is not idempotent cannot be expressed, so a retry is always safe.
    """

    tries: int = 3
    first_wait: float = 1.0
    longest_wait: float = 60.0

    def call(
        self, attempt: Callable[[int], T], on_retry: Callable[[int, BaseException, float], None]
    ) -> T:
        """Call `attempt(number)` until it succeeds or fails for good; raise the last failure."""
        import tenacity

        def tell(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            if error is not None:
                on_retry(state.attempt_number, error, state.upcoming_sleep)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(worth_a_retry),
            stop=tenacity.stop_after_attempt(self.tries),
            wait=tenacity.wait_exponential(self.first_wait, max=self.longest_wait)
            + tenacity.wait_random(0, self.first_wait),
            before_sleep=tell,
            reraise=True,
        )
        for trial in retrying:
            with trial:
                return attempt(trial.retry_state.attempt_number)
        raise AssertionError("the retry loop ended without an outcome")


def worth_a_retry(error: BaseException) -> bool:
    """Transient failures and unseen commits; the next try reads the target and finds out."""
    return isinstance(error, (TransientError, UnknownCommitError))
