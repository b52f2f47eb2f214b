"""What a table is besides its rows, as the statements that would make it again.

Two tables with the same statements are the same table. They run only when a command has dropped
or altered its table; otherwise indexes, constraints and triggers are never touched.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from setpoint.targets.postgres.names import TableName, literal, quote

if TYPE_CHECKING:
    import psycopg

_TABLE = """
SELECT c.oid::int8, c.relkind::text, c.relpersistence::text, pg_get_userbyid(c.relowner)::text,
       coalesce(array_to_string(c.reloptions, ', '), ''), coalesce(pg_get_partkeydef(c.oid), ''),
       c.relispartition, coalesce(obj_description(c.oid, 'pg_class'), ''),
       c.relrowsecurity, c.relforcerowsecurity
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text,
       a.attgenerated::text, coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       CASE WHEN a.attcollation <> t.typcollation
            THEN format('%I.%I', cn.nspname, co.collname) ELSE '' END
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_CONSTRAINTS = """
SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', c.conrelid::regclass, c.conname,
              pg_get_constraintdef(c.oid))
FROM pg_catalog.pg_constraint c
WHERE c.conrelid = $1::int8::oid AND c.contype IN ('p', 'u', 'x', 'c')
  AND c.conparentid = 0 AND c.conislocal
ORDER BY c.contype DESC, c.conname
"""
# Foreign keys of the table and to it: they can be there only when the rows are.
_FOREIGN = """
SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', c.conrelid::regclass, c.conname,
              pg_get_constraintdef(c.oid)),
       format('ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::regclass, c.conname)
FROM pg_catalog.pg_constraint c
WHERE (c.conrelid = $1::int8::oid OR c.confrelid = $1::int8::oid)
  AND c.contype = 'f' AND c.conparentid = 0 AND c.conislocal
ORDER BY 1
"""
_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i
WHERE i.indrelid = $1::int8::oid
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.conindid = i.indexrelid
                  AND c.conrelid = i.indrelid)
ORDER BY 1
"""
_TRIGGERS = """
SELECT t.tgname::text, pg_get_triggerdef(t.oid), t.tgenabled::text FROM pg_catalog.pg_trigger t
WHERE t.tgrelid = $1::int8::oid AND NOT t.tgisinternal ORDER BY 1
"""
_GRANTS = """
SELECT format('GRANT %s ON TABLE %s TO %s%s', g.privilege_type, c.oid::regclass,
              CASE WHEN g.grantee = 0 THEN 'PUBLIC'
                   ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
              CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_catalog.pg_class c, aclexplode(c.relacl) g
WHERE c.oid = $1::int8::oid AND g.grantee <> c.relowner ORDER BY 1
"""
# The sequences that belong to the table, and those that its defaults draw from.
_SEQUENCES = """
SELECT DISTINCT s.oid::regclass::text, coalesce(a.attname::text, ''), d.deptype::text = 'i',
       format('CREATE SEQUENCE IF NOT EXISTS %s AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s '
              'START WITH %s CACHE %s%s', s.oid::regclass, format_type(q.seqtypid, NULL),
              q.seqincrement, q.seqmin, q.seqmax, q.seqstart, q.seqcache,
              CASE WHEN q.seqcycle THEN ' CYCLE' ELSE '' END)
FROM pg_catalog.pg_class s
JOIN pg_catalog.pg_sequence q ON q.seqrelid = s.oid
LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid
 AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1::int8::oid AND d.deptype IN ('a', 'i')
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE d.objid IS NOT NULL OR EXISTS (
    SELECT FROM pg_catalog.pg_attrdef x JOIN pg_catalog.pg_depend y
      ON y.classid = 'pg_attrdef'::regclass AND y.objid = x.oid
    WHERE x.adrelid = $1::int8::oid AND y.refclassid = 'pg_class'::regclass
      AND y.refobjid = s.oid)
ORDER BY 1
"""
_POLICIES = """
SELECT format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', p.polname, p.polrelid::regclass,
              CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
              CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                            WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
              (SELECT string_agg(CASE WHEN r = 0 THEN 'PUBLIC'
                                      ELSE quote_ident(pg_get_userbyid(r)) END, ', ' ORDER BY r)
               FROM unnest(p.polroles) r),
              coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ''),
              coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ''))
FROM pg_catalog.pg_policy p WHERE p.polrelid = $1::int8::oid ORDER BY 1
"""
_COMMENTS = """
SELECT format('COMMENT ON COLUMN %s.%I IS %L', a.attrelid::regclass, a.attname,
              col_description(a.attrelid, a.attnum))
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped
  AND col_description(a.attrelid, a.attnum) IS NOT NULL ORDER BY a.attnum
"""
_COLUMN_GRANTS = """
SELECT format('GRANT %s (%I) ON TABLE %s TO %s%s', g.privilege_type, a.attname,
              a.attrelid::regclass, CASE WHEN g.grantee = 0 THEN 'PUBLIC'
                                         ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
              CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_catalog.pg_attribute a, aclexplode(a.attacl) g
WHERE a.attrelid = $1::int8::oid AND NOT a.attisdropped ORDER BY 1
"""
_PARTITIONS = """
SELECT t.relid::regclass::text, coalesce(pg_get_expr(c.relpartbound, c.oid), '')
FROM pg_catalog.pg_partition_tree($1::int8::oid::regclass) t
JOIN pg_catalog.pg_class c ON c.oid = t.relid WHERE t.level > 0 ORDER BY 1
"""
_ENABLE = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE"}


@dataclass(frozen=True)
class Column:
    """A column: its type, and whether a row may say its value."""

    name: str
    type: str
    generated: bool
    identity: bool = False
    """Whether only the table itself may give it a value, but for an insert that insists."""


@dataclass(frozen=True)
class Sequence:
    """A sequence that a table draws from; `column` names the one it belongs to, if any."""

    name: str
    column: str
    identity: bool
    create: str


@dataclass(frozen=True)
class Structure:
    """A table without its rows."""

    kind: str
    columns: tuple[Column, ...]
    sequences: tuple[Sequence, ...]
    create: str
    after: tuple[str, ...]
    links: tuple[str, ...]
    """What comes after the rows: foreign keys and triggers."""
    triggers: tuple[tuple[str, str], ...] = ()
    """The triggers of users, with the mark that says when they fire."""
    grants: tuple[str, ...] = field(default=())
    partitions: tuple[tuple[str, str], ...] = ()
    """Its parts, at any depth, each with its bounds."""

    @property
    def can_be_made_again(self) -> bool:
        return self.kind == "r"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Structure:
        return cls(
            kind=data["kind"],
            columns=tuple(Column(**item) for item in data["columns"]),
            sequences=tuple(Sequence(**item) for item in data["sequences"]),
            create=data["create"],
            after=tuple(data["after"]),
            links=tuple(data["links"]),
            triggers=tuple((name, mark) for name, mark in data["triggers"]),
            grants=tuple(data["grants"]),
            partitions=tuple((name, bounds) for name, bounds in data.get("partitions", ())),
        )


def structure_of(connection: psycopg.Connection[Any], name: TableName) -> Structure | None:
    """The table as the catalog describes it; None when there is none."""
    # Names in what the server spells are full ones if the search path is empty.
    connection.execute("SELECT pg_catalog.set_config('search_path', '', true)")
    found = connection.execute(_TABLE, [name.schema, name.table]).fetchone()
    if found is None:
        return None
    oid, kind, persistence, owner, options, parts, is_partition, comment, secured, forced = found
    columns = connection.execute(_COLUMNS, [oid]).fetchall()
    triggers = connection.execute(_TRIGGERS, [oid]).fetchall()
    sequences = tuple(Sequence(*row) for row in connection.execute(_SEQUENCES, [oid]).fetchall())
    numbered = {item.column: _options(item) for item in sequences if item.identity}
    listed = ", ".join(_column(*column, numbered=numbered.get(column[0], "")) for column in columns)
    create = (
        f"CREATE {'UNLOGGED ' if persistence == 'u' else ''}TABLE {name.sql} ({listed})"
        + (f" PARTITION BY {parts}" if parts else "")
        + (f" WITH ({options})" if options else "")
    )
    after = [
        *(
            f"ALTER SEQUENCE {item.name} OWNED BY {name.sql}.{quote(item.column)}"
            for item in sequences
            if item.column and not item.identity
        ),
        *_first(connection, _CONSTRAINTS, oid),
        *_first(connection, _INDEXES, oid),
        f"ALTER TABLE {name.sql} OWNER TO {quote(owner)}",
    ]
    if comment:
        after.append(f"COMMENT ON TABLE {name.sql} IS {literal(comment)}")
    after += _first(connection, _COMMENTS, oid)
    return Structure(
        kind="partition" if is_partition else kind,
        columns=tuple(Column(item[0], item[1], bool(item[4]), item[3] == "a") for item in columns),
        sequences=sequences,
        create=create,
        after=tuple(after),
        links=(
            *_first(connection, _FOREIGN, oid),
            *(definition for _, definition, _ in triggers),
            *(
                f"ALTER TABLE {name.sql} {_ENABLE[mark]} TRIGGER {quote(trigger)}"
                for trigger, _, mark in triggers
                if mark != "O"
            ),
            # Last: who restores rows must be able to see and write all of them.
            *_first(connection, _POLICIES, oid),
            *([f"ALTER TABLE {name.sql} ENABLE ROW LEVEL SECURITY"] if secured else []),
            *([f"ALTER TABLE {name.sql} FORCE ROW LEVEL SECURITY"] if forced else []),
        ),
        triggers=tuple((trigger, mark) for trigger, _, mark in triggers),
        grants=(*_first(connection, _GRANTS, oid), *_first(connection, _COLUMN_GRANTS, oid)),
        partitions=tuple(connection.execute(_PARTITIONS, [oid]).fetchall() if kind == "p" else ()),
    )


def take_back(
    connection: psycopg.Connection[Any], name: TableName, now: Structure, wanted: Structure
) -> None:
    """Remove columns and parts that a command has added; whatever hangs on the table stays.

    What else it has changed is for `make_again`.
    """
    for part, _ in now.partitions:
        if part not in dict(wanted.partitions):
            connection.execute(f"DROP TABLE IF EXISTS {part}")  # one above it may have taken it
    known = {column.name for column in wanted.columns}
    for column in now.columns:
        if column.name not in known:
            connection.execute(f"ALTER TABLE {name.sql} DROP COLUMN {quote(column.name)}")


def make_again(connection: psycopg.Connection[Any], name: TableName, wanted: Structure) -> None:
    """Make the table as it was, empty and without its links; what is there under its name goes."""
    found = connection.execute(_TABLE, [name.schema, name.table]).fetchone()
    if found is not None:
        for _, drop in connection.execute(_FOREIGN, [found[0]]).fetchall():
            connection.execute(drop)
        connection.execute(f"DROP TABLE {name.sql}")
    for item in wanted.sequences:
        if not item.identity:
            connection.execute(item.create)
    for statement in (wanted.create, *wanted.after, *wanted.grants):
        connection.execute(statement)


def triggers_off(name: TableName, structure: Structure) -> list[str]:
    return [
        f"ALTER TABLE {name.sql} DISABLE TRIGGER {quote(trigger)}"
        for trigger, mark in structure.triggers
        if mark != "D"
    ]


def triggers_on(name: TableName, structure: Structure) -> list[str]:
    return [
        f"ALTER TABLE {name.sql} {_ENABLE[mark]} TRIGGER {quote(trigger)}"
        for trigger, mark in structure.triggers
        if mark != "D"
    ]


def _options(sequence: Sequence) -> str:
    """What a sequence of an identity column is called and how it counts."""
    _, increment, rest = sequence.create.partition(" INCREMENT ")
    return f"(SEQUENCE NAME {sequence.name}{increment}{rest})"


def _column(
    name: str,
    type: str,
    required: bool,
    identity: str,
    generated: str,
    value: str,
    collation: str,
    *,
    numbered: str,
) -> str:
    parts = [quote(name), type]
    if collation:
        parts.append(f"COLLATE {collation}")
    if generated:
        parts.append(f"GENERATED ALWAYS AS ({value}) {'VIRTUAL' if generated == 'v' else 'STORED'}")
    elif identity:
        parts.append(
            f"GENERATED {'ALWAYS' if identity == 'a' else 'BY DEFAULT'} AS IDENTITY {numbered}"
        )
    elif value:
        parts.append(f"DEFAULT {value}")
    if required:
        parts.append("NOT NULL")
    return " ".join(parts)


def _first(connection: psycopg.Connection[Any], query: str, oid: int) -> list[str]:
    return [row[0] for row in connection.execute(query, [oid]).fetchall()]
