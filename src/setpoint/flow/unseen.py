"""Commits whose answer was lost: their windows stay unknown until the target has answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from setpoint.errors import SetpointError, UnknownCommitError
from setpoint.flow.world import Outcome
from setpoint.model.window import Window

ANSWER_LOST = "the commit's answer was lost, the target has the receipt"


@dataclass(frozen=True)
class Unseen:
    """A commit that was sent and not answered.

    `ask` gives its outcome if the target has it by now, and fails if the target cannot be asked.
    """

    error: UnknownCommitError
    ask: Callable[[], Outcome | None]


class Doubts:
    """The unseen commits of a run, by window.

    That the target has no receipt of such a commit is no proof that it failed: it may still be
    under way. The next try may publish the window, because the two are fenced from each other; but
    if that try fails too, the window is unknown and not unchanged.
    """

    def __init__(self) -> None:
        self._unseen: dict[Window, list[Unseen]] = {}

    def add(self, window: Window, unseen: Unseen) -> None:
        self._unseen.setdefault(window, []).append(unseen)

    def settled(self, windows: Iterable[Window]) -> dict[Window, Outcome]:
        """How windows ended whose commits have landed; unknown when the target cannot be asked."""
        found: dict[Window, Outcome] = {}
        for window in windows:
            for unseen in reversed(self._unseen.get(window, ())):
                try:
                    outcome = unseen.ask()
                except Exception as error:
                    raise _still_unknown(unseen.error, error) from error
                if outcome is not None:
                    found[window] = outcome
                    break
        return found

    def told(self, window: Window, error: Exception) -> Exception:
        """What a window ends with when its last try failed."""
        if window not in self._unseen or isinstance(error, UnknownCommitError):
            return error
        unknown = _still_unknown(self._unseen[window][-1].error, error)
        unknown.__cause__ = error
        return unknown


def _still_unknown(unknown: UnknownCommitError, last: Exception) -> UnknownCommitError:
    said = f"{last.code} {last.what}" if isinstance(last, SetpointError) else str(last)
    return UnknownCommitError(
        unknown.code,
        f"{unknown.what.rstrip('.')}. The try after it failed: {said}",
        why=unknown.why,
        state=unknown.state,
        next=unknown.next,
    )
