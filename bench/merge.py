"""What a merge through setpoint costs, against the hand-written one, measured in one run.

100,000 changes, nine in ten of them updates, are merged into a Delta table of five million
rows: by hand with DeltaTable.merge, and through setpoint (duplicates resolved, staged, receipt
in the commit). Then the same batch again, and the batch again with one row more.

    python bench/merge.py [--rows 5000000] [--changes 100000] [--rounds 6] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WINDOW = "2026-04-25"
WARM_UP = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="setpoint-bench-") as folder:
        figures = merges(Path(folder), options.rows, options.changes, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        report(figures)
    return 0


def merges(folder: Path, rows: int, changes: int, rounds: int) -> dict[str, Any]:
    """Seconds for the same batch: by hand, through setpoint, and through setpoint once more."""
    from setpoint import Merge, Outcome, delta, publish
    from setpoint.spark.session import Sessions

    os.chdir(folder)  # no project's ledger takes part
    with Sessions() as sessions:
        spark = sessions.get(frozenset({"delta"}))
        base = folder / "base"
        make_table(spark, str(base), rows)
        batch = make_changes(spark, str(folder / "changes"), rows, changes)
        more = make_changes(spark, str(folder / "more"), rows, changes, extra=1)
        write = Merge(key="order_id", sequence_by="updated_at")

        def by_hand(place: Path) -> None:
            table = spark._jvm.io.delta.tables.DeltaTable.forPath(spark._jsparkSession, str(place))
            merge = getattr(table, "as")("t").merge(
                batch.alias("s")._jdf, "t.order_id = s.order_id"
            )
            merge.whenMatched().updateAll().whenNotMatched().insertAll().execute()

        def through(place: Path, frame: Any) -> Outcome:
            return publish(frame, target=delta(str(place)), window=WINDOW, write=write)

        seconds: dict[str, list[float]] = {
            name: [] for name in ("by_hand", "merge", "merge_again", "merge_one_more")
        }
        rewritten = rewritten_one_more = 0
        for number in range(WARM_UP + rounds):
            theirs, ours = folder / f"hand{number}", folder / f"ours{number}"
            for place in (theirs, ours):
                # Data files never change, so the copy may share them.
                shutil.copytree(base, place, copy_function=os.link)
            calls = {
                "by_hand": lambda: by_hand(theirs),  # noqa: B023
                "merge": lambda: through(ours, batch),  # noqa: B023
            }
            # They take turns in going first: the first finds other caches than the second.
            order = sorted(calls, reverse=bool(number % 2))
            took = {name: timed(calls[name]) for name in order}
            before = files(ours)
            took["merge_again"] = timed(lambda: through(ours, batch))  # noqa: B023
            rewritten = max(rewritten, len(before - files(ours)))
            took["merge_one_more"] = timed(lambda: through(ours, more))  # noqa: B023
            rewritten_one_more = max(rewritten_one_more, len(before - files(ours)))
            if number >= WARM_UP:  # the JVM compiles in the first ones
                for name, value in took.items():
                    seconds[name].append(value)
            check(spark, theirs, ours)
            shutil.rmtree(theirs)
            shutil.rmtree(ours)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "by_hand_seconds": round(middle["by_hand"], 3),
        "merge": round(middle["merge"] / middle["by_hand"], 3),
        "merge_again": round(middle["merge_again"] / middle["merge"], 3),
        "merge_one_more": round(middle["merge_one_more"] / middle["merge"], 3),
        "files": len(before),
        "files_rewritten_again": rewritten,
        "files_rewritten_one_more": rewritten_one_more,
        "rows": rows,
        "changes": changes,
        "rounds": rounds,
    }


def make_table(spark: Any, path: str, rows: int) -> None:
    """Orders as a shop's table has them, in sixteen files."""
    orders(spark.range(0, rows, 1, 16), "2026-04-01").write.format("delta").save(path)


def make_changes(spark: Any, path: str, rows: int, changes: int, extra: int = 0) -> Any:
    """Nine in ten change an order somewhere in the table, the others are new."""
    from pyspark.sql import functions as F

    updates = changes * 9 // 10
    step = max(rows // updates, 1)
    number = F.col("id")
    chosen = F.when(number < updates, number * step).otherwise(number - updates + rows)
    ids = spark.range(0, changes + extra, 1, 4).select(chosen.alias("id"))
    orders(ids, WINDOW).write.parquet(path)
    return spark.read.parquet(path)


def orders(ids: Any, day: str) -> Any:
    from pyspark.sql import functions as F

    number = F.col("id")
    return ids.select(
        number.alias("order_id"),
        F.concat(F.lit("R-"), F.hex(F.xxhash64("id"))).alias("reference"),
        (number % 200_000).alias("customer_id"),
        (F.pmod(F.xxhash64("id", F.lit(day)), F.lit(500_000)) / 100)
        .cast("decimal(10,2)")
        .alias("amount"),
        F.concat(F.lit("status "), F.pmod(F.xxhash64("id", F.lit(day)), F.lit(5))).alias("status"),
        F.concat(F.lit("customer"), number % 200_000, F.lit("@example.com")).alias("email"),
        (F.pmod(number, F.lit(7)) + 1).cast("int").alias("items"),
        F.lit(f"{day} 12:00:00").cast("timestamp").alias("updated_at"),
    )


def files(place: Path) -> set[str]:
    from deltalake import DeltaTable

    return set(DeltaTable(str(place)).file_uris())


def check(spark: Any, theirs: Path, ours: Path) -> None:
    """Both ways must give the same rows, but for the one that came later."""
    hand, setpoint = (spark.read.format("delta").load(str(place)) for place in (theirs, ours))
    missing, more = hand.exceptAll(setpoint).count(), setpoint.exceptAll(hand).count()
    if (missing, more) != (0, 1):
        raise SystemExit(f"the tables differ: {missing} rows are missing, {more} are more")


def timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def report(figures: dict[str, Any]) -> None:
    lines = {
        "merge": "through setpoint, against by hand (limit 1.1)",
        "merge_again": "the same batch again, against the first (limit 0.35)",
        "merge_one_more": "the batch again with one row more, against the first",
        "files_rewritten_again": f"of {figures['files']} files rewritten by the same batch again",
        "files_rewritten_one_more": f"of {figures['files']} files rewritten for the one row",
    }
    print(f"{figures['changes']:,} changes into {figures['rows']:,} rows")
    print(f"  {figures['by_hand_seconds']:>8} s  DeltaTable.merge by hand")
    for name, text in lines.items():
        print(f"  {figures[name]:>8}    {text}")


if __name__ == "__main__":
    raise SystemExit(main())
