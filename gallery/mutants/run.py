"""Break each guarantee of setpoint in a copy of its source, and see that a proof or a test notices.

python gallery/mutants/run.py                all of them; the last line is `killed N/N`
python gallery/mutants/run.py no-fence       some of them

Each mutant has a process of its own. Before them, the same proofs are made and the same tests run
with the source as it is: they have to succeed, or a kill would mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mutations import MUTANTS, Mutant

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Break guarantees and see that proofs notice.")
    parser.add_argument("names", nargs="*", help="mutants; all of them without")
    parser.add_argument("--prove", metavar="PIPELINE=EXPERIMENTS", action="append", default=[])
    options = parser.parse_args(words)
    if options.prove:
        print(json.dumps(proofs(options.prove)))
        return 0
    chosen = [item for item in MUTANTS if not options.names or item.name in options.names]
    wanted: dict[str, dict[str, None]] = {}
    tests = sorted({item.tests for item in chosen if item.tests})
    for item in chosen:
        if item.pipeline:
            wanted.setdefault(item.pipeline, {}).update(dict.fromkeys(item.experiments))
    with tempfile.TemporaryDirectory(prefix="setpoint-mutants-") as folder:
        shutil.copytree(SOURCE, f"{folder}/as-it-is", ignore=shutil.ignore_patterns("__pycache__"))
        asked = [f"{name}={','.join(experiments)}" for name, experiments in wanted.items()]
        noticed = _tried(Path(folder, "as-it-is"), asked) if asked else ""
        noticed = noticed or (_tested(Path(folder, "as-it-is"), tests) if tests else "")
        if noticed:
            print(f"the source as it is: {noticed}")
            print(f"killed 0/{len(chosen)}: without a mutation proofs and tests have to succeed")
            return 1
        print(f"{'the source as it is':<32}  proven, and its tests pass", flush=True)
        killed = sum(_killed(item, Path(folder)) for item in chosen)
    print(f"killed {killed}/{len(chosen)}")
    return 0 if killed == len(chosen) else 1


def _killed(item: Mutant, folder: Path) -> bool:
    source = folder / item.name
    shutil.copytree(folder / "as-it-is", source, ignore=shutil.ignore_patterns("__pycache__"))
    item.apply(source)
    if item.tests:
        noticed = _tested(source, [item.tests])
    else:
        noticed = _tried(source, [f"{item.pipeline}={','.join(item.experiments)}"])
    shutil.rmtree(source)
    print(f"{item.name:<32}  {noticed or 'SURVIVED: ' + item.broken}", flush=True)
    return bool(noticed)


def _tried(source: Path, asked: Sequence[str]) -> str:
    """Prove pipelines with a source; what a proof noticed, or nothing."""
    words = [word for item in asked for word in ("--prove", item)]
    path = os.pathsep.join([str(source), str(HERE.parent), str(HERE)])
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = (done.stderr.splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"the proofs of {source.name} did not end: {said}")
    return "; ".join(json.loads(lines[-1]))


def _tested(source: Path, tests: Sequence[str]) -> str:
    """Run tests with a source; which of them failed, or nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *tests],
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=SOURCE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode not in (0, 1) or bool(done.returncode) != bool(failed):
        raise RuntimeError(f"the tests of {source.name} did not end: {done.stdout[-500:]}")
    return "; ".join(line.removeprefix("FAILED ").split(" - ")[0] for line in failed)


def proofs(asked: Sequence[str]) -> list[str]:
    """In a process of its own: make the proofs, and tell what they noticed."""
    from workshop import workshop

    from setpoint.errors import SetpointError
    from setpoint.model.window import Window
    from setpoint.project.discover import pipeline_named
    from setpoint.prove.pipeline import choose, prove_pipeline

    found = []
    with workshop(server=False) as place:
        file = place.added(HERE / "subjects.py")
        for item in asked:
            name, _, experiments = item.partition("=")
            job = pipeline_named(place.project.config, f"{file}:{name}")
            window = Window.parse(
                "incremental" if job.every.is_incremental else "2026-04-25", job.every
            )
            choice = choose(only=experiments.split(","))
            place.session  # noqa: B018  # one for all proofs
            try:
                proof = prove_pipeline(place.project.config, job, window, choice)
            except SetpointError as error:
                found.append(f"{name}: clean run: {error}")
                continue
            found += [f"{each.experiment}: {each.message}" for each in proof.failures]
            if not proof.proven and not proof.failures:
                found += [
                    f"{each.experiment} was not tried: {each.message}" for each in proof.results
                ]
    return [" ".join(text.split())[:300] for text in found]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
