"""SP104: what is stored is read, made more, and stored again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "rows below those of the file that is written": """
        import pandas as pd
        PATH = "out/all.csv"
        old = pd.read_csv(PATH)
        pd.concat([old, fetch()]).to_csv(PATH, index=False)  # error: append-write
        """,
    "only where the file is there": """
        import os
        import pandas as pd
        def save(new):
            if os.path.exists("all.csv"):
                new = pd.concat([pd.read_csv("all.csv"), new])
            new.to_csv("all.csv")  # error: append-write
        save(fetch())
        """,
    "a list inside a document": """
        import json
        with open("rows.json") as f:
            data = json.load(f)
        data["items"].append(fetch())
        with open("rows.json", "w") as f:
            json.dump(data, f)  # error: append-write
        """,
    "an object of a bucket": """
        import boto3, json
        s3 = boto3.client("s3")
        rows = json.loads(s3.get_object(Bucket="b", Key="all.json")["Body"].read())
        rows += fetch()
        s3.put_object(Bucket="b", Key="all.json", Body=json.dumps(rows))  # error: append-write
        """,
    "a union over its own source": """
        old = spark.read.parquet("/lake/all")
        old.union(new).write.mode("overwrite").parquet("/lake/all")  # error: append-write
        """,
    "a sum in an update": """
        cur.execute("UPDATE accounts SET balance = balance + %s", (1,))  # error: append-write
        """,
    "a sum in an upsert": '''
        cur.execute("""
            INSERT INTO daily (day, n) VALUES (%s, %s)  -- error: append-write
            ON CONFLICT (day) DO UPDATE SET n = daily.n + EXCLUDED.n
        """, row)
        ''',
    "a sum in a merge": '''
        spark.sql("""
            MERGE INTO totals t USING news s ON t.k = s.k  -- error: append-write
            WHEN MATCHED THEN UPDATE SET t.total = t.total + s.total
            WHEN NOT MATCHED THEN INSERT (k, total) VALUES (s.k, s.total)
        """)
        ''',
    "a sum in a Delta merge": """
        from delta.tables import DeltaTable
        (
            DeltaTable.forPath(spark, "/totals").alias("t")
            .merge(news.alias("s"), "t.k = s.k")
            .whenMatchedUpdate(set={"n": "t.n + s.n"})  # error: append-write
            .execute()
        )
        """,
    "a counter of an item": """
        table.update_item(  # error: append-write
            Key={"id": 1}, UpdateExpression="ADD hits :n", ExpressionAttributeValues={":n": 5}
        )
        """,
    "write_pandas by names": """
        from snowflake.connector.pandas_tools import write_pandas
        def load(conn, df, table="RAW"):
            write_pandas(conn=conn, df=df, table_name=table)  # error: append-write
        """,
    "objects in a loop, by a session under any name": """
        make = sessionmaker(bind=engine)
        def load(rows):
            session = make()
            for row in rows:
                session.add(Trade(**row))  # error: append-write
            session.commit()
        load(fetch())
        """,
    "a number of a document": """
        col.update_one({"k": 1}, {"$inc": {"n": 5}}, upsert=True)  # error: append-write
        """,
}

CLEAN = {
    "rows that are there are dropped": """
        import pandas as pd
        both = pd.concat([pd.read_csv("x.csv"), fetch()]).drop_duplicates(subset=["id"])
        both.to_csv("x.csv")
        """,
    "rows that are there are dropped, in place": """
        import pandas as pd
        both = pd.concat([pd.read_csv("x.csv"), fetch()])
        both.drop_duplicates(subset=["id"], inplace=True)
        both.to_csv("x.csv")
        """,
    "the day is left out first": """
        import pandas as pd
        old = pd.read_csv("x.csv")
        old = old[old["day"] != day]
        pd.concat([old, fetch()]).to_csv("x.csv")
        """,
    "written elsewhere": """
        import pandas as pd
        pd.concat([pd.read_csv("a.csv"), pd.read_csv("b.csv")]).to_csv("c.csv")
        """,
    "a value by its key": """
        import json
        with open("rows.json") as f:
            data = json.load(f)
        data["day"] = fetch()
        with open("rows.json", "w") as f:
            json.dump(data, f)
        """,
    "only what is not there": """
        import json
        with open("rows.json") as f:
            data = json.load(f)
        for row in fetch():
            if row not in data:
                data.append(row)
        with open("rows.json", "w") as f:
            json.dump(data, f)
        """,
    "the value of the source": """
        cur.execute("UPDATE accounts SET balance = %s WHERE id = %s", (1, 2))
        cur.execute("UPDATE t SET name = upper(name)")
        cur.execute("UPDATE t SET version = version + 1 WHERE id = %s", (1,))
        cur.execute("UPDATE t SET n = s.n + s.m FROM s WHERE s.id = t.id")
        """,
    "the larger one": '''
        cur.execute("""
            INSERT INTO daily (day, n) VALUES (%s, %s)
            ON CONFLICT (day) DO UPDATE SET n = GREATEST(daily.n, EXCLUDED.n + 0)
        """, row)
        ''',
    "a table that was rebuilt before": """
        cur.execute("TRUNCATE TABLE totals")
        cur.execute("INSERT INTO totals SELECT * FROM raw")
        cur.execute("UPDATE totals SET n = n * 100")
        conn.commit()
        """,
    "several tables emptied at once": """
        cur.execute("TRUNCATE TABLE a, b, c")
        cur.execute("INSERT INTO c SELECT * FROM raw")
        conn.commit()
        """,
    "a value of a document": """
        col.update_one({"k": 1}, {"$set": {"n": 5}}, upsert=True)
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Each of these is more after every repetition."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """None of these is."""
    compare(CLEAN[name])
