"""Connector jars: which ones, where they are kept, and how they get there once.

Wheels carry no connector jars. They are fetched by coordinate with the Ivy that PySpark brings,
at set-up, and checked against their SHA-256; a session then takes them from the cache, because
resolving them at every start costs seconds.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from setpoint.edge import home_dir
from setpoint.errors import UNTOUCHED, UsageError
from setpoint.spark.java import find_java

FETCH_COMMAND = "setpoint doctor --fetch"
FETCH_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Jar:
    """One jar by coordinate, with the checksum that the fetched file must have."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the file in the cache."""
        return f"{self.artifact}-{self.version}.jar"


# What a connector needs beyond the jars that Spark ships, by Spark version.
CONNECTORS: Mapping[tuple[str, str], tuple[Jar, ...]] = {
    ("4.1", "delta"): (
        Jar(
            "io.delta",
            "delta-spark_4.1_2.13",
            "4.4.0",
            "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
        ),
        Jar(
            "io.delta",
            "delta-storage",
            "4.4.0",
            "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        ),
        Jar(
            "io.delta",
            "delta-kernel-api",
            "4.4.0",
            "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
        ),
        Jar(
            "io.delta",
            "delta-kernel-defaults",
            "4.4.0",
            "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
        ),
        Jar(
            "io.delta",
            "delta-kernel-unitycatalog",
            "4.4.0",
            "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
        ),
        Jar(
            "io.unitycatalog",
            "unitycatalog-client",
            "0.6.0",
            "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
        ),
        Jar(
            "io.unitycatalog",
            "unitycatalog-hadoop",
            "0.6.0",
            "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
        ),
    ),
    ("4.1", "iceberg"): (
        Jar(
            "org.apache.iceberg",
            "iceberg-spark-runtime-4.1_2.13",
            "1.12.0",
            "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
        ),
        # For the default catalog, which is a file of SQLite.
        Jar(
            "org.xerial",
            "sqlite-jdbc",
            "3.53.4.0",
            "bcb1f51e36f940867e83342f9efbf5968ac44a6bef4d397bb4af7b17b45cd2fb",
        ),
    ),
    # Only the benchmark needs it, as the yardstick: setpoint writes without JDBC.
    ("4.1", "postgres-jdbc"): (
        Jar(
            "org.postgresql",
            "postgresql",
            "42.7.8",
            "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
        ),
    ),
    # Only the tests need it: a local file system that starts no process for every file.
    ("4.1", "local-files"): (
        Jar(
            "com.globalmentor",
            "hadoop-bare-naked-local-fs",
            "0.1.0",
            "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
        ),
    ),
}


def cache_dir() -> Path:
    """The folder of the cached connector jars."""
    return home_dir() / "jars"


def spark_version() -> str:
    """The installed PySpark's version, found without importing it."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise UsageError(
            "SP-C08",
            "PySpark is not installed.",
            why="A run needs it; planning and status do not.",
            state=UNTOUCHED,
            next="Install it: pip install 'setpoint[spark]'",
        ) from None


def required(connector: str) -> tuple[Jar, ...]:
    """The jars of a connector for the installed Spark, whether cached or not."""
    version = spark_version()
    jars = CONNECTORS.get((".".join(version.split(".")[:2]), connector))
    if jars is None:
        raise UsageError(
            "SP-S03",
            f"No {connector} connector is known for Spark {version}.",
            why="The target needs it for this kind of write.",
            state=UNTOUCHED,
            next="Name the jars yourself: jars = [...] in the [spark] section of setpoint.toml.",
        )
    return jars


def resolve(connector: str) -> list[Path]:
    """The cached jars of a connector; one clear error when they have not been fetched."""
    paths = [cache_dir() / jar.file_name for jar in required(connector)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UsageError(
            "SP-S03",
            f"The {connector} connector is not in {cache_dir()}: {missing[0]} is missing.",
            why="The target needs it for this kind of write.",
            state=UNTOUCHED,
            next=f"Fetch it once: {FETCH_COMMAND}",
        )
    return paths


def fetch(connector: str) -> list[Path]:
    """Bring a connector's jars into the cache; cheap when they are there already."""
    jars = required(connector)
    missing = [jar for jar in jars if not (cache_dir() / jar.file_name).is_file()]
    if missing:
        cache_dir().mkdir(parents=True, exist_ok=True)
        # Beside the cache, so that the final rename stays on one file system and is atomic.
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".fetch-") as folder:
            _download(connector, missing, Path(folder))
            for jar in missing:
                _admit(connector, jar, Path(folder) / "jars" / jar.file_name)
    return resolve(connector)


def _download(connector: str, jars: list[Jar], folder: Path) -> None:
    (folder / "ivy.xml").write_text(ivy_file(connector, jars))
    command = [str(find_java().command), "-jar", str(_ivy_jar()), "-error"]
    command += ["-cache", str(folder / "ivy"), "-ivy", str(folder / "ivy.xml")]
    command += ["-confs", "default", "-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _not_fetched(connector, "the download took too long") from error
    absent = [jar for jar in jars if not (folder / "jars" / jar.file_name).is_file()]
    if absent:
        lines = [line.strip(" .\t") for line in (answer.stderr + answer.stdout).splitlines()]
        reason = next((line for line in lines if "UNRESOLVED" in line or "exception" in line), "")
        raise _not_fetched(connector, reason or f"{absent[0].file_name} could not be downloaded")


def ivy_file(connector: str, jars: list[Jar]) -> str:
    """The request to Ivy: exactly these jars, none of what they depend on.

    Spark ships the rest, and a second copy of a library on the class path breaks it.
    """
    dependencies = "".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" '
        'transitive="false" conf="default->master"/>'
        for jar in jars
    )
    return (
        f'<ivy-module version="2.0"><info organisation="setpoint" module="{connector}"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _admit(connector: str, jar: Jar, path: Path) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
        raise _not_fetched(connector, f"{jar.file_name} does not have the expected checksum")
    shutil.move(path, cache_dir() / jar.file_name)


def _ivy_jar() -> Path:
    spec = util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("jars")
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise _not_fetched("any", f"PySpark's own Ivy is not in {folder}")
    return found[-1]


def _not_fetched(connector: str, reason: str) -> UsageError:
    return UsageError(
        "SP-S03",
        f"The {connector} connector could not be fetched: {reason}.",
        why="Writes that need the connector will be refused; all others work.",
        state="The cache holds only complete, checked jars.",
        next=f"Try again: {FETCH_COMMAND}",
    )
