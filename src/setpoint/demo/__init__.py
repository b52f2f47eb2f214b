"""The demo: replays a retry that doubles the rows, and the same copy through setpoint.

Everything in it is real: processes are killed, tables are written, and every figure is read
from the files of a table.
"""
