"""`setpoint prove --command`: any existing job as a black box."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from setpoint.cli.check import column_names
from setpoint.cli.confirm import confirm
from setpoint.cli.output import Output
from setpoint.cli.proofs import head_line
from setpoint.cli.selection import open_project
from setpoint.errors import NOTHING_STARTED, UsageError

if TYPE_CHECKING:
    from setpoint.model.proof import Proof, Result
    from setpoint.prove.command.places import Place


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that are about commands only."""
    parser.add_argument(
        "--command",
        metavar="TEXT",
        help="prove a command instead of a pipeline; {window} and the names of tables in braces "
        "are filled in",
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME=KIND:PLACE",
        help="a table that the command writes: delta:PATH, parquet:PATH, iceberg:NAME, "
        "postgres:CONNECTION/NAME; may be repeated",
    )
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="[NAME=]PATH",
        help="a file or folder of the command's state, such as a mark; may be repeated",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for the command; may hold {window} and {NAME}; may be repeated",
    )
    parser.add_argument(
        "--neighbour", default="", metavar="ID", help="the other window; default: the one before"
    )
    parser.add_argument(
        "--time", default="", metavar="COLUMN", help="the column that says when a row is for"
    )
    parser.add_argument(
        "--key", default="", metavar="COLUMNS", help="the columns by which rows are matched"
    )
    parser.add_argument(
        "--yes", action="store_true", help="let the command work on the tables themselves"
    )
    parser.add_argument(
        "--restore",
        metavar="FOLDER",
        help="bring back the tables of a proof that was ended before it could",
    )


def prove_command(
    options: argparse.Namespace, output: Output, done: Callable[[Result], None]
) -> Proof:
    """Prove the command of the options; `done` hears every result when it is there."""
    _refuse_foreign(options, ("sample", "param"), "a pipeline")
    from setpoint.prove.command.prove import Around, Asked, prove
    from setpoint.prove.command.words import Command

    asked = Asked(
        command=Command.of(options.command, options.window, options.env),
        tables=tuple(options.table),
        states=tuple(options.state),
        only=tuple(name.strip() for name in (options.only or "").split(",") if name.strip()),
        full=options.full,
        neighbour=options.neighbour,
        time=options.time,
        key=column_names(options.key) if options.key else (),
        keep=options.keep,
    )

    def consent(places: Sequence[Place]) -> None:
        listed = ", ".join(place.label for place in places)
        confirm(
            f"The command will be run several times on {listed}; afterwards each is restored to "
            "what it is now. Nobody else should write to it meanwhile.",
            yes=options.yes,
            next="the same command with --yes. Or write the table's name in braces into the "
            "command, and it works on a copy.",
        )

    around = Around(
        Path.cwd(),
        dict(os.environ),
        tell=output.tell,
        note=output.note,
        begun=lambda proof: output.line(head_line(proof)),
        done=done,
    )
    with open_project(options, output) as project:
        return prove(asked, project, around, consent)


_OF_COMMANDS = ("table", "state", "env", "neighbour", "time", "key", "yes")
_OF_PROOFS = ("pipeline", "command", "ci", "since", "window", "full", "only", "sample", "param")


def refuse_options(options: argparse.Namespace) -> None:
    """Refuse the options of commands where a pipeline is proven: they would do nothing."""
    _refuse_foreign(options, _OF_COMMANDS, "--command")


def _refuse_foreign(options: argparse.Namespace, names: Sequence[str], whose: str) -> None:
    for name in names:
        if getattr(options, name):
            raise UsageError(
                "SP-C01",
                f"--{name} goes with {whose} only.",
                why="It would do nothing here.",
                state=NOTHING_STARTED,
                next="See: setpoint prove --help",
            )


def restore(options: argparse.Namespace, output: Output) -> int:
    """`setpoint prove --restore FOLDER`, which proves nothing."""
    given = next((name for name in (*_OF_PROOFS, *_OF_COMMANDS) if getattr(options, name)), None)
    if given is not None:
        raise UsageError(
            "SP-C01",
            f"--restore goes without {'a pipeline' if given == 'pipeline' else f'--{given}'}.",
            why="It only brings tables back.",
            state=NOTHING_STARTED,
            next=f"Write: setpoint prove --restore {options.restore}",
        )
    from setpoint.prove.command.prove import restore_folder

    with open_project(options, output) as project:
        labels = restore_folder(Path(options.restore), project)
    output.answer({"restored": list(labels)}, [f"restored  {label}" for label in labels])
    return 0
