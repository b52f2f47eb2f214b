"""Finding pipelines: through the configuration, or as `file.py:name`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from setpoint.errors import NOTHING_STARTED, DefinitionError, SetpointError, UsageError
from setpoint.model.pipeline import Pipeline
from setpoint.project.adapters import place_of
from setpoint.project.config import Config, invalid

_NAME = "setpoint_pipelines_"


def project_pipelines(config: Config) -> dict[str, Pipeline]:
    """Every pipeline of the project; without a project there is nothing to speak of."""
    found = pipelines(config)
    if not found and config.file is None:
        raise _no_project(config)
    return found


def pipelines(config: Config) -> dict[str, Pipeline]:
    """Every pipeline of the project, by name."""
    found: dict[str, Pipeline] = {}
    for file in _files(config):
        for item in _in_module(_load(file, config.root)):
            # A file that another one imports is met twice, and is still one file.
            if item.name in found and found[item.name].file != item.file:
                raise DefinitionError(
                    "SP-D01",
                    f"Two pipelines are called {item.name}: in {found[item.name].file} and in "
                    f"{item.file}.",
                    why="A name stands for one history of windows.",
                    state=NOTHING_STARTED,
                    next='Give one of them another name: @pipeline(name="...").',
                )
            found[item.name] = item
    _refuse_shared_targets(list(found.values()), config)
    return found


def loaded(config: Config) -> list[Pipeline]:
    """The pipelines of those files of the project that this process has read by now."""
    files = set(_files(config))
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(_NAME)]
    return [
        item
        for module in modules
        if module.__file__ and Path(module.__file__) in files
        for item in _in_module(module)
    ]


def pipeline_named(config: Config, reference: str) -> Pipeline:
    """One pipeline, by name or as `file.py:name`."""
    file, separator, name = reference.rpartition(":")
    if separator and file.endswith(".py"):
        path = Path(file)
        if not path.is_file():
            raise _no_such(reference, f"there is no file {file}", "Correct the path.")
        known = {item.name: item for item in _in_module(_load(path.absolute(), config.root))}
        if name not in known:
            raise _no_such(reference, f"{file} has {_listed(known)}", "Name one of these.")
        return known[name]
    known = pipelines(config)
    if reference not in known:
        if config.file is None and not known:
            raise _no_project(config)
        raise _no_such(reference, f"this project has {_listed(known)}")
    return known[reference]


def _files(config: Config) -> Iterator[Path]:
    seen: set[Path] = set()
    for pattern in config.pipelines:
        place = config.root / pattern
        if place.is_dir():
            candidates = sorted(place.rglob("*.py"))
        elif place.is_file():
            candidates = [place]
        else:
            candidates = (
                sorted(config.root.glob(pattern)) if not Path(pattern).is_absolute() else []
            )
            if not candidates and config.pipelines != Config.pipelines:
                raise invalid(
                    config.file or config.root,
                    f"pipelines.paths names {pattern!r}, and there is no such file or folder "
                    f"below {config.root}",
                )
        for file in candidates:
            if file.suffix == ".py" and file.name != "__init__.py" and file not in seen:
                seen.add(file)
                yield file


def _load(file: Path, root: Path) -> ModuleType:
    """Import a file under a name of its own; its folder and the root are importable from it."""
    mark = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = f"{_NAME}{file.stem}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    for folder in (str(root), str(file.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _unloadable(file, "it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SetpointError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)
        ]
        line = f" at line {lines[-1]}" if lines else ""
        raise _unloadable(file, f"{type(error).__name__}{line}: {error}") from error
    return module


def _in_module(module: ModuleType) -> list[Pipeline]:
    return [value for value in vars(module).values() if isinstance(value, Pipeline)]


def _refuse_shared_targets(found: list[Pipeline], config: Config) -> None:
    owners: dict[str, Pipeline] = {}
    for item in found:
        place = place_of(item.target, config)
        other = owners.setdefault(place, item)
        if other is not item:
            raise DefinitionError(
                "SP-D05",
                f"{other.name} and {item.name} both write to {place}.",
                why="Each would replace the other's rows in the slices they share.",
                state=NOTHING_STARTED,
                next="Give each pipeline a target of its own.",
            )


def _no_project(config: Config) -> UsageError:
    return UsageError(
        "SP-C02",
        f"There is no setpoint.toml in {config.root} or above it.",
        why="It says where the pipelines are.",
        state=NOTHING_STARTED,
        next="Make one with: setpoint init, or name a file: setpoint run file.py:name",
    )


def _unloadable(file: Path, why: str) -> UsageError:
    return UsageError(
        "SP-C05",
        f"The pipeline file {file} could not be loaded: {why}",
        state=NOTHING_STARTED,
        next="Correct the file; it must be importable by itself.",
    )


def _no_such(reference: str, known: str, next: str = "") -> UsageError:
    return UsageError(
        "SP-C04",
        f"There is no pipeline {reference!r:.80}: {known}.",
        state=NOTHING_STARTED,
        next=next or "List them with: setpoint status",
    )


def _listed(known: dict[str, Pipeline]) -> str:
    return ", ".join(sorted(known)) if known else "no pipelines"
