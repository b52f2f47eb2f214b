"""A pipeline's own window before as an input: a balance that is carried on, a running state.

What the window before was published with is told by its receipt, so the input changes when the
rows of that window do, and not when some other window of the table is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError
from setpoint.model.fingerprint import digest
from setpoint.model.mark import Mark
from setpoint.model.ports import SourcePort, TargetPort
from setpoint.model.receipt import SliceState
from setpoint.model.run import Pinned
from setpoint.model.window import Window
from setpoint.sources.failures import unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NONE = Pinned(None, "no window before", "there is no window before")


class PreviousSource:
    """The source port for what the window before holds.

    `table` makes the source that reads the target's table. It is asked anew for every plan: the
    table has changed by then, by this very pipeline. The window `start` begins with nothing, also
    where somebody has published one before it.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        target: TargetPort,
        table: Callable[[], SourcePort],
        start: Window | None,
    ) -> None:
        self._name, self._schema, self._start = name, schema, start
        self._target, self._table = target, table
        self._now: SourcePort | None = None

    @property
    def label(self) -> str:
        return "the window before"

    def connectors(self) -> frozenset[str]:
        return self._table().connectors() if self._target.table_id() else frozenset()

    def pin(self, windows: Sequence[Window]) -> Mapping[Window, Pinned]:
        before = {window: window.previous() for window in windows if window != self._start}
        states = self._target.inspect(list(before.values()))
        published = [earlier for earlier in before.values() if states[earlier].published]
        if not published:
            return dict.fromkeys(windows, _NONE)
        self._now = self._table()
        pins = self._now.pin(published)
        return dict.fromkeys(windows, _NONE) | {
            window: replace(pins[earlier], fingerprint=_fingerprint(states[earlier]))
            for window, earlier in before.items()
            if earlier in pins
        }

    def pin_published(self, window: Window, recorded: Mapping[str, Any]) -> Pinned:
        raise PermanentError(
            "SP-R05",
            f"What {self._name} was when the window was published cannot be read again.",
            why="It is the pipeline's own window before, which may have been published since.",
            next="Leave --as-published out.",
        )

    def bounds(self, window: Window) -> str:
        earlier = window.previous()
        if self._now is None:
            return f"the rows of {earlier.id}"
        return self._now.bounds(earlier)

    def read(self, session: SparkSession, window: Window, pinned: Pinned) -> DataFrame:
        try:
            nothing = session.createDataFrame([], self._schema)
        except Exception as error:
            raise unreadable(f"the schema of {self._name}", error) from error
        if pinned is _NONE or self._now is None:
            return nothing
        before: DataFrame = self._now.read(session, window.previous(), pinned)
        return before.select(*nothing.columns)

    def confirm(self, window: Window, pinned: Pinned) -> None:
        if pinned is not _NONE and self._now is not None:
            self._now.confirm(window.previous(), pinned)

    def read_increment(
        self,
        session: SparkSession,
        pinned: Pinned,
        after: Mark | None,
        again: tuple[str, str] | None,
    ) -> tuple[DataFrame, Mark | None]:
        raise TypeError("a window before has no cursor")


def _fingerprint(state: SliceState) -> str:
    """The rows of a window, by its receipt; by its version if somebody else changed them."""
    receipt = state.receipt
    if receipt is None or not state.untouched:
        return digest("touched", str(state.generation), str(state.rows))
    known = receipt.contents or f"{receipt.run_key} {receipt.generation}"
    return digest("window before", known)
