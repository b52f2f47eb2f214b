"""Processes for the crash tests of Parquet tables: to begin, to look, and to swap for ever."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from setpoint import run
from setpoint.project.config import find_config
from setpoint.project.discover import pipeline_named
from setpoint.project.wiring import Project
from setpoint.targets.parquet.metastore import Metastore, Partition, _copied

PARTITIONS = 200


def say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def look(project: Project) -> None:
    """Say what the table holds, as a reader sees it."""
    bound = project.bind(pipeline_named(project.config, "job"))
    session = project.sessions.get(bound.connectors())
    rows = session.table("t").select("d", "region", "id").collect()
    say(sorted([str(row["d"]), row["region"], row["id"]] for row in rows))


def begin(project: Project) -> None:
    """Run windows for the first time, and one of them once more, up to the point of a crash."""
    job = pipeline_named(project.config, "job")
    point, killed, *windows = sys.argv[2:]
    for day in windows:
        run(job, day)
    os.environ["SETPOINT_FAULT"] = f"{point}:kill"
    run(job, killed, parameters={"first": 1})


def heal(project: Project) -> None:
    """Look, run the windows again and look once more, in one process."""
    job = pipeline_named(project.config, "job")
    look(project)
    for day in sys.argv[2:]:
        run(job, day, parameters={"first": 1})
    look(project)


def swap(project: Project) -> None:
    """Say which folders the partitions have, then move all of them to and fro until killed."""
    session = project.sessions.get(frozenset({"hive"}))
    session.sql("CREATE TABLE IF NOT EXISTS many (id int) USING parquet PARTITIONED BY (p int)")
    store = Metastore(session, "default", "many")
    sides = [
        [Partition({"p": str(n)}, f"/tmp/none/{side}/{n}") for n in range(PARTITIONS)]
        for side in "ab"
    ]
    if not store.partitions():
        store.add(sides[0])
    say(sorted({item.location.split("/")[3] for item in store.partitions()}))
    listed = store._listed()
    made = [
        store._seq(
            [
                _copied(item, storage=store._moved(item.storage(), f"/tmp/none/{side}/{n}"))
                for n in range(PARTITIONS)
                for item in [listed.apply(n)]
            ]
        )
        for side in "ab"
    ]
    turn = 0
    while True:
        turn += 1
        say(turn)
        store._catalog.alterPartitions("default", "many", made[turn % 2])


if __name__ == "__main__":
    with Project(find_config(Path.cwd())) as project:
        {"begin": begin, "heal": heal, "swap": swap}[sys.argv[1]](project)
