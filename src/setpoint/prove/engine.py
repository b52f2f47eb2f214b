"""The engine of a trial: Spark as production has it, but for what the trial varies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from setpoint.model.determinism import Finding
from setpoint.model.window import Window

if TYPE_CHECKING:
    from setpoint.flow.world import EnginePort


@dataclass(frozen=True)
class Variation:
    """What is different inside Spark while a trial runs; nothing in a clean run.

    `partitions` deals the rows of every input anew and sorts them by their hash, `descending`
    the other way round. `arrange` does anything else to the frame of an input.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    descending: bool = False
    arrange: Callable[[Any], Any] | None = None


AS_IT_IS = Variation()


class TrialEngine:
    """An engine that varies how Spark works, and lets every pipeline through.

    What the search of the plan finds is kept for the verdict. It refuses nothing here: a proof
    shows what becomes of the rows. With `strict` it refuses what production does.
    """

    def __init__(
        self,
        engine: EnginePort,
        connectors: frozenset[str],
        variation: Variation = AS_IT_IS,
        *,
        strict: bool = False,
    ) -> None:
        self._engine, self._connectors, self._variation = engine, connectors, variation
        self._strict = strict
        self.found: list[Finding] = []

    def session(self, connectors: frozenset[str]) -> Any:
        # A JVM takes up connectors at its start only: all trials of a proof share one.
        return self._engine.session(connectors | self._connectors)

    def apart(self) -> EnginePort:
        return self._engine.apart()

    def pinned(self, session: Any) -> AbstractContextManager[None]:
        return self._pinned(session)

    @contextmanager
    def _pinned(self, session: Any) -> Iterator[None]:
        from setpoint.spark.rearrange import with_settings

        with self._engine.pinned(session), with_settings(session, self._variation.settings):
            yield

    def as_input(self, frame: Any) -> Any:
        from setpoint.spark.rearrange import rearranged

        varied = self._variation
        if varied.arrange is not None:
            frame = varied.arrange(frame)
        if varied.partitions is not None:
            frame = rearranged(frame, varied.partitions, descending=varied.descending)
        return self._engine.as_input(frame)

    def findings(self, frame: Any, keys: Collection[str], function: Any) -> tuple[Finding, ...]:
        found = self._engine.findings(frame, keys, inspect.unwrap(function))
        self.found += [item for item in found if item not in self.found]
        return found if self._strict else ()

    def united(
        self,
        frames: Sequence[tuple[Window, Any]],
        predicate: Callable[[Window, Mapping[str, str]], str] | None = None,
    ) -> Any:
        return self._engine.united(frames, predicate)
