"""_loaded_at in a MERGE rewrites every row that did not change.

Lake: sales=delta:sales
Caught by: twice
Cause: clock
"""

import datetime as dt
import sys

import pyarrow as pa
from deltalake import DeltaTable

day, now = dt.date.fromisoformat(sys.argv[1]), dt.datetime.now(dt.timezone.utc)
rows = pa.table({"id": list(range(5)), "d": [day] * 5, "_loaded_at": [now] * 5})
table = DeltaTable.create("sales", rows.schema, mode="ignore")
merge = table.merge(rows, "t.id = s.id AND t.d = s.d", source_alias="s", target_alias="t")
merge.when_matched_update_all().when_not_matched_insert_all().execute()
