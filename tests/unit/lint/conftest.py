"""Snippets with marks: what lint says about a text, compared with what the text itself says."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import pytest

from setpoint.lint.analyse import analyse

_MARK = re.compile(r"(?:#|--) (error|info): ([a-z-]+(?:, [a-z-]+)*)")

Found = set[tuple[int, str, str]]


def said(text: str, path: str = "job.py") -> Found:
    """Line, kind and severity of each finding."""
    return {(f.line, f.kind, f.severity) for f in analyse(path, text.encode())}


def expected(text: str) -> Found:
    """What the marks in the text ask for."""
    found: Found = set()
    for number, line in enumerate(text.split("\n"), 1):
        for match in _MARK.finditer(line):
            found |= {(number, kind, match[1]) for kind in match[2].split(", ")}
    return found


@pytest.fixture
def compare() -> Callable[..., None]:
    """Asserts that lint says what the marks say, no more and no less."""

    def check(text: str, path: str = "job.py") -> None:
        snippet = textwrap.dedent(text).lstrip("\n")
        assert said(snippet, path) == expected(snippet)

    return check
