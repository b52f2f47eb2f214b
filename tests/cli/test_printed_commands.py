"""Commands that setpoint prints, pasted: each does what its sentence says.

Every situation is a real one: runs that fail, and tables that others have changed. What is
printed is run as it stands there, and the tables are looked at afterwards.
"""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from setpoint import edge
from setpoint.cli.main import VERBS, main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 4, 24, 12, tzinfo=timezone.utc)
COMMAND = re.compile(rf"\bsetpoint (?:{'|'.join(VERBS)})\b[^\n;)]*")

DAILY = """
from pathlib import Path

from pyspark.sql import SparkSession

from setpoint import delta, in_range, pipeline

ROOT = Path(__file__).resolve().parent.parent


@pipeline(
    every="day",
    target=delta("out", partition_by="d"),
    start="2026-04-20",
    audits=[in_range("amount", 0, 99)],
)
def daily(window, factor: int = 2):
    broken = ROOT / "broken"
    if broken.exists() and window.id in broken.read_text():
        raise ValueError("not today")
    spark = SparkSession.getActiveSession()
    return spark.createDataFrame([(1, factor)], "id int, amount int").withColumn("d", window.date)
"""

READER = """
from pyspark.sql import functions as F
from setpoint import delta, pipeline, source
from pipelines.daily import daily


@pipeline(every="day", target=delta("sums", partition_by="d"), start="2026-04-20")
def sums(window, rows=source(daily)):
    return rows.groupBy("d").agg(F.sum("amount").alias("amount"))
"""

CARRIED = """
from pyspark.sql import functions as F
from setpoint import delta, pipeline, previous, source


@pipeline(every="day", target=delta("balance", partition_by="d"), start="2026-04-20")
def balance(
    window,
    moves=source(delta("moves"), time="d"),
    before=previous("total long"),
):
    total = moves.select(F.col("amount").alias("total")).unionAll(before.select("total"))
    return total.agg(F.sum("total").alias("total")).withColumn("d", window.date)
"""

LANDED = """
from setpoint import delta, files, land, pipeline, source


@pipeline(every="day", target=delta("kept", partition_by="d"), start="2026-04-20")
def kept(window, drop=source(land(files("inbox/{date}.csv", schema="id int, d date")))):
    return drop
"""

LATE = """
from setpoint import delta, files, pipeline, source


@pipeline(every="day", target=delta("strict", partition_by="d"), start="2026-04-20")
def strict(window, drop=source(files("inbox/{date}.csv", schema="id int, d date"), late="fail")):
    return drop
"""


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    text: str

    def command(self, *words: str) -> str:
        """The one printed command with these words in it."""
        found = [c.rstrip(" .") for c in COMMAND.findall(self.text) if all(w in c for w in words)]
        assert len(set(found)) == 1, (words, self.text)
        return found[0]


@dataclass
class Terminal:
    """A project, and the command line inside of it."""

    root: Path
    capfd: pytest.CaptureFixture[str]

    def __call__(self, command: str) -> Said:
        """Run a command as a process of its own would: nothing of an earlier one is there."""
        program, *words = shlex.split(command)
        assert program == "setpoint"
        for name in [n for n in sys.modules if n.startswith(("setpoint_pipelines_", "pipelines"))]:
            del sys.modules[name]
        code = main(words)
        said = self.capfd.readouterr()
        return Said(code, said.out + said.err)

    def write(self, place: str, text: str) -> None:
        (self.root / place).parent.mkdir(parents=True, exist_ok=True)
        (self.root / place).write_text(text)

    def table(self, place: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (
            DeltaTable(str(self.root / place)).to_pyarrow_table().to_pylist()
        )
        return sorted(rows, key=lambda row: str(row["d"]))

    def days(self, place: str = "out") -> list[str]:
        return [str(row["d"]) for row in self.table(place)]


@pytest.fixture
def terminal(
    project_dir: Path,
    spark: SparkSession,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    # It goes on: of two attempts at one moment nobody could say which is the last.
    ticks = itertools.count()
    monkeypatch.setattr(edge, "utc_now", lambda: NOW + timedelta(milliseconds=next(ticks)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = Terminal(project_dir, capfd)
    made.write("setpoint.toml", '[pipelines]\npaths = ["pipelines"]\n')
    made.write("pipelines/daily.py", DAILY)
    return made


RANGE = "--from 2026-04-20 --to 2026-04-22"


@pytest.mark.parametrize("which", ["", " --only missing"])
def test_what_failed_is_repaired_by_what_is_printed(terminal: Terminal, which: str) -> None:
    """Of windows that were never published."""
    terminal.write("broken", "2026-04-21")
    command = f"setpoint backfill daily {RANGE}{which}"
    said = terminal(command)
    assert said.code == 3
    assert terminal.days() == ["2026-04-20", "2026-04-22"]
    (terminal.root / "broken").unlink()
    if which:
        command = said.command("backfill daily", "--only failed")
    else:
        assert "the same command does what is left" in said.text
    assert terminal(command).code == 0
    assert terminal.days() == ["2026-04-20", "2026-04-21", "2026-04-22"]


def test_stale_windows_that_failed_are_repaired_by_what_is_printed(terminal: Terminal) -> None:
    """They hold older rows, so they are stale; and they failed, so that `failed` means them."""
    assert terminal(f"setpoint backfill daily {RANGE}").code == 0
    terminal.write("pipelines/daily.py", DAILY.replace("factor: int = 2", "factor: int = 3"))
    terminal.write("broken", "2026-04-21 2026-04-22")
    said = terminal(f"setpoint backfill daily {RANGE} --only stale")
    assert said.code == 3
    assert [row["amount"] for row in terminal.table("out")] == [3, 2, 2]
    (terminal.root / "broken").unlink()
    assert terminal(said.command("--only failed")).code == 0
    assert [row["amount"] for row in terminal.table("out")] == [3, 3, 3]


def test_printed_commands_name_the_file_the_configuration_and_the_parameters(
    terminal: Terminal,
) -> None:
    """Without them they would run another pipeline, or the same with other values."""
    (terminal.root / "setpoint.toml").rename(terminal.root / "other place.toml")
    terminal.write("other place.toml", '[pipelines]\npaths = ["none"]\n')
    (terminal.root / "none").mkdir()
    terminal.write("broken", "2026-04-21")
    given = "pipelines/daily.py:daily --param factor=7 --config 'other place.toml'"
    said = terminal(f"setpoint backfill {given} {RANGE} --only missing")
    assert said.code == 3
    (terminal.root / "broken").unlink()
    assert terminal(said.command("--only failed")).code == 0
    assert [row["amount"] for row in terminal.table("out")] == [7, 7, 7]
    said = terminal(f"setpoint run {given.replace('=7', '=700')} --window 2026-04-20")
    assert said.code == 1
    shown = terminal(said.command("setpoint show"))
    assert shown.code == 0
    assert "in_range" in shown.text


def test_status_prints_what_fills_and_what_brings_up_to_date(terminal: Terminal) -> None:
    said = terminal("setpoint status")
    assert terminal(said.command("backfill daily")).code == 0
    assert terminal.days() == [f"2026-04-{day}" for day in (20, 21, 22, 23)]
    assert not COMMAND.search(terminal("setpoint status").text)
    terminal.write("pipelines/daily.py", DAILY.replace("factor: int = 2", "factor: int = 3"))
    said = terminal("setpoint status daily")
    assert terminal(said.command("--only stale")).code == 0
    assert {row["amount"] for row in terminal.table("out")} == {3}
    assert not COMMAND.search(terminal("setpoint status").text)


def test_a_gap_upstream_is_filled_or_passed_over_by_what_is_printed(terminal: Terminal) -> None:
    terminal.write("pipelines/sums.py", READER)
    terminal("setpoint run daily --window 2026-04-20")
    said = terminal("setpoint run sums --window 2026-04-22")
    assert said.code == 3
    assert "SP-R07" in said.text
    assert terminal(said.command("setpoint run sums", "--force")).code == 0
    assert terminal.days("sums") == []
    assert terminal(said.command("setpoint backfill daily")).code == 0
    assert terminal("setpoint run sums --window 2026-04-22").code == 0
    assert terminal.days("sums") == ["2026-04-22"]


def test_windows_that_go_on_from_others_are_run_by_what_is_printed(terminal: Terminal) -> None:
    import pyarrow as pa

    def moves(amount: int) -> None:
        days = [date(2026, 4, day) for day in (20, 21, 22)]
        rows = pa.table({"d": days, "amount": pa.array([amount] * 3, pa.int64())})
        place = str(terminal.root / "moves")
        write_deltalake(place, rows, mode="overwrite", partition_by=["d"])

    moves(1)
    terminal.write("pipelines/balance.py", CARRIED)
    assert terminal(f"setpoint backfill balance {RANGE}").code == 0
    assert [row["total"] for row in terminal.table("balance")] == [1, 2, 3]
    moves(10)
    said = terminal("setpoint backfill balance --window 2026-04-20 --only stale")
    assert terminal(said.command("--downstream")).code == 0
    assert [row["total"] for row in terminal.table("balance")] == [10, 20, 30]


def test_a_landed_copy_is_made_anew_by_what_is_printed(terminal: Terminal) -> None:
    terminal.write("pipelines/kept.py", LANDED)
    terminal.write("inbox/2026-04-20.csv", "1,2026-04-20\n")
    run = "setpoint run kept --window 2026-04-20"
    assert terminal(run).code == 0
    terminal.write("pipelines/kept.py", LANDED.replace('d date"', "d date\", options={'sep': ','}"))
    said = terminal(run)
    assert "SP-H06" in said.text
    assert terminal(said.command("--refresh")).code == 0
    import shutil

    shutil.rmtree(terminal.root / "landing")
    said = terminal(f"{run} --force")
    assert "SP-R05" in said.text
    assert terminal(said.command("--refresh")).code == 0
    assert terminal.days("kept") == ["2026-04-20"]


def test_late_rows_are_taken_by_what_is_printed(terminal: Terminal) -> None:
    terminal.write("pipelines/strict.py", LATE)
    terminal.write("inbox/2026-04-20.csv", "1,2026-04-20\n")
    run = "setpoint run strict --window 2026-04-20"
    assert terminal(run).code == 0
    terminal.write("inbox/2026-04-20.csv", "1,2026-04-20\n2,2026-04-20\n")
    said = terminal(run)
    assert "SP-R06" in said.text
    assert terminal(said.command("--force")).code == 0
    assert len(terminal.table("strict")) == 2


def test_a_stage_that_was_kept_is_removed_by_what_is_printed(terminal: Terminal) -> None:
    said = terminal("setpoint run daily --param factor=700 --window 2026-04-20")
    assert said.code == 1
    stages = [*(terminal.root / "out" / "setpoint").rglob("*.parquet")]
    assert stages
    listed = terminal("setpoint recover --older-than 0")
    said = terminal(listed.command("--clean"))
    assert said.code == 2
    assert all(stage.exists() for stage in stages)
    assert terminal(said.command("--yes")).code == 0
    assert not any(stage.exists() for stage in stages)


def test_a_name_that_nobody_has_leads_to_those_that_there_are(terminal: Terminal) -> None:
    said = terminal("setpoint run nobody")
    assert said.code == 2
    listed = terminal(said.command("setpoint status"))
    assert listed.code == 0
    assert "daily" in listed.text


def test_duplicates_that_check_finds_are_removed_by_what_is_printed(terminal: Terminal) -> None:
    assert terminal("setpoint run daily --window 2026-04-20").code == 0
    table = DeltaTable(str(terminal.root / "out"))
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    assert len(terminal.table("out")) == 2
    said = terminal("setpoint check daily --key id,d")
    assert said.code == 1
    assert terminal(said.command("setpoint run daily")).code == 0
    assert len(terminal.table("out")) == 1
    assert terminal("setpoint check daily --key id,d").code == 0
