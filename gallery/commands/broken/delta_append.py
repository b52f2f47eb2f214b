"""An append to a Delta table: atomic, and added again by every run.

Lake: sales=delta:sales
Caught by: twice
Cause: appended
"""

import datetime as dt
import sys

import pyarrow as pa
from deltalake import write_deltalake

day = dt.date.fromisoformat(sys.argv[1])
rows = pa.table({"id": list(range(5)), "d": [day] * 5})
write_deltalake("sales", rows, mode="append", partition_by=["d"])
