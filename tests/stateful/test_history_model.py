"""The model of the histories says what the documentation of the patterns says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from histories import model
from histories.counts import Tally
from histories.model import Ending, Meaning, State
from histories.play import STEPS
from histories.rows import DAYS, GONE, Row, ordered
from histories.steps import CELLS, WEIGHTS, history_of

ONE, TWO, THREE = DAYS


def row(key: int, seq: int = 1, day: int = 0, text: str = "v", other: str = "w") -> Row:
    return Row(key, text, other, seq, DAYS[day], DAYS[day])


def ran(meaning: Meaning, *runs: tuple[int, list[Row]]) -> State:
    """The one state after runs of windows, by their numbers."""
    state = State()
    for day, batch in runs:
        (ending,) = model.run(meaning, state, DAYS[day], batch)
        state = ending.state
    return state


def test_overwrite_replaces_the_slice() -> None:
    state = ran(Meaning("overwrite"), (0, [row(1), row(2)]), (1, [row(3, day=1)]), (0, [row(2)]))
    assert state.rows == ordered([row(2), row(3, day=1)])


def test_overwrite_goes_by_the_column_of_the_definition() -> None:
    """Rows of another day's `e` stay, whatever their `d` is."""
    mixed = row(1)._replace(e=TWO)
    state = State(ordered([mixed, row(2)]))
    (ending,) = model.run(Meaning("overwrite", "e"), state, TWO, [row(3, day=1)])
    assert ending.state.rows == ordered([row(2), row(3, day=1)])


def test_merge_takes_the_greatest_in_any_order() -> None:
    late, newest = row(1, 5), row(1, 9, day=1)
    meaning = Meaning("merge", None)
    first = ran(meaning, (0, [late]), (1, [newest]))
    second = ran(meaning, (1, [newest]), (0, [late]))
    assert first.rows == second.rows == (newest,)


def test_a_merged_window_corrects_its_own_row() -> None:
    meaning = Meaning("merge", None)
    state = ran(meaning, (0, [row(1, 5)]), (0, [row(1, 5, text="corrected")]))
    assert state.rows == (row(1, 5, text="corrected"),)


def test_a_removal_is_remembered_until_its_window_takes_it_back() -> None:
    meaning = Meaning("merge", None, removes=True)
    removal = row(1, 5, text=GONE)
    older = row(1, 4, day=1)
    assert ran(meaning, (0, [removal]), (1, [older])).rows == ()
    assert ran(meaning, (0, [removal]), (1, [row(1, 6, day=1)])).rows == (row(1, 6, day=1),)
    assert ran(meaning, (0, [removal]), (0, []), (1, [older])).rows == (older,)


def test_a_complete_merge_removes_what_is_missing_and_keeps_what_is_later() -> None:
    meaning = Meaning("merge", None, complete=True)
    state = ran(meaning, (0, [row(1, 9), row(2, 1)]), (1, [row(1, 5, day=1), row(3, 1, day=1)]))
    assert state.rows == ordered([row(1, 9), row(3, 1, day=1)])
    assert model.run(meaning, state, ONE, [row(4)]) == [Ending(state, "superseded")]


def test_insert_new_keeps_what_is_there_and_refuses_contradictions() -> None:
    meaning = Meaning("insert_new", None)
    state = ran(meaning, (0, [row(1)]), (0, []), (1, [row(1), row(2)]))
    assert state.rows == (row(1), row(2))
    assert model.run(meaning, state, ONE, [row(1, text="x"), row(3)]) == [Ending(state, "refused")]


def test_delete_insert_leaves_rows_without_its_condition() -> None:
    kept, null = row(8, other=model.OTHER), row(9)._replace(w=None)
    state = State(ordered([kept, null, row(1), row(2, day=1)]))
    (sliced,) = model.run(Meaning("delete_insert"), state, ONE, [row(3)])
    assert sliced.state.rows == ordered([kept, null, row(2, day=1), row(3)])
    (whole,) = model.run(Meaning("delete_insert", None), state, ONE, [row(3)])
    assert whole.state.rows == ordered([kept, null, row(3)])


@pytest.mark.parametrize("meaning", [Meaning("replace", None), Meaning("delete_insert", None)])
def test_the_newest_window_counts(meaning: Meaning) -> None:
    state = ran(meaning, (1, [row(2, day=1)]))
    assert model.run(meaning, state, ONE, [row(1)]) == [Ending(state, "superseded")]
    (forced,) = model.run(meaning, state, ONE, [row(1)], force=True)
    assert forced.state.rows == (row(1),)
    (newest,) = model.run(meaning, forced.state, TWO, [row(2, day=1)])
    assert newest.state.rows == (row(2, day=1),)


def test_a_seed_decides_on_everything() -> None:
    """Twenty seeds are one of each cell, and every kind of step comes up."""
    histories = [history_of(seed) for seed in range(200)]
    assert histories == [history_of(seed) for seed in range(200)]
    assert {history.cell for history in histories[:20]} == set(CELLS)
    kinds = {step.kind for history in histories for step in history.steps}
    assert kinds == set(WEIGHTS) | {"revert"} == set(STEPS)
    without = [history_of(seed, ["kill", "stop"]) for seed in range(200)]
    assert "stop" not in {step.kind for history in without for step in history.steps}


def test_counts_add_up_and_a_seed_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "soak.jsonl"
    assert Tally.read(file).played == {}
    first = {"seed": 0, "kind": "delta", "pattern": "merge", "failure": "wrong"}
    second = {**first, "seed": 5, "failure": ""}
    counts = [{"steps": 3, "kills": 2}, {"steps": 4}, {"steps": 3, "kills": 1}]
    items = [{**first, "counts": counts[0]}, {**second, "counts": counts[1]}]
    file.write_text("".join(json.dumps(item) + "\n" for item in items))
    lines = Tally.read(file).table().splitlines()
    assert lines[-2].split() == ["all", "2", "7", "1", "2", "0", "1"]
    assert lines[-1] == "failed: 0"
    with file.open("a") as more:
        more.write(json.dumps({**first, "failure": "", "counts": counts[2]}) + "\n")
    (*_, last) = Tally.read(file).table().splitlines()
    assert last.split() == ["all", "2", "7", "1", "1", "0", "0"]
