"""kill -9 of a real merge into PostgreSQL around its commit, then one clean command."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import psycopg
import pytest
from command import MERGES, command, make_project


@pytest.mark.slow
def test_killed_merges_end_like_clean_ones(tmp_path: Path, postgres_url: str) -> None:
    """What was killed before its commit runs again, what was killed after it is unchanged."""
    target = 'postgres("killed_orders", connection="shop")'
    make_project(tmp_path, MERGES.format(kind="postgres", target=target))
    setpoint = partial(command, tmp_path, SETPOINT_CONNECTION_SHOP=postgres_url)
    for window, fault in (("2026-04-02", "committed:kill"), ("2026-04-03", "audited:kill")):
        killed = setpoint("run", "job", "--window", window, fault=fault)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    both = setpoint("run", "job", "--window", "2026-04-02..2026-04-03")
    assert both.returncode == 0, both.stderr
    assert "unchanged  job[2026-04-02]" in both.stdout
    assert "published  job[2026-04-03]" in both.stdout
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT id, at FROM killed_orders ORDER BY id").fetchall()
        assert found == [(0, 3), (1, 3)]
        told = connection.execute(
            'SELECT "window", generation FROM setpoint.receipts WHERE target LIKE %s ORDER BY 1',
            ["%killed_orders%"],
        ).fetchall()
        assert told == [("2026-04-02", 1), ("2026-04-03", 1)]
    cleaned = setpoint("recover", "--clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "Nothing to recover" in setpoint("recover").stdout
