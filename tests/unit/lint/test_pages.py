"""The page of each rule is a contract: its examples are judged by the rule itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from setpoint.lint.analyse import analyse
from setpoint.lint.kinds import KINDS, Kind
from setpoint.lint.pages import page

ROOT = Path(__file__).parents[3]
SECTIONS = ["What it finds", "Why it is bad", "Bad", "Good", "Not flagged", "Fix"]
_BLOCK = re.compile(r"^## (Bad|Good)\n\n```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What surrounds an example so that it is a whole program.
AROUND = {
    "unbounded-read": ("INSERT INTO mart.orders ", "a.sql"),
    "grain-mismatch": ("", "a.py"),
}


def kinds_in(kind: Kind, text: str, language: str) -> set[str]:
    before, path = AROUND.get(kind.name, ("", "a.py" if language == "python" else "a.sql"))
    if kind.name == "grain-mismatch":
        text = f'with DAG("x", schedule="@hourly"):\n    PostgresOperator(sql="""{text}""")\n'
    return {finding.kind for finding in analyse(path, (before + text).encode())}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_page_has_its_sections_and_tells_the_truth(kind: Kind) -> None:
    """The bad example is found by the rule, the good one by no rule that the page is about."""
    text = page(kind)
    assert text.startswith(f"# {kind.code} {kind.name}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    blocks = {name: (language, body) for name, language, body in _BLOCK.findall(text)}
    assert kind.name in kinds_in(kind, blocks["Bad"][1], blocks["Bad"][0])
    assert kind.name not in kinds_in(kind, blocks["Good"][1], blocks["Good"][0])


def test_the_reference_names_every_kind_with_its_title() -> None:
    """The table of docs/reference/lint.md is that of the code."""
    text = (ROOT / "docs" / "reference" / "lint.md").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"| {kind.code} | [{kind.name}](../lint/{kind.name}.md) | {kind.title} |" in text


def test_the_example_of_the_mistakes_is_found() -> None:
    """examples/payments/before.py is left out of our own audit; here its mistakes are counted."""
    file = ROOT / "examples" / "payments" / "before.py"
    found = [f.kind for f in analyse("before.py", file.read_bytes())]
    assert sorted(found) == [
        "append-write",
        "random-id",
        "random-id",
        "split-state",
        "unguarded-effect",
        "unordered-pick",
        "wall-clock",
    ]
    repaired = ROOT / "examples" / "payments" / "after.py"
    assert [f.kind for f in analyse("after.py", repaired.read_bytes())] == []
