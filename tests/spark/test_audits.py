"""Audits on real rows: what fails changes nothing and can be looked at; what warns publishes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from setpoint import (
    PermanentError,
    RefusedError,
    accepted,
    delta,
    in_range,
    not_null,
    row_count,
    row_count_change,
    sql,
    unique,
)

DAY = dt.date(2026, 4, 25)
GOOD = [(1, 1.0, DAY), (2, 2.0, DAY)]
BAD = [(1, 1.0, DAY), (1, None, DAY), (2, -5.0, DAY), (3, float("nan"), DAY)]


def no_negative(frame: Any) -> Any:
    return frame.where("amount < 0")


def never(frame: Any) -> Any:
    return False


def three(frame: Any) -> Any:
    return 3


FAILING: list[tuple[Any, int]] = [
    (not_null("amount"), 1),
    (not_null("id", "amount"), 1),
    (unique("id"), 1),
    (unique("d", "id"), 1),
    (unique("d"), 3),
    (accepted("id", [1, 2]), 1),
    (in_range("amount", 0, 100), 2),
    (in_range("amount", max=0.5), 2),
    (in_range("id", min=2), 2),
    (row_count(max=3), 0),
    (row_count(min=5), 0),
    (sql("amount >= 0"), 2),
    (sql("SELECT * FROM staged WHERE amount < 0"), 1),
    (no_negative, 1),
    (never, 1),
    (three, 3),
]


@pytest.mark.parametrize(("audit", "violations"), FAILING)
def test_a_failing_audit_changes_nothing_and_keeps_the_stage(
    lab: Any, audit: Any, violations: int
) -> None:
    """The rows that failed lie in the stage; table, log and files are as they were."""
    lab.run(lab.job(GOOD))
    before = lab.rows(), lab.version(), lab.live(), lab.stages()
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job(BAD, audits=[audit]))
    assert caught.value.code == "SP-A01"
    if violations:
        assert f"on {violations:,} of 4 staged rows" in caught.value.what
    assert (lab.rows(), lab.version(), lab.live()) == before[:3]
    kept = set(lab.stages()) - set(before[3])
    assert len(kept) == 1
    stored = lab.spark.read.parquet(*kept)
    assert stored.count() == 4
    attempt = kept.pop().rsplit("/", 1)[-1]
    leftovers = lab.bind(lab.job(BAD)).target.leftovers()
    assert [item.attempt for item in leftovers] == [attempt]


def test_a_failing_audit_shows_an_offending_row(lab: Any) -> None:
    """The message names a row, so that nobody has to search for it."""
    for audit in (in_range("amount", 0), no_negative, sql("SELECT * FROM staged WHERE amount < 0")):
        with pytest.raises(RefusedError) as caught:
            lab.run(lab.job([(41, 1.0, DAY), (42, -5.0, DAY)], audits=[audit]))
        assert "'id': 42" in caught.value.what


def test_a_warning_publishes_and_is_told(lab: Any) -> None:
    """Severity warn lets the rows pass and the outcome say so."""
    audits = [not_null("amount", severity="warn"), unique("id", severity="warn"), row_count(1)]
    outcome = lab.run(lab.job(BAD, audits=audits))
    assert outcome.state == "published"
    assert [result.name for result in outcome.warnings] == ["not_null(amount)", "unique(id)"]
    assert len(lab.rows()) == 4


def test_one_failing_audit_among_many_stops_the_publish(lab: Any) -> None:
    """The verdict is of all audits, not of the last one."""
    audits = [unique("id"), not_null("id"), row_count(1), sql("id > 0")]
    with pytest.raises(RefusedError) as caught:
        lab.run(lab.job([(1, 1.0, DAY), (1, 2.0, DAY)], audits=audits))
    assert "unique(id)" in caught.value.what


def test_passing_audits_publish(lab: Any) -> None:
    """All kinds pass on good rows; results come in the order of the definition."""
    audits = [
        row_count(1, 5),
        unique("d", "id"),
        not_null("id"),
        accepted("id", [1, 2]),
        in_range("amount", 0, 9),
        sql("amount > 0"),
        sql("SELECT * FROM staged WHERE id > 5"),
        no_negative,
        row_count_change(0.5),
    ]
    outcome = lab.run(lab.job(GOOD, audits=audits))
    assert [result.passed for result in outcome.audits] == [True] * 9
    assert outcome.audits[0].name.startswith("row_count(")
    assert outcome.audits[7].name == "no_negative"


def test_audits_of_an_empty_result(lab: Any) -> None:
    """No row violates anything but a least row count."""
    audits = [unique("id"), not_null("id"), in_range("amount", 0), sql("amount > 0"), no_negative]
    assert lab.run(lab.job([], audits=audits)).state == "published"
    with pytest.raises(RefusedError):
        lab.run(lab.job([], audits=[row_count(min=1)]))


@pytest.mark.parametrize("duplicates", [0, 1, 2])
def test_unique_is_exact_on_dense_keys(lab: Any, duplicates: int) -> None:
    """The bitmap counts every surplus row, the key 0 and bucket borders included."""
    spark = lab.spark

    def dense(window: Any) -> Any:

        keys = spark.range(40_000)
        if duplicates:
            keys = keys.union(spark.createDataFrame([(0,), (32_768,)][:duplicates], "id long"))
        return keys.select("id", window.date.alias("d"))

    job = lab.define(dense, audits=[unique("d", "id", severity="warn")])
    (result,) = lab.run(job).audits
    assert (result.passed, result.violations) == (not duplicates, duplicates)


def test_the_change_of_the_row_count_is_measured_against_the_previous_window(lab: Any) -> None:
    """Half the rows of yesterday fail at 40 %, pass at 50 %, and pass when there was none."""
    yesterday = [(n, 1.0, DAY - dt.timedelta(1)) for n in range(4)]
    first = lab.job(GOOD, audits=[row_count_change(0.4)])
    assert lab.run(first, force=True).state == "published"
    lab.run(lab.job(yesterday), "2026-04-24")
    with pytest.raises(RefusedError):
        lab.run(lab.job(list(reversed(GOOD)), audits=[row_count_change(0.4)]))
    assert lab.run(lab.job(GOOD, audits=[row_count_change(0.5)])).state == "published"


@pytest.mark.parametrize(
    "audit", [not_null("nope"), unique("nope"), sql("SELECT nope FROM staged"), lambda frame: "yes"]
)
def test_an_audit_that_cannot_be_evaluated_publishes_nothing(lab: Any, audit: Any) -> None:
    """An audit that guards nothing is an error, not a pass."""
    lab.run(lab.job(GOOD))
    with pytest.raises(PermanentError) as caught:
        lab.run(lab.job(BAD, audits=[audit]))
    assert caught.value.code == "SP-A02"
    assert lab.rows() == GOOD


def test_a_row_condition_that_cannot_be_evaluated_publishes_nothing(lab: Any) -> None:
    """The same for a condition that rides along with the staging job."""
    lab.run(lab.job(GOOD))
    with pytest.raises(PermanentError):
        lab.run(lab.job(BAD, audits=[sql("nope > 1")]))
    assert lab.rows() == GOOD
    assert len(lab.stages()) == 1


def test_audits_see_partition_columns(lab: Any) -> None:
    """Columns that are not stored in the files are there for the audits, with their values."""
    place = delta("out", partition_by=("d", "region"))
    rows = [(1, DAY, "north"), (2, DAY, None)]
    audits = [
        accepted("region", ["north"]),
        sql("SELECT * FROM staged WHERE d <> DATE'2026-04-25'"),
        unique("region", "id"),
    ]
    lab.run(lab.job(rows, "id int, d date, region string", target=place, audits=audits))
    assert lab.rows() == sorted(rows, key=repr)
    with pytest.raises(RefusedError):
        lab.run(
            lab.job(
                rows,
                "id int, d date, region string",
                target=place,
                audits=[sql("SELECT * FROM staged WHERE region IS NULL")],
            )
        )


def test_changed_audits_run_again(lab: Any) -> None:
    """An audit is part of the definition: a stricter one is not satisfied by an old receipt."""
    lab.run(lab.job(GOOD))
    assert lab.plan(lab.job(GOOD, audits=[row_count(1)]), "2026-04-25").reason
    with pytest.raises(RefusedError):
        lab.run(lab.job(GOOD, audits=[row_count(min=100)]))
    assert lab.rows() == GOOD
