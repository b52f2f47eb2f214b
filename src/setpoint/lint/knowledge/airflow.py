"""Airflow: DAGs with their retries and schedules, operators as tasks, variables as state."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.statements import looks_like_sql, run_sql, table_target
from setpoint.lint.model import ARGUMENTS, Mode, Target, Trace
from setpoint.lint.texts import Rendered
from setpoint.lint.values import Connection, Frame, Function, Taint, Value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_DAG = re.compile(r"(?:^|\.)DAG$|(?:^|\.)dag$")
_SQL_ARGUMENTS = ("sql", "sqls", "query", "hql", "statement", "queries")
_MAILS = re.compile(
    r"Email|Slack|Teams|Discord|Telegram|Notif|SnsPublish|PagerDuty|Opsgenie", re.IGNORECASE
)
_AUTOCOMMIT = re.compile(
    r"Snowflake|BigQuery|Databricks|Trino|Presto|Athena|Hive|Spark", re.IGNORECASE
)
_ARGUMENTS = vocabulary(
    "application_args arguments job_args script_args bash_command env_vars notebook_params",
    "python_params jar_params conf parameters job_parameters",
)
# What a callable of another module is given, by name or in order.
_GIVEN = ("op_kwargs", "op_args", "templates_dict")
_SAID = re.compile(r"text|message|msg|subject|title|body|content|caption|start_date", re.IGNORECASE)
_PLACES = re.compile(
    r"(?:^|_)(?:path|key|keys|file|filename|prefix|partition|uri|location|object|objects|folder)(?:_|$)"
    r"|object_name|blob_name|destination|filepath",
    re.IGNORECASE,
)
_SHELL_DATE = re.compile(r"\$\(\s*date\b[^)]*\)|`\s*date\b[^`]*`")
_DIALECTS = {
    "BigQuery": "bigquery",
    "Snowflake": "snowflake",
    "MySql": "mysql",
    "MsSql": "tsql",
    "Redshift": "redshift",
    "Databricks": "spark",
    "Hive": "hive",
    "Athena": "trino",
}


def model(machine: Machine, call: Call) -> Value | None:
    name = call.name
    if _DAG.search(call.ref) and (call.kwargs or call.args) and _is_dag(call):
        _dag(machine, call)
        return Value(ref="DAG()", label="dag")
    if name == "set" and call.ref.endswith("Variable.set") and call.args:
        value = call.argument(1, "value") or Value()
        target = Target(path_target(call.args[0]).key, "state")
        machine.wrote(
            call.place, target, "put", "Variable.set", columns={"value": value.everything()}
        )
        return Value(const=None)
    if name == "xcom_pull":
        return _handed(machine, call)
    if name == "xcom_push" and call.argument(1, "value") is not None:
        machine.handed[(call.argument(0, "key") or Value()).text or ""] = (
            call.argument(1, "value") or Value()
        )
        return Value(const=None)
    mapped = _mapped(call)
    if isinstance(mapped, Value):
        return mapped
    call = mapped or call
    name = call.name
    if not (name.endswith("Operator") or name in ("GenericTransfer",)) or not (
        call.kwargs or call.args
    ):
        return None
    machine.program.orchestrated = True
    callee = call.kwargs.get("python_callable")
    if callee is not None and isinstance(callee.thing, Function):
        given = call.kwargs.get("op_kwargs")
        values = dict((given.fields if given is not None else None) or {})
        result = machine.task(callee.thing, call, values)
        machine.handed[(call.kwargs.get("task_id") or Value()).text or ""] = result
        return Value(ref=f"{name}()", label=name)
    _operator(machine, call, name)
    return Value(ref=f"{name}()", label=name)


def _mapped(call: Call) -> Call | Value | None:
    """`Operator.partial(...).expand(...)`: an operator whose arguments come in two parts."""
    receiver = call.receiver
    if receiver is None:
        return None
    if call.method == "partial" and receiver.ref.endswith("Operator"):
        return Value(ref="partial()", label=receiver.ref.rsplit(".", 1)[-1], fields=call.kwargs)
    if call.method == "expand" and receiver.ref == "partial()":
        whole = {**(receiver.fields or {}), **call.kwargs}
        return replace(call, callee=Value(ref=receiver.label), kwargs=whole, method="")
    return None


def _handed(machine: Machine, call: Call) -> Value:
    """What another task has returned or pushed."""
    names = [call.kwargs.get("key"), call.argument(0, "task_ids")]
    for value in names:
        for item in value.items if value is not None and value.items is not None else [value]:
            found = machine.handed.get((item.text or "-") if item is not None else "-")
            if found is not None:
                return found
    return Value(label="xcom")


def _is_dag(call: Call) -> bool:
    known = (
        "dag_id",
        "default_args",
        "schedule",
        "schedule_interval",
        "start_date",
        "catchup",
        "tags",
        "description",
    )
    return any(name in call.kwargs for name in known)


def _dag(machine: Machine, call: Call) -> None:
    program = machine.program
    program.orchestrated = True
    defaults = call.kwargs.get("default_args")
    retries = ((defaults.fields if defaults is not None else None) or {}).get("retries")
    if (
        retries is not None
        and isinstance(retries.const, int)
        and retries.const > 0
        and defaults is not None
    ):
        program.retries = (defaults.places or {}).get("retries") or call.place
    for key in ("schedule", "schedule_interval"):
        value = call.kwargs.get(key)
        if value is not None and value.text is not None:
            program.schedule = value.text
            program.schedule_place = call.keyword_place(key)


def _operator(machine: Machine, call: Call, name: str) -> None:
    """A task that runs SQL, loads files or sends something."""
    outer = machine.trace
    machine.trace = Trace(name, task=True)
    retries = call.kwargs.get("retries")
    if retries is not None and isinstance(retries.const, int) and retries.const > 0:
        machine.trace.retry = call.keyword_place("retries")
    machine.program.traces.append(machine.trace)
    dialect = next((value for word, value in _DIALECTS.items() if word in name), "")
    ran = False
    for key in _SQL_ARGUMENTS:
        value = call.kwargs.get(key)
        for text in value.items if value is not None and value.items is not None else [value]:
            if looks_like_sql(text) and "Sensor" not in name and "Check" not in name:
                _sql(machine, call, text, name, dialect)
                ran = True
    if not ran:
        _other(machine, call, name)
    _told(machine, call, name)
    machine.trace = outer


def _sql(machine: Machine, call: Call, text: Value | None, name: str, dialect: str) -> None:
    # One text of one operator is one transaction, as long as nobody asks for another mode.
    connection = Connection(f"task@{call.place.line}.{call.place.column}")
    flag = call.kwargs.get("autocommit")
    connection.autocommit = flag is not None and flag.const is True
    params = call.kwargs.get("parameters")
    frame = run_sql(machine, text, call.place, connection, dialect=dialect, params=params, api=name)
    destination = call.kwargs.get("destination_dataset_table")
    if destination is not None and frame is not None:
        mode, place = _disposition(call)
        _destination(machine, place, table_target(destination), mode, name, frame)


def _destination(
    machine: Machine, place: Place, target: Target, mode: Mode, api: str, frame: Frame
) -> None:
    machine.wrote(
        place, target, mode, api, rows=frame.rows, columns=frame.columns,
        windowed=frame.windowed, scoped="$" in target.key,
    )  # fmt: skip


def _told(machine: Machine, call: Call, name: str) -> None:
    """What a task is told when the DAG is parsed, or by its shell: the clock there is no window."""
    task = (call.kwargs.get("task_id") or Value()).text or name
    for key, value in call.kwargs.items():
        if _PLACES.search(key) and key not in _ARGUMENTS and "Sensor" not in name:
            clocks = frozenset(t for t in value.everything() if t.kind == "clock" and not t.via)
            if clocks:
                machine.wrote(call.place, path_target(value), "put", name, location=clocks)
    for key in sorted({*_ARGUMENTS, *_GIVEN} & set(call.kwargs)):
        value = _unsaid(call.kwargs[key]) if key in _GIVEN else call.kwargs[key]
        clocks = frozenset(t for t in value.everything() if t.kind == "clock" and not t.via)
        if value.parts is not None:
            rendered = Rendered(value.parts, call.place)
            clocks = clocks | {
                Taint("clock", rendered.place(match.start()), match[0])
                for match in _SHELL_DATE.finditer(rendered.text)
            }
        if clocks:
            target = Target(f"{ARGUMENTS}{task}", "path")
            machine.wrote(call.place, target, "put", name, location=clocks)


def _unsaid(given: Value) -> Value:
    """What a callable is given, without what it only says to somebody."""
    if given.fields is None:
        return given
    kept = {key: value for key, value in given.fields.items() if not _SAID.search(key)}
    return Value(fields=kept, taints=given.taints)


def _disposition(call: Call, default: Mode = "create") -> tuple[Mode, Place]:
    given = call.kwargs.get("write_disposition")
    place = call.keyword_place("write_disposition") or call.place
    word = ((given.text or given.label) if given is not None else "").upper()
    if "APPEND" in word:
        return "append", place
    if "TRUNCATE" in word:
        return "overwrite", place
    return default, place


def _other(machine: Machine, call: Call, name: str) -> None:
    if "ToBigQuery" in name:
        target = call.kwargs.get("destination_project_dataset_table") or call.kwargs.get(
            "destination_table"
        )
        mode, place = _disposition(call)
        if target is not None:
            _destination(machine, place, table_target(target), mode, name, Frame())
    elif name.startswith("BigQueryInsertJob"):
        _job(machine, call)
    elif name == "S3ToRedshiftOperator":
        method = (call.kwargs.get("method") or Value()).text or "APPEND"
        table = table_target(call.kwargs.get("table") or Value(), call.kwargs.get("schema"))
        repeatable = method.upper() != "APPEND" or _keyed(call)
        mode_: Mode = "merge" if repeatable else "append"
        machine.wrote(call.keyword_place("method") or call.place, table, mode_, name)
    elif _MAILS.search(name):
        content: frozenset[Taint] = call.taints()
        rule = (call.kwargs.get("trigger_rule") or Value()).text or ""
        if "failed" not in rule:
            machine.sent(call.place, name, notification=True, guarded=False, content=content)


def _keyed(call: Call) -> bool:
    """Is an operator told to replace rows, or by which key?"""
    told = {(value.text or "").lower() for value in call.kwargs.values()}
    keys = {"primary_key", "upsert_keys", "unique_key", "merge_keys", "load_type"}
    return bool(told & {"upsert", "rebuild", "replace", "merge", "truncate", "overwrite"}) or bool(
        keys & set(call.kwargs)
    )


def _job(machine: Machine, call: Call) -> None:
    configuration = call.kwargs.get("configuration")
    query = ((configuration.fields if configuration is not None else None) or {}).get("query")
    if query is None or query.fields is None:
        return
    text = query.fields.get("query")
    connection = Connection(f"task@{call.place.line}.{call.place.column}")
    frame = (
        run_sql(
            machine,
            text,
            call.place,
            connection,
            dialect="bigquery",
            api="BigQueryInsertJobOperator",
        )
        or Frame()
    )
    disposition = query.fields.get("writeDisposition")
    table = query.fields.get("destinationTable")
    if disposition is None or table is None:
        return
    word = (disposition.text or disposition.label).upper()
    place = (query.places or {}).get("writeDisposition", call.place)
    mode: Mode = "append" if "APPEND" in word else "overwrite" if "TRUNCATE" in word else "create"
    name = (table.fields or {}).get("tableId") or table
    partitioned = ("time",) if "timePartitioning" in query.fields else ()
    target = table_target(name, (table.fields or {}).get("datasetId"))
    machine.wrote(
        place, target, mode, "BigQueryInsertJobOperator", rows=frame.rows, columns=frame.columns,
        windowed=frame.windowed, partitioned=partitioned, scoped="$" in target.key,
    )  # fmt: skip
