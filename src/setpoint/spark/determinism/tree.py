"""A plan as the search sees it, whichever way it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

# Steps from the root of a plan to an expression: ("child", 0), ("expression", 2), ("plan", 0) ...
Path = tuple[tuple[str, int], ...]

ATTRIBUTE = "(attribute)"
ALIAS = "(alias)"
LITERAL = "(literal)"
SUBQUERY = "(subquery)"
UDF = "(python function)"
WINDOW = "(window)"
ORDER = "(order)"
GROUP = "(group)"
LIST = "(list)"
IGNORES_NULLS = "ignore nulls"
VARIABLE = "named_lambda_variable"

# The alias of what a source has read. How it was read is setpoint's own affair.
INPUT = "__setpoint_input"


@dataclass(frozen=True)
class Expression:
    """A node of an expression: functions by their SQL names in small letters.

    `id` is Spark's id of an attribute or alias, `label` its name (or the text of a literal),
    `type` its type where that is known. A subquery has a `plan`.
    """

    name: str
    children: tuple[Expression, ...] = ()
    id: int = -1
    label: str = ""
    type: str = ""
    plan: Node | None = None
    path: Path = ()

    def __iter__(self) -> Iterator[Expression]:
        """The expression and everything below it, without the plans of subqueries."""
        yield self
        for child in self.children:
            yield from child

    @cached_property
    def references(self) -> frozenset[int]:
        """The ids of the attributes that it reads."""
        return frozenset(item.id for item in self if item.name == ATTRIBUTE)

    @cached_property
    def text(self) -> str:
        """The expression for a message, without Spark's ids."""
        match self.name:
            case "(attribute)" | "(literal)":
                return self.label
            case "(alias)" | "(group)" | "(order)":
                return " ".join(child.text for child in self.children)
            case "(subquery)":
                return "(subquery)"
            case "(python function)":
                name = self.label
            case "(window)":
                return f"{self.children[0].text} over (...)"
            case _:
                name = self.name
        return f"{name}({', '.join(child.text for child in self.children)})"


@dataclass(frozen=True)
class Attribute:
    """A column of a plan node's output."""

    id: int
    name: str
    type: str = ""


@dataclass(frozen=True)
class Node:
    """A node of a plan.

    `defines` are the expressions of its output columns, `uses` those that decide about rows
    (conditions, keys), `order` those of a sort or a window. `output` is there when the node makes
    columns that no expression defines. `number` is a limit, an id of a CTE; `word` the type of a
    join and the like.
    """

    name: str
    children: tuple[Node, ...] = ()
    defines: tuple[Expression, ...] = ()
    uses: tuple[Expression, ...] = ()
    order: tuple[Expression, ...] = ()
    lists: tuple[tuple[Expression, ...], ...] = ()
    output: tuple[Attribute, ...] = ()
    number: int = -1
    word: str = ""
    path: Path = field(default=(), compare=False)
