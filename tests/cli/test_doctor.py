"""`setpoint doctor`: what the destinations of a project need, and what they do not promise."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from setpoint.cli.main import main
from setpoint.model.support import LIMITS
from setpoint.spark.jars import cache_dir, required

HEAD = "from setpoint import delta, iceberg, parquet, pipeline, postgres, Merge\n\n"
JOBS = {
    "delta": 'delta("out", partition_by="d")',
    "iceberg": 'iceberg("sales.orders", partition_by="d")',
    "parquet": 'parquet(table="sales.orders", partition_by="d")',
    "postgres": 'postgres("sales.orders", connection="shop", time="d")',
}
SECRET = "kn0wn-to-nobody"


def write(project: Path, *kinds: str, conf: str = "") -> None:
    (project / "setpoint.toml").write_text(conf)
    (project / "pipelines").mkdir(exist_ok=True)
    for kind in kinds:
        body = f'@pipeline(every="day", target={JOBS[kind]})\ndef to_{kind}(window): ...\n'
        (project / "pipelines" / f"{kind}.py").write_text(HEAD + body)


def ask(capfd: pytest.CaptureFixture[str]) -> tuple[dict[str, dict[str, str]], dict[str, Any], str]:
    """The findings by name, all data, and everything that was printed."""
    main(["doctor", "--json"])
    said = capfd.readouterr()
    data = json.loads(said.out)["data"]
    return {item["name"]: item for item in data["findings"]}, data, said.out + said.err


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_only_the_destinations_in_use_are_looked_at(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A project of Delta tables is not told about servers, metastores and catalogs."""
    write(project_dir, "delta")
    found, data, _ = ask(capfd)
    assert not {"pyiceberg", "metastore", "psycopg", "iceberg connector"} & set(found)
    assert data["limits"] == {"delta": list(LIMITS["delta"])}


def test_an_api_needs_its_package_and_its_variables(
    project_dir: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is not set is found before a run asks for it; what it holds is not shown."""
    write(project_dir)
    (project_dir / "pipelines" / "api.py").write_text(
        "from setpoint import delta, http, land, pipeline, source\n"
        'API = http("https://x/{date}", headers={"A": "Bearer env:ONE_KEY", "B": "env:TWO_KEY"})\n'
        '@pipeline(every="day", target=delta("out", partition_by="d"))\n'
        "def job(window, items=source(land(API))): ...\n"
    )
    monkeypatch.setenv("ONE_KEY", SECRET)
    monkeypatch.delenv("TWO_KEY", raising=False)
    found, _, printed = ask(capfd)
    assert found["httpx"]["level"] == found["variable ONE_KEY"]["level"] == "ok"
    assert found["variable TWO_KEY"]["level"] == "missing"
    assert "SP-H02" in found["variable TWO_KEY"]["detail"]
    assert SECRET not in printed


def test_each_kind_has_its_needs_and_its_limits(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Packages, jars, metastore and connection are named, and what is not promised is said."""
    pytest.importorskip("pyiceberg")
    write(project_dir, *JOBS)
    found, data, _ = ask(capfd)
    assert {"iceberg connector", "pyiceberg", "hive jars", "metastore", "adbc"} <= set(found)
    assert found["pyiceberg"]["level"] == found["hive jars"]["level"] == "ok"
    assert "one process at a time" in found["metastore"]["detail"]
    assert data["limits"] == {kind: list(lines) for kind, lines in LIMITS.items()}
    assert "will be created" in found["target of to_iceberg"]["detail"]
    assert found["target of to_parquet"]["level"] == "ok"


def test_a_person_reads_the_limits_too(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """They follow the findings, one line each."""
    write(project_dir, "parquet")
    main(["doctor"])
    lines = capfd.readouterr().out.splitlines()
    assert all(f"parquet   {text}" in lines for text in LIMITS["parquet"])


def test_a_connection_that_is_not_configured_is_bad(
    project_dir: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says where to write it, and the target is not tried."""
    monkeypatch.delenv("SETPOINT_CONNECTION_SHOP", raising=False)
    write(project_dir, "postgres")
    assert main(["doctor"]) == 1
    capfd.readouterr()
    found, data, _ = ask(capfd)
    assert found["connection shop"]["level"] == "bad"
    assert "[connections]" in found["connection shop"]["detail"]
    assert found["target of to_postgres"]["detail"] == "not looked at: see connection shop"
    assert data["healthy"] is False


def test_a_server_that_does_not_answer_is_bad_and_no_password_is_shown(
    project_dir: Path, capfd: pytest.CaptureFixture[str], closed_port: int
) -> None:
    pytest.importorskip("psycopg")
    url = f"postgresql://etl:{SECRET}@127.0.0.1:{closed_port}/shop"
    write(project_dir, "postgres", conf=f'[connections]\nshop = "{url}"\n')
    found, _, printed = ask(capfd)
    assert found["connection shop"]["level"] == "bad"
    assert f"127.0.0.1:{closed_port}/shop" in found["connection shop"]["detail"]
    assert SECRET not in printed


def test_a_server_that_answers_is_named_with_its_version(
    project_dir: Path, capfd: pytest.CaptureFixture[str], postgres_url: str
) -> None:
    """The target is looked at as well."""
    write(project_dir, "postgres", conf=f'[connections]\nshop = "{postgres_url}"\n')
    found, _, _ = ask(capfd)
    assert "PostgreSQL 1" in found["connection shop"]["detail"]
    assert "CREATE SCHEMA" in found["target of to_postgres"]["detail"]


def test_a_metastore_that_does_not_answer_is_bad(
    project_dir: Path, capfd: pytest.CaptureFixture[str], closed_port: int
) -> None:
    uris = (
        f'[spark.conf]\n"spark.hadoop.hive.metastore.uris" = "thrift://127.0.0.1:{closed_port}"\n'
    )
    write(project_dir, "parquet", conf=uris)
    found, _, _ = ask(capfd)
    assert found["metastore"]["level"] == "bad"
    assert str(closed_port) in found["metastore"]["detail"]


def test_a_metastore_that_listens_is_ok(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        write(
            project_dir,
            "parquet",
            conf=f'[spark.conf]\n"spark.hadoop.hive.metastore.uris" = "{uri}"\n',
        )
        found, _, _ = ask(capfd)
    assert (found["metastore"]["level"], found["metastore"]["detail"]) == ("ok", f"{uri} answers")


def test_a_broken_file_does_not_hide_the_others(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is wrong is said, and the rest is looked at."""
    write(project_dir, "iceberg")
    (project_dir / "pipelines" / "broken.py").write_text("def broken(:\n")
    assert main(["doctor", "--json"]) == 1
    data = json.loads(capfd.readouterr().out)["data"]
    told = [(item["level"], item["detail"]) for item in data["findings"] if "pipe" in item["name"]]
    assert told[0][0] == "bad"
    assert "broken.py" in told[0][1]
    assert told[1] == ("ok", "to_iceberg")
    assert list(data["limits"]) == ["iceberg"]


def test_a_broken_configuration_is_a_finding(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The machine is looked at all the same."""
    (project_dir / "setpoint.toml").write_text("[pipelines\n")
    found, data, _ = ask(capfd)
    assert found["configuration"]["level"] == "bad"
    assert found["pyspark"]["level"] == "ok"
    assert data["healthy"] is False


def test_a_folder_without_a_project_gets_no_ledger(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run there keeps no history, so a look at the machine must not make one."""
    found, _, _ = ask(capfd)
    assert found["ledger"]["level"] == "missing"
    assert list(project_dir.iterdir()) == []


def test_every_connector_is_fetched_whatever_the_project_has(
    project_dir: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publish() call or a file.py:name may need one that no pipeline of the project names."""
    monkeypatch.setenv("SETPOINT_HOME", str(project_dir / "home"))
    cache_dir().mkdir(parents=True)
    for jar in (*required("delta"), *required("iceberg")):
        (cache_dir() / jar.file_name).write_bytes(b"")
    main(["doctor", "--fetch"])
    assert "Iceberg" in capfd.readouterr().err


def test_the_connections_that_sources_use_are_tried(
    project_dir: Path, capfd: pytest.CaptureFixture[str], postgres_url: str, closed_port: int
) -> None:
    """By PostgreSQL or JDBC, with what answers and what does not, and without passwords."""
    sources = {
        "a": 'postgres("orders", connection="shop")',
        "b": 'postgres("orders", connection="nowhere")',
        "c": 'jdbc("orders", connection="legacy")',
        "d": 'jdbc("orders", connection="embedded")',
        "e": 'jdbc("orders", connection="absent")',
    }
    (project_dir / "pipelines").mkdir()
    head = "from setpoint import delta, jdbc, pipeline, postgres, source\n\n"
    for name, origin in sources.items():
        (project_dir / "pipelines" / f"{name}.py").write_text(
            f'{head}@pipeline(every="day", target=delta("{name}", partition_by="d"))\n'
            f'def {name}(window, rows=source({origin}, time="d")): ...\n'
        )
    (project_dir / "setpoint.toml").write_text(
        f'[connections]\nshop = "{postgres_url}"\n'
        f'nowhere = "postgresql://etl:{SECRET}@127.0.0.1:{closed_port}/shop"\n'
        f'legacy = "jdbc:mysql://127.0.0.1:{closed_port}/shop?user=me&password={SECRET}"\n'
        'embedded = "jdbc:derby:memory:x"\n'
    )
    found, _, said = ask(capfd)
    assert "PostgreSQL" in found["connection shop"]["detail"]
    assert found["target of a"]["level"] == "ok"
    assert "SP-T01" in found["connection nowhere"]["detail"]
    assert "SP-R01" in found["connection legacy"]["detail"]
    assert found["connection embedded"]["level"] == "ok"
    assert "'absent' is not configured" in found["connection absent"]["detail"]
    for name, connection in (("b", "nowhere"), ("c", "legacy"), ("e", "absent")):
        told = found[f"target of {name}"]["detail"]
        assert told == f"not looked at: see connection {connection}"
    assert SECRET not in said


def test_the_password_of_a_ledger_is_not_shown(
    project_dir: Path, capfd: pytest.CaptureFixture[str], postgres_url: str
) -> None:
    """Wherever in the URL it stands."""
    write(project_dir, conf=f'[ledger]\nurl = "{postgres_url}&password={SECRET}"\n')
    found, _, printed = ask(capfd)
    assert found["ledger"]["level"] == "ok"
    assert found["ledger"]["detail"].startswith("postgresql://")
    assert SECRET not in printed


def test_variables_that_the_configuration_names_are_looked_at(
    project_dir: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not set would end the first run that needs it."""
    write(
        project_dir,
        "iceberg",
        conf='[catalogs.lake]\ntype = "jdbc"\nuri = "env:LAKE_URI"\nwarehouse = "w"\n'
        'credential = "env:LAKE_KEY"\n[spark.conf]\n"a.b" = "env:SPARK_KEY"\n',
    )
    monkeypatch.setenv("LAKE_URI", "sqlite:///lake.sqlite")
    monkeypatch.setenv("LAKE_KEY", SECRET)
    monkeypatch.delenv("SPARK_KEY", raising=False)
    found, _, printed = ask(capfd)
    assert found["variable LAKE_KEY"]["level"] == "ok"
    assert found["variable SPARK_KEY"]["level"] == "bad"
    assert "[spark.conf] a.b" in found["variable SPARK_KEY"]["detail"]
    assert found["target of to_iceberg"]["level"] == "ok"
    assert SECRET not in printed


def test_a_url_in_the_place_of_a_name_is_not_shown(
    project_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A mistake that is easily made, and told in messages, hints and records."""
    write(project_dir)
    (project_dir / "pipelines" / "p.py").write_text(
        f"{HEAD}URL = 'postgresql://me:{SECRET}@h/d'\n"
        '@pipeline(every="day", target=postgres("o", connection=URL, time="d"))\n'
        "def job(window): ...\n"
    )
    _, _, printed = ask(capfd)
    assert "A URL stands where the name of a connection belongs" in printed
    assert SECRET not in printed
