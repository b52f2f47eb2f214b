"""What is known about the rows of a plan node: its columns, what taints them, what is unique."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.catalogue import IDENTIFIES
from setpoint.spark.determinism.tree import Attribute, Expression, Path

Ids = frozenset[int]
# So many unique sets are kept: joins multiply them, and a plan needs few.
_MOST_UNIQUES = 16


@dataclass(frozen=True)
class Taint:
    """Something that would make a second run differ, on its way to where it shows.

    With `array` only the order of an array is uncertain, and sorting it heals that. With `tied`
    only rows that agree on these columns may have changed places: a sum over all of them is the
    same.
    """

    kind: str
    expression: str
    path: Path = ()
    place: str = ""
    array: bool = False
    tied: Ids | None = None


Taints = frozenset[Taint]
NONE: Taints = frozenset()


@dataclass(frozen=True)
class Facts:
    """The columns of a node, with their taints, and which of them no two rows share.

    `definitions` tell which columns follow from which: for rows that agree on the ones, the
    others agree too. `constants` are the same in all rows, because a filter says so. `merged` are
    the pairs of keys of a full outer join: coalesced, the two are one key.

    Only the smallest unique sets are kept, and only so many: forgetting one can make a tie of
    what is none, never the other way round.
    """

    output: tuple[Attribute, ...] = ()
    taints: Mapping[int, Taints] = field(default_factory=dict)
    uniques: tuple[Ids, ...] = ()
    definitions: Mapping[int, Expression] = field(default_factory=dict)
    constants: Ids = frozenset()
    merged: frozenset[Ids] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "uniques", smallest(self.uniques))

    @property
    def ids(self) -> Ids:
        return frozenset(item.id for item in self.output)

    def taint(self, ids: Iterable[int]) -> Taints:
        return frozenset(item for one in ids for item in self.taints.get(one, NONE))

    def closure(self, ids: Iterable[int]) -> Ids:
        """Everything that is fixed when these columns are."""
        known = {*ids, *self.constants}
        before = -1
        while len(known) != before:
            before = len(known)
            for one in tuple(known):
                if one in self.definitions:
                    known |= identified(self.definitions[one])
            for one, definition in self.definitions.items():
                if not self.taints.get(one) and definition.references <= known:
                    known.add(one)
        return frozenset(known)

    def is_one_row(self, fixed: Ids) -> bool:
        """Whether no two rows agree on these columns, by the way the rows were made."""
        return any(unique <= fixed for unique in self.uniques)


def smallest(uniques: Iterable[Ids]) -> tuple[Ids, ...]:
    """The unique sets that contain no other one, the smallest first."""
    kept: list[Ids] = []
    for unique in sorted(set(uniques), key=lambda one: (len(one), sorted(one))):
        if len(kept) == _MOST_UNIQUES:
            break
        if not any(other <= unique for other in kept):
            kept.append(unique)
    return tuple(kept)


def identified(expression: Expression) -> Ids:
    """The columns that two rows share when they share the value of an expression.

    A hash counts as its columns: the keys and row hashes of setpoint are made of one.
    """
    match expression.name:
        case tree.ATTRIBUTE:
            return frozenset((expression.id,))
        case tree.ALIAS | tree.ORDER:
            return identified(expression.children[0]) if expression.children else frozenset()
        case tree.GROUP if len(expression.children) == 1:
            return identified(expression.children[0])
        case "cast" if expression.type == "string" and expression.children:
            return identified(expression.children[0])
        case name if name in IDENTIFIES:
            return expression.references
        case "left" | "substring" | "substr" | "coalesce" | "upper" | "lower":
            inner = expression.children[0] if expression.children else expression
            hashed = inner is not expression and inner.name in IDENTIFIES
            return inner.references if hashed else frozenset()
        case _:
            return frozenset()


def all_identified(expressions: Iterable[Expression]) -> Ids:
    return frozenset(one for item in expressions for one in identified(item))


def constants(expression: Expression) -> Iterator[int]:
    """The columns that a condition makes equal to a literal."""
    children = expression.children
    attributes = [item.id for item in children if item.name == tree.ATTRIBUTE]
    others = [item for item in children if item.name != tree.ATTRIBUTE]
    if expression.name in ("equal_to", "equal_null_safe"):
        plain = len(others) == 1 and not others[0].references
        if len(attributes) == 1 and plain and others[0].plan is None:
            yield attributes[0]
    elif expression.name == tree.GROUP and _words(expression)[:1] in (["="], ["<=>"]):
        plain = all(not item.references and item.plan is None for item in others)
        if len(attributes) == 1 and plain and children[0].name == tree.ATTRIBUTE:
            yield attributes[0]
    elif expression.name == "and" or _is_conjunction(expression):
        for child in children:
            yield from constants(child)


def equalities(expression: Expression) -> Iterator[tuple[int, int]]:
    """The pairs of columns that a condition makes equal."""
    children = expression.children
    attributes = [item.id for item in children if item.name == tree.ATTRIBUTE]
    said = expression.name == tree.GROUP and _words(expression) in (["="], ["<=>"])
    if len(attributes) == 2 and (said or expression.name in ("equal_to", "equal_null_safe")):
        yield attributes[0], attributes[1]
    elif expression.name == "and" or _is_conjunction(expression):
        for child in children:
            yield from equalities(child)


def condition_of(expression: Expression) -> Expression | None:
    """The condition without which a value is null: that of `if(a, b, null)` and the like."""
    children = expression.children
    match expression.name:
        case "if" if len(children) == 3 and _is_null(children[2]):
            return children[0]
        case "case_when" if len(children) == 2 or (len(children) == 3 and _is_null(children[2])):
            return children[0]
        case tree.GROUP:
            words = [item.label if item.name == tree.LITERAL else "" for item in children]
            if words[:1] == ["if"] and words[-2:-1] == ["else"] and _is_null(children[-1]):
                return children[1]
            if words[:2] == ["CASE", "WHEN"] and words[3:4] == ["THEN"] and words[5:] == ["END"]:
                return children[2]
    return None


def _is_null(expression: Expression) -> bool:
    while expression.name == "cast" and expression.children:
        expression = expression.children[0]
    return expression.name == tree.LITERAL and expression.label in ("None", "null")


def _words(expression: Expression) -> list[str]:
    return [item.label.lower() for item in expression.children if item.name == tree.LITERAL]


def _is_conjunction(expression: Expression) -> bool:
    """Whether a group of words, as the text of a plan has them, is joined by AND alone."""
    if expression.name != tree.GROUP:
        return False
    return len(expression.children) == 1 or set(_words(expression)) == {"and"}
