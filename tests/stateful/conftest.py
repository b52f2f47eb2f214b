"""The stateful tests share the JVM-free staging of the crash tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))
