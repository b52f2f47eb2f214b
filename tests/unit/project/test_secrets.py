"""What a project must not show, beside its configuration."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from setpoint import delta, http, jdbc, land, pipeline, source
from setpoint.errors import PermanentError
from setpoint.model.secret import Secret
from setpoint.project.config import Config
from setpoint.project.secrets import hushed, pipeline_secrets
from setpoint.project.wiring import Project
from setpoint.spark.session import redaction

API = http("https://x/{date}", params={"k": "env:PARAM"}, headers={"X-Token": "hush-1"})


@pipeline(
    every="day", target=delta("out", partition_by="d", storage_options={"secret_key": "hush-2"})
)
def job(
    window: object,
    items: object = source(land(API)),
    rows: object = source(jdbc("T", connection="c", options={"password": "hush-3"}), time="d"),
) -> None: ...


def test_the_secrets_of_a_definition_are_known() -> None:
    """Those of its target, and of all that it reads."""
    secrets = pipeline_secrets(job, {"PARAM": "hush-4"})
    found = {part for secret in secrets for part in secret.parts()}
    assert {"hush-1", "hush-2", "hush-3", "hush-4"} <= found


def test_an_error_that_leaves_a_project_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has raised it: a driver, or the user's own code."""
    monkeypatch.setenv("SETPOINT_CONNECTION_SHOP", "postgresql://u:hush-5@h/d")
    config = Config(tmp_path, conf={"a.password": "hush-6"})
    parts = {name: f"{name} hush-5, hush-6" for name in ("why", "state", "next")}
    with pytest.raises(PermanentError) as told, Project(config):
        raise PermanentError("SP-S05", "cannot reach postgresql://u:hush-5@h/d", **parts)
    assert "hush" not in str(told.value)
    assert "hush" not in str(told.value.as_dict())


def test_debug_messages_of_the_bridge_to_java_hold_none(caplog: pytest.LogCaptureFixture) -> None:
    """It logs every setting that it sends."""
    logger = logging.getLogger("py4j.clientserver")
    caplog.set_level(logging.DEBUG)
    with hushed(Secret("hush-7").scrubbed):
        logger.debug("Command to send: %s", "set a.password hush-7")
    assert "hush-7" not in caplog.text
    assert "a.password ***" in caplog.text
    logger.debug("%s", "as before")
    assert not logger.filters


def test_spark_hides_what_comes_from_the_environment() -> None:
    """In its event log and on its pages, where Hadoop's settings have no prefix."""
    hidden = re.compile(redaction({"spark.hadoop.x.account": Secret("env:A"), "b": Secret("4")}))
    names = ("x.account", "fs.s3a.secret.key", "spark.sql.catalog.lake.credential", "db.PWD")
    assert all(hidden.search(name) for name in names)
    assert not hidden.search("b")
