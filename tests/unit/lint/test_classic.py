"""The classic exercise: six findings, and none after the repair."""

from __future__ import annotations

from pathlib import Path

from setpoint.lint.analyse import analyse

HERE = Path(__file__).parent / "classic"


def test_the_hurried_form_has_exactly_six_findings() -> None:
    """Each of the six mistakes is found once, on its own line, with its own kind."""
    findings = analyse("hurried.py", (HERE / "hurried.py").read_bytes())
    lines = (HERE / "hurried.py").read_text(encoding="utf-8").splitlines()
    assert [(f.kind, lines[f.line - 1].strip()) for f in findings] == [
        ("random-id", "batch_id = random.randint(1, 1_000_000)"),
        ("append-write", "INSERT INTO orders (order_key, order_id, amount, order_date, batch_id)"),
        ("random-id", "str(uuid.uuid4()),"),
        ("wall-clock", "datetime.now(),"),
        ("unguarded-effect", 'requests.post(WEBHOOK, json={"text": f"{len(rows)} orders loaded"})'),
        ("split-state", "\"UPDATE etl_watermarks SET value = %s WHERE name = 'orders'\","),
    ]


def test_the_repaired_form_has_none() -> None:
    """Nothing is left, not even an info."""
    assert analyse("repaired.py", (HERE / "repaired.py").read_bytes()) == []
