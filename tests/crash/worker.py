"""A process that runs windows when it is told to: one JSON command a line, one answer a line.

A run stops at its gate, right before the commit, says so, and goes on when the next line
arrives. So two processes can be brought to the same point before either of them commits.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from staging import Bench

from setpoint.errors import SetpointError
from setpoint.flow.run import plan_windows, record_unchanged, run_window
from setpoint.ledger import Ledger
from setpoint.model.window import Window
from setpoint.project.config import find_config
from setpoint.project.discover import pipeline_named
from setpoint.project.wiring import Project

_ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)


def say(**answer: Any) -> None:
    _ANSWERS.write(json.dumps(answer) + "\n")


def gate(message: str) -> None:
    """Called with every message of a run; holds it when it is about to publish."""
    if message.split("  ")[1:2] == ["publish"]:
        say(at="gate")
        sys.stdin.readline()


def plain(root: Path, command: dict[str, Any]) -> dict[str, Any]:
    """A run without a JVM."""
    url = f"sqlite:////{str(root / 'ledger.db').lstrip('/')}"
    with Ledger.open(url) as ledger:
        bench = Bench(root / command["table"], ledger, tries=5)
        world = bench.world()
        if command.get("gate"):
            world = replace(world, tell=gate)
        job = bench.job(command["rows"], command.get("version", 0))
        outcome = bench.run(job, command["window"], world=world)
    return {"state": outcome.state, "reason": outcome.reason, "attempt": outcome.attempt}


def in_spark(project: Project, command: dict[str, Any]) -> dict[str, Any]:
    """A run through the project, as the command line does it."""
    job = pipeline_named(project.config, "counted")
    bound, world = project.bind(job), replace(project.world(), tell=gate)
    window = Window.parse(command["window"], every="day")
    parameters = {**job.parameters, "count": command["count"]}
    (plan,) = plan_windows(bound, [window], world, parameters=parameters)
    if plan.is_unchanged:
        say(at="gate")
        sys.stdin.readline()
        outcome = record_unchanged(bound, [plan], world)[0]
    else:
        outcome = run_window(bound, plan, world)
    return {"state": outcome.state, "reason": outcome.reason, "attempt": outcome.attempt}


def main() -> None:
    kind, root = sys.argv[1], Path(sys.argv[2])
    with Project(find_config(root)) as project:
        if kind == "spark":
            project.sessions.get(frozenset())
        say(at="start")
        for line in iter(sys.stdin.readline, ""):
            command = json.loads(line)
            try:
                run = plain(root, command) if kind == "plain" else in_spark(project, command)
                say(**run)
            except SetpointError as error:
                say(state="failed", reason=str(error))


if __name__ == "__main__":
    main()
