"""The pytest plugin is loaded by every pytest of an environment: it costs nothing until used."""

from __future__ import annotations

import subprocess
import sys

from setpoint.prove.experiments import EXPERIMENTS, IN_TESTS


def test_loading_the_plugin_loads_nothing_else_of_ours() -> None:
    script = (
        "import sys, setpoint.pytest_plugin;"
        "print(*[name for name in sys.modules if name.startswith(('setpoint', 'pyspark'))])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["setpoint", "setpoint.pytest_plugin"]


def test_tests_try_the_quick_experiments_that_need_no_process() -> None:
    """What a test tries by default; the others cost a Spark each, and are named if wanted."""
    assert IN_TESTS == (
        "writes",
        "plan",
        "twice",
        "forced",
        "failures",
        "lost-answer",
        "neighbours",
        "order",
        "chunk",
        "parallelism",
    )
    assert {name for name in EXPERIMENTS if name not in IN_TESTS} == {
        "thrice",
        "killed",
        "task-failures",
        "speculation",
        "two-at-once",
        "late-rows",
        "surroundings",
    }
