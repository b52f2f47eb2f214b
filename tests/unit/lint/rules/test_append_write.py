"""SP104: writes that add their rows again, and those that only look like it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "spark append": """
        df = spark.read.parquet("raw")
        df.write.mode("append").parquet("silver")  # error: append-write
        """,
    "spark append in a chain": """
        (
            spark.table("raw.orders")
            .write
            .format("delta")
            .mode("append")  # error: append-write
            .saveAsTable("silver.orders")
        )
        """,
    "insertInto appends by default": """
        spark.table("raw").write.insertInto("silver.orders")  # error: append-write
        """,
    "writeTo": """
        df.writeTo("catalog.db.orders").append()  # error: append-write
        """,
    "mode through a constant": """
        MODE = "append"
        df.write.mode(MODE).saveAsTable("orders")  # error: append-write
        """,
    "mode as an argument of save": """
        df.write.save("path", mode="append")  # error: append-write
        """,
    "spark sql": '''
        spark.sql("""
            INSERT INTO mart.daily  -- error: append-write
            SELECT * FROM staging_view
        """)
        ''',
    "f-string with holes": """
        def load(cur, schema, table):
            cur.execute(f"INSERT INTO {schema}.{table} (a, b) SELECT a, b FROM x")  # error: append-write
        """,
    "format with holes": """
        QUERY = "INSERT INTO {schema}.orders SELECT * FROM staging"  # error: append-write
        cur.execute(QUERY.format(schema="mart"))
        """,
    "percent formatting": """
        cur.execute("INSERT INTO %s SELECT * FROM staging" % table)  # error: append-write
        """,
    "executemany": """
        import psycopg2
        conn = psycopg2.connect("")
        cur = conn.cursor()
        cur.executemany("INSERT INTO orders (id) VALUES (%s)", rows)  # error: append-write
        conn.commit()
        """,
    "execute_values": """
        from psycopg2.extras import execute_values
        execute_values(cur, "INSERT INTO orders (id) VALUES %s", rows)  # error: append-write
        """,
    "copy_from": """
        cur.copy_from(buffer, "orders", sep=",")  # error: append-write
        """,
    "to_sql": """
        import pandas as pd
        df = pd.read_csv("x.csv")
        df.to_sql(
            "orders",
            engine,
            if_exists="append",  # error: append-write
        )
        """,
    "hook insert_rows": """
        from airflow.providers.postgres.hooks.postgres import PostgresHook
        def load(rows):
            PostgresHook("dwh").insert_rows(table="orders", rows=rows)  # error: append-write
        """,
    "bigquery load appends by default": """
        from google.cloud import bigquery
        client = bigquery.Client()
        client.load_table_from_dataframe(df, "p.d.orders")  # error: append-write
        """,
    "bigquery disposition": """
        from google.cloud import bigquery
        config = bigquery.LoadJobConfig(
            write_disposition="WRITE_APPEND",  # error: append-write
        )
        bigquery.Client().load_table_from_uri(uri, "p.d.orders", job_config=config)
        """,
    "bigquery disposition as an attribute": """
        from google.cloud import bigquery
        config = bigquery.LoadJobConfig()
        config.write_disposition = bigquery.WriteDisposition.WRITE_APPEND  # error: append-write
        client.load_table_from_uri(uri, "p.d.orders", job_config=config)
        """,
    "glue sink": """
        glueContext.write_dynamic_frame.from_options(  # error: append-write
            frame=frame,
            connection_type="s3",
            connection_options={"path": "s3://lake/orders"},
        )
        """,
    "awswrangler": """
        import awswrangler as wr
        wr.s3.to_parquet(df, path="s3://x", dataset=True, mode="append")  # error: append-write
        """,
    "snowflake write_pandas": """
        from snowflake.connector.pandas_tools import write_pandas
        write_pandas(conn, df, "ORDERS")  # error: append-write
        """,
    "mongo": """
        collection.insert_many(rows)  # error: append-write
        """,
    "operator": """
        from airflow.providers.postgres.operators.postgres import PostgresOperator
        load = PostgresOperator(
            task_id="load",
            sql="INSERT INTO mart.daily SELECT * FROM raw.orders",  # error: append-write
        )
        """,
    "gcs to bigquery": """
        load = GCSToBigQueryOperator(
            task_id="load",
            destination_project_dataset_table="p.d.orders",
            write_disposition="WRITE_APPEND",  # error: append-write
        )
        """,
    "a helper of another module that is told to": """
        from common import write_to_warehouse
        write_to_warehouse(df, "mart.orders", "append")  # error: append-write
        """,
    "a helper beside all functions of Spark": """
        from pyspark.sql.functions import *
        write_to_warehouse(df, "mart.orders", "append")  # error: append-write
        """,
    "sql through a helper of another module": """
        from common import run_sql
        run_sql("INSERT INTO mart.orders SELECT * FROM staging")  # error: append-write
        """,
    "through self and a method": """
        class Job:
            def __init__(self, table):
                self.sql = f"INSERT INTO {table} SELECT * FROM staging"  # error: append-write

            def run(self, cur):
                cur.execute(self.sql)
        """,
    "statements that others run": """
        songs = "INSERT INTO songs SELECT * FROM staging"  # error: append-write
        users = "INSERT INTO users SELECT * FROM staging"  # error: append-write
        insert_queries = [songs, users]
        """,
    "each statement of a list": """
        QUERIES = [
            "INSERT INTO songs SELECT * FROM staging",  # error: append-write
            "INSERT INTO users SELECT * FROM staging",  # error: append-write
        ]
        for query in QUERIES:
            cur.execute(query)
        """,
    "a class attribute with a template": """
        class LoadFact(BaseOperator):
            insert_sql = "INSERT INTO {} {}"  # error: append-write

            def __init__(self, table="", sql="", **kwargs):
                self.table = table
                self.sql = sql

            def execute(self, context):
                hook = PostgresHook("redshift")
                hook.run(LoadFact.insert_sql.format(self.table, self.sql))
        """,
    "rows that a function puts aside are only told": """
        def quarantine_invalid(df, path):
            df.write.mode("append").parquet(path)  # info: append-write
        """,
    "rows at the end of a file": """
        import csv
        with open("out/orders.csv", "a") as f:  # error: append-write
            csv.writer(f).writerows(rows)
        """,
    "pandas at the end of a file": """
        df.to_csv("orders.csv", mode="a", header=False)  # error: append-write
        """,
    "objects of a session": """
        def load(session, rows):
            session.add_all(rows)  # error: append-write
            session.commit()
        """,
    "after a delete of another table": """
        cur.execute("DELETE FROM other WHERE day = %s", (day,))
        cur.execute("INSERT INTO orders SELECT * FROM staging")  # error: append-write
        """,
    "into a quarantine it is only told": """
        bad.write.mode("append").saveAsTable("quarantine.orders")  # info: append-write
        """,
    "the readable part of a broken file": """
        def broken(:
            pass

        def load(df):
            df.write.mode("append").saveAsTable("orders")  # error: append-write
        """,
    "appends when the table exists": """
        if spark.catalog.tableExists("orders"):
            df.write.mode("append").saveAsTable("orders")  # error: append-write
        else:
            df.write.saveAsTable("orders")
        """,
    "objects that a loop adds to a session": """
        from models import Order
        def load(session, rows):
            for row in rows:
                session.add(Order(**row))  # error: append-write
            session.commit()
        """,
    "a statement that goes into a script": """
        def prepare(rows, day):
            with open("/tmp/load.sql", "w") as script:
                for name, count in rows:
                    script.write(
                        "INSERT INTO counts VALUES ("  # error: append-write
                        f"'{name}', {count}, '{day}');"
                    )
        """,
    "a statement that a function gives back": """
        def statement(table):
            return f"INSERT INTO {table} SELECT * FROM staging"  # error: append-write
        """,
    "Hudi inserts in append mode": """
        options = {"hoodie.table.name": "t", "hoodie.datasource.write.operation": "bulk_insert"}
        df.write.format("hudi").options(**options).mode("append").save("s3://bucket/t")  # error: append-write
        """,
    "the sinks of Glue": """
        sink = glueContext.getSink(path="s3://bucket/t", connection_type="s3")
        sink.setFormat("glueparquet")
        sink.writeFrame(frame)  # error: append-write
        rows = glueContext.create_dynamic_frame_from_options(connection_type="mysql", connection_options=options)
        rows.write(connection_type="s3", connection_options={"path": "s3://bucket/u"}, format="json")  # error: append-write
        """,
    "a sink whose actions leave the old rows": """
        options = {"url": "jdbc:redshift", "dbtable": "mart.orders", "postactions": "COMMIT"}
        glueContext.write_dynamic_frame.from_options(frame=f, connection_type="redshift", connection_options=options)  # error: append-write
        """,
    "a conflict that never comes": """
        cur.execute("CREATE TABLE IF NOT EXISTS stats (id SERIAL PRIMARY KEY, name text, value int)")  # info: serial-key
        cur.execute("INSERT INTO stats (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", row)  # error: append-write
        """,
    "a session of Snowpark": """
        def push(session, df, schema, table):
            session.write_pandas(df=df, schema=schema, table_name=table)  # error: append-write
        """,
    "the other side of a condition clears nothing": """
        def save(df, table, day, first):
            if day == first:
                df.write.mode("overwrite").saveAsTable(table)
            else:
                df.write.mode("append").saveAsTable(table)  # error: append-write
        """,
    "awswrangler into a table, by way of a folder": """
        wr.redshift.copy(df, path="s3://b/tmp", con=con, table="t", mode="append")  # error: append-write
        """,
    "a COPY that another module runs": """
        COPY_EVENTS = "COPY events FROM {path} IAM_ROLE {role}"  # error: append-write
        """,
    "a string that a procedure runs": '''
        cur.execute("""
            DO $$
            BEGIN
              EXECUTE 'INSERT INTO facts SELECT * FROM staging';  -- error: append-write
            END;
            $$
        """)
        ''',
    "the folder of the day": """
        import datetime
        day = datetime.date.today()  # error: wall-clock
        df.write.mode("append").parquet(f"s3://out/day={day}")  # error: append-write
        """,
    "a function that is told the word of BigQuery": """
        from warehouse import load2bq
        load2bq(df, "tracks", "WRITE_APPEND")  # error: append-write
        """,
    "a hook that copies, by names": """
        hook.copy_expert(sql="COPY t FROM stdin", filename="/tmp/a.csv")  # error: append-write
        """,
}

CLEAN = {
    "on conflict do update": """
        cur.execute("INSERT INTO t (id, v) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = 1")
        """,
    "on duplicate key": """
        cur.execute("INSERT INTO t (id, v) VALUES (%s, %s) ON DUPLICATE KEY UPDATE v = VALUES(v)")
        """,
    "replace into": """
        cur.execute("REPLACE INTO t (id, v) VALUES (%s, %s)")
        """,
    "merge": """
        spark.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
        """,
    "delete before in one transaction": """
        import psycopg2
        conn = psycopg2.connect("")
        cur = conn.cursor()
        cur.execute("DELETE FROM orders WHERE day = %s", (day,))
        cur.execute("INSERT INTO orders SELECT * FROM staging")
        conn.commit()
        """,
    "delete before in one text": """
        from airflow.providers.postgres.operators.postgres import PostgresOperator
        load = PostgresOperator(
            task_id="load",
            sql="DELETE FROM t WHERE d = '{{ ds }}'; INSERT INTO t SELECT * FROM s WHERE d = '{{ ds }}'",
        )
        """,
    "not exists": """
        cur.execute(
            "INSERT INTO t SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id = s.id)"
        )
        """,
    "left join with the target": """
        cur.execute("INSERT INTO t SELECT s.* FROM s LEFT JOIN t ON t.id = s.id WHERE t.id IS NULL")
        """,
    "anti join with the target": """
        known = spark.table("silver.orders")
        new = spark.table("raw.orders").join(known, "id", "left_anti")
        new.write.mode("append").saveAsTable("silver.orders")
        """,
    "temporary table": """
        cur.execute("CREATE TEMP TABLE batch (id int)")
        cur.execute("INSERT INTO batch VALUES (%s)", (1,))
        """,
    "a table made anew": """
        cur.execute("DROP TABLE IF EXISTS mart.daily")
        cur.execute("CREATE TABLE mart.daily (id int)")
        cur.execute("INSERT INTO mart.daily SELECT * FROM s")
        """,
    "a log of runs": """
        cur.execute(
            "INSERT INTO etl.load_log (pipeline_name, status, rows_loaded) VALUES ('x', 'ok', %s)",
            (count,),
        )
        """,
    "an audit table": """
        audit.write.mode("append").saveAsTable("ops.pipeline_audit")
        """,
    "only when it was not loaded yet": """
        def load(df, day):
            if already_loaded(day):
                return
            df.write.mode("append").saveAsTable("orders")
        """,
    "only when the row is not there": """
        def load(cur, row):
            cur.execute("SELECT 1 FROM orders WHERE id = %s", (row["id"],))
            if cur.fetchone() is None:
                cur.execute("INSERT INTO orders (id) VALUES (%s)", (row["id"],))
        """,
    "a list": """
        rows = []
        rows.append(1)
        """,
    "a stream keeps its own marks": """
        df = spark.readStream.table("raw")
        df.writeStream.outputMode("append").option("checkpointLocation", "c").toTable("silver")
        """,
    "idempotent delta append": """
        df.write.format("delta").mode("append").option("txnAppId", "job").option(
            "txnVersion", version
        ).save("path")
        """,
    "the caller decides": """
        def write(df, table, mode="append"):
            df.write.mode(mode).saveAsTable(table)
        """,
    "prose": '''
        """
        Then run: INSERT INTO orders SELECT * FROM staging
        """
        def f():
            """df.write.mode("append") is not what this does."""
        ''',
    "a comment": """
        # df.write.mode("append").saveAsTable("orders")
        """,
    "a handler of a web application": """
        @app.post("/orders")
        def create(order):
            cur.execute("INSERT INTO orders (id) VALUES (%s)", (order.id,))
        """,
    "never run": """
        QUERY = "INSERT INTO {table} SELECT * FROM staging"
        """,
    "a natural key of the file's own table": """
        cur.execute("CREATE TABLE IF NOT EXISTS t (d date, id int, PRIMARY KEY (d, id))")
        cur.execute("INSERT INTO t VALUES (%s, %s)", (d, i))
        """,
    "a new place each time": """
        import uuid
        df.write.mode("append").parquet(f"/tmp/{uuid.uuid4()}")
        """,
    "up to the newest row of the target": """
        cur.execute("INSERT INTO t SELECT * FROM s WHERE at > (SELECT max(at) FROM t)")
        """,
    "decided before": """
        for row in rows:
            if row["action"] == "INSERT":
                cur.execute("INSERT INTO t VALUES (%s)", (row["id"],))
        """,
    "a delete in a block of the same transaction": """
        with engine.connect() as conn:
            conn.execute(render_template("DO $$ BEGIN DELETE FROM orders; END $$;", day=1))
            df.to_sql("orders", conn, if_exists="append")
        """,
    "a log file": """
        with open("run.log", "a") as f:
            f.write("done")
        """,
    "rows that the target does not have": """
        cur.execute("SELECT id FROM orders")
        known = {row[0] for row in cur.fetchall()}
        new = [row for row in rows if row[0] not in known]
        cur.executemany("INSERT INTO orders (id) VALUES (%s)", new)
        """,
    "rows that the target does not have, in pandas": """
        import pandas as pd
        known = pd.read_sql("SELECT id FROM orders", engine)
        df = df[~df["id"].isin(known["id"])]
        df.to_sql("orders", engine, if_exists="append")
        """,
    "only the table is made": """
        import pandas as pd
        df = pd.read_csv("x.csv")
        df.head(0).to_sql("orders", engine, if_exists="append")
        """,
    "an export": """
        db.sql("COPY orders TO 'orders.parquet'")
        """,
    "a mode that the caller chooses, by position": """
        def save(df, table, mode):
            df.write.mode(mode).insertInto(table)
        """,
    "a helper that truncates first": """
        from pyspark.sql.functions import *
        from common import write_to_redshift
        write_to_redshift(df, "mart.orders", mode="append", preactions="TRUNCATE mart.orders")
        """,
    "a swapped table": """
        cur.execute("INSERT INTO orders_new SELECT * FROM s")
        cur.execute("ALTER TABLE orders_new RENAME TO orders")
        """,
    "a store that replaces a row by its key": """
        df.write.format("dynamodb").option("tableName", "orders").mode("append").save()
        df.write.format("org.apache.spark.sql.cassandra").options(table="orders").mode("append").save()
        """,
    "one object that somebody asked for": """
        class User:
            def save(self):
                db.session.add(self)
                db.session.commit()
        """,
    "a statement that is only said": """
        def explain(name):
            print("INSERT INTO orders is what I would run")
            if name.startswith("INSERT INTO x"):
                raise ValueError(f"INSERT INTO {name} is not allowed")
        """,
    "Hudi upserts in append mode": """
        options = {"hoodie.table.name": "t", "hoodie.datasource.write.operation": "upsert"}
        df.write.format("hudi").options(**options).mode("append").save("s3://bucket/t")
        glueContext.write_dynamic_frame.from_options(frame=df, connection_type="custom.spark", connection_options=options)
        """,
    "a table of SQLAlchemy that was found empty": """
        import sqlalchemy as sa
        users = sa.Table("users", metadata, autoload_with=engine)
        with engine.connect() as connection:
            count = len(connection.execute("select name from users").fetchall())
            if count == 0:
                connection.execute(users.insert().values(name="base"))
        """,
    "the attribute of an operator in both statements": """
        class Load(BaseOperator):
            def __init__(self, table, **kwargs):
                self._table = table
            def execute(self, context):
                engine = create_engine("")
                with engine.begin() as conn:
                    conn.execute(f"DELETE FROM {self._table} WHERE d = '{context['ds']}'")
                    df.to_sql(self._table, con=conn, if_exists="append")
        """,
    "an audit table by its reference": """
        class SchemaAudit:
            def __init__(self, dataset, table="schema_migration_audit"):
                self.dataset, self.table = dataset, table
            def log(self, client, rows):
                client.insert_rows(client.get_table(client.dataset(self.dataset).table(self.table)), rows)
        """,
    "a guard around a function that inserts": """
        def insert(client, day):
            client.query(f"INSERT INTO days VALUES ('{day}')")
        def run(client, day):
            if day_exists(client, day):
                return
            insert(client, day)
        """,
    "the first turn of a loop clears for the others": """
        def save(chunks, table):
            first = True
            for chunk in chunks:
                if first:
                    chunk.write.mode("overwrite").saveAsTable(table)
                else:
                    chunk.write.mode("append").saveAsTable(table)
                first = False
        """,
    "rows of a worksheet": """
        sheet.insert_rows(last + 1, 4)
        """,
    "rows that the database refuses when it has them": """
        from sqlalchemy.exc import IntegrityError
        try:
            df.to_sql("status", con=engine, if_exists="append")
        except IntegrityError:
            print("there already")
        """,
    "a COPY into a table that the module drops": """
        DROP_EVENTS = "DROP TABLE IF EXISTS events"
        COPY_EVENTS = "COPY events FROM {path} IAM_ROLE {role}"
        """,
    "a class whose name is that of a writer": """
        Write(place, target, "append", api)
        """,
    "a folder of its own": """
        import datetime
        run_ts = datetime.datetime.now().isoformat()  # error: wall-clock
        df.write.mode("append").parquet(f"s3://out/{run_ts}")
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Each of these adds its rows again."""
    if name == "the readable part of a broken file":
        text = FOUND[name].replace("def broken(:", "def broken(:  # info: unreadable-part", 1)
        compare(text)
        return
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """None of these does."""
    compare(CLEAN[name])
