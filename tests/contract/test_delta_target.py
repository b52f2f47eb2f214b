"""What the protocol relies on in a target, shown for Delta Lake without a JVM."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from staging import Bench, Frame

from setpoint.errors import PermanentError
from setpoint.flow.publish import publish
from setpoint.model.ports import Fenced
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run
from setpoint.model.window import Window

WINDOW = Window.parse("2026-04-25", every="day")
NEXT = WINDOW.next()
NEVER = SliceState(0, None, None)
AT = "2026-04-26T00:00:00+00:00"


class Port:
    """The target port of one pipeline, and the two calls that the tests make on it."""

    def __init__(self, root: Path, rows: tuple[int, ...] = (1, 2, 3)) -> None:
        self.bench = Bench(root)
        self.job = self.bench.job(rows)
        self.target = self.bench.bind(self.job).target

    def run(self, window: Window = WINDOW, code: str = "c") -> Run:
        return Run(self.job, window, {}, {}, code, {})

    def stage(self, attempt: str, rows: tuple[int, ...] = (1, 2, 3), **run: Any) -> Any:
        return self.target.stage(Frame(rows), self.run(**run), attempt, ())

    def put(self, attempt: str, rows: tuple[int, ...] = (1, 2, 3), **run: Any) -> Receipt:
        """Stage and publish on the newest state."""
        staged = self.stage(attempt, rows, **run)
        wanted = self.run(**run)
        state = self.target.inspect([wanted.window])[wanted.window]
        return publish(self.target, None, wanted, staged, (), state, AT).receipt

    def state(self, window: Window = WINDOW) -> SliceState:
        return self.target.inspect([window])[window]


@pytest.fixture
def port(tmp_path: Path) -> Port:
    return Port(tmp_path)


def test_nothing_is_there_before_the_first_publish(port: Port) -> None:
    """No table, no generation, no window, no leftover."""
    assert port.state() == NEVER
    assert port.target.table_id() is None
    assert list(port.target.published_windows()) == []
    assert list(port.target.leftovers()) == []
    assert port.target.landed(WINDOW.id, "a") is None


def test_a_publish_is_seen_with_its_receipt(port: Port) -> None:
    """Generation, receipt, rows and untouched come from the target itself."""
    receipt = port.put("a")
    state = port.state()
    assert (state.generation, state.rows, state.untouched) == (1, 3, True)
    assert state.receipt is not None
    assert state.receipt.as_dict() == receipt.as_dict()
    landed = port.target.landed(WINDOW.id, "a")
    assert landed is not None
    assert landed.receipt.generation == 1
    assert list(port.target.published_windows()) == [WINDOW.id]


def test_staged_rows_are_visible_to_nobody(port: Port) -> None:
    """Until a commit names them; `leftovers` does."""
    port.put("a")
    port.stage("b", (7, 8))
    assert port.bench.rows()[WINDOW.day] == [1, 2, 3]
    assert [item.attempt for item in port.target.leftovers()] == ["b"]
    port.target.drop_stage(port.target.location(port.run(), "b"))
    assert list(port.target.leftovers()) == []


def test_a_stale_look_is_fenced(port: Port) -> None:
    """A commit on a state that has passed changes nothing and tells the new state."""
    port.put("a")
    before = port.state()
    port.put("b", (9,), code="other")
    version = DeltaTable(port.bench.place).version()
    staged = port.stage("c", (5,))
    assert before.receipt is not None
    ours = replace(before.receipt, attempt="c", generation=2)
    with pytest.raises(Fenced) as caught:
        port.target.publish(None, port.run(), ours, staged, before)
    assert caught.value.state.generation == 2
    assert DeltaTable(port.bench.place).version() == version
    assert port.bench.rows()[WINDOW.day] == [9]


def test_a_stale_look_at_no_table_is_fenced(port: Port) -> None:
    """Somebody created the table and published the window since."""
    staged = port.stage("b", (5,))
    receipt = port.put("a")
    with pytest.raises(Fenced):
        port.target.publish(None, port.run(), replace(receipt, attempt="b"), staged, NEVER)
    assert port.bench.rows()[WINDOW.day] == [1, 2, 3]


def test_neighbours_do_not_fence_each_other(port: Port) -> None:
    """A publish of another window between look and commit is no conflict."""
    port.put("a")
    before, staged = port.state(), port.stage("c", (5,), code="new")
    port.put("b", (9,), window=NEXT)
    verdict = publish(port.target, None, port.run(code="new"), staged, (), before, AT)
    assert verdict.receipt.generation == 2
    assert port.bench.rows() == {WINDOW.day: [5], NEXT.day: [9]}


def test_a_receipt_alone_touches_no_file(port: Port) -> None:
    """Same rows, other run: one commit without add and remove."""
    port.put("a")
    files = DeltaTable(port.bench.place).file_uris()
    port.put("b", code="other")
    assert sorted(DeltaTable(port.bench.place).file_uris()) == sorted(files)
    assert (port.state().generation, port.state().untouched) == (2, True)


def test_somebody_elses_write_is_seen(port: Port) -> None:
    """In the slice it counts, beside it not; what it changed does not matter."""
    port.put("a")
    port.put("n", (1,), window=NEXT)
    for ids, day in (([66], NEXT.day), ([77], WINDOW.day)):
        assert port.state().untouched
        row = pa.table({"id": pa.array(ids, pa.int32()), "d": pa.array([day])})
        write_deltalake(port.bench.place, row, mode="append")
    assert port.state().untouched is False
    port.put("b", code="c")
    assert port.state().untouched
    DeltaTable(port.bench.place).delete(f"d = '{WINDOW.day}' AND id = 1")
    assert port.state().untouched is False


def test_live_files_cannot_be_dropped(port: Port) -> None:
    """Whoever asks: a stage that became the slice stays."""
    receipt = port.put("a")
    with pytest.raises(PermanentError) as caught:
        port.target.drop_stage(receipt.stage)
    assert caught.value.code == "SP-P04"
    assert port.bench.missing_files() == []


def test_replaced_files_are_no_leftovers(port: Port) -> None:
    """Time travel may need them; VACUUM decides about them."""
    port.put("a")
    port.put("b", (9,), code="other")
    assert list(port.target.leftovers()) == []
    assert len(DeltaTable(port.bench.place, version=0).to_pyarrow_table()) == 3


def test_generations_survive_checkpoint_and_clean_up(port: Port) -> None:
    """They are in the transactions of the log, not only in its commits."""
    port.put("a")
    port.put("b", (9,), code="other")
    port.put("n", (1,), window=NEXT)
    table = DeltaTable(port.bench.place)
    table.create_checkpoint()
    for version in range(table.version()):
        Path(port.bench.place, "_delta_log", f"{version:020d}.json").unlink()
    state = port.state()
    assert (state.generation, state.receipt, state.published) == (2, None, True)
    assert port.put("c", (4,), code="third").generation == 3
    assert port.bench.rows() == {WINDOW.day: [4], NEXT.day: [1]}


def test_a_long_history_stays_right(port: Port) -> None:
    """A hundred and more publishes, checkpoints of the log included, and one slice."""
    for number in range(105):
        port.put(f"a{number}", (number,), code=f"c{number}")
    assert port.state().generation == 105
    assert port.bench.rows() == {WINDOW.day: [104]}
    numbers = [receipt["generation"] for receipt in port.bench.receipts()]
    assert numbers == list(range(1, 106))
