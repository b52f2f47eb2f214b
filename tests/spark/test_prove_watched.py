"""`setpoint prove` as a process of its own: what helper modules, workers and the JVM do is seen."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from setpoint import edge
from setpoint.prove.watch import kernel
from setpoint.prove.watch.sockets import tree_of

pytestmark = pytest.mark.skipif(kernel.machine() is None, reason="no filter for this system")

# Nothing in the pipeline's own file tells what its helper does, and every error is swallowed.
HELPER = """
import os
import httpx, psycopg

def tried(do):
    try:
        do()
    except BaseException:
        return

def insert():
    with psycopg.connect(os.environ["PRODUCTION"], connect_timeout=5) as c:
        c.execute("INSERT INTO log VALUES (1)")

def post():
    httpx.post(os.environ["HOOK"], json={}, timeout=5)

def noted(value):
    tried(insert)
    return value
"""
JOB = """
from pyspark.sql import DataFrame, functions as F
import helper
from setpoint import Window, delta, pipeline, postgres, source

@pipeline(every="day", target=postgres("public.served", time="d", connection="production"))
def served(window: Window, orders: DataFrame = source(delta("lake/orders"), time="d")) -> DataFrame:
    return orders

@pipeline(every="day", target=delta("warehouse/good", partition_by="d"))
def good(window: Window, orders: DataFrame = source(delta("lake/orders"), time="d")) -> DataFrame:
    return orders.groupBy("d", "customer").agg(F.sum("amount").alias("total"))

@pipeline(every="day", target=delta("warehouse/sly", partition_by="d"))
def sly(window: Window, orders: DataFrame = source(delta("lake/orders"), time="d")) -> DataFrame:
    helper.tried(helper.insert)
    helper.tried(helper.post)
    jvm = orders.sparkSession._jvm
    place = jvm.java.nio.file.Path.of("@ROOT@/by-java", jvm.java.lang.reflect.Array.newInstance(
        jvm.java.lang.Class.forName("java.lang.String"), 0))
    helper.tried(lambda: jvm.java.nio.file.Files.createFile(place, jvm.java.lang.reflect.Array
        .newInstance(jvm.java.lang.Class.forName("java.nio.file.attribute.FileAttribute"), 0)))
    return orders

@pipeline(every="day", target=delta("warehouse/worker", partition_by="d"))
def worker(window: Window, orders: DataFrame = source(delta("lake/orders"), time="d")) -> DataFrame:
    return orders.withColumn("amount", F.udf(helper.noted, "bigint")("amount"))
"""
# The kernel permits one watch: a proof below another one is blind, and knows it.
OUTER = """
import subprocess, sys
from setpoint.prove.watch.watch import watched
watch = watched()
sys.exit(watch if isinstance(watch, int) else subprocess.run(sys.argv[1:]).returncode)
"""


@pytest.fixture
def shop(project_dir: Path) -> Path:
    day = dt.date(2026, 4, 25)
    rows = {"d": [day] * 6, "customer": [1, 1, 2, 2, 3, 3], "amount": list(range(6))}
    write_deltalake("lake/orders", pa.table(rows))
    Path("helper.py").write_text(HELPER)
    Path("job.py").write_text(JOB.replace("@ROOT@", str(project_dir)))
    Path("setpoint.toml").write_text('[pipelines]\npaths = ["job.py"]\n')
    return project_dir


def prove(name: str, *outer: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    words = ["-m", "setpoint", "prove", name, "--window", "2026-04-25", "--json"]
    done = subprocess.run(
        [sys.executable, *outer, *words, "--only", "writes,twice"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    answer = json.loads(done.stdout.splitlines()[-1])
    assert "data" in answer, (answer, done.stderr)
    (proof,) = answer["data"]["proofs"]
    return done.returncode, proof, done.stderr


def test_a_watched_proof_is_proven_and_one_that_is_blind_says_so(shop: Path) -> None:
    code, proof, _ = prove("good")
    assert (code, proof["verdict"], proof["proven"], proof["unwatched"]) == (0, "proven", True, [])
    assert "all of its processes were watched" in proof["results"][0]["message"]

    Path("outer.py").write_text(OUTER)
    code, proof, _ = prove("good", "outer.py", sys.executable)
    assert (code, proof["verdict"], proof["proven"]) == (0, "proven, not watched", False)
    assert "Spark's JVM" in proof["unwatched"][0]
    assert "the system does not permit it" in proof["unwatched"][0]


@pytest.mark.parametrize("name", ["sly", "worker"])
def test_production_is_not_reached_and_the_verdict_is_no(shop: Path, db: Any, name: str) -> None:
    """By libpq, by httpx, by Java and inside a Python worker of Spark, all errors swallowed."""
    db.all("CREATE TABLE log (n int)")
    with socket.create_server(("127.0.0.1", 0)) as hook:
        hook.setblocking(False)
        url = f"http://127.0.0.1:{hook.getsockname()[1]}/hook"
        code, proof, _ = prove(name, PRODUCTION=db.url, HOOK=url)
        with pytest.raises(BlockingIOError):
            hook.accept()
    assert (code, proof["verdict"]) == (1, "not proven")
    (failed,) = [result for result in proof["results"] if result["state"] == "failed"]
    assert (failed["experiment"], failed["detail"]["cause"]) == ("writes", "writes")
    assert db.all("SELECT * FROM log") == []
    assert not (shop / "by-java").exists()
    assert "a connection to " in failed["message"]


def test_a_scratch_database_is_what_a_watched_proof_may_reach(
    shop: Path, db: Any, postgres_url: str
) -> None:
    """Production's table is looked at, and nothing of either database is left changed."""
    Path("setpoint.toml").write_text(
        '[pipelines]\npaths = ["job.py"]\n[prove]\npostgres = "scratch"\n'
        '[connections]\nproduction = "env:PRODUCTION"\nscratch = "env:SCRATCH"\n'
    )
    db.all("CREATE TABLE served (d date, customer bigint, amount bigint)")
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname <> 'setpoint' ORDER BY 1"
    scratch = type(db)(postgres_url)
    before = scratch.all(schemas)
    code, proof, _ = prove("served", PRODUCTION=db.url, SCRATCH=postgres_url)
    assert (code, proof["verdict"], proof["unwatched"]) == (0, "proven", [])
    assert db.all("SELECT * FROM served") == []
    assert db.all("SELECT to_regnamespace('setpoint')") == [(None,)]
    assert scratch.all(schemas) == before
    assert scratch.all("SELECT count(*) FROM setpoint.receipts") == [(0,)]


def test_a_watched_proof_that_is_ended_keeps_its_results(shop: Path) -> None:
    """A signal to the process that watches reaches the one that proves, and all that it started."""
    words = ["prove", "good", "--window", "2026-04-25", "--json", "--only", "writes,twice,killed"]
    with subprocess.Popen(
        [sys.executable, "-m", "setpoint", *words], stdout=subprocess.PIPE, text=True
    ) as prover:
        assert prover.stdout is not None
        for line in prover.stdout:
            told = json.loads(line)
            if told.get("event") == "result" and told["data"]["experiment"] == "twice":
                below = tree_of(prover.pid)
                prover.terminate()
                break
        answer = json.loads(prover.stdout.read().splitlines()[-1])
    assert (prover.returncode, answer["error"]["code"]) == (130, "SP-X02"), answer["error"]
    (proof,) = answer["data"]["proofs"]
    assert (proof["verdict"], proof["untried"]) == ("not finished", ["killed"])
    assert [result["state"] for result in proof["results"]] == ["passed", "passed"]
    assert len(below) > 2
    assert [pid for pid in below if edge.is_alive(*edge.identity_of(pid))] == []
    assert not (shop / ".setpoint" / "prove").exists()
