"""The engine port: sessions on demand, and the settings a run depends on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from setpoint.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine:
    """Spark as the protocol sees it; nothing starts before the first `session` call."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def session(self, connectors: frozenset[str]) -> SparkSession:
        return self._sessions.get(connectors)

    def pinned(self, session: SparkSession) -> AbstractContextManager[None]:
        from setpoint.spark.stage import pinned_settings

        return pinned_settings(session)
