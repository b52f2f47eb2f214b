"""kill -9 of a real merge into Iceberg before and after its commit, then one clean command."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from command import MERGES, command, make_project


@pytest.mark.slow
def test_killed_merges_end_like_clean_ones(tmp_path: Path, has_iceberg_connector: bool) -> None:
    """What was killed before its commit runs again, what was killed after it is unchanged."""
    if not has_iceberg_connector:
        if os.environ.get("CI"):
            pytest.fail("the Iceberg connector is not cached: python -m setpoint.spark.setup")
        pytest.skip("the Iceberg connector is not cached: python -m setpoint.spark.setup")
    from pyiceberg.catalog.sql import SqlCatalog

    make_project(tmp_path, MERGES.format(kind="iceberg", target='iceberg("sales.orders")'))
    for window, fault in (("2026-04-02", "committed:kill"), ("2026-04-03", "audited:kill")):
        killed = command(tmp_path, "run", "job", "--window", window, fault=fault)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    both = command(tmp_path, "run", "job", "--window", "2026-04-02..2026-04-03")
    assert both.returncode == 0, both.stderr
    assert "unchanged  job[2026-04-02]" in both.stdout
    assert "published  job[2026-04-03]" in both.stdout
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/warehouse/_catalog.sqlite")
    found = catalog.load_table("sales.orders").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["at"]) for row in found) == [(0, 3), (1, 3)]
    assert command(tmp_path, "recover", "--clean", "--yes").returncode == 0
    assert "Nothing to recover" in command(tmp_path, "recover").stdout
