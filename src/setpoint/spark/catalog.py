"""Catalog names: where a table of the session's catalog lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint.errors import UNTOUCHED, UsageError
from setpoint.spark.failures import root_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def location_of(session: SparkSession, name: str) -> str:
    """The location of a table that exists in the catalog."""
    quoted = ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))
    try:
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    except Exception as error:
        raise UsageError(
            "SP-T02",
            f"The catalog has no table {name}: {root_cause(error)}",
            why="A table named by the catalog must exist, because the catalog owns its place.",
            state=UNTOUCHED,
            next=f"Create it first (CREATE TABLE {name} (...) USING delta PARTITIONED BY (...)), "
            "or name the table by its path.",
        ) from error
    described = {row["col_name"]: row["data_type"] for row in rows}
    provider = str(described.get("Provider", "")).lower()
    location = described.get("Location")
    if provider != "delta" or not location:
        raise UsageError(
            "SP-T02",
            f"{name} is a {provider or 'catalog'} table, not a Delta table.",
            state=UNTOUCHED,
            next="Name a Delta table.",
        )
    return str(location)
