"""Every kind of file: notebooks, Databricks sources, SQL scripts, dbt models, broken files."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from setpoint.lint.analyse import analyse

DATABRICKS = """
# Databricks notebook source
# MAGIC %md
# MAGIC INSERT INTO prose SELECT 1

# COMMAND ----------

df = spark.table("raw.orders")
df.createOrReplaceTempView("orders")

# COMMAND ----------

# MAGIC %sql
# MAGIC INSERT INTO mart.orders  -- error: append-write
# MAGIC SELECT *,
# MAGIC        current_date() AS report_date  -- error: wall-clock
# MAGIC FROM orders

# COMMAND ----------

# MAGIC %sql
# MAGIC COPY INTO bronze FROM 'dbfs:/files' FILEFORMAT = CSV

# COMMAND ----------

df.write.mode("append").saveAsTable("mart.copy")  # error: append-write
"""

DATABRICKS_SQL = """
-- Databricks notebook source
INSERT INTO mart.orders SELECT * FROM staging  -- error: append-write

-- COMMAND ----------

-- MAGIC %python
-- MAGIC df = spark.table("x")
-- MAGIC df.write.mode("append").saveAsTable("y")
"""


def test_a_databricks_notebook(compare: Callable[..., None]) -> None:
    """SQL cells run where they stand, prose does not run, lines are those of the file."""
    compare(DATABRICKS, "notebook.py")


def test_a_databricks_notebook_in_sql() -> None:
    """A notebook whose language is SQL may hold Python."""
    found = {(f.line, f.kind) for f in analyse("notebook.sql", DATABRICKS_SQL.lstrip().encode())}
    assert found == {(2, "append-write"), (8, "append-write")}


def test_a_jupyter_notebook() -> None:
    """Findings are on the lines of the notebook's own file, magics do not disturb."""
    cells = [
        {"cell_type": "markdown", "source": ["INSERT INTO prose SELECT 1"]},
        {
            "cell_type": "code",
            "source": ["%load_ext sql\n", "!pip install x\n", "df = spark.table('a')"],
        },
        {"cell_type": "code", "source": ["%%sql\n", "INSERT INTO mart SELECT * FROM staging"]},
        {
            "cell_type": "code",
            "source": ["(\n", "  df.write.mode('append')\n", "  .saveAsTable('t')\n", ")"],
        },
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1)
    lines = text.split("\n")
    found = [(f.kind, lines[f.line - 1].strip()) for f in analyse("n.ipynb", text.encode())]
    assert found == [
        ("append-write", '"INSERT INTO mart SELECT * FROM staging"'),
        ("append-write", "\"  df.write.mode('append')\\n\","),
    ]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"cells": 3}', b'{"cells": [{}]}']
)
def test_a_notebook_that_is_none(content: bytes) -> None:
    """Anything else under that name is told, or empty; it is no crash."""
    assert {f.kind for f in analyse("n.ipynb", content)} <= {"unreadable-part"}


SCRIPTS = {
    "a script": """
        INSERT INTO mart.daily (day, total)  -- error: append-write
        SELECT CURRENT_DATE, SUM(amount) FROM raw.orders;  -- error: wall-clock
        """,
    "who runs a script is not known": """
        DELETE FROM mart.daily WHERE day = :day;
        INSERT INTO mart.daily SELECT * FROM raw.orders WHERE day = :day;
        """,
    "rows of constants are only told": """
        INSERT INTO stages (name) VALUES ('bronze');  -- info: append-write
        """,
    "a table of runs": """
        INSERT INTO etl.runs (name, started, status) VALUES (@name, GETDATE(), 'STARTED');
        UPDATE etl.runs SET ended = GETDATE() WHERE id = @id;
        """,
    "no semicolons": """
        DECLARE @t TABLE (id int)
        INSERT INTO @t SELECT id FROM raw.orders
        DELETE FROM mart.daily WHERE day = @day
        INSERT INTO mart.other SELECT * FROM @t  -- error: append-write
        """,
    "a table is made": """
        DROP TABLE IF EXISTS mart.daily;
        CREATE TABLE mart.daily (id int);
        INSERT INTO mart.daily SELECT * FROM raw.orders;
        """,
    "a view is asked later": """
        CREATE OR REPLACE VIEW recent AS SELECT * FROM orders WHERE d > CURRENT_DATE - 7;
        """,
    "a function is asked later": """
        CREATE OR REPLACE FUNCTION recent(days INT) RETURNS TABLE
        RETURN SELECT * FROM orders WHERE d > CURRENT_DATE - days;
        """,
    "a procedure runs": """
        CREATE PROCEDURE load() LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO mart.daily SELECT * FROM raw.orders;  -- error: append-write
        END $$;
        """,
    "a block that looks first": """
        IF NOT EXISTS (SELECT 1 FROM mart.config)
        BEGIN
            INSERT INTO mart.config VALUES (1)
        END
        """,
    "COPY INTO remembers its files": """
        COPY INTO raw.orders FROM @stage FILE_FORMAT = (TYPE = CSV);
        """,
    "COPY INTO that forgets": """
        COPY INTO raw.orders FROM @stage FORCE = TRUE;  -- error: append-write
        """,
    "COPY": """
        COPY raw.orders FROM 's3://bucket/orders' IAM_ROLE 'x' CSV;  -- error: append-write
        """,
    "a merge on a false condition": """
        MERGE INTO silver.t USING s ON 1 = 2  -- error: append-write
        WHEN NOT MATCHED THEN INSERT *;
        """,
    "a dialect": """
        INSERT INTO dbo.Daily (ReportDate) SELECT GETDATE() FROM dbo.Orders  -- error: append-write, wall-clock
        """,
    "what does not parse": """
        INSERT INTO mart.daily SELECT ???? FROM WHERE )(  -- error: append-write
        """,
    "a variable that holds the clock": """
        CREATE PROCEDURE load IS v_day DATE;
        BEGIN
            v_day := SYSDATE - 1;  -- error: wall-clock
            MERGE INTO daily d USING (SELECT v_day AS day, id FROM src) s ON (d.id = s.id)
            WHEN MATCHED THEN UPDATE SET d.day = s.day;
        END;
        """,
    "rows that are moved in one transaction": """
        BEGIN;
        INSERT INTO gone SELECT * FROM orders WHERE closed;
        DELETE FROM orders WHERE closed;
        COMMIT;
        """,
    "a variable that holds a random value": """
        SET @batch = uuid();  -- error: random-id
        DELETE FROM report;
        INSERT INTO report (country, batch) SELECT country, @batch FROM events;
        """,
    "a variable that stands in for a parameter": """
        CREATE PROCEDURE load @day DATE = NULL AS BEGIN
            IF @day IS NULL SET @day = GETDATE();
            UPDATE t SET day = @day WHERE open = 1;
        END
        """,
    "rows that a table variable has compared with the target": """
        DECLARE @cur TABLE (id INT);
        INSERT INTO @cur SELECT id FROM dim WHERE is_current = 1;
        INSERT INTO dim (id) SELECT s.id FROM stage s LEFT JOIN @cur c ON c.id = s.id WHERE c.id IS NULL;
        """,
    "a table called temporary that other scripts read": """
        insert into mart.tmp_recency  -- error: append-write
        select id, current_date as etl_start_date from orders;  -- error: wall-clock
        """,
    "a temporary table of the script": """
        create table mart.tmp_recency (id int);
        insert into mart.tmp_recency select id from orders;
        drop table mart.tmp_recency;
        """,
    "tables without a name": """
        INSERT INTO {}  -- error: append-write
        SELECT p.city FROM {} AS p INNER JOIN {} AS w ON p.city = w.city;
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_sql_scripts(name: str, compare: Callable[..., None]) -> None:
    """SQL files, in whatever dialect."""
    compare(SCRIPTS[name], "script.sql")


MODELS = {
    "incremental without a key": """
        {{ config(
            materialized='incremental'  -- error: append-write
        ) }}
        SELECT * FROM {{ ref('orders') }}
        {% if is_incremental() %} WHERE at > (SELECT max(at) FROM {{ this }}) {% endif %}
        """,
    "incremental with a key": """
        {{ config(materialized='incremental', unique_key='id') }}
        SELECT * FROM {{ ref('orders') }}
        """,
    "incremental by partitions": """
        {{ config(materialized='incremental', incremental_strategy='insert_overwrite') }}
        SELECT * FROM {{ ref('orders') }}
        """,
    "the clock decides": """
        {{ config(materialized='table') }}
        SELECT *,
            current_timestamp AS loaded_at,  -- info: wall-clock
            current_date AS report_date  -- error: wall-clock
        FROM {{ source('shop', 'orders') }}
        WHERE order_date >= current_date - 30  -- error: relative-now-read
        """,
    "the end of the data": """
        {{ config(materialized='table') }}
        SELECT * FROM {{ ref('orders') }} WHERE order_date < current_date  -- info: relative-now-read
        """,
    "a view": """
        {{ config(materialized='view') }}
        SELECT * FROM {{ ref('orders') }} WHERE order_date >= current_date - 30
        """,
    "a macro": """
        {% macro recent(model) %}
        SELECT * FROM {{ model }} WHERE d >= current_date - 30
        {% endmacro %}
        """,
    "a macro in the place of joins": """
        {{ config(materialized='table') }}
        SELECT o.* FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY id) AS n  -- error: unordered-pick
            FROM {{ ref('orders') }}
        ) o
        {{ with_customer("o") }}
        WHERE o.n = 1
        """,
    "a clock where a dialect expects a unit": """
        {{ config(materialized='incremental', unique_key='id') }}
        SELECT * FROM {{ ref('orders') }}
        WHERE at >= date_add('day', -2, current_timestamp)  -- error: relative-now-read
        """,
    "settings as a dictionary": """
        {{ config({"materialized": "incremental", "unique_key": "k"}) }}
        select current_date as date_at, id from {{ ref('s') }}  -- error: wall-clock
        """,
}


@pytest.mark.parametrize("name", MODELS)
def test_dbt_models(name: str, compare: Callable[..., None]) -> None:
    """Jinja is masked, and a model's query is what gets stored."""
    compare(MODELS[name], "models/model.sql")


def test_the_first_filling_of_a_database_is_only_told() -> None:
    """A file that calls itself so is run once."""
    text = b"INSERT INTO orders (id, order_date) SELECT id, NOW() FROM staging;"
    assert {f.severity for f in analyse("docker/init.sql", text)} == {"info"}
    assert {f.severity for f in analyse("jobs/load.sql", text)} == {"error"}


def test_what_an_application_inserts_a_request_asked_for() -> None:
    """One row at a time, from a folder of database access, is only told."""
    text = b"def create(conn, user):\n    conn.execute('INSERT INTO users (id) VALUES (%s)', (user,))\n"
    assert {f.severity for f in analyse("app/db/users.py", text)} == {"info"}
    assert {f.severity for f in analyse("jobs/users.py", text)} == {"error"}


def test_makers_of_test_data_mean_to() -> None:
    """Random values of a generator are only told."""
    text = b"import uuid\ndf['id'] = uuid.uuid4()\ndf.to_parquet('x.parquet')\n"
    assert {f.severity for f in analyse("mock/data.py", text)} == {"info"}
    assert {f.severity for f in analyse("jobs/load.py", text)} == {"error"}


def test_the_readable_part_of_a_broken_file() -> None:
    """A syntax error costs its own lines, not the file."""
    text = (
        "import pandas as pd\n"
        "print 'python 2'\n"
        "def load(df):\n"
        "    df.to_sql('t', e, if_exists='append')\n"
        "type X = int\n"
        "def other(:\n"
        "    pass\n"
        "df.write.mode('append').saveAsTable('u')\n"
    )
    found = {(f.line, f.kind) for f in analyse("job.py", text.encode())}
    assert {(4, "append-write"), (8, "append-write")} <= found
    assert any(kind == "unreadable-part" for _, kind in found)


def test_strings_over_several_lines_point_at_the_right_one() -> None:
    """Continuations, concatenations, escapes and holes do not move a finding."""
    text = (
        "table = 'x'\n"
        "cur.execute(\n"
        '    f"""\\\n'
        "    SELECT {table}; -- é ü\n"
        "    \tINSERT INTO {table}_copy SELECT * FROM {\n"
        "    table\n"
        '    }"""\n'
        ")\n"
        "cur.execute(\n"
        "    'SELECT 1;'  # a comment\n"
        "    ' INSERT INTO y SELECT 1'\n"
        ")\n"
    )
    assert [f.line for f in analyse("job.py", text.encode())] == [5, 11]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00", "é".encode("latin-1"), b"\r\r\n"])
def test_bytes_that_are_no_text(content: bytes) -> None:
    """Foreign encodings are read as far as possible."""
    analyse("job.py", content)
    analyse("job.sql", content)


def test_a_long_broken_file_costs_in_proportion() -> None:
    """Every line is broken, each is tried again, and the last one still has its number."""
    text = "x = = 1\n" * 1_000 + 'df.write.mode("append").save("p")\n'
    found = {(f.line, f.kind) for f in analyse("job.py", text.encode())}
    assert (1_001, "append-write") in found


def test_a_binary_file_is_not_read_line_by_line() -> None:
    content = (b"a\0b = (\n" * 20_000) + b'df.write.mode("append").save("p")\n'
    assert {f.kind for f in analyse("job.py", content)} == {"unreadable-part"}


def test_a_script_in_utf_16() -> None:
    text = "INSERT INTO mart.daily\r\nSELECT * FROM raw.orders;\r\n"
    assert [(f.line, f.kind) for f in analyse("job.sql", text.encode("utf-16"))] == [
        (1, "append-write")
    ]


def test_a_cell_that_is_one_string_stands_on_its_line() -> None:
    """Some tools write each cell of a notebook as one string."""
    cells = [
        {"cell_type": "code", "source": "x = 1\ny = 2"},
        {"cell_type": "code", "source": 'df = 1\ndf.write.mode("append").saveAsTable("t")'},
    ]
    text = json.dumps({"cells": cells}, indent=1)
    wanted = next(n for n, line in enumerate(text.split("\n"), 1) if "append" in line)
    found = {(f.line, f.kind) for f in analyse("a.ipynb", text.encode())}
    assert found == {(wanted, "append-write")}
