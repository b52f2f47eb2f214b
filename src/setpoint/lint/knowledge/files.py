"""Files and paths: open, shutil, pathlib, and helpers that say what they do in their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint.lint.flows import as_read
from setpoint.lint.growth import whole
from setpoint.lint.interpret.call import Call
from setpoint.lint.knowledge.columns import as_frame
from setpoint.lint.model import Mode, Target
from setpoint.lint.texts import Hole, Piece, shown
from setpoint.lint.values import NO_TAINTS, Value, text_value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_REMOVE = vocabulary(
    "rmtree remove unlink rm delete_dir delete_path removedirs deldir",
)
_RENAME = vocabulary(
    "rename renames move mv replace",
)
_COPY = vocabulary("copy copy2 copyfile copytree")
_ROWS = (".csv", ".tsv", ".jsonl", ".ndjson")
_JOIN = frozenset({"os.path.join", "posixpath.join", "ntpath.join"})
_PATHS = ("pathlib.Path", "Path", "pathlib.PurePath", "PurePath", "S3Path", "AnyPath", "CloudPath")


def model(machine: Machine, call: Call) -> Value | None:
    ref, name = call.ref, call.name
    if ref in _JOIN or ref in _PATHS or (call.method == "joinpath"):
        first = [call.receiver] if call.method == "joinpath" and call.receiver is not None else []
        return _joined([*first, *call.args])
    if ref in ("open", "io.open", "codecs.open", "gzip.open", "builtins.open", "smart_open.open"):
        return _open(machine, call)
    if call.method == "open" and call.receiver is not None and call.receiver.parts is not None:
        mode = call.argument(0, "mode")
        if mode is not None and set(mode.text or "r") & set("wax+"):
            return Value(ref="open()", fields={"__target__": call.receiver, "__mode__": mode})
    if call.method in ("write_text", "write_bytes") and call.receiver is not None:
        _put(machine, call, call.receiver, call.args[0] if call.args else None)
        return Value(const=None)
    if (
        call.method in ("write", "writelines", "writerow", "writerows")
        and call.receiver is not None
    ):
        target = (call.receiver.fields or {}).get("__target__")
        if target is not None:
            mode = (call.receiver.fields or {}).get("__mode__")
            _put(
                machine,
                call,
                target,
                call.args[0] if call.args else None,
                mode.text if mode else "w",
            )
            return Value(const=None)
    if name == "dump" and len(call.args) > 1:
        target = (call.args[1].fields or {}).get("__target__")
        if target is not None:
            _put(machine, call, target, call.args[0])
            return Value(const=None)
    if name == "writer" and call.args and (call.args[0].fields or {}).get("__target__") is not None:
        return call.args[0]
    if name in _REMOVE and _is_path_call(call) and call.args:
        gone = path_target(call.args[0])
        if gone.key:
            machine.wrote(call.place, gone, "delete", name)
        return Value(const=None)
    if name in _RENAME and _is_path_call(call) and len(call.args) == 2:
        _copied(machine, call, call.args[1], "rename")
        return Value(const=None)
    if name in _COPY and _is_path_call(call) and len(call.args) >= 2:
        _copied(machine, call, call.args[1], "put")
        return Value(const=None)
    if name == "make_archive" and call.args:
        _copied(machine, call, call.args[0], "put")
        return Value(const=None)
    if name == "writestr" and len(call.args) >= 2:
        _put(machine, call, call.args[0], call.args[1])
        return Value(const=None)
    return None


def _copied(machine: Machine, call: Call, path: Value, mode: Mode) -> None:
    """A file that gets a second place, or another one; the clock may name it."""
    target = path_target(path)
    if target.key:
        machine.wrote(call.place, target, mode, call.name, location=path.everything())


def _is_path_call(call: Call) -> bool:
    """Functions of modules and bare functions; not methods of frames, strings or lists."""
    receiver = call.receiver
    if receiver is None:
        return "." in call.ref or call.ref in ("delete_dir", "rmtree")
    if receiver.frame is not None or receiver.parts is not None or receiver.items is not None:
        return False
    return receiver.ref.split(".")[0] in (
        "os",
        "shutil",
        "dbutils",
        "mssparkutils",
        "fs",
        "hdfs",
        "notebookutils",
    )


def path_target(value: Value) -> Target:
    """A path as a target."""
    if value.parts is not None:
        return Target(shown(value.parts).lower().rstrip("/"), "path")
    return Target("{" + value.label.lower() + "}" if value.label else "", "path")


def _joined(values: list[Value]) -> Value:
    parts: list[Piece | Hole] = []
    for index, value in enumerate(values):
        if index:
            parts.append(Piece("/", None))
        if value.parts is not None:
            parts.extend(value.parts)
        else:
            parts.append(Hole(value, value.label))
    return text_value(parts)


def _open(machine: Machine, call: Call) -> Value:
    mode = call.argument(1, "mode")
    text = (mode.text if mode is not None else None) or "r"
    path = call.args[0] if call.args else Value()
    if not set(text) & set("wax+"):
        held = whole(call.place, path_target(path).key) if path.parts is not None else NO_TAINTS
        return Value(taints=as_read(path.everything()) | held, ref="open()")
    if "a" in text and path_target(path).key.endswith(_ROWS):
        machine.wrote(call.place, path_target(path), "append", "open", location=path.everything())
    return Value(ref="open()", fields={"__target__": path, "__mode__": mode or Value()})


def _put(
    machine: Machine, call: Call, path: Value, content: Value | None, mode: str | None = "w"
) -> None:
    frame = as_frame(content) if content is not None else None
    machine.wrote(
        call.place,
        path_target(path),
        "put",
        "write" if mode and "a" not in mode else "append to a file",
        location=path.everything(),
        rows=frame.rows if frame else NO_TAINTS,
        columns=frame.columns if frame else {},
    )
