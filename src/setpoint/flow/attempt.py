"""One attempt: the life of a run, from read to record.

It follows the steps of a plan, top to bottom. Between the steps lie the crash points; whatever
happens at one of them, the target holds the old slice or the new one, and the next attempt
finds out which by reading the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    TransientError,
    UnknownCommitError,
    counted,
)
from setpoint.flow import steps
from setpoint.flow.audit import audit
from setpoint.flow.evaluate import evaluate
from setpoint.flow.faults import Faults
from setpoint.flow.late import refuse_late
from setpoint.flow.plan import Bound, mark_of, plan_of_frame, why
from setpoint.flow.publish import SAME_ROWS, Verdict, publish, refuse_if_failed
from setpoint.flow.quarantine import put_aside
from setpoint.flow.recording import Recording
from setpoint.flow.steps import Plan
from setpoint.flow.unseen import ANSWER_LOST
from setpoint.flow.world import Outcome, World, tell_nobody
from setpoint.ledger.records import AttemptState
from setpoint.model.audit import AuditResult
from setpoint.model.determinism import judged, refuse
from setpoint.model.mark import Mark
from setpoint.model.ports import HoldingPort, LandingPort, RemarkPort, Remarks, Staged
from setpoint.model.window import Window

T = TypeVar("T")


_THEN = {"land": "landed", "stage": "staged", "audit": "audited"}


class Attempt:
    """One try at a plan, and what it has so far: inputs, a stage, verdicts, a publish."""

    def __init__(self, bound: Bound, current: Plan, world: World, try_number: int) -> None:
        self._bound, self._plan, self._world, self._try = bound, current, world, try_number
        self._run = current.run
        self._id = world.new_attempt_id()
        self._recording = Recording(world, self._id)
        self._inputs: dict[str, Any] = {}
        self._frame: Any = None
        self._mark: Mark | None = None
        self._staged: Staged | None = None
        self._results: tuple[AuditResult, ...] = ()
        self._notes: tuple[str, ...] = ()
        self._aside: tuple[str, ...] = ()
        self._sent = False
        self._verdict: Verdict | None = None

    def execute(self) -> Outcome:
        """Follow the steps and keep the ledger informed, however it ends."""
        target, recording = self._bound.target, self._recording
        stage = target.location(self._run, self._id)
        recording.begin([self._plan], target.uri, stage, self._try)
        try:
            self._follow()
        except RefusedError as error:
            recording.finish("refused", error=error)
            raise
        except UnknownCommitError as error:
            return self._settle(error)
        except BaseException as error:
            if self._sent and (self._verdict or not isinstance(error, TransientError)):
                # The commit may have landed; only the target can say. recover asks it.
                recording.finish("unknown", error=error)
                raise
            recording.finish("failed", error=error)
            if isinstance(error, Exception):
                with suppress(SetpointError):
                    target.drop_stage(stage)
            raise
        finally:
            self._release()
        self._reach("recorded")
        return self._noted(self._outcome())

    def _follow(self) -> None:
        self._reach("resolved")
        session = self._world.engine.session(self._bound.connectors())
        with self._world.engine.pinned(session):
            for step in self._plan.steps:
                if isinstance(step, steps.Read) and self._landed_the_same():
                    return
                self._world.tell(f"{self._run.label}  {step.name}  {step.describe()}")
                with self._recording.step(step.name, {"what": step.describe()}):
                    match step:
                        case steps.Land():
                            self._land(session, step.source)
                        case steps.Read():
                            self._read(session, step.source)
                        case steps.Check():
                            self._check()
                        case steps.Stage():
                            self._stage()
                        case steps.Audit():
                            self._audit(session)
                        case steps.Publish():
                            self._publish(session)
                        case steps.Record():
                            self._record()
                        case steps.Unchanged() | steps.Superseded():
                            raise AssertionError("an unchanged window has nothing to execute")
                if step.name in _THEN:
                    self._reach(_THEN[step.name])

    def _land(self, session: Any, name: str) -> None:
        source = self._bound.sources[name]
        assert isinstance(source, LandingPort)
        pinned = source.land(session, self._run.window, self._id)
        self._run = replace(self._run, inputs={**self._run.inputs, name: pinned})

    def _landed_the_same(self) -> bool:
        """Whether inputs were landed anew and are what the window was published from."""
        how, state = self._plan.how, self._plan.state
        if not how.refresh or how.force or how.restate or how.again is not None:
            return False
        if why(self._run, state) is not None:
            refuse_late(self._run, state)
            return False
        self._verdict = Verdict(state.receipt, None)
        self._recording.finish("unchanged", receipt=state.receipt)
        return True

    def _read(self, session: Any, name: str) -> None:
        pinned = self._run.inputs[name]
        source = self._bound.sources[name]
        if name != self._run.pipeline.cursor_source:
            self._inputs[name] = source.read(session, self._run.window, pinned)
        else:
            after = mark_of(self._run.pipeline, self._plan.state)
            self._inputs[name], self._mark = source.read_increment(
                session, pinned, after, self._plan.how.again
            )
        if isinstance(source, RemarkPort):
            self._heed(source.remarks(session, {self._run.window: pinned}))
        if isinstance(source, HoldingPort):
            seen = source.seen(self._run.window, pinned)
            self._run = replace(self._run, inputs={**self._run.inputs, name: seen})
            if seen != pinned and not self._plan.how.force:
                refuse_late(self._run, self._plan.state)

    def _heed(self, remarks: Mapping[Window, Remarks]) -> None:
        """Take the notes on an input, or refuse the rows that it gives."""
        found = remarks.get(self._run.window, Remarks())
        if found.refusal is not None:
            raise found.refusal
        self._notes += found.notes

    def _release(self) -> None:
        """Nothing is read from the sources any more, or not by this attempt."""
        for source in self._bound.sources.values():
            if isinstance(source, HoldingPort):
                source.release(self._run.window)

    def _evaluated(self) -> Any:
        if self._frame is None:
            self._reach("read")
            engine = self._world.engine
            inputs = {name: engine.as_input(frame) for name, frame in self._inputs.items()}
            self._frame = evaluate(self._run, inputs)
        return self._frame

    def _check(self) -> None:
        frame, pipeline = self._evaluated(), self._run.pipeline
        keys = pipeline.needed_columns()
        found = self._world.engine.findings(frame, keys, pipeline.function)
        verdict = judged(found, pipeline.allow)
        refuse(self._run.label, verdict.refused)
        self._notes += verdict.notes

    def _stage(self) -> None:
        frame = self._evaluated()
        target, audits = self._bound.target, self._run.pipeline.audits
        place = target.location(self._run, self._id)
        with self._world.faults.during("staging", self._try, lambda: target.has_stage(place)):
            self._staged = target.stage(frame, self._run, self._id, audits)
        for name, source in self._bound.sources.items():
            source.confirm(self._run.window, self._run.inputs[name])
        if self._run.by_contents:
            self._run = self._run.of_contents(self._staged.contents, self._id)

    def _audit(self, session: Any) -> None:
        self._results = audit(self._bound, session, self._run, self._have(self._staged))
        self._recording.audits({self._id: self._results})

    def _publish(self, session: Any) -> None:
        refuse_if_failed(self._run, self._results)
        self._put_aside()
        self._release()
        self._sent = True
        try:
            self._verdict = publish(
                self._bound.target,
                session,
                self._run,
                self._have(self._staged),
                self._results,
                self._plan.state,
                self._world.now().isoformat(timespec="seconds"),
                mark=self._mark,
                again=self._plan.how.again is not None,
                force=self._plan.how.force,
                backfill=self._world.backfill,
            )
        except SetpointError as error:
            # What was put aside is published already, whatever becomes of the rest.
            error.state = " ".join([error.state, *(f"{note}." for note in self._aside)])
            raise
        self._reach("committed")

    def _put_aside(self) -> None:
        """Publish rows with a null in the key to the table beside the target.

        Before the batch is published: if the process dies in between, the retry puts the same
        rows there again, and none is lost.
        """
        aside, staged = self._bound.quarantine, self._have(self._staged)
        if aside is None:
            return
        bound = put_aside(aside, self._frame, self._run)
        quiet = replace(self._world, faults=Faults(), begins=tell_nobody)
        plan = plan_of_frame(bound, self._run.window, quiet).without_check()
        if not staged.quarantined and not plan.state.published:
            return
        outcome = Attempt(bound, plan, quiet, self._try).execute()
        rows = outcome.receipt.rows if outcome.receipt else 0
        if rows != staged.quarantined:
            raise PermanentError(
                "SP-S05",
                f"{self._run.label} had {staged.quarantined:,} rows with a null in the key when "
                f"it was staged, and {rows:,} when they were put aside.",
                why="The pipeline gives other rows each time it is evaluated.",
                state=f"The target is unchanged; {bound.target.uri} holds the {rows:,} rows of the "
                "second evaluation.",
                next="Make the pipeline deterministic, then run again.",
            )
        if rows:
            self._aside = (
                f"null in the key: {counted(rows, 'row')}, put aside in {bound.target.uri}",
            )

    def _record(self) -> None:
        self._reach("published")
        target, staged = self._bound.target, self._have(self._staged)
        verdict = self._have(self._verdict)
        try:
            if verdict.published is None or verdict.only_receipt:
                target.drop_stage(staged.location)
            elif not verdict.published.tidy:
                target.tidy_stage(staged)
        except SetpointError as error:
            self._world.warn(
                f"{self._run.label} is right, but tidying up after it failed: {error.what} The "
                "next publish does what it needs of it; staged files are listed by: "
                "setpoint recover"
            )
        if verdict.published is not None:
            self._recording.receipts(target.uri, [verdict.published])
        state: AttemptState = "unchanged" if verdict.published is None else "published"
        self._recording.finish(state, receipt=verdict.receipt)

    def _settle(self, error: UnknownCommitError) -> Outcome:
        """The commit's answer was lost: ask the target whether it landed."""
        try:
            outcome = self.settled()
        except Exception as unreadable:
            self._recording.finish("unknown", error=error)
            raise error from unreadable
        if outcome is None:
            # The stage stays: a commit that is still under way may yet name its files.
            self._recording.finish("unknown", error=error)
            raise error
        return outcome

    def settled(self) -> Outcome | None:
        """How the attempt ended by the target's own word; None while that has no receipt of it."""
        target = self._bound.target
        landed = target.landed(self._run.window.id, self._id)
        if landed is None:
            return None
        self._recording.receipts(target.uri, [landed])
        self._recording.finish("published", receipt=landed.receipt)
        self._verdict = Verdict(landed.receipt, landed)
        return self._noted(replace(self._outcome(), reason=f"{self._plan.reason}; {ANSWER_LOST}"))

    def _noted(self, outcome: Outcome) -> Outcome:
        self._recording.notes({self._id: outcome.notes})
        return outcome

    def _outcome(self) -> Outcome:
        verdict = self._have(self._verdict)
        reason = self._plan.reason
        if verdict.superseded_by:
            reason = f"superseded by {verdict.superseded_by}"
        elif verdict.published is None and self._staged is None:
            reason = "what was landed anew is what the window was published from"
        elif verdict.published is None:
            by_contents = self._run.by_contents or self._run.unsure
            reason = SAME_ROWS if by_contents else "published by another attempt meanwhile"
        return Outcome(
            pipeline=self._run.pipeline.name,
            window=self._run.window.id,
            state="unchanged" if verdict.published is None else "published",
            reason=reason,
            attempt=self._id,
            receipt=verdict.receipt,
            only_receipt=verdict.only_receipt,
            audits=self._results,
            notes=(
                *(self._staged.notes if self._staged else ()),
                *self._notes,
                *self._aside,
                *(verdict.published.notes if verdict.published else ()),
            ),
        )

    def _reach(self, point: str) -> None:
        self._world.faults.reach(point, self._try)

    @staticmethod
    def _have(value: T | None) -> T:
        if value is None:
            raise AssertionError("the steps of the plan are out of order")
        return value
