"""Findings for people: the line, the reason in one sentence, the repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from setpoint.lint.findings import Finding
from setpoint.lint.run import Report

Paint = Callable[[str, str], str]


def text_report(report: Report, paint: Paint, *, infos: bool) -> Iterator[str]:
    """The report, line by line."""
    for finding in report.findings:
        if infos or finding.severity == "error":
            yield from _finding(finding, paint)
    for skipped in report.skipped:
        yield f"left out  {skipped}"
    yield from _summary(report, paint, infos=infos)


def _finding(finding: Finding, paint: Paint) -> Iterator[str]:
    place = f"{finding.path}:{finding.place.line}:{finding.place.column}"
    colour = "red" if finding.severity == "error" else "yellow"
    mark = paint(f"{finding.code} {finding.kind}", colour)
    yield f"{place}: {mark}" + ("" if finding.severity == "error" else "  (info)")
    line = finding.text.rstrip()
    if line.strip():
        yield f"  {paint('|', 'dim')} {line.strip()[:160]}"
    yield f"  {finding.message}"
    yield f"  {paint('Repair:', 'bold')} {finding.repair}"
    yield ""


def _summary(report: Report, paint: Paint, *, infos: bool) -> Iterator[str]:
    errors = report.errors
    files = _plural(report.files, "file")
    if not errors:
        yield paint(f"no errors in {files}", "green") + _rest(report, infos)
        return
    kinds = Counter(finding.kind for finding in errors)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    yield f"{_plural(len(errors), 'error')} in {files}: {told}" + _rest(report, infos)
    yield f"explain one: setpoint lint --explain {errors[0].code}"


def _rest(report: Report, infos: bool) -> str:
    parts = []
    if report.infos:
        shown = "" if infos else " (--info shows them)"
        parts.append(f"{_plural(len(report.infos), 'info')}{shown}")
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} suppressed")
    if report.known:
        parts.append(f"{len(report.known)} in the baseline")
    return f"; {', '.join(parts)}" if parts else ""


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
