"""The day is replaced by its own predicate, in one commit; the clock is in the log only.

Lake: sales=delta:sales
Passes: twice, killed, neighbours, order, surroundings
"""

import datetime as dt
import sys

import pyarrow as pa
from deltalake import write_deltalake

day = dt.date.fromisoformat(sys.argv[1])
rows = pa.table({"id": list(range(5)), "d": [day] * 5})
write_deltalake("sales", rows, mode="overwrite", predicate=f"d = '{day}'", partition_by=["d"])
print(f"done at {dt.datetime.now(dt.timezone.utc)}")
