"""Proofs as JSON, JUnit and a page, and how they are kept."""

from __future__ import annotations

import datetime as dt
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from setpoint import delta, pipeline
from setpoint.errors import SetpointError
from setpoint.model.determinism import Finding
from setpoint.model.proof import ColumnChange, Difference, Proof, Result, RowChange
from setpoint.prove import certificate
from setpoint.prove.certificate import (
    Standing,
    certificates,
    certify,
    code_of,
    standing,
    standing_of,
)
from setpoint.prove.evidence import CAUSES
from setpoint.prove.report.data import as_data, from_data
from setpoint.prove.report.junit import junit
from setpoint.prove.report.page import page
from setpoint.prove.report.text import diff_lines, verdict

BEGAN = dt.datetime(2026, 11, 15, 12, 30, 5, 17, tzinfo=dt.timezone.utc)
HOSTILE = "<script>alert('x')</script>&\"\x00\x1b[31m\u202e$title\ud800]]>"
DIFFERENCE = Difference(
    rows_expected=1000,
    rows_found=1000,
    missing=1000,
    added=1000,
    key=("id",),
    matched=1000,
    columns=(
        ColumnChange("processed_at", "timestamp", 1000, (("2026-11-15", "2026-11-22"),)),
        ColumnChange(HOSTILE, "string", None),
    ),
    examples=(
        RowChange({"id": "1"}, {"processed_at": "2026-11-15"}, {"processed_at": "2026-11-22"}),
        RowChange({}, None, {HOSTILE: HOSTILE}),
    ),
    schema=("column x (int) was added",),
    repeated=3,
)
FAILED = Result(
    "surroundings",
    "failed",
    f"other rows {HOSTILE}",
    table="orders",
    difference=DIFFERENCE,
    cause="`processed_at` differs in 1,000 of 1,000 rows and moves with the wall clock.",
    repair="use window.start",
    findings=(Finding("clock", "processed_at", "current_timestamp()", "job.py:9"),),
    seconds=1.25,
    detail={"cause": "clock", "notes": ["job.py:9  wall-clock: it is the clock."]},
)
PASSED = Result("twice", "passed", "same rows, no new version", seconds=0.5)
SKIPPED = Result("speculation", "skipped", "needs two executors")


def proof(*results: Result, **more: Any) -> Proof:
    given: dict[str, Any] = {
        "subject": "daily",
        "window": "2026-04-25",
        "results": results or (PASSED,),
        "code": "c0de",
        "experiments": "quick",
        "began": BEGAN,
        "seconds": 4.0,
        "rows": 1000,
        "inputs": {"orders": {"version": 7, "fingerprint": "f00d"}},
        "version": "0.1.0",
        "versions": {"spark": "4.1.1"},
        "notes": ("2026-04-26 takes no part: it is not over",),
    }
    return Proof(**{**given, **more})


ALL = proof(PASSED, FAILED, SKIPPED)
NEWEST = proof(PASSED, SKIPPED)


def test_a_proof_survives_json() -> None:
    """What was kept is what is read back, differences and findings included."""
    text = json.dumps(as_data(ALL))
    assert from_data(json.loads(text)) == ALL
    assert json.loads(text)["schema"] == "setpoint.proof/1"
    assert json.loads(text)["proven"] is False


def test_junit_has_a_testcase_per_experiment() -> None:
    """Tests, failures and skips are counted; the failure says cause and diff."""
    root = ET.fromstring(junit([ALL, proof()]))
    first, second = root
    assert (first.get("tests"), first.get("failures"), first.get("skipped")) == ("3", "1", "1")
    assert (second.get("tests"), second.get("failures")) == ("1", "0")
    names = [case.get("name") for case in first.iter("testcase")]
    assert names == ["twice", "surroundings (orders)", "speculation"]
    failure = next(first.iter("failure"))
    assert failure.get("type") == "clock"
    assert failure.text is not None
    assert "moves with the wall clock" in failure.text
    assert "- id=1  processed_at=2026-11-15" in failure.text
    assert {p.get("name") for p in first.iter("property")} >= {"code", "spark", "setpoint"}


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_self_contained_and_nothing_in_it_runs() -> None:
    """No script, no link, no image, whatever the values of a table are."""
    text = page([ALL])
    found = Tags()
    found.feed(text)
    assert not {"script", "link", "img", "iframe", "a"} & {tag for tag, _ in found.tags}
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]
    assert not re.search(r"https?://|@import|url\(", text)
    assert "\x00" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    text.encode("utf-8")


def test_the_page_tells_verdict_cause_diff_and_inputs() -> None:
    """All that the terminal says is on the page, also the hostile text, as text."""
    found = Tags()
    found.feed(page([ALL]))
    for words in (
        "daily[2026-04-25]",
        verdict(ALL),
        "moves with the wall clock",
        "Instead: use window.start",
        "current_timestamp()",
        "wall-clock: it is the clock.",
        "+ id=1  processed_at=2026-11-22",
        "fingerprint f00d",
        "needs two executors",
        "<script>alert('x')</script>",
        "$title",
        "4.1.1",
        "2026-04-26 takes no part",
    ):
        assert words in found.text


def test_verdicts() -> None:
    """Proven needs something that was tried; what could not be tried is told."""
    assert verdict(proof()) == "Proven: the one experiment ended in the state of one clean run."
    assert verdict(ALL) == (
        "Not proven: 1 of 2 experiments did not end in the state of one clean run (surroundings); "
        "1 could not be tried."
    )
    broken = Result("killed", "failed", "SP-V10  It could not be started.")
    assert verdict(proof(broken)) == "Not proven: 1 of 1 experiments failed (killed)."
    assert verdict(proof(SKIPPED)).startswith("Not proven: nothing could be tried")


def test_lines_of_a_diff() -> None:
    """Counts first, then columns, then rows with their signs."""
    lines = list(diff_lines(DIFFERENCE))
    assert lines[:4] == [
        "1,000 rows expected, 1,000 found",
        "column x (int) was added",
        "1,000 missing, 1,000 added, 3 of them repeated",
        "column processed_at (timestamp) differs in 1,000 of 1,000 rows",
    ]
    assert "+ id=1  processed_at=2026-11-22" in lines


def test_a_proof_is_kept_and_the_newest_is_found(tmp_path: Path) -> None:
    """Files are in the order of time; one that is cut off is passed over."""
    older = replace(NEWEST, began=BEGAN - dt.timedelta(days=1))
    certify(NEWEST, tmp_path)
    file = certify(older, tmp_path)
    assert file.parent == tmp_path / ".setpoint" / "proofs" / "daily"
    assert next(certificates(tmp_path, "daily"), None) == NEWEST
    (file.parent / "20991231T000000Z-aaaaaaaa.json").write_text('{"schema": "setpo')
    assert list(certificates(tmp_path, "daily")) == [NEWEST, older]
    assert next(certificates(tmp_path, "weekly"), None) is None


def test_only_the_last_proofs_are_kept(tmp_path: Path) -> None:
    """A project that proves in every build does not fill its disk."""
    for day in range(certificate.KEPT + 3):
        certify(replace(proof(), began=BEGAN + dt.timedelta(days=day)), tmp_path)
    found = list(certificates(tmp_path, "daily"))
    assert len(found) == certificate.KEPT
    assert found[0].began == BEGAN + dt.timedelta(days=certificate.KEPT + 2)


def test_a_command_has_a_folder_with_a_name_that_files_may_have(tmp_path: Path) -> None:
    """The words of a command hold slashes and quotes."""
    command = replace(proof(), subject='python ../job.py --date "{window}"')
    file = certify(command, tmp_path)
    assert file.parent.parent == tmp_path / ".setpoint" / "proofs"
    assert next(certificates(tmp_path, command.subject), None) == command


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """The code says which, and no half of a file stays."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SetpointError, match="SP-V30"):
        certificate.write_page([ALL], tmp_path / "file" / "proof.html")
    certificate.write_junit([ALL], tmp_path / "reports" / "proof.xml")
    assert [item.name for item in (tmp_path / "reports").iterdir()] == ["proof.xml"]


def test_the_page_as_a_file_takes_any_text(tmp_path: Path) -> None:
    """Half of a character pair is no reason to lose a report."""
    certificate.write_page([proof(FAILED)], tmp_path / "proof.html")
    assert b"<!doctype html>" in (tmp_path / "proof.html").read_bytes()
    certify(proof(FAILED), tmp_path)


BAD = replace(ALL, code="new")
GOOD = proof(code="new")
CHOSEN = proof(code="new", experiments="chosen")
OLD = proof(code="old")
BLIND = replace(GOOD, unwatched=("the JVM <b>",))
ENDED = replace(GOOD, untried=("killed",))


def test_a_proof_that_nobody_watched_is_never_plainly_proven() -> None:
    """Not in a line, not in JSON, not in a report; what was not watched is in all of them."""
    data = as_data(BLIND)
    assert (data["proven"], data["verdict"]) == (False, "proven, not watched")
    assert from_data(json.loads(json.dumps(data))) == BLIND
    assert verdict(BLIND).startswith("Proven, not watched: ")
    assert 'name="not watched" value="the JVM &lt;b&gt;"' in junit([BLIND])
    assert "the JVM &lt;b&gt;" in page([BLIND])
    assert "0 of 2 proven, 2 without being watched" in page([BLIND, BLIND])


def test_a_proof_that_was_ended_is_no_proof() -> None:
    """It says what it did not come to; one that failed before has failed all the same."""
    data = as_data(ENDED)
    assert (data["proven"], data["verdict"], data["untried"]) == (False, "not finished", ["killed"])
    assert from_data(json.loads(json.dumps(data))) == ENDED
    assert "ended before killed" in verdict(ENDED)
    assert replace(BAD, untried=("killed",)).verdict == "not proven"


@pytest.mark.parametrize(
    ("proofs", "verdict"),
    [
        ([], "never tried"),
        ([OLD], "stale"),
        ([GOOD, OLD], "proven"),
        ([OLD, GOOD], "proven"),
        ([BAD, GOOD], "not proven"),
        ([GOOD, BAD], "proven"),
        ([CHOSEN, BAD], "not proven"),
        ([CHOSEN, GOOD], "proven"),
        ([CHOSEN, OLD], "proven"),
        ([BLIND, OLD], "proven, not watched"),
        ([ENDED], "never tried"),
        ([ENDED, GOOD], "proven"),
        ([replace(BAD, untried=("killed",)), GOOD], "not proven"),
        ([replace(CHOSEN, results=(FAILED,)), GOOD], "not proven"),
    ],
)
def test_the_standing_of_a_pipeline(proofs: list[Proof], verdict: str) -> None:
    """Proofs of other code are stale; chosen experiments do not hide a failed set."""
    assert standing_of(proofs, "new").verdict == verdict


def test_the_words_of_a_standing() -> None:
    """The window, the day, and what the proof leaves out."""
    assert Standing("proven", GOOD).words == "proven on 2026-11-15 with 2026-04-25"
    partly = replace(CHOSEN, sample="1%")
    assert Standing("proven", partly).words == (
        "proven on 2026-11-15 with 2026-04-25 (only twice; a sample of 1%)"
    )
    assert Standing("stale", OLD).words == "stale, was proven on 2026-11-15 with 2026-04-25"
    assert Standing("never tried").words == "never tried"


def _job(limit: int = 1, **more: Any) -> Any:
    def job(window: Any, least: int = limit) -> Any:
        return None

    return pipeline(every="day", target=delta("out", partition_by="d"), **more)(job)


def test_a_changed_definition_makes_a_proof_stale(tmp_path: Path) -> None:
    """Parameters, zones and allowances count; the folder of the target does not."""
    one = _job()
    certify(proof(subject="job", code=code_of(one)), tmp_path)
    assert standing(tmp_path, one).verdict == "proven"
    assert standing(tmp_path, replace(one, target=delta("else", partition_by="d"))).verdict == (
        "proven"
    )
    for other in (_job(2), _job(timezone="Asia/Tokyo"), _job(allow={"clock": "an audit column"})):
        assert standing(tmp_path, other).verdict == "stale"


def test_the_reference_has_every_verdict_every_cause_and_every_member() -> None:
    """The page is the contract of the JSON: nothing in it goes unexplained."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "certificates.md").read_text()
    for name, meaning in certificate.VERDICTS.items():
        assert f"| `{name}` | {meaning} |" in text
    for name, meaning in CAUSES.items():
        assert f"| `{name}` | {meaning} |" in text
    data = as_data(ALL)
    result = data["results"][1]
    change = result["difference"]["columns"][0]
    for member in (*data, *result, *result["difference"], *change, *result["findings"][0]):
        assert f"`{member}`" in text or member == "schema"
