"""Why a window runs, in the words that a person reads."""

from __future__ import annotations

from typing import Any

import pytest

from setpoint import Window, delta, pipeline, postgres, source
from setpoint.flow.late import late_inputs
from setpoint.flow.plan import why
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import UNKNOWN, Pinned, Run

WINDOW = Window.parse("2026-04-25", every="day")


def job(window: Window) -> Any: ...


def run_of(code: str = "c", factor: int = 1, orders: str = "f", definition: str = "d") -> Run:
    built = pipeline(every="day", target=delta("out", partition_by="d"))(job)
    inputs = {"orders": Pinned(1, orders)}
    return Run(built, WINDOW, {"factor": factor}, inputs, code, {"x": definition})


def state_of(run: Run, *, untouched: bool | None = True) -> SliceState:
    receipt = Receipt(
        pipeline="job",
        window=WINDOW.id,
        timezone="UTC",
        every="day",
        run_key=run.key,
        generation=1,
        attempt="a",
        rows=1,
        contents=None,
        files=None,
        published_at="",
        code=run.code,
        inputs={name: pinned.as_dict() for name, pinned in run.inputs.items()},
        parameters={name: str(value) for name, value in run.parameters.items()},
    )
    return SliceState(1, receipt, untouched)


def test_the_same_run_on_an_untouched_slice_has_no_reason() -> None:
    """The only case in which nothing is done."""
    assert why(run_of(), state_of(run_of())) is None


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_of(code="other"), "the code changed"),
        (run_of(factor=2), "the parameters changed"),
        (run_of(orders="g"), "the input orders changed"),
        (run_of(definition="e"), "the definition changed"),
        (run_of(code="other", orders="g"), "the code and the input orders changed"),
    ],
)
def test_what_changed_is_named(run: Run, reason: str) -> None:
    """One word per part of the run key."""
    assert why(run, state_of(run_of())) == reason


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (SliceState(0, None, None), "never published"),
        (SliceState(3, None, None), "its receipt is gone"),
        (state_of(run_of(), untouched=False), "somebody else"),
        (state_of(run_of(), untouched=None), "somebody else"),
    ],
)
def test_a_doubtful_slice_runs(state: SliceState, word: str) -> None:
    """Unless the target itself says that the slice is this run's, it is published again."""
    assert word in (why(run_of(), state) or "")


@pytest.mark.parametrize(
    ("late", "left_out"),
    [("", []), ("ignore", ["orders"]), ("restate(1)", ["orders"])],
)
def test_an_input_that_cannot_tell_is_not_read_again_where_that_does_not_count(
    late: str, left_out: list[str]
) -> None:
    """A published window stays as it is by its policy, whether the input changed or not."""

    def reading(
        window: Window, orders: Any = source(postgres("orders"), time="d", late=late)
    ) -> Any: ...

    built = pipeline(every="day", target=delta("out", partition_by="d"))(reading)
    run = Run(built, WINDOW, {}, {"orders": Pinned(None, UNKNOWN)}, "c", {})
    first = {"orders": WINDOW.next()} if late == "restate(1)" else {}
    assert late_inputs(run, state_of(run), first) == left_out
    assert (why(run, state_of(run), left_out) is None) == bool(left_out)
