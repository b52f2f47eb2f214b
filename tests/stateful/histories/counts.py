"""The counts of all histories that were ever played, from their file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from histories.steps import CELLS


@dataclass
class Tally:
    """Histories added up by destination and pattern; of a seed that was played twice, the last."""

    played: dict[int, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Tally:
        lines = file.read_text().splitlines() if file.exists() else []
        return cls({item["seed"]: item for item in map(json.loads, lines)})

    def table(self) -> str:
        heads = ["histories", "steps", "killed", "kills", "stops", "failed"]
        lines = [f"{'destination':<12} {'pattern':<14}" + "".join(f"{h:>10}" for h in heads)]
        for kind, pattern in [*CELLS, ("all", "")]:
            chosen = [
                item
                for item in self.played.values()
                if kind == "all" or (item["kind"], item["pattern"]) == (kind, pattern)
            ]
            sums: Counter[str] = sum((Counter(item["counts"]) for item in chosen), Counter())
            killed = sum(bool(item["counts"].get("kills")) for item in chosen)
            failed = sum(bool(item["failure"]) for item in chosen)
            numbers = (len(chosen), sums["steps"], killed, sums["kills"], sums["stops"], failed)
            lines.append(f"{kind:<12} {pattern:<14}" + "".join(f"{n:>10,}" for n in numbers))
        seeds = sorted(seed for seed, item in self.played.items() if item["failure"])
        if seeds:
            lines.append(f"failed: {' '.join(map(str, seeds))}")
        return "\n".join(lines)
