"""A proof as JSON, and back: the form in which it is kept, and in which other programs read it.

The schema has a version. Members are added, never renamed or dropped, as long as it stays; a
reader passes over members that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from setpoint.model.determinism import Finding
from setpoint.model.proof import ColumnChange, Difference, Proof, Result, RowChange

SCHEMA = "setpoint.proof/1"


def as_data(proof: Proof) -> dict[str, Any]:
    """The proof as values that JSON knows."""
    return {
        "schema": SCHEMA,
        "subject": proof.subject,
        "window": proof.window,
        "proven": proof.verdict == "proven",
        "verdict": proof.verdict,
        "experiments": proof.experiments,
        "sample": proof.sample,
        "rows": proof.rows,
        "began": proof.began.isoformat() if proof.began else None,
        "seconds": round(proof.seconds, 3),
        "code": proof.code,
        "versions": {"setpoint": proof.version, **proof.versions},
        "inputs": {name: dict(item) for name, item in proof.inputs.items()},
        "notes": list(proof.notes),
        "unwatched": list(proof.unwatched),
        "untried": list(proof.untried),
        "results": [_result(item) for item in proof.results],
    }


def from_data(data: Mapping[str, Any]) -> Proof:
    """The proof that was kept; raises ValueError, KeyError or TypeError if it is not one."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"{data['schema']!r:.80} is not {SCHEMA}")
    versions = dict(data["versions"])
    return Proof(
        subject=data["subject"],
        window=data["window"],
        results=tuple(_result_from(item) for item in data["results"]),
        code=data["code"],
        experiments=data["experiments"],
        inputs=data["inputs"],
        sample=data["sample"],
        rows=data["rows"],
        began=datetime.fromisoformat(data["began"]) if data["began"] else None,
        seconds=data["seconds"],
        version=versions.pop("setpoint", ""),
        versions=versions,
        notes=tuple(data["notes"]),
        unwatched=tuple(data.get("unwatched", ())),
        untried=tuple(data.get("untried", ())),
    )


def _result(result: Result) -> dict[str, Any]:
    return {
        "experiment": result.experiment,
        "state": result.state,
        "table": result.table,
        "message": result.message,
        "cause": result.cause,
        "repair": result.repair,
        "findings": [
            {
                "kind": item.kind,
                "column": item.column,
                "expression": item.expression,
                "place": item.place,
            }
            for item in result.findings
        ],
        "difference": _difference(result.difference) if result.difference else None,
        "seconds": round(result.seconds, 3),
        "detail": dict(result.detail),
    }


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "rows_expected": found.rows_expected,
        "rows_found": found.rows_found,
        "missing": found.missing,
        "added": found.added,
        "repeated": found.repeated,
        "key": list(found.key),
        "matched": found.matched,
        "schema": list(found.schema),
        "columns": [
            {
                "name": item.name,
                "type": item.kind,
                "rows": item.rows,
                "examples": [list(pair) for pair in item.examples],
            }
            for item in found.columns
        ],
        "examples": [
            {
                "key": dict(row.key),
                "expected": None if row.expected is None else dict(row.expected),
                "found": None if row.found is None else dict(row.found),
            }
            for row in found.examples
        ],
    }


def _result_from(data: Mapping[str, Any]) -> Result:
    difference = data["difference"]
    return Result(
        experiment=data["experiment"],
        state=data["state"],
        message=data["message"],
        table=data["table"],
        difference=_difference_from(difference) if difference else None,
        cause=data["cause"],
        repair=data["repair"],
        findings=tuple(
            Finding(item["kind"], item["column"], item["expression"], item["place"])
            for item in data["findings"]
        ),
        seconds=data["seconds"],
        detail=data["detail"],
    )


def _difference_from(data: Mapping[str, Any]) -> Difference:
    return Difference(
        rows_expected=data["rows_expected"],
        rows_found=data["rows_found"],
        missing=data["missing"],
        added=data["added"],
        key=tuple(data["key"]),
        matched=data["matched"],
        columns=tuple(
            ColumnChange(
                item["name"],
                item["type"],
                item["rows"],
                tuple((one, two) for one, two in item["examples"]),
            )
            for item in data["columns"]
        ),
        examples=tuple(
            RowChange(row["key"], row["expected"], row["found"]) for row in data["examples"]
        ),
        schema=tuple(data["schema"]),
        repeated=data["repeated"],
    )
