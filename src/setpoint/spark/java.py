"""Finds the Java runtime that Spark needs, before Spark fails without it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from setpoint.errors import UNTOUCHED, UsageError

OLDEST = 17
HOW_TO_GET_IT = (
    f"Install Java {OLDEST} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME."
)


@dataclass(frozen=True)
class Java:
    """A Java runtime: the command, its full version text and its major version."""

    command: Path
    version: str
    major: int


def find_java() -> Java:
    """The runtime that Spark's scripts will use: JAVA_HOME first, then the PATH."""
    command = java_command()
    if command is None:
        raise _missing("No Java runtime was found.")
    try:
        answer = subprocess.run(
            [str(command), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(f"The Java runtime {command} does not start: {error}.") from error
    java = parse_version(command, answer.stderr + answer.stdout)
    if java is None:
        raise _missing(f"{command} does not answer like a Java runtime.")
    if java.major < OLDEST:
        raise _missing(f"Java {java.major} at {command} is too old.")
    return java


def java_command() -> Path | None:
    """The path of the `java` command, without starting it."""
    home = os.environ.get("JAVA_HOME", "").strip()
    name = "java.exe" if os.name == "nt" else "java"
    if home:
        command = Path(home) / "bin" / name
        return command if command.is_file() else None
    found = shutil.which("java")
    return Path(found) if found else None


def parse_version(command: Path, text: str) -> Java | None:
    """Read the answer of `java -version`, of the old (1.8.0) and of the new (17.0.2) style."""
    match = re.search(r'version "((\d+)(?:\.(\d+))?[^"]*)"', text)
    if match is None:
        return None
    major = int(match[2])
    if major == 1 and match[3]:
        major = int(match[3])
    return Java(command, match[1], major)


def _missing(what: str) -> UsageError:
    return UsageError(
        "SP-S02",
        what,
        why=f"Spark runs on Java {OLDEST} or newer.",
        state=UNTOUCHED,
        next=HOW_TO_GET_IT,
    )
