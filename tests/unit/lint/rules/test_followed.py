"""Values on long ways: through functions of other modules, through names, through texts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "a day of the clock in an object": """
        from models import Sale
        from datetime import datetime
        session.query(Sale).delete()
        session.add_all(
            [Sale(id=row.id, business_date=datetime.now()) for row in rows]  # error: wall-clock
        )
        session.commit()
        """,
    "an object that is merged": """
        from models import Sale
        from datetime import date
        for row in rows:
            session.merge(Sale(id=row.id, business_date=date.today()))  # error: wall-clock
        """,
    "objects that become dictionaries": """
        import uuid, pandas as pd
        from models import Sale
        df = pd.read_csv("s.csv")
        rows = [Sale(sale_id=str(uuid.uuid4()), v=v).model_dump() for v in df["v"]]  # error: random-id
        pd.DataFrame(rows).to_sql("t", engine, if_exists="replace")
        """,
    "a table of pyarrow": """
        import uuid, pandas as pd, pyarrow as pa, pyarrow.parquet as pq
        df = pd.read_csv("s.csv")
        df["sale_id"] = [str(uuid.uuid4()) for _ in range(len(df))]  # error: random-id
        pq.write_table(pa.Table.from_pandas(df), "s3://lake/sales.parquet")
        """,
    "a data set of pyarrow": """
        import pyarrow.parquet as pq
        pq.write_to_dataset(table, root_path="/data/sales")  # error: append-write
        """,
    "objects that are deleted in one commit and added in another": """
        from models import Sale
        session.query(Sale).filter_by(day=day).delete()  # error: non-atomic-delete-insert
        session.commit()
        session.add_all([Sale(v=row) for row in rows])
        session.commit()
        """,
    "objects of which only the old ones are deleted": """
        from models import Sale
        session.query(Sale).filter(Sale.day < oldest).delete()
        session.add_all([Sale(v=row) for row in rows])  # error: append-write
        session.commit()
        """,
    "a primary key of ClickHouse, which only sorts": """
        cur.execute("CREATE TABLE IF NOT EXISTS t (k Int32) ENGINE = MergeTree() PRIMARY KEY (k)")
        cur.execute("INSERT INTO t SELECT k FROM s")  # error: append-write
        """,
    "rows that a function of another module has changed": """
        import pandas as pd
        from house.cleaning import tidy
        df = pd.read_sql("SELECT * FROM s WHERE d = current_date - 1", con)  # error: relative-now-read
        tidy(df).to_sql("t", engine, if_exists="replace")
        """,
    "a forecast from rows that the clock has chosen": """
        import pandas as pd, models
        df = pd.read_sql("SELECT * FROM s WHERE d = current_date - 1", con)  # error: relative-now-read
        fitted = models.Seasonal(df["v"]).fit()
        fitted.forecast(7).to_frame("v").to_sql("t", engine, if_exists="replace")
        """,
    "partitions of Glue by the clock": """
        frame = glue.create_dynamic_frame.from_catalog(
            database="d",
            table_name="t",
            push_down_predicate="day >= date_sub(current_date, 5)",  # error: relative-now-read
        )
        frame.toDF().write.mode("overwrite").saveAsTable("u")
        """,
    "a purged path": """
        from datetime import date
        glue.purge_s3_path(f"s3://b/day={date.today()}/")  # error: wall-clock
        """,
    "SQL over HTTP": """
        import requests
        requests.post(url, data=f"INSERT INTO {db}.t VALUES {rows}")  # error: append-write
        """,
    "a load whose arguments have names": """
        from google.cloud import bigquery
        client = bigquery.Client()
        client.load_table_from_dataframe(dataframe=df, destination="d.t")  # error: append-write
        """,
    "a table that the clock names": """
        from datetime import datetime
        day = datetime.now().strftime("%Y%m%d")  # error: wall-clock
        df.to_sql(f"t_{day}", engine, if_exists="replace")
        """,
    "what is to come is deleted and stored anew": """
        import psycopg2
        conn = psycopg2.connect(dsn)
        cur = conn.cursor()
        cur.execute("DELETE FROM forecast WHERE day >= current_date")  # error: non-atomic-delete-insert
        conn.commit()
        df.to_sql("forecast", engine, if_exists="append")
        """,
    "a dimension of time": """
        from pyspark.sql import functions as F
        df.withColumn("id", F.monotonically_increasing_id()).write.mode("overwrite").parquet("dim_tempo")  # error: unstable-order-key
        """,
    "values that a query without an end has given": """
        cur.execute(f"SELECT * FROM s WHERE updated_at > '{last}'")  # error: unbounded-read
        rows = ",".join(str(row) for row in cur.fetchall())
        cur.execute(f"INSERT INTO t VALUES {rows}")  # error: append-write
        """,
    "a script that sets something first": """
        def hql(ds):
            return f'''
                SET a=b;
                INSERT INTO TABLE db.t PARTITION (dt)  -- error: append-write
                SELECT * FROM s WHERE dt = '{ds}'
            '''
        hook.run_cli(prepare() + hql(ds))
        """,
    "a text that may be empty": """
        import requests
        def text(rows):
            if not rows:
                return ""
            return f"INSERT INTO t VALUES {rows}"  # error: append-write
        requests.post(url, data=text(rows).encode("utf-8"))
        """,
    "numbers by a number that nobody ordered": """
        from pyspark.sql import functions as F, Window
        w = Window.orderBy("i")
        df = df.withColumn("i", F.monotonically_increasing_id())  # error: unstable-order-key
        df = df.withColumn("n", F.row_number().over(w)).drop("i")
        df.join(other, "n").drop("n").write.mode("overwrite").saveAsTable("t")
        """,
    "one of several statements": """
        if kind == "a":
            cmd = "COPY a FROM STDIN"  # error: append-write
        elif kind == "b":
            cmd = "COPY b FROM STDIN"  # error: append-write
        else:
            cmd = "COPY c FROM STDIN"  # error: append-write
        cur.copy_expert(cmd, f)
        """,
    "values whose marks are counted": """
        from datetime import date
        marks = ", ".join(["%s"] * 2)
        day = date.today()  # error: wall-clock
        cur.execute(f"INSERT INTO t (k, d) VALUES ({marks}) ON CONFLICT (k) DO UPDATE SET d = 1", (1, day))
        """,
    "pages that nobody has ordered": """
        src.execute(f"SELECT {names} FROM s LIMIT {size} OFFSET {offset}")  # error: unordered-pick
        rows = src.fetchall()
        cur.execute("TRUNCATE t")
        cur.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        """,
    "a procedure for a day": """
        from datetime import datetime
        day = datetime.now().strftime("%Y-%m-%d")  # error: wall-clock
        hook.get_first(f"DECLARE @d DATE = '{day}'; EXEC dbo.process_orders @d = @d;")
        """,
    "files that the clock names": """
        import re, shutil, datetime
        stamp = re.sub(":", ".", str(datetime.datetime.now()))  # error: wall-clock
        shutil.move(part, f"out/data_{stamp}.parquet")
        day = datetime.date.today()  # error: wall-clock
        shutil.make_archive(f"out/{day}", "zip", "raw")
        """,
    "a helper that is told to append, and where": """
        from datetime import date
        from house.storage import persist_frame
        uri = f"gs://b/{date.today()}.csv"  # error: wall-clock
        persist_frame(df, uri, "csv", "append")  # error: append-write
        """,
    "rows that a cursor gives by itself": """
        def read(sql):
            cur = pyodbc.connect(dsn).cursor()
            cur.execute(sql)
            return list(cur)
        rows = read("SELECT a FROM s WHERE d >= dateadd(DD, -3, getdate())")  # error: relative-now-read
        cur = pyodbc.connect(dsn).cursor()
        cur.execute("TRUNCATE TABLE t")
        cur.executemany("INSERT INTO t VALUES (?)", rows)
        for row in cur:
            pass
        """,
    "rows that are pushed": """
        from house.tools import Store
        rows = Store(a).query("SELECT * FROM s WHERE d >= current_date - 1")  # error: relative-now-read
        Store(b).push_data(rows.rename(columns={"id": "k"}), "t")
        """,
    "columns from a list": """
        from pyspark.sql import functions as F
        names = [f.name for f in schema]
        df = df.withColumn("since", F.current_date())  # error: wall-clock
        df.select(*names).write.mode("overwrite").saveAsTable("t")
        """,
}

CLEAN = {
    "a data set of pyarrow with names of its own": """
        import pyarrow.parquet as pq
        pq.write_to_dataset(table, root_path="/data/sales", basename_template="part-{i}.parquet")
        """,
    "a table with its schema and without": """
        cur = psycopg2.connect(dsn).cursor()
        cur.execute(f"DELETE FROM {schema}.{table} WHERE day = %s", (day,))
        cur.execute(f"INSERT INTO {table} SELECT * FROM s WHERE day = %s", (day,))
        cur.connection.commit()
        """,
    "objects that replace those of a day": """
        from models import Sale
        class Store:
            def __init__(self, db):
                self.db = db
            def day(self, day, rows):
                self.db.query(Sale).filter(Sale.day == day).delete()
                made = []
                for row in rows:
                    made.append(Sale(v=row.v))
                self.db.bulk_save_objects(made)
                self.db.commit()
        """,
    "a delete that is executed": """
        from models import Sale
        session.execute(delete(Sale).where(Sale.day == day))
        session.bulk_insert_mappings(Sale, rows)
        session.commit()
        """,
    "an engine of ClickHouse that keeps one row of each key": """
        cur.execute("CREATE TABLE IF NOT EXISTS t (k Int32) ENGINE = ReplacingMergeTree(v) ORDER BY (k)")
        cur.execute("INSERT INTO t SELECT k FROM s")
        """,
    "a function that looks at rows": """
        from house.checks import check_rows
        from pyspark.sql import functions as F
        few = df.limit(10)
        size = check_rows(few)
        df.write.mode("overwrite").save(f"out/{size}")
        """,
    "one column, each value of it once": """
        def write(df, path, by):
            kept = df.where(df.v > 0)
            days = kept.select(by).dropDuplicates([by]).collect()
            kept.repartition(len(days)).write.mode("overwrite").parquet(path)
        """,
    "rows that the target has are taken out first": """
        cur.execute("DELETE FROM fresh WHERE id IN (SELECT id FROM t)")
        cur.execute("INSERT INTO t SELECT * FROM fresh")
        """,
    "a counter that is remembered": """
        cur.execute("UPDATE load_state SET value = nextval('n') WHERE name = %s", (name,))
        """,
    "a stream processor": """
        from pyflink.table import StreamTableEnvironment
        sink = make()
        env.execute_sql(f"INSERT INTO {sink} SELECT 1")
        """,
    "a text that is chosen by what is there": """
        if row_exists(cur, key):
            sql = "UPDATE t SET v = %s WHERE k = %s"
        else:
            sql = "INSERT INTO t (v, k) VALUES (%s, %s)"
        cur.execute(sql, (v, key))
        """,
    "a statement that empties, or another one": """
        sql = "DELETE FROM t" if wipe else "UPDATE t SET v = 1"
        conn.execute(sql)
        """,
    "what is put replaces": """
        import requests
        requests.put(f"{host}/files/{name}", data=content)
        """,
    "files that were worked off, or failed": """
        import shutil
        from datetime import datetime
        stamp = datetime.now().isoformat()  # info: wall-clock
        shutil.move(path, f"data/processed/{name}_{stamp}.csv")
        """,
    "an audit column that loses its name on the way": """
        from datetime import datetime
        df["br_load_time"] = datetime.now()  # info: wall-clock
        rows = [tuple(row) for row in df.to_numpy()]
        cur.execute("TRUNCATE t")
        cur.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        """,
    "counts in a database of logs": """
        cur.execute("INSERT INTO ods_logs.dbo.visit_count_log SELECT site, now(), count(*) FROM t GROUP BY site")
        """,
    "an entry of a cache that knows its age": """
        import time
        cache = {}
        cache[key] = {"folder": name, "age": time.time()}
        entry = cache[key]
        df.write.mode("overwrite").parquet(f"out/{entry['folder']}")
        """,
    "a file that is written anew, piece by piece": """
        import os
        if os.path.exists(path):
            os.remove(path)
        for number, piece in enumerate(pieces):
            if number == 0:
                piece.to_csv(path)
            else:
                piece.to_csv(path, mode="a")
        """,
    "old rows go": """
        import psycopg2
        conn = psycopg2.connect(dsn)
        cur = conn.cursor()
        cur.execute("INSERT INTO t SELECT * FROM s ON CONFLICT (id) DO UPDATE SET v = 1")
        conn.commit()
        cur.execute("DELETE FROM t WHERE day < current_date - 30")
        """,
}


MANY = """
    cur.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # error: append-write
    cur.execute("INSERT INTO t (a) VALUES (%s)", (a,))  # info: append-write
    """


def test_one_row_is_asked_for_and_many_are_a_load(compare: Callable[..., None]) -> None:
    """A module that reaches a database is given one row by whoever asks; a batch comes from a job."""
    compare(MANY, "app/db/operations.py")


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Each of these differs after a repetition."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """None of these does."""
    compare(CLEAN[name])
