"""Publishing: the gate on the audits' verdict, and the one commit behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from setpoint.errors import RefusedError, TransientError, for_example
from setpoint.flow.late import changed_inputs, refuse_late
from setpoint.flow.plan import is_superseded, mark_of
from setpoint.model.audit import AuditResult
from setpoint.model.mark import Mark, later_of
from setpoint.model.ports import Fenced, Published, Staged, TargetPort
from setpoint.model.receipt import Receipt, SliceState
from setpoint.model.run import Run
from setpoint.model.write import Overwrite, pattern_of
from setpoint.targets.refusals import after_commit

SAME_ROWS = "the window already holds these rows"
_REPUBLISHES = 3


@dataclass(frozen=True)
class Verdict:
    """What became of a stage: a commit of rows or of a receipt alone, or nothing to do (None)."""

    receipt: Receipt | None
    published: Published | None
    only_receipt: bool = False
    superseded_by: str = ""


def publish(
    target: TargetPort,
    session: Any,
    run: Run,
    staged: Staged,
    results: Sequence[AuditResult],
    state: SliceState,
    published_at: str,
    mark: Mark | None = None,
    again: bool = False,
    force: bool = False,
    backfill: str = "",
) -> Verdict:
    """Publish the stage if, and only if, no failing audit forbids it.

    Somebody else may publish the window while we are staging. If it was this very run, we are
    done; if it has read other inputs, ours may be the older ones and are looked at again; otherwise
    our statement is the later one and is published on top, once. `mark` is the
    high-water mark that the rows lead to; `again` says that an old range was read once more,
    which leaves the mark and everything else that the receipt says about the inputs. `force`
    writes the rows whatever is there, also over a window that its sources say is final. `backfill`
    is the id of the one that the publish belongs to.
    """
    refuse_if_failed(run, results)
    was_superseded = is_superseded(run, state)
    # A frame's run is known by its rows, so only now can it turn out to be published already.
    same_run_counts = run.by_contents
    for _ in range(_REPUBLISHES):
        current = state.receipt
        same_rows = same_contents(run, state, staged)
        keep_files = same_rows and not force
        # The key of a run does not know an input that cannot tell whether it changed.
        same_run = same_rows if run.unsure else same_run_counts
        if same_run and not force and current and current.run_key == run.key and state.untouched:
            return Verdict(current, None)
        receipt = receipt_of(run, staged, state, keep_files, published_at)
        receipt = replace(_with_mark(run, receipt, state, mark, again), backfill=backfill)
        staged = replace(staged, corrects=again or _corrects(run, state, staged))
        try:
            landed = target.publish(session, run, receipt, None if keep_files else staged, state)
        except Fenced as fenced:
            # The fence may be our own commit, landed although its answer said otherwise.
            with after_commit(run):
                ours = target.landed(run.window.id, staged.attempt)
            if ours is not None:
                return Verdict(ours.receipt, ours, only_receipt=keep_files)
            state, same_run_counts = fenced.state, True
            if is_superseded(run, state) and not was_superseded:
                return Verdict(None, None, superseded_by=state.newest)
            if not force:
                refuse_late(run, state)
            if state.receipt is not None and changed_inputs(run, state.receipt.inputs):
                raise _overtaken(run) from None
            continue
        return Verdict(landed.receipt, landed, only_receipt=keep_files)
    raise TransientError(
        "SP-P03",
        f"Other runs kept publishing {run.label} while this one tried to.",
        why="Each publish is a whole statement about the window, so none was mixed with another.",
        state="The window holds the rows of the run that published last.",
        next="Run again when the others have ended.",
    )


def _overtaken(run: Run) -> TransientError:
    return TransientError(
        "SP-P03",
        f"Another run published {run.label} meanwhile, from other inputs than this one has read.",
        why="Newer rows might be replaced by older ones.",
        state="The window holds the rows of that run.",
        next="Run again: it reads the inputs as they are now.",
    )


def refuse_if_failed(run: Run, results: Sequence[AuditResult]) -> None:
    """The gate: one failing audit of severity `fail` keeps the rows from being published."""
    failed = [result for result in results if result.blocks]
    if not failed:
        return
    first = failed[0]
    more = f" ({len(failed) - 1} more audits failed.)" if len(failed) > 1 else ""
    measure = (
        f"on {first.violations:,} of {first.rows:,} staged rows"
        if first.violations
        else f"({first.detail})"
    )
    raise RefusedError(
        "SP-A01",
        f"Audit {first.name} failed {measure} of {run.label}.{for_example(first.sample)}{more}",
        why="Rows that fail an audit must not reach readers.",
        state="The target is unchanged; the stage is kept.",
        next=f"See: setpoint show {run.pipeline.name} --window {run.window.id}",
    )


def same_contents(run: Run, state: SliceState, staged: Staged) -> bool:
    """These very rows are published already: the receipt alone has to be renewed."""
    receipt = state.receipt
    pattern = pattern_of(run.pipeline.write)
    return bool(
        receipt
        and state.untouched
        and receipt.scope  # else nobody knows which part of the table its rows have replaced
        and (receipt.pattern or Overwrite.name) == pattern
        and staged.contents is not None
        and receipt.contents == staged.contents
        and receipt.rows == staged.rows
        and not staged.changes_schema
    )


def _corrects(run: Run, state: SliceState, staged: Staged) -> bool:
    """Whether the rows correct what the window said before, and not merely repeat it.

    They also correct what somebody else made of them.
    """
    if run.window.grain.is_incremental or not state.published:
        return False
    receipt = state.receipt
    return receipt is None or not state.untouched or receipt.contents != staged.contents


def receipt_of(
    run: Run, staged: Staged, state: SliceState, keep_files: bool, published_at: str
) -> Receipt:
    before = state.receipt
    return Receipt(
        pipeline=run.pipeline.name,
        window=run.window.id,
        timezone=run.window.timezone,
        every=str(run.window.grain),
        run_key=run.key,
        generation=state.generation + 1,
        attempt=staged.attempt,
        rows=staged.rows,
        contents=staged.contents,
        files=before.files if keep_files and before else staged.files,
        stage=before.stage if keep_files and before else staged.location,
        replaced=before.stage if before and not keep_files else "",
        published_at=published_at,
        pattern=pattern_of(run.pipeline.write),
        code=run.code,
        inputs={name: pinned.as_dict() for name, pinned in run.inputs.items()},
        parameters={name: str(value) for name, value in run.parameters.items()},
    )


def _with_mark(
    run: Run, receipt: Receipt, state: SliceState, mark: Mark | None, again: bool
) -> Receipt:
    """The receipt with its high-water mark, which never goes back."""
    before = state.receipt
    if again and (before is None or not state.untouched):
        # A range alone is not all there is: the next run must not take it for that.
        return replace(receipt, run_key="", inputs={}, high_water_mark=None)
    if again and before is not None:
        return replace(
            receipt,
            run_key=before.run_key,
            code=before.code,
            inputs=before.inputs,
            parameters=before.parameters,
            high_water_mark=before.high_water_mark,
        )
    reached = later_of(mark, mark_of(run.pipeline, state))
    return replace(receipt, high_water_mark=reached.as_text() if reached else None)
