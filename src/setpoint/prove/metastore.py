"""The metastore of a proof: production's learns nothing of its Parquet tables."""

from __future__ import annotations

import os
import shutil
from typing import Any

from setpoint.errors import NOTHING_STARTED, UsageError
from setpoint.model.origin import Landed
from setpoint.model.pipeline import Pipeline
from setpoint.model.table import Delta, Parquet
from setpoint.project.config import Config
from setpoint.prove.redirection import Redirection


def own_metastore(config: Config, pipeline: Pipeline, folder: str, *, scratch: bool) -> bool:
    """Whether the proof has a metastore of its own; it has to if it makes Parquet tables.

    Inputs that are known to the project's local metastore stay readable: the sandbox gets a
    copy of it, because Derby writes even when it is only asked. A shared metastore cannot be
    copied. With `scratch`, the metastore of the session is thrown away after the proof anyway.
    """
    writes = isinstance(pipeline.target, Parquet)
    reads = any(_by_name(item.origin) for item in pipeline.sources.values() if not item.before)
    if scratch or not (writes or reads):
        return False
    from setpoint.spark.metastore import (
        local_database,
        local_metastore,
        named_by,
        refuse_busy_metastore,
    )
    from setpoint.spark.session import active_session

    named = named_by(config.conf)
    if config.remote or active_session() is not None:
        if not writes:
            return False
        raise _refused(
            "A Spark session that is there already has the metastore that it was started with.",
            "Leave [spark] remote out, so that the proof starts a session of its own.",
        )
    if reads and named is not None:
        if not writes:
            return False
        raise _refused(
            f"The pipeline reads tables of the metastore that {named} names, and a session has "
            "one metastore only.",
            "Land those inputs, source(land(parquet(...))), and run the window once.",
        )
    database = local_database(str(config.root))
    if reads and os.path.isdir(database):
        refuse_busy_metastore(local_metastore(str(config.root), {}))
        own = local_database(folder)
        shutil.copytree(database, own, ignore=shutil.ignore_patterns("*.lck"))
    return True


def make_database(session: Any, redirection: Redirection) -> None:
    """The database that the Parquet tables of a proof are in."""
    location = redirection.tables.replace("'", "\\'")
    session.sql(f"CREATE DATABASE IF NOT EXISTS {redirection.database} LOCATION '{location}'")


def forget_database(redirection: Redirection) -> None:
    """Forget the tables of a proof in the metastore of a session that outlives it."""
    from setpoint.spark.session import active_session

    session = active_session()
    if session is not None:
        session.sql(f"DROP DATABASE IF EXISTS {redirection.database} CASCADE")


def _by_name(origin: object) -> bool:
    inner = origin.origin if isinstance(origin, Landed) else origin
    return isinstance(inner, Parquet) or (isinstance(inner, Delta) and inner.path is None)


def _refused(why: str, next: str) -> UsageError:
    return UsageError(
        "SP-V05",
        "The target is a Parquet table, and the proof cannot have a metastore of its own.",
        why=why,
        state=NOTHING_STARTED,
        next=next,
    )
