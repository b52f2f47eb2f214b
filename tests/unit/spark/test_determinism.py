"""Reading plans and Python functions without a JVM."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import os
import random
import time
import uuid
from datetime import date, datetime
from os import environ
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas import to_datetime

from setpoint.spark.determinism.check import deep, found_in
from setpoint.spark.determinism.connect import _is_misleading
from setpoint.spark.determinism.explained import read
from setpoint.spark.determinism.facts import Facts
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
    "seeded by a constant": (lambda v: random.Random(7).random(), "random"),
    "uuid": (lambda v: uuid.uuid4(), "random"),
    "environment": (lambda v: os.environ.get("HOME"), "session"),
    "environment name": (lambda v: environ["HOME"], "session"),
    "getenv": (lambda v: os.getenv("HOME"), "session"),
    "text": (lambda v: pd.Timestamp("now"), "clock"),
    "text of a function": (lambda v: to_datetime("today"), "clock"),
    "cached": (functools.lru_cache(with_import), "clock"),
}
CLEAN = {
    "arithmetic": lambda v: v + 1,
    "uuid5": lambda v: uuid.uuid5(uuid.NAMESPACE_DNS, str(v)),
    "parsing": lambda v: datetime.fromisoformat(v),
    "strings": lambda v: "time.time() random.random()",
    "seed of the row": lambda v: random.Random(v).random(),
    "path": lambda v: os.path.basename(v),
    "sleep": lambda v: time.sleep(0),
    "timestamp": lambda v: pd.Timestamp("2026-04-25"),
    "builtin": len,
    "method of a builtin": str.upper,
    "class": int,
    "function of a package": np.sqrt,
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


class Proxy:
    """Like the lazy objects of web frameworks: whatever is asked, the real one is fetched."""

    touched = 0

    @property
    def __class__(self) -> type:  # type: ignore[override]
        Proxy.touched += 1
        raise RuntimeError("outside of a request")

    @property
    def setting(self) -> int:
        Proxy.touched += 1
        raise RuntimeError("outside of a request")

    def __getattr__(self, name: str) -> Any:
        Proxy.touched += 1
        raise RuntimeError("outside of a request")


PROXY = Proxy()


def test_nothing_of_the_users_code_runs_while_it_is_looked_at() -> None:
    """No property, no `__getattr__`, no `__class__` of a proxy."""
    before = Proxy.touched  # pytest has looked at it too
    assert judged(lambda v: PROXY.setting.of[v] + PROXY.other + PROXY, "lazy") == []
    assert judged(PROXY, "proxy") == []
    assert Proxy.touched == before


def imported(folder: Path, source: bytes) -> Any:
    """A module of this source, as a session has it that imported it."""
    file = folder / "of_a_user.py"
    file.write_bytes(source)
    spec = importlib.util.spec_from_file_location("of_a_user", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_that_was_edited_since_is_no_source(tmp_path: Path) -> None:
    """What stands there now is not what will run; that is told, and can be allowed."""
    module = imported(tmp_path, b"def f(v):\n    return v\n\ng = lambda v: v\n")
    assert judged(module.f, "f") == judged(module.g, "g") == []
    (tmp_path / "of_a_user.py").write_text("import time\n\n\ndef h(v):\n    return v\n")
    linecache.checkcache()
    assert [taint.kind for taint in judged(module.f, "f")] == ["udf"]
    assert [taint.kind for taint in judged(module.g, "g")] == ["udf"]


def test_a_source_may_have_an_encoding_of_its_own(tmp_path: Path) -> None:
    """A lambda in the middle of a chain, in a file that is not UTF-8."""
    source = (
        "# -*- coding: latin-1 -*-\nimport time\nname = 'Zo\xeb'\n"
        "both = [\n    (lambda v: v + name),\n    (lambda v: time.time()),\n]\n"
    )
    clean, dirty = imported(tmp_path, source.encode("latin-1")).both
    assert judged(clean, "clean") == []
    assert [taint.kind for taint in judged(dirty, "dirty")] == ["clock"]


def test_only_the_smallest_unique_sets_are_kept() -> None:
    """A superset says nothing more, and a join of many groups does not keep all products."""
    one, two, three = frozenset((1,)), frozenset((1, 2)), frozenset((2, 3))
    assert Facts(uniques=(two, three, one, one)).uniques == (one, three)
    assert Facts(uniques=(one, frozenset())).uniques == (frozenset(),)
    assert len(Facts(uniques=tuple(frozenset((n,)) for n in range(1000))).uniques) == 16


@pytest.mark.parametrize("function", [time.time, random.random, date.today])
def test_a_function_that_is_not_python_is_known_by_its_name(function: Any) -> None:
    """It has no source, but its name says enough."""
    (taint,) = judged(function, "native")
    assert taint.kind in ("clock", "random")


def test_the_line_of_a_call_is_told_if_it_is_the_only_one() -> None:
    """Two calls of one name could be either."""

    def once(functions: Any) -> Any:
        return functions.now()

    def twice(functions: Any) -> Any:
        first = functions.now()
        return first, functions.now()

    assert line_in(once, "now").startswith("test_determinism.py:")
    assert line_in(twice, "now") == ""
