"""What makes a second run give other rows, and what to write instead.

A finding is one such thing in one output column, or in the choice of the rows. It refuses the
run unless the pipeline allows it by name, with a reason. An allowance does not change a row, so
it is no part of the run key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from setpoint.errors import NOTHING_STARTED, DefinitionError, RefusedError

ROWS = "(rows)"

# Each kind with why a second run differs, and the deterministic way.
KINDS: dict[str, tuple[str, str]] = {
    "clock": (
        "it is the time at which the run happens",
        "use window.start, window.end, window.date or setpoint.logical_time()",
    ),
    "random": (
        "it is drawn anew; with a seed it still depends on how rows lie in partitions",
        "derive it from the row: setpoint.surrogate_key(frame, key), or xxhash64(key) % n",
    ),
    "generated_id": (
        "it numbers rows by where they lie",
        "make the id of the business key: setpoint.surrogate_key(frame, key)",
    ),
    "placement": (
        "it tells where a row lies, and that changes when files or partitions do",
        "carry what you need as a column of the data",
    ),
    "session": (
        "it depends on who runs it, and with what settings",
        "make it a parameter of the pipeline, or a constant",
    ),
    "network": (
        "it asks something that may answer differently",
        "read it as a source, so that it is pinned or landed",
    ),
    "unordered": (
        "it depends on the order in which rows arrive",
        "use max, min, max_by with a unique order, or sort_array(collect_list(...))",
    ),
    "ties": (
        "rows that tie in the order may change places",
        "end the order with the columns that make a row unique, or use setpoint.dedupe",
    ),
    "pick": (
        "nothing says which of the rows are kept",
        "order by columns that make a row unique before a limit; use setpoint.dedupe(frame, key, "
        "order_by) instead of dropDuplicates(key)",
    ),
    "sample": (
        "which rows are drawn depends on how they lie in partitions, with a seed too",
        "filter by a hash of the key: xxhash64(key) % 100 < 10",
    ),
    "approximate": (
        "its answer depends on how rows were divided among tasks",
        "use the exact function, percentile instead of percentile_approx",
    ),
    "float_key": (
        "a sum of floating point numbers differs in its last digits with the order of its rows, "
        "and here it decides about keys or rows",
        "cast to decimal before the sum",
    ),
    "udf": (
        "the code of this function says nothing about itself, or says that it is not deterministic",
        "use functions of Spark, or a Python function whose source can be read",
    ),
    "unchecked": (
        "this plan could not be searched, so nothing is known about it; the fault is in setpoint, "
        "not in your code",
        "report it with the text above, and allow it until it is repaired",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing that would make a second run give other rows.

    `column` is the affected column of the result, or `(rows)` when it decides which rows are
    returned. `place` is the line of the user's code, where it is known.
    """

    kind: str
    column: str
    expression: str
    place: str = ""

    @property
    def name(self) -> str:
        """The name under which it is allowed."""
        return f"{self.kind}:{self.column}"

    @property
    def advice(self) -> str:
        """The deterministic way to write it."""
        return KINDS[self.kind][1]

    def __str__(self) -> str:
        where = "which rows are returned" if self.column == ROWS else f"column {self.column}"
        place = f", {self.place}" if self.place else ""
        return f"{self.name}  {where}: {self.expression}{place}"


def checked_allowances(owner: str, allow: Mapping[str, str] | None) -> dict[str, str]:
    """The allowances of a definition: known kinds, each with a reason."""
    if allow is None:
        return {}
    if not isinstance(allow, Mapping):
        raise _invalid(f"{owner}: allow={allow!r:.80} is not a mapping from a name to a reason")
    for name, reason in allow.items():
        kind = name.partition(":")[0] if isinstance(name, str) else ""
        if kind not in KINDS:
            raise _invalid(f"{owner}: allow has {name!r:.80}, and there is no such kind of finding")
        if name.endswith(":"):
            raise _invalid(f"{owner}: allow has {name!r:.80}, which names no column")
        if not isinstance(reason, str) or not reason.strip():
            raise _invalid(f"{owner}: allow has {name!r:.80} without a reason")
    return dict(allow)


@dataclass(frozen=True)
class Judged:
    """Findings, divided by the allowances."""

    refused: tuple[Finding, ...]
    allowed: tuple[tuple[Finding, str], ...]
    unused: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was allowed, and which allowances met nothing."""
        told = [
            f"allowed: {finding.name} ({finding.expression}): {reason}"
            for finding, reason in self.allowed
        ]
        idle = [f"allow has {name!r}, but nothing of that kind was found" for name in self.unused]
        return (*told, *idle)


def judged(findings: Iterable[Finding], allow: Mapping[str, str]) -> Judged:
    """Divide findings by the allowances; a name with a column goes before one without."""
    refused, allowed, used = [], [], set()
    for finding in findings:
        name = next((name for name in (finding.name, finding.kind) if name in allow), None)
        if name is None:
            refused.append(finding)
        else:
            used.add(name)
            allowed.append((finding, allow[name]))
    unused = tuple(name for name in allow if name not in used)
    return Judged(tuple(refused), tuple(allowed), unused)


def refuse(label: str, findings: Sequence[Finding]) -> None:
    """Refuse a run whose rows depend on more than its window and its inputs."""
    if not findings:
        return
    listed = "".join(
        f"  {finding}\n    {KINDS[finding.kind][0]}; {finding.advice}\n" for finding in findings
    )
    raise RefusedError(
        "SP-N01",
        f"The rows of {label} depend on more than its window and its inputs.",
        why=f"A second run would give other rows:\n{listed}",
        state="Nothing was staged; the target is unchanged.",
        next="Write it the deterministic way, or allow it with a reason: "
        f'allow={{"{findings[0].name}": "..."}}',
    )


def _invalid(what: str) -> DefinitionError:
    return DefinitionError(
        "SP-D01",
        f"{what}.",
        state=NOTHING_STARTED,
        next='Write allow={"clock:loaded_at": "an audit column that no reader depends on"}. The '
        f"kinds are {', '.join(KINDS)}; after the colon stands a column, or {ROWS}.",
    )
