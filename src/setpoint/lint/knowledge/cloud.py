"""Object stores, BigQuery, awswrangler, Snowflake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from setpoint.lint.findings import Place
from setpoint.lint.flows import as_read
from setpoint.lint.growth import whole
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge import glue
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.knowledge.files import path_target
from setpoint.lint.knowledge.glue import partitions
from setpoint.lint.knowledge.statements import looks_like_sql, named_by, run_sql, table_target
from setpoint.lint.model import Mode, Target
from setpoint.lint.values import Frame, Value

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_UPLOADS: dict[str, tuple[int, tuple[str, ...]]] = {
    "put_object": (-1, ("Key", "object_name")),
    "copy_object": (-1, ("Key",)),
    "upload_file": (2, ("Key", "object_name", "key")),
    "upload_fileobj": (2, ("Key", "key")),
    "load_file": (1, ("key",)),
    "load_string": (1, ("key",)),
    "load_bytes": (1, ("key",)),
    "load_file_obj": (1, ("key",)),
    "upload_blob": (0, ("name",)),
    "fput_object": (1, ("object_name",)),
}
_GCS = frozenset(["upload_from_string", "upload_from_filename", "upload_from_file"])
# An update of an item that starts from what it holds: `ADD n :x`, `SET n = n + :x`.
_ADDS = re.compile(
    r"\bADD\s+[#\w]|=\s*(?:if_not_exists\s*\([^()]*\)|[#\w.]+)\s*[+\-]|\blist_append\s*\("
)
_STATE = frozenset(["put_parameter"])


def model(machine: Machine, call: Call) -> Value | None:
    name, receiver = call.name, call.receiver
    if name in _UPLOADS and receiver is not None:
        position, names = _UPLOADS[name]
        blob = (receiver.fields or {}).get("__blob__")
        if name == "upload_blob" and (blob is not None or len(call.args) < 2):
            # A client of one blob is given the content alone.
            return _put(machine, call, blob or call.argument(-1, *names))
        if name == "put_object" and len(call.args) > 1:
            # One client names the bucket first, another has one already.
            position = 1 if len(call.args) > 3 or "data" in call.kwargs else 0
        return _put(machine, call, call.argument(position, *names))
    if name == "get_object" and receiver is not None:
        return _got(call)
    if name in _GCS and receiver is not None:
        return _put(machine, call, (receiver.fields or {}).get("__blob__"))
    if name == "blob" and call.args:
        return Value(ref="blob()", fields={"__blob__": call.args[0]})
    if name == "get_blob_client" and receiver is not None:
        # A service's client names the container first, a container's the blob alone.
        blob = call.argument(1, "blob") or (call.args[0] if len(call.args) == 1 else None)
        return Value(ref="blob()", fields={"__blob__": blob}) if blob is not None else None
    if name == "Object" and (len(call.args) >= 2 or "key" in call.kwargs):
        key = call.argument(1, "key")
        return Value(ref="s3.Object()", fields={"__blob__": key} if key is not None else {})
    if name == "put" and receiver is not None and receiver.ref == "s3.Object()":
        return _put(machine, call, (receiver.fields or {}).get("__blob__"))
    if name == "Table" and len(call.args) == 1 and call.method:
        return Value(
            ref="dynamodb.Table()", label=call.args[0].label, fields={"__table__": call.args[0]}
        )
    if name in ("put_item", "update_item") and receiver is not None:
        return _item(machine, call, receiver)
    if name in _STATE and call.argument(-1, "Name") is not None:
        target = call.kwargs["Name"]
        machine.wrote(
            call.place,
            Target(path_target(target).key, "state"),
            "put",
            name,
            columns={"value": call.kwargs.get("Value", Value()).everything()},
        )
        return Value(const=None)
    return _bigquery(machine, call) or glue.model(machine, call) or _wrangler(machine, call)


def _put(machine: Machine, call: Call, key: Value | None) -> Value | None:
    if key is None:
        return None
    body = call.kwargs.get("Body") or (call.args[0] if call.args else Value())
    frame = as_frame(body) if body.parts is None else Frame()
    machine.wrote(
        call.place,
        Target(path_target(key).key, "object"),
        "put",
        call.name,
        location=key.everything(),
        columns=frame.columns,
        rows=frame.rows,
    )
    return Value(const=None)


def _got(call: Call) -> Value | None:
    """An object as it is stored now."""
    key = call.argument(-1, "Key", "key", "object_name")
    if key is None:
        return None
    asked = frozenset(taint for taint in as_read(call.taints()) if taint.via == "read")
    return Value(taints=asked | whole(call.place, path_target(key).key), ref="object()")


def _item(machine: Machine, call: Call, receiver: Value) -> Value:
    """DynamoDB replaces an item by its key."""
    table = call.kwargs.get("TableName") or (receiver.fields or {}).get("__table__")
    item = call.kwargs.get("Item") or call.kwargs.get("ExpressionAttributeValues")
    frame = as_frame(item) if item is not None else Frame()
    target = table_target(table) if table is not None else Target("{" + receiver.label + "}")
    adding = bool(_ADDS.search((call.kwargs.get("UpdateExpression") or Value()).text or ""))
    machine.wrote(
        call.place,
        target,
        "append" if adding else "merge",
        call.name,
        columns=frame.columns,
        rows=frame.rows,
        accumulating=adding,
    )
    return Value(const=None)


def _bigquery(machine: Machine, call: Call) -> Value | None:
    name = call.name
    if name in ("LoadJobConfig", "QueryJobConfig", "CopyJobConfig"):
        places = {
            key: place for key in call.kwargs if (place := call.keyword_place(key)) is not None
        }
        return Value(ref=f"{name}()", fields=dict(call.kwargs), places=places)
    named = _named(call)
    if named is not None:
        return named
    given = call.argument(0, "dataframe", "json_rows", "source_uris", "file_obj")
    if name.startswith("load_table_from_") and call.receiver is not None and given is not None:
        destination = call.argument(1, "destination") or Value()
        config = call.kwargs.get("job_config")
        mode, place = _disposition(config, call)
        frame = as_frame(given) if name.endswith(("dataframe", "json")) else Frame()
        taints = as_read(given.everything()) if name.endswith("uri") else frame.rows
        machine.wrote(
            place,
            table_target(destination),
            mode,
            name,
            columns=frame.columns,
            rows=taints,
            location=named_by(destination),
            windowed=frame.windowed,
            scoped="$" in table_target(destination).key,
            partitioned=_time_partitioning(config),
            literal=False,
        )
        return Value(ref="job()")
    if name in ("insert_rows_json", "insert_rows_from_dataframe") and call.args:
        rows = call.argument(1, "json_rows", "dataframe") or Value()
        frame = as_frame(rows)
        if "row_ids" in call.kwargs:
            return Value(ref="job()")
        machine.wrote(
            call.place,
            table_target(call.args[0]),
            "append",
            name,
            columns=frame.columns,
            rows=frame.rows,
        )
        return Value(ref="job()")
    if (
        name in ("query", "query_and_wait")
        and call.receiver is not None
        and call.args
        and looks_like_sql(call.args[0])
    ):
        return _query(machine, call)
    return None


def _named(call: Call) -> Value | None:
    """`client.get_table(client.dataset(d).table(t))` is the table t."""
    receiver = call.receiver
    if receiver is None or len(call.args) != 1:
        return None
    if call.name == "dataset":
        return Value(ref="bigquery.dataset()", label=call.args[0].label)
    if call.name == "table" and receiver.ref == "bigquery.dataset()":
        return call.args[0]
    if call.name == "get_table" and "client" in receiver.label.lower():
        return call.args[0]
    return None


def _query(machine: Machine, call: Call) -> Value:
    frame = (
        run_sql(machine, call.args[0], call.place, None, dialect="bigquery", own=True, api="query")
        or Frame()
    )
    config = call.argument(1, "job_config")
    destination = ((config.fields if config is not None else None) or {}).get("destination")
    if destination is not None and config is not None:
        mode, place = _disposition(config, call, default="create")
        machine.wrote(
            place,
            table_target(destination),
            mode,
            "query",
            columns=frame.columns,
            rows=frame.rows,
            location=named_by(destination),
            windowed=frame.windowed,
            partitioned=_time_partitioning(config),
            scoped="$" in table_target(destination).key,
        )
    return Value(thing=frame, ref="query()")


def _disposition(config: Value | None, call: Call, default: Mode = "append") -> tuple[Mode, Place]:
    given = ((config.fields if config is not None else None) or {}).get("write_disposition")
    if given is None:
        # A load adds rows unless it is told otherwise.
        return default, call.place
    word = (given.text or given.ref or given.label).upper()
    place = ((config.places if config is not None else None) or {}).get(
        "write_disposition", call.place
    )
    if "TRUNCATE" in word:
        return "overwrite", place
    return ("append", place) if "APPEND" in word else ("create", place)


def _time_partitioning(config: Value | None) -> tuple[str, ...]:
    fields = (config.fields if config is not None else None) or {}
    return ("time",) if "time_partitioning" in fields else ()


def _wrangler(machine: Machine, call: Call) -> Value | None:
    if not re.match(r"^(?:awswrangler|wr)\.", call.ref):
        return None
    if call.name in ("to_parquet", "to_csv", "to_json", "to_sql", "copy", "to_iceberg"):
        frame = as_frame(call.argument(0, "df") or Value())
        given = ("table", "path") if call.name in ("to_sql", "copy") else ("path", "table")
        path = next((call.kwargs[key] for key in given if key in call.kwargs), Value())
        mode = (call.kwargs.get("mode") or Value()).text or ""
        dataset = call.kwargs.get("dataset")
        if call.name in ("to_parquet", "to_csv", "to_json") and (
            dataset is None or dataset.const is not True
        ):
            chosen: Mode = "put"
        elif mode == "overwrite":
            chosen = "overwrite"
        elif mode.startswith(("overwrite_partitions", "upsert")):
            chosen = "replace_slice"
        else:
            chosen = "append"
        by = call.kwargs.get("partition_cols")
        machine.wrote(
            call.keyword_place("mode") or call.place,
            path_target(path),
            chosen,
            f"wr.{call.name}",
            columns=frame.columns,
            rows=frame.rows,
            location=path.everything(),
            windowed=frame.windowed,
            partitioned=partitions(by),
        )
        return Value(const=None)
    return None
