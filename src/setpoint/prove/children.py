"""The processes of a proof: each takes part in one trial, in the sandbox of its parent."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from setpoint.model.table import Parquet
from setpoint.prove.case import Case
from setpoint.prove.processes import Ended, Process, failed, own_environment, start
from setpoint.prove.request import Answer, KeptTable, Request, Trouble
from setpoint.prove.trial import Trial


@dataclass(frozen=True)
class Finished:
    """A process that has ended, and what it answered, if it did."""

    ended: Ended
    answer: Answer | None

    def succeeded(self, what: str) -> Answer:
        """The answer of a process that should have done its work; anything else is an error."""
        if self.answer is None:
            raise failed(what, self.ended)
        if (error := self.answer.raised()) is not None:
            raise error
        return self.answer


@dataclass
class Child:
    """A process under way; leaving its context ends it."""

    process: Process
    answer: Path

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(None, None, None)

    def wait(self) -> Finished:
        ended = self.process.wait()
        return Finished(ended, Answer.read(self.answer))


@dataclass
class Away(Trial):
    """A trial whose tables only another process could read, and which wrote their rows down."""

    kept: Mapping[str, KeptTable] = field(default_factory=dict)

    @contextmanager
    def tables(self) -> Iterator[Mapping[str, Any]]:
        from setpoint.spark.rearrange import read_rows

        session = self.sandbox.session
        yield {name: read_rows(session, item.schema, item.path) for name, item in self.kept.items()}


class Part:
    """What processes do for one trial: they start from what the case says, and end in its table.

    Parquet tables are known to a metastore that serves one process at a time. There each trial
    has one of its own, everything is done by processes, and they write the rows down.
    """

    def __init__(self, case: Case, name: str, environment: Mapping[str, str] | None = None) -> None:
        self._case, self._name = case, name
        self._apart = isinstance(case.sandbox.pipeline.target, Parquet)
        self._folder = case.sandbox.folder / "processes"
        self._environment = dict(os.environ if environment is None else environment)
        self._started = 0
        if not self._apart:
            case.begun(name)

    @property
    def apart(self) -> bool:
        """Whether only processes can see the tables of the trial."""
        return self._apart

    @property
    def trial(self) -> Trial:
        """The trial with its table, to be looked at from here."""
        return self._case.sandbox.joined(self._name)

    def start(
        self,
        fault: str = "",
        *,
        master: str = "",
        conf: Mapping[str, str] | None = None,
        trouble: Trouble = "",
        traces: Path | None = None,
    ) -> Child:
        """Start a process that runs the window."""
        case, first = self._case, self._started == 0
        self._started += 1
        home = self._folder / f"{self._name}-{self._started}"
        home.mkdir(parents=True)
        spec = case.sandbox.spec(self._name)
        if self._apart:
            own = str(self._folder / self._name)
            moved = replace(spec.redirection, folder=own, scratch_metastore=False)
            spec = replace(spec, redirection=moved)
        request = Request(
            spec=spec,
            windows=(case.window.id,),
            answer=str(home / "answer.json"),
            parent=os.getpid(),
            earlier=tuple(item.id for item in case.before) if self._apart and first else (),
            begins=self._apart and first,
            fault=fault,
            master=master,
            conf=conf or {},
            trouble=trouble,
            traces=str(traces or ""),
            look=str(home / "looked") if self._apart and not first else "",
            keep=str(home / "kept") if self._apart else "",
        )
        server = request.write(home / "request.json")
        command = [sys.executable, "-m", "setpoint.prove.child", str(home / "request.json")]
        process = start(
            command, {**self._around(home), **server}, case.sandbox.production.root, home, "process"
        )
        return Child(process, home / "answer.json")

    def retried(self) -> tuple[Trial, Trial]:
        """Run the window once more; the tables before, and the trial with those of now."""
        if not self._apart:
            trial = self.trial
            trial.run(self._case.window)
            return trial, trial
        with self.start() as child:
            answer = child.wait().succeeded("The retry")
        return self._away(answer.looked), self.ended(answer)

    def ended(self, answer: Answer) -> Trial:
        """The trial as a process that did its work has left it."""
        trial = self._away(answer.kept) if self._apart else self.trial
        trial.ran = datetime.fromisoformat(answer.ran) if answer.ran else None
        return trial

    def _away(self, kept: Mapping[str, KeptTable]) -> Trial:
        trial = self.trial
        return Away(trial.name, trial.pipeline, trial.sandbox, trial.found, kept=kept)

    def _around(self, home: Path) -> dict[str, str]:
        """What a killed process leaves in temporary folders goes with the sandbox."""
        temporary = home / "temporary"
        temporary.mkdir()
        around = own_environment(self._environment)
        given = around.get("JDK_JAVA_OPTIONS", "")
        place = f'"-Djava.io.tmpdir={temporary}"'
        return {
            **around,
            "TMPDIR": str(temporary),
            "SPARK_LOCAL_DIRS": str(temporary),
            "JDK_JAVA_OPTIONS": f"{place} {given}".strip(),
        }


def why_no_process(case: Case) -> str:
    """Why no other process can take part in a proof; empty when one can."""
    sandbox = case.sandbox
    if not sandbox.spec("clean").reference:
        return "the pipeline was not read from a file, so that no other process can load it"
    if sandbox.production.remote:
        return "Spark is at a Connect address, which processes of a proof would share"
    return ""


def at_once(case: Case) -> int:
    """How many processes may run at the same time: each has a Spark with memory of its own."""
    return 2 if case.sandbox.spec("clean").settings else 1
