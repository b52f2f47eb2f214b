"""Secrets: used, never shown, whichever way somebody tries to look at one."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from dataclasses import asdict, dataclass

import pytest

from setpoint.errors import UsageError
from setpoint.model.secret import (
    Secret,
    is_secret,
    revealed,
    scrubbed,
    settings_of,
    without_passwords,
)


@dataclass(frozen=True)
class Holder:
    url: Secret


def test_a_secret_cannot_be_printed(caplog: pytest.LogCaptureFixture) -> None:
    """Neither by itself nor as a part of something else."""
    secret = Secret("hush-hush")
    holder = Holder(secret)
    logging.getLogger("here").warning("%s %r %s", secret, secret, holder)
    texts = (str(secret), repr(secret), f"{secret} {secret!r:>30} {secret:>20}", "%s" % secret)  # noqa: UP031
    texts += (repr(holder), str([secret]), str({"a": secret}), caplog.text)
    assert not any("hush" in text for text in texts)
    assert secret.reveal() == "hush-hush"


def test_a_secret_cannot_be_written_down() -> None:
    """It goes into no file by accident, and a copy of it is itself."""
    secret = Secret("hush-hush")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps({"a": secret})
    assert copy.deepcopy(secret) is copy.copy(secret) is secret
    assert asdict(Holder(secret)) == {"url": secret}


def test_a_variable_is_looked_up_when_it_is_needed() -> None:
    """So that whoever does not need it does not have to set it."""
    environment: dict[str, str] = {}
    secret = Secret("env:KEY", "[spark.conf] a.b", environment=environment)
    assert bool(secret)
    assert not secret.is_set
    assert repr(secret) == "Secret(env:KEY)"
    with pytest.raises(UsageError, match=r"SP-C03.*KEY is not set.*\[spark.conf\] a.b"):
        secret.reveal()
    environment["KEY"] = "hush-hush"
    assert secret.reveal() == "hush-hush"
    assert secret.scrubbed("no hush-hush") == "no ***"


def test_settings_are_revealed_where_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in clear as they are, the others from the environment."""
    monkeypatch.setenv("KEY", "hush-hush")
    found = settings_of({"spark.cores": "4", "fs.s3a.secret.key": "env:KEY"}, "[spark.conf]")
    assert "hush" not in repr(found)
    assert revealed(found) == {"spark.cores": "4", "fs.s3a.secret.key": "hush-hush"}


@pytest.mark.parametrize(
    ("name", "text", "said", "told"),
    [
        ("spark.cores", "64", "64 of 64", "64 of 64"),
        ("a.password", "hush-hush", "no hush-hush", "no ***"),
        ("a.password", "p w/ö", "p%20w%2F%C3%B6 p+w%2F%C3%B6", "*** ***"),
        ("a.password", 'p"w"', json.dumps('p"w"'), '"***"'),
        ("url", "postgresql://u:hush@h/d", "postgresql://u:hush@h/d hush h", "*** *** h"),
        ("url", "postgresql://u:hu%40sh@h/d", "hu@sh or hu%40sh", "*** or ***"),
        ("url", "postgresql://h/d?password=hush", "hush at h/d", "*** at h/d"),
        ("warehouse", "s3://bucket/lake", "s3://bucket/lake/t", "s3://bucket/lake/t"),
        ("options", "-Dx=1 -Dtrust.password=hush", "hush", "***"),
    ],
)
def test_a_text_is_freed_of_it_in_every_spelling(
    name: str, text: str, said: str, told: str
) -> None:
    """And only of that: a number of cores is no secret."""
    assert scrubbed(said, [Secret.setting(name, text)]) == told


def test_a_value_of_the_environment_is_never_shown_unless_it_is_a_place() -> None:
    """Whatever its name: that is why it was put there."""
    environment = {"A": "hush-hush", "B": "s3://bucket/lake"}
    first = Secret("env:A", whole=False, environment=environment)
    second = Secret("env:B", whole=False, environment=environment)
    assert scrubbed("hush-hush in s3://bucket/lake", [first, second]) == "*** in s3://bucket/lake"


@pytest.mark.parametrize(
    "name",
    [
        "password", "jdbc.password", "pwd", "fs.s3a.secret.key", "token", "credential", "api_key",
        "X-Api-Key", "fs.azure.account.key.acct.dfs.core.windows.net", "Authorization", "sig",
        "private_key_base64", "AWS_SECRET_ACCESS_KEY", "passphrase", "access_key",
    ],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["author", "uri", "warehouse", "limit", "created[gte]", "keyword"])
def test_other_names_are_not(name: str) -> None:
    assert not is_secret(name)


def test_a_text_loses_its_own_passwords_alone() -> None:
    """What is recorded of a question stays readable."""
    assert without_passwords("jdbc:x://h/d;password=hush;a=1") == "jdbc:x://h/d;password=***;a=1"
    assert without_passwords("SELECT a FROM b WHERE c = 1") == "SELECT a FROM b WHERE c = 1"
