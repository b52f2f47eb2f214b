"""Writes the collector's folders of 25 April, 13:00 to 14:00 UTC: python make_data.py"""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

START, QUARTERS, PER_QUARTER = datetime(2026, 4, 25, 13, tzinfo=timezone.utc), 4, 300

for quarter in range(QUARTERS):
    begin = START + timedelta(minutes=15 * quarter)
    events = [
        {
            "event_id": f"{quarter}-{number}",
            "page": f"/p/{number % 7}",
            "user_id": f"u{number % 41}",
            "happened_at": (begin + timedelta(seconds=number * 3)).isoformat(),
        }
        for number in range(PER_QUARTER)
    ]
    folder = Path("inbox") / f"{begin:%Y-%m-%dT%H%M}"
    folder.mkdir(parents=True, exist_ok=True)
    # The second file delivers the last 20 events of the first one again.
    for name, part in (("a.json", events[:200]), ("b.json", events[180:])):
        (folder / name).write_text("".join(json.dumps(event) + "\n" for event in part))
print(f"inbox holds {QUARTERS} quarters of an hour with {PER_QUARTER} events each")
