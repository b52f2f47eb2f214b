"""The command line: help, errors, exit codes and the JSON envelope."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from setpoint import delta, edge, pipeline
from setpoint.cli.main import VERBS, main
from setpoint.flow.steps import Plan
from setpoint.ledger import AttemptRecord
from setpoint.project.config import find_config
from setpoint.project.wiring import Project

PIPELINE = """
from setpoint import delta, pipeline

@pipeline(every="day", target=delta("out", partition_by="d"), start="2026-04-20")
def daily(window, factor: int = 2):
    raise AssertionError("planning must not call the pipeline")
"""


@pytest.fixture
def project(project_dir: Path) -> Path:
    (project_dir / "setpoint.toml").write_text('[pipelines]\npaths = ["pipelines"]\n')
    (project_dir / "pipelines").mkdir()
    (project_dir / "pipelines" / "daily.py").write_text(PIPELINE)
    return project_dir


def envelope(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    body = json.loads(capfd.readouterr().out)
    assert isinstance(body, dict)
    return body


def test_help_names_every_verb_and_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    """`setpoint --help` lists the verbs with one line each, and the exit codes."""
    assert main(["--help"]) == 0
    text = capfd.readouterr().out
    assert all(f"  {verb}" in text and help_text in text for verb, help_text in VERBS.items())
    assert all(f"\n  {code}  " in text for code in (0, 1, 2, 3, 4, 130))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each verb has a help text with its options, and starts nothing to give it."""
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    text = capfd.readouterr().out
    assert text.startswith(f"usage: setpoint {verb}")
    assert "--json" in text


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["run"],
        ["run", "daily", "--nope"],
        ["run", "daily", "--window", "2026-04-25", "--from", "2026-04-25", "--to", "2026-04-26"],
        ["run", "daily", "--from", "2026-04-25"],
        ["plan", "daily", "--param", "factor"],
        ["recover", "--older-than", "-1"],
        ["--window"],
    ],
)
def test_a_wrong_call_is_exit_code_2(
    project: Path, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A call that cannot be understood says so in four parts on stderr and prints no answer."""
    assert main(words) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("SP-C01  ")
    assert "the target is unchanged" in said.err


def test_errors_have_one_envelope(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With --json an error is one object with its code and four parts."""
    assert main(["plan", "nobody", "--json"]) == 2
    body = envelope(capfd)
    assert body["ok"] is False
    assert body["schema"] == "setpoint.plan/1"
    error = body["error"]
    assert isinstance(error, dict)
    assert error["code"] == "SP-C04"
    assert set(error) == {"code", "what", "why", "state", "next"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["plan", "daily", "--window", "2026-02-30"], "SP-W01"),
        (["plan", "daily", "--window", "2026-04-25T13"], "SP-W02"),
        (["plan", "daily", "--from", "2026-04-26", "--to", "2026-04-25"], "SP-W03"),
        (["plan", "daily", "--window", "2026-04-25", "--param", "size=3"], "SP-C06"),
        (["plan", "daily", "--window", "2026-04-25", "--param", "factor=x"], "SP-C06"),
        (["plan", "nowhere.py:daily", "--window", "2026-04-25"], "SP-C04"),
        (["plan", "daily", "--config", "nowhere.toml"], "SP-C03"),
        (["recover", "nobody"], "SP-C04"),
    ],
)
def test_bad_input_has_its_code(
    project: Path, words: list[str], code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each kind of bad input is told apart, before anything is started."""
    assert main([*words, "--json"]) == 2
    error = envelope(capfd)["error"]
    assert isinstance(error, dict)
    assert error["code"] == code
    assert "unchanged" in str(error["state"])


@pytest.mark.parametrize(
    "hostile",
    ["../../etc", "a\nb", "2026-04-25'; DROP TABLE x; --", "\x00", "２０２６-04-25", "9" * 500],
)
def test_hostile_windows_are_refused(
    project: Path, hostile: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """No text that is not a window id gets near a path or a predicate."""
    assert main(["plan", "daily", f"--window={hostile}"]) == 2
    said = capfd.readouterr().err
    assert said.startswith(("SP-W01", "SP-W03"))
    assert len(said) < 600


def test_plan_shows_the_steps_without_calling_the_pipeline(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A plan names every step and the reason, and writes nothing."""
    assert main(["plan", "daily", "--window", "2026-04-25", "--param", "factor=3", "--json"]) == 0
    data = envelope(capfd)["data"]
    assert isinstance(data, dict)
    window = data["windows"][0]
    assert (window["action"], window["reason"]) == ("run", "never published")
    steps = [step["step"] for step in window["steps"]]
    assert steps == ["check", "stage", "audit", "publish", "record"]
    assert not (project / "out").exists()


def test_parameters_change_the_run_key(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another parameter is another run; the same one is the same run."""
    keys = []
    for value in ("2", "3", "2"):
        main(["plan", "daily", "--window", "2026-04-25", "--param", f"factor={value}", "--json"])
        data = envelope(capfd)["data"]
        assert isinstance(data, dict)
        keys.append(data["windows"][0]["run_key"])
    assert keys[0] == keys[2] != keys[1]


def test_status_sees_the_gap_since_the_start(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Windows between the stated start and now that were never published are missing."""
    assert main(["status", "--json"]) == 0
    data = envelope(capfd)["data"]
    assert isinstance(data, dict)
    daily = data["pipelines"][0]
    assert daily["counts"]["missing"] == len(daily["windows"]) > 200
    assert daily["windows"][0]["window"] == "2026-04-20"


def test_a_broken_pipeline_file_names_its_line(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be imported is a configuration error with its line, no stack trace."""
    (project / "pipelines" / "daily.py").write_text("x = 1\ny = 1 / 0\n")
    assert main(["status"]) == 2
    said = capfd.readouterr().err
    assert said.startswith("SP-C05")
    assert "line 2" in said
    assert "Traceback" not in said


def test_a_shared_target_is_refused(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two pipelines with one target would replace each other's rows."""
    other = PIPELINE.replace("def daily", "def other").replace('"out"', '"./out/"')
    (project / "pipelines" / "other.py").write_text(other)
    assert main(["status"]) == 2
    assert capfd.readouterr().err.startswith("SP-D05")


def test_init_refuses_to_overwrite(project_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A second init writes nothing and says which file is there."""
    assert main(["init", "--json"]) == 0
    files = envelope(capfd)["data"]
    assert isinstance(files, dict)
    written = {name: Path(name).read_text() for name in files["files"]}
    assert main(["init"]) == 2
    assert capfd.readouterr().err.startswith("SP-C09")
    assert all(Path(name).read_text() == text for name, text in written.items())


def test_the_version_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """`--version` is the package's version."""
    from setpoint import __version__

    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"setpoint {__version__}\n"


def test_verbs_that_need_no_spark_do_not_import_it(project: Path) -> None:
    """status and plan of a project whose own files do not import PySpark leave it unloaded."""
    script = (
        "import sys\nfrom setpoint.cli.main import main\n"
        "code = main(['status']) or main(['plan', 'daily', '--window', '2026-04-25'])\n"
        "print(code, 'pyspark' in sys.modules, 'py4j' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=project
    )
    assert done.stdout.splitlines()[-1] == "0 False False"


def test_a_pipeline_file_that_exits_is_an_error(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that calls sys.exit must not make a command look successful."""
    (project / "pipelines" / "daily.py").write_text("import sys\nsys.exit(0)\n")
    assert main(["run", "daily", "--window", "2026-04-25"]) == 2
    assert capfd.readouterr().err.startswith("SP-C05")


@pytest.mark.parametrize("words", [["--from", "", "--to", ""], ["--window", ""]])
def test_an_empty_variable_selects_no_window(
    project: Path, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """An unset shell variable is refused instead of standing for another window."""
    assert main(["run", "daily", *words]) == 2
    assert main(["show", "daily", "--window", ""]) == 2
    assert "SP-W0" in capfd.readouterr().err


def test_recover_says_that_it_cannot_know(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without its ledger recover knows no open attempts, and does not claim there are none."""
    (project / ".setpoint" / "ledger.db").mkdir(parents=True)
    assert main(["recover"]) == 3
    said = capfd.readouterr()
    assert "Nothing to recover" not in said.out
    assert "SP-L01" in said.err


def test_recover_settles_the_others_when_one_table_is_broken(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A table whose log cannot be read is named; the rest of the project is looked at."""
    other = PIPELINE.replace("def daily", "def other").replace('"out"', '"broken"')
    (project / "pipelines" / "other.py").write_text(other)
    log = project / "broken" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text('{"metaData": {"id"')
    assert main(["recover", "--json"]) == 3
    body = envelope(capfd)
    assert body["ok"] is False
    data = body["data"]
    assert isinstance(data, dict)
    assert [item["name"] for item in data["broken"]] == ["other"]
    assert "ls -l" in data["broken"][0]["error"]["next"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[spark]\nconf = "x"\n', "spark.conf must be a table"),
        ("[retry]\ntries = inf\n", "finite number"),
        ("[spark]\nmastr = 'local'\n", "did you mean spark.master?"),
        ('[pipelines]\npaths = ["pipelnes"]\n', "pipelnes"),
        ("spark = 3\n", "write [spark]"),
        ("[spark\n", "cannot be used"),
    ],
)
def test_a_wrong_setting_is_named(
    project: Path, text: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A configuration that cannot be used says which setting is wrong, and is exit code 2."""
    (project / "setpoint.toml").write_text(text)
    assert main(["status"]) == 2
    error = capfd.readouterr().err
    assert error.startswith("SP-C03")
    assert said in error


@pytest.mark.parametrize("spelling", ["./out/", "file:{root}/out", "file://{root}/out"])
def test_one_table_is_one_table_however_it_is_spelled(
    project: Path, spelling: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two spellings of one place are one target, which two pipelines may not share."""
    place = spelling.format(root=project)
    other = PIPELINE.replace("def daily", "def other").replace('"out"', f'"{place}"')
    (project / "pipelines" / "other.py").write_text(other)
    assert main(["status"]) == 2
    assert capfd.readouterr().err.startswith("SP-D05")


def test_one_window_that_nobody_thought_of_does_not_end_a_backfill(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other windows are tried, and the answer names them all."""
    tried = []

    def out_of_the_blue(bound: object, plan: Plan, *more: object, **how: object) -> None:
        tried.append(plan.run.window.id)
        raise ValueError("o12.exists\n\tat java.lang.Thread")

    monkeypatch.setattr("setpoint.flow.run.run_window", out_of_the_blue)
    assert main(["run", "daily", "--window", "2026-04-20..2026-04-22", "--json"]) == 3
    body: Any = envelope(capfd)
    assert len(tried) == 3
    assert [item["window"] for item in body["data"]["windows"]] == tried
    assert body["error"]["code"] == "SP-X01"
    assert body["error"]["what"].endswith("ValueError: o12.exists")


def test_recover_settles_quarantines_and_names_what_it_did_not_look_at(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A crash while rows were put aside is settled; no open attempt is denied."""
    write = 'Merge(key="id", sequence_by="at", null_keys="quarantine")'
    (project / "pipelines" / "daily.py").write_text(
        "from setpoint import Merge, delta, pipeline\n\n"
        f'@pipeline(every="day", target=delta("out"), write={write})\ndef daily(window): ...\n'
    )
    with Project(find_config(project)) as opened:
        ledger = opened.ledger()
        assert ledger is not None
        for name, place in (("daily__quarantine", "out__quarantine"), ("gone", "gone")):
            ledger.begin(
                AttemptRecord(
                    attempt_id=f"of-{name}",
                    pipeline=name,
                    window_id="2026-04-25",
                    run_key="key",
                    state="running",
                    started_at=edge.utc_now(),
                    host=edge.process_identity()[0],
                    target=str(project / place),
                )
            )
    assert main(["recover", "--json"]) == 0
    body: Any = envelope(capfd)
    verdicts = {item["attempt"]: item["verdict"] for item in body["data"]["settled"]}
    assert verdicts == {"of-daily__quarantine": "crashed", "of-gone": "open"}
    assert main(["show", "daily__quarantine", "--window", "2026-04-25", "--json"]) == 0
    shown: Any = envelope(capfd)
    assert shown["data"]["attempts"][0]["attempt"] == "of-daily__quarantine"


def test_a_target_that_does_not_answer_yet_is_asked_again(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also before the first attempt: a scheduler starts at the moment of a restart, too."""
    (project / "setpoint.toml").write_text("[retry]\nfirst_wait = 0.01\n")
    (project / "out").mkdir()
    (project / "out" / "_delta_log").symlink_to("_delta_log")  # a loop: reading it is an OSError
    assert main(["run", "daily", "--window", "2026-04-25"]) == 3
    said = capfd.readouterr().err
    assert "daily  try 1 failed" in said
    assert "daily  try 2 failed" in said
    assert "SP-T01" in said


def test_a_run_that_cannot_be_planned_is_a_failed_attempt(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever looks the next morning finds it; a wrong call and a dry run leave nothing."""
    (project / "pipelines" / "daily.py").write_text(
        PIPELINE.replace("import delta", "import delta, source").replace(
            "window, factor: int = 2", "window, orders=source(delta('nowhere'), time='d')"
        )
    )
    run = ["run", "daily", "--window", "2026-04-25"]
    assert main([*run, "--dry-run"]) == 3
    assert main([*run, "--refresh=nobody"]) == 2
    with Project(find_config(project)) as opened:
        assert opened.ledger().attempts() == []
    assert main(run) == 3
    with Project(find_config(project)) as opened:
        (attempt,) = opened.ledger().attempts()
        assert (attempt.state, attempt.window_id) == ("failed", "2026-04-25")
        assert attempt.finished_at is not None
        assert "nowhere" in (attempt.error_text or "")
    capfd.readouterr()
    assert main(["status", "--json"]) == 0
    shown = envelope(capfd)
    assert isinstance(shown["data"], dict)
    assert shown["data"]["pipelines"][0]["counts"]["failed"] == 1


def test_a_reader_who_goes_away_does_not_end_the_work(tmp_path: Path) -> None:
    """`setpoint backfill ... | head -1` does all windows, and its exit code is theirs."""
    done = tmp_path / "done"
    text = (
        "import sys\n"
        "from pathlib import Path\n"
        "from setpoint.cli.output import Output\n"
        "output = Output('backfill', as_json=False, environment={})\n"
        "sys.stdin.read()\n"
        "for number in range(3):\n"
        "    output.line(str(number))\n"
        f"Path({str(done)!r}).touch()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate()
    assert (process.returncode, said) == (0, b"")
    assert done.exists()


def test_the_table_of_a_pipeline_that_was_never_run_is_a_gap(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether the source names the pipeline or its table; the next step is to run it."""
    (project / "pipelines" / "named.py").write_text(
        "from setpoint import delta, pipeline, source\n\n"
        "@pipeline(every='day', target=delta('named', partition_by='d'))\n"
        "def named(window, rows=source(delta('./out'), time='d')):\n"
        "    return rows\n"
    )
    assert main(["backfill", "named", "--window", "2026-04-25"]) == 3
    said = capfd.readouterr().err
    assert said.startswith("SP-R07  named[2026-04-25] reads daily, of which 2026-04-25 was never")
    assert "setpoint backfill daily --window 2026-04-25" in said


def test_a_backfill_says_that_nothing_tells_it_the_windows(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    daily = project / "pipelines" / "daily.py"
    daily.write_text(PIPELINE.replace(', start="2026-04-20"', ""))
    assert main(["backfill", "daily"]) == 2
    assert "has no start=" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["list", "show", "cancel"])
def test_a_pipeline_may_be_called_like_what_is_done_with_backfills(
    project: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """It is filled by its name; a backfill is named by its id."""
    daily = project / "pipelines" / "daily.py"
    daily.write_text(PIPELINE.replace("def daily(", f"def {name}("))
    assert main(["backfill", name, "--window", "2026-04-20", "--dry-run", "--json"]) == 0
    shown = envelope(capfd)["data"]
    assert isinstance(shown, dict)
    assert shown["pipeline"] == name
    if name != "list":
        assert main(["backfill", name, "0000", "--json"]) == 2
        error = envelope(capfd)["error"]
        assert isinstance(error, dict)
        assert "There is no backfill '0000'" in str(error["what"])


def test_backfills_are_listed_without_a_pipeline_of_that_name(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where a pipeline cannot be loaded."""
    (project / "pipelines" / "broken.py").write_text("import nowhere_to_be_found")
    for words in (["list"], ["show"]):
        assert main(["backfill", *words, "--json"]) == 0
        assert envelope(capfd)["data"] == {"backfills": []}


def test_a_backfill_with_nothing_to_do_answers_like_any_other(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    daily = project / "pipelines" / "daily.py"
    daily.write_text(PIPELINE.replace("2026-04-20", "2999-01-01"))
    assert main(["backfill", "daily", "--json"]) == 0
    plan, answer = map(json.loads, capfd.readouterr().out.splitlines())
    assert plan["event"] == "plan"
    counts = ("published", "unchanged", "failed", "blocked", "not_started")
    assert [answer["data"][name] for name in counts] == [0] * 5
    assert answer["data"]["windows"] == []


def test_windows_of_the_past_and_of_dead_processes(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One in the future makes none before it missing, nor does a slip before the start; one whose
    process is gone has failed."""
    with Project(find_config(project)) as opened:
        ledger, now = opened.ledger(), edge.utc_now()
        assert ledger is not None
        host, _, started = edge.process_identity()
        for number, window in enumerate(("2026-04-20", "2999-01-01", "1999-01-01")):
            dead = AttemptRecord(
                attempt_id=f"a{number}",
                pipeline="daily",
                window_id=window,
                run_key="",
                state="running",
                started_at=now,
                host=host,
                pid=2**22 + 1,
                process_started=started,
            )
            ledger.begin(dead)
    assert main(["backfill", "daily", "--dry-run", "--json"]) == 0
    shown = envelope(capfd)
    assert isinstance(shown["data"], dict)
    windows = shown["data"]["windows"]
    assert [windows[0][key] for key in ("state", "reason")] == [
        "failed",
        "its process ended before it did (setpoint recover)",
    ]
    ids = [item["window"] for item in windows]
    assert (ids[0], ids[-1]) == ("2026-04-20", "2999-01-01")
    assert ids[-2] < edge.utc_now().date().isoformat()


def test_what_reads_no_table_does_not_look_for_other_pipelines(project_dir: Path) -> None:
    """`publish()` in a project whose pipelines are elsewhere is no reason for an error."""
    (project_dir / "setpoint.toml").write_text('[pipelines]\npaths = ["nowhere"]\n')
    target = delta("out", partition_by="d")
    made = pipeline(every="day", target=target, name="made")(lambda window: None)
    with Project(find_config(project_dir)) as opened:
        assert opened.bind(made).upstream == {}
