"""What is tried with a command: again, killed, two at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from contextlib import ExitStack
from dataclasses import replace
from itertools import dropwhile

from setpoint.model.proof import Result
from setpoint.prove.causes import Varied
from setpoint.prove.command.ground import TOGETHER, Clean, Ground
from setpoint.prove.command.moments import SHORT, Moment, Observed, chosen

_TRIES, _NEAR = 3, 12
"""Tries for a moment, and those that may miss it because others had the processor."""
_TOGETHER, _ALONE = 30.0, 2.0
_LOOK = 0.01
_OVER = Moment("end")


def again(ground: Ground, clean: Clean, times: int, *, done: int) -> Result:
    """Run until it has been run so many times; the tables hold what the `done` runs have left."""
    name, which = ("twice", "second") if times == 2 else ("thrice", "third")
    for number in range(done, times):
        ended = ground.run()
        if ended.code != 0:
            return ground.failing(name, f"the {('second', 'third')[number - 1]} run", ended)
    passed = f"a {which} run leaves the tables as they were"
    prefix = f"after a {which} run, "
    return ground.judged(name, passed, Varied(again=times - 1), clean=clean, prefix=prefix)


def killed(ground: Ground, clean: Clean, *, few: bool) -> Result:
    """Kill the command at moments of its life, and run it again each time."""
    tried: list[dict[str, str]] = []
    other: Result | None = None
    for moment in chosen(clean.seen, few=few):
        result = _killed_at(ground, clean, moment, tried)
        if result is not None and _is_telling(result):
            return result
        other = other or result
    if other is None:
        other = _killed_again(ground, clean, tried, few=few)
    if other is not None:
        return other
    over = [item for item in tried if item["moment"] == _OVER.words]
    hits = [item for item in tried if item["outcome"] == "same" and item not in over]
    missed = [item for item in tried if item["outcome"] != "same"]
    told = {"moments": tried}
    if not hits:
        why = "the command was over before it could be killed at any moment that was tried"
        return Result("killed", "skipped", why, detail=told)
    words = f"killed at {len(hits)} moments and run again: the tables are the same"
    if len(hits) == 1:
        words = f"killed {hits[0]['moment']} and run again: the tables are the same"
    if over:
        words += "; over before it could be killed after its last change, and run again as well"
    if missed:
        words += f"; too fast to be killed {' or '.join(item['moment'] for item in missed)}"
    return Result("killed", "passed", words, detail=told)


def _is_telling(result: Result) -> bool:
    """Whether a failure is about the kill: rows are lost or doubled, or the retry fails.

    Rows that differ in their values only do so, as a rule, whenever the command is run.
    """
    found = result.difference
    return found is None or found.rows_found != found.rows_expected


def _killed_at(
    ground: Ground, clean: Clean, meant: Moment, tried: list[dict[str, str]]
) -> Result | None:
    """One moment; None when the retry repaired everything, or the moment could not be hit."""
    moment = _hit(ground, meant, clean.seen, ground.kept.reset)
    if moment is None:
        tried.append({"moment": meant.words, "outcome": "too fast"})
        return None
    left = {table.name: table.rows_now(ground.sessions) for table in ground.tables}
    ended = ground.run()
    if ended.code == 0 and not (others := ground.others()):
        tried.append({"moment": moment.words, "outcome": "same"})
        return None
    tried.append({"moment": moment.words, "outcome": "differs"})
    detail = {"moments": list(tried)}
    if ended.code != 0:
        which = f"killed {moment.words}, the retry"
        return ground.failing("killed", which, ended, detail=detail)
    name = others[0].table.name
    was = clean.rows[name] - clean.brought[name]
    result = ground.judged(
        "killed",
        "",
        Varied(killed=f"the moment {moment.words}"),
        clean=clean,
        others=others,
        prefix=f"killed {moment.words} and run again, ",
        detail=detail,
        left=max(left[name] - was, 0),
    )
    later = parted(clean.seen, moment, tables=left)
    return result if later is None else _split(result, moment.place, later)


def parted(seen: Observed, moment: Moment, *, tables: Container[str]) -> str | None:
    """The place that is changed after the one whose change was the moment of a kill, if another.

    A file is made and then filled: a look may come between the two or not, so that all changes of
    a file in a row count as one. A table's changes are commits, each one a change of its own.
    """
    if moment.sort != "after":
        return None
    after = seen.changes[moment.number :]
    if moment.place not in tables:
        after = tuple(dropwhile(lambda place: place == moment.place, after))
    return after[0] if after and after[0] != moment.place else None


def _split(result: Result, first: str, later: str) -> Result:
    """A failure whose kill came between the changes of two places."""
    return replace(
        result,
        cause=f"{first} is changed first and {later} later: a crash between them leaves one "
        f"without the other. {result.cause}",
        repair=f"Save {later} in the same commit as {first}, or do not depend on it: derive what "
        f"to read from the window. {result.repair}",
        detail={**result.detail, "cause": "split-state"},
    )


def _killed_again(
    ground: Ground, clean: Clean, tried: list[dict[str, str]], *, few: bool
) -> Result | None:
    """Kill a second run: it changes nothing in the end, so it may change nothing in between.

    Only where a second run was seen to change something more than once. Nobody runs the command
    again before the tables are looked at: this is what readers have until somebody does.
    """
    _loaded(ground)
    ended, seen = ground.watched()
    if ended.code != 0 or ground.others():
        return None  # `twice` tells about that
    between = [moment for moment in chosen(seen, few=few) if 0 < moment.number < moment.of]
    for moment in between[:1] if few else between:
        words = f"{moment.words} of a second run"
        if _hit(ground, moment, seen, lambda: _loaded(ground)) is None:
            tried.append({"moment": words, "outcome": "too fast"})
            continue
        others = ground.others()
        if not others:
            tried.append({"moment": words, "outcome": "same"})
            continue
        result = ground.judged(
            "killed",
            "",
            Varied(killed=f"the moment {words}", retried=False),
            clean=clean,
            others=others,
            prefix=f"killed {words}, ",
            detail={"moments": [*tried, {"moment": words, "outcome": "differs"}]},
        )
        ended = ground.run()
        healed = ended.code == 0 and not ground.others()
        more = " until somebody runs it again." if healed else ", and a retry does not repair it."
        return replace(result, message=result.message.removesuffix(".") + more)
    return None


def _loaded(ground: Ground) -> None:
    """The state after one run; the command itself makes it, so that it goes on from its own."""
    ground.kept.reset()
    ground.run()


def _hit(
    ground: Ground, moment: Moment, usual: Observed, prepare: Callable[[], None]
) -> Moment | None:
    """Kill at a moment, or at one in the middle just after it; None when it cannot be hit.

    A kill between the making of a file and its filling is taken only if no other can be had. Who
    is over after the last change has left what a kill would have left, and a machine may die
    before anybody knows that it is over.
    """
    missed = near = 0
    while missed < _TRIES and near < _NEAR:
        ground.tell(f"killed {moment.words}")
        prepare()
        ended, seen = ground.watched(moment, usual)
        hit = seen.killed and is_hit(seen, moment)
        if hit and not seen.amid:
            return moment
        if seen.killed and seen.held and usual.seconds < SHORT:
            near += 1
        else:
            missed += 1
    if hit:
        return moment
    is_last = moment.sort == "after" and moment.number == moment.of
    is_over = ended.code == 0 and seen.changes == usual.changes
    return _OVER if is_last and is_over else None


def is_hit(seen: Observed, moment: Moment) -> bool:
    """Whether a kill came where it was meant to; what was seen ends with it.

    A file that is written in parts may be seen once instead of twice: the same number of changes
    is another moment then, after the place that comes next.
    """
    if len(seen.changes) >= max(moment.of, moment.number + 1):
        return False
    return moment.sort != "after" or seen.changes[-1:] == (moment.place,)


def two_at_once(ground: Ground, clean: Clean) -> Result:
    """Start the command twice; who fails is run again, as a scheduler would."""
    ground.kept.reset()
    with ExitStack() as stack:
        eyes = [stack.enter_context(place.watching(held=ground.held)) for place in ground.places]
        gates = [eye.gate for eye in eyes if eye.gate is not None]
        both = [stack.enter_context(ground.start()) for _ in range(2)]
        # Where writers can be held, neither may begin before the other is there. One that waits
        # for a lock of the command's own never comes: it is not waited for long.
        until = ground.seconds() + _TOGETHER
        while gates and all(process.running for process in both) and ground.seconds() < until:
            waiting = max(gate.waiting().ours if gate.is_closed() else 0 for gate in gates)
            if waiting >= len(both):
                break
            if waiting:
                until = min(until, ground.seconds() + _ALONE)
            time.sleep(_LOOK)
        for gate in gates:
            gate.leave_open()
        ends = [process.wait() for process in both]
    failed = [ended for ended in ends if ended.code != 0]
    for _ in failed:
        ended = ground.run()
        if ended.code != 0:
            which = "after two at once, a run"
            return ground.failing("two-at-once", which, ended, why=TOGETHER)
    passed = "two at once leave what one leaves"
    if failed:
        passed = f"of two at once {len(failed)} failed and was run again: the tables are the same"
    return ground.judged(
        "two-at-once",
        passed,
        Varied(together=True),
        clean=clean,
        prefix="after two runs at once, ",
        detail={"failed": len(failed)},
    )
