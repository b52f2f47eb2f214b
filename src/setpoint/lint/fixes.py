"""Repairs that a program can make.

A fix is safe when the repaired program writes the same rows as before in a run that is not
repeated. Whatever needs to know more than the file says (which columns are the key?) is made
only by request.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import io
from collections.abc import Iterable, Iterator, Sequence

from setpoint.lint.document import read_document
from setpoint.lint.findings import Edit, Finding, Fix, Place
from setpoint.lint.interpret.call import call_place, place_of
from setpoint.lint.knowledge.words import is_key
from setpoint.lint.parsing import parse

_LOGICAL = ("logical_date", "execution_date", "data_interval_start")


def fixes(path: str, content: bytes, findings: Iterable[Finding]) -> Iterator[tuple[Finding, Fix]]:
    """The findings of a file that can be repaired, each with its repair."""
    document = read_document(path, content)
    if document.language != "python" or document.notebook or not _is_utf_8(content):
        return
    tree, _ = parse(document.python)
    calls = {call_place(node): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    functions = _functions(tree)
    for finding in findings:
        node = calls.get(finding.place)
        fix = None
        if finding.kind == "static-overwrite" and node is not None:
            fix = _dynamic(node)
        elif finding.kind in ("wall-clock", "relative-now-read"):
            if node is not None:
                fix = _logical(node, functions)
            else:
                fix = _templated(tree, document.source, finding.place)
        elif finding.kind == "random-id" and node is not None:
            fix = _derived(tree, node, document.python)
        if fix is not None:
            yield finding, fix


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def _dynamic(node: ast.Call) -> Fix | None:
    """`.mode("overwrite")` that replaces only the partitions it has rows for."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr == "mode"):
        return None
    end = place_of(node)
    behind = Place(end.end_line, end.end_column, end.end_line, end.end_column)
    return Fix(
        "overwrite only the partitions that the rows belong to",
        (Edit(behind, '.option("partitionOverwriteMode", "dynamic")'),),
        safe=True,
    )


def _logical(
    node: ast.Call, functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]
) -> Fix | None:
    """The run's logical date instead of the clock, where the function is given it."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("now", "utcnow"):
        return None
    around = [
        f for f in functions if f.lineno <= node.lineno and (f.end_lineno or 0) >= node.lineno
    ]
    names = [
        arg.arg
        for function in reversed(around)
        for arg in (*function.args.args, *function.args.kwonlyargs)
        if arg.arg in _LOGICAL
    ]
    if not names:
        return None
    return Fix(f"use {names[0]} instead of the clock", (Edit(place_of(node), names[0]),), safe=True)


def _templated(tree: ast.Module, source: Sequence[str], place: Place) -> Fix | None:
    """The logical date in SQL that Airflow renders."""
    if not _in_operator(tree, place):
        return None
    line = source[place.line - 1]
    rest = line[place.column - 1 :]
    for word, text in (
        ("CURRENT_DATE", "CAST('{{ ds }}' AS DATE)"),
        ("CURRENT_TIMESTAMP", "CAST('{{ ts }}' AS TIMESTAMP)"),
    ):
        length = len(word)
        if rest[:length].upper() == word:
            if rest[length : length + 2] == "()":
                length += 2
            end = place.column + length
            return Fix(
                f"use the run's logical date instead of {word}",
                (Edit(Place(place.line, place.column, place.line, end), text),),
                safe=True,
            )
    return None


def _in_operator(tree: ast.Module, place: Place) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            for keyword in node.keywords:
                # Only a plain string: an f-string would read the braces as its own.
                plain = isinstance(keyword.value, ast.Constant)
                inside = keyword.value.lineno <= place.line <= (keyword.value.end_lineno or 0)
                if name.endswith("Operator") and keyword.arg == "sql" and plain and inside:
                    return True
    return False


def _derived(tree: ast.Module, node: ast.Call, text: str) -> Fix | None:
    """A name-based UUID of the row's other keys instead of a random one."""
    target = ast.unparse(node.func)
    if target not in ("uuid.uuid4", "uuid4"):
        return None
    for parent in ast.walk(tree):
        if not isinstance(parent, ast.Dict):
            continue
        if not any(inner is node for value in parent.values for inner in ast.walk(value)):
            continue
        keys = [
            ast.unparse(value)
            for key, value in zip(parent.keys, parent.values, strict=True)
            if isinstance(key, ast.Constant)
            and is_key(str(key.value))
            and not any(inner is node for inner in ast.walk(value))
        ]
        if keys:
            module = "uuid." if target.startswith("uuid.") else ""
            new = f"{module}uuid5({module}NAMESPACE_OID, repr(({', '.join(keys)},)))"
            return Fix(
                "derive the key from the row's other keys", (Edit(place_of(node), new),), safe=False
            )
    return None


def _is_utf_8(content: bytes) -> bool:
    """A repair in a text whose encoding was guessed could harm it."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def repaired(content: bytes, edits: Iterable[Edit]) -> bytes:
    """The file with the edits made, from its end to its start; overlapping ones are left out."""
    mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
    text = content[len(mark) :].decode("utf-8")
    # Lines as Python counts them: a form feed or a line separator ends none.
    lines = list(io.StringIO(text, newline=""))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        raw = lines[line - 1] if line <= len(lines) else ""
        # Columns of the syntax tree count bytes.
        return starts[line - 1] + len(raw.encode()[: column - 1].decode(errors="ignore"))

    last = len(text)
    for edit in sorted(set(edits), key=lambda e: (e.place.line, e.place.column), reverse=True):
        begin = at(edit.place.line, edit.place.column)
        end = at(edit.place.end_line, edit.place.end_column)
        if end > last:
            continue
        text = text[:begin] + edit.text + text[end:]
        last = begin
    return mark + text.encode("utf-8")


def difference(path: str, before: bytes, after: bytes) -> Iterator[str]:
    """A unified diff."""
    old = before.decode("utf-8", errors="replace").splitlines()
    new = after.decode("utf-8", errors="replace").splitlines()
    yield from difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
