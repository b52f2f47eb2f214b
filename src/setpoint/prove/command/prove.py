"""A command, proven: its tables end in the state of one clean run, whatever is done to it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import setpoint
from setpoint import edge
from setpoint.errors import (
    NOTHING_STARTED,
    PermanentError,
    RefusedError,
    SetpointError,
)
from setpoint.model.proof import Proof, Result
from setpoint.model.secret import without_passwords
from setpoint.project.wiring import Project
from setpoint.prove.command import attempts, windows
from setpoint.prove.command.elsewhere import surroundings
from setpoint.prove.command.entries import remove
from setpoint.prove.command.ground import Clean, Ground
from setpoint.prove.command.kept import (
    MARKER,
    NOT_OURS,
    UNDER_WAY,
    Kept,
    identities_of,
    keeping,
    left_behind,
    restore_left,
)
from setpoint.prove.command.links import is_below, resolved
from setpoint.prove.command.moments import Observed
from setpoint.prove.command.neighbours import neighbours
from setpoint.prove.command.places import Place, Question, Table
from setpoint.prove.command.tables import place_named, places_of
from setpoint.prove.command.words import Command
from setpoint.prove.ended import ProofEnded
from setpoint.prove.experiments import choose
from setpoint.prove.folders import COMMANDS
from setpoint.prove.processes import Ended

Told = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What is to be proven, and how."""

    command: Command
    tables: tuple[str, ...]
    states: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    full: bool = False
    neighbour: str = ""
    time: str = ""
    key: tuple[str, ...] = ()
    keep: bool = False
    """Whether copies and logs stay, to look at them."""

    @property
    def experiments(self) -> tuple[str, ...]:
        """The names of what is tried, in the order in which it is tried."""
        return choose(full=self.full, only=self.only, subject="command").names


@dataclass(frozen=True)
class Around:
    """Where a command runs, and who hears about it."""

    here: Path
    environment: Mapping[str, str]
    now: Callable[[], datetime] = edge.utc_now
    tell: Told = lambda message: None
    note: Told = lambda message: None
    begun: Callable[[Proof], None] = lambda proof: None
    done: Callable[[Result], None] = lambda result: None


def prove(
    asked: Asked,
    project: Project,
    around: Around,
    consent: Callable[[Sequence[Place]], None],
) -> Proof:
    """Try a command; `consent` is asked before it works on tables that are not copies."""
    experiments = asked.experiments
    tables, places = places_of(asked.tables, asked.states, project.adapters, around.here)
    restore_all(project, places, around.note)
    folder = folder_of(project) / edge.new_attempt_id()
    chosen = {
        place.name: place.copy_in(folder / "copies" / f"{folder.name}_{place.name}")
        if asked.command.names(place.name)
        else place
        for place in places
    }
    in_place = [place for place in places if chosen[place.name] is place]
    for place in in_place:
        if refusal := _holds(place, folder) or place.refusal(in_place):
            raise _cannot_be_restored(place, refusal)
    if in_place:
        consent(in_place)
    began, code = around.now(), asked.command.fingerprint(around.here)
    proof: Proof | None = None
    results: list[Result] = []
    try:
        with keeping(folder, places, chosen, around.here) as kept:
            working = [_table(chosen[table.name]) for table in tables]
            ground = _ground(asked, project, around, kept, working, list(chosen.values()))
            clean = clean_run(ground, {place.name: place.address for place in places})
            proof = Proof(
                # It is kept in certificates and reports, which are committed and sent around.
                subject=without_passwords(asked.command.text),
                window=asked.command.window,
                results=(),
                code=code,
                experiments="chosen" if asked.only else "full" if asked.full else "quick",
                rows=sum(clean.rows.values()),
                began=began,
                version=setpoint.__version__,
                notes=(
                    *clean.notes,
                    *_left_out([place for place in places if place not in in_place]),
                    *([f"copies and logs are kept in {folder}"] if asked.keep else []),
                ),
            )
            around.begun(proof)
            for name in experiments:
                results.append(_each(name, asked, ground, clean, around.done))
    except KeyboardInterrupt as stop:
        if proof is None:
            raise
        untried = experiments[len(results) :]
        seconds = (around.now() - began).total_seconds()
        ended = replace(proof, results=tuple(results), untried=untried, seconds=seconds)
        raise ProofEnded(ended, _as_they_were(places)) from stop
    finally:
        # With a marker in it, it is what a table can still be restored from.
        if not asked.keep and not (folder / MARKER).exists():
            with suppress(OSError):
                remove(folder)
    seconds = (around.now() - began).total_seconds()
    return replace(proof, results=tuple(results), seconds=seconds)


def _holds(place: Place, folder: Path) -> str:
    """Why a place cannot be kept in a folder that lies in it."""
    if is_below(resolved(folder)[0], Path(place.identity)):
        return "the copies that a proof makes would lie in it"
    return ""


def _as_they_were(places: Sequence[Place]) -> str:
    return f"Restored and compared: {', '.join(place.label for place in places)}."


def _left_out(copied: Sequence[Place]) -> Iterator[str]:
    """What copies did not have: a command that depends on it was not tried as it is."""
    for place in copied:
        if said := place.left_out():
            yield f"the copy of {place.name} went without {said}"


def _ground(
    asked: Asked,
    project: Project,
    around: Around,
    kept: Kept,
    tables: Sequence[Table],
    places: Sequence[Place],
) -> Ground:
    return Ground(
        command=asked.command,
        tables=tables,
        places=places,
        kept=kept,
        folder=kept.folder,
        here=around.here,
        sessions=project.sessions,
        environment=around.environment,
        now=around.now,
        tell=around.tell,
        key=asked.key,
    )


def restore_all(project: Project, places: Sequence[Place], note: Told) -> None:
    """Restore what earlier proofs could not; what is under way, or not ours, is left alone."""
    ours = {place.identity for place in places}
    for folder in left_behind(folder_of(project)):
        try:
            labels = restore_folder(folder, project)
        except SetpointError as error:
            if error.code not in (UNDER_WAY, NOT_OURS) or ours & set(identities_of(folder)):
                raise
            continue
        note(f"restored what a proof that was ended has left: {', '.join(labels)}")


def restore_folder(folder: Path, project: Project) -> tuple[str, ...]:
    """Restore what one proof has kept; the labels of what was restored."""

    def opened(specs: Sequence[str], here: Path) -> list[Place]:
        return [place_named(spec, project.adapters, here) for spec in specs]

    return restore_left(folder, opened)


def folder_of(project: Project) -> Path:
    """Where the states of commands under proof are kept."""
    return project.config.root / COMMANDS


def clean_run(ground: Ground, named: Mapping[str, str]) -> Clean:
    """Run the command once, watched, and keep what it leaves.

    `named` are the addresses of the tables that the user named: copies are gone afterwards.
    """
    ground.tell("one clean run")
    at = ground.now()
    ended, seen = ground.watched()
    if ended.code != 0 and seen.held and not ended.hung and _works_alone(ground):
        ended, seen = ground.watched()
    if ended.code != 0:
        raise _clean_run_failed(ground.command, named, ended)
    for place in ground.places:
        if moved := place.elsewhere(ground.kept.of(place)):
            raise _pointed_elsewhere(place, moved)
    ground.keep_tables("expected")
    for table in ground.tables:
        if not table.exists(ground.kept_as("expected", table)):
            raise _no_table(table)
    if not any(table.name in seen.changes for table in ground.tables):
        raise _nothing_written(ground.tables, ground.command.window)
    before = {
        table.name: table.rows(ground.kept.of(table), ground.sessions) for table in ground.tables
    }
    rows = ground.rows_in("expected")
    brought = {name: count - before[name] for name, count in rows.items()}
    return Clean(seen, at, rows, brought, tuple(_unchanged(ground, seen, brought)))


def _works_alone(ground: Ground) -> bool:
    """Whether a command that failed while its writes were held succeeds when nobody holds them.

    One that asks for a lock and does not wait for it is such a command. It is only looked at then.
    """
    ground.kept.reset()
    ground.held = ground.run().code != 0
    ground.kept.reset()
    return not ground.held


def _unchanged(ground: Ground, seen: Observed, brought: Mapping[str, int]) -> Iterator[str]:
    """What the clean run did not change, in words: about that nothing is proven."""
    for table in ground.tables:
        if table.name not in seen.changes:
            yield f"{table.name} is not written by the command: nothing is proven about it"
        elif not brought[table.name]:
            before = ground.kept.of(table)
            if table.difference(before, Question(), ground.sessions) is None:
                yield (
                    f"{table.name} held the rows of the window already, and one run writes the "
                    "same again: a first load of the window was not tried"
                )


def _each(
    name: str, asked: Asked, ground: Ground, clean: Clean, done: Callable[[Result], None]
) -> Result:
    began = ground.seconds()
    ground.tell(name)
    result = _tried(name, asked, ground, clean)
    timed = replace(result, seconds=ground.seconds() - began)
    done(timed)
    return timed


def _tried(name: str, asked: Asked, ground: Ground, clean: Clean) -> Result:
    few = not asked.full and not asked.only
    match name:
        case "twice":
            return attempts.again(ground, clean, 2, done=1)
        case "thrice":
            # Without `twice` before it, only the clean run was made.
            done = 2 if "twice" in asked.experiments else 1
            return attempts.again(ground, clean, 3, done=done)
        case "killed":
            return attempts.killed(ground, clean, few=few)
        case "two-at-once":
            return attempts.two_at_once(ground, clean)
        case "neighbours":
            return neighbours(ground, clean, asked.neighbour, asked.time)
        case "order":
            return windows.order(ground, clean, asked.neighbour, few=few)
        case "surroundings":
            return surroundings(ground, clean)
        case _:
            return Result(name, "skipped", "this cannot be tried with a command yet")


def _table(place: Place) -> Table:
    """A copy of a table is a table."""
    return place  # type: ignore[return-value]


def _clean_run_failed(command: Command, named: Mapping[str, str], ended: Ended) -> PermanentError:
    run = without_passwords(shlex.join(command.filled(named, command.window)))
    how = "did not end" if ended.hung else f"ended with exit code {ended.code}"
    # Names only: what a variable holds may be a password.
    given = f" with {', '.join(command.variables)} set" if command.variables else ""
    return PermanentError(
        "SP-V21",
        f"The command {how} when it was run once, with nothing done to it.",
        why=f"Nothing can be proven before it works. {ended.told(12)}",
        state="The tables are as they were.",
        next=f"Run it by hand{given}: {run}",
    )


def _no_table(table: Table) -> PermanentError:
    return PermanentError(
        "SP-V26",
        f"After the command there is no table {table.label}.",
        why="It writes somewhere else, or it writes nothing.",
        state="Everything is as it was.",
        next=f"Correct --table {table.name}=..., or the command.",
    )


def _nothing_written(tables: Sequence[Table], window: str) -> PermanentError:
    return PermanentError(
        "SP-V27",
        f"The command has written nothing to {', '.join(table.label for table in tables)}.",
        why="It writes somewhere else, or it found its work done. Whatever is tried with a command "
        "that writes nothing, its tables stay the same: that would prove nothing.",
        state="Everything is as it was.",
        next="Correct --table, or prove a window that is not loaded yet"
        + (f" instead of {window}." if window else "."),
    )


def _pointed_elsewhere(place: Place, moved: str) -> RefusedError:
    return RefusedError(
        "SP-V22",
        f"The command makes {place.name} another place: {moved}.",
        why="A proof brings back what it knows of. What the command writes at the other end of a "
        "link, and what an earlier run has left there, it would not.",
        state="The link is as it was, and so is what it leads to. What the command has written "
        "at its other end is still there.",
        next=f"Let the command take the place: write {{{place.name}}} into it, and it works on a "
        "copy.",
    )


def _cannot_be_restored(place: Place, why: str) -> RefusedError:
    return RefusedError(
        "SP-V22",
        f"{place.label} cannot be brought back to what it is now: {why}.",
        why="A proof runs the command on its tables several times, and undoes it each time.",
        state=NOTHING_STARTED,
        next=f"Let the command take the table's name: write {{{place.name}}} into it, and the "
        "proof works on a copy.",
    )
