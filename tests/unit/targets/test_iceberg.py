"""Iceberg without a JVM: names, catalogs, generations, values of files, types."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.exceptions import BadRequestError, CommitStateUnknownException, ForbiddenError
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from setpoint import UsageError, iceberg, pipeline
from setpoint.errors import PermanentError, SetpointError, UnknownCommitError
from setpoint.model.grain import Grain
from setpoint.model.run import Run
from setpoint.model.slice import SliceRule
from setpoint.model.window import Window
from setpoint.project.config import find_config
from setpoint.targets.iceberg.catalog import CatalogSettings, TableName
from setpoint.targets.iceberg.commit import send
from setpoint.targets.iceberg.generations import LastPublish, decode, encode
from setpoint.targets.iceberg.partitions import Layout, Part, new_spec
from setpoint.targets.iceberg.ranges import ordinal, python_value, stored_value
from setpoint.targets.iceberg.schema import new_schema
from setpoint.targets.iceberg.types import iceberg_type, same_type, spark_type

ROOT = Path("/project")
EARLY, LATE = datetime(1900, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "catalog", "identifier"),
    [
        ("sales.orders", "lake", ("sales", "orders")),
        ("prod.sales.orders", "prod", ("sales", "orders")),
        ("prod.a.b.orders", "prod", ("a", "b", "orders")),
        ("`a.b`.`c``d`", "lake", ("a.b", "c`d")),
        ("sales.`x`__quarantine", "lake", ("sales", "x__quarantine")),
    ],
)
def test_names(text: str, catalog: str, identifier: tuple[str, ...]) -> None:
    """A name is split at its dots, but for those between backticks."""
    name = TableName.parse(text, {})
    assert (name.catalog, name.identifier) == (catalog, identifier)


@pytest.mark.parametrize("text", ["orders", "lake.orders", ".orders", "sales."])
def test_a_name_without_a_namespace_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="SP-D01"):
        TableName.parse(text, {"lake": {}})


def test_odd_names_have_folders_of_their_own() -> None:
    """Names that differ never share a folder, and none leaves the warehouse."""
    names = [TableName("lake", ("s",), odd) for odd in ("a b", "a/b", "../b", "a#b", "a?b", "..")]
    folders = {name.folder for name in names}
    assert len(folders) == len(names)
    assert not [folder for folder in folders if ".." in folder or "#" in folder or "?" in folder]


def test_the_default_catalog() -> None:
    """Without a section both sides see one SQLite file below the project."""
    settings = CatalogSettings.of("lake", None, ROOT)
    python, spark = settings.for_python(), settings.for_spark()
    assert python["uri"] == "sqlite:////project/warehouse/_catalog.sqlite"
    assert spark["spark.sql.catalog.lake.uri"] == "jdbc:sqlite:/project/warehouse/_catalog.sqlite"
    assert python["warehouse"] == spark["spark.sql.catalog.lake.warehouse"]
    assert spark["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"


def test_a_section_of_the_configuration(tmp_path: Path) -> None:
    """Every property of a section reaches both sides; names with a dot are quoted."""
    file = tmp_path / "setpoint.toml"
    file.write_text(
        '[catalogs.prod]\ntype = "rest"\nuri = "http://x"\n"s3.path-style-access" = true\n'
    )
    section = find_config(tmp_path).catalogs["prod"]
    settings = CatalogSettings.of("prod", section, tmp_path)
    assert settings.for_python()["s3.path-style-access"] == "true"
    assert settings.for_spark()["spark.sql.catalog.prod.s3.path-style-access"] == "true"
    file.write_text("[catalogs.prod]\ns3.endpoint = 1\n")
    with pytest.raises(UsageError, match="quote names"):
        find_config(tmp_path)


@pytest.mark.parametrize(
    "section",
    [
        {"uri": "postgresql://me:p%40ss@db:5433/cat", "warehouse": "s3://b/w"},
        {
            "uri": "jdbc:postgresql://db:5433/cat",
            "jdbc.user": "me",
            "jdbc.password": "p@ss",
            "warehouse": "s3://b/w",
        },
    ],
)
def test_a_database_in_either_spelling(section: dict[str, Any]) -> None:
    """A PostgreSQL catalog is one for SQLAlchemy and for JDBC; no password is shown."""
    settings = CatalogSettings.of("pg", section, ROOT)
    assert settings.for_python()["uri"] == "postgresql+psycopg://me:p%40ss@db:5433/cat"
    spark = settings.for_spark()
    assert spark["spark.sql.catalog.pg.uri"] == "jdbc:postgresql://db:5433/cat"
    assert spark["spark.sql.catalog.pg.jdbc.user"] == "me"
    assert spark["spark.sql.catalog.pg.jdbc.password"] == "p@ss"
    assert "p@ss" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("other", None),
        ("lake", {"type": "paper"}),
        ("lake", {"type": "jdbc"}),
        ("lake", {"type": "hadoop", "warehouse": "w"}),
        ("lake", {"type": "jdbc", "uri": "sqlite:///c.db", "warehouse": "a#b"}),
    ],
)
def test_catalogs_that_cannot_work_are_refused(name: str, section: Any) -> None:
    with pytest.raises(UsageError, match="SP-C03"):
        CatalogSettings.of(name, section, ROOT)


MARKS = st.builds(LastPublish, st.integers(0, 10**6), st.integers(0, 2**62))


@given(st.dictionaries(st.text(min_size=1, max_size=20), MARKS, max_size=300))
def test_generations_come_back(marks: dict[str, LastPublish]) -> None:
    """Few windows or many, plain or packed: what was stored is what is read."""
    assert decode(encode(marks)) == marks


@given(st.datetimes(min_value=EARLY, max_value=LATE))
def test_partition_values_are_those_of_iceberg(moment: datetime) -> None:
    """Years, months, days and hours are numbered as Iceberg's own transforms number them."""
    utc = moment.replace(tzinfo=timezone.utc)
    for kind, value, type_ in (
        ("timestamp", utc, TimestamptzType()),
        ("timestamp_ntz", moment, TimestampType()),
        ("date", moment.date(), DateType()),
    ):
        stored = stored_value(kind, value)
        assert python_value(kind, stored) == value
        for transform in ("year", "month", "day", *(["hour"] if kind != "date" else [])):
            theirs = parse_transform(transform).transform(type_)(stored)
            assert ordinal(transform, value) == theirs


def test_a_window_that_is_one_partition_needs_no_column_for_it() -> None:
    """The partition's value is known when all rows of the window share it, and only then."""
    window = Window.parse("2026-04-25", every="day")
    rule = SliceRule.of("at", "timestamp", Grain.parse("day"), "UTC")
    layout = Layout(tuple(Part("at", name, "timestamptz") for name in ("day", "month", "hour")))
    assert layout.constants(rule, window) == {0: ordinal("day", date(2026, 4, 25)), 1: 675}
    local = Window.parse("2026-04-25", every="day", timezone="Europe/Berlin")
    assert layout.constants(rule, local) == {1: 675}
    assert layout.constants(None, window) == {}


def test_new_partitions() -> None:
    """Dates and texts as they are, timestamps by the unit that is stated."""
    fields = [{"name": "at", "type": "timestamp"}, {"name": "a b", "type": "string"}]
    table = iceberg("s.t", partition_by=("at", "a b"), partition_every="day")
    spec = new_spec(table, new_schema(fields))
    assert [(f.name, str(f.transform)) for f in spec.fields] == [
        ("at_day", "day"),
        ("p1", "identity"),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "integer",
        "decimal(10,2)",
        "timestamp_ntz",
        {"type": "array", "elementType": "string", "containsNull": False},
        {
            "type": "struct",
            "fields": [{"name": "a", "type": "date", "nullable": False, "metadata": {}}],
        },
        {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
    ],
)
def test_types_come_back(kind: Any) -> None:
    """A Spark type stored in Iceberg is the same type again, but for what may be null."""
    assert same_type(spark_type(iceberg_type(kind)), kind)


def test_small_integers_are_integers() -> None:
    assert same_type("short", spark_type(iceberg_type("byte")))
    assert not same_type("long", "integer")


def test_ids_of_a_new_table_are_its_places() -> None:
    """The files of a first publish carry the ids that the new table gives its columns."""
    from pyiceberg.schema import assign_fresh_schema_ids

    fields = [{"name": n, "type": "string"} for n in ("b", "a", "c")]
    fresh = assign_fresh_schema_ids(new_schema(fields))
    assert [(f.name, f.field_id) for f in fresh.fields] == [("b", 1), ("a", 2), ("c", 3)]


class Answering:
    """A transaction whose commit ends in an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def commit_transaction(self) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (ForbiddenError("Principal 'etl' is not authorized"), PermanentError, "SP-P01"),
        (BadRequestError("no such field"), PermanentError, "SP-P01"),
        (OSError(28, "No space left on device", "00003.metadata.json"), PermanentError, "SP-T01"),
        (PermissionError(13, "Permission denied", "metadata"), PermanentError, "SP-T01"),
        (ConnectionResetError(104, "Connection reset by peer"), UnknownCommitError, "SP-P02"),
        (CommitStateUnknownException("502"), UnknownCommitError, "SP-P02"),
    ],
)
def test_an_answer_is_not_an_unknown_outcome(
    error: Exception, kind: type[SetpointError], code: str
) -> None:
    """A catalog that says no, and metadata that could not be written, have committed nothing."""

    @pipeline(every="day", target=iceberg("sales.orders", partition_by="d"))
    def orders(window: Window) -> Any: ...

    run = Run(orders, Window.parse("2026-04-25", every="day"), {}, {}, "c", {})
    transaction: Any = Answering(error)
    with pytest.raises(kind) as caught:
        send(run, transaction)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("section", "code", "said"),
    [
        ({"type": "jdbc", "uri": "mysql://u:secret@host/db"}, "SP-C08", "pip install"),
        (
            {"type": "jdbc", "uri": "postgresql://u:se@cret:x@host:port/db"},
            "SP-C03",
            "[catalogs.lake]",
        ),
        ({"type": "jdbc", "uri": "sqlite:////proc/x/catalog.db"}, "SP-T01", "/proc/x"),
    ],
)
def test_a_catalog_that_cannot_be_opened_says_what_to_change(
    section: dict[str, str], code: str, said: str
) -> None:
    """A missing package, a bad setting and a folder that cannot be made are three things."""
    with pytest.raises(SetpointError) as caught:
        CatalogSettings.of("lake", {"warehouse": "/tmp/w", **section}, ROOT).open()
    assert caught.value.code == code
    assert said in str(caught.value)
    assert "cret" not in str(caught.value)
