"""The measurements refuse what they cannot measure before they start."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

BACKFILL = Path(__file__).parents[2] / "bench" / "backfill.py"


@pytest.mark.parametrize(
    ("tool", "python", "told"),
    [
        ("dbt", "bin/python", "dbt-core is not installed there"),
        ("sqlmesh", "bin/python", "sqlmesh is not installed there"),
        ("dbt", "bin/none", "No such file or directory"),
        ("sqlmesh", "/bin/true", "this is no Python"),
    ],
)
def test_an_environment_without_the_tool_is_refused_in_one_line(
    tmp_path: Path, tool: str, python: str, told: str
) -> None:
    """`backfill.py --dbt PYTHON` ends with 2 and says what is missing; nothing is measured."""
    venv.create(tmp_path, symlinks=True)
    answer = subprocess.run(
        [sys.executable, BACKFILL, f"--{tool}", str(tmp_path / python)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"--{tool} {tmp_path / python}: {told}")
