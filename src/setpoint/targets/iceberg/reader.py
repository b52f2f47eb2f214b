"""The Spark side of a catalog: a session that knows its tables by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint.targets.iceberg.catalog import CatalogSettings, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reader(session: SparkSession, settings: CatalogSettings, name: TableName) -> SparkSession:
    """A session of our own that knows the catalog, so that no other is disturbed."""
    from setpoint.spark.session import own_session

    own = own_session(session)
    if own.conf.get(f"spark.sql.catalog.{name.catalog}", None) is None:
        for key, value in settings.for_spark().items():
            own.conf.set(key, value)
    return own
