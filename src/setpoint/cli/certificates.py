"""What becomes of proofs: kept below the project, written as JUnit or as a page, and for CI."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from setpoint import edge
from setpoint.cli.output import Output
from setpoint.errors import NOTHING_STARTED, SetpointError, UsageError
from setpoint.model.proof import Proof, Result
from setpoint.project.config import Config
from setpoint.prove import certificate


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of reports and of continuous integration."""
    parser.add_argument(
        "--ci", action="store_true", help="prove the pipelines that changed since --since"
    )
    parser.add_argument(
        "--since",
        metavar="REV",
        help="a git revision: what changed since this branch left it, origin/main",
    )
    parser.add_argument("--junit", metavar="FILE", help="write the proofs as JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write the proofs as one HTML page")


def changed_pipelines(options: argparse.Namespace, config: Config, output: Output) -> list[str]:
    """The names of the pipelines that a pull request has to prove; what is left out is told."""
    if not options.since or options.pipeline or options.command:
        raise UsageError(
            "SP-C01",
            "--ci goes with --since REV, and without a pipeline or a command.",
            why="It proves the pipelines that have changed since then.",
            state=NOTHING_STARTED,
            next="Write: setpoint prove --ci --since origin/main",
        )
    from setpoint.prove.changed import changed_since

    found = changed_since(config, options.since)
    for note in found.notes:
        output.warn(note)
    names = ", ".join(found.changed) or "none"
    output.note(
        f"changed since {options.since} ({found.revision[:10]}): {names}; "
        f"{len(found.unchanged)} unchanged"
    )
    return list(found.changed)


def untried(name: str, error: SetpointError) -> Proof:
    """A pipeline that could not be tried, as a place in the reports; it is not kept."""
    result = Result("clean-run", "failed", str(error), detail={"cause": error.code})
    return Proof(name, "", (result,), "", "chosen", began=edge.utc_now())


def record(
    proofs: Iterable[Proof],
    broken: Iterable[Proof],
    options: argparse.Namespace,
    root: Path,
    output: Output,
) -> SetpointError | None:
    """Keep the proofs and write the reports that were asked for; the first error, if any.

    A certificate that cannot be kept is worth a warning: the answer is there without it.
    """
    done = list(proofs)
    for proof in done:
        try:
            certificate.certify(proof, root)
        except SetpointError as error:
            output.warn(str(error))
    failure: SetpointError | None = None
    for write, file in _asked(options):
        try:
            write([*done, *broken], file)
        except SetpointError as error:
            output.warn(str(error))
            failure = failure or error
    return failure


def _asked(options: argparse.Namespace) -> Iterator[tuple[certificate.Report, Path]]:
    if options.junit:
        yield certificate.write_junit, Path(options.junit)
    if options.html:
        yield certificate.write_page, Path(options.html)
