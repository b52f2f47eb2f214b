"""The proof of a pipeline: one clean run in a sandbox, then the experiments, then the verdict."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from setpoint import __version__, edge
from setpoint.errors import (
    PermanentError,
    RefusedError,
    SetpointError,
    words_of,
)
from setpoint.model.pipeline import Pipeline
from setpoint.model.proof import Proof, Result
from setpoint.model.window import Window
from setpoint.project.config import Config
from setpoint.prove.case import Case
from setpoint.prove.certificate import code_of, versions
from setpoint.prove.ended import ProofEnded
from setpoint.prove.experiments import Choice, choose
from setpoint.prove.given import Given
from setpoint.prove.sandbox import open_sandbox
from setpoint.prove.trials import TRIALS, trial_of
from setpoint.prove.watch.watch import NOBODY, Watch

__all__ = ["Choice", "choose", "prove_pipeline"]

_OLDER = 3
# What the guard refuses is an answer about the pipeline, and which experiment gives it.
_VERDICTS = {"SP-V06": "writes", "SP-V09": "plan"}
_CAUSES = {"SP-V06": "writes", "SP-V09": "reads-itself"}


def prove_pipeline(
    config: Config,
    pipeline: Pipeline,
    window: Window,
    choice: Choice,
    *,
    parameters: Mapping[str, Any] | None = None,
    sample: str = "",
    keep: bool = False,
    scratch_metastore: bool = False,
    given: Given | None = None,
    watch: Watch = NOBODY,
    tell: Callable[[str], None] = lambda message: None,
    warn: Callable[[str], None] = lambda message: None,
    begun: Callable[[Proof], None] = lambda proof: None,
    done: Callable[[Result], None] = lambda result: None,
    now: Callable[[], datetime] = edge.utc_now,
) -> Proof:
    """Try the experiments on one window of a pipeline; nothing of production is written.

    `given` is what a test has made by hand. `begun` is told what the clean run gave, `done`
    every result as it comes.
    """
    began = now()
    proof = Proof(
        pipeline.name,
        window.id,
        (),
        code_of(pipeline),
        choice.kind,
        sample=sample,
        began=began,
        version=__version__,
        versions=versions(),
    )
    windows = _around(pipeline, window, choice, began, older=given is None)
    results: list[Result] = []

    def told(result: Result) -> None:
        results.append(result)
        done(result)

    try:
        with open_sandbox(
            config,
            pipeline,
            windows,
            parameters=parameters,
            sample=sample,
            keep=keep,
            scratch_metastore=scratch_metastore,
            given=given,
            watch=watch,
            tell=tell,
            warn=warn,
        ) as sandbox:
            case = Case(sandbox, window, choice.kind == "full", tell)
            proof = _with_clean(proof, case)
            begun(proof)
            if "writes" in choice.names:
                told(Result("writes", "passed", _nothing_written(watch)))
            for name in choice.names:
                if name in TRIALS:
                    tell(f"experiment  {name}")
                    told(_tried(case, name, now))
                    if given is not None and results[-1].difference is not None and case.unstable:
                        break  # whatever is varied, they would differ: a test need not wait for it
            if (refusal := sandbox.guard.refusal()) is not None:
                raise refusal
            proof = replace(proof, notes=_notes(case, proof))
        proof = replace(proof, unwatched=sandbox.watched.unwatched)
    except KeyboardInterrupt as stop:
        tried = {result.experiment for result in results}
        untried = tuple(name for name in choice.names if name not in tried)
        ended = replace(
            proof,
            results=tuple(results),
            untried=untried,
            unwatched=watch.unwatched,
            seconds=(now() - began).total_seconds(),
        )
        raise ProofEnded(ended, "Nothing of production was written.") from stop
    except RefusedError as error:
        if error.code not in _VERDICTS:
            raise
        told(_failed(_VERDICTS[error.code], error))
    return replace(proof, results=tuple(results), seconds=(now() - began).total_seconds())


def _around(
    pipeline: Pipeline, window: Window, choice: Choice, now: datetime, *, older: bool
) -> list[Window]:
    """The window, its neighbours and, if asked for, an older one, as the experiments need them."""
    others = {"neighbours", "order", "chunk"} & set(choice.names)
    if pipeline.every.is_incremental:
        return [window]
    before = window.previous()
    found = [before] if others or pipeline.reads_itself else []
    if others:
        after, far = window.next(), before
        for _ in range(_OLDER):
            far = far.previous()
        found += [after] if after.end <= now else []
        found += [far] if older and not pipeline.reads_itself else []
    start = pipeline.start
    return [window, *(item for item in found if start is None or item >= start)]


def _with_clean(proof: Proof, case: Case) -> Proof:
    """The proof with what the clean run says; without one there is nothing to compare with."""
    case.tell("clean run")
    guard = case.sandbox.guard
    try:
        clean = case.clean
        state = clean.bind().target.inspect([case.window])[case.window]
    except SetpointError as error:
        if (refusal := guard.refusal()) is not None:
            raise refusal from error
        if error.code in _VERDICTS:
            raise
        raise _not_tried(case, error) from error
    if (refusal := guard.refusal()) is not None:
        raise refusal
    pins = case.sandbox.inputs.recorded
    inputs = {
        name: {key: value for key, value in known[case.window.id].items() if key in _SHOWN}
        for name, known in pins.items()
    }
    return replace(proof, rows=state.receipt.rows if state.receipt else 0, inputs=inputs)


_SHOWN = ("version", "fingerprint", "rows")


def _tried(case: Case, name: str, now: Callable[[], datetime]) -> Result:
    """One experiment; an error is its result, and keeps no other from being tried."""
    began = now()
    try:
        result = trial_of(name)(case)
    except SetpointError as error:
        result = _failed(name, error)
    except Exception as error:
        trace = traceback.format_exception(error)
        detail = {"cause": type(error).__name__, "trace": "".join(trace)}
        result = Result(name, "failed", f"an unexpected error: {words_of(error)}", detail=detail)
    # Whatever became of the rows: what was refused on the way is the answer.
    if (refusal := case.sandbox.guard.refusal()) is not None:
        result = _failed(name, refusal)
    return replace(result, seconds=(now() - began).total_seconds())


def _failed(name: str, error: SetpointError) -> Result:
    detail = {"cause": error.code, "error": error.as_dict()}
    if error.code in _CAUSES:
        detail |= {"cause": _CAUSES[error.code]}
    return Result(
        name,
        "failed",
        f"{error.code}  {error.what}",
        cause=error.why,
        repair=error.next,
        detail=detail,
    )


def _nothing_written(watch: Watch) -> str:
    seen = "" if watch.why else "; all of its processes were watched"
    return f"the function writes nothing by itself{seen}"


def _notes(case: Case, proof: Proof) -> tuple[str, ...]:
    notes = list(case.sandbox.notes)
    if not proof.rows:
        notes.append("the window holds no rows here, so that little could differ")
    notes += [f"{name} takes no part: {why}" for name, why in case.left_out.items()]
    return tuple(notes)


def _not_tried(case: Case, error: SetpointError) -> PermanentError:
    return PermanentError(
        "SP-V08",
        f"{case.sandbox.pipeline.name} could not be tried: its clean run failed.",
        why=f"{error.code}  {error.what} {error.why}".rstrip(),
        state="Nothing of production was written.",
        # Not what the error says: production has not heard of this run.
        next="Look at what it left: the same command with --keep. If production can be run as it "
        f"is now, it fails there too: setpoint run {case.sandbox.pipeline.name} "
        f"--window {case.window.id}",
    )
