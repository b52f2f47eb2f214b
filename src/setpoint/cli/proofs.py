"""Proofs as people and programs read them: a line per experiment, a small diff, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from setpoint.cli.output import Output
from setpoint.model.proof import Proof, Result, Verdict
from setpoint.prove.experiments import EXPERIMENTS
from setpoint.prove.report.text import label, one_line, outcome, plain, remarks, row_lines

_COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}
_VERDICTS: dict[Verdict, str] = {
    "proven": "green",
    "proven, not watched": "yellow",
    "not proven": "red",
    "not finished": "red",
}
_INDENT = " " * 10
_WIDTH = max(len(name) for name in EXPERIMENTS)
_ROWS = 3


class Telling:
    """Tells results as they come; what was told in full once is named afterwards.

    Values of tables are among what is told, and a terminal obeys what it is shown.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._told: dict[tuple[str, ...], str] = {}

    def lines(self, result: Result) -> Iterator[str]:
        """Its state, its name and one sentence; of a failure also why, and where."""
        state = self._output.paint(f"{result.state:<7}", _COLOURS[result.state])
        yield f"{state}  {result.experiment:<{_WIDTH}}  {one_line(result.message)}"
        if result.state != "failed":
            return
        found = result.difference
        columns = [column.name for column in found.columns] if found else []
        kind = str(result.detail.get("cause", result.message))
        same = (kind, *(columns if found else [result.cause]))
        before = self._told.setdefault(same, result.experiment)
        if before != result.experiment:
            yield f"{_INDENT}cause   the same as of {before}"
            return
        yield from (f"{_INDENT}{line}" for line in _reasons(result))
        # How many differ, and in which columns, is in the sentence already.
        for row in found.examples[:_ROWS] if found else ():
            yield from (f"{_INDENT}{line}" for line in row_lines(row))


def _reasons(result: Result) -> Iterator[str]:
    for name, text in (("cause", result.cause), ("repair", result.repair)):
        if text and text not in result.message:
            first, *more = plain(text).splitlines()
            yield f"{name:<6}  {first}"
            yield from (f"        {line}" for line in more)
    yield from (f"{name:<6}  {text}" for name, text in remarks(result))


def head_line(proof: Proof) -> str:
    """What was proven, and on what."""
    read = [
        f"{name} ({', '.join(_input_words(known))})" if known else name
        for name, known in proof.inputs.items()
    ]
    sample = f", a sample of {proof.sample}" if proof.sample else ""
    inputs = f"; read: {', '.join(read)}" if read else ""
    return f"{label(proof)}  {proof.rows:,} rows{sample}{inputs}"


def _input_words(known: Any) -> Iterator[str]:
    if known.get("version") is not None:
        yield f"version {known['version']}"
    if known.get("rows") is not None:
        yield f"{known['rows']:,} rows"


def verdict_line(proof: Proof, output: Output) -> str:
    """Proven or not, and by how much."""
    told = output.paint(proof.verdict, _VERDICTS[proof.verdict])
    return f"{told}  {label(proof)}: {outcome(proof)}, {proof.seconds:.0f} s"


def experiment_lines() -> Iterator[str]:
    """Every experiment with what it does and when it happens to people."""
    for item in EXPERIMENTS.values():
        which = "quick" if item.quick else "full"
        whose = "pipelines, commands" if "command" in item.subjects else "pipelines"
        yield f"{item.name:<{_WIDTH}}  {which:<5}  {item.what}"
        yield f"{'':<{_WIDTH}}         as in: {item.why}"
        yield f"{'':<{_WIDTH}}         for: {whose}"


def experiment_data() -> list[dict[str, Any]]:
    """The same for programs."""
    return [asdict(item) for item in EXPERIMENTS.values()]
