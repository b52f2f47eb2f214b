"""Tests of pipelines: the same experiments as `setpoint prove`, on hand-made frames, in seconds.

    from setpoint.testing import assert_idempotent

    def test_daily_orders():
        orders = [(1, "2026-04-25", "9.90"), (2, "2026-04-25", "5.00")]
        schema = "id long, d date, amount decimal(12,2)"
        assert_idempotent(daily_orders, "2026-04-25", inputs={"orders": (orders, schema)})

Everything is written to a temporary sandbox. With pytest, the fixtures `setpoint_spark` and
`setpoint_sandbox` are there without an import.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from setpoint.model.pipeline import Pipeline
from setpoint.model.proof import Proof
from setpoint.model.window import Window
from setpoint.project.config import FILE, Config, find_config
from setpoint.project.wiring import known_parameters
from setpoint.prove.experiments import IN_TESTS
from setpoint.prove.given import Given
from setpoint.prove.pipeline import choose, prove_pipeline
from setpoint.prove.redirection import Redirection
from setpoint.prove.report.failure import failure_text
from setpoint.prove.sandbox import Sandbox, redirecting, sandbox_at
from setpoint.prove.trial import TARGET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Proof", "SandboxProject", "assert_idempotent", "frame", "rows", "run", "session"]

_TABLE = "table"


def assert_idempotent(
    pipeline: Pipeline,
    window: Window | str,
    *,
    inputs: Mapping[str, Any] | None = None,
    experiments: Sequence[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    allow_empty: bool = False,
) -> Proof:
    """Fail unless the window ends in the state of one clean run, whatever is done to it.

    `inputs` are frames in place of the pipeline's sources, by argument: a frame, rows with
    their schema as a pair, or a function of a window that returns one of them. Like the real
    ones they are clipped to the window. Sources that are not given are read from the project of
    the current folder. `experiments` are names from `setpoint prove --list`; without them, all
    quick ones that need no process of their own. One that is named and cannot be tried fails.

    A window without rows proves nothing, so it fails too, unless `allow_empty` is given. What
    keeps the pipeline from running at all is raised as a `SetpointError`.
    """
    __tracebackhide__ = True
    proof = _proof(
        find_config(Path.cwd()),
        pipeline,
        window,
        inputs=inputs,
        experiments=experiments,
        parameters=parameters,
        spark=spark,
    )
    if (why := _why_not(proof, experiments, allow_empty=allow_empty)) is not None:
        raise AssertionError(why)
    return proof


def run(
    pipeline: Pipeline,
    window: Window | str,
    *,
    inputs: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> list[tuple[Any, ...]]:
    """Publish one window into an empty table of the sandbox; the rows that a reader sees.

    It is a run as in production: what its checks and audits refuse is raised.
    """
    with (
        tempfile.TemporaryDirectory(prefix="setpoint-", ignore_cleanup_errors=True) as folder,
        SandboxProject(find_config(Path.cwd()), Path(folder), spark=spark) as project,
    ):
        return project.run(pipeline, window, inputs=inputs, parameters=parameters)


def frame(spark: SparkSession, rows: Sequence[Any], schema: str | StructType) -> DataFrame:
    """A small frame of tuples or dicts.

    A dict may leave columns out: they are null. Dates, times and decimals may be written as
    texts; a time without a zone is one in UTC.
    """
    from setpoint.spark.frames import frame_of

    return frame_of(spark, rows, schema)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame as sorted tuples, nulls first."""
    from setpoint.spark.frames import rows_of

    return rows_of(frame)


def session() -> SparkSession:
    """The active Spark session, or a fast local one that lives as long as the process."""
    from setpoint.spark.fast import fast_session
    from setpoint.spark.session import active_session

    # One that is made here is the active one from then on.
    if (active := active_session()) is not None:
        return active
    stack = ExitStack()
    found = stack.enter_context(fast_session())
    atexit.register(stack.close)
    return found


class SandboxProject:
    """A project of one test: a table of its own for every pipeline, empty at first.

    Relative paths of sources that are not given start at the folder of `config`.
    """

    def __init__(self, config: Config, folder: Path, *, spark: SparkSession | None = None) -> None:
        self._config, self._folder, self._spark = config, folder, spark
        self._stack = ExitStack()
        self._redirections: dict[str, Redirection] = {}
        self._ran: dict[str, Window] = {}

    @classmethod
    def at(cls, root: Path, *, spark: SparkSession | None = None) -> SandboxProject:
        """A project in a folder: its `setpoint.toml`, if there is one, or none at all."""
        file = root / FILE
        config = find_config(root, file) if file.is_file() else Config(root=root.absolute())
        folder = root / ".setpoint" / "sandbox"
        return cls(config, folder, spark=spark)

    def __enter__(self) -> SandboxProject:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of servers and of tables in a metastore."""
        self._stack.close()

    @property
    def root(self) -> Path:
        """The folder that relative paths start from."""
        return self._config.root

    def run(
        self,
        pipeline: Pipeline,
        window: Window | str,
        *,
        inputs: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Publish a window into this test's table; all rows that a reader sees then.

        Run other windows, or the same one with other inputs: the table stays.
        """
        chosen = _window(pipeline, window)
        given = known_parameters(pipeline, parameters or {})
        with self._opened(pipeline, chosen, inputs, given) as sandbox:
            trial = sandbox.trial(_TABLE)
            trial.strict = True
            trial.run(chosen, force=force)
            self._ran[pipeline.name] = chosen
            return _rows(sandbox)

    def rows(self, pipeline: Pipeline) -> list[tuple[Any, ...]]:
        """The rows that a reader of this test's table sees; none before the first run."""
        if pipeline.name not in self._ran:
            return []
        nothing: dict[str, Any] = {
            name: ((), "nothing int") for name, item in pipeline.sources.items() if not item.before
        }
        with self._opened(pipeline, self._ran[pipeline.name], nothing, {}) as sandbox:
            return _rows(sandbox)

    def prove(
        self,
        pipeline: Pipeline,
        window: Window | str,
        *,
        inputs: Mapping[str, Any] | None = None,
        experiments: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        allow_empty: bool = False,
    ) -> Proof:
        """`assert_idempotent` in this project; the test's own tables take no part."""
        __tracebackhide__ = True
        proof = _proof(
            self._config,
            pipeline,
            window,
            inputs=inputs,
            experiments=experiments,
            parameters=parameters,
            spark=self._spark,
        )
        if (why := _why_not(proof, experiments, allow_empty=allow_empty)) is not None:
            raise AssertionError(why)
        return proof

    @contextmanager
    def _opened(
        self,
        pipeline: Pipeline,
        window: Window,
        inputs: Mapping[str, Any] | None,
        parameters: Mapping[str, Any],
    ) -> Iterator[Sandbox]:
        given = Given.of(pipeline, inputs, self._folder)
        with _active(self._spark) as scratch:
            if pipeline.name not in self._redirections:
                folder = self._folder / f"{len(self._redirections)}-{pipeline.name}"
                folder.mkdir(parents=True)
                self._redirections[pipeline.name] = self._stack.enter_context(
                    redirecting(self._config, pipeline, folder, scratch_metastore=scratch)
                )
            with sandbox_at(
                self._redirections[pipeline.name],
                self._config,
                pipeline,
                [window],
                parameters=parameters,
                given=given,
            ) as sandbox:
                yield sandbox


def _proof(
    config: Config,
    pipeline: Pipeline,
    window: Window | str,
    *,
    inputs: Mapping[str, Any] | None,
    experiments: Sequence[str] | None,
    parameters: Mapping[str, Any] | None,
    spark: SparkSession | None,
) -> Proof:
    names = [experiments] if isinstance(experiments, str) else experiments
    choice = choose(only=IN_TESTS if names is None else names)
    known = known_parameters(pipeline, parameters or {})
    with (
        tempfile.TemporaryDirectory(prefix="setpoint-", ignore_cleanup_errors=True) as folder,
        _active(spark) as scratch,
    ):
        return prove_pipeline(
            config,
            pipeline,
            _window(pipeline, window),
            choice,
            parameters=known,
            given=Given.of(pipeline, inputs, Path(folder)),
            scratch_metastore=scratch,
        )


def _why_not(proof: Proof, experiments: Sequence[str] | None, *, allow_empty: bool) -> str | None:
    """Why a proof is no reason for a test to pass; None if it is one."""
    if proof.failures:
        return failure_text(proof)
    untried = [result for result in proof.results if result.state == "skipped"]
    if untried and (experiments is not None or not proof.proven):
        told = "; ".join(f"{result.experiment}: {result.message}" for result in untried)
        return f"{proof.subject}[{proof.window}]: not all could be tried. {told}"
    if not proof.rows and not allow_empty:
        return (
            f"{proof.subject}[{proof.window}] holds no rows in this test, so that nothing could "
            "differ. Give rows of that window, or allow_empty=True."
        )
    return None


@contextmanager
def _active(spark: SparkSession | None) -> Iterator[bool]:
    """The session of a test as the active one; whether its metastore may be written to."""
    from setpoint.spark.fast import as_active, is_scratch

    with as_active(spark if spark is not None else session()) as chosen:
        yield is_scratch(chosen)


def _window(pipeline: Pipeline, window: Window | str) -> Window:
    if isinstance(window, Window):
        return window
    return Window.parse(window, pipeline.every, pipeline.timezone)


def _rows(sandbox: Sandbox) -> list[tuple[Any, ...]]:
    with sandbox.joined(_TABLE).tables() as tables:
        return rows(tables[TARGET]) if TARGET in tables else []
