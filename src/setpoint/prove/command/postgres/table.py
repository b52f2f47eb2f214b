"""A PostgreSQL table that a command writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.errors import PermanentError
from setpoint.model.slice import SliceRule
from setpoint.prove.command.places import Place, Question, Sight, Watching
from setpoint.prove.command.postgres.comparison import compared, surplus
from setpoint.prove.command.postgres.gate import PostgresGate
from setpoint.prove.command.postgres.rows import (
    bring_back,
    fingerprint,
    load_rows,
    sequence_values,
    set_sequences,
    write_rows,
)
from setpoint.prove.command.postgres.structure import (
    Column,
    Structure,
    make_again,
    structure_of,
    take_back,
    triggers_off,
    triggers_on,
)
from setpoint.targets.postgres.names import TableName, parse_name, quote
from setpoint.targets.postgres.server import Server
from setpoint.targets.postgres.slices import slice_sql

if TYPE_CHECKING:
    import psycopg

    from setpoint.model.proof import Difference
    from setpoint.model.window import Window
    from setpoint.spark.session import Sessions

_COPIES = "setpoint_prove_"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_ROWS, _STATE = "rows.copy", "table.json"
# Beyond this the rows are not counted at every look.
_SMALL = 64 << 20
ABSENT = Sight("absent")
_BEFORE, _AFTER, _NEW = (f"pg_temp.setpoint_{word}" for word in ("before", "after", "new"))
# What a restore of this table's rows would do to other tables' rows.
_CASCADES = """
SELECT format('%s of %s', f.conname, f.conrelid::regclass) FROM pg_catalog.pg_constraint f
WHERE f.confrelid = to_regclass($1) AND f.contype = 'f' AND f.confdeltype IN ('c', 'n', 'd')
"""
_RELATIONS = "SELECT oid::regclass::text FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p')"
_KINDS = {"date": "date", "timestamp with time zone": "timestamp"}
_KINDS |= {"timestamp without time zone": "timestamp_ntz", "text": "string"}


@dataclass(frozen=True)
class PostgresTable:
    """A table by its connection and name."""

    name: str
    server: Server
    table: TableName

    @classmethod
    def named(cls, name: str, server: Server, table: str) -> PostgresTable:
        return cls(name, server, parse_name(table))

    @property
    def label(self) -> str:
        return f"postgres:{self.server.name}/{self.address}"

    @property
    def address(self) -> str:
        """The name as SQL takes it, quoted where it has to be."""
        plain = all(_PLAIN.fullmatch(part) for part in (self.table.schema, self.table.table))
        return str(self.table) if plain else self.table.sql

    @property
    def identity(self) -> str:
        return self.label

    def refusal(self, beside: Sequence[Place]) -> str:
        with self.server.session(f"looking at {self.table}") as connection:
            found = structure_of(connection, self.table)
            if found is not None and found.kind not in ("r", "p"):
                return f"{self.table} is no table of its own, but a view or a part of one"
            cascades = connection.execute(_CASCADES, [self.table.sql]).fetchall()
        if cascades:
            return f"removing rows of {self.table} changes rows elsewhere: {cascades[0][0]}"
        return ""

    def keep(self, folder: Path) -> None:
        """Rows to a file; the structure and the sequences beside them."""
        folder.mkdir(parents=True)
        with self._stable(f"keeping {self.table}") as connection:
            found = structure_of(connection, self.table)
            state: dict[str, Any] = {"structure": None}
            if found is not None:
                write_rows(connection, self.table.sql, found.columns, folder / _ROWS)
                rows, seal = fingerprint(connection, self.table.sql, found.columns)
                state = {
                    "structure": found.as_dict(),
                    "rows": rows,
                    "fingerprint": seal,
                    "sequences": sequence_values(connection, found.sequences),
                }
                if found.kind == "p":
                    state["relations"] = [r[0] for r in connection.execute(_RELATIONS).fetchall()]
        (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")

    def remember(self, folder: Path) -> None:
        self.keep(folder)

    def restore(self, folder: Path) -> None:
        """Rows, structure and sequences, in one transaction."""
        state, wanted = self._kept(folder)
        with self.server.session(f"restoring {self.table}") as connection:
            if wanted is None:
                # What hangs on it, a view for one, came with it or after it.
                connection.execute(f"DROP TABLE IF EXISTS {self.table.sql} CASCADE")
                return
            now = structure_of(connection, self.table)
            if now is not None:
                # Writers that were killed may still be on their way; readers are not stopped.
                connection.execute(f"LOCK TABLE {self.table.sql} IN SHARE ROW EXCLUSIVE MODE")
            if now is not None and now != wanted:
                now = self._taken_back(connection, now, wanted, state)
            if now != wanted:
                if not wanted.can_be_made_again:
                    raise self._lasting("its partitions or columns were changed")
                make_again(connection, self.table, wanted)
                bring_back(connection, self.table, wanted.columns, folder / _ROWS)
                for statement in wanted.links:
                    connection.execute(statement)
                if structure_of(connection, self.table) != wanted:
                    raise self._lasting("it could not be made again as it was")
            elif self._seal(connection, wanted) != state["fingerprint"]:
                for statement in triggers_off(self.table, wanted):
                    connection.execute(statement)
                bring_back(connection, self.table, wanted.columns, folder / _ROWS)
                for statement in triggers_on(self.table, wanted):
                    connection.execute(statement)
            if self._seal(connection, wanted) != state["fingerprint"]:
                raise self._lasting("its rows are not what they were")
            set_sequences(
                connection, {name: tuple(value) for name, value in state["sequences"].items()}
            )

    def reset(self, folder: Path) -> None:
        self.restore(folder)

    def elsewhere(self, folder: Path) -> str:
        return ""

    @property
    def is_copy(self) -> bool:
        return self.table.schema.startswith(_COPIES)

    def copy_in(self, folder: Path) -> PostgresTable:
        """The table in a schema of the proof's own."""
        return replace(self, table=TableName(f"{_COPIES}{folder.name}"[:63], self.table.table))

    def fill(self, original: Place) -> None:
        source = parse_name(original.address)
        with self.server.session(f"copying {source}") as connection:
            connection.execute(f"CREATE SCHEMA {quote(self.table.schema)}")
            found = structure_of(connection, source)
            if found is not None:
                _copy_table(connection, source, self.table, found)

    def left_out(self) -> str:
        """Triggers: what they call may write to tables that are no copies."""
        with self.server.session(f"looking at {self.table}") as connection:
            found = structure_of(connection, self.table)
        names = [name for name, mark in found.triggers if mark != "D"] if found else []
        return f"its triggers ({', '.join(names)}), which did not fire" if names else ""

    def discard(self) -> None:
        if self.is_copy:
            with self.server.session(f"removing the copy {self.table}") as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {quote(self.table.schema)} CASCADE")

    @contextmanager
    def watching(self, *, held: bool = True) -> Iterator[Watching]:
        """Looks through one connection; a table that exists has a gate."""
        with ExitStack() as stack:
            looking = stack.enter_context(self.server.open(f"watching {self.table}"))
            eyes, gate = _Eyes(looking, self.table), None
            if held and eyes.last != ABSENT:
                gate = stack.enter_context(PostgresGate.opened(self.server, self.table, looking))
            yield Watching(eyes.look, gate)

    def exists(self, folder: Path) -> bool:
        return self._kept(folder)[1] is not None

    def rows(self, folder: Path, sessions: Sessions) -> int:
        return int(self._kept(folder)[0].get("rows", 0))

    def rows_now(self, sessions: Sessions) -> int:
        with self._stable(f"counting the rows of {self.table}") as connection:
            if structure_of(connection, self.table) is None:
                return 0
            found = connection.execute(f"SELECT count(*) FROM {self.table.sql}").fetchone()
            return int(found[0]) if found else 0

    def difference(self, folder: Path, question: Question, sessions: Sessions) -> Difference | None:
        state, wanted = self._kept(folder)
        condition = "true"
        if question.window is not None and wanted is not None:
            column = next(item for item in wanted.columns if item.name == question.time)
            inside = _slice(column, question.window)
            condition = f"({inside}) IS NOT TRUE" if question.outside else inside
        with self._stable(f"comparing {self.table}") as connection:
            found = structure_of(connection, self.table)
            if wanted is not None and found is not None and wanted.columns == found.columns:
                _, seal = fingerprint(connection, self.table.sql, found.columns)
                if seal == state["fingerprint"]:
                    return None
            return compared(
                connection, self.table, wanted, found, folder / _ROWS, question, condition
            )

    def time_column(
        self, before: Path, after: Path, named: str, window: Window, sessions: Sessions
    ) -> str:
        _, wanted = self._kept(after)
        columns = [
            column
            for column in (wanted.columns if wanted is not None else ())
            if column.type in _KINDS
            and named in ("", column.name)
            and not (column.type == "date" and window.grain.within_day)
        ]
        if wanted is None or not columns:
            return ""
        _, was = self._kept(before)
        counts = ", ".join(f"count(*) FILTER (WHERE {_slice(item, window)})" for item in columns)
        with self._stable(f"looking at the times of {self.table}") as connection:
            load_rows(connection, _AFTER, wanted.columns, after / _ROWS)
            places = [_AFTER]
            if was is not None and was.columns == wanted.columns:
                load_rows(connection, _BEFORE, was.columns, before / _ROWS)
                surplus(connection, _NEW, _AFTER, _BEFORE, wanted.columns)
                places.insert(0, _NEW)
            for place in places:
                found = connection.execute(f"SELECT {counts} FROM {place}").fetchone()
                if found is not None and any(found):
                    most: int = found.index(max(found))
                    return columns[most].name
        return columns[0].name if named else ""

    def _taken_back(
        self,
        connection: psycopg.Connection[Any],
        now: Structure,
        wanted: Structure,
        state: dict[str, Any],
    ) -> Structure | None:
        """The structure after what was added is gone again; as it is, if that cannot be done."""
        import psycopg

        known = dict(wanted.partitions)
        attached = {part for part, _ in now.partitions if part not in known}
        if attached & set(state.get("relations", ())):
            raise self._lasting("a table that was there before has become a part of it")
        with suppress(psycopg.Error), connection.transaction():
            take_back(connection, self.table, now, wanted)
        return structure_of(connection, self.table)

    def _seal(self, connection: psycopg.Connection[Any], structure: Structure) -> str:
        return fingerprint(connection, self.table.sql, structure.columns)[1]

    @contextmanager
    def _stable(self, doing: str) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that sees one state of the database."""
        begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
        with self.server.session(doing, before=begin) as connection:
            yield connection

    def _kept(self, folder: Path) -> tuple[dict[str, Any], Structure | None]:
        state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        found = state["structure"]
        return state, Structure.from_dict(found) if found else None

    def _lasting(self, why: str) -> PermanentError:
        return PermanentError(
            "SP-V23",
            f"{self.label} could not be restored: {why}.",
            why="The command has changed more than rows.",
            state="The table is as the command left it; what it was is kept.",
            next="Make the table as it was.",
        )


class _Eyes:
    """Looks that never wait long: what somebody holds shut looks as it did before."""

    def __init__(self, connection: psycopg.Connection[Any], table: TableName) -> None:
        self._connection, self._table = connection, table
        self.last = sight_of(connection, table)

    def look(self) -> Sight:
        import psycopg

        with suppress(psycopg.errors.LockNotAvailable), self._connection.transaction():
            self._connection.execute("SET LOCAL lock_timeout = '500ms'")
            self.last = sight_of(self._connection, self._table)
        return self.last


def sight_of(connection: psycopg.Connection[Any], table: TableName) -> Sight:
    """One look at a table through an open connection."""
    found = connection.execute("SELECT to_regclass($1)::oid::int8", [table.sql]).fetchone()
    if found is None or found[0] is None:
        return ABSENT
    size = connection.execute("SELECT pg_relation_size($1::int8::oid::regclass)", found).fetchone()
    beneath = f"{found[0]}:{size[0] if size else 0}"
    if size and size[0] > _SMALL:
        return Sight(beneath, beneath, exact=False)
    # Where a row lies and who wrote it count as well: the same row written again is a write. The
    # star is never taken for a column, as the bare name of an alias is.
    text = "ROW(seen.*)::text || seen.xmin::text || seen.ctid::text"
    counted = connection.execute(
        f"SELECT count(*), coalesce(sum(('x' || substr(md5({text}), 1, 8))::bit(32)::bigint), 0) "
        f"FROM {table.sql} seen"
    ).fetchone()
    return Sight(f"{found[0]}:{counted}", beneath)


def _slice(column: Column, window: Window) -> str:
    rule = SliceRule.of(column.name, _KINDS[column.type], window.grain, window.timezone)
    return slice_sql(rule, window)


def _copy_table(
    connection: psycopg.Connection[Any], source: TableName, copy: TableName, found: Structure
) -> None:
    connection.execute(f"CREATE TABLE {copy.sql} (LIKE {source.sql} INCLUDING ALL)")
    names = ", ".join(quote(column.name) for column in found.columns if not column.generated)
    connection.execute(
        f"INSERT INTO {copy.sql} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {source.sql}"
    )
    for item in found.sequences:
        if item.identity:
            connection.execute(
                "SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence($1, $2), last_value, "
                f"is_called) FROM {item.name}",
                [copy.sql, item.column],
            )
        elif item.column:
            own = f"{quote(copy.schema)}.{quote(f'{copy.table}_{item.column}_seq'[:63])}"
            column = quote(item.column)
            connection.execute(f"CREATE SEQUENCE {own} OWNED BY {copy.sql}.{column}")
            connection.execute(
                f"SELECT pg_catalog.setval('{own}'::regclass, last_value, is_called) "
                f"FROM {item.name}"
            )
            connection.execute(
                f"ALTER TABLE {copy.sql} ALTER COLUMN {column} "
                f"SET DEFAULT pg_catalog.nextval('{own}'::regclass)"
            )
