"""The words that all reports share: a verdict in one line, a difference in a few."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from setpoint.model.proof import Difference, Proof, Result, RowChange

# What XML forbids, terminals obey and readers are misled by; a value of a table may hold anything.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def plain(text: object) -> str:
    """A text without what a terminal or a parser would obey."""
    return _CONTROL.sub("\ufffd", str(text))


def one_line(text: object) -> str:
    """A text that cannot begin a line of its own, and so cannot pass for one of ours."""
    return plain(text).replace("\n", "\u2424")


def verdict(proof: Proof) -> str:
    """The answer in one sentence."""
    return f"{proof.verdict.capitalize()}: {outcome(proof)}."


def outcome(proof: Proof) -> str:
    """What the answer rests on: how many experiments ended how, and which of them badly."""
    tried = [item for item in proof.results if item.state != "skipped"]
    skipped = len(proof.results) - len(tried)
    also = f"; {skipped} could not be tried" if skipped else ""
    if proof.proven:
        every = "the one experiment" if len(tried) == 1 else f"all {len(tried)} experiments"
        return f"{every} ended in the state of one clean run{also}"
    if proof.untried:
        also += f"; ended before {', '.join(proof.untried)}"
    if proof.verdict == "not finished":
        return f"{len(tried)} ended in the state of one clean run{also}"
    if not tried:
        return f"nothing could be tried{also}"
    # Without a difference nothing was seen of the end state: something else went wrong.
    differ = all(item.difference is not None for item in proof.failures)
    how = "did not end in the state of one clean run" if differ else "failed"
    names = ", ".join(dict.fromkeys(item.experiment for item in proof.failures))
    return f"{len(proof.failures)} of {len(tried)} experiments {how} ({names}){also}"


def label(proof: Proof) -> str:
    """What was proven, as people write it."""
    return one_line(f"{proof.subject}[{proof.window}]" if proof.window else proof.subject)


def title(result: Result) -> str:
    """The experiment, with the table when there are several."""
    return one_line(f"{result.experiment} ({result.table})" if result.table else result.experiment)


def remarks(result: Result) -> Iterator[tuple[str, str]]:
    """What plan, code and the command itself say about a failure; each with who says it."""
    yield from (("plan", one_line(finding)) for finding in result.findings)
    yield from (("code", one_line(note)) for note in result.detail.get("notes", ()))
    said = str(result.detail.get("output", ""))
    yield from (("said", one_line(line)) for line in said.splitlines())


def diff_lines(found: Difference) -> Iterator[str]:
    """The difference in lines: the counts, the columns, then a small diff of rows."""
    yield f"{found.rows_expected:,} rows expected, {found.rows_found:,} found"
    yield from (one_line(line) for line in found.schema)
    if found.missing or found.added:
        again = f", {found.repeated:,} of them repeated" if found.repeated else ""
        yield f"{found.missing:,} missing, {found.added:,} added{again}"
    for change in found.columns:
        rows = "" if change.rows is None else f" in {change.rows:,} of {found.matched:,} rows"
        yield one_line(f"column {change.name} ({change.kind}) differs{rows}")
    for row in found.examples:
        yield from row_lines(row)


def row_lines(row: RowChange) -> Iterator[str]:
    """One row of the diff, `-` for what was expected and `+` for what was found."""
    key = _members(row.key)
    for sign, side in (("-", row.expected), ("+", row.found)):
        if side is not None:
            yield one_line(f"{sign} {key}{'  ' if key and side else ''}{_members(side)}")


def _members(values: Mapping[str, str]) -> str:
    return "  ".join(f"{name}={value}" for name, value in values.items())
