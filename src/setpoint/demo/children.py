"""Child processes of the demo: the append job and the real command line, killed or not."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from setpoint.errors import PermanentError
from setpoint.prove.processes import Ended, own_environment, start
from setpoint.spark.launch import archive_path


def envelope(ended: Ended) -> dict[str, Any]:
    """The JSON envelope that the command line answered with."""
    try:
        body: dict[str, Any] = json.loads(ended.answer)
    except ValueError:
        return {}
    return body


class Children:
    """Starts child processes one at a time; what they say goes to files in a folder."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = own_environment(environment)
        logs.mkdir(parents=True)

    def append_job(self, project: Path, words: Sequence[str], *, power_cut: str = "") -> Ended:
        """Run the plain PySpark script; with a power cut it dies in the middle."""
        surroundings = {
            "JDK_JAVA_OPTIONS": _cheap_start(),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        if power_cut:
            surroundings["POWER_CUT"] = power_cut
        ended = self._run(project, ["append_job.py", *words], surroundings)
        if not power_cut and ended.code != 0:
            raise _failed("append_job.py", ended)
        return ended

    def setpoint(
        self, project: Path, words: Sequence[str], *, fault: str = "", java: bool = True
    ) -> Ended:
        """Run the command line in a project, with a fault armed or with no Java in reach."""
        surroundings = {"SETPOINT_FAULT": fault} if fault else {}
        if not java:
            surroundings |= dict.fromkeys(("JAVA_HOME", "PATH"), str(project / "no-java-here"))
        return self._run(project, ["-m", "setpoint.cli.main", *words, "--json"], surroundings)

    def _run(self, project: Path, words: list[str], surroundings: dict[str, str]) -> Ended:
        command = [sys.executable, *words]
        around = {**self._environment, **surroundings}
        with start(command, around, project, self._logs) as process:
            return process.wait()


def _cheap_start() -> str:
    """What setpoint.toml of the demo says for setpoint's sessions, for the append job too."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    archive = archive_path()
    if archive.is_file() and " " not in str(archive):
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]
    return " ".join(options)


def _failed(what: str, ended: Ended) -> PermanentError:
    return PermanentError(
        "SP-S04",
        f"{what} ended with code {ended.code}.",
        why=ended.told(1),
        state="Only the demo's own folder was written to.",
        next=f"See {ended.err}, or: setpoint doctor",
    )
