"""The page: the same story as the terminal tells, as one HTML file without anything external."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from setpoint.demo.chart import chart
from setpoint.demo.figures import CrashPoint, Figures, Moment, Promise, last
from setpoint.demo.lake import DAY, ORDERS, OTHER_DAY, REFUNDS
from setpoint.flow.faults import ALWAYS

_TEMPLATE = Path(__file__).with_name("page.html")
_RETRIES = {
    "published": "published the day",
    "unchanged": "found it published, changed nothing",
}
COMMANDS = (
    ("setpoint demo --folder demo", "all of this again"),
    ("cd demo", ""),
    (f"setpoint run copy_orders --window {DAY}", "unchanged, no JVM"),
    ("rm -r warehouse/orders", "start the table again"),
    ("export SETPOINT_FAULT=committed:kill", "arm a crash point"),
    (f"setpoint run copy_orders --window {DAY}", "killed"),
    ("unset SETPOINT_FAULT", ""),
    (f"setpoint run copy_orders --window {DAY}", "the retry"),
)


def render(
    figures: Figures,
    promises: Sequence[Promise],
    *,
    surroundings: Mapping[str, str],
    seconds: float,
    folder: Path,
    kept: bool,
) -> str:
    """The whole page."""
    killed = next(moment.rows for moment in figures.append if moment.kind == "killed")
    rest = "its tables are kept" if kept else "its tables were removed; --keep leaves them"
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        day=DAY,
        expected=f"{ORDERS:,}",
        append_rows=f"{last(figures.append):,}",
        setpoint_rows=f"{last(figures.setpoint):,}",
        append_duplicates=f"{figures.append_duplicates:,}",
        setpoint_duplicates=f"{figures.setpoint_duplicates:,}",
        equality="the rows of the source" if figures.equals_source else "not the source's rows",
        killed_rows=f"{killed:,}",
        chart=chart(figures, width=800, height=360),
        chart_narrow=chart(figures, width=380, height=330),
        points_title=_points_title(len(figures.crash_points)),
        crash_points="\n".join(_crash_point(point) for point in figures.crash_points),
        noon=f"{figures.append_small[0].rows:,}",
        refunds=f"{REFUNDS:,}",
        small="\n".join(
            (_small("append", figures.append_small), _small("setpoint", figures.setpoint_small))
        ),
        checks="\n".join(_check(text, kept) for text, kept in _checks(figures)),
        commands=escape(_commands()),
        verdict=escape(_verdict(promises)),
        surroundings=escape(
            f"Measured in {seconds:.0f} s with "
            + ", ".join(f"{name} {version}" for name, version in surroundings.items())
        ),
        folder=escape(f"Folder {folder}: {rest}"),
    )


def _points_title(tried: int) -> str:
    if tried == len(ALWAYS):
        return "Killed at every crash point"
    return f"Killed at {tried} of {len(ALWAYS)} crash points"


def _crash_point(point: CrashPoint) -> str:
    same = '<span class="kept">as a clean run</span>'
    if not point.same_contents:
        same = '<span class="broken">not as a clean run</span>'
    signal = point.killed_by_signal
    how = f"signal {signal}" if signal else "not killed"
    return (
        f"<tr><td><code>{escape(point.point)}</code><small>{escape(point.meaning)}; {how}</small>"
        f'</td><td class="number" data-label="Rows after the kill">{point.rows_after_crash:,}</td>'
        f'<td class="number" data-label="Rows after the retry">{point.rows_after_retry:,}</td>'
        f'<td data-label="The retry">{escape(_RETRIES.get(point.retry, point.retry))}</td>'
        f'<td data-label="Contents">{same}</td></tr>'
    )


def _small(name: str, moments: Sequence[Moment]) -> str:
    cells = "".join(f'<td class="number">{moment.rows:,}</td>' for moment in moments)
    return f"<tr><td>{name}</td>{cells}</tr>"


def _commands() -> str:
    width = max(len(command) for command, _ in COMMANDS)
    lines = (f"{command:<{width}}  {'# ' if why else ''}{why}" for command, why in COMMANDS)
    return "\n".join(line.rstrip() for line in lines)


def _check(text: str, kept: bool) -> str:
    return f'<li class="{"yes" if kept else "no"}">{escape(text)}</li>'


def _checks(figures: Figures) -> list[tuple[str, bool]]:
    rerun = figures.rerun
    return [
        (
            f"{len(rerun.states)} more runs: {', '.join(rerun.states)}. They ran with no Java in "
            f"reach, where a run that needs Spark ends with {rerun.control}.",
            not rerun.jvm_started,
        ),
        (
            f"The unrelated day {OTHER_DAY}: {figures.other_day_rows:,} rows, its data files "
            "byte for byte the same (SHA-256) after all runs, kills and retries.",
            figures.other_day_unchanged,
        ),
        (
            "Every retry left one publish of the window in the table's log, never two.",
            all(point.publishes == 1 for point in figures.crash_points),
        ),
        (
            f"{last(figures.setpoint):,} rows, {figures.setpoint_duplicates:,} duplicate "
            "order ids, and the same rows as the source.",
            figures.equals_source and not figures.setpoint_duplicates,
        ),
    ]


def _verdict(promises: Sequence[Promise]) -> str:
    broken = [promise for promise in promises if not promise.kept]
    if not broken:
        return (
            f"All {len(promises)} figures are as promised; rows were counted in the tables' files."
        )
    return "Not as promised: " + "; ".join(
        f"{item.what}: {item.found}, expected {item.expected}" for item in broken
    )
