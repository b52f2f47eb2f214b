"""Every error of a proof has its four parts: what, why, state and what to do next."""

from __future__ import annotations

import ast
from pathlib import Path

import setpoint

PARTS = {"why", "state", "next"}


def test_errors_of_proofs_have_four_parts() -> None:
    """Found by reading the source: nobody meets all of them in a test."""
    root = Path(setpoint.__file__).parent
    calls = [
        (file, node)
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _code(node).startswith("SP-V")
    ]
    lacking = [
        f"{file.relative_to(root)}:{node.lineno} {_code(node)} has no {', '.join(sorted(missing))}"
        for file, node in calls
        if (missing := PARTS - {word.arg for word in node.keywords})
    ]
    assert len(calls) > 20
    assert lacking == []


def _code(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    return str(first.value) if isinstance(first, ast.Constant) else ""
