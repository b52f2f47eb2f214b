"""Judgements: whether a proof says about a case what it has to say."""

from __future__ import annotations

from dataclasses import dataclass

from cases import Case

from setpoint.lint.kinds import BY_NAME
from setpoint.model.determinism import KINDS
from setpoint.model.proof import Proof, Result
from setpoint.prove.evidence import CAUSES


@dataclass(frozen=True)
class Judgement:
    """What a proof said, and what is wrong with that; nothing is, when `wrong` is empty."""

    case: Case
    proven: bool
    caught_by: tuple[str, ...] = ()
    cause: str = ""
    told: str = ""
    wrong: str = ""
    seconds: float = 0.0

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The case, the verdict, what caught it, and the cause."""
        said = "proven" if self.proven else "not proven"
        return self.case.label, said, ", ".join(self.caught_by) or "-", self.cause or "-"


def judged(case: Case, proof: Proof) -> Judgement:
    """Broken: every experiment that was named fails, with one of the causes. Correct: all pass."""
    failures = {result.experiment: result for result in proof.failures}
    first = next(iter(proof.failures), None)
    return Judgement(
        case,
        proof.proven,
        tuple(failures),
        kind_of(first) if first else "",
        (first.cause or first.message) if first else "",
        _wrong(case, proof, failures),
        proof.seconds,
    )


def kind_of(result: Result) -> str:
    """The kind of cause that a result names, or the code of the error that it ended with."""
    return str(result.detail.get("cause", ""))


def causes() -> frozenset[str]:
    """All kinds that a proof can name as the cause of a failure; an error is not one of them."""
    return frozenset([*CAUSES, *KINDS, *BY_NAME])


def _wrong(case: Case, proof: Proof, failures: dict[str, Result]) -> str:
    told = {result.experiment: result for result in proof.results}
    if not case.broken:
        if failures:
            return f"a false alarm: {'; '.join(item.message for item in failures.values())}"
        untried = [name for name in case.experiments if told[name].state != "passed"]
        return f"not tried: {told[untried[0]].message}" if untried else ""
    for name in case.experiments:
        if name not in failures:
            return f"missed by {name}: {told[name].message}" if name in told else f"no {name}"
        if kind_of(failures[name]) not in causes():
            return f"{name} could not be tried: {failures[name].message}"
        if kind_of(failures[name]) not in case.causes:
            return f"{name} says {kind_of(failures[name])}: {failures[name].cause}"
    return ""
