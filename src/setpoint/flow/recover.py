"""Recovery: settle what is open by reading the target, and list what crashes left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from setpoint.flow.plan import Bound
from setpoint.flow.recording import remember
from setpoint.flow.world import World
from setpoint.ledger import AttemptRecord
from setpoint.model.ports import LandingPort, Leftover

IsAlive = Callable[[str, int, str], "bool | None"]


@dataclass(frozen=True)
class Settled:
    """An open attempt and what the target says about it."""

    attempt: AttemptRecord
    verdict: str
    detail: str


@dataclass(frozen=True)
class Remains:
    """Staged files that were never published, and whether they may be removed."""

    target: str
    leftover: Leftover
    removable: bool
    reason: str
    drop: Callable[[str], None] = field(compare=False, repr=False)


def settle(bound: Bound, world: World, is_alive: IsAlive) -> list[Settled]:
    """Close every open attempt of a pipeline that is no longer at work."""
    if world.ledger is None:
        return []
    found = []
    for attempt in world.ledger.open_attempts():
        if attempt.pipeline != bound.pipeline.name or attempt.target != bound.target.uri:
            continue
        alive = is_alive(attempt.host, attempt.pid, attempt.process_started)
        if alive and attempt.state == "running":
            found.append(Settled(attempt, "running", f"process {attempt.pid} is at work"))
            continue
        found.append(_settle_one(bound, world, attempt, alive))
    return found


def _settle_one(bound: Bound, world: World, attempt: AttemptRecord, alive: bool | None) -> Settled:
    landed = bound.target.landed(attempt.window_id, attempt.attempt_id)
    assert world.ledger is not None
    if landed is not None:
        remember(
            world, bound.target.uri, landed.table_id, [(landed.receipt, landed.commit_version)]
        )
        world.ledger.finish(
            attempt.attempt_id,
            state="published",
            finished_at=world.now(),
            generation=landed.receipt.generation,
            rows=landed.receipt.rows,
        )
        detail = f"the target has its receipt, generation {landed.receipt.generation}"
        return Settled(attempt, "published", detail)
    if alive is None:
        return Settled(
            attempt, "open", f"it runs on {attempt.host}, which cannot be asked from here"
        )
    if alive:
        detail = f"the target has no receipt of it; process {attempt.pid} may be trying again"
        return Settled(attempt, "open", detail)
    last = world.ledger.steps(attempt.attempt_id)
    where = f"after the step {last[-1].name}" if last else "before its first step"
    world.ledger.finish(
        attempt.attempt_id,
        state="crashed",
        finished_at=world.now(),
        error_text=f"The process ended {where}; the target has no receipt of it.",
    )
    return Settled(attempt, "crashed", f"ended {where}; the target has no receipt of it")


def remains(
    bound: Bound, world: World, settled: Sequence[Settled], *, older_than: timedelta
) -> list[Remains]:
    """What crashed and refused attempts left staged below the target, or where inputs land."""
    at_work = {item.attempt.attempt_id for item in settled if item.verdict in ("running", "open")}
    if world.ledger is not None:
        # Pipelines that share a landed copy see each other's files there.
        at_work |= {item.attempt_id for item in world.ledger.open_attempts()}
    ended = _ended_attempts(world, bound.pipeline.name)
    target = bound.target
    left = [
        (target.uri, target.drop_stage, item)
        for item in target.leftovers()
        # Replaced since, and kept for time travel: a matter for VACUUM.
        if ended.get(item.attempt) != "published"
    ]
    for source in bound.sources.values():
        if isinstance(source, LandingPort):
            left += [(source.uri, source.drop, item) for item in source.leftovers()]
    found = []
    for uri, drop, leftover in left:
        if leftover.pipeline != bound.pipeline.name:
            continue
        age = world.now() - datetime.fromtimestamp(leftover.modified_ms / 1000, timezone.utc)
        if leftover.attempt in at_work:
            verdict, reason = False, "its attempt is still open"
        elif leftover.attempt in ended:
            verdict, reason = True, f"its attempt ended: {ended[leftover.attempt]}"
        elif age >= older_than:
            verdict, reason = True, f"{_age(age)} old and unknown to the ledger"
        else:
            verdict, reason = False, f"only {_age(age)} old; another machine may be at work"
        found.append(Remains(uri, leftover, verdict, reason, drop))
    return found


def _ended_attempts(world: World, pipeline: str) -> dict[str, str]:
    if world.ledger is None:
        return {}
    return {
        attempt.attempt_id: attempt.state
        for attempt in world.ledger.attempts(pipeline, limit=None)
        if not attempt.is_open
    }


def _age(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{max(hours, 0):.1f} hours"
