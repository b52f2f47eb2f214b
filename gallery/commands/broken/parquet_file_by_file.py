"""A day is emptied and filled again, file by file: readers see parts of it, and a crash keeps them.

Lake: sales=parquet:sales
Caught by: killed
Cause: delete-without-insert
"""

import os
import shutil
import sys

import pyarrow as pa
import pyarrow.parquet as pq

folder = f"sales/d={sys.argv[1]}"
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
for n in range(3):
    pq.write_table(pa.table({"id": [n]}), f"{folder}/.part-{n}.parquet")
for n in range(3):
    os.rename(f"{folder}/.part-{n}.parquet", f"{folder}/part-{n}.parquet")
