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
    "rows that a function of another module stores": '''
        import pandas as pd
        from warehouse import upsert
        rows = pd.read_sql("""
            SELECT * FROM tickets
            WHERE created >= current_date - 3  -- error: relative-now-read
        """, con)
        upsert(engine=engine, df=rows, table_name="tickets")
        ''',
    "an order by what divides the rows": """
        from pyspark.sql import functions as F, Window
        w = Window.partitionBy("id").orderBy("id")
        df = spark.table("raw").withColumn("n", F.row_number().over(w))  # error: unordered-pick
        df.filter(F.col("n") == 1).drop("n").write.mode("overwrite").saveAsTable("t")
        """,
    "an order by what divides the rows, in SQL": '''
        spark.sql("""
            CREATE OR REPLACE TABLE t AS
            SELECT * FROM (
                SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY id) AS n FROM raw  -- error: unordered-pick
            ) WHERE n = 1
        """)
        ''',
    "rows that a function chooses by the clock": """
        from datetime import datetime, timedelta
        day = (datetime.now() - timedelta(1)).date()  # error: relative-now-read
        def wanted(row):
            return row["day"] <= day
        logins = glueContext.create_dynamic_frame.from_catalog(database="d", table_name="t").map(f=clean).filter(f=wanted)
        kept = DropNullFields.apply(frame=logins, transformation_ctx="kept")
        kept.toDF().write.mode("overwrite").parquet("s3://bucket/t")
        """,
    "a list that the clock cuts": """
        from datetime import datetime, timedelta
        import pandas as pd
        since = datetime.now() - timedelta(days=2)  # error: relative-now-read
        recent = [row for row in rows if row["at"] >= since]
        pd.DataFrame(recent).to_sql("recent", engine, if_exists="replace")
        """,
    "a clock that is compared as a text": """
        from datetime import date
        import pandas as pd
        def read(engine, table):
            today = date.today().strftime("%Y-%m-%d")  # error: relative-now-read
            return pd.read_sql_query(f"SELECT * FROM {table} WHERE trade_date LIKE '{today}%'", engine)
        """,
    "rows that a notebook of helpers merges": """
        df = spark.read.json(path).dropDuplicates(["race_id", "driver_id"])  # error: unordered-pick
        merge_delta_data(df, "f1", "results", folder, condition, "race_id")
        """,
    "the day decides about a table in between": """
        client.query("CREATE OR REPLACE TABLE temp_orders AS SELECT * FROM raw WHERE d = CURRENT_DATE()")  # error: relative-now-read
        client.query("INSERT INTO orders SELECT * FROM temp_orders")  # error: append-write
        """,
    "sums that are kept as they were": """
        cur.execute("INSERT INTO daily (day, total_volume) SELECT day, sum(v) FROM raw GROUP BY day ON CONFLICT (day) DO NOTHING")  # error: do-nothing
        """,
    "the day decides which file is copied": """
        import datetime
        today = datetime.date.today().isoformat()  # error: relative-now-read
        name = [n for n in listing() if n.startswith(f"out.{today}")][0]
        cur.execute(f"TRUNCATE events; COPY events FROM '/in/{name}'")
        """,
    "the day decides about a file that the next task loads": """
        from datetime import datetime, timedelta
        import pandas as pd, requests
        def extract():
            since = datetime.today() - timedelta(days=1)  # error: relative-now-read
            answer = requests.get("https://x", params={"since": since.isoformat()})
            pd.DataFrame(answer.json()).to_csv("/tmp/raw.csv")
        def load():
            pd.read_csv("/tmp/raw.csv").to_sql("t", engine, if_exists="replace")
        with DAG("x") as dag:
            first = PythonOperator(task_id="a", python_callable=extract)
            first >> PythonOperator(task_id="b", python_callable=load)
        """,
    "a question that says since when": """
        import datetime
        import pandas as pd
        yesterday = datetime.datetime.now() - datetime.timedelta(hours=24)  # error: relative-now-read
        played = client.recently_played(limit=50, after=yesterday)
        pd.DataFrame(played).to_sql("played", engine, if_exists="replace")
        """,
    "rows are chosen by the day with loc, and one by one with iloc": """
        import pandas as pd, datetime
        df = pd.read_csv("a.csv")
        day = datetime.date.today()  # error: relative-now-read
        df.drop(index=df.loc[df["d"] != day].index, inplace=True)
        for i, _ in df.iterrows():
            df.iloc[i:i + 1].to_sql("t", engine, if_exists="replace")
        """,
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
    "equal rows are dropped": '''
        spark.sql("""
            CREATE OR REPLACE TABLE t AS
            SELECT a, b, c FROM (
                SELECT *, ROW_NUMBER() OVER (PARTITION BY a, b, c ORDER BY a) AS n FROM raw
            ) WHERE n = 1
        """)
        spark.table("raw").dropDuplicates(["a", "b", "c", "d", "e", "f"]).write.mode("overwrite").saveAsTable("u")
        ''',
    "a clock that is only the default of a mark": """
        from datetime import datetime, timedelta
        from marks import get_watermark
        default_since = (datetime.utcnow() - timedelta(days=365)).isoformat()
        since = get_watermark("orders", default_since)
        spark.table("raw").filter(f"at >= '{since}'").write.mode("overwrite").saveAsTable("t")
        """,
    "a file of this run is copied": """
        import datetime
        name = f"/tmp/{datetime.datetime.now():%H%M}.csv"
        df.to_csv(name)
        cur.execute(f"TRUNCATE events; COPY events FROM '{name}'")
        """,
    "DISTINCT ON of nothing but the key": """
        cur.execute("CREATE TABLE ids AS SELECT DISTINCT ON (id) id FROM users")
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
