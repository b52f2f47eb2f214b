"""A commit whose answer was lost: the run stays unknown until the target has answered."""

from __future__ import annotations

import datetime as dt
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from setpoint import (
    Pipeline,
    TransientError,
    UnknownCommitError,
    Window,
    delta,
    iceberg,
    parquet,
    postgres,
)
from setpoint.flow.chunk import run_chunk
from setpoint.flow.plan import Bound
from setpoint.flow.recover import settle
from setpoint.flow.run import plan_windows, run_window
from setpoint.flow.steps import Plan
from setpoint.project.config import Config
from setpoint.project.wiring import Project
from setpoint.targets.refusals import unseen

SCHEMA = "id int, d date"
DAYS = "2026-04-24..2026-04-26"
ROWS = [(number, dt.date(2026, 4, number)) for number in (24, 25, 26)]
CHANNELS = ("publish", "publish_chunk")
QUESTIONS = ("inspect", "landed", "table_id", "published_windows", "check_definition")


class Away:
    """A real target that takes a commit, and from then on answers nothing until it is back."""

    def __init__(self, target: Any) -> None:
        self._target, self.away, self.asked = target, False, 0

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._target, name)
        if name in CHANNELS:
            return lambda *given: self._lose(known, given)
        if name in QUESTIONS:
            return lambda *given: self._answer(known, given)
        return known

    def _lose(self, commit: Any, given: Sequence[Any]) -> Any:
        commit(*given)
        self.away = True
        raise unseen(given[1], "the connection was reset")

    def _answer(self, question: Any, given: Sequence[Any]) -> Any:
        self.asked += 1
        if self.away:
            raise TransientError("SP-T01", "The storage could not be reached.")
        return question(*given)


def behind(bound: Bound, target: Away) -> Bound:
    return replace(bound, target=target, again=lambda: replace(bound.afresh(), target=target))


def of_day(lab: Any, target: Any) -> Pipeline:
    """A pipeline that gives each window the row of its day."""

    def job(window: Window) -> DataFrame:
        return lab.frame([row for row in ROWS if row[1].isoformat() == window.id], SCHEMA)

    return lab.define(job, target=target)


@pytest.fixture(params=["delta", "iceberg", "parquet"])
def job(lab: Any, request: pytest.FixtureRequest) -> tuple[Pipeline, Callable[[], Any]]:
    """A pipeline into a table of files, and how to read its rows."""
    if request.param == "iceberg":
        lake = request.getfixturevalue("lake")
        return of_day(lab, iceberg("lake.sales.orders", partition_by="d")), lake.rows
    if request.param == "parquet":
        name = request.node.name.partition("[")[0]
        lab.spark.sql(f"DROP TABLE IF EXISTS {name}")
        target = parquet(table=name, partition_by="d")
        return of_day(lab, target), lambda: sorted(map(tuple, lab.spark.table(name).collect()))
    return of_day(lab, delta("out", partition_by="d")), lab.rows


def windows(lab: Any, bound: Bound, world: Any, text: str = DAYS) -> list[Plan]:
    return plan_windows(bound, lab.windows(bound.pipeline, text), world, parameters={})


def test_a_window_stays_unknown_while_the_target_is_away(lab: Any, job: Any) -> None:
    """Its commit has landed; until the target says so, nobody says that it is unchanged."""
    made, rows_of = job
    bound, world = lab.bind(made), lab.world()
    target = Away(bound.target)
    (plan,) = windows(lab, bound, world, "2026-04-25")
    with pytest.raises(UnknownCommitError, match=r"SP-P02.*reset.*could not be reached") as caught:
        run_window(behind(bound, target), plan, world)
    assert caught.value.exit_code == 4
    assert caught.value.state.startswith("The window holds either its old rows or the new ones")
    assert target.asked > 1
    assert rows_of() == ROWS[1:2]
    target.away = False
    (settled,) = settle(bound, world, lambda *process: False)
    assert settled.verdict == "published"
    assert lab.run(made).state == "unchanged"


def test_a_target_that_is_back_for_the_retry_says_what_landed(lab: Any, job: Any) -> None:
    """The run ends as the publish that it was: one commit, and no second attempt."""
    made, rows_of = job
    bound = lab.bind(made)
    target = Away(bound.target)

    def back(message: str) -> None:
        target.away = target.away and "next in" not in message

    world = replace(lab.world(), warn=back)
    (plan,) = windows(lab, bound, world, "2026-04-25")
    outcome = run_window(behind(bound, target), plan, world)
    assert (outcome.state, outcome.tries, outcome.receipt.generation) == ("published", 2, 1)
    assert "answer was lost" in outcome.reason
    assert rows_of() == ROWS[1:2]
    assert [item.state for item in world.ledger.attempts("job")] == ["published"]


def test_the_windows_of_a_chunk_stay_unknown_while_the_target_is_away(lab: Any, job: Any) -> None:
    """None is tried by itself meanwhile, and none is told as failed."""
    made, rows_of = job
    bound, world = lab.bind(made), lab.world()
    target = Away(bound.target)
    ended = list(run_chunk(behind(bound, target), windows(lab, bound, world), world))
    assert [type(end.error) for end in ended] == [UnknownCommitError] * 3
    assert {item.state for item in world.ledger.attempts("job")} == {"unknown"}
    assert sorted(rows_of()) == ROWS
    target.away = False
    settled = settle(bound, world, lambda *process: False)
    assert [item.verdict for item in settled] == ["published"] * 3
    assert all(plan.is_unchanged for plan in windows(lab, lab.bind(made), world))


class Gate:
    """A way to a PostgreSQL server that closes with the answer to the first publishing COMMIT.

    With `silent` nobody hears of that: connections stay open, and nothing comes back.
    """

    def __init__(self, server: str, folder: Path) -> None:
        self._server = server
        self.closed = self.silent = False
        self.answered = threading.Event()
        self._kept: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed and self.silent:
                self._kept.append(client)
                continue
            if self.closed:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            sent = threading.Event()
            threading.Thread(target=self._up, args=(client, server, sent), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client, sent), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, sent: threading.Event) -> None:
        publishing = False
        while data := received(client):
            publishing = publishing or b"pg_advisory_xact_lock" in data
            if publishing and b"COMMIT" in data:
                self.closed = True
                sent.set()
                self._kept.append(client)
                server.sendall(data)
                self.answered.wait()  # it is committed, and nobody is told
                if self.silent:
                    return
                break
            server.sendall(data)
        client.close()
        server.close()

    def _down(self, server: socket.socket, client: socket.socket, sent: threading.Event) -> None:
        while data := received(server):
            if sent.is_set():
                self.answered.set()
                continue
            try:
                client.sendall(data)
            except OSError:
                return
        if not sent.is_set():
            client.close()

    def close(self) -> None:
        self._listener.close()
        for client in self._kept:
            client.close()


def received(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


@pytest.fixture
def gate(lab: Any, db: Any, request: pytest.FixtureRequest) -> Iterator[Gate]:
    """The laboratory's database, reached through a gate; the parameter limits a COMMIT."""
    database, _, folder = db.url.partition("?host=")
    with tempfile.TemporaryDirectory(prefix="pp") as place:
        made = Gate(f"{folder}/.s.PGSQL.5432", Path(place))
        config = Config(
            root=lab.root,
            ledger="sqlite:///.setpoint/ledger.db",
            connections={"test": f"{database}?host={place}&connect_timeout=2"},
            commit_timeout=getattr(request, "param", 300),
        )
        with Project(config) as lab.project:
            yield made
        made.close()


def test_a_server_that_is_gone_after_the_commit_leaves_the_window_unknown(
    lab: Any, db: Any, gate: Gate
) -> None:
    """It has committed, and then every retry finds it away."""
    made = of_day(lab, postgres("out", connection="test", time="d"))
    with pytest.raises(UnknownCommitError, match=r"SP-P02") as caught:
        lab.run(made)
    assert caught.value.exit_code == 4
    assert "unchanged" not in str(caught.value)
    assert db.rows() == ROWS[1:2]
    gate.closed = False
    assert lab.run(made).state == "unchanged"


def test_a_server_that_is_gone_after_the_commit_of_a_chunk(lab: Any, db: Any, gate: Gate) -> None:
    bound, world = lab.bind(of_day(lab, postgres("out", connection="test", time="d"))), lab.world()
    ended = list(run_chunk(bound, windows(lab, bound, world), world))
    assert [type(end.error) for end in ended] == [UnknownCommitError] * 3
    assert db.rows() == ROWS
    gate.closed = False
    assert {item.verdict for item in settle(bound, world, lambda *process: False)} == {"published"}


@pytest.mark.parametrize("gate", [1], indirect=True)
def test_a_server_that_goes_silent_at_the_commit_is_not_waited_for_forever(
    lab: Any, db: Any, gate: Gate
) -> None:
    """Its connections stay open and nothing comes back: after the limit the outcome is unknown."""
    gate.silent = True
    made = of_day(lab, postgres("out", connection="test", time="d"))
    with pytest.raises(UnknownCommitError, match=r"SP-P02.*no answer within 1 s") as caught:
        lab.run(made)
    assert caught.value.exit_code == 4
    gate.answered.wait()
    assert db.rows() == ROWS[1:2]
    gate.closed = gate.silent = False
    assert lab.run(made).state == "unchanged"


def test_recover_settles_a_lost_commit_of_a_process_that_lives_on(lab: Any, job: Any) -> None:
    """A notebook goes on after the error: its attempt has ended, whatever the process does."""
    made, _ = job
    bound, world = lab.bind(made), lab.world()
    target = Away(bound.target)
    (plan,) = windows(lab, bound, world, "2026-04-25")
    with pytest.raises(UnknownCommitError):
        run_window(behind(bound, target), plan, world)
    (settled,) = settle(bound, world, lambda *process: True)
    assert settled.verdict == "published"
    assert world.ledger.open_attempts() == []
