"""Pipelines that go on from their own window before."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Pipeline, Window, previous, source
from setpoint import delta as delta_table
from setpoint.errors import SetpointError
from setpoint.flow.backfill import Request, plan_backfill
from setpoint.flow.execution import Execution
from setpoint.flow.run import plan_windows, run_windows
from setpoint.flow.status import status

DAYS = "2026-04-01..2026-04-04"


def day(number: int) -> dt.date:
    return dt.date(2026, 4, number)


def write_moves(lab: Any, rows: list[tuple[int, int, int]]) -> None:
    frame = lab.frame([(a, m, day(d)) for a, m, d in rows], "account int, amount bigint, d date")
    frame.write.format("delta").mode("overwrite").partitionBy("d").save(str(lab.root / "moves"))


@pytest.fixture
def balance(lab: Any) -> Pipeline:
    write_moves(lab, [(1, 10, 1), (2, 5, 1), (1, 7, 2), (2, 1, 3), (1, 100, 4)])
    moves = source(delta_table("moves"), time="d")

    def job(
        window: Window,
        before: DataFrame = previous("account int, balance bigint"),
        rows: DataFrame = moves,
    ) -> DataFrame:
        new = rows.select("account", F.col("amount").alias("balance"))
        both = before.unionByName(new).groupBy("account").agg(F.sum("balance").alias("balance"))
        return both.withColumn("d", window.date)

    return lab.define(job, start="2026-04-01")


def fill(lab: Any, job: Pipeline, text: str = DAYS, **request: Any) -> dict[str, Any]:
    world = lab.world()
    asked, windows = Request(**request), lab.windows(job, text)
    plan = plan_backfill(lab.bind(job), world, world.now(), asked, job.parameters, windows)
    return {end.window.id: end for end in Execution(plan, world).run()}


def balances(lab: Any, number: int) -> dict[int, int]:
    return {a: b for a, b, d in lab.rows("out") if d == day(number)}


def test_windows_run_in_order_each_on_the_one_before(lab: Any, balance: Pipeline) -> None:
    ended = fill(lab, balance)
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert [balances(lab, n) for n in (1, 2, 3, 4)] == [
        {1: 10, 2: 5},
        {1: 17, 2: 5},
        {1: 17, 2: 6},
        {1: 117, 2: 6},
    ]
    assert lab.run(balance, "2026-04-03").state == "unchanged"


def test_a_missing_window_before_is_refused(lab: Any, balance: Pipeline) -> None:
    lab.run(balance, "2026-04-01")
    with pytest.raises(SetpointError) as told:
        lab.run(balance, "2026-04-03")
    assert told.value.code == "SP-R07"
    assert "2026-04-02" in told.value.what


def test_it_goes_no_further_than_the_first_failure(lab: Any, balance: Pipeline) -> None:
    def broken(
        window: Window,
        before: DataFrame = previous("account int, balance bigint"),
    ) -> DataFrame:
        if window.id == "2026-04-02":
            raise ValueError("not today")
        return before.limit(0).withColumn("d", window.date)

    ended = fill(lab, lab.define(broken, start="2026-04-01", allow={"pick": "no row is picked"}))
    assert ended["2026-04-01"].outcome.state == "published"
    assert [ended[f"2026-04-0{n}"].error.code for n in (2, 3, 4)] == ["SP-S05", "SP-R07", "SP-R07"]


def test_a_correction_is_carried_on(lab: Any, balance: Pipeline) -> None:
    """When the rows of a window change, the next is stale; where they stay, it is not."""
    fill(lab, balance)
    write_moves(lab, [(1, 11, 1), (2, 5, 1), (1, 7, 2), (2, 1, 3), (1, 100, 4)])
    bound, world = lab.bind(balance), lab.world()
    windows = lab.windows(balance, DAYS)
    plans = plan_windows(bound, windows, world, parameters=balance.parameters)
    ended = list(run_windows(bound, plans, world))
    assert {end.outcome.state for end in ended} == {"published"}
    assert balances(lab, 4) == {1: 118, 2: 6}
    assert {end.outcome.state for end in fill(lab, balance, only=("all",)).values()} == {
        "unchanged"
    }


def test_they_cannot_run_at_once_or_backwards(lab: Any, balance: Pipeline) -> None:
    for request in ({"jobs": 2}, {"newest_first": True}):
        with pytest.raises(SetpointError) as told:
            fill(lab, balance, **request)
        assert told.value.code == "SP-C01"


def poisoned(lab: Any, poison: list[str], **rest: Any) -> Pipeline:
    """A running balance, ten more every day, that fails on some days."""
    write_moves(lab, [(1, 10, n) for n in (1, 2, 3, 4)])
    moves = source(delta_table("moves"), time="d")

    def job(
        window: Window,
        before: DataFrame = previous("account int, balance bigint"),
        rows: DataFrame = moves,
    ) -> DataFrame:
        if window.id in poison:
            raise ValueError("not today")
        new = rows.select("account", F.col("amount").alias("balance"))
        both = before.unionByName(new).groupBy("account").agg(F.sum("balance").alias("balance"))
        return both.withColumn("d", window.date)

    return lab.define(job, **rest)


def test_nothing_goes_on_from_a_window_that_failed(lab: Any) -> None:
    """Not the first one without a start either: the others would begin with nothing."""
    poison = ["2026-04-01"]
    job = poisoned(lab, poison)
    ended = fill(lab, job)
    assert [end.error.code for end in ended.values()] == ["SP-S05", *["SP-R07"] * 3]
    assert [end.blocked for end in ended.values()] == [False, True, True, True]
    poison.clear()
    assert {end.outcome.state for end in fill(lab, job).values()} == {"published"}
    assert [balances(lab, n) for n in (1, 2, 3, 4)] == [{1: 10}, {1: 20}, {1: 30}, {1: 40}]


def test_a_restatement_goes_no_further_than_the_first_that_fails(lab: Any) -> None:
    """To publish again what is done is not to read gaps as windows without rows."""
    job = poisoned(lab, ["2026-04-02"], start="2026-04-01")
    fill(lab, job)
    ended = fill(lab, job, restate=True)
    assert [end.error and end.error.code for end in ended.values()] == [
        None,
        "SP-S05",
        "SP-R07",
        "SP-R07",
    ]
    alone = fill(lab, job, "2026-04-03", restate=True)
    assert alone["2026-04-03"].error.code == "SP-R07"


def test_what_goes_on_from_a_restated_window_is_stale_and_the_plan_says_so(lab: Any) -> None:
    """One window alone leaves the later ones behind: the next, and all that go on from it."""
    job = poisoned(lab, [], start="2026-04-01")
    fill(lab, job)
    row = lab.frame([(1, 1000, day(2))], "account int, amount bigint, d date")
    row.write.format("delta").mode("append").save(str(lab.root / "moves"))
    world, asked = lab.world(), Request(restate=True)
    (second,) = lab.windows(job, "2026-04-02")
    plan = plan_backfill(lab.bind(job), world, world.now(), asked, job.parameters, [second])
    assert plan.as_dict()["following"] == ["2026-04-03", "2026-04-04"]
    assert [end.outcome.state for end in Execution(plan, world).run()] == ["published"]
    found = status(lab.bind(job), lab.world(), world.now(), lab.windows(job, DAYS))
    assert [(item.state, item.reason) for item in found.windows] == [
        ("done", ""),
        ("done", ""),
        ("stale", "the input before changed"),
        ("stale", "it goes on from 2026-04-03, which is stale"),
    ]
    ended = fill(lab, job, "2026-04-03..2026-04-04", only=("stale",))
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert balances(lab, 4) == {1: 1040}


def test_a_backfill_carries_a_correction_on(lab: Any) -> None:
    """One late row of the first day: one command brings every later balance up to date."""
    job = poisoned(lab, [], start="2026-04-01")
    fill(lab, job)
    row = lab.frame([(1, 1000, day(1))], "account int, amount bigint, d date")
    row.write.format("delta").mode("append").save(str(lab.root / "moves"))
    ended = fill(lab, job, only=("stale",))
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert [balances(lab, n)[1] for n in (1, 2, 3, 4)] == [1010, 1020, 1030, 1040]
    assert {end.outcome.state for end in fill(lab, job, only=("all",)).values()} == {"unchanged"}


def test_the_start_begins_with_nothing(lab: Any, balance: Pipeline) -> None:
    """Also where somebody has published a window before it."""
    early = lab.frame([(1, 1000, dt.date(2026, 3, 31))], "account int, amount bigint, d date")
    early.write.format("delta").mode("append").save(str(lab.root / "moves"))
    fill(lab, balance, "2026-03-31..2026-04-01")
    assert balances(lab, 1) == {1: 10, 2: 5}


def test_a_correction_is_not_carried_into_windows_that_were_never_there(lab: Any) -> None:
    job = poisoned(lab, [], start="2026-04-01")
    fill(lab, job, "2026-04-01..2026-04-02")
    row = lab.frame([(1, 1000, day(1))], "account int, amount bigint, d date")
    row.write.format("delta").mode("append").save(str(lab.root / "moves"))
    assert list(fill(lab, job, only=("stale",))) == ["2026-04-01", "2026-04-02"]
