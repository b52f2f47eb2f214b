"""Dynamic overwrite, and one row of the day after: a re-run replaces that whole day by the row.

Lake: sales=parquet:sales
Caught by: order
Cause: lost-rows
"""

import datetime as dt
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
day = dt.date.fromisoformat(sys.argv[1])
late = F.when(F.col("id") == 4, str(day + dt.timedelta(days=1))).otherwise(str(day))
rows = spark.range(5).withColumn("d", late)
rows.write.mode("overwrite").partitionBy("d").parquet("sales")
