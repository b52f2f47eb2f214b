"""Audits as values: what can be defined, and what enters the run key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from setpoint.errors import DefinitionError
from setpoint.model.audit import (
    AuditResult,
    accepted,
    as_audit,
    definition,
    in_range,
    not_null,
    rides_along,
    row_count,
    row_count_change,
    sql,
    unique,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: not_null(),
        lambda: not_null(""),
        lambda: unique(),
        lambda: accepted("a", []),
        lambda: accepted("a", "text"),
        lambda: in_range("a"),
        lambda: in_range("a", 2, 1),
        lambda: row_count(),
        lambda: row_count(5, 4),
        lambda: row_count_change(-0.1),
        lambda: sql("  "),
        lambda: not_null("a", severity="loud"),  # type: ignore[arg-type]
        lambda: as_audit(7),
    ],
)
def test_an_audit_that_guards_nothing_is_refused(make: Callable[[], Any]) -> None:
    """When the pipeline is loaded, not when it runs."""
    with pytest.raises(DefinitionError) as caught:
        make()
    assert caught.value.code == "SP-D06"


def test_row_level_audits_ride_along_and_set_level_ones_do_not() -> None:
    """A condition rides along, a query does not."""
    assert all(
        map(rides_along, [not_null("a"), accepted("a", [1]), in_range("a", 1), sql("a > 1")])
    )
    queries = [sql("select * from staged"), sql("\n WITH x AS (select 1) select * from x")]
    others = [unique("a"), row_count(1), row_count_change(1), *queries]
    assert not any(map(rides_along, others))


def test_every_member_is_in_the_run_key() -> None:
    """A changed audit is a changed run."""
    audits = [
        not_null("a"),
        not_null("b"),
        not_null("a", severity="warn"),
        in_range("a", 1),
        in_range("a", max=1),
        in_range("a", 1.5),
        row_count(1),
        row_count(None, 1),
        sql("a > 1"),
        sql("a > 2"),
        as_audit(lambda frame: frame.where("a = 1")),
    ]
    assert len({definition(audit) for audit in audits}) == len(audits)


def test_a_function_counts_by_its_code() -> None:
    """Two functions of one name and other code are two audits."""

    def make(limit: int) -> Any:
        def check(frame: Any) -> Any:
            return frame.where(f"a > {limit}")

        return as_audit(check)

    assert make(1).name == make(2).name == "check"
    assert definition(make(1)) == definition(make(1))
    assert definition(make(1)) != definition(make(2))


def test_only_failures_of_severity_fail_block() -> None:
    """A warning never stops a publish, a pass neither."""
    assert AuditResult("a", "fail", False, 1, 1).blocks
    assert not AuditResult("a", "warn", False, 1, 1).blocks
    assert not AuditResult("a", "fail", True, 0, 1).blocks
