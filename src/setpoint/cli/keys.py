"""`setpoint keys`: which columns of a table make a key, and what is wrong with one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from setpoint.check.candidates import Candidate, is_good
from setpoint.check.keys import Advice, KeyQuestion, Stability, advise
from setpoint.check.verdict import verdict, warnings
from setpoint.cli.check import (
    KINDS,
    TABLE_HELP,
    cell,
    column_names,
    example_count,
    open_existing,
    plural,
    size_of,
    time_of,
)
from setpoint.cli.output import Output, table
from setpoint.cli.selection import open_project
from setpoint.model.grain import Grain
from setpoint.model.pipeline import Pipeline
from setpoint.model.wallclock import zone_of
from setpoint.model.write import KEYED

_SHOWN_COLUMNS = 40


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "table",
        metavar="TABLE",
        help=TABLE_HELP,
    )
    parser.add_argument(
        "--key",
        metavar="COLUMNS",
        help="look at this key, for example customer_id,order_date; default: the best one found",
    )
    parser.add_argument(
        "--time",
        metavar="COLUMN",
        help="the column that says when a row is for; default: a partition column that tells time",
    )
    parser.add_argument(
        "--every", metavar="GRAIN", help="how long a window is: hour, day, week; default: day"
    )
    parser.add_argument(
        "--timezone", metavar="ZONE", help="the time zone of the windows; default: UTC"
    )
    parser.add_argument(
        "--sample", type=example_count, default=5, metavar="N", help="examples; default: 5"
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    with open_project(options, output) as project:
        existing, pipeline = open_existing(project, options.table)
        question = _question(options, pipeline)
        from setpoint.spark.engine import SparkEngine

        output.tell(f"looking for keys in {existing.label}{size_of(existing)}")
        advice = advise(existing, question, SparkEngine(project.sessions))
    output.answer(_data(advice), _text(advice, output), ok=not advice.is_no)
    return 1 if advice.is_no else 0


def _question(options: argparse.Namespace, pipeline: Pipeline | None) -> KeyQuestion:
    key = column_names(options.key) if options.key is not None else ()
    time, every, timezone = options.time, options.every, options.timezone
    if pipeline is not None:
        if isinstance(pipeline.write, KEYED):
            key = key or pipeline.write.keys
        time, every = time_of(pipeline, time, every)
        timezone = timezone or pipeline.timezone
    zone_of(timezone or "UTC")
    return KeyQuestion(
        key=key,
        time=time,
        every=Grain.parse(every) if every is not None else None,
        timezone=timezone or "UTC",
        examples=options.sample,
    )


def _data(advice: Advice) -> dict[str, Any]:
    judged, stability = advice.judged, advice.stability
    return {
        "table": advice.table,
        "kind": advice.kind,
        "version": advice.version,
        "rows": advice.rows,
        "verdict": verdict(advice),
        "warnings": warnings(advice),
        "keys": [_candidate(advice, item) for item in advice.found.keys],
        "near": [_candidate(advice, item) for item in advice.found.near],
        "tried_all": advice.found.tried_all,
        "key": None if judged is None else {**asdict(judged), "is_key": judged.is_key},
        "stability": None if stability is None else _stability(stability),
        "columns": [
            {
                "name": column.name,
                "type": column.kind,
                "nulls": column.nulls,
                "about_distinct": column.distinct,
            }
            for column in advice.columns
        ],
    }


def _candidate(advice: Advice, item: Candidate) -> dict[str, Any]:
    return {
        "columns": list(item.columns),
        "distinct": item.distinct,
        "good": is_good(item.columns, advice.profiles),
    }


def _stability(stability: Stability) -> dict[str, Any]:
    seen = stability.seen
    return {
        "columns": list(stability.columns),
        "time": stability.time,
        "every": str(stability.every),
        "keys_that_come_back": seen.keys if seen else 0,
        "keys_that_change": seen.changed_keys if seen else 0,
        "keys_with_several_rows_per_window": seen.several_per_window if seen else 0,
        "keys_back_after_a_gap": seen.after_a_gap if seen else 0,
        "keys_that_look_recycled": seen.recycled if seen else 0,
        "changing": dict(seen.changed) if seen else {},
        "constant": list(seen.constant) if seen else [],
        "example": list(stability.example),
        "recycled_example": list(stability.recycled_example),
    }


def _text(advice: Advice, output: Output) -> list[str]:
    version = "" if advice.version is None else f" version {advice.version}"
    lines = [f"{advice.table}  {KINDS[advice.kind]}{version}, {plural(advice.rows, 'row')}", ""]
    cells = [
        [cell(c.name), cell(c.kind), f"{c.nulls:,}", _distinct(c.distinct, advice.rows)]
        for c in advice.columns[:_SHOWN_COLUMNS]
    ]
    lines += table(cells, ("column", "type", "nulls", "distinct, about"))
    if len(advice.columns) > _SHOWN_COLUMNS:
        lines.append(f"and {len(advice.columns) - _SHOWN_COLUMNS:,} more columns")
    lines += [""]
    for item in advice.found.keys:
        lines.append(f"unique    {' + '.join(map(cell, item.columns))}")
    for item in advice.found.near[:3]:
        share = 100 * item.distinct / advice.rows
        lines.append(
            f"nearly    {' + '.join(map(cell, item.columns))}: {item.distinct:,} of "
            f"{plural(advice.rows, 'row')} ({share:.1f} %)"
        )
    lines += _examples(advice)
    first, *others = verdict(advice)
    fine = advice.judged is not None and advice.judged.is_key
    lines += ["", output.paint(first, "green" if fine else "yellow"), *others]
    lines += [f"{output.paint('warning', 'yellow')}  {text}" for text in warnings(advice)]
    return lines


def _examples(advice: Advice) -> list[str]:
    judged, stability = advice.judged, advice.stability
    shown: list[tuple[str, list[dict[str, Any]]]] = []
    if judged is not None:
        rows = [_flat(item) for item in judged.examples]
        shown.append(("rows that share a key", rows))
        shown.append(("keys with a null", [_flat(item) for item in judged.null_examples]))
    if stability is not None:
        shown.append(("a key that comes back", list(stability.example)))
        shown.append(("a key that looks recycled", list(stability.recycled_example)))
    lines: list[str] = []
    for title, examples in shown:
        if examples:
            header = list(examples[0])
            cells = [[cell(item[name]) for name in header] for item in examples]
            lines += ["", f"{title}:", *table(cells, [cell(name) for name in header])]
    return lines


def _flat(example: dict[str, Any]) -> dict[str, Any]:
    return {**example["key"], **{name: v for name, v in example.items() if name != "key"}}


def _distinct(distinct: int | None, rows: int) -> str:
    # An estimate may exceed the number of rows; nothing can have more values than those.
    return "not comparable" if distinct is None else f"{min(distinct, rows):,}"
