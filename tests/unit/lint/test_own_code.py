"""We are our own first users."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint.lint.run import lint
from setpoint.project.config import find_config

ROOT = Path(__file__).parents[3]


def test_our_own_code_has_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """src/ and examples/ pass; what may stay is named in pyproject.toml, with its reason."""
    monkeypatch.chdir(ROOT)
    settings = find_config(ROOT).lint
    assert settings.per_file
    report = lint([ROOT / "src", ROOT / "examples"], settings, jobs=1)
    assert report.files > 100
    assert [f"{f.path}:{f.line} {f.kind}" for f in report.errors] == []
