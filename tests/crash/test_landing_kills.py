"""kill -9 while an API is landed, right before the commit and right after it; two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command import command, environment, make_project
from deltalake import DeltaTable
from landing_worker import WINDOW, port

from misbehaving_api import Api, Handler

START = int(WINDOW.start.timestamp())
WORKER = str(Path(__file__).with_name("landing_worker.py"))
PIPELINE = """
from setpoint import Window, by_cursor, delta, http, land, pipeline, source

@pipeline(every="day", target=delta("out", partition_by="d"))
def job(
    window: Window,
    payments=source(land(http(
        "{url}/cursor",
        items="data",
        params={{"created[gte]": "{{start:unix}}", "created[lt]": "{{end:unix}}"}},
        headers={{"Authorization": "Bearer env:API_KEY"}},
        pages=by_cursor("starting_after", more="has_more"),
        schema="id string, amount long, created timestamp",
    )), time="created"),
):
    return payments.select("id", "amount").withColumn("d", window.date)
"""


def start(api: Api, folder: Path, attempt: str, *moment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WORKER, api.url, str(folder), attempt, *moment],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


def landed(folder: Path) -> list[str]:
    """The ids in the newest generation, as any reader of Delta tables sees them."""
    table = DeltaTable(str(folder / "job.payments" / "2026-04-25" / "g1"))
    assert table.version() == 0
    return sorted(table.to_pyarrow_table().column("id").to_pylist())


def kill_the_caller(handler: Handler, served: Api) -> None:
    """The attempt tells its process id with every request."""
    os.kill(int(handler.headers["X-Process"]), signal.SIGKILL)


def test_a_kill_anywhere_and_a_retry_land_the_truth_once(api: Api, tmp_path: Path) -> None:
    """Before the commit nothing is landed; after it the API is not asked again."""
    api.fill(6, START)
    truth = sorted(item["id"] for item in api.items)
    for moment in ("paging", "before", "after"):
        folder = tmp_path / moment
        api.requests.clear()
        if moment == "paging":
            api.plan = [None, None, kill_the_caller]
        first = start(api, folder, "first", *([moment] if moment != "paging" else []))
        assert first.wait(60) == -signal.SIGKILL
        source = port(api.url, str(folder))
        assert [item.attempt for item in source.generations(WINDOW)] == (
            ["first"] if moment == "after" else []
        )
        left = [(item.attempt, item.location) for item in source.leftovers()]
        orphan = ("first", "job.payments/2026-04-25/g1/first")
        assert left == ([] if moment == "after" else [orphan])

        api.requests.clear()
        answer, _ = start(api, folder, "second").communicate(timeout=60)
        assert json.loads(answer)["generation"] == 1
        assert landed(folder) == truth
        assert len(api.requests) == (0 if moment == "after" else 3)
        assert [item.location for item in source.leftovers()] == [location for _, location in left]
        for item in source.leftovers():
            source.drop(item.location)
        assert landed(folder) == truth
        assert source.leftovers() == []


def test_two_that_land_at_once_end_with_one_generation(api: Api, tmp_path: Path) -> None:
    """Both have read all pages before either commits; the loser takes the winner's."""
    api.fill(4, START)
    both = threading.Barrier(2)

    ask, pages = Api.answer, [0]

    def held(self: Api, path: str, params: dict[str, str]) -> Any:
        if "starting_after" in params:
            pages[0] += 1
            both.wait(60)
        return ask(self, path, params)

    api.answer = held.__get__(api)  # type: ignore[method-assign]
    running = [start(api, tmp_path, name) for name in ("one", "two")]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert pages == [2]
    assert answers[0] == answers[1]
    source = port(api.url, str(tmp_path))
    (only,) = source.generations(WINDOW)
    assert only.attempt in ("one", "two")
    assert landed(tmp_path) == sorted(item["id"] for item in api.items)
    assert source.leftovers() == []


@pytest.mark.slow
def test_a_killed_command_does_not_ask_the_api_again(api: Api, tmp_path: Path) -> None:
    """The real command, killed between landing and reading, and run again without the API."""
    api.fill(3, START)
    make_project(tmp_path, PIPELINE.format(url=api.url))
    words = ("run", "job", "--window", "2026-04-25", "--json")
    killed = command(tmp_path, *words, fault="landed:kill", API_KEY="sk_secret")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer sk_secret"}
    asked = len(api.requests)
    done = command(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert len(api.requests) == asked
    found = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().column("amount").to_pylist()
    assert sorted(found) == [100, 101, 102]
    shown = command(tmp_path, "show", "job", "--window", "2026-04-25", "--json")
    (generation,) = json.loads(shown.stdout)["data"]["landed"]
    assert (generation["generation"], generation["items"], generation["published"]) == (1, 3, True)
    text = command(tmp_path, "show", "job", "--window", "2026-04-25").stdout
    assert "landed     payments generation 1, " in text
    assert ", items: 3, contents 1:3:" in text
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if b"sk_secret" in file.read_bytes()]
