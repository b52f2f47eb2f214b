"""The stateful tests share the JVM-free staging of the crash tests, and the histories."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "crash")]
