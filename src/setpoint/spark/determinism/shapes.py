"""What the shape of a plan node tells: its columns, what it reads, what is unique in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.catalogue import MOMENTS
from setpoint.spark.determinism.facts import Facts, Ids, Taint, equalities, identified
from setpoint.spark.determinism.tree import Attribute, Expression, Node

# Between a sort and its limit these change no order.
_THROUGH = frozenset(
    ("Project", "SubqueryAlias", "View", "Filter", "Offset", "LocalLimit", "GlobalLimit")
) | {"ResolvedHint"}
LEFT_ONLY = ("leftsemi", "leftanti")


def output_of(node: Node) -> tuple[Attribute, ...]:
    """The columns of a node, in their order."""
    match node.name:
        case "Project" | "Aggregate":
            return tuple(Attribute(i.id, i.label, i.type) for i in node.defines)
        case "Window":
            own = tuple(Attribute(i.id, i.label, i.type) for i in node.defines)
            return output_of(node.children[0]) + own
        case "Join" if node.word in LEFT_ONLY or node.word.startswith("existence"):
            return output_of(node.children[0]) + node.output
        case "Join":
            return tuple(item for child in node.children for item in output_of(child))
        case "LateralJoin":
            plans = [item.plan for item in node.uses if item.plan is not None]
            return output_of(node.children[0]) + output_of(plans[0])
        case "Generate":
            return output_of(node.children[0]) + node.output
        case "WithCTE":
            return output_of(node.children[-1])
        case _ if node.output or not node.children:
            return node.output
        case _:
            return output_of(node.children[0])


def leaf(node: Node) -> Facts:
    """A relation; where its rows lie is told by a hidden column."""
    hidden = {
        item.id: frozenset((Taint("placement", "_metadata", node.path),))
        for item in node.output
        if item.name == "_metadata"
    }
    unique: tuple[Ids, ...] = ()
    if node.name == "OneRowRelation":
        unique = (frozenset(),)
    elif node.name == "Range":
        unique = (frozenset(item.id for item in node.output),)
    return Facts(node.output, hidden, unique)


def ids_of(node: Node) -> Iterable[int]:
    """The ids of a node's columns."""
    return (item.id for item in output_of(node))


def references_of(expressions: Iterable[Expression]) -> Ids:
    """The attributes that expressions read, those in their subqueries among them."""
    found: set[int] = set()
    for expression in expressions:
        for item in expression:
            if item.name == tree.ATTRIBUTE:
                found.add(item.id)
            elif item.plan is not None:
                found |= plan_references(item.plan)
    return frozenset(found)


def plan_references(node: Node) -> Ids:
    """The attributes that a subquery reads, those of the query around it among them."""
    found = references_of((*node.defines, *node.uses, *node.order))
    for child in node.children:
        found |= plan_references(child)
    return found


def is_moment(expression: Expression) -> bool:
    """Whether a text such as 'now' is made a time here."""
    first = expression.children[0] if expression.children else expression
    if first.name == tree.GROUP and first.children:
        first = first.children[0]
    return first.name == tree.LITERAL and first.label.strip().lower() in MOMENTS


def draws_a_start(expression: Expression) -> bool:
    """Whether aes_encrypt draws a random start: unless one is given, in all modes but ECB."""
    if expression.name != "aes_encrypt":
        return False
    mode, start = expression.children[2:3], expression.children[4:5]
    given = [part for item in start for part in item if part.name not in ("cast", tree.GROUP)]
    empty = all(part.name == tree.LITERAL and not part.label for part in given)
    return empty and [item.label.upper() for item in mode] != ["ECB"]


def unique_groups(node: Node) -> Ids | None:
    """The columns in which no two groups agree; None if one of the keys is not among them."""
    unique = set()
    for key in node.uses:
        found = next((i.id for i in node.defines if is_same(i, key)), None)
        if found is None:
            return None
        unique.add(found)
    return frozenset(unique)


def is_same(item: Expression, key: Expression) -> bool:
    """Whether a column of an aggregate is one of its keys."""
    inner = item.children[0] if item.name == tree.ALIAS and item.children else item
    if key.name == tree.ALIAS and key.children:
        key = key.children[0]
    if key.name == tree.ATTRIBUTE:
        return inner.name == tree.ATTRIBUTE and inner.id == key.id
    return inner.references == key.references and inner.text == key.text


def is_literal(item: Expression) -> bool:
    """Whether a column is a literal under a name."""
    return len(item.children) == 1 and item.children[0].name == tree.LITERAL


def renamed(facts: Facts, items: Sequence[Expression]) -> tuple[Ids, ...]:
    """Unique columns under the names that a projection gives them."""
    names: dict[int, int] = {}
    for item in items:
        source = item.children[0] if item.name == tree.ALIAS and item.children else item
        if source.name == tree.ATTRIBUTE:
            names.setdefault(source.id, item.id)
    for item in items:
        source = item.children[0] if item.children else item
        if source.name == "coalesce" and source.references in facts.merged:
            names |= dict.fromkeys(source.references, item.id)
        elif source.name == "cast":
            for one in identified(source):
                names.setdefault(one, item.id)
    return tuple(
        frozenset(names[one] for one in unique)
        for unique in facts.uniques
        if unique <= names.keys()
    )


def joined(node: Node, left: Facts, right: Facts) -> tuple[Ids, ...]:
    """The columns in which no two rows of a join agree."""
    pairs = [pair for use in node.uses for pair in equalities(use)]
    matched = frozenset(one for pair in pairs for one in pair)
    uniques = [one | other for one in left.uniques for other in right.uniques]
    # A partner of at most one row multiplies nothing.
    if node.word in ("inner", "leftouter") and right.is_one_row(right.closure(matched)):
        uniques += left.uniques
    if node.word in ("inner", "rightouter") and left.is_one_row(left.closure(matched)):
        uniques += right.uniques
    return tuple(uniques)


def merged(node: Node, left: Facts, right: Facts) -> frozenset[Ids]:
    """The pairs of keys in a full outer join of rows that are unique by them."""
    pairs = frozenset(frozenset(pair) for use in node.uses for pair in equalities(use))
    matched = frozenset(one for pair in pairs for one in pair)
    whole = left.is_one_row(matched) and right.is_one_row(matched)
    return pairs if node.word == "fullouter" and whole else frozenset()


def sort_below(node: Node) -> Node | None:
    """The sort that a limit goes by."""
    below = node.children[0]
    while below.name in _THROUGH:
        below = below.children[0]
    return below if below.name == "Sort" else None


def traced(needed: Ids, node: Node, sort: Node) -> Ids:
    """The columns of the sorted rows that the needed ones are made of."""
    below = node.children[0]
    while below is not sort:
        if below.name == "Project":
            needed = references_of([item for item in below.defines if item.id in needed])
        below = below.children[0]
    return needed
