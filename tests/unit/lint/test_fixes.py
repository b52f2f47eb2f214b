"""Repairs: what they make of a program, and that the finding is gone afterwards."""

from __future__ import annotations

import textwrap

import pytest

from setpoint.lint.analyse import analyse
from setpoint.lint.fixes import difference, fixes, repaired

SAFE = {
    "dynamic overwrite": (
        """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            (
                df.write.partitionBy("d")
                .mode("overwrite")
                .parquet("out")
            )
        """,
        """
        def load(day):
            df = spark.table("raw").filter(f"d = '{day}'")
            (
                df.write.partitionBy("d")
                .mode("overwrite").option("partitionOverwriteMode", "dynamic")
                .parquet("out")
            )
        """,
    ),
    "the logical date": (
        """
        from datetime import datetime
        def load(logical_date, **context):
            spark.table("é").write.mode("overwrite").parquet(f"out/{datetime.now():%Y}")
        """,
        """
        from datetime import datetime
        def load(logical_date, **context):
            spark.table("é").write.mode("overwrite").parquet(f"out/{logical_date:%Y}")
        """,
    ),
    "SQL that Airflow renders": (
        """
        load = PostgresOperator(
            task_id="load",
            sql="DELETE FROM t; INSERT INTO t (report_date) SELECT CURRENT_DATE FROM s",
        )
        """,
        """
        load = PostgresOperator(
            task_id="load",
            sql="DELETE FROM t; INSERT INTO t (report_date) SELECT CAST('{{ ds }}' AS DATE) FROM s",
        )
        """,
    ),
}
UNSAFE = {
    "a key from the row's other keys": (
        """
        import uuid
        rows = [{"key": str(uuid.uuid4()), "order_id": o["id"]} for o in orders]
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
        """
        import uuid
        rows = [{"key": str(uuid.uuid5(uuid.NAMESPACE_OID, repr((o['id'],)))), "order_id": o["id"]} for o in orders]
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    ),
}
NONE = {
    "no parameter to use": """
        from datetime import datetime
        def load(df):
            df.write.mode("overwrite").parquet(f"out/{datetime.now():%Y}")
        """,
    "an f-string has braces of its own": """
        load = PostgresOperator(
            task_id="load",
            sql=f"DELETE FROM {t}; INSERT INTO {t} (report_date) SELECT CURRENT_DATE FROM s",
        )
        """,
    "no other keys": """
        import uuid
        rows = [{"key": str(uuid.uuid4()), "name": o["name"]} for o in orders]
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable("t")
        """,
    "an append needs a decision": 'df.write.mode("append").saveAsTable("t")\n',
}


def plain(text: str) -> bytes:
    return textwrap.dedent(text).lstrip("\n").encode()


@pytest.mark.parametrize("name", [*SAFE, *UNSAFE])
def test_a_repair(name: str) -> None:
    """It changes just that, and the finding is gone."""
    before, after = (plain(text) for text in {**SAFE, **UNSAFE}[name])
    findings = analyse("job.py", before)
    found = [fix for _, fix in fixes("job.py", before, findings)]
    assert {fix.safe for fix in found} == {name in SAFE}
    made = repaired(before, (edit for fix in found for edit in fix.edits))
    assert made.decode() == after.decode()
    assert [f for f in analyse("job.py", made) if f.severity == "error"] == []


@pytest.mark.parametrize("name", NONE)
def test_what_cannot_be_repaired_stays(name: str) -> None:
    """No fix is better than a wrong one."""
    content = plain(NONE[name])
    assert list(fixes("job.py", content, analyse("job.py", content))) == []


def test_a_repair_as_a_diff() -> None:
    """A unified diff with the file's path."""
    lines = list(difference("job.py", b"a\nb\n", b"a\nc\n"))
    assert lines[:2] == ["--- a/job.py", "+++ b/job.py"]
    assert lines[-2:] == ["-b", "+c"]


def _mended(content: bytes) -> bytes:
    found = list(fixes("job.py", content, analyse("job.py", content)))
    return repaired(content, (edit for _, fix in found for edit in fix.edits))


@pytest.mark.parametrize("odd", ["\f", "# \u2028 \x0b \x85\n", "# one\r\n", "# one\r", "\ufeff"])
def test_odd_ends_of_lines_do_not_move_a_repair(odd: str) -> None:
    before, after = (textwrap.dedent(text).lstrip() for text in SAFE["the logical date"])
    assert _mended((odd + before).encode()) == (odd + after).encode()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_in_another_encoding_is_left_alone(encoding: str) -> None:
    content = textwrap.dedent(SAFE["the logical date"][0]).encode(encoding)
    found = analyse("job.py", content)
    assert found
    assert not list(fixes("job.py", content, found))
