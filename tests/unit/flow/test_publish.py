"""The gate and the loop around the commit, with a target that keeps its state in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from setpoint import Window, delta, pipeline, source
from setpoint.errors import RefusedError, TransientError
from setpoint.flow.publish import publish
from setpoint.model.audit import AuditResult
from setpoint.model.ports import Fenced, Published, Staged
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Pinned, Run

WINDOW = Window.parse("2026-04-25", every="day")


def run_of(code: str = "c") -> Run:
    job = pipeline(every="day", target=delta("out", partition_by="d"))(job_code)
    return Run(job, WINDOW, {}, {}, code, {})


def job_code(window: Window) -> Any: ...


def staged(contents: str | None = "x", rows: int = 2, attempt: str = "mine") -> Staged:
    return Staged(f"stage/{attempt}", attempt, rows, contents, "files", {}, False, None)


class Memory:
    """A target of one window: a list of receipts, and rivals that publish first."""

    def __init__(self, *rivals: Receipt, lands_unseen: bool = False) -> None:
        self.receipts: list[Receipt] = []
        self.moved: list[Staged | None] = []
        self.rivals = list(rivals)
        self.lands_unseen = lands_unseen

    @property
    def state(self) -> SliceState:
        last = self.receipts[-1] if self.receipts else None
        return SliceState(len(self.receipts), last, True if last else None)

    def publish(
        self, session: Any, run: Run, receipt: Receipt, staged: Any, expected: SliceState
    ) -> Published:
        if self.rivals:
            rival = self.rivals.pop(0)
            self.receipts.append(replace(rival, generation=len(self.receipts) + 1))
        if expected.generation != len(self.receipts):
            raise Fenced(self.state)
        self.receipts.append(replace(receipt, scope="overwrite by date d"))
        self.moved.append(staged)
        if self.lands_unseen:
            raise Fenced(self.state)
        return Published(receipt, None, "id")

    def landed(self, window: Window, attempt: str) -> Published | None:
        found = [r for r in self.receipts if r.attempt == attempt]
        return Published(found[-1], None, "id") if found else None


def go(target: Memory, run: Run, stage: Staged, *results: AuditResult) -> Any:
    any_target: Any = target
    state = target.state
    return publish(any_target, None, run, stage, results, state, "2026-04-26T00:00:00+00:00")


def receipt_of(run: Run, attempt: str = "theirs", contents: str = "y") -> Receipt:
    memory = Memory()
    go(memory, run, staged(contents, attempt=attempt))
    return memory.receipts[0]


def test_the_gate_lets_nothing_through_that_an_audit_failed() -> None:
    """One failing audit among passing ones, and the target is not even asked."""
    target = Memory()
    good = AuditResult("good", "fail", True, 0, 2)
    bad = AuditResult("bad", "fail", False, 1, 2, sample=({"id": 7},))
    with pytest.raises(RefusedError) as caught:
        go(target, run_of(), staged(), good, bad)
    assert "bad failed on 1 of 2" in caught.value.what
    assert target.receipts == []


def test_warnings_pass_the_gate() -> None:
    """Severity warn is for people."""
    target = Memory()
    assert go(target, run_of(), staged(), AuditResult("w", "warn", False, 1, 2)).published
    assert len(target.receipts) == 1


def test_same_contents_renew_the_receipt_alone() -> None:
    """The stage is not moved; the receipt keeps the files that hold the rows."""
    target = Memory()
    go(target, run_of("old"), staged("x", attempt="first"))
    verdict = go(target, run_of("new"), staged("x"))
    assert verdict.only_receipt
    assert target.moved == [staged("x", attempt="first"), None]
    assert target.receipts[1].stage == "stage/first"
    assert target.receipts[1].generation == 2


def test_a_touched_slice_is_not_kept_for_its_old_fingerprint() -> None:
    """The receipt says x, but somebody else changed the rows: the stage is moved."""
    target = Memory()
    go(target, run_of("old"), staged("x", attempt="first"))
    any_target: Any = target
    touched = replace(target.state, untouched=False)
    verdict = publish(any_target, None, run_of("new"), staged("x"), (), touched, "")
    assert not verdict.only_receipt
    assert target.moved[-1] is not None


@pytest.mark.parametrize(
    "stage",
    [staged("z"), staged(None), staged("x", rows=3), replace(staged(), changes_schema=True)],
)
def test_anything_else_moves_the_stage(stage: Staged) -> None:
    """Other rows, rows without a fingerprint, another count, another schema."""
    target = Memory()
    go(target, run_of("old"), staged("x", attempt="first"))
    assert not go(target, run_of("new"), stage).only_receipt
    assert replace(target.moved[-1], corrects=False) == stage


def test_the_same_run_of_another_process_is_enough() -> None:
    """We lost the race against our twin: nothing more to publish."""
    target = Memory(receipt_of(run_of()))
    verdict = go(target, run_of(), staged("x"))
    assert verdict.published is None
    assert [r.attempt for r in target.receipts] == ["theirs"]


def test_another_run_is_overwritten_once() -> None:
    """Ours is the later statement; it comes on top with the next generation."""
    target = Memory(receipt_of(run_of("other")))
    verdict = go(target, run_of(), staged("x"))
    assert verdict.published is not None
    assert [(r.attempt, r.generation) for r in target.receipts] == [("theirs", 1), ("mine", 2)]


def test_a_fence_that_is_our_own_commit_counts_as_published() -> None:
    """A store that repeats a put reports a conflict with ourselves: the rows are in."""
    target = Memory(lands_unseen=True)
    verdict = go(target, run_of(), staged("x"))
    assert verdict.published is not None
    assert [r.attempt for r in target.receipts] == ["mine"]


def test_a_window_that_never_rests_is_given_up() -> None:
    """Not a loop without end: a passing failure."""
    rivals = [receipt_of(run_of(f"other{n}"), f"r{n}") for n in range(9)]
    with pytest.raises(TransientError) as caught:
        go(Memory(*rivals), run_of(), staged("x"))
    assert caught.value.code == "SP-P03"


def test_a_final_window_that_a_rival_published_is_left_to_it() -> None:
    """late="fail": rows of another state of the input do not go on top."""

    def final(window: Window, lake: Any = source(delta("lake"), time="d", late="fail")) -> Any: ...

    job = pipeline(every="day", target=delta("out", partition_by="d"))(final)
    ours, theirs = (Run(job, WINDOW, {}, {"lake": Pinned(1, text)}, "c", {}) for text in "ab")
    target = Memory(receipt_of(theirs))
    with pytest.raises(RefusedError, match="SP-R06"):
        go(target, ours, staged("x"))
    assert [r.attempt for r in target.receipts] == ["theirs"]


def test_a_rival_that_has_read_other_inputs_is_not_overwritten() -> None:
    """Ours may be the older ones: a passing failure, so that the retry looks at them again."""
    ours, theirs = (replace(run_of(), inputs={"lake": Pinned(1, text)}) for text in "ab")
    target: Any = Memory(receipt_of(theirs))
    for force in (False, True):
        with pytest.raises(TransientError, match=r"SP-P03.*from other inputs"):
            publish(target, None, ours, staged("x"), (), SliceState(0, None, None), "", force=force)
    assert [r.attempt for r in target.receipts] == ["theirs"]
