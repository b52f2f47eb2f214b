"""Finding Java without starting Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint.errors import UsageError
from setpoint.spark.java import find_java, parse_version


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
    ],
)
def test_the_major_version_is_read(text: str, major: int) -> None:
    """Old and new styles of version text give the major version."""
    java = parse_version(Path("java"), text)
    assert java is not None
    assert java.major == major


def test_other_output_is_not_java() -> None:
    """A command that does not print a version is not taken for Java."""
    assert parse_version(Path("java"), "command not found") is None


def test_no_java_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java the error names the package to install, in one line."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        find_java()
    assert caught.value.code == "SP-S02"
    assert "openjdk-17-jre-headless" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that is too old for Spark is named with its version."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"Java 11 .* too old"):
        find_java()
