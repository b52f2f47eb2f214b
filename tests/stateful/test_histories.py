"""A few random histories on real tables, one for each destination and pattern.

`make soak HISTORIES=n SEED=s` plays as many as there is time for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from histories.jobs import Bench
from histories.play import Stage
from histories.steps import CELLS
from histories.writers import Writers

from setpoint.flow.world import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Kinds of steps after which setpoint is known to leave wrong rows; to be emptied by their repair.
STEPS_KNOWN_TO_BREAK = ()


@pytest.fixture(scope="module")
def stage(
    spark: SparkSession,
    postgres_url: str,
    has_delta_connector: bool,
    has_iceberg_connector: bool,
) -> Iterator[Stage]:
    if not (has_delta_connector and has_iceberg_connector):
        message = "a connector is not cached: python -m setpoint.spark.setup"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    with Writers(spark) as writers:
        yield Stage(spark, writers, postgres_url)


@pytest.mark.parametrize("seed", range(len(CELLS)), ids=["-".join(cell) for cell in CELLS])
def test_after_every_step_the_table_is_what_clean_runs_give(stage: Stage, seed: int) -> None:
    """Runs, kills, stopped writers, races, foreign writes and maintenance, against the model."""
    result = stage.play(seed, STEPS_KNOWN_TO_BREAK, longest=7)
    assert not result.failure, "\n".join([*result.log, result.failure])
    assert result.counts["steps"] > 0


def test_a_run_that_says_unchanged_and_is_not_is_noticed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run that publishes nothing and says that nothing changed ends the history."""

    def idle(bench: Bench, *words: Any, **more: Any) -> Outcome:
        return Outcome("job", "2026-04-01", "unchanged", "nothing changed")

    monkeypatch.setattr(Bench, "run", idle)
    result = stage.play(0, STEPS_KNOWN_TO_BREAK)
    assert "says='unchanged'" in result.failure, result.failure
    assert "it may hold" in result.failure


def test_a_row_that_nobody_should_have_touched_is_missed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that leaves out a row of another window is noticed at once."""
    run = Bench.run

    def careless(bench: Bench, *words: Any, **more: Any) -> Outcome:
        outcome = run(bench, *words, **more)
        player = playing[-1]
        rows = player.place.rows()
        if len({row.d for row in rows}) > 1:
            player.place.delete(rows[0].id)
        return outcome

    playing: list[Any] = []
    make = Stage._player

    def watched(*words: Any) -> Any:
        playing.append(make(*words))
        return playing[-1]

    monkeypatch.setattr(Bench, "run", careless)
    monkeypatch.setattr(Stage, "_player", watched)
    result = stage.play(0, STEPS_KNOWN_TO_BREAK)
    assert "it may hold" in result.failure, result.failure
