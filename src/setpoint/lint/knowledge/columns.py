"""Values as rows: what becomes of lists, dictionaries and frames when they are written."""

from __future__ import annotations

from dataclasses import replace

from setpoint.lint.values import NO_TAINTS, Frame, Taint, Value, Writer, joined_frames

_INTERNAL = "__class__"


def as_frame(value: Value) -> Frame:
    """The rows that a value stands for."""
    if isinstance(value.thing, Frame):
        frame = value.thing
        for name, field in (value.fields or {}).items():
            if name != _INTERNAL:
                frame = frame.with_column(name, field.everything())
        return frame
    if isinstance(value.thing, Writer):
        return value.thing.frame
    columns: dict[str, frozenset[Taint]] = {}
    rows = value.taints
    for name, field in (value.fields or value.given or {}).items():
        if name != _INTERNAL:
            add(columns, name, field.everything())
    for item in value.items or ():
        fields = item.fields if item.fields is not None else item.given
        if fields is not None:
            for name, field in fields.items():
                if name != _INTERNAL:
                    add(columns, name, field.everything())
            rows = rows | item.taints
        elif isinstance(item.thing, Frame):
            inner = joined_frames([item.thing])
            rows = rows | inner.rows
            for name, taints in inner.columns.items():
                add(columns, name, taints)
        else:
            # A tuple or a plain value: its column has no name here.
            add(columns, "", item.everything())
    return Frame(rows=_about_rows(rows), columns=_with_cells(columns, rows))


def add(columns: dict[str, frozenset[Taint]], name: str, taints: frozenset[Taint]) -> None:
    if taints:
        columns[name] = columns.get(name, NO_TAINTS) | taints


def _about_rows(taints: frozenset[Taint]) -> frozenset[Taint]:
    return frozenset(
        o for o in taints if o.via == "read" or o.kind not in ("clock", "random", "env")
    )


def _with_cells(
    columns: dict[str, frozenset[Taint]], taints: frozenset[Taint]
) -> dict[str, frozenset[Taint]]:
    cells = frozenset(o for o in taints if o.via != "read" and o.kind in ("clock", "random", "env"))
    if cells:
        add(columns, "", cells)
    return columns


def of_columns(frame: Frame, values: list[Value], *, keep: bool) -> Frame:
    """`select(*values)`: the named columns; with `keep` beside those that are there."""
    result = frame if keep else replace(frame, columns={}, chosen=frozenset())
    for value in values:
        for item in value.items if value.items is not None else [value]:
            result = _selected(frame, result, item)
    return result


def _selected(frame: Frame, result: Frame, item: Value) -> Frame:
    given = all(taint.kind in ("outside", "logical") for taint in item.taints)
    name = item.alias or item.text or (item.label if given else "")
    if item.parts is not None and item.text in ("*", None):
        return replace(result, columns={**frame.columns, **result.columns}, chosen=None)
    if item.parts is not None:
        return result.with_column(name, frame.columns.get(name, NO_TAINTS))
    return result.with_column(name, item.everything() - frame.rows)
