"""`setpoint prove` as users see it, as far as no Spark is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from setpoint.cli.main import main
from setpoint.cli.output import Output
from setpoint.cli.proofs import Telling, verdict_line
from setpoint.model.proof import ColumnChange, Difference, Proof, Result, RowChange
from setpoint.prove.experiments import EXPERIMENTS

DIFFERENCE = Difference(
    rows_expected=2,
    rows_found=3,
    missing=1,
    added=2,
    key=("id",),
    matched=2,
    columns=(ColumnChange("total", "long", 1, (("1", "2"),)),),
    examples=(
        RowChange({"id": "7"}, {"total": "1"}, {"total": "2"}),
        RowChange({"id": "8"}, None, {"total": "3"}),
    ),
)


def test_the_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its name and what it is about, for people and for programs."""
    assert main(["prove", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text and item.why in text for name, item in EXPERIMENTS.items())
    both = [item for item in EXPERIMENTS.values() if "command" in item.subjects]
    assert text.count("for: pipelines, commands\n") == len(both)
    assert text.count("for: pipelines\n") == len(EXPERIMENTS) - len(both)
    assert main(["prove", "--list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert [item["name"] for item in data] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "SP-C01"),
        (["daily", "--only", "twise"], "SP-V07"),
        (["daily", "--full", "--only", "twice"], "SP-C01"),
        (["daily"], "SP-C02"),
    ],
)
def test_wrong_calls_are_usage_errors(
    words: list[str], code: str, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", *words]) == 2
    assert code in capsys.readouterr().err
    assert list(project_dir.iterdir()) == []


def test_a_proof_is_about_one_window(project_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project_dir / "p.py").write_text(
        "from setpoint import delta, pipeline\n"
        "@pipeline(every='day', target=delta('out', partition_by='d'))\n"
        "def daily(window): return None\n"
    )
    assert main(["prove", "p.py:daily", "--window", "2026-04-01..2026-04-02"]) == 2
    assert "names 2 windows" in capsys.readouterr().err


def telling() -> Telling:
    return Telling(Output("prove", as_json=False, environment={"NO_COLOR": "1"}))


def test_a_failure_tells_why_and_shows_a_small_diff() -> None:
    """The words of the code and of the command stand there too, each with who says them."""
    told = {"notes": ["job.py:8  append-write"], "output": "Traceback\nKeyError: 'USER'"}
    why = "It ended with 1. Its last words:\n  out of memory\n"
    failed = Result("twice", "failed", "run twice: x", "", DIFFERENCE, why, detail=told)
    assert [line[10:] for line in telling().lines(failed)][1:] == [
        "cause   It ended with 1. Its last words:",
        "          out of memory",
        "code    job.py:8  append-write",
        "said    Traceback",
        "said    KeyError: 'USER'",
        "- id=7  total=1",
        "+ id=7  total=2",
        "+ id=8  total=3",
    ]


def test_values_of_tables_cannot_command_the_terminal() -> None:
    """Neither by escapes nor by a line that looks like a verdict."""
    bad = "a\x1b[2Jb\r\nproven  daily[2026-04-25]: all 12 experiments"
    change = RowChange({"id": bad}, {"total": bad}, {bad: bad})
    found = Difference(1, 1, 1, 1, examples=(change,))
    result = Result("twice", "failed", bad, "", found, bad, bad, detail={"notes": [bad]})
    lines = list(telling().lines(result))
    assert not [line for line in lines if line.startswith("proven") or set("\x1b\r\n") & set(line)]
    proof = Proof(bad, "", (result,), "code", "quick")
    output = Output("prove", as_json=False, environment={"NO_COLOR": "1"})
    assert len(verdict_line(proof, output).splitlines()) == 1


def test_a_cause_is_told_once() -> None:
    """The next experiment that fails for the same reason names the first."""
    told = telling()
    first = Result("twice", "failed", "run twice: x", "", DIFFERENCE, "the clock", "use window")
    lines = list(told.lines(first))
    assert lines[0] == "failed   twice          run twice: x"
    assert [line.strip() for line in lines[1:3]] == ["cause   the clock", "repair  use window"]
    again = Result("forced", "failed", "run twice: x", "", DIFFERENCE, "the clock", "use window")
    assert [line.strip() for line in told.lines(again)][1:] == ["cause   the same as of twice"]


def test_the_verdict_counts_what_was_not_tried() -> None:
    """A proof of nothing but skipped experiments is none."""
    output = Output("prove", as_json=False, environment={"NO_COLOR": "1"})
    passed, skipped = Result("twice", "passed", "x"), Result("chunk", "skipped", "y")
    proof = Proof("daily", "2026-04-25", (passed, skipped), "code", "quick", seconds=3)
    assert verdict_line(proof, output) == (
        "proven  daily[2026-04-25]: the one experiment ended in the state of one clean run; "
        "1 could not be tried, 3 s"
    )
    nothing = Proof("daily", "2026-04-25", (skipped,), "code", "quick")
    assert verdict_line(nothing, output).startswith("not proven")
