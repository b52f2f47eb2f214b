"""A table has one place, however a definition spells its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from setpoint import postgres
from setpoint.project.adapters import place_of
from setpoint.project.config import Config

CONFIG = Config(root=Path("/p"))


@pytest.mark.parametrize("name", ["orders", "public.orders", '"orders"', '"public"."orders"'])
def test_one_table_of_a_database_has_one_place(name: str) -> None:
    assert place_of(postgres(name, connection="eu"), CONFIG) == "postgres:eu/public.orders"


def test_one_name_on_two_connections_is_two_tables() -> None:
    places = {place_of(postgres("orders", connection=name), CONFIG) for name in ("eu", "us")}
    assert len(places) == 2


def test_a_name_that_cannot_be_read_does_not_keep_the_others_from_being_found() -> None:
    assert "a.b.c" in place_of(postgres("a.b.c", connection="eu"), CONFIG)
