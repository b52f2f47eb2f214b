"""The state of a pipeline's windows: receipts, and whether the rows are still those they tell of.

PostgreSQL keeps no log of changes, but every row names the transaction that wrote it (xmin). A
slice is untouched when it holds as many rows as its receipt left and all of them are of that
transaction. For keyed writes, whose windows share all rows, no row may be of a transaction
that is neither the pipeline's own nor one that the receipt's transaction saw, and the table's row
count must be what the latest receipt left; nor may the pipeline have published since by another
definition. The columns must be those that were written: one that was dropped and made again has
lost its values, one that was renamed has those of another, and no row tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setpoint.errors import UNCHANGED, RefusedError
from setpoint.model.columns import Columns
from setpoint.model.pipeline import Pipeline, newest_of
from setpoint.model.receipt import SliceState
from setpoint.model.scope import Scope
from setpoint.model.slice import SliceRule
from setpoint.model.span import Stretch, windows_of
from setpoint.model.window import Window
from setpoint.model.write import KEYED, DeleteInsert, Overwrite
from setpoint.targets.claim import Claim
from setpoint.targets.postgres import receipts
from setpoint.targets.postgres.catalog import StoredTable
from setpoint.targets.postgres.names import TableName, literal, quote
from setpoint.targets.postgres.receipts import Landed, Left
from setpoint.targets.refusals import no_slice_column

if TYPE_CHECKING:
    import psycopg

_LOW = 0xFFFFFFFF
# Ids of rows are of 32 bits: transactions further apart than this cannot be put in order.
_FAR = 1_000_000_000
_TEXTS = ("text", "character varying", "character")
# By transaction: how many rows it wrote that are there now.
Writers = Mapping[int, int]


def rule_of(pipeline: Pipeline, table: StoredTable, name: TableName) -> SliceRule | None:
    """The rule of the slices in an existing table."""

    def kind(column: str) -> str:
        stored = table.column(column)
        if stored is None:
            raise no_slice_column(name, column)
        if stored.slice_kind == "string" and (stored.collation or stored.base not in _TEXTS):
            raise RefusedError(
                "SP-T03",
                f"The column {column} of {name} takes different texts for equal "
                f"({stored.collation or stored.base}).",
                why="The rows of a window are found by the text that names it.",
                state=UNCHANGED,
                next="Make it text or varchar with a deterministic collation, or a date.",
            )
        return stored.slice_kind

    return pipeline.slice_rule(kind)


def condition_of(scope: Scope, stretch: Stretch) -> str:
    """The rows that a publish replaces, as PostgreSQL writes it."""
    match scope.write:
        case Overwrite():
            return slice_sql(scope.rule, stretch)
        case DeleteInsert(where) if scope.rule is None:
            return f"({where}\n)"
        case DeleteInsert(where):
            return f"({where}\n) AND {slice_sql(scope.rule, stretch)}"
        case _:
            return "true"


def slice_sql(rule: SliceRule | None, stretch: Stretch) -> str:
    """The slice of a window or a span as a condition in PostgreSQL's spelling."""
    if rule is None:
        raise TypeError("the target names no column for the window")
    column = quote(rule.column)
    if rule.kind in ("string", "integer", "long"):
        named = [str(rule.only_value(window)) for window in windows_of(stretch)]
        values = [literal(name) if rule.kind == "string" else name for name in named]
        return f"{column} IN ({', '.join(values)})" if values[1:] else f"{column} = {values[0]}"
    start, end = (moment(rule.kind, bound) for bound in rule.bounds(stretch))
    return f"{column} >= {start} AND {column} < {end}"


@dataclass(frozen=True)
class Buckets:
    """Windows told apart in SQL: `sql` has a value for each, `values` are its parameters."""

    sql: str
    condition: str
    values: Sequence[Any]
    owners: Mapping[Any, Window]

    @classmethod
    def of(cls, rule: SliceRule, windows: Sequence[Window]) -> Buckets:
        column = quote(rule.column)
        if rule.by_name:
            named = {str(rule.only_value(window)): window for window in windows}
            kind = "text" if rule.kind == "string" else "int8"
            condition = f"{column} = ANY ($1::text[]::{kind}[])"
            return cls(f"{column}::text", condition, [list(named)], named)
        kind = {"date": "date", "timestamp": "timestamptz"}.get(rule.kind, "timestamp")
        bounds = {window: rule.bounds(window) for window in windows}
        edges = sorted({edge for pair in bounds.values() for edge in pair})
        numbers = {edge: number for number, edge in enumerate(edges, 1)}
        return cls(
            f"width_bucket({column}, $1::{kind}[])",
            f"{column} >= $2::{kind} AND {column} < $3::{kind}",
            [edges, edges[0], edges[-1]],
            {numbers[start]: window for window, (start, _) in bounds.items()},
        )


@dataclass(frozen=True)
class Slices:
    """What a server says about the windows of one pipeline, at the time of asking."""

    connection: psycopg.Connection[Any]
    pipeline: Pipeline
    name: TableName
    table: StoredTable
    rule: SliceRule | None

    @property
    def claim(self) -> Claim:
        """The pipeline's definition on the table as it is now."""
        numbers = {column.name: column.number for column in self.table.columns}
        return Claim.of(self.pipeline, self.rule, Columns(numbers))

    def states(self, windows: Sequence[Window]) -> dict[Window, SliceState]:
        """The state of each window, in a handful of queries however many windows there are."""
        wanted = None if self.pipeline.newest_counts else [window.id for window in windows]
        landed = receipts.latest(
            self.connection, self.table.oid, self.name, self.pipeline.name, wanted
        )
        newest = newest_of(landed, self.pipeline) if self.pipeline.newest_counts else ""
        asked = [window for window in windows if window.id in landed]
        if isinstance(self.pipeline.write, KEYED):
            judged = self._keyed(asked, landed)
        else:
            judged = self._by_slice(asked, landed)
        columns, claim = {column.number for column in self.table.columns}, self.claim
        states = {}
        for window in windows:
            found = landed.get(window.id)
            if found is None:
                states[window] = SliceState(0, None, None, newest=newest)
                continue
            untouched, rows = judged[window]
            by_this = found.receipt is not None and claim.made(found.receipt)
            untouched = untouched and by_this and columns.issuperset(found.columns or ())
            states[window] = SliceState(
                found.generation, found.receipt, untouched, rows, found.xid, newest
            )
        return states

    def _by_slice(
        self, windows: Sequence[Window], landed: Mapping[str, Landed]
    ) -> dict[Window, tuple[bool, int]]:
        judged = {}
        for window, writers in self._writers(windows).items():
            found = landed[window.id]
            ours = writers.get(found.data_xid & _LOW, 0)
            rows = sum(writers.values())
            judged[window] = (ours == rows == found.rows_kept, rows)
        return judged

    def written_by(self, xid: int, windows: Sequence[Window]) -> dict[Window, int]:
        """How many rows of each window are of a transaction."""
        found = self._writers(windows)
        return {window: writers.get(xid & _LOW, 0) for window, writers in found.items()}

    def _writers(self, windows: Sequence[Window]) -> Mapping[Window, Writers]:
        if not windows:
            return {}
        match self.pipeline.write:
            case Overwrite() if self.rule is not None:
                return self._writers_by_rule(self.rule, windows)
            case _:
                scope = Scope(self.pipeline.write, self.rule)
                return {
                    window: self._writers_where(condition_of(scope, window)) for window in windows
                }

    def _writers_by_rule(
        self, rule: SliceRule, windows: Sequence[Window]
    ) -> Mapping[Window, Writers]:
        """One pass over the asked stretch of the table, whatever the number of windows."""
        found: dict[Window, dict[int, int]] = {window: {} for window in windows}
        among = Buckets.of(rule, windows)
        rows = self.connection.execute(
            f"SELECT {among.sql}, xmin::text::int8, count(*) FROM {self.name.sql} "
            f"WHERE {among.condition} GROUP BY 1, 2",
            among.values,
        ).fetchall()
        for bucket, xmin, count in rows:
            if bucket in among.owners:
                found[among.owners[bucket]][xmin] = count
        return found

    def _writers_where(self, condition: str) -> Writers:
        rows = self.connection.execute(
            f"SELECT xmin::text::int8, count(*) FROM {self.name.sql} WHERE {condition} GROUP BY 1",
            binary=True,
        ).fetchall()
        return {xmin: count for xmin, count in rows}

    def _keyed(
        self, windows: Sequence[Window], landed: Mapping[str, Landed]
    ) -> dict[Window, tuple[bool, int]]:
        if not windows:
            return {}
        writers = self._writers_where("true")
        rows = sum(writers.values())
        ours, left, drifts = self._history()
        newest = self._next_transaction()
        judged = {}
        for window in windows:
            found = landed[window.id]
            foreign = any(
                xmin not in ours and not was_seen(full_xid(xmin, newest), found.seen)
                for xmin in writers
            )
            drifted = any(number > found.number for number in drifts)
            judged[window] = (not foreign and not drifted and rows == left, rows)
        return judged

    def _history(self) -> tuple[set[int], int | None, list[int]]:
        """The pipeline's transactions, the rows that the latest one left, and the drifts.

        A publish by another definition is a drift: it may have changed any row. Receipts of a time
        when no scope was kept are taken for ours.
        """
        where = f"WHERE {receipts.of_table('r', '$1', '$2')} AND pipeline = $3"
        about = [self.table.oid, str(self.name), self.pipeline.name]
        found = self.connection.execute(
            f"SELECT number, data_xid, table_rows, drifted FROM {receipts.RECEIPTS} r {where} "
            "ORDER BY number",
            about,
        ).fetchall()
        kinds = self.connection.execute(
            f"SELECT scope, max(number) FROM {receipts.RECEIPTS} r {where} AND scope <> '' "
            "GROUP BY scope",
            about,
        ).fetchall()
        claim = self.claim
        others = [number for kind, number in kinds if not claim.leaves_others_alone_by(kind)]
        left = next((rows for _, _, rows, _ in reversed(found) if rows is not None), None)
        ours = {xid & _LOW for _, xid, _, _ in found}
        return ours, left, [*(number for number, _, _, drifted in found if drifted), *others]

    def _next_transaction(self) -> int:
        found = self.connection.execute(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
        ).fetchone()
        return int(found[0]) if found else 0


@dataclass(frozen=True)
class Look:
    """What a keyed write finds in its table.

    `seen` tells of the transactions whose rows are there (`was_seen`), `rows` is their number.
    `drifted`: the table is not as the pipeline's last keyed write left it.
    """

    seen: str
    rows: int
    drifted: bool


def look(connection: psycopg.Connection[Any], name: TableName, left: Left | None) -> Look:
    """The rows of a table before a keyed write, in one pass.

    A snapshot names the transactions that are running, but not their subtransactions, whose ids
    rows written after a SAVEPOINT have. So the writers of the rows themselves are listed, from
    the oldest running transaction on: a subtransaction's id is greater than its parent's. Those
    that are younger than the last keyed write's oldest are listed too: rows that it neither saw
    nor wrote are of others, and this write may hide them.
    """
    before = oldest_running(left.seen) if left else None
    found = connection.execute(
        "WITH s AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS low, "
        "pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS high), since AS MATERIALIZED ("
        "SELECT greatest(age(low::xid), CASE "
        f"WHEN high - $1::int8 < {_FAR} THEN high - $1::int8 END) AS age FROM s) "
        "SELECT (SELECT low::text FROM s), (SELECT high FROM s), count(*), "
        "coalesce(array_agg(DISTINCT xmin::text::int8) FILTER (WHERE age(xmin) BETWEEN "
        f"-{_FAR} AND (SELECT age FROM since)), '{{}}') FROM {name.sql}",
        [before],
    ).fetchone()
    low, high, rows, writers = found or ("0", 0, 0, [])
    young = [full_xid(xid, high) for xid in writers]
    running = ",".join(str(xid) for xid in young if xid >= int(low))
    moved = left is not None and (
        rows != left.rows
        or before is None
        or high - before >= _FAR
        or any(xid != left.xid and not was_seen(xid, left.seen) for xid in young)
    )
    return Look(f"{low}:{running}", rows, moved)


def oldest_running(seen: str) -> int | None:
    """The oldest transaction that was running at a look; None where none is told of."""
    low, separator, writers = seen.partition(":")
    return int(low) if separator and ":" not in writers else None


def was_seen(xid: int, seen: str) -> bool:
    """Whether a `look` saw the rows of a transaction; no look has seen nothing."""
    low = oldest_running(seen)
    if low is None:
        return False
    return xid < low or str(xid) in seen.partition(":")[2].split(",")


def full_xid(xmin: int, newest: int) -> int:
    """A row's 32-bit transaction id with the epoch that it must be of."""
    full = (newest & ~_LOW) | xmin
    return full if full <= newest else full - _LOW - 1


def moment(kind: str, value: Any) -> str:
    """A bound of a window as a constant of the column's type."""
    match kind:
        case "date":
            return f"DATE '{value.isoformat()}'"
        case "timestamp":
            return f"TIMESTAMPTZ '{value.strftime('%Y-%m-%d %H:%M:%S')}+00:00'"
        case _:
            return f"TIMESTAMP '{value.strftime('%Y-%m-%d %H:%M:%S')}'"
