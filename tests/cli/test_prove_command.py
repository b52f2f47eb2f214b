"""`setpoint prove --command`: scripts that have never heard of setpoint, on a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from setpoint import edge
from setpoint.cli.main import main
from setpoint.prove.folders import made_here

WINDOW = "2026-04-25"
TABLE = "orders=postgres:shop/public.orders"
HEAD = """
import os, sys, psycopg
ROWS = [(n, sys.argv[1], n * 1.5) for n in range(5)]
URL = os.environ["SETPOINT_CONNECTION_SHOP"]
"""

APPEND = """
with psycopg.connect(URL) as c:
    for row in ROWS:
        c.execute("INSERT INTO orders (id, d, amount) VALUES (%s, %s, %s)", row)
"""
TWO_TRANSACTIONS = """
with psycopg.connect(URL, autocommit=True) as c:
    c.execute("DELETE FROM orders WHERE d = %s", ROWS[0][1:2])
    with c.transaction():
        for row in ROWS:
            c.execute("INSERT INTO orders (id, d, amount) VALUES (%s, %s, %s)", row)
"""
UPSERT = """
with psycopg.connect(URL) as c:
    for row in ROWS:
        c.execute("INSERT INTO orders (id, d, amount) VALUES (%s, %s, %s) "
                  "ON CONFLICT (id, d) DO UPDATE SET amount = excluded.amount", row)
"""
UUID_ON_A_COPY = """
import uuid
with psycopg.connect(URL) as c:
    c.execute(f"DELETE FROM {sys.argv[2]} WHERE d = %s", ROWS[0][1:2])
    for row in ROWS:
        c.execute(f"INSERT INTO {sys.argv[2]} (id, d, amount, note) VALUES (%s, %s, %s, %s)",
                  (*row, str(uuid.uuid4())))
"""
NOW = """
from datetime import datetime, timezone
with psycopg.connect(URL) as c:
    for row in ROWS:
        c.execute("INSERT INTO orders (id, d, amount, at) VALUES (%s, %s, %s, %s) "
                  "ON CONFLICT (id, d) DO UPDATE SET at = excluded.at",
                  (*row, datetime.now(timezone.utc)))
"""
MARK = """
import pathlib
mark = pathlib.Path("mark.txt")
last = int(mark.read_text()) if mark.exists() else 0
with psycopg.connect(URL) as c:
    for row in ROWS[last:]:
        c.execute("INSERT INTO orders (id, d, amount) VALUES (%s, %s, %s)", row)
mark.write_text("5")
"""
EMPTIED = """
with psycopg.connect(URL) as c:
    c.execute("TRUNCATE orders")
    for row in ROWS:
        c.execute("INSERT INTO orders (id, d, amount) VALUES (%s, %s, %s)", row)
"""
ADDED = """
with psycopg.connect(URL, autocommit=True) as c:
    c.execute("UPDATE orders SET amount = amount + 10 WHERE NOT done")
    c.execute("UPDATE orders SET done = true")
"""
COUNTING = """
import pathlib
runs = pathlib.Path("runs.txt")
runs.write_text((runs.read_text() if runs.exists() else "") + "x")
with psycopg.connect(URL) as c:
    c.execute("DELETE FROM orders")
    for row in ROWS[:5 if len(runs.read_text()) < 3 else 4]:
        c.execute("INSERT INTO orders (id, d, amount, number) VALUES (%s, %s, %s, %s)",
                  (*row, row[0]))
"""
TWO_CONNECTIONS = """
with psycopg.connect(URL) as a, psycopg.connect(URL) as b:
    for c, rows in ((a, ROWS[:2]), (b, ROWS[2:])):
        c.execute("DELETE FROM orders WHERE id = ANY (%s)", ([row[0] for row in rows],))
        for row in rows:
            c.execute("INSERT INTO orders (id, d, amount, number) VALUES (%s, %s, %s, %s)",
                      (*row, 10 + row[0]))
    a.commit()
    b.commit()
"""
WHOLE_MONTH = """
with psycopg.connect(URL) as c:
    c.execute("DELETE FROM orders WHERE date_trunc('month', d) = date_trunc('month', %s::date)",
              ROWS[0][1:2])
    for row in ROWS:
        c.execute("INSERT INTO orders (id, d, amount) VALUES (%s, %s, %s)", row)
"""
SHIPPED = """
with psycopg.connect(URL) as c:
    c.execute("DELETE FROM orders WHERE shipped = %s", sys.argv[1:2])
    c.execute("INSERT INTO orders (id, d, shipped) SELECT n, %s::date - n, %s "
              "FROM generate_series(0, 1) n", (sys.argv[1], sys.argv[1]))
"""
IMPATIENT = (
    """
with psycopg.connect(URL) as c:
    c.execute("LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE NOWAIT")
"""
    + UPSERT
)
NOW_AND_RANDOM = """
import random
from datetime import date
with psycopg.connect(URL) as c:
    for row in ROWS:
        c.execute("INSERT INTO orders (id, d, amount, note) VALUES (%s, %s, %s, %s) ON CONFLICT "
                  "(id, d) DO UPDATE SET amount = excluded.amount, note = excluded.note",
                  (*row[:2], random.randint(1, 10**9), str(date.today())))
"""
BROKEN = """
with psycopg.connect(URL) as c:
    c.execute("DELETE FROM orders")
sys.exit("the vendor did not answer")
"""
HANGING = """
import pathlib, time
with psycopg.connect(URL) as c:
    c.execute("TRUNCATE orders RESTART IDENTITY")
    c.execute("ALTER TABLE orders ADD COLUMN extra int")
pathlib.Path("started").write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture
def shop(db: Any, project_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A table with rows of another day, a serial, an index and a check."""
    monkeypatch.setenv("SETPOINT_CONNECTION_SHOP", db.url)
    db.all(
        "CREATE TABLE orders (id int, d date, amount numeric CHECK (amount >= 0), note text, "
        "at timestamptz, number serial, PRIMARY KEY (number))"
    )
    db.all("CREATE INDEX by_day ON orders (d)")
    db.all("INSERT INTO orders (id, d, amount) VALUES (100, '2026-04-01', 3)")
    return db


def keyed(shop: Any) -> None:
    shop.all("ALTER TABLE orders DROP COLUMN number")
    shop.all("ALTER TABLE orders ADD PRIMARY KEY (id, d)")


def state(shop: Any) -> tuple[Any, ...]:
    """Rows, sequence, columns and indexes."""
    return (
        shop.all("SELECT * FROM orders ORDER BY number"),
        shop.all("SELECT last_value, is_called FROM orders_number_seq"),
        shop.all(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass "
            "AND NOT attisdropped"
        ),
        shop.all("SELECT indexdef FROM pg_indexes WHERE tablename = 'orders' ORDER BY 1"),
        shop.all("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'setpoint%'"),
    )


def prove(
    script: str,
    capsys: pytest.CaptureFixture[str],
    *options: str,
    words: str = "",
    window: str = WINDOW,
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Prove a script through the command line; its exit code, and the results by experiment."""
    Path("job.py").write_text(HEAD + script)
    command = f"{sys.executable} job.py {{window}} {words}"
    given = ["--command", command, "--table", TABLE, "--window", window, "--json", *options]
    code = main(["prove", *given])
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    if "data" not in answer:
        return code, {"error": answer["error"]}
    (proof,) = answer["data"]["proofs"]
    return code, {result["experiment"]: result for result in proof["results"]}


def test_an_append_is_caught_and_undone(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, sequence and indexes are what they were, and the cause names the append."""
    before = state(shop)
    code, found = prove(APPEND, capsys, "--yes")
    assert code == 1
    assert found["twice"]["state"] == found["killed"]["state"] == "failed"
    assert found["twice"]["message"] == "after a second run, orders: 11 rows instead of 6 (+5)."
    assert found["twice"]["detail"]["cause"] == "appended"
    assert "job.py:8  append-write" in found["twice"]["detail"]["notes"][0]
    assert found["killed"]["detail"]["cause"] == "attempt-left-behind"
    assert found["neighbours"]["state"] == "passed"
    assert state(shop) == before


def test_a_delete_and_an_insert_in_two_transactions_lose_rows(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """However close they are: the gate holds the script between the two."""
    shop.all("ALTER TABLE orders DROP COLUMN number")
    code, found = prove(TWO_TRANSACTIONS, capsys, "--yes", "--only", "twice,killed")
    assert code == 1
    assert found["twice"]["state"] == "passed"
    assert found["killed"]["message"] == (
        "killed after change 1 of 2 (orders) of a second run, orders: 1 rows instead of 6 (-5) "
        "until somebody runs it again."
    )
    assert found["killed"]["detail"]["cause"] == "delete-without-insert"


def test_an_upsert_is_proven(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Under all experiments there are."""
    keyed(shop)
    code, found = prove(UPSERT, capsys, "--yes", "--full")
    assert code == 0
    assert {result["state"] for result in found.values()} == {"passed"}
    assert set(found) == {
        "twice", "thrice", "killed", "two-at-once", "neighbours", "order", "surroundings",
    }  # fmt: skip


def test_made_up_keys_are_named_and_the_real_table_is_only_read(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command takes the name of the table, so it gets that of a copy; nobody is asked."""
    shop.all(
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.note := clock_timestamp(); RETURN NEW; END $$"
    )
    shop.all("CREATE TRIGGER noting BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION noted()")
    before = (state(shop), shop.versions("orders"))
    code, found = prove(UUID_ON_A_COPY, capsys, "--only", "twice,surroundings", words="{orders}")
    assert code == 1
    assert "`note` differs in 5 of 6 rows and looks like a UUID" in found["twice"]["cause"]
    assert found["surroundings"]["message"].startswith(
        "run like the first time, orders: `note` differs in 5 of 6 rows"
    )
    assert (state(shop), shop.versions("orders")) == before


def test_a_clock_value_is_named(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    keyed(shop)
    code, found = prove(NOW, capsys, "--yes", "--only", "surroundings")
    assert code == 1
    assert found["surroundings"]["detail"]["cause"] == "clock"
    assert "`at` differs in 5 of 6 rows" in found["surroundings"]["cause"]


def test_what_was_not_varied_is_told(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The clock of the database, and of a process that is started without its environment."""
    keyed(shop)
    Path("job.py").write_text(HEAD + UPSERT + "import time; time.sleep(0.3)")
    url = f"SETPOINT_CONNECTION_SHOP={shop.url}"
    command = f"env -i '{url}' {sys.executable} job.py {WINDOW}"
    given = ["--command", command, "--table", TABLE, "--yes", "--only", "surroundings"]
    assert main(["prove", *given]) == 0
    told = capsys.readouterr().out
    if "for want of a working libfaketime" not in told:
        assert "the clock of the database of orders was not moved" in told
        assert "the clock was not moved for python" in told
        assert "the same rows: time zone, locale" in told


def test_a_mark_apart_from_the_data_is_caught(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill between the commit and the mark, and the retry loads everything again."""
    code, found = prove(MARK, capsys, "--yes", "--state", "mark.txt", "--only", "twice,killed")
    assert found["twice"]["state"] == "passed"
    assert code == 1
    assert found["killed"]["detail"]["cause"] == "split-state"
    assert "orders is changed first and mark_txt later" in found["killed"]["cause"]
    assert not Path("mark.txt").exists()


def test_a_wiped_neighbour_is_caught(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = prove(EMPTIED, capsys, "--yes", "--only", "neighbours")
    assert code == 1
    assert found["neighbours"]["detail"]["cause"] == "wiped-neighbours"
    assert found["neighbours"]["difference"]["missing"] == 5


def test_a_neighbour_that_is_not_next_to_it_is_caught(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of a month: the day before is in another one, the days after it are wiped."""
    days = "SELECT 7, date '2026-05-09' + n FROM generate_series(1, 9) n"
    shop.all(f"INSERT INTO orders (id, d) {days}")
    options = ("--yes", "--only", "neighbours", "--neighbour", "2026-04-30")
    code, found = prove(WHOLE_MONTH, capsys, *options, window="2026-05-01")
    assert code == 1
    assert found["neighbours"]["detail"]["cause"] == "wiped-neighbours"
    assert "outside 2026-05-01 by `d`, orders: " in found["neighbours"]["message"]
    assert "--time COLUMN" in found["neighbours"]["repair"]


def test_the_column_of_the_window_is_the_one_that_new_rows_are_in(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Orders of the day before that were shipped today are rows of today."""
    shop.all("ALTER TABLE orders ADD COLUMN shipped date")
    code, found = prove(SHIPPED, capsys, "--yes", "--only", "neighbours")
    assert (code, found["neighbours"]["state"]) == (0, "passed")
    assert found["neighbours"]["detail"]["time"] == {"orders": "shipped"}


def test_what_differs_anyway_is_not_blamed_on_the_surroundings(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed(shop)
    code, found = prove(NOW_AND_RANDOM, capsys, "--yes", "--only", "surroundings")
    assert code == 1
    about_the_clock = found["surroundings"]["cause"].partition("Run like the first time")[0]
    assert "`note`" in about_the_clock
    assert "`amount`" not in about_the_clock


def test_a_command_that_does_not_wait_for_a_lock_is_not_held(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed(shop)
    code, found = prove(IMPATIENT, capsys, "--yes", "--only", "twice,killed")
    assert (code, found.get("error")) == (0, None)


def test_a_second_run_that_fails_is_told(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    keyed(shop)
    code, found = prove(APPEND, capsys, "--yes", "--only", "twice")
    assert code == 1
    assert found["twice"]["message"].startswith("the second run fails with exit code 1: ")
    assert "duplicate key" in found["twice"]["detail"]["output"]


def test_a_command_that_fails_at_once_is_no_proof(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(shop)
    code, found = prove(BROKEN, capsys, "--yes")
    assert (code, found["error"]["code"]) == (3, "SP-V21")
    assert "the vendor did not answer" in found["error"]["why"]
    assert state(shop) == before


def test_nobody_works_on_real_tables_without_being_asked(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = prove(APPEND, capsys)
    assert (code, found["error"]["code"]) == (2, "SP-C07")
    assert "postgres:shop/public.orders" in found["error"]["what"]


def test_a_table_that_is_not_written_is_no_proof(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.all("ALTER TABLE orders RENAME TO others")
    script = APPEND.replace("INTO orders", "INTO others")
    code, found = prove(script, capsys, "--yes")
    assert (code, found["error"]["code"]) == (3, "SP-V26")


def test_a_command_that_writes_nothing_is_no_proof(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name that exists would certify everything; so would a window that is loaded."""
    shop.all("CREATE TABLE others (LIKE orders INCLUDING ALL)")
    script = APPEND.replace("INTO orders", "INTO others")
    code, found = prove(script, capsys, "--yes")
    assert (code, found["error"]["code"]) == (3, "SP-V27")
    assert "postgres:shop/public.orders" in found["error"]["what"]


def test_a_window_that_is_written_again_as_it_was_is_told(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed(shop)
    Path("job.py").write_text(HEAD + UPSERT)
    subprocess.run([sys.executable, "job.py", WINDOW], check=True)
    words = ["--command", f"{sys.executable} job.py {WINDOW}", "--table", TABLE, "--yes"]
    assert main(["prove", *words, "--only", "twice"]) == 0
    assert "a first load of the window was not tried" in capsys.readouterr().out


def test_every_commit_is_a_moment_whatever_the_columns_are_called(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """An addition in a transaction of its own, on a table with a column that is called t."""
    keyed(shop)
    shop.all("ALTER TABLE orders ADD COLUMN t int, ADD COLUMN done boolean DEFAULT false")
    shop.all("INSERT INTO orders (id, d, amount) VALUES (101, '2026-04-01', 3)")
    code, found = prove(ADDED, capsys, "--yes", "--only", "killed")
    assert (code, found["killed"]["state"]) == (1, "failed")
    assert "`amount`: set it, do not add to it" in found["killed"]["repair"]


def test_rows_that_others_refer_to_get_their_values_back(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a row cannot be removed and added again, not even in one transaction."""
    keyed(shop)
    shop.all("INSERT INTO orders (id, d, amount) VALUES (0, '2026-04-25', 77)")
    shop.all("CREATE TABLE lines (id int, d date, FOREIGN KEY (id, d) REFERENCES orders)")
    shop.all("INSERT INTO lines VALUES (0, '2026-04-25')")
    before = shop.all("SELECT * FROM orders ORDER BY id")
    code, found = prove(UPSERT, capsys, "--yes", "--only", "twice")
    assert (code, found["twice"]["state"]) == (0, "passed")
    assert shop.all("SELECT * FROM orders ORDER BY id") == before


def test_a_command_that_waits_for_itself_is_let_go(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two connections, one behind the lock that queues behind the other."""
    code, found = prove(TWO_CONNECTIONS, capsys, "--yes", "--only", "twice")
    assert (code, found["twice"]["state"]) == (0, "passed")


def test_three_runs_are_three_runs(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = prove(COUNTING, capsys, "--yes", "--only", "thrice")
    assert (code, found["thrice"]["state"]) == (1, "failed")
    assert Path("runs.txt").read_text() == "xxx"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_prover_that_is_ended_leaves_nothing_behind(shop: Any, number: signal.Signals) -> None:
    """After Ctrl-C at once; after a kill by `--restore`, which also ends the command."""
    before = state(shop)
    Path("job.py").write_text(HEAD + HANGING)
    words = ["--command", f"{sys.executable} job.py {WINDOW}", "--table", TABLE, "--yes"]
    with Path("prover.log").open("wb") as log:
        prover = subprocess.Popen(
            [sys.executable, "-m", "setpoint", "prove", *words], stdout=log, stderr=log
        )
        while not Path("started").exists() and prover.poll() is None:
            time.sleep(0.01)
        prover.send_signal(number)
        code = prover.wait(60)
    left = [path.parent for path in Path(".setpoint").rglob("restore.json")]
    if number == signal.SIGINT:
        assert (code, left) == (130, []), Path("prover.log").read_text()
    else:
        assert state(shop) != before
        assert main(["prove", "--restore", str(left[0])]) == 0
    assert state(shop) == before
    assert not edge.is_alive(*edge.identity_of(int(Path("started").read_text())))


def test_options_that_would_do_nothing_are_refused(
    project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "daily", "--table", "a=delta:x"]) == 2
    assert main(["prove", "--command", "x", "--table", "a=delta:x", "--sample", "1%"]) == 2
    assert main(["prove", "daily", "--command", "x"]) == 2
    assert main(["prove", "daily", "--yes"]) == 2
    assert main(["prove", "--restore", "nowhere"]) == 2
    told = capsys.readouterr().err
    assert "--yes goes with --command only" in told
    assert "--table goes with --command only" in told
    assert "--sample goes with a pipeline only" in told
    assert "SP-V24" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ci", "--since", "x", "--command", "job"], "without a pipeline or a command"),
        (["--ci", "--since", "x", "--table", "a=delta:x"], "--table goes with --command only"),
        (["--restore", "here", "daily"], "--restore goes without a pipeline"),
        (["--restore", "here", "--sample", "1%"], "--restore goes without --sample"),
        (["--restore", "here", "--command", "job"], "--restore goes without --command"),
        (["--restore", "here", "--yes"], "--restore goes without --yes"),
    ],
)
def test_a_proof_that_was_asked_for_is_not_passed_over(
    words: list[str], told: str, project_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer of 0 would say that the command was proven."""
    assert main(["prove", *words]) == 2
    assert told in capsys.readouterr().err


def test_two_proofs_of_one_table_are_refused(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One of other tables does not stand in the way."""
    folder = Path(".setpoint/prove/commands/other")
    folder.mkdir(parents=True)
    marker = {"process": edge.process_identity(), "places": [], "copies": [], "here": "."}
    marker["made"] = made_here(folder)
    (folder / "restore.json").write_text(json.dumps({**marker, "labels": ["delta:/elsewhere"]}))
    code, found = prove(BROKEN, capsys, "--yes")
    assert found["error"]["code"] == "SP-V21"
    labels = ["postgres:shop/public.orders"]
    (folder / "restore.json").write_text(json.dumps({**marker, "labels": labels}))
    code, found = prove(BROKEN, capsys, "--yes")
    assert (code, found["error"]["code"]) == (3, "SP-V25")


def test_the_next_proof_restores_what_one_has_left(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A marker of a process that is gone: its tables go back before anything else happens."""
    from setpoint.project.config import find_config
    from setpoint.project.wiring import Project
    from setpoint.prove.command.kept import MARKER
    from setpoint.prove.command.prove import folder_of
    from setpoint.prove.command.tables import table_of

    before = state(shop)
    with Project(find_config(Path.cwd())) as project:
        folder = folder_of(project) / "left"
        table_of(TABLE, project.adapters, Path.cwd()).keep(folder / "before" / "orders")
    marker = {"process": ["", 0, ""], "here": str(Path.cwd()), "places": [TABLE]}
    host = os.uname().nodename
    marker = {**marker, "process": [host, 0, ""], "copies": [], "labels": ["orders"], "format": 2}
    marker["made"] = made_here(folder)
    (folder / MARKER).write_text(json.dumps(marker))
    shop.all("DELETE FROM orders")

    _, found = prove(BROKEN, capsys, "--yes")

    assert found["error"]["code"] == "SP-V21"
    assert state(shop) == before
    assert not re.search("left", " ".join(os.listdir(folder.parent)))
