"""Findings that were there before: an old repository starts today, and only new ones fail.

A finding is recognised by its file, its code and the text of its line, so that it stays known
when lines above it come and go. Two equal lines are two findings: the count is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from setpoint.lint.findings import Finding

SCHEMA = "setpoint.lint.baseline/1"


def fingerprint(finding: Finding) -> str:
    """What a finding is recognised by."""
    text = " ".join(finding.text.split())
    content = json.dumps([finding.path, finding.code, text])
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def write_baseline(file: Path, findings: Iterable[Finding]) -> int:
    """Writes the known findings; sorted, so that a review sees what changed."""
    entries: dict[str, dict[str, object]] = {}
    count: Counter[str] = Counter()
    for finding in findings:
        mark = fingerprint(finding)
        count[mark] += 1
        entries[mark] = {
            "path": finding.path,
            "code": finding.code,
            "kind": finding.kind,
            "fingerprint": mark,
            "count": count[mark],
        }
    ordered = sorted(entries.values(), key=lambda e: (e["path"], e["code"], e["fingerprint"]))
    body = {"schema": SCHEMA, "findings": ordered}
    file.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return sum(count.values())


def read_baseline(file: Path) -> Counter[str]:
    """How many findings of each kind are known. Raises ValueError for anything else."""
    body = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise ValueError(f"it is not a baseline of {SCHEMA}")
    return Counter({str(e["fingerprint"]): int(e["count"]) for e in body["findings"]})


def split(findings: list[Finding], known: Counter[str]) -> tuple[list[Finding], list[Finding]]:
    """New findings, and those of the baseline."""
    left = Counter(known)
    new, old = [], []
    for finding in findings:
        mark = fingerprint(finding)
        if left[mark] > 0:
            left[mark] -= 1
            old.append(finding)
        else:
            new.append(finding)
    return new, old
