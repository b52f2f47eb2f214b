"""`check` and `keys` on tables that go by a name."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest

from setpoint.cli.main import main
from setpoint.project.config import find_config
from setpoint.project.wiring import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGED = """
from pyspark.sql import DataFrame
from setpoint import Merge, Window, delta, pipeline, postgres, source

@pipeline(
    every="incremental",
    target=postgres("shop.orders"),
    write=Merge(key=("order_id", "line"), sequence_by="at"),
)
def merged(
    window: Window, raw: DataFrame = source(delta("lake"), cursor="at")
) -> DataFrame:
    return raw
"""


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    body = json.loads(capsys.readouterr().out)
    assert "data" in body, body
    return code, body


def orders(*days: int) -> pa.Table:
    """Three orders a day, with the same ids every day."""
    return pa.table(
        {
            "order_id": [n for _ in days for n in range(3)],
            "d": [dt.date(2026, 4, day) for day in days for _ in range(3)],
        }
    )


@pytest.fixture
def iceberg_orders(project_dir: Path) -> Any:
    with Project(find_config(project_dir)) as project:
        name, settings = project.adapters.catalogued("sales.orders")
    catalog = settings.open()
    catalog.create_namespace("sales")
    table = catalog.create_table(name.identifier, orders(25).schema)
    with table.update_spec() as spec:
        spec.add_identity("d")
    return table


def test_an_iceberg_table(
    spark: SparkSession, iceberg_orders: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Duplicates are found in the newest snapshot, windows are told by partitions."""
    iceberg_orders.append(orders(25, 26))
    words = ("check", "iceberg:sales.orders", "--key", "order_id,d", "--every", "day")
    code, body = answer(capsys, *words)
    assert (code, body["data"]["rows"], body["data"]["findings"]) == (0, 6, [])
    iceberg_orders.append(orders(26))
    code, body = answer(capsys, *words)
    data = body["data"]
    assert (code, data["kind"], data["rows"], data["partitioned_by"]) == (
        1,
        "iceberg",
        9,
        "d (day)",
    )
    assert [window["rows"] for window in data["windows"]] == [3, 6]
    assert [finding["kind"] for finding in data["findings"]] == ["duplicates"]
    code, body = answer(capsys, "keys", "iceberg:lake.sales.orders", "--time", "d")
    assert (code, body["data"]["keys"], body["data"]["rows"]) == (0, [], 9)
    assert main(["keys", "iceberg:sales.orders"]) == 0
    assert capsys.readouterr().out.startswith("iceberg:sales.orders  Iceberg version ")


def test_rows_that_an_iceberg_table_deletes_are_not_counted(
    spark: SparkSession, iceberg_orders: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Delete files take rows away; what counts is what a reader sees."""
    from setpoint.targets.iceberg.reader import reader

    iceberg_orders.append(orders(25, 25))
    with Project(find_config(Path())) as project:
        name, settings = project.adapters.catalogued("sales.orders")
    own = reader(spark, settings, name)
    own.sql(f"ALTER TABLE {name.sql} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    own.sql(f"DELETE FROM {name.sql} WHERE order_id = 1")
    code, body = answer(
        capsys, "check", "iceberg:sales.orders", "--key", "order_id", "--time", "d",
        "--every", "day",
    )  # fmt: skip
    assert (code, body["data"]["rows"]) == (1, 4)


def test_a_table_of_the_metastore(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that Spark knows by name is looked at through Spark, with its partitions."""
    spark.sql("CREATE DATABASE IF NOT EXISTS looked_at")
    spark.sql("DROP TABLE IF EXISTS looked_at.`order`")
    spark.sql(
        "CREATE TABLE looked_at.`order` (order_id BIGINT, d DATE) USING parquet PARTITIONED BY (d)"
    )
    spark.createDataFrame(orders(25, 26, 26).to_pandas()).write.insertInto("looked_at.`order`")
    table = "table:looked_at.`order`"
    code, body = answer(capsys, "check", table, "--key", "order_id,d", "--every", "day")
    data = body["data"]
    assert (code, data["rows"], data["files"], data["partitioned_by"]) == (1, 9, 2, "d (day)")
    assert [finding["kind"] for finding in data["findings"]] == ["duplicates"]
    assert main(["check", table, "--key", "order_id,d"]) == 1
    assert "in Spark's catalog, 9 rows, 2 partitions" in capsys.readouterr().out
    assert main(["check", "table:looked_at.nothing", "--key", "a"]) == 2
    assert "SP-R01" in capsys.readouterr().err


def test_a_delta_table_of_the_catalog(
    spark: SparkSession, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its catalog lists partitions by value, not as texts."""
    spark.sql("CREATE DATABASE IF NOT EXISTS looked_at")
    spark.sql("DROP TABLE IF EXISTS looked_at.deltas")
    spark.sql("CREATE TABLE looked_at.deltas (id INT, d DATE) USING delta PARTITIONED BY (d)")
    spark.sql("INSERT INTO looked_at.deltas VALUES (1, '2026-04-25'), (1, '2026-04-26')")
    code, body = answer(capsys, "check", "table:looked_at.deltas", "--key", "id", "--every", "day")
    data = body["data"]
    assert (code, data["rows"], data["files"], data["partitioned_by"]) == (1, 2, 2, "d (day)")
    assert main(["check", "table:looked_at.deltas; DROP TABLE x", "--key", "id"]) == 3
    assert "Nothing was written; the table is unchanged." in capsys.readouterr().err


@pytest.fixture
def shop(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SETPOINT_CONNECTION_POSTGRES", postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop")
        connection.execute(
            """CREATE TABLE shop.orders (order_id int, line smallint, price numeric,
            tax numeric(10, 2), at timestamptz, until date, "tag;s" text[], extra jsonb,
            raw bytea)"""
        )
        connection.execute(
            """INSERT INTO shop.orders
            SELECT n / 2, n % 2, n / 2 * 1.10, 7, '2026-04-25Z'::timestamptz
            + n / 2 * interval '1 hour', 'infinity', ARRAY['a', NULL], '{"a": 1}', '\\x00'
            FROM generate_series(0, 99) AS n"""
        )
        yield connection


def test_a_postgres_table(
    spark: SparkSession, project_dir: Path, shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values of every type are compared as the server compares them."""
    words = ("postgres:shop.orders", "--key", "order_id,line")
    code, body = answer(capsys, "check", *words, "--time", "at", "--every", "day")
    assert (code, body["data"]["rows"], body["data"]["kind"]) == (0, 100, "postgres")
    assert len(body["data"]["windows"]) == 3
    # The same number in another spelling, and a date that has no end, are values like others.
    shop.execute("UPDATE shop.orders SET price = 1.1000 WHERE order_id = 0 AND line = 0")
    words = ("check", "postgres:postgres/shop.orders", "--key", "price,line,until")
    code, body = answer(capsys, *words)
    (finding,) = body["data"]["findings"]
    assert (code, finding["kind"], finding["surplus_rows"]) == (1, "duplicates", 1)
    code, body = answer(capsys, "keys", "postgres:shop.orders")
    assert body["data"]["rows"] == 100
    assert {"order_id", "line"} in [set(key["columns"]) for key in body["data"]["keys"]]
    columns = {column["name"]: column for column in body["data"]["columns"]}
    assert {column["nulls"] for column in columns.values()} == {0}
    assert [columns[name]["type"] for name in ("order_id", "line", "tax", "at", "until")] == [
        "int",
        "smallint",
        "decimal(10,2)",
        "timestamp",
        "date",
    ]
    assert main(["check", "postgres:shop.nothing", "--key", "a"]) == 2
    assert "SP-R01" in capsys.readouterr().err


def test_the_key_that_a_pipeline_chose(
    spark: SparkSession, project_dir: Path, shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline that goes by key is asked about that key."""
    Path("setpoint.toml").write_text("")
    Path("pipelines").mkdir()
    Path("pipelines/merged.py").write_text(MERGED)
    code, body = answer(capsys, "keys", "merged")
    assert (code, body["data"]["key"]["columns"]) == (0, ["order_id", "line"])
    shop.execute("UPDATE shop.orders SET line = 0")
    code, body = answer(capsys, "keys", "merged")
    assert (code, body["data"]["key"]["surplus"]) == (1, 50)
    code, body = answer(capsys, "check", "merged")
    (finding,) = body["data"]["findings"]
    assert (code, finding["kind"]) == (1, "duplicates")
