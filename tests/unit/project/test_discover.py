"""Finding pipelines, and refusing projects in which two of them would fight."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint.errors import SetpointError
from setpoint.project.config import Config, find_config
from setpoint.project.discover import pipeline_named, pipelines

TEXT = """
from setpoint import delta, pipeline

@pipeline(every="day", target=delta("{target}", partition_by="d"))
def {name}(window):
    return None
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "pipelines" / "deep").mkdir(parents=True)
    (tmp_path / "setpoint.toml").write_text("")
    return find_config(tmp_path)


def put(config: Config, file: str, name: str = "job", target: str = "out") -> Path:
    place = config.root / "pipelines" / file
    place.write_text(TEXT.format(name=name, target=target))
    return place


def test_pipelines_are_found_in_every_folder(config: Config) -> None:
    """By name, however deep."""
    put(config, "a.py", "one", "x")
    put(config, "deep/b.py", "two", "y")
    assert set(pipelines(config)) == {"one", "two"}
    assert pipeline_named(config, "two").name == "two"


def test_a_file_can_be_named(config: Config) -> None:
    """file.py:name needs no configuration."""
    place = put(config, "a.py", "one")
    assert pipeline_named(config, f"{place}:one").name == "one"
    with pytest.raises(SetpointError) as caught:
        pipeline_named(config, f"{place}:two")
    assert caught.value.code == "SP-C04"


@pytest.mark.parametrize("second", ["out", "out/", "./out", "other/../out"])
def test_two_pipelines_on_one_target_are_refused(config: Config, second: str) -> None:
    """However the second one spells the place."""
    put(config, "a.py", "one", "out")
    put(config, "b.py", "two", second)
    with pytest.raises(SetpointError) as caught:
        pipelines(config)
    assert caught.value.code == "SP-D05"


def test_two_pipelines_of_one_name_are_refused(config: Config) -> None:
    """A name stands for one history."""
    put(config, "a.py", "one", "x")
    put(config, "b.py", "one", "y")
    with pytest.raises(SetpointError) as caught:
        pipelines(config)
    assert caught.value.code == "SP-D01"


def test_a_pipeline_that_another_file_imports_is_one_pipeline(config: Config) -> None:
    """Importing is not defining."""
    put(config, "a.py", "one", "x")
    (config.root / "pipelines" / "b.py").write_text("from a import one\n")
    assert set(pipelines(config)) == {"one"}


def test_a_broken_file_is_named_with_its_line(config: Config) -> None:
    """No stack trace, but the place."""
    (config.root / "pipelines" / "a.py").write_text("x = 1\nraise ValueError('no')\n")
    with pytest.raises(SetpointError) as caught:
        pipelines(config)
    assert caught.value.code == "SP-C05"
    assert "line 2" in caught.value.what


def test_an_unknown_name_lists_the_known_ones(config: Config) -> None:
    """So that a typo is seen at once."""
    put(config, "a.py", "one", "x")
    with pytest.raises(SetpointError) as caught:
        pipeline_named(config, "onne")
    assert "one" in caught.value.what
