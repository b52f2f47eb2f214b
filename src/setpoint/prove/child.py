"""A process that takes part in a proof: `python -m setpoint.prove.child REQUEST.json`.

It opens the sandbox that its parent has made, runs windows there, and writes its answer to a
file. It does not outlive its parent.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from setpoint.errors import PermanentError, SetpointError, words_of
from setpoint.model.window import Window
from setpoint.prove.engine import AS_IT_IS, Variation
from setpoint.prove.processes import KEEP
from setpoint.prove.request import Answer, KeptTable, Request
from setpoint.prove.sandbox import Sandbox, reopened
from setpoint.prove.trial import Trial


def main(words: list[str]) -> int:
    """Do what a request asks for; the exit code is 0 if it could be done."""
    (path,) = words
    request = Request.read(Path(path), os.environ)
    Thread(target=_follow, args=(request.parent,), daemon=True).start()
    try:
        answer = _done(request)
    except SetpointError as error:
        answer = Answer(error=error.as_dict())
    except Exception as error:
        answer = Answer(error=_failed(error).as_dict())
    answer.write(request.answer)
    return 1 if answer.error else 0


def _failed(error: Exception) -> SetpointError:
    """What nobody thought of; the log of this process is seldom kept, so the trace goes along."""
    import traceback

    traceback.print_exc()
    place = traceback.extract_tb(error.__traceback__)[-1]
    return PermanentError(
        "SP-V12",
        f"A process of the proof failed: {words_of(error)}",
        why=f"It was met at {place.filename}:{place.lineno}, in {place.name}.",
        state="Only the sandbox was written to.",
        next=KEEP,
    )


def _done(request: Request) -> Answer:
    spec = request.spec
    with reopened(spec, conf=request.conf, master=request.master) as sandbox:
        sandbox.windows = windows = _windows(sandbox, request.windows)
        trial = sandbox.trial(spec.trial) if request.begins else sandbox.joined(spec.trial)
        looked = _kept(trial, request.look) if request.look else {}
        trial.run(*_windows(sandbox, request.earlier))
        outcomes = trial.run(*windows, fault=request.fault, variation=_variation(request))
        kept = _kept(trial, request.keep) if request.keep else {}
    ran = trial.ran.isoformat() if trial.ran else ""
    states = tuple(outcome.state for outcome in outcomes)
    keys = tuple(outcome.receipt.run_key for outcome in outcomes if outcome.receipt)
    return Answer(states, {}, looked, kept, ran, keys)


def _windows(sandbox: Sandbox, texts: tuple[str, ...]) -> list[Window]:
    pipeline = sandbox.pipeline
    return [Window.parse(text, pipeline.every, pipeline.timezone) for text in texts]


def _variation(request: Request) -> Variation:
    from setpoint.spark import trouble

    match request.trouble:
        case "failing":
            return Variation(arrange=trouble.failing(request.traces))
        case "overtaken":
            return Variation(arrange=trouble.overtaken(request.traces))
        case _:
            return AS_IT_IS


def _kept(trial: Trial, folder: str) -> Mapping[str, KeptTable]:
    from setpoint.spark.rearrange import write_rows

    with trial.tables() as tables:
        found = {}
        for number, (label, frame) in enumerate(tables.items()):
            path = os.path.join(folder, str(number))
            schema, _ = write_rows(frame, path)
            found[label] = KeptTable(schema, path)
        return found


def _follow(parent: int) -> None:
    """End this process when its parent is gone: nobody would read the answer."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
