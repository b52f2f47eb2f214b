"""How a Delta table is written, chosen by the look that the publish is decided on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from setpoint import Merge, Window, delta, pipeline
from setpoint.model.run import Run
from setpoint.targets.delta.publisher import other_files
from setpoint.targets.delta.storage import Storage
from setpoint.targets.delta.target import DeltaTarget

DAY = Window.parse("2026-04-25")


def test_a_table_that_appears_after_the_look_changes_no_choice(tmp_path: Path) -> None:
    """Who saw no table creates it, and is refused by the log; only a new look sees the table."""
    table = delta(str(tmp_path / "out"))

    @pipeline(every="day", target=table, write=Merge(key="id", sequence_by="seq"))
    def job(window: Window) -> None: ...

    target = DeltaTarget(job, table, Storage.at(str(tmp_path / "out")))
    seen = target._snapshot()
    write_deltalake(str(tmp_path / "out"), pa.table({"id": [1], "seq": [1]}))
    assert target._mechanism(seen).kind == "files"
    assert target.connectors() == {"delta"}


@pytest.mark.parametrize(("version", "told"), [(0, "no table"), (5, "TO VERSION AS OF 4")])
def test_no_advice_leads_before_the_first_version(version: int, told: str) -> None:
    define = pipeline(every="day", target=delta("out", partition_by="d"), name="job")
    run = Run(define(lambda window: None), DAY, {}, {}, "code", {})
    error = other_files(run, "it is another one", Storage.at("/data/out"), version)
    assert told in error.next
    assert "-1" not in str(error)
