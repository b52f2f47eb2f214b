"""A parsed statement to facts: which marks are stored where, which filter, what is picked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlglot import expressions as exp

from setpoint.lint.knowledge.words import is_key
from setpoint.lint.sql.accumulation import accumulated
from setpoint.lint.sql.mask import WORD, Mark
from setpoint.lint.sql.shallow import bare
from setpoint.lint.sql.statement import Lower, Pick, Statement, Stored, Verb

_FILTERS = (exp.Where, exp.Having, exp.Qualify, exp.Join)
_LOWER = (exp.GT, exp.GTE)
_UPPER = (exp.LT, exp.LTE)
# A key has a column or two; who divides by more wants to drop rows that are equal throughout.
_FEW = 2


def understood(plain: Statement, tree: Any, marks: dict[str, Mark]) -> Statement:
    """The shallow statement, made exact by its tree."""
    nodes = _Nodes(tree)
    query, names = _query(tree)
    verb = _verb(plain, tree)
    tables = nodes.of(exp.Table)
    sources = {_table(table) for table in tables}
    temporary = {cte.alias_or_name.lower() for cte in nodes.of(exp.CTE)}
    target = _target(tree) or plain.target
    stored, filters = _by_clause(tree, nodes, query, names)
    lowest, ranks, unordered = _comparisons(nodes), [], []
    picks = list(_picks(nodes, marks))
    for name, word, order, partitioned in _row_numbers(nodes):
        if not order and _keeps_first(nodes, name, word):
            picks.append(Pick(marks[word].offset, "a row number without an order"))
        elif not order:
            unordered.append((name, word))
        elif not partitioned:
            ranks.append((name, word, any(map(is_key, order))))
    reads_target = bool(target) and target in {
        _table(table) for table in tables if table is not _target_node(tree)
    }
    return replace(
        plain,
        verb=verb,
        target=target,
        columns=names or _assigned(tree) or plain.columns,
        stored=tuple(stored),
        filters=tuple(filters),
        until=frozenset(_until(nodes)),
        picks=tuple(picks),
        sources=frozenset(sources - temporary - ({target} if not reads_target else set())),
        where=tree.args.get("where") is not None or plain.where,
        against_target=reads_target or plain.against_target,
        ranks=tuple(ranks),
        unordered_ranks=tuple(unordered),
        lower=tuple(lowest),
        star=any(isinstance(item, exp.Star) for item in _projections(query)),
        projected=_projected(query),
        maximum=_maximum(query),
        accumulates=accumulated(tree),
        parsed=True,
    )


class _Nodes:
    """The nodes of a tree by their type, from one walk."""

    def __init__(self, tree: Any) -> None:
        self._nodes: dict[type, list[Any]] = {}
        for node in tree.walk():
            self._nodes.setdefault(type(node), []).append(node)

    def of(self, *types: type) -> list[Any]:
        return [node for kind in types for node in self._nodes.get(kind, ())]


def _verb(plain: Statement, tree: Any) -> Verb:
    if isinstance(tree, exp.Merge):
        whens = tree.args.get("whens")
        if _never(tree.args.get("on")):
            return "insert"
        actions = [
            when for when in (whens.expressions if whens else []) if when.args.get("matched")
        ]
        return "merge" if actions or not whens else "ignore"
    if isinstance(tree, exp.Insert) and plain.verb == "insert":
        conflict = tree.args.get("conflict")
        if conflict is not None:
            return "upsert" if conflict.expressions else "ignore"
        return "overwrite" if tree.args.get("overwrite") else "insert"
    return plain.verb


def _never(condition: Any) -> bool:
    """A condition that no row meets: every row is new."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.Boolean):
        return condition.this is False
    sides = (exp.EQ,)
    return (
        isinstance(condition, sides)
        and isinstance(condition.this, exp.Literal)
        and isinstance(condition.expression, exp.Literal)
        and condition.this != condition.expression
    )


def _target_node(tree: Any) -> Any:
    if isinstance(tree, (exp.Insert, exp.Merge, exp.Update, exp.Delete, exp.Create)):
        node = tree.this
        return node.this if isinstance(node, exp.Schema) else node
    return None


def _target(tree: Any) -> str:
    node = _target_node(tree)
    return _table(node) if isinstance(node, exp.Table) else ""


def _table(table: Any) -> str:
    return bare(".".join(part.name for part in table.parts if part.name))


def _query(tree: Any) -> tuple[Any, tuple[str, ...]]:
    """The query whose columns are stored, and the names that the target gives them."""
    names: tuple[str, ...] = ()
    if isinstance(tree, exp.Insert):
        if isinstance(tree.this, exp.Schema):
            names = tuple(bare(column.name) for column in tree.this.expressions)
        return tree.expression, names
    if isinstance(tree, exp.Create):
        return tree.expression, ()
    if isinstance(tree, exp.Query):
        return tree, ()
    return None, ()


def _projections(query: Any) -> list[Any]:
    if isinstance(query, exp.Select):
        return list(query.expressions)
    if isinstance(query, (exp.Subquery, exp.Paren)):
        return _projections(query.this)
    if isinstance(query, exp.SetOperation):
        return _projections(query.this)
    return []


def _projected(query: Any) -> tuple[str, ...]:
    items = _projections(query)
    if any(item.is_star for item in items):
        return ()
    return tuple(bare(item.alias_or_name) for item in items)


def _words(node: Any) -> list[str]:
    """The marks inside a part of the tree, in its order."""
    found: dict[str, None] = {}
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return [match[0] for match in WORD.finditer(node.name)]
    for inner in node.walk(bfs=False):
        if isinstance(inner, (exp.Identifier, exp.Literal, exp.Placeholder, exp.Var)):
            text = str(inner.this or "")
        elif isinstance(inner, exp.Anonymous):
            text = str(inner.this)
        else:
            continue
        # Where a dialect expects a unit, the parser writes the word in capitals.
        for match in WORD.finditer(text.lower()):
            found[match[0]] = None
    return list(found)


def _by_clause(
    tree: Any, nodes: _Nodes, query: Any, names: tuple[str, ...]
) -> tuple[list[Stored], list[str]]:
    stored: list[Stored] = []
    filters: list[str] = []
    if isinstance(query, exp.Values):
        for row in query.expressions:
            for index, cell in enumerate(row.expressions):
                name = names[index] if index < len(names) else ""
                _store(stored, name, _words(cell))
        return stored, filters
    if isinstance(tree, (exp.Update, exp.Merge)):
        for assignment in _assignments(tree):
            _store(stored, bare(assignment.this.name), _words(assignment.expression))
    top = _projections(query)
    for select in nodes.of(exp.Select):
        for index, item in enumerate(select.expressions):
            outer = any(item is candidate for candidate in top)
            name = names[index] if outer and index < len(names) else bare(item.alias_or_name)
            own = [word for word in _words(item) if not _filtered(item, word)]
            _store(stored, name, own)
    for clause in nodes.of(*_FILTERS):
        part = clause.args.get("on") if isinstance(clause, exp.Join) else clause.this
        if part is not None:
            filters += [word for word in _words(part) if word not in filters]
    return stored, filters


def _filtered(item: Any, word: str) -> bool:
    """Does a mark stand in the WHERE of a query inside a projection?"""
    return any(word in _words(clause) for clause in item.find_all(exp.Where, exp.Having))


def _store(stored: list[Stored], name: str, words: list[str]) -> None:
    if words:
        stored.append(Stored(name if not WORD.search(name) else "", tuple(words)))


def _assignments(tree: Any) -> Iterator[Any]:
    if isinstance(tree, exp.Update):
        yield from (item for item in tree.expressions if isinstance(item, exp.EQ))
        return
    for update in tree.find_all(exp.Update):
        yield from (item for item in update.expressions if isinstance(item, exp.EQ))
    for insert in tree.find_all(exp.Insert):
        names = insert.this.expressions if isinstance(insert.this, exp.Tuple) else []
        cells = insert.expression.expressions if isinstance(insert.expression, exp.Tuple) else []
        for name, cell in zip(names, cells, strict=False):
            yield exp.EQ(this=exp.column(name.name), expression=cell.copy())


def _assigned(tree: Any) -> tuple[str, ...]:
    """The columns that an UPDATE sets."""
    if not isinstance(tree, exp.Update):
        return ()
    return tuple(bare(item.this.name) for item in tree.expressions if isinstance(item, exp.EQ))


def _picks(nodes: _Nodes, marks: dict[str, Mark]) -> Iterator[Pick]:
    for limit in nodes.of(exp.Limit):
        words = [word for word in _words(limit) if word.startswith("sp_limit")]
        query = limit.parent
        if not words or query is None or query.args.get("order") is not None:
            continue
        if marks[words[0]].text.strip() == "0" or _aggregates_only(query) or _existence(query):
            continue
        if _ordered_inside(query):
            continue
        yield Pick(marks[words[0]].offset, "LIMIT without ORDER BY")
    for distinct in nodes.of(exp.Distinct):
        on = distinct.args.get("on")
        if on is None or {bare(i.alias_or_name) for i in distinct.parent.expressions} <= {
            bare(column.name) for column in on.find_all(exp.Column)
        }:
            continue  # nothing but the key is taken
        if distinct.parent.args.get("order") is None:
            start = min((marks[word].offset for word in _words(distinct.parent)), default=-1)
            yield Pick(start, "DISTINCT ON without ORDER BY")


def _ordered_inside(query: Any) -> bool:
    source = query.args.get("from_") or query.args.get("from")
    inner = source.this if source is not None else None
    return isinstance(inner, exp.Subquery) and inner.this.args.get("order") is not None


def _existence(query: Any) -> bool:
    parent = query.parent
    while isinstance(parent, (exp.Subquery, exp.Paren)):
        parent = parent.parent
    return isinstance(parent, exp.Exists)


def _aggregates_only(query: Any) -> bool:
    items = _projections(query)
    if not items or query.args.get("group") is not None:
        return False
    return all(isinstance(item.unalias(), exp.AggFunc) for item in items)


def _row_numbers(nodes: _Nodes) -> Iterator[tuple[str, str, tuple[str, ...], bool]]:
    """Row numbers: name, mark, the columns of the order, and whether they start anew."""
    for window in nodes.of(exp.Window):
        words = [word for word in _words(window.this) if word.startswith("sp_rownum")]
        if not words:
            continue
        order = window.args.get("order")
        real = [item for item in (order.expressions if order else []) if _orders(item)]
        columns = [column.name for item in real for column in item.find_all(exp.Column)]
        named = window.args.get("alias") is not None and order is None
        divided = window.args.get("partition_by") or []
        if columns and len(divided) <= _FEW and {bare(c) for c in columns} <= _names(divided):
            real, columns = [], []  # within a part all rows have the same value
        order_names = tuple(columns or ["?"] if real or named else [])
        parent = window.parent
        name = parent.alias if isinstance(parent, exp.Alias) else ""
        yield bare(name), words[0], order_names, bool(window.args.get("partition_by"))


def _names(items: list[Any]) -> set[str]:
    return {bare(item.name) for item in items if isinstance(item, exp.Column)}


def _keeps_first(nodes: _Nodes, name: str, word: str) -> bool:
    """Is the number only there to keep some rows of each part?"""
    for item in nodes.of(exp.EQ, exp.LT, exp.LTE):
        if isinstance(item.expression, exp.Literal):
            side = item.this
            if isinstance(side, exp.Column) and name and bare(side.name) == name:
                return True
            if isinstance(side, exp.Window) and word in _words(side):
                return True
    return False


def _orders(item: Any) -> bool:
    """Ordering by a constant or by a random value orders nothing."""
    if item.find(exp.AggFunc) is not None:
        return True
    columns = item.find_all(exp.Column, exp.Anonymous, exp.Dot)
    return any(
        not column.name.startswith(("sp_random", "sp_mono", "sp_clock")) for column in columns
    )


def _comparisons(nodes: _Nodes) -> Iterator[Lower]:
    """Lower bounds by a mark, on columns that no upper bound of the same query ends."""
    for where in nodes.of(exp.Where):
        uppers = {_column(item) for item in where.find_all(*_UPPER)}
        uppers |= {_column(item) for item in where.find_all(exp.Between, exp.EQ)}
        uppers |= {_right(item) for item in where.find_all(*_LOWER)}
        for item in where.find_all(*_LOWER):
            column = _column(item)
            if item.expression is not None and item.expression.find(exp.Select) is not None:
                continue
            words = [w for w in _words(item.expression) if w.startswith(("sp_hole", "sp_param"))]
            if column and words and column not in uppers and item.find_ancestor(exp.Where) is where:
                yield Lower(column, words[0])


def _until(nodes: _Nodes) -> Iterator[str]:
    """Clocks that stand alone at the upper end of a comparison."""
    for item in nodes.of(*_UPPER):
        yield from _alone(item.expression)
    for item in nodes.of(*_LOWER):
        yield from _alone(item.this)


def _alone(side: Any) -> Iterator[str]:
    if (
        side is not None
        and side.find(exp.Add, exp.Sub, exp.Interval, exp.DateAdd, exp.DateSub) is None
    ):
        words = _words(side)
        if len(words) == 1 and side.find(exp.Literal) is None:
            yield words[0]


def _column(item: Any) -> str:
    side = item.this
    column = side if isinstance(side, exp.Column) else side.find(exp.Column) if side else None
    return bare(column.name) if column is not None and not WORD.search(column.name) else ""


def _right(item: Any) -> str:
    side = item.expression
    column = side if isinstance(side, exp.Column) else None
    return bare(column.name) if column is not None and not WORD.search(column.name) else ""


def _maximum(query: Any) -> bool:
    items = _projections(query)
    return bool(items) and any(isinstance(item.unalias(), exp.Max) for item in items)
