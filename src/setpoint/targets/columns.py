"""What every destination asks of a pipeline's columns, and says when they do not fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from setpoint.errors import RefusedError, some_of
from setpoint.model.table import Evolve


def misfit(
    label: str,
    what: str,
    next: str = "Correct the pipeline or the target, then run again.",
    *,
    code: str = "SP-O03",
) -> RefusedError:
    """The pipeline's columns are not the target's."""
    return RefusedError(
        code,
        f"The columns of {label} do not fit its target: {what}.",
        why="A publish must not change what readers of the other windows see.",
        next=next,
    )


def refuse_twice(label: str, names: Sequence[str]) -> None:
    """Refuse a name that occurs twice, in whatever case: Spark does not tell them apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        seen[name.lower()] = name
        if other is not None:
            also = "" if other == name else f" (also as {other}, and case does not count)"
            raise misfit(
                label,
                f"the name {name} occurs twice{also}",
                "Rename one of the columns in the pipeline's result.",
                code="SP-O05",
            )


def refuse_lacking(
    label: str,
    names: Sequence[str],
    needed: Mapping[str, str],
    partition_by: Sequence[str] | None = None,
) -> None:
    """Refuse a result without the columns that the definition asks for, or without any other."""
    for column, what_for in needed.items():
        if column not in names:
            known = some_of(names, column)
            raise misfit(label, f"{column}, {what_for}, is not among them ({known})")
    if partition_by is not None and len(names) == len(partition_by):
        raise misfit(label, "all of them are partition columns, and a table needs one that is not")


def refuse_missing(label: str, names: Collection[str], wanted: Sequence[str]) -> None:
    """Refuse a result without columns that the target has."""
    missing = [name for name in wanted if name not in names]
    if missing:
        lower = {name.lower(): name for name in names}
        alike = [lower[name.lower()] for name in missing if name.lower() in lower]
        hint = f" (spelled {some_of(alike)})" if alike else ""
        raise misfit(label, f"the target's {some_of(missing)} is missing{hint}")


def refuse_added(label: str, added: Sequence[str], evolve: Evolve, kind: str) -> None:
    """Refuse columns that the target does not have, unless the definition lets it grow."""
    if added and evolve != "add":
        raise misfit(
            label,
            f"the target does not have {some_of(added)}",
            "Return the target's columns, or let the publish add them: "
            f'{kind}(..., evolve="add").',
        )
