"""Settings of a session that hold for a while, and are put back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What the staged files depend on, besides the rows; a session that is not ours may differ.
_PINNED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    # A file that vanished or is broken is an error, not a few rows less.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}

_LOCK = threading.Lock()
# Of every session and setting: how many blocks hold it, and what it was before the first.
_HELD: WeakKeyDictionary[SparkSession, dict[str, tuple[int, str | None]]] = WeakKeyDictionary()


def pinned_settings(session: SparkSession) -> AbstractContextManager[None]:
    """Run a block under the settings that rows and files depend on."""
    return held(session, _PINNED)


@contextmanager
def held(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Run a block under some settings, then put the old ones back.

    Threads that share a session are in it together: the last one out puts them back. Whoever
    holds a setting holds it at the one value that this package has for it.
    """
    taken: list[str] = []
    try:
        with _LOCK:
            known = _HELD.setdefault(session, {})
            for name, value in settings.items():
                users, before = known.get(name, (0, None))
                if not users:
                    before = session.conf.get(name, None)
                known[name] = (users + 1, before)
                taken.append(name)
                if not users and before != value:
                    session.conf.set(name, value)
        yield
    finally:
        with _LOCK:
            for name in taken:
                users, before = known.pop(name)
                if users > 1:
                    known[name] = (users - 1, before)
                else:
                    # A session that does not answer any more has nothing to put back.
                    with suppress(Exception):
                        _put_back(session, name, before, settings[name])


def _put_back(session: SparkSession, name: str, before: str | None, value: str) -> None:
    if before is None:
        session.conf.unset(name)
    elif before != value:
        session.conf.set(name, before)
