"""Reading the analysed plan from the text of `explain`: all that Spark Connect tells.

The text is made for people: strings have no quotes, names may hold anything, and only ids such as
`amount#12` tell columns from other words. So columns are found first, by their ids; what remains
is read loosely, as words and calls with their arguments, which is enough for the search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from setpoint.spark.determinism import tree
from setpoint.spark.determinism.tree import Attribute, Expression, Node

_ID = re.compile(r"#(\d+)L?")
_DEFINED = re.compile(r" AS ((?:(?!#\d).)*?)#(\d+)L?\b")
_LISTED = re.compile(r"(?:^|, ?)((?:(?!#\d).)*?)#(\d+)L?(?=,|$)")
_PLAIN = re.compile(r"([^\s,()\[\]#]+)#(\d+)L?\b")
_NODE = re.compile(r"'?(\w+)")
# Columns are marked by characters that no plan has.
_MARK = re.compile("\ue000(\\d+)\ue001")
_TOKEN = re.compile("\ue000\\d+\ue001|\ue002|[()\\[\\],]|[^\\s()\\[\\],\ue000\ue001\ue002]+")
_SUBQUERY = re.compile(r"(scalar-subquery|exists|list|lateral-subquery)#\d+")
_SORTED = ("ASC", "DESC")
_RENAMED = {"lambdafunction": "lambda_function", "std": "stddev", "random": "rand"}
_LEAVES = ("Relation", "LocalRelation", "LogicalRDD", "LogicalRelation", "RelationV2")


@dataclass
class _Line:
    depth: int
    text: str
    children: list[_Line] = field(default_factory=list)
    queries: list[_Line] = field(default_factory=list)


def read(text: str, types: Mapping[str, str] | None = None) -> Node:
    """A plan from the analysed section of `explain(extended=True)`.

    `types` are the types of columns by their names, as far as they are known.
    """
    _, _, drawn = analysed_section(text).partition("\n")  # the first line names the columns
    return _Reader(drawn, types or {}).plan()


def analysed_section(text: str) -> str:
    """The analysed plan within the text of `explain(extended=True)`."""
    return text.partition("== Analyzed Logical Plan ==\n")[2].partition("\n\n== Optimized")[0]


class _Reader:
    def __init__(self, drawn: str, types: Mapping[str, str]) -> None:
        self._root = _drawing(drawn)
        self._types = types
        self._names: dict[int, str] = {}
        self._longs = {int(m[1]) for m in re.finditer(r"#(\d+)L\b", drawn)}
        for found in _DEFINED.finditer(drawn):
            self._names.setdefault(int(found[2]), found[1])
        for line in _lines(self._root):
            # Only a relation lists columns and nothing else, so that any name can be told.
            if line.text.startswith(_LEAVES) and "[" in line.text:
                listed = line.text.partition("[")[2].rpartition("]")[0]
                for found in _LISTED.finditer(listed):
                    self._names.setdefault(int(found[2]), found[1])
        for found in _PLAIN.finditer(drawn):
            self._names.setdefault(int(found[2]), found[1])
        self._unnamed = -1

    def plan(self) -> Node:
        return self._node(self._root)

    def _node(self, line: _Line) -> Node:
        children = tuple(self._node(child) for child in line.children)
        plans = [self._node(query) for query in line.queries]
        found = _NODE.match(line.text)
        name = found[1] if found else ""
        rest = line.text[found.end() :] if found else line.text
        items = _Items(self._marked(rest), self, plans).top()
        lists = [part.children for item in items for part in _lists(item)]
        node = Node(name, children)
        match name:
            case "Project":
                node = replace(node, defines=self._defined(lists[:1]))
            case "Aggregate":
                groups = lists[0] if len(lists) > 1 else ()
                node = replace(node, uses=tuple(groups), defines=self._defined(lists[-1:]))
            case "Window":
                node = replace(node, defines=self._defined(lists[:1]))
            case "Sort":
                node = replace(node, order=tuple(lists[0]) if lists else ())
            case "Join":
                word = items[0].label.lower() if items else ""
                node = replace(node, word=word, uses=tuple(items[1:]))
            case "Intersect" | "Except":
                word = "all" if "All true" in line.text else ""
                node = replace(node, word=word)
            case "GlobalLimit" | "LocalLimit" | "Offset" | "Tail":
                amount = rest.strip()
                node = replace(node, number=int(amount) if amount.isdigit() else -1)
            case "CTERelationDef" | "CTERelationRef":
                amount = rest.strip().partition(",")[0]
                output = self._attributes(lists[0]) if lists else ()
                node = replace(node, number=int(amount), output=output)
            case "Generate":
                node = replace(node, uses=tuple(items[:1]), output=self._attributes(lists[-1]))
            case "Expand":
                rows = tuple(tuple(row.children) for row in lists[0])
                node = replace(node, lists=rows, output=self._attributes(lists[1]))
            case "Range" | "OneRowRelation":
                node = replace(node, output=self._range() if name == "Range" else ())
            case _ if name in _LEAVES or not children:
                node = replace(node, output=self._attributes(lists[0]) if lists else ())
            case "SubqueryAlias":
                node = replace(node, word=rest.strip())
            case "View" | "Sample" | "CollectMetrics":
                pass
            case _:
                uses = [item for item in items if item.name != tree.LIST]
                if lists and any(part.name == tree.UDF for use in uses for part in use):
                    node = replace(node, output=self._attributes(lists[-1]))
                    lists = lists[:-1]
                node = replace(node, uses=(*uses, *(item for part in lists for item in part)))
        return self._with_range(node)

    def attribute(self, ident: int) -> Expression:
        name = self._names.get(ident, "")
        kind = "bigint" if ident in self._longs else self._types.get(name, "")
        return Expression(tree.ATTRIBUTE, (), ident, name, kind)

    def _defined(self, lists: Sequence[Sequence[Expression]]) -> tuple[Expression, ...]:
        """The columns that a node makes; a word of its own (`... 15 more fields`) is none."""
        items = [item for part in lists for item in part]
        return tuple(item for item in items if item.name in (tree.ALIAS, tree.ATTRIBUTE))

    def _attributes(self, items: Sequence[Expression]) -> tuple[Attribute, ...]:
        found = [part for item in items for part in item if part.name == tree.ATTRIBUTE]
        return tuple(Attribute(item.id, item.label, item.type) for item in found)

    def _range(self) -> tuple[Attribute, ...]:
        """The text does not tell the column of a range: it gets one until somebody uses it."""
        self._unnamed -= 1
        return (Attribute(self._unnamed, "id", "bigint"),)

    def _with_range(self, node: Node) -> Node:
        """Give a range below the id by which this node calls its column."""
        open_ = [leaf for leaf in _ranges(node) if leaf.output[0].id < -1]
        if not open_:
            return node
        known = {item.id for item in _made(node)}
        used = [
            part
            for item in (*node.defines, *node.uses, *node.order)
            for part in item
            if part.name == tree.ATTRIBUTE and part.label == "id" and part.id not in known
        ]
        ids = list(dict.fromkeys(part.id for part in used))
        for leaf, ident in zip(open_, ids, strict=False):
            node = _replaced(node, leaf, replace(leaf, output=(Attribute(ident, "id", "bigint"),)))
        return node

    def _marked(self, text: str) -> str:
        """The text with each column replaced by a mark with its id."""
        parts: list[str] = []
        start = 0
        for found in _ID.finditer(text):
            ident = int(found[1])
            before, name = text[start : found.start()], self._names.get(ident)
            if _SUBQUERY.search(text[max(0, found.start() - 16) : found.end()]):
                parts.append(text[start : found.end()])
            elif name and before.endswith(name):
                parts += [before[: len(before) - len(name)], f"\ue000{ident}\ue001"]
            elif before.endswith(")"):
                parts += [before, "\ue002"]  # the id of a Python function's result
            else:
                word = re.search(r"[^\s,()\[\]]*$", before)
                cut = len(before) - len(word[0]) if word else len(before)
                self._names.setdefault(ident, before[cut:])
                parts += [before[:cut], f"\ue000{ident}\ue001"]
            start = found.end()
        return "".join([*parts, text[start:]])


def _lists(item: Expression) -> Iterator[Expression]:
    """A list in brackets, with or without words beside it."""
    for part in item.children if item.name == tree.GROUP else (item,):
        if part.name == tree.LIST:
            yield part


class _Items:
    """The arguments of a plan node, read from marked text."""

    def __init__(self, text: str, reader: _Reader, plans: list[Node]) -> None:
        self._tokens = [found[0] for found in _TOKEN.finditer(text)]
        # A call is a name right before its bracket; with a space between it is a word.
        self._calls = {
            match.end(1) for match in re.finditer("([^\\s()\\[\\],\ue000\ue001\ue002]+)\\(", text)
        }
        self._ends = [found.end() for found in _TOKEN.finditer(text)]
        self._reader, self._plans, self._place = reader, plans, 0

    def top(self) -> list[Expression]:
        return self._arguments("")

    def _arguments(self, close: str) -> list[Expression]:
        """Items up to a closing bracket, divided by commas."""
        items: list[Expression] = []
        words: list[Expression] = []
        while self._place < len(self._tokens):
            token = self._tokens[self._place]
            self._place += 1
            if token == close:
                break
            if token == ",":
                items += self._item(words)
                words = []
            elif token in (")", "]"):
                continue  # a bracket of a literal
            else:
                self._word(token, words)
        items += self._item(words)
        return items

    def _word(self, token: str, words: list[Expression]) -> None:
        if mark := _MARK.fullmatch(token):
            found = self._reader.attribute(int(mark[1]))
            if words and words[-1].label == "lambda":
                words[-1] = Expression(tree.LITERAL, label=f"lambda {found.label}")
            else:
                words.append(found)
        elif token == "\ue002":
            return
        elif token == "(":
            words.append(Expression(tree.GROUP, tuple(self._arguments(")"))))
        elif token == "[":
            words.append(Expression(tree.LIST, tuple(self._arguments("]"))))
        elif _SUBQUERY.fullmatch(token):
            self._subquery(token, words)
        elif self._ends[self._place - 1] in self._calls and self._next() == "(":
            self._place += 1
            arguments = self._arguments(")")
            if self._next() == "\ue002":
                words.append(Expression(tree.UDF, tuple(arguments), label=token))
            else:
                words.append(_call(token, arguments))
        else:
            words.append(Expression(tree.LITERAL, label=token))

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _subquery(self, token: str, words: list[Expression]) -> None:
        plan = self._plans.pop(0) if self._plans else None
        label = "exists" if token.startswith("exists") else token.partition("#")[0]
        outer: list[Expression] = []
        if self._next() == "[":
            self._place += 1
            outer = self._arguments("]")
        words.append(Expression(tree.SUBQUERY, tuple(outer), label=label, plan=plan))

    def _item(self, words: list[Expression]) -> list[Expression]:
        """One item out of its words: an alias, an order, a window function, or their group."""
        if not words:
            return []
        labels = [word.label if word.name == tree.LITERAL else "" for word in words]
        if len(words) > 2 and labels[-2] == "AS" and words[-1].name == tree.ATTRIBUTE:
            made = words[-1]
            inner = _grouped(self._item(words[:-2]))
            return [Expression(tree.ALIAS, (inner,), made.id, made.label, made.type)]
        sorted_ = [place for place, label in enumerate(labels) if label in _SORTED]
        if sorted_ and sorted_[0] > 0:
            return [Expression(tree.ORDER, (_grouped(words[: sorted_[0]]),))]
        spec = next((w for w in words if w.name == "windowspecdefinition"), None)
        if spec is not None and words[0] is not spec:
            return [_window(_grouped(words[: words.index(spec)]), spec)]
        return [_grouped(words)]


def _grouped(words: Sequence[Expression]) -> Expression:
    return words[0] if len(words) == 1 else Expression(tree.GROUP, tuple(words))


def _call(token: str, arguments: list[Expression]) -> Expression:
    name = token.rsplit("=", 1)[-1].lstrip("-!").lower()
    name = _RENAMED.get(name, name)
    if name in ("cast", "try_cast", "ansi_cast") and arguments:
        words = arguments[0].children if arguments[0].name == tree.GROUP else ()
        labels = [word.label if word.name == tree.LITERAL else "" for word in words]
        if "as" in labels:
            place = len(labels) - 1 - labels[::-1].index("as")
            kind = next((labels[place + 1] or word.name for word in words[place + 1 :]), "")
            return Expression("cast", (_grouped(words[:place]),), type=kind)
    if name == "outer" and len(arguments) == 1:
        return arguments[0]
    if name == "mode" and any(item.text.startswith("some") for item in arguments):
        return Expression(name, tuple(arguments[:1]), label="ordered")
    if name == "isnull":
        name = "is_null"
    return Expression(name, tuple(arguments), label=token)


def _window(function: Expression, spec: Expression) -> Expression:
    frame = next((i for i in spec.children if i.name == "specifiedwindowframe"), None)
    order = tuple(item for item in spec.children if item.name == tree.ORDER)
    rest = [item for item in spec.children if item is not frame and item.name != tree.ORDER]
    label = "range"
    if frame is not None:
        said = frame.text.lower()
        whole = "unboundedpreceding" in said and "unboundedfollowing" in said
        label = "whole" if whole else "rows" if "rowframe" in said else "range"
    parts = (Expression(tree.GROUP, tuple(rest)), Expression(tree.GROUP, order))
    return Expression(tree.WINDOW, (function, *parts, Expression(tree.LITERAL, label=label)))


def _drawing(drawn: str) -> _Line:
    """The lines of the drawing as a tree; subqueries are drawn one level deeper than children."""
    root = _Line(-1, "")
    stack = [root]
    for raw in drawn.splitlines():
        found = re.match(r"(?:[: ]  )*(?:[:+]- )?", raw)
        width = found.end() if found else 0
        depth = width // 3
        line = _Line(depth, raw[width:])
        while stack[-1].depth >= depth:
            stack.pop()
        parent = stack[-1]
        inner = depth - parent.depth > 1
        (parent.queries if inner else parent.children).append(line)
        stack.append(line)
    return root.children[0]


def _lines(line: _Line) -> Iterator[_Line]:
    yield line
    for inner in (*line.children, *line.queries):
        yield from _lines(inner)


def _ranges(node: Node) -> Iterator[Node]:
    if node.name == "Range":
        yield node
    for child in node.children:
        yield from _ranges(child)


def _made(node: Node) -> Iterator[Expression | Attribute]:
    for child in node.children:
        yield from child.output
        yield from (item for item in child.defines if item.name == tree.ALIAS)
        yield from _made(child)


def _replaced(node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    children = tuple(_replaced(child, old, new) for child in node.children)
    return replace(node, children=children)
