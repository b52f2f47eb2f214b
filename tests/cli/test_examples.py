"""The examples do what their pages say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from setpoint.cli.main import main
from setpoint.spark.launch import archive_path

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> Path:
    """A copy of an example, as the current folder."""
    folder = tmp_path / request.param
    ignored = shutil.ignore_patterns("lake", "inbox", "warehouse", "landing", "work", ".setpoint")
    shutil.copytree(EXAMPLES / request.param, folder, ignore=ignored)
    monkeypatch.chdir(folder)
    return folder


def script(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, timeout=120)


def told(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a command answers to a program."""
    capfd.readouterr()
    assert main([*words, "--json"]) == 0
    *events, answer = capfd.readouterr().out.splitlines()
    assert all("event" in json.loads(event) for event in events)
    data: dict[str, Any] = json.loads(answer)["data"]
    return data


def states(data: dict[str, Any]) -> dict[str, str]:
    return {item["window"]: item["state"] for item in data["windows"]}


@pytest.mark.parametrize("example", ["orders"], indirect=True)
def test_orders(example: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Late orders make their day stale; a backfill of what is stale publishes that day alone."""
    script("make_data.py")
    name, days = "daily_customer_summary", "2026-04-24..2026-04-26"
    assert set(states(told(capfd, "run", name, "--window", days)).values()) == {"published"}
    assert set(states(told(capfd, "run", name, "--window", days)).values()) == {"unchanged"}
    script("make_data.py", "--late")
    planned = told(capfd, "backfill", name, "--only", "stale", "--dry-run")
    chosen = {w["window"]: w["reason"] for w in planned["windows"] if w["action"] == "run"}
    assert chosen == {"2026-04-25": "the input orders (rows: +10) changed"}
    done = states(told(capfd, "backfill", name, "--only", "stale"))
    assert done == {"2026-04-25": "published"}
    assert told(capfd, "backfill", name, "--window", days, "--dry-run")["only"] == [
        "missing",
        "failed",
    ]
    table = DeltaTable(str(example / "warehouse" / name)).to_pyarrow_dataset().to_table()
    assert sum(table["order_count"].to_pylist()) == 3 * 500 + 10


@pytest.mark.parametrize("example", ["events_15min"], indirect=True)
def test_events(example: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Events that were delivered twice count once; the hour is the sum of its quarters."""
    script("make_data.py")
    told(capfd, "run", "views_15min", "--window", "2026-04-25T13:00..2026-04-25T13:45")
    told(capfd, "run", "views_hourly", "--window", "2026-04-25T13")
    hourly = DeltaTable("warehouse/views_hourly").to_pyarrow_dataset().to_table()
    assert sum(hourly["views"].to_pylist()) == 4 * 300
    assert main(["run", "views_15min", "--window", "2026-04-25T14:00"]) == 3
    assert "SP-R01" in capfd.readouterr().err
    found = {p["pipeline"]: p["upstream"] for p in told(capfd, "status")["pipelines"]}
    assert found == {"views_15min": [], "views_hourly": ["views_15min"]}


@pytest.mark.slow
def test_payments(tmp_path: Path) -> None:
    """Twice in a row: the hurried form grows, the repaired one keeps its rows and its version."""
    folder = tmp_path / "payments"
    shutil.copytree(EXAMPLES / "payments", folder, ignore=shutil.ignore_patterns("work"))
    archive = f"-XX:SharedArchiveFile={archive_path()} -Xshare:auto -Xlog:disable"
    quick = {"JDK_JAVA_OPTIONS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {archive}"}
    shown = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "run.py"],
            cwd=folder,
            env={**os.environ, **quick},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        shown.append({line.split()[0]: line.split() for line in done.stdout.splitlines() if line})
    first, second = shown
    assert (first["before"][1], first["after"][1], first["after"][3]) == ("690", "690", "0")
    assert int(second["before"][3]) > 200
    assert second["after"] == first["after"]
