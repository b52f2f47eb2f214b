"""The command line, the tables and the moments, as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint.errors import UsageError
from setpoint.project.config import Config
from setpoint.project.wiring import Project
from setpoint.prove.command.moments import Moment, Observed, chosen
from setpoint.prove.command.prove import Asked
from setpoint.prove.command.tables import places_of
from setpoint.prove.command.words import Command


def test_only_known_names_are_filled_in() -> None:
    """Braces of the command's own, as in JSON, stay as they are."""
    command = Command.of("job --on {window} --to '{orders} x' {\"a\":1} {other}", "2026-04-25", [])
    assert command.filled({"orders": "lake/o"}, "2026-04-24") == [
        "job",
        "--on",
        "2026-04-24",
        "--to",
        "lake/o x",
        "{a:1}",
        "{other}",
    ]


def test_variables_are_filled_in_too() -> None:
    command = Command.of("job", "2026-04-25", ["TABLE={orders}", "DAY={window}"])
    assert command.names("orders")
    assert command.environment({"A": "b"}, {"orders": "x"}, "2026-04-25") == {
        "A": "b",
        "TABLE": "x",
        "DAY": "2026-04-25",
    }


@pytest.mark.parametrize(
    ("text", "window", "variables"),
    [("job 'x", None, []), ("", None, []), ("job {window}", None, []), ("job", None, ["A"])],
)
def test_a_command_that_makes_no_sense_is_refused(
    text: str, window: str | None, variables: list[str]
) -> None:
    with pytest.raises(UsageError) as raised:
        Command.of(text, window, variables)
    assert raised.value.code == "SP-V20"


@pytest.mark.parametrize(
    ("tables", "states", "code"),
    [
        ([], [], "SP-V20"),
        (["orders"], [], "SP-V20"),
        (["orders=delta:"], [], "SP-V20"),
        (["orders=oracle:x"], [], "SP-V20"),
        (["window=delta:x"], [], "SP-V20"),
        (["a=delta:x", "a=delta:y"], [], "SP-V20"),
        (["a=delta:s3://bucket/x"], [], "SP-V22"),
        (["a=table:sales.orders"], [], "SP-V22"),
    ],
)
def test_tables_that_make_no_sense_are_refused(
    tables: list[str], states: list[str], code: str, tmp_path: Path
) -> None:
    with Project(Config(root=tmp_path)) as project, pytest.raises(UsageError) as raised:
        places_of(tables, states, project.adapters, tmp_path)
    assert raised.value.code == code


def test_states_may_have_names(tmp_path: Path) -> None:
    with Project(Config(root=tmp_path)) as project:
        _, places = places_of(
            ["o=parquet:t"], ["mark=m.json", "last.run"], project.adapters, tmp_path
        )
    assert [place.name for place in places] == ["o", "mark", "last_run"]
    assert [place.address for place in places] == [
        str(tmp_path / name) for name in ("t", "m.json", "last.run")
    ]


def test_experiments_for_pipelines_only_are_refused() -> None:
    request = Asked(Command("job", ""), ("a=delta:x",), only=("twice", "chunk"))
    with pytest.raises(UsageError, match=r"SP-V07.*chunk.* for a command"):
        request.experiments  # noqa: B018


def test_the_quick_moments_are_the_first_and_the_last_change() -> None:
    seen = Observed(("a", "b", "b", "c"), True, 1, 0.5)
    assert chosen(seen, few=True) == (Moment("after", 1, 4, "a"), Moment("after", 4, 4, "c"))


def test_the_quick_moments_have_the_change_before_another_place_changes() -> None:
    """A mark that was seen when it was made and when it was filled."""
    seen = Observed(("mark", "mark", "sales"), True, 1, 0.5)
    assert [moment.number for moment in chosen(seen, few=True)] == [1, 2, 3]


def test_all_moments_have_those_before_and_those_where_another_place_begins() -> None:
    seen = Observed(("a",) * 50 + ("mark",), True, 1, 0.5)
    found = chosen(seen, few=False)
    assert [moment.sort for moment in found][:2] == ["before", "beneath"]
    numbers = [moment.number for moment in found[2:]]
    assert numbers[0] == 1
    assert {50, 51} <= set(numbers)
    assert len(numbers) <= 8


def test_a_run_that_changes_nothing_is_killed_before_its_first_change() -> None:
    assert chosen(Observed((), False, 1, 1), few=True) == (Moment("before"),)
