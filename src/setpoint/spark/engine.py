"""The engine port: sessions on demand, and the settings a run depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from setpoint.model.determinism import Finding
from setpoint.model.window import Window
from setpoint.spark.classes import SESSION, java_class
from setpoint.spark.session import Sessions, engine_check, own_session, require_connectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Engine(ABC):
    """What an engine does with the frames of a session, wherever that comes from."""

    @abstractmethod
    def session(self, connectors: frozenset[str]) -> SparkSession:
        """The session to work in; started by the first call."""

    def apart(self) -> ApartEngine:
        """The engine for work in several threads."""
        return ApartEngine(self)

    def pinned(self, session: SparkSession) -> AbstractContextManager[None]:
        return pinned(session)

    def as_input(self, frame: DataFrame) -> DataFrame:
        return as_input(frame)

    def findings(
        self, frame: DataFrame, keys: Collection[str], function: Any
    ) -> tuple[Finding, ...]:
        return findings(frame, keys, function)

    def united(
        self,
        frames: Sequence[tuple[Window, DataFrame]],
        predicate: Callable[[Window, Mapping[str, str]], str] | None = None,
    ) -> DataFrame:
        from setpoint.spark.union import united

        return united(frames, predicate)


class ApartEngine(_Engine):
    """An engine that gives every run a session of its own, and a fair share of the cores."""

    def __init__(self, engine: _Engine) -> None:
        self._engine, self._lock = engine, Lock()

    def session(self, connectors: frozenset[str]) -> SparkSession:
        with self._lock:  # two threads must not start the session at once
            own = own_session(self._engine.session(connectors))
        java = getattr(own, "_jsparkSession", None)
        if java is not None:
            # A thread has an active session of its own, which a pipeline's function may ask for.
            java_class(own, SESSION).setActiveSession(java)
            own.sparkContext.setLocalProperty("spark.scheduler.pool", f"run {get_ident()}")
        return own


class SparkEngine(_Engine):
    """Spark as the protocol sees it; nothing starts before the first `session` call."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def session(self, connectors: frozenset[str]) -> SparkSession:
        return self._sessions.get(connectors)


class GivenSession(_Engine):
    """The engine when the caller brought the session along with a frame."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def session(self, connectors: frozenset[str]) -> SparkSession:
        engine_check(self._session)
        require_connectors(self._session, connectors)
        return self._session


def pinned(session: SparkSession) -> AbstractContextManager[None]:
    """The settings that rows depend on, for the length of a block."""
    from setpoint.spark.settings import pinned_settings

    return pinned_settings(session)


def as_input(frame: DataFrame) -> DataFrame:
    """The frame of a source, marked so that `findings` does not look into how it is read."""
    from setpoint.spark.determinism.tree import INPUT

    return frame.alias(INPUT)


def findings(frame: DataFrame, keys: Collection[str], function: Any = None) -> tuple[Finding, ...]:
    """What in the plan of a frame would make a second run differ; runs no Spark job."""
    from setpoint.spark.determinism.check import findings as search
    from setpoint.spark.failures import explain

    try:
        return search(frame, keys, function)
    except Exception as error:
        raise explain(error, "searching the plan for what is not deterministic") from error
