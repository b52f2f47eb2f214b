"""Findings for programs: JSON, SARIF 2.1.0, GitHub annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setpoint.lint.baseline import fingerprint
from setpoint.lint.findings import Finding
from setpoint.lint.kinds import KINDS, META
from setpoint.lint.run import Report

_PAGES = "https://github.com/setpoint/setpoint/blob/main/docs/lint"


def as_data(report: Report) -> dict[str, Any]:
    """The `data` member of the JSON envelope."""
    return {
        "files": report.files,
        "errors": len(report.errors),
        "infos": len(report.infos),
        "suppressed": len(report.suppressed),
        "baseline": len(report.known),
        "skipped": report.skipped,
        "findings": [finding_data(finding) for finding in report.findings],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.code,
        "kind": finding.kind,
        "path": finding.path,
        "line": finding.place.line,
        "column": finding.place.column,
        "severity": finding.severity,
        "message": finding.message,
        "repair": finding.repair,
    }


def github(report: Report) -> Iterator[str]:
    """Annotations that GitHub shows beside the lines of a pull request."""
    for finding in report.findings:
        level = "error" if finding.severity == "error" else "notice"
        place = (
            f"file={_property(finding.path)},line={finding.place.line},col={finding.place.column}"
        )
        title = _property(f"{finding.code} {finding.kind}")
        yield f"::{level} {place},title={title}::{_message(f'{finding.message} {finding.repair}')}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def sarif(report: Report, version: str) -> dict[str, Any]:
    """A SARIF log, for code scanning."""
    named = [(kind.code, kind.name, kind.title) for kind in KINDS]
    named += [(code, name, name.replace("-", " ")) for code, name in META.items()]
    rules = [
        {
            "id": code,
            "name": name,
            "shortDescription": {"text": title},
            "helpUri": f"{_PAGES}/{name}.md",
        }
        for code, name, title in named
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "setpoint lint", "version": version, "rules": rules}},
                "results": [_result(finding) for finding in report.findings],
            }
        ],
    }


def _result(finding: Finding) -> dict[str, Any]:
    region: dict[str, int] = {
        "startLine": finding.place.line,
        "startColumn": max(finding.place.column, 1),
    }
    return {
        "ruleId": finding.code,
        "level": "error" if finding.severity == "error" else "note",
        "message": {"text": f"{finding.message} {finding.repair}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": finding.path},
                    "region": region,
                }
            }
        ],
        "partialFingerprints": {"setpoint/v1": fingerprint(finding)},
    }
