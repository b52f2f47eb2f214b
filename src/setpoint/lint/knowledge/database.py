"""DB-API, SQLAlchemy, hooks and clients: connections, statements, commits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call, place_of
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.statements import looks_like_sql, run_sql, table_target
from setpoint.lint.model import Mode, Target
from setpoint.lint.texts import braces, shown
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
_RUNS = re.compile(r"sql|query|execute|exec_|run_|submit|statement")
_MARKS = re.compile(
    r"^(?:set|save|update|write|store|put|persist|advance|record)_(?:\w+_)?(?:high_?water_?mark|hwm"
    r"|water_?mark|checkpoint|bookmark|last_(?:run|processed|loaded|sync\w*|id|timestamp|offset|date))"
)
_WRITES = re.compile(r"write|save|load|upload|insert|store|export|persist|sink|to_|salvar|guardar")
_FIRST = re.compile(r"^\s*(?:truncate|delete\s+from)\b", re.IGNORECASE)
_PLACES = re.compile(
    r"path|key|file|prefix|partition|dest|target|location|uri|folder|particao", re.IGNORECASE
)
_VERB = re.compile(
    r"\s*(?:--[^\n]*\s*)*(?:insert\s|delete\s+from|truncate\s|merge\s+into|update\s+\S+\s+set|create\s+(?:or\s+replace\s+)?(?:temp\w*\s+)?table|drop\s+table|select\s|with\s+\w+\s+as|copy\s)",
    re.IGNORECASE,
)
_FETCHES = vocabulary("fetchone fetchall fetchmany scalar first scalar_one")
_HOOK_READS = frozenset(["get_first", "get_records", "fetchall_query"])


def model(machine: Machine, call: Call) -> Value | None:
    name, receiver = call.name, call.receiver
    if call.method == "format" and receiver is not None and receiver.parts is not None:
        return text_value(braces(receiver.parts, call.kwargs, call.args))
    if _RENDERS.search(name) and call.args and call.args[0].parts is not None:
        return call.args[0]
    if name in _WRAPPERS and len(call.args) == 1 and call.args[0].parts is not None:
        return call.args[0]
    if call.ref.endswith("create_engine"):
        machine.unique += 1
        return Value(
            thing=Connection(f"engine{machine.unique}", autocommit=True),
            ref="engine()",
            label="engine",
        )
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
    return _helper(machine, call)


def _helper(machine: Machine, call: Call) -> Value | None:
    """Functions of other modules that say by their name that they run SQL or write rows."""
    name = call.name.lower()
    if _MARKS.search(name) and (call.args or call.kwargs):
        values = [*call.args, *call.kwargs.values()]
        target = Target("{" + call.name + "}", "state")
        machine.wrote(
            call.place, target, "put", call.name, columns={"value": values[-1].everything()}
        )
        return Value(const=None)
    if _RUNS.search(name) and not machine.streaming():
        for value in (*call.args, *call.kwargs.values()):
            if value.parts is not None and _VERB.match(shown(value.parts)[:2000]):
                frame = run_sql(machine, value, call.place, None, own=True, api=call.name)
                return Value(thing=frame, ref="sql()") if frame is not None else Value(ref="sql()")
    if _WRITES.search(name):
        told = _told(machine, call)
        if told is not None:
            return told
        _placed(machine, call)
    return None


def _told(machine: Machine, call: Call) -> Value | None:
    """Is a writing function told to append, and not to remove the old rows first?"""
    if any(_FIRST.search(value.text or "") for value in call.kwargs.values()):
        return None
    for index, value in enumerate(call.args):
        if (value.text or "").lower() == "append" and len(call.args) > 1:
            return _told_to_append(machine, call, place_of(call.node.args[index]))
    for key in ("mode", "write_mode", "save_mode", "if_exists", "write_disposition"):
        if (call.kwargs[key].text if key in call.kwargs else "") in ("append", "WRITE_APPEND"):
            return _told_to_append(machine, call, call.keyword_place(key) or call.place)
    return None


def _placed(machine: Machine, call: Call) -> None:
    """A writing function of another module: where it writes may come from the clock."""
    named = [*((value.label, value) for value in call.args), *call.kwargs.items()]
    for name, value in named:
        drawn = [
            taint for taint in value.taints if taint.kind in ("clock", "random") and not taint.via
        ]
        if drawn and _PLACES.search(name) and value.frame is None:
            target = path_target(value)
            machine.wrote(call.place, target, "put", call.name, location=value.everything())


def _told_to_append(machine: Machine, call: Call, place: Place) -> Value:
    frames = [value for value in (*call.args, *call.kwargs.values()) if value.frame is not None]
    names = [
        value
        for value in (*call.args, *call.kwargs.values())
        if value.frame is None
        and (value.parts is not None or value.ref)
        and (value.text or "").lower() not in ("append", "write_append")
    ]
    names.sort(key=lambda value: value.parts is None)
    frame = frames[0].frame if frames else None
    machine.wrote(
        place,
        table_target(names[0] if names else Value()),
        "append",
        call.name,
        columns=frame.columns if frame else {},
        rows=frame.rows if frame else frozenset(),
    )
    return Value(const=None)


def _methods(machine: Machine, call: Call, receiver: Value) -> Value | None:
    name = call.name
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
        return Value(taints=machine.connection(receiver).last_read, label=name)
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
    if name == "insert_rows" and ("table" in call.kwargs or len(call.args) >= 2):
        target = call.argument(0, "table") or Value()
        replaces = call.kwargs.get("replace")
        mode: Mode = "merge" if replaces is not None and replaces.const is True else "append"
        _rows(machine, call, table_target(target), mode, call.argument(1, "rows"), None)
        return Value(const=None)
    if (
        name
        in ("insert_many", "insert_one", "bulk_insert_mappings", "bulk_save_objects", "add_all")
        and call.args
    ):
        rows = call.args[-1]
        label = receiver.label if name.startswith("insert") else call.args[0].label
        connection = None if name.startswith("insert") else machine.connection(receiver)
        _rows(machine, call, Target("{" + label.lower() + "}"), "append", rows, connection)
        return Value(ref="inserted()")
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
        return None
    params = call.argument(1, "parameters", "params", "vars")
    if call.method == "execute" and connection.autocommit and receiver.ref == "engine()":
        frame = run_sql(machine, sql, call.place, None, params=params, own=True)
    else:
        frame = run_sql(machine, sql, call.place, connection, params=params)
    if call.method == "executescript":
        connection.transaction += 1
    taints = frame.everything() if frame is not None else frozenset()
    return Value(thing=connection, taints=taints, ref="cursor()", label=receiver.label)


def _inserted(statement: Value) -> str:
    """The table of `insert(table)` or `table.insert()`."""
    label = statement.label.lower()
    inner = re.search(r"insert\(([^()]*)\)", label)
    name = inner[1] if inner and inner[1] else label.split(".insert")[0]
    return "{" + name.strip("()") + "}"


def _copy(machine: Machine, call: Call, receiver: Value) -> Value | None:
    connection = machine.connection(receiver)
    if call.name in ("copy_expert", "copy"):
        if call.args and looks_like_sql(call.args[0]):
            text = call.args[0].text or ""
            if re.search(r"\bto\s+stdout\b", text, re.IGNORECASE):
                return Value(const=None)
            run_sql(machine, call.args[0], call.place, connection, api=call.name)
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
