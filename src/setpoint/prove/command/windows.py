"""Two windows of a command in another order: the tables are the same."""

from __future__ import annotations

from setpoint.errors import SetpointError
from setpoint.model.proof import Result
from setpoint.model.window import Window
from setpoint.prove.causes import Varied
from setpoint.prove.command.ground import Clean, Ground
from setpoint.prove.command.places import Question


def order(ground: Ground, clean: Clean, neighbour: str, *, few: bool) -> Result:
    """Run the other window again afterwards, then begin with this one: the tables are the same.

    The second takes part in the full set only: a job that goes on from the window before is
    right to depend on the order, and nothing says whether this one does.
    """
    name, window = "order", ground.command.window
    other = _both_run(ground, name, neighbour)
    if isinstance(other, Result):
        return other
    ground.keep_tables("in-order")
    first = neighbour or other.id
    tried = [[first]] if few else [[first], [window, first]]
    for windows in tried:
        told = ", ".join([first, window, *windows] if len(windows) == 1 else windows)
        if len(windows) > 1:
            ground.kept.reset()
        for item in windows:
            ended = ground.run(window=item)
            if ended.code != 0:
                return ground.failing(name, f"in the order {told}, the run of {item}", ended)
        everything = {table.name: Question(ground.key) for table in ground.tables}
        result = ground.judged(
            name,
            f"run in the order {told}: the same rows",
            Varied(order=told),
            clean=clean,
            others=ground.others_of("in-order", everything),
            prefix=f"run in the order {told}, ",
            detail={"neighbour": other.id},
        )
        if result.state == "failed":
            return result
    return result


def _both_run(ground: Ground, name: str, neighbour: str) -> Window | Result:
    """Run the other window, then this one.

    The other window is returned, or the result where that cannot be done.
    """
    if not ground.command.names("window"):
        return Result(name, "skipped", "the command does not take a {window}")
    try:
        other = Window.parse(neighbour or Window.parse(ground.command.window).previous().id)
    except SetpointError:
        why = f"{ground.command.window} is no window id: name another one with --neighbour"
        return Result(name, "skipped", why)
    ground.kept.reset()
    ended = ground.run(window=neighbour or other.id)
    if ended.code != 0:
        why = f"the command fails for {neighbour or other.id}: {ended.last_words(1)}"
        return Result(name, "skipped", why, detail={"output": ended.last_words(8)})
    ended = ground.run()
    if ended.code != 0:
        return ground.failing(name, f"after {other.id}, {ground.command.window}", ended)
    return other
