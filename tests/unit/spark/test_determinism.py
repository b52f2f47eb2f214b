"""Reading plans and Python functions without a JVM."""

from __future__ import annotations

import functools
import os
import random
import time
import uuid
from datetime import date, datetime
from os import environ
from typing import Any

import pytest

from setpoint.spark.determinism.check import deep, found_in
from setpoint.spark.determinism.connect import _is_misleading
from setpoint.spark.determinism.explained import read
from setpoint.spark.determinism.functions import judged, line_in

PLAN = """== Parsed Logical Plan ==
nothing

== Analyzed Logical Plan ==
{schema}
{plan}

== Optimized Logical Plan ==
nothing"""


def names(plan: str) -> set[str]:
    text = PLAN.format(schema="a: int", plan=plan)
    return {f"{taint.kind}:{column}" for column, taint in found_in(read(text), (), lambda e: [])}


def test_columns_may_have_any_name() -> None:
    """Brackets, commas and the names of functions in a column's name are no code."""
    plan = """\
Project [rand()#1, a, (b#2 AS c#3]
+- Relation [rand()#1,a, (b#2] parquet"""
    assert names(plan) == set()


def test_a_subquery_is_part_of_the_expression_that_it_is_drawn_under() -> None:
    """Lines two levels deeper are subqueries, in the order of their marks."""
    plan = """\
Project [a#1, scalar-subquery#9 [] AS x#2, scalar-subquery#8 [] AS y#3]
:  +- Project [b#4]
:     +- LocalRelation [b#4]
:  +- Project [now() AS n#5]
:     +- OneRowRelation
+- LocalRelation [a#1]"""
    assert names(plan) == {"clock:y"}


def test_a_python_function_is_known_by_the_id_of_its_result() -> None:
    """A call with an id right behind it is Python; without its code it is a finding."""
    plan = """\
Project [outer(a#1)#7 AS x#2, upper(a#1) AS y#3]
+- LocalRelation [a#1]"""
    assert names(plan) == {"udf:x"}


def test_a_plan_of_a_thousand_steps_is_searched() -> None:
    """A loop of withColumn is deep, not endless."""
    steps = [f"Project [a#1, {n} AS x#{n + 10}]" for n in range(1000)]
    lines = ["Project [a#1, now() AS n#2]", *steps, "LocalRelation [a#1]"]
    drawn = [lines[0], *(f"{'   ' * depth}+- {line}" for depth, line in enumerate(lines[1:]))]
    with deep():
        assert names("\n".join(drawn)) == {"clock:n"}


def test_a_bracket_in_a_literal_of_a_view_does_not_end_the_reading() -> None:
    """What cannot be made harmless is read as well as it can be."""
    plan = """\
Project [a) AS x#2, now() AS n#3]
+- LocalRelation [a#1]"""
    assert "clock:n" in names(plan)


@pytest.mark.parametrize("text", ["rand()", "a (b", "x]", "two\nlines", "a#1", "x AS y", "now ( )"])
def test_strings_that_look_like_code_are_disarmed(text: str) -> None:
    """They are changed before a plan is explained."""
    assert _is_misleading(text)


@pytest.mark.parametrize("text", ["yyyy-MM-dd", "a decimal(10,2), b array<int>", "it's", "now"])
def test_strings_that_mean_something_are_left_alone(text: str) -> None:
    """Formats and schemas stay what they are."""
    assert not _is_misleading(text)


def helper() -> float:
    return time.time()


RANDOM = random.Random(7)


class Caller:
    def __call__(self, value: int) -> int:
        return value + datetime.now().year  # noqa: DTZ005 - what is to be found


def with_import(value: int) -> Any:
    from time import time as clock

    return clock()


DIRTY = {
    "time": (lambda v: time.time(), "clock"),
    "class": (lambda v: datetime.now(), "clock"),  # noqa: DTZ005
    "today": (lambda v: date.today(), "clock"),  # noqa: DTZ011
    "helper": (lambda v: helper(), "clock"),
    "import": (with_import, "clock"),
    "object": (Caller(), "clock"),
    "partial": (functools.partial(with_import, 1), "clock"),
    "random": (lambda v: random.random(), "random"),
    "seeded": (lambda v: RANDOM.random(), "random"),
    "uuid": (lambda v: uuid.uuid4(), "random"),
    "environment": (lambda v: os.environ.get("HOME"), "session"),
    "environment name": (lambda v: environ["HOME"], "session"),
    "getenv": (lambda v: os.getenv("HOME"), "session"),
}
CLEAN = {
    "arithmetic": lambda v: v + 1,
    "uuid5": lambda v: uuid.uuid5(uuid.NAMESPACE_DNS, str(v)),
    "parsing": lambda v: datetime.fromisoformat(v),
    "strings": lambda v: "time.time() random.random()",
    "path": lambda v: os.path.basename(v),
    "sleep": lambda v: time.sleep(0),
}


@pytest.mark.parametrize("name", DIRTY)
def test_a_python_function_is_searched_by_what_its_names_stand_for(name: str) -> None:
    """Aliases, helpers, imports inside, objects and partials hide nothing."""
    function, kind = DIRTY[name]
    found = judged(function, name)
    assert {taint.kind for taint in found} == {kind}
    assert found[0].place.startswith("test_determinism.py:")


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_python_function_is_no_finding(name: str) -> None:
    """What is the same on every run is left alone."""
    assert judged(CLEAN[name], name) == []


def test_a_function_without_source_is_told() -> None:
    """Nothing is known about it, and that is a finding."""
    made: dict[str, Any] = {}
    exec("def secret(value): return value", made)
    assert [taint.kind for taint in judged(made["secret"], "secret")] == ["udf"]
    assert [taint.kind for taint in judged(len, "len")] == ["udf"]


def test_the_line_of_a_call_is_told_if_it_is_the_only_one() -> None:
    """Two calls of one name could be either."""

    def once(functions: Any) -> Any:
        return functions.now()

    def twice(functions: Any) -> Any:
        first = functions.now()
        return first, functions.now()

    assert line_in(once, "now").startswith("test_determinism.py:")
    assert line_in(twice, "now") == ""
