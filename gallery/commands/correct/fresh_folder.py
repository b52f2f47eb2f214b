"""Appends into a fresh folder, which takes the place of the day when it is complete.

Lake: sales=parquet:sales
Passes: twice, neighbours
"""

import os
import shutil
import sys

import pyarrow as pa
import pyarrow.parquet as pq

day = sys.argv[1]
fresh, folder = f"sales/.fresh-{day}", f"sales/d={day}"
shutil.rmtree(fresh, ignore_errors=True)
os.makedirs(fresh)
for n in range(3):
    pq.write_table(pa.table({"id": [n]}), f"{fresh}/part-{n}.parquet")
if os.path.isdir(folder):
    os.rename(folder, f"sales/.old-{day}")
os.rename(fresh, folder)
shutil.rmtree(f"sales/.old-{day}", ignore_errors=True)
