"""What goes wrong around a publish to PostgreSQL: the error says what is true."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from setpoint import (
    DeleteInsert,
    Merge,
    PermanentError,
    RefusedError,
    TransientError,
    UnknownCommitError,
)
from setpoint.model.secret import Secret
from setpoint.targets.postgres import publish as publishing
from setpoint.targets.postgres.failures import explained
from setpoint.targets.postgres.ingest import ingesting
from setpoint.targets.postgres.server import SETTINGS, Server

COLUMNS = "id int, d date"
ROWS = [(1, "2026-04-25")]


def as_user(warehouse: Any, name: str, password: str = "s3cret") -> str:
    """A user of the server without rights, and the URL to log in with."""
    warehouse.all(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    return str(warehouse.url.replace("postgres:@", f"{name}:{password}@", 1))


def test_a_commit_that_landed_is_never_told_as_unchanged(
    warehouse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has said committed; then nobody can read the receipt back."""
    job = warehouse.job(time="d")
    real = publishing.commit

    def lose(connection: Any, server: Server, run: Any, xid: int) -> bool:
        assert real(connection, server, run, xid)
        elsewhere = "postgresql://u:s3cret@/x?host=/nonexistent"
        object.__setattr__(server, "url", Secret(elsewhere, whole=False))
        return False

    monkeypatch.setattr(publishing, "commit", lose)
    with pytest.raises(UnknownCommitError, match=r"SP-P02.*is committed.*transaction \d+") as seen:
        job.run(ROWS, COLUMNS)
    assert seen.value.state == "The window holds the new rows."
    assert "s3cret" not in str(seen.value)
    assert len(warehouse.rows()) == 1


@pytest.mark.parametrize("granted", [False, True])
def test_a_second_user_is_told_what_to_have_granted(warehouse: Any, granted: bool) -> None:
    """The schema belongs to whoever published first."""
    warehouse.job(time="d").run(ROWS, COLUMNS)
    user = f"etl_{granted}".lower()
    url = as_user(warehouse, user)
    warehouse.all(f"GRANT ALL ON out TO {user}")
    if granted:
        warehouse.all(f"GRANT USAGE, CREATE ON SCHEMA setpoint TO {user}")
    job = warehouse.job(time="d", url=url)
    wanted = r"SP-T03.*etl_\w+ may not use the schema setpoint.*belongs to \w+\..*GRANT USAGE"
    for act in (job.state, lambda: job.target.published_windows()):
        with pytest.raises(PermanentError, match=wanted):
            act()
    with pytest.raises(PermanentError, match=wanted) as caught:
        job.stage(ROWS, COLUMNS, "2026-04-25", "")
    warehouse.all(caught.value.next.partition(": ")[2])
    assert job.run([(2, "2026-04-25")], COLUMNS) == "published"


def test_a_user_who_may_make_no_schema_is_told_so(warehouse: Any) -> None:
    job = warehouse.job(time="d", url=as_user(warehouse, "etl3"))
    with pytest.raises(PermanentError, match=r"SP-T03.*CREATE SCHEMA setpoint AUTH.*") as caught:
        job.stage(ROWS, COLUMNS, "2026-04-25", "")
    warehouse.all(caught.value.next.partition(": ")[2])
    warehouse.all("GRANT CREATE ON SCHEMA public TO etl3")
    assert job.run(ROWS, COLUMNS) == "published"


def test_a_lock_is_no_fault_of_the_condition(warehouse: Any, monkeypatch: Any) -> None:
    """A table that is locked while the condition is looked at is waited for, and tried again."""
    warehouse.all("CREATE TABLE out (id int)")
    job = warehouse.job(DeleteInsert(where="id > 1"))
    quick = SETTINGS.replace("lock_timeout = '300s'", "lock_timeout = '10ms'")
    monkeypatch.setattr("setpoint.targets.postgres.server.SETTINGS", quick)
    with warehouse.connect() as other:
        other.execute("LOCK TABLE out IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TransientError, match=r"SP-P01.*gave up waiting.*pg_blocking_pids"):
            job.target.check_definition()
    bad = warehouse.job(DeleteInsert(where="nothing_there > 1"))
    with pytest.raises(RefusedError, match="SP-D09"):
        bad.target.check_definition()


class Labelled:
    label = "job[2026-04-25]"


def task_failure(url: str, copy: str, line: str) -> Exception:
    """What Spark tells of a task that fails, with the traceback of the executor's own code."""
    import traceback

    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"piece": [0], "line": [line], "hash": [1]})
    try:
        list(ingesting(url, SETTINGS, copy, 0, 0)([batch]))
    except psycopg.Error:
        return RuntimeError(f"Job aborted.\n{traceback.format_exc()}")
    raise AssertionError("it did not fail")


def test_a_task_that_fails_is_told_by_what_the_server_said(warehouse: Any) -> None:
    """Only a value that does not fit is a fault of the rows; what may pass is tried again."""
    server = Server("wh", warehouse.url)
    warehouse.all("CREATE SCHEMA setpoint; CREATE TABLE numbers (n int CHECK (n > 0))")
    copy = "COPY numbers (n) FROM STDIN"
    for line in ("x\n", "-1\n"):
        found: Any = explained(task_failure(warehouse.url, copy, line), Labelled(), server)  # type: ignore[arg-type]
        assert type(found) is RefusedError
        assert "does not fit its column" in found.what
    gone = task_failure(warehouse.url, "COPY setpoint.stage_a1 (n) FROM STDIN", "1\n")
    user = as_user(warehouse, "etl4")
    denied = task_failure(user, copy, "1\n")
    cut = RuntimeError("psycopg.OperationalError: consuming input failed: server closed")
    memory = RuntimeError("psycopg.errors.OutOfMemory: out of memory")
    cancelled = RuntimeError(
        "psycopg.errors.QueryCanceled: canceling statement due to user request"
    )
    adbc = RuntimeError("adbc_driver_manager.ProgrammingError: INTERNAL: no. SQLSTATE: 42501")
    expected = [
        (gone, TransientError, "The stage is gone"),
        (denied, PermanentError, "permission denied for table numbers"),
        (cut, TransientError, "consuming input failed"),
        (memory, TransientError, "out of memory"),
        (cancelled, TransientError, "cancelled"),
        (adbc, PermanentError, "42501"),
    ]
    for error, kind, words in expected:
        found = explained(error, Labelled(), server)  # type: ignore[arg-type]
        assert type(found) is kind
        assert words in found.what
        assert all((found.why, found.next))
        assert found.state.startswith("The target is unchanged")
        assert "s3cret" not in str(found)


def test_a_time_limit_of_the_role_ends_neither_a_task_nor_a_publish(warehouse: Any) -> None:
    """Long loads are what they are for."""
    name = warehouse.all("SELECT current_database()")[0][0]
    warehouse.all(
        "CREATE TABLE numbers (n int); CREATE TABLE out (id int, d date); "
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN PERFORM pg_sleep(0.6); RETURN new; END$$; CREATE TRIGGER slow BEFORE INSERT "
        "ON numbers FOR EACH ROW EXECUTE FUNCTION slow(); CREATE TRIGGER slow BEFORE INSERT "
        "ON out FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    warehouse.all(f"ALTER DATABASE {name} SET statement_timeout = '500ms'")
    with pytest.raises(AssertionError, match="it did not fail"):
        task_failure(warehouse.url, "COPY numbers (n) FROM STDIN", "1\n")
    assert warehouse.job(time="d").run(ROWS, COLUMNS) == "published"


def test_a_stage_that_somebody_dropped_is_staged_afresh(warehouse: Any) -> None:
    from setpoint.flow.publish import publish

    job = warehouse.job(Merge(key="id", sequence_by="d"))
    state = job.state()
    run, staged = job.stage(ROWS, COLUMNS, "2026-04-25", "")
    job.target.drop_stage(staged.location)
    with pytest.raises(TransientError, match=r"SP-P04.*stage is gone.*stages afresh"):
        publish(job.target, None, run, staged, (), state, "2026-05-01T00:00:00+00:00")
