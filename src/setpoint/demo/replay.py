"""The replay: the acts of the demo, top to bottom, each leaving real tables behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from setpoint.demo import lake, tables
from setpoint.demo.children import Children, envelope
from setpoint.demo.figures import CrashPoint, Figures, Moment, Rerun
from setpoint.demo.here import one_session, publishes, run_here
from setpoint.flow.faults import POINTS
from setpoint.flow.world import Outcome
from setpoint.prove.processes import Ended

DAY, OTHER_DAY = str(lake.DAY), str(lake.OTHER_DAY)
TEMPLATE = Path(__file__).with_name("project")
# The kill that the main project goes through; the other points have copies in crashes/.
MAIN_POINT = "staged"
QUICK_POINTS = (MAIN_POINT, "committed")
_NO_CACHES = shutil.ignore_patterns("__pycache__")
_RUN = ("run", "copy_orders", "--window", DAY)


@dataclass(frozen=True)
class Scene:
    """Where the replay takes place and who is told about it."""

    folder: Path
    children: Children
    say: Callable[[str], None]
    tell: Callable[[str], None]


@dataclass(frozen=True)
class Clean:
    """A run's rows as we read them, and the content fingerprint in its receipt."""

    contents: tables.Contents
    fingerprint: str | None


def replay(
    folder: Path,
    *,
    points: Sequence[str],
    environment: Mapping[str, str],
    say: Callable[[str], None],
    tell: Callable[[str], None],
) -> Figures:
    """Play all acts in an empty folder, which becomes a project that can be read and run."""
    scene = Scene(folder, Children(folder / "logs", environment), say, tell)
    _prepare(scene)
    # Killed runs are processes of their own; the others share one session, which saves starts.
    tell("starting Spark")
    with one_session(folder):
        noon = _noon(scene)
        append, append_small, append_killed_by = _append(scene, noon[0])
        clean, before = _publish_other_day(scene, points)
        start = Moment("start", "before", tables.count(_orders(folder)))
        crash_points = tuple(_crash(scene, point, clean) for point in points)
        setpoint_small, small_killed_by = _small(scene, noon[1])
    rerun, further = _three_more_runs(scene)
    after = tables.contents(_orders(folder))
    projects = [folder, *(_project(scene, point) for point in points)]
    return Figures(
        append=append,
        setpoint=(start, *_around(crash_points), *further),
        append_small=append_small,
        setpoint_small=setpoint_small,
        crash_points=crash_points,
        append_killed_by=append_killed_by,
        small_killed_by=small_killed_by,
        append_duplicates=tables.contents(_appended(folder, "orders")).duplicates,
        setpoint_duplicates=after.duplicates,
        equals_source=after == tables.contents(_orders(folder, "lake")),
        other_day_unchanged=all(_other_day(project) == before for project in projects),
        other_day_rows=tables.count(
            tables.delta_files(folder / "warehouse/orders", lake.OTHER_DAY)
        ),
        rerun=rerun,
    )


def _prepare(scene: Scene) -> None:
    shutil.copytree(TEMPLATE, scene.folder, dirs_exist_ok=True, ignore=_NO_CACHES)
    lake.make_lake(scene.folder / "lake")
    orders = tables.count(_orders(scene.folder, "lake"))
    other = tables.delta_files(scene.folder / "lake/orders", lake.OTHER_DAY)
    scene.say(f"source     {orders:>9,} orders of {DAY}, {tables.count(other):,} of {OTHER_DAY}")


def _noon(scene: Scene) -> tuple[int, int]:
    """The small case begins: both copies load the refunds that there are at noon."""
    folder = scene.folder
    scene.tell("both copies load the refunds of the morning")
    scene.children.append_job(folder, [DAY, "refunds"])
    run_here(folder, "copy_refunds", DAY)
    lake.add_refunds_of_the_afternoon(folder / "lake")
    return tables.count(_appended(folder, "refunds")), tables.count(_refunds(folder))


def _append(scene: Scene, noon: int) -> tuple[tuple[Moment, ...], tuple[Moment, ...], int | None]:
    """The copy that appends: a night that dies, a retry that goes green."""
    folder, job = scene.folder, scene.children.append_job
    scene.say("\nThe copy that appends: append_job.py, plain PySpark")
    start = Moment("start", "before", tables.count(_appended(folder, "orders")))
    scene.tell("append_job.py copies refunds and orders at night")
    cut = f"orders:{lake.APPENDED_BEFORE_THE_CRASH}"
    died = job(folder, [DAY, "refunds", "orders"], power_cut=cut)
    batches = tables.running_count(_appended(folder, "orders"))
    small = tables.count(_appended(folder, "refunds"))
    partial = batches[-1] if batches else 0
    scene.say(f"  killed   {partial:>9,} rows are in the table ({_how(died)})")
    scene.tell("append_job.py is retried")
    job(folder, [DAY, "refunds", "orders"])
    everything = tables.running_count(_appended(folder, "orders"))
    after = everything[-1] if everything else 0
    small_after = tables.count(_appended(folder, "refunds"))
    scene.say(f"  retried  {after:>9,} rows, and the job is green")
    loads = f"{noon} + {small - noon} + {small_after - small}"
    scene.say(f"  small    {small_after:>9,} refunds in the table: {loads}")
    moments = (
        start,
        *(Moment("batch", "batch", rows) for rows in batches[:-1]),
        Moment("killed", "first run, killed", partial),
        *(Moment("batch", "batch", rows) for rows in everything[len(batches) : -1]),
        Moment("done", "retry", after),
    )
    small_moments = (
        Moment("done", "load at noon", noon),
        Moment("killed", "night, killed", small),
        Moment("done", "retry", small_after),
    )
    return moments, small_moments, died.signal


def _publish_other_day(scene: Scene, points: Sequence[str]) -> tuple[Clean, dict[str, str]]:
    """Day one through setpoint, copies of the project for the crashes, and one clean run."""
    folder = scene.folder
    scene.say("\nThe same copy through setpoint: pipelines/copies.py")
    scene.tell("publishing the unrelated day")
    run_here(folder, "copy_orders", OTHER_DAY)
    for name in (*points, "clean"):
        project = _project(scene, name)
        if project == folder:
            continue
        project.mkdir(parents=True)
        shutil.copy(folder / "setpoint.toml", project)
        for part in ("pipelines", "warehouse"):
            shutil.copytree(folder / part, project / part, ignore=_NO_CACHES)
        (project / "lake").symlink_to(Path("..", "..", "lake"), target_is_directory=True)
    scene.tell("one clean run, to compare with")
    project = _project(scene, "clean")
    outcome = run_here(project, "copy_orders", DAY)
    clean = Clean(tables.contents(_orders(project)), _fingerprint(outcome))
    scene.say(f"  clean    {clean.contents.rows:>9,} rows from one run that nothing disturbed")
    return clean, _other_day(folder)


def _crash(scene: Scene, point: str, clean: Clean) -> CrashPoint:
    """Kill the command line at one crash point of a first load, look, retry, look again."""
    project = _project(scene, point)
    scene.tell(f"setpoint run, to be killed at {point}")
    ended = scene.children.setpoint(project, _RUN, fault=f"{point}:kill")
    rows_after_crash = tables.count(_orders(project))
    scene.tell(f"setpoint run, retried after the kill at {point}")
    outcome = run_here(project, "copy_orders", DAY)
    after = tables.contents(_orders(project))
    result = CrashPoint(
        point=point,
        meaning=POINTS[point],
        killed_by_signal=ended.signal,
        rows_after_crash=rows_after_crash,
        rows_after_retry=after.rows,
        same_contents=Clean(after, _fingerprint(outcome)) == clean,
        publishes=publishes(project / "warehouse/orders", DAY),
        retry=outcome.state,
    )
    scene.say(
        f"  killed   {rows_after_crash:>9,} rows at {point:<9} "
        f"retried  {after.rows:>9,} rows  ({_how(ended)}; the retry: {outcome.state})"
    )
    return result


def _small(scene: Scene, noon: int) -> tuple[tuple[Moment, ...], int | None]:
    """The small case ends: a day with 100 rows becomes one with 300, through a crash."""
    folder = scene.folder
    scene.tell("setpoint run copy_refunds, to be killed before its commit")
    words = ("run", "copy_refunds", "--window", DAY)
    ended = scene.children.setpoint(folder, words, fault="audited:kill")
    small = tables.count(_refunds(folder))
    run_here(folder, "copy_refunds", DAY)
    after = tables.count(_refunds(folder))
    scene.say(
        f"  small    {after:>9,} refunds in the table: {noon}, {small} ({_how(ended)}), {after}"
    )
    moments = (
        Moment("done", "load at noon", noon),
        Moment("killed", "night, killed", small),
        Moment("done", "retry", after),
    )
    return moments, ended.signal


def _three_more_runs(scene: Scene) -> tuple[Rerun, tuple[Moment, ...]]:
    """Run again where no Java can be found; a forced run there shows that Spark cannot start."""
    states, moments = [], []
    for number in ("first", "second", "third"):
        scene.tell(f"the {number} further run, with no Java in reach")
        answer = envelope(scene.children.setpoint(scene.folder, _RUN, java=False))
        windows = answer.get("data", {}).get("windows", [{}])
        states.append(str(windows[0].get("state", "failed")))
        moments.append(Moment("again", "run again", tables.count(_orders(scene.folder))))
    control = envelope(scene.children.setpoint(scene.folder, (*_RUN, "--force"), java=False))
    rerun = Rerun(tuple(states), str(control.get("error", {}).get("code", "none")))
    how = "a JVM may have started" if rerun.jvm_started else "no JVM: there was no Java in reach"
    scene.say(
        f"  again    {moments[-1].rows:>9,} rows after three more runs: {', '.join(states)} ({how})"
    )
    return rerun, tuple(moments)


def _around(crash_points: Sequence[CrashPoint]) -> tuple[Moment, ...]:
    """The crash and the retry of the main project, as moments of its table."""
    main = next(point for point in crash_points if point.point == MAIN_POINT)
    return (
        Moment("killed", "first run, killed", main.rows_after_crash),
        Moment("done", "retry", main.rows_after_retry),
    )


def _project(scene: Scene, point: str) -> Path:
    return scene.folder if point == MAIN_POINT else scene.folder / "crashes" / point


def _orders(project: Path, place: str = "warehouse") -> list[Path]:
    return tables.delta_files(project / place / "orders", lake.DAY)


def _refunds(project: Path) -> list[Path]:
    return tables.delta_files(project / "warehouse" / "refunds", lake.DAY)


def _appended(folder: Path, table: str) -> list[Path]:
    return tables.parquet_files(folder / "append" / table, lake.DAY)


def _other_day(project: Path) -> dict[str, str]:
    return tables.checksums(tables.delta_files(project / "warehouse/orders", lake.OTHER_DAY))


def _fingerprint(outcome: Outcome) -> str | None:
    return outcome.receipt.contents if outcome.receipt else None


def _how(ended: Ended) -> str:
    return f"signal {ended.signal}" if ended.signal else f"exit code {ended.code}"
