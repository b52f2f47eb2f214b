"""Certificates: proofs that are kept with the fingerprint of the code that they are about.

They lie below the project, `.setpoint/proofs/<pipeline>/`, one JSON file per proof, and are read
without Spark. A proof holds for the code it was made with: when that changes, it is stale.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from setpoint import __version__
from setpoint.errors import PermanentError
from setpoint.model.fingerprint import canonical, digest
from setpoint.model.pipeline import Pipeline
from setpoint.model.proof import Proof
from setpoint.prove.folders import write_whole
from setpoint.prove.report.data import as_data, from_data
from setpoint.prove.report.junit import junit
from setpoint.prove.report.page import page

# How many proofs of one subject are kept; older ones go.
KEPT = 20
PROOFS = Path(".setpoint") / "proofs"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")

Report = Callable[[Sequence[Proof], Path], None]
Verdict = Literal["proven", "proven, not watched", "not proven", "stale", "never tried"]

VERDICTS: dict[Verdict, str] = {
    "proven": "the latest proof of the code of now ended well",
    "proven, not watched": "the same, but not all that it did could be watched",
    "not proven": "the latest proof of the code of now found a difference",
    "stale": "there is a proof, but the code or the definition has changed since",
    "never tried": "there is no proof",
}


@dataclass(frozen=True)
class Standing:
    """What is known about a pipeline from the proofs that are kept; `proof` is the one meant."""

    verdict: Verdict
    proof: Proof | None = None

    @property
    def words(self) -> str:
        """The verdict with the window and the date of the proof, and what it leaves out."""
        if self.proof is None:
            return self.verdict
        verdict: str = self.verdict
        if verdict == "stale":
            verdict = f"stale, was {self.proof.verdict}"
        when = f" on {self.proof.began:%Y-%m-%d}" if self.proof.began else ""
        window = f" with {self.proof.window}" if self.proof.window else ""
        left_out = []
        if self.proof.experiments == "chosen":
            names = dict.fromkeys(result.experiment for result in self.proof.results)
            left_out.append(f"only {', '.join(names)}")
        if self.proof.sample:
            left_out.append(f"a sample of {self.proof.sample}")
        rest = f" ({'; '.join(left_out)})" if left_out else ""
        return f"{verdict}{when}{window}{rest}"

    def as_dict(self) -> dict[str, Any]:
        proof = self.proof
        return {
            "verdict": self.verdict,
            "window": proof.window if proof else None,
            "began": proof.began.isoformat() if proof and proof.began else None,
            "experiments": proof.experiments if proof else None,
            "sample": proof.sample if proof else None,
            "failed": [result.experiment for result in proof.failures] if proof else [],
        }


def code_of(pipeline: Pipeline) -> str:
    """The fingerprint that a proof of this pipeline is for: its code and its definition.

    Take the user's own pipeline, not one that a sandbox has rewritten.
    """
    around = {
        "definition": pipeline.definition(),
        "parameters": dict(pipeline.parameters),
        "timezone": pipeline.timezone,
        "allow": sorted(pipeline.allow),
        "spans": pipeline.spans,
    }
    return digest("proof", pipeline.code, canonical(around))


def versions() -> dict[str, str]:
    """What took part in a proof besides setpoint, without importing it."""
    found = {"python": platform.python_version()}
    for package, name in (("pyspark", "spark"), ("delta-spark", "delta")):
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return found


def certify(proof: Proof, root: Path) -> Path:
    """Write a proof below the project's folder; returns its file."""
    whole = replace(
        proof, version=proof.version or __version__, versions=proof.versions or versions()
    )
    folder = _folder(root, proof.subject)
    began = f"{proof.began:%Y%m%dT%H%M%S%f}Z" if proof.began else "undated"
    file = folder / f"{began}-{digest(proof.window, proof.code)[:8]}.json"
    write(file, json.dumps(as_data(whole), indent=1, default=str, ensure_ascii=False) + "\n")
    for old in sorted(folder.glob("*.json"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return file


def certificates(root: Path, subject: str) -> Iterator[Proof]:
    """The proofs of a subject, the newest first; files that are not proofs are passed over."""
    for file in sorted(_folder(root, subject).glob("*.json"), reverse=True):
        try:
            yield from_data(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # cut off, or of a version of setpoint that is not this one


def standing(root: Path, pipeline: Pipeline) -> Standing:
    """Whether the pipeline as it is now is proven."""
    return standing_of(list(certificates(root, pipeline.name)), code_of(pipeline))


def standing_of(proofs: Sequence[Proof], code: str) -> Standing:
    """What some proofs, newest first, say about some code.

    Chosen experiments that ended well do not make up for a set that did not, nor stand before one
    that did. One that was ended before anything differed says nothing.
    """
    proofs = [proof for proof in proofs if proof.verdict != "not finished"]
    if not proofs:
        return Standing("never tried")
    current = [proof for proof in proofs if proof.code == code]
    if not current:
        return Standing("stale", proofs[0])
    telling = [proof for proof in current if proof.experiments != "chosen" or not proof.proven]
    proof = (telling or current)[0]
    return Standing("not proven" if proof.verdict == "not finished" else proof.verdict, proof)


def write_junit(proofs: Sequence[Proof], file: Path) -> None:
    """The proofs as JUnit XML."""
    write(file, junit(proofs))


def write_page(proofs: Sequence[Proof], file: Path) -> None:
    """The proofs as one HTML page."""
    write(file, page(proofs))


def write(file: Path, text: str) -> None:
    """Write a report whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    except OSError as error:
        raise PermanentError(
            "SP-V30",
            f"The report {file} could not be written: {error.strerror or error}.",
            why="Whoever waits for the report does not learn what was proven.",
            state="The proof itself is done; what it found stands on the terminal.",
            next="Choose a file that can be written, or make room.",
        ) from error


def _folder(root: Path, subject: str) -> Path:
    """A folder per subject; a command's words become a name that every file system takes."""
    name = subject
    if not _PLAIN.fullmatch(subject):
        readable = re.sub(r"[^A-Za-z0-9]+", "-", subject).strip("-")[:40]
        name = f"{readable}-{digest(subject)[:8]}"
    return root / PROOFS / name
