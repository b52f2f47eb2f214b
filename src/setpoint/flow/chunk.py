"""Chunks: runs on windows that follow each other, in one Spark job and one commit.

A chunk takes the steps of an attempt for all its windows at once. What keeps one window from
being published must not keep the others: a chunk that fails as a whole is cut in pieces, until
what is left is a window by itself, which is run like any other. What fails for all of them is not
tried for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Literal

from setpoint.errors import SetpointError, TransientError, UnknownCommitError
from setpoint.flow.audit import audit
from setpoint.flow.evaluate import evaluate
from setpoint.flow.late import refuse_late
from setpoint.flow.plan import Bound
from setpoint.flow.probe import Probe
from setpoint.flow.publish import SAME_ROWS, Verdict, receipt_of, same_contents
from setpoint.flow.recording import End, Recording
from setpoint.flow.run import (
    Ended,
    plan_windows,
    refusal_of,
    run_alone,
    with_retries,
)
from setpoint.flow.steps import Plan
from setpoint.flow.unseen import ANSWER_LOST, Doubts, Unseen
from setpoint.flow.world import Outcome, World
from setpoint.model.audit import AuditResult
from setpoint.model.determinism import judged, refuse
from setpoint.model.ports import (
    ChunkPort,
    Fenced,
    HoldingPort,
    LandingPort,
    RemarkPort,
    SourcePort,
    SpanPort,
    Staged,
)
from setpoint.model.run import Chunk, Run
from setpoint.model.span import follows
from setpoint.model.window import Window


def why_alone(bound: Bound) -> str:
    """Why the windows of a pipeline are published one by one; empty when they need not be."""
    if bound.pipeline.reads_itself:
        return "each window reads the one before it"
    for name, source in bound.sources.items():
        if isinstance(source, LandingPort):
            return f"{name} is landed window by window"
        if isinstance(source, HoldingPort) and not bound.pipeline.spans:
            return f"{name} holds a transaction open for each window; with spans=True, one for all"
    target = bound.target
    if not isinstance(target, ChunkPort):
        return "the target takes one window at a time"
    return target.alone()


def run_chunk(
    bound: Bound, plans: Sequence[Plan], world: World, doubts: Doubts | None = None
) -> Iterator[Ended]:
    """Fulfil the plans of windows that follow each other, and tell how each of them ended.

    `doubts` are their commits, sent by attempts at more windows, that were not seen.
    """
    unseen = doubts or Doubts()
    if len(plans) == 1:
        yield run_alone(bound, plans[0], world, unseen)
        return
    label = Chunk(tuple(plan.run for plan in plans)).label
    try:
        done = with_retries(
            world, label, lambda number: _one_try(bound, plans, world, number, unseen)
        )
    except _Apart as apart:
        for group in apart.groups:
            yield from run_chunk(bound, group, world, unseen)
        return
    except (TransientError, UnknownCommitError) as error:
        # What passes by itself was waited for already; smaller pieces would wait as long.
        yield from (Ended.of(plan, error=unseen.told(plan.run.window, error)) for plan in plans)
        return
    except Exception as error:
        world.tell(f"{label}  failed as a whole, smaller pieces are tried: {error}")
        probe = Probe(plans)
        yield from probe.ends(bound, world, unseen)
        middle = (len(probe.left) + 1) // 2
        for half in (probe.left[:middle], probe.left[middle:]):
            for group in _groups(half, apart=()):
                yield from run_chunk(bound, group, world, unseen)
        return
    for plan in plans:
        window = plan.run.window
        if window in done:
            yield Ended.of(plan, done[window])
        else:
            # Somebody may have published it meanwhile, from newer inputs than were pinned.
            yield run_alone(bound, plan, world, unseen, anew=True)


class _Apart(Exception):
    """The windows of a chunk have to go separate ways."""

    def __init__(self, groups: Sequence[Sequence[Plan]]) -> None:
        super().__init__("given up: its windows are run in smaller groups")
        self.groups = groups


def _one_try(
    bound: Bound, plans: Sequence[Plan], world: World, number: int, doubts: Doubts
) -> dict[Window, Outcome]:
    """One attempt at all of them; the windows that it leaves out are to be run by themselves."""
    if landed := doubts.settled(plan.run.window for plan in plans):
        return landed
    if number > 1:
        bound, plans = planned_now(bound, plans, world)
    odd = [plan for plan in plans if plan.is_unchanged or refusal_of(bound, plan) is not None]
    if odd:
        raise _Apart(_groups(plans, apart=[plan.run.window for plan in odd]))
    attempt = ChunkAttempt(bound, plans, world, number)
    try:
        return attempt.execute()
    finally:
        for window, unseen in attempt.unseen.items():
            doubts.add(window, unseen)


def planned_now(bound: Bound, plans: Sequence[Plan], world: World) -> tuple[Bound, Sequence[Plan]]:
    """The plans of some windows as they would be made now, and what they are bound to."""
    now, first = bound.afresh(), plans[0]
    windows = [plan.run.window for plan in plans]
    return now, plan_windows(now, windows, world, parameters=first.run.parameters, how=first.how)


def _groups(plans: Sequence[Plan], apart: Sequence[Window]) -> list[list[Plan]]:
    """The plans in groups that follow each other, with some windows in groups of their own."""
    groups: list[list[Plan]] = []
    for plan in plans:
        window, before = plan.run.window, groups[-1][-1].run.window if groups else None
        joins = before is not None and follows(before, window)
        if joins and window not in apart and before not in apart:
            groups[-1].append(plan)
        else:
            groups.append([plan])
    return groups


class ChunkAttempt:
    """One try at the plans of a chunk, and what it has so far."""

    def __init__(self, bound: Bound, plans: Sequence[Plan], world: World, try_number: int) -> None:
        self._bound, self._world, self._try = bound, world, try_number
        assert isinstance(bound.target, ChunkPort)
        self._target: ChunkPort = bound.target
        self._plans = {plan.run.window: plan for plan in plans}
        self._chunk = Chunk(tuple(plan.run for plan in plans))
        self._ids = {window: world.new_attempt_id() for window in self._plans}
        self._recording = Recording(world, *self._ids.values())
        self._place = self._target.location(self._chunk, self._ids[self._chunk.window.windows[0]])
        self._started = world.now()
        self._notes: tuple[str, ...] = ()
        self._sent: list[Window] = []
        self._landed = False
        self.unseen: dict[Window, Unseen] = {}
        self._remarks: dict[Window, tuple[str, ...]] = {}

    def execute(self) -> dict[Window, Outcome]:
        """Publish the windows and say how they ended; those that an audit refused are left out."""
        recording = self._recording
        recording.begin(list(self._plans.values()), self._target.uri, self._place, self._try)
        try:
            verdicts, results = self._follow()
        except UnknownCommitError as error:
            return self._settle(error)
        except BaseException as error:
            # Of a commit that a passing error kept from being made nothing can have landed.
            unknown = self._sent and (self._landed or not isinstance(error, TransientError))
            recording.finish("unknown" if unknown else "failed", error=error)
            if isinstance(error, Exception) and not unknown:
                with suppress(SetpointError):
                    self._target.drop_stage(self._place)
            raise
        self._reach("recorded")
        return self._outcomes(verdicts, results)

    def _follow(self) -> tuple[dict[Window, Verdict], dict[Window, tuple[AuditResult, ...]]]:
        self._reach("resolved")
        session = self._world.engine.session(self._bound.connectors())
        with self._world.engine.pinned(session):
            try:
                with self._step("read"):
                    frame = self._evaluated(session)
                with self._step("stage"):
                    parts = self._staged(session, frame)
            finally:
                self._release()
            self._reach("staged")
            with self._step("audit"):
                results = self._audited(session, parts)
            self._reach("audited")
            with self._step("publish"):
                verdicts = self._published(session, parts, results)
        self._reach("published")
        self._record(verdicts, results, parts)
        return verdicts, results

    def _evaluated(self, session: Any) -> Any:
        """The rows of all windows: of one call for the span, or of one call for each window."""
        chunk, inputs = self._chunk, self._bound.sources
        if chunk.pipeline.spans:
            read = {name: self._read_span(session, name, item) for name, item in inputs.items()}
            self._see()
            self._heed(session)
            self._reach("read")
            return self._checked(evaluate(chunk, self._as_inputs(read)))
        frames: list[tuple[Window, Any]] = []
        failed: dict[Window, Exception] = {}
        for run in chunk.runs:
            try:
                pins = run.inputs
                read = {n: item.read(session, run.window, pins[n]) for n, item in inputs.items()}
                frames.append((run.window, self._checked(evaluate(run, self._as_inputs(read)))))
            except TransientError:
                raise
            except Exception as error:
                if len(failed) == len(chunk.runs) - 1:
                    raise  # it is the same with all of them
                failed[run.window] = error  # run by itself, it will say what is wrong
        if failed:
            raise _Apart(_groups(list(self._plans.values()), apart=list(failed)))
        self._heed(session)
        self._reach("read")
        return self._world.engine.united(frames, self._predicate)

    def _predicate(self, window: Window, kinds: Mapping[str, str]) -> str:
        rule = self._chunk.pipeline.slice_rule(lambda name: kinds[name])
        assert rule is not None
        return rule.predicate(window)

    def _as_inputs(self, frames: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._world.engine.as_input(frame) for name, frame in frames.items()}

    def _read_span(self, session: Any, name: str, source: SourcePort) -> Any:
        span, pins = self._chunk.window, {run.window: run.inputs[name] for run in self._chunk.runs}
        if isinstance(source, SpanPort):
            return source.read_span(session, span, pins)
        if self._chunk.pipeline.sources[name].whole:
            return source.read(session, span.windows[0], pins[span.windows[0]])
        frames = [source.read(session, window, pins[window]) for window in span]
        return self._world.engine.united(list(zip(span, frames, strict=True)))

    def _heed(self, session: Any) -> None:
        """Take the notes on the inputs of each window; one that is refused goes its own way."""
        refused = []
        for name, source in self._bound.sources.items():
            if not isinstance(source, RemarkPort):
                continue
            pins = {run.window: run.inputs[name] for run in self._chunk.runs}
            for window, remarks in source.remarks(session, pins).items():
                self._remarks[window] = (*self._remarks.get(window, ()), *remarks.notes)
                refused += [window] * (remarks.refusal is not None)
        if refused:
            raise _Apart(_groups(list(self._plans.values()), apart=refused))

    def _see(self) -> None:
        """Have the runs tell what was really read, which may be newer than what was pinned."""
        held = self._holding()
        runs = []
        for run in self._chunk.runs:
            seen = {name: port.seen(run.window, run.inputs[name]) for name, port in held.items()}
            runs.append(replace(run, inputs={**run.inputs, **seen}))
            if runs[-1].key != run.key:
                refuse_late(runs[-1], self._plans[run.window].state)
        self._chunk = Chunk(tuple(runs))

    def _release(self) -> None:
        """Nothing is read from the sources any more."""
        for source in self._holding().values():
            for window in self._plans:
                source.release(window)

    def _holding(self) -> dict[str, HoldingPort]:
        sources = self._bound.sources.items()
        return {name: item for name, item in sources if isinstance(item, HoldingPort)}

    def _checked(self, frame: Any) -> Any:
        pipeline = self._chunk.pipeline
        found = self._world.engine.findings(frame, pipeline.needed_columns(), pipeline.function)
        verdict = judged(found, pipeline.allow)
        refuse(self._chunk.label, verdict.refused)
        self._notes = tuple(dict.fromkeys((*self._notes, *verdict.notes)))
        return frame

    def _staged(self, session: Any, frame: Any) -> Mapping[Window, Staged]:
        target, audits, chunk = self._target, self._chunk.pipeline.audits, self._chunk
        first = self._ids[chunk.window.windows[0]]
        place = self._place
        with self._world.faults.during("staging", self._try, lambda: target.has_stage(place)):
            staged = target.stage(frame, chunk, first, audits)
        for name, source in self._bound.sources.items():
            for run in chunk.runs:
                source.confirm(run.window, run.inputs[name])
        return target.divide(session, staged, chunk, self._ids, audits)

    def _audited(
        self, session: Any, parts: Mapping[Window, Staged]
    ) -> dict[Window, tuple[AuditResult, ...]]:
        results: dict[Window, tuple[AuditResult, ...]] = {}
        before: int | None = None
        for run in self._chunk.runs:
            part = parts[run.window]
            results[run.window] = found = audit(self._bound, session, run, part, before)
            # The rows of a window that is refused are not what the next one follows.
            before = None if any(result.blocks for result in found) else part.rows
        return results

    def _published(
        self,
        session: Any,
        parts: Mapping[Window, Staged],
        results: Mapping[Window, tuple[AuditResult, ...]],
    ) -> dict[Window, Verdict]:
        """Commit the windows that passed their audits: each stretch without a gap at once."""
        now = self._world.now().isoformat(timespec="seconds")
        verdicts: dict[Window, Verdict] = {}
        passed = []
        for run in self._chunk.runs:
            current = self._plans[run.window].state.receipt
            same = current is not None and current.run_key == run.key
            if run.unsure and same and self._keeps(run, parts[run.window]):
                # An input could not tell whether it changed; the rows say that it did not.
                verdicts[run.window] = Verdict(current, None)
            elif not any(result.blocks for result in results[run.window]):
                passed.append(run)
        for alone, runs in _stretches(passed, lambda run: self._keeps(run, parts[run.window])):
            chunk = Chunk(tuple(runs))
            states = {run.window: self._plans[run.window].state for run in runs}
            made = (
                receipt_of(run, parts[run.window], states[run.window], alone, now) for run in runs
            )
            receipts = [replace(receipt, backfill=self._world.backfill) for receipt in made]
            rows = None if alone else [parts[run.window] for run in runs]
            self._sent += chunk.window.windows
            try:
                landed = self._target.publish_chunk(session, chunk, receipts, rows, states)
            except Fenced:
                continue  # somebody was faster: the windows are looked at again, one by one
            except TransientError:
                if not self._landed:
                    raise
                break  # what has landed has landed: the others are run by themselves
            self._landed = True
            for run, published in zip(runs, landed, strict=True):
                verdicts[run.window] = Verdict(published.receipt, published, only_receipt=alone)
        self._reach("committed")
        return verdicts

    def _keeps(self, run: Run, part: Staged) -> bool:
        """Whether the window holds these very rows already, so that its receipt is enough."""
        plan = self._plans[run.window]
        return same_contents(run, plan.state, part) and not plan.how.force

    def _record(
        self,
        verdicts: Mapping[Window, Verdict],
        results: Mapping[Window, tuple[AuditResult, ...]],
        parts: Mapping[Window, Staged],
    ) -> None:
        target, recording = self._target, self._recording
        self._tidy([parts[w] for w, v in verdicts.items() if v.published and not v.only_receipt])
        published = [verdict.published for verdict in verdicts.values() if verdict.published]
        recording.receipts(target.uri, published)
        recording.audits({self._ids[window]: found for window, found in results.items()})
        recording.notes({self._ids[window]: self._notes_on(window) for window in verdicts})
        left_out = RuntimeError("left out of the chunk's commit, to be run by itself next")
        recording.finish_each(
            [
                (attempt, _state(verdicts[window]), verdicts[window].receipt, None)
                if window in verdicts
                else (attempt, "failed", None, left_out)
                for window, attempt in self._ids.items()
            ]
        )

    def _tidy(self, live: Sequence[Staged]) -> None:
        """Remove what no commit needs; what cannot be removed now is listed by recover."""
        with suppress(SetpointError):
            if live:
                self._target.tidy_stage(max(live, key=lambda part: part.rows))
            else:
                self._target.drop_stage(self._place)

    def _settle(self, error: UnknownCommitError) -> dict[Window, Outcome]:
        """A commit's answer was lost: ask the target which windows landed."""
        self.unseen = {
            window: Unseen(error, partial(self._settled, window)) for window in self._sent
        }
        unreadable: Exception | None = None
        landed: dict[Window, Outcome] = {}
        try:
            for window, unseen in self.unseen.items():
                if (outcome := unseen.ask()) is not None:
                    landed[window] = outcome
        except Exception as failure:
            unreadable = failure
        self.unseen = {w: unseen for w, unseen in self.unseen.items() if w not in landed}
        rest: list[End] = [
            (attempt, "unknown" if w in self.unseen else "failed", None, error)
            for w, attempt in self._ids.items()
            if w not in landed
        ]
        self._recording.finish_each(rest)
        if not landed:
            raise error from unreadable
        return landed

    def _settled(self, window: Window) -> Outcome | None:
        """How one of the windows ended by the target's word; None while that has no receipt."""
        attempt = self._ids[window]
        found = self._target.landed(window.id, attempt)
        if found is None:
            return None
        verdict = Verdict(found.receipt, found)
        self._recording.receipts(self._target.uri, [found])
        self._recording.finish_each([(attempt, _state(verdict), found.receipt, None)])
        (outcome,) = self._outcomes({window: verdict}, {}).values()
        return replace(outcome, reason=f"{outcome.reason}; {ANSWER_LOST}")

    def _outcomes(
        self,
        verdicts: Mapping[Window, Verdict],
        results: Mapping[Window, tuple[AuditResult, ...]],
    ) -> dict[Window, Outcome]:
        seconds = (self._world.now() - self._started).total_seconds()
        return {
            window: Outcome(
                pipeline=self._chunk.pipeline.name,
                window=window.id,
                state=_state(verdict),
                reason=self._plans[window].reason if verdict.published else SAME_ROWS,
                attempt=self._ids[window],
                receipt=verdict.receipt,
                only_receipt=verdict.only_receipt,
                audits=results.get(window, ()),
                notes=self._notes_on(window),
                seconds=seconds / len(self._plans),
                tries=self._try,
            )
            for window, verdict in verdicts.items()
        }

    def _notes_on(self, window: Window) -> tuple[str, ...]:
        return (*self._notes, *self._remarks.get(window, ()))

    def _step(self, name: str) -> Any:
        others = len(self._plans) - 1
        self._world.tell(f"{self._chunk.label}  {name}")
        return self._recording.step(name, {"what": f"together with {others:,} other windows"})

    def _reach(self, point: str) -> None:
        self._world.faults.reach(point, self._try)


def _state(verdict: Verdict) -> Literal["published", "unchanged"]:
    return "published" if verdict.published else "unchanged"


def _stretches(
    runs: Sequence[Run], kind: Callable[[Run], bool]
) -> Iterator[tuple[bool, list[Run]]]:
    """Runs of one kind that follow each other, in their order."""
    for which, same in groupby(runs, kind):
        stretch: list[Run] = []
        for run in same:
            if stretch and not follows(stretch[-1].window, run.window):
                yield which, stretch
                stretch = []
            stretch.append(run)
        yield which, stretch
