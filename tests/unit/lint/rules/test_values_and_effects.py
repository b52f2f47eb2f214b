"""SP102, SP108, SP109, SP116: randomness, effects, counters, the environment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "uuid4 in rows": """
        import uuid
        rows = [{"id": str(uuid.uuid4()), "name": n} for n in names]  # error: random-id
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "uuid4 by its own name": """
        from uuid import uuid4 as new_id
        df["key"] = new_id()  # error: random-id
        df.to_parquet("out.parquet")
        """,
    "a udf": """
        import uuid
        from pyspark.sql.functions import udf
        make_id = udf(lambda: str(uuid.uuid4()))  # error: random-id
        spark.table("raw").withColumn("id", make_id()).write.mode("overwrite").saveAsTable("t")
        """,
    "uuid in an expression": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("id", F.expr("uuid()"))  # error: random-id
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "in SQL": """
        cur.execute("CREATE TABLE t AS SELECT gen_random_uuid() AS id, name FROM s")  # error: random-id
        """,
    "a path": """
        import uuid
        df.to_csv(f"out/{uuid.uuid4()}.csv")  # error: random-id
        """,
    "a batch id": """
        import random
        batch_id = random.randint(1, 100)  # error: random-id
        cur.execute("UPDATE t SET batch_id = %s WHERE id = 1", (batch_id,))
        """,
    "an identifier of the run": """
        import uuid
        def make_batch_id():
            batch_id = uuid.uuid4().hex  # error: random-id
            return batch_id
        """,
    "a mail": """
        import boto3
        ses = boto3.client("ses")
        ses.send_email(Source="a", Destination={}, Message={})  # info: unguarded-effect
        """,
    "an operator that mails": """
        from airflow.operators.email import EmailOperator
        mail = EmailOperator(task_id="mail", to="x", subject="done")  # info: unguarded-effect
        """,
    "a chat": """
        import requests
        requests.post("https://hooks.slack.com/services/x", json={"text": "done"})  # info: unguarded-effect
        """,
    "an order": """
        import requests
        def ship(order):
            response = requests.post("https://shop/api/shipments", json=order)  # error: unguarded-effect
            response.raise_for_status()
        """,
    "a queue": """
        sqs.send_message(QueueUrl=url, MessageBody=body)  # error: unguarded-effect
        """,
    "the largest id is read back": """
        spark.sql("INSERT INTO run_numbers (started) VALUES (1)")  # error: append-write
        row = spark.sql("SELECT max(run_id) FROM run_numbers").collect()  # error: serial-key
        """,
    "the number that an insert returns": """
        cur.execute("INSERT INTO parents (name) VALUES (%s) RETURNING id", (name,))  # error: append-write, serial-key
        parent = cur.fetchone()[0]
        cur.execute(
            "INSERT INTO children (parent_id, n) VALUES (%s, 1) ON CONFLICT (n) DO UPDATE SET n = 1",
            (parent,),
        )
        """,
    "the largest number of a counter": """
        def begin():
            spark.sql("INSERT INTO run_numbers (started) VALUES (1)")  # error: append-write

        def current():
            return spark.sql("SELECT max(run_id) FROM run_numbers").collect()  # error: serial-key
        """,
    "a sequence": """
        cur.execute("CREATE TABLE t AS SELECT nextval('ids') AS id, name FROM s")  # error: serial-key
        """,
    "a counter is reloaded": """
        cur.execute("CREATE TABLE IF NOT EXISTS dim (id SERIAL PRIMARY KEY, name text)")  # info: serial-key
        cur.execute("DELETE FROM dim WHERE name = %s", (name,))
        cur.execute("INSERT INTO dim (name) VALUES (%s)", (name,))
        """,
    "the environment as data": """
        import os
        df["price_factor"] = float(os.environ["FACTOR"])  # error: env-drift
        df.to_sql("prices", engine, if_exists="replace")
        """,
    "the host as a note": """
        import socket
        df["host"] = socket.gethostname()  # info: env-drift
        df.to_sql("prices", engine, if_exists="replace")
        """,
    "a random key in a store that replaces by key": """
        from pyspark.sql.functions import expr
        df = spark.read.csv("trades.csv").withColumn("trade_id", expr("uuid()"))  # error: random-id
        glueContext.write_dynamic_frame_from_options(frame=df, connection_type="dynamodb", connection_options={"dynamodb.output.tableName": "t"})
        """,
    "a rank that changes while the key stays": """
        cur.execute("INSERT INTO artist (id, name, popularity) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING", row)  # error: do-nothing
        """,
}

CLEAN = {
    "a temporary path": """
        import uuid
        path = f"/tmp/{uuid.uuid4()}"
        df.write.mode("overwrite").parquet(path)
        """,
    "a type": """
        import uuid
        def delete(ids: list[uuid.UUID]) -> None:
            cur.execute("DELETE FROM t WHERE id = ANY(%s)", (ids,))
        """,
    "a name-based uuid": """
        import uuid
        rows = [{"id": str(uuid.uuid5(uuid.NAMESPACE_OID, n))} for n in names]
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "seeded": """
        import random
        random.seed(7)
        rows = [{"id": 1, "noise": random.random()}]
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "a seeded column": """
        from pyspark.sql import functions as F
        df = spark.table("raw").withColumn("r", F.rand(42))
        df.write.mode("overwrite").saveAsTable("t")
        """,
    "a request id": """
        import uuid, requests
        requests.get("https://api", headers={"X-Request-Id": str(uuid.uuid4())})
        """,
    "a token request": """
        import requests
        requests.post("https://login.example/oauth/token", data={"grant_type": "x"})
        """,
    "a question by POST": """
        import requests
        rows = requests.post("https://api/orders/list", json={"page": 1}).json()
        """,
    "a dedup key": """
        import requests
        requests.post("https://pay/charges", json={}, headers={"Idempotency-Key": key})
        """,
    "a message of a failure": """
        import requests
        def on_failure_callback(context):
            requests.post("https://hooks.slack.com/x", json={"text": "failed"})
        try:
            work()
        except Exception:
            requests.post("https://hooks.slack.com/x", json={"text": "failed"})
            raise
        """,
    "imported, never called": """
        from mail import send_mail
        """,
    "settings of a connection": """
        import os
        from sqlalchemy import create_engine
        engine = create_engine(f"postgresql://{os.getenv('USER')}@{os.environ['HOST']}/x")
        df.to_sql("t", engine, if_exists="replace")
        """,
    "get or create": """
        cur.execute("SELECT id FROM parents WHERE name = %s", (name,))
        row = cur.fetchone()
        if row is None:
            cur.execute("INSERT INTO parents (name) VALUES (%s) RETURNING id", (name,))
            row = cur.fetchone()
        cur.execute(
            "INSERT INTO children (parent_id, n) VALUES (%s, 1) ON CONFLICT (n) DO UPDATE SET n = 1",
            (row[0],),
        )
        """,
    "a natural key": """
        cur.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
        cur.execute("INSERT INTO t (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = 'x'")
        """,
    "the largest id before the insert is a mark": """
        row = spark.sql("SELECT max(order_id) FROM orders").collect()
        df.createOrReplaceTempView("new")
        spark.sql("INSERT OVERWRITE TABLE orders SELECT * FROM new")
        """,
    "an answer that the caller gets": """
        import requests
        def call(url, body):
            return requests.post(url, data=body, timeout=60)
        """,
    "the largest value of a column is no key": """
        spark.sql("INSERT OVERWRITE TABLE t SELECT * FROM s")
        spark.sql("SELECT max(order_date) FROM t").show()
        """,
    "statistics of a table that was filled": """
        cur.execute("INSERT INTO customers (id, name) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name", row)
        print(cur.execute("SELECT count(*), min(id), max(id) FROM customers").fetchone())
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Each of these differs from run to run, or happens again."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """None of these does."""
    compare(CLEAN[name])
