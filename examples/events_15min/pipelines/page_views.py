"""Page views by quarter of an hour, and by hour from these."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Window, delta, files, pipeline, source, unique

SCHEMA = "event_id string, page string, user_id string, happened_at timestamp"


@pipeline(
    every="15 minutes",
    target=delta("warehouse/views_15min", partition_by="window_start"),
    audits=[unique("window_start", "page")],
)
def views_15min(
    window: Window,
    # The collector drops a folder per quarter of an hour, and delivers some events twice.
    events: DataFrame = source(
        files("inbox/{start:%Y-%m-%dT%H%M}/*.json", schema=SCHEMA), time="happened_at"
    ),
) -> DataFrame:
    """One row per page and quarter of an hour."""
    once = events.select("event_id", "page", "user_id").distinct()
    return (
        once.groupBy("page")
        .agg(
            F.count("*").alias("views"),
            F.count_distinct("user_id").alias("users"),
        )
        .withColumn("window_start", F.lit(window.start))
    )


@pipeline(every="hour", target=delta("warehouse/views_hourly", partition_by="hour"))
def views_hourly(window: Window, quarters: DataFrame = source(views_15min)) -> DataFrame:
    """One row per page and hour, from the four quarters."""
    return (
        quarters.groupBy("page")
        .agg(F.sum("views").alias("views"))
        .withColumn("hour", F.lit(window.start))
    )
