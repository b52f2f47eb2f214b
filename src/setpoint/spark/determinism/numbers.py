"""Whether a value is a floating point number: sums of those depend on the order of their rows.

Types are known of columns, literals and casts; of everything else as far as its parts tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.catalogue import NOT_FLOAT, OPERATORS
from setpoint.spark.determinism.tree import Expression

_FLOATS = ("double", "float")
_MEMBERS = ("get_struct_field", "get_array_struct_fields")
_ELEMENTS = ("get_array_item", "get_map_value", "element_at", "try_element_at", "get")


def is_float(expression: Expression) -> bool:
    """Whether a value is a floating point number, as far as its parts tell."""
    name = expression.name
    if (known := type_of(expression)) or name in ("cast", "try_cast"):
        return known in _FLOATS
    if name in NOT_FLOAT:
        return False
    return any(is_float(item) for item in _values(expression))


def type_of(expression: Expression) -> str:
    """The type of a value in the words of SQL; empty if it is not known."""
    name, children = expression.name, expression.children
    if name in (tree.ATTRIBUTE, tree.LITERAL, "cast", "try_cast"):
        return expression.type
    if name in _MEMBERS and children:
        return _member(type_of(children[0]), expression.label)
    if name in _ELEMENTS and children:
        return _element(type_of(children[0]))
    if name == tree.GROUP and len(children) > 1 and children[0].name == tree.ATTRIBUTE:
        return _reached(children[0].type, children[1:])
    return ""


def _values(expression: Expression) -> Sequence[Expression]:
    """The parts that become the value: of a CASE its branches, not its conditions."""
    children = expression.children
    match expression.name:
        case "case_when":
            return [*children[1::2], *(children[-1:] if len(children) % 2 else ())]
        case "if":
            return children[1:]
        case tree.GROUP:
            words = [item.label if item.name == tree.LITERAL else "" for item in children]
            if words[:1] == ["CASE"]:
                return list(_branches(children, words, ("THEN", "ELSE"), ("WHEN", "ELSE", "END")))
            if words[:1] == ["if"]:
                return children[2:]
            return [] if OPERATORS.intersection(words) else children
        case _:
            return children


def _branches(
    items: Sequence[Expression], words: Sequence[str], opens: Sequence[str], closes: Sequence[str]
) -> Iterator[Expression]:
    """The values of a CASE that is told as words."""
    inside = False
    for item, word in zip(items, words, strict=True):
        if word in opens or word in closes:
            inside = word in opens
        elif inside:
            yield item


def _reached(kind: str, steps: Sequence[Expression]) -> str:
    """The type behind `.field` and `[place]`, which is how text tells them."""
    for step in steps:
        if step.name == tree.LITERAL and step.label.startswith("."):
            for name in step.label[1:].split("."):
                kind = _member(kind, name)
        elif step.name == tree.LIST:
            kind = _element(kind)
        else:
            return ""
    return kind


def _element(kind: str) -> str:
    outer, _, inner = kind.removesuffix(">").partition("<")
    return _parts(inner)[-1] if outer in ("array", "map") else ""


def _member(kind: str, name: str) -> str:
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "array":  # the field of each of its structs
        return f"array<{_member(inner, name)}>"
    fields = dict(part.partition(":")[::2] for part in _parts(inner)) if outer == "struct" else {}
    return fields.get(name, "")


def _parts(inner: str) -> list[str]:
    """The parts of a type between commas, those inside of other types left alone."""
    parts, depth = [""], 0
    for character in inner:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
