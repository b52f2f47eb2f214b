"""Code that workers cannot import travels with tasks; what they can import does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle

from setpoint.project.config import Config
from setpoint.project.discover import pipeline_named
from setpoint.spark.carried import carry_code

PIPELINE = """
from collections.abc import Iterator

import aside
import shared_aside
from setpoint import delta, pipeline, source

def total(parts: Iterator[int]) -> int:
    return aside.doubled(sum(parts))

def first(parts: Iterator[int]) -> int:
    return shared_aside.same(parts[0])

@pipeline(every="day", target=delta("out", partition_by="d"))
def daily(window, orders=source(delta("lake/orders"), time="d")):
    return orders.mapInPandas(total, orders.schema)
"""
WORKER = (
    "import pickle, sys; print(pickle.load(sys.stdin.buffer)([20, 1]), "
    "'aside' in sys.modules, 'shared_aside' in sys.modules)"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pipeline file beside a helper, and another helper that PYTHONPATH leads to."""
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "shared_aside.py").write_text("def same(value):\n    return value\n")
    monkeypatch.setenv("PYTHONPATH", str(shared), prepend=":")
    monkeypatch.syspath_prepend(str(shared))
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "aside.py").write_text("def doubled(value):\n    return value * 2\n")
    (folder / "daily.py").write_text(PIPELINE)
    yield folder
    for name in set(sys.modules) - known:
        if name in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
        del sys.modules[name]


def test_a_worker_can_call_what_it_cannot_import(project: Path, tmp_path: Path) -> None:
    """The file of the pipeline and the helper beside it go along."""
    job = pipeline_named(Config(root=tmp_path), f"{project / 'daily.py'}:daily")
    module = sys.modules[job.function.__module__]
    assert f"No module named '{module.__name__}'" in _called(module.total, tmp_path)

    carry_code(job.function)
    assert _called(module.total, tmp_path) == "42 False False"


def test_what_a_worker_can_import_is_imported_there(project: Path, tmp_path: Path) -> None:
    """By PYTHONPATH, from Python itself, from an installed package: its constants stay at home."""
    job = pipeline_named(Config(root=tmp_path), f"{project / 'daily.py'}:daily")
    before = cloudpickle.list_registry_pickle_by_value()
    carry_code(job.function)
    module = sys.modules[job.function.__module__]
    assert _called(module.first, tmp_path) == "20 False True"
    carried = cloudpickle.list_registry_pickle_by_value() - before
    assert carried == {module.__name__, "aside"}


def _called(function: Callable[[list[int]], int], folder: Path) -> str:
    """What another interpreter says that gets the function as a worker does."""
    words = [sys.executable, "-c", WORKER]
    sent = cloudpickle.dumps(function)
    ended = subprocess.run(words, input=sent, capture_output=True, cwd=folder)
    return (ended.stdout or ended.stderr).decode().strip()
