"""Random histories of runs, crashes and foreign writes against a model in memory.

The model is one line: a window holds what its last run that ended well returned, plus what
somebody else did to it since. Whatever the order of events, the table equals the model.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from staging import Bench

from setpoint.errors import SetpointError
from setpoint.flow.faults import ALWAYS
from setpoint.flow.plan import Bound
from setpoint.flow.run import plan_windows, run_window
from setpoint.ledger import Ledger
from setpoint.model.window import Window

DAYS = [date(2026, 4, 24), date(2026, 4, 25), date(2026, 4, 26)]
BETWEEN_STEPS = sorted(point for point in ALWAYS if point != "staging")
AFTER_COMMIT = ("committed", "published", "recorded")

days = st.sampled_from(DAYS)
ids = st.lists(st.integers(0, 5), max_size=5)
versions = st.integers(0, 2)


class Overwrites(RuleBasedStateMachine):
    """One table, one pipeline, three windows."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="setpoint-"))
        self.model: dict[date, list[int]] = {}
        self.generations: Counter[date] = Counter()
        self.key: dict[date, tuple[Any, ...] | None] = {}
        self.last: dict[date, tuple[tuple[int, ...], int]] = {}
        # A foreign write anywhere makes a window doubtful if its files were compacted too: the
        # receipt no longer knows them. It may then run again, which changes nothing.
        self.compacted: set[date] = set()
        self.written_since: set[date] = set()

    @initialize(remembered=st.booleans())
    def begin(self, remembered: bool) -> None:
        url = f"sqlite:////{str(self.root / 'ledger.db').lstrip('/')}"
        self.ledger = Ledger.open(url) if remembered else None
        self.bench = Bench(self.root, self.ledger, tries=1)

    def teardown(self) -> None:
        if getattr(self, "ledger", None) is not None:
            self.ledger.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _is_doubtful(self, day: date) -> bool:
        return day in self.compacted and day in self.written_since

    def _ended_well(self, day: date, rows: list[int], version: int, state: str) -> None:
        key = (tuple(rows), version)
        if self.key.get(day) != key:
            assert state == "published"
        elif not self._is_doubtful(day):
            assert state == "unchanged"
        if state == "published":
            self.generations[day] += 1
            self.written_since.discard(day)
        self.model[day], self.key[day], self.last[day] = sorted(rows), key, key

    @rule(day=days, rows=ids, version=versions)
    def run(self, day: date, rows: list[int], version: int) -> None:
        """A run, or a re-run, or other code, or the same rows from other code."""
        outcome = self.bench.run(self.bench.job(rows, version), day.isoformat())
        self._ended_well(day, rows, version, outcome.state)

    @precondition(lambda self: self.last)
    @rule(other_code=st.booleans())
    def heal(self, other_code: bool) -> None:
        """The last rows of every window once more, by the same code or other code."""
        for day, (rows, version) in sorted(self.last.items()):
            version += 10 * other_code
            outcome = self.bench.run(self.bench.job(rows, version), day.isoformat())
            self._ended_well(day, list(rows), version, outcome.state)

    @precondition(lambda self: any(self.key.values()))
    @rule(data=st.data())
    def run_again(self, data: st.DataObject) -> None:
        """The very same run once more commits nothing."""
        day = data.draw(st.sampled_from(sorted(d for d, key in self.key.items() if key)))
        if self._is_doubtful(day):
            return
        rows, version = self.key[day] or ((), 0)
        before = DeltaTable(self.bench.place).version()
        outcome = self.bench.run(self.bench.job(rows, version), day.isoformat())
        assert outcome.state == "unchanged"
        assert DeltaTable(self.bench.place).version() == before

    @rule(day=days, rows=ids, version=versions, point=st.sampled_from(BETWEEN_STEPS))
    def crash(self, day: date, rows: list[int], version: int, point: str) -> None:
        """A failure at a crash point: the old rows before the commit, the new ones after it."""
        job, key = self.bench.job(rows, version), (tuple(rows), version)
        if self.key.get(day) == key:
            return  # an unchanged run reaches no crash point
        with pytest.raises(SetpointError):
            self.bench.run(job, day.isoformat(), fault=f"{point}:raise")
        if point in AFTER_COMMIT:
            self._ended_well(day, rows, version, "published")

    @rule(day=days, rows=ids, version=versions)
    def lose_the_answer(self, day: date, rows: list[int], version: int) -> None:
        """The commit lands, its answer is lost: the run ends well in one process."""
        job = self.bench.job(rows, version)
        outcome = self.bench.run(job, day.isoformat(), fault="committed:lose")
        self._ended_well(day, rows, version, outcome.state)

    @rule(day=days, number=st.integers(100, 105))
    def foreign_append(self, day: date, number: int) -> None:
        """Somebody else adds a row."""
        row = pa.table({"id": pa.array([number], pa.int32()), "d": pa.array([day])})
        write_deltalake(self.bench.place, row, mode="append", partition_by=["d"])
        self.model[day] = sorted([*self.model.get(day, []), number])
        self.key[day] = None
        self.written_since |= set(DAYS)

    @precondition(lambda self: DeltaTable.is_deltatable(self.bench.place))
    @rule(day=days)
    def foreign_delete(self, day: date) -> None:
        """Somebody else empties a day."""
        DeltaTable(self.bench.place).delete(f"d = '{day}'")
        if self.model.get(day):
            published = self.last.get(day)
            # A slice that was published empty is its old self again once it is emptied.
            same = published is not None and not published[0]
            self.model[day], self.key[day] = [], published if same else None
        self.written_since |= set(DAYS)

    @precondition(lambda self: DeltaTable.is_deltatable(self.bench.place))
    @rule()
    def maintain(self) -> None:
        """Compaction and a checkpoint change no row and make nothing stale."""
        table = DeltaTable(self.bench.place)
        table.optimize.compact()
        table.create_checkpoint()
        self.compacted |= set(self.model)

    @rule(day=days, mine=ids, theirs=ids)
    def overtaken(self, day: date, mine: list[int], theirs: list[int]) -> None:
        """Another run publishes the window between our look and our commit: ours comes last."""
        bench = self.bench
        mine_key, their_key = (tuple(mine), 7), (tuple(theirs), 8)
        if self.key.get(day) in (mine_key, their_key) or mine_key == their_key:
            return
        bound = bench.bind(bench.job(mine, 7))
        window = Window.parse(day.isoformat(), every="day")

        class Overtaken(type(bound.target)):  # type: ignore[misc]
            def publish(self, *args: Any) -> Any:
                if not done:
                    done.append(bench.run(bench.job(theirs, 8), day.isoformat()))
                return super().publish(*args)

        done: list[Any] = []
        target = Overtaken(bound.pipeline, bound.pipeline.target, bound.target._storage)
        bound = Bound(bound.pipeline, target, {})
        world = replace(bench.world())
        (plan,) = plan_windows(bound, [window], world, parameters={})
        outcome = run_window(bound, plan, world)
        self._ended_well(day, theirs, 8, done[0].state)
        self._ended_well(day, mine, 7, outcome.state)

    @invariant()
    def the_table_equals_the_model(self) -> None:
        """Rows, and their multiplicity, are those of the model; no live file is missing."""
        if not hasattr(self, "bench"):
            return
        expected = {day: rows for day, rows in self.model.items() if rows}
        assert self.bench.rows() == expected

    @invariant()
    def generations_count_every_publish_once(self) -> None:
        """Each publish has a generation of its own, in order and without a gap."""
        if not hasattr(self, "bench"):
            return
        seen: dict[str, list[int]] = {}
        for receipt in self.bench.receipts():
            seen.setdefault(receipt["window"], []).append(receipt["generation"])
        counted = {day.isoformat(): count for day, count in self.generations.items() if count}
        assert seen == {day: list(range(1, count + 1)) for day, count in counted.items()}


Overwrites.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=14,
    suppress_health_check=list(HealthCheck),
)
TestOverwrites = Overwrites.TestCase
