"""A command in other surroundings: another day, time zone, locale, hash seed and environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from datetime import timedelta

from setpoint.model.proof import Result
from setpoint.prove.causes import Varied
from setpoint.prove.clock import HOW_TO_GET_IT, Clock, Reach, find_clock
from setpoint.prove.command.ground import ELSEWHERE, Clean, Ground
from setpoint.prove.command.places import Question
from setpoint.prove.surroundings import Factor, applied, clocks_in, factors, named_factor


def surroundings(ground: Ground, clean: Clean) -> Result:
    """Everything around the process is different; if that matters, each thing alone."""
    clock = find_clock(ground.environment)
    every = factors(ground.environment, clock)
    reach = Reach(clock) if clock is not None else None
    together = _elsewhere(ground, clean, every, reach=reach)
    told = "; ".join(["", *_not_varied(ground, clock, reach)])
    if together.state == "passed":
        unmoved = reach is not None and reach.nobody
        varied = [factor for factor in every if factor.name != "clock" or not unmoved]
        names = ", ".join(map(named_factor, varied))
        if lines := clocks_in(ground.lint):
            told += f"; but lint sees a clock: {lines}"
        passed = f"other surroundings give the same rows: {names}{told}"
        return Result("surroundings", "passed", passed)
    found = _narrowed(ground, clean, every, together)
    return replace(found, message=f"{found.message.removesuffix('.')}{told}")


def _not_varied(ground: Ground, clock: Clock | None, reach: Reach | None) -> Iterator[str]:
    """What a reader might take for varied, and was not."""
    if clock is None:
        yield HOW_TO_GET_IT
        return
    if reach is not None and reach.unmoved:
        yield (
            f"the clock was not moved for {', '.join(reach.unmoved)}, which was started without "
            "its environment or does not take libraries"
        )
    servers = [table.name for table in ground.tables if table.label.startswith("postgres:")]
    if servers:
        yield f"the clock of the database of {', '.join(servers)} was not moved"


def _narrowed(ground: Ground, clean: Clean, every: Sequence[Factor], together: Result) -> Result:
    """Which factor matters by itself; none does, if the rows differ without any."""
    same = _elsewhere(ground, clean, []) if together.difference is not None else None
    anyway = _columns(same)
    by_the_clock = together.detail.get("cause") == "clock"
    if same is not None and same.state == "failed" and _columns(together) <= anyway:
        if not by_the_clock:
            noise = replace(same, detail={**same.detail, "factor": "none"})
            return _by_hash_seed(ground, clean, every) or noise
        anyway = frozenset()
    for factor in every:
        alone = _elsewhere(ground, clean, [factor], anyway)
        # What differs in the same surroundings as well says nothing about a factor.
        if alone.state == "failed" and not (anyway and _columns(alone) <= anyway):
            found = replace(alone, detail={**alone.detail, "factor": factor.name})
            return _also(found, same) if same is not None and anyway else found
    return together


def _by_hash_seed(ground: Ground, clean: Clean, every: Sequence[Factor]) -> Result | None:
    """Whether it is hash() of a text: without a seed, it differs by chance in every process."""
    (seed,) = (factor for factor in every if factor.name == "hash seed")
    if not set(seed.changes).isdisjoint(ground.environment):
        return None
    fixed = dict.fromkeys(seed.changes, "0")
    ground.kept.reset()
    if ground.run(fixed).code != 0:
        return None
    ground.keep_tables("seeded")
    ground.kept.reset()
    if ground.run(fixed).code != 0:
        return None
    everything = {table.name: Question(ground.key) for table in ground.tables}
    if ground.others_of("seeded", everything):
        return None
    result = _elsewhere(ground, clean, [seed])
    return replace(result, detail={**result.detail, "factor": seed.name})


def _columns(result: Result | None) -> frozenset[str]:
    """The columns that differ, as far as rows could be matched."""
    if result is None or result.difference is None:
        return frozenset()
    return frozenset(change.name for change in result.difference.columns)


def _also(found: Result, same: Result) -> Result:
    """A result with the cause of what differs without any other surroundings, too."""
    return replace(
        found,
        cause=f"{found.cause} Run like the first time, too: {same.cause}",
        repair=f"{found.repair} {same.repair}",
    )


def _elsewhere(
    ground: Ground,
    clean: Clean,
    different: Sequence[Factor],
    known: Set[str] = frozenset(),
    reach: Reach | None = None,
) -> Result:
    ground.tell(f"surroundings: {', '.join(factor.name for factor in different) or 'none'}")
    ground.kept.reset()
    base = ground.command.environment(ground.environment, ground.addresses, ground.command.window)
    ended = ground.run(applied(base, different), look=reach.look if reach is not None else None)
    named = {factor.name: factor for factor in different}
    what = "in other surroundings"
    if len(different) < 2:
        what = different[0].what if different else "like the first time"
    if ended.code != 0:
        return ground.failing("surroundings", f"run {what}, the command", ended, why=ELSEWHERE)
    return ground.judged(
        "surroundings",
        "the same rows",
        Varied(
            clock=_shift(named),
            time_zone=_value(named, "time zone", "TZ"),
            locale=_value(named, "locale", "LC_ALL"),
            hash_seed=_value(named, "hash seed", "PYTHONHASHSEED"),
            environment=tuple(named["environment"].changes) if "environment" in named else (),
        ),
        clean=clean,
        prefix=f"run {what}, ",
        known=known,
    )


def _shift(named: dict[str, Factor]) -> timedelta | None:
    return timedelta(seconds=int(_value(named, "clock", "FAKETIME"))) if "clock" in named else None


def _value(named: dict[str, Factor], factor: str, variable: str) -> str:
    return named[factor].changes[variable] if factor in named else ""
