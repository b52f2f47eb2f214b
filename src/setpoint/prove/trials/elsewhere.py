"""A re-run next week on another machine: other surroundings, first all at once, then apart."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from setpoint.errors import SetpointError
from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied, lint_of
from setpoint.prove.children import Part, why_no_process
from setpoint.prove.clock import HOW_TO_GET_IT, find_clock
from setpoint.prove.surroundings import Factor, applied, clocks_in, factors, named_factor
from setpoint.prove.trial import Trial
from setpoint.prove.variables import read_by

_NAME = "surroundings"
# hash() differs by chance from process to process; where processes are compared with each other,
# it must not.
_SEED = "PYTHONHASHSEED"


def surroundings(case: Case) -> Result:
    """Another day, time zone, locale, hash seed and environment give the same rows."""
    if why := why_no_process(case):
        return Result(_NAME, "skipped", why)
    clock = find_clock(os.environ)
    everything = factors(os.environ, clock, _read(case))
    detail = {"factors": [item.name for item in everything]}
    without_clock = "" if clock else f"; {HOW_TO_GET_IT}"
    case.tell(f"{_NAME}  {', '.join(detail['factors'])}")
    try:
        trial = _run(case, _NAME, os.environ, everything)
    except SetpointError as error:
        first = _failing("", error)
    else:
        told = f"other {', '.join(map(named_factor, everything))}"
        first = case.compared(_NAME, trial, told, varied=_varied(case, everything), detail=detail)
    if first.state == "failed":
        first = _narrowed(case, first, everything)
    elif lines := _clocks_in(case):
        without_clock += f"; but lint sees a clock: {lines}"
    told = f"{first.message}{without_clock}"
    return replace(first, message=told, detail={**first.detail, **detail})


def _failing(what: str, error: SetpointError) -> Result:
    detail = {"cause": error.code}
    message = f"{what}{error.code}  {error.what}"
    return Result(_NAME, "failed", message, cause=error.why, repair=error.next, detail=detail)


def _run(case: Case, name: str, environment: Mapping[str, str], other: Sequence[Factor]) -> Trial:
    """The window in a process of its own, with these factors different."""
    part = Part(case, name, applied(environment, other))
    with part.start() as child:
        return part.ended(child.wait().succeeded(f"The run {_words(other)}"))


def _narrowed(case: Case, first: Result, everything: Sequence[Factor]) -> Result:
    """Which factors matter by themselves; none does, if the rows differ without any.

    Processes are compared with a process in which nothing is different, not with the clean run:
    that one had a hash seed by chance.
    """
    same = {**os.environ, _SEED: os.environ.get(_SEED, "0")}
    case.tell(f"{_NAME}  which of them matters")
    control = _run(case, f"{_NAME}-control", same, ())
    if case.differences(control, case.clean):
        again = _run(case, f"{_NAME}-again", same, ())
        told = "run again in the same surroundings"
        result = case.compared(_NAME, again, told, expected=control, varied=Varied(again=1))
        if result.state == "failed":
            return result
    return _named(case, first, everything, control, same)


def _named(
    case: Case,
    first: Result,
    everything: Sequence[Factor],
    control: Trial,
    same: dict[str, str],
) -> Result:
    alone: dict[str, Result] = {}
    untried: dict[str, str] = {}
    unexplained = {item.name for item in first.difference.columns} if first.difference else set()
    for number, factor in enumerate(sorted(everything, key=_likely)):
        case.tell(f"{_NAME}  {factor.name}")
        try:
            trial = _run(case, f"{_NAME}-alone-{number}", same, [factor])
        except SetpointError as error:
            if factor.of_variable:
                untried[factor.name] = error.what
            else:
                alone[factor.name] = _failing(f"{factor.what}: ", error)
            continue
        varied = _varied(case, [factor])
        result = case.compared(_NAME, trial, factor.what, expected=control, varied=varied)
        if result.state == "failed":
            alone[factor.name] = result
            changed = result.difference.columns if result.difference else ()
            explained = {item.name for item in changed}
            # Nothing is left for the other factors to explain.
            if unexplained and not (unexplained := unexplained - explained):
                break
    return _verdict(first, alone, untried)


def _verdict(first: Result, alone: dict[str, Result], untried: dict[str, str]) -> Result:
    """The first factor that matters tells its rows; the causes of all of them are told."""
    needed = ", ".join(untried)
    detail = {**first.detail, "varied": list(alone), "untried": untried}
    if untried and not alone and first.difference is None:
        # With everything different the run failed, and each of these alone makes it fail.
        told = f"the same rows; not tried, for they are needed as they are: {needed}"
        return Result(_NAME, "passed", told, detail=detail)
    rest = f"; not tried, for they are needed as they are: {needed}" if untried else ""
    if not alone:
        told = f"{first.message}; no factor is enough by itself{rest}"
        return replace(first, message=told, detail=detail)
    names, shown = list(alone), next(iter(alone.values()))
    others = f"; so do they with another {', '.join(names[1:])}" if names[1:] else ""
    return replace(
        shown,
        message=f"the rows depend on the {names[0]}: {shown.message}{others}{rest}",
        cause=" ".join(dict.fromkeys(item.cause for item in alone.values() if item.cause)),
        repair=" ".join(dict.fromkeys(item.repair for item in alone.values() if item.repair)),
        difference=first.difference or shown.difference,
        detail={**detail, **shown.detail},
    )


def _clocks_in(case: Case) -> str:
    """Where lint sees a clock in the function: a month or a year may not have changed here."""
    function, file = case.sandbox.pipeline.function, case.sandbox.pipeline.file
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return ""
    inside = range(first, first + len(lines))
    return clocks_in(item for item in lint_of([file], Path()) if item.line in inside)


def _read(case: Case) -> tuple[str, ...]:
    """The variables that the pipeline's code reads."""
    return read_by(case.sandbox.pipeline.file, case.sandbox.production.root)


def _likely(factor: Factor) -> int:
    """What matters most often is tried first."""
    order = ("clock", "hash seed", "environment")
    return order.index(factor.name) if factor.name in order else len(order)


def _varied(case: Case, other: Sequence[Factor]) -> Varied:
    """What was different, as causes are told from it: of variables those that the code reads."""
    changes = {factor.name: factor.changes for factor in other}
    around = [item for item in other if item.name == "environment" or item.of_variable]
    variables = [name for factor in around for name in factor.changes]
    variables = [name for name in variables if name in _read(case)] or variables
    return Varied(
        clock=timedelta(seconds=int(changes["clock"]["FAKETIME"])) if "clock" in changes else None,
        time_zone=changes.get("time zone", {}).get("TZ", ""),
        locale=changes.get("locale", {}).get("LC_ALL", ""),
        hash_seed=changes.get("hash seed", {}).get(_SEED, ""),
        environment=tuple(variables),
    )


def _words(other: Sequence[Factor]) -> str:
    return f"with another {', '.join(item.name for item in other)}" if other else "in a process"
