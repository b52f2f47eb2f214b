"""`setpoint doctor`: what this machine and this project have, and what to do about the rest."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from setpoint import __version__
from setpoint.cli.output import Output
from setpoint.cli.selection import open_project
from setpoint.errors import SetpointError
from setpoint.ledger import Ledger
from setpoint.model.audit import Unique
from setpoint.model.pipeline import Pipeline
from setpoint.project.discover import pipelines
from setpoint.project.wiring import Project

Level = Literal["ok", "missing", "bad"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at: fine, missing (something will not work) or bad (nothing will)."""

    name: str
    level: Level
    detail: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fetch", action="store_true", help="fetch the connector jars into the cache first"
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    with open_project(options, output) as project:
        if options.fetch:
            _fetch(output)
        findings = list(_look(project))
    colours = {"ok": "green", "missing": "yellow", "bad": "red"}
    width = max(len(item.name) for item in findings)
    lines = [
        output.paint(f"{item.level:<8}", colours[item.level])
        + f"{item.name:<{width}}  {item.detail}"
        for item in findings
    ]
    healthy = not any(item.level == "bad" for item in findings)
    data = {
        "healthy": healthy,
        "findings": [vars(item) for item in findings],
    }
    output.answer(data, lines, ok=healthy)
    return 0 if healthy else 1


def _look(project: Project) -> Iterator[Finding]:
    yield Finding("setpoint", "ok", f"{__version__} on Python {platform.python_version()}")
    yield _tried("pyspark", _pyspark, "bad")
    yield _tried("java", _java, "bad")
    yield _tried("delta connector", lambda: _jars("delta"), "missing")
    config = project.config
    if config.file is None:
        told = f"no setpoint.toml in {config.root} or above; setpoint init makes one"
        yield Finding("configuration", "missing", told)
    else:
        yield Finding("configuration", "ok", str(config.file))
    yield _tried("ledger", lambda: _ledger(config.ledger_url), "bad")
    yield _tried("pipelines", lambda: _pipelines(project), "bad")
    try:
        found = pipelines(config)
    except SetpointError:
        return
    for item in found.values():
        if not any(isinstance(audit, Unique) for audit in item.audits):
            told = "no unique(...) audit: duplicate rows inside a window would not be noticed"
            yield Finding(f"audits of {item.name}", "missing", told)
        yield _tried(f"target of {item.name}", partial(_target, project, item), "bad")


def _tried(name: str, look: Callable[[], str], level: Level) -> Finding:
    try:
        return Finding(name, "ok", look())
    except SetpointError as error:
        return Finding(name, level, str(error))


def _pyspark() -> str:
    from setpoint.spark.jars import spark_version

    return spark_version()


def _java() -> str:
    from setpoint.spark.java import find_java

    java = find_java()
    return f"{java.version} at {java.command}"


def _jars(connector: str) -> str:
    from setpoint.spark.jars import resolve

    jars = resolve(connector)
    return f"{len(jars)} jars in {jars[0].parent}"


def _ledger(url: str) -> str:
    with Ledger.open(url) as ledger:
        open_attempts = len(ledger.open_attempts())
    told = f"; {open_attempts} open attempts, see setpoint recover" if open_attempts else ""
    return url.rpartition("@")[2] + told


def _pipelines(project: Project) -> str:
    found = pipelines(project.config)
    return ", ".join(sorted(found)) or "none found; setpoint init writes a first one"


def _target(project: Project, item: Pipeline) -> str:
    if item.target.table is not None:
        return f"{item.target.table}, resolved by the catalog when it runs"
    bound = project.bind(item)
    exists = "exists" if bound.target.table_id() else "will be created"
    return f"{bound.target.uri} {exists}; publishes by {bound.target.mechanism()}"


def _fetch(output: Output) -> None:
    from setpoint.spark.jars import fetch

    output.note("Fetching the Delta connector")
    fetch("delta")
