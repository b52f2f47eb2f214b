"""Child processes of the demo: the append job and the real command line, killed or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import setpoint
from setpoint.errors import PermanentError
from setpoint.spark.launch import archive_path

# Settings of the user's own shell that would send the children somewhere else.
_FOREIGN = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SETPOINT_FAULT")


@dataclass(frozen=True)
class Ended:
    """How a child process ended; `signal` is the one that killed it."""

    code: int
    answer: str
    log: Path

    @property
    def signal(self) -> int | None:
        return -self.code if self.code < 0 else None

    def data(self) -> dict[str, Any]:
        """The JSON envelope that the command line answered with."""
        try:
            body: dict[str, Any] = json.loads(self.answer)
        except ValueError:
            return {}
        return body


class Children:
    """Starts child processes one at a time; what they say goes to files in a folder."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = {k: v for k, v in environment.items() if k not in _FOREIGN}
        self._started = 0
        logs.mkdir(parents=True)

    def append_job(self, project: Path, words: Sequence[str], *, power_cut: str = "") -> Ended:
        """Run the plain PySpark script; with a power cut it dies in the middle."""
        surroundings = {
            "JDK_JAVA_OPTIONS": _cheap_start(),
            "PYSPARK_PYTHON": sys.executable,
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
        surroundings = {"PYTHONPATH": _python_path(self._environment)}
        if fault:
            surroundings["SETPOINT_FAULT"] = fault
        if not java:
            surroundings |= dict.fromkeys(("JAVA_HOME", "PATH"), str(project / "no-java-here"))
        return self._run(project, ["-m", "setpoint.cli.main", *words, "--json"], surroundings)

    def _run(self, project: Path, words: list[str], surroundings: dict[str, str]) -> Ended:
        self._started += 1
        log = self._logs / f"{self._started:02d}.err"
        answer = log.with_suffix(".out")
        # Files, not pipes: a JVM that outlives its killed parent for a moment would hold them.
        with answer.open("wb") as out, log.open("wb") as err:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=project,
                env={**self._environment, **surroundings},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                check=False,
            )
        return Ended(done.returncode, answer.read_text(errors="replace"), log)


def _python_path(environment: Mapping[str, str]) -> str:
    """The children work in other folders: relative entries would point nowhere."""
    home = Path(setpoint.__file__).parent.parent
    given = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return os.pathsep.join([str(home), *(str(Path(entry).absolute()) for entry in given)])


def _cheap_start() -> str:
    """What setpoint.toml of the demo says for setpoint's sessions, for the append job too."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    archive = archive_path()
    if archive.is_file() and " " not in str(archive):
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]
    return " ".join(options)


def _failed(what: str, ended: Ended) -> PermanentError:
    lines = [line for line in ended.log.read_text(errors="replace").splitlines() if line.strip()]
    return PermanentError(
        "SP-S04",
        f"{what} ended with code {ended.code}.",
        why=lines[-1].strip()[:300] if lines else "",
        state="Only the demo's own folder was written to.",
        next=f"See {ended.log}, or: setpoint doctor",
    )
