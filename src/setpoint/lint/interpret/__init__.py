"""Reads a program without running it: names, dataflow, branches, calls, transactions.

One pass from top to bottom. Both sides of a branch are taken and joined, a loop's body is
taken once, a function of the same file is entered at each call with the values it is given.
What comes out is `model.Program`: the writes and effects of each run and task, each with the
taints of what is written.
"""
