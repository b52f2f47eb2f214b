"""SP105, SP106, SP107, SP110, SP114, SP115: overwrites, transactions, marks, schedules, retries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "a window overwrites all partitions": """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            df.write.mode("overwrite").partitionBy("d").parquet("out")  # error: static-overwrite
        """,
    "a few literal rows overwrite all partitions": """
        df = spark.createDataFrame([["a", 1], ["b", 2]], ["d", "v"])
        df.write.partitionBy("d").mode("overwrite").save("out")  # error: static-overwrite
        """,
    "a dated path is read": """
        def load(spark, run_date):
            df = spark.read.json(f"raw/{run_date}/*.json")
            df.write.format("parquet").partitionBy("d").mode("overwrite").save("out")  # error: static-overwrite
        """,
    "two commits": """
        import psycopg2
        conn = psycopg2.connect("")
        cur = conn.cursor()
        cur.execute("DELETE FROM t WHERE d = %s", (d,))  # error: non-atomic-delete-insert
        conn.commit()
        cur.execute("INSERT INTO t SELECT * FROM s")
        conn.commit()
        """,
    "two connections": """
        from sqlalchemy import create_engine, text
        engine = create_engine("postgresql://")
        with engine.begin() as conn:
            conn.execute(text("TRUNCATE TABLE stage.orders"))  # error: non-atomic-delete-insert
        df.to_sql("orders", engine, schema="stage", if_exists="append")
        """,
    "a hook commits each call": """
        def load(rows):
            hook = PostgresHook("dwh")
            hook.run("TRUNCATE TABLE orders")  # error: non-atomic-delete-insert
            hook.insert_rows(table="orders", rows=rows)
        """,
    "autocommit": """
        import psycopg2
        conn = psycopg2.connect("")
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("TRUNCATE t")  # error: non-atomic-delete-insert
        cur.execute("INSERT INTO t SELECT * FROM s")
        """,
    "two statements of Spark": """
        spark.sql(f"DELETE FROM mart.daily WHERE d = '{d}'")  # error: non-atomic-delete-insert
        df.write.mode("append").saveAsTable("mart.daily")
        """,
    "two tasks": """
        from airflow.providers.postgres.operators.postgres import PostgresOperator
        clear = PostgresOperator(
            task_id="clear",
            sql="DELETE FROM t WHERE d = '{{ ds }}'",  # error: non-atomic-delete-insert
        )
        load = PostgresOperator(task_id="load", sql="INSERT INTO t SELECT * FROM s")
        clear >> load
        """,
    "a file is removed and renamed into place": """
        import os
        from files import write
        write(rows, "state.tmp.json")
        os.remove("table.json")  # error: non-atomic-delete-insert
        os.rename("state.tmp.json", "table.json")
        """,
    "the mark after an append": """
        rows.write.mode("append").saveAsTable("orders")  # error: append-write
        with open("state/last_run.json", "w") as f:
            f.write(str(high))  # error: split-state
        """,
    "the mark in a variable": """
        from airflow.models import Variable
        def load():
            df.write.mode("append").saveAsTable("orders")  # error: append-write
            Variable.set("orders_last_processed", str(high))  # error: split-state
        """,
    "the mark in its own transaction": """
        import psycopg2
        conn = psycopg2.connect("")
        cur = conn.cursor()
        cur.execute("INSERT INTO orders SELECT * FROM staging")  # error: append-write
        conn.commit()
        cur.execute("UPDATE etl_watermarks SET value = %s WHERE name = 'orders'", (high,))  # error: split-state
        conn.commit()
        """,
    "the files that were loaded": """
        df.write.mode("append").saveAsTable("orders")  # error: append-write
        names.write.mode("append").saveAsTable("orders_loaded")  # error: split-state
        """,
    "the mark in a column of a control table": """
        df.write.mode("append").saveAsTable("orders")  # error: append-write
        cur.execute("UPDATE job_control SET last_loaded_date = %s WHERE job = 'x'", (high,))  # error: split-state
        """,
    "the mark in DynamoDB": """
        import boto3
        table = boto3.resource("dynamodb").Table("etl-watermarks")
        df.write.mode("append").parquet("s3://x/orders")  # error: append-write
        table.put_item(Item={"job": "orders", "last_ts": high})  # error: split-state
        """,
    "told where the ways part": """
        def main():
            load()
            remember()  # error: split-state

        def load():
            df.write.mode("append").saveAsTable("orders")  # error: append-write

        def remember():
            open("checkpoint.json", "w").write(str(high))
        """,
    "a mark beside a merge is only told": """
        spark.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
        save_watermark("t", high)  # info: split-state
        """,
    "nothing on rows that change": """
        cur.execute(
            "INSERT INTO customers (id, email, updated_at) VALUES (%s, %s, %s)"  # error: do-nothing
            " ON CONFLICT (id) DO NOTHING",
            row,
        )
        """,
    "nothing on other rows": """
        cur.execute("INSERT INTO events (id, kind) VALUES (%s, %s) ON CONFLICT DO NOTHING", row)  # info: do-nothing
        """,
    "an hourly job replaces the day": """
        from airflow import DAG
        from airflow.providers.postgres.operators.postgres import PostgresOperator
        with DAG("x", schedule="@hourly") as dag:  # error: grain-mismatch
            PostgresOperator(
                task_id="load",
                sql="DELETE FROM t WHERE d = '{{ ds }}'; INSERT INTO t SELECT * FROM s",
            )
        """,
    "retries of a DAG": """
        from airflow import DAG
        default_args = {
            "owner": "x",
            "retries": 3,  # error: retry-around-append
        }
        with DAG("x", default_args=default_args) as dag:
            load = PostgresOperator(
                task_id="load",
                sql="INSERT INTO t SELECT * FROM s",  # error: append-write
            )
        """,
    "retries of a function": """
        from tenacity import retry, stop_after_attempt

        @retry(stop=stop_after_attempt(3))  # error: retry-around-append
        def load(df):
            df.write.mode("append").saveAsTable("t")  # error: append-write
        """,
    "retries by hand": """
        for attempt in range(3):  # error: retry-around-append
            try:
                df.write.mode("append").saveAsTable("t")  # error: append-write
                break
            except Exception:
                continue
        """,
}

CLEAN = {
    "dynamic mode of the session": """
        def load(day):
            spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
            df = spark.table("raw").filter(f"d = '{day}'")
            df.write.mode("overwrite").partitionBy("d").parquet("out")
        """,
    "dynamic mode of the write": """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            df.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(
                "d"
            ).parquet("out")
        """,
    "replaceWhere": """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            df.write.format("delta").mode("overwrite").option("replaceWhere", f"d = '{day}'").partitionBy(
                "d"
            ).save("out")
        """,
    "a dated path": """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            df.write.mode("overwrite").partitionBy("h").parquet(f"out/d={day}")
        """,
    "a full rebuild": """
        df = spark.table("raw")
        df.write.mode("overwrite").partitionBy("d").parquet("out")
        """,
    "an unpartitioned table": """
        df = spark.table("raw")
        df.write.mode("overwrite").saveAsTable("out")
        """,
    "a partition decorator": """
        def load(date):
            df = spark.table("raw").filter(f"d = '{date}'")
            df.write.format("bigquery").option("table", f"p.d.t${date}").option(
                "partitionField", "d"
            ).mode("overwrite").save()
        """,
    "the first load only": """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            if not spark.catalog.tableExists("out"):
                df.write.mode("overwrite").partitionBy("d").saveAsTable("out")
        """,
    "one transaction of a block": """
        from sqlalchemy import create_engine, text
        engine = create_engine("postgresql://")
        with engine.begin() as conn:
            conn.execute(text("DELETE FROM t WHERE d = :d"), {"d": d})
            df.to_sql("t", conn, if_exists="append")
        """,
    "begin and commit in the text": """
        hook.run("BEGIN; DELETE FROM t WHERE d = 1; INSERT INTO t SELECT * FROM s; COMMIT;")
        """,
    "a list of statements is one transaction": """
        def load():
            hook.run(["DELETE FROM t WHERE d = 1", "INSERT INTO t SELECT * FROM s"])
        """,
    "with connection": """
        import psycopg2
        with psycopg2.connect("") as conn:
            with conn.cursor() as cur:
                cur.execute("TRUNCATE t")
                cur.execute("INSERT INTO t SELECT * FROM s")
        """,
    "a temporary table is emptied": """
        import psycopg2
        conn = psycopg2.connect("")
        conn.autocommit = True
        cur = conn.cursor()
        cur.execute("TRUNCATE tmp_orders")
        cur.execute("INSERT INTO tmp_orders SELECT * FROM s")
        """,
    "the mark in the transaction of the rows": """
        import psycopg2
        conn = psycopg2.connect("")
        cur = conn.cursor()
        cur.execute("DELETE FROM orders WHERE d = %s", (d,))
        cur.execute("INSERT INTO orders SELECT * FROM staging")
        cur.execute("UPDATE etl_watermarks SET value = %s WHERE name = 'orders'", (high,))
        conn.commit()
        """,
    "when a row was touched is no mark": """
        df.write.mode("overwrite").saveAsTable("orders")
        cur.execute("UPDATE customers SET last_updated = %s WHERE id = 1", (day,))
        """,
    "a state of the world is no mark": """
        df.write.mode("overwrite").saveAsTable("geo.us_states")
        spark.table("x").write.mode("overwrite").saveAsTable("geo.state_population")
        """,
    "retries around a merge": """
        from airflow import DAG
        with DAG("x", default_args={"retries": 3}) as dag:
            load = PostgresOperator(
                task_id="load",
                sql="INSERT INTO t SELECT * FROM s ON CONFLICT (id) DO UPDATE SET v = excluded.v",
            )
        """,
    "retries around a log": """
        from airflow import DAG
        with DAG("x", default_args={"retries": 3}) as dag:
            log = PostgresOperator(
                task_id="log",
                sql="INSERT INTO etl.load_log (job_name, status, row_count) VALUES ('x', 'ok', 1)",
            )
        """,
    "a daily job replaces its day": """
        from airflow import DAG
        with DAG("x", schedule="@daily") as dag:
            PostgresOperator(
                task_id="load",
                sql="DELETE FROM t WHERE d = '{{ ds }}'; INSERT INTO t SELECT * FROM s",
            )
        """,
    "a task that empties once more what another has emptied": """
        from airflow import DAG
        from airflow.operators.python import PythonOperator
        def first():
            with psycopg2.connect(URL) as conn:
                conn.cursor().execute("DELETE FROM facts")
        def second():
            with psycopg2.connect(URL) as conn:
                cur = conn.cursor()
                cur.execute("DELETE FROM facts; INSERT INTO facts SELECT * FROM raw")
        with DAG("d") as dag:
            PythonOperator(task_id="a", python_callable=first)
            PythonOperator(task_id="b", python_callable=second)
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """A crash, a retry or a second run leaves something else behind."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """These can be repeated."""
    compare(CLEAN[name])
