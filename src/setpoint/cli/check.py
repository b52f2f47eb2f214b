"""`setpoint check`: look for duplicates and grain mismatch in any table."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.check.findings import Finding
from setpoint.check.look import Question, Report, WindowCount, check
from setpoint.cli.output import Output, table
from setpoint.cli.selection import open_project
from setpoint.errors import NOTHING_STARTED, SetpointError, UsageError
from setpoint.model.audit import Unique
from setpoint.model.grain import Grain
from setpoint.model.pipeline import Pipeline
from setpoint.model.table import iceberg, parquet, postgres
from setpoint.model.wallclock import zone_of
from setpoint.model.write import KEYED
from setpoint.project.discover import pipeline_named
from setpoint.project.wiring import Project

if TYPE_CHECKING:
    from setpoint.sources.existing import ExistingTable

_PART = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^,]*))\s*(?:,|$)")
_SHOWN_WINDOWS = 10
KINDS = {
    "delta": "Delta",
    "parquet": "Parquet",
    "iceberg": "Iceberg",
    "postgres": "PostgreSQL",
    "table": "in Spark's catalog",
}
TABLE_HELP = (
    "a path, delta:PATH, parquet:PATH, iceberg:NAME, table:NAME (in Spark's catalog), "
    "postgres:CONNECTION/NAME, or a pipeline's name"
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "table",
        metavar="TABLE",
        help=TABLE_HELP,
    )
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="COLUMNS",
        help="the business key, for example customer_id,order_date; may be repeated; a name that "
        "holds a comma goes between backticks",
    )
    parser.add_argument("--time", metavar="COLUMN", help="the column that says when a row is for")
    parser.add_argument(
        "--every", metavar="GRAIN", help="how often the table is written: hour, day, 15 minutes"
    )
    parser.add_argument(
        "--timezone", metavar="ZONE", help="the time zone of the windows; default: UTC"
    )
    parser.add_argument(
        "--sample",
        type=example_count,
        default=5,
        metavar="N",
        help="examples per finding; default: 5",
    )


def execute(options: argparse.Namespace, output: Output) -> int:
    with open_project(options, output) as project:
        existing, pipeline = open_existing(project, options.table)
        question = _question(options, pipeline)
        from setpoint.spark.engine import SparkEngine

        output.tell(f"checking {existing.label}{size_of(existing)}")
        report = check(existing, question, SparkEngine(project.sessions))
    output.answer(_data(report), _text(report, question, output), ok=not report.findings)
    return 1 if report.findings else 0


def size_of(existing: ExistingTable) -> str:
    """How large a table is, as far as it tells before its rows are read."""
    return f": {plural(len(existing.files), existing.units)}" if existing.units else ""


def open_existing(project: Project, name: str) -> tuple[ExistingTable, Pipeline | None]:
    """The table that a person names, and the pipeline if it is the name of one."""
    from setpoint.sources.existing import no_table, open_table
    from setpoint.targets.delta.storage import Storage

    if not name or "\x00" in name:
        raise no_table(name, "the name is not a path")
    if name.startswith("delta:"):
        return open_table(name, "delta", Storage.at(name[len("delta:") :])), None
    if name.startswith("parquet:"):
        return open_table(name, "parquet", Storage.at(name[len("parquet:") :])), None
    if "://" in name or name.startswith("file:") or Path(name).exists():
        return open_table(name, None, Storage.at(name)), None
    adapters = project.adapters
    match name.partition(":"):
        case ("iceberg", ":", table):
            return adapters.existing(name, iceberg(table)), None
        case ("table", ":", table):
            return adapters.existing(name, parquet(table=table)), None
        case ("postgres", ":", rest):
            connection, _, table = rest.rpartition("/")
            return adapters.existing(
                name, postgres(table, connection=connection or "postgres")
            ), None
    try:
        pipeline = pipeline_named(project.config, name)
    except SetpointError as error:
        if error.code in ("SP-C02", "SP-C04"):
            why = "there is no such path, and no pipeline has that name"
            raise no_table(name, why) from error
        raise
    return adapters.existing(name, pipeline.target), pipeline


def _question(options: argparse.Namespace, pipeline: Pipeline | None) -> Question:
    keys = tuple(dict.fromkeys(column_names(text) for text in options.key))
    time, every, timezone = options.time, options.every, options.timezone
    if pipeline is not None:
        stated = [audit.columns for audit in pipeline.audits if isinstance(audit, Unique)]
        if isinstance(pipeline.write, KEYED):
            stated.append(pipeline.write.keys)
        keys = keys or tuple(dict.fromkeys(stated))
        time, every = time_of(pipeline, time, every)
        timezone = timezone or pipeline.timezone
    if time is not None and every is None:
        raise _usage("--time needs --every: how long is a window?")
    if not keys and every is None:
        raise _usage("give --key, or --time and --every, or both")
    zone_of(timezone or "UTC")
    return Question(
        keys=keys,
        time=time,
        every=Grain.parse(every) if every is not None else None,
        timezone=timezone or "UTC",
        examples=options.sample,
        pipeline=pipeline.name if pipeline else None,
    )


def time_of(
    pipeline: Pipeline, time: str | None, every: str | None
) -> tuple[str | None, str | None]:
    """The column and the grain that were asked for, or else those of the pipeline."""
    if pipeline.every.is_incremental:
        return time, every  # no window of such a pipeline owns rows
    return time or pipeline.target.slice_column, every or str(pipeline.every)


def column_names(text: str) -> tuple[str, ...]:
    """Column names between commas; between backticks a name is taken as it is."""
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            break
        names.append((match[1] or "").replace("``", "`") if match[2] is None else match[2].strip())
        position = match.end()
    if not names or not all(names) or text.rstrip().endswith(","):
        raise UsageError(
            "SP-C01",
            f"--key {text!r:.80} is not a list of column names.",
            state=NOTHING_STARTED,
            next="For example: --key customer_id,order_date",
        )
    return tuple(dict.fromkeys(names))


def _data(report: Report) -> dict[str, Any]:
    return {
        "table": report.table,
        "kind": report.kind,
        "version": report.version,
        "files": report.files,
        "rows": report.rows,
        "partitioned_by": report.partitioned_by,
        "findings": [finding.as_dict() for finding in report.findings],
        "windows": [asdict(window) for window in report.windows],
        "notes": list(report.notes),
    }


def _text(report: Report, question: Question, output: Output) -> list[str]:
    rows = "rows not counted" if report.rows is None else plural(report.rows, "row")
    version = "" if report.version is None else f" version {report.version}"
    parts = f"; partitioned by {report.partitioned_by}" if report.partitioned_by else ""
    files = f", {plural(report.files, report.units)}" if report.units else ""
    lines = [f"{report.table}  {KINDS[report.kind]}{version}, {rows}{files}{parts}"]
    for key, distinct in report.keys.items():
        lines.append(f"key       {', '.join(key)}: {distinct:,} distinct")
    if question.every is not None:
        column = f"{question.time}, " if question.time else ""
        zone = "" if question.timezone == "UTC" else f", {question.timezone}"
        counted = f": {plural(len(report.windows), 'window')}" if report.windows else ""
        lines.append(f"time      {column}every {question.every}{zone}{counted}")
    lines += [f"note      {note}" for note in report.notes]
    if not report.findings:
        return [*lines, output.paint("no findings", "green")]
    for finding in report.findings:
        lines += ["", f"{output.paint(finding.kind, 'red')}  {finding.message}"]
        lines += [f"  {line}" for line in _details(finding, report.windows)]
        lines.append(f"  Next: {finding.next}")
    return [*lines, "", plural(len(report.findings), "finding")]


def _details(finding: Finding, windows: tuple[WindowCount, ...]) -> list[str]:
    lines: list[str] = []
    touched = finding.figures.get("windows", [])
    if touched:
        rows = {window.window: window.rows for window in windows}
        worst = sorted(touched, key=lambda item: -item["surplus_rows"])[:_SHOWN_WINDOWS]
        shown = sorted(worst, key=lambda item: str(item["window"]))
        cells = [
            [w["window"], f"{rows.get(w['window']) or 0:,}", f"{w['surplus_rows']:,}"]
            for w in shown
        ]
        lines += table(cells, ("window", "rows", "surplus"))
        if len(touched) > len(shown):
            lines.append(f"and {len(touched) - len(shown):,} more windows")
    if finding.examples:
        examples = [_flat(example) for example in finding.examples]
        header = list(examples[0])
        lines += table([[example[name] for name in header] for example in examples], header)
    return lines


def _flat(example: dict[str, Any]) -> dict[str, str]:
    """An example as one row of cells; control characters would break the line."""
    pairs = {**example.get("key", {}), **{k: v for k, v in example.items() if k != "key"}}
    return {cell(name): cell(value) for name, value in pairs.items()}


def cell(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "yes" if value else "no"
        case _:
            text = "".join(c if c.isprintable() else "?" for c in str(value))
            return text if len(text) <= 60 else text[:57] + "..."


def plural(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def example_count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 1000:
        raise argparse.ArgumentTypeError("a number from 0 to 1000 is expected")
    return number


def _usage(what: str) -> UsageError:
    return UsageError(
        "SP-C01", f"{what}.", state=NOTHING_STARTED, next="See: setpoint check --help"
    )
