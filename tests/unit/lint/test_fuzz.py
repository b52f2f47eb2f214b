"""Any input: no crash, no hang. Longer: SETPOINT_FUZZ=600 pytest tests/unit/lint/test_fuzz.py"""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from setpoint.lint.analyse import analyse

SECONDS = int(os.environ.get("SETPOINT_FUZZ", "0"))
# fmt: off
WORDS = [
    "df", "spark", "cur", "conn", ".write", ".mode(", '"append"', '"overwrite"', ")", "(", ".execute(",
    "INSERT INTO ", "SELECT ", " FROM ", "t", "{x}", "{", "}", '"""', "'''", '"', "'", "\\", "\n",
    "    ", "f", "%s", "CURRENT_DATE", "now()", "datetime.now()", "uuid.uuid4()", "=", ":", ",", "def f(",
    "class A:", "return ", "for x in ", "if ", "else:", "try:", "except:", "with ", "lambda x: x", "[", "]",
    "DELETE FROM ", "TRUNCATE ", "MERGE INTO ", ";", "--", "/*", "*/", "$$", "{{ ds }}", "{% if x %}", "#",
    ".withColumn(", "F.lit(", ".limit(10)", ".to_sql(", "commit()", "import x", "from x import *", "1", "é",
    "# MAGIC %sql ", "# COMMAND ----------", "%%sql", "*", "**", "@task\n", "PostgresOperator(", "sql=", "self.",
    "# setpoint: ignore[SP104] x", "yield ", "async ", "await ", "match x:\n    case 1:", "x := ", "global x",
]
# fmt: on
PATHS = st.sampled_from(["a.py", "a.sql", "a.ipynb", "models/a.sql"])
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from(WORDS), max_size=60).map("".join),
    st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join),
)
PROGRAMS = st.sampled_from(["# Databricks notebook source\n", "{{ config() }}", ""])


def look(path: str, head: str, text: str) -> None:
    """Findings have a line of the file and a kind; ten seconds are far too long for any of these."""
    started = time.monotonic()
    findings = analyse(path, (head + text).encode(errors="surrogatepass"))
    assert time.monotonic() - started < 10
    lines = (head + text).replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= finding.line <= lines for finding in findings)


def fuzzed(examples: int, number: int) -> None:
    """A batch of inputs; another number gives other ones."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(path=PATHS, head=PROGRAMS, text=TEXTS)
    def inner(path: str, head: str, text: str) -> None:
        look(path, head, text)

    inner()


def test_whatever_is_read_gives_findings_in_time() -> None:
    """The short run: the same inputs each time."""
    fuzzed(60, 0)


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.skipif(not SECONDS, reason="SETPOINT_FUZZ says for how many seconds")
def test_whatever_is_read_for_longer() -> None:
    """The long run: new inputs until the time is over."""
    end = time.monotonic() + SECONDS
    number = 1
    while time.monotonic() < end:
        fuzzed(500, number)
        number += 1


def test_deep_nesting_is_no_crash() -> None:
    """What no person writes is given up, not crashed on."""
    deep = "x = " + "(" * 3000 + ")" * 3000
    chain = "df" + ".withColumn('a', b)" * 2000 + ".write.mode('append').save('x')"
    calls = "\n".join(f"def f{i}(x): return f{i + 1}(x)" for i in range(300)) + "\nf0(1)"
    tower = "\n".join("  " * i + f"if x{i}:" for i in range(90)) + "\n" + "  " * 90 + "pass"
    many = "cur.execute('INSERT INTO t VALUES (1)')\n" * 3000
    for text in (deep, chain, calls, tower, many, "SELECT " + "(" * 5000):
        analyse("a.py", text.encode())
        analyse("a.sql", text.encode())
