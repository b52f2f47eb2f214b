"""Errors of others in one line: the line that says what is wrong."""

from __future__ import annotations

from pyspark.errors import AnalysisException

from setpoint.errors import words_of


def test_an_error_of_java_says_what_java_said() -> None:
    """Not which call it came through, and not where."""
    text = (
        "An error occurred while calling o93.load.\n"
        ": java.lang.ClassNotFoundException: Failed to find the data source: delta\n"
        "\tat org.apache.spark.sql.DataSource.lookup(DataSource.scala:1)\n"
    )
    said = words_of(RuntimeError(text))
    assert said.endswith("ClassNotFoundException: Failed to find the data source: delta")
    assert words_of(ValueError("two are wrong:\n  a\n\n  b")) == "ValueError: two are wrong: a b"
    assert words_of(AnalysisException("no column a\n'Project [a]")).endswith(": no column a")
