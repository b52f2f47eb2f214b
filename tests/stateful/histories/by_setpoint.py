"""Steps that setpoint takes, and those of the people who write its definitions and facts."""

from __future__ import annotations

from dataclasses import replace

from histories.player import Answer, Player, Skipped, Wrong, after
from histories.rows import DAYS
from histories.steps import Step
from setpoint.errors import SetpointError

# By which pattern another one may be replaced by mistake: what its rows allow.
MISTAKES = {
    "overwrite": ("replace", "delete_insert", "merge", "insert_new"),
    "merge": ("replace",),
    "delete_insert": ("replace", "overwrite"),
    "insert_new": ("replace", "merge"),
    "replace": ("overwrite", "delete_insert", "merge"),
}


def run(player: Player, step: Step) -> None:
    player.run(step.day)


def force(player: Player, step: Step) -> None:
    player.run(step.day, force=True)


def again(player: Player, step: Step) -> None:
    """The second of two equal runs has nothing to do, and says so."""
    first = player.run(step.day)
    second = player.run(step.day)
    must_be_idle(first, second)


def must_be_idle(first: Answer, second: Answer) -> None:
    """Nothing happened between two runs of a window but runs of others, which may be newer."""
    idle = (first.says,) if first.says == "refused" else ("unchanged", "superseded")
    if second.says not in idle:
        raise Wrong(f"nothing happened since a run ({first}), and the next had work: {second}")


def change(player: Player, step: Step) -> None:
    """The facts grow, shrink or are corrected; events that are inserted once never change."""
    facts, random = player.facts, player.history.random(f"facts {step}")
    choices = ["add", "add", "drop"]
    if player.history.definition.pattern != "insert_new":
        choices += ["correct", "correct"]
    if player.history.definition.removes:
        choices += ["gone", "gone"]
    match choices[step.number % len(choices)]:
        case "drop":
            facts.drop(random)
        case "correct":
            facts.correct(random)
        case "gone":
            facts.add(random, step.day, gone=True)
        case _:
            facts.add(random, step.day)
    facts.write()


def mistake(player: Player, step: Step) -> None:
    """Another write pattern."""
    base = player.history.definition
    if base.removes:
        raise Skipped  # what other patterns make of remembered removals is not documented
    patterns = MISTAKES[base.pattern]
    pattern = patterns[step.number % len(patterns)]
    column = base.column
    if pattern == "overwrite":
        column = "d"
    elif pattern == "delete_insert" and not _is_fixed(player):
        column = "d" if step.share < 0.5 else None
    _redefine(player, pattern=pattern, column=column)


def column(player: Player, step: Step) -> None:
    """Another column that says which window a row belongs to."""
    base = player.history.definition
    if base.pattern not in ("overwrite", "delete_insert") or _is_fixed(player):
        raise Skipped
    _redefine(player, pattern=base.pattern, column="e")


def revert(player: Player, step: Step) -> None:
    base = player.history.definition
    _redefine(player, pattern=base.pattern, column=base.column)


def _is_fixed(player: Player) -> bool:
    """Whether the definition has to name the columns by which the table is partitioned."""
    base = player.history.definition
    return base.kind == "parquet" and base.partitioned


def _redefine(player: Player, pattern: str, column: str | None) -> None:
    player.definition = replace(player.definition, pattern=pattern, column=column)
    player.note(f"{pattern} by {column}")


def backfill(player: Player, step: Step) -> None:
    """All windows, in chunks; each ends as if it had been run by itself."""
    player.skip_unless_keys_are_unique()
    longest, restate = (None, 1, 2)[step.number % 3], step.share < 0.3
    changes = {day.isoformat(): player.runs(day) for day in DAYS}
    try:
        ends = player.bench.backfill(player.definition, longest, restate)
    except SetpointError as error:
        raise Wrong(f"an error that nothing explains: {error}") from error
    answers = {
        end.window.id: Answer.of(end.outcome.state, end.outcome.reason)
        if end.outcome
        else Answer.of("failed", str(end.error), getattr(end.error, "code", ""))
        for end in ends
    }
    player.note(" ".join(f"{day[-1:]} {answer.says}" for day, answer in answers.items()))
    failed = [answer for answer in answers.values() if answer.says == "failed"]
    if failed:
        raise Wrong(f"an error that nothing explains: {failed[0].detail}")
    done = [(changes[day], answers[day]) for day in changes if day in answers]
    player.check(after(player.states, done), f"backfill: {answers}")
