"""Steps of writers in processes of their own: at once, killed, stopped and continued."""

from __future__ import annotations

from typing import Any

from histories.model import Ending
from histories.player import Answer, Change, Player, Wrong, after
from histories.rows import Row
from histories.steps import Step
from histories.writers import LONGEST, Writer

# What a run that was overtaken by others may say: it has not published, and may be run again.
OVERTAKEN = ("SP-P03",)
PATIENCE = 4.0  # seconds for a run beside a stopped writer, which may hold a lock


def race(player: Player, step: Step) -> None:
    """Two runs at once, of one window or of two: as one after the other, in either order."""
    player.skip_unless_keys_are_unique()
    days = (step.day, step.other)
    force = _give_work(player, step)
    changes = [player.runs(day, force=force, beside=True) for day in days]
    with player.writers.two() as pair:
        for writer, day in zip(pair, days, strict=True):
            player.order(writer, day, force=force)
        answers = [_answer(writer.wait(LONGEST)) for writer in pair]
    player.note(" and ".join(answer.says for answer in answers))
    both = list(zip(changes, answers, strict=True))
    possible = [*after(player.states, both), *after(player.states, both[::-1])]
    player.check(possible, f"runs of {days} at once: {answers}")


def kill(player: Player, step: Step) -> None:
    """kill -9 at some moment of a run: the old rows or the new ones."""
    player.skip_unless_keys_are_unique()
    force = _give_work(player, step)
    change = player.runs(step.day, force=force)
    with player.writers.one() as writer:
        answer = _interrupted(player, writer, step, force)
        writer.kill()
    player.counts["late kills" if answer else "kills"] += 1
    at = writer.said[-1]["at"] if writer.said else "its start"
    player.note("it had ended" if answer else f"killed in {at}")
    player.writers.settle()
    unheard = after(player.states, [(change, None)])
    done = after(player.states, [(change, answer)]) if answer else [*player.states, *unheard]
    player.check(done, f"killed run of {step.day}")


def stop(player: Player, step: Step) -> None:
    """A writer is stopped, others go on, then it wakes up and thinks that no time has passed."""
    player.skip_unless_keys_are_unique()
    force = _give_work(player, step)
    days = (step.day, step.other)
    mine, beside = (player.runs(day, force=force, beside=True) for day in days)
    foreign = "beside_stopped" in player.place.able and step.number % 3 == 0
    foreign = foreign and player.place.exists()
    with player.writers.two() as (stopped, other):
        answer = _interrupted(player, stopped, step, force)
        if answer is None:
            stopped.stop()
        try:
            theirs: Answer | None = Answer("done")
            if foreign:
                row = Row(2000 + len(player.log), "f", "w", 1, step.other, step.other)
                player.place.append([row])
                beside = _appends(row)
            else:
                player.order(other, step.other, force=force)
                told = other.wait(PATIENCE)
                theirs = _answer(told) if told else None
        finally:
            stopped.go_on()
        player.counts["late stops" if answer else "stops"] += 1
        answer = answer or _answer(stopped.wait(LONGEST))
        theirs = theirs or _answer(other.wait(LONGEST))
    player.note(f"{answer.says}, beside {'an append' if foreign else theirs.says}")
    both: list[tuple[Change, Answer | None]] = [(mine, answer), (beside, theirs)]
    possible = [*after(player.states, both), *after(player.states, both[::-1])]
    player.check(possible, f"run of {step.day} stopped: {answer}, beside it {step.other}: {theirs}")


def _appends(row: Row) -> Change:
    return lambda state: [Ending(state.having([*state.rows, row]))]


def _give_work(player: Player, step: Step) -> bool:
    """See to it that most of these runs have something to do; whether they are to be forced."""
    random = player.history.random(f"work {step} {len(player.log)}")
    if step.number % 10:
        player.facts.add(random, step.day)
        player.facts.add(random, step.other)
        player.facts.write()
    return player.definition.meaning.newest_counts and step.number % 2 == 0


def _interrupted(player: Player, writer: Writer, step: Step, force: bool) -> Answer | None:
    """Have a writer run a window up to a random moment; its answer if it was quicker.

    Half of the moments are drawn evenly from the time that a run takes, the others lie shortly
    after the beginning of one of its steps, of which the publish is the shortest.
    """
    player.order(writer, step.day, force=force)
    if step.number % 2:
        told = writer.wait(step.share * 1.2 * player.seconds)
    else:
        number, shortly = (
            (3, 4, 5, 5, 5, 6)[step.number // 2 % 6],
            (0.02, 0.15)[step.number // 12 % 2],
        )
        told = writer.wait_for_step(number, LONGEST)
        told = told or writer.wait(step.share * shortly * player.seconds)
    return _answer(told) if told else None


def _answer(told: dict[str, Any] | None) -> Answer:
    if told is None:
        raise Wrong("a writer gave no answer")
    answer = Answer.of(told["state"], told["reason"], told.get("code", ""))
    if answer.says == "failed" and told.get("code") not in OVERTAKEN:
        raise Wrong(f"a writer ended with an error that nothing explains: {told['reason']}")
    return answer
