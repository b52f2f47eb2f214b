"""Processes at once: on one window, on neighbours, and on a table that is not there yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from command import PROJECT
from deltalake import DeltaTable
from staging import Bench

WORKER = Path(__file__).with_name("worker.py")
PIPELINE = """
from pyspark.sql import SparkSession, functions as F
from setpoint import Window, delta, pipeline

@pipeline(every="day", target=delta("out", partition_by="d"))
def counted(window: Window, count: int = 1):
    rows = SparkSession.active().range(count)
    return rows.select(F.col("id").cast("int").alias("id"), window.date.alias("d"))
"""


class Worker:
    """A process of its own that obeys line by line."""

    def __init__(self, kind: str, root: Path) -> None:
        import setpoint

        source = str(Path(setpoint.__file__).parents[1])
        paths = os.pathsep.join([source, str(WORKER.parent)])
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), kind, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def tell(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker has died"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextmanager
def workers(kind: str, number: int, root: Path) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = []
        for _ in range(number):
            worker = Worker(kind, root)
            stack.callback(worker.end)
            started.append(worker)
        for worker in started:
            assert worker.hear() == {"at": "start"}
        yield started


def at_once(team: list[Worker], commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Bring all to their gates, then open every gate."""
    for worker, command in zip(team, commands, strict=True):
        worker.tell(**command)
    for worker in team:
        assert worker.hear() == {"at": "gate"}
    for worker in team:
        worker.tell()
    return [_answer(worker) for worker in team]


def _answer(worker: Worker) -> dict[str, Any]:
    """The answer; a second try comes to the gate again."""
    while (answer := worker.hear()) == {"at": "gate"}:
        worker.tell()
    return answer


def generations(bench: Bench) -> dict[str, list[int]]:
    seen: dict[str, list[int]] = {}
    for receipt in bench.receipts():
        seen.setdefault(receipt["window"], []).append(receipt["generation"])
    return seen


def check_one_window(bench: Bench, answers: list[dict[str, Any]], before: int) -> int:
    """Every publish has its receipt, none has two, and the last one's rows are the table's."""
    assert all(answer["state"] != "failed" for answer in answers), answers
    published = [answer["attempt"] for answer in answers if answer["state"] == "published"]
    receipts = [r for r in bench.receipts() if r["window"] == "2026-04-25"]
    assert sorted(r["attempt"] for r in receipts[before:]) == sorted(published)
    assert [r["generation"] for r in receipts] == list(range(1, len(receipts) + 1))
    assert bench.missing_files() == []
    assert len(bench.rows().get(date(2026, 4, 25), [])) == receipts[-1]["rows"]
    return len(receipts)


@pytest.mark.parametrize("round_", range(6))
def test_many_processes_on_one_window(team: list[Worker], tmp: Path, round_: int) -> None:
    """Four processes commit at once, in even rounds the same run, in odd rounds different ones."""
    bench = Bench(tmp / "shared")
    before = len([r for r in bench.receipts() if r["window"] == "2026-04-25"])
    same = round_ % 2 == 0
    commands = [
        {
            "table": "shared",
            "window": "2026-04-25",
            "rows": list(range(round_ + (0 if same else n) + 1)),
            "version": round_,
            "gate": True,
        }
        for n in range(4)
    ]
    answers = at_once(team, commands)
    after = check_one_window(bench, answers, before)
    published = [answer for answer in answers if answer["state"] == "published"]
    assert after - before == len(published)
    if same:
        assert len(published) == 1
    else:
        assert len(published) == 4
        possible = [list(range(round_ + n + 1)) for n in range(4)]
        assert bench.rows()[date(2026, 4, 25)] in possible


@pytest.mark.parametrize("round_", range(6))
def test_many_processes_on_neighbouring_windows(team: list[Worker], tmp: Path, round_: int) -> None:
    """All four land, each in its own slice; nobody's rows are lost or doubled."""
    days = [date(2026, 5, 1 + n) for n in range(4)]
    commands = [
        {
            "table": "shared",
            "window": day.isoformat(),
            "rows": list(range(round_ + n + 1)),
            "version": round_,
            "gate": True,
        }
        for n, day in enumerate(days)
    ]
    bench = Bench(tmp / "shared")
    before = generations(bench)  # of earlier rounds, if this process had them
    answers = at_once(team, commands)
    assert [answer["state"] for answer in answers] == ["published"] * 4, answers
    rows, after = bench.rows(), generations(bench)
    for n, day in enumerate(days):
        earlier = before.get(day.isoformat(), [])
        assert rows[day] == list(range(round_ + n + 1))
        assert after[day.isoformat()] == list(range(1, len(earlier) + 2))
    assert bench.missing_files() == []


@pytest.mark.parametrize("round_", range(8))
def test_many_processes_create_the_table(team: list[Worker], tmp: Path, round_: int) -> None:
    """Two windows, two processes each, no table yet: one table, four whole statements."""
    table = f"new{round_}"
    same = round_ % 2 == 0
    commands = [
        {
            "table": table,
            "window": f"2026-04-{25 + n % 2}",
            "rows": [n % 2] * 3 if same else [n] * 3,
            "gate": True,
        }
        for n in range(4)
    ]
    answers = at_once(team, commands)
    assert all(answer["state"] != "failed" for answer in answers), answers
    bench = Bench(tmp / table)
    rows = bench.rows()
    expected = [([0] * 3, [2] * 3), ([1] * 3, [3] * 3)]
    assert rows[date(2026, 4, 25)] in expected[0]
    assert rows[date(2026, 4, 26)] in expected[1]
    count = 1 if same else 2
    assert {len(numbers) for numbers in generations(bench).values()} == {count}
    assert bench.missing_files() == []


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("races")


@pytest.fixture(scope="module")
def team(tmp: Path) -> Iterator[list[Worker]]:
    with workers("plain", 4, tmp) as started:
        yield started


@pytest.fixture(scope="module")
def spark_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spark_races")
    (root / "setpoint.toml").write_text(PROJECT)
    (root / "pipelines").mkdir()
    (root / "pipelines" / "counted.py").write_text(PIPELINE)
    return root


ROUNDS = pytest.mark.parametrize("rounds", [6, pytest.param(20, marks=pytest.mark.soak)])


@pytest.fixture(scope="module")
def pair(spark_project: Path) -> Iterator[list[Worker]]:
    with workers("spark", 2, spark_project) as started:
        yield started


@pytest.mark.slow
@ROUNDS
def test_pairs_on_one_window(pair: list[Worker], spark_project: Path, rounds: int) -> None:
    """Real Spark jobs: one publishes and the other sees it, or both publish whole, in turn."""
    bench = Bench(spark_project)
    receipts = len([r for r in bench.receipts() if r["window"] == "2026-04-25"])
    for round_ in range(receipts, receipts + rounds):
        other = round_ % 2
        commands = [
            {"window": "2026-04-25", "count": 2 * round_ + 1},
            {"window": "2026-04-25", "count": 2 * round_ + 1 + other},
        ]
        answers = at_once(pair, commands)
        before, receipts = receipts, check_one_window(bench, answers, receipts)
        assert receipts - before == 1 + other
        found = bench.rows()[date(2026, 4, 25)]
        assert found in [list(range(command["count"])) for command in commands]


@pytest.mark.slow
@ROUNDS
def test_pairs_on_neighbouring_windows(
    pair: list[Worker], spark_project: Path, rounds: int
) -> None:
    """Real Spark jobs: both land, round after round, and a third day is never touched."""
    bench = Bench(spark_project)
    pair[0].tell(window="2026-06-30", count=3)
    assert pair[0].hear() == {"at": "gate"}
    pair[0].tell()
    assert _answer(pair[0])["state"] in ("published", "unchanged")
    apart = {uri for uri in DeltaTable(bench.place).file_uris() if "2026-06-30" in uri}
    first = len(generations(bench).get("2026-06-28", []))
    for round_ in range(first, first + rounds):
        commands = [
            {"window": "2026-06-28", "count": round_ + 1},
            {"window": "2026-06-29", "count": round_ + 2},
        ]
        answers = at_once(pair, commands)
        assert [answer["state"] for answer in answers] == ["published"] * 2, answers
        rows = bench.rows()
        assert rows[date(2026, 6, 28)] == list(range(round_ + 1))
        assert rows[date(2026, 6, 29)] == list(range(round_ + 2))
    for window in ("2026-06-28", "2026-06-29"):
        assert generations(bench)[window] == list(range(1, first + rounds + 1))
    assert apart <= set(DeltaTable(bench.place).file_uris())
    assert bench.rows()[date(2026, 6, 30)] == [0, 1, 2]
    assert bench.missing_files() == []
