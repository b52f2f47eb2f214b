"""The graph of pipelines, from what their sources say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from setpoint import DefinitionError, Pipeline, Window, delta, files, pipeline, source
from setpoint.project.config import Config
from setpoint.project.graph import upstream_of


def reads(name: str, *given: Any) -> Pipeline:
    def function(window: Window, a: Any = None, b: Any = None) -> Any:
        return None

    function.__defaults__ = tuple(given) + (None,) * (2 - len(given))
    return pipeline(every="day", target=delta(f"out/{name}", partition_by="d"), name=name)(function)


def test_a_source_names_a_pipeline_or_its_table(tmp_path: Path) -> None:
    orders = reads("orders", source(files("in.csv", schema="d date"), time="d"))
    daily = reads("daily", source(orders))
    weekly = reads("weekly", source(delta("./out//daily"), time="d"), source(orders))
    graph = upstream_of([orders, daily, weekly], Config(root=tmp_path))
    assert graph == {"orders": (), "daily": ("orders",), "weekly": ("daily", "orders")}


def test_a_circle_is_refused_and_an_own_window_is_not(tmp_path: Path) -> None:
    own = reads("own", source(delta("out/own"), time="d"))
    assert upstream_of([own], Config(root=tmp_path)) == {"own": ("own",)}
    one = reads("one", source(delta("out/two"), time="d"))
    two = reads("two", source(one))
    with pytest.raises(DefinitionError, match=r"circle: (one reads two reads one|two reads one)"):
        upstream_of([one, two], Config(root=tmp_path))
