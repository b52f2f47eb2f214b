"""Several windows in one job and one commit: each ends as if it had been run by itself."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from concurrent.futures import wait
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from setpoint import Pipeline, Window, delta, row_count, rows, source, sql, unique
from setpoint.errors import SetpointError
from setpoint.flow.backfill import Request, chunks_of, plan_backfill
from setpoint.flow.execution import Execution
from setpoint.flow.run import plan_windows

DAYS = "2026-04-01..2026-04-06"


def day(number: int) -> dt.date:
    return dt.date(2026, 4, number)


@pytest.fixture
def orders(lab: Any) -> Any:
    """Six days of orders, two a day for each of three customers."""
    rows = [
        (number * 100 + order, f"c{order % 3}", float(order), day(number))
        for number in range(1, 7)
        for order in range(6)
    ]
    frame = lab.frame(rows, "id int, customer string, amount double, order_date date")
    frame.write.format("delta").partitionBy("order_date").save(str(lab.root / "orders"))
    return source(delta("orders"), time="order_date")


def summed(frame: DataFrame) -> DataFrame:
    return frame.groupBy("customer", F.col("order_date").alias("d")).agg(
        F.sum(F.col("amount").cast("decimal(10,2)")).alias("amount")
    )


def per_window(lab: Any, orders: Any, **rest: Any) -> Pipeline:
    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        return summed(rows).where(F.col("d") == window.date)

    return lab.define(job, **rest)


def per_span(lab: Any, orders: Any, **rest: Any) -> Pipeline:
    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        return summed(rows)

    return lab.define(job, spans=True, **rest)


def fill(lab: Any, job: Pipeline, text: str = DAYS, longest: int | None = None) -> Mapping:
    return {end.window.id: end for end in planned(lab, job, text, longest).run()}


def planned(
    lab: Any,
    job: Pipeline,
    text: str = DAYS,
    longest: int | None = None,
    fault: str = "",
    ahead: dt.timedelta = dt.timedelta(0),
    **asked: Any,
) -> Execution:
    """A backfill, planned on a host whose clock is so much ahead."""
    world, request = lab.world(fault), Request(only=("all",), longest=longest, **asked)
    windows, now = lab.windows(job, text), world.now() + ahead
    plan = plan_backfill(lab.bind(job), world, now, request, job.parameters, windows)
    return Execution(plan, world)


@pytest.mark.parametrize("way", [per_window, per_span])
def test_a_chunk_is_one_commit_with_a_receipt_for_each_window(
    lab: Any, orders: Any, way: Any
) -> None:
    alone = way(lab, orders, target=delta("alone", partition_by="d"), name="alone")
    for number in range(1, 7):
        lab.run(alone, day(number).isoformat())
    job = way(lab, orders)
    ended = fill(lab, job)
    assert [end.outcome.state for end in ended.values()] == ["published"] * 6
    assert lab.version("out") == 0
    assert lab.rows("out") == lab.rows("alone")
    for window, end in ended.items():
        receipt = end.outcome.receipt
        assert (receipt.window, receipt.generation, receipt.rows) == (window, 1, 3)
        assert receipt.contents == lab.state(alone, window).receipt.contents
    assert lab.run(job, "2026-04-03").state == "unchanged"
    assert lab.run(job, "2026-04-03", restate=True).only_receipt
    again = fill(lab, job)
    assert {end.outcome.state for end in again.values()} == {"unchanged"}


def test_a_window_that_an_audit_refuses_does_not_sink_the_others(lab: Any, orders: Any) -> None:
    """The good windows are published from the same stage; the bad ones say what is wrong."""
    never = "d <> DATE'2026-04-03' OR customer <> 'c1'"
    job = per_span(lab, orders, audits=[sql(never)])
    ended = fill(lab, job)
    bad = ended.pop("2026-04-03")
    assert bad.outcome is None
    assert bad.error.code == "SP-A01"
    assert "2026-04-03" in bad.error.what
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert {row[1] for row in lab.rows("out")} == {day(n) for n in (1, 2, 4, 5, 6)}
    assert lab.version("out") == 1  # one commit on each side of the gap


def test_a_unique_audit_is_asked_of_each_window(lab: Any, orders: Any) -> None:
    """A key may come back in another window; where it is there twice, that window is refused."""
    job = per_span(lab, orders, audits=[unique("customer"), row_count(min=1)])
    ended = fill(lab, job)
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert all(result.passed for end in ended.values() for result in end.outcome.audits)

    def doubled(window: Window, rows: DataFrame = orders) -> DataFrame:
        once = rows.select("customer", F.col("order_date").alias("d"))
        return once.where(F.col("d") == F.lit(day(3))).unionAll(once.distinct())

    place = delta("doubled", partition_by="d")
    job = lab.define(doubled, name="doubled", spans=True, target=place, audits=[unique("customer")])
    ended = fill(lab, job)
    assert ended.pop("2026-04-03").error.code == "SP-A01"
    assert {end.outcome.state for end in ended.values()} == {"published"}


def test_a_window_whose_code_fails_stands_alone_at_once(lab: Any, orders: Any) -> None:
    calls: list[str] = []

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        calls.append(window.id)
        if window.id == "2026-04-04":
            raise ValueError("this day is poisoned")
        return summed(rows)

    ended = fill(lab, lab.define(job))
    assert ended.pop("2026-04-04").error.code == "SP-S05"
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert lab.version("out") == 1
    assert len(calls) <= 6 + 5 + 1


def test_a_window_whose_rows_fail_is_found_by_halves(lab: Any, orders: Any) -> None:
    """Nothing tells which window a failing task worked for; all others are published."""

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        poison = F.raise_error(F.lit("a bad row")).cast("decimal(10,2)")
        bad = F.col("d") == F.lit(day(5))
        return summed(rows).withColumn("amount", F.when(bad, poison).otherwise(F.col("amount")))

    ended = fill(lab, lab.define(job, spans=True))
    assert isinstance(ended.pop("2026-04-05").error, SetpointError)
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert {row[1] for row in lab.rows("out")} == {day(n) for n in (1, 2, 3, 4, 6)}


@pytest.mark.parametrize("fails", ["rows", "code"])
def test_what_fails_for_all_windows_is_not_tried_for_each(
    lab: Any, orders: Any, fails: str
) -> None:
    """The first, the last and a middle window tell that it is one cause; then it is repaired."""
    broken = lab.root / "broken"
    broken.touch()

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        if not broken.exists():
            return summed(rows)
        if fails == "code":
            raise ValueError(f"no price list for {window.id}")
        return summed(rows).withColumn("amount", F.raise_error(F.lit("bad")).cast("decimal(10,2)"))

    execution = planned(lab, lab.define(job), "2026-04-01..2026-04-06")
    ended = {end.window.id: end for end in execution.run()}
    tried = [window for window, end in ended.items() if not end.blocked]
    assert sorted(tried) == ["2026-04-01", "2026-04-04", "2026-04-06"]
    assert {end.error.code for end in ended.values()} <= {"SP-S04", "SP-S05"}
    assert all("--chunk 1" in ended[w].error.next for w in ("2026-04-02", "2026-04-03"))
    assert (len(execution.progress.failed), execution.progress.blocked) == (3, 3)
    broken.unlink()
    again = fill(lab, lab.define(job))
    assert {end.outcome.state for end in again.values()} == {"published"}
    assert len(lab.rows("out")) == 18


def test_an_interrupt_tells_begun_windows_from_those_that_were_not_started(
    lab: Any, orders: Any
) -> None:
    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        if window.id == "2026-04-05":
            raise KeyboardInterrupt
        return summed(rows)

    execution = planned(lab, lab.define(job), longest=2)
    with pytest.raises(KeyboardInterrupt):
        list(execution.run())
    progress = execution.progress
    assert (progress.published, progress.under_way, progress.not_started) == (4, 2, 0)
    execution = planned(lab, lab.define(job), "2026-04-05..2026-04-06", longest=1)
    with pytest.raises(KeyboardInterrupt):
        list(execution.run())
    assert (execution.progress.under_way, execution.progress.not_started) == (1, 1)


def test_a_row_of_another_window_of_the_chunk_is_refused(lab: Any, orders: Any) -> None:
    """The other window would hold a row too many, and no count of the whole would show it."""

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        moved = F.lit(window.id == "2026-04-02") & (F.col("customer") == "c1")
        return summed(rows).withColumn("d", F.when(moved, F.date_add("d", 1)).otherwise(F.col("d")))

    ended = fill(lab, lab.define(job))
    assert ended.pop("2026-04-02").error.code == "SP-O02"
    assert {end.outcome.state for end in ended.values()} == {"published"}
    assert all(end.outcome.receipt.rows == 3 for end in ended.values())


@pytest.mark.parametrize("strays", [False, True])
def test_only_rows_that_a_join_keeps_can_be_strays(lab: Any, orders: Any, strays: bool) -> None:
    """The whole table holds rows of other days; they are no error, but a row that is kept is."""
    names = [(f"c{n}", day(number)) for number in range(1, 7) for n in range(3)]
    lab.frame(names, "name string, d date").write.format("delta").save(str(lab.root / "names"))
    whole = source(delta("names"), whole=True)

    def job(window: Window, rows: DataFrame = orders, names: DataFrame = whole) -> DataFrame:
        lag = F.datediff("d", "order_date")
        second = F.col("order_date") == F.lit(day(2))
        mine = (lag == 0) | (second & (lag == 1) & F.lit(strays))
        kept = rows.join(names, (F.col("customer") == F.col("name")) & mine)
        return kept.select("id", "customer", "d").distinct()

    ended = fill(lab, lab.define(job), "2026-04-01..2026-04-03")
    if strays:
        bad = ended.pop("2026-04-02").error
        assert (bad.code, "2026-04-02" in bad.what) == ("SP-O02", True)
    else:
        assert lab.version("out") == 0
    assert {end.outcome.receipt.rows for end in ended.values()} == {6}
    assert any("failed as a whole" in text for text in lab.told) is strays


def test_a_row_outside_of_the_span_is_refused(lab: Any, orders: Any) -> None:
    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        return summed(rows).withColumn("d", F.date_add("d", 1))

    ended = fill(lab, lab.define(job, spans=True), "2026-04-05..2026-04-06")
    assert {end.error.code for end in ended.values()} == {"SP-O02"}


def test_whoever_is_faster_keeps_its_window(lab: Any, orders: Any) -> None:
    """A window that is published while the chunk is staged is looked at again by itself."""
    job = per_span(lab, orders)
    execution = planned(lab, job)
    lab.run(job, "2026-04-02")
    ended = {end.window.id: end.outcome for end in execution.run()}
    assert ended["2026-04-02"].state == "unchanged"
    assert lab.state(job, "2026-04-02").generation == 1
    assert sorted({row[1] for row in lab.rows("out")}) == [day(n) for n in range(1, 7)]
    assert len(lab.rows("out")) == 18


@pytest.mark.parametrize("point", ["read", "staged", "audited", "committed", "published"])
def test_a_crash_of_a_chunk_loses_and_doubles_nothing(lab: Any, orders: Any, point: str) -> None:
    """A passing failure is retried; what landed before it is recognised in the target."""
    job = per_span(lab, orders)
    ended = list(planned(lab, job, fault=f"{point}@1:raise").run())
    landed = point in ("committed", "published")
    states = {end.outcome.state for end in ended if end.outcome}
    assert states == {"unchanged" if landed else "published"}
    assert lab.version("out") == 0
    assert len(lab.rows("out")) == 18


def test_months_of_days_and_names_of_days(lab: Any, orders: Any) -> None:
    """A window may own many partitions, and a column may hold the names of windows."""
    monthly = per_span(lab, source(delta("orders"), time="order_date"), every="month")
    assert {e.outcome.receipt.rows for e in fill(lab, monthly, "2026-03..2026-05").values()} == {
        0,
        18,
    }
    assert lab.version("out") == 0
    again = fill(lab, monthly, "2026-03..2026-05")
    assert {end.outcome.state for end in again.values()} == {"unchanged"}

    def named(window: Window, rows: DataFrame = orders) -> DataFrame:
        return summed(rows).withColumn("d", F.date_format("d", "yyyy-MM-dd"))

    job = lab.define(named, spans=True, name="named", target=delta("named", partition_by="d"))
    assert {e.outcome.receipt.rows for e in fill(lab, job).values()} == {3}
    assert {e.outcome.receipt.rows for e in fill(lab, job, "2026-04-02..2026-04-03").values()} == {
        3
    }
    restated = lab.define(
        lambda window, rows=orders: named(window, rows).where("customer <> 'c0'"),
        spans=True,
        name="named",
        target=delta("named", partition_by="d"),
    )
    assert {
        e.outcome.receipt.rows for e in fill(lab, restated, "2026-04-02..2026-04-03").values()
    } == {2}
    assert len(lab.rows("named")) == 4 * 3 + 2 * 2


def test_spans_take_a_span_even_of_one_window(lab: Any, orders: Any) -> None:
    """Whoever asks for the date of the window hears it on the first day, not in a backfill."""

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        return summed(rows).withColumn("d", window.date)

    with pytest.raises(SetpointError) as told:
        lab.run(lab.define(job, spans=True), "2026-04-01")
    assert told.value.code == "SP-D11"


def test_chunks_follow_the_size_and_the_gaps(lab: Any, orders: Any) -> None:
    job = per_span(lab, orders)
    bound, world = lab.bind(job), lab.world()
    windows = [*lab.windows(job, "2026-04-01..2026-04-03"), *lab.windows(job, "2026-04-05")]
    plans = plan_windows(bound, windows, world, parameters=job.parameters)
    assert [len(chunk) for chunk in chunks_of(bound, plans)] == [3, 1]
    assert [len(chunk) for chunk in chunks_of(bound, plans, 2)] == [2, 1, 1]


def test_chunks_at_once_have_sessions_of_their_own(lab: Any, orders: Any) -> None:
    """Settings and views of one do not reach another; a function's session is its input's."""
    seen: list[Any] = []

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        from pyspark.sql import SparkSession

        assert SparkSession.getActiveSession() is not None  # PySpark has one for the process
        java = rows.sparkSession._jsparkSession
        seen.append((java.hashCode(), java.sparkContext().getLocalProperty("spark.scheduler.pool")))
        return summed(rows)

    audits = [sql("SELECT * FROM staged WHERE amount < 0")]  # a view of the session
    execution = planned(lab, lab.define(job, spans=True, audits=audits), longest=2, jobs=3)
    ended = list(execution.run())
    assert {end.outcome.state for end in ended} == {"published"}
    assert len(lab.rows("out")) == 18
    assert len({session for session, _ in seen}) == 3
    assert all(pool.startswith("run ") for _, pool in seen)


def test_an_interrupt_lets_chunks_under_way_end_and_tells_them(
    lab: Any, orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was published is in the summary; nothing further is started."""
    from setpoint.flow import backfill

    calls: list[None] = []

    def interrupted(*given: Any, **more: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(*given, **more)

    monkeypatch.setattr(backfill, "wait", interrupted)
    told: list[str] = []
    ends = planned(lab, per_span(lab, orders), longest=1, jobs=2).run()
    with pytest.raises(KeyboardInterrupt):
        told.extend(end.window.id for end in ends)
    assert sorted(told) == ["2026-04-01", "2026-04-02"]
    assert {row[1] for row in lab.rows("out")} == {day(1), day(2)}


def test_rows_of_an_input_that_cannot_tell_are_not_published_again(lab: Any) -> None:
    """As in a run by itself: the rows are the same, so there is nothing to say."""
    held = [(number, day(number)) for number in range(1, 7)]

    def given(window: Window) -> list[tuple[Any, ...]]:
        return [row for row in held if row[1] == window.day]

    origin = source(rows(given, schema="id int, d date"), time="d")
    job = lab.define(lambda window, items=origin: items, name="job")
    assert {end.outcome.state for end in fill(lab, job).values()} == {"published"}
    version = lab.version("out")
    again = fill(lab, job)
    assert {end.outcome.state for end in again.values()} == {"unchanged"}
    assert lab.version("out") == version


def test_a_finished_backfill_is_not_resumed_and_an_unfinished_one_is(lab: Any, orders: Any) -> None:
    """Of the same request, only the newest counts: a restatement is not skipped as if done."""
    job = per_span(lab, orders)
    first = planned(lab, job, "2026-04-01..2026-04-02", restate=True)
    next(first.run())  # and its process goes no further
    second = planned(lab, job, "2026-04-01..2026-04-02", restate=True)
    assert second.plan.backfill_id == first.plan.backfill_id
    list(second.run())
    third = planned(lab, job, "2026-04-01..2026-04-02", restate=True)
    assert third.plan.backfill_id != first.plan.backfill_id
    assert third.plan.windows == 2


def test_a_restatement_that_lost_its_end_is_settled(lab: Any, orders: Any) -> None:
    """Killed after its last commit, it has nothing left to do; to ask again is a new one then."""
    job = per_span(lab, orders)
    first = planned(lab, job, "2026-04-01..2026-04-02", restate=True)
    under_way = first.run()
    assert [next(under_way).window.id for _ in range(2)] == ["2026-04-01", "2026-04-02"]
    under_way.close()
    second = planned(lab, job, "2026-04-01..2026-04-02", restate=True)
    assert (second.plan.backfill_id, second.plan.windows) == (first.plan.backfill_id, 0)
    second.settle()
    third = planned(lab, job, "2026-04-01..2026-04-02", restate=True)
    assert third.plan.backfill_id != first.plan.backfill_id
    assert third.plan.windows == 2


@pytest.mark.parametrize("hours", [-1, 1])
def test_what_a_restatement_has_done_is_told_by_receipts_and_by_no_clock(
    lab: Any, orders: Any, hours: int
) -> None:
    """Two hosts need not agree on the time, whichever of them is ahead."""
    job, two = per_span(lab, orders), "2026-04-01..2026-04-02"
    fill(lab, job, two)
    ahead = dt.timedelta(hours=hours)
    first = planned(lab, job, two, longest=1, ahead=ahead, restate=True)
    under_way = first.run()
    assert next(under_way).window.id == "2026-04-01"
    under_way.close()
    second = planned(lab, job, two, longest=1, restate=True)
    assert second.plan.backfill_id == first.plan.backfill_id
    assert [end.window.id for end in second.run()] == ["2026-04-02"]
    assert lab.state(job, "2026-04-02").receipt.backfill == first.plan.backfill_id


def test_a_restatement_that_failed_does_what_is_left(lab: Any, orders: Any) -> None:
    """What was published again is not published a third time; the record keeps its first plan."""
    broken = lab.root / "broken"
    broken.touch()

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        if window.id == "2026-04-02" and broken.exists():
            raise ValueError("not today")
        return summed(rows).where(F.col("d") == window.date)

    made = lab.define(job)
    fill(lab, made, "2026-04-01..2026-04-03")
    first = planned(lab, made, "2026-04-01..2026-04-03", restate=True)
    assert [end.error is None for end in first.run()].count(False) == 1
    broken.unlink()
    second = planned(lab, made, "2026-04-01..2026-04-03", restate=True)
    assert second.plan.backfill_id == first.plan.backfill_id
    assert [end.window.id for end in second.run()] == ["2026-04-02"]
    ledger = lab.world().ledger
    assert ledger is not None
    record = ledger.backfill(first.plan.backfill_id)
    assert record is not None
    assert record.state == "done"
    actions = [window["action"] for window in json.loads(record.plan)["windows"]]
    assert actions == ["restate", "run", "restate"]
    assert planned(lab, made, "2026-04-01..2026-04-03", restate=True).plan.windows == 3


def late(lab: Any) -> None:
    """A row of the third day that comes after the backfill was planned."""
    row = lab.frame(
        [(999, "late", 1.0, day(3))], "id int, customer string, amount double, order_date date"
    )
    row.write.format("delta").mode("append").save(str(lab.root / "orders"))


@pytest.mark.parametrize("longest", [None, 1])
def test_a_window_that_others_published_since_the_plan_keeps_newer_rows(
    lab: Any, orders: Any, longest: int | None
) -> None:
    """Hours pass between the plan and a chunk: it reads what is there then."""
    job = per_span(lab, orders)
    under_way = planned(lab, job, longest=longest)
    late(lab)
    lab.run(job, "2026-04-03")
    ended = {end.window.id: end for end in under_way.run()}
    assert ended["2026-04-03"].outcome.state == "unchanged"
    assert ("late", day(3)) in {(customer, d) for customer, d, _ in lab.rows()}
    assert {end.outcome.state for end in ended.values()} == {"published", "unchanged"}


def test_a_window_that_others_publish_while_a_chunk_is_staged_keeps_newer_rows(
    lab: Any, orders: Any
) -> None:
    """The chunk has read its inputs already; the window is planned again before it is published."""
    meanwhile = []

    def job(window: Window, rows: DataFrame = orders) -> DataFrame:
        if meanwhile:
            meanwhile.pop()()
        return summed(rows)

    made = lab.define(job, spans=True)

    def daily() -> None:
        late(lab)
        assert lab.run(made, "2026-04-03").state == "published"

    meanwhile.append(daily)
    ended = fill(lab, made)
    assert ended["2026-04-03"].outcome.state == "unchanged"
    assert ("late", day(3)) in {(customer, d) for customer, d, _ in lab.rows()}
    assert {end.outcome.state for end in ended.values()} == {"published", "unchanged"}
