"""Another cluster: other numbers of partitions, inputs in another order, no adaptive execution."""

from __future__ import annotations

from dataclasses import replace

from setpoint.model.proof import Result
from setpoint.prove.case import Case
from setpoint.prove.causes import Varied
from setpoint.prove.engine import Variation

_PARTITIONS, _ADAPTIVE = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"
# Everything at once, so that three runs are enough where nothing differs. The first two have
# every pair of rows in both orders: two rows that tie are enough to be seen.
_TOGETHER = {
    "1 shuffle partition, inputs in one partition, no adaptive execution": Variation(
        {_PARTITIONS: "1", _ADAPTIVE: "false"}, partitions=1
    ),
    "7 shuffle partitions, inputs in one partition and reversed, adaptive execution": Variation(
        {_PARTITIONS: "7", _ADAPTIVE: "true"}, partitions=1, descending=True
    ),
    "64 shuffle partitions, inputs dealt to 5, no adaptive execution": Variation(
        {_PARTITIONS: "64", _ADAPTIVE: "false"}, partitions=5
    ),
}
# One by one, to tell which of them matters.
_APART = {
    "inputs in another order": Variation(partitions=1, descending=True),
    "64 shuffle partitions": Variation({_PARTITIONS: "64", _ADAPTIVE: "false"}),
    "adaptive execution off": Variation({_ADAPTIVE: "false"}),
}


def parallelism(case: Case) -> Result:
    """The rows do not depend on how many tasks compute them, nor on the order of the inputs."""
    chosen = [*_TOGETHER.items()]
    if case.sandbox.in_a_test:
        chosen = chosen[:2]  # 64 partitions of a few rows show nothing that 7 do not
    for number, (told, variation) in enumerate(chosen):
        result = _tried(case, f"parallelism-{number}", told, variation)
        if result.state == "failed":
            return _narrowed(case, result)
    tried = "1 and 7" if case.sandbox.in_a_test else "1, 7 and 64"
    return Result("parallelism", "passed", f"{tried} partitions, other order: the same rows")


def _narrowed(case: Case, first: Result) -> Result:
    """Which of the changes is enough by itself; none is asked if rows differ without any.

    A test does not wait for it: the column, the cause and the repair are known already.
    """
    if case.unstable or case.sandbox.in_a_test:
        return first
    alone: list[Result] = []
    for number, (name, variation) in enumerate(_APART.items()):
        case.tell(f"parallelism  {name}")
        result = _tried(case, f"parallelism-alone-{number}", name, variation)
        if result.state == "failed":
            alone.append(replace(result, detail={**result.detail, "varied": name}))
    if not alone:
        return first
    names = [result.detail["varied"] for result in alone]
    return replace(alone[0], detail={**alone[0].detail, "varied": names})


def _tried(case: Case, name: str, told: str, variation: Variation) -> Result:
    trial = case.begun(name)
    trial.run(case.window, variation=variation)
    varied = Varied(parallelism=told)
    return case.compared("parallelism", trial, f"with {told}", varied=varied)
