"""The values of a sandbox: redirected places, specs on disk, samples, chosen experiments."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from setpoint import delta, iceberg, parquet, pipeline, postgres, previous, source
from setpoint.errors import UsageError
from setpoint.project.config import Config
from setpoint.prove.certificate import PROOFS
from setpoint.prove.experiments import EXPERIMENTS
from setpoint.prove.folders import COMMANDS, PIPELINES, made_here, proof_folder
from setpoint.prove.inputs import Sample
from setpoint.prove.pipeline import choose
from setpoint.prove.redirection import CATALOG, CONNECTION, Redirection
from setpoint.prove.request import Request, Spec
from setpoint.prove.trial import TARGET
from setpoint.prove.trials import TRIALS

REDIRECTION = Redirection("/sandbox", "0a1b2c3d", "postgresql:///own")


@pytest.mark.parametrize(
    "target",
    [
        delta("s3://bucket/out", partition_by="d", storage_options={"key": "secret"}),
        delta(table="sales.out", time="d"),
        iceberg("lake.sales.out", partition_by=("d", "region")),
        parquet(table="sales.out", partition_by="d"),
        postgres('sales."Out"', connection="warehouse", time="d"),
    ],
)
def test_a_target_keeps_all_but_its_place(target: Any) -> None:
    """The table of a trial is of the same kind and layout, so that the run key stays the same."""
    redirected = REDIRECTION.target(target, "failures-3")
    assert redirected.kind == target.kind
    assert redirected.definition() == target.definition()
    assert redirected.slice_column == target.slice_column
    assert redirected.label != target.label
    assert "bucket" not in str(redirected)
    assert "secret" not in str(getattr(redirected, "storage_options", ""))
    assert getattr(redirected, "connection", CONNECTION) == CONNECTION


def test_a_pipeline_reads_its_window_before_from_the_sandbox() -> None:
    """`previous()` is the trial's own table; every other source stays the user's."""

    def carried(
        window: Any,
        orders: Any = source(delta("lake/orders"), time="d"),
        before: Any = previous("n long"),
    ) -> Any:
        return orders

    made = pipeline(every="day", target=delta("out", partition_by="d"))(carried)
    moved = REDIRECTION.pipeline(made, "clean", "code")
    assert moved.sources["before"].origin == moved.target
    assert moved.sources["orders"].origin == made.sources["orders"].origin
    assert moved.code == "code"
    assert moved.definition() == made.definition()


def test_the_configuration_names_no_place_of_production_to_write_to(tmp_path: Path) -> None:
    """Ledger, landing, catalog, connection and metastore of a trial are the sandbox's."""
    config = Config(tmp_path, ledger="postgresql://prod/ledger", landing="s3://bucket/landing")
    conf = {"spark.hadoop.hive.metastore.uris": "thrift://prod:9083"}
    moved = REDIRECTION.config(replace(config, conf=conf))
    assert moved.ledger_url.reveal().endswith("/sandbox/ledger.db")
    assert moved.landing == "/sandbox/landing"
    assert "/sandbox" in moved.catalogs[CATALOG]["uri"].reveal()
    assert moved.connections[CONNECTION].reveal() == "postgresql:///own"
    assert moved.conf["spark.hadoop.hive.metastore.uris"].reveal() == ""
    database = moved.conf["spark.hadoop.javax.jdo.option.ConnectionURL"].reveal()
    assert "/sandbox/warehouse/_metastore" in database


@pytest.mark.parametrize("redirection", [REDIRECTION, replace(REDIRECTION, scratch_metastore=True)])
def test_trials_write_no_event_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redirection: Redirection
) -> None:
    """Whoever asks for one, Spark's own defaults included; a Connect server has its own."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    name = "spark.eventLog.enabled"
    config = Config(tmp_path)
    assert redirection.config(config).conf[name].reveal() == "false"
    asked = redirection.config(replace(config, conf={name: "true"}))
    assert asked.conf[name].reveal() == "false"
    assert name not in redirection.config(replace(config, remote="sc://h:15002")).conf
    monkeypatch.setenv("SPARK_REMOTE", "sc://h:15002")
    assert name not in redirection.config(config).conf


def test_a_request_comes_back_from_its_file(tmp_path: Path) -> None:
    """Another process gets the same values."""
    spec = Spec(
        "killed-2",
        REDIRECTION,
        "/project",
        "/project/setpoint.toml",
        "/project/p.py:daily",
        {"region": "eu"},
        "1%",
        {"spark.sql.shuffle.partitions": "4"},
        {"orders": {"2026-04-25": {"version": 3, "fingerprint": "f"}}},
    )
    request = Request(spec, ("2026-04-25",), "answer.json", 7, ("2026-04-24",), fault="staged:kill")
    environment = request.write(tmp_path / "request.json")
    assert Request.read(tmp_path / "request.json", environment) == request
    assert environment == {}, "what the process starts must not inherit the URL"


@pytest.mark.parametrize(
    ("text", "share", "column"),
    [("1%", 0.01, ""), ("customer_id=2.5%", 0.025, "customer_id"), ("100%", 1.0, "")],
)
def test_samples_are_read(text: str, share: float, column: str) -> None:
    assert Sample.parse(text) == Sample(pytest.approx(share), column)


@pytest.mark.parametrize("text", ["0.01", "0%", "101%", "a=b", "x%", "-1%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="SP-V01"):
        Sample.parse(text)


def test_experiments_are_chosen_by_set_or_name() -> None:
    """The quick set is part of the full one; a name that is none is refused."""
    quick, full = choose(), choose(full=True)
    assert set(quick.names) < set(full.names)
    assert choose(only=["order", "twice"]).names == ("twice", "order")
    with pytest.raises(UsageError, match="SP-V07"):
        choose(only=["twise"])


def test_every_trial_is_an_experiment() -> None:
    assert set(TRIALS) <= set(EXPERIMENTS)


def test_folders_of_killed_proofs_are_cleared(tmp_path: Path) -> None:
    """What a dead process left goes; what a living one uses, or was to be kept, stays."""
    for name, pid in (("dead", 2**22 - 1), ("kept", 2**22 - 1)):
        folder = tmp_path / PIPELINES / name
        folder.mkdir(parents=True)
        import socket

        owner = [socket.gethostname(), pid, "gone", made_here(folder)]
        (folder / "owner.json").write_text(json.dumps(owner))
    (tmp_path / PIPELINES / "kept" / "kept").touch()
    with proof_folder(tmp_path, "daily orders") as first:
        assert not (tmp_path / PIPELINES / "dead").exists()
        assert (tmp_path / PIPELINES / "kept").exists()
        with proof_folder(tmp_path, "daily orders") as second:
            assert first.exists()
            assert second != first
    assert not first.exists()


def test_a_kept_sandbox_lies_outside_the_folder_of_certificates(tmp_path: Path) -> None:
    """Certificates are committed by some; nobody means to commit the tables of a sandbox."""
    with proof_folder(tmp_path, "daily", keep=True) as folder:
        pass
    assert folder.exists()
    assert tmp_path / PROOFS not in folder.parents
    assert not (tmp_path / PROOFS).exists()


def test_an_empty_folder_of_proofs_goes_and_what_others_keep_stays(tmp_path: Path) -> None:
    with proof_folder(tmp_path, "daily"):
        pass
    assert not (tmp_path / ".setpoint").exists()
    (tmp_path / COMMANDS / "one").mkdir(parents=True)
    with proof_folder(tmp_path, "daily"):
        pass
    assert (tmp_path / COMMANDS / "one").exists()


def test_an_experiment_that_breaks_tells_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its error is the cause, and for one of ours the trace is kept."""
    from setpoint import edge
    from setpoint.errors import PermanentError
    from setpoint.prove import pipeline
    from setpoint.prove.guard import Guard

    def no_cluster(case: Any) -> Any:
        raise PermanentError("SP-V13", "No cluster.", why="It said nothing.", next="Use --keep")

    guard = Guard(Path("project"), Path("sandbox"))
    case: Any = SimpleNamespace(sandbox=SimpleNamespace(guard=guard))
    monkeypatch.setattr(pipeline, "trial_of", lambda name: no_cluster)
    result = pipeline._tried(case, "speculation", edge.utc_now)
    assert (result.state, result.message) == ("failed", "SP-V13  No cluster.")
    assert (result.cause, result.repair) == ("It said nothing.", "Use --keep")
    assert result.detail["cause"] == "SP-V13"
    monkeypatch.setattr(pipeline, "trial_of", lambda name: no_cluster.oops)  # type: ignore[attr-defined]
    result = pipeline._tried(case, "speculation", edge.utc_now)
    assert result.message.startswith("an unexpected error: AttributeError")
    assert "Traceback" in result.detail["trace"]


def test_a_clean_run_that_fails_does_not_send_people_to_production() -> None:
    """Production has not heard of the attempt, and the stage went with the sandbox."""
    from setpoint.errors import RefusedError
    from setpoint.model.window import Window
    from setpoint.prove import pipeline

    audit = RefusedError(
        "SP-A01", "An audit failed.", why="7 of 9 rows are null.", next="setpoint show daily"
    )
    sandbox = SimpleNamespace(pipeline=SimpleNamespace(name="daily"))
    case: Any = SimpleNamespace(sandbox=sandbox, window=Window.parse("2026-04-25"))
    error = pipeline._not_tried(case, audit)
    assert error.why == "SP-A01  An audit failed. 7 of 9 rows are null."
    assert "setpoint show" not in error.next
    assert "--keep" in error.next


def test_only_the_failure_that_was_armed_is_passed_over() -> None:
    """A failure that speaks of a default is none of ours."""
    from setpoint.errors import PermanentError
    from setpoint.flow.faults import RaisedFault
    from setpoint.prove.trials.failures import _fail

    class Failing:
        def __init__(self, error: Exception) -> None:
            self._error = error

        def run(self, window: Any, *, fault: str) -> None:
            raise self._error

    case: Any = SimpleNamespace(window=None)
    armed: Any = Failing(RaisedFault("SP-S04", "A fault was raised at staged."))
    _fail(case, armed, "staged:raise")
    other: Any = Failing(PermanentError("SP-C03", "The default is not valid."))
    with pytest.raises(PermanentError):
        _fail(case, other, "staged:raise")


def test_the_clean_run_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every experiment is compared with it, and nothing is written to it any more."""
    from setpoint.model.proof import Difference
    from setpoint.prove.case import Case
    from setpoint.spark import difference

    read: list[str] = []
    given: list[Any] = []

    def contents(frame: str) -> str:
        read.append(frame)
        return f"contents of {frame}"

    def compared(one: str, two: str, *, key: Any, known: Any = None) -> Difference:
        given.append(known)
        return Difference(1, 1, 0, 0)

    monkeypatch.setattr(difference, "contents", contents)
    monkeypatch.setattr(difference, "difference", compared)
    pipeline = SimpleNamespace(write=None, audits=())
    sandbox: Any = SimpleNamespace(pipeline=pipeline)
    window: Any = None
    case = Case(sandbox, window)

    def trial(name: str) -> Any:
        frame = SimpleNamespace(limit=lambda number: "empty")
        return SimpleNamespace(name=name, tables=lambda: nullcontext({TARGET: frame}))

    for expected in ("clean", "clean", "in-order", "in-order", "surroundings-control"):
        case.differences(trial("twice"), trial(expected))
    assert len(read) == 2
    assert [bool(item) for item in given] == [True, True, True, True, False]
