"""The engine port: sessions on demand, and the settings a run depends on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from setpoint.spark.session import Sessions, engine_check, require_connectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine:
    """Spark as the protocol sees it; nothing starts before the first `session` call."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def session(self, connectors: frozenset[str]) -> SparkSession:
        return self._sessions.get(connectors)

    def pinned(self, session: SparkSession) -> AbstractContextManager[None]:
        return pinned(session)


class GivenSession:
    """The engine when the caller brought the session along with a frame."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def session(self, connectors: frozenset[str]) -> SparkSession:
        engine_check(self._session)
        require_connectors(self._session, connectors)
        return self._session

    def pinned(self, session: SparkSession) -> AbstractContextManager[None]:
        return pinned(session)


def pinned(session: SparkSession) -> AbstractContextManager[None]:
    """The settings that rows depend on, for the length of a block."""
    from setpoint.spark.stage import pinned_settings

    return pinned_settings(session)
