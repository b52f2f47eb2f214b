"""Prove the job in its hurried form, as a black box, and in its repaired form.

python prove.py            both; it takes some minutes, because the job runs about twenty times
python prove.py before     the hurried form only
python prove.py after      the repaired form only
"""

from __future__ import annotations

import os
import subprocess
import sys

from run import HERE, WORK, database, fill
from server import KEY, serving

# The job knows nothing of setpoint: its table and its mark are told from outside.
BEFORE = [
    *("--command", f"{sys.executable} before.py"),
    *("--table", "payments=parquet:work/before/payments"),
    *("--state", "mark=work/before/last_run.json"),
    "--yes",
]
AFTER = ["payments", "--window", "2026-04-25"]


def main(words: list[str]) -> int:
    WORK.mkdir(exist_ok=True)
    provider = serving(8765)
    url, stop = database()
    environment = {
        **os.environ,
        "PAYMENTS_API": provider.url,
        "PAYMENTS_KEY": KEY,
        "SHOP_URL": url,
        "PYSPARK_PYTHON": sys.executable,
    }
    codes = {}
    try:
        fill(url)
        for name, arguments in (("before", BEFORE), ("after", AFTER)):
            if words and name not in words:
                continue
            shown = [word.replace(sys.executable, "python") for word in arguments]
            quoted = " ".join(f'"{word}"' if " " in word else word for word in shown)
            print(f"$ setpoint prove {quoted}", flush=True)
            setpoint = [sys.executable, "-m", "setpoint.cli.main", "prove", *arguments]
            done = subprocess.run(setpoint, cwd=HERE, env=environment, check=False)
            codes[name] = done.returncode
            print()
    finally:
        stop()
        provider.shutdown()
    told = {0: "proven", 1: "not proven"}
    print(", ".join(f"{name}: {told.get(code, 'not tried')}" for name, code in codes.items()))
    expected = {"before": 1, "after": 0}
    return 0 if all(codes[name] == expected[name] for name in codes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
