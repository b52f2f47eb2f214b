"""Proving: a pipeline or a command under everything that production does to it."""
