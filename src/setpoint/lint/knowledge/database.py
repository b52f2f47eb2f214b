"""DB-API, SQLAlchemy, hooks and clients: connections, statements, commits."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from setpoint.lint.interpret.call import Call, label_of
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.elsewhere import named_for_it
from setpoint.lint.knowledge.statements import looks_like_sql, run_sql, table_target
from setpoint.lint.model import Mode, Target
from setpoint.lint.texts import braces
from setpoint.lint.values import Connection, Value, text_value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_CONNECT = re.compile(r"(?:^|\.)(?:connect|raw_connection|get_conn|get_connection)$")
_AUTOCOMMIT = re.compile(r"snowflake|duckdb|trino|presto|databricks|clickhouse|hive", re.IGNORECASE)
_EXECUTE = vocabulary(
    "execute executemany executescript exec_driver_sql",
)
_BATCH = frozenset(["execute_values", "execute_batch"])
_WRAPPERS = vocabulary(
    "text SQL sql Composed dedent cleandoc Literal Identifier str",
)
_RENDERS = re.compile(r"^(?:render|fill|format_sql|template)", re.IGNORECASE)
_TABLE = "sqlalchemy.Table()"
_SESSION = re.compile(r"(?:^|[._])session$", re.IGNORECASE)
_MADE = re.compile(r"(?:\w+\.)*([A-Z]\w*)\(")
_EMPTIES = re.compile(r"==|\bis_?\(|in_\(|between\(|>|filter_by\(")
_FETCHES = vocabulary("fetchone fetchall fetchmany scalar first scalar_one")
_ALL_ROWS = frozenset(["list", "tuple", "sorted", "iter"])
_HOOK_READS = frozenset(["get_first", "get_records", "fetchall_query"])


def model(machine: Machine, call: Call) -> Value | None:
    name, receiver = call.name, call.receiver
    if call.method == "format" and receiver is not None and receiver.parts is not None:
        return text_value(braces(receiver.parts, call.kwargs, call.args))
    if _RENDERS.search(name) and call.args and call.args[0].parts is not None:
        return call.args[0]
    if name in _WRAPPERS and len(call.args) == 1 and call.args[0].parts is not None:
        return call.args[0]
    first = call.args[0].thing if len(call.args) == 1 else None
    if call.ref in _ALL_ROWS and isinstance(first, Connection):
        return _fetched(first, "fetchall")
    if call.ref.endswith("create_engine"):
        machine.unique += 1
        return Value(
            thing=Connection(f"engine{machine.unique}", autocommit=True),
            ref="engine()",
            label="engine",
        )
    if name == "Table" and len(call.args) > 1 and call.args[0].text:
        return Value(ref=_TABLE, label=call.args[0].text)
    if _CONNECT.search(call.ref or f".{name}") and name != "get_connection":
        return _connect(machine, call)
    if call.method == "begin" and receiver is not None:
        return Value(thing=machine.connection(receiver), ref="connection()")
    if call.method == "cursor" and receiver is not None:
        return Value(thing=machine.connection(receiver), ref="cursor()", label=receiver.label)
    if call.method == "commit" and receiver is not None and not call.args:
        connection = machine.connection(receiver)
        connection.transaction += 1
        if not isinstance(receiver.thing, Connection):
            # Whose commit it is is not known: it ends what every nameless connection began.
            for other in machine.connections.values():
                other.transaction += other is not connection
        return Value(const=None)
    if name == "set_session" and receiver is not None:
        flag = call.kwargs.get("autocommit")
        machine.connection(receiver).autocommit = flag is not None and flag.const is True
        return Value(const=None)
    if call.method in _EXECUTE and receiver is not None and call.args:
        return _execute(machine, call, receiver)
    if name in _BATCH and len(call.args) >= 2:
        connection = machine.connection(call.args[0])
        rows = call.args[2] if len(call.args) > 2 else call.kwargs.get("argslist")
        run_sql(machine, call.args[1], call.place, connection, params=rows, api=name)
        return Value(const=None)
    if receiver is not None:
        known = _methods(machine, call, receiver)
        if known is not None:
            return known
    return named_for_it(machine, call)


def _methods(machine: Machine, call: Call, receiver: Value) -> Value | None:
    name = call.name
    if name == "insert" and receiver.ref == _TABLE:
        return Value(ref=f"{_TABLE}.insert()", label=f"{receiver.label}.insert()")
    if name == "values" and receiver.ref.endswith("insert()"):
        given = call.args[0].fields if call.args and call.args[0].fields is not None else None
        return Value(
            ref=f"{receiver.ref}.values()", label=receiver.label, fields=dict(given or call.kwargs)
        )
    if (
        name in _FETCHES
        and receiver.frame is None
        and (isinstance(receiver.thing, Connection) or receiver.label in machine.connections)
    ):
        return _fetched(machine.connection(receiver), name)
    if name in ("copy_from", "copy_expert", "copy"):
        return _copy(machine, call, receiver)
    if name == "run" and call.argument(0, "sql") is not None:
        sql = call.argument(0, "sql")
        texts = sql.items if sql is not None and sql.items is not None else [sql]
        if any(looks_like_sql(text) for text in texts):
            # A hook commits when its call ends; a list of statements is one transaction.
            inner = Connection(f"run@{call.place.line}.{machine.order}")
            flag = call.kwargs.get("autocommit")
            inner.autocommit = flag is not None and flag.const is True
            for text in texts:
                run_sql(
                    machine,
                    text,
                    call.place,
                    inner,
                    params=call.kwargs.get("parameters"),
                    api="run",
                )
            return Value(const=None)
        return None
    if name in _HOOK_READS and call.args and looks_like_sql(call.args[0]):
        frame = run_sql(
            machine, call.args[0], call.place, None, params=call.kwargs.get("parameters"), own=True
        )
        return Value(taints=frame.everything() if frame is not None else frozenset())
    numbered = len(call.args) > 1 and isinstance(call.args[1].const, int)  # rows of a worksheet
    if name == "insert_rows" and ("table" in call.kwargs or len(call.args) >= 2) and not numbered:
        target = call.argument(0, "table") or Value()
        replaces = call.kwargs.get("replace")
        mode: Mode = "merge" if replaces is not None and replaces.const is True else "append"
        _rows(machine, call, table_target(target), mode, call.argument(1, "rows"), None)
        return Value(const=None)
    if (
        name
        in ("insert_many", "insert_one", "bulk_insert_mappings", "bulk_save_objects", "add_all")
        and call.args
    ) or _adds(machine, call, receiver):
        rows = call.args[-1]
        label = receiver.label if name.startswith("insert") else _mapped(call.args[0])
        connection = None if name.startswith("insert") else machine.connection(receiver)
        _rows(machine, call, Target("{" + label.lower() + "}"), "append", rows, connection)
        return Value(ref="inserted()")
    if name == "merge" and len(call.args) == 1 and _SESSION.search(receiver.label):
        known = Target("{" + _mapped(call.args[0]).lower() + "}")
        _rows(machine, call, known, "merge", call.args[0], machine.connection(receiver))
        return call.args[0]
    if name == "delete" and not call.args and _emptied(machine, call.node.func, call):
        return Value(ref="deleted()")
    if name in ("update_one", "update_many", "find_one_and_update") and len(call.args) > 1:
        fields = call.args[1].fields or {}
        if "$inc" in fields or "$push" in fields:
            place = (call.args[1].places or {}).get("$inc" if "$inc" in fields else "$push")
            grown = Target("{" + receiver.label.lower() + "}")
            machine.wrote(place or call.place, grown, "append", name, accumulating=True)
            return Value(const=None)
    if name in ("bulk_load", "load_table_file"):
        _rows(
            machine,
            call,
            table_target(call.args[0] if call.args else Value()),
            "append",
            None,
            None,
        )
        return Value(const=None)
    return None


def _fetched(connection: Connection, name: str) -> Value:
    """What a cursor gives: rows, whose cells stay apart where the clock is one of them."""
    read, row = connection.last_read, connection.row()
    if not connection.last_row:
        return Value(taints=read, label=name)
    if name in ("fetchall", "fetchmany"):
        return Value(items=[row], taints=read, label=name)
    return row if name != "scalar" else Value(taints=connection.last_row[0] | read)


def _adds(machine: Machine, call: Call, receiver: Value) -> bool:
    """Objects that a loop puts into a session; a single one is more often asked for."""
    return (
        call.name == "add"
        and len(call.args) == 1
        and bool(_SESSION.search(receiver.label) or _SESSION.search(label_of(call.node.func)[:-4]))
        and any(frame.loops for frame in machine.stack)
    )


def _mapped(value: Value) -> str:
    """The class of the objects that a session is given, or else what they are called."""
    first = value.items[0] if value.items else value
    made = _MADE.match(first.label) if first.ref.endswith("()") else None
    return made[1] if made else value.label


def _emptied(machine: Machine, chain: ast.expr, call: Call) -> bool:
    """`session.query(Thing).filter(…).delete()`, `session.execute(delete(Thing).where(…))`."""
    words = ast.unparse(chain)
    session = call.receiver
    while isinstance(chain, ast.Attribute | ast.Call):
        inner = chain.func if isinstance(chain, ast.Call) else chain.value
        if isinstance(chain, ast.Call) and len(chain.args) == 1:
            if isinstance(inner, ast.Attribute) and inner.attr == "query":
                session = machine.value(inner.value)
                break
            if isinstance(inner, ast.Name) and inner.id == "delete":
                break
        chain = inner
    else:
        return False
    if not isinstance(chain, ast.Call) or not isinstance(chain.args[0], ast.Name):
        return False
    if re.search(r"filter|where", words) and not _EMPTIES.search(words):
        return False  # what is too old goes
    target = Target("{" + chain.args[0].id.lower() + "}")
    _rows(machine, call, target, "delete", None, machine.connection(session))
    return True


def _rows(
    machine: Machine,
    call: Call,
    target: Target,
    mode: Mode,
    rows: Value | None,
    connection: Connection | None,
) -> None:
    frame = as_frame(rows) if rows is not None else None
    machine.wrote(
        call.place,
        target,
        mode,
        call.name,
        columns=frame.columns if frame else {},
        rows=frame.rows if frame else frozenset(),
        transaction=machine.transaction(connection) if connection is not None else None,
    )


def _connect(machine: Machine, call: Call) -> Value | None:
    ref = call.ref
    receiver = call.receiver
    known = (
        receiver is not None
        and (
            isinstance(receiver.thing, Connection)
            or "ngine" in receiver.label
            or "ook" in receiver.label
            or "ook" in receiver.ref
        )
    ) or re.search(
        r"^(?:psycopg2?|pymysql|MySQLdb|mysql|sqlite3|pyodbc|cx_Oracle|oracledb|snowflake|redshift_connector|duckdb|trino|asyncpg|aiomysql|pg8000|clickhouse\w*|vertica\w*|pymssql|databricks|hive|impala)\b",
        ref,
    )
    if not known:
        return None
    flag = call.kwargs.get("autocommit")
    machine.unique += 1
    automatic = bool(_AUTOCOMMIT.search(ref)) if flag is None else flag.const is True
    return Value(
        thing=Connection(f"connection{machine.unique}", autocommit=automatic),
        ref="connection()",
        label="connection",
    )


def _execute(machine: Machine, call: Call, receiver: Value) -> Value | None:
    connection = machine.connection(receiver)
    sql = call.args[0]
    if sql.parts is None:
        inserted = re.search(r"(?:^|\.)insert\(\)|\.insert\(\)\.values\(\)", sql.ref)
        if inserted and "on_conflict" not in sql.ref and "on_duplicate" not in sql.ref:
            rows = call.args[1] if len(call.args) > 1 else Value(fields=sql.fields)
            _rows(
                machine,
                call,
                Target(_inserted(sql)),
                "append",
                rows,
                connection,
            )
            return Value(ref="executed()")
        if _emptied(machine, call.node.args[0] if call.node.args else call.node, call):
            return Value(ref="executed()")
        return None
    params = call.argument(1, "parameters", "params", "vars")
    if call.method == "execute" and connection.autocommit and receiver.ref == "engine()":
        frame = run_sql(machine, sql, call.place, None, params=params, own=True)
    else:
        api = "executemany" if call.method == "executemany" else "execute"
        frame = run_sql(machine, sql, call.place, connection, params=params, api=api)
    if call.method == "executescript":
        connection.transaction += 1
    taints = frame.everything() if frame is not None else frozenset()
    return Value(thing=connection, taints=taints, ref="cursor()", label=receiver.label)


def _inserted(statement: Value) -> str:
    """The table of `insert(table)` or `table.insert()`."""
    label = statement.label.lower()
    if statement.ref.startswith(_TABLE):
        return label.split(".insert")[0]
    inner = re.search(r"insert\(([^()]*)\)", label)
    name = inner[1] if inner and inner[1] else label.split(".insert")[0]
    return "{" + name.strip("()") + "}"


def _copy(machine: Machine, call: Call, receiver: Value) -> Value | None:
    connection = machine.connection(receiver)
    if call.name in ("copy_expert", "copy"):
        sql = call.argument(0, "sql", "statement")
        if sql is not None and looks_like_sql(sql):
            if re.search(r"\bto\s+stdout\b", sql.text or "", re.IGNORECASE):
                return Value(const=None)
            run_sql(machine, sql, call.place, connection, api=call.name)
            return Value(ref="copied()")
        return None
    table = call.argument(1, "table")
    if table is None:
        return None
    machine.wrote(
        call.place,
        table_target(table),
        "append",
        call.name,
        transaction=machine.transaction(connection),
    )
    return Value(const=None)
