"""Definitions: found wrong when they are loaded, without Spark and without the table."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from setpoint import Overwrite, Window, delta, not_null, pipeline, source
from setpoint.errors import SetpointError, UsageError

PLACE = delta("out", partition_by="d")


def job(window: Window, orders: Any = source(delta("lake"), time="d"), factor: int = 2) -> Any:
    """One line.

    More lines.
    """
    return window.id, orders, factor


def test_arguments_are_sorted_into_sources_and_parameters() -> None:
    """By their defaults."""
    built = pipeline(every="day", target=PLACE)(job)
    assert set(built.sources) == {"orders"}
    assert built.parameters == {"factor": 2}
    assert (built.name, built.description) == ("job", "One line.")


def test_a_pipeline_is_a_plain_function() -> None:
    """A unit test calls it with what it likes; nothing is read behind its back."""
    built = pipeline(every="day", target=PLACE)(job)
    window = Window.parse("2026-04-25", every="day")
    assert built(window, orders="frame") == ("2026-04-25", "frame", 2)
    with pytest.raises(UsageError) as caught:
        built(window)
    assert caught.value.code == "SP-D08"


def no_window() -> Any: ...


def no_default(window: Window, orders: Any) -> Any: ...


def window_with_default(window: Any = 1) -> Any: ...


@pytest.mark.parametrize(
    ("definition", "function", "code"),
    [
        ({"every": "day", "target": PLACE}, no_window, "SP-D01"),
        ({"every": "day", "target": PLACE}, no_default, "SP-D01"),
        ({"every": "day", "target": PLACE}, window_with_default, "SP-D01"),
        ({"every": "day", "target": PLACE, "name": "a b"}, job, "SP-D01"),
        ({"every": "day", "target": PLACE, "name": "../x"}, job, "SP-D01"),
        ({"every": "day", "target": "out"}, job, "SP-D01"),
        ({"every": "day", "target": PLACE, "write": "append"}, job, "SP-D01"),
        ({"every": "day", "target": delta("out")}, job, "SP-D03"),
        ({"every": "fortnight", "target": PLACE}, job, "SP-D02"),
        ({"every": "day", "target": PLACE, "audits": [7]}, job, "SP-D06"),
        (
            {"every": "hour", "target": delta("o", partition_by="d", partition_every="day")},
            job,
            "SP-D04",
        ),
        (
            {"every": "day", "target": delta("o", partition_by="d", partition_every="month")},
            job,
            "SP-D04",
        ),
        (
            {"every": "month", "target": delta("o", partition_by="d", partition_every="week")},
            job,
            "SP-D04",
        ),
    ],
)
def test_a_wrong_definition_is_refused(
    definition: dict[str, Any], function: Any, code: str
) -> None:
    """With a code, at load time."""
    with pytest.raises(SetpointError) as caught:
        pipeline(**definition)(function)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("every", "unit"),
    [("day", "hour"), ("day", "day"), ("month", "day"), ("week", "day"), ("hour", "15 minutes")],
)
def test_a_partition_as_fine_as_the_window_is_fine(every: str, unit: str) -> None:
    """Finer partitions are owned whole."""
    place = delta("o", partition_by="d", partition_every=unit)
    assert pipeline(every=every, target=place)(job).every


@pytest.mark.parametrize(
    "make",
    [
        lambda: source("lake", time="d"),  # type: ignore[arg-type]
        lambda: source(delta("lake")),
        lambda: source(delta("lake"), time="d", whole=True),
    ],
)
def test_an_unbounded_source_is_refused(make: Any) -> None:
    """A read is clipped to the window, or says that it is whole."""
    with pytest.raises(SetpointError) as caught:
        make()
    assert caught.value.code == "SP-D07"


def test_the_definition_holds_what_decides_the_rows() -> None:
    """Grain, target, pattern, audits and clips are in the run key."""
    base = pipeline(every="day", target=PLACE)(job).definition()
    others = [
        pipeline(every="week", target=PLACE)(job),
        pipeline(every="day", target=delta("out", partition_by="e"))(job),
        pipeline(every="day", target=PLACE, audits=[not_null("d")])(job),
    ]
    assert all(other.definition() != base for other in others)
    assert pipeline(every="day", target=PLACE, write=Overwrite())(job).definition() == base


def test_nothing_heavy_is_imported_by_a_definition() -> None:
    """Loading a pipeline costs neither Spark nor Delta."""
    import subprocess

    code = (
        "import sys\nfrom setpoint import delta, pipeline, source\n"
        "pipeline(every='day', target=delta('o', partition_by='d'))(lambda w: 1) if False else 0\n"
        "print([m for m in ('pyspark', 'deltalake', 'pyarrow', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
