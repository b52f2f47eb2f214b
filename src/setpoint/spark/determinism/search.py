"""The search: which output columns, and which choices of rows, depend on more than the inputs.

The plan is walked once. On the way down goes which columns are needed, on the way up what taints
them. So a column that is dropped again refuses nothing, and rows that tie on everything that is
needed are no tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from setpoint.spark.determinism import arrays, tree
from setpoint.spark.determinism.aggregates import Group, Over, aggregate_taints, window_taints
from setpoint.spark.determinism.arrays import settled, union
from setpoint.spark.determinism.catalogue import (
    EXPLODES,
    KIND_OF,
    OF_VALUES,
    TO_TIME,
)
from setpoint.spark.determinism.facts import (
    NONE,
    Facts,
    Ids,
    Taint,
    Taints,
    all_identified,
    constants,
)
from setpoint.spark.determinism.shapes import (
    LEFT_ONLY,
    draws_a_start,
    ids_of,
    is_literal,
    is_moment,
    is_same,
    joined,
    leaf,
    merged,
    output_of,
    references_of,
    renamed,
    sort_below,
    traced,
    unique_groups,
)
from setpoint.spark.determinism.ties import healed, loosened, untied, without_ties
from setpoint.spark.determinism.tree import Expression, Node

# How a Python function in a plan is judged: the taints of its code.
Judge = Callable[[Expression], Sequence[Taint]]
_LIMITS = frozenset(["GlobalLimit", "LocalLimit", "Offset", "Tail"])
# After any other node there may be some of the rows that tie, and not the others.
_KEEPS_ROWS = frozenset(
    ["Project", "Window", "SubqueryAlias", "View", "Sort", "Repartition", "ResolvedHint"]
) | {"RepartitionByExpression", "RebalancePartitions", "CollectMetrics", "EventTimeWatermark"}
_SAME_FOR_ALL_ROWS = ("clock", "session")


class Search:
    """One search of one plan. `rows` gathers what decides which rows are returned."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.rows: list[Taint] = []
        self._outer: dict[int, Taints] = {}
        self._defined: dict[int, Node] = {}
        self._known: dict[int, tuple[Facts, list[Taint]]] = {}
        self._sorts: dict[tuple[int, frozenset[tuple[int, Taints]]], Facts] = {}

    def visit(self, node: Node, needed: Ids | None = None) -> Facts:
        """The facts about a node of which these columns are needed; None for all."""
        facts = self._visit(node, needed)
        return facts if node.name in _KEEPS_ROWS else without_ties(facts)

    def _visit(self, node: Node, needed: Ids | None) -> Facts:
        wanted = frozenset(a.id for a in output_of(node)) if needed is None else needed
        match node.name:
            case "Project":
                return self._project(node, wanted)
            case "Aggregate":
                return self._aggregate(node, wanted)
            case "Window" | "WindowGroupLimit":
                return self._window(node, wanted)
            case "Filter":
                return self._filter(node, wanted)
            case "Join":
                return self._join(node, wanted)
            case "LateralJoin":
                return self._lateral(node, wanted)
            case "Union" | "Intersect" | "Except":
                return self._set_operation(node, wanted)
            case "Deduplicate" | "DeduplicateWithinWatermark":
                return self._deduplicate(node, wanted)
            case "Distinct":
                return self._distinct(node, wanted)
            case "Generate":
                return self._generate(node, wanted)
            case "Expand":
                return self._expand(node)
            case "Sample":
                facts = self.visit(node.children[0], wanted)
                self.rows.append(Taint("sample", "sample", node.path))
                return facts
            case "WithCTE":
                self._defined |= {item.number: item for item in node.children[:-1]}
                return self.visit(node.children[-1], wanted)
            case "SubqueryAlias" if node.word == tree.INPUT:
                return leaf(Node("Input", output=output_of(node.children[0])))
            case "CTERelationDef":
                return self.visit(node.children[0])
            case "CTERelationRef":
                return self._reference(node)
            case "AttachDistributedSequence":
                return self._numbered(node)
            case name if name in _LIMITS:
                return self._limit(node, wanted)
            case _ if not node.children:
                return leaf(node)
            case _ if any(item.name == tree.UDF for use in node.uses for item in use):
                return self._mapped(node)
            case _:
                return self._pass_on(node, wanted)

    def taints(self, expression: Expression, facts: Facts, group: Group | None = None) -> Taints:
        """What taints the value of an expression over the rows of `facts`."""
        name = expression.name
        if name == tree.ATTRIBUTE:
            return facts.taints.get(expression.id) or self._outer.get(expression.id, NONE)
        if name == tree.SUBQUERY:
            return self._subquery(expression, facts)
        if name == tree.WINDOW:
            return self._over(expression, facts, facts.ids)
        children = expression.children
        if name == "convert_timezone" and children[0].name == "current_timezone":
            children = children[1:]  # Spark wrote it, and a run has its time zone fixed
        below = [self.taints(child, facts, group) for child in children]
        found = loosened(arrays.after(expression, below), expression, facts)
        if group is not None and name in OF_VALUES:
            found = healed(found, group.keys)
        return found | self._own(expression, facts, group)

    def _own(self, expression: Expression, facts: Facts, group: Group | None) -> Taints:
        name = expression.name
        if name in KIND_OF:
            return frozenset((Taint(KIND_OF[name], f"{name}()", expression.path),))
        if name == tree.UDF:
            return frozenset(self._judge(expression))
        if expression.type == "nondeterministic":
            return frozenset((Taint("udf", expression.text, expression.path),))
        if draws_a_start(expression):
            return frozenset((Taint("random", f"{name}()", expression.path),))
        if name in TO_TIME and is_moment(expression):
            return frozenset((Taint("clock", expression.text, expression.path),))
        return aggregate_taints(expression, facts, group) if group else NONE

    def _subquery(self, expression: Expression, facts: Facts) -> Taints:
        """A subquery's value is tainted by its column and by its choice of rows."""
        assert expression.plan is not None
        outer, rows = self._outer, self.rows
        self._outer, self.rows = {**outer, **facts.taints}, []
        try:
            found = self.visit(
                expression.plan, frozenset() if expression.label == "exists" else None
            )
            chosen = frozenset(self.rows)
        finally:
            self._outer, self.rows = outer, rows
        values = [self.taints(child, facts) for child in expression.children]
        if expression.label != "exists":
            values.append(found.taint(found.ids))
        return settled(union(values)) | chosen

    def _decides(self, expressions: Iterable[Expression], facts: Facts) -> None:
        """These expressions decide which rows there are."""
        for expression in expressions:
            self.rows += sorted(self.taints(expression, facts), key=_order)

    def _project(self, node: Node, needed: Ids) -> Facts:
        kept = [item for item in node.defines if item.id in needed]
        below = self.visit(node.children[0], references_of(kept))
        taints = {item.id: self.taints(item, below) for item in kept}
        aliases = {item.id: item for item in kept if item.name == tree.ALIAS}
        definitions = {**below.definitions, **aliases}
        uniques = renamed(below, node.defines)
        return Facts(
            output_of(node), {**below.taints, **taints}, uniques, definitions, below.constants
        )

    def _filter(self, node: Node, needed: Ids) -> Facts:
        facts = self.visit(node.children[0], needed | references_of(node.uses))
        self._decides(node.uses, facts)
        same = frozenset(one for use in node.uses for one in constants(use))
        uniques = tuple(unique - same for unique in facts.uniques)
        return replace(facts, constants=facts.constants | same, uniques=uniques)

    def _aggregate(self, node: Node, needed: Ids) -> Facts:
        kept = [item for item in node.defines if item.id in needed]
        below = self.visit(node.children[0], references_of([*kept, *node.uses]))
        for key in node.uses:
            passed = any(is_same(item, key) for item in kept)
            self._divides(self.taints(key, below), passed=passed)
        fixed = below.closure(all_identified(node.uses))
        group = Group(fixed, references_of(node.uses), below)
        taints = {item.id: self.taints(item, below, group) for item in kept}
        unique = unique_groups(node)
        # What is made of many rows, a count even of no column, follows from nothing.
        keys = {
            item.id: item
            for item in kept
            if item.name == tree.ALIAS
            and (is_literal(item) or any(is_same(item, key) for key in node.uses))
        }
        return Facts(
            output_of(node),
            {**below.taints, **taints},
            () if unique is None else (unique,),
            {**below.definitions, **keys},
            below.constants,
        )

    def _window(self, node: Node, needed: Ids) -> Facts:
        own = frozenset(item.id for item in node.defines)
        kept = [item for item in node.defines if item.id in needed]
        live = needed - own
        below = self.visit(node.children[0], live | references_of(kept))
        taints, uniques = dict(below.taints), list(below.uniques)
        for item in kept:
            over = next((part for part in item if part.name == tree.WINDOW), None)
            if over is None:
                taints[item.id] = self.taints(item, below)
                continue
            taints[item.id] = self._over(over, below, live)
            if over.children[0].name == "row_number":
                uniques.append(references_of(over.children[1].children) | {item.id})
        return replace(below, output=output_of(node), taints=taints, uniques=tuple(uniques))

    def _over(self, window: Expression, facts: Facts, live: Ids) -> Taints:
        function, partition, order, frame = window.children
        over = Over(
            facts,
            fixed=facts.closure(all_identified(partition.children)),
            ordered=facts.closure(all_identified((*partition.children, *order.children))),
            has_order=bool(order.children),
            frame=frame.label,
            live=live,
        )
        by = [self.taints(item, facts) for item in (partition, order)]
        values = union(self.taints(item, facts) for item in function.children)
        values = loosened(values, function, facts)
        if function.name in OF_VALUES and frame.label != "rows":
            values = healed(values, partition.references | order.references)
        found = settled(union([*by, untied(values)]))
        own = self._own(function, facts, None)
        return found | own | window_taints(function, over)

    def _join(self, node: Node, needed: Ids) -> Facts:
        inside = needed | references_of(node.uses)
        left, right = (
            self.visit(child, inside & frozenset(ids_of(child))) for child in node.children
        )
        outer = {"leftouter": (1,), "rightouter": (0,), "fullouter": (0, 1)}.get(node.word, ())
        # Rows without a partner have nulls: what followed from nothing no longer does.
        known = [
            {} if place in outer else side.definitions for place, side in enumerate((left, right))
        ]
        taints = {**left.taints, **right.taints}
        same = (left.constants, right.constants)
        fixed = frozenset(one for i, side in enumerate(same) if i not in outer for one in side)
        output = left.output + right.output
        both = Facts(output, taints, (), {**known[0], **known[1]}, fixed)
        self._decides(node.uses, both)
        if node.word in LEFT_ONLY or node.word.startswith("existence"):
            extra = tuple(a for a in node.output if a.id not in left.ids)
            return replace(left, output=left.output + extra)
        return replace(both, uniques=joined(node, left, right), merged=merged(node, left, right))

    def _lateral(self, node: Node, needed: Ids) -> Facts:
        left = self.visit(node.children[0], needed | references_of(node.uses))
        query = next(item for item in node.uses if item.plan is not None)
        assert query.plan is not None
        outer = self._outer
        self._outer = {**outer, **left.taints}
        right = self.visit(query.plan)
        self._outer = outer
        self._decides([item for item in node.uses if item is not query], left)
        return Facts(left.output + right.output, {**left.taints, **right.taints})

    def _set_operation(self, node: Node, needed: Ids) -> Facts:
        output = output_of(node)
        places = [place for place, item in enumerate(output) if item.id in needed]
        sides = []
        for child in node.children:
            columns = output_of(child)
            wanted = {columns[place].id for place in places if place < len(columns)}
            sides.append(self.visit(child, frozenset(wanted) if node.name == "Union" else None))
        if node.name != "Union":
            for place, side in enumerate(sides):
                self._compared(side, needed if place == 0 else frozenset())
            unique = () if node.word == "all" else (sides[0].ids,)
            return replace(sides[0], uniques=unique)
        beside = zip_longest(*(side.output for side in sides))
        taints = {
            item.id: frozenset(
                taint
                for side, one in zip(sides, column, strict=True)
                if one is not None
                for taint in side.taints.get(one.id, NONE)
            )
            for item, column in zip(output, beside, strict=False)
        }
        return Facts(output, taints)

    def _deduplicate(self, node: Node, needed: Ids) -> Facts:
        keys = references_of(node.uses)
        facts = self.visit(node.children[0], needed | keys)
        for key in node.uses:
            self._divides(self.taints(key, facts), passed=key.id in needed)
        fixed = facts.closure(keys)
        if not (needed <= fixed or facts.is_one_row(fixed)):
            names = ", ".join(item.text for item in node.uses)
            self.rows.append(Taint("pick", f"dropDuplicates({names})", node.path))
        return replace(facts, uniques=(*facts.uniques, keys))

    def _distinct(self, node: Node, needed: Ids) -> Facts:
        facts = self.visit(node.children[0])
        self._compared(facts, needed)
        return replace(facts, uniques=(*facts.uniques, facts.ids))

    def _compared(self, facts: Facts, passed: Ids) -> None:
        """Rows are compared as wholes: what differs in them decides how many there are."""
        for one in sorted(facts.ids):
            taints = facts.taints.get(one, NONE)
            stays = frozenset(item for item in taints if item.kind != "float_key")
            self._divides(stays, passed=one in passed)

    def _divides(self, taints: Taints, *, passed: bool) -> None:
        """A key divides rows into groups.

        The clock is the same for all rows. If the key is passed on, it shows there.
        """
        for taint in sorted(taints, key=_order):
            if not (passed and taint.kind in _SAME_FOR_ALL_ROWS):
                self.rows.append(taint)

    def _limit(self, node: Node, needed: Ids) -> Facts:
        sort = sort_below(node)
        order = sort.order if sort is not None else ()
        below = node.children[0]
        while below.name in _LIMITS:
            below = below.children[0]
        facts = self.visit(below, needed | (references_of(order) & frozenset(ids_of(below))))
        if node.number == 0 and node.name != "Offset":
            return facts
        if sort is not None:
            base = self._sorted(sort)
            before = len(self.rows)
            self._decides(order, base)
            fixed = base.closure(all_identified(order))
            # An order that changes by itself is told as that.
            total = len(self.rows) > before or base.is_one_row(fixed)
            total = total or traced(needed, node, sort) <= fixed
        else:
            fixed = facts.closure(())
            total = needed <= fixed or facts.is_one_row(fixed)
        if not total:
            word = "offset" if node.name == "Offset" else "limit"
            said = f"{word} {node.number}" if node.number >= 0 else word
            by = f"orderBy({', '.join(i.text for i in order)})" if order else "no order"
            self.rows.append(Taint("pick", f"{said} after {by}", node.path))
        return facts

    def _sorted(self, sort: Node) -> Facts:
        """All facts about the rows that a limit is taken of, the columns not needed among them.

        They are found once for each sort: limits may be nested.
        """
        place = id(sort), frozenset(self._outer.items())
        if place not in self._sorts:
            beside = Search(self._judge)
            beside._outer, beside._defined = self._outer, self._defined
            beside._known, beside._sorts = self._known, self._sorts
            self._sorts[place] = beside.visit(sort.children[0])
        return self._sorts[place]

    def _generate(self, node: Node, needed: Ids) -> Facts:
        facts = self.visit(node.children[0], needed | references_of(node.uses))
        found = NONE
        for item in node.uses:
            found |= self.taints(item, facts)
            if item.name in EXPLODES:
                inner = self.taints(item.children[0], facts)
                found = frozenset(t for t in inner if not t.array)
        own = {item.id: found for item in node.output}
        self.rows += sorted((item for item in found if not item.array), key=_order)
        output = facts.output + node.output
        taints = {**facts.taints, **own}
        return replace(facts, output=output, taints=taints, uniques=())

    def _expand(self, node: Node) -> Facts:
        facts = self.visit(node.children[0])
        taints = {}
        for place, item in enumerate(node.output):
            parts = [self.taints(row[place], facts) for row in node.lists if place < len(row)]
            taints[item.id] = frozenset(taint for part in parts for taint in part)
        return Facts(node.output, taints)

    def _reference(self, node: Node) -> Facts:
        """A CTE where it is used: its columns under new ids, and its choice of rows."""
        if node.number not in self._known:
            self._known[node.number] = (Facts(), [])  # a recursive one meets itself
            definition = self._defined.get(node.number)
            if definition is not None:
                outside, self.rows = self.rows, []
                facts = self.visit(definition)
                self._known[node.number] = (facts, self.rows)
                self.rows = outside
        facts, rows = self._known[node.number]
        self.rows += rows
        fresh = {old.id: new.id for old, new in zip(facts.output, node.output, strict=False)}
        taints = {new: facts.taints.get(old, NONE) for old, new in fresh.items()}
        uniques = tuple(
            frozenset(fresh[one] for one in unique)
            for unique in facts.uniques
            if unique <= fresh.keys()
        )
        return Facts(node.output, taints, uniques)

    def _mapped(self, node: Node) -> Facts:
        """Rows that go through a Python function as a whole."""
        facts = self.visit(node.children[0])
        for child in node.children[1:]:
            other = self.visit(child)
            facts = Facts(facts.output + other.output, {**facts.taints, **other.taints})
        code = [item for use in node.uses for item in use if item.name == tree.UDF]
        for item in code:
            self.rows += sorted(self._judge(item), key=_order)
        self._decides([use for use in node.uses if not any(one in use for one in code)], facts)
        taints = facts.taint(facts.ids)
        self.rows += sorted((item for item in taints if item.kind != "float_key"), key=_order)
        # What is called as before is taken for the same; what is new may be made of anything.
        inexact = frozenset(item for item in taints if item.kind == "float_key")
        same = {item.name: facts.taints.get(item.id, NONE) & inexact for item in facts.output}
        output = node.output or facts.output
        own = {item.id: same.get(item.name, inexact) for item in output}
        return Facts(output, own)

    def _numbered(self, node: Node) -> Facts:
        facts = self.visit(node.children[0])
        taint = Taint("generated_id", "distributed_sequence_id()", node.path)
        own = {item.id: frozenset((taint,)) for item in node.output if item.id not in facts.ids}
        return replace(facts, output=node.output, taints={**facts.taints, **own})

    def _pass_on(self, node: Node, needed: Ids) -> Facts:
        inside = needed | references_of((*node.uses, *node.order))
        parts = [self.visit(child, inside) for child in node.children]
        facts = parts[0]
        for part in parts[1:]:
            facts = Facts(facts.output + part.output, {**facts.taints, **part.taints})
        extra = tuple(item for item in node.output if item.id not in facts.ids)
        return replace(facts, output=facts.output + extra) if extra else facts


def _order(taint: Taint) -> tuple[str, str]:
    return taint.kind, taint.expression
