"""Play the history of a seed, from an empty table to its end."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from histories import by_others, by_processes, by_setpoint
from histories.jobs import Bench
from histories.places.delta import DeltaPlace
from histories.places.iceberg import IcebergPlace
from histories.places.parquet import ParquetPlace
from histories.places.place import Place
from histories.places.postgres import PostgresPlace
from histories.player import Player, Skipped
from histories.rows import DAYS, Facts
from histories.steps import History, Step, history_of
from histories.writers import Writers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS: dict[str, Callable[[Player, Step], None]] = {
    name: getattr(module, name)
    for module, names in (
        (by_setpoint, "run again force change mistake column revert backfill"),
        (by_others, "append delete update overwrite compact swap renew roll_back forget"),
        (by_others, "lose_ledger"),
        (by_processes, "race kill stop"),
    )
    for name in names.split()
}


@dataclass
class Result:
    """What came of a history."""

    seed: int
    kind: str
    pattern: str
    failure: str = ""
    log: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "counts": dict(self.counts)}


@dataclass
class Stage:
    """What many histories share: a session, writers on it and a PostgreSQL server."""

    spark: SparkSession
    writers: Writers
    server: str

    def play(self, seed: int, without: Collection[str] = (), longest: int | None = None) -> Result:
        """Play one history, or its beginning; what is wrong is told, not raised."""
        history = history_of(seed, without)
        history = replace(history, steps=history.steps[:longest])
        result, began = Result(seed, *history.cell), time.monotonic()
        before, root = os.getcwd(), Path(tempfile.mkdtemp(prefix="history"))
        os.chdir(root)
        self._begin_afresh()
        place = self._place(history.definition.kind, root)
        player = self._player(history, place, root)
        try:
            _play(player)
        except Exception as error:
            expected = isinstance(error, AssertionError)
            result.failure = str(error) if expected else traceback.format_exc()
        finally:
            result.log, result.counts = player.log, player.counts
            player.bench.close()
            with suppress(Exception):
                self.writers.settle()
                place.close()
            os.chdir(before)
            shutil.rmtree(root, ignore_errors=True)
        result.seconds = round(time.monotonic() - began, 3)
        return result

    def _begin_afresh(self) -> None:
        """What an earlier history left behind in this thread must not count in the next one."""
        spark: Any = self.spark
        type(spark)._activeSession = spark
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)

    def _player(self, history: History, place: Place, root: Path) -> Player:
        facts = Facts(root / "facts", by_event=history.definition.pattern == "merge")
        facts.begin(history.random("facts"))
        return Player(
            history=history,
            place=place,
            bench=Bench(root, place.connections),
            facts=facts,
            writers=self.writers,
            root=str(root),
            definition=replace(history.definition, table=place.table),
        )

    def _place(self, kind: str, root: Path) -> Place:
        match kind:
            case "delta":
                return DeltaPlace(root, self.spark)
            case "iceberg":
                return IcebergPlace(root, self.spark)
            case "parquet":
                return ParquetPlace(root, self.spark)
            case _:
                return PostgresPlace(self.server)


def _play(player: Player) -> None:
    player.log.append(f"{player.definition}")
    for step in player.history.steps:
        _take(player, step)
    _end(player)


def _take(player: Player, step: Step) -> None:
    player.log.append(str(step))
    try:
        STEPS[step.kind](player, step)
    except Skipped:
        player.note("skipped")
        player.counts["skipped"] += 1
        return
    player.counts[step.kind] += 1
    player.counts["steps"] += 1
    player.mark()
    player.backups.append(player.states[0].rows)


def _end(player: Player) -> None:
    """The mistakes are corrected and every window runs: now all is as after clean runs."""
    _take(player, Step("revert"))
    answers = {}
    for day in DAYS:
        player.log.append(f"at the end {day.day}")
        with suppress(Skipped):
            answers[day] = player.run(day)
    for day, first in answers.items():
        player.log.append(f"once more {day.day}")
        by_setpoint.must_be_idle(first, player.run(day))
