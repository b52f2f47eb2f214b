"""SP103, SP111, SP112, SP113: which rows are read, taken and numbered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "monotonically_increasing_id": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("id", F.monotonically_increasing_id())  # error: unstable-order-key
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a row number over a constant": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        w = Window.orderBy(F.lit(1))
        df = spark.table("raw").withColumn("row_id", F.row_number().over(w))  # error: unstable-order-key
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a row number over an unstable number": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        w = Window.orderBy(F.monotonically_increasing_id())
        df = spark.table("raw").withColumn("row_id", F.row_number().over(w))  # error: unstable-order-key
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a surrogate key that numbers the table": """
        from pyspark.sql.functions import row_number
        from pyspark.sql.window import Window
        df = spark.table("raw").withColumn(
            "customer_key",
            row_number().over(Window.orderBy("name")),  # error: unstable-order-key
        )
        df.write.mode("overwrite").saveAsTable("dim_customer")
        """,
    "a number that follows an id is only told": """
        from pyspark.sql.functions import row_number
        from pyspark.sql.window import Window
        df = spark.table("raw").withColumn(
            "customer_key",
            row_number().over(Window.orderBy("customer_id")),  # info: unstable-order-key
        )
        df.write.mode("overwrite").saveAsTable("dim_customer")
        """,
    "a number that joins two frames": """
        from pyspark.sql import functions as F
        a = spark.table("a").withColumn("n", F.monotonically_increasing_id())  # error: unstable-order-key
        b = spark.table("b").withColumn("n", F.monotonically_increasing_id())  # error: unstable-order-key
        a.join(b, "n").drop("n").write.mode("overwrite").saveAsTable("t")
        """,
    "a window ordered by an unstable number": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        df = spark.table("raw").withColumn("n", F.monotonically_increasing_id())  # error: unstable-order-key
        w = Window.orderBy("n")
        df = df.withColumn("previous", F.lag("value", 1).over(w)).select("id", "previous")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a value that follows an unstable order through other columns": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        df = spark.table("raw").withColumn("n", F.monotonically_increasing_id())  # error: unstable-order-key
        df = df.withColumn("filled", F.last("company", ignorenulls=True).over(Window.orderBy("n")))
        df = df.withColumn("owner", F.coalesce(F.col("filled"), F.lit("-")))
        df.select(F.col("owner").alias("company"), "amount").na.fill(0).write.mode("overwrite").saveAsTable("t")
        """,
    "a row number in SQL": '''
        spark.sql("""
            CREATE OR REPLACE TABLE dim AS
            SELECT row_number() OVER (ORDER BY name) AS customer_key, name  -- error: unstable-order-key
            FROM raw
        """)
        ''',
    "limit": """
        df = spark.table("raw").limit(1000)  # error: unordered-pick
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "limit through pandas and a model": """
        train = spark.table("raw").limit(500).toPandas()  # error: unordered-pick
        model = Regressor()
        model.fit(train)
        scored = model.predict(train)
        spark.createDataFrame(scored).write.mode("overwrite").saveAsTable("scores")
        """,
    "dropDuplicates on a key": """
        df = spark.table("raw").dropDuplicates(["id"])  # error: unordered-pick
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "first of a group": """
        from pyspark.sql import functions as F
        df = spark.table("raw").groupBy("id").agg(F.first("email").alias("email"))  # error: unordered-pick
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "limit in SQL": '''
        cur.execute("""
            CREATE TABLE top AS
            SELECT * FROM orders
            LIMIT 100  -- error: unordered-pick
        """)
        ''',
    "distinct on": """
        cur.execute("CREATE TABLE t AS SELECT DISTINCT ON (id) id, email FROM raw")  # error: unordered-pick
        """,
    "a sample without a seed": """
        spark.table("raw").sample(0.1).write.mode("overwrite").saveAsTable("t")  # error: unordered-pick
        """,
    "yesterday": """
        from datetime import date, timedelta
        day = date.today() - timedelta(days=1)  # error: relative-now-read
        df = spark.read.parquet(f"raw/dt={day}")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a filter on the clock": """
        from pyspark.sql import functions as F
        df = spark.table("raw").filter(F.col("d") >= F.date_sub(F.current_date(), 7))  # error: relative-now-read
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a filter as text": """
        df = spark.table("raw").where("d >= current_date() - 7")  # error: relative-now-read
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "in SQL": '''
        cur.execute("""
            CREATE TABLE recent AS
            SELECT * FROM orders
            WHERE order_date >= CURRENT_DATE - INTERVAL '7 days'  -- error: relative-now-read
        """)
        ''',
    "in a question to an API": """
        import requests
        from datetime import datetime, timedelta
        since = datetime.now() - timedelta(hours=1)  # error: relative-now-read
        rows = requests.get("https://api/orders", params={"since": since}).json()
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "in a call that fetches": """
        from datetime import datetime, timedelta
        from vendor import client
        end = datetime.now()  # error: relative-now-read
        rows = client.get_orders(start=end - timedelta(days=1), end=end)
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "rows that decide by a branch": '''
        active = {r["id"] for r in spark.sql("""
            SELECT id FROM log WHERE at > now() - INTERVAL 7 DAY  -- error: relative-now-read
        """).collect()}
        rows = []
        for user in users:
            idle = 0
            if user.id not in active:
                idle = 1
            rows.append({"id": user.id, "idle": idle})
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        ''',
    "files of yesterday": """
        from datetime import datetime, timedelta
        day = datetime.now() - timedelta(days=1)  # error: relative-now-read
        chosen = []
        for name in names:
            if date_of(name) >= day:
                chosen.append(name)
        spark.read.parquet(*chosen).write.mode("overwrite").saveAsTable("t")
        """,
    "a lower bound only": '''
        cur.execute(f"""
            INSERT INTO mart.orders  -- error: append-write
            SELECT * FROM raw.orders
            WHERE updated_at > '{last_run}'  -- error: unbounded-read
        """)
        ''',
    "a lower bound only, merged": '''
        spark.sql(f"""
            MERGE INTO mart.orders t
            USING (SELECT * FROM raw.orders WHERE updated_at > '{since}') s  -- info: unbounded-read
            ON t.id = s.id WHEN MATCHED THEN UPDATE SET *
        """)
        ''',
}

CLEAN = {
    "a deduplicating row number": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        w = Window.partitionBy("id").orderBy(F.desc("updated_at"))
        df = spark.table("raw").withColumn("rn", F.row_number().over(w)).filter("rn = 1").drop("rn")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a line number within an order": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        w = Window.partitionBy("order_id").orderBy("line")
        df = spark.table("raw").withColumn("line_id", F.row_number().over(w))
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "limit after an order": """
        df = spark.table("raw").orderBy("id").limit(10)
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a look at some rows": """
        spark.table("raw").limit(10).show()
        if spark.table("raw").limit(1).count() == 0:
            raise ValueError("empty")
        """,
    "how many are left": """
        df = spark.table("raw")
        doubles = df.count() - df.dropDuplicates(["id"]).count()
        spark.createDataFrame([{"n": doubles}]).write.mode("overwrite").saveAsTable("dq")
        """,
    "an empty frame of the same schema": """
        df = spark.table("raw").limit(0)
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "whole rows": """
        df = spark.table("raw").dropDuplicates()
        df.distinct().write.mode("overwrite").saveAsTable("t")
        """,
    "all columns of a selection": """
        df = spark.table("raw").select("a", "b").dropDuplicates(["a", "b"])
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "first over an ordered window": """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window
        w = Window.partitionBy("id").orderBy("at")
        df = spark.table("raw").withColumn("first_at", F.first("at").over(w))
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "limit with order in SQL": """
        cur.execute("CREATE TABLE top AS SELECT * FROM orders ORDER BY amount DESC, id LIMIT 10")
        """,
    "the largest value": """
        latest = spark.table("raw").agg({"d": "max"}).collect()[0][0]
        df = spark.table("raw").filter(f"d = '{latest}'")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "relative to the logical date": """
        from datetime import timedelta
        def load(execution_date, **context):
            day = (execution_date - timedelta(days=1)).strftime("%Y-%m-%d")
            spark.read.parquet(f"raw/dt={day}").write.mode("overwrite").parquet(f"out/dt={day}")
        """,
    "bounded on both sides": """
        cur.execute(
            "DELETE FROM t WHERE d >= %(a)s AND d < %(b)s;"
            "INSERT INTO t SELECT * FROM s WHERE updated_at > %(a)s AND updated_at <= %(b)s"
        )
        """,
    "an old row is removed": """
        cur.execute("DELETE FROM cache WHERE created_at < now() - INTERVAL '30 days'")
        """,
    "a token is asked for": """
        import requests
        from datetime import datetime
        from vendor import client
        token = client.get_token(now=datetime.now())
        rows = requests.get("https://api", headers={"Authorization": token}).json()
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "a seeded sample": """
        spark.table("raw").sample(0.1, seed=7).write.mode("overwrite").saveAsTable("t")
        """,
    "pandas keeps the order of its file": """
        import pandas as pd
        df = pd.read_csv("x.csv").drop_duplicates(subset=["id"])
        df.to_parquet("out.parquet")
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Another run may read, take or number other rows."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """These are the same in every run."""
    compare(CLEAN[name])
