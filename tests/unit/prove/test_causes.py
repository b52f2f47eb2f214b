"""From evidence to causes: each rule on what it is for, and silence where nothing is known."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from setpoint.lint.findings import Finding as LintFinding
from setpoint.lint.findings import Place
from setpoint.model.determinism import ROWS, Finding
from setpoint.model.proof import ColumnChange, Difference, Result, RowChange
from setpoint.prove.causes import Evidence, Varied, explain, lint_of, refused

UTC = dt.timezone.utc
NOON = dt.datetime(2026, 11, 15, 12, tzinfo=UTC)
WEEK = dt.timedelta(days=7)


def grown(by: int, rows: int = 250_000, **more: Any) -> Difference:
    """A table with more rows than expected, or fewer."""
    return Difference(rows, rows + by, max(-by, 0), max(by, 0), **more)


def changed(
    name: str, *pairs: tuple[str, str], kind: str = "string", rows: int = 1000
) -> Difference:
    """A thousand rows of which one column differs."""
    column = ColumnChange(name, kind, rows, pairs)
    return Difference(1000, 1000, rows, rows, ("id",), 1000, (column,))


def linted(kind: str) -> LintFinding:
    return LintFinding("SP100", kind, Place(12), f"{kind} is here.", "Do it well.", path="job.py")


AGAIN = Varied(again=1)
PARALLEL = Varied(parallelism="7 shuffle partitions")
KILLED = Varied(killed="half of the staged rows")

CASES: dict[str, tuple[Evidence, str, str]] = {
    "append": (
        Evidence(AGAIN, grown(250_000, repeated=250_000), batch=250_000),
        "appended",
        "grew by 250,000, exactly what one more run writes: the write likely appends.",
    ),
    "append, twice more": (
        Evidence(Varied(again=2), grown(500_000), batch=250_000),
        "appended",
        "exactly what 2 more runs write",
    ),
    "append without a known batch": (
        Evidence(AGAIN, grown(70, repeated=70)),
        "appended",
        "all of them rows that were there already",
    ),
    "killed, rows left": (
        Evidence(KILLED, grown(180_000), batch=250_000, left=180_000),
        "attempt-left-behind",
        "grew by 180,000, exactly the 180,000 that the attempt had written before it was ended",
    ),
    "killed after all rows": (
        Evidence(KILLED, grown(250_000), batch=250_000),
        "attempt-left-behind",
        "the attempt that was ended at half of the staged rows stayed",
    ),
    "killed, rows lost": (
        Evidence(KILLED, grown(-250_000), batch=250_000),
        "delete-without-insert",
        "250,000 rows, all that a run writes, are missing",
    ),
    "killed, the mark was first": (
        Evidence(KILLED, grown(-9), batch=9, lint=(linted("split-state"),)),
        "mark-without-rows",
        "the high-water mark was likely saved before the rows",
    ),
    "two at once": (
        Evidence(Varied(together=True), grown(300, rows=300), batch=300),
        "both-wrote",
        "two runs of the window at once both wrote",
    ),
    "neighbours gone": (
        Evidence(AGAIN, grown(-700, 700), outside=True, lint=(linted("static-overwrite"),)),
        "wiped-neighbours",
        "700 rows outside the window are gone",
    ),
    "neighbours changed": (
        Evidence(AGAIN, Difference(9, 9, 2, 2), outside=True),
        "touched-neighbours",
        "2 are not there any more, 2 are new",
    ),
    "a second run reads less": (
        Evidence(AGAIN, grown(-3)),
        "second-run-lost-rows",
        "3 rows are missing after the window was run again",
    ),
    "columns": (
        Evidence(AGAIN, Difference(1, 1, 0, 0, schema=("column x (int) was added",))),
        "columns",
        "column x (int) was added",
    ),
    "clock that was moved": (
        Evidence(
            Varied(clock=WEEK, hash_seed="7"),
            changed(
                "processed_at",
                ("2026-11-15 12:00:01.5", "2026-11-22 12:00:04.25"),
                kind="timestamp",
            ),
        ),
        "clock",
        "`processed_at` differs in 1,000 of 1,000 rows and moves with the wall clock.",
    ),
    "clock that was moved, as a date": (
        Evidence(Varied(clock=WEEK), changed("loaded", ("2026-11-15", "2026-11-23"))),
        "clock",
        "moves with the wall clock",
    ),
    "clock of the run": (
        Evidence(
            AGAIN,
            changed("at", ("2026-11-15T12:00:01Z", "2026-11-15T12:01:02.123Z")),
            clocks=(NOON, NOON + dt.timedelta(minutes=1)),
        ),
        "clock",
        "`at` differs in 1,000 of 1,000 rows and holds the time of the run",
    ),
    "clock by the plan": (
        Evidence(
            AGAIN,
            changed("at", ("1", "2")),
            findings=(Finding("clock", "at", "current_timestamp()"),),
        ),
        "clock",
        "is the time of the run by the plan (current_timestamp())",
    ),
    "rows by the clock": (
        Evidence(Varied(clock=WEEK), grown(-5, rows=9), batch=9),
        "clock",
        "likely what is read depends on the day of the run",
    ),
    "the plan knows": (
        Evidence(
            PARALLEL,
            changed("customer_rank", ("1", "2")),
            findings=(Finding("ties", "customer_rank", "row_number() over (order by total)"),),
        ),
        "ties",
        "`customer_rank` differs in 1,000 of 1,000 rows and changes with parallelism: row_number()",
    ),
    "the plan does not say which rows": (
        Evidence(PARALLEL, grown(3), findings=(Finding("sample", ROWS, "sample(0.1)"),)),
        "sample",
        "the plan does not say which rows are returned: sample(0.1)",
    ),
    "uuid": (
        Evidence(
            AGAIN,
            changed(
                "id",
                ("9f1c3a52-8f57-4c5f-9a53-7c2f9d9a0b11", "0d6f0b1e-3d0f-4be3-8a5e-6c1d8f7e2a90"),
            ),
        ),
        "random",
        "looks like a UUID that every run draws anew",
    ),
    "random": (
        Evidence(AGAIN, changed("r", ("0.4370861069626263", "0.9560342718892494"))),
        "random",
        "looks like a random number",
    ),
    "float": (
        Evidence(PARALLEL, changed("total", ("1234.5600000000002", "1234.56"))),
        "float",
        "its last digits differ",
    ),
    "place": (
        Evidence(PARALLEL, changed("n", ("8589934592", "3"))),
        "generated_id",
        "numbers rows by the partition they lie in",
    ),
    "collected": (
        Evidence(PARALLEL, changed("items", ("[1,2,3]", "[3,1,2]"))),
        "unordered",
        "the same members in another order",
    ),
    "a set joined": (
        Evidence(Varied(hash_seed="7"), changed("tags", ("a,b", "b,a"))),
        "hash_seed",
        "the same members in another order",
    ),
    "rank": (
        Evidence(PARALLEL, changed("customer_rank", ("1", "2"), ("5", "4"), rows=8)),
        "ties",
        "`customer_rank` differs in 8 of 1,000 rows and changes with parallelism: likely row",
    ),
    "pick": (
        Evidence(PARALLEL, changed("name", ("Ann", "Bob"))),
        "pick",
        "likely nothing says which of several rows is taken",
    ),
    "rows by parallelism": (
        Evidence(PARALLEL, Difference(9, 9, 1, 1)),
        "pick",
        "a sample, a limit",
    ),
    "zone": (
        Evidence(
            Varied(time_zone="Asia/Kolkata"),
            changed("at", ("2020-01-01 10:00:00", "2020-01-01 15:30:00")),
        ),
        "time_zone",
        "depends on the time zone of the process (it ran under Asia/Kolkata)",
    ),
    "hash seed": (
        Evidence(Varied(hash_seed="7"), changed("bucket", ("4", "9"))),
        "hash_seed",
        "likely hash() of a text",
    ),
    "locale": (
        Evidence(Varied(locale="de_DE.UTF-8"), changed("day", ("Monday", "Montag"))),
        "locale",
        "changes with the locale (de_DE.UTF-8)",
    ),
    "environment": (
        Evidence(
            Varied(environment=("HOSTNAME",)),
            changed("host", ("a", "b")),
            lint=(linted("env-drift"),),
        ),
        "environment",
        "likely holds an environment variable (HOSTNAME)",
    ),
    "serial": (
        Evidence(AGAIN, changed("id", ("1", "1001"), ("2", "1002"))),
        "serial",
        "likely a counter or a sequence that goes on",
    ),
    "added again": (
        Evidence(AGAIN, changed("amount", ("10.5", "20.5"), ("10.5", "20.5"), ("3", "13.0"))),
        "added-again",
        "moved by 10.0: likely a run adds to what is there",
    ),
    "doubled": (
        Evidence(Varied(killed="x"), changed("amount", ("10", "20"), ("7", "14"), ("10", "20"))),
        "added-again",
        "moved to twice what it was: likely a run adds to what is there",
    ),
    "order of windows": (
        Evidence(Varied(order="newest first"), changed("balance", ("10", "7"))),
        "order",
        "depends on the order in which windows run (newest first)",
    ),
    "chunk": (
        Evidence(Varied(chunk=True), changed("d", ("x", "y"))),
        "chunk",
        "when several windows are computed at once",
    ),
    "lint alone": (
        Evidence(AGAIN, changed("x", ("a", "b")), lint=(linted("random-id"),)),
        "random-id",
        "at line 12: random-id is here.",
    ),
    "nothing": (
        Evidence(Varied(), changed("x", ("a", "b"))),
        "unknown",
        "`x` differs in 1,000 of 1,000 rows. What was seen points to no one cause.",
    ),
    "outside": (
        Evidence(AGAIN, changed("x", ("a", "b"))),
        "outside",
        "Nothing was different but that it ran again: likely the code reads something",
    ),
    "null in the key": (
        Evidence(
            AGAIN,
            grown(2, 6, repeated=2, examples=(RowChange({}, None, {"ref": "null", "d": "1"}),)),
            batch=6,
        ),
        "null-key",
        "every row that came again is null in `ref`",
    ),
    "added up": (
        Evidence(AGAIN, changed("amount", ("1.50", "3.00"), ("0", "0"))),
        "added-up",
        "`amount` differs in 1,000 of 1,000 rows and is 2 times what it was",
    ),
    "neighbours share a key": (
        Evidence(Varied(order="24, then 25"), grown(-1, 6), outside=True),
        "shared-key",
        "1 row outside the window are gone and 5 are still there",
    ),
    "mark skips ties": (
        Evidence(KILLED, grown(-1, 24), batch=24),
        "mark-skips-rows",
        "skips the rows that share the last timestamp",
    ),
    "first row stays": (
        Evidence(
            Varied(order="25, 24"), changed("status", ("a", "b")), lint=(linted("do-nothing"),)
        ),
        "do-nothing",
        "the first row of a key stays, also when a later one differs",
    ),
    "a stray row": (
        Evidence(Varied(order="24, 25, 24"), grown(-3, 9)),
        "lost-rows",
        "3 rows are missing after the windows ran in another order (24, 25, 24)",
    ),
    "an emptied folder": (
        Evidence(KILLED, grown(-3, 3, schema=("there are no files",)), batch=3),
        "delete-without-insert",
        "3 rows, all that a run writes, are missing after an attempt was ended",
    ),
    "drawn rows": (
        Evidence(AGAIN, Difference(5, 5, 4, 4)),
        "drawn-rows",
        "4 rows of the first run are gone and 4 others have come",
    ),
    "the plan knows which rows": (
        Evidence(
            PARALLEL,
            changed("id", ("1", "2")),
            (Finding("pick", ROWS, "dropDuplicates(d)"),),
        ),
        "pick",
        "the plan does not say which rows are returned",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rule_speaks_for_what_it_is_about(case: str) -> None:
    """The kind is right, and the sentence names columns and figures."""
    evidence, kind, words = CASES[case]
    found = explain(evidence)
    assert (found.kind, words in found.cause) == (kind, True), found.cause
    assert found.repair


def test_the_sentences_never_claim_more_than_was_seen() -> None:
    """What is not written in the plan or in the values is only likely."""
    for name, (evidence, _, _) in CASES.items():
        cause = explain(evidence).cause
        seen = ("moves with", "holds the time", "looks like", "by the plan", "another order")
        hedged = "likely" in cause or any(words in cause for words in seen)
        facts = ("columns", "the plan knows", "the plan does not say which rows", "lint alone",
                 "nothing", "float", "zone", "locale", "neighbours changed",
                 "null in the key", "first row stays", "the plan knows which rows")  # fmt: skip
        assert hedged or name in facts, cause


def test_a_business_date_is_no_clock() -> None:
    """A timestamp that lies elsewhere than the clock and did not move with it is not one."""
    pairs = ("2020-01-01 10:00:00", "2020-01-02 11:07:03")
    clocks = (NOON, NOON + WEEK)
    found = explain(Evidence(Varied(clock=WEEK), changed("at", pairs), clocks=clocks))
    assert found.kind == "surroundings"


def test_several_columns_each_have_their_cause() -> None:
    """The clock and the id are both told; the rest is counted."""
    one = changed("at", ("2026-11-15", "2026-11-22")).columns
    two = changed("bucket", ("4", "9")).columns
    many = tuple(ColumnChange(f"c{i}", "string", 1) for i in range(3))
    difference = Difference(1, 1, 1, 1, ("id",), 1, one + two + many)
    found = explain(Evidence(Varied(clock=WEEK, hash_seed="1"), difference))
    assert "`at` differs" in found.cause
    assert "`bucket` differs" in found.cause
    assert found.cause.endswith("2 more columns differ.")


def test_values_of_rows_without_a_key_are_looked_at() -> None:
    """No row was matched, and the id is seen to be a UUID all the same."""
    a, b = "9f1c3a528f574c5f9a537c2f9d9a0b11", "0d6f0b1e3d0f4be38a5e6c1d8f7e2a90"
    rows = (RowChange({}, {"id": a}, None), RowChange({}, None, {"id": b}))
    difference = Difference(1, 1, 1, 1, columns=(ColumnChange("id", "string"),), examples=rows)
    found = explain(Evidence(AGAIN, difference))
    assert found.cause == "`id` differs and looks like a UUID that every run draws anew."


def test_lint_of_the_script_that_a_command_names(tmp_path: Path) -> None:
    """Its findings stand beside the cause, with their lines."""
    script = "import sys\nfrom pyspark.sql import SparkSession\n"
    script += "spark = SparkSession.builder.getOrCreate()\n"
    script += "df = spark.read.parquet('in')\ndf.write.mode('append').parquet('out')\n"
    (tmp_path / "job.py").write_text(script)
    lint = lint_of(["spark-submit", "job.py", "--date", "2026-04-25"], tmp_path)
    assert [item.kind for item in lint] == ["append-write"]
    cause = explain(Evidence(AGAIN, grown(7), batch=7, lint=lint))
    result = cause.told_in(Result("twice", "failed", "other rows"))
    assert result.cause == cause.cause
    assert result.detail["cause"] == "appended"
    assert "append-write" in result.detail["notes"][0]
    assert ":5  " in result.detail["notes"][0]


def test_what_production_would_refuse_is_told_from_the_plan() -> None:
    """The finding is the cause, and its advice the repair."""
    finding = Finding("clock", "at", "current_timestamp()", "job.py:9")
    found = refused((finding,))
    assert found is not None
    assert "clock:at" in found.cause
    assert found.findings == (finding,)
    assert refused(()) is None
