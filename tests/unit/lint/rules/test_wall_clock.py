"""SP101: clock values that become data, and those that only measure, log or name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "a business column": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("report_date", F.current_date())  # error: wall-clock
        df.write.mode("overwrite").saveAsTable("mart")
        """,
    "an audit column": """
        from pyspark.sql.functions import current_timestamp as now_ts
        df = spark.table("raw").withColumn("loaded_at", now_ts())  # info: wall-clock
        df.write.mode("overwrite").saveAsTable("mart")
        """,
    "a partition": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("load_date", F.current_date())  # error: wall-clock
        df.write.mode("overwrite").partitionBy("load_date").saveAsTable("mart")
        """,
    "a path": """
        import datetime as dt
        today = dt.datetime.now().strftime("%Y-%m-%d")  # error: wall-clock
        df.write.mode("overwrite").parquet(f"s3://lake/orders/{today}")
        """,
    "a path through arithmetic and a helper": """
        from datetime import date, timedelta

        def yesterday():
            return date.today() - timedelta(days=1)  # error: wall-clock

        def save(df):
            df.to_csv("out/" + str(yesterday()) + ".csv")
        """,
    "an object's key": """
        import time, boto3
        s3 = boto3.client("s3")
        stamp = int(time.time())  # error: wall-clock
        s3.put_object(Bucket="b", Key="data/%s.json" % stamp, Body=body)
        """,
    "a blob that its client names": """
        from datetime import datetime
        name = f"sales/{datetime.utcnow():%Y%m%d}.csv"  # error: wall-clock
        client = service.get_blob_client(container="raw", blob=name)
        client.upload_blob(data, overwrite=True)
        """,
    "a blob of a container's client": """
        import time
        client = container.get_blob_client(f"sales/{time.time()}.csv")  # error: wall-clock
        client.upload_blob(data)
        """,
    "a collection in a writer's options": """
        from datetime import date
        name = "sales_" + str(date.today())  # error: wall-clock
        df.write.format("mongodb").mode("overwrite").option("collection", name).save()
        """,
    "a column of an insert": '''
        cur.execute("""
            INSERT INTO mart.report (report_date, total)  -- error: append-write
            SELECT CURRENT_DATE, SUM(amount) FROM orders  -- error: wall-clock
        """)
        ''',
    "a parameter of an insert": """
        from datetime import datetime
        cur.execute(
            "INSERT INTO t (id, snapshot_date) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET id = 1",
            (row_id, datetime.utcnow()),  # error: wall-clock
        )
        """,
    "a named parameter": """
        from datetime import datetime
        values = {"id": 1, "valid_from": datetime.now()}  # error: wall-clock
        cur.execute(
            "INSERT INTO t (id, valid_from) VALUES (%(id)s, %(valid_from)s)"
            " ON CONFLICT (id) DO UPDATE SET valid_from = excluded.valid_from",
            values,
        )
        """,
    "a column of a pandas frame": """
        import pandas as pd
        from datetime import datetime
        df = pd.read_csv("x.csv")
        df["snapshot_date"] = datetime.today()  # error: wall-clock
        df.to_parquet("out.parquet")
        """,
    "a column of rows": """
        import datetime
        rows = []
        for item in items:
            rows.append({"id": item.id, "as_of": datetime.datetime.now()})  # error: wall-clock
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "an expression": """
        df.selectExpr("id", "current_date() AS day").write.mode("overwrite").saveAsTable("t")  # error: wall-clock
        """,
    "a column of a column": """
        from pyspark.sql.functions import *
        df = spark.table("raw").withColumn("today", current_date())  # error: wall-clock
        df = df.withColumn("age", datediff(col("today"), col("birth"))).select("id", "age")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a temp view": '''
        spark.table("raw").createOrReplaceTempView("v")
        out = spark.sql("""
            SELECT id,
                   current_date() AS day  -- error: wall-clock
            FROM v
        """)
        out.write.mode("overwrite").saveAsTable("t")
        ''',
    "the mark": """
        from datetime import datetime
        started = datetime.now()  # error: wall-clock
        cur.execute(
            "INSERT INTO etl_watermarks (name, value) VALUES ('x', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (started,),
        )
        """,
    "an identifier of the run": """
        import time
        def new_run_id():
            run_id = str(int(time.time()))  # error: wall-clock
            return run_id
        """,
    "self": """
        from datetime import datetime

        class Job:
            def __init__(self):
                self.day = datetime.now().date()  # error: wall-clock

            def run(self, df):
                df.write.mode("overwrite").parquet(f"lake/day={self.day}")
        """,
    "a default of a column": """
        cur.execute("CREATE TABLE t (id int, created_at timestamp DEFAULT now())")  # info: wall-clock
        """,
    "only when no parameter is given": """
        from datetime import date
        def main(day=None):
            if day is None:
                day = date.today()  # info: wall-clock
            df.write.mode("overwrite").parquet(f"lake/day={day}")
        """,
    "a parameter or the clock": """
        import sys
        from datetime import date
        day = sys.argv[1] if len(sys.argv) > 1 else date.today()  # info: wall-clock
        df.write.mode("overwrite").parquet(f"lake/day={day}")
        """,
    "the subject of a mail": """
        from datetime import datetime
        from airflow.utils.email import send_email
        send_email(  # info: unguarded-effect
            to="x",
            subject=f"Report of {datetime.now()}",  # info: wall-clock
        )
        """,
    "the start of a row's validity": """
        from datetime import date
        cur.execute(
            "INSERT INTO t (id, row_start_date) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET id = 1",
            (1, date.today()),  # error: wall-clock
        )
        """,
    "an update behind a common table": '''
        cur.execute("""
            WITH changed AS (SELECT * FROM s)
            UPDATE t SET valid_to = CURRENT_DATE FROM changed WHERE t.id = changed.id  -- error: wall-clock
        """)
        ''',
    "what a job is told when the DAG is parsed": """
        from datetime import datetime
        today = datetime.now().strftime("%Y-%m-%d")  # error: wall-clock
        job = SparkSubmitOperator(task_id="job", application="job.py", application_args=["--day", today])
        """,
    "the shell's date": '''
        copy = BashOperator(
            task_id="copy",
            bash_command="""
                aws s3 cp data.csv s3://lake/orders/$(date +%F)/data.csv  # error: wall-clock
            """,
        )
        ''',
    "a place for a writer of another module": """
        from datetime import datetime
        from common import storage
        def archive(df):
            path = storage.get_path_for(datetime.now())  # error: wall-clock
            storage.save(df, path)
        """,
    "a file's date": """
        from datetime import datetime
        from awsglue.dynamicframe import DynamicFrame
        stamp = datetime.utcnow().strftime("%Y%m%d")  # error: wall-clock
        glueContext.write_dynamic_frame.from_options(
            frame=frame, connection_type="s3", connection_options={"path": "s3://x/%s" % stamp}
        )
        """,
    "a value that is put into rows": """
        from datetime import datetime
        def stamped(rows):
            for row in rows:
                row.append(datetime.now())  # error: wall-clock
            return rows
        def load(rows):
            hook.insert_rows(table="weather", rows=stamped(rows), replace=True)
        """,
    "returned rows": """
        from pyspark.sql import functions as F
        def transform(df):
            return df.withColumn("valid_from", F.current_date())  # error: wall-clock
        """,
    "what a callable of another module is given": """
        from datetime import date
        from airflow.operators.python import PythonOperator
        from jobs import refine
        today = date.today()  # error: wall-clock
        PythonOperator(task_id="refine", python_callable=refine, op_kwargs={"month": today.month})
        """,
    "the key that an operator of another package writes": """
        from datetime import datetime
        from company.operators import CopyToBucketOperator
        name = datetime.now().strftime("%Y_%m_%d.json")  # error: wall-clock
        CopyToBucketOperator(task_id="copy", dest_s3_key=f"events/{name}")
        """,
    "the arguments of a mapped operator": """
        from datetime import datetime
        from airflow.providers.amazon.aws.operators.s3 import S3CopyObjectOperator
        S3CopyObjectOperator.partial(task_id="copy", source_bucket_name="a").expand(
            dest_bucket_key=[f"x/{datetime.now():%H%M}.json"],  # error: wall-clock
        )
        """,
    "the object of another client": """
        from datetime import datetime
        name = f"orders/{datetime.now():%Y%m%d}.csv"  # error: wall-clock
        client.put_object("bucket", name, data=buffer, length=10)
        """,
    "rows that are called a report": """
        from datetime import datetime
        key = f"weather_report-{datetime.now():%H}.json"  # error: wall-clock
        s3.put_object(Bucket="b", Key=key, Body=body)
        """,
    "an update of a table with another name": '''
        def close(conn, table, keys):
            conn.execute(f"""
                UPDATE {table} AS existing
                SET expiry_date = CURRENT_DATE  -- error: wall-clock
                WHERE existing.is_current AND ({" OR ".join(keys)})
            """)
        ''',
    "rows that a cursor hands on by their place": """
        cur.execute("SELECT id, current_date AS d, now() AS t FROM x")  # error: wall-clock
        rows = cur.fetchall()
        cur.executemany("INSERT INTO y (id, report_date, loaded_at) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET id = 1", rows)
        """,
    "the number of a run in each row": """
        from datetime import datetime
        from pyspark.sql import functions as F
        run = datetime.now().strftime("%Y%m%d%H%M%S")  # error: wall-clock
        df.withColumn("cdc_run_id", F.lit(run)).write.mode("overwrite").saveAsTable("t")
        """,
    "a folder of a stage": """
        import datetime
        def put(name):
            return f"PUT file://{name} @stage/{datetime.date.today()}"  # error: wall-clock
        cur.execute(put("a.csv"))
        """,
    "a row that is fetched and stored by position": """
        cur.execute("SELECT id, NOW(), amount FROM src")  # error: wall-clock
        for row in cur.fetchall():
            cur.execute("INSERT INTO dst (id, valid_from, n) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n", row)
        """,
    "the day that a function of another module stores for": """
        import datetime
        upload_payload(data, run_date=datetime.date.today())  # error: wall-clock
        """,
    "a partition of a sink of Glue": """
        df = df.withColumn("ingestion_date_pk", current_date())  # error: wall-clock
        glueContext.write_dynamic_frame.from_options(  # error: append-write
            frame=DynamicFrame.fromDF(df, glueContext, "d"), connection_type="s3",
            connection_options={"path": "s3://b/t/", "partitionKeys": ["ingestion_date_pk"]},
        )
        """,
}

CLEAN = {
    "logging": """
        import logging
        from datetime import datetime
        logging.info("started at %s", datetime.now())
        print(f"done at {datetime.now()}")
        """,
    "timing": """
        import time
        start = time.time()
        work()
        elapsed = time.time() - start
        cur.execute("UPDATE stats SET seconds = %s WHERE id = 1", (elapsed,))
        """,
    "a temporary name": """
        import time
        name = f"tmp_orders_{int(time.time())}"
        df.write.mode("overwrite").saveAsTable(name)
        """,
    "a token": """
        import time
        token = make_token(expires=time.time() + 3600)
        requests.get("https://api", headers={"Authorization": token})
        """,
    "a log table": """
        from datetime import datetime
        cur.execute(
            "INSERT INTO etl_run_log (job_name, status, started_at) VALUES (%s, %s, %s)",
            ("x", "ok", datetime.now()),
        )
        """,
    "imported only": """
        from datetime import datetime
        from pyspark.sql.functions import current_timestamp
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "the logical date": """
        def load(ds, **context):
            df.write.mode("overwrite").parquet(f"lake/day={ds}")
        """,
    "names beside values": """
        from datetime import datetime
        tables = {"orders": [1], "stats": [datetime.now()]}
        for table, rows in tables.items():
            cur.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM raw_{table}")
        """,
    "a fixed date": """
        from datetime import datetime
        START = datetime(2026, 1, 1)
        df.write.mode("overwrite").parquet(f"lake/{START:%Y}")
        """,
    "a reply": """
        from datetime import datetime
        def handle():
            return {"status": "ok", "time": datetime.now().isoformat()}
        """,
    "a column that is dropped": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("now", F.current_timestamp()).drop("now")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a column that is not selected": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("now", F.current_timestamp()).select("id", "amount")
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a read-only check": """
        count = hook.get_first("SELECT COUNT(*) FROM raw.orders WHERE order_date > CURRENT_DATE")[0]
        if count:
            raise ValueError(count)
        """,
    "unix_timestamp of a column": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("seconds", F.unix_timestamp("event_time"))
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a picture": """
        from datetime import datetime
        plt.savefig(f"plots/orders_{datetime.now():%Y}.png")
        """,
    "the logical date of a shell command": """
        copy = BashOperator(task_id="copy", bash_command="aws s3 cp x s3://lake/{{ ds }}/x")
        """,
    "a comment in SQL": '''
        cur.execute("""
            DELETE FROM t WHERE d = %(d)s; -- not CURRENT_DATE
            INSERT INTO t SELECT * FROM s WHERE d = %(d)s
        """)
        ''',
    "a string in SQL": """
        cur.execute("UPDATE t SET note = 'use now() here' WHERE id = 1")
        """,
    "what a callable of another module says": """
        from datetime import date
        from airflow.operators.python import PythonOperator
        from jobs import tell
        PythonOperator(task_id="tell", python_callable=tell, op_kwargs={"text": f"{date.today()} done"})
        """,
    "a clock in a row that only the log gets": """
        cur.execute("SELECT count(*), now() FROM x")
        count, at = cur.fetchone()
        print(at)
        cur.execute("UPDATE totals SET n = %s WHERE id = 1", (count,))
        """,
    "a table that is made without rows": """
        cur.execute("CREATE TABLE IF NOT EXISTS t AS SELECT current_date AS valid_from, s.* FROM s WHERE false")
        """,
    "a mark that is the largest value of another column": """
        from pyspark.sql import functions as F
        out = spark.table("raw").withColumn("day", F.current_date())
        mark = out.agg(F.max("updated_at")).collect()[0][0]
        spark.sql(f"UPDATE load_watermark SET last_value = '{mark}'")
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Each of these stores what the clock says."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """None of these does."""
    compare(CLEAN[name])
