"""Trouble inside Spark: tasks that fail and are tried again, tasks that run twice at once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.children import Part, why_no_process
from setpoint.prove.cluster import MEMORY, cluster


def task_failures(case: Case) -> Result:
    """Attempts of tasks that fail half-way leave nothing behind."""
    if why := why_no_process(case) or _no_inputs(case):
        return Result("task-failures", "skipped", why)
    from setpoint.spark.trouble import RETRIES, struck

    traces, part = _traces(case, "task-failures"), Part(case, "task-failures")
    case.tell("task-failures  the first attempts of tasks fail")
    with part.start(master=RETRIES, trouble="failing", traces=traces) as child:
        answer = child.wait().succeeded("The run with failing tasks")
    failed = struck(str(traces))
    if not failed:
        why = "no task has read a row of an input, so none could fail"
        return Result("task-failures", "skipped", why)
    tasks = len({place for place, _ in failed})
    told = f"{len(failed):,} attempts of {tasks:,} tasks failed inside Spark"
    detail = {"failed attempts": len(failed), "tasks": tasks}
    varied = Varied(parallelism="tasks that were tried again")
    return case.compared("task-failures", part.ended(answer), told, varied=varied, detail=detail)


def speculation(case: Case) -> Result:
    """Two attempts of one task that run at once on two executors leave the rows of one."""
    if why := why_no_process(case) or _no_inputs(case):
        return Result("speculation", "skipped", why)
    from setpoint.spark.trouble import SPECULATION, struck

    traces, part = _traces(case, "speculation"), Part(case, "speculation")
    home = case.sandbox.folder / "processes" / "cluster"
    case.tell("speculation  two executors are started")
    here = {f"spark.driver.{name}": "127.0.0.1" for name in ("host", "bindAddress")}
    conf = {**SPECULATION, **here, "spark.executor.memory": MEMORY}
    with (
        cluster(home, os.environ) as master,
        part.start(master=master, conf=conf, trouble="overtaken", traces=traces) as child,
    ):
        answer = child.wait().succeeded("The run with duplicate tasks")
    attempts = Counter(place for place, _ in struck(str(traces)))
    twice = [place for place, number in attempts.items() if number > 1]
    if not attempts:
        return Result("speculation", "skipped", "no task has read a row of an input")
    if not twice:
        why = "Spark has run no task twice: none of them took long enough"
        return Result("speculation", "skipped", why)
    told = f"{len(twice)} of {len(attempts)} tasks ran twice at once, on two executors"
    detail = {"duplicates": len(twice), "tasks": len(attempts)}
    varied = Varied(parallelism="tasks that ran twice")
    return case.compared("speculation", part.ended(answer), told, varied=varied, detail=detail)


def _no_inputs(case: Case) -> str:
    if any(not item.before for item in case.sandbox.pipeline.sources.values()):
        return ""
    return "the pipeline has no input whose tasks could be made to fail"


def _traces(case: Case, name: str) -> Path:
    folder = case.sandbox.folder / "processes" / f"{name}-traces"
    folder.mkdir(parents=True)
    return folder
