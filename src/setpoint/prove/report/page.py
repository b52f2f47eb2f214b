"""A proof as one HTML page: nothing external, nothing that runs, readable on paper.

Values of tables are shown in it, so every text is escaped, and the page forbids itself scripts and
requests by its own policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from setpoint.model.proof import Difference, Proof, Result, RowChange
from setpoint.prove.experiments import EXPERIMENTS
from setpoint.prove.report.text import label, plain, remarks, row_lines, title, verdict

_TEMPLATE = Path(__file__).with_name("page.html")
_STATES = {"passed": "passed", "failed": "failed", "skipped": "could not be tried"}
_NAME = re.compile(r"`([^`]+)`")
_SETS = {"quick": "the quick set", "full": "the full set", "chosen": "chosen ones"}


def page(proofs: Sequence[Proof]) -> str:
    """The whole document; one section per proof."""
    if len(proofs) == 1:
        heading = f"{label(proofs[0])}: {proofs[0].verdict}"
    else:
        proven = sum(proof.verdict == "proven" for proof in proofs)
        heading = f"{proven} of {len(proofs)} proven"
        if unwatched := sum(proof.verdict == "proven, not watched" for proof in proofs):
            heading += f", {unwatched} without being watched"
    versions = {f"setpoint {proof.version}" for proof in proofs if proof.version}
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=_text(f"setpoint proof, {heading}"),
        proofs="\n".join(_proof(proof) for proof in proofs),
        footer=_text(", ".join(sorted(versions)) or "setpoint"),
    )


def _proof(proof: Proof) -> str:
    failed = "\n".join(_failure(result) for result in proof.failures)
    return "\n".join(
        (
            "<section>",
            '<p class="name">setpoint proof</p>',
            f"<h1>{_text(label(proof))}</h1>",
            f'<p class="verdict {"yes" if proof.proven else "no"}">{_text(verdict(proof))}</p>',
            f"<dl>{''.join(_fact(*fact) for fact in _facts(proof))}</dl>",
            f"<h2>What differs, and why</h2>\n{failed}" if failed else "",
            "<h2>What was tried</h2>",
            f"<ul>{''.join(_experiment(result) for result in proof.results)}</ul>",
            _inputs(proof.inputs),
            _notes("Not watched", proof.unwatched),
            _notes("Not as in production", proof.notes),
            "</section>",
        )
    )


def _facts(proof: Proof) -> Iterator[tuple[str, str]]:
    if proof.began:
        yield "When", f"{proof.began:%Y-%m-%d %H:%M} UTC, {proof.seconds:,.0f} s"
    yield "Experiments", _SETS[proof.experiments]
    yield "Rows of a clean run", f"{proof.rows:,}"
    if proof.sample:
        yield "Sample of the inputs", proof.sample
    yield "Code", proof.code
    if proof.versions:
        yield "With", ", ".join(f"{name} {value}" for name, value in proof.versions.items())


def _fact(name: str, value: str) -> str:
    return f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>"


def _experiment(result: Result) -> str:
    known = EXPERIMENTS.get(result.experiment)
    what = f"<small>{_text(known.what)}</small>" if known else ""
    said = f": {_text(result.message)}" if result.message else ""
    return (
        f'<li class="{result.state}"><span class="time">{result.seconds:,.1f} s</span>'
        f'<span class="state">{_STATES[result.state]}: </span>'
        f"<strong>{_text(title(result))}</strong>{said}{what}</li>"
    )


def _failure(result: Result) -> str:
    parts = [
        '<div class="card">',
        f"<h3>{_text(title(result))}</h3>",
        f"<p>{_text(result.message)}</p>",
    ]
    if result.cause:
        parts.append(f'<p class="cause">{_words(result.cause)}</p>')
    if result.repair:
        parts.append(f"<p>Instead: {_words(result.repair)}</p>")
    parts += [f'<p class="soft"><code>{_text(line)}</code></p>' for _, line in remarks(result)]
    if result.difference:
        parts.append(_difference(result.difference))
    return "\n".join([*parts, "</div>"])


def _difference(found: Difference) -> str:
    counts = (
        f"{found.rows_expected:,} rows expected, {found.rows_found:,} found; {found.missing:,} "
        f"missing, {found.added:,} added"
        + (f", {found.repeated:,} of them repeated" if found.repeated else "")
    )
    parts = [f'<p class="soft">{counts}.</p>']
    parts += [f"<p>{_text(line)}</p>" for line in found.schema]
    if found.columns:
        parts.append(_columns(found))
    if found.examples:
        rows = "".join(_row(row) for row in found.examples)
        parts.append(f"<pre>{rows}</pre>")
    return "\n".join(parts)


def _columns(found: Difference) -> str:
    lines = []
    for change in found.columns:
        one, two = change.examples[0] if change.examples else ("", "")
        rows = "" if change.rows is None else f"{change.rows:,}"
        lines.append(
            f"<tr><td><code>{_text(change.name)}</code></td><td>{_text(change.kind)}</td>"
            f'<td class="number">{rows}</td><td><code>{_text(one)}</code></td>'
            f"<td><code>{_text(two)}</code></td></tr>"
        )
    return (
        '<div class="scroll"><table><thead><tr><th>Column</th><th>Type</th><th class="number">Rows'
        "</th><th>Expected</th><th>Found</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _row(row: RowChange) -> str:
    tags = {"-": "del", "+": "ins"}
    return "".join(f"<{tags[line[0]]}>{_text(line)}</{tags[line[0]]}>" for line in row_lines(row))


def _inputs(inputs: Mapping[str, Mapping[str, object]]) -> str:
    if not inputs:
        return ""
    facts = "".join(
        _fact(name, ", ".join(f"{key} {value}" for key, value in item.items()))
        for name, item in inputs.items()
    )
    return f"<h2>Pinned inputs</h2>\n<dl>{facts}</dl>"


def _notes(heading: str, notes: Sequence[str]) -> str:
    told = "".join(f"<p>{_words(note)}</p>" for note in notes)
    return f"<h2>{heading}</h2>\n{told}" if told else ""


def _words(value: str) -> str:
    """Words of ours, in which names stand between backticks."""
    return _NAME.sub(r"<code>\1</code>", _text(value))


def _text(value: object) -> str:
    return escape(plain(value))
