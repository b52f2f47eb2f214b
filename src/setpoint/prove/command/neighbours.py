"""A command beside its neighbours: the windows around it stay as they are when it is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from setpoint.errors import SetpointError
from setpoint.model.proof import Result
from setpoint.model.window import Window
from setpoint.prove.causes import Varied
from setpoint.prove.command.ground import Clean, Ground, Other
from setpoint.prove.command.places import Question
from setpoint.prove.processes import Ended


def neighbours(ground: Ground, clean: Clean, neighbour: str, time_column: str) -> Result:
    """Run the windows around it first; when this one is run, all rows but its own have to stay."""
    name, own = "neighbours", ground.command.window
    if not ground.command.names("window"):
        return Result(name, "skipped", "the command does not take a {window}")
    try:
        window = Window.parse(own)
        others = [neighbour] if neighbour else [window.next().id, window.previous().id]
    except SetpointError:
        return Result(name, "skipped", f"{own} is no window id: nothing tells which rows are its")
    ran, ended = _run_first(ground, others)
    if not ran:
        why = f"the command fails for {others[-1]}: {ended.last_words(1)}"
        return Result(name, "skipped", why, detail={"output": ended.last_words(8)})
    ground.keep_tables("neighbour")
    ended = ground.run()
    if ended.code != 0:
        return ground.failing(name, f"after {' and '.join(ran)}, {own}", ended)
    asked = {}
    for table in ground.tables:
        before, after = ground.kept.of(table), ground.kept_as("expected", table)
        column = table.time_column(before, after, time_column, window, ground.sessions)
        if column:
            asked[table.name] = Question(ground.key, column, window, outside=True)
    if not asked:
        why = f"no column tells which rows are those of {own}: name one with --time"
        return Result(name, "skipped", why)
    found, where = _touched(ground, asked, ran)
    by = asked[found[0].table.name].time if found else ", ".join({q.time for q in asked.values()})
    result = ground.judged(
        name,
        f"the rows of other windows stay as they were (by `{by}`; {' and '.join(ran)} run before)",
        Varied(order=f"{', '.join(ran)}, then {own}"),
        clean=clean,
        others=found,
        prefix=f"{f'of {where}, run before,' if where else f'outside {own}'} by `{by}`, ",
        detail={"neighbours": ran, "time": {name: q.time for name, q in asked.items()}},
        outside=True,
        beyond=not where,
    )
    if result.state == "passed" or time_column:
        return result
    guessed = f"If another column than `{by}` says which window a row is of: --time COLUMN."
    return replace(result, repair=f"{result.repair} {guessed}")


def _touched(
    ground: Ground, asked: Mapping[str, Question], ran: Sequence[str]
) -> tuple[list[Other], str]:
    """What differs among all rows but the window's own; of one window that was run, if it does.

    What happened to the rows of one window says more about the cause.
    """
    found = ground.others_of("neighbour", asked)
    for other in reversed(ran) if found else ():
        with suppress(SetpointError):
            window = Window.parse(other)
            inside = {n: replace(q, window=window, outside=False) for n, q in asked.items()}
            if narrow := ground.others_of("neighbour", inside):
                return narrow, other
    return found, ""


def _run_first(ground: Ground, windows: Sequence[str]) -> tuple[list[str], Ended]:
    """Run windows one after the other; one that fails is left out, with what it may have left."""
    ran: list[str] = []
    ground.kept.reset()
    for window in windows:
        ended = ground.run(window=window)
        if ended.code == 0:
            ran.append(window)
        else:
            ground.kept.reset()
            for earlier in ran:
                ground.run(window=earlier)
    return ran, ended
