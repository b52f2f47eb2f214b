"""Runs: planned with what the target says, refused, retried, fulfilled by attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from setpoint.errors import PermanentError, SetpointError, UnknownCommitError, UsageError
from setpoint.flow.attempt import Attempt
from setpoint.flow.gaps import gap_error
from setpoint.flow.late import refuse_late
from setpoint.flow.plan import Bound, plan, plan_of_frame
from setpoint.flow.recording import Recording, attempt_record, recall_from
from setpoint.flow.steps import USUAL, How, Plan
from setpoint.flow.unseen import Doubts, Unseen
from setpoint.flow.world import Outcome, World
from setpoint.ledger import LedgerError
from setpoint.model.pipeline import Pipeline
from setpoint.model.ports import AbsentPort, LandingPort
from setpoint.model.window import Window

T = TypeVar("T")


def with_retries(world: World, label: str, attempt: Callable[[int], T]) -> T:
    """Call `attempt(number)` with the retries of the world, and a warning before each."""

    def on_retry(number: int, error: BaseException, wait: float) -> None:
        world.warn(f"{label}  try {number} failed, next in {wait:.0f} s: {_first_part(error)}")

    return world.retry.call(attempt, on_retry)


def planned(
    world: World, pipeline: Pipeline, windows: Sequence[Window], look: Callable[[], T]
) -> T:
    """Plan windows with retries; where that fails they have failed, and the ledger says so."""
    try:
        return with_retries(world, pipeline.name, lambda number: look())
    except UsageError:
        raise  # of the command, not of a window
    except SetpointError as error:
        record_failed(world, pipeline, windows, error)
        raise


def record_failed(
    world: World, pipeline: Pipeline, windows: Sequence[Window], error: SetpointError
) -> None:
    """Leave an attempt for windows that ended before one began: who looks later must find it."""
    recording = Recording(world, *(world.new_attempt_id() for _ in windows))
    recording.fail(pipeline.name, [window.id for window in windows], error)


def plan_windows(
    bound: Bound,
    windows: Sequence[Window],
    world: World,
    *,
    parameters: Mapping[str, Any],
    how: How = USUAL,
) -> list[Plan]:
    """Plan windows with what the target says and the ledger remembers."""
    recall = recall_from(world, bound.target.uri, bound.pipeline.name)
    return plan(bound, windows, parameters=parameters, recall=recall, how=how)


def plan_latest(
    bound: Bound,
    latest: Window,
    world: World,
    *,
    parameters: Mapping[str, Any],
    how: How = USUAL,
) -> list[Plan]:
    """The latest window, after the published ones before it whose late rows are to be restated."""
    earlier = [latest]
    for _ in range(max((s.late.restate or 0 for s in bound.pipeline.sources.values()), default=0)):
        earlier.insert(0, earlier[0].previous())
    late = plan_windows(bound, earlier[:-1], world, parameters=parameters) if earlier[1:] else []
    plans = [plan for plan in late if plan.state.published and not plan.is_unchanged]
    if how.refresh and plans:
        again, refreshed = [item.run.window for item in plans], How(refresh=how.refresh)
        plans = plan_windows(bound, again, world, parameters=parameters, how=refreshed)
    return plans + plan_windows(bound, [latest], world, parameters=parameters, how=how)


def record_unchanged(bound: Bound, plans: Sequence[Plan], world: World) -> list[Outcome]:
    """Settle all windows that need nothing, in one go and without Spark."""
    records = [
        attempt_record(world, item, world.new_attempt_id(), "unchanged", bound.target.uri)
        for item in plans
    ]
    if world.ledger is not None and records:
        try:
            world.ledger.record_unchanged(records)
        except LedgerError as error:
            world.warn(str(error))
    return [
        Outcome(
            pipeline=item.run.pipeline.name,
            window=item.run.window.id,
            state="unchanged",
            reason=item.reason,
            receipt=item.state.receipt,
        )
        for item in plans
    ]


def run_window(
    bound: Bound,
    first: Plan,
    world: World,
    doubts: Doubts | None = None,
    *,
    anew: bool = False,
) -> Outcome:
    """Fulfil one plan, with retries; every try looks at the target afresh.

    `doubts` are commits of the window that were not seen, sent by attempts at several windows;
    `anew` says that the plan was made before them.
    """
    started, window = world.now(), first.run.window
    unseen = doubts or Doubts()

    def one_try(number: int) -> Outcome:
        if landed := unseen.settled([window]):
            return replace(landed[window], tries=number)
        now, current = bound, first
        if number > 1 or anew:
            now = bound.afresh()
            current = plan_again(now, first, world)
        if current.is_unchanged:
            return replace(record_unchanged(now, [current], world)[0], tries=number)
        if (refusal := refusal_of(now, current)) is not None:
            record_failed(world, current.run.pipeline, [window], refusal)
            raise refusal
        attempt = Attempt(now, current, world, number)
        try:
            return replace(attempt.execute(), tries=number)
        except UnknownCommitError as error:
            unseen.add(window, Unseen(error, attempt.settled))
            raise

    try:
        outcome = with_retries(world, first.run.label, one_try)
    except Exception as error:
        told = unseen.told(window, error)
        if told is error:
            raise
        raise told from error
    return replace(outcome, seconds=(world.now() - started).total_seconds())


@dataclass(frozen=True)
class Ended:
    """How a window ended: with an outcome, or with an error.

    `blocked` says that it was not tried, because of another window that it needs.
    """

    pipeline: str
    window: Window
    outcome: Outcome | None = None
    error: Exception | None = None
    blocked: bool = False

    @classmethod
    def of(
        cls, plan: Plan, outcome: Outcome | None = None, error: Exception | None = None
    ) -> Ended:
        """How the window of a plan ended."""
        return cls(plan.run.pipeline.name, plan.run.window, outcome, error)


def run_alone(
    bound: Bound,
    plan: Plan,
    world: World,
    doubts: Doubts | None = None,
    *,
    anew: bool = False,
) -> Ended:
    """Fulfil one plan; an error is told, so that it does not keep other windows from theirs."""
    try:
        current = in_order(bound, plan, world)
        return Ended.of(plan, run_window(bound, current, world, doubts, anew=anew))
    except Exception as error:
        return Ended.of(plan, error=error)


def run_windows(bound: Bound, plans: Sequence[Plan], world: World) -> Iterator[Ended]:
    """Fulfil plans one after the other, in their order."""
    # A window that reads the one before it is looked at when that one is done.
    ahead = () if bound.pipeline.reads_itself else plans
    unchanged = [item for item in ahead if item.is_unchanged]
    settled = {outcome.window: outcome for outcome in record_unchanged(bound, unchanged, world)}
    lost: Window | None = None
    for item in plans:
        outcome = settled.get(item.run.window.id)
        if lost is not None and bound.pipeline.reads_itself:
            yield waits(item, lost)
            continue
        end = Ended.of(item, outcome) if outcome else run_alone(bound, item, world)
        lost = item.run.window if end.error is not None else None
        yield end


def waits(plan: Plan, lost: Window) -> Ended:
    """The end of a window that goes on from one that failed: it is not tried."""
    run = plan.run
    error = PermanentError(
        "SP-R07",
        f"{run.label} was not tried: it goes on from {lost.id}, which failed.",
        why="It would begin with nothing.",
        next="Repair that window, then run the same command again.",
    )
    return Ended(run.pipeline.name, run.window, error=error, blocked=True)


def in_order(bound: Bound, item: Plan, world: World) -> Plan:
    """The plan of a window whose window before may have been published since it was planned."""
    if not bound.pipeline.reads_itself:
        return item
    window, parameters = item.run.window, item.run.parameters
    return plan_windows(bound, [window], world, parameters=parameters, how=item.how)[0]


def refusal_of(bound: Bound, plan: Plan) -> SetpointError | None:
    """Why a plan will not be executed, if it will not; found without Spark."""
    try:
        if not plan.is_unchanged:
            if not plan.how.force:
                refuse_late(plan.run, plan.state)
                if plan.gap is not None:
                    raise gap_error(plan.run.pipeline, plan.run.window, plan.gap)
            refuse_lost(bound, plan)
            refuse_absent(bound, plan)
    except SetpointError as error:
        return error
    return None


def refuse_absent(bound: Bound, plan: Plan) -> None:
    """Refuse to start Spark for a window of whose inputs one is not there."""
    for name, source in bound.sources.items():
        if isinstance(source, AbsentPort):
            refusal = source.absent(plan.run.window, plan.run.inputs[name])
            if refusal is not None:
                raise refusal


def refuse_lost(bound: Bound, plan: Plan) -> None:
    """Refuse to publish over a window whose landed inputs are gone.

    What was landed was meant to be read again. To ask the origin anew is a decision.
    """
    receipt, run = plan.state.receipt, plan.run
    if receipt is None:
        return
    for name in bound.landing:
        if plan.how.refreshes(name):
            continue
        recorded, newest = receipt.inputs.get(name, {}), run.inputs[name].version or 0
        if recorded.get("landed") and recorded.get("version", 0) > newest:
            source = bound.sources[name]
            assert isinstance(source, LandingPort)
            raise PermanentError(
                "SP-R05",
                f"{run.label} was published from generation {recorded['version']} of {name}, "
                f"which is not at {source.uri}.",
                why="Without it the origin would be asked again, and may say something else.",
                next="Bring it back, or correct [landing] path. To ask the origin anew: setpoint "
                f"run {run.pipeline.name} --window {run.window.id} --refresh",
            )


def plan_again(bound: Bound, first: Plan, world: World) -> Plan:
    """The plan of a window as it would be made now."""
    window = first.run.window
    if first.run.by_contents:
        return plan_of_frame(bound, window, world)
    return plan_windows(
        bound,
        [window],
        world,
        parameters=first.run.parameters,
        how=first.how,
    )[0]


def _first_part(error: BaseException) -> str:
    return f"{error.code} {error.what}" if isinstance(error, SetpointError) else str(error)
