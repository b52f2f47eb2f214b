"""The fingerprints of a project's pipelines, told by a process of its own.

`python -m setpoint.prove.fingerprints REQUEST.json` loads the pipelines of a project and writes
what it found beside the request. The project may be an older state of one that is installed or on
the path in its present state: modules that would come from there are taken from the older state,
and those that still do not are named, because the comparison would then mean nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ANSWER = "answer.json"


def main(arguments: list[str]) -> int:
    """Answer one request: `config`, `root`, and `moved` with the folder that now counts."""
    request = Path(arguments[0])
    asked = json.loads(request.read_text(encoding="utf-8"))
    now, then = asked.get("now", ""), asked.get("then", "")
    if then:
        sys.path[:] = [_counterpart(entry, now, then) or entry for entry in sys.path]
    answer = _answer(asked)
    if then:
        answer["strangers"] = _strangers(now, then)
    (request.parent / ANSWER).write_text(json.dumps(answer), encoding="utf-8")
    return 0


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    from setpoint.errors import SetpointError
    from setpoint.project.config import find_config
    from setpoint.project.discover import pipelines
    from setpoint.prove.certificate import code_of

    root = Path(asked["root"])
    os.chdir(root)
    try:
        found = pipelines(find_config(root, asked["config"]))
        return {"codes": {name: code_of(item) for name, item in found.items()}}
    except SetpointError as error:
        return {"problem": error.what}


def _counterpart(entry: str, now: str, then: str) -> str:
    """The same place in the older state, if that has it; a virtual environment stays."""
    try:
        inside = Path(entry).resolve().relative_to(now)
    except ValueError:
        return ""
    place = Path(then) / inside
    return str(place) if entry and place.exists() else ""


def _strangers(now: str, then: str) -> list[str]:
    """Modules that were loaded from the present state although the older one has them too."""
    found = []
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        ours = name.partition(".")[0] in ("setpoint", "__main__")
        if file and not ours and _counterpart(file, now, then):
            found.append(name)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
