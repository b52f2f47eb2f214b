"""Hive-style Parquet tables: a publish moves a location, the manifest lies where the rows are."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from setpoint import (
    DeleteInsert,
    InsertNew,
    Merge,
    Overwrite,
    Pipeline,
    RefusedError,
    Replace,
    TransientError,
    in_range,
    parquet,
    unique,
)
from setpoint.targets.parquet.metastore import Metastore, _copied
from setpoint.targets.parquet.storage import HadoopFiles, LocalFiles

DAY = dt.date(2026, 4, 25)
NEXT = DAY + dt.timedelta(1)
A = [(1, 1.5, DAY), (2, 2.5, DAY)]
B = [(1, 9.0, DAY), (3, 3.0, DAY), (4, 4.0, DAY)]
ORDERS = "id int, status string, seq long"
REGIONS = "id int, status string, seq long, region string"


@dataclass
class Tables:
    """The tables of one test: a database of its own in the suite's metastore."""

    lab: Any
    database: str

    def name(self, table: str = "t") -> str:
        return f"{self.database}.{table}"

    def target(self, table: str = "t", **layout: Any) -> Any:
        return parquet(table=self.name(table), **layout)

    def rows(self, table: str = "t") -> list[tuple[Any, ...]]:
        """All rows as a session reads them that has never seen the table."""
        fresh = self.lab.spark.newSession()
        return sorted((tuple(row) for row in fresh.table(self.name(table)).collect()), key=repr)

    def sql(self, text: str) -> list[Any]:
        return list(self.lab.spark.sql(text.format(t=self.name())).collect())

    @property
    def root(self) -> Path:
        return Path(self.lab.spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / (
            f"{self.database}.db/t"
        )

    def folders(self) -> list[str]:
        """The attempts that have files."""
        runs = self.root / "_setpoint" / "runs"
        return sorted({file.relative_to(runs).parts[2] for file in runs.rglob("*.parquet")})

    def files(self) -> dict[str, int]:
        """Every data file of the table's folders with the time of its last change."""
        return {str(f): f.stat().st_mtime_ns for f in self.root.rglob("*.parquet")}


@pytest.fixture
def tables(lab: Any, request: pytest.FixtureRequest) -> Iterator[Tables]:
    database = f"db{abs(hash(request.node.nodeid)) % 10**9}"
    lab.spark.sql(f"CREATE DATABASE {database}")
    yield Tables(lab, database)
    lab.spark.sql(f"DROP DATABASE {database} CASCADE")


def daily(tables: Tables, rows: Any, **rest: Any) -> Pipeline:
    return tables.lab.job(rows, target=tables.target(partition_by="d"), **rest)


def test_one_run_and_three_runs_leave_the_same_state(tables: Tables) -> None:
    """The second and the third run find the window done: no folder, no file, no manifest."""
    job = daily(tables, A)
    assert tables.lab.run(job).state == "published"
    before = {str(f): f.stat().st_mtime_ns for f in tables.root.rglob("*")}
    assert tables.rows() == A
    assert [tables.lab.run(job).state for _ in range(2)] == ["unchanged"] * 2
    assert {str(f): f.stat().st_mtime_ns for f in tables.root.rglob("*")} == before


def test_only_the_windows_partition_changes(tables: Tables) -> None:
    """Another window's files stay as they are, and a new run of one window replaces its rows."""
    tables.lab.run(daily(tables, [(9, 9.0, NEXT)]), "2026-04-26")
    tables.lab.run(daily(tables, A))
    before = tables.files()
    tables.lab.run(daily(tables, B))
    assert tables.rows() == sorted([*B, (9, 9.0, NEXT)], key=repr)
    after = tables.files()
    assert all(after[name] == changed for name, changed in before.items())


@pytest.mark.parametrize("before", ["nothing", "empty"])
def test_an_empty_result_leaves_an_empty_slice(tables: Tables, before: str) -> None:
    """Over nothing and over an empty slice: no row, a receipt, one more generation."""
    lab, generation = tables.lab, 0
    if before != "nothing":
        lab.run(daily(tables, [(9, 9.0, NEXT)]), "2026-04-26")
        lab.run(daily(tables, []))
        generation = 1
    empty = tables.lab.job(
        [], "id int, amount double,  d date", target=tables.target(partition_by="d")
    )
    assert lab.run(empty).state == "published"
    assert tables.rows() == ([(9, 9.0, NEXT)] if generation else [])
    state = lab.state(empty)
    assert state.generation == generation + 1
    assert (state.receipt.rows, state.untouched, state.rows) == (0, True, 0)
    assert lab.run(empty).state == "unchanged"


def test_a_lost_answer_is_settled_by_the_table(tables: Tables) -> None:
    """The receipt is where the rows are: the run ends as published."""
    outcome = tables.lab.run(daily(tables, A), fault="committed:lose")
    assert (outcome.state, tables.rows()) == ("published", A)


def test_superseded_folders_are_kept_for_one_publish(tables: Tables) -> None:
    """Readers of the last rows can end; the rows before them are cleared away."""
    attempts = [tables.lab.run(daily(tables, rows)).attempt for rows in (A, B, A[:1], B[:1])]
    assert tables.folders() == sorted(attempts[-2:])
    assert list(tables.lab.bind(daily(tables, A)).target.leftovers()) == []


def test_a_crashed_stage_is_a_leftover_and_live_rows_are_not_dropped(tables: Tables) -> None:
    lab, job = tables.lab, daily(tables, A)
    done = lab.run(job)
    target = lab.bind(job).target
    with pytest.raises(RefusedError):
        lab.run(daily(tables, B, audits=[in_range("id", max=0)]))
    (left,) = target.leftovers()
    assert (left.pipeline, left.window) == ("job", "2026-04-25")
    target.drop_stage(left.location)
    assert list(target.leftovers()) == []
    with pytest.raises(Exception, match="SP-P04"):
        target.drop_stage(done.receipt.stage)
    assert tables.rows() == A


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO {t} PARTITION (d = DATE'2026-04-25') VALUES (7, 7.0)",
        "ALTER TABLE {t} DROP PARTITION (d = DATE'2026-04-25')",
        "ALTER TABLE {t} PARTITION (d = DATE'2026-04-25') SET LOCATION '/tmp/elsewhere'",
    ],
)
def test_a_foreign_change_makes_the_window_run_again(tables: Tables, change: str) -> None:
    lab, job = tables.lab, daily(tables, A)
    lab.run(job)
    tables.sql(change)
    assert not lab.state(job).untouched
    assert lab.run(job).state == "published"
    assert tables.rows() == A


def test_a_window_of_several_partitions_is_published_at_once(tables: Tables) -> None:
    """A day with a partition per region: new, changed and emptied ones move in one call."""
    lab, schema = tables.lab, "id int, d date, region string"
    target = tables.target(partition_by=("d", "region"))
    other = [(9, NEXT, "EU")]
    lab.run(lab.job(other, schema, target=target), "2026-04-26")
    lab.run(lab.job([(1, DAY, "EU"), (2, DAY, "US/=%'")], schema, target=target))
    rows = [(1, DAY, None), (3, DAY, "EU"), (4, DAY, 'a"b`c\n')]
    job = lab.job(rows, schema, target=target, audits=[unique("id", "region")])
    assert lab.run(job).state == "published"
    assert tables.rows() == sorted([*rows, *other], key=repr)
    assert lab.state(job).untouched
    assert lab.run(job).state == "unchanged"
    lab.run(lab.job([], schema, target=target))
    assert tables.rows() == other
    assert lab.run(job).state == "published"
    tables.sql("ALTER TABLE {t} DROP PARTITION (d = DATE'2026-04-25', region = 'EU')")
    assert not lab.state(job).untouched


def test_an_empty_first_window_of_several_partitions_has_a_receipt(tables: Tables) -> None:
    lab, schema = tables.lab, "id int, d date, region string"
    job = lab.job([], schema, target=tables.target(partition_by=("d", "region")))
    assert lab.run(job).state == "published"
    assert (lab.run(job).state, tables.rows()) == ("unchanged", [])


def test_a_week_owns_its_days(tables: Tables) -> None:
    lab = tables.lab
    target = tables.target(partition_by="d")
    outside = (9, 9.0, dt.date(2026, 4, 27))
    lab.run(lab.job([outside], target=target), "2026-04-27")
    week = lab.job([(1, 1.0, DAY), (2, 2.0, NEXT)], target=target, every="week", name="weekly")
    lab.run(week, "2026-W17")
    lab.run(lab.job([(2, 3.0, NEXT)], target=target, every="week", name="weekly"), "2026-W17")
    assert tables.rows() == [(2, 3.0, NEXT), outside]


def test_an_empty_text_in_a_partition_column_is_refused(tables: Tables) -> None:
    """Hive would give it back as null."""
    job = tables.lab.job(
        [(1, DAY, "")], "id int, d date, r string", target=tables.target(partition_by=("d", "r"))
    )
    with pytest.raises(RefusedError, match="SP-O05"):
        tables.lab.run(job)


def test_a_merge_brings_each_key_to_its_latest_row(tables: Tables) -> None:
    """Late rows, moves between partitions, removals, returns; the same batch changes nothing."""
    lab, target = tables.lab, tables.target(partition_by="region")
    write = Merge(key="id", sequence_by="seq", delete_when="status = 'gone'")

    def run(day: int, *rows: tuple[Any, ...], restate: bool = False) -> Any:
        job = lab.job(rows, REGIONS, target=target, write=write)
        return lab.run(job, f"2026-04-{day:02d}", restate=restate)

    run(1, (1, "new", 1, "EU"), (2, "new", 1, "US"), (3, "new", 1, "EU"), (3, "old", 0, "EU"))
    run(2, (2, "paid", 2, "EU"), (4, "new", 2, "AP"))
    rows = [(1, "new", 1, "EU"), (2, "paid", 2, "EU"), (3, "new", 1, "EU"), (4, "new", 2, "AP")]
    assert tables.rows() == rows
    before = tables.files()
    assert run(2, (2, "paid", 2, "EU"), (4, "new", 2, "AP")).state == "unchanged"
    assert run(2, (2, "paid", 2, "EU"), (4, "new", 2, "AP"), restate=True).only_receipt
    run(3, (2, "late", 1, "US"), (4, "new", 2, "AP"))
    assert tables.files() == before
    run(4, (1, "gone", 5, "EU"), (4, "gone", 5, "AP"))
    run(5, (1, "late", 4, "EU"), (4, "back", 6, "AP"))
    assert tables.rows() == [(2, "paid", 2, "EU"), (3, "new", 1, "EU"), (4, "back", 6, "AP")]
    for day in (1, 2, 3, 4, 5):
        (window,) = lab.windows(lab.job([], REGIONS, target=target, write=write), f"2026-04-0{day}")
        job = lab.job([], REGIONS, target=target, write=write)
        state = lab.bind(job).target.inspect([window])[window]
        assert (state.published, state.untouched) == (True, True), day


def test_a_merge_rewrites_only_the_partitions_that_change(tables: Tables) -> None:
    lab, target = tables.lab, tables.target(partition_by="region")
    write = Merge(key="id", sequence_by="seq")
    lab.run(
        lab.job([(1, "a", 1, "EU"), (2, "a", 1, "US")], REGIONS, target=target, write=write),
        "2026-04-01",
    )
    places = {row["region"]: row["f"] for row in _places(tables)}
    lab.run(lab.job([(1, "b", 2, "EU")], REGIONS, target=target, write=write), "2026-04-02")
    after = {row["region"]: row["f"] for row in _places(tables)}
    assert after["US"] == places["US"]
    assert after["EU"] != places["EU"]


def test_rows_of_others_in_a_merged_table_are_taken_in_once(tables: Tables) -> None:
    """Every window looks at the table again after a foreign change, and then no more."""
    lab, target = tables.lab, tables.target(partition_by="region")
    write = Merge(key="id", sequence_by="seq")
    tables.sql(
        "CREATE TABLE {t} (id int, status string, seq long, region string) USING parquet "
        "PARTITIONED BY (region)"
    )
    tables.sql("INSERT INTO {t} VALUES (1, 'a', 1, 'EU'), (2, 'a', 1, 'US'), (3, 'a', 1, 'US')")
    job = lab.job([(1, "b", 2, "EU")], REGIONS, target=target, write=write)
    lab.run(job, "2026-04-01")
    assert lab.run(job, "2026-04-01").state == "unchanged"
    lab.run(job, "2026-04-02")
    tables.sql("INSERT INTO {t} VALUES (4, 'a', 1, 'US')")
    for window in ("2026-04-01", "2026-04-02"):
        assert lab.run(job, window).state == "published"
    for window in ("2026-04-01", "2026-04-02"):
        assert lab.run(job, window).state == "unchanged"
    assert [row[0] for row in tables.rows()] == [1, 2, 3, 4]


def _places(tables: Tables) -> list[Any]:
    fresh = tables.lab.spark.newSession().table(tables.name())
    return list(fresh.selectExpr("region", "input_file_name() AS f").distinct().collect())


def test_insert_new_adds_absent_keys_and_refuses_contradictions(tables: Tables) -> None:
    lab, target = tables.lab, tables.target(partition_by="status")
    write = InsertNew(key=("id", "seq"), null_keys="allow")

    def run(day: int, *rows: tuple[Any, ...], write: Any = write) -> Any:
        return lab.run(lab.job(rows, ORDERS, target=target, write=write), f"2026-04-{day:02d}")

    run(1, (1, "a", 1), (None, "a", 1))
    run(2, (1, "a", 1), (2, "b", 1), (None, "a", 1))
    rows = sorted(
        (row["id"], row["status"], row["seq"]) for row in _table(tables) if row["id"] is not None
    )
    assert rows == [(1, "a", 1), (2, "b", 1)]
    assert len(_table(tables)) == 3
    with pytest.raises(RefusedError, match="SP-O07"):
        run(3, (1, "other", 1), (3, "c", 1))
    assert len(_table(tables)) == 3
    kept = run(
        3, (1, "other", 1), (3, "c", 1), write=InsertNew(key=("id", "seq"), conflicts="keep")
    )
    assert "stored are kept" in kept.notes[-1]
    assert len(_table(tables)) == 4


def _table(tables: Tables) -> list[Any]:
    return list(tables.lab.spark.newSession().table(tables.name()).collect())


def test_delete_insert_replaces_the_rows_of_its_condition(tables: Tables) -> None:
    lab, schema = tables.lab, "id int, region string, d date"
    target = tables.target(partition_by="d")
    eu, us = DeleteInsert(where="region = 'EU'"), DeleteInsert(where="region = 'US'")

    def run(name: str, write: Any, *rows: tuple[Any, ...]) -> Any:
        return lab.run(lab.job(rows, schema, target=target, write=write, name=name))

    run("eu", eu, (1, "EU", DAY), (2, "EU", DAY))
    run("us", us, (3, "US", DAY))
    run("eu", eu, (4, "EU", DAY))
    assert run("eu", eu, (4, "EU", DAY)).state == "unchanged"
    assert tables.rows() == [(3, "US", DAY), (4, "EU", DAY)]
    with pytest.raises(RefusedError, match="SP-O02"):
        run("eu", eu, (5, "US", DAY))
    run("eu", eu)
    assert tables.rows() == [(3, "US", DAY)]


def test_a_window_of_a_table_without_partitions_replaces_its_rows(tables: Tables) -> None:
    lab, target = tables.lab, tables.target(time="d")
    lab.run(lab.job(A, target=target))
    other = lab.job([(9, 9.0, NEXT)], target=target)
    lab.run(other, "2026-04-26")
    again = lab.job(B, target=target)
    lab.run(again)
    assert tables.rows() == [*B, (9, 9.0, NEXT)]
    assert [lab.run(again).state, lab.run(other, "2026-04-26").state] == ["unchanged"] * 2
    tables.sql("INSERT INTO {t} VALUES (7, 7.0, DATE'2026-04-26')")
    assert not lab.state(again).untouched


def test_a_foreign_table_is_taken_over_where_it_lies(tables: Tables) -> None:
    """Its root stays, its old files stay, and its rows outside the window stay."""
    tables.sql("CREATE TABLE {t} (ID int, amount double) PARTITIONED BY (d date) STORED AS PARQUET")
    tables.sql("INSERT INTO {t} PARTITION (d = DATE'2026-04-25') VALUES (7, 7.0)")
    tables.sql("INSERT INTO {t} PARTITION (d = DATE'2026-04-26') VALUES (8, 8.0)")
    lab = tables.lab
    with pytest.raises(RefusedError, match=r"spelled id") as caught:
        lab.run(daily(tables, A))
    assert caught.value.code == "SP-O03"
    target = tables.target(partition_by="d")
    lab.run(lab.job(A, "ID int, amount double, d date", target=target))
    assert tables.rows() == [*A, (8, 8.0, NEXT)]


def test_statistics_of_other_rows_do_not_stay(tables: Tables) -> None:
    """Engines answer counts from statistics: those of the old rows must go."""
    lab, target = tables.lab, tables.target()
    lab.run(lab.job([(1, "a", 1)], ORDERS, target=target, write=Replace()), "2026-04-01")
    tables.sql("ANALYZE TABLE {t} COMPUTE STATISTICS")
    lab.run(lab.job([], ORDERS, target=target, write=Replace()), "2026-04-02")
    described = {row["col_name"]: row["data_type"] for row in tables.sql("DESCRIBE EXTENDED {t}")}
    assert "1 rows" not in str(described.get("Statistics"))


def test_hostile_names_of_columns_are_taken_literally(tables: Tables) -> None:
    hostile = ['order"; drop table x; --', "a`b", "a.b c", "select", "größe=ü"]
    ddl = ", ".join(f"`{name.replace('`', '``')}` int" for name in hostile)
    write = Merge(key=hostile[0], sequence_by=hostile[1])
    job = tables.lab.job([(1, 2, 3, 4, 5)], ddl, target=tables.target(), write=write)
    tables.lab.run(job)
    tables.lab.run(
        tables.lab.job([(1, 3, 3, 4, 6)], ddl, target=tables.target(), write=write), "2026-04-26"
    )
    assert tables.rows() == [(1, 3, 3, 4, 6)]
    parts = tables.target("parts", partition_by=(hostile[0], hostile[2]))
    day = tables.lab.job([(20260425, 2, 3, 4, 5)], ddl, target=parts, write=Overwrite())
    tables.lab.run(day)
    assert [sorted(row) for row in tables.rows("parts")] == [[2, 3, 4, 5, 20260425]]


@pytest.mark.parametrize("kind", ["timestamp_ntz", "interval day to second", "void"])
def test_types_that_hive_does_not_have_are_refused(tables: Tables, kind: str) -> None:
    spark = tables.lab.spark
    job = tables.lab.define(
        lambda window: spark.sql(
            f"SELECT 1 AS id, CAST(NULL AS {kind}) AS v, DATE'2026-04-25' AS d"
        ),
        target=tables.target(partition_by="d"),
    )
    with pytest.raises(RefusedError, match="SP-O05"):
        tables.lab.run(job)


@pytest.mark.parametrize("name", ["a b.c", "x`; drop", "a.b.c.d", ""])
def test_names_that_no_metastore_takes_are_refused(tables: Tables, name: str) -> None:
    with pytest.raises(Exception, match=r"SP-T02|SP-D01"):
        tables.lab.bind(tables.lab.job(A, target=parquet(table=name, partition_by="d")))


def test_a_long_running_reader_sees_partitions_at_once_and_a_table_after_refresh(
    tables: Tables,
) -> None:
    """What the docs tell readers: REFRESH TABLE, where the table is not partitioned."""
    lab, reader = tables.lab, tables.lab.spark.newSession()
    whole = tables.target("whole")
    lab.run(daily(tables, A))
    lab.run(lab.job([(1, "a", 1)], ORDERS, target=whole, write=Replace()), "2026-04-01")
    counts = lambda: [reader.table(tables.name(n)).count() for n in ("t", "whole")]  # noqa: E731
    assert counts() == [2, 1]
    lab.run(daily(tables, B))
    two = [(1, "a", 1), (2, "a", 1)]
    lab.run(lab.job(two, ORDERS, target=whole, write=Replace()), "2026-04-02")
    assert counts() == [3, 1]
    reader.catalog.refreshTable(tables.name("whole"))
    assert counts() == [3, 2]


def test_readers_of_the_path_see_no_staged_rows(tables: Tables) -> None:
    """Everything of ours is below a hidden folder: a path reader finds no table, not a mixture."""
    tables.lab.run(daily(tables, A))
    with pytest.raises(Exception, match="UNABLE_TO_INFER_SCHEMA"):
        tables.lab.spark.read.parquet(str(tables.root)).count()


def _at_once(lab: Any, tmp_path: Path, *runs: tuple[Pipeline, str]) -> list[str]:
    """Bring runs to the point before their publish, then let all go."""
    go = tmp_path / "go"
    with ThreadPoolExecutor(len(runs)) as pool:
        started = [
            pool.submit(lab.run, job, window, fault=f"audited:wait={go}") for job, window in runs
        ]
        while sum("  publish  " in line for line in lab.told) + sum(
            "  audit  " in line for line in lab.told
        ) < len(runs):
            Event().wait(0.01)
        go.touch()
        return [future.result().state for future in started]


def test_a_call_that_moves_several_partitions_is_all_or_nothing(tables: Tables) -> None:
    """The metastore refuses one of them: none has moved."""
    lab, target = tables.lab, tables.target(partition_by=("d", "region"))
    rows = [(n, DAY, f"r{n}") for n in range(5)]
    lab.run(lab.job(rows, "id int, d date, region string", target=target))
    store = Metastore(lab.spark, tables.database, "t")
    before = store.partitions()
    listed = store._listed()
    moved = [
        _copied(listed.apply(n), storage=store._moved(listed.apply(n).storage(), f"/tmp/x{n}"))
        for n in range(5)
    ]
    missing = _copied(moved[0], spec=store._map({"d": "2026-04-25", "region": "no such"}))
    with pytest.raises(Exception, match="NoSuchObject"):
        store._catalog.alterPartitions(tables.database, "t", store._seq([*moved, missing]))
    assert store.partitions() == before
    store._catalog.alterPartitions(tables.database, "t", store._seq(moved))
    assert {item.location for item in store.partitions()} == {f"/tmp/x{n}" for n in range(5)}


def test_hadoop_files_do_what_local_files_do(spark: Any, tmp_path: Path) -> None:
    """The same answers through the JVM, for storage that only Hadoop reaches."""
    local, hadoop = LocalFiles(), HadoopFiles(spark)
    root = str(tmp_path / "größe 1%20#")
    for files in (local, hadoop):
        assert files.listed(f"{root}/none") == []
        files.write(f"{root}/a/_setpoint-1.json", "größe")
        assert files.read(f"{root}/a/_setpoint-1.json") == "größe"
        assert [file.path for file in files.listed(root)] == ["a/_setpoint-1.json"]
        files.drop(f"{root}/a")
        files.drop(f"{root}/a")
        assert files.listed(root) == []


def test_a_dropped_partition_is_noticed_behind_a_publish_of_another_window(
    tables: Tables,
) -> None:
    """The merge in between makes a manifest without the partition, and says that it was gone."""
    lab, target = tables.lab, tables.target(partition_by="region")
    write = Merge(key="id", sequence_by="seq")
    one = lab.job([(1, "a", 1, "EU"), (2, "a", 1, "US")], REGIONS, target=target, write=write)
    two = lab.job([(3, "b", 1, "US")], REGIONS, target=target, write=write)
    lab.run(one, "2026-04-25")
    tables.sql("ALTER TABLE {t} DROP PARTITION (region = 'EU')")
    lab.run(two, "2026-04-26")
    assert lab.run(one, "2026-04-25").state == "published"
    assert [item[0] for item in tables.rows()] == [1, 2, 3]


def test_a_location_that_was_set_back_is_noticed(tables: Tables) -> None:
    """Each partition's manifest is in order; they are only not of one publish any more."""
    lab, target = tables.lab, tables.target(partition_by="region")
    write = Merge(key="id", sequence_by="seq")
    one = lab.job([(1, "a", 1, "EU"), (2, "a", 1, "US")], REGIONS, target=target, write=write)
    two = lab.job([(3, "b", 1, "EU"), (4, "b", 1, "US")], REGIONS, target=target, write=write)
    lab.run(one, "2026-04-25")
    before = {item["region"]: os.path.dirname(item["f"]) for item in _places(tables)}["EU"]
    lab.run(two, "2026-04-26")
    tables.sql(f"ALTER TABLE {{t}} PARTITION (region = 'EU') SET LOCATION '{before}'")
    assert lab.run(two, "2026-04-26").state == "published"
    assert [item[0] for item in tables.rows()] == [1, 2, 3, 4]


def test_a_lock_file_has_one_owner_and_ends_with_its_age(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For file systems without flock: a second owner waits, a dead owner's lock runs out."""
    files, place = HadoopFiles(spark), tmp_path / "lock"
    with monkeypatch.context() as impatient, files.locked(str(place), "first"):
        impatient.setattr("setpoint.targets.parquet.storage._PATIENCE", 0)
        with (
            pytest.raises(TransientError, match=r"Attempt first holds it since .* UTC.*ends by"),
            files.locked(str(place), "second"),
        ):
            pass
    order: list[str] = []
    inside = Event()

    def second() -> None:
        with files.locked(str(place), "second"):
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with files.locked(str(place), "first"):
            waiting = pool.submit(second)
            inside.wait(0.3)
            order.append("first")
        waiting.result()
    assert order == ["first", "second"]
    place.write_text("dead")
    os.utime(place, (1_000_000_000, 1_000_000_000))
    with files.locked(str(place), "third"):
        assert place.read_text() == "third"
    assert not place.exists()
