"""SP104 and its neighbours with the clients of other stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FOUND = {
    "polars into a database": """
        df.write_database("t", uri, if_table_exists="append")  # error: append-write
        """,
    "a file of polars": """
        import datetime
        df.write_parquet(f"out/{datetime.date.today()}.parquet")  # error: wall-clock
        """,
    "Iceberg from Python": """
        from pyiceberg.catalog import load_catalog
        load_catalog("x").load_table("a.b").append(df)  # error: append-write
        """,
    "dlt": """
        pipeline.run(rows, table_name="t", write_disposition="append")  # error: append-write
        """,
    "ClickHouse": """
        client.insert("t", rows, column_names=["a"])  # error: append-write
        """,
    "Supabase": """
        client.table("t").insert(rows).execute()  # error: append-write
        """,
    "a worksheet": """
        sheet.append_rows(rows)  # error: append-write
        """,
    "a document without an id": """
        es.index(index="i", document=row)  # error: append-write
        """,
    "Django, one by one and at once": """
        for row in fetch():
            Trade.objects.create(v=row)  # error: append-write
        Trade.objects.bulk_create(rows)  # error: append-write
        """,
    "LOAD DATA": """
        cur.execute("LOAD DATA LOCAL INFILE 'a b.csv' INTO TABLE t")  # error: append-write
        """,
    "some rows of a frame": """
        import pandas as pd
        df = pd.read_csv("a.csv").sample(100)  # error: unordered-pick
        df.to_sql("t", engine, if_exists="replace")
        """,
    "a column that compares with the clock": """
        import numpy as np, pandas as pd
        df = pd.read_csv("a.csv")
        df["state"] = np.where(df["due"] < pd.Timestamp.now(), "late", "ok")  # error: wall-clock
        df.to_sql("t", engine, if_exists="replace")
        """,
}

CLEAN = {
    "by a key": """
        client.table("t").upsert(rows).execute()
        es.index(index="i", id=row["id"], document=row)
        Trade.objects.bulk_create(rows, ignore_conflicts=True)
        Trade.objects.update_or_create(id=1, defaults={})
        cur.execute("LOAD DATA INFILE 'a.csv' REPLACE INTO TABLE t")
        """,
    "Django, after the old ones were deleted": """
        Trade.objects.filter(day=day).delete()
        Trade.objects.bulk_create(rows)
        """,
    "in memory": """
        rows.append(1)
        items.insert(0, row)
        df.index(index=1)
        """,
    "a seed, and all rows in another order": """
        import pandas as pd
        df = pd.read_csv("a.csv")
        df.sample(100, random_state=1).to_sql("t", engine, if_exists="replace")
        df.sample(frac=1).to_sql("u", engine, if_exists="replace")
        """,
}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, compare: Callable[..., None]) -> None:
    """Each of these differs after a repetition."""
    compare(FOUND[name])


@pytest.mark.parametrize("name", CLEAN)
def test_a_look_alike_is_silent(name: str, compare: Callable[..., None]) -> None:
    """None of these does."""
    compare(CLEAN[name])
