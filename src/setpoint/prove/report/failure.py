"""A proof that failed, as the message of a failing test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from setpoint.model.proof import Proof, Result
from setpoint.prove.report.text import diff_lines, label, plain

_INDENT = "  "
_ROWS = 3


def failure_text(proof: Proof) -> str:
    """How many failed, then each of them: what differs, why, and what to write instead.

    What has the same cause and the same columns is told once.
    """
    tried = [result for result in proof.results if result.state != "skipped"]
    lines = [
        f"{label(proof)} is not idempotent: {len(proof.failures)} of {len(tried)} experiments did "
        "not end in the state of one clean run."
    ]
    alike: dict[tuple[str, ...], list[Result]] = {}
    for result in proof.failures:
        alike.setdefault(_sameness(result), []).append(result)
    for first, *others in alike.values():
        lines += ["", plain(f"{first.experiment}: {first.message}")]
        lines += [f"{_INDENT}{plain(line)}" for line in _reasons(first)]
        if others:
            lines.append(f"{_INDENT}the same in {', '.join(item.experiment for item in others)}")
    return "\n".join(lines)


def _sameness(result: Result) -> tuple[str, ...]:
    columns = [item.name for item in result.difference.columns] if result.difference else []
    return (str(result.detail.get("cause", result.message)), *columns)


def _reasons(result: Result) -> Iterator[str]:
    if result.cause:
        yield f"cause   {result.cause}"
    if result.repair:
        yield f"repair  {result.repair}"
    for finding in result.findings:
        if str(finding) not in result.cause:
            yield f"plan    {finding}"
    if result.difference is not None:
        shown = result.difference.examples[:_ROWS]
        yield from diff_lines(replace(result.difference, examples=shown))
