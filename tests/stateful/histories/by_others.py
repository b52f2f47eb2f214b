"""Steps of other tools and people: writes, renames, restores, maintenance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from histories.model import KEYED, OTHER, State
from histories.places.place import mapped, updated
from histories.player import Player, Skipped
from histories.rows import Row
from histories.steps import Step


def append(player: Player, step: Step) -> None:
    """A row of their own, or one that is there already."""
    _prepare(player, "append", step)
    stored = player.states[0].rows
    number = 1000 + len(player.log)
    text = OTHER if step.share < 0.3 else "w"
    row = Row(number, f"f{number}", text, number, step.day, step.other)
    keyed = player.history.definition.pattern in KEYED
    if stored and not keyed and step.share > 0.6:
        row = stored[step.number % len(stored)]
    player.place.append([row])
    _changed(player, lambda state: state.having([*state.rows, row]))


def delete(player: Player, step: Step) -> None:
    key = _chosen(player, "delete", step)
    player.place.delete(key)
    _overwritten(player, lambda s: s.having(row for row in s.rows if row.id != key))


def update(player: Player, step: Step) -> None:
    key = _chosen(player, "delete", step)
    text, shift = f"u{len(player.log)}", 500 if step.share < 0.5 else -500
    player.place.update(key, text, shift)
    _overwritten(player, lambda s: s.having(updated(s.rows, key, text, shift)))


def overwrite(player: Player, step: Step) -> None:
    """Somebody restores a backup: the rows of some earlier time."""
    _prepare(player, "overwrite", step)
    if not player.backups:
        raise Skipped
    rows = player.backups[step.number % len(player.backups)]
    player.place.overwrite(rows)
    states = [s.having(rows) for old in player.states for s in player.place.after_overwrite(old)]
    player.check(states, "restored backup")


def compact(player: Player, step: Step) -> None:
    _prepare(player, "compact", step)
    player.place.compact()
    player.check(player.states, "compaction")


def swap(player: Player, step: Step) -> None:
    """v becomes w and w becomes v, by renames."""
    _prepare(player, "swap", step)
    player.place.swap_columns()
    player.marks.clear()
    _changed(player, lambda state: mapped(state, lambda row: row._replace(v=row.w, w=row.v)))


def renew(player: Player, step: Step) -> None:
    """w is dropped and added again."""
    _prepare(player, "renew", step)
    player.place.renew_column()
    player.marks.clear()
    _changed(player, lambda state: mapped(state, lambda row: row._replace(w=None)))


def roll_back(player: Player, step: Step) -> None:
    """The table goes back to an older version of itself."""
    _prepare(player, "roll_back", step)
    now = player.place.version()
    older = [mark for mark in player.marks if mark[0] != now]
    if not older:
        raise Skipped
    version, states = older[-1 - step.number % min(len(older), 4)]
    player.place.roll_back(version)
    player.note(f"to {version}")
    possible = [
        state
        for current in player.states
        for then in states
        for state in player.place.after_roll_back(current, then)
    ]
    player.check(possible, "return to an older version")


def forget(player: Player, step: Step) -> None:
    """Snapshots expire, or the log is cleaned up."""
    _prepare(player, "forget", step)
    player.place.forget()
    player.marks.clear()
    player.check(player.states, "expiry or clean-up")


def lose_ledger(player: Player, step: Step) -> None:
    player.bench.close()
    for file in (Path(player.root) / ".setpoint").glob("ledger.db*"):
        file.unlink()
    after = player.place.after_lost_ledger
    player.check([s for state in player.states for s in after(state)], "a lost ledger")


_LIMITED = ("roll_back", "forget", "swap", "renew")


def _prepare(player: Player, kind: str, step: Step) -> None:
    """Skip what the destination cannot do, or what it documents that it does not notice."""
    if not player.place.exists() or (kind in _LIMITED and kind not in player.place.able):
        raise Skipped
    keyed = {player.history.definition.pattern, player.definition.pattern} & set(KEYED)
    if player.place.kind == "postgres" and keyed and kind in ("append", "delete", "overwrite"):
        # A foreign DELETE with as many foreign INSERTs may be missed.
        if kind == "overwrite" or player.foreign - {kind}:
            raise Skipped
        player.foreign.add(kind)


def _chosen(player: Player, kind: str, step: Step) -> int:
    _prepare(player, kind, step)
    stored = player.states[0].rows
    if not stored:
        raise Skipped
    return stored[step.number % len(stored)].id


def _changed(player: Player, change: Callable[[State], State]) -> None:
    player.check([change(state) for state in player.states], "a change by others")


def _overwritten(player: Player, change: Callable[[State], State]) -> None:
    """As `_changed`, for changes that a destination may only take by replacing everything."""
    after = player.place.after_overwrite
    found = [s for state in player.states for s in after(change(state))]
    player.check(found, "a change by others")
