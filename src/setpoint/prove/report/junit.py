"""A proof as JUnit XML: one testcase per experiment, as continuous integration shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from setpoint.model.proof import Proof, Result
from setpoint.prove.report.text import diff_lines, label, plain, remarks, title, verdict


def junit(proofs: Sequence[Proof]) -> str:
    """The whole document; one testsuite per proof."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites name="setpoint prove">']
    for proof in proofs:
        lines += _suite(proof)
    return "\n".join([*lines, "</testsuites>", ""])


def _suite(proof: Proof) -> Iterator[str]:
    states = [item.state for item in proof.results]
    began = proof.began.strftime("%Y-%m-%dT%H:%M:%S") if proof.began else ""
    yield (
        f"<testsuite name={_quoted(label(proof))} tests={_quoted(len(states))} "
        f"failures={_quoted(states.count('failed'))} errors={_quoted(0)} "
        f"skipped={_quoted(states.count('skipped'))} time={_quoted(f'{proof.seconds:.3f}')}"
        f"{f' timestamp={_quoted(began)}' if began else ''}>"
    )
    yield "<properties>"
    known = {"verdict": verdict(proof), "code": proof.code, "sample": proof.sample or "none"}
    if proof.unwatched:
        known["not watched"] = "; ".join(proof.unwatched)
    for name, value in {**known, "setpoint": proof.version, **proof.versions}.items():
        yield f"<property name={_quoted(name)} value={_quoted(value)}/>"
    yield "</properties>"
    for result in proof.results:
        yield from _case(proof, result)
    yield "</testsuite>"


def _case(proof: Proof, result: Result) -> Iterator[str]:
    head = (
        f"<testcase classname={_quoted(f'setpoint.prove.{proof.subject}')} "
        f"name={_quoted(title(result))} time={_quoted(f'{result.seconds:.3f}')}"
    )
    match result.state:
        case "passed":
            yield f"{head}/>"
        case "skipped":
            yield f"{head}><skipped message={_quoted(result.message)}/></testcase>"
        case "failed":
            kind = str(result.detail.get("cause", "difference"))
            body = escape(plain("\n".join(_body(result))))
            yield f"{head}><failure message={_quoted(result.message)} type={_quoted(kind)}>"
            yield f"{body}</failure></testcase>"


def _body(result: Result) -> Iterator[str]:
    yield from filter(None, (result.cause, result.repair))
    yield from (line for _, line in remarks(result))
    if result.difference:
        yield from diff_lines(result.difference)


def _quoted(value: object) -> str:
    # A line break in an attribute would be read back as a blank.
    return quoteattr(plain(value).replace("\n", " "))
