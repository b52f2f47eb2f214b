"""Where cases are proven: a project of its own, a PostgreSQL server that is thrown away, a lake."""

from __future__ import annotations

import datetime as dt
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases import HOME, Case
from judge import Judgement, judged

from setpoint import edge
from setpoint.errors import SetpointError
from setpoint.project.config import find_config
from setpoint.project.wiring import Project
from setpoint.prove.command.prove import Around, Asked
from setpoint.prove.command.prove import prove as prove_command
from setpoint.prove.command.words import Command
from setpoint.prove.servers import throw_away_server

if TYPE_CHECKING:
    from setpoint.model.proof import Proof

SETTINGS = """
[connections]
shop = "env:SHOP"

[spark]
master = "local[2]"

[spark.conf]
"spark.ui.enabled" = false
"spark.sql.shuffle.partitions" = 4
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
# A script with Spark is mostly the start of a JVM.
_QUICK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
DAYS = [dt.date(2026, 4, day) for day in range(20, 28)]


@dataclass
class Workshop:
    """A folder with a project, its inputs and a server; nothing outside of it is written."""

    root: Path
    url: str

    def try_case(self, case: Case) -> Judgement:
        """Prove one case, and say whether the proof said what it should."""
        try:
            proof = self._command(case) if case.sort == "command" else self._pipeline(case)
        except SetpointError as error:
            return Judgement(case, False, wrong=f"could not be tried: {error}")
        return judged(case, proof)

    def _command(self, case: Case) -> Proof:
        here = self.root / "commands" / case.name
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir(parents=True)
        tables = [*self._made(case), *case.fields.get("Lake", ())]
        words = [sys.executable, str(case.file)]
        holes = ["{window}"] if "sys.argv" in case.file.read_text(encoding="utf-8") else []
        asked = Asked(
            command=Command(" ".join([shlex.join(words), *holes]), case.window),
            tables=tuple(tables),
            states=case.fields.get("State", ()),
            only=case.experiments,
            neighbour=case.one("Neighbour"),
        )
        environment = {**os.environ, **_QUICK, "SHOP": self.url, "PYSPARK_PYTHON": sys.executable}
        around = Around(here, environment, now=edge.utc_now)
        return prove_command(asked, self.project, around, lambda places: None)

    def _made(self, case: Case) -> Iterator[str]:
        """Make the tables of a command in PostgreSQL, empty but for what comes `Before`."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as db:
            for text in case.fields.get("Table", ()):
                name = text.partition(" ")[0]
                db.execute(f"DROP TABLE IF EXISTS {name} CASCADE".encode())
                db.execute(f"CREATE TABLE {text}".encode())
                yield f"{name}=postgres:shop/public.{name}"
            for statement in case.fields.get("Before", ()):
                db.execute(statement.encode())

    def _pipeline(self, case: Case) -> Proof:
        from setpoint.model.window import Window
        from setpoint.project.discover import pipeline_named
        from setpoint.prove.pipeline import choose, prove_pipeline

        file = self.added(case.file)
        job = pipeline_named(self.project.config, f"{file}:{case.name}")
        window = Window.parse(case.window, job.every)
        self.session  # noqa: B018  # one for all: a proof takes the one that is there
        choice = choose(only=case.experiments)
        return prove_pipeline(self.project.config, job, window, choice, scratch_metastore=True)

    def added(self, file: Path) -> Path:
        """A file with pipelines as a file of the project."""
        copy = self.root / "pipelines" / file.name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(file, copy)
        return copy

    @cached_property
    def project(self) -> Project:
        return Project(find_config(self.root))

    @cached_property
    def session(self) -> Any:
        """The one Spark session of all cases that need one."""
        return self.project.sessions.get(frozenset({"delta"}))


@contextmanager
def workshop(*, server: bool = True) -> Iterator[Workshop]:
    """A workshop in a temporary folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="setpoint-gallery-") as folder, ExitStack() as stack:
        root = Path(folder)
        (root / "setpoint.toml").write_text(SETTINGS, encoding="utf-8")
        fill_lake(root)
        url = stack.enter_context(_shop(root)) if server else "postgresql://nobody@nowhere/none"
        os.environ["SHOP"] = url
        place = Workshop(root, url)
        stack.enter_context(place.project)
        yield place


@contextmanager
def _shop(root: Path) -> Iterator[str]:
    """A PostgreSQL server with the tables that scripts read."""
    import psycopg

    with throw_away_server(root) as url:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute((HOME / "shop.sql").read_bytes())
        yield url


def fill_lake(root: Path) -> None:
    """A week of orders for the pipelines: with ties, and floats whose sum depends on its order."""
    import pyarrow as pa
    from deltalake import write_deltalake

    made = [
        {
            "id": day.day * 100 + number,
            "customer": number % 5,
            "amount": number % 3,
            "price": (number + 1) * 0.1 + 10.0 ** (number % 17),
            "at": dt.datetime(
                day.year, day.month, day.day, number % 24, 15, tzinfo=dt.timezone.utc
            ),
            "d": day,
        }
        for day in DAYS
        for number in range(40)
    ]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("customer", pa.int32()),
            ("amount", pa.int64()),
            ("price", pa.float64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("d", pa.date32()),
        ]
    )
    table = pa.Table.from_pylist(made, schema=schema)
    write_deltalake(str(root / "lake/orders"), table, partition_by=["d"])
    write_deltalake(str(root / "lake/unpartitioned"), table)
