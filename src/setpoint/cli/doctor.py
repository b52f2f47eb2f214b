"""`setpoint doctor`: what this machine and this project have, and what to do about the rest."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from setpoint import __version__
from setpoint.cli.destinations import Finding, jars, kinds_of, needs, target_of, tried
from setpoint.cli.output import Output
from setpoint.cli.selection import open_project
from setpoint.errors import SetpointError
from setpoint.ledger import Ledger
from setpoint.model.audit import Unique
from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import Secret
from setpoint.model.support import LIMITS
from setpoint.model.table import TableKind
from setpoint.model.write import KEYED
from setpoint.project.config import Config
from setpoint.project.discover import pipelines
from setpoint.project.wiring import Project


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fetch", action="store_true", help="fetch the connector jars into the cache first"
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    kinds: list[TableKind] = []
    if options.fetch:
        _fetch(output)
    try:
        opened = open_project(options, output)
    except SetpointError as error:
        # A doctor that dies of what it is to find would be of no use.
        findings = [*_machine(), Finding("configuration", "bad", str(error))]
    else:
        with opened as project:
            found, broken = _found(project.config)
            kinds = kinds_of(found.values())
            findings = [*_machine(), *_look(project, found, broken)]
    healthy = not any(item.level == "bad" for item in findings)
    data: dict[str, Any] = {
        "healthy": healthy,
        "findings": [vars(item) for item in findings],
        "limits": {kind: list(LIMITS[kind]) for kind in kinds},
    }
    output.answer(data, [*_shown(findings, output), *_limits(kinds)], ok=healthy)
    return 0 if healthy else 1


def _shown(findings: list[Finding], output: Output) -> list[str]:
    colours = {"ok": "green", "missing": "yellow", "bad": "red"}
    width = max(len(item.name) for item in findings)
    return [
        output.paint(f"{item.level:<8}", colours[item.level])
        + f"{item.name:<{width}}  {item.detail}"
        for item in findings
    ]


def _limits(kinds: list[TableKind]) -> list[str]:
    lines = ["", "limits of the destinations (more in the docs: Patterns)"] if kinds else []
    for kind in kinds:
        lines += [f"{kind:<8}  {text}" for text in LIMITS[kind]]
    return lines


def _machine() -> Iterator[Finding]:
    yield Finding("setpoint", "ok", f"{__version__} on Python {platform.python_version()}")
    yield tried("pyspark", _pyspark, "bad")
    yield tried("java", _java, "bad")
    yield tried("delta connector", lambda: jars("delta"), "missing")


def _jar(jar: str) -> str:
    from setpoint.spark.session import refuse_missing_jar

    return f"{refuse_missing_jar(jar)}, instead of the connectors of the cache"


def _look(
    project: Project, found: Mapping[str, Pipeline], broken: SetpointError | None
) -> Iterator[Finding]:
    config = project.config
    if config.file is None:
        told = f"no setpoint.toml in {config.root} or above; make one: setpoint init"
        yield Finding("configuration", "missing", told)
    else:
        yield Finding("configuration", "ok", str(config.file))
    if config.file is None and not config.ledger:
        yield Finding("ledger", "missing", "none: runs without a project keep no history")
    else:
        yield tried("ledger", lambda: _ledger(config.ledger_url), "bad")
    for jar in project.jars:
        yield tried("jar", partial(_jar, jar), "bad")
    if broken is not None:
        yield Finding("pipelines", "bad", str(broken))
    if found or broken is None:
        names = ", ".join(sorted(found)) or "none found; write a first one: setpoint init"
        yield Finding("pipelines", "ok", names)
    needed = list(needs(project, found))
    yield from needed
    unusable = {item.name for item in needed if item.level == "bad"}
    for item in found.values():
        keyed = isinstance(item.write, KEYED)
        if not keyed and not any(isinstance(audit, Unique) for audit in item.audits):
            told = "no unique(...) audit: duplicate rows inside a window would not be noticed"
            yield Finding(f"audits of {item.name}", "missing", told)
        yield target_of(project, item, unusable)


def _found(config: Config) -> tuple[dict[str, Pipeline], SetpointError | None]:
    """The pipelines; if some file is broken, those of the others, and what is wrong."""
    try:
        return pipelines(config), None
    except SetpointError as error:
        whole: dict[str, Pipeline] = {}
        for pattern in config.pipelines:
            place = config.root / pattern
            for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                with suppress(SetpointError):
                    whole |= pipelines(replace(config, pipelines=(str(file),)))
        return whole, error


def _pyspark() -> str:
    from setpoint.spark.jars import spark_version

    return spark_version()


def _java() -> str:
    from setpoint.spark.java import find_java

    java = find_java()
    return f"{java.version} at {java.command}"


def _ledger(url: Secret) -> str:
    with Ledger.open(url) as ledger:
        where, open_attempts = ledger.where, len(ledger.open_attempts())
    told = f"; {open_attempts} open attempts, see setpoint recover" if open_attempts else ""
    return where + told


def _fetch(output: Output) -> None:
    from setpoint.spark.jars import fetch
    from setpoint.spark.setup import CONNECTORS

    for connector in CONNECTORS:
        output.note(f"Fetching the {connector.capitalize()} connector")
        fetch(connector)
