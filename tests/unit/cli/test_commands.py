"""Commands that are printed: each can be pasted, and says what this command was told."""

from __future__ import annotations

import ast
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import setpoint
from setpoint.cli.commands import Completion
from setpoint.cli.main import VERBS
from setpoint.errors import UsageError

SOURCE = Path(setpoint.__file__).parent
# A printed command ends where its line, its clause or its bracket does.
COMMAND = re.compile(rf"\bsetpoint (?:{'|'.join(VERBS)})\b(?:[ \"'][^\n;,)]*)?")
# Reports name the verb as their tool, and the linter knows words of other programs.
ELSEWHERE = ("lint/", "prove/report/", "demo/")


def texts(file: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings, with X where a value will stand."""
    tree = ast.parse(file.read_text())
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in bare or id(node) in inner:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)


def printed() -> list[str]:
    files = [file for file in SOURCE.rglob("*.py")]
    return sorted(
        {
            found.rstrip(" .")
            for file in files
            if not str(file.relative_to(SOURCE)).startswith(ELSEWHERE)
            for text in texts(file)
            for found in COMMAND.findall(text)
        }
    )


def parser_of(verb: str) -> ArgumentParser:
    class Strict(ArgumentParser):
        def error(self, message: str) -> None:  # type: ignore[override]
            raise UsageError("SP-C01", message)

    parser = Strict(prog=f"setpoint {verb}", allow_abbrev=False)
    import_module(f"setpoint.cli.{verb}").configure(parser)
    for shared in ("--json", "--verbose"):
        parser.add_argument(shared, action="store_true")
    parser.add_argument("--config")
    return parser


@pytest.mark.parametrize("command", printed())
def test_every_command_in_a_message_is_understood(command: str) -> None:
    """Nothing that is printed is a command without its pipeline, or an option that is none."""
    _, verb, *words = shlex.split(command)
    if words == ["--help"]:
        return
    parser_of(verb).parse_args(words)


def test_messages_with_commands_were_found() -> None:
    assert len(printed()) > 25


@pytest.mark.parametrize(
    ("given", "text", "told"),
    [
        (
            Completion(),
            "See: setpoint show daily --window W",
            "See: setpoint show daily --window W",
        ),
        (
            Completion("other.toml"),
            "an attempt is open (setpoint recover)",
            "an attempt is open (setpoint recover --config other.toml)",
        ),
        (
            Completion(None, "jobs/a file.py:daily"),
            "See: setpoint show daily --window W",
            "See: setpoint show 'jobs/a file.py:daily' --window W",
        ),
        (
            Completion(None, "daily", ("factor=3", "who=a b")),
            "setpoint run daily --window W --force; or setpoint show daily.",
            "setpoint run daily --param factor=3 --param 'who=a b' --window W --force; "
            "or setpoint show daily.",
        ),
        (
            Completion(None, "daily", ("factor=3",)),
            "Publish them first: setpoint backfill orders --window W",
            "Publish them first: setpoint backfill orders --window W",
        ),
        (
            Completion("c.toml", "daily"),
            "See: setpoint backfill show 20261118",
            "See: setpoint backfill show --config c.toml 20261118",
        ),
    ],
)
def test_a_printed_command_says_what_this_one_was_told(
    given: Completion, text: str, told: str
) -> None:
    """Otherwise it would be about another project, no pipeline, or other parameters."""
    assert given.text(text) == told
    assert given.value({"next": [text]}) == {"next": [told]}
