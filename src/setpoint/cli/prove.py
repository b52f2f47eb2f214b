"""`setpoint prove`: a pipeline under everything that production does to pipelines."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint import edge
from setpoint.cli import certificates, prove_command
from setpoint.cli.ending import ended_by_signals
from setpoint.cli.output import Output, Stopped
from setpoint.cli.proofs import (
    Telling,
    experiment_data,
    experiment_lines,
    head_line,
    verdict_line,
)
from setpoint.cli.selection import chosen_parameters, chosen_windows, open_project
from setpoint.errors import NOTHING_STARTED, PermanentError, SetpointError, UsageError
from setpoint.model.proof import Proof, Result
from setpoint.project.config import find_config
from setpoint.project.discover import pipeline_named
from setpoint.prove.ended import ProofEnded
from setpoint.prove.report.data import as_data
from setpoint.prove.report.text import one_line

if TYPE_CHECKING:
    from setpoint.prove.watch.watch import Watch


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", nargs="?", help="a pipeline's name, or file.py:name")
    parser.add_argument(
        "--window",
        metavar="ID",
        help="the window to prove it on, 2026-04-25; default: the latest complete window",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="all experiments, not only quick ones")
    which.add_argument("--only", metavar="NAMES", help="experiments by name: twice,parallelism")
    parser.add_argument(
        "--sample",
        default="",
        metavar="SHARE",
        help="take part of the inputs: 1%% of the rows, or customer_id=1%% of a column's values",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the pipeline; may be repeated",
    )
    parser.add_argument("--keep", action="store_true", help="keep the sandbox, to look at it")
    parser.add_argument("--list", action="store_true", help="explain the experiments and stop")
    certificates.configure(parser)
    prove_command.add_options(parser)


def execute(options: argparse.Namespace, output: Output) -> int:
    if options.list:
        output.answer(experiment_data(), experiment_lines())
        return 0
    with ended_by_signals():
        if options.restore is not None:
            return prove_command.restore(options, output)
        return _proven(options, output)


def _proven(options: argparse.Namespace, output: Output) -> int:
    changes = options.ci or options.since is not None
    if not options.command or changes:
        prove_command.refuse_options(options)
    if not changes and bool(options.pipeline) == bool(options.command):
        raise UsageError(
            "SP-C01",
            "There is nothing to prove."
            if not options.command
            else "A proof is of a pipeline or of a command, not of both.",
            state=NOTHING_STARTED,
            next="Name a pipeline: setpoint prove NAME --window 2026-04-25; or give --command.",
        )
    if options.command and not changes:
        return _proof_concluded(
            lambda: prove_command.prove_command(options, output, _telling(output)), options, output
        )
    from setpoint.prove.watch.watch import NOBODY, watched

    watch = watched() if output.is_process else NOBODY
    if isinstance(watch, int):
        return watch
    if changes:
        return _proofs_of_changes(options, watch, output)
    return _proof_concluded(
        lambda: _proof_of_pipeline(options.pipeline, options, watch, output), options, output
    )


def _proof_concluded(
    prove: Callable[[], Proof], options: argparse.Namespace, output: Output
) -> int:
    try:
        proof = prove()
    except ProofEnded as stop:
        raise _stopped([], stop, options, output) from stop
    return conclude([proof], options, output)


def _proofs_of_changes(options: argparse.Namespace, watch: Watch, output: Output) -> int:
    """Prove what changed since a revision; one that cannot be tried does not stop the others."""
    with open_project(options, output) as project:
        names = certificates.changed_pipelines(options, project.config, output)
    proofs: list[Proof] = []
    broken: list[tuple[str, SetpointError]] = []
    for name in names:
        try:
            proofs.append(_proof_of_pipeline(name, options, watch, output))
        except SetpointError as error:
            output.line(str(error))
            broken.append((name, error))
        except ProofEnded as stop:
            raise _stopped(proofs, stop, options, output) from stop
    return conclude(proofs, options, output, broken)


def _proof_of_pipeline(
    name: str, options: argparse.Namespace, watch: Watch, output: Output
) -> Proof:
    from setpoint.prove.pipeline import choose, prove_pipeline

    only = [name.strip() for name in (options.only or "").split(",") if name.strip()]
    choice = choose(full=options.full, only=only)
    with open_project(options, output) as project:
        pipeline = pipeline_named(project.config, name)
        parameters = chosen_parameters(options, pipeline)
        options.first = options.last = None
        windows, _ = chosen_windows(options, pipeline, edge.utc_now(), output)
        if len(windows) != 1:
            raise UsageError(
                "SP-C01",
                f"--window {options.window} names {len(windows)} windows, and a proof is about "
                "one.",
                state=NOTHING_STARTED,
                next="Name one of them; its neighbours take part anyway.",
            )
        config = project.config

    return prove_pipeline(
        config,
        pipeline,
        windows[0],
        choice,
        parameters=parameters,
        sample=options.sample,
        keep=options.keep,
        watch=watch,
        tell=output.tell,
        warn=output.warn,
        begun=lambda proof: output.line(head_line(proof)),
        done=_telling(output),
    )


def _telling(output: Output) -> Callable[[Result], None]:
    """What tells a result as soon as it is there."""
    telling = Telling(output)

    def done(result: Result) -> None:
        output.event("result", {"experiment": result.experiment, "state": result.state})
        for line in telling.lines(result):
            output.line(line)

    return done


def _stopped(
    proofs: list[Proof], stop: ProofEnded, options: argparse.Namespace, output: Output
) -> Stopped:
    """What was proven until somebody ended the command: kept, and told with the interrupt."""
    done = [*proofs, stop.proof]
    root = find_config(Path.cwd(), options.config).root
    certificates.record(done, [], options, root, output)
    error = PermanentError(
        "SP-X02",
        f"Interrupted before {', '.join(stop.proof.untried) or 'the end'}.",
        why="An experiment that was not tried says nothing.",
        state=stop.state,
        next="Run the same command again; it begins anew.",
    )
    return Stopped(_data(done), _lines(done, output), error)


def _data(proofs: Sequence[Proof]) -> dict[str, Any]:
    return {"proofs": [as_data(proof) for proof in proofs], "not_tried": []}


def _lines(proofs: Sequence[Proof], output: Output) -> list[str]:
    """What a reader has to know besides the results, and the verdict of each proof."""
    lines = []
    for proof in proofs:
        lines += [f"note  {note}" for note in proof.notes]
        lines += [f"not watched  {one_line(what)}" for what in proof.unwatched]
        lines.append(verdict_line(proof, output))
    return lines


def conclude(
    proofs: list[Proof],
    options: argparse.Namespace,
    output: Output,
    broken: Sequence[tuple[str, SetpointError]] = (),
) -> int:
    """Keep and report proofs whose results were told already, and tell the verdict; the exit code.

    `broken` are pipelines that could not be tried.
    """
    root = find_config(Path.cwd(), options.config).root
    untried = [certificates.untried(name, error) for name, error in broken]
    failure = certificates.record(proofs, untried, options, root, output)
    proven = all(proof.proven for proof in proofs)
    lines = _lines(proofs, output)
    lines += [f"{output.paint('not tried', 'red')}  {name}" for name, _ in broken]
    if not lines:
        lines.append("There is nothing to prove: no pipeline has changed.")
    data = {
        **_data(proofs),
        "not_tried": [{"pipeline": name, "error": error.as_dict()} for name, error in broken],
    }
    output.answer(data, lines, ok=proven and not broken)
    if not proven:
        return 1
    if broken:
        return broken[0][1].exit_code
    return failure.exit_code if failure else 0
