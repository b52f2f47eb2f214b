"""The columns of a table as part of what a window reads: the same files, other columns."""

from __future__ import annotations

from typing import Any

from setpoint.model.fingerprint import canonical, digest

# What changes no value that is read: comments, and whether nulls are allowed.
_SAID_OF_COLUMNS = frozenset(
    {
        "comment",
        "containsNull",
        "doc",
        "element-required",
        "nullable",
        "required",
        "value-required",
        "valueContainsNull",
        "write-default",
    }
)
# Of all that a table may note about a column: under which name its files hold it.
_STORED_AS = "delta.columnMapping."


def schema_digest(fields: Any) -> str:
    """A fingerprint of columns in their JSON form: names, types, ids and stored names."""
    return digest(canonical(_essential(fields)))


def _essential(part: Any) -> Any:
    if isinstance(part, list):
        return [_essential(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in part.items() if key not in _SAID_OF_COLUMNS}
    if isinstance(noted := kept.pop("metadata", None), dict):
        kept["stored"] = {k: v for k, v in noted.items() if k.startswith(_STORED_AS)}
    return {key: _essential(value) for key, value in kept.items()}
