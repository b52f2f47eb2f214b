"""A process that lands one window of an API and says which generation it got.

`python landing_worker.py URL FOLDER ATTEMPT [before|after]`: with the last word it kills itself
right before or right after the commit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from setpoint import by_cursor, edge, http, land, source
from setpoint.model.window import Window
from setpoint.sources.http.client import Surroundings
from setpoint.sources.landed import LandedSource
from setpoint.sources.landing import Shelf
from setpoint.sources.supply import HttpSupply
from setpoint.targets.delta.storage import Storage

WINDOW = Window.parse("2026-04-25", every="day")


def port(url: str, folder: str) -> LandedSource:
    """The landed source of the tests, without a project around it."""
    origin = http(
        f"{url}/cursor",
        items="data",
        params={"created[gte]": "{start:unix}", "created[lt]": "{end:unix}"},
        headers={"X-Process": "env:PROCESS"},
        pages=by_cursor("starting_after", more="has_more"),
    )
    around = Surroundings({"PROCESS": str(os.getpid())}, edge.utc_now, lambda seconds: None)
    return LandedSource(
        name="payments",
        source=source(land(origin)),
        pipeline="job",
        every=WINDOW.grain,
        timezone="UTC",
        shelf=Shelf.named(Storage.at(folder), "job.payments"),
        supply=HttpSupply(origin, around),
        now=edge.utc_now,
    )


def killing(moment: str) -> None:
    create = Shelf._create

    def killed(self: Shelf, *words: Any) -> None:
        if moment == "after":
            create(self, *words)
        os.kill(os.getpid(), signal.SIGKILL)

    Shelf._create = killed  # type: ignore[method-assign]


def main() -> None:
    url, folder, attempt, *moment = sys.argv[1:]
    if moment:
        killing(moment[0])
    landed = port(url, folder)
    pinned = landed.pin([WINDOW])[WINDOW]
    if pinned.version is None:
        pinned = landed.land(None, WINDOW, attempt)
    print(json.dumps({"generation": pinned.version, "fingerprint": pinned.fingerprint}))


if __name__ == "__main__":
    main()
