"""Settings that hold for a while, whatever happens meanwhile."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from setpoint.spark.settings import held

WANTED = {"zone": "UTC", "mode": "strict"}


class Session:
    """The part of a session that has settings; one of them may be refused."""

    def __init__(self, refused: str = "") -> None:
        self.values: dict[str, str] = {"zone": "Europe/Berlin"}
        self.refused = refused
        self.conf = self

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        if name == self.refused:
            raise RuntimeError("refused")
        self.values[name] = value

    def unset(self, name: str) -> None:
        del self.values[name]


def test_what_was_unset_is_unset_again_and_blocks_may_be_nested() -> None:
    session: Any = Session()
    with held(session, WANTED), held(session, WANTED):
        assert session.values == WANTED
    assert session.values == {"zone": "Europe/Berlin"}


def test_a_setting_that_is_refused_leaves_none_of_the_others() -> None:
    """Not now, and not after the next block that goes well."""
    session: Any = Session(refused="mode")
    with pytest.raises(RuntimeError, match="refused"), held(session, WANTED):
        pass
    assert session.values["zone"] == "Europe/Berlin"
    session.refused = ""
    with held(session, WANTED):
        assert session.values == WANTED
    assert session.values == {"zone": "Europe/Berlin"}


def test_a_session_at_the_address_of_one_that_is_gone_is_another() -> None:
    for _ in range(50):
        session: Any = Session(refused="mode")
        with pytest.raises(RuntimeError), held(session, WANTED):
            pass
        del session
        gc.collect(0)
        other: Any = Session()
        with held(other, WANTED):
            assert other.values == WANTED
