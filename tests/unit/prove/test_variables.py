"""Variables that code reads are found by their names, however they are asked for."""

from __future__ import annotations

from pathlib import Path

from setpoint.prove.variables import read_by

CODE = """
import os
from os import environ, getenv
A = os.environ["ONE"]
B = os.environ.get("TWO", "x")
def function():
    return os.getenv("THREE"), environ["FOUR"], getenv("FIVE"), environ.pop("SIX", None)
C = {"SEVEN": 7}.get("SEVEN")
D = os.environ["PATH"], os.environ["SPARK_HOME"], os.environ[A]
"""


def test_variables_are_found_by_name(tmp_path: Path) -> None:
    """Every way to read one counts; what a process cannot do without is left alone."""
    file = tmp_path / "job.py"
    file.write_text(CODE)
    found = read_by(str(file), tmp_path)
    assert found == ("FIVE", "FOUR", "ONE", "SIX", "THREE", "TWO")


def test_a_file_that_cannot_be_read_has_none(tmp_path: Path) -> None:
    """The search helps a proof and never stands in its way."""
    assert read_by(str(tmp_path / "none.py"), tmp_path) == ()
    assert read_by("", tmp_path) == ()
