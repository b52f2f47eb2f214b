"""mode("overwrite") in Spark's default mode replaces every partition, not only the day's.

Lake: sales=parquet:sales
Caught by: neighbours
Cause: wiped-neighbours
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(5).withColumn("d", F.lit(sys.argv[1]))
rows.write.mode("overwrite").partitionBy("d").parquet("sales")
