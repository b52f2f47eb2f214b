"""A secret in every place where a user can put one, and nowhere else after all that can be done.

The commands are real processes. What is searched for the secrets: everything they print, every
file below the project and the folder for temporary files, every row of the ledger and of the
receipts, the words of every program that Java started with, and the list of all processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from misbehaving_api import Api

pytestmark = pytest.mark.slow

WINDOW = "2026-04-25"
# One for each place, so that a leak tells where it comes from.
PLACES = [
    *("ledger", "connection", "literal", "jdbc", "scratch", "conf", "confenv", "javaoptions"),
    *("catalog", "catalogenv", "header", "param", "address", "literalparam", "literalquery"),
    *("literalheader", "option", "storage", "raised"),
]
SECRETS = {place: f"kn0wn{number:02}{place}" for number, place in enumerate(PLACES)}

CONFIG = """
[ledger]
url = "{ledger}"

[connections]
shop = "env:SHOP_URL"
literal = "{literal}"
legacy = "jdbc:derby:memory:legacy;create=true;user=app;password={jdbc}"
scratch = "{scratch}"

[prove]
postgres = "scratch"

[retry]
tries = 1

[spark]
master = "local[2]"

[spark.conf]
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -Dtrust.password={javaoptions}"
"spark.driver.memory" = "1g"
"spark.hadoop.fs.s3a.secret.key" = "{conf}"
"spark.hadoop.custom.account" = "env:CONF_ENV"
"spark.eventLog.enabled" = true
"spark.eventLog.compress" = false
"spark.eventLog.dir" = "{events}"

[catalogs.lake]
type = "jdbc"
uri = "sqlite:///warehouse/_catalog.sqlite"
warehouse = "warehouse"
"s3.secret-access-key" = "{catalog}"
credential = "env:CATALOG_ENV"
"""

PIPELINES = """
import glob
import logging
import os
from pathlib import Path

from setpoint import delta, http, iceberg, jdbc, land, pipeline, postgres, source

logging.basicConfig(level=logging.DEBUG)
ORDERS = source(
    delta("lake/orders", storage_options={{"AWS_SECRET_ACCESS_KEY": "{storage}"}}), time="d"
)
API = http(
    "{api}/one?access_token={literalquery}&p={{env:ADDRESS}}",
    items="data",
    params={{"key": "env:PARAM", "any": "{literalparam}", "created[gte]": "{{start:unix}}"}},
    headers={{"Authorization": "Bearer env:HEADER", "X-Partner": "{literalheader}"}},
)


@pipeline(every="day", target=postgres("orders", connection="shop", time="d"))
def to_shop(window, orders=ORDERS):
    return orders


@pipeline(every="day", target=iceberg("sales.orders", partition_by="d"))
def to_lake(window, items=source(land(API)), orders=ORDERS):
    for file in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = Path(file).read_bytes()
        except OSError:
            continue
        with open("processes.txt", "ab") as out:
            out.write(words.replace(b"\\0", b" ") + b"\\n")
    return orders


@pipeline(every="day", target=delta("out/legacy", partition_by="d"))
def from_legacy(
    window,
    orders=source(
        jdbc("ORDERS", connection="legacy", options={{"password": "env:OPTION"}}), time="D"
    ),
):
    return orders


@pipeline(every="day", target=postgres("orders", connection="literal", time="d"))
def raising(window, orders=ORDERS):
    raise RuntimeError("cannot connect to " + os.environ["RAISED_URL"])
"""


@dataclass
class House:
    """A project with secrets, and all that its commands have said."""

    root: Path
    environment: dict[str, str]
    said: list[str] = field(default_factory=list)

    def call(self, *words: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "setpoint.cli.main", *words],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said.append(f"$ setpoint {' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done.returncode

    def leaks(self, texts: dict[str, bytes]) -> list[str]:
        return [
            f"{place} in {name}: {_around(text, secret.encode())}"
            for name, text in texts.items()
            for place, secret in SECRETS.items()
            if secret.encode() in text
        ]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """All files, but those that the user has written the secrets into."""
        own = {self.root / "setpoint.toml", self.root / "pipelines" / "jobs.py"}
        for folder in (self.root, Path(self.environment["TMPDIR"])):
            for file in folder.rglob("*"):
                if file.is_file() and file not in own and file.parent.name != "__pycache__":
                    yield str(file), file.read_bytes()


def _around(text: bytes, secret: bytes) -> str:
    at = text.index(secret)
    return text[max(at - 100, 0) : at + len(secret) + 20].decode(errors="replace")


def with_password(url: str, password: str) -> str:
    return f"{url}&user=postgres&password={password}"


@pytest.fixture
def house(tmp_path: Path, db: Any, api: Api) -> House:
    root, temporary, java = tmp_path / "project", tmp_path / "tmp", tmp_path / "java"
    for folder in (root / "pipelines", root / "events", temporary, java / "bin"):
        folder.mkdir(parents=True)
    real = os.environ.get("JAVA_HOME")
    program = f"{real}/bin/java" if real else shutil.which("java")
    (java / "bin" / "java").write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{root}/java.txt'\nexec '{program}' \"$@\"\n"
    )
    (java / "bin" / "java").chmod(0o755)
    for name in ("ledger", "scratch"):
        db.all(f"CREATE DATABASE {name}{os.getpid()}")
    urls = {name: with_password(beside(db, name), SECRETS[name]) for name in ("ledger", "scratch")}
    urls["literal"] = with_password(db.url, SECRETS["literal"])
    (root / "setpoint.toml").write_text(
        CONFIG.format(**{**SECRETS, **urls}, events=root / "events")
    )
    (root / "pipelines" / "jobs.py").write_text(PIPELINES.format(**SECRETS, api=api.url))
    rows = pa.table({"id": [1, 2], "d": pa.array([20568, 20568], pa.int32()).cast(pa.date32())})
    write_deltalake(root / "lake" / "orders", rows)
    api.fill(3, 1_777_075_200)
    environment = {
        **os.environ,
        "JAVA_HOME": str(java),
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
        "SETPOINT_TRACEBACK": "1",
        "SHOP_URL": with_password(db.url, SECRETS["connection"]),
        "RAISED_URL": f"postgresql://me:{SECRETS['raised']}@db.example/x",
        "SETPOINT_CONNECTION_RAISED": f"postgresql://me:{SECRETS['raised']}@db.example/x",
        "CONF_ENV": SECRETS["confenv"],
        "CATALOG_ENV": SECRETS["catalogenv"],
        "HEADER": SECRETS["header"],
        "PARAM": SECRETS["param"],
        "ADDRESS": SECRETS["address"],
        "OPTION": SECRETS["option"],
    }
    return House(root, environment)


def test_a_planted_secret_is_found_nowhere(house: House, db: Any, api: Api) -> None:
    """Whatever is run, well or not, and whatever it leaves behind."""
    assert house.call("run", "to_lake", "--window", WINDOW, "-v") == 0, house.said[-1]
    assert house.call("run", "to_shop", "--window", WINDOW, "--json") == 0, house.said[-1]
    assert house.call("run", "raising", "--window", WINDOW) == 3, house.said[-1]
    assert house.call("run", "from_legacy", "--window", WINDOW) == 3, house.said[-1]
    only = ("--window", WINDOW, "--only", "twice,killed", "--keep")
    reports = ("--junit", "proof.xml", "--html", "proof.html")
    assert house.call("prove", "to_shop", *only, *reports) == 0, house.said[-1]
    for words in (["doctor"], ["doctor", "--json"], ["plan", "to_lake"], ["status"], ["recover"]):
        house.call(*words)
    for name in ("to_lake", "to_shop", "raising", "from_legacy"):
        house.call("show", name, "--window", WINDOW, "--json")

    sent = api.requests[0]
    assert sent.headers["authorization"] == f"Bearer {SECRETS['header']}"
    assert (sent.params["key"], sent.params["p"]) == (SECRETS["param"], SECRETS["address"])
    texts = {f"said {number}": text.encode() for number, text in enumerate(house.said)}
    texts |= dict(house.files())
    for database in (db.url, beside(db, "ledger"), beside(db, "scratch")):
        texts[database] = rows_of(db, database)
    told = "\n".join(texts)
    assert "request.json" in told, "the sandbox was kept, with what its processes were asked"
    assert "proof.html" in told
    assert "processes.txt" in told
    assert b"SparkSubmit" in texts[str(house.root / "java.txt")]
    assert b"to_shop" in texts[beside(db, "ledger")]
    assert any("events" in name for name in texts)
    assert house.leaks(texts) == []


def beside(db: Any, name: str) -> str:
    """The URL of another database on the same server."""
    place, _, query = db.url.partition("?")
    return f"{place.rpartition('/')[0]}/{name}{os.getpid()}?{query}"


def rows_of(db: Any, url: str) -> bytes:
    """Every row of every table of a database, as text."""
    other = type(db)(url)
    tables = other.all(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
        "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    )
    rows = [repr(other.all(f"SELECT t::text FROM {table} AS t")) for (table,) in tables]
    return "\n".join(rows).encode()
