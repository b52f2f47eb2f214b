"""The pytest plugin: a fast session for all tests, and a sandbox for each.

It is loaded by every pytest in an environment that has setpoint, so it imports nothing until a
fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from setpoint.testing import SandboxProject


@pytest.fixture(scope="session")
def setpoint_spark() -> Iterator[SparkSession]:
    """The Spark session of all tests: the one that is there, or a fast local one."""
    from setpoint.spark.fast import fast_session

    with fast_session() as session:
        yield session


@pytest.fixture
def setpoint_sandbox(setpoint_spark: SparkSession, tmp_path: Path) -> Iterator[SandboxProject]:
    """A project folder of the test's own, with `run`, `rows` and `prove`."""
    from setpoint.testing import SandboxProject

    root = tmp_path / "project"
    root.mkdir(exist_ok=True)
    with SandboxProject.at(root, spark=setpoint_spark) as project:
        yield project
